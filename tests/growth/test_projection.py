"""Adding one of something touches few files: a toy projection, in this file alone, works everywhere."""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import streamsketch as ss
from streamsketch import signs
from streamsketch.core.numbers import Ints
from streamsketch.projections import MapVariance
from streamsketch.projections.base import Entries, MatrixNumber, register
from streamsketch.projections.families import KINDS
from streamsketch.storage.sketches import RawSketch
from tests.tampering import raw_bytes, raw_from_bytes

SALE = ss.L1(1, unit="sale")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Folded(ss.projections.Projection):
    """Index i meets cell i modulo sketch_dim: a toy, as close indices never collide and others always do."""

    kind = "folded"
    scale_squared = Fraction(1)
    l1_sensitivity = 1
    l2_sensitivity_squared = 1
    max_entry = 1
    variance = MapVariance(0.0, 0.0, 0.0)

    def enumerated_entries(self, _: MatrixNumber, /) -> int:
        return 0

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        return 0

    def add_to(self, state: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        return self.add_to_rows(state.reshape(1, -1), np.zeros_like(indices), indices, values)

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        bounds = self.check_bounds(indices, values)
        np.add.at(table, (slots, indices % self.sketch_dim), values)
        return bounds


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Spread(Folded):
    """Index i meets ``sparsity`` cells beside each other, from i modulo sketch_dim on: a field that has a number."""

    sparsity: int

    kind = "spread"

    @property
    def scale_squared(self) -> Fraction:  # type: ignore[override]
        return Fraction(1, self.sparsity)

    @property
    def nonzeros(self) -> int:
        return self.sparsity

    @property
    def l1_sensitivity(self) -> int:  # type: ignore[override]
        return self.sparsity

    @property
    def l2_sensitivity_squared(self) -> int:  # type: ignore[override]
        return self.sparsity

    @property
    def variance(self) -> MapVariance:  # type: ignore[override]
        return MapVariance(1 / self.sketch_dim, 1 / self.sketch_dim, -2 / self.sketch_dim)

    def sparse_entries(self, indices: Ints) -> Entries:
        cells = (indices[:, None] + np.arange(self.sparsity)) % self.sketch_dim
        return cells.astype(np.int32), np.ones(cells.shape, dtype=np.int8)

    def add_to_rows(self, table: Ints, slots: Ints, indices: Ints, values: Ints) -> tuple[int, int]:
        bounds = self.check_bounds(indices, values)
        np.add.at(table, (slots[:, None], self.sparse_entries(indices)[0]), values[:, None])
        return bounds


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Coarse(Folded):
    """The map of a `Folded`, with two fields for which the exchange format has no number."""

    coarse: int
    share: Fraction = Fraction(1, 2)

    kind = "coarse"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "share", Fraction(self.share))


class Costly(Folded):
    """The same map, whose numbers all take a look at its whole matrix."""

    kind = "costly"
    read: ClassVar[list[str]] = []

    def enumerated_entries(self, _: MatrixNumber, /) -> int:
        return self.dim * self.sketch_dim

    def kept_bytes(self, _: MatrixNumber, /) -> int:
        return 8 * self.dim * self.sketch_dim

    @property
    def l1_sensitivity(self) -> int:  # type: ignore[override]
        return self._looked_at("the columns")

    @property
    def l2_sensitivity_squared(self) -> int:  # type: ignore[override]
        return self._looked_at("the columns")

    @property
    def spectral_bound(self) -> int:
        return 100 * self._looked_at("the spectral norm")

    @property
    def max_entry(self) -> int:  # type: ignore[override]
        return self._looked_at("all entries")

    def row_maxima(self) -> Ints:
        return np.full(self.sketch_dim, self._looked_at("the rows"))

    def _looked_at(self, what: str) -> int:
        self.read.append(what)
        return 1


@pytest.fixture
def folded() -> Iterator[Folded]:
    register(Folded, "folded")
    yield Folded(dim=1000, sketch_dim=10, seed=1)
    del KINDS["folded"]


@pytest.fixture
def spread() -> Iterator[Spread]:
    register(Spread, "spread")
    yield Spread(dim=1000, sketch_dim=30, seed=1, sparsity=3)
    del KINDS["spread"]


@pytest.fixture
def coarse() -> Iterator[Coarse]:
    register(Coarse, "coarse")
    yield Coarse(dim=1000, sketch_dim=10, seed=1, coarse=7)
    del KINDS["coarse"]


@pytest.fixture
def costly() -> Iterator[Costly]:
    register(Costly, "costly")
    yield Costly(dim=1000, sketch_dim=10, seed=1)
    del KINDS["costly"]


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
    read = ss.load(tmp_path / "one.sketch", expect=ss.projections.Projection.from_json(folded.to_json()))
    assert read == released
    assert read.projection == folded
    assert read.explain().check.verdict == "enough"
    again = sketch.release(epsilon=1.0, neighbours=SALE)
    estimate = ss.squared_distance(released, again)
    assert abs(estimate.value) < 10 * estimate.standard_error


def test_its_own_field_crosses_the_wire(spread: Spread) -> None:
    sketch = spread.sketch()
    sketch.update([1, 2], [100, 200])
    released = sketch.release(epsilon=1.0, neighbours=SALE)
    read = ss.PrivateSketch.from_bytes(released.to_bytes())
    assert read == released
    assert read.projection == spread
    assert read.projection != spread.replace(sparsity=4)
    assert read.explain().check.verdict == "enough"
    flipped = signs.DPSignLogistic(epsilon=1.0, neighbours=SALE).release(sketch)
    assert signs.SignSketch.from_bytes(flipped.to_bytes()).projection == spread
    assert raw_from_bytes(raw_bytes(RawSketch(sketch))).state == sketch
    with pytest.raises(ss.errors.WireFormatError, match=r"is not the expected one: .*sparsity"):
        ss.PrivateSketch.from_bytes(released.to_bytes(), expect=spread.replace(sparsity=4))


def test_fields_without_a_number_are_not_written(coarse: Coarse, tmp_path: Path) -> None:
    sketch = coarse.sketch()
    sketch.update([1, 2], [100, 200])
    released = sketch.release(epsilon=1.0, neighbours=SALE)
    flipped = signs.DPSignLogistic(epsilon=1.0, neighbours=SALE).release(sketch)
    said = "no number for coarse, share of a projection of kind 'coarse': add it to Projection in wire.proto.*WIRE.md"
    for write in (
        released.to_bytes,
        flipped.to_bytes,
        lambda: released.save(tmp_path / "one.sketch"),
        lambda: ss.PrivateTable({"a": released}).save(tmp_path / "all.parquet"),
    ):
        with pytest.raises(ss.InvalidInputError, match=said):
            write()
    assert not [*tmp_path.iterdir()]
    assert ss.projections.Projection.from_json(coarse.to_json()) == coarse, (
        "JSON names its fields, so that it has all of them"
    )


def test_points_have_the_law_of_its_columns(folded: Folded, spread: Spread) -> None:
    """Medians need few entries in a column, which `sparse_entries` states; the error of a mean needs their number."""
    sketches = [projection.sketch() for projection in (folded, spread)]
    for sketch in sketches:
        sketch.update([3, 500], [40, 2])
    dense, few = sketches
    with pytest.raises(ss.InvalidInputError, match="a map with few cells for each item, but this one has 10"):
        ss.frequency(dense, 3, estimator="median")
    assert ss.frequency(few, 3, estimator="median").value == 40.0
    for projection, entries in ((folded, 10), (spread, 3)):
        release = projection.sketch().release(epsilon=1.0, neighbours=SALE)
        estimate = ss.frequency(release, 3, estimator="mean")
        unit = float(release.multiplier) * projection.cell_unit
        errors = release.noise.k4 * unit**4 / entries / estimate.variance**2
        assert estimate.kurtosis == pytest.approx(errors * (unit / projection.cell_unit) ** 4)


def test_its_tables_are_saved_and_loaded(folded: Folded, tmp_path: Path) -> None:
    table = folded.table()
    table.update(["a", "b", "a"], [1, 2, 3])
    releases = {key: table[key].release(epsilon=1.0, neighbours=SALE) for key in table}
    ss.PrivateTable(releases).save(tmp_path / "all.parquet")
    assert ss.load(tmp_path / "all.parquet", expect=folded) == releases


@pytest.mark.parametrize("missing", ["enumerated_entries", "kept_bytes"])
def test_no_projection_leaves_open_what_its_numbers_take(missing: str) -> None:
    namespace = {missing: getattr(ss.projections.Projection, missing)}
    with pytest.raises(TypeError, match=f"abstract method '?{missing}"):
        type("Silent", (Folded,), namespace)(dim=1000, sketch_dim=10, seed=1)


@pytest.mark.parametrize(
    ("seed", "limits", "raw_limits"),  # what is found of a matrix is kept, so each has its own
    [
        (1, {"max_entries": 9999}, {"max_raw_entries": 9999}),
        (2, {"max_matrix_bytes": 79_999}, {"max_matrix_bytes": 79_999}),
    ],
)
def test_an_expensive_projection_is_limited_where_bytes_name_it(
    costly: Costly, seed: int, limits: dict[str, int], raw_limits: dict[str, int]
) -> None:
    sketch = costly.replace(seed=seed).sketch()
    sketch.update([1, 2], [100, 200])
    raw = raw_bytes(RawSketch(sketch))
    releases = [sketch.release(epsilon=1.0, neighbours=near) for near in (SALE, ss.L2(1, unit="sale"))]
    published, other = (signs.DPSignLogistic(epsilon=1.0, neighbours=SALE).release(sketch) for _ in range(2))

    def read() -> None:
        for release in releases:
            explained = ss.PrivateSketch.from_bytes(release.to_bytes()).explain()
            assert explained.check.verdict == ("not checked" if refused else "enough")
            str(explained)
        flipped = signs.SignSketch.from_bytes(published.to_bytes())
        assert flipped.explain().check.verdict == ("not checked" if refused else "enough")
        str(flipped.explain())

    refused = True
    Costly.read.clear()
    with ss.limits.reading_limits(**limits):
        read()
        with pytest.raises(ss.InvalidInputError, match="over the limit of"):
            signs.cosine(published, other, norm_x=9, norm_y=9)
    with ss.limits.reading_limits(**raw_limits), pytest.raises(ss.errors.WireFormatError, match="over the limit of"):
        raw_from_bytes(raw)
    assert not Costly.read
    refused = False
    read()
    assert raw_from_bytes(raw).state == sketch
    assert {*Costly.read} == {"the columns", "the spectral norm", "all entries", "the rows"}
