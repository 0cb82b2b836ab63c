"""Local mean estimation by ProjUnit, µs per person.

2^15 coordinates, 1000 sent, ε = 10, and secret Gaussians from the operating system's CSPRNG included. The peer is the
same mechanism in NumPy, vector by vector, as one writes it from the paper: signs, log2 d passes of butterflies, a
choice of rows, and NumPy's generator, which is neither secret nor paid for as secret bits are. `randomize_many` uses
all cores; NumPy here uses one.
"""

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import MICROSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.local import MeanAggregator, ProjUnit

PEOPLE = 1000

_TO_NUMPY = Target("ratio", 0.01)

Floats = NDArray[np.float64]


def run(effort: Effort) -> list[Row]:
    """Measure the person's and the server's part, with independent and shared rotations."""
    dim, k = 1 << (effort.size(1 << 15, least=256).bit_length() - 1), effort.size(1000, least=16)
    people = effort.size(PEOPLE, least=4)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(min(people, 64), dim))
    vectors /= np.linalg.norm(vectors, axis=1)[:, np.newaxis]
    shared = ProjUnit(dim=dim, sketch_dim=k, epsilon=10.0, shared=True)
    apart = ProjUnit(dim=dim, sketch_dim=k, epsilon=10.0)
    rows = [
        compare(
            f"randomize_many, {name}",
            {
                "streamsketch": Work(lambda mechanism=mechanism: mechanism.randomize_many(vectors), len(vectors)),  # type: ignore[misc]
                "NumPy": Work(lambda: randomized(vectors[0], shared, rng)),
            },
            effort,
            MICROSECONDS,
            Target("ours", 50),
        )
        for name, mechanism in (("shared rotation", shared), ("independent rotations", apart))
    ]
    many = shared.randomize_many(vectors[np.arange(people) % len(vectors)])
    report, sent = many[0], many.values[0].astype(np.float64)
    server = MeanAggregator(shared)
    others = apart.randomize_many(vectors)
    inverse = {
        "NumPy, each rotated back": Work(lambda: rotated_back(sent, dim, rng)),
        "streamsketch, each rotated back": Work(lambda: apart.contributions(others.seeds, others.values), len(vectors)),
    }
    rows.append(
        compare(
            "add, one at a time",
            {"streamsketch": Work(lambda: server.add(report)), **inverse},
            effort,
            MICROSECONDS,
            Target("ours", 15),
        )
    )

    def mean() -> Floats:
        fresh = MeanAggregator(shared)
        fresh.add(many)
        return fresh.mean()

    contenders = {"streamsketch": Work(mean, people), **inverse}
    rows.append(compare(f"mean of {people}", contenders, effort, MICROSECONDS, _TO_NUMPY))
    return rows


def randomized(vector: Floats, mechanism: ProjUnit, rng: np.random.Generator) -> Floats:
    """Return one report's values by NumPy."""
    dim, k, cap = vector.size, mechanism.sketch_dim, mechanism.cap
    rotated = transformed(vector * rng.choice([-1.0, 1.0], dim))
    projected = rotated[rng.choice(dim, k, replace=False)]
    projected /= np.linalg.norm(projected)
    noise = rng.normal(size=k)
    along = noise @ projected
    height = cap.threshold + rng.exponential() / cap.threshold  # nearly its law; exactly, one draw beside k
    return np.asarray(cap.scale * (noise + (height - along) * projected))


def rotated_back(values: Floats, dim: int, rng: np.random.Generator) -> Floats:
    """Return one person's vector from a report by NumPy."""
    cells = np.zeros(dim)
    cells[rng.choice(dim, values.size, replace=False)] = values
    return np.asarray(transformed(cells) * rng.choice([-1.0, 1.0], dim) / math.sqrt(values.size))


def transformed(vector: Floats) -> Floats:
    """Return the Hadamard transform, a pass over the whole vector a level."""
    cells, half = vector.copy(), 1
    while half < cells.size:
        pairs = cells.reshape(-1, 2, half)
        cells = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return cells
