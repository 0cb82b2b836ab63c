"""The map's error in sums of units that were brought to one length in sketch space: stated, beside what it is.

Each trial draws a hashed map, sketches the units, brings each sketch to the length of the bound or only shortens the
longer ones, rounds it to whole cells, adds noise, and estimates norms, products and cosines of two such sums. Truths
are those of sums of units that were clipped by their exact lengths.

What an estimate may say of its error without knowing the units is bounded by what units could be. So most data here are
adversarial: units with one and the same item, two groups with nothing in common (which attain the bound), groups that
point apart, units of one item each, few units, a coarse grid.

How it misleads: items are independent under these maps, and numbers of units are known but for their noise.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure

import streamsketch as ss
from benchmarks import palette
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.core.numbers import Floats
from streamsketch.estimation import Estimates
from streamsketch.estimation.blocks import Block, Units, block_of
from streamsketch.estimation.cosines import cosines_between
from streamsketch.estimation.distances import norms_of, products_between
from streamsketch.estimation.equal_units import EqualUnits
from streamsketch.estimation.means import mean_norms_of, mean_products_between

DIM = 256
BOUND = 5.0
NORM, PRODUCT, MEAN_NORM, MEAN_PRODUCT, COSINE = "norm", "product", "norm of average", "product of averages", "cosine"
Clip: TypeAlias = Literal["equal", "scale"]

_AT_ONCE = 50  # trials, all pairs of which are estimated


class Sums(NamedTuple):
    """Two sums of units: their vectors, (units, DIM), and how often each is in either sum."""

    name: str
    units: Floats
    weights: Floats
    """Of the first and the second sum: (2, units)."""


class Setting(NamedTuple):
    """How units are sketched."""

    clip: Clip = "equal"
    cells: int = 64
    sparsity: int = 1
    deviation: float = 0.0
    """Of the noise in a cell, in bounds: 4.2 at ε = 1, δ = 1e-6."""
    steps: int = 1 << 14
    """The bound, in cells."""
    length: float = 1.0
    """The median length of units, in bounds."""

    def __str__(self) -> str:
        noise = f"noise {self.deviation:g}" if self.deviation else "no noise"
        long = f", lengths {self.length:g}" if self.clip == "scale" else ""
        return f"{self.clip}{long}, k {self.cells}, s {self.sparsity}, {noise}, {self.steps:,} steps"


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate all data in all settings."""
    count, rng, cases = effort.size(200, 20), np.random.default_rng(5), []
    for sums in kinds()[: effort.size(40, 3)]:
        for setting in settings()[: effort.size(40, 4)]:
            cases += list(trials(sums, setting, count, rng))
    cases = [case for case in cases if not math.isnan(case.covered)]
    columns = ("data", "setting", "quantity", "coverage of 95 %", "bias / error", "stated / error", "without the clip")
    return Study(
        [Table(f"Sums of clipped units, {count} maps each", columns, [case.row() for case in cases])],
        _finding(cases, count),
        {"errors": _picture(cases)},
        checks=_checks(cases, count),
    )


@dataclass(frozen=True)
class Case:
    """One quantity of one setting."""

    sums: str
    setting: Setting
    quantity: str
    covered: float
    """Of 95 % intervals."""
    bias: float
    """In observed errors."""
    stated: float
    """Median standard error over the root mean square error about the truth."""
    before: float
    """The same, of an estimate that knows nothing of the clip."""

    def row(self) -> tuple[Any, ...]:
        """Return the table's row."""
        return (self.sums, str(self.setting), self.quantity, self.covered, self.bias, self.stated, self.before)


def shoppers(count: int, pieces: int, skew: float, rng: np.random.Generator) -> Floats:
    """Return units that buy so many pieces of items of skewed popularity: (count, DIM)."""
    popular = np.arange(1, DIM + 1) ** -skew
    return rng.multinomial(pieces, popular / popular.sum(), size=count).astype(np.float64)


def groups(*shares: tuple[float, float], cosine: float = 0.0) -> tuple[Floats, Floats]:
    """Return one unit of each group, which have nothing in common but ``cosine``, and how many are in either sum."""
    count, items = 400, 60
    width = DIM // (len(shares) + 1)
    units = np.zeros((len(shares), DIM))
    for place in range(len(shares)):
        units[place, width * place : width * place + min(items, width)] = 1.0
    units /= np.linalg.norm(units, axis=1)[:, None]
    if cosine > 0:
        units = math.sqrt(1 - cosine) * units
        units[:, width * len(shares) :] = math.sqrt(cosine / (DIM - width * len(shares)))
    elif cosine < 0:  # two groups, of which the second takes back some of the first
        units[1] = cosine * units[0] + math.sqrt(1 - cosine**2) * units[1]
    return units, np.rint(count * np.array(shares).T)


def kinds() -> list[Sums]:
    """Return the data."""
    rng = np.random.default_rng(7)
    item = np.zeros((1, DIM))
    item[0, 3] = 1.0
    popular = np.arange(1, DIM + 1) ** -1.0
    halves = np.repeat(np.eye(2), 150, axis=1)
    few = np.repeat(np.eye(2), 12, axis=1)
    return [
        Sums("one and the same item", item, np.array([[300.0], [200.0]])),
        Sums("shoppers, 10 pieces", shoppers(300, 10, 1.0, rng), halves),
        Sums("shoppers, 30 pieces", shoppers(300, 30, 1.2, rng), halves),
        Sums("shoppers, 200 pieces", shoppers(300, 200, 1.2, rng), halves),
        Sums("few shoppers", shoppers(24, 30, 1.2, rng), few),
        Sums("one item each", np.eye(DIM), rng.multinomial(300, popular / popular.sum(), size=2).astype(np.float64)),
        Sums("two groups", *groups((0.5, 0.5), (0.5, 0.5))),
        Sums("two groups, unequal", *groups((0.8, 0.7), (0.2, 0.3))),
        Sums("groups in common", *groups((0.5, 0.4), (0.3, 0.3), (0.2, 0.3), cosine=0.5)),
        Sums("groups apart", *groups((0.75, 0.25), (0.25, 0.75), cosine=0.2)),
        Sums("orthogonal", *groups((1.0, 0.02), (0.0, 0.98))),
        Sums("groups that take back", *groups((0.5, 0.6), (0.5, 0.4), cosine=-0.2)),
        Sums("one made of another", *mixed()),
    ]


def mixed(count: int = 400) -> tuple[Floats, Floats]:
    """Return two sums that point the same way: of units with two kinds of items, and of units with one or the other."""
    units, _ = groups((0.5, 0.5), (0.5, 0.5))
    both = units.sum(axis=0) / math.sqrt(2)
    return np.vstack([units, both]), count * np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])


def settings() -> list[Setting]:
    """Return how units are sketched."""
    return [
        Setting(),
        Setting(cells=16),
        Setting(cells=256, sparsity=4),
        Setting(deviation=4.2),
        Setting(cells=256, sparsity=4, deviation=4.2),
        Setting(steps=64),
        Setting(deviation=0.5, steps=1024),
        Setting(clip="scale", length=1.0),
        Setting(clip="scale", length=0.3),
        Setting(clip="scale", length=3.0),
    ]


def trials(sums: Sums, setting: Setting, count: int, rng: np.random.Generator) -> Iterator[Case]:
    """Simulate one setting."""
    units = sums.units[sums.weights.sum(axis=0) > 0]
    weights = sums.weights[:, sums.weights.sum(axis=0) > 0]
    lengths = np.linalg.norm(units, axis=1)
    if setting.clip == "scale":
        units = units * (BOUND * setting.length / np.median(lengths))
        lengths = np.linalg.norm(units, axis=1)
    exact = units * bounded(lengths, setting.clip)[:, None]
    vectors, numbers = weights @ exact, weights.sum(axis=1)
    noisy = np.zeros((count, 2, setting.cells))
    for trial in range(count):
        clipped = sketched(units, setting, rng)
        noisy[trial] = weights @ clipped
    deviation = round(setting.deviation * setting.steps)
    noisy += np.rint(deviation * rng.standard_normal(noisy.shape))
    counted = numbers + setting.deviation * rng.standard_normal((count, 2))
    blocks = [made_block(noisy[:, side], counted[:, side], setting) for side in range(2)]
    inner, means = vectors @ vectors.T, vectors / numbers[:, None]
    cosine = inner[0, 1] / math.sqrt(inner[0, 0] * inner[1, 1])
    yield _case(sums, setting, NORM, inner[0, 0], [norms_of(block) for block in both(blocks[0])])
    yield _case(sums, setting, PRODUCT, inner[0, 1], pairs(products_between, *blocks))
    yield _case(
        sums, setting, MEAN_NORM, float(means[0] @ means[0]), [mean_norms_of(block) for block in both(blocks[0])]
    )
    yield _case(sums, setting, MEAN_PRODUCT, float(means[0] @ means[1]), pairs(mean_products_between, *blocks))
    yield _case(sums, setting, COSINE, cosine, pairs(_cosines, *blocks))


def bounded(lengths: Floats, clip: Clip) -> Floats:
    """Return by what units of these lengths are multiplied."""
    factors = BOUND / np.where(lengths > 0, lengths, 1.0)
    return factors if clip == "equal" else np.minimum(factors, 1.0)


def sketched(units: Floats, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return units under one map, clipped and rounded toward zero to whole cells: (units, cells)."""
    width = setting.cells // setting.sparsity
    matrix = np.zeros((DIM, setting.cells))
    for slot in range(setting.sparsity):
        places = slot * width + rng.integers(0, width, DIM)
        matrix[np.arange(DIM), places] = rng.choice([-1.0, 1.0], DIM) / math.sqrt(setting.sparsity)
    cells = units @ matrix
    factors = bounded(np.linalg.norm(cells, axis=1), setting.clip)
    steps = cells * factors[:, None] * (setting.steps / BOUND)
    rounded: Floats = np.where(factors[:, None] == 1, steps, np.trunc(steps + 1e-9 * np.sign(steps)))
    return rounded


def made_block(cells: Floats, numbers: Floats, setting: Setting) -> Block:
    """Return sums with noise as releases would be."""
    count, unit = len(cells), BOUND / setting.steps
    template = block_of([ss.SJLT(dim=DIM, sketch_dim=setting.cells, sparsity=setting.sparsity, seed=1).sketch()])
    variance = setting.deviation**2
    upper = numbers + 2 * math.sqrt(variance)
    rounding = 4 * setting.cells / setting.steps**2
    return template._replace(
        cells=cells.astype(np.int64), cell_units=np.full(count, unit), secret=False, steps=np.full(count, unit),
        k2=np.full(count, (setting.deviation * BOUND) ** 2), k4=np.zeros(count),
        units=Units(numbers, np.full(count, variance)),
        equal=EqualUnits((upper * BOUND) ** 2, np.full(count, rounding)) if setting.clip == "equal" else None,
    )  # fmt: skip


def both(block: Block) -> tuple[Block, Block]:
    """Return a block as it is, and as one that states nothing of its clip."""
    return block, block._replace(equal=None)


def pairs(estimate: Any, first: Block, second: Block) -> list[Estimates]:
    """Return estimates of each trial's pair: with the clip and without."""
    tables = []
    for left, right in zip(both(first), both(second), strict=True):
        parts = []
        for start in range(0, len(left.cells), _AT_ONCE):
            kept = slice(start, start + _AT_ONCE)
            table = estimate(_some(left, kept), _some(right, kept))
            parts.append([np.diagonal(part) for part in table.parts()])
        tables.append(table.with_parts(*(np.concatenate(own) for own in zip(*parts, strict=True))))
    return tables


def _some(block: Block, kept: slice) -> Block:
    arrays = {name: getattr(block, name)[kept] for name in ("cells", "cell_units", "k2", "k4", "steps")}
    units = Units(*(part[kept] for part in block.units or ()))
    return block._replace(**arrays, units=units, equal=block.equal and block.equal.at(kept))


def _cosines(first: Block, second: Block) -> Estimates:
    return cosines_between(first, second, same=False)


def _case(sums: Sums, setting: Setting, quantity: str, truth: float, estimates: list[Estimates]) -> Case:
    now, before = estimates
    defined = ~np.isnan(now.value)
    low, high = now.interval(0.95)
    near = 1e-9 * abs(truth)
    holds = (low - near <= truth) & (truth <= high + near)
    error = math.sqrt(float(np.mean((now.value[defined] - truth) ** 2))) if defined.any() else math.nan
    observed = max(error, 1e-12)
    return Case(
        sums.name, setting, quantity, float(holds[defined].mean()) if defined.any() else math.nan,
        float(np.mean(now.value[defined] - truth)) / observed,
        float(np.median(now.standard_error[defined])) / observed,
        float(np.median(before.standard_error[defined])) / observed,
    )  # fmt: skip


def _checks(cases: list[Case], count: int) -> list[Check]:
    shares = [case.covered for case in cases if case.quantity != COSINE]
    mean, least = float(np.mean(shares)), min(shares)
    error = math.sqrt(0.95 * 0.05 / count)
    claims = [
        ("on average, norms and products are held by 95 % intervals in 93.5 % or more", mean, 0.935),
        ("and in no setting by less than 92 %", least, 0.92),
    ]
    return [Check(claim, share, low, 1.0, 1.96 * error, data=f"{len(shares)} settings") for claim, share, low in claims]


def _finding(cases: list[Case], count: int) -> str:
    parts = []
    for quantity in (NORM, PRODUCT, MEAN_NORM, MEAN_PRODUCT, COSINE):
        for clip in ("equal", "scale"):
            own = [case for case in cases if (case.quantity, case.setting.clip) == (quantity, clip)]
            if not own:
                continue
            stated, before = (np.median([getattr(case, name) for case in own]) for name in ("stated", "before"))
            shares = [case.covered for case in own]
            parts.append(
                f"- {quantity}, {clip}: stated error {stated:.2f} times the observed one (median), {before:.2f} "
                f"without the clip; intervals of 95 % hold in {100 * np.mean(shares):.1f} % of cases, at least "
                f"{100 * min(shares):.1f} %"
            )
    lines = "\n".join(parts)
    return (
        f"Over {count} maps a setting:\n\n{lines}\n\nCosines have no less error where units are clipped in sketch "
        "space, as lengths cancel anyway. **Where two sums point nearly the same way but consist of other units, and "
        "noise is small, intervals of cosines miss**: the map's error is then of the order of 1/k, not of 1 - ρ²."
    )


def _picture(cases: list[Case]) -> Figure:
    quantities = (NORM, PRODUCT, COSINE)
    figure, axes = palette.panels(1, len(quantities), width=4.4, height=4.4, sharex=True, sharey=True)
    for panel, quantity in zip(axes[0], quantities, strict=True):
        for place, clip in enumerate(("equal", "scale")):
            own = [case for case in cases if (case.quantity, case.setting.clip) == (quantity, clip)]
            panel.plot(
                [case.before for case in own], [case.stated for case in own], palette.MARKERS[place], ls="",
                color=palette.COLOURS[place], label=clip,
            )  # fmt: skip
        panel.plot([0.5, 20], [0.5, 20], color=palette.BLACK, lw=1)
        panel.axhline(1, color="#888888", lw=1)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(quantity, loc="left", fontsize=10)
        panel.set_xlabel("stated / observed error, without the clip")
    axes[0][0].set_ylabel("stated / observed error")
    palette.legend_below(figure, axes[0][0])
    return figure
