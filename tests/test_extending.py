"""Adding one of something touches few files: a toy projection, in this file alone, works everywhere."""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.core import Ints
from streamsketch.projections import KINDS, MapVariance, register

SALE = ss.L1(1, unit="sale")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Folded(ss.Projection):
    """Index i meets cell i modulo sketch_dim: a toy, as close indices never collide and others always do."""

    kind = "folded"
    scale_squared = Fraction(1)
    l1_sensitivity = 1
    l2_sensitivity_squared = 1
    max_entry = 1
    variance = MapVariance(0.0, 0.0, 0.0)

    def add_to(self, state: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        return self.add_to_rows(state.reshape(1, -1), np.zeros_like(indices), indices, values)

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        bounds = self.check_bounds(indices, values)
        np.add.at(table, (slots, indices % self.sketch_dim), values)
        return bounds


@pytest.fixture
def folded() -> Iterator[Folded]:
    register(Folded, "folded")
    yield Folded(dim=1000, sketch_dim=10, seed=1)
    del KINDS["folded"]


def test_a_projection_sketches_merges_and_projects_matrices(folded: Folded) -> None:
    one, other = folded.sketch(), folded.sketch()
    one.update([1, 11, 2], [5, 6, 7])
    other.update([999], [1])
    one.merge(other)
    assert one.state().tolist() == [0, 11, 7, 0, 0, 0, 0, 0, 0, 1]
    rows = np.eye(1000, dtype=int)[[1, 11, 2, 999]]
    assert np.array_equal(folded.transform(rows, exact=True).T, folded.columns([1, 11, 2, 999]))


def test_its_releases_are_read_explained_and_compared(folded: Folded, tmp_path: Path) -> None:
    sketch = folded.sketch()
    sketch.update([1, 2], [100, 200])
    released = sketch.release(epsilon=1.0, neighbours=SALE)
    released.save(tmp_path / "one.sketch")
    read = ss.load(tmp_path / "one.sketch", expect=ss.Projection.from_json(folded.to_json()))
    assert read == released
    assert read.projection == folded
    assert read.explain().check.verdict == "enough"
    again = sketch.release(epsilon=1.0, neighbours=SALE)
    estimate = ss.squared_distance(released, again)
    assert abs(estimate.value) < 10 * estimate.standard_error


def test_its_tables_are_saved_and_loaded(folded: Folded, tmp_path: Path) -> None:
    table = folded.table()
    table.update(["a", "b", "a"], [1, 2, 3])
    releases = {key: table[key].release(epsilon=1.0, neighbours=SALE) for key in table}
    ss.PrivateTable(releases).save(tmp_path / "all.parquet")
    assert ss.load(tmp_path / "all.parquet", expect=folded) == releases
