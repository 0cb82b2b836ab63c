"""All pairs of keys together: joint estimates of cosines beside those of each pair alone and a histogram's, by ε.

Aircraft, customers and patients are protected in all of their keys. Each data set is bounded once for each map and
sketch dimension, and released at each ε. The histogram has a cell for each item of a public list. The exact answer is
the cosine of the same bounded sums in a sketch without noise of 2^14 cells.

How it misleads: 12 maps a setting, so errors are known to a few hundredths, and the coverage of a pair to 6 %: of a
thousand pairs whose intervals cover in 95 %, the least covered one is covered in 8 of 12. Pairs without a cosine
of their own, below the noise floor, count as 0. That is too good for pairs alone if cosines are small, and too bad if
they are large.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure

import streamsketch as ss
from benchmarks import palette
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from pipelines.data import make_retail, make_visits
from streamsketch.projections import Identity

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CELLS = (128, 512)
EXACT = 1 << 14
_FLIGHTS = Path(make_retail.__file__).parent / "flights.parquet"


class Rows(NamedTuple):
    """A data set, and the names of its columns."""

    table: pa.Table
    key: str
    item: str
    unit: str
    in_time: bool


class Case(NamedTuple):
    """One data set at one ε and sketch dimension."""

    name: str
    keys: int
    cells: int
    epsilon: float
    alone: float
    """Root mean square error of the cosines of pairs alone."""
    together: float
    stated: float
    """Root mean square of the stated errors of joint estimates."""
    undefined: float
    """Share of pairs without a cosine of their own."""
    covered: float
    """By 95 % intervals, on average over pairs and draws."""
    least: float
    """The same of the pair that is covered in the fewest draws."""
    width: float
    """Of 95 % intervals, on average."""
    weight: float
    """The model's, on average."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Release four data sets at six ε, with two sketch dimensions and maps, and as histograms."""
    maps = effort.size(12, 1)
    sets = _sets(effort)
    cases = [case for name, rows in sets.items() for case in _compare(name, rows, maps)]
    histograms = {
        (name, epsilon): error for name, rows in sets.items() for epsilon, error in _histograms(rows, effort.size(4, 1))
    }
    best = _best(cases)
    ratios = [case.together / case.alone for case in cases if case.alone > 0]
    return Study(
        [
            Table(
                f"Root mean square errors of all cosines, δ = 1e-6, {maps} maps",
                (
                    *("data", "keys", "cells", "ε", "each pair alone", "together", "stated", "undefined alone"),
                    *("covered by 95 %", "least covered pair", "mean width", "weight of the model"),
                ),
                cases,
            ),
            Table(
                "The best over the sketch dimensions, and a noisy histogram",
                ("data", "ε", "each pair alone", "together", "ratio", "histogram"),
                [(*each, *errors, errors[1] / errors[0], histograms[each]) for each, errors in best.items()],
            ),
        ],
        _finding(best, max(ratios, default=0.0)),
        {"errors": _picture(best, histograms)},
        checks=[
            Check(
                "together is not worse than each pair alone by more than a twentieth, in any setting",
                max(ratios, default=0.0),
                0.0,
                1.05,
            )
        ],
    )


def _sets(effort: Effort) -> dict[str, Rows]:
    flights = pq.read_table(_FLIGHTS, columns=["scheduled_hour", "tailnum", "route", "origin"])
    flights = flights.take(np.arange(0, flights.num_rows, flights.num_rows // effort.size(flights.num_rows, 2_000)))
    month = pc.strftime(flights["scheduled_hour"], format="%Y-%m")
    hour = pc.binary_join_element_wise(
        flights["origin"].cast("string"), pc.strftime(flights["scheduled_hour"], format="%H"), " "
    )
    flights = flights.append_column("month", month).append_column("airport and hour", hour)
    shop = make_retail.shop(customers=effort.size(4_000, 100), months=24, items=2_000)
    shop = shop.append_column("month", pc.strftime(shop["time"], format="%Y-%m"))
    shop = shop.filter(pc.greater(shop["quantity"], 0))
    visits = make_visits.visits(patients=effort.size(30_000, 500))
    return {
        "flights by month": Rows(flights, "month", "route", "tailnum", in_time=True),
        "flights by airport and hour": Rows(flights, "airport and hour", "route", "tailnum", in_time=False),
        "a shop by month": Rows(shop, "month", "item", "customer", in_time=True),
        "visits by clinic": Rows(visits, "clinic", "code", "patient", in_time=False),
    }


def _compare(name: str, rows: Rows, maps: int) -> list[Case]:
    tables = [[bounded(rows, cells, 1 + seed) for seed in range(maps)] for cells in CELLS]
    exact = bounded(rows, EXACT, 99)[0]
    names = sorted(exact)
    wanted = ss.pairwise([exact[key] for key in names], by="cosine").value
    pairs = np.triu_indices(len(names), 1)
    cases = []
    for cells, several in zip(CELLS, tables, strict=True):
        for epsilon in EPSILONS:
            each = [errors(table, epsilon, names, wanted, pairs, in_time=rows.in_time) for table in several]
            alone, together, stated, undefined, width, weight = np.mean(
                [numbers[:-1] for numbers in each], axis=0
            ).tolist()
            covered = np.mean([numbers[-1] for numbers in each], axis=0)
            roots = alone**0.5, together**0.5, stated**0.5
            shares = undefined, float(covered.mean()), float(covered.min()), width, weight
            cases.append(Case(name, len(names), cells, epsilon, *roots, *shares))
    return cases


def _histograms(rows: Rows, draws: int) -> list[tuple[float, float]]:
    """Return the errors of cosines of noisy histograms by ε, pairs below the noise floor counted as 0."""
    codes = rows.table[rows.item].combine_chunks().dictionary_encode()
    items = codes.indices.cast("int64")
    rows = rows._replace(table=rows.table.append_column("item number", items), item="item number")
    table, agreed = _bounded_by(rows, Identity(dim=len(codes.dictionary)))
    names = sorted(table)
    wanted = ss.pairwise([table[key] for key in names], by="cosine").value
    pairs = np.triu_indices(len(names), 1)
    budget: dict[str, Any] = {"delta": 1e-6, "neighbours": agreed.neighbours, "public_keys": names, "again": True}
    by_epsilon = []
    for epsilon in EPSILONS:
        squares = []
        for _ in range(draws):
            released = table.release(epsilon=epsilon, **budget)
            own = ss.pairwise([released[key] for key in names], by="cosine").value
            squares.append(float(((np.clip(np.nan_to_num(own), -1.0, 1.0) - wanted)[pairs] ** 2).mean()))
        by_epsilon.append((epsilon, float(np.mean(squares)) ** 0.5))
    return by_epsilon


def bounded(rows: Rows, cells: int, seed: int) -> tuple[Any, ss.Agreement]:
    """Return a table of units that are bounded in all keys, in a map of this seed, and its agreement."""
    return _bounded_by(rows, ss.SJLT(sketch_dim=cells, sparsity=4, seed=seed))


def _bounded_by(rows: Rows, projection: ss.projections.Projection) -> tuple[Any, ss.Agreement]:
    keys = len(pc.unique(rows.table[rows.key].drop_null()))
    columns: dict[str, Any] = {"key": rows.key, "index": rows.item, "unit": rows.unit}
    agreed = ss.agree(rows.table, projection, **columns, max_keys=keys, missing="drop")
    return ss.bound(rows.table, agreed), agreed


def errors(
    drawn: tuple[Any, ss.Agreement], epsilon: float, names: list[Any], wanted: Any, pairs: Any, *, in_time: bool
) -> tuple[Any, ...]:
    """Return mean squared errors alone and together, what is stated, shares and widths, and which intervals hold."""
    table, agreed = drawn
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "neighbours": agreed.neighbours}
    released = table.release(**budget, public_keys=names, again=True)
    joint = ss.pairwise(released, by="cosine", together=True, order="time" if in_time else None)
    alone = joint.alone.value[pairs]  # type: ignore[attr-defined]
    own = np.clip(np.nan_to_num(alone), -1.0, 1.0)
    truth, (low, high) = wanted[pairs], joint.interval()
    inside = (low[pairs] <= truth) & (truth <= high[pairs])
    return (
        float(((own - truth) ** 2).mean()),
        float(((joint.value[pairs] - truth) ** 2).mean()),
        float(joint.variance[pairs].mean()),
        float(np.isnan(alone).mean()),
        float((high - low)[pairs].mean()),
        joint.model.weight,  # type: ignore[attr-defined]
        inside,
    )


def _best(cases: list[Case]) -> dict[tuple[str, float], tuple[float, float]]:
    settings = dict.fromkeys((case.name, case.epsilon) for case in cases)
    chosen = {each: [case for case in cases if (case.name, case.epsilon) == each] for each in settings}
    return {
        each: (min(case.alone for case in some), min(case.together for case in some)) for each, some in chosen.items()
    }


def _finding(best: dict[tuple[str, float], tuple[float, float]], worst: float) -> str:
    said = "; ".join(
        f"{name}: {alone:.3f} alone, {together:.3f} together"
        for (name, epsilon), (alone, together) in best.items()
        if epsilon == 1
    )
    return (
        f"At ε = 1, with the better of {len(CELLS)} sketch dimensions for each: {said}. In the worst setting, the "
        f"error together is {worst:.3f} times that of pairs alone."
    )


def _picture(best: dict[tuple[str, float], tuple[float, float]], histograms: dict[tuple[str, float], float]) -> Figure:
    names = list(dict.fromkeys(name for name, _ in best))
    figure, axes = palette.panels(1, len(names), width=3.0, height=3.2, sharey=True)
    for panel, name in zip(axes[0], names, strict=True):
        lines = {
            "each pair alone": [best[name, epsilon][0] for epsilon in EPSILONS],
            "together": [best[name, epsilon][1] for epsilon in EPSILONS],
            "noisy histogram": [histograms[name, epsilon] for epsilon in EPSILONS],
        }
        for place, (label, errors) in enumerate(lines.items()):
            panel.loglog(EPSILONS, errors, marker=palette.MARKERS[place], color=palette.COLOURS[place], label=label)
        panel.set_title(name, loc="left", fontsize=10)
        panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        panel.minorticks_off()
        panel.set_xlabel("ε")
    axes[0][0].set_ylabel("root mean square error of cosines")
    palette.legend_below(figure, axes[0][0])
    return figure
