"""Releases of people's features, quickly: sums of rows that are known, with noise as the library adds it."""

import functools
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import trials
from streamsketch.features import Category, Features
from streamsketch.release import AdditiveNoise
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DELTA, ROWS = 1e-6, 100
NEIGHBOURS = ss.SketchL2(1, unit="person", max_keys=1)
_ANY = pa.table({"any": ["A"], "person": [0]})


@functools.cache
def _publisher(dim: int) -> CalibratedNoise:
    """Return noise for so many features, which is the same for every seed."""
    agreement = agreement_of(_ANY, Features({"any": Category(hashed=dim - 1)}, seed=0))
    publisher = AdditiveNoise(epsilon=1.0, delta=DELTA, neighbours=NEIGHBOURS, counting=agreement.counting)
    return publisher.calibrated(agreement.projection)


@functools.cache
def _bounds() -> Any:
    """Return what is known of sums of people's features."""
    return bound_of(_ANY, agreement_of(_ANY, Features({"any": Category(["A"])}, seed=0))).bounds


def bound_of(rows: pa.Table, agreement: ss.Agreement) -> Sketch:
    """Return the sums of people's rows, as `streamsketch.bound` bounds them."""
    sketch: Any = ss.bound(rows, agreement)  # no table, as there are no keys
    return sketch  # type: ignore[no-any-return]


def agreement_of(rows: pa.Table, features: Features) -> ss.Agreement:
    """Return an agreement on features of people, for rows like these."""
    return ss.agree(rows.slice(0, 1), features=features, unit="person")


def cells_of(features: Features, rows: pa.Table) -> Ints:
    """Return the features of each row, in grid steps."""
    columns = {name: rows.column(name).combine_chunks() for name in features.columns}
    return features.cells(columns).astype(np.int64)


def sums_of(cells: Ints, times: Ints, agreement: ss.Agreement) -> Sketch:
    """Return the sums of people with one row each, each row so many times, as `streamsketch.bound` but for rounding.

    That lengthens each row to 1, by less than 1e-4.
    """
    return summed(times @ cells, int(times.sum()), agreement)


def summed(sums: Ints, people: int, agreement: ss.Agreement) -> Sketch:
    """Return the sketch of so many people whose features have these sums."""
    counts = np.array([people, 0], dtype=np.int64)
    return Sketch.from_state(
        agreement.projection,
        ExactSums.of(sums, counts),
        int(np.abs(sums).sum()),
        largest=1 << 15,
        agreement=agreement,
        bounds=_bounds(),
    )


def release_of(sketch: Sketch, bits: Any) -> ss.PrivateSketch:
    """Return a release of people who were all scaled to one length, with noise from these bits."""
    return _publisher(sketch.projection.dim).for_data(sketch).draw(bits).with_clip("equal")


def bits_of(what: str) -> Any:
    """Return random bits that depend on a text alone."""
    return trials.keyed(f"populations {what}".encode())
