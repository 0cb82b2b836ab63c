"""Li and Li 2023, Figures 8 and 9: the chance P₊ that some neighbour changes a sign, by projection and dimension.

P₊ = P(β·max|w_i| ≥ |⟨w, u⟩|), from the paper's 10⁷ draws of w for a u of entries uniform on [-1, 1], β = 1 and 0.1,
beside the paper's approximation for Rademacher entries, (10) = 2Φ(β/‖u‖) - 1, and its bound for Gaussian ones, (11).
The last panel draws (10) for vectors of p ones, whose P₊ is exact: the chance that as many signs are + as are -.
"""

import math

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from benchmarks.data import Data
from benchmarks.figures.ll.drawing import legend_below, look, panels
from benchmarks.figures.ll.draws import GAUSSIAN, LAWS, RADEMACHER
from benchmarks.rows import Effort
from benchmarks.study import Cell, Study, Table
from benchmarks.verdicts import Check
from streamsketch.signs.sign_changes import neighbourhood_change_bound

DIMS = (10, 20, 50, 100, 200, 500, 1000)
BETAS = (1.0, 0.1)
TOPS = {1.0: 0.7, 0.1: 0.08}
"""The last marks of Figure 8's vertical axes, by β."""

_OVERLAP = 0.03  # of the axis: the width of a marker
_ROUNDING = 5e-4  # of a chance: at β = 1 the bound is the chance itself, up to the draws
_DRAWS = {"full": 10**7, "quick": 300_000}


def run(effort: Effort, data: Data) -> Study:
    """Simulate P₊ for every projection, dimension and β."""
    del data
    draws = _DRAWS.get(effort.name, 5000)
    rng = np.random.default_rng(1)
    rows: list[tuple[Cell, ...]] = []
    for p in DIMS:
        vector = rng.uniform(-1, 1, p).astype(np.float32)
        norm = float(np.linalg.norm(vector))
        for place, (name, count) in enumerate(LAWS.items()):
            hits = count(vector, draws, BETAS, 100 * p + place)
            for beta, hit in zip(BETAS, hits, strict=True):
                chance = hit / draws
                error = math.sqrt(max(chance * (1 - chance), 1 / draws) / draws)
                rows.append((beta, name, p, norm, chance, error, formula(name, p, beta / norm)))
    ones = [(p, on_ones(p), normal_approximation(0.1 / math.sqrt(p))) for p in (2, 4, 8, 16, 32, 64, 128, 256, 512)]
    columns = ("β", "projection", "p", "‖u‖", "P₊ simulated", "standard error", "(10) or (11)")
    tables = [
        Table(f"P₊, {draws:,} draws of w each, u uniform", columns, rows),
        Table("P₊ of Rademacher entries, u of p ones, β = 0.1", ("p", "P₊ exact", "(10)"), ones),
    ]
    return Study(
        tables,
        _finding(rows, ones),
        {"chance": _picture(rows, ones, draws)},
        source="Li and Li 2023, Figures 8 and 9",
        checks=checks(rows),
    )


def checks(rows: list[tuple[Cell, ...]]) -> list[Check]:
    """Return what Appendix B.2 says, beside the simulated chances."""
    at = {(beta, name, p): (float(chance or 0), float(error or 0)) for beta, name, p, _, chance, error, _ in rows}
    verdicts = []
    for beta in BETAS:
        where = f"β = {beta:g}, all p"

        def ratio(name: str, p: int, beta: float = beta) -> tuple[float, float]:
            (other, wide), (least, narrow) = at[beta, name, p], at[beta, RADEMACHER, p]
            quotient = other / max(least, 1e-9)
            return quotient, 1.96 * quotient * math.hypot(wide / max(other, 1e-9), narrow / max(least, 1e-9))

        others = [name for name in LAWS if name != RADEMACHER]
        least, error = min(ratio(name, p) for name in others for p in DIMS)
        claim = "Rademacher has the least P₊: the least ratio of another's to it"
        verdicts.append(Check(claim, least, 1.0, math.inf, error, data=where))
        far, error = ratio(GAUSSIAN, DIMS[-1])
        claim = "Rademacher can considerably reduce P₊: ratio of the Gaussian's to it"
        verdicts.append(Check(claim, far, 2.0, math.inf, error, data=f"β = {beta:g}, p = {DIMS[-1]}"))
        for name, number in ((GAUSSIAN, "(11)"), (RADEMACHER, "(10)")):
            for dims, told in ((DIMS[1:], f"p ≥ {DIMS[1]}"), (DIMS[:1], f"p = {DIMS[0]}")):
                gap, error = max(
                    (abs(float(row[4] or 0) - float(row[6] or 0)), 1.96 * float(row[5] or 0))
                    for row in rows
                    if row[:2] == (beta, name) and row[2] in dims
                )
                claim = f"{number} overlaps with its simulation: largest distance, of the axis"
                low, high = -math.inf, _OVERLAP
                verdicts.append(
                    Check(claim, gap / TOPS[beta], low, high, error / TOPS[beta], data=f"β = {beta:g}, {told}")
                )
        top, error = at[beta, GAUSSIAN, DIMS[0]]
        claim = "Figure 8's axis ends above the Gaussian's P₊ at p = 10, by less than a mark"
        mark = {1.0: 0.1, 0.1: 0.02}[beta]
        verdicts.append(Check(claim, top, TOPS[beta] - mark, TOPS[beta], 1.96 * error, data=f"β = {beta:g}"))
    gaps = [(float(row[4] or 0) - float(row[6] or 0), 1.96 * float(row[5] or 0)) for row in rows if row[1] == GAUSSIAN]
    gap, error = max(gaps)
    claim = "(11) bounds the Gaussian's P₊: the largest excess"
    verdicts.append(Check(claim, gap, -math.inf, _ROUNDING, error, data="all p, β"))
    return verdicts


def formula(name: str, p: int, ratio: float) -> float | None:
    """Return the paper's number for this projection, r = β / ‖u‖: (11), (10) or none."""
    if name == GAUSSIAN:
        return neighbourhood_change_bound(p, ratio)
    return normal_approximation(ratio) if name == RADEMACHER else None


def normal_approximation(ratio: float) -> float:
    """Return 2Φ(r) - 1, equation (10)."""
    return math.erf(ratio / math.sqrt(2))


def on_ones(p: int) -> float:
    """Return P(β ≥ |Σ w_i|) for p signs and β < 1: the chance that they sum to 0."""
    return float(stats.binom.pmf(p / 2, p, 0.5)) if p % 2 == 0 else 0.0


def pair(ratio: float) -> float:
    """Return the chance that a Gaussian row gives two neighbours different signs: their angle over π, at most."""
    return 2 * math.asin(ratio / 2) / math.pi


def _finding(rows: list[tuple[Cell, ...]], ones: list[tuple[int, float, float]]) -> str:
    at = {(beta, name, p): float(chance or 0) for beta, name, p, _, chance, _, _ in rows}
    factors = [
        at[1.0, name, DIMS[-1]] / max(at[1.0, RADEMACHER, DIMS[-1]], 1e-9) for name in LAWS if name != RADEMACHER
    ]
    off = {
        name: max(abs(float(row[4] or 0) / float(row[6] or 1) - 1) for row in rows if row[1] == name)
        for name in (GAUSSIAN, RADEMACHER)
    }
    beyond = max(ones, key=lambda row: row[1] / row[2])
    sixteen = next(row for row in ones if row[0] == 16)
    ratio = 1 / next(
        float(norm or 1) for beta, name, p, norm, *_ in rows if (beta, name, p) == (1.0, GAUSSIAN, DIMS[-1])
    )
    return (
        f"At p = {DIMS[-1]} and β = 1 the other entries have {min(factors):.2g} to {max(factors):.2g} times the P₊ of "
        f"Rademacher's. (11) is up to {100 * off[GAUSSIAN]:.1f} % off the simulation, (10) up to "
        f'{100 * off[RADEMACHER]:.1f} %, both in ten dimensions, where Appendix B.2 expects it ("unless p is very '
        'small") and Figure 8 does not show it.\n\n'
        "Where the paper errs: (10) is an approximation for vectors of many different entries and no bound, so no "
        "claim of privacy may rest on it. For vectors of equal entries the sum of signs is often exactly 0: with "
        f"sixteen ones and β = 0.1, P₊ is {sixteen[1]:.3f} and (10) says {sixteen[2]:.3f}; the worst of the last panel "
        f"is p = {beyond[0]}, by a factor of {beyond[1] / beyond[2]:.1f}. And P₊ asks whether *some* neighbour changes "
        "the sign, where differential privacy compares two: a pair's Gaussian signs differ with probability at most "
        f"{pair(ratio):.3f} at p = {DIMS[-1]}, β = 1, against a bound (11) of "
        f"{neighbourhood_change_bound(DIMS[-1], ratio):.3f}. The library counts pairs (Theory 6.2)."
    )


def _picture(rows: list[tuple[Cell, ...]], ones: list[tuple[int, float, float]], draws: int) -> Figure:
    names = [*(f"β = {beta:g}, u uniform on [-1, 1]" for beta in BETAS), "β = 0.1, u of p ones, Rademacher"]
    figure, axes = panels(f"Chance P₊ that some neighbour changes a sign ({draws:,} draws a point)", names)
    for panel, beta in zip(axes, BETAS, strict=False):
        for place, name in enumerate(LAWS):
            own = [row for row in rows if row[:2] == (beta, name)]
            chances, errors = ([float(row[i] or 0) for row in own] for i in (4, 5))
            panel.errorbar(DIMS, chances, yerr=errors, label=name, **look(place))
            if own[0][6] is not None:
                label = "(11), bound for Gaussian" if name == GAUSSIAN else "(10), for Rademacher"
                dashes = "--" if name == GAUSSIAN else ":"
                panel.plot(DIMS, [float(row[6] or 0) for row in own], dashes, color="black", label=label, zorder=5)
        ratios = [beta / float(row[3] or 1) for row in rows if row[:2] == (beta, GAUSSIAN)]
        panel.plot(DIMS, [pair(r) for r in ratios], "-.", color="grey", label="Gaussian, one pair of neighbours")
    axes[2].plot([p for p, _, _ in ones], [exact for _, exact, _ in ones], label="exact", **look(4))
    axes[2].plot([p for p, _, _ in ones], [guess for _, _, guess in ones], ":", color="black")
    for panel in axes:
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("dimension p")
    axes[0].set_ylabel("P₊")
    legend_below(figure, axes[0], 4)
    return figure
