"""Which (ε, δ) a Gaussian noise of given σ can give (Kenthapadi et al. 2013, Figure 1).

At ℓ2 sensitivity 1. Three laws for each σ: the exact one (Balle and Wang 2018), P[privacy loss > ε] ≤ δ, from which the
closed forms are derived, and the paper's Theorem 1. Beside them the discrete noise that this library draws, and the δ
that it truly has, by summing over the lattice.
"""

import math

import numpy as np
from matplotlib.figure import Figure

import streamsketch as ss
from benchmarks import palette, sigmas
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.privacy import Budget
from streamsketch.privacy.gaussian import DiscreteGaussian, gaussian_sigma
from streamsketch.privacy.noise import Sensitivity

SIGMAS = (0.5, 1.0, 2.0)
EPSILONS = (0.0, 0.5, 1.0, 1.5, 2.0)
POINT, POINT_SIGMA = (1.0, 0.1), 1.0
"""The (ε, δ) that the paper's text says σ ≈ 1.0 passes through."""
_STEPS = (1, 16, 256)
"""ℓ2 sensitivities in steps of the grid: of a map of few ones, and of maps on fine grids."""
_NEARLY_ZERO = 1e-12
_MAP = ss.projections.GaussianProjection(dim=200, sketch_dim=32, seed=1)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Compute the curves, what the library's noise does on them, and where the paper's condition lies."""
    curves = Table(
        "δ against ε for three σ: exact | P[loss > ε] | Theorem 1 (none where it would be ½ or more)",
        ("σ", "ε", "exact δ", "P[loss > ε]", "Theorem 1's δ"),
        [
            (sigma, epsilon, exact(epsilon, sigma), sigmas.tail_delta(epsilon, sigma), theorem(epsilon, sigma))
            for sigma in SIGMAS
            for epsilon in EPSILONS
        ],
    )
    needed = Table(
        "σ that an (ε, δ) takes, at sensitivity 1",
        ("ε", "δ", "exact", "P[loss > ε] ≤ δ", "Theorem 1", "classical", "Theorem 1 / exact"),
        [_needed(*budget) for budget in (POINT, (1.0, 1e-3), (1.0, 1e-6), (0.1, 1e-6), (4.0, 1e-6))],
        shown=True,
    )
    ours = [_ours(*POINT, steps) for steps in _STEPS] + [_ours(1.0, 1e-6, steps) for steps in _STEPS]
    lattice = Table(
        "The discrete noise of this library: σ per step of sensitivity beside the exact σ, and the δ it truly has",
        ("ε", "δ", "sensitivity in steps", "σ / sensitivity", "over exact σ", "true δ / δ"),
        ours,
    )
    picture = _picture(effort.size(400, 40))
    return Study(
        [curves, needed, lattice],
        _finding(ours),
        {"curves": picture},
        source="Kenthapadi et al. 2013, Figure 1 and Theorem 1",
        checks=_checks(ours),
    )


def exact(epsilon: float, sigma: float) -> float:
    """Return the exact δ; at ε = 0 its limit, 2Φ(1/2σ) - 1."""
    return sigmas.exact_delta(max(epsilon, _NEARLY_ZERO), sigma)


def theorem(epsilon: float, sigma: float) -> float | None:
    """Return Theorem 1's δ, where it says something: below ½."""
    delta = sigmas.kkmm_delta(epsilon, sigma)
    return delta if delta < 1 / 2 else None


def lattice_delta(noise: DiscreteGaussian, shift: int, epsilon: float) -> float:
    """Return the δ of one cell: Σ max(0, P(n) - e^ε P(n - shift)), with tails beyond e^-100 left out."""
    sigma_squared = float(noise.sigma_squared)
    reach = math.ceil(15 * math.sqrt(sigma_squared)) + shift
    places = np.arange(-reach, reach + 1, dtype=np.float64)
    here, there = (np.exp(-((places - centre) ** 2) / (2 * sigma_squared)) for centre in (0, shift))
    return float(np.maximum(0.0, here - math.exp(epsilon) * there).sum() / here.sum())


def _needed(epsilon: float, delta: float) -> tuple[float, ...]:
    least, paper = gaussian_sigma(epsilon, delta), sigmas.kkmm(epsilon, delta)
    tail, classical = sigmas.tail_sigma(epsilon, delta), sigmas.classical(epsilon, delta)
    return epsilon, delta, least, tail, paper, classical, paper / least


def _ours(epsilon: float, delta: float, steps: int) -> tuple[float, ...]:
    noise = DiscreteGaussian.calibrated(Sensitivity(l1=steps, l2_squared=steps**2, cells=1), Budget(epsilon, delta))
    sigma = math.sqrt(noise.sigma_squared) / steps
    true = lattice_delta(noise, steps, epsilon)
    return epsilon, delta, steps, sigma, sigma / gaussian_sigma(epsilon, delta), true / delta


def _checks(ours: list[tuple[float, ...]]) -> list[Check]:
    grid = [(epsilon, 10.0**-power) for epsilon in (0.1, 0.5, 1.0, 2.0) for power in range(1, 13)]
    return [
        Check(
            f"Section 3.1.2: σ ≈ {POINT_SIGMA} passes through (ε, δ) = (1, 0.1); the exact σ there, to 10 %",
            *(gaussian_sigma(*POINT), 0.9 * POINT_SIGMA, 1.1 * POINT_SIGMA),
        ),
        Check(
            "Figure 1: its axes, up to 2.0 and 0.8, hold the exact curves; largest δ at ε = 0",
            *(max(exact(0.0, sigma) for sigma in SIGMAS), 0.0, 0.8),
            data=f"σ = {', '.join(map(str, SIGMAS))}",
        ),
        Check(
            "Theorem 1: its σ is enough; largest exact δ over δ",
            *(max(exact(epsilon, sigmas.kkmm(epsilon, delta)) / delta for epsilon, delta in grid), 0.0, 1.0),
            data="ε = 0.1 to 2, δ = 0.1 to 1e-12",
        ),
        Check(
            "the discrete noise of this library has at most the δ asked for; largest true δ over δ",
            *(max(row[-1] for row in ours), 0.0, 1.0),
            data=f"sensitivities of {', '.join(map(str, _STEPS))} grid steps",
        ),
    ]


def _finding(ours: list[tuple[float, ...]]) -> str:
    epsilon, delta = POINT
    least, tail, paper = gaussian_sigma(*POINT), sigmas.tail_sigma(*POINT), sigmas.kkmm(*POINT)
    tops = [exact(0.0, sigma) for sigma in SIGMAS]
    tail_tops = [sigmas.tail_delta(0.0, sigma) for sigma in SIGMAS]
    coarse, fine = ours[0], ours[2]
    return (
        "We have fragments of the paper's text and no picture: Figure 1 shows the feasible (ε, δ) for σ = 0.5, 1.0 and "
        "2.0, one axis ends at 0.8 and the other at 2.0. The exact curves fit these axes: at ε = 0 they begin at "
        f"δ = {tops[0]:.3f}, {tops[1]:.3f} and {tops[2]:.3f}. P[loss > ε] would begin at {tail_tops[0]:.3f}, outside, "
        "and Theorem 1's closed form at ½ for every σ, rising at first. So the paper drew the exact relation, as its "
        "text says, five years before Balle and Wang's calibration, and proved a weaker one.\n\n"
        f"The text says that σ ≈ {POINT_SIGMA:.1f} passes through (ε, δ) = ({epsilon:g}, {delta:g}). It passes near"
        f": that point takes σ = {least:.3f}; σ = {POINT_SIGMA:.1f} has δ = {exact(epsilon, POINT_SIGMA):.3f} there. "
        f"The text reads its picture to {100 * (least / POINT_SIGMA - 1):.0f} %: as a calibration, it would have "
        f"{exact(epsilon, POINT_SIGMA) / delta:.2f} times the δ. By P[loss > ε] it takes {tail:.2f}, by Theorem 1 "
        f"{paper:.2f}, {paper / least:.1f} times the exact σ; at δ = 1e-6 it is still "
        f"{sigmas.kkmm(1.0, 1e-6) / gaussian_sigma(1.0, 1e-6):.2f} times.\n\n"
        f"This library adds a variance of 3 steps² for the lattice: σ is {coarse[4]:.2f} times the exact one where one "
        f"unit moves {coarse[2]} step, and {fine[4]:.5f} times where it moves {fine[2]}; a column of the paper's "
        f"Gaussian matrix, k = {_MAP.sketch_dim} on the default grid, moves "
        f"{math.sqrt(_MAP.l2_sensitivity_squared):,.0f}. The true δ of the noises in the table, summed over the "
        f"lattice, is at most {max(row[-1] for row in ours):.6g} times the δ asked for."
    )


def _picture(points: int) -> Figure:
    figure, ((panel,),) = palette.panels(1, 1, width=10.5, height=5.0)
    epsilons = np.linspace(0, 2, points)
    for sigma, colour in zip(SIGMAS, (palette.BLUE, palette.RED, palette.GREEN), strict=True):
        panel.plot(epsilons, [exact(epsilon, sigma) for epsilon in epsilons], color=colour, lw=2, label=f"σ = {sigma}")
        tail = [sigmas.tail_delta(epsilon, sigma) for epsilon in epsilons]
        panel.plot(epsilons, tail, color=colour, lw=1, ls="--")
        below = [(epsilon, sigmas.kkmm_delta(epsilon, sigma)) for epsilon in epsilons]
        below = [(epsilon, delta) for epsilon, delta in below if delta < 1 / 2 and epsilon > 0]
        if below:
            panel.plot(*zip(*below, strict=True), color=colour, lw=1.4, ls=":")
    panel.plot(*POINT, marker="*", ms=13, color=palette.BLACK, ls="", label="(1, 0.1): σ ≈ 1.0, says the text")
    panel.plot([], [], color="grey", lw=2, label="exact: above the line is feasible")
    panel.plot([], [], color="grey", lw=1, ls="--", label="P[privacy loss > ε]")
    panel.plot([], [], color="grey", lw=1.4, ls=":", label="Theorem 1 (where it gives δ < ½)")
    panel.set_xlim(0, 2)
    panel.set_ylim(0, 0.8)
    panel.set_xlabel("ε")
    panel.set_ylabel("δ")
    panel.set_title("Feasible (ε, δ) for Gaussian noise of standard deviation σ, at ℓ2 sensitivity 1", loc="left")
    panel.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
