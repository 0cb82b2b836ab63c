"""Neighbours that differ by updates of one unit whose absolute values have a bounded sum."""

import dataclasses
from fractions import Fraction
from typing import ClassVar

from streamsketch.core import sentences
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.neighbours import Cells, Clip, Neighbours, Norm


@dataclasses.dataclass(frozen=True, repr=False)
class L1(Neighbours):
    """Streams that differ by the updates of one unit, whose absolute values sum to at most ``bound``.

    One stream has the unit and the other does not; replacing one unit by another is two such steps. For data on the
    grid, ‖x - x'‖₁ ≤ bound (Stausholm 2021, Definition 1, with bound 1). Truncation toward zero gives Σ|q| ≤ Σ|v| /
    resolution, so Δ̃ = ⌊bound / resolution⌋ for any number of updates of the unit.

    This holds for updates that belong to **one unit each**, or are multiples of the resolution. A total of several
    units is truncated only once: if 1.5 + 0.5 is entered as one update on a grid of 1, removing the 1.5 moves it by two
    steps, not one. Enter units one by one, or round each before adding them up.

    Examples
    --------
    >>> L1(1, unit="flight")
    L1(1, unit='flight')
    """

    kind: ClassVar[str] = "l1"
    label: ClassVar[str] = sentences.LABEL_L1
    implied: ClassVar[tuple[str, ...]] = ("l2",)
    clips: ClassVar[tuple[Clip, ...]] = ("scale", "cut")
    norm: ClassVar[Norm | None] = "l1"
    whole_steps: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    free_slack: ClassVar[bool] = True
    clips_keys_together: ClassVar[bool] = True

    @property
    def change(self) -> str:
        """What adding or removing a unit changes."""
        return sentences.CHANGE_L1.format(bound=self.bound)

    def clip_steps(self, projection: Cells) -> int:
        """Return ⌊bound / resolution⌋, with the errors of `grid_steps`."""
        return self.grid_steps(projection.grid)

    def grid_steps(self, resolution: Fraction) -> int:
        """Return ⌊bound / resolution⌋.

        Raises
        ------
        InvalidInputError
            If that is 0, because the grid would round every protected change away.
        """
        steps = Fraction(self.bound) // resolution
        if steps < 1:
            raise InvalidInputError(
                f"the bound {self.bound} is below one grid step of {resolution}, so every protected contribution "
                f"rounds to zero. Use a finer resolution"
            )
        return steps
