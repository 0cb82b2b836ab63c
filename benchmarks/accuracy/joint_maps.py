"""Joint estimates of all pairs by projection: root mean square errors over those of each pair alone.

Twelve invented keys of each of four kinds are put into each kind of projection, with 256 cells (the identity has one
for each item), and get the normal noise that protects 25 votes at δ = 1e-6. Maps and noises are drawn again and again.

How it misleads: 12 invented keys of one length, and one sketch dimension. The identity has no error of a map and four
times the cells, so its settings are not as hard as those of the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import streamsketch as ss
from benchmarks.accuracy.joint_coverage import DIM, others_of, ratio_of, released, streams
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.trials import simultaneous_z
from benchmarks.verdicts import Check
from streamsketch.estimation.cosines import cosines_between
from streamsketch.estimation.joint import combined_of
from streamsketch.projections import (
    FJLT,
    OPORP,
    SRHT,
    Achlioptas,
    GaussianProjection,
    Identity,
    Rademacher,
    Rotation,
    UniformProjection,
    VerySparse,
)

KEYS = 12
CELLS = 256
MAPS: dict[str, Callable[[int], ss.projections.Projection]] = {
    "CountSketch": lambda seed: ss.CountSketch(dim=DIM, sketch_dim=CELLS, seed=seed),
    "SJLT, s = 4": lambda seed: ss.SJLT(dim=DIM, sketch_dim=CELLS, sparsity=4, seed=seed),
    "OPORP": lambda seed: OPORP(dim=DIM, sketch_dim=CELLS, seed=seed),
    "SRHT": lambda seed: SRHT(dim=DIM, sketch_dim=CELLS, seed=seed),
    "FJLT, density 1/4": lambda seed: FJLT(dim=DIM, sketch_dim=CELLS, seed=seed, density="1/4"),
    "Rotation": lambda seed: Rotation(dim=DIM, sketch_dim=CELLS, seed=seed),
    "Rademacher": lambda seed: Rademacher(dim=DIM, sketch_dim=CELLS, seed=seed),
    "GaussianProjection": lambda seed: GaussianProjection(dim=DIM, sketch_dim=CELLS, seed=seed),
    "UniformProjection": lambda seed: UniformProjection(dim=DIM, sketch_dim=CELLS, seed=seed),
    "Achlioptas": lambda seed: Achlioptas(dim=DIM, sketch_dim=CELLS, seed=seed),
    "VerySparse, s = 8": lambda seed: VerySparse(dim=DIM, sketch_dim=CELLS, seed=seed, sparsity=8),
    "Identity": lambda seed: Identity(dim=DIM),  # noqa: ARG005 - the one without a seed
}
KINDS = ("drifting", "clusters", "one outlier", "all equal")
EPSILONS = (1.0, 4.0)
MEASURES = ("cosines", "distances", "products")
_WORST_RATIO = 1.05


class Case(NamedTuple):
    """Errors together over those of each pair alone, of one projection."""

    map: str
    kind: str
    epsilon: float
    cosines: float
    cosines_error: float
    """Its standard error."""
    distances: float
    distances_error: float
    products: float
    products_error: float


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Draw maps and noises for each projection, kind of keys and ε."""
    draws = effort.size(30, 2)
    cases = [_measure(name, kind, epsilon, draws) for name in MAPS for kind in KINDS for epsilon in EPSILONS]
    z = simultaneous_z(len(MEASURES) * len(cases))
    ratios = [(getattr(case, of), getattr(case, f"{of}_error")) for case in cases for of in MEASURES]
    worse = max((ratio - _WORST_RATIO) / max(error, 1e-3) for ratio, error in ratios)
    means = {
        name: [float(np.mean([getattr(case, of) for case in cases if case.map == name])) for of in MEASURES]
        for name in MAPS
    }
    largest = max(cases, key=lambda case: case.cosines - case.cosines_error)
    least, most = (end(mean for mean, *_ in means.values()) for end in (min, max))
    return Study(
        [
            Table("Mean ratios", ("map", *MEASURES), [(n, *m) for n, m in means.items()]),
            Table(f"All settings, {draws} draws each", Case._fields, cases),
        ],
        f"Joint cosines of {KEYS} keys err {least:.2f} to {most:.2f} times as much as each pair alone, by "
        f"projection, on average over {len(KINDS)} kinds of keys at ε = {EPSILONS[0]:g} and {EPSILONS[1]:g}, and at "
        f"worst {largest.cosines:.2f} ± {largest.cosines_error:.2f} times ({largest.map}, {largest.kind}, "
        f"ε = {largest.epsilon:g}).",
        checks=[
            Check(
                "together errs at most 5 % more than each pair alone, in each setting and measure",
                worse,
                -float("inf"),
                z,
                unit="standard errors",
            )
        ],
    )


def _measure(name: str, kind: str, epsilon: float, draws: int) -> Case:
    values = streams(kind, KEYS)
    products = (values @ values.T).astype(np.float64)
    lengths = np.sqrt(np.diagonal(products))
    exact, pairs = products / np.outer(lengths, lengths), np.triu_indices(KEYS, 1)
    squares = []
    for seed in range(draws):
        block = released(MAPS[name](seed), values, epsilon, "Gaussian", seed)
        combined = combined_of(block, in_time=True)
        alone = np.clip(np.nan_to_num(cosines_between(block, block, same=True).value), -1.0, 1.0)
        cosines = [float(((estimate - exact)[pairs] ** 2).mean()) for estimate in (alone, combined[0].cosines)]
        squares.append([cosines, *others_of(block, combined, products)])
    ratios = (ratio_of(np.array(some)) for some in np.moveaxis(np.array(squares), 1, 0))
    return Case(name, kind, epsilon, *(number for ratio in ratios for number in ratio))
