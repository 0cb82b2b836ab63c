"""Warnings, for the operator alone, of sketches that hold more than the bound of a guarantee."""

from fractions import Fraction

from streamsketch.core import warn_outside
from streamsketch.errors import BoundExceededWarning
from streamsketch.privacy import Neighbours
from streamsketch.projections import Projection


def warn_of_exceeded(largest: int, neighbours: Neighbours, projection: Projection) -> None:
    """Warn if the largest |value| of a sketch, in grid steps, exceeds what one unit may contribute.

    The warning depends on the data. It is for the operator, who may see them, and is in no published byte; a refusal
    would be seen by all.
    """
    if largest * projection.grid > Fraction(neighbours.bound):
        warn_outside(
            f"an event in this sketch is larger than the bound of {neighbours.bound} for one {neighbours.unit}. Unless "
            f"it is a total of several, it is not protected: clip each contribution before it is sketched, or release "
            f"for a larger bound. This is for your eyes only, as is `largest` of the sketch, in grid steps",
            BoundExceededWarning,
        )
