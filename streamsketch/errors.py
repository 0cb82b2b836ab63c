"""Exceptions and warnings that users can catch.

Every message says what was wrong, the values on both sides and the remedy. None contains a private value
(a datum, or a cell of an unreleased sketch). All derive from `StreamsketchError`; a wrong *type* raises a plain
``TypeError``. Causes and remedies are in docs/reference/error-messages.md.
"""


class StreamsketchError(Exception):
    """Base of every exception this package raises on purpose."""


class InvalidInputError(StreamsketchError, ValueError):
    """A value that the method does not accept: NaN, an index out of range, ε ≤ 0, lengths that differ."""


class IncompatibleProjectionsError(StreamsketchError, ValueError):
    """Sketches of different projections were merged, combined or compared."""


class IncompatibleAgreementsError(IncompatibleProjectionsError):
    """Sketches of one projection but of different agreements: other columns, types, bounds or missing values."""


class SketchOverflowError(StreamsketchError, OverflowError):
    """Published or projected numbers exceed 63 bits or the range of floats; sums of secret cells wrap instead."""


class DependentNoiseError(StreamsketchError, ValueError):
    """Two releases share noise, so sums, differences and standard errors that assume independence would be wrong."""


class LedgerError(StreamsketchError, ValueError):
    """A charge does not fit into a data set's privacy budget, or a ledger was changed."""


class SignatureError(StreamsketchError, ValueError):
    """Bytes are not signed by one of the keys expected, or were changed after they were signed."""


_VERBS = frozenset(
    {"are", "begins", "do", "does", "has", "have", "holds", "is", "must", "needs", "says", "should", "state"}
)


class WireFormatError(StreamsketchError, ValueError):
    """Bytes do not follow the exchange format.

    Attributes
    ----------
    where
        The byte range or field at fault, e.g. ``"projection.sparsity"``.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)  # both: pickle and Beam rebuild exceptions from their arguments
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        verb = self.problem.partition(" ")[0] in _VERBS  # then both are one sentence: "bytes 0-7 are not …"
        return f"{self.where}{'' if verb else ':'} {self.problem}"


class UnknownKeyError(StreamsketchError, KeyError):
    """A table has nothing of a key; it is a `KeyError`, as of any mapping."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it in quotes


class NoiseMismatchWarning(UserWarning):
    """A release contradicts itself: its noise cannot be what it states, or is too little for its guarantee.

    Estimators warn once for each such release. Estimates are computed as if the stated noise were present, so error
    bars may be far too small; turn the warning into an error to refuse such releases.
    """


class KeyTypeWarning(UserWarning):
    """No key of the data has the type of the public keys, so releases hold noise alone.

    It depends on the data, so it is for the operator alone, as `BoundExceededWarning`.
    """


class TruncationWarning(UserWarning):
    """Values are no multiples of the resolution, and what truncation takes of them is lost.

    It depends on the data, so it is for the operator alone, as `BoundExceededWarning`.
    """


class WeakGuaranteeWarning(UserWarning):
    """A guarantee is so weak that it hardly protects anybody: ε above 20, or δ of 1/1000 or more.

    It depends on ε and δ alone. Turn it into an error to refuse such releases.
    """


class BoundExceededWarning(UserWarning):
    """A sketch holds an event larger than the bound of the release: whoever contributed it is not protected.

    It depends on the data, so it is for the operator alone. It is no error, as a refusal would tell of the data; who
    turns it into one must not let others see whether a release was made.
    """
