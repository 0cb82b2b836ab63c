"""Neighbours that differ by one unit's vector of bounded Euclidean norm."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar, Literal

from streamsketch.core import sentences
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.neighbours import Cells, Clip, Moved, Neighbours, Norm
from streamsketch.privacy.noise import Sensitivity

_MOST_COORDINATES = 1 << 24  # for a spectral norm to be worth anything


@dataclasses.dataclass(frozen=True, repr=False)
class L2(Neighbours):
    """Streams that differ by the updates of one unit, whose vector has a Euclidean norm of at most ``bound``.

    It is for whole vectors, such as an embedding: ‖x - x'‖₂ ≤ bound for data on the grid. Truncation toward zero gives
    ‖q‖₂² ≤ ‖v‖₂² / resolution², so C̃ = ⌊(bound / resolution)²⌋. This holds for units with **one update per
    coordinate**, or with updates that are multiples of the resolution, each of one unit (as in `L1`).

    A release needs a bound on the spectral norm of its map, which exists for small domains: `Identity`, `OPORP`,
    `SRHT`, and `SJLT` or `CountSketch` with dim · sketch_dim up to 2^26. In the hashed domain, a unit could choose
    items that all fall into the same cells; no bound is then better than ``L1(√m · bound)`` for units of at most m
    items (Theory 2.1). `SketchL2` bounds the change of the sketch instead, for any map.

    Examples
    --------
    >>> L2("3/2", unit="embedding").squared_steps(Fraction(1, 2))
    9
    """

    kind: ClassVar[str] = "l2"
    label: ClassVar[str] = sentences.LABEL_L2
    clips: ClassVar[tuple[Clip, ...]] = ("scale",)
    norm: ClassVar[Norm | None] = "l2"
    whole_steps: ClassVar[bool] = True
    matrix_number: ClassVar[Literal["sensitivities", "spectral bound"] | None] = "spectral bound"

    @property
    def change(self) -> str:
        """What adding or removing a unit changes."""
        return sentences.CHANGE_L2.format(bound=self.bound)

    def squared_steps(self, resolution: Fraction) -> int:
        """Return ⌊(bound / resolution)²⌋.

        Raises
        ------
        InvalidInputError
            If that is 0.
        """
        squared = math.floor((Fraction(self.bound) / resolution) ** 2)
        if squared < 1:
            raise InvalidInputError(
                f"the bound {self.bound} is below one grid step of {resolution}, so every protected contribution "
                f"rounds to zero. Use a finer resolution"
            )
        return squared

    def grid_steps(self, resolution: Fraction) -> int:
        """Raise `InvalidInputError`, because a Euclidean norm bounds no sum of absolute values."""
        del resolution
        raise InvalidInputError(
            f"{self!r} bounds a Euclidean norm, but this needs a bound on a sum of absolute values: use L1(bound) "
            "here, with √m times this bound for units of at most m items"
        )

    def check_steps(self, projection: Cells) -> None:
        """Raise `InvalidInputError` if the bound is below one step of the projection's grid."""
        self.squared_steps(projection.grid)

    def clip_steps(self, projection: Cells) -> int:
        """Return ⌊(bound / resolution)²⌋, with the errors of `squared_steps`."""
        return self.squared_steps(projection.grid)

    def sensitivity(self, projection: Moved) -> Sensitivity:
        """Return D2² = m·‖A‖₂²·C̃ and D1 = m·√k·√(D2²/m), with a proven bound on the spectral norm (Theory 2.1).

        Raises
        ------
        InvalidInputError
            If the map has no useful bound on its spectral norm.
        """
        bound = projection.spectral_bound if projection.dim <= _MOST_COORDINATES else None
        if bound is None:
            raise InvalidInputError(
                f"L2 neighbours need a map whose spectral norm has a useful bound: Identity, OPORP or SRHT with at "
                f"most 2**24 indices, or an SJLT or CountSketch whose dim · sketch_dim is at most 2**26; got "
                f"{projection.kind} with dim={projection.dim}, sketch_dim={projection.sketch_dim}. Use "
                f"SketchL2(bound), which bounds what a unit does to the sketch of any map, or one of these"
            )
        return self.moved_by_rotation(bound, projection.sketch_dim, projection.grid)

    def moved_by_rotation(self, bound: int, cells: int, grid: Fraction) -> Sensitivity:
        """Return how far one unit moves ``cells`` integers under a map of squared spectral norm ``bound`` at most."""
        l2_squared = bound * self.squared_steps(grid)
        one_key = Sensitivity(l1=math.isqrt(cells * l2_squared), l2_squared=l2_squared, cells=cells)
        return one_key.over_keys(self.max_keys)

    def sensitivity_before_map(self, columns: int, size: int, grid: Fraction) -> Sensitivity:
        """Return how far one unit moves ``size`` coordinates before a map, as `moved_by_rotation`."""
        return self.moved_by_rotation(columns, size, grid)

    def most_in_a_cell(self, projection: Moved) -> int:
        """Return √(D2²) of one key, how far one unit can move a single cell at most, in grid steps."""
        return math.isqrt(dataclasses.replace(self, max_keys=1).sensitivity(projection).l2_squared)
