"""Whether a release, or a sum of releases, can have the noise that it states."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.limits import Limits, current_limits
from streamsketch.core.text import warn_outside
from streamsketch.errors import InvalidInputError, NoiseMismatchWarning
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.base import Projection
from streamsketch.release.checking.noise import MOST_BLOCKS, NoiseCheck, agree, check_noise, judge
from streamsketch.release.checking.norm import FALSE_ALARMS, CellNoise, has_known_characteristic, least_squared_norm
from streamsketch.release.history import HistoryPart
from streamsketch.release.noise_parts import NoisePart
from streamsketch.release.private_sketch import PrivateSketch

Composition: TypeAlias = Literal["overlapping", "disjoint", "mixed"]

_FIRMNESS = {"asserted": 0, None: 1, "enforced": 2}
_MOST_PARTS = 1024  # different ones of a sum: each may take a millisecond
_REPEATED = 32  # how much less it takes to solve for a range than to list the blocks of a schedule
MOST_NOISES = 8
"""How many different noises in a cell are integrated over, about 5 ms each; of more, those with the most noise."""
_SUMS = 1e-9  # what sums of floats are off
_TOLERANCE = 1e-6  # the calibration's own margins


class StatedNoise(NamedTuple):
    """What a release states about its noise and its guarantee: everything except the cells."""

    guarantee: Guarantee
    projection: Projection
    noise: NoiseMoments
    place: NoisePlace
    multiplier: Fraction
    parts: tuple[NoisePart, ...]
    releases: int
    history: HistoryPart | None = None

    @property
    def all_parts(self) -> tuple[NoisePart, ...]:
        """What each release inside states; a single release is its own part."""
        return self.parts or (NoisePart(self.noise, self.guarantee, abs(self.multiplier), history=self.history),)


def stated_by(release: PrivateSketch) -> StatedNoise:
    """Return what a release states."""
    return StatedNoise(
        release.guarantee,
        release.projection,
        release.noise,
        release.noise_place,
        release.multiplier,
        release.parts,
        len(release.release_ids),
        release.history,
    )


def check_release(release: PrivateSketch, *, most_entries: int | None = None) -> NoiseCheck:
    """Check that the noise that a release states is enough for its guarantee, and that its cells can have this noise.

    Parameters
    ----------
    release
        A release or a sum of releases.
    most_entries
        Larger random matrices are not read for their sensitivity.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> check_release(sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale"))).verdict
    'enough'
    """
    stated = stated_by(release)
    return with_norm(check_stated(stated, most_entries=most_entries), impossible_norm(release, stated), stated.place)


def with_norm(check: NoiseCheck, norm: float | None, place: NoisePlace) -> NoiseCheck:
    """Return a check that takes `impossible_norm` into account, which is unknown if the noise is before the map."""
    if place != "output" and check.verdict == "enough":
        return dataclasses.replace(check, reason=sentences.NOT_COMPARED.format(reason=check.reason))
    if norm is None or check.verdict == "too little":
        return check
    reason = sentences.SHORT_CELLS.format(norm=f"{norm:.4g}", releases=f"{1 / FALSE_ALARMS:,.0f}")
    return NoiseCheck("too little", reason)


def impossible_norm(release: PrivateSketch, stated: StatedNoise | None = None) -> float | None:
    """Return ‖values‖² if the stated noise rules it out, except with probability `FALSE_ALARMS`; else None."""
    least = _least_norm(stated or stated_by(release))
    if least <= 0:
        return None
    cells = release.values.astype(np.float64)
    norm = float(cells @ cells)
    return norm if norm < least else None


def composition_of(guarantee: Guarantee, parts: Sequence[NoisePart]) -> Composition | None:
    """Return how a guarantee composes its parts; None if its ε or δ is smaller than that of a part.

    ``"overlapping"``: the sums of ε and of δ, or more. ``"disjoint"``: the largest ε and δ. ``"mixed"``: values in
    between, as for a sum of sums.
    """
    budgets = [(part.guarantee.epsilon, part.guarantee.delta, part.count) for part in parts]
    largest = max(budget[0] for budget in budgets), max(budget[1] for budget in budgets)
    summed = tuple(float(sum(Fraction(budget[at]) * budget[2] for budget in budgets)) for at in (0, 1))
    if _least(guarantee, summed):
        return "overlapping"
    if not _least(guarantee, largest):
        return None
    exact = all(
        math.isclose(stated, maximum, rel_tol=_SUMS)
        for stated, maximum in zip((guarantee.epsilon, guarantee.delta), largest, strict=True)
    )
    return "disjoint" if exact else "mixed"


def check_stated(stated: StatedNoise, *, most_entries: int | None = None) -> NoiseCheck:
    """Check that the stated noise is enough for the stated guarantee, part by part; see `NoiseCheck`.

    A sum of releases has enough noise if each part has enough for its own guarantee, if the stated noise is the sum of
    the parts' noises, and if the guarantee is at least the largest of theirs. No file shows whether populations were
    disjoint.
    """
    return _check_within(stated, most_entries, current_limits())


@functools.lru_cache(maxsize=1024)
def _check_within(stated: StatedNoise, most_entries: int | None, limits: Limits) -> NoiseCheck:
    del limits  # a statement that was not checked may be, once limits are raised
    if stated.releases == 1 and not stated.parts:
        return check_noise(
            stated.guarantee,
            stated.projection,
            stated.noise,
            stated.place,
            most_entries=most_entries,
            history=stated.history,
        )
    if not stated.parts:
        return _check_without_parts(stated, most_entries)
    return _check_parts(stated, most_entries)


def _check_parts(stated: StatedNoise, most_entries: int | None) -> NoiseCheck:
    """Check a sum by what it states about each release in it."""
    if any((Fraction(part.multiplier) / stated.multiplier).denominator > 1 for part in stated.parts):
        # its noise would shrink without its guarantee
        return NoiseCheck("too little", sentences.NOT_WHOLE)
    if (large := _too_large(stated.parts, most_entries or MOST_BLOCKS)) is not None:
        return NoiseCheck("not checked", large)
    mismatch = _sum_mismatch(stated)
    if mismatch is not None:
        return NoiseCheck("too little", mismatch)
    checks = [
        check_noise(
            part.guarantee, stated.projection, part.noise, stated.place, most_entries=most_entries, history=part.history
        )
        for part in stated.parts
    ]
    inside = _inside(stated.releases)
    for verdict in ("too little", "not checked"):
        places = [place for place, check in enumerate(checks) if check.verdict == verdict]
        if places:
            count = sum(stated.parts[place].count for place in places)
            reason = sentences.SOME_INSIDE.format(count=count, inside=inside, reason=checks[places[0]].reason)
            return NoiseCheck(checks[places[0]].verdict, reason)
    if len(checks) == 1:
        return NoiseCheck("enough", sentences.EACH_INSIDE.format(inside=inside, reason=checks[0].reason))
    return NoiseCheck("enough", sentences.EACH_IS_ENOUGH.format(inside=inside))


def _too_large(parts: Sequence[NoisePart], most_blocks: int) -> str | None:
    """Return why checking the parts would take too long (mainly the blocks of each schedule), or None."""
    if len(parts) > _MOST_PARTS:
        return f"it has {len(parts):,} parts, more than the {_MOST_PARTS:,} looked at"
    rows = [part.guarantee.mechanism.layout.of_cells for part in parts]
    blocks = sum(layout.most_blocks for layout in set(rows)) + sum(layout.most_blocks for layout in rows) // _REPEATED
    return f"its schedules have up to {blocks:,} blocks to look through" if blocks > most_blocks else None


def _inside(releases: int) -> str:
    return sentences.ONE_INSIDE if releases == 1 else sentences.RELEASES_INSIDE.format(releases=releases)


def _sum_mismatch(stated: StatedNoise) -> str | None:
    """Return where a sum contradicts its parts, or None."""
    guarantee = stated.guarantee
    try:
        noise = sum((_in_steps(part, stated.multiplier) for part in stated.parts), start=NoiseMoments())
    except (InvalidInputError, OverflowError):
        return "the noises of the releases inside are beyond any sampler's"
    if not agree(noise, stated.noise):
        return sentences.OTHER_SUM.format(stated=f"{stated.noise.k2:.4g}", used=f"{noise.k2:.4g}")
    return _contradiction(guarantee, stated.parts)


def _contradiction(guarantee: Guarantee, parts: Sequence[NoisePart]) -> str | None:
    """Return what a sum guarantees otherwise than the releases inside, or None."""
    if any(part.guarantee.neighbours != guarantee.neighbours for part in parts):
        return sentences.OTHER_NEIGHBOURS
    if any(not set(part.guarantee.conditions) <= set(guarantee.conditions) for part in parts):
        return sentences.CONDITION_MISSING
    if any(_FIRMNESS[part.guarantee.basis] < _FIRMNESS[guarantee.basis] for part in parts):
        return sentences.WEAKER_BASIS
    if composition_of(guarantee, parts) is None:
        return sentences.LESS_THAN_A_PART
    return None


def _check_without_parts(stated: StatedNoise, most_entries: int | None) -> NoiseCheck:
    """Check a sum that does not state its parts, by bounds that hold for any parts.

    Each part has a whole multiplier other than 0 in the grid steps of the sum, so the noise of the sum is at least that
    of all parts once; and no part has a larger ε or δ than the sum.
    """
    mechanism, where = stated.guarantee.mechanism, (stated.projection, stated.place)
    named = mechanism.noises
    if len(named) == len(mechanism.steps):
        least = stated.releases * min(step.cumulants.k2 for step in named)
        if stated.noise.k2 < least * (1 - _TOLERANCE):
            return NoiseCheck(
                "too little",
                f"{stated.releases} releases by {mechanism} have a noise of variance {least:.4g} at "
                f"least, and {stated.noise.k2:.4g} is stated",
            )
        for step in named:
            check = judge(step.noise, stated.guarantee, where, most_entries=most_entries)
            if check.verdict == "too little":
                return check
    return NoiseCheck("not checked", sentences.NO_PARTS.format(releases=stated.releases))


@functools.lru_cache(maxsize=1024)
def _least_norm(stated: StatedNoise) -> float:
    """Return the squared norm below which cells contradict the noise stated; 0 where no bound is known.

    The bound holds for every signal, so noise that is left out counts as one: of many parts those with the most noise
    are used. Noise that was added before the map is not independent from cell to cell, and is left out.
    """
    if stated.place != "output" or (not stated.parts and stated.releases > 1):
        return 0.0
    noises = []
    for part in stated.all_parts:
        step = part.guarantee.mechanism.the_noise
        if step is not None and has_known_characteristic(step.noise) and agree(step.cumulants, part.noise):
            factor = float(Fraction(part.multiplier) / abs(stated.multiplier))
            noises.append(CellNoise(step.noise, factor, float(step.draws * part.count)))
    noises.sort(key=lambda cell: cell.draws * cell.factor**2 * cell.noise.cumulants.k2, reverse=True)
    return least_squared_norm(tuple(noises[:MOST_NOISES]), stated.projection.sketch_dim) if noises else 0.0


def _in_steps(part: NoisePart, multiplier: Fraction) -> NoiseMoments:
    """Return a part's noise in grid steps of the sum."""
    return part.noise.scaled(float(Fraction(part.multiplier) / abs(multiplier))).times(part.count)


def _least(guarantee: Guarantee, budget: tuple[float, ...]) -> bool:
    epsilon, delta = budget
    return guarantee.epsilon >= epsilon * (1 - _SUMS) and guarantee.delta >= delta * (1 - _SUMS)


QUICK_ENTRIES = 1 << 22
"""Largest random matrix that is read for a warning, in a quarter of a second, once. Explanations read larger ones."""


def warn_of_mismatches(releases: Iterable[PrivateSketch]) -> None:
    """Warn of each release that states too little noise for its guarantee, or whose cells contradict the noise stated.

    A release that cannot be checked, because a large random matrix would have to be read, raises no warning.
    """
    for release in releases:
        check = check_release(release, most_entries=QUICK_ENTRIES)
        if check.verdict == "too little":
            warn_of(f"release {release.release_ids[0].hex()}", check)


def warn_of(name: str, check: NoiseCheck) -> None:
    """Warn that the check of a release failed, at the line outside this package that asked for an estimate."""
    warn_outside(mismatch(name, check), NoiseMismatchWarning)


def mismatch(name: str, check: NoiseCheck) -> str:
    """Return a sentence about a release whose check failed."""
    return (
        f"{name} states too little noise for its guarantee, so neither its guarantee nor the error bars of estimates "
        f"from it can be relied on: {check.reason}"
    )
