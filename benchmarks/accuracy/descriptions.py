"""What columns of people hold, by their releases and in truth."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.accuracy.feature_releases import agreement_of, bits_of, bound_of, release_of, summed
from benchmarks.accuracy.intervals import CONFIDENCES
from streamsketch.estimation import describe
from streamsketch.features import Category, Embedding, Features, Number

DESCRIBED = (*((people, 1) for people in (53, 100, 1000, 10_000, 1_000_000)), (1000, 3), (1_000_000, 3))
"""People, the least three standard errors of their count; rows of each."""

_DESCRIBED_FEATURES = Features(
    {
        "age": Number(0, 110),
        "height": Number(1.2, 2.2, moments=1),
        "ward": Category(["A", "B"]),
        "code": Category(hashed=16),
        "scan": Embedding(3, waves=32),
    },
    seed=7,
    joint=16,
)
_CODES = ("E11", "I10", "J45")
_MOST_DISTINCT = 1000


def descriptions(people: int, rows: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Yield coverage by kind of measure: of people with several rows, against what raw sketches say."""
    held = _people(min(people, _MOST_DISTINCT), rows, np.random.default_rng([people, rows]))
    agreement, asked = agreement_of(held, _DESCRIBED_FEATURES), {"code": list(_CODES)}
    sums = bound_of(held, agreement).state() * max(people // _MOST_DISTINCT, 1)
    sketch = summed(sums, people, agreement)
    exact = describe(sketch, agreement, shares=asked)
    names = list(zip(exact["column"].to_pylist(), exact["measure"].to_pylist(), strict=True))
    of_rows = _truths(held)
    truth = np.array([of_rows[name] for name in names]) if rows == 1 else exact["estimate"].to_numpy()
    covered, missed = [], []
    for draw in range(count):
        release = release_of(sketch, bits_of(f"describe {people} {rows} {draw}"))
        tables = [describe(release, agreement, shares=asked, confidence=confidence) for confidence in CONFIDENCES]
        ends = [(table["low"].to_numpy(), table["high"].to_numpy()) for table in tables]
        covered.append([(low <= truth + 1e-9) & (truth - 1e-9 <= high) for low, high in ends])
        missed.append((tables[0]["estimate"].to_numpy() - truth) / tables[0]["error"].to_numpy())
    kinds = [
        f"share, {'hashed' if name == 'code' and what.startswith('share') else 'listed'}"
        if what.startswith(("share", "others", "missing"))
        else what
        for name, what in names
    ]
    gaps, holds = np.array(missed), np.array(covered)
    for kind in dict.fromkeys(kinds):
        own = [place for place, label in enumerate(kinds) if label == kind]
        defined = ~np.isnan(gaps[:, own])
        biases = np.nan_to_num(gaps[:, own]).sum(axis=0) / np.maximum(defined.sum(axis=0), 1)
        shares = holds[:, :, own].transpose(1, 0, 2)[:, defined].mean(axis=1) if defined.any() else np.full(4, math.nan)
        bias = float(np.abs(biases).max()) if defined.any() else math.nan
        yield people, rows, kind, float(1 - defined.mean()), bias, *map(float, shares)


def _truths(held: pa.Table) -> dict[tuple[str, str], float]:
    """Return what the rows hold, by column and measure."""
    ages = np.clip(held["age"].drop_null().to_numpy(), 0, 110)
    wards, codes = held["ward"].to_numpy(zero_copy_only=False), held["code"].to_numpy(zero_copy_only=False)
    return {
        ("age", "mean"): float(ages.mean()),
        ("age", "standard deviation"): float(ages.std()),
        ("height", "mean"): float(np.clip(held["height"].to_numpy(), 1.2, 2.2).mean()),
        **{(name, "missing"): held[name].null_count / held.num_rows for name in held.column_names},
        **{("ward", f"share of {ward}"): float((wards == ward).mean()) for ward in ("A", "B")},
        ("ward", "others"): float((wards == "C").mean()),
        **{("code", f"share of {code}"): float((codes == code).mean()) for code in _CODES},
    }


def _people(count: int, rows: int, rng: np.random.Generator) -> pa.Table:
    size = count * rows
    ages = np.where(rng.random(size) < 0.2, np.nan, rng.normal(50, 15, size))
    return pa.table(
        {
            "person": np.repeat(np.arange(count), rows),
            "age": pa.array(ages, from_pandas=True),
            "height": rng.normal(1.7, 0.1, size),
            "ward": rng.choice(["A", "B", "C"], size, p=[0.6, 0.3, 0.1]),
            "code": rng.choice(
                [*_CODES, *(f"X{number}" for number in range(50))], size, p=[0.2, 0.2, 0.1, *[0.01] * 50]
            ),
            "scan": pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(3 * size)), 3),
        }
    )
