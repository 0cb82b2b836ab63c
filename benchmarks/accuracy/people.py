"""Protecting a person: errors of cosines and distances by every way to clip, against the raw data's exact answers.

Each person is protected by clipping what it adds: its values, to an L1 norm, under Laplace or Gaussian noise; or the
cells of its sketches, to an L2 norm (`SketchL2`), scaled or all weighing the same. For every bound, k and s, a release
of all keys answers three questions about each pair. The same protections with noise on the raw histogram of all items,
instead of a sketch, are beside them.

A quick run over the whole grid finds the two best choices of each kind for each question and ε; these are measured
anew, with other maps and with the library's own clipping and noise. At ε = 1 the better of the two is measured once
more, beside what is planned. So the best of many is not best by luck alone.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

import streamsketch as ss
from benchmarks import palette
from benchmarks.accuracy.bounding import FLIGHTS
from benchmarks.accuracy.people_grid import (
    COSINE,
    DELTA,
    DISTANCE,
    EQUAL,
    GAUSSIAN,
    HISTOGRAM,
    LAPLACE,
    MEAN,
    PROTECTIONS,
    QUESTIONS,
    SCALE,
    Choice,
    Errors,
    Ints,
    Measured,
    People,
    grid,
    measure,
)
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from pipelines.data import make_retail, make_visits
from streamsketch.planning import TypicalUnit, UnitSample, plan_units
from streamsketch.planning.unit_facts import UnitFacts
from streamsketch.planning.unit_options import Question

EPSILONS = (0.5, 1.0, 2.0, 4.0)
CELLS = (0, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SPARSITIES = (1, 4)
SITE_ITEMS = (5, 10, 20, 45, 90, 180)
MANY_ITEMS = 40
"""Items of a typical person from which clipping in sketch space is claimed to halve the error."""

_ASKED: Mapping[str, Question] = {COSINE: "cosine", DISTANCE: "distance", MEAN: "mean"}
_FAMILIES = (LAPLACE, GAUSSIAN, SCALE, EQUAL, HISTOGRAM)
_FINALISTS = 2
_WIDE = 200  # of an axis, as a ratio
_WORST = 2.0  # error that is drawn
_TINY = 100  # shrunk so much, it is a smoke test


def shop(effort: Effort, seed: int = 2026) -> People:
    """Return customers, months and the items bought, each once."""
    people, months, items, _ = _order_lines(effort, seed)
    bounds: dict[str, Any] = {
        "l1_bounds": (2, 5, 10, 20, 40, 80, 160, 320, 640),
        "l2_bounds": (1, 2, 3, 5, 8, 10, 12, 16, 20, 30),
    }
    ones = np.ones(people.size, dtype=np.int64)
    return People("shop", people, months, items, ones, **bounds, key_limits=(None, 1, 2, 4, 8))


def pieces(effort: Effort, seed: int = 2026) -> People:
    """Return customers, months, items and the pieces kept, which have heavy tails."""
    people, months, items, values = _order_lines(effort, seed)
    bounds: dict[str, Any] = {
        "l1_bounds": (5, 20, 50, 100, 200, 500, 1_000, 3_000, 10_000),
        "l2_bounds": (4, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096),
    }
    return People("shop, pieces", people, months, items, values, **bounds, key_limits=(None, 1, 2, 4))


def visits(effort: Effort, seed: int = 2027) -> People:
    """Return patients, clinics and codes, each once."""
    rows = make_visits.visits(patients=effort.size(30_000, 60), codes=effort.size(3_000, 40), seed=seed)
    rows = rows.filter(rows["patient"].is_valid()).combine_chunks()
    people, clinics = rows["patient"].to_numpy(), rows["clinic"].chunk(0).indices.to_numpy()
    triples = _summed(people, clinics, rows["code"].chunk(0).indices.to_numpy())[0]
    bounds: dict[str, Any] = {"l1_bounds": (1, 2, 3, 5, 8, 12, 20, 40, 80), "l2_bounds": (1, 2, 3, 4, 6, 8, 12)}
    return People("visits", *triples, np.ones_like(triples[0]), **bounds, key_limits=(None, 1, 2))


def flights(effort: Effort) -> People:
    """Return aircraft, airlines of a hundred and more, and routes, with the number of departures."""
    rows = pq.read_table(FLIGHTS, columns=["tailnum", "carrier", "route"]).slice(0, effort.size(1 << 19, 600))
    rows = rows.filter(rows["tailnum"].is_valid()).cast(pa.schema([(name, pa.string()) for name in rows.column_names]))
    aircraft = rows.group_by("carrier").aggregate([("tailnum", "count_distinct")])
    large = pc.greater_equal(aircraft["tailnum_count_distinct"], effort.size(100, 5))
    rows = rows.filter(pc.is_in(rows["carrier"], aircraft["carrier"].filter(large)))
    columns = (np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)[1] for column in rows.columns)
    triples, values = _summed(*columns)
    bounds: dict[str, Any] = {
        "l1_bounds": (2, 5, 10, 20, 50, 100, 200, 400, 1_000),
        "l2_bounds": (1, 3, 6, 12, 25, 50, 100, 200),
    }
    return People("flights", *triples, values, **bounds, key_limits=(None, 1, 2))


def sites(items: int, effort: Effort, seed: int = 0) -> People:
    """Return six sites of 500 people, each at one site, with so many items a person on average."""
    rng, each, kinds = np.random.default_rng((items, seed)), effort.size(500, 5), effort.size(2_000, 200)
    popular = (np.arange(kinds) + 20.0) ** -1.0
    common = rng.permutation(popular)
    parts = []
    for site in range(6):
        law = 0.6 * common + 0.4 * rng.permutation(popular)
        counts = 1 + rng.poisson(items * rng.gamma(4, 1 / 4, each))
        who = np.repeat(site * each + np.arange(each), counts)
        parts.append((who, np.full(who.size, site), rng.choice(kinds, who.size, p=law / law.sum())))
    triples, _ = _summed(*map(np.concatenate, zip(*parts, strict=True)))
    bounds = tuple(bound for bound in (1, 2, 5, 10, 20, 40, 80, 160, 320) if bound <= 4 * items)
    name = f"sites, {items} items"
    return People(name, *triples, np.ones_like(triples[0]), bounds, (1, 2, 3, 5, 8, 12, 16), (1,))


def _order_lines(effort: Effort, seed: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return customers, months and items of the large shop, and the pieces kept of each, where any are."""
    n_months = 24 if effort.shrink == 1 else 6
    lines = make_retail.shop(effort.size(20_000, 40), n_months, effort.size(5_000, 60), seed)
    lines = lines.filter(lines["customer"].is_valid())
    month = lines["time"].to_numpy().astype("datetime64[M]").astype(np.int64)
    columns = (
        lines["customer"].to_numpy(),
        month - month.min(),
        lines["item"].to_numpy() - lines["item"].to_numpy().min(),
    )
    (people, months, items), kept = _summed(*columns, values=lines["quantity"].to_numpy())
    some = kept > 0
    return people[some], months[some], items[some], kept[some]


def _summed(people: Any, keys: Any, items: Any, values: Any = None) -> tuple[tuple[Ints, Ints, Ints], Ints]:
    """Return each different (person, key, item) once, and the sum of its values; 1 a row by default."""
    columns = [np.asarray(column, dtype=np.int64) for column in (people, keys, items)]
    totals = pa.table([*columns, np.ones_like(columns[0]) if values is None else values], ["u", "k", "i", "v"])
    sums = totals.group_by(["u", "k", "i"], use_threads=False).aggregate([("v", "sum")])
    u, k, i, v = (sums[name].to_numpy().astype(np.int64) for name in ("u", "k", "i", "v_sum"))
    return (u, k, i), v


def _keys_of(people: People) -> Ints:
    """Return in how many keys each person is."""
    person = np.unique(people.people, return_inverse=True)[1]
    return np.bincount(np.unique(person * people.n_keys + people.keys) // people.n_keys)


def stated(people: People) -> TypicalUnit:
    """Return what an owner may state of people, to two digits: twenty sizes that are equally frequent.

    How often pieces match is not stated: an owner knows how many items are sold, not the data's own Σp².
    """
    person = np.unique(people.people, return_inverse=True)[1]
    keys = _keys_of(people)
    items, pieces = np.bincount(person) / keys, np.bincount(person, people.values) / keys
    groups = np.array_split(np.argsort(items * keys, kind="stable"), min(20, keys.size))

    def typical(amounts: Any) -> list[float]:
        return [float(f"{np.median(amounts[group]):.2g}") for group in groups]

    return TypicalUnit(
        items=typical(items),
        pieces=[max(each) for each in zip(typical(items), typical(pieces), strict=True)],
        keys=[max(1, round(number)) for number in typical(keys)],
        catalogue=float(f"{people.n_items:.2g}"),
        cosine=[
            min(0.98, float(f"{cosine:.2g}"))
            for cosine in np.quantile(people.truth[COSINE], (0.05, 0.25, 0.5, 0.75, 0.95))
        ],
    )


def sampled(people: People) -> UnitSample:
    """Return what a public sample tells of people."""
    return UnitSample.of(people.table, unit="person", index="item", key="key", value="value")


def planned(people: People, facts: UnitFacts, question: str, most_cells: int) -> tuple[Choice, float]:
    """Return what is planned for the sizes of the keys, to two digits, for ε = 1, and its predicted error."""
    sizes = [float(f"{size:.2g}") for size in people.people_in]
    plan = plan_units(
        facts,
        units=sizes if isinstance(facts, TypicalUnit) else float(np.mean(sizes)),
        max_keys=int(_keys_of(people).max()),
        epsilon=1.0,
        delta=DELTA,
        question=_ASKED[question],
        dim=people.n_items,
        max_cells=most_cells,
        max_nonzeros=SPARSITIES[-1],
    )
    chosen, relation = plan.chosen, plan.neighbours
    sketched = EQUAL if chosen.clip == "equal" else SCALE
    valued = LAPLACE if chosen.mechanism == "laplace" else GAUSSIAN
    cells, sparsity = (0, 1) if chosen.is_raw else (chosen.cells, chosen.nonzeros)
    protection = sketched if isinstance(relation, ss.SketchL2) else valued
    return Choice(protection, cells, sparsity, chosen.bound, relation.max_keys), chosen.error


Make = Callable[[Effort], People]
SCENES: Mapping[str, tuple[Make, Make | None]] = {
    "shop": (shop, lambda effort: shop(effort, seed=1)),
    "visits": (visits, lambda effort: visits(effort, seed=1)),
    "flights": (flights, None),
    "shop, pieces": (pieces, lambda effort: pieces(effort, seed=1)),
}
"""Each with data of the same kind that may be public, to plan from, where there are any."""


@dataclasses.dataclass(frozen=True)
class Contest:
    """The best choices for one question and ε, by protection and whether the map is the histogram."""

    people: People
    question: str
    epsilon: float
    best: Mapping[tuple[str, bool], tuple[Choice, Errors]]

    def of(self, wanted: Callable[[Choice], bool]) -> tuple[Choice, Errors]:
        """Return the best of those that are wanted."""
        return min((pair for pair in self.best.values() if wanted(pair[0])), key=lambda pair: pair[1].rmse)

    @property
    def winner(self) -> tuple[Choice, Errors]:
        """The best of all."""
        return self.of(lambda _: True)

    @property
    def l1(self) -> tuple[Choice, Errors]:
        """The best with values clipped by L1, of a sketch or the histogram."""
        return self.of(lambda choice: not choice.in_sketch_space)

    @property
    def gain(self) -> float:
        """The best error under L1 over the best of what is clipped in sketch space, either of any map."""
        return self.l1[1].rmse / self.of(lambda choice: choice.in_sketch_space)[1].rmse

    @property
    def uncertainty(self) -> float:
        """The 95 % half-width of 1 / `gain`, as if the two were independent."""
        both = (self.l1[1].uncertainty, self.of(lambda choice: choice.in_sketch_space)[1].uncertainty)
        return 1.96 / self.gain * float(np.hypot(*both))

    def families(self) -> dict[str, float]:
        """Return the least error of each family."""
        least: dict[str, float] = {}
        for choice, errors in self.best.values():
            least[choice.family] = min(errors.rmse, least.get(choice.family, np.inf))
        return least

    def row(self) -> tuple[Any, ...]:
        """Return the table's row."""
        choice, errors = self.winner
        families = self.families()
        return (
            *(self.people.name, self.question, self.epsilon, str(choice), errors.rmse),
            *(families.get(name) for name in _FAMILIES),
            *(self.l1[1].undefined_share, errors.undefined_share, self.gain),
        )


_COLUMNS = (
    *("data", "question", "ε", "best choice", "its error (RMSE)"),
    *(f"best {name}" for name in _FAMILIES),
    *("undefined under the best L1", "under the best", "best L1 / best in sketch space"),
)


@dataclasses.dataclass(frozen=True)
class Planned:
    """What was planned for a contest, before the data, and how it did."""

    contest: Contest
    facts: str
    choice: Choice
    predicted: float
    errors: Errors

    @property
    def ratio(self) -> float:
        """Its error over the best of the grid."""
        return self.errors.rmse / self.contest.winner[1].rmse

    @property
    def uncertainty(self) -> float:
        """The 95 % half-width of the ratio, as if the two were independent."""
        both = (self.errors.uncertainty, self.contest.winner[1].uncertainty)
        return 1.96 * self.ratio * float(np.hypot(*both))

    def row(self) -> tuple[Any, ...]:
        """Return the table's row."""
        own = self.contest
        setting = (own.people.name, own.question, own.epsilon, self.facts, str(self.choice))
        return *setting, self.predicted, self.errors.rmse, own.winner[1].rmse, self.ratio


_PLAN_COLUMNS = (
    *("data", "question", "ε", "planned from", "planned choice", "predicted error", "its error (RMSE)"),
    *("the best of the grid", "planned / best"),
)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Screen the grid on each set of data, and measure what is best and what is planned."""
    contests: list[Contest] = []
    plans: list[Planned] = []
    by_items: list[Contest] = []
    screened = {}
    for name, (make, other) in list(SCENES.items())[: effort.size(40, 1)]:
        people = make(effort)
        few = effort.shrink > _TINY or name == "shop, pieces"
        screened[name] = _screened(people, (1.0,) if few else EPSILONS, effort)
        facts = {"typical people": stated(people)} | ({} if other is None else {"a sample": sampled(other(effort))})
        more_contests, more_plans = _contests(people, screened[name], facts, effort)
        contests, plans = contests + more_contests, plans + more_plans
    for items in SITE_ITEMS[-effort.size(60, 1) :]:
        people = sites(items, effort)
        facts = {"typical people": stated(people), "a sample": sampled(sites(items, effort, seed=1))}
        more_contests, more_plans = _contests(people, _screened(people, (1.0,), effort), facts, effort)
        by_items, plans = by_items + more_contests, plans + more_plans
    title = (
        f"δ = {DELTA:g}; cosines as they are, distances as shares of the true one; an undefined answer is an error of 1"
    )
    rows = [contest.row() for contest in contests]
    sweep = [(contest.people.typical_items, *contest.row()) for contest in by_items]
    return Study(
        [
            Table(title, _COLUMNS, rows),
            Table("Six sites of 500 people, by items", ("items of a typical person", *_COLUMNS), sweep),
            Table("Plans for ε = 1", _PLAN_COLUMNS, [plan.row() for plan in plans]),
        ],
        _finding(contests, by_items, plans),
        {
            "errors": _errors_picture(contests),
            "items": _items_picture(by_items),
            "bounds": _bounds_picture(screened["shop"]),
        },
        checks=_checks([*contests, *by_items], plans),
    )


def _screened(people: People, epsilons: tuple[float, ...], effort: Effort) -> Measured:
    if effort.shrink < _TINY:
        choices = grid(people, CELLS, SPARSITIES)
    else:
        few = {people.l1_bounds[0], people.equal_length}
        choices = [choice for choice in grid(people, CELLS[:2], SPARSITIES[:1]) if choice.bound in few]
    return measure(people, dict.fromkeys(choices, epsilons), _seeds(people, 0, 4, effort), exact=False)


def _seeds(people: People, first: int, count: int, effort: Effort) -> range:
    """Return so many seeds, and up to three times as many where people have few rows."""
    return range(first, first + effort.size(count * min(3, max(1, 600_000 // people.people.size)), 1))


def _contests(
    people: People, screened: Measured, facts: Mapping[str, UnitFacts], effort: Effort
) -> tuple[list[Contest], list[Planned]]:
    """Measure the best of each kind anew, and what is planned for ε = 1."""
    ranked: dict[tuple[str, float, str, bool], list[Choice]] = {}
    for question, epsilon, choice in sorted(screened, key=lambda key: screened[key].rmse):
        ranked.setdefault((question, epsilon, choice.protection, not choice.cells), []).append(choice)
    finalists = {kind: choices[:_FINALISTS] for kind, choices in ranked.items()}
    plans = {
        (name, asked): planned(people, unit_facts, asked, effort.size(2 * CELLS[-1], 32))
        for name, unit_facts in facts.items()
        for asked in QUESTIONS[: effort.size(_TINY, 1)]
    }
    wanted: dict[Choice, tuple[float, ...]] = {}
    for (_, epsilon, *_), choices in finalists.items():
        for choice in choices:
            released = _released(choice, people)
            wanted[released] = tuple(dict.fromkeys((*wanted.get(released, ()), epsilon)))
    measured = measure(people, wanted, _seeds(people, 1_000, 6, effort), exact=True)
    best: dict[tuple[str, float], dict[tuple[str, bool], tuple[Choice, Errors]]] = {}
    for (question, epsilon, protection, histogram), choices in finalists.items():
        pairs = [(choice, measured[question, epsilon, choice]) for choice in choices]
        best.setdefault((question, epsilon), {})[protection, histogram] = min(pairs, key=lambda pair: pair[1].rmse)
    once_more = [choice for choice, _ in plans.values()]
    once_more += [_released(choice, people) for asked in QUESTIONS for choice, _ in best[asked, 1.0].values()]
    measured = measure(people, dict.fromkeys(once_more, (1.0,)), _seeds(people, 2_000, 18, effort), exact=True)
    for asked in QUESTIONS:
        best[asked, 1.0] = {
            kind: (choice, measured[asked, 1.0, choice]) for kind, (choice, _) in best[asked, 1.0].items()
        }
    epsilons = sorted({epsilon for _, epsilon in best})
    contests = {key: Contest(people, *key, best[key]) for key in itertools.product(QUESTIONS, epsilons)}
    did = [
        Planned(contests[asked, 1.0], name, *plan, measured[asked, 1.0, plan[0]])
        for (name, asked), plan in plans.items()
    ]
    return list(contests.values()), did


def _released(choice: Choice, people: People) -> Choice:
    """Return the choice that is released for the answers of this one."""
    return dataclasses.replace(choice, bound=people.equal_length) if choice.protection == EQUAL else choice


def _checks(contests: list[Contest], plans: list[Planned]) -> list[Check]:
    claim = (
        f"at ε = 1 and from {MANY_ITEMS} items a typical person, the cosine's error is half of the best L1's or less"
    )
    many = [
        contest for contest in contests if contest.question == COSINE and contest.epsilon == 1 and _many(contest.people)
    ]
    unit = "best in sketch space / best L1"
    gains = [
        Check(claim, 1 / contest.gain, 0.0, 0.5, contest.uncertainty, unit, contest.people.name) for contest in many
    ]
    claim, unit = "at ε = 1, a plan's error is within 10 % of the grid's best", "planned / best"
    return gains + [
        Check(
            claim, plan.ratio, 0.0, 1.1, plan.uncertainty, unit, f"{plan.contest.people.name}, {plan.contest.question}"
        )
        for plan in plans
        if plan.facts == "a sample"
    ]


def _many(people: People) -> bool:
    """Whether a typical person has many items, each counted once."""
    return people.typical_items >= MANY_ITEMS and bool((people.values == 1).all())


def _finding(contests: list[Contest], by_items: list[Contest], plans: list[Planned]) -> str:
    parts = []
    for contest in contests:
        if contest.epsilon != 1:
            continue
        choice, errors = contest.winner
        parts.append(
            f"{contest.people.name}, {contest.question}: {errors.rmse:.3g} by {choice}; "
            f"{contest.l1[1].rmse:.3g} by {contest.l1[0]}."
        )
    sweep = "; ".join(
        f"{contest.gain:.2g} at {contest.people.typical_items:g} items"
        for contest in by_items
        if contest.question == COSINE
    )
    return (
        "Cosines are best with a small bound or with equal weights while noise dominates. With little noise a bias is "
        "left, as equal weights compare the average person's mix instead of the totals, and a larger bound is better. "
        "Clipping shortens distances, so they want a bound that few people exceed, or equal weights of a length at "
        "which the average person's distance is as large as the true one: the length must be known from elsewhere. A "
        "few large orders make the distances between totals of pieces, so that hiding any customer changes them.\n\n"
        "At ε = 1, the best choice and the best with values clipped by L1:\n\n"
        + "\n".join(f"- {part}" for part in parts)
        + f"\n\nAt six sites, the cosine's best error under L1 over the best in sketch space is {sweep}.\n\n"
        f"Plans from a sample of other people have {_span(plans, 'a sample')} times the error of the best of the grid, "
        f"plans from twenty typical people {_span(plans, 'typical people')}.\n\n"
        "Noise on the histogram needs a list of all items and a number for each of them in each key; hashed items have "
        "none. It is best where items are few for the number of people and the noise."
    )


def _span(plans: list[Planned], facts: str) -> str:
    ratios = [plan.ratio for plan in plans if plan.facts == facts]
    return f"{min(ratios):.2g} to {max(ratios):.2g}" if ratios else "no"


def _errors_picture(contests: list[Contest]) -> Figure:
    least_noise = [contest for contest in contests if contest.epsilon == EPSILONS[-1]]
    names = list(dict.fromkeys(contest.people.name for contest in least_noise)) or ["shop"]
    figure, axes = palette.panels(len(QUESTIONS), len(names), width=3.4, height=2.7, sharex=True)
    for (row, question), (column, name) in itertools.product(enumerate(QUESTIONS), enumerate(names)):
        panel = axes[row][column]
        own = [contest for contest in contests if (contest.question, contest.people.name) == (question, name)]
        _lines(panel, [(contest.epsilon, contest.families()) for contest in own])
        panel.set_title(f"{name}: {question}", loc="left", fontsize=9)
        panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    for panel in axes[-1]:
        panel.set_xlabel("ε")
    for panel in axes[:, 0]:
        panel.set_ylabel("RMSE")
    palette.legend_below(figure, axes[0][0], columns=5)
    return figure


def _items_picture(by_items: list[Contest]) -> Figure:
    figure, axes = palette.panels(1, 2, width=4.6, height=3.6)
    for panel, question in zip(axes[0], (COSINE, DISTANCE), strict=True):
        own = [contest for contest in by_items if contest.question == question]
        _lines(panel, [(contest.people.typical_items, contest.families()) for contest in own])
        panel.set_xlabel("items of a typical person")
        panel.set_title(f"six sites of 500 people, ε = 1: {question}", loc="left", fontsize=9)
    axes[0][0].set_ylabel("RMSE")
    palette.legend_below(figure, axes[0][0], columns=3)
    return figure


def _lines(panel: Any, points: list[tuple[float, dict[str, float]]]) -> None:
    for place, family in enumerate(_FAMILIES):
        curve = [(x, errors[family]) for x, errors in points if family in errors]
        style = palette.points(place) | {"linestyle": "-", "linewidth": 1.2}
        panel.errorbar(*zip(*curve, strict=True), **style, label=family)
    _logarithmic(panel)


def _logarithmic(panel: Any) -> None:
    """Make both axes logarithmic, with plain numbers at 1, 2 and 5 of each decade, at 1 and 3 of many."""
    panel.set_xscale("log")
    panel.set_yscale("log")
    for axis in (panel.xaxis, panel.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 3) if high > _WIDE * low else (1, 2, 5)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_locator(NullLocator())


def _bounds_picture(screened: Measured) -> Figure:
    """Draw errors against the bound at ε = 1, by the best k and s of each."""
    figure, axes = palette.panels(1, len(QUESTIONS), width=3.6, height=3.4)
    for panel, question in zip(axes[0], QUESTIONS, strict=True):
        for place, protection in enumerate(PROTECTIONS):
            least: dict[Any, float] = {}
            for (asked, epsilon, choice), errors in screened.items():
                if (asked, epsilon, choice.protection) == (question, 1.0, protection) and choice.cells:
                    least[choice.bound] = min(errors.rmse, least.get(choice.bound, np.inf))
            style = palette.points(place) | {"linestyle": "-", "linewidth": 1.2}
            if protection == EQUAL and question == COSINE:
                panel.axhline(next(iter(least.values())), color=style["color"], linewidth=1.2)
            else:
                style |= {"marker": ""} if protection == EQUAL else {}
                bounds = sorted(bound for bound in least if least[bound] < _WORST)
                panel.errorbar(bounds, [least[bound] for bound in bounds], **style, label=protection)
        _logarithmic(panel)
        panel.set_xlabel("bound on a customer (L1 or L2 norm)")
        panel.set_title(f"shop, ε = 1: {question}", loc="left", fontsize=9)
    axes[0][0].set_ylabel("RMSE")
    palette.legend_below(figure, axes[0][1], columns=4)
    return figure
