"""Exceptions and warnings that users can catch.

Every message states what was wrong, the values on both sides and the remedy. No message contains a private value
(a datum, or a cell of an unreleased sketch). All errors derive from `StreamsketchError`; a wrong *type* raises a plain
``TypeError``. Causes and remedies are in docs/reference/error-messages.md.
"""

import typing

_MOST_SHOWN = 1000
"""Characters of a message: one may quote a file that has thousands of columns, or names of any length."""


def printable(text: object, longest: int | None = None) -> str:
    """Return text as one line for people: what is not printable is escaped, and what is too long is cut in the middle.

    Otherwise a key of several lines could imitate a guarantee, an escape sequence reach a terminal, and a lone
    surrogate fail to be written.
    """
    shown = str(text)
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)
    if longest is None or len(shown) <= longest:
        return shown
    end = longest // 3
    return f"{shown[: longest - end - 3]} … {shown[-end:]}"


class StreamsketchError(Exception):
    """Base of every exception that this package raises on purpose.

    Its text is one printable line of at most 1,000 characters, whatever it quotes.

    Examples
    --------
    >>> from streamsketch import SJLT, StreamsketchError
    >>> try:
    ...     SJLT(sketch_dim=64, sparsity=5, seed=7)
    ... except StreamsketchError as error:
    ...     print(type(error).__name__)
    InvalidInputError
    """

    reason: str | None = None
    """A stable code of the cause, for the logs of streams (`docs/reference/reasons.md`); None if it has none."""

    def __str__(self) -> str:
        return printable(self._text(), _MOST_SHOWN)

    def _text(self) -> str:
        return super().__str__()


_ErrorT = typing.TypeVar("_ErrorT", bound=StreamsketchError)


def with_reason(error: _ErrorT, reason: str) -> _ErrorT:
    """Return an error with a code of its cause, one of `streamsketch.once.reasons.REASONS`."""
    error.reason = reason
    return error


class InvalidInputError(StreamsketchError, ValueError):
    """A value that the method does not accept: NaN, an index out of range, ε ≤ 0, lengths that differ.

    Examples
    --------
    >>> from streamsketch import CountSketch, InvalidInputError
    >>> sketch = CountSketch(sketch_dim=256, seed=7).sketch()
    >>> try:
    ...     sketch.update(["tea"], [float("nan")])
    ... except InvalidInputError:
    ...     print("the sketch has not changed")
    the sketch has not changed
    """


class NoiseTooWideError(InvalidInputError):
    """The noise that would hide one unit is wider than any that can be drawn exactly: the grid is too fine for it."""


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

    reason = "budget"


class SignatureError(StreamsketchError, ValueError):
    """Bytes are not signed by one of the keys expected, or were changed after they were signed."""


_VERBS = frozenset(
    {"are", "begins", "do", "does", "has", "have", "holds", "is", "must", "needs", "should", "state", "states"}
)


class WireFormatError(StreamsketchError, ValueError):
    """Bytes do not follow the exchange format.

    Attributes
    ----------
    where
        The byte range or field at fault, e.g. ``"projection.sparsity"``.
    problem
        What is wrong with it.
    file
        The file that `streamsketch.load` read; None for other bytes.

    Examples
    --------
    >>> from streamsketch import PrivateSketch
    >>> from streamsketch.errors import WireFormatError
    >>> try:
    ...     PrivateSketch.from_bytes(b"a,b,c")
    ... except WireFormatError as error:
    ...     print(error.where)
    bytes 0-7
    """

    def __init__(self, where: str, problem: str, file: str | None = None) -> None:
        super().__init__(where, problem, file)  # all: pickle and Beam rebuild exceptions from their arguments
        self.where = where
        self.problem = problem
        self.file = file

    def _text(self) -> str:
        verb = self.problem.partition(" ")[0] in _VERBS  # then both are one sentence: "bytes 0-7 are not …"
        named = "" if self.file is None else f"{self.file}: "
        return f"{named}{self.where}{'' if verb else ':'} {self.problem}"


class MissingProductError(StreamsketchError, ImportError):
    """Data need a part of the package that is not installed: a file of signs, without ``streamsketch.signs``."""


class UnknownKeyError(StreamsketchError, KeyError):
    """A table does not have this key. It is also a `KeyError`, as other mappings raise."""

    def _text(self) -> str:
        return str(self.args[0])  # KeyError would show it in quotes


class NoiseMismatchWarning(UserWarning):
    """A release contradicts itself: its noise cannot be what it states, or is too little for its guarantee.

    Estimators warn once for each such release. Estimates are computed as if the stated noise were present, so error
    bars may be far too small. Turn the warning into an error to refuse such releases:

    >>> import warnings
    >>> warnings.simplefilter("error", NoiseMismatchWarning)
    """


class KeyTypeWarning(UserWarning):
    """No key of the data has the type of the public keys, so releases hold only noise.

    The warning depends on the data, so only the operator may see it, as with `BoundExceededWarning`.
    """


class TruncationWarning(UserWarning):
    """Values are not multiples of the resolution, so truncation to the grid loses a part of them.

    The warning depends on the data, so only the operator may see it, as with `BoundExceededWarning`.
    """


class WeakGuaranteeWarning(UserWarning):
    """A guarantee is so weak that it hardly protects anyone: ε is above 20, or δ is 1/1000 or more.

    The warning depends only on ε and δ. Turn it into an error to refuse such releases:

    >>> import warnings
    >>> warnings.simplefilter("error", WeakGuaranteeWarning)
    """


class PlanAssumedWarning(UserWarning):
    """The size of an agreement's sketches rests on facts about units that nobody stated.

    It says the size, the expected error of cosines if it was planned, and what was assumed. State these facts: in
    `streamsketch.agree` ``units``, how many units a key has, ``items``, how many different items a unit adds to a key,
    and ``catalogue``, how many items there are; or pass a projection.
    """


class ReleasedAgainWarning(UserWarning):
    """Data were released a second time in this process, so the same people spend ε again.

    It is given once for the same data, before the release is charged and drawn; ``again=True`` says that a further
    release is meant. Turn it into an error to refuse such releases:

    >>> import warnings
    >>> warnings.simplefilter("error", ReleasedAgainWarning)
    """


class BoundExceededWarning(UserWarning):
    """A sketch holds an event larger than the bound of the release, so the unit that contributed it is not protected.

    The warning depends on the data, so only the operator may see it. It is not an error, because a refusal would reveal
    something about the data. If you turn it into one, do not let others see whether a release was made.
    """
