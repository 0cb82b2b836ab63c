"""What a report compares streams by, and which of them it can draw: computed from the releases alone."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, block_of, check_comparable
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.intervals import Intervals
from streamsketch.estimation.measures import (
    ABOVE_NOISE_FLOOR,
    MEASURES,
    By,
    Need,
    check_by,
    check_together,
    compare_all,
    compare_blocks,
)
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.report.pairs import Pairs, pairs_of
from streamsketch.report.series import series_in

if TYPE_CHECKING:
    from streamsketch.estimation.joint_estimate import JointModel

ENOUGH = 0.5
"""A report shows cosines unasked if their `distinguishable_share` is at least this."""


@dataclasses.dataclass(frozen=True, eq=False)
class Chosen:
    """How the streams of a report are compared."""

    by: By
    kept: list[int]
    """The streams that have what the measure needs, by default those above the noise floor of as many streams; all, if
    they are fewer than two."""
    below_noise_floor: list[int]
    """The others."""
    distinguishable_shares: dict[By, float]
    """The share of streams whose nearest and farthest others differ, by distance and, if defined, by cosine; none if
    the measure needs something else."""
    estimates: Estimates
    """Between those kept: (n, n)."""
    squares: Estimates
    """Squared distances for the map and the order: between what `Measure.of_what` says."""
    floor: Need = ABOVE_NOISE_FLOOR
    """What the others lack."""
    total: int | None = None
    """How many streams those kept were selected from; None if all are kept."""
    joint: "JointModel | None" = None
    """How the estimates were made, if they are joint ones."""

    @property
    def quantity(self) -> str:
        """What a value is, marked if it is a joint estimate."""
        return quantity_of(self.by, joint=self.joint is not None)

    @property
    def streams(self) -> int:
        """How many streams there were, of which noise may have lifted some above the floor."""
        return len(self.estimates.value) if self.total is None else self.total

    @property
    def among(self) -> int:
        """How many pairs the intervals of the page hold for at once: all pairs of all streams, whichever are kept."""
        return max(self.streams * (self.streams - 1) // 2, 1)

    @functools.cached_property
    def ends(self) -> Intervals:
        """95 % intervals that hold for all pairs of all streams at once: the page has no others."""
        return self.estimates.selected_interval(self.among)

    @functools.cached_property
    def pairs(self) -> Pairs:
        """The numbers of the page: its sentences, tables and pictures have them from here."""
        return pairs_of(self.estimates, self.ends)

    @property
    def tells_apart(self) -> NDArray[np.bool_]:
        """Of which streams the nearest and the farthest others differ; see `tells_apart`."""
        return tells_apart(self.estimates, self.streams)

    def nearest_first(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the order of values, from the nearest to the farthest."""
        return np.argsort(MEASURES[self.by].sign * values, kind="stable")


def quantity_of(by: By, *, joint: bool) -> str:
    """Return what a measure's values are called, for people."""
    return f"joint {MEASURES[by].title}" if joint else MEASURES[by].title


def order_of(names: Iterable[str]) -> Literal["time"] | None:
    """Return the order of joint estimates of streams, of which those of windows are in `in_time_order`.

    It is that of time if they are all windows of one stream.
    """
    return "time" if len(series_in(names)) == 1 else None


def choose(
    releases: Sequence[PrivateSketch], by: By | None, *, together: bool = False, order: Literal["time"] | None = None
) -> Chosen:
    """Compare streams by what was asked for or, if nothing was, by what the releases can tell apart.

    Cosines are chosen if, for at least half of the streams above the noise floor, they tell the most alike other
    from the least alike one (`distinguishable_share`). Otherwise distances are, which mostly measure size (Theory
    4).

    Parameters
    ----------
    releases
        n ≥ 2 releases.
    by
        As in `streamsketch.pairwise`, or None.
    together, order
        As in `streamsketch.pairwise`: whether the estimates are joint ones, of the streams that are kept. The choice
        is the same.

    Raises
    ------
    InvalidInputError
        For fewer than two releases, another ``by``, cosines of releases with noise added before the map, or fewer than
        two releases that have what the measure needs.
    IncompatibleProjectionsError, DependentNoiseError
        If releases cannot be compared.
    """
    if by is not None:
        check_by(by)
    if len(releases) < 2:
        raise InvalidInputError(f"a report needs at least two releases, got {len(releases)}")
    check_comparable(releases)
    count = len(releases)
    floor = ABOVE_NOISE_FLOOR if by is None else MEASURES[by].floor
    lost = floor.lacking(block_of(releases), count)
    everything = int((~lost).sum()) < 2
    if everything and floor.refusal:
        raise InvalidInputError(floor.refusal)
    kept = [place for place, gone in enumerate(lost) if everything or not gone]
    block = block_of([releases[place] for place in kept])
    compare = functools.cache(functools.partial(compare_blocks, block, block, same=True))
    if by is not None:
        compare(by)  # raises even if distances are shown instead
    shares: dict[By, float] = {}
    if floor is ABOVE_NOISE_FLOOR:
        shares["distance"] = distinguishable_share(compare("distance"), count)
        if isinstance(block.effect, OutputNoise) and not everything:
            shares["cosine"] = distinguishable_share(compare("cosine"), count)
    if by is None:
        by = "cosine" if shares.get("cosine", 0.0) >= ENOUGH else "distance"
    elif everything and MEASURES[by].needs is not None:
        by = "distance"
    below = np.flatnonzero(lost).tolist()
    if not together:
        squares = compare(MEASURES[by].squares or by)
        return Chosen(by, kept, below, shares, compare(by), squares, floor, count)
    from streamsketch.estimation.joint_estimate import JointEstimates  # noqa: PLC0415 - which pairs alone do not need

    check_together(by, together=True, order=order)
    joint, squares = (
        compare_all(block, measure, together=True, order=order) for measure in (by, MEASURES[by].squares or by)
    )
    model = joint.model if isinstance(joint, JointEstimates) else None
    return Chosen(by, kept, below, shares, joint, squares, floor, count, model)


def measure_of(sketches: Sequence[AnySketch]) -> By:
    """Return by what streams are compared if nothing is asked for: the rule of `choose`.

    Raises
    ------
    IncompatibleProjectionsError
        If sketches cannot be compared.
    """
    lost = below_noise_floor(block_of(sketches), len(sketches))
    kept = [sketch for sketch, gone in zip(sketches, lost, strict=True) if not gone]
    if len(kept) < 2:
        return "distance"
    block = block_of(kept)
    if not isinstance(block.effect, OutputNoise):
        return "distance"
    cosines = compare_blocks(block, block, "cosine", same=True)
    return "cosine" if distinguishable_share(cosines, len(sketches)) >= ENOUGH else "distance"


def distinguishable_share(estimates: Estimates, total: int | None = None) -> float:
    """Return the share of n streams whose nearest and farthest others differ: see `tells_apart`."""
    return float(tells_apart(estimates, total).mean())


def tells_apart(estimates: Estimates, total: int | None = None) -> NDArray[np.bool_]:
    """Return of which of n streams the nearest and the farthest others differ: their intervals are disjoint.

    The intervals allow for the selection of both from n - 1, or from one less than the ``total`` streams of which these
    n were selected. Of streams without differences the share is at most 5 % on average.
    """
    n = len(estimates.value)
    low, high = estimates.selected_interval(max((n if total is None else total) - 1, 1))
    apart = ~np.eye(n, dtype=bool)
    disjoint: NDArray[np.bool_] = np.where(apart, low, -np.inf).max(axis=1) > np.where(apart, high, np.inf).min(axis=1)
    return disjoint
