"""What exact data are known to keep to, through every operation, and what may be released of them.

The law: whatever was done to bounded data, a relation that a release calls enforced holds for each unit in them. It is
checked on the data themselves, by an `Identity` map, whose cells show what one unit has added.
"""

import copy
import itertools
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch import signs
from streamsketch.parties import Key, Round
from streamsketch.privacy import Neighbours
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds
from streamsketch.release import AdditiveNoise
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.raw_files import append_raw
from streamsketch.storage.sketches import RawSketch
from tests.crossed import crossed

DIM = 6
MAP = ss.projections.Identity(dim=DIM)
FINE = MAP.replace(resolution="1/1024")
UNIT = "customer"
State = Any
Operation = Callable[[State, State, State], State]

RELATIONS = [
    relation(bound, unit=unit, max_keys=keys)
    for relation in (ss.L1, ss.L2, ss.SketchL2, ss.OneCoordinate)
    for bound, unit, keys in itertools.product((5, 10, 15, 20, 45), (UNIT, "sale"), (1, 2, 3, 4, 6))
]
RELATIONS += [ss.SketchL2(bound, unit=UNIT) for bound in (5, 10, 20)]
BOUNDS: list[tuple[Neighbours, dict[str, Any]]] = [
    (ss.L1(10, unit=UNIT, max_keys=3), {}),
    (ss.L1(10, unit=UNIT, max_keys=2), {"clip": "cut"}),
    (ss.L1(10, unit=UNIT), {"max_keys": 3}),
    (ss.L2(10, unit=UNIT, max_keys=2), {}),
    (ss.SketchL2(10, unit=UNIT), {}),
    (ss.SketchL2(10, unit=UNIT, max_keys=3), {"clip": "equal"}),
]


def map_of(neighbours: Neighbours) -> ss.projections.Projection:
    """Return a map whose cells show what a unit adds, on a grid on which it can be clipped."""
    return FINE if isinstance(neighbours, ss.SketchL2) else MAP


def one_unit(number: int, neighbours: Neighbours, options: dict[str, Any]) -> ss.SketchTable:
    """Return what the bounds leave of one customer who buys far too much, everywhere."""
    rng = np.random.default_rng(number)
    rows = 40
    columns = rng.choice(list("abcdef"), rows), rng.integers(0, DIM, rows), rng.integers(-9, 99, rows), ["Ann"] * rows
    return ss.bounding.bound_units([columns], map_of(neighbours), neighbours=neighbours, **options)


def added_twice(one: State, other: State, _: State) -> State:
    one.merge(other)
    return one


def told_apart(one: State, other: State, _: State) -> State:
    one.merge(other, disjoint_units=True)
    return one


def with_plain(one: State, _: State, plain: State) -> State:
    one.merge(plain)
    return one


def onto_plain(one: State, _: State, plain: State) -> State:
    plain.merge(one)
    return plain


def updated(one: State, _: State, __: State) -> State:
    one.update(["a"], [0], [400])
    return one


def updated_by_rows(one: State, _: State, __: State) -> State:
    one.update_rows(pa.table({"key": ["a"], "index": [0], "value": [400]}), key="key", index="index", value="value")
    return one


def updated_by_no_rows(one: State, _: State, __: State) -> State:
    no_rows = pa.table({"key": pa.array([], pa.string()), "index": pa.array([], pa.int64())})
    one.update_rows(no_rows, key="key", index="index")
    return one


def added_to_new(one: State, _: State, __: State) -> State:
    new = ss.SketchTable(one.projection)
    new.merge(one)
    return new


# operation, and whether what it returns is still known to keep to bounds
OPERATIONS: list[tuple[Operation, bool]] = [
    (lambda one, _, __: one, True),
    (lambda one, _, __: copy.deepcopy(one), True),
    (lambda one, _, __: pickle.loads(pickle.dumps(one)), True),  # noqa: S301
    (added_twice, True),
    (added_to_new, True),
    (with_plain, False),
    (onto_plain, False),
    (updated, False),
    (updated_by_rows, False),
    (updated_by_no_rows, False),
]


def plain_table(projection: ss.projections.Projection = MAP) -> ss.SketchTable:
    plain = ss.SketchTable(projection)
    plain.update(["a", "z"], [0, 1], [400, 400])
    return plain


def holds(neighbours: Neighbours, cells: np.ndarray[Any, Any]) -> bool:
    """Return whether what one customer added to all keys, (keys, dim) in data units, is as a relation says."""
    used = cells[np.abs(cells).sum(axis=1) > 0].astype(object)
    if neighbours.unit != UNIT or len(used) > neighbours.max_keys:
        return False
    if isinstance(neighbours, ss.SketchL2):
        return sum(cell**2 for cell in used.reshape(-1)) <= Fraction(neighbours.bound) ** 2
    if isinstance(neighbours, ss.L1):
        return all(sum(map(abs, row)) <= neighbours.bound for row in used)
    if isinstance(neighbours, ss.L2):
        return all(sum(cell**2 for cell in row) <= Fraction(neighbours.bound) ** 2 for row in used)
    return all(np.count_nonzero(row) <= 1 and max(map(abs, row)) <= neighbours.bound for row in used)


def holds_together(neighbours: Neighbours, cells: np.ndarray[Any, Any]) -> bool:
    """Return whether a relation of one key holds for all keys together, as for one long vector."""
    return neighbours.max_keys == 1 and holds(neighbours, cells.reshape(1, -1))


@pytest.mark.parametrize(("operation", "is_kept"), OPERATIONS)
@pytest.mark.parametrize(("neighbours", "options"), BOUNDS)
def test_what_a_release_calls_enforced_holds_for_each_unit(
    neighbours: Neighbours,
    options: dict[str, Any],
    operation: Operation,
    is_kept: bool,  # noqa: FBT001 - of the table
) -> None:
    for number in range(2):
        one, other = (one_unit(2 * number + part, neighbours, options) for part in (0, 1))
        found = operation(one, other, plain_table(one.projection))
        assert found.bounds.is_enforced == is_kept
        if found.counts is not None:  # a release for one unit may move each count of its keys by one
            assert (found.counts[:, 0] == (found.cells != 0).any(axis=1)).all()
        enforced = []
        for asked in RELATIONS:
            try:
                basis = found.bounds.basis_for(asked)
            except ss.InvalidInputError:
                continue
            assert basis == "enforced"
            true_of = holds if found.bounds.together == 1 else holds_together
            assert true_of(asked, found.cells.astype(object) * found.projection.grid)
            enforced.append(asked)
        assert (found.bounds.neighbours in enforced or found.bounds.neighbours not in RELATIONS) == is_kept


@pytest.mark.parametrize(("neighbours", "options"), BOUNDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_and_differences_of_keys_keep_to_the_sum_of_their_bounds(
    neighbours: Neighbours, options: dict[str, Any], sign: int
) -> None:
    table = one_unit(1, neighbours, options)
    first, second = (table.sketch_of(key) for key in "ab")
    found = first + second if sign > 0 else first - second
    in_place = first.copy()
    if sign > 0:
        in_place += second
    else:
        in_place -= second
    assert found.bounds == in_place.bounds
    known = found.bounds.neighbours
    assert known is not None
    assert known.bound == 2 * Fraction(neighbours.bound)
    assert holds(known, found.state().reshape(1, -1).astype(object) * found.projection.grid)


def test_without_one_customer_in_two_parts_their_bounds_stay() -> None:
    near = ss.L1(10, unit=UNIT, max_keys=2)
    parts = [one_unit(number, near, {}) for number in (1, 2, 3)]
    total = parts[0]
    for part in parts[1:]:
        total.merge(part, disjoint_units=True)
    condition = "no customer is in two of the parts that were merged"
    assert total.bounds == Bounds(near, "scale", conditions=(condition,), counted=True)
    guarantee = total.release(epsilon=1, neighbours=near, keys_are_public=True).guarantee
    assert (guarantee.basis, guarantee.conditions) == ("enforced", (condition, "the keys are public"))
    assert condition in str(guarantee)


def test_units_of_parts_with_other_bounds_do_not_count_the_same() -> None:
    parts = [one_unit(number, ss.SketchL2(bound, unit=UNIT), {"clip": "equal"}) for number, bound in ((1, 10), (2, 20))]
    parts[0].merge(parts[1], disjoint_units=True)
    assert parts[0].bounds.clip == "scale and equal"


NEAR = ss.L1(10, unit=UNIT, max_keys=2)
ASSERTED = "no customer is in two of the parts that were merged"
PARTS: dict[str, Callable[[int], ss.SketchTable]] = {
    "bounded": lambda number: one_unit(number, NEAR, {}),
    "bounded by cutting": lambda number: one_unit(number, NEAR, {"clip": "cut"}),
    "asserted apart": lambda number: told_apart(one_unit(number, NEAR, {}), one_unit(number + 1, NEAR, {}), None),
    "a new one and one asserted apart": lambda number: added_to_new(PARTS["asserted apart"](number), None, None),
}


def appended(one: ss.SketchTable, other: ss.SketchTable, folder: Path) -> ss.SketchTable:
    save_raw(one, folder / "a.raw-sketch")
    append_raw(RawSketch(other), folder / "a.raw-sketch")
    return load_raw(folder / "a.raw-sketch").state  # type: ignore[return-value]


def of_one_key(one: ss.SketchTable, other: ss.SketchTable, _: Path) -> ss.Sketch:
    return one.sketch_of("a") - other.sketch_of("a")


SUMS: dict[str, tuple[Callable[[ss.SketchTable, ss.SketchTable, Path], State], bool]] = {
    "merged": (added_twice, False),
    "asserted apart": (told_apart, True),
    "appended to a file": (appended, False),
    "a difference of keys": (of_one_key, False),
}


@crossed(first=PARTS, second=PARTS, how=SUMS)
def test_what_one_of_two_parts_rests_on_their_sum_rests_on(first: str, second: str, how: str, tmp_path: Path) -> None:
    add, asserts = SUMS[how]
    total = add(PARTS[first](1), PARTS[second](3), tmp_path)
    rests = asserts or any("asserted apart" in part for part in (first, second))
    known = total.bounds.neighbours
    assert total.bounds.conditions == ((ASSERTED,) if rests else ())
    keys = {} if how == "a difference of keys" else {"keys_are_public": True}
    guarantee = total.release(epsilon=1, neighbours=known, **keys).guarantee
    stated = ("the keys are public",) if keys else ()
    assert (guarantee.basis, set(guarantee.conditions)) == ("enforced", {*total.bounds.conditions, *stated})


def test_copies_and_sums_are_no_parts_without_a_unit_in_both() -> None:
    near = ss.L1(10, unit=UNIT)
    table = one_unit(1, near, {})
    both = one_unit(2, near, {})
    both.merge(table, disjoint_units=True)
    for other in (table, table.copy(), pickle.loads(pickle.dumps(table)), both):  # noqa: S301
        pairs: list[tuple[State, State]] = [(table.copy(), other), (table.sketch_of("a"), other.sketch_of("a"))]
        for one, more in pairs:
            before = one.copy()
            with pytest.raises(ss.InvalidInputError, match="show that they share data"):
                one.merge(more, disjoint_units=True)
            assert (one, one.bounds, one.data_ids) == (before, before.bounds, before.data_ids)
            one.merge(more)
            assert one.bounds.neighbours is not None
            assert one.bounds.neighbours.bound == 20
    key = table.sketch_of("a")
    key.merge(table.sketch_of("b"), disjoint_units=True)  # of which a unit has one alone
    assert key.bounds.neighbours == near


def test_what_was_found_of_some_data_says_nothing_of_others() -> None:
    near = ss.L1(10, unit=UNIT)
    table = one_unit(1, near, {})
    plain, grown = ss.Sketch(MAP), table.sketch_of("a")
    plain.update(1, 400)
    grown.update(1, 400)
    for mechanism in (AdditiveNoise(epsilon=1, neighbours=near), signs.DPSignLogistic(epsilon=1, neighbours=near)):
        publisher: Any = mechanism.calibrated(MAP)
        assert publisher.for_data(table, public_keys=["a"]).draw()["a"].guarantee.basis == "enforced"
        assert publisher.for_data(table.sketch_of("a")).draw().guarantee.basis == "enforced"
        assert publisher.for_data(plain).draw().guarantee.basis == "asserted"
        assert publisher.for_rows(np.full((1, DIM), 400)).draw()[0].guarantee.basis == "asserted"
        with pytest.raises(ss.InvalidInputError, match="rows were added that nothing clipped"):
            publisher.for_data(grown)
        assert publisher.for_data(grown, assert_bounds=True).draw().guarantee.basis == "asserted"


def test_parts_bounded_for_different_units_or_by_different_relations() -> None:
    parts = {
        name: one_unit(1, relation, {}) for name, relation in {
            "customer": ss.L1(10, unit=UNIT), "sale": ss.L1(10, unit="sale"), "norm": ss.L2(10, unit=UNIT)
        }.items()
    }  # fmt: skip
    first = parts["customer"].copy()
    first.merge(parts["sale"])
    assert "bounded to one sale of at most 10 (L1)" in first.bounds.ended
    second = parts["customer"].copy()
    second.merge(parts["norm"])
    assert second.bounds.neighbours == ss.L2(20, unit=UNIT, max_keys=2)  # ‖x‖₂ ≤ ‖x‖₁


def test_raw_files_and_what_is_appended_to_them_keep_bounds(tmp_path: Path) -> None:
    near = ss.L1(10, unit=UNIT, max_keys=2)
    path = tmp_path / "a.raw-sketch"
    save_raw(one_unit(1, near, {}), path)
    assert load_raw(path).state.bounds == Bounds(near, "scale", counted=True)
    append_raw(RawSketch(one_unit(2, near, {})), path)
    assert load_raw(path).state.bounds == Bounds(ss.L1(20, unit=UNIT, max_keys=4), "scale")
    append_raw(RawSketch(ss.SketchTable(MAP)), path)  # an empty snapshot
    assert load_raw(path).state.bounds.is_enforced
    append_raw(RawSketch(plain_table()), path)
    assert "nothing clipped" in load_raw(path).state.bounds.ended
    with pytest.raises(
        ss.InvalidInputError, match=r"bounded to one customer of at most 20 .* and then rows were added"
    ):
        ss.storage.release_raw(path, epsilon=1, neighbours=near, keys_are_public=True)
    released = ss.storage.release_raw(path, epsilon=1, neighbours=near, keys_are_public=True, assert_bounds=True)
    assert released.guarantee.basis == "asserted"
    (past,) = load_raw(path).releases
    assert past.guarantee.basis == "asserted"


def released_in_every_way(table: ss.SketchTable, folder: Path, asked: Neighbours, **options: Any) -> list[Any]:
    """Return what each road to a release returns for a table of one key, or raise what the first one raises."""
    how: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "neighbours": asked}
    logistic = signs.DPSignLogistic(epsilon=1, neighbours=asked)
    keys = [Key.generate(), Key.generate()]
    agreed = Round(table.projection, parties=[key.public for key in keys], **how)
    path = folder / "a.raw-sketch"
    save_raw(table, path)
    roads: list[Callable[[], Any]] = [
        lambda: table.release(**how, keys_are_public=True, **options),
        lambda: table["a"].release(**how, **options),
        lambda: AdditiveNoise(**how).release(table["a"], **options),
        lambda: AdditiveNoise(**how).release_table(table, public_keys=["a"], **options),
        lambda: logistic.release(table["a"], **options),
        lambda: logistic.release_table(table, keys_are_public=True, **options),
        lambda: ss.storage.release_raw(path, **how, keys_are_public=True, **options),
        lambda: agreed.contribute(table["a"], keys[0], **options),
        *([] if options else [lambda: AdditiveNoise(**how).calibrated(table.projection).for_data(table["a"]).draw()]),
    ]
    results, refusals = [], []
    for road in roads:
        try:
            results.append(road())
        except ss.InvalidInputError as error:
            refusals.append(error)
    assert not results or not refusals
    if refusals:
        raise refusals[0]
    return results


def bounded_for(asked: Neighbours) -> ss.SketchTable:
    """Return a table that was bounded to 100 in three keys, by a relation of the kind that is asked for."""
    near = type(asked)(100, unit=UNIT, max_keys=3)
    return ss.bounding.bound_units([(["a"], [1], [400], ["Ann"])], map_of(near), neighbours=near)


@pytest.mark.parametrize("relation", [ss.L1, ss.SketchL2])
@pytest.mark.parametrize(("bound", "unit", "keys"), [(100, UNIT, 1), (100, UNIT, 2), (50, UNIT, 3), (100, "sale", 3)])
def test_every_road_refuses_what_the_bounds_do_not_imply(
    relation: type[Neighbours], bound: int, unit: str, keys: int, tmp_path: Path
) -> None:
    asked = relation(bound, unit=unit, max_keys=keys)
    table = bounded_for(asked)
    with pytest.raises(ss.InvalidInputError, match=r"were bounded to .* does not imply"):
        released_in_every_way(table, tmp_path, asked)
    for released in released_in_every_way(table, tmp_path, asked, assert_bounds=True):
        if not isinstance(released, bytes):
            assert released.guarantee.basis == "asserted"
            assert f"{asked}, asserted, by" in str(released.guarantee)


@pytest.mark.parametrize("relation", [ss.L1, ss.SketchL2])
@pytest.mark.parametrize(("bound", "keys"), [(100, 3), (101, 4)])
def test_every_road_takes_what_the_bounds_imply_and_says_that_it_was_enforced(
    relation: type[Neighbours], bound: int, keys: int, tmp_path: Path
) -> None:
    asked = relation(bound, unit=UNIT, max_keys=keys)
    for released in released_in_every_way(bounded_for(asked), tmp_path, asked):
        if not isinstance(released, bytes):
            assert released.guarantee.basis == "enforced"
            assert type(released).from_bytes(released.to_bytes()).guarantee == released.guarantee


def test_data_under_an_agreement_are_released_for_what_it_says(tmp_path: Path) -> None:
    near = ss.L1(100, unit=UNIT, max_keys=3)
    agreement = ss.Agreement(MAP, key="shop", index="item", value="sold", neighbours=near)
    table = ss.SketchTable(agreement)
    table.update_rows(pa.table({"shop": ["a"], "item": [1], "sold": [400]}))
    with pytest.raises(ss.InvalidInputError, match=r"sketched under an agreement for .* does not imply"):
        released_in_every_way(table, tmp_path, ss.L1(100, unit=UNIT))
    for released in released_in_every_way(table, tmp_path, near):
        if not isinstance(released, bytes):
            assert released.guarantee.basis == "asserted"


def test_signs_without_a_proof_for_keys_bounded_together_are_refused() -> None:
    near = ss.L1(10, unit=UNIT)
    gaussian = ss.projections.GaussianProjection(dim=DIM, sketch_dim=32, seed=1)
    table = ss.bounding.bound_units([(["a", "b"], [1, 2], [9, 9], ["Ann"] * 2)], gaussian, neighbours=near, max_keys=3)
    assert signs.DPSignLogistic(epsilon=1, neighbours=near).release_table(table, keys_are_public=True)
    for mechanism in (
        signs.DPSignRPRR(epsilon=1, delta=1e-6, neighbours=near, norm_bound=1000),
        signs.DPSignRPRRSmooth(epsilon=1, neighbours=near),
    ):
        with pytest.raises(ss.InvalidInputError, match=r"over 3 keys together, for which .* is not proven private"):
            mechanism.release_table(table, keys_are_public=True)


def test_what_is_known_does_not_depend_on_the_data() -> None:
    near = ss.L1(10, unit=UNIT)
    nothing = ss.bounding.bound_units([([], pa.array([], pa.int64()), [], [])], MAP, neighbours=near)
    something = one_unit(1, near, {})
    assert nothing.bounds == something.bounds
    assert nothing.sketch_of("a").bounds == something.sketch_of("a").bounds
    assert ss.Sketch(MAP).bounds == NO_DATA
    new, used = ss.Sketch(MAP), ss.Sketch(MAP)
    used.update(1, 3)
    assert used.bounds == UNKNOWN
    guarantees = [one.release(epsilon=1, neighbours=near).guarantee for one in (new, used)]
    assert guarantees[0] == guarantees[1]
