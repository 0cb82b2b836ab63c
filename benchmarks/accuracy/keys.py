"""Which keys stand out: planned probabilities of being below the noise floor, against releases.

A shop's customers live in 37 countries, most of them in a few. A plan made from the order lines predicts for each
country how likely its release is below the noise floor. Then the lines are bounded and released again and again, each
time with another projection, and it is counted how often that is so.

How it misleads: the plan knows the very lines that are released. In practice the numbers and sizes of customers are
those of last year, or guesses, and the plan is as wrong as they are; plans of typical customers are beside it.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

import streamsketch as ss
from benchmarks import palette
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from pipelines.data import make_retail
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.cosines import below_noise_floor
from streamsketch.planning import TypicalUnit, UnitOption, UnitPlan, UnitSample, plan_units
from streamsketch.planning.unit_keys import KeyPlanner

COUNTRIES, CUSTOMERS = 37, 2_000
CELLS = (64, 1024)
WAYS = (("sketch-l2", "equal", "gaussian"), ("sketch-l2", "scale", "gaussian"), ("l1", "scale", "laplace"))
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
ALLOWED = 0.03
"""By which the gamma law of a norm may be off, besides chance."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Plan, and release ``count`` times, for each way to clip and two sizes of the sketch."""
    count = effort.size(300, 3)
    lines = _lines(effort)
    sample = UnitSample.of(lines, unit="customer", index="item", key="country", value="quantity")
    rows: list[tuple[Any, ...]] = []
    keys: list[tuple[Any, ...]] = []
    checks = []
    for cells in CELLS:
        plan = plan_units(sample, unit="customer", max_keys=1, max_nonzeros=1, max_cells=cells, **PRIVACY)
        for way in WAYS:
            option = _best(plan, way, cells)
            planned, typical = _planned(plan, option), _typical(plan, option, lines)
            observed = _frequencies(lines, option, plan.names, count)
            off = float(np.abs(planned - observed).max())
            name = f"{option.neighbours.label}, {option.clip}, {option.mechanism}, k = {cells}"
            lost = [int((each >= 0.5).sum()) for each in (planned, typical, observed)]
            rows.append((name, *lost, off, float((planned - observed).mean()), float(np.abs(typical - observed).max())))
            keys += [
                (name, key, units, *each)
                for key, units, *each in zip(plan.names, plan.units, planned, observed, strict=True)
            ]
            chance = 4 * float(np.sqrt(0.25 / count))
            checks.append(
                Check("the largest difference of 37 is chance, and 0.03", off, 0.0, ALLOWED + chance, data=name)
            )
    return Study(
        [
            Table(
                f"{COUNTRIES} countries, {count} releases each at ε = 1, δ = 1e-6 for a customer",
                (
                    *("way", "planned below", "planned below, typical customers", "below in most releases"),
                    *("largest difference of a probability", "mean difference", "largest, typical customers"),
                ),
                rows,
                shown=True,
            )
        ],
        _finding(rows, count),
        {"probabilities": _picture(keys)},
        checks=checks,
    )


def _lines(effort: Effort) -> pa.Table:
    """Return order lines of named customers, who live in countries of very different size."""
    shop = make_retail.shop(customers=effort.size(CUSTOMERS, 200), months=3)
    shop = shop.filter(pc.is_valid(shop["customer"]))
    likely = 1 / np.arange(1.0, COUNTRIES + 1) ** 1.3
    who = shop["customer"].to_numpy() - shop["customer"].to_numpy().min()
    home = np.random.default_rng(3).choice(COUNTRIES, int(who.max()) + 1, p=likely / likely.sum())
    names = pa.array([f"country {place:02d}" for place in home[who]])
    return shop.set_column(shop.schema.get_field_index("country"), "country", names)


def _best(plan: UnitPlan, way: tuple[str, str, str], cells: int) -> UnitOption:
    options = [option for option in plan.options if (option.neighbours.kind, option.clip, option.mechanism) == way]
    return min((option for option in options if option.cells == cells), key=lambda option: option.error)


def _planned(plan: UnitPlan, option: UnitOption) -> np.ndarray:
    return KeyPlanner(plan.facts, np.array(plan.units), averages=False).below(option)


def _typical(plan: UnitPlan, option: UnitOption, lines: pa.Table) -> np.ndarray:
    """Return what a plan of three typical customers says: quartiles of items and pieces, and how often items match."""
    own = lines.group_by(["customer", "item"]).aggregate([("quantity", "sum")])
    own = own.group_by("customer").aggregate([([], "count_all"), ("quantity_sum", "sum")])
    items = np.quantile(own["count_all"].to_numpy(), (0.25, 0.5, 0.75)).clip(1)
    pieces = np.maximum(np.quantile(own["quantity_sum_sum"].to_numpy(), (0.25, 0.5, 0.75)), items)
    sold = np.unique(lines["item"].to_numpy(), return_counts=True)[1] / lines.num_rows
    typical = TypicalUnit(items=items.tolist(), pieces=pieces.tolist(), match=float((sold**2).sum()))
    return KeyPlanner(typical, np.array(plan.units), averages=False).below(option)


def _frequencies(lines: pa.Table, option: UnitOption, names: tuple[str, ...], count: int) -> np.ndarray:
    lost = np.zeros(len(names))
    for seed in range(count):
        agreement = ss.Agreement(
            option.projection.replace(seed=1 + seed),
            index="item",
            key="country",
            value="quantity",
            unit="customer",
            neighbours=option.neighbours,
            clip=option.clip,
            counting=option.layout.counting,
        )
        table: Any = ss.bound(lines, agreement)
        released = table.release(
            **PRIVACY, neighbours=option.neighbours, mechanism=option.mechanism, keys_are_public=True
        )
        lost += below_noise_floor(block_of([released[name] for name in names]))
    return lost / count


def _finding(rows: list[tuple[Any, ...]], count: int) -> str:
    worst, mean = max(row[4] for row in rows), max(abs(row[5]) for row in rows)
    typical = max(row[6] for row in rows)
    return (
        f"Planned probabilities differ from the frequencies of {count} releases by {worst:.3f} at most, and by "
        f"{mean:.3f} on average. From three typical customers, quartiles of items and pieces, they are off by up to "
        f"{typical:.2f} near the floor, where a little more or less length decides."
    )


def _picture(keys: list[tuple[Any, ...]]) -> Figure:
    figure, ((panel,),) = palette.panels(1, 1)
    for place, name in enumerate(dict.fromkeys(key[0] for key in keys)):
        planned, observed = zip(*(key[3:5] for key in keys if key[0] == name), strict=True)
        panel.plot(planned, observed, palette.MARKERS[place], color=palette.COLOURS[place], label=name, markersize=4)
    panel.plot([0, 1], [0, 1], "-", color=palette.BLACK, linewidth=0.5)
    panel.set(xlabel="planned probability of being below the noise floor", ylabel="share of releases")
    panel.legend(fontsize=6)
    return figure
