"""Li and Li 2023, Figure 11: variance of inner products from noisy raw vectors over that from noisy projections.

The paper's R = (2σ² + pσ⁴)/(2σ² + kσ⁴ + 1/k), (16), for vectors of length 1 with noise N(0, σ²) on each number, p =
1000 and 10,000. Dots are measured: orthogonal u and v projected by the library's OPORP (and Rademacher matrix at
p = 1000), a new seed and new noise each time.
"""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.figures.ll.drawing import legend_below, look, panels
from benchmarks.rows import Effort
from benchmarks.study import Cell, Study, Table

DIMS = (1000, 10_000)
SHARES = (0.01, 0.05, 0.1, 0.5)
SIGMAS = np.geomspace(0.01, 100, 81)
MEASURED = (0.03, 0.1, 0.3, 1.0, 10.0)

Floats = NDArray[np.float64]


def run(effort: Effort, data: Data) -> Study:
    """Compute R everywhere, and measure it at some places."""
    del data
    repeats = effort.size(3000, 8)
    curves: list[tuple[Cell, ...]] = [
        (p, share, sigma, ratio(sigma, p, round(share * p)))
        for p in DIMS
        for share in SHARES
        for sigma in SIGMAS.tolist()
    ]
    dots: list[tuple[Cell, ...]] = []
    for p in DIMS:
        for share in SHARES:
            k = round(share * p)
            maps: dict[str, Callable[[int], ss.Projection]] = {"OPORP": _oporp(p, k)}
            if p == DIMS[0] and k <= 100:
                maps["Rademacher"] = _rademacher(p, k)
            for name, build in maps.items():
                dots += [(p, share, name, *point) for point in measured(build, p, k, repeats)]
    columns = ("p", "k/p", "projection", "σ", "R measured", "R exact", "R of (16)")
    tables = [
        Table(f"R from {repeats:,} seeds", columns, dots),
        Table("R of (16)", ("p", "k/p", "σ", "R"), curves),
    ]
    return Study(tables, _finding(dots, repeats), {"ratio": _picture(curves, dots)})


def ratio(sigma: float, p: int, k: int, map_variance: float | None = None) -> float:
    """Return R for unit vectors; the projection's own variance is 1/k, as in (16), unless given."""
    own = 1 / k if map_variance is None else map_variance
    return (2 * sigma**2 + p * sigma**4) / (2 * sigma**2 + k * sigma**4 + own)


def even_sigma(p: int, k: int) -> float:
    """Return the σ below which noise on the raw vectors is better by (16): that of R = 1."""
    return math.pow(k * (p - k), -0.25)


def measured(
    build: Callable[[int], ss.Projection], p: int, k: int, repeats: int
) -> list[tuple[float, float, float, float]]:
    """Return σ, R from sample variances, R from the map's exact variance, and R of (16), for each of `MEASURED`."""
    rng = np.random.default_rng(1)
    u, v = orthogonal(rng, p)
    projected = np.array([build(seed).transform(np.stack([u, v])) for seed in range(repeats)])
    own = build(0).variance.of_inner_product(1.0, 1.0, 0.0, float(u**2 @ v**2))
    found = []
    for sigma in MEASURED:
        raw = _inner_products(rng, u, v, sigma, repeats)
        noisy = projected + rng.normal(0, sigma, projected.shape)
        ours = (noisy[:, 0] * noisy[:, 1]).sum(axis=1)
        found.append((sigma, float(raw.var() / ours.var()), ratio(sigma, p, k, own), ratio(sigma, p, k)))
    return found


def orthogonal(rng: np.random.Generator, p: int) -> tuple[Floats, Floats]:
    """Return two vectors of length 1 at a right angle."""
    columns, _ = np.linalg.qr(rng.normal(size=(p, 2)))
    return columns[:, 0].copy(), columns[:, 1].copy()


def _inner_products(rng: np.random.Generator, u: Floats, v: Floats, sigma: float, repeats: int) -> Floats:
    found = np.empty(repeats)
    for i in range(repeats):  # one at a time: all of them would be gigabytes
        found[i] = (u + rng.normal(0, sigma, u.size)) @ (v + rng.normal(0, sigma, v.size))
    return found


def _oporp(p: int, k: int) -> Callable[[int], ss.Projection]:
    return lambda seed: ss.OPORP(dim=p, sketch_dim=k, seed=seed)


def _rademacher(p: int, k: int) -> Callable[[int], ss.Projection]:
    return lambda seed: ss.Rademacher(dim=p, sketch_dim=k, seed=seed)


def _finding(dots: list[tuple[Cell, ...]], repeats: int) -> str:
    numbers = [[float(cell) for cell in row[3:] if cell is not None] for row in dots]
    spread = 2 / math.sqrt(repeats)  # of the quotient of two sample variances, where the products are normal
    near = [abs(math.log(got / exact)) <= 4 * spread for _, got, exact, _ in numbers]
    limits = {(p, share): ratio(float(SIGMAS[-1]), p, round(share * p)) for p in DIMS for share in SHARES}
    reached = all(abs(limit * share - 1) < 0.01 for (_, share), limit in limits.items())
    evens = {share: even_sigma(1000, round(share * 1000)) for share in SHARES}
    half = [
        (exact, guess) for row, (_, _, exact, guess) in zip(dots, numbers, strict=True) if row[1:3] == (0.5, "OPORP")
    ]
    gain = max(exact / guess for exact, guess in half)
    agrees = reached and all(near)
    return (
        f"{'Agrees with' if agrees else 'Differs from'} the paper: R "
        f"{'tends' if reached else 'does not tend'} to p/k for large σ, and of {len(near)} measured ratios {sum(near)} "
        f"are within four standard errors ({400 * spread:.0f} %) of the exact one. By (16), R = 1 at p = 1000 for σ = "
        + ", ".join(f"{sigma:.3f} (k/p = {share:g})" for share, sigma in evens.items())
        + f": the paper's σ < 0.1 {'is that of its least k' if abs(evens[0.01] - 0.1) < 0.005 else 'is another'}.\n\n"
        "Where (16) is rough: it drops OPORP's factor (p - k)/(p - 1), which the paper's Theorem C.3 has, and the "
        f"-2Σu²v². At k/p = 0.5 that is worth up to {gain:.2f} times in R at small σ. It is a simplification of the "
        "paper's, not an error; and it compares at equal σ, which a Gaussian matrix would not have (Figure 7)."
    )


def _picture(curves: list[tuple[Cell, ...]], dots: list[tuple[Cell, ...]]) -> Figure:
    figure, axes = panels("Var(raw) / Var(projected) of inner products of unit vectors", [f"p = {p:,}" for p in DIMS])
    for panel, p in zip(axes, DIMS, strict=True):
        for place, share in enumerate(SHARES):
            style = look(place)
            own = [float(row[3] or 0) for row in curves if row[:2] == (p, share)]
            panel.plot(SIGMAS, own, label=f"(16), k/p = {share:g}", **(style | {"marker": ""}))
            for name, marker in (("OPORP", "o"), ("Rademacher", "x")):
                points = [row for row in dots if row[:3] == (p, share, name)]
                xs, ys = [float(row[3] or 0) for row in points], [float(row[4] or 0) for row in points]
                label = f"measured, {name}" if (p, share) == (DIMS[0], 0.1) else None
                panel.plot(xs, ys, marker, color=style["color"], markersize=5, label=label)
        panel.axhline(1, color="black", linewidth=0.8, linestyle=":")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("noise σ, for vectors of length 1")
    axes[0].set_ylabel("R")
    legend_below(figure, axes[0], 3)
    return figure
