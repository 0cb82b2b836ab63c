"""Li and Li 2023, Figure 10: the levels L_j of DP-SignRP-RR-smooth, by projection.

L_j = ⌈|⟨w_j, u⟩| / (β·max_i|w_ij|)⌉ of k = 512 cells, u uniform on [-1, 1]^p, β = 1, p = 100 and 1000: the levels that
the library's mechanism flips by, over several vectors and matrices, where the paper has one. A sign is flipped with
probability 1/(exp(L_j·ε/k) + 1); how many are, the table says.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.figures.ll.drawing import legend_below, look, panels
from benchmarks.rows import Effort
from benchmarks.study import Cell, Study, Table
from benchmarks.verdicts import Check
from streamsketch.signs.sign_changes import cell_steps

SKETCH_DIM = 512
DIMS = (100, 1000)
EPSILONS = (1.0, 10.0, 100.0)
STEPS = 256  # of the grid that u lies on, in one unit
RADEMACHER = "Rademacher (s = 1)"
TOPS = {100: 0.5, 1000: 0.15}
"""The last marks of Figure 10's vertical axes, by p."""
_LAST = 45

MAPS: Mapping[str, Callable[[int, int], ss.projections.Projection]] = {
    "Gaussian": lambda p, seed: ss.projections.GaussianProjection(dim=p, sketch_dim=SKETCH_DIM, seed=seed),
    "uniform": lambda p, seed: ss.projections.UniformProjection(dim=p, sketch_dim=SKETCH_DIM, seed=seed),
    "very sparse, s = 10": lambda p, seed: ss.projections.VerySparse(
        dim=p, sketch_dim=SKETCH_DIM, seed=seed, sparsity=10
    ),
    "very sparse, s = 3": lambda p, seed: ss.projections.VerySparse(
        dim=p, sketch_dim=SKETCH_DIM, seed=seed, sparsity=3
    ),
    RADEMACHER: lambda p, seed: ss.projections.Rademacher(dim=p, sketch_dim=SKETCH_DIM, seed=seed),
}


def run(effort: Effort, data: Data) -> Study:
    """Compute the levels of all cells, and from them the share that a mechanism flips."""
    del data
    repeats = effort.size(50, 3)
    levels_of = {(p, name): levels(build, p, repeats) for p in DIMS for name, build in MAPS.items()}
    shares: list[tuple[Cell, ...]] = [
        (p, name, level, float(np.mean(own == level)))
        for (p, name), own in levels_of.items()
        for level in range(1, _LAST + 1)
    ]
    summary: list[tuple[Cell, ...]] = [
        (p, name, float(own.mean()), float(np.mean(own <= 1)), *(flipped(own, epsilon) for epsilon in EPSILONS))
        for (p, name), own in levels_of.items()
    ]
    columns = ("p", "projection", "mean L", "share of L ≤ 1", *(f"flipped at ε = {epsilon:g}" for epsilon in EPSILONS))
    tables = [
        Table(f"Levels of {SKETCH_DIM} cells, {repeats} vectors and matrices", columns, summary),
        Table("Share of cells at each level", ("p", "projection", "L", "share"), shares),
    ]
    return Study(
        tables,
        _finding(summary),
        {"levels": _picture(shares, repeats)},
        source="Li and Li 2023, Figure 10",
        checks=checks(levels_of, repeats),
    )


def checks(levels_of: Mapping[tuple[int, str], NDArray[np.int64]], repeats: int) -> list[Check]:
    """Return what Appendix B.2 says, beside the levels; errors are those of independent vectors and matrices."""

    def lead(
        p: int, name: str, sign: int, of: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    ) -> tuple[float, float]:
        ours, other = (of(levels_of[p, kind].reshape(repeats, -1)) for kind in (RADEMACHER, name))
        gaps = sign * (ours - other)
        return float(gaps.mean()), 1.96 * float(gaps.std(ddof=1)) / math.sqrt(repeats)

    others = [name for name in MAPS if name != RADEMACHER]
    result = []
    for p in DIMS:
        small, error = min(lead(p, name, -1, lambda own: np.mean(own <= 1, axis=1)) for name in others)
        claim = "Rademacher has the least number of small L: least difference of another's share of L ≤ 1"
        result.append(Check(claim, small, 0, math.inf, error, data=f"p = {p}"))
        high, error = min(lead(p, name, 1, lambda own: own.mean(axis=1)) for name in others)
        claim = "Rademacher has the largest number of higher L: least difference of its mean L"
        result.append(Check(claim, high, 0, math.inf, error, data=f"p = {p}"))
        shares = [np.mean(levels_of[p, name] == level) for name in MAPS for level in range(1, _LAST)]
        claim = f"Figure 10's last mark is {TOPS[p]:g}: the largest share of a level"
        result.append(Check(claim, float(max(shares)), TOPS[p] / 2, 1.1 * TOPS[p], data=f"p = {p}"))
    return result


def levels(build: Callable[[int, int], ss.projections.Projection], p: int, repeats: int) -> NDArray[np.int64]:
    """Return the levels of ``repeats`` vectors, each under a matrix of its own, as DP-SignRP-RR-smooth finds them."""
    rng = np.random.default_rng(1)
    mechanism = ss.signs.DPSignRPRRSmooth(epsilon=1, neighbours=ss.OneCoordinate(STEPS))
    drawn = []
    for seed in range(repeats):
        projection = build(p, seed)
        vector = rng.integers(-STEPS, STEPS, (1, p), endpoint=True)
        cells = projection.transform(vector, exact=True)
        drawn.append(mechanism.law(projection).levels(cells, cell_steps(projection, mechanism.neighbours)))
    return np.concatenate(drawn, axis=None)


def flipped(own: NDArray[np.int64], epsilon: float) -> float:
    """Return the expected share of wrong signs at rate ε/k; a cell at 0 has level 0, and is a fair coin."""
    return float(np.mean(1 / (np.exp(own * (epsilon / SKETCH_DIM)) + 1)))


def _finding(summary: list[tuple[Cell, ...]]) -> str:
    at = {(p, name): tuple(float(cell or 0) for cell in more) for p, name, *more in summary}
    means = ", ".join(f"{name} {at[DIMS[1], name][0]:.1f}" for name in MAPS)
    ours, gaussian = at[DIMS[1], RADEMACHER], at[DIMS[1], "Gaussian"]
    return (
        f"Mean levels at p = {DIMS[1]}: {means}. What the picture does not show is what that buys, as each level is "
        f"worth ε/k only: at ε = 10 and p = {DIMS[1]} a share of {ours[3]:.3f} of Rademacher's signs is flipped and "
        f"{gaussian[3]:.3f} of the Gaussian's, where 0.5 are coins; at ε = 100, {ours[4]:.3f} and {gaussian[4]:.3f}. "
        f"That is the method's, whatever the data or the code: {SKETCH_DIM} cells share ε."
    )


def _picture(shares: list[tuple[Cell, ...]], repeats: int) -> Figure:
    title = f"Levels L of DP-SignRP-RR-smooth, k = {SKETCH_DIM}, β = 1, {repeats} vectors uniform on [-1, 1]^p"
    figure, axes = panels(title, [f"p = {p}" for p in DIMS])
    for panel, p in zip(axes, DIMS, strict=True):
        for place, name in enumerate(MAPS):
            own = [
                (float(level or 0), float(share or 0)) for q, other, level, share in shares if (q, other) == (p, name)
            ]
            panel.plot([level for level, _ in own], [share for _, share in own], label=name, **look(place))
        panel.set_xlabel("level L")
        panel.set_xlim(0, 20 if p == DIMS[0] else _LAST)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("share of cells")
    legend_below(figure, axes[0], 5)
    return figure
