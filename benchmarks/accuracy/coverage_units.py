"""Interval coverage of sums of clipped units, and of averages: by kind of data, clip and number of cells.

Each trial draws a projection, bounds the units of some keys in its sketch space (`SketchL2`), and releases all keys
with counts of units at ε = 1 and δ = 10⁻⁶. Distances and cosines are compared with those of sums in which each unit was
clipped by its exact length, not by that of its sketch, and averages with those of the same sums over the exact numbers
of units: what a sketch adds to clipping is part of what intervals must cover.

How it misleads: units are drawn once, so each table is about one set of them. The numbers of units are small on
purpose, 9 to 29 standard errors of their counts.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.accuracy.intervals import CONFIDENCES, share_error
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.bounding import bound_units
from streamsketch.estimation import Estimates
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.means import mean_norms_of, mean_products_between
from streamsketch.estimation.measures import By, compare_blocks
from streamsketch.release import AdditiveNoise

DIM, SPARSITY = 2048, 4
EPSILON, DELTA = 1.0, 1e-6
DISTANCE, COSINE = "squared distance", "cosine"
MEAN_DISTANCE, MEAN_NORM, MEAN_PRODUCT = "distance of averages", "squared norm of average", "product of averages"
QUANTITIES = (DISTANCE, COSINE, MEAN_DISTANCE, MEAN_PRODUCT, MEAN_NORM)
_MEASURED: dict[str, By] = {DISTANCE: "distance", COSINE: "cosine", MEAN_DISTANCE: "mean"}

Floats = NDArray[np.float64]
Clip = Literal["equal", "scale"]


class Units(NamedTuple):
    """Rows of units: each an item of a unit in a key, of value 1."""

    name: str
    units: NDArray[np.int64]
    keys: NDArray[np.int64]
    items: NDArray[np.int64]
    max_keys: int

    @property
    def vectors(self) -> Floats:
        """What each unit has in each key: (keys, units, items)."""
        vectors = np.zeros((self.keys.max() + 1, self.units.max() + 1, DIM))
        np.add.at(vectors, (self.keys, self.units, self.items), 1.0)
        return vectors


@dataclass(frozen=True)
class Case:
    """One quantity of one setting, over trials and pairs of keys."""

    data: str
    clip: str
    cells: int
    quantity: str
    covered: tuple[float, ...]
    """By `CONFIDENCES`."""
    bias: float
    """The largest of a pair, in standard deviations of its estimates."""
    stated: float
    """The root mean square of standard errors over the standard deviation."""
    refused: int

    def row(self) -> tuple[Any, ...]:
        """Return the table's row."""
        return (self.data, self.clip, self.cells, self.quantity, *self.covered, self.bias, self.stated, self.refused)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Count over kinds of data, both clips and three numbers of cells."""
    count, cases = effort.size(1000, 3), []
    for units in _kinds()[: effort.size(40, 1)]:
        for clip in ("equal", "scale"):
            for cells in (64, 256, 1024)[: effort.size(30, 1)]:
                cases += list(_trials(units, clip, cells, count))
    return Study(
        [
            Table(
                f"Share of intervals that hold the truth, ε = {EPSILON:g}, δ = {DELTA:g}, {count} projections each",
                (
                    *("data", "clip", "k", "quantity"),
                    *(f"{100 * confidence:.0f} %" for confidence in CONFIDENCES),
                    *("largest bias (standard deviations)", "stated / observed error", "refused"),
                ),
                [case.row() for case in cases],
            )
        ],
        _finding(cases, count),
        {"shares": _picture(cases, count)},
        checks=_checks(cases, count),
    )


def _kinds() -> list[Units]:
    return [
        _drawn("shop", (500, 300, 150), median=25),
        _drawn("several keys a unit", (400, 400, 400, 400), median=25, together=3),
        _drawn("few items", (500, 300, 200), median=2, most=5),
        _drawn("alike", (400, 200, 200), median=25, staples=6),
    ]


def _drawn(
    name: str, sizes: tuple[int, ...], *, median: float, most: int = 300, staples: int = 0, together: int = 1
) -> Units:
    """Return units with 1 to ``most`` items of skewed popularity in each key; ``staples`` are in all, four times."""
    rng = np.random.default_rng([len(sizes), int(median), most, staples, together])
    popular = 1.0 / (np.arange(DIM) + 3.0)
    tastes = [popular * np.exp(rng.standard_normal(DIM)) for _ in sizes]
    rows: list[tuple[int, int, NDArray[np.int64]]] = []
    alone = np.repeat(np.arange(len(sizes)), sizes).tolist()
    for unit in range(len(alone) if together == 1 else sizes[0]):
        for key in [alone[unit]] if together == 1 else rng.choice(len(sizes), together, replace=False).tolist():
            count = int(np.clip(rng.lognormal(math.log(median), 1.0), 1, most))
            items = rng.choice(DIM, count, p=tastes[key] / tastes[key].sum())
            rows.append((unit, key, np.concatenate([np.repeat(np.arange(staples), 4), np.unique(items)])))
    lengths = [len(items) for _, _, items in rows]
    units, keys = (np.repeat([row[place] for row in rows], lengths) for place in (0, 1))
    return Units(name, units, keys, np.concatenate([items for _, _, items in rows]), together)


def _trials(units: Units, clip: Clip, cells: int, count: int) -> Iterator[Case]:
    vectors = units.vectors
    lengths = np.sqrt((vectors**2).sum(axis=(0, 2)))
    bound = round(float(np.median(lengths)))
    weights = trials.clip_weights(lengths, bound, clip)
    truths = _truths(np.einsum("u,kui->ki", weights, vectors), vectors.any(axis=2).sum(axis=1))
    columns = units.keys, units.items, np.ones(units.items.size, dtype=np.int64), units.units
    neighbours = ss.SketchL2(bound, unit="customer", max_keys=units.max_keys)
    estimates: dict[str, list[Estimates]] = {quantity: [] for quantity in QUANTITIES}
    for seed in range(count):
        projection = ss.SJLT(dim=DIM, sketch_dim=cells, sparsity=SPARSITY, seed=seed, resolution="1/4096")
        table = bound_units([columns], projection, neighbours=neighbours, clip=clip)
        counting = ss.privacy.Counting.of(projection, neighbours, delta=DELTA)
        noise = AdditiveNoise(epsilon=EPSILON, delta=DELTA, neighbours=neighbours, counting=counting)
        publisher = noise.calibrated(projection)
        bits = trials.keyed(f"{projection} {units.name} {clip}".encode())
        releases = [publisher.for_data(table[key]).draw(bits) for key in range(len(vectors))]
        block = block_of(releases)
        for quantity, by in _MEASURED.items():
            estimates[quantity].append(compare_blocks(block, block, by, same=True))
        estimates[MEAN_PRODUCT].append(mean_products_between(block, block))
        estimates[MEAN_NORM].append(mean_norms_of(block))
    pairs = np.triu_indices(len(vectors), 1)
    for quantity, by_trial in estimates.items():
        place = ... if quantity == MEAN_NORM else pairs
        yield _case((units.name, clip, cells, quantity), by_trial, truths[quantity][place], place)


def _truths(sums: Floats, numbers: NDArray[np.int64]) -> dict[str, Floats]:
    """Return each quantity of all pairs of sums of exactly clipped units: (keys, keys), or (keys,) of norms."""

    def distances(inner: Floats) -> Floats:
        return np.add.outer(np.diag(inner), np.diag(inner)) - 2 * inner

    inner, means = sums @ sums.T, sums / numbers[:, None]
    of_means = means @ means.T
    return {
        DISTANCE: distances(inner),
        COSINE: inner / np.sqrt(np.outer(np.diag(inner), np.diag(inner))),
        MEAN_DISTANCE: distances(of_means),
        MEAN_PRODUCT: of_means,
        MEAN_NORM: np.diag(of_means),
    }


def _case(setting: tuple[str, str, int, str], estimates: list[Estimates], truth: Floats, place: Any) -> Case:
    values = np.array([estimate.value[place] for estimate in estimates])
    errors = np.array([estimate.standard_error[place] for estimate in estimates])
    defined = ~np.isnan(values)
    covered = []
    for confidence in CONFIDENCES:
        intervals = [estimate.interval(confidence) for estimate in estimates]
        holds = np.array([(interval.low[place] <= truth) & (truth <= interval.high[place]) for interval in intervals])
        covered.append(float(holds[defined].mean()))
    spread = np.nanstd(values, axis=0)
    bias = (np.nanmean(values, axis=0) - truth) / spread
    stated = np.sqrt(np.nanmean(errors**2, axis=0)) / spread
    worst = float(bias[np.abs(bias).argmax()])
    return Case(*setting, tuple(covered), worst, float(np.median(stated)), int((~defined).sum()))


def _usual(case: Case) -> bool:
    return case.cells >= 256 and case.data != "alike"


def _checks(cases: list[Case], count: int) -> list[Check]:
    def check(claim: str, share: float, low: float, high: float, settings: int) -> Check:
        return Check(claim, share, low, high, share_error(share, count), data=f"{settings} settings")

    shares = [case.covered[2] for case in cases]
    checks = [check("95 % intervals cover 93.5 % or more; least share", min(shares), 0.935, 1.0, len(shares))]
    usual = [case.covered[2] for case in cases if _usual(case)]
    if usual:
        claim = "with 256 cells and more, and units not alike, they cover 96.5 % or less; greatest share"
        checks.append(check(claim, max(usual), 0.0, 0.965, len(usual)))
    return checks


def _finding(cases: list[Case], count: int) -> str:
    parts = []
    for quantity in QUANTITIES:
        usual = [case.covered[2] for case in cases if case.quantity == quantity and _usual(case)]
        rest = [case.covered[2] for case in cases if case.quantity == quantity and not _usual(case)]
        said = [
            f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % {where}"
            for shares, where in ((usual, "with 256 cells and more"), (rest, "with 64 cells or units nearly alike"))
            if shares
        ]
        parts.append(f"{quantity}: {', '.join(said)}")
    worst = max(cases, key=lambda case: abs(case.bias))
    return (
        f"95 % intervals hold the truth in so many of {count} trials, over the pairs of keys: {'; '.join(parts)}. The "
        f"largest bias is {worst.bias:+.2f} standard deviations ({worst.quantity}, {worst.data}, {worst.clip}, k = "
        f"{worst.cells}). **The map's variance is that of a sum which was not clipped in the sketch**, and mostly too "
        "large for one that was, since each unit's length is then exact (Theory 4.4): so intervals of norms and "
        "products are wide with few cells, the more so the more alike units are."
    )


def _picture(cases: list[Case], count: int) -> Figure:
    kinds, clips = (list(dict.fromkeys(getattr(case, name) for case in cases)) for name in ("data", "clip"))
    figure, axes = palette.panels(len(clips), len(kinds), width=3.6, height=3.2, sharex=True, sharey=True)
    band = 4 * math.sqrt(0.95 * 0.05 / count)
    for row, clip in zip(axes, clips, strict=True):
        for panel, kind in zip(row, kinds, strict=True):
            for place, quantity in enumerate(QUANTITIES):
                own = [case for case in cases if (case.data, case.clip, case.quantity) == (kind, clip, quantity)]
                panel.plot(
                    np.array([case.cells for case in own]) * 1.06 ** (place - 2),
                    [case.covered[2] for case in own],
                    marker=palette.MARKERS[place],
                    color=palette.COLOURS[place],
                    label=quantity,
                )
            panel.axhspan(0.95 - band, min(0.95 + band, 1.0), color="#dddddd", zorder=0)
            panel.axhline(0.95, color=palette.BLACK, lw=1)
            panel.set_xscale("log", base=2)
            panel.set_title(f"{kind}, {clip}", loc="left", fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("cells")
    axes[0][0].set_ylabel("coverage of 95 % intervals")
    palette.legend_below(figure, axes[0][0])
    return figure
