"""Neighbours that differ by one unit whose sketches, over all keys, have a bounded Euclidean norm."""

import dataclasses
import math
from fractions import Fraction
from typing import ClassVar, Literal

from streamsketch.core import sentences
from streamsketch.core.numbers import Exact
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.neighbours import MOST_KEYS, Cells, Clip, Moved, Neighbours, Norm
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.schedule import Schedule

_MOST_STEPS = 1 << 31  # of a sketch's norm: its square fits int64
_ROOT_DIGITS = 7  # of a square root that is rounded up to a decimal


@dataclasses.dataclass(frozen=True, repr=False)
class SketchL2(Neighbours):
    """Streams that differ by one unit, which changes the **exact sketches** by an ℓ2 norm of at most ``bound``.

    The norm is over the cells of all keys and windows of a release together: ‖S x - S x'‖₂ ≤ bound in data units. The
    bound is on the unit's sketch, not on its rows. Once the sketch is clipped to it, it holds for every map, for any
    indices, hashed ones too, and whatever the rows hold. `bound` and, on Beam, `BoundContributions` clip in integers. A
    map that preserves norms gives a unit with m different items a sketch of norm about √m; an `L1` bound would be m.

    Cells are integers, so the squared distance in grid steps is at most ⌊(bound / cell_unit)²⌋, with cell_unit = scale
    · resolution (Theory 2.2). Gaussian noise hides that much for any number of keys: release with δ > 0. Laplace noise,
    and everything else that depends on sums of absolute values, needs ``max_keys`` and is much wider: k cells in m keys
    move by √(k·m) times as much.

    Parameters
    ----------
    bound
        The largest ℓ2 norm, in the values' units. With ``clip="equal"`` every unit has this length, and any bound gives
        the same cosines.
    unit
        The name of what is protected.
    max_keys
        The number of keys that one unit may be in, by default any number. The bound holds for all of them together.

    Examples
    --------
    >>> print(SketchL2(4, unit="customer"))
    one customer of at most 4 (L2 of sketches)
    >>> print(SketchL2(4, unit="customer", max_keys=13))
    one customer of at most 4 in at most 13 keys together (L2 of sketches)
    """

    bound: Exact = 1
    max_keys: int = MOST_KEYS

    kind: ClassVar[str] = "sketch-l2"
    label: ClassVar[str] = sentences.LABEL_SKETCH_L2
    clips: ClassVar[tuple[Clip, ...]] = ("scale", "equal", "average")
    when_enforced: ClassVar[str] = sentences.ENFORCED_WHATEVER_ROWS
    norm: ClassVar[Norm | None] = "l2"
    of_sketches: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    matrix_number: ClassVar[Literal["sensitivities", "spectral bound"] | None] = None

    @property
    def any_keys(self) -> bool:
        """Whether a unit may be in any number of keys."""
        return self.max_keys == MOST_KEYS

    @staticmethod
    def of_averages(unit: str = "unit", max_keys: int = 1) -> "SketchL2":
        """Return the relation of units that add the average of their rows, of length 1, to each of ``max_keys`` keys.

        Its bound is √max_keys, rounded up, so that a unit in all these keys is not shortened.

        Examples
        --------
        >>> SketchL2.of_averages("patient", 4)
        SketchL2(2, unit='patient', max_keys=4)
        """
        return SketchL2(1, unit, 1).in_windows(max_keys)

    def check_clip(self, clip: str) -> None:
        """Raise `InvalidInputError` if units cannot be clipped to this relation in this way.

        ``"average"`` adds a vector of length 1 at most to each key. If the bound were less for all keys together, a
        unit in several keys would count less in each than the number of units says.
        """
        super().check_clip(clip)
        if clip == "average" and (self.any_keys or Fraction(self.bound) ** 2 < self.max_keys):
            least = "" if self.any_keys else f": at least {SketchL2.of_averages(self.unit, self.max_keys).bound}"
            raise InvalidInputError(
                f"clip='average' adds a vector of length 1 to each key of a unit, so it needs a number of keys and a "
                f"bound of its square root or more{least}, got {self!r}; use SketchL2.of_averages(unit, max_keys)"
            )

    def squared_cell_steps(self, projection: Cells) -> int:
        """Return ⌊(bound / cell_unit)²⌋, the largest change of all cells by one unit, in squared grid steps.

        Raises
        ------
        InvalidInputError
            If that is 0, because so coarse a grid would round every unit away, or if it is 2^62 or more.
        """
        unit_squared = projection.scale_squared * projection.grid**2
        squared = math.floor(Fraction(self.bound) ** 2 / unit_squared)
        if not 1 <= squared < _MOST_STEPS**2:
            wrong, remedy = ("below one grid step", "finer") if squared < 1 else ("2**31 grid steps or more", "coarser")
            raise InvalidInputError(
                f"the bound {self.bound} on the L2 norm of a sketch is {wrong} of its cells, each of "
                f"{math.sqrt(unit_squared):.4g} at a resolution of {projection.grid}. Use a {remedy} resolution"
            )
        return squared

    def cell_steps(self, projection: Cells) -> int:
        """Return ⌊bound / cell_unit⌋ exactly, the ℓ2 norm of a clipped unit's cells in grid steps.

        Raises
        ------
        InvalidInputError
            As in `squared_cell_steps`.

        Examples
        --------
        >>> from streamsketch import SJLT
        >>> SketchL2(3).cell_steps(SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/1024"))
        6144
        """
        return math.isqrt(self.squared_cell_steps(projection))

    def check_steps(self, projection: Cells) -> None:
        """Raise `InvalidInputError` if the bound is below one step of the projection's grid."""
        self.squared_cell_steps(projection)

    def grid_steps(self, resolution: Fraction) -> int:
        """Raise `InvalidInputError`, because a norm of sketches bounds nothing before the map."""
        del resolution
        raise InvalidInputError(
            f"{self!r} bounds what a unit changes in the exact sketch, but this needs a bound on what it changes in "
            "the data: use L1(bound) or OneCoordinate(bound) here, or noise on the cells, as Sketch.release adds"
        )

    def in_windows(self, count: int) -> "SketchL2":
        """Return the relation of a unit in up to ``count`` windows, whose bound is √count times as large."""
        return dataclasses.replace(self.over_rows(count), max_keys=min(self.max_keys * count, MOST_KEYS))

    def over_rows(self, windows: int) -> "SketchL2":
        """Return the bound on the sketches of all windows of a unit together, √windows times that on each."""
        return dataclasses.replace(self, bound=_root_above(Fraction(self.bound) ** 2 * windows))

    def sensitivity(self, projection: Moved) -> Sensitivity:
        """Return D2², the bound itself over all keys, and D1 = √n·D2 for the n cells that a unit may move.

        n = min(k·m, D2²), as cells move by whole steps (Theory 2.2).
        """
        l2_squared = self.squared_cell_steps(projection)
        moved = min(projection.sketch_dim * self.max_keys, l2_squared)
        return Sensitivity(math.isqrt(moved * l2_squared), l2_squared, projection.sketch_dim, moved=moved)

    def sensitivity_of_rows(self, projection: Moved, window: Sensitivity, schedule: Schedule) -> Sensitivity:
        """Return how far one unit moves all rows, from a bound on the sketches of all of its windows together.

        With Σ‖v_j‖₂² bounded, the norm of the schedule's matrix applies. Rows move by Σ_j ‖c_j‖₁ ‖v_j‖₁ at most, where
        c_j are its columns and Σ_j ‖v_j‖₁ ≤ √moved · √Σ_j ‖v_j‖₂². Counts move by their weight in each window, however
        little the cells do (Theory 11.2).
        """
        cells, norms = self.sensitivity(projection), schedule.norms
        slots = min(self.max_keys * schedule.most, MOST_KEYS)
        moved = min(projection.sketch_dim * slots, cells.l2_squared)
        column = dataclasses.replace(schedule, max_windows=1).norms.l1
        l1 = column * math.isqrt(moved * cells.l2_squared) + norms.l1 * (window.l1 - cells.l1)
        counts = norms.l2_squared * (window.l2_squared - cells.l2_squared)
        return window.over_rows(l1, norms.together * cells.l2_squared + counts, schedule.reach)

    def most_in_a_cell(self, projection: Moved) -> int:
        """Return how far one unit can move a single cell at most, in grid steps: the whole bound."""
        return self.cell_steps(projection)

    def is_below(self, steps: int, projection: Cells) -> bool:
        """Return whether one row of |value| = ``steps`` moves cells, by ``steps`` or more, beyond the bound."""
        return steps > self.cell_steps(projection)

    def clip_steps(self, projection: Cells) -> int:
        """Return ⌊bound / cell_unit⌋, with the errors of `squared_cell_steps`."""
        return self.cell_steps(projection)

    def check_delta(self, delta: float, mechanism: str) -> None:
        """Raise `InvalidInputError` for Laplace noise, unless the mechanism was named.

        δ is 0 by default, and a release is spent before its noise is seen.
        """
        if delta == 0 and mechanism == "auto":
            raise InvalidInputError(
                "a bound on sketches is meant for Gaussian noise: pass delta, such as 1e-6. With delta=0 the noise is "
                "Laplace and many times as wide; if you want that, pass mechanism='laplace'"
            )

    @property
    def change(self) -> str:
        """What adding or removing a unit changes."""
        sketches = sentences.ONE_SKETCH if self.max_keys == 1 else sentences.ALL_SKETCHES
        return sentences.CHANGE_SKETCH_L2.format(sketches=sketches, bound=self.bound)

    def described(self, *, enforced: bool, windows: bool) -> str:
        """Return who is protected: the bound holds over all keys and windows together."""
        del windows
        keys = sentences.IN_ONE_KEY if self.max_keys == 1 else sentences.IN_KEYS.format(keys=self.max_keys)
        where = f"{'' if self.any_keys else f' {keys}'}{sentences.WHATEVER_ROWS if enforced else ''}"
        return sentences.PROTECTED.format(unit=self.unit, where=where, change=self.change)

    @property
    def _keys_text(self) -> str:
        if self.any_keys:
            return ""
        keys = sentences.IN_ONE_KEY if self.max_keys == 1 else sentences.IN_KEYS_TOGETHER.format(keys=self.max_keys)
        return f"{keys} "


def _root_above(square: Fraction) -> Fraction:
    """Return a square root, exact if it is a fraction, else rounded up to six decimal digits or more."""
    top, bottom = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if top**2 == square.numerator and bottom**2 == square.denominator:
        return Fraction(top, bottom)
    parts = 10 ** max(0, _ROOT_DIGITS - len(str(math.isqrt(math.ceil(square)))))
    return Fraction(math.isqrt(math.ceil(square * parts**2) - 1) + 1, parts)
