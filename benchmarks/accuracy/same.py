"""Has it changed? False alarms and power of `sameness` and `changes`, by map, noise, shape of the difference and size.

False alarms are counted where streams are just as far apart as the tolerance: over projections and noises, for
differences of one item, two, five, two large ones among many, and many. Tolerances are such that the variance of the
map is a tenth of that of the noise, equal to it, and ten times as much; or there is no noise. Averages are of units
that were clipped in sketch space and counted: of the same units, and of two samples of one population. Power is
computed from the law, and beside it are that of a noisy histogram (the identity map) at the same ε, and the false
alarms that a threshold on the normal interval of the distance makes.

How it misleads: five noises share a projection. Units come from one population that was drawn once.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ndtri

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.bounding import bound_units
from streamsketch.estimation import GapLaw, NoiseTerm
from streamsketch.estimation.changes import controlled, typical_distance
from streamsketch.estimation.noise_effect import noise_unit
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.projections import Projection
from streamsketch.release import AdditiveNoise

DIM, CELLS, NOISES = 256, 64, 5
LEVELS = (0.05, 0.01, 0.001)
BUDGETS = (trials.Budget(1.0, 0.0, "laplace"), trials.Budget(1.0, 1e-6, "gaussian"))
SHARES = (0.1, 1.0, 10.0)
"""The map's variance over the noise's."""
SHAPES: Mapping[str, NDArray[np.float64]] = {
    "one item": np.array([1.0]),
    "two": np.array([1.0, -1.0]),
    "five": np.ones(5),
    "two among many": np.r_[1.0, -1.0, np.full(100, 0.1)],
    "many": np.tile([1.0, -1.0], 100),
}
MAPS: Mapping[str, tuple[Callable[..., Projection], NoisePlace]] = {
    **{name: (functools.partial(make, dim=DIM, sketch_dim=CELLS), "output") for name, make in trials.MAPS.items()},
    "Rademacher, k = 8": (functools.partial(trials.MAPS["Rademacher"], dim=DIM, sketch_dim=8), "output"),
    "Identity": (lambda seed: ss.projections.Identity(dim=DIM), "output"),  # noqa: ARG005 - it has no seed
    "Rademacher, noise before it": (functools.partial(trials.MAPS["Rademacher"], dim=DIM, sketch_dim=CELLS), "input"),
    "SRHT, noise before it": (functools.partial(trials.MAPS["SRHT"], dim=DIM, sketch_dim=CELLS), "input"),
}
DOMAINS = (1 << 10, 1 << 14, 1 << 18)
WINDOWS, BOUND, ITEMS = 30, 4, 1000

Floats = NDArray[np.float64]


class Alarms(NamedTuple):
    """Shares of alarms where nothing, or no more than the tolerance, differs."""

    what: str
    noise: str
    tolerance: str
    shape: str
    shares: tuple[float, ...]
    """By level."""
    draws: int


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate maps, averages and series, and compute power."""
    seeds = effort.size(2000, 4)
    cases = [case for name in list(MAPS)[: effort.size(80, 2)] for case in _sums(name, seeds)]
    averages = list(_averages(effort.size(1000, 2)))
    series = list(_series(effort.size(1000, 4), effort.size(200, 2)))
    powers, normal = _powers(effort.size(80, 1))
    columns = "stream", "noise", "tolerance", "difference", *(f"false alarms at {100 * level:g} %" for level in LEVELS)
    return Study(
        [
            Table(f"False alarms of sums, {seeds * NOISES} draws each", columns, [_row(case) for case in cases]),
            Table("False alarms of averages", (*columns, "draws"), [(*_row(case), case.draws) for case in averages]),
            Table(
                f"Series of {WINDOWS} windows, level 5 %",
                ("noise", "against", "tolerance", "changes", "control", "false alarms", "changes found"),
                series,
            ),
            Table(
                "The least distance found in 80 % of cases at the level 5 %, ε = 1",
                ("noise", "k", "sketch", *(f"histogram of {size:,}" for size in DOMAINS)),
                powers,
            ),
            Table(
                "False alarms of a threshold on the normal interval of a distance",
                ("noise", "k", *(f"at {100 * level:g} %" for level in LEVELS)),
                normal,
            ),
        ],
        _finding(cases, averages),
        {"alarms": _picture(cases)},
        checks=_checks([*cases, *averages], series),
        source="Theory 4.7",
    )


def _row(case: Alarms) -> tuple[Any, ...]:
    return (*case[:4], *case.shares)


def _sums(name: str, seeds: int) -> Iterator[Alarms]:
    """Yield false alarms of a map, at tolerance 0 and at others."""
    make, place = MAPS[name]
    model = make(seed=0)
    vectors = np.zeros((len(SHAPES), DIM))
    for row, shape in zip(vectors, SHAPES.values(), strict=True):
        row[: shape.size] = shape / np.linalg.norm(shape)
    order = np.random.default_rng(5).permutation(DIM)
    maps = [
        projection.scale * projection.columns(np.arange(DIM))[:, order]
        for projection in map(_seeded(make), range(seeds))
    ]
    signals = np.array([matrix @ vectors.T for matrix in maps])  # (seeds, k, shapes)
    for budget in (None, *BUDGETS):
        if budget is None and place == "input":
            continue
        noise = np.zeros((seeds, NOISES, model.sketch_dim))
        terms: tuple[NoiseTerm, ...] = ()
        if budget is not None:
            noise_law = budget.noise(model)
            unit = noise_unit(model, place)
            size = model.dim if place == "input" else model.sketch_dim
            bits = trials.keyed(f"same {name} {budget}".encode())
            drawn = (noise_law.sample(2 * seeds * NOISES * size, bits) * unit).reshape(2, seeds, NOISES, size)
            noise = drawn[0] - drawn[1]
            terms = (NoiseTerm(noise_law, unit, Fraction(2)),)
            if place == "input":
                noise = np.array([own @ matrix.T for own, matrix in zip(noise, maps, strict=True)])
        spread = GapLaw(model, terms, place).of_noise[1]
        shares = (0.0, *SHARES) if budget else (1.0,)
        for share in shares:
            tolerance = math.sqrt(share**0.5 * spread / math.sqrt(2 / model.sketch_dim)) if budget else 1.0
            law = GapLaw(model, terms, place, tolerance if share else 0.0)
            lines = [law.line(level) for level in LEVELS]
            for at, what in enumerate(SHAPES if share else ["nothing"]):
                cells = noise + (law.tolerance * signals[:, None, :, at] if share else 0.0)
                gaps = (cells**2).sum(axis=2)
                alarms = tuple(float((gaps >= line * (1 + 1e-12)).mean()) for line in lines)
                says = f"{share:g} of the noise" if budget else "no noise"
                yield Alarms(name, str(budget or "none"), says if share else "0", what, alarms, gaps.size)


def _seeded(make: Callable[..., Projection]) -> Callable[[int], Projection]:
    return lambda seed: make(seed=seed)


def _averages(count: int) -> Iterator[Alarms]:
    """Yield false alarms of averages of the same units, and of samples of one population."""
    rng = np.random.default_rng(7)
    weights = np.arange(1, ITEMS + 1) ** -1.0
    shares = weights / weights.sum()
    people = [np.unique(rng.choice(ITEMS, rng.integers(2, 40), p=shares)) for _ in range(4000)]
    neighbours = ss.SketchL2(BOUND, unit="customer", max_keys=1)
    for clip in ("equal", "scale"):
        for what, sizes in (("the same units", (400, 800)), ("two samples", (400, 700))):
            p_values = []
            for seed in range(count):
                projection = ss.SJLT(sketch_dim=256, sparsity=4, seed=seed, resolution="1/4096")
                own = np.random.default_rng([seed, 11])
                first = own.choice(len(people), sizes[0], replace=False)
                samples = what == "two samples"
                second = own.choice(len(people), sizes[1], replace=False) if samples else np.r_[first, first]
                drawn = [people[person] for person in np.r_[first, second]]
                lengths = [items.size for items in drawn]
                units = np.repeat(np.arange(len(drawn)), lengths)
                items = np.concatenate(drawn)
                rows = ((units >= sizes[0]).astype(np.int64), items, np.ones_like(items), units)
                table = bound_units([rows], projection, neighbours=neighbours, clip=clip)
                counting = ss.privacy.Counting.of(projection, neighbours, delta=1e-6, epsilon=1.0)
                publisher = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=neighbours, counting=counting)
                bits = trials.keyed(f"same {clip} {what} {seed}".encode())
                released = publisher.calibrated(projection)
                x, y = (released.for_data(table[key]).draw(bits).with_clip(clip) for key in range(2))
                p_values.append(ss.sameness(x, y, by="mean", samples=samples).p_value)
            alarms = tuple(float((np.array(p_values) <= level).mean()) for level in LEVELS)
            yield Alarms(f"averages, {clip}", str(BUDGETS[1]), "0", what, alarms, count)


def _series(count: int, fewer: int) -> Iterator[tuple[Any, ...]]:
    """Yield false alarms in series, and changes found: of the size that one test finds in 80 % of cases, or thrice."""
    projection = ss.SJLT(sketch_dim=128, sparsity=4, seed=7)
    for budget in BUDGETS:
        term = NoiseTerm(budget.noise(projection), projection.cell_unit)
        law = GapLaw(projection, (term, term))
        visible = law.visible()
        for number in (0, 3, 10):
            for against in ("previous", "first"):
                yield from _controls(law, term, budget, (against, number, visible, 0.0), count)
        yield from _controls(law, term, budget, ("previous", 1, 6 * visible, 2 * visible), fewer)


def _controls(
    law: GapLaw, term: NoiseTerm, budget: trials.Budget, setting: tuple[str, int, float, float], count: int
) -> Iterator[tuple[Any, ...]]:
    against, number, size, usual = setting
    rng = np.random.default_rng([number, int(usual)])
    bits = trials.keyed(f"series {budget} {setting}".encode())
    cells = law.projection.sketch_dim
    alarms: dict[str, list[tuple[float, float]]] = {"any": [], "rate": []}
    for _ in range(count):
        changed = np.zeros(WINDOWS, dtype=np.bool_)
        changed[rng.choice(np.arange(1, WINDOWS), number, replace=False)] = True
        steps = np.hypot(np.where(changed, size, 0.0), usual * np.exp(0.3 * rng.standard_normal(WINDOWS)))
        signals = np.cumsum(rng.standard_normal((WINDOWS, cells)) * steps[:, None] / math.sqrt(cells), axis=0)
        noisy = signals + budget.noise(law.projection).sample(WINDOWS * cells, bits).reshape(WINDOWS, cells) * term.step
        before = slice(0, -1) if against == "previous" else slice(0, 1)
        gaps = ((noisy[1:] - noisy[before]) ** 2).sum(axis=1)
        differs = changed[1:] if against == "previous" else np.cumsum(changed[1:]) > 0
        own = law
        if usual:
            values = gaps - 2 * cells * term.moments.k2
            sizes = np.maximum(values, 0.0)
            noise = 8 * term.moments.k2 * sizes + cells * (2 * term.moments.k4 + 8 * term.moments.k2**2)
            own = GapLaw(
                law.projection, law.noise, tolerance=typical_distance(values, np.sqrt(2 * sizes**2 / cells + noise))
            )
        p_values = np.array([own.p_value(gap) for gap in gaps])
        for control, kept in alarms.items():
            _, alarm = controlled(p_values, 0.05, control)  # type: ignore[arg-type] # one of the two
            wrong = int((alarm & ~differs).sum())
            kept.append((wrong > 0 if control == "any" else wrong / max(int(alarm.sum()), 1), _mean(alarm[differs])))
    for control, kept in alarms.items():
        wrong, right = np.array(kept, dtype=np.float64).T
        says = "typical" if usual else "0"
        detected = float(right[~np.isnan(right)].mean()) if number else None
        yield str(budget), against, says, number, control, float(wrong.mean()), detected


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else math.nan


def _powers(most: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return visible distances of sketches and histograms, and false alarms of normal thresholds, from the law."""
    powers: list[tuple[Any, ...]] = []
    normal: list[tuple[Any, ...]] = []
    for budget in BUDGETS:
        histograms = [_law(ss.projections.Identity(dim=size), budget).visible() for size in DOMAINS]
        for cells in (16, 64, 256, 1024, 4096)[:most]:
            law = _law(ss.CountSketch(sketch_dim=cells, seed=7), budget)
            powers.append((str(budget), cells, law.visible(), *histograms))
            mean, deviation = law.of_noise
            normal.append((str(budget), cells, *(law.p_value(mean - ndtri(level) * deviation) for level in LEVELS)))
    return powers, normal


def _law(projection: Projection, budget: trials.Budget) -> GapLaw:
    return GapLaw(projection, (NoiseTerm(budget.noise(projection), projection.cell_unit, Fraction(2)),))


def _finding(cases: list[Alarms], averages: list[Alarms]) -> str:
    exact = [case for case in cases if case.tolerance == "0"]
    allowed = [case for case in cases if case.tolerance != "0"]
    parts = []
    for name, own in (("tolerance 0", exact), ("other tolerances", allowed), ("averages", averages)):
        ranges = (
            f"{min(shares):.2%} to {max(shares):.2%} at {level:.1%}"
            for place, level in enumerate(LEVELS)
            if (shares := [case.shares[place] for case in own])
        )
        parts.append(f"{name}: {', '.join(ranges)}")
    return "False alarms, at " + "; ".join(parts) + "."


def _checks(alarms: list[Alarms], series: list[tuple[Any, ...]]) -> list[Check]:
    z = trials.simultaneous_z(len(alarms) * len(LEVELS), 0.99)
    draws = min(case.draws for case in alarms)
    checks = [
        Check(
            f"no more than {level:.1%} of false alarms of any map, noise and shape; the largest share",
            max(case.shares[place] for case in alarms),
            0.0,
            level + z * math.sqrt(level / draws) + z**2 / draws,
        )
        for place, level in enumerate(LEVELS)
    ]
    checks.append(
        Check(
            "false alarms in series are at most 5 %, but for an error; the most",
            max(row[5] for row in series),
            0.0,
            0.065,
        )
    )
    return checks


def _picture(cases: list[Alarms]) -> Figure:
    figure, axes = palette.panels(1, len(LEVELS), width=3.4, height=6.0, sharey=True)
    names = list(dict.fromkeys(case.what for case in cases))
    for place, level in enumerate(LEVELS):
        panel = axes[0][place]
        for number, noise in enumerate(dict.fromkeys(case.noise for case in cases)):
            own = [case for case in cases if case.noise == noise]
            panel.plot(
                [100 * case.shares[place] for case in own],
                [names.index(case.what) for case in own],
                linestyle="",
                marker=palette.MARKERS[number],
                markersize=4,
                color=palette.COLOURS[number],
                label=noise,
            )
        panel.axvline(100 * level, color=palette.COLOURS[0], lw=0.8)
        panel.set_yticks(range(len(names)), names)
        panel.set_xlabel(f"false alarms at {100 * level:g} %")
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    return figure
