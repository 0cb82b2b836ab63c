"""Point queries: bias, error and coverage of how often items occur, by map, stream, estimator and kind of noise.

Each trial draws a projection and noise at ε = 1, and asks for frequent, rare and absent items, and what a dictionary of
them misses. Streams are skewed (Zipf with exponent 1.1) or even. Clipped streams are sums of units that were brought to
one length, or shortened, in sketch space: the truth is that of exact lengths. Then a larger sketch and stream, on which
the errors of the fifty most frequent items are relative to their counts.

How it misleads: items of one trial share a projection, so shares of covered items vary more than those of independent
ones; their standard errors are of whole trials.
"""

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import trials
from benchmarks.accuracy import intervals
from benchmarks.accuracy.intervals import CONFIDENCES
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.bounding import bound_units
from streamsketch.estimation import PointEstimator, points_of
from streamsketch.release import AdditiveNoise

ITEMS, ABSENT, UNITS = 1000, 200, 400
ASKED = np.r_[2:42, 300:400, ITEMS : ITEMS + ABSENT]
_WEIGHTS = np.arange(1, ITEMS + 1) ** -1.1
_SHARES = _WEIGHTS / _WEIGHTS.sum()
_TOP = 50
_TARGET = 0.021
"""Root mean square relative error of the most frequent items by the median, as first measured."""

Floats = NDArray[np.float64]
Make = Callable[[int], ss.projections.Projection]
STREAMS = {"skewed": np.rint(20_000 * _SHARES).astype(np.int64), "even": np.full(ITEMS, 20)}
MAPS: dict[str, Callable[..., ss.projections.Projection]] = {
    "SJLT, s = 5, k = 1280": functools.partial(ss.SJLT, sketch_dim=1280, sparsity=5),
    "SJLT, s = 4, k = 1024": functools.partial(ss.SJLT, sketch_dim=1024, sparsity=4),
    "SJLT by graph, s = 5, k = 1000": functools.partial(ss.SJLT, sketch_dim=1000, sparsity=5, construction="graph"),
    "SJLT, s = 2, k = 1024": functools.partial(ss.SJLT, sketch_dim=1024, sparsity=2),
    "CountSketch, k = 1024": functools.partial(ss.CountSketch, sketch_dim=1024),
    "OPORP, dim = 1200, k = 300": functools.partial(ss.projections.OPORP, dim=ITEMS + ABSENT, sketch_dim=300),
    "Rademacher, k = 128": functools.partial(ss.projections.Rademacher, sketch_dim=128),
    "Identity": lambda seed: ss.projections.Identity(dim=ITEMS + ABSENT),  # noqa: ARG005 - as the others
}
NOISES = ("laplace", "gaussian")
_ESTIMATORS: tuple[PointEstimator, ...] = ("mean", "median", "auto")


class Case(NamedTuple):
    """What came out of one setting."""

    map: str
    stream: str
    noise: str
    estimator: str
    bias: float
    """The largest of an item, in its standard errors."""
    error: float
    stated: float
    covered: tuple[float, ...]
    """Shares of intervals, by confidence."""
    together: float
    """Share of trials in which all intervals of a dictionary at 95 % hold."""
    missed: Floats
    """Bias in standard deviations of what a dictionary misses, and the shares that its intervals cover."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate every map, stream and noise; then clipped streams; then a larger sketch."""
    count = effort.size(1000, 3)
    cases: list[Case] = []
    for name in list(MAPS)[: effort.size(80, 2)]:
        for stream, truth in STREAMS.items():
            for noise in NOISES:
                cases += _cases(
                    name, stream, noise, truth.astype(np.float64), functools.partial(_release, truth), count
                )
    clips: tuple[Literal["equal", "scale"], ...] = ("equal", "scale")
    for clip in clips:
        rows, sums = _clipped(clip)
        units = functools.partial(_release_units, rows, clip)
        cases += _cases("SJLT, s = 5, k = 1280", f"units, {clip}", "gaussian", sums, units, count)
    large = _large(effort)
    return Study(
        [
            Table(
                f"Points, {ASKED.size} items, {count} projections and noises each, ε = 1",
                (
                    *("map", "stream", "noise", "estimator", "by auto"),
                    "largest bias of an item, in its standard errors",
                    *("root mean square error", "stated", *intervals.COLUMNS),
                    *("all of a dictionary, 95 %", "missed: bias / standard deviation", "missed: covered by 95 %"),
                ),
                [
                    (
                        *case[:4],
                        taken,
                        *case[4:7],
                        *case.covered,
                        case.together,
                        *map(float, case.missed[[0, 3]]),
                    )
                    for case, taken in _with_auto(cases)
                ],
            ),
            Table(
                "Fifty most frequent of 20,000 items, Zipf 1.1, 300,000 events, s = 5, k = 10,240, Laplace, ε = 1",
                ("estimator", "root mean square relative error", "recall of the fifty"),
                large,
                shown=True,
            ),
        ],
        _finding(cases, large),
        {"coverage": _picture(cases)},
        checks=_checks(cases, large),
        source="Pagh and Thorup 2022, improved utility analysis of private CountSketch",
    )


def _release(
    truth: NDArray[np.int64], projection: ss.projections.Projection, noise: str, seed: int
) -> ss.PrivateSketch:
    sketch = projection.sketch()
    sketch.update(np.arange(ITEMS), truth)
    return _noisy(sketch, trials.Budget(1.0, 1e-6 if noise == "gaussian" else 0.0, noise), seed)


def _noisy(sketch: ss.Sketch, budget: trials.Budget, seed: int) -> ss.PrivateSketch:
    bits = trials.keyed(f"points {sketch.projection} {budget} {seed}".encode())
    return budget.publisher(sketch.projection).for_data(sketch).draw(bits)


def _clipped(clip: str) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], Floats]:
    """Return units and items, an item of value 1 each, and the sum of units that were clipped by exact lengths."""
    rng = np.random.default_rng(20220518)
    units, items = [], []
    truth = np.zeros(ITEMS)
    for unit in range(UNITS):
        bought = np.unique(rng.choice(ITEMS, rng.integers(1, 60), p=_SHARES))
        truth[bought] += trials.clip_weights(np.sqrt([bought.size]), _BOUND, clip)
        units.append(np.full(bought.size, unit))
        items.append(bought)
    return (np.concatenate(units), np.concatenate(items)), truth


_BOUND = 4.0


def _release_units(
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    clip: Literal["equal", "scale"],
    projection: ss.projections.Projection,
    noise: str,
    seed: int,
) -> ss.PrivateSketch:
    neighbours = ss.SketchL2(_BOUND, unit="customer")
    units, items = rows
    columns = np.zeros_like(items), items, np.ones_like(items), units
    fine = projection.replace(resolution="1/4096")
    table = bound_units([columns], fine, neighbours=neighbours, clip=clip)
    publisher = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=neighbours).calibrated(fine)
    return publisher.for_data(table[0]).draw(trials.keyed(f"points {fine} {clip} {noise} {seed}".encode()))


def _cases(
    name: str, stream: str, noise: str, counts: Floats, draw: Callable[..., ss.PrivateSketch], count: int
) -> list[Case]:
    truth = np.concatenate([counts, np.zeros(ABSENT)])[ASKED]
    rest = float(counts @ counts - truth @ truth)
    missed: list[list[float]] = []

    def drawn(seed: int) -> dict[PointEstimator, intervals.Trial]:
        release = draw(MAPS[name](seed=seed), noise, seed)
        of_rest = ss.top(release, ASKED, 1, estimator="mean").missed
        held = [float(intervals.within(rest, *of_rest.interval(each))) for each in CONFIDENCES]
        missed.append([of_rest.value - rest, *held])
        measured = {}
        for each in _ESTIMATORS:
            try:
                points = points_of(release, ASKED, each)
            except ss.InvalidInputError:  # no median of this map
                continue
            together = points.interval(0.95, ASKED.size)
            measured[each] = intervals.trial(
                truth, points.value, points.standard_error, points.interval, together, slice(None)
            )
        return measured

    summaries = intervals.simulate(drawn, count)
    rests = np.array(missed)
    spread = float(rests[:, 0].std()) or 1.0
    of_rest_all = np.concatenate([[rests[:, 0].mean() / spread], rests[:, 1:].mean(axis=0)])
    return [Case(name, stream, noise, each, *summaries[each], of_rest_all) for each in _ESTIMATORS if each in summaries]


def _large(effort: Effort) -> list[tuple[str, float, float]]:
    size = 20_000
    weights = np.arange(1, size + 1) ** -1.1
    counts = np.rint(300_000 * weights / weights.sum()).astype(np.int64)
    errors: dict[PointEstimator, list[Floats]] = {"mean": [], "median": [], "auto": []}
    recalls: dict[PointEstimator, list[float]] = {"mean": [], "median": [], "auto": []}
    for seed in range(effort.size(30, 2)):
        sketch = ss.SJLT(sketch_dim=10_240, sparsity=5, seed=seed).sketch()
        sketch.update(np.arange(size), counts)
        release = _noisy(sketch, trials.Budget(1.0, 0.0, "laplace"), seed)
        for each, own in errors.items():
            value = points_of(release, np.arange(size), each).value
            own.append(value[:_TOP] / counts[:_TOP] - 1)
            recalls[each].append(float((np.argsort(-value)[:_TOP] < _TOP).mean()))
    return [
        (each, math.sqrt(float((np.array(errors[each]) ** 2).mean())), float(np.mean(recalls[each]))) for each in errors
    ]


def _with_auto(cases: list[Case]) -> list[tuple[Case, str]]:
    """Return the cases of mean and median, and whether `auto` took theirs."""
    taken = {case[:3]: (case.error, case.stated) for case in cases if case.estimator == "auto"}
    both = [case for case in cases if case.estimator != "auto"]
    return [(case, "yes" if (case.error, case.stated) == taken[case[:3]] else "") for case in both]


def _even_or_median(case: Case) -> bool:
    """Return whether errors are as intervals take them: by the law of cells, or nearly normal."""
    return case.estimator == "median" or (case.stream == "even" and case.map.startswith(("SJLT", "Rademacher")))


def _checks(cases: list[Case], large: list[tuple[str, float, float]]) -> list[Check]:
    fair = [case for case in cases if _even_or_median(case)]
    error = {name: value for name, value, _ in large}
    # of the largest of as many items, each in its own standard errors
    most = trials.simultaneous_z(len(cases) * ASKED.size, 0.99)
    return [
        Check("no item's estimate is biased; the largest bias", max(case.bias for case in cases), 0.0, most),
        *intervals.no_less(fair),
        Check("auto takes the median on the skewed stream", error["auto"] - error["median"], 0.0, 0.0),
        Check("the median's relative error of the fifty most frequent", error["median"], 0.0, 1.2 * _TARGET),
    ]


def _finding(cases: list[Case], large: list[tuple[str, float, float]]) -> str:
    fair = [case for case in cases if _even_or_median(case)]
    skewed = [case for case in cases if case.estimator == "mean" and not _even_or_median(case)]
    ranges, by_mean = intervals.ranges(fair), intervals.ranges(skewed)
    errors = ", ".join(f"{error:.3f} by the {name} (recall {recall:.2f})" for name, error, recall in large)
    return (
        f"Intervals by the law of the cells, and by the mean where errors are nearly normal, cover: {ranges}. Those by "
        f"the mean elsewhere, where errors are not normal or are few steps of one noise: {by_mean}. The root mean "
        f"square relative error of the fifty most frequent items is {errors}. What the dictionary misses is covered by "
        f"95 % intervals in {min(case.missed[3] for case in cases):.1%} to {max(case.missed[3] for case in cases):.1%}."
    )


def _picture(cases: list[Case]) -> Figure:
    panels: dict[str, list[Case]] = {each: [case for case in cases if case.estimator == each] for each in _ESTIMATORS}
    return intervals.dots(panels, lambda case: f"{case.map}; {case.stream}", "count", width=4.6, height=4.6)
