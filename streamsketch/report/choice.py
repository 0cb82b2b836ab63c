"""What a report compares streams by, and which of them it can draw: computed from the releases alone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, block_of, check_comparable
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.estimation.estimate import Estimates
from streamsketch.estimation.intervals import Intervals
from streamsketch.estimation.means import few_units
from streamsketch.estimation.measures import MEASURES, By, check_by, compare_blocks
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.release.private_sketch import PrivateSketch

ENOUGH = 0.5
"""A report shows cosines unasked if their `distinguishable_share` is at least this."""


class Chosen(NamedTuple):
    """How the streams of a report are compared."""

    by: By
    kept: list[int]
    """The streams above the noise floor of as many streams; all, if those are fewer than two. For averages, those that
    have one."""
    below_noise_floor: list[int]
    """The others."""
    distinguishable_shares: dict[By, float]
    """The share of streams whose nearest and farthest others differ, by distance and, if defined, by cosine; none for
    averages."""
    estimates: Estimates
    """Between those kept: (n, n)."""
    squares: Estimates
    """Squared distances for the map and the order: between the streams, those scaled to length 1, or averages."""
    given: int | None = None
    """How many streams those kept were selected from; None if all are kept."""

    @property
    def streams(self) -> int:
        """How many streams there were, of which noise may have lifted some above the floor."""
        return len(self.estimates.value) if self.given is None else self.given

    @property
    def ends(self) -> Intervals:
        """95 % intervals that hold for all pairs of all streams at once, whichever are kept: the page has no others."""
        return self.estimates.selected_interval(max(self.streams * (self.streams - 1) // 2, 1))

    @property
    def tells_apart(self) -> NDArray[np.bool_]:
        """Of which streams the nearest and the farthest others differ; see `tells_apart`."""
        return tells_apart(self.estimates, self.streams)

    def nearest_first(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the order of values, from the nearest to the farthest."""
        return np.argsort(MEASURES[self.by].sign * values, kind="stable")


def choose(releases: Sequence[PrivateSketch], by: By | None) -> Chosen:
    """Compare streams by what was asked for or, if nothing was, by what the releases can tell apart.

    Cosines are chosen if, for at least half of the streams above the noise floor, they tell the most alike other
    from the least alike one (`distinguishable_share`). Otherwise distances are, which mostly measure size (Theory
    4).

    Parameters
    ----------
    releases
        n ≥ 2 releases.
    by
        ``"distance"``, ``"cosine"``, ``"profile"``, ``"mean"`` or None.

    Raises
    ------
    InvalidInputError
        For fewer than two releases, another ``by``, cosines of releases with noise added before the map, or averages
        of releases of which fewer than two have one.
    IncompatibleProjectionsError, DependentNoiseError
        If releases cannot be compared.
    """
    if by is not None:
        check_by(by)
    if len(releases) < 2:
        raise InvalidInputError(f"a report needs at least two releases, got {len(releases)}")
    check_comparable(releases)
    whole = block_of(releases)
    count = len(releases)
    lost = few_units(whole) if by == "mean" else below_noise_floor(whole, count)
    everything = int((~lost).sum()) < 2
    if by == "mean" and everything:
        raise InvalidInputError(
            "fewer than two of these releases have an average: their numbers of units are within two standard errors "
            "of zero. Compare sums, or release more units together"
        )
    kept = [place for place, gone in enumerate(lost) if everything or not gone]
    block = block_of([releases[place] for place in kept])
    if by == "mean":
        means = compare_blocks(block, block, by, same=True)
        return Chosen(by, kept, np.flatnonzero(lost).tolist(), {}, means, means, count)
    found: dict[By, Estimates] = {"distance": compare_blocks(block, block, "distance", same=True)}
    if by in ("cosine", "profile") or (isinstance(block.effect, OutputNoise) and not everything):
        found["cosine"] = compare_blocks(block, block, "cosine", same=True)
        found["profile"] = compare_blocks(block, block, "profile", same=True)
    shares: dict[By, float] = {one: distinguishable_share(found[one], count) for one in found if one != "profile"}
    if by is None:
        by = "cosine" if shares.get("cosine", 0.0) >= ENOUGH else "distance"
    elif everything:
        by = "distance"
    estimates = found[by] if by in found else compare_blocks(block, block, by, same=True)
    squares = found["profile" if by in ("cosine", "profile") else "distance"]
    return Chosen(by, kept, np.flatnonzero(lost).tolist(), shares, estimates, squares, count)


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


def distinguishable_share(estimates: Estimates, given: int | None = None) -> float:
    """Return the share of n streams whose nearest and farthest others differ: see `tells_apart`."""
    return float(tells_apart(estimates, given).mean())


def tells_apart(estimates: Estimates, given: int | None = None) -> NDArray[np.bool_]:
    """Return of which of n streams the nearest and the farthest others differ: their intervals are disjoint.

    The intervals allow for the selection of both from n - 1, or from one less than the ``given`` streams of which these
    n were selected. Of streams without differences the share is at most 5 % on average.
    """
    n = len(estimates.value)
    low, high = estimates.selected_interval(max((n if given is None else given) - 1, 1))
    apart = ~np.eye(n, dtype=bool)
    found: NDArray[np.bool_] = np.where(apart, low, -np.inf).max(axis=1) > np.where(apart, high, np.inf).min(axis=1)
    return found
