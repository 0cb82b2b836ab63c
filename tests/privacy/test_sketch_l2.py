"""A bound on what one unit changes in the exact sketches: its steps, sensitivities, implications and text."""

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.accounting import mechanisms
from streamsketch.accounting.book import spending_of
from streamsketch.accounting.sensitivity import most_in_a_cell, sensitivity_of
from streamsketch.parties import Key, Round
from streamsketch.privacy import Budget, Neighbours
from streamsketch.privacy.bounds import Basis, Bounds
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.privacy.neighbours import MOST_KEYS, NEIGHBOURS
from tests.projections import zoo

FRACTIONS = st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000)
FINE = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/8192")


def data_units(neighbours: ss.SketchL2, projection: ss.projections.Projection) -> tuple[Fraction, Fraction]:
    """Return the square of the bound, and that of a grid step of a cell."""
    return Fraction(neighbours.bound) ** 2, projection.scale_squared * projection.grid**2


@zoo.each
@settings(max_examples=settings.default.max_examples // 3)  # of each of 33 maps
@given(bound=FRACTIONS, keys=st.sampled_from([1, 2, 13, MOST_KEYS]))
def test_it_bounds_the_cells_of_every_map(projection: ss.projections.Projection, bound: Fraction, keys: int) -> None:
    neighbours = ss.SketchL2(bound, max_keys=keys)
    squared_bound, squared_step = data_units(neighbours, projection)
    if squared_step > squared_bound:
        with pytest.raises(ss.InvalidInputError, match="below one grid step"):
            sensitivity_of(projection, neighbours)
        return
    found, k = sensitivity_of(projection, neighbours), projection.sketch_dim
    assert found.l2_squared * squared_step <= squared_bound < (found.l2_squared + 1) * squared_step
    assert neighbours.cell_steps(projection) == most_in_a_cell(projection, neighbours) == math.isqrt(found.l2_squared)
    # n cells move by √n times the norm in ℓ1 at most; and integers whose squares sum to D2² are at most D2² in all
    assert (found.cells, found.moved) == (k, min(k * keys, found.l2_squared))
    assert found.l1**2 <= min(k * keys * found.l2_squared, found.l2_squared**2) < (found.l1 + 1) ** 2


def test_the_bound_is_reached_by_whole_steps() -> None:
    projection = ss.projections.Identity(dim=4)
    # (1, 1, 0, 0) has norm √2: a bound of 1.5 allows it, though ⌊1.5⌋² = 1 does not
    assert ss.SketchL2("1.5").squared_cell_steps(projection) == 2
    assert ss.SketchL2("1.5").cell_steps(projection) == 1
    assert sensitivity_of(projection, ss.SketchL2("1.5")).l1 == 2


def test_bounds_off_the_grid_are_refused() -> None:
    coarse = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution=1000)
    with pytest.raises(ss.InvalidInputError, match=r"below one grid step .* each of 500 .* finer"):
        sensitivity_of(coarse, ss.SketchL2(1))
    with pytest.raises(ss.InvalidInputError, match=r"2\*\*31 grid steps or more .* coarser"):
        sensitivity_of(FINE, ss.SketchL2(1 << 20))
    with pytest.raises(ss.InvalidInputError, match=r"exact sketch.*L1\(bound\)"):
        ss.SketchL2(1).grid_steps(Fraction(1))


@pytest.mark.parametrize(("one", "other", "implied"), [
    (ss.SketchL2(3), ss.SketchL2(4), True),
    (ss.SketchL2(3, max_keys=2), ss.SketchL2(3), True),
    (ss.SketchL2(3), ss.SketchL2(3, max_keys=2), False),
    (ss.SketchL2(4), ss.SketchL2(3), False),
    (ss.SketchL2(3), ss.SketchL2(3, unit="user"), False),
    *((relation(3, max_keys=2), ss.SketchL2(3), False) for relation in (ss.L1, ss.L2, ss.OneCoordinate)),
    *((ss.SketchL2(1, max_keys=1), relation(9, max_keys=2), False) for relation in (ss.L1, ss.L2, ss.OneCoordinate)),
])  # fmt: skip
def test_it_implies_wider_bounds_of_its_kind(one: Neighbours, other: Neighbours, *, implied: bool) -> None:
    assert one.implies(other) is implied
    if implied:
        assert Bounds(one, "scale").basis_for(other) == "enforced"
    else:
        with pytest.raises(ss.InvalidInputError, match="does not imply"):
            Bounds(one, "scale").basis_for(other)


PARTIES = [Key.generate().public, Key.generate().public]


def round_of(**options: Any) -> Round:
    return Round(FINE, parties=PARTIES, **options)


def of(bound: int, keys: int = MOST_KEYS) -> ss.SketchL2:
    return ss.SketchL2(bound, unit="user", max_keys=keys)


@pytest.mark.parametrize(("how", "keys", "merged"), [
    ({"keyed": True}, (2, 3), of(7, 5)),
    ({"keyed": False}, (1, 1), of(7, 1)),
    ({"keyed": True}, (MOST_KEYS, 3), of(7)),
    ({"keyed": True, "disjoint_units": True}, (2, 3), of(4, 3)),
])  # fmt: skip
def test_merges_add_bounds(how: dict[str, bool], keys: tuple[int, int], merged: ss.SketchL2) -> None:
    one, other = Bounds(of(3, keys[0]), "scale"), Bounds(of(4, keys[1]), "equal")
    for found in (one.merged(other, **how), other.merged(one, **how)):
        assert (found.neighbours, found.clip, found.together) == (merged, "scale and equal", 1)
        assert Bounds.from_dict(found.to_dict()) == found


def test_other_bounds_do_not_merge_with_it() -> None:
    found = Bounds(of(3), "scale").merged(Bounds(ss.L1(3, unit="user"), "scale"), keyed=True)
    assert "bounded to one user of at most 3 (L1)" in found.ended


@given(bound=FRACTIONS, count=st.integers(1, 1000))
def test_windows_add_squares(bound: Fraction, count: int) -> None:
    found = ss.SketchL2(bound, unit="user", max_keys=3).in_windows(count)
    exact = bound**2 * count
    assert exact <= Fraction(found.bound) ** 2 <= exact * (1 + Fraction(1, 10**5)) ** 2 or bound < 1
    assert Fraction(found.bound) ** 2 >= exact
    assert (found.unit, found.max_keys) == ("user", 3 * count)
    assert ss.SketchL2(bound).in_windows(count).any_keys


@pytest.mark.parametrize(("neighbours", "text", "code"), [
    (ss.SketchL2(), "one event of at most 1 (L2 of sketches)", "SketchL2(1, unit='event')"),
    (of(4, 1), "one user of at most 4 in one key (L2 of sketches)",
     "SketchL2(4, unit='user', max_keys=1)"),
    (ss.SketchL2("1/2", max_keys=13), "one event of at most 1/2 in at most 13 keys together (L2 of sketches)",
     "SketchL2(1/2, unit='event', max_keys=13)"),
])  # fmt: skip
def test_its_text(neighbours: ss.SketchL2, text: str, code: str) -> None:
    assert (str(neighbours), repr(neighbours)) == (text, code)


@pytest.mark.parametrize(("basis", "text", "protected"), [
    ("enforced", "together (L2 of sketches), enforced whatever its rows hold, by",
     "one user in up to 13 keys, whatever its rows hold: adding or removing it changes the exact sketches of all keys"),
    ("asserted", "together (L2 of sketches), asserted, by", "one user in up to 13 keys: adding or removing it"),
    (None, "together (L2 of sketches), by", "one user in up to 13 keys: adding or removing it changes"),
])  # fmt: skip
def test_only_what_was_clipped_holds_whatever_the_rows_hold(basis: Basis | None, text: str, protected: str) -> None:
    released = FINE.sketch().release(epsilon=1, delta=1e-6, neighbours=of(4, 13))
    guarantee = dataclasses.replace(released.guarantee, basis=basis)
    released = ss.PrivateSketch(
        FINE, released.values, released.noise, guarantee, release_ids=released.release_ids, data_ids=released.data_ids
    )
    assert text in str(released.guarantee)
    assert protected in ss.explain(released).to_dict()["protected"]


def test_gaussian_noise_is_for_one_unit_in_any_number_of_keys() -> None:
    """It is that of one key, but for the rounding of the cells that a unit may move, far below a grid step."""
    one, any_number = (
        ss.AdditiveNoise(epsilon=1, delta=1e-6, neighbours=of(4, keys)).calibrated(FINE).noise.amount
        for keys in (1, MOST_KEYS)
    )
    assert one <= any_number <= one + 1


@pytest.mark.parametrize("options", [{}, {"mechanism": "laplace"}, {"mechanism": "laplace", "delta": 1e-6}])
@pytest.mark.parametrize("publish", [ss.AdditiveNoise, round_of])
def test_laplace_noise_needs_a_number_of_keys(publish: Callable[..., Any], options: dict[str, Any]) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"any number of keys. Set delta .* set max_keys"):
        publish(epsilon=1, neighbours=of(4), **options)
    publish(epsilon=1, neighbours=of(4, 3), **options | {"mechanism": "laplace"})


@pytest.mark.parametrize("publish", [ss.AdditiveNoise, round_of])
def test_laplace_noise_must_be_named(publish: Callable[..., Any]) -> None:
    with pytest.raises(ss.InvalidInputError, match="meant for Gaussian noise: pass delta"):
        publish(epsilon=1, neighbours=of(4, 3))


def test_laplace_noise_hides_all_cells_of_all_keys() -> None:
    noise = ss.AdditiveNoise(epsilon=1, neighbours=of(1, 4), mechanism="laplace").calibrated(FINE).noise
    assert noise.amount == math.isqrt(64 * 4 * (1 << 14) ** 2)
    assert [one.mechanism for one in mechanisms(FINE, epsilon=1, neighbours=of(1, 4))] == ["laplace"]
    with pytest.raises(ss.InvalidInputError, match="max_keys"):
        mechanisms(FINE, epsilon=1, neighbours=of(1))


def test_predictions_are_of_the_sketch_that_is_published() -> None:
    one, many = (mechanisms(FINE, epsilon=1, delta=1e-6, neighbours=of(4, keys)) for keys in (1, 13))
    found = {(option.mechanism, option.variance) for options in (one, many) for option in options[:1]}
    assert len(found) == 1, "Gaussian noise is the same for any number of keys"


def test_too_much_rounding_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"may move 274,877,906,880 cells.*Set max_keys"):
        _ = round_of(epsilon=1, delta=1e-6, neighbours=of(64)).noise
    assert round_of(epsilon=1, delta=1e-6, neighbours=of(64, 9)).noise.amount > 1


@pytest.mark.parametrize("keys", [1, 13, MOST_KEYS])
def test_whole_vectors_and_streams_that_nothing_clips_are_refused(keys: int) -> None:
    neighbours, vectors = of(4, keys), np.ones((2, 8), dtype=np.int64)
    small = ss.projections.FJLT(dim=8, sketch_dim=4, seed=1, density="1/2", resolution="1/16")
    noise = ss.AdditiveNoise(epsilon=1, delta=1e-6, neighbours=neighbours)
    for attempt in (
        lambda: noise.release_rows(small, vectors),
        lambda: ss.release.PrivateProjection(projection=small, epsilon=1, delta=1e-6, neighbours=neighbours),
        lambda: ss.release.release_vector(small, vectors[0], epsilon=1, delta=1e-6, neighbours=neighbours),
        lambda: ss.release.release_vector(
            small, vectors[0], epsilon=1, delta=1e-6, neighbours=neighbours, noise_place="input"
        ),
    ):
        with pytest.raises(ss.InvalidInputError, match=r"whole vectors are not\. Use L2"):
            attempt()
    with pytest.raises(ss.InvalidInputError, match=r"over the whole stream, which is L1"):
        ss.release.PanPrivateSketch(FINE, epsilon=1, delta=1e-6, neighbours=neighbours)  # type: ignore[arg-type]


def test_individual_privacy_rests_on_the_data() -> None:
    with pytest.raises(ss.InvalidInputError, match="bounds nothing before the map"):
        IndividualGuarantee(1.0, 0.0, of(4, 1), "iDP-SignRP-RR")


def test_keys_are_not_selected_for_units_in_any_number_of_keys() -> None:
    with pytest.raises(ss.InvalidInputError, match="set max_keys, or list the keys"):
        key_threshold(Budget(1.0, 1e-6), of(4).max_keys)


@pytest.mark.parametrize("keys", [1, MOST_KEYS])
def test_a_ledger_is_charged_for_one_unit_in_all_its_keys(keys: int) -> None:
    released = FINE.sketch().release(epsilon=1, delta=1e-6, neighbours=of(4, keys))
    spent = spending_of(released.guarantee, FINE)
    variance = float(released.guarantee.mechanism.the_noise.noise.amount)  # type: ignore[union-attr]
    assert spent.rho == pytest.approx((4 << 14) ** 2 / (2 * variance), rel=1e-6)
    assert (spent.epsilon, spent.delta) == (1, 1e-6)


def test_releases_for_it_compose() -> None:
    releases = [FINE.sketch().release(epsilon=1, delta=1e-6, neighbours=of(4)) for _ in range(2)]
    both = ss.compose(releases, populations="overlapping")
    assert (both.epsilon, both.delta, both.neighbours) == (2, 2e-6, of(4))
    other = FINE.sketch().release(epsilon=1, delta=1e-6, neighbours=of(4, 3))
    with pytest.raises(ss.InvalidInputError, match="compose only for one neighbour relation"):
        ss.compose([*releases, other], populations="overlapping")


@pytest.mark.parametrize("keys", [3, MOST_KEYS])
def test_its_bytes(keys: int) -> None:
    """The relation's fields of the exchange format: kind 1, bound 2 as a ratio, unit 3, and max_keys 4."""
    released = FINE.sketch().release(epsilon=1, delta=1e-6, neighbours=ss.SketchL2("1/2", unit="user", max_keys=keys))
    number = {3: b"\x03", MOST_KEYS: b"\xff\xff\xff\xff\x0f"}[keys]
    relation = b"\x0a\x09sketch-l2" + b"\x12\x04\x08\x02\x10\x02" + b"\x1a\x04user" + b"\x20" + number
    assert relation in released.to_bytes()
    assert ss.PrivateSketch.from_bytes(released.to_bytes()) == released


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.parametrize("clip", ["scale", "cut", "equal", "average", "none", ""])
def test_each_relation_says_how_units_are_clipped_to_it(kind: str, clip: str) -> None:
    allowed = {
        "l1": ("scale", "cut"),
        "l2": ("scale",),
        "sketch-l2": ("scale", "equal", "average"),
        "one-coordinate": (),
    }
    neighbours = NEIGHBOURS[kind](1) if kind == "one-coordinate" else NEIGHBOURS[kind](1, max_keys=1)
    if clip in allowed[kind]:
        neighbours.check_clip(clip)
    else:
        with pytest.raises(ss.InvalidInputError, match=f"clipped to {type(neighbours).__name__}"):
            neighbours.check_clip(clip)


@pytest.mark.parametrize("max_keys", [1, 2, 3, 9, 10, 1000])
def test_averages_of_rows_need_the_root_of_the_number_of_keys(max_keys: int) -> None:
    """Each key takes a vector of length 1, so a lesser bound would shorten units of several keys."""
    enough = ss.SketchL2.of_averages("patient", max_keys)
    assert (enough.max_keys, enough.unit) == (max_keys, "patient")
    assert max_keys <= Fraction(enough.bound) ** 2 < max_keys + Fraction(1, 1000)
    enough.check_clip("average")
    less = dataclasses.replace(enough, bound=Fraction(enough.bound) - Fraction(1, 1000))
    for bad in (less, dataclasses.replace(enough, max_keys=MOST_KEYS)):
        bad.check_clip("equal")
        with pytest.raises(ss.InvalidInputError, match="needs a number of keys and a bound of its square root"):
            bad.check_clip("average")


@pytest.mark.parametrize("name", ["SJLT", "SRHT"])
def test_where_l2_is_refused_the_message_names_it(name: str) -> None:
    projection = {"SJLT": FINE, "SRHT": ss.projections.SRHT(dim=1 << 30, sketch_dim=64, seed=1)}[name]
    with pytest.raises(ss.InvalidInputError, match=r"SketchL2\(bound\), which bounds what a unit does to the sketch"):
        sensitivity_of(projection, ss.L2(1))


def test_laplace_noise_on_a_bound_on_sketches_must_be_named() -> None:
    people = ss.SketchL2(1, max_keys=3)
    for neighbours, delta, mechanism in [(people, 1e-6, "auto"), (people, 0.0, "laplace"), (ss.L1(1), 0.0, "auto")]:
        neighbours.check_delta(delta, mechanism)
    with pytest.raises(ss.InvalidInputError, match="pass delta, such as 1e-6"):
        people.check_delta(0.0, "auto")
