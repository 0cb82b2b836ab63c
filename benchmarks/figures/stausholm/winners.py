"""Stausholm 2021, Section 7: which construction has the least variance, over d, k, s, ε and δ, beside the planner's.

First the paper's three methods with its σ: Laplace noise on an SJLT (Theorem 3), Gaussian noise on an FJLT's input
(Lemma 8), KKMM with the exact sensitivity of its matrix (Note 1). Then all constructions with the least σ, and noise on
the raw histogram where it has no more than k cells; and what `streamsketch.plan` chooses between at the same k and s.
A few settings are measured.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.accuracy import comparison
from benchmarks.data import Data
from benchmarks.figures.stausholm import constructions as of
from benchmarks.figures.stausholm.constructions import LEAST, PAPER, Setting
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.planning.options import Option
from streamsketch.privacy.mechanism import NoisePlace

DIMS, CELLS, SPARSITIES = tuple(1 << power for power in range(6, 15, 2)), (64, 256, 1024), (1, 4, 16)
EPSILONS, EXPONENTS = (0.1, 1.0, 4.0), tuple(range(1, 16))
DISTANCE = 1000.0
PAPERS = (of.SJLT_LAPLACE, of.FJLT_INPUT, of.KKMM)
ALL = (of.SJLT_LAPLACE, of.SJLT_GAUSSIAN, of.FJLT_OUTPUT, of.FJLT_INPUT, of.KKMM, of.NO_MAP)
_COLOURS = dict(
    zip(ALL, (palette.BLUE, palette.ORANGE, palette.RED, palette.PURPLE, palette.GREEN, "#BBBBBB"), strict=True)
)
_CLOSE = 1.1
"""Variances that differ by less are nearly the same."""
_PLAN_SLACK = 1.05**2
"""A plan takes a smaller sketch within 5 % of the least error."""
_MEASURED = ((256, 64, 4, 1e-2), (256, 64, 16, 1e-9), (1024, 64, 4, 1e-6), (1024, 256, 1, 1e-3))
"""d, k, s and δ; ε is 1."""

_How = tuple[Callable[..., ss.projections.Projection], tuple[str, float, NoisePlace]]


@dataclass(frozen=True)
class Point:
    """One setting: variances by construction, and what the planner has there.

    Parameters
    ----------
    at
        The setting.
    paper, least
        Variances with the paper's σ of its methods, and with the least σ of all constructions.
    planned
        The construction of least error among a plan's options with these k and s, or the raw histogram.
    chosen
        The variance of the plan that is free to take fewer cells and nonzeros.
    """

    at: Setting
    paper: Mapping[str, float]
    least: Mapping[str, float]
    planned: str
    chosen: float

    @property
    def winner(self) -> str:
        """The construction of least variance."""
        return _first(self.least)

    @property
    def agrees(self) -> bool:
        """Whether the planner names the construction of least variance."""
        return self.planned == self.winner

    @property
    def planned_loss(self) -> float:
        """The variance of the planner's construction over the least."""
        return self.least[self.planned] / self.least[self.winner]


@dataclass(frozen=True)
class Measured:
    """Releases by one construction at one setting."""

    at: Setting
    name: str
    values: trials.Floats
    predicted: float
    grid: float

    @property
    def observed(self) -> float:
        """See `trials.observed_error`."""
        return trials.observed_error(self.values, self.at.squared_distance)

    @property
    def uncertainty(self) -> float:
        """The relative standard error of `observed`."""
        return trials.uncertainty_of_error(self.values, self.at.squared_distance)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Compute the map, and measure some of it."""
    points = [point(at) for at in _settings(effort)]
    measured = _measure(effort)
    return Study(
        [_shares(points), _losses(points), _simulated(measured)],
        _finding(points),
        {
            "paper": _picture(points, 1.0, planner=False),
            **{f"all-{name}": _picture(points, epsilon, planner=True) for name, epsilon in _NAMED.items()},
        },
        source="Stausholm 2021, Section 7: least variance",
        checks=_checks(points, measured),
    )


_NAMED = {"tenth": 0.1, "one": 1.0, "four": 4.0}


def point(at: Setting) -> Point:
    """Return all variances of a setting, and what the planner has."""
    names = [name for name in ALL if name != of.NO_MAP or at.dim <= at.cells]
    paper = {name: of.variance(name, at, PAPER) for name in PAPERS}
    least = {name: of.variance(name, at, LEAST) for name in names}
    streams = ss.planning.StreamFacts(dim=at.dim, squared_distances=at.squared_distance, spread=min(at.dim, 1000))
    goal = ss.planning.Goal(max_cells=at.cells, max_nonzeros=at.sparsity)
    plan = ss.plan(streams, epsilon=at.epsilon, delta=at.delta, neighbours=trials.NEIGHBOURS, goal=goal)
    own = [
        option for option in plan.options if option.is_raw or (option.cells, option.nonzeros) == (at.cells, at.sparsity)
    ]
    planned = _name(min(own, key=lambda option: option.error))
    return Point(at, paper, least, planned, plan.chosen.estimates[0].variance)


def _name(option: Option) -> str:
    if option.is_raw:
        return of.NO_MAP
    return of.SJLT_LAPLACE if option.mechanism == "laplace" else of.SJLT_GAUSSIAN


def _first(variances: Mapping[str, float]) -> str:
    return min(variances, key=lambda name: variances[name])


def _settings(effort: Effort) -> list[Setting]:
    dims, exponents = (DIMS, EXPONENTS) if effort.shrink == 1 else (DIMS[::3], EXPONENTS[::7])
    if effort.shrink > 100:
        dims, exponents = (256,), exponents[:2]
    grid = itertools.product(EPSILONS, CELLS, SPARSITIES, dims, exponents)
    return [Setting(dim, k, s, epsilon, 10.0**-power, DISTANCE) for epsilon, k, s, dim, power in grid]


# --- measured ---------------------------------------------------------------------------------------------------


def _measure(effort: Effort) -> list[Measured]:
    samples = []
    for dim, cells, sparsity, delta in _MEASURED[: effort.size(20, 1)]:
        at = Setting(dim, cells, sparsity, 1.0, delta, DISTANCE)
        x = np.zeros(dim, dtype=np.int64)
        x[:250] = 2  # ‖z‖² = 1000
        pair = x, np.zeros_like(x)
        shape: dict[str, Any] = {"dim": dim, "sketch_dim": cells, "resolution": "1/16"}
        sjlt = functools.partial(ss.SJLT, sparsity=sparsity, **shape)
        fjlt, gaussian = (
            functools.partial(ss.projections.FJLT, **shape),
            functools.partial(ss.projections.GaussianProjection, **shape),
        )
        hows: dict[str, _How] = {
            of.SJLT_LAPLACE: (sjlt, ("laplace", 0.0, "output")),
            of.SJLT_GAUSSIAN: (sjlt, ("gaussian", delta, "output")),
            of.FJLT_OUTPUT: (fjlt, ("gaussian", delta, "output")),
            of.FJLT_INPUT: (fjlt, ("gaussian", delta, "input")),
            of.KKMM: (gaussian, ("gaussian", delta, "output")),
        }
        for name, (build, how) in hows.items():
            pairs = np.array(
                [comparison.library_estimate(build, pair, how, seed) for seed in range(effort.size(400, 3))]
            )
            grid = math.sqrt(of.variance(name, at, LEAST))
            samples.append(Measured(at, name, pairs[:, 0], math.sqrt(pairs[:, 1].mean()), grid))
    return samples


# --- what was found ---------------------------------------------------------------------------------------------


def _shares(points: Sequence[Point]) -> Table:
    rows = []
    for epsilon, few in itertools.product(EPSILONS, (True, False)):
        own = [point for point in points if point.at.epsilon == epsilon and (point.at.dim <= point.at.cells) == few]
        if own:
            shares = [np.mean([point.winner == name for point in own]) for name in ALL]
            agreed = np.mean([point.agrees for point in own])
            rows.append((epsilon, "d ≤ k" if few else "d > k", len(own), *map(float, shares), float(agreed)))
    return Table(
        f"Share of settings where each has the least variance, least σ, ‖z‖² = {DISTANCE:g}; the planner's agreement",
        ("ε", "", "settings", *ALL, "planner agrees"),
        rows,
        shown=True,
    )


def _losses(points: Sequence[Point]) -> Table:
    """Return how far behind the best each construction is where d > k."""
    rows = []
    for name, epsilon in itertools.product(ALL[:-1], EPSILONS):
        own = [
            point.least[name] / point.least[point.winner]
            for point in points
            if _usual(point) and point.at.epsilon == epsilon
        ]
        if own:
            rows.append((name, epsilon, min(own), float(np.median(own)), max(own)))
    return Table("Variance over the least where d > k, least σ", ("construction", "ε", "least", "median", "most"), rows)


def _simulated(measured: Sequence[Measured]) -> Table:
    return Table(
        f"Standard errors measured at points of the map, ε = 1, ‖z‖² = {DISTANCE:g}",
        (*("d", "k", "s", "δ", "construction"), *("map", "predicted", "observed", "observed / predicted", "± (rel.)")),
        [
            (
                *(sample.at.dim, sample.at.cells, sample.at.sparsity, sample.at.delta, sample.name),
                *(
                    sample.grid,
                    sample.predicted,
                    sample.observed,
                    sample.observed / sample.predicted,
                    sample.uncertainty,
                ),
            )
            for sample in measured
        ],
    )


def _usual(point: Point) -> bool:
    return point.at.dim > point.at.cells


def _checks(points: Sequence[Point], measured: Sequence[Measured]) -> list[Check]:
    usual = [point for point in points if _usual(point)]
    below = [point for point in usual if point.at.delta < math.exp(-point.at.sparsity)]
    grid = f"{len(points)} settings"
    three = "of the paper's three methods, its σ"

    def share(of_them: Sequence[Point], holds: Sequence[bool]) -> float:
        return float(np.mean(holds)) if of_them else math.nan

    free = [point.chosen / point.least[point.winner] for point in points]
    off = [trials.deviation(sample.observed, sample.predicted, sample.uncertainty) for sample in measured]
    worst = max(abs(sample.predicted / sample.grid - 1) for sample in measured)
    return [
        Check(
            "Section 7: for δ < e^(-s) the private SJLT has the best variance of all; share of settings",
            *(share(below, [_first(point.paper) == of.SJLT_LAPLACE for point in below]), 1.0, 1.0),
            data=f"{len(below)} settings with d > k, {three}",
        ),
        Check(
            "Section 7: KKMM always has less variance than noise on an FJLT's input; share of settings",
            *(share(usual, [point.paper[of.KKMM] < point.paper[of.FJLT_INPUT] for point in usual]), 1.0, 1.0),
            data=f"{len(usual)} settings with d > k, the same σ at sensitivity 1",
        ),
        Check(
            "Section 6.2.3: with Gaussian noise the SJLT's variance is at most KKMM's; share of settings",
            *(share(usual, [point.least[of.SJLT_GAUSSIAN] <= point.least[of.KKMM] for point in usual]), 1.0, 1.0),
            data=f"{len(usual)} settings with d > k, least σ",
        ),
        Check(
            "the planner names the construction of least variance at the same k and s; share of settings",
            *(float(np.mean([point.agrees for point in points])), 0.95, 1.0),
            data=grid,
        ),
        Check(
            "where it does not, it is no matter; largest variance over the least",
            *(max(point.planned_loss for point in points), 1.0, _CLOSE),
            data=grid,
        ),
        Check(
            "a plan free to use fewer cells and nonzeros; largest variance over the least at k and s",
            *(max(free), 0.0, _PLAN_SLACK),
            data=grid,
        ),
        trials.as_predicted("the variances of Lemmas 3 and 8 as measured", off, f"{len(measured)} points of the map"),
        Check(
            "the map's standard errors are those of the releases measured; largest relative difference",
            *(worst, 0.0, 0.1),
            data=f"{len(measured)} points of the map",
        ),
    ]


def _finding(points: Sequence[Point]) -> str:
    usual = [point for point in points if _usual(point)]
    shares = {name: float(np.mean([point.winner == name for point in usual])) for name in ALL}
    behind = {
        name: min((point.least[name] / point.least[point.winner] for point in usual), default=math.nan)
        for name in ALL[:-1]
    }
    above = [point for point in usual if point.at.delta > math.exp(-point.at.sparsity)]
    kkmm = np.mean([_first(point.paper) == of.KKMM for point in above]) if above else math.nan
    agreed = float(np.mean([point.agrees for point in points]))
    lost = max((point.planned_loss for point in points if not point.agrees), default=1.0)
    return (
        f"Over {len(usual)} settings with d > k and with the least σ, an SJLT always has the least variance: with "
        f"Laplace noise in {100 * shares[of.SJLT_LAPLACE]:.0f} %, with Gaussian noise in "
        f"{100 * shares[of.SJLT_GAUSSIAN]:.0f} %. The other three never have: KKMM's map and an FJLT have random "
        f"columns, so a sensitivity above 1, and at best {behind[of.KKMM]:.2f} and {behind[of.FJLT_OUTPUT]:.2f} times "
        f"the least variance; noise on the input has {behind[of.FJLT_INPUT]:.2f} times. Where d ≤ k, noise on the raw "
        "histogram has less than all of them. Of the paper's three methods with its σ, KKMM has the least variance in "
        f"{100 * kkmm:.0f} % of the {len(above)} settings with δ > e^(-s): with ‖z‖² = {DISTANCE:,.0f} Laplace noise "
        "can still have it there.\n\n"
        f"Asked at the same k and s, the planner names the best construction in {100 * agreed:.1f} % of all "
        f"{len(points)} settings, and where it does not, the variance is {lost:.3f} times the least at most: there the "
        "two noises are nearly equal, and its noise is discrete. Free to use fewer nonzeros it does better: s = 1 "
        "with Laplace noise has the least variance of all s, and only tails speak for a larger s."
    )


def _picture(points: Sequence[Point], epsilon: float, *, planner: bool) -> Figure:
    """Return the constructions of least variance: of the paper's three, or of all with the planner's crosses."""
    figure, axes = palette.panels(len(SPARSITIES), len(CELLS), width=3.6, height=2.1, sharex=True, sharey=True)
    names = [name for name in ALL if any(point.winner == name for point in points)] if planner else PAPERS
    colours = ListedColormap([_COLOURS[name] for name in ALL])
    for (row, s), (column, k) in itertools.product(enumerate(SPARSITIES), enumerate(CELLS)):
        own = [point for point in points if (point.at.epsilon, point.at.sparsity, point.at.cells) == (epsilon, s, k)]
        dims = sorted({point.at.dim for point in own})
        powers = sorted({round(-math.log10(point.at.delta)) for point in own})
        panel = axes[row][column]
        cells = np.full((len(dims), len(powers)), np.nan)
        for point in own:
            place = dims.index(point.at.dim), powers.index(round(-math.log10(point.at.delta)))
            cells[place] = ALL.index(point.winner if planner else _first(point.paper))
            if planner and not point.agrees:
                panel.plot(place[1], place[0], "x", color=palette.BLACK, ms=6, mew=1.5)
        panel.pcolormesh(
            np.arange(len(powers)), np.arange(len(dims)), cells, cmap=colours, vmin=-0.5, vmax=len(ALL) - 0.5
        )
        edge = np.interp(s / math.log(10), powers, range(len(powers)), left=-0.5, right=np.nan)
        panel.axvline(edge, color=palette.BLACK, lw=1.5, ls="--")
        panel.set_xticks(range(len(powers)), [str(power) for power in powers], fontsize=7)
        panel.set_yticks(range(len(dims)), [f"{dim:,}" for dim in dims], fontsize=8)
        panel.set_title(f"s = {s}, k = {k}", loc="left", fontsize=9)
        panel.grid(visible=False)
        if column == 0:
            panel.set_ylabel("d")
        if row == len(SPARSITIES) - 1:
            panel.set_xlabel("-log₁₀ δ")
    handles = [Patch(color=_COLOURS[name], label=name) for name in names]
    handles.append(axes[0][0].plot([], [], color=palette.BLACK, lw=1.5, ls="--", label="δ = exp(-s)")[0])
    if planner:
        handles.append(
            axes[0][0].plot([], [], "x", color=palette.BLACK, ms=6, mew=1.5, label="the planner names another")[0]
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    never = [name for name in ALL if name not in names]
    what = f"all constructions, least σ (never: {'; '.join(never)})" if planner else "the paper's three methods, its σ"
    figure.suptitle(f"Least variance, {what}: ε = {epsilon:g}, ‖z‖² = {DISTANCE:,.0f}", fontsize=11)
    return figure
