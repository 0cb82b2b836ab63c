"""Estimates that one's own raw sketch took part in are of a type that says how secret they are."""

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.estimation import Estimates, SecretEstimate, SecretEstimates, normalised_inner_product
from streamsketch.estimation.blocks import is_secret
from streamsketch.estimation.measures import By
from streamsketch.estimation.points import points_of
from tests.counted import AGREEMENT, counted, customers

OWN, PUBLISHED = customers(300, (1, 2)), counted(400, (1, 3))

OF_TWO = [
    ss.squared_distance,
    ss.inner_product,
    ss.cosine,
    normalised_inner_product,
    ss.profile_distance,
    ss.estimation.mean_distance,
    ss.estimation.mean_product,
]
OF_ONE: list[Callable[[ss.Sketch | ss.PrivateSketch], ss.estimation.Estimate]] = [
    ss.squared_norm,
    ss.estimation.mean_norm,
    lambda x: ss.frequency(x, 1, agreement=AGREEMENT, estimator="mean"),
    lambda x: ss.frequency(x, 1, agreement=AGREEMENT, estimator="median"),
    lambda x: ss.top(x, [1, 2], agreement=AGREEMENT).missed,
    lambda x: ss.top(x, [1, 2], agreement=AGREEMENT).squared_norm,
]


@pytest.mark.parametrize("estimator", OF_TWO)
def test_an_estimate_is_secret_if_one_side_is(estimator: Callable[..., ss.estimation.Estimate]) -> None:
    for x, y in ((OWN, PUBLISHED), (PUBLISHED, OWN), (OWN, OWN)):
        assert is_secret([x, y])
        assert type(estimator(x, y)) is SecretEstimate
    public = [PUBLISHED, counted(300, (1, 2))]
    assert not is_secret(public)
    assert not estimator(*public).secret


@pytest.mark.parametrize("estimator", OF_ONE)
def test_an_estimate_of_a_raw_sketch_is_secret(estimator: Callable[..., ss.estimation.Estimate]) -> None:
    found = estimator(OWN)
    assert isinstance(found, SecretEstimate)
    assert isinstance(found.scaled(2.0), SecretEstimate)
    assert found.scaled(2.0).interval(0.9) == tuple(2 * end for end in found.interval(0.9))
    assert not estimator(PUBLISHED).secret
    assert found.as_secret() == found


@pytest.mark.parametrize("by", ["distance", "cosine", "profile", "mean"])
def test_a_table_is_secret_if_one_sketch_is(by: By) -> None:
    table = ss.pairwise([PUBLISHED, counted(300, (1, 2)), OWN], by=by)
    assert isinstance(table, SecretEstimates)
    assert isinstance(table[0, 1], SecretEstimate), "of two releases, but nobody would look it up"
    assert isinstance(table.with_parts(*table.parts()), SecretEstimates)
    assert table.to_arrow(["a", "b", "c"]).schema.metadata == {b"streamsketch.secret": b"true"}
    public = ss.pairwise([PUBLISHED, counted(300, (1, 2))], by=by)
    assert type(public) is Estimates
    assert public.to_arrow(["a", "b"]).schema.metadata is None


def test_secret_results_say_so_when_printed() -> None:
    estimate = ss.squared_norm(OWN)
    assert str(estimate).endswith(" (secret: from a raw sketch)")
    assert repr(estimate).startswith("<SecretEstimate ")
    assert repr(estimate).endswith(", secret: from a raw sketch>")
    for found in (
        ss.pairwise([PUBLISHED, OWN]),
        ss.top(OWN, [1, 2], agreement=AGREEMENT),
        ss.linkage([PUBLISHED, OWN]),
    ):
        assert repr(found).count("secret: from a raw sketch") == 1
    published = (
        ss.squared_norm(PUBLISHED),
        ss.top(PUBLISHED, [1], agreement=AGREEMENT),
        ss.linkage([PUBLISHED, counted(9, (1,))]),
    )
    assert not any("secret" in f"{found} {found!r}".lower() for found in published)


def test_secret_results_say_so_as_json_and_in_tables() -> None:
    for secret, sketch in ((True, OWN), (False, PUBLISHED)):
        estimate = ss.squared_norm(sketch)
        for fields in (estimate.to_dict(), estimate.with_interval()):
            assert json.loads(json.dumps(fields)).get("secret", False) is secret
        metadata = {b"streamsketch.secret": b"true"} if secret else None
        assert ss.frequency(sketch, pa.array([1, 2]), agreement=AGREEMENT).schema.metadata == metadata
        assert ss.top(sketch, [1, 2], agreement=AGREEMENT).table.schema.metadata == metadata
        assert points_of(sketch, pa.array([1]).to_numpy()).only(0).secret is secret
