"""Neighbours that differ in one coordinate of a vector."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar

from streamsketch.core import sentences
from streamsketch.privacy.neighbours import Neighbours


@dataclasses.dataclass(frozen=True, repr=False)
class OneCoordinate(Neighbours):
    """Vectors that differ in one coordinate, by at most ``bound`` (Li and Li 2023, Definition 2.2).

    Truncation is monotone, so Δ̃ = ⌈bound / resolution⌉. This holds for vectors that are entered with **one update per
    coordinate**, or with values that are multiples of the resolution. Each update is truncated by itself: on a grid of
    1, ten updates of 0.9 and one update of 9 are the same real vector, but nine grid steps apart. The bound is one on
    the numbers that are read, as in `Neighbours`: between the float 0.3, which an agreement reads as 3/10, and one that
    is a little less than 0.1, there is more than 1/5.

    Examples
    --------
    >>> from fractions import Fraction
    >>> OneCoordinate("1/2").grid_steps(Fraction(1, 4))
    2
    """

    kind: ClassVar[str] = "one-coordinate"
    label: ClassVar[str] = sentences.LABEL_ONE_COORDINATE
    one_coordinate: ClassVar[bool] = True

    @property
    def change(self) -> str:
        """What adding or removing a unit changes."""
        return sentences.CHANGE_ONE_COORDINATE.format(bound=self.bound)

    def grid_steps(self, resolution: Fraction) -> int:
        """Return ⌈bound / resolution⌉."""
        return math.ceil(Fraction(self.bound) / resolution)
