"""Li and Li 2023, Figures 8 and 9: the chance P₊ that some neighbour changes a sign, by projection and dimension.

P₊ = P(β·max|w_i| ≥ |⟨w, u⟩|), simulated for a u of entries uniform on [-1, 1] and β = 1 and 0.1, beside the paper's
approximation for Rademacher entries, (10) = 2Φ(β/‖u‖) - 1, and its bound for Gaussian ones, (11). The last panel draws
(10) for vectors of p ones, whose P₊ is exact: the chance that as many signs are + as are -.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from benchmarks.data import Data
from benchmarks.figures.ll.drawing import legend_below, look, panels
from benchmarks.rows import Effort
from benchmarks.study import Cell, Study, Table
from streamsketch.signs.sign_changes import neighbourhood_change_bound

Floats = NDArray[np.float32]
Law = Callable[[np.random.Generator, tuple[int, int]], Floats]

DIMS = (10, 20, 50, 100, 200, 500, 1000)
BETAS = (1.0, 0.1)
GAUSSIAN, RADEMACHER = "Gaussian", "Rademacher (s = 1)"
_BLOCK = 1 << 22


def _sparse(rng: np.random.Generator, shape: tuple[int, int], s: int) -> Floats:
    drawn = rng.integers(0, 2 * s, shape, dtype=np.uint8)
    entries: Floats = (drawn == 0).astype(np.float32) - (drawn == 1).astype(np.float32)
    return entries


LAWS: Mapping[str, Law] = {
    GAUSSIAN: lambda rng, shape: rng.standard_normal(shape, dtype=np.float32),
    "uniform": lambda rng, shape: 2 * rng.random(shape, dtype=np.float32) - 1,
    "very sparse, s = 10": lambda rng, shape: _sparse(rng, shape, 10),
    "very sparse, s = 3": lambda rng, shape: _sparse(rng, shape, 3),
    RADEMACHER: lambda rng, shape: _sparse(rng, shape, 1),
}


def run(effort: Effort, data: Data) -> Study:
    """Simulate P₊ for every projection, dimension and β."""
    del data
    samples = effort.size(400_000, 500)
    rng = np.random.default_rng(1)
    rows: list[tuple[Cell, ...]] = []
    for p in DIMS:
        vector = rng.uniform(-1, 1, p).astype(np.float32)
        norm = float(np.linalg.norm(vector))
        for name, law in LAWS.items():
            for beta, chance in zip(BETAS, simulated(law, vector, samples, rng), strict=True):
                error = math.sqrt(max(chance * (1 - chance), 1 / samples) / samples)
                rows.append((beta, name, p, norm, chance, error, formula(name, p, beta / norm)))
    ones = [(p, on_ones(p), normal_approximation(0.1 / math.sqrt(p))) for p in (2, 4, 8, 16, 32, 64, 128, 256, 512)]
    columns = ("β", "projection", "p", "‖u‖", "P₊ simulated", "standard error", "(10) or (11)")
    tables = [
        Table(f"P₊, {samples:,} draws of w each, u uniform", columns, rows),
        Table("P₊ of Rademacher entries, u of p ones, β = 0.1", ("p", "P₊ exact", "(10)"), ones),
    ]
    return Study(tables, _finding(rows, ones), {"chance": _picture(rows, ones, samples)})


def simulated(law: Law, vector: Floats, samples: int, rng: np.random.Generator) -> list[float]:
    """Return P₊ for each of `BETAS` from ``samples`` draws of w."""
    hits = np.zeros(len(BETAS), dtype=np.int64)
    step = max(1, _BLOCK // vector.size)
    for start in range(0, samples, step):
        entries = law(rng, (min(step, samples - start), vector.size))
        largest, sums = np.abs(entries).max(axis=1), np.abs(entries @ vector)
        hits += [np.count_nonzero(beta * largest >= sums) for beta in BETAS]
    return [float(hit) / samples for hit in hits]


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
    at = {(beta, name, p): (float(chance or 0), float(error or 0)) for beta, name, p, _, chance, error, _ in rows}
    places = [(beta, p) for beta in BETAS for p in DIMS]
    others = [name for name in LAWS if name != RADEMACHER]
    least = all(
        at[beta, RADEMACHER, p][0]
        <= at[beta, name, p][0] + 3 * math.hypot(at[beta, RADEMACHER, p][1], at[beta, name, p][1])
        for beta, p in places
        for name in others
    )
    factors = [at[1.0, name, DIMS[-1]][0] / max(at[1.0, RADEMACHER, DIMS[-1]][0], 1e-9) for name in others]
    bound = _gaps(rows, GAUSSIAN)
    approximation = _gaps(rows, RADEMACHER)
    above = all(gap <= 3 * error for gap, error, _ in bound)
    close = all(abs(gap) <= max(3 * error, 0.15 * guess) for gap, error, guess in bound + approximation)
    beyond = max(ones, key=lambda row: row[1] / row[2])
    sixteen = next(row for row in ones if row[0] == 16)
    ratio = 1 / next(
        float(norm or 1) for beta, name, p, norm, *_ in rows if (beta, name, p) == (1.0, GAUSSIAN, DIMS[-1])
    )
    return (
        f"Rademacher entries have {'the least P₊' if least else 'not always the least P₊'} of the five at every p and "
        f"both β, {'as in' if least else 'unlike in'} the paper; at p = {DIMS[-1]} and β = 1 the others have "
        f"{min(factors):.2g} to {max(factors):.2g} times as much. The simulations of the Gaussian "
        f"{'stay' if above else 'do not stay'} below the bound (11), and both formulas are "
        f"{'within 15 % or three standard errors of' if close else 'not near'} what they stand for, "
        f"{'as' if close else 'unlike what'} the paper draws.\n\n"
        "Where the paper errs: (10) is an approximation for vectors of many different entries and no bound, so no "
        "claim of privacy may rest on it. For vectors of equal entries the sum of signs is often exactly 0: with "
        f"sixteen ones and β = 0.1, P₊ is {sixteen[1]:.3f} and (10) says {sixteen[2]:.3f}; the worst of the last panel "
        f"is p = {beyond[0]}, by a factor of {beyond[1] / beyond[2]:.1f}. And P₊ asks whether *some* neighbour changes "
        "the sign, where differential privacy compares two: a pair's Gaussian signs differ with probability at most "
        f"{pair(ratio):.3f} at p = {DIMS[-1]}, β = 1, against a bound (11) of "
        f"{neighbourhood_change_bound(DIMS[-1], ratio):.3f}. The library counts pairs (THEORY.md 6.2)."
    )


def _gaps(rows: list[tuple[Cell, ...]], name: str) -> list[tuple[float, float, float]]:
    """Return simulated minus formula, its standard error and the formula, for each row of a projection."""
    own = [(float(row[4] or 0), float(row[5] or 0), float(row[6] or 0)) for row in rows if row[1] == name]
    return [(chance - guess, error, guess) for chance, error, guess in own]


def _picture(rows: list[tuple[Cell, ...]], ones: list[tuple[int, float, float]], samples: int) -> Figure:
    names = [*(f"β = {beta:g}, u uniform on [-1, 1]" for beta in BETAS), "β = 0.1, u of p ones, Rademacher"]
    figure, axes = panels(f"Chance P₊ that some neighbour changes a sign ({samples:,} draws a point)", names)
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
