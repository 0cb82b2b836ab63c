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
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.accuracy.coverage_points import MAPS, NOISES
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.accounting.sensitivity import guarantee_of
from streamsketch.bounding import bound_units
from streamsketch.estimation import DifferenceBy, PointEstimator
from streamsketch.estimation.differences import differences_of
from streamsketch.estimation.items import Groups
from streamsketch.release import AdditiveNoise
from streamsketch.release.additive_noise import CalibratedNoise

ITEMS, ABSENT = 1000, 200
SIZES = (600, 250)
"""Units of each stream."""
CONFIDENCES = (0.5, 0.9, 0.95, 0.99)
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
    covered: Floats
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
                    *("root mean square error", "stated", *(f"covered by {each:.0%}" for each in CONFIDENCES)),
                    "all together, 95 %",
                ),
                [(*case[:8], *map(float, case.covered), case.together) for case in cases],
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
    calibrated = budget.noise(projection)
    publisher = CalibratedNoise(projection, guarantee_of(calibrated, budget.spent, trials.NEIGHBOURS), calibrated)
    bits = trials.keyed(f"why {projection} {budget} {seed}".encode())
    found = []
    for values in counts:
        sketch = projection.sketch()
        sketch.update(np.arange(ITEMS), values.astype(np.int64))
        found.append(publisher.for_data(sketch).draw(bits))
    return found[0] if weight == 1 else found[0].scaled(weight), found[1]


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
            weights = _LENGTH / lengths if clip == "equal" else np.minimum(1.0, _LENGTH / lengths)
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
    estimators: tuple[PointEstimator, ...] = ("mean", "median")
    errors: dict[tuple[str, str], list[Any]] = {}
    for seed in range(count):
        x, y = draw(seed)
        for estimator in estimators:
            for what, (groups, every, kept) in asked.items():
                own = every[kept]
                try:
                    found = differences_of(x, y, ASKED, groups, names[2], estimator)
                except ss.InvalidInputError:  # no median of this map, or no average
                    continue
                ends = [found.interval(one) for one in (*CONFIDENCES, 1 - 0.05 / own.size)]
                holds = [_within(own, low[kept], high[kept]) for low, high in ends]
                shares = [*(float(one.mean()) for one in holds[:-1]), float(holds[-1].all())]
                parts = found.value[kept] - own, found.standard_error[kept], shares
                errors.setdefault((what, estimator), []).append(parts)
    return [_case((*names, *which), of_trials) for which, of_trials in errors.items()]


def _case(names: tuple[str, str, str, str, str], of_trials: list[Any]) -> Case:
    found, stated, covered = (np.array(part) for part in zip(*of_trials, strict=True))
    spread = found.std(axis=0) / math.sqrt(len(found))
    bias = float(np.abs(found.mean(axis=0) / np.where(spread > 0, spread, np.inf)).max())
    error, claimed = math.sqrt(float((found**2).mean())), math.sqrt(float((stated**2).mean()))
    shares = covered.mean(axis=0)
    return Case(*names, bias, error, claimed, shares[:-1], float(shares[-1]))


def _within(truth: Any, low: Any, high: Any) -> Any:
    slack = 1e-9 * np.maximum(1.0, np.abs(truth))
    return (low - slack <= truth) & (truth <= high + slack)


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
        *(
            Check(
                f"{confidence:.0%} intervals cover no less, but for two points; the least",
                min(float(case.covered[place]) for case in fair),
                confidence - 0.02,
                1.0,
            )
            for place, confidence in enumerate(CONFIDENCES)
        ),
        Check(
            "95 % intervals by the law of the cells hold together, but for two points and an error; the least share",
            min(case.together for case in cases if case.estimator == "median"),
            0.92,
            1.0,
        ),
    ]


def _ranges(cases: list[Case]) -> str:
    shares = [[float(case.covered[place]) for case in cases] for place in range(len(CONFIDENCES))]
    return ", ".join(
        f"{confidence:.0%} in {min(own):.1%} to {max(own):.1%}"
        for confidence, own in zip(CONFIDENCES, shares, strict=True)
        if own
    )


def _finding(cases: list[Case]) -> str:
    fair = [case for case in cases if _even_or_median(case)]
    rest = [case for case in cases if not _even_or_median(case)]
    together = [case.together for case in cases if case.estimator == "median"]
    return (
        f"Intervals by the law of the cells, and by the mean where errors are nearly normal, cover: {_ranges(fair)}; "
        f"95 % ones by the law of the cells hold together in {min(together):.1%} to {max(together):.1%}. Intervals by "
        f"the mean elsewhere, where errors are not normal or are few steps of one noise: {_ranges(rest)}."
    )


def _picture(cases: list[Case]) -> Figure:
    figure, axes = palette.panels(1, 2, width=6.0, height=9.0, sharex=True, sharey=True)
    names = list(dict.fromkeys(f"{case.map}; {case.stream}; {case.by}; {case.what}" for case in cases))
    for panel, estimator in zip(axes[0], ("mean", "median"), strict=True):
        own = [case for case in cases if case.estimator == estimator]
        for place, confidence in enumerate(CONFIDENCES):
            panel.plot(
                [float(case.covered[place]) for case in own],
                [names.index(f"{case.map}; {case.stream}; {case.by}; {case.what}") for case in own],
                linestyle="",
                marker=palette.MARKERS[place],
                markersize=5,
                color=palette.COLOURS[place],
                label=f"{confidence:.0%}",
            )
            panel.axvline(confidence, color=palette.COLOURS[place], lw=0.8)
        panel.set_yticks(range(len(names)), names)
        panel.set_title(estimator, loc="left", fontsize=10)
        panel.set_xlabel("share of intervals that hold the difference")
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    return figure
