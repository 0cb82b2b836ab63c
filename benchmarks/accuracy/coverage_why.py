"""What separates two streams: bias, error and coverage by map, noise and kind of stream, for items and categories.

Each trial draws a projection and noise at ε = 1, and asks for differences of sums, or of averages over units, of
frequent, rare and absent items, and of categories of them. Streams are skewed (Zipf with exponent 1.1) or even, and the
second one has other frequencies of the same items. A weighted release is thrice the first one. Units have a bound in
ℓ1 and are counted under Laplace noise, or are brought to one length, or shortened, in sketch space, with Gaussian
noise: the truth is that of exact lengths.

How it misleads: items of one trial share a projection, so shares of covered items vary more than those of independent
ones. Units are drawn once.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import trials
from benchmarks.accuracy import intervals
from benchmarks.accuracy.coverage_points import MAPS, NOISES
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.bounding import bound_units
from streamsketch.estimation import DifferenceBy, PointEstimator
from streamsketch.estimation.differences import differences_of
from streamsketch.estimation.items import Groups
from streamsketch.release import AdditiveNoise

ITEMS, ABSENT = 1000, 200
SIZES = (600, 250)
"""Units of each stream."""
ASKED = np.r_[2:42, 300:400, ITEMS : ITEMS + ABSENT]
CATEGORIES = (1, 2, 5, 12, 40, 100, 180)
"""Their numbers of items."""
_RNG = np.random.default_rng(20220518)
_ORDER = _RNG.permutation(ASKED.size)
_CODES = np.repeat(np.arange(len(CATEGORIES)), CATEGORIES)
GROUPS = Groups(ASKED, _ORDER, _CODES, pa.array([f"of {size}" for size in CATEGORIES]))
_WEIGHTS = np.arange(1, ITEMS + 1) ** -1.1
_SHARES = _WEIGHTS / _WEIGHTS.sum()
_OTHER = _SHARES * np.exp(0.5 * _RNG.standard_normal(ITEMS))
_LENGTH, _MOST = 4.0, 20
ITEM, COMMON, CATEGORY = "items", "items that all units have", "categories"

Floats = NDArray[np.float64]
Draw = Callable[[int], tuple[ss.PrivateSketch, ss.PrivateSketch]]
STREAMS = {
    "skewed": (np.rint(20_000 * _SHARES), np.rint(20_000 * _OTHER / _OTHER.sum())),
    "even": (np.full(ITEMS, 20.0), _RNG.poisson(15, ITEMS).astype(np.float64)),
}
SJLT = "SJLT, s = 5, k = 1280"
_ESTIMATORS: tuple[PointEstimator, ...] = ("mean", "median")


class Case(NamedTuple):
    """What came out of one setting."""

    map: str
    stream: str
    by: str
    what: str
    estimator: str
    bias: float
    """The largest of an item or category, in its standard errors; that of averages is not 0 to second order."""
    error: float
    stated: float
    covered: tuple[float, ...]
    """Shares of intervals, by confidence."""
    together: float
    """Share of trials in which all intervals hold at 95 %."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate every map, stream and noise; a weighted release; and units, clipped and counted."""
    count = effort.size(1000, 3)
    cases: list[Case] = []
    for name in list(MAPS)[: effort.size(80, 2)]:
        for stream, counts in STREAMS.items():
            for noise in NOISES:
                draw = functools.partial(_releases, name, counts, noise, 1)
                cases += _cases((name, f"{stream}, {noise}", "distance"), draw, _truth(*counts), count)
    counts = STREAMS["skewed"]
    weighted = functools.partial(_releases, SJLT, counts, "laplace", 3)
    cases += _cases((SJLT, "skewed, thrice the first", "distance"), weighted, _truth(3 * counts[0], counts[1]), count)
    cases += _cases_of_units(count)[: effort.size(600, 6)]
    return Study(
        [
            Table(
                f"Differences of {ASKED.size} items and {len(CATEGORIES)} categories, {count} projections and noises "
                f"each, ε = 1",
                (
                    *("map", "stream", "by", "of", "estimator", "largest bias, in its standard errors"),
                    *("root mean square error", "stated", *intervals.COLUMNS),
                    "all together, 95 %",
                ),
                [(*case[:8], *case.covered, case.together) for case in cases],
            )
        ],
        _finding(cases),
        {"coverage": _picture(cases)},
        checks=_checks(cases),
        source="Theory 4.6",
    )


def _truth(x: Floats, y: Floats) -> Floats:
    return np.concatenate([x - y, np.zeros(ABSENT)])[ASKED]


def _releases(
    name: str, counts: tuple[Floats, Floats], noise: str, weight: int, seed: int
) -> tuple[ss.PrivateSketch, ss.PrivateSketch]:
    projection = MAPS[name](seed=seed)
    budget = trials.Budget(1.0, 1e-6 if noise == "gaussian" else 0.0, noise)
    publisher = budget.publisher(projection)
    bits = trials.keyed(f"why {projection} {budget} {seed}".encode())
    releases = []
    for values in counts:
        sketch = projection.sketch()
        sketch.update(np.arange(ITEMS), values.astype(np.int64))
        releases.append(publisher.for_data(sketch).draw(bits))
    return releases[0] if weight == 1 else releases[0].scaled(weight), releases[1]


class _Units(NamedTuple):
    keys: NDArray[np.int64]
    units: NDArray[np.int64]
    items: NDArray[np.int64]


def _units(most: int, staples: int) -> _Units:
    """Return units of both streams with up to ``most`` items each, of value 1; ``staples`` of them are in each."""
    rng = np.random.default_rng(most)
    rows: list[tuple[int, NDArray[np.int64]]] = []
    for key, (size, shares) in enumerate(zip(SIZES, (_SHARES, _OTHER / _OTHER.sum()), strict=True)):
        for _ in range(size):
            drawn = rng.choice(ITEMS, rng.integers(1, most - staples + 1), p=shares)
            rows.append((key, np.unique(np.concatenate([ASKED[:staples], drawn]))))
    lengths = [items.size for _, items in rows]
    keys, units = np.repeat([key for key, _ in rows], lengths), np.repeat(np.arange(len(rows)), lengths)
    return _Units(keys, units, np.concatenate([items for _, items in rows]))


def _cases_of_units(count: int) -> list[Case]:
    cases = []
    clipped, bounded = (
        ss.SketchL2(_LENGTH, unit="customer", max_keys=1),
        ss.L1(_MOST, unit="customer", max_keys=1),
    )
    ways: dict[str, tuple[ss.L1 | ss.SketchL2, Literal["equal", "scale"] | None, float, int]] = {
        "units, equal": (clipped, "equal", 1e-6, 0),
        "units, scale": (clipped, "scale", 1e-6, 0),
        "alike, equal": (clipped, "equal", 1e-6, 3),
        "units, Laplace": (bounded, None, 0.0, 0),
        "alike, Laplace": (bounded, None, 0.0, 3),
    }
    for name, (neighbours, clip, delta, staples) in ways.items():
        rows = _units(_MOST if clip is None else 60, staples)
        lengths = np.sqrt(np.bincount(rows.units))
        weights = np.ones(lengths.size)
        if clip is not None:
            weights = trials.clip_weights(lengths, _LENGTH, clip)
        sums = np.zeros((2, ITEMS))
        np.add.at(sums, (rows.keys, rows.items), weights[rows.units])
        draw = functools.partial(_releases_of_units, rows, neighbours, clip, delta)
        averages = sums / np.array(SIZES)[:, None]
        cases += _cases((SJLT, name, "distance"), draw, _truth(*sums), count)
        cases += _cases((SJLT, name, "mean"), draw, _truth(*averages), count, staples)
    return cases


def _releases_of_units(
    rows: _Units, neighbours: ss.L1 | ss.SketchL2, clip: Any, delta: float, seed: int
) -> tuple[ss.PrivateSketch, ss.PrivateSketch]:
    projection = MAPS[SJLT](seed=seed, **({} if clip is None else {"resolution": "1/4096"}))
    columns = rows.keys, rows.items, np.ones_like(rows.items), rows.units
    options = {} if clip is None else {"clip": clip}
    table = bound_units([columns], projection, neighbours=neighbours, **options)
    counting = ss.privacy.Counting.of(projection, neighbours, delta=delta, epsilon=1.0)
    noise = AdditiveNoise(epsilon=1.0, delta=delta, neighbours=neighbours, counting=counting)
    publisher = noise.calibrated(projection)
    bits = trials.keyed(f"why {projection} {clip} {seed}".encode())
    x, y = (publisher.for_data(table[key]).draw(bits) for key in range(2))
    return x, y


def _cases(names: tuple[str, str, DifferenceBy], draw: Draw, truth: Floats, count: int, common: int = 0) -> list[Case]:
    """Return the cases of one setting, in which all units have the first ``common`` items."""
    sums: Floats = np.bincount(GROUPS.codes, truth[GROUPS.items]).astype(np.float64)
    asked: dict[str, tuple[Groups | None, Floats, slice]] = {
        ITEM: (None, truth, slice(None)),
        COMMON: (None, truth, slice(common)),
        CATEGORY: (GROUPS, sums, slice(None)),
    }
    if not common:
        del asked[COMMON]

    def drawn(seed: int) -> dict[tuple[str, str], intervals.Trial]:
        x, y = draw(seed)
        measured: dict[tuple[str, str], intervals.Trial] = {}
        for estimator in _ESTIMATORS:
            for what, (groups, every, kept) in asked.items():
                own = every[kept]
                try:
                    gaps = differences_of(x, y, ASKED, groups, names[2], estimator)
                except ss.InvalidInputError:  # no median of this map, or no average
                    continue
                together = gaps.interval(1 - 0.05 / own.size)
                measured[what, estimator] = intervals.trial(
                    own, gaps.value, gaps.standard_error, gaps.interval, together, kept
                )
        return measured

    return [
        Case(names[0], names[1], names[2], what, estimator, *summary)
        for (what, estimator), summary in intervals.simulate(drawn, count).items()
    ]


def _even_or_median(case: Case) -> bool:
    """Return whether errors are as intervals take them: by the law of cells, or nearly normal."""
    even = case.stream.startswith("even") and case.map.startswith("SJLT")
    return case.estimator == "median" or even or case.by == "mean" or case.map.startswith("Rademacher")


def _checks(cases: list[Case]) -> list[Check]:
    fair = [case for case in cases if _even_or_median(case)]
    most = trials.simultaneous_z(len(cases) * ASKED.size, 0.99)
    return [
        Check(
            "no difference of sums is biased; the largest bias",
            max(case.bias for case in cases if case.by == "distance"),
            0.0,
            most,
        ),
        *intervals.no_less(fair),
        Check(
            "95 % intervals by the law of the cells hold together, but for two points and an error; the least share",
            min(case.together for case in cases if case.estimator == "median"),
            0.92,
            1.0,
        ),
    ]


def _finding(cases: list[Case]) -> str:
    fair = [case for case in cases if _even_or_median(case)]
    rest = [case for case in cases if not _even_or_median(case)]
    together = [case.together for case in cases if case.estimator == "median"]
    return (
        "Intervals by the law of the cells, and by the mean where errors are nearly normal, cover: "
        f"{intervals.ranges(fair)}; 95 % ones by the law of the cells hold together in {min(together):.1%} to "
        f"{max(together):.1%}. Intervals by "
        f"the mean elsewhere, where errors are not normal or are few steps of one noise: {intervals.ranges(rest)}."
    )


def _picture(cases: list[Case]) -> Figure:
    panels: dict[str, list[Case]] = {each: [case for case in cases if case.estimator == each] for each in _ESTIMATORS}
    return intervals.dots(
        panels, lambda case: f"{case.map}; {case.stream}; {case.by}; {case.what}", "difference", width=6.0, height=9.0
    )
