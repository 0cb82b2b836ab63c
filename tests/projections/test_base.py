"""Projection: agreement by equality, by JSON, by fingerprint and by error."""

import copy
import dataclasses
import functools
import hashlib
import json
import math
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch import SJLT, CountSketch, InvalidInputError
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import IncompatibleProjectionsError
from streamsketch.projections import Projection, Rademacher

SPARSE = SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024, resolution="1/100")
TEXT = (
    '{"dim":1099511627776,"independence":8,"kind":"sjlt-block","resolution":"1/100","seed":2024,'
    '"sketch_dim":1024,"sparsity":8}'
)

resolutions = st.builds(Fraction, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
common = {
    "dim": st.integers(1, 2**60),
    "seed": st.integers(0, 2**64 - 1),
    "independence": st.integers(4, 256),
    "resolution": resolutions,
}
count_sketches = st.builds(CountSketch, sketch_dim=st.integers(0, 24).map(lambda power: 1 << power), **common)
shapes = st.tuples(st.integers(1, 1000), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] << pair[1]))
sparse_maps = st.builds(
    lambda shape, **fields: SJLT(sparsity=shape[0], sketch_dim=shape[1], **fields), shapes, **common
)
projections = count_sketches | sparse_maps
few = {  # so few that two draws are often equal
    "dim": st.sampled_from([8, 9]),
    "sketch_dim": st.sampled_from([8, 16]),
    "seed": st.sampled_from([0, 1]),
    "resolution": st.sampled_from([1, "1/2", 0.5]),
}
few_projections = st.builds(CountSketch, **few) | st.builds(SJLT, sparsity=st.sampled_from([1, 2]), **few)


# --- agreement ----------------------------------------------------------------------------------------------


def test_json_is_canonical() -> None:
    assert SPARSE.to_json() == TEXT


def test_the_fingerprint_is_blake2b_of_the_json() -> None:
    assert SPARSE.fingerprint == hashlib.blake2b(TEXT.encode(), digest_size=16).hexdigest()


@given(projections)
def test_json_comes_back_as_the_same_projection(projection: Projection) -> None:
    text = projection.to_json()
    again = Projection.from_json(text)
    assert again == projection
    assert type(again) is type(projection)
    assert (again.to_json(), again.fingerprint, hash(again)) == (text, projection.fingerprint, hash(projection))
    assert Projection.from_json(text.encode()) == projection
    assert Projection.from_json(json.dumps(json.loads(text), indent=2)) == projection


@given(few_projections, few_projections)
def test_equal_projections_and_no_others_have_equal_json_and_fingerprints(one: Projection, other: Projection) -> None:
    assert (one == other) == (one.to_json() == other.to_json()) == (one.fingerprint == other.fingerprint)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])  # noqa: S301
def test_copies_and_pickles_are_equal_and_make_the_same_matrix(duplicate: Any) -> None:
    columns = SPARSE.columns(range(20))
    again = duplicate(SPARSE)
    assert again == SPARSE
    assert hash(again) == hash(SPARSE)
    assert again.fingerprint == SPARSE.fingerprint
    assert (again.columns(range(20)) == columns).all()


def test_a_pickle_carries_fields_and_no_cached_arrays() -> None:
    fresh = pickle.dumps(SPARSE.replace(seed=1))
    used = SPARSE.replace(seed=1)
    used.columns(range(20))
    assert used.fingerprint
    assert pickle.dumps(used) == fresh


@pytest.mark.parametrize(
    "change",
    [{"dim": 5}, {"sketch_dim": 2048}, {"sparsity": 4}, {"seed": 1}, {"independence": 9}, {"resolution": 1}],
)
def test_each_field_tells_projections_apart(change: dict[str, Any]) -> None:
    other = SPARSE.replace(**change)
    assert other != SPARSE
    assert other.fingerprint != SPARSE.fingerprint
    (name, value), *_ = change.items()
    with pytest.raises(IncompatibleProjectionsError) as error:
        SPARSE.check_same(other)
    assert f"projections: {name} ({getattr(SPARSE, name)} here, {value} there). " in str(error.value)
    assert "to_json()" in str(error.value)


def test_the_error_names_every_field_that_differs_and_no_other() -> None:
    other = CountSketch(dim=5, sketch_dim=1024, seed=2024, resolution="1/100")
    with pytest.raises(IncompatibleProjectionsError) as error:
        SPARSE.check_same(other)
    assert re.search(
        r"projections: dim \(1099511627776 here, 5 there\), kind \(sjlt-block here, count-sketch there\), "
        r"sparsity \(8 here, absent there\)\. ",
        str(error.value),
    )


def test_equal_projections_pass_for_the_same() -> None:
    SPARSE.check_same(Projection.from_json(TEXT))


def test_a_projection_equals_nothing_of_another_type() -> None:
    assert SPARSE != TEXT
    assert CountSketch(dim=8, sketch_dim=8, seed=1) != SJLT(dim=8, sketch_dim=8, sparsity=1, seed=1)


# --- fields -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "resolution", [0.01, "0.01", "1/100", "2/200", Decimal("0.010"), Fraction(1, 100), np.float64(0.01)]
)
def test_every_spelling_of_a_resolution_is_the_same_fraction(resolution: Any) -> None:
    again = SPARSE.replace(resolution=resolution)
    assert again == SPARSE
    assert type(again.resolution) is Fraction
    assert again.grid == Fraction(1, 100)


def test_numpy_integers_are_kept_as_python_integers() -> None:
    projection = SJLT(dim=np.int64(100), sketch_dim=np.uint16(64), sparsity=np.int8(4), seed=np.uint64(2**64 - 1))
    assert Projection.from_json(projection.to_json()) == projection
    assert {type(value) for value in (projection.dim, projection.sketch_dim, projection.seed)} == {int}


def test_a_projection_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SPARSE.seed = 1  # type: ignore[misc]


def test_fields_are_given_by_name_only() -> None:
    with pytest.raises(TypeError):
        CountSketch(100, 64, 1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("dim", 0),
        ("dim", 2**60 + 1),
        ("dim", -1),
        ("sketch_dim", 0),
        ("sketch_dim", 2**25),
        ("seed", -1),
        ("seed", 2**64),
        *((name, bad) for name in ("dim", "sketch_dim", "seed") for bad in (1.0, "1", None, True, math.nan, [1])),
    ],
)
def test_a_field_out_of_range_is_named_with_its_value(name: str, bad: Any) -> None:
    fields: dict[str, Any] = {"dim": 100, "sketch_dim": 64, "seed": 1, name: bad}
    with pytest.raises(InvalidInputError, match=f"{name} must be an integer from .* got {re.escape(repr(bad))}"):
        CountSketch(**fields)


@pytest.mark.parametrize("name", ["dim", "sketch_dim", "seed", "resolution"])
def test_an_integer_too_long_to_print_is_refused_by_name(name: str) -> None:
    fields: dict[str, Any] = {"dim": 100, "sketch_dim": 64, "seed": 1, name: 10**5000}
    with pytest.raises(InvalidInputError, match=name):
        CountSketch(**fields)


@pytest.mark.parametrize("bad", [0, -1, "-1/2", 0.0, 2**63, Fraction(1, 2**63), 1e300, 5e-324])
def test_a_resolution_must_be_a_positive_fraction_of_63_bits(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="resolution must be a positive fraction"):
        SPARSE.replace(resolution=bad)


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, "nan", "1/0", "x", None, True, [1], 1j, Decimal("1e999999999")], ids=repr
)
def test_a_resolution_must_be_a_number(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="resolution must be a finite number"):
        SPARSE.replace(resolution=bad)


@pytest.mark.parametrize(
    "fields", [{"dim": 1, "seed": 0}, {"dim": 2**60, "seed": 2**64 - 1, "resolution": Fraction(2**63 - 1, 2**63 - 2)}]
)
def test_the_largest_and_smallest_fields_are_taken(fields: dict[str, Any]) -> None:
    for sketch_dim in (1, 2**24):
        projection = CountSketch(sketch_dim=sketch_dim, **fields)
        assert Projection.from_json(projection.to_json()) == projection


def test_the_public_map_itself_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Projection(dim=1, sketch_dim=1, seed=1)  # type: ignore[abstract]


# --- hostile JSON -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "1",
        '"text"',
        "[]",
        "{}",
        "{",
        TEXT[:-1],
        TEXT + TEXT,
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5000,
        b"\xff\xfe\x00",
        '{"kind":"sjlt-block"}',
        '{"kind":null}',
        '{"kind":["sjlt-block"]}',
        '{"kind":{"a":1}}',
        TEXT.replace("sjlt-block", "SJLT-block"),
        TEXT.replace("sjlt-block", "count-sketch"),  # which has no sparsity
        TEXT[:-1] + ',"sparsity":8}',
        TEXT[:-1] + ',"extra":8}',
        TEXT.replace('"sparsity":8', '"sparsity":8.0'),
        TEXT.replace('"sparsity":8', '"sparsity":7'),
        TEXT.replace('"sparsity":8', '"sparsity":0'),
        TEXT.replace('"sparsity":8', '"sparsity":1e400'),
        TEXT.replace("2024", "-1"),
        TEXT.replace("2024", "NaN"),
        TEXT.replace("2024", "true"),
        TEXT.replace("2024", '"2024"'),
        TEXT.replace("1099511627776", "9" * 4000),
        TEXT.replace('"1/100"', '"1/0"'),
        TEXT.replace('"1/100"', '"-1/100"'),
        TEXT.replace('"1/100"', '"1e-999999999"'),
        TEXT.replace('"1/100"', '"' + "9" * 10_000 + '"'),
        TEXT.replace('"1/100"', "NaN"),
        TEXT.replace('"1/100"', "Infinity"),
        TEXT.replace('"1/100"', "1e400"),
        TEXT.replace('"1/100"', "null"),
        TEXT.replace('"1/100"', "[1,100]"),
    ],
    ids=lambda text: text[:60] if isinstance(text, str) else repr(text),
)
def test_hostile_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidInputError):
        Projection.from_json(text)


@pytest.mark.parametrize("name", ["dim", "independence", "kind", "resolution", "seed", "sketch_dim", "sparsity"])
def test_a_missing_field_is_named(name: str) -> None:
    fields = json.loads(TEXT)
    del fields[name]
    with pytest.raises(InvalidInputError, match=f"kind None|missing: \\['{name}'\\], unknown: \\[\\]"):
        Projection.from_json(json.dumps(fields))


@pytest.mark.parametrize("make", [functools.partial(SJLT, sparsity=2), CountSketch, Rademacher])
def test_keys_are_hashed_unless_dim_is_given_and_the_json_says_so(make: Callable[..., Projection]) -> None:
    projection = make(sketch_dim=64, seed=1)
    assert projection == make(dim=HASHED_DIM, sketch_dim=64, seed=1)
    assert json.loads(projection.to_json())["dim"] == 1 << 60
    assert projection.indices_of(["JFK"]).shape == (1,)


def test_an_unknown_kind_is_named_beside_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"unknown projection kind 'dense'; this version knows .*sjlt-block"):
        Projection.from_json(TEXT.replace("sjlt-block", "dense"))


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=3), st.data()
)
def test_any_value_of_any_field_gives_a_projection_or_an_error(value: Any, data: st.DataObject) -> None:
    fields = json.loads(TEXT)
    fields[data.draw(st.sampled_from(sorted(fields)))] = value
    try:
        projection = Projection.from_json(json.dumps(fields))
    except InvalidInputError:
        return
    assert Projection.from_json(projection.to_json()) == projection


# --- the bound on the mass ----------------------------------------------------------------------------------
