"""Each window by itself, as streams are released without a schedule."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Ints
from streamsketch.privacy.schedule import SCHEDULES, Norms, Schedule


@dataclasses.dataclass(frozen=True, kw_only=True)
class Separate(Schedule):
    """Each window by itself: a range of n windows has √n times the noise of one.

    This is best for units that are in every window, for which other schedules gain nothing.

    Parameters
    ----------
    horizon, max_windows, gap
        As in `Schedule`.

    Examples
    --------
    >>> round(Separate(horizon=365).error(0, 30), 2)
    5.48
    """

    kind = "separate"

    @property
    def scale(self) -> int:
        """1."""
        return 1

    @property
    def most_blocks(self) -> int:
        """One for each window."""
        return self.horizon

    @property
    def words(self) -> str:
        """The kind of schedule, in words."""
        return sentences.SEPARATE

    def rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield starts and coefficients of each row's blocks; see `Schedule.rows`."""
        for window in range(self.horizon):
            yield np.array([window]), np.array([1])

    def largest_norms(self) -> Norms:
        """Return `Schedule.norms`."""
        return Norms(self.most, self.most, 1)


SCHEDULES.enter(Separate.kind, Separate)
