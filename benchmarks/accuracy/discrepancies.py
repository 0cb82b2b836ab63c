"""Discrepancies of two sites against the exact kernel, the expected one over seeds."""

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.spatial.distance import cdist

import streamsketch as ss
from benchmarks import trials
from benchmarks.accuracy.feature_releases import ROWS, Floats, agreement_of, cells_of, release_of, sums_of
from benchmarks.accuracy.intervals import CONFIDENCES
from streamsketch.estimation import column_differences, mmd
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.features.features import JOINT

PEOPLE = (100, 10_000, 1_000_000)

KINDS = (
    *(("numbers", 1, waves) for waves in (2, 4, 8, 16, 64)),
    *(("numbers", 10, waves) for waves in (2, 4, 8, 16)),
    *(("numbers", 100, waves) for waves in (4, 16)),
    ("numbers", 1000, 16),
    *(("embedding", dim, waves) for dim in (10, 1000) for waves in (2, 8, 32)),
    *(("hashed", dim, waves) for dim in (10, 1000) for waves in (2, 8, 32)),
    ("mixed", 10, 16),
)
"""Kind of columns; how many, or coordinates, or categories; frequencies, or half as many cells."""

LEAST_WAVES = 8
"""From which on 95 % intervals are checked."""


class Case(NamedTuple):
    """Discrepancies of one setting over seeds and noises."""

    kind: str
    dim: int
    waves: int
    people: int
    truth: float
    refused: int
    """How often people were too few for their noise; such draws do not count."""
    bias: float
    """In its standard errors."""
    error: float
    stated: float
    covered: Floats
    together: float
    """Share of trials in which the intervals of all columns hold, at 95 %."""

    @property
    def few(self) -> bool:
        """Whether there are fewer frequencies than are checked."""
        return self.waves < LEAST_WAVES


def _features(kind: str, dim: int, waves: int, seed: int) -> Features:
    columns: dict[str, Any] = {}
    if kind in ("numbers", "mixed"):
        columns = {f"number {place}": Number(0, 1) for place in range(dim)}
    if kind in ("embedding", "mixed"):
        columns["embedding"] = Embedding(dim, waves=waves)
    if kind in ("hashed", "mixed"):
        columns["hashed"] = Category(hashed=2 * waves)
    return Features(columns, seed=seed, joint=waves if kind in ("numbers", "mixed") else 0)


@functools.cache
def _sites(kind: str, dim: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what each column holds at two sites, the second one shifted: arrays of `ROWS` people."""
    rng = np.random.default_rng([dim, 5])
    sites: list[dict[str, Any]] = []
    for shift in (0.0, 0.7):
        held: dict[str, Any] = {}
        if kind in ("numbers", "mixed"):
            own = rng.standard_normal((ROWS, dim))
            own[:, : -(-dim // 10)] += shift
            held["numbers"] = np.clip(0.5 + 0.15 * own, 0, 1)
        if kind in ("embedding", "mixed"):
            vectors = rng.standard_normal((ROWS, dim))
            vectors[:, 0] += shift * math.sqrt(dim) / 3
            held["embedding"] = vectors / np.linalg.norm(vectors, axis=1)[:, None]
        if kind in ("hashed", "mixed"):
            shares = np.arange(1, dim + 1) ** -1.0 * np.exp(shift * rng.standard_normal(dim))
            held["hashed"] = rng.choice(dim, ROWS, p=shares / shares.sum())
        sites.append(held)
    return sites[0], sites[1]


def _table(held: Mapping[str, Any]) -> pa.Table:
    columns: dict[str, Any] = {}
    if "numbers" in held:
        columns = {f"number {place}": values for place, values in enumerate(held["numbers"].T)}
    if "embedding" in held:
        flat = pa.array(held["embedding"].ravel())
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(flat, held["embedding"].shape[1])
    if "hashed" in held:
        columns["hashed"] = [f"value {value}" for value in held["hashed"]]
    return pa.table(columns)


def _exact(features: Features, sites: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, float]:
    """Return the expected squared distance in each block over seeds, over its squared length."""
    tables = [_table(held) for held in sites]
    gaps = np.subtract(*(features.transform(table).mean(axis=0) for table in tables))
    distances = {}
    for block in features.blocks:
        distances[block.name] = float(gaps[block.places] @ gaps[block.places]) * (1 << 30) / block.amplitude**2
    if features.joint and features.width:
        distances[JOINT] = _discrepancy(sites[0]["numbers"], sites[1]["numbers"], features.width)
    if "embedding" in distances:
        width = next(column.width for column in features.columns.values() if isinstance(column, Embedding))
        distances["embedding"] = _discrepancy(sites[0]["embedding"], sites[1]["embedding"], width)
    if "hashed" in distances:
        most = 1 + max(int(held["hashed"].max()) for held in sites)
        shares = [np.bincount(held["hashed"], minlength=most) / ROWS for held in sites]
        distances["hashed"] = float(((shares[0] - shares[1]) ** 2).sum())
    return distances


def _discrepancy(x: Floats, y: Floats, width: float) -> float:
    def product(first: Floats, second: Floats) -> float:
        return float(np.exp(-cdist(first, second, "sqeuclidean") / (2 * width**2)).mean())

    return product(x, x) + product(y, y) - 2 * product(x, y)


def _lists() -> dict[int, list[Any]]:
    return {people: [] for people in PEOPLE}


def discrepancies(kind: str, dim: int, waves: int, count: int) -> Iterator[Case]:
    """Yield the case of each number of people, over so many seeds and noises."""
    sites = _sites(kind, dim)
    rows = pa.concat_tables([_table(held) for held in sites])
    named = rows.slice(0, 1).append_column("person", pa.array([0]))
    first = _features(kind, dim, waves, 0)
    exact = _exact(first, sites)
    truth = sum(exact[block.name] * block.amplitude**2 for block in first.blocks) / (1 << 30)
    values, stated, covered, together = (_lists() for _ in range(4))
    for seed in range(count):
        features = _features(kind, dim, waves, seed)
        agreement, cells = agreement_of(named, features), cells_of(features, rows)
        bits = trials.keyed(f"populations {kind} {dim} {waves} {seed}".encode())
        for people in PEOPLE:
            times = np.full(ROWS, people // ROWS)
            x, y = (release_of(sums_of(own, times, agreement), bits) for own in (cells[:ROWS], cells[ROWS:]))
            try:
                discrepancy = mmd(x, y, agreement)
            except ss.InvalidInputError:
                continue
            values[people].append(discrepancy.value)
            stated[people].append(discrepancy.variance)
            covered[people].append([low <= truth <= high for low, high in map(discrepancy.interval, CONFIDENCES)])
            columns = column_differences(x, y, agreement).to_pylist()
            together[people].append(all(row["low"] <= exact[row["column"]] <= row["high"] for row in columns))
    for people in PEOPLE:
        errors = np.array(values[people]) - truth
        yield Case(
            *(kind, dim, waves, people, truth, count - errors.size),
            float(errors.mean() / max(errors.std(), 1e-300)) * math.sqrt(errors.size),
            *(math.sqrt(float((errors**2).mean())), math.sqrt(float(np.mean(stated[people])))),
            *(np.mean(covered[people], axis=0), float(np.mean(together[people]))),
        )
