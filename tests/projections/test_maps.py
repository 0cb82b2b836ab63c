"""What every projection keeps to: its twin's columns, exact sensitivities, linearity, honest refusals."""

import json
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.projections import explicit
from streamsketch.signs.sign_changes import cell_steps
from tests.oracles import naive_maps
from tests.projections.zoo import SMALL, WIDE, each, each_small, each_wide, name

# --- the matrix ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "projection",
    [one for one in SMALL + WIDE if one.kind != "rotation"],  # of which the twin is the test of its rows
    ids=name,
)
def test_columns_equal_their_twin(projection: ss.projections.Projection) -> None:
    indices = sorted({0, min(1, projection.dim - 1), projection.dim // 2, projection.dim - 1})
    expected = [naive_maps.column(projection.to_json(), index) for index in indices]
    assert projection.columns(indices).T.tolist() == expected


@each
def test_entries_are_what_columns_hold(projection: ss.projections.Projection) -> None:
    indices = np.unique([0, min(1, projection.dim - 1), projection.dim // 2, projection.dim - 1])
    entries = projection.sparse_entries(indices)
    if entries is None:
        assert 2 * projection.nonzeros > projection.sketch_dim
        return
    columns = np.zeros((indices.size, projection.sketch_dim), dtype=np.int64)
    np.put_along_axis(columns, entries[0].astype(np.int64), entries[1].astype(np.int64), axis=1)
    assert np.array_equal(columns.T, projection.columns(indices))
    assert [array.shape for array in entries] == [(indices.size, projection.nonzeros)] * 2
    for bad in (-1, projection.dim):
        with pytest.raises(ss.InvalidInputError, match="dim"):
            projection.sparse_entries(np.array([bad]))


@each_small
def test_sensitivities_and_bounds_are_those_of_all_columns(projection: ss.projections.Projection) -> None:
    columns = projection.columns(np.arange(projection.dim))
    assert projection.l1_sensitivity == np.abs(columns).sum(axis=0).max()
    assert projection.l2_sensitivity_squared == (columns**2).sum(axis=0).max()
    assert np.abs(columns).max() <= projection.max_entry


def test_steps_of_cells_are_those_of_all_columns_and_fjlt_finds_them_by_fast_transforms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maps = [
        ss.projections.GaussianProjection(dim=100, sketch_dim=5, seed=3),
        *(
            ss.projections.FJLT(dim=dim, sketch_dim=5, seed=dim, density=q)
            for dim, q in ((100, "1/3"), (64, 1), (1, 1), (9, "1/9"))
        ),
    ]
    for projection in maps:
        largest = np.abs(projection.columns(np.arange(projection.dim))).max(axis=1)
        with monkeypatch.context() as patched:
            if isinstance(
                projection, ss.projections.FJLT
            ):  # a column takes all nonzeros of P, so all of them dim times as many
                patched.delattr(ss.projections.FJLT, "block")
            assert cell_steps(projection, ss.L1(3)).tolist() == np.maximum(3 * largest, 1).tolist()


@each_wide
def test_fixed_columns_have_their_sensitivity_in_closed_form(projection: ss.projections.Projection) -> None:
    if isinstance(projection, explicit.RandomNorms):
        with pytest.raises(ss.InvalidInputError, match=r"entries to enumerate. Use a map with a sensitivity"):
            projection.l1_sensitivity  # noqa: B018
    else:
        columns = projection.columns([0, 5, projection.dim - 1])
        assert (np.abs(columns).sum(axis=0) == projection.l1_sensitivity).all()
        assert ((columns**2).sum(axis=0) == projection.l2_sensitivity_squared).all()


def test_sensitivities_are_found_once_whatever_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    original = explicit.RandomNorms.column_norms
    monkeypatch.setattr(
        explicit.RandomNorms,
        "column_norms",
        lambda self: looks.append(self) or original(self),  # type: ignore[func-returns-value]
    )
    projection = ss.projections.GaussianProjection(dim=40, sketch_dim=5, seed=987)
    again = ss.projections.GaussianProjection(dim=40, sketch_dim=5, seed=987, resolution="1/100")
    assert (projection.l1_sensitivity, projection.l2_sensitivity_squared) == (
        again.l1_sensitivity,
        again.l2_sensitivity_squared,
    )
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("projection", "build"),
    [
        (ss.projections.FJLT(dim=30, sketch_dim=4, seed=777), "build_sparse_matrix"),
        (ss.projections.Rotation(dim=30, sketch_dim=4, seed=777), "build_triangle"),
    ],
    ids=["fjlt", "rotation"],
)
def test_copies_share_what_is_costly_to_rebuild(
    monkeypatch: pytest.MonkeyPatch, projection: ss.projections.Projection, build: str
) -> None:
    looks = []
    original = getattr(type(projection), build)
    monkeypatch.setattr(type(projection), build, lambda self: looks.append(self) or original(self))
    for _ in range(3):
        sketch = pickle.loads(pickle.dumps(projection.replace(resolution="1/7").sketch()))  # noqa: S301
        sketch.update(3)
        sketch.merge(sketch.copy())
    assert len(looks) == 1


def test_a_long_look_shows_its_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ss.projections.UniformProjection(dim=30, sketch_dim=4, seed=4321).l1_sensitivity  # noqa: B018
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    # of 2^29 entries, which would take seconds
    monkeypatch.setattr(ss.projections.UniformProjection, "block", lambda *_: np.ones((1, 1), dtype=np.int64))
    assert ss.projections.UniformProjection(dim=1 << 17, sketch_dim=1 << 12, seed=4322).column_norms() == (1, 1)
    shown = capsys.readouterr()
    assert "sensitivity of UniformProjection" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(40, 40), (40, 7), (3, 2), (1, 1)], ids=str)
def test_a_rotation_has_orthogonal_rows_of_length_root_dim(shape: tuple[int, int], seed: int) -> None:
    dim, sketch_dim = shape
    rows = (
        ss.projections.Rotation(dim=dim, sketch_dim=sketch_dim, seed=seed, fraction_bits=12).columns(range(dim)) / 2**12
    )
    assert np.abs(rows @ rows.T - dim * np.eye(sketch_dim)).max() < dim * 2.0**-11


@pytest.mark.parametrize("seed", [214, 419, 2053])
def test_a_rotation_whose_gaussian_row_is_zero_is_refused(seed: int) -> None:
    """Divided by zero, it had entries of -2^63 and a sensitivity of 0: releases without noise."""
    with pytest.raises(ss.InvalidInputError, match=rf"seed={seed} at dim=1 are linearly dependent.*another seed"):
        ss.projections.Rotation(dim=1, sketch_dim=1, seed=seed, resolution="1/7")
    with pytest.raises(ss.InvalidInputError, match="another seed"):
        ss.projections.Projection.from_json(
            ss.projections.Rotation(dim=1, sketch_dim=1, seed=1).to_json().replace('"seed":1', f'"seed":{seed}')
        )


def test_rows_that_nearly_lie_in_the_span_of_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    block = ss.projections.GaussianProjection.block
    monkeypatch.setattr(ss.projections.GaussianProjection, "block", lambda self, keys: block(self, keys)[[0, 1, 0]])
    flat = ss.projections.Rotation(dim=30, sketch_dim=3, seed=1)
    sketch = flat.sketch()
    with pytest.raises(ss.InvalidInputError, match="another seed"):
        sketch.update([3, 4])
    with pytest.raises(ss.InvalidInputError, match="another seed"):
        flat.l2_sensitivity_squared  # noqa: B018


def test_a_rotation_is_gram_schmidt_of_its_gaussian_rows() -> None:
    projection = ss.projections.Rotation(dim=30, sketch_dim=6, seed=5, fraction_bits=12)
    gaussian = np.array(
        [
            naive_maps.column(ss.projections.GaussianProjection(dim=30, sketch_dim=6, seed=5).to_json(), j)
            for j in range(30)
        ],
        dtype=float,
    ).T
    rows = []
    for row in gaussian:
        left = row - sum(((row @ other) * other for other in rows), np.zeros(30))
        rows.append(left / np.linalg.norm(left))
    expected = np.array(rows) * np.sqrt(30) * 2**12
    assert np.abs(projection.columns(range(30)) - expected).max() < 0.51


@pytest.mark.parametrize(("dim", "bins"), [(60, 12), (61, 12), (64, 64), (7, 3), (1000, 1)], ids=str)
def test_oporp_deals_equal_bins(dim: int, bins: int) -> None:
    sizes = np.abs(ss.projections.OPORP(dim=dim, sketch_dim=bins, seed=3).columns(range(dim))).sum(axis=1)
    assert set(sizes.tolist()) <= {dim // bins, -(-dim // bins)}
    assert sizes.sum() == dim


def test_a_graph_column_has_distinct_rows() -> None:
    columns = ss.SJLT(dim=500, sketch_dim=11, sparsity=9, seed=1, construction="graph").columns(range(500))
    assert (np.abs(columns).sum(axis=0) == 9).all()
    assert np.abs(columns).max() == 1


def test_what_projections_share_is_read_only() -> None:
    """Equal projections share it: whoever changed it would change their sensitivities' matrix behind them."""
    matrix, rows = (
        ss.projections.FJLT(dim=64, sketch_dim=8, seed=3).sparse_matrix,
        ss.projections.SRHT(dim=64, sketch_dim=8, seed=3).rows,
    )
    for array in (matrix.data, matrix.indices, matrix.indptr, rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


# --- agreement --------------------------------------------------------------------------------------------------


@each
def test_json_pickle_and_repr_bring_the_projection_back(projection: ss.projections.Projection) -> None:
    assert ss.projections.Projection.from_json(projection.to_json()) == projection
    assert pickle.loads(pickle.dumps(projection)) == projection  # noqa: S301
    assert json.loads(projection.to_json())["kind"] == projection.kind
    names = {name: getattr(ss.projections, name) for name in ss.projections.__all__} | {"Fraction": Fraction}
    assert eval(repr(projection), names) == projection  # noqa: S307


@pytest.mark.parametrize("dim", [3, 100, 1024, 5000])
def test_a_density_keeps_through_a_float(dim: int) -> None:
    projection = ss.projections.FJLT(dim=dim, sketch_dim=8, seed=3)
    assert projection.replace(density=float(projection.density or 0)) == projection
    assert projection.replace(density=0.1).density == Fraction(-(-(2**30) // 10), 2**30)


def test_releases_of_every_map_cross_the_wire() -> None:
    for projection in SMALL:
        released = projection.sketch().release(epsilon=1, neighbours=ss.L1(1))
        assert ss.PrivateSketch.from_bytes(released.to_bytes(), expect=projection) == released


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ss.projections.OPORP(dim=5, sketch_dim=6, seed=1), "sketch_dim=6 and dim=5"),
        (lambda: ss.SJLT(dim=5, sketch_dim=6, sparsity=7, seed=1, construction="graph"), "sparsity=7 and sketch_dim=6"),
        (
            lambda: ss.SJLT(dim=5, sketch_dim=6, sparsity=2, seed=1, construction="tree"),
            "'block' or 'graph', got 'tree'",
        ),
        (
            lambda: ss.projections.GaussianProjection(dim=5, sketch_dim=6, seed=1, fraction_bits=1),
            r"from 2 to 12, got 1",
        ),
        (
            lambda: ss.projections.UniformProjection(dim=5, sketch_dim=6, seed=1, fraction_bits=13),
            r"from 2 to 12, got 13",
        ),
        (lambda: ss.projections.GaussianProjection(dim=5, sketch_dim=1 << 17, seed=1), r"from 1 to 65536, got 131072"),
        (lambda: ss.projections.VerySparse(dim=5, sketch_dim=6, seed=1, sparsity=0), r"got 0"),
        (lambda: ss.projections.Identity(dim=5, sketch_dim=4), "sketch_dim=4, dim=5"),
        (lambda: ss.projections.Identity(dim=5, seed=4), "seed=4"),
        (lambda: ss.projections.SRHT(dim=5, sketch_dim=9, seed=1), "sketch_dim=9, dim=5 .padded to 8"),
        (lambda: ss.projections.FJLT(dim=5, sketch_dim=9, seed=1, density=0), r"probability in \(0, 1\], got '0'"),
        (
            lambda: ss.projections.FJLT(dim=5, sketch_dim=9, seed=1, density="3/2"),
            r"probability in \(0, 1\], got '3/2'",
        ),
        (lambda: ss.projections.FJLT(dim=1 << 40, sketch_dim=9, seed=1), "sketch_dim=9 and dim=1099511627776"),
        (
            lambda: ss.projections.FJLT(dim=1 << 15, sketch_dim=1 << 12, seed=1, density="3/4"),
            r"at most 67108864; got density=0.75, sketch_dim=4096 and dim=32768 .*Omit density",
        ),
        (lambda: ss.projections.FJLT.density_for("a", 5), r"beta must be a probability in \(0, 1\), got 'a'"),  # type: ignore[arg-type]
        (lambda: ss.projections.FJLT.density_for(0.1, 0), r"dim must be an integer from 1 to .*got 0"),
        (lambda: ss.projections.FJLT.density_for(0.1, 2.5), r"dim must be an integer from 1 to .*got 2.5"),  # type: ignore[arg-type]
        (lambda: ss.projections.FJLT.density_for(1.0, 5), r"beta must be a probability in \(0, 1\), got 1.0"),
        (lambda: ss.projections.Rotation(dim=5, sketch_dim=6, seed=1), "dim=5 and sketch_dim=6"),
        (lambda: ss.projections.Rotation(dim=1 << 40, sketch_dim=6, seed=1), "dim=1099511627776"),
        (lambda: ss.projections.Rademacher(dim=5, sketch_dim=6, seed=1, independence=3), r"from 4 to 256, got 3"),
        (
            lambda: ss.projections.UniformProjection(dim=5, sketch_dim=6, seed=1, independence=257),
            r"from 4 to 256, got 257",
        ),
        (
            lambda: ss.projections.GaussianProjection(dim=5, sketch_dim=6, seed=1, independence=4097),
            r"from 4 to 4096, got 4097",
        ),
    ],
)
def test_bad_fields_are_refused_with_their_values(build: Any, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        build()


def test_a_gaussian_map_may_have_independence_for_all_its_columns() -> None:
    projection = ss.projections.GaussianProjection(dim=4096, sketch_dim=2, seed=7, independence=4096)
    indices = [0, 1, 4095]
    twin = [naive_maps.column(projection.to_json(), index) for index in indices]
    assert projection.columns(indices).T.tolist() == twin


# --- linearity --------------------------------------------------------------------------------------------------


events = st.lists(st.tuples(st.integers(0, 49), st.integers(-(2**20), 2**20)), max_size=30)


@each_small
@settings(max_examples=6)  # of each map
@given(stream=events, cut=st.integers(0, 30))
def test_a_sketch_is_the_sum_of_its_columns_however_it_came_about(
    projection: ss.projections.Projection, stream: list[tuple[int, int]], cut: int
) -> None:
    stream = [(index % projection.dim, value) for index, value in stream]
    vector = np.zeros(projection.dim, dtype=np.int64)
    for index, value in stream:
        vector[index] += value
    expected = projection.columns(np.arange(projection.dim)) @ vector
    one_by_one, first, second = (projection.sketch() for _ in range(3))
    for index, value in stream:
        one_by_one.update(index, value)
    for part, sketch in ((stream[:cut], first), (stream[cut:], second)):
        sketch.update([index for index, _ in part], [value for _, value in part])
    table = projection.table()
    table.update(["a"] * len(stream), [index for index, _ in stream], [value for _, value in stream])
    assert (one_by_one.state() == expected).all()
    assert (second + first).state().tolist() == expected.tolist()
    if stream:
        assert (table["a"].state() == expected).all()


@each_small
def test_what_is_out_of_range_changes_nothing(projection: ss.projections.Projection) -> None:
    sketch = projection.sketch()
    sketch.update(0, 7)
    before = sketch.state()
    with pytest.raises(ss.InvalidInputError, match="indices must lie in"):
        sketch.update([0, projection.dim], [1, 1])
    assert (sketch.state() == before).all()
    sketch.update([0, 0], [2**62, 2**62])  # a sum beyond 63 bits is no error
    wrapped = before + 2 * (projection.columns([0])[:, 0] << 62)
    assert (sketch.state() == wrapped).all()
    assert sketch.mass == 2**63 - 1


def test_the_zoo_has_every_kind() -> None:
    from streamsketch.projections.families import KINDS  # noqa: PLC0415

    assert {projection.kind for projection in SMALL} == set(KINDS)
    assert len({name(projection) for projection in SMALL}) > len(SMALL) - 3
