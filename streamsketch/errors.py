"""The exceptions a user can catch, and the warning.

Every message says what was wrong, the values on both sides and the remedy. None carries a private value:
no datum, no cell of an unreleased sketch. All derive from `StreamsketchError`; a wrong *type* is a plain
``TypeError``.
"""


class StreamsketchError(Exception):
    """Base of every exception this package raises on purpose."""


class InvalidInputError(StreamsketchError, ValueError):
    """A value outside what the method takes: NaN, an index out of range, ε ≤ 0, lengths that differ."""


class IncompatibleProjectionsError(StreamsketchError, ValueError):
    """Two sketches of different projections were brought together."""


class SketchOverflowError(StreamsketchError, OverflowError):
    """Published or projected numbers leave 63 bits or the range of floats. Sums of secret cells wrap around instead."""


class DependentNoiseError(StreamsketchError, ValueError):
    """Two releases share noise, so sums, differences and error bars that assume independence would be wrong."""


class WireFormatError(StreamsketchError, ValueError):
    """Bytes are not a sound private sketch.

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
        return f"{self.where}: {self.problem}"


class NoiseMismatchWarning(UserWarning):
    """A release contradicts itself: its noise cannot be what it states, or is too little for its guarantee.

    Estimators warn once for each such release. Their estimates are computed as if the noise stated were there, so error
    bars may be far too small; turn the warning into an error to refuse such releases.
    """
