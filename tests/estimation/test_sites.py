"""Sites of a federation: which stand out, also where one of them distorts the others' average."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import DependentNoiseError, IncompatibleAgreementsError
from streamsketch.estimation import SiteComparison, compare_sites, mean_distance, sites
from streamsketch.estimation.sites import MOST_PAIRS, Search
from streamsketch.features import Category, Features, Number
from tests.noise import SALT, salted_rng

pytestmark = pytest.mark.rejects(2e-4)


FEATURES = Features({"ward": Category(["A", "B"]), "age": Number(0, 100, moments=1)}, seed=7)
SCHEMA = pa.schema({"patient": pa.int64(), "ward": pa.string(), "age": pa.float64()})
AGREEMENT = ss.agree(SCHEMA, features=FEATURES, unit="patient")
RANDOM = salted_rng(36)


def site(people: int, *, age: float = 40.0, wards: str = "AB") -> ss.PrivateSketch:
    columns = [np.arange(people), RANDOM.choice(list(wards), people), RANDOM.normal(age, 10, people)]
    sums: Any = ss.bound(pa.table(columns, schema=SCHEMA), AGREEMENT)
    released: ss.PrivateSketch = sums.release(epsilon=4.0, delta=1e-6, neighbours=AGREEMENT.neighbours)
    return released


ALIKE = {name: site(people) for name, people in {"north": 4000, "south": 2500, "east": 3000}.items()}


def roughly(a: Any, b: Any, tolerance: float, *, by: str, samples: bool) -> Any:
    """Return about what `streamsketch.sameness` does, in a thousandth of the time."""
    assert (by, samples) == ("mean", True)
    apart = mean_distance(a, b)
    usual = apart.standard_error + 1 / a.units.value + 1 / b.units.value
    return SimpleNamespace(p_value=max(1e-9, math.exp(-max(apart.value - tolerance**2, 0.0) / usual)))


@pytest.fixture(autouse=True)
def _rough_test(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "law" not in request.node.name:
        monkeypatch.setattr(sites, "sameness", roughly)


def test_law_of_samples_decides() -> None:
    """As in the other tests, with the test that they replace."""
    found = compare_sites({"odd": site(4000, age=70), **dict(list(ALIKE.items())[:2])}, AGREEMENT)
    assert found.outstanding == ["odd"]
    assert found.others == ("north", "south")


def test_sites_of_one_population_do_not_stand_out() -> None:
    found = compare_sites(ALIKE, AGREEMENT)
    assert found.outstanding == []
    assert found.others == tuple(ALIKE)
    assert found.columns.num_rows == 0
    assert not any(found.pairs["differ"].to_pylist())


@pytest.mark.parametrize("people", [600, 20_000], ids=["few people", "most people"])
def test_one_that_differs_does_not_make_others_stand_out(people: int) -> None:
    """In the second case the average of each site's others is mostly that of the one that differs."""
    found = compare_sites({"odd": site(people, age=70), **ALIKE}, AGREEMENT, level=1e-4)
    assert found.outstanding == ["odd"]
    assert found.differing("odd") == ["age"]
    assert found.others == tuple(ALIKE)
    (odd, *others) = found.sites.to_pylist()
    assert odd["low"] > max(one["high"] for one in others)
    mean = {one["measure"]: one for one in found.of_others.to_pylist() if one["column"] == "age"}["mean"]
    assert abs(mean["estimate"] - 40.0) < 1.0


def test_several_that_differ_are_found_one_after_the_other() -> None:
    odd = {"old": site(2000, age=60), "ward": site(2000, wards="AAAB")}
    found = compare_sites({**odd, **ALIKE}, AGREEMENT, level=1e-3)
    assert {name: found.differing(name) for name in found.outstanding} == {"old": ["age"], "ward": ["ward"]}
    assert found.others == tuple(ALIKE)
    apart = {frozenset((one["first"], one["second"])) for one in found.pairs.to_pylist() if one["differ"]}
    every = {frozenset(pair) for pair in itertools.combinations([*odd, *ALIKE], 2)}
    assert apart == every - {frozenset(pair) for pair in itertools.combinations(ALIKE, 2)}


def test_two_that_differ_both_stand_out_and_a_tolerance_forgives() -> None:
    two = {"old": site(3000, age=60), "north": ALIKE["north"]}
    found = compare_sites(two, AGREEMENT)
    assert found.outstanding == ["old", "north"] == list(found.others)
    assert compare_sites(two, AGREEMENT, tolerance=1.0).outstanding == []


def hidden() -> ss.PrivateSketch:
    """Return a site of three people whose number, as it is released, is within two standard errors of 0.

    The noise of one release in ten or so makes more of them.
    """
    drawn = (site(3) for _ in range(20))
    return next(one for one in drawn if one.units.value <= 2 * one.units.standard_error)


def test_sites_of_too_few_people_are_named_and_left_out() -> None:
    found = compare_sites({**ALIKE, "small": hidden()}, AGREEMENT)
    assert found.unclear["site"].to_pylist() == ["small"]
    assert found.sites["site"].to_pylist() == list(ALIKE)
    assert "small" not in found.description["site"].to_pylist()
    with pytest.raises(ss.InvalidInputError, match="fewer than two of 2 sites have enough units"):
        compare_sites({"small": hidden(), "north": ALIKE["north"]}, AGREEMENT)


def test_what_cannot_be_compared_is_refused() -> None:
    north = ALIKE["north"]
    with pytest.raises(DependentNoiseError):
        compare_sites({"north": north, "again": north}, AGREEMENT)
    other = ss.agree(SCHEMA, features=Features(dict(FEATURES.columns), seed=8), unit="patient")
    with pytest.raises(IncompatibleAgreementsError):
        compare_sites(ALIKE, other)
    sums: Any = ss.bound(pa.table([[1], ["A"], [5.0]], schema=SCHEMA), AGREEMENT)
    with pytest.raises(TypeError, match="of raw"):
        compare_sites({**ALIKE, "raw": sums}, AGREEMENT)
    both = [sums.release(epsilon=1.0, delta=1e-6, neighbours=AGREEMENT.neighbours).with_agreement(None)] * 2
    with pytest.raises(IncompatibleAgreementsError):
        compare_sites(dict(zip("ab", both, strict=True)), AGREEMENT)


def test_two_releases_of_one_sites_people_are_not_two_sites() -> None:
    columns = [np.arange(2000), ["A"] * 2000, [40.0] * 2000]
    sums: Any = ss.bound(pa.table(columns, schema=SCHEMA), AGREEMENT)
    twice = [sums.release(epsilon=4.0, delta=1e-6, neighbours=AGREEMENT.neighbours) for _ in range(2)]
    with pytest.raises(ss.InvalidInputError, match="first and second share data"):
        compare_sites(dict(zip(("first", "second"), twice, strict=True)), AGREEMENT)


def test_tests_that_are_left_out_by_their_law_would_have_found_nothing() -> None:
    """Those whose p-value is said to be far above the level have one above it."""
    releases = [site(int(people), age=age) for people in (400, 1500) for age in (40, 42, 60)]
    search = Search(releases, 0.0, 0.05)
    pairs = list(itertools.combinations(range(len(releases)), 2))
    left_out = [(i, j) for i, j in pairs if search._is_surely_above(i, [j], 0.05 / 15)]
    left_out.sort(key=lambda pair: -mean_distance(releases[pair[0]], releases[pair[1]]).value)
    for first, second in left_out[:1]:
        assert ss.sameness(releases[first], releases[second], by="mean", samples=True).p_value > 0.05 / 15
    assert (3 if SALT else 4) < len(left_out) < len(pairs)


def test_pairs_are_tested_where_they_are_few_and_all_numbers_are_plain() -> None:
    many = {f"site {place}": site(400) for place in range(11)}
    found = compare_sites(many, AGREEMENT)
    assert found.pairs.num_rows == 55 > MOST_PAIRS
    assert set(found.pairs["differ"].to_pylist()) == {None}
    plain = found.to_dict()
    assert set(plain) > {"sites", "others", "unclear", "columns", "pairs", "description"}
    assert [one["site"] for one in plain["sites"]] == list(many)
    assert isinstance(found, SiteComparison)
