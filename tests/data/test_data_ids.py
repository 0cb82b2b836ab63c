"""Data ids: copies, pickles, merges and files inherit them, and releases of shared data are found out."""

import copy
import operator
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.data import data_ids
from streamsketch.data.data_ids import PUBLISHED, DataIds
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.sketches import RawSketch

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
MECHANISM = ss.signs.DPSignLogistic(epsilon=4.0, neighbours=ss.L1(1))


def release(sketch: ss.Sketch) -> ss.PrivateSketch:
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1))


def disjoint(*releases: Any) -> ss.Guarantee:
    return ss.compose(releases, populations="disjoint")


def sketch_of(*indices: int) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update(list(indices))
    return sketch


def pickled(secret: Any) -> Any:
    return pickle.loads(pickle.dumps(secret))  # noqa: S301 - what the test itself has pickled


# --- what inherits them ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate",
    [ss.Sketch.copy, copy.deepcopy, pickled, lambda sketch: sketch],
    ids=["copy", "deepcopy", "pickle", "again"],
)
def test_two_releases_of_one_sketch_are_never_disjoint(duplicate: Callable[[ss.Sketch], ss.Sketch]) -> None:
    sketch = sketch_of(1, 2)
    twice = duplicate(sketch)
    twice.update(3)
    one, other = release(sketch), release(twice)
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        disjoint(one, other)
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        one.combine(other, populations="disjoint")
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        one.subtract(other, populations="disjoint")
    with pytest.raises(ss.InvalidInputError, match="share data"):
        ss.explain(one, other, populations="disjoint")
    assert ss.compose([one, other], populations="overlapping").epsilon == 2.0


@pytest.mark.parametrize("combine", [ss.Sketch.__add__, ss.Sketch.__sub__])
def test_a_merge_and_its_part_are_never_disjoint(combine: Callable[[ss.Sketch, ss.Sketch], ss.Sketch]) -> None:
    one, other = sketch_of(1), sketch_of(2)
    together = release(combine(one, other))
    for part in (one, other):
        with pytest.raises(ss.InvalidInputError, match="are of the same data"):
            disjoint(together, release(part))
    assert disjoint(release(one), release(other)).epsilon == 1.0


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("keys", [0, 3, 31, 32, 200])
def test_ids_of_many_keys_are_those_of_each(parts: int, keys: int) -> None:
    ids = data_ids.new()
    for _ in range(parts - 1):
        ids = ids.merged(data_ids.new())
    names = [f"key {number}" if number % 2 else number for number in range(keys)]
    assert ids.published_of_keys(names) == [ids.of_key(name).published() for name in names]


def test_published_sums_keep_the_ids_of_both() -> None:
    sketches = [sketch_of(number) for number in range(3)]
    total = release(sketches[0]).combine(release(sketches[1]), populations="disjoint")
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        total.combine(release(sketches[1]), populations="disjoint")
    assert total.combine(release(sketches[2]), populations="disjoint").guarantee.epsilon == 1.0
    assert ss.PrivateSketch.from_bytes(total.to_bytes()) == total


def test_signs_and_noisy_cells_of_one_sketch_are_never_disjoint() -> None:
    sketch = ss.projections.Rademacher(dim=100, sketch_dim=64, seed=7).sketch()
    one, other = MECHANISM.release(sketch), release(sketch.copy())
    assert ss.signs.SignSketch.from_bytes(one.to_bytes()).data_ids == one.data_ids
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        disjoint(one, other)


def test_updates_by_whole_tables_keep_the_one_id() -> None:
    sketch, table = PROJECTION.sketch(), PROJECTION.table()
    before = sketch.data_ids, table.data_ids
    for _ in range(20):
        sketch.update_rows(pa.table({"i": [1, 2]}), index="i")
        table.update_rows(pa.table({"k": ["a", "b"], "i": [1, 2]}), key="k", index="i")
    assert (sketch.data_ids, table.data_ids) == before


def test_keys_of_one_table_are_disjoint_and_the_same_key_twice_is_not() -> None:
    table = PROJECTION.table()
    table.update(["a", "b"], [1, 2])
    again = pickled(table.copy())
    assert disjoint(release(table["a"]), release(table["b"])).epsilon == 1.0
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        disjoint(release(table["a"]), release(again["a"]))


def test_a_public_key_without_data_has_ids_as_one_with_data() -> None:
    table = PROJECTION.table()
    before = table.sketch_of("a").data_ids
    table.update(["a"], [1])
    assert table.sketch_of("a").data_ids == table["a"].data_ids == before
    assert not table.sketch_of("b").state().any()


def test_merged_tables_share_data_key_by_key() -> None:
    one, other = PROJECTION.table(), PROJECTION.table()
    one.update(["a"], [1])
    other.update(["b"], [1])
    parts = one["a"], other.sketch_of("a")
    one.merge(other)
    for part in parts:
        with pytest.raises(ss.InvalidInputError, match="are of the same data"):
            disjoint(release(one["a"]), release(part))


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "merge": lambda one, other: one.merge(other) or one,
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "+=": operator.iadd,
    "into a copy": lambda one, other: COMBINE["merge"](one.copy(), other),
    "into a pickle": lambda one, other: COMBINE["merge"](pickled(one), other),
    "into a new one": lambda one, other: COMBINE["merge"](COMBINE["merge"](PROJECTION.sketch(), one), other),
}


@pytest.mark.parametrize("how", COMBINE)
@pytest.mark.parametrize(
    "shape", ["((01)(23))", "(0(1(23)))", "(((01)2)3)", "((0(12))3)", "((01)(12))", "((23)(0(45)))"]
)
def test_sums_of_sums_have_the_ids_of_all_parts(shape: str, how: str) -> None:
    """However sums are nested, they share data, and published ids, with each of their parts and nothing else."""
    leaves = [PROJECTION.sketch() for _ in range(6)]
    made: list[Any] = []
    for sign in shape:  # a closing parenthesis adds up the last two
        if sign.isdigit():
            made.append(leaves[int(sign)].copy())
        elif sign == ")":
            other, one = made.pop(), made.pop()
            made.append(COMBINE[how](one, other))
    (total,) = made
    inside = {int(sign) for sign in shape if sign.isdigit()}
    assert {leaves[place].data_ids.own for place in inside} <= total.data_ids.parts
    published = set(total.data_ids.published())
    for place, leaf in enumerate(leaves):
        assert (place in inside) == bool(published & set(leaf.data_ids.published()))


def test_raw_files_and_their_copies_keep_the_ids(tmp_path: Path) -> None:
    total = sketch_of(1) + sketch_of(2)
    table = PROJECTION.table()
    table.update(["a"], [1])
    for state in (total, table):
        path = tmp_path / f"{type(state).__name__}.raw-sketch"
        save_raw(RawSketch(state), path)
        shutil.copy(path, tmp_path / "copy.raw-sketch")
        assert load_raw(path).state.data_ids == load_raw(tmp_path / "copy.raw-sketch").state.data_ids == state.data_ids


# --- what is published of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, PUBLISHED - 1, PUBLISHED, PUBLISHED + 1, 40])
def test_every_release_has_as_many_ids(parts: int) -> None:
    total = PROJECTION.sketch()
    for number in range(parts - 1):
        total.merge(sketch_of(number))
    for released in (release(total), MECHANISM.release(total)):
        assert len(released.data_ids) == PUBLISHED
        assert list(released.data_ids) == sorted(set(released.data_ids))
    assert len(total.data_ids.parts) == parts
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        disjoint(release(total), release(total))


def test_a_sum_of_many_parts_goes_on_sharing_an_id_with_what_it_was() -> None:
    total = sketch_of(1)
    early = release(total)
    for number in range(3 * PUBLISHED):
        total.merge(sketch_of(number))
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        disjoint(early, release(total))


@pytest.mark.parametrize("parts", [1, 2, PUBLISHED, PUBLISHED + 1])
def test_a_second_release_does_not_tell_how_many_parts_there_are(parts: int) -> None:
    total = PROJECTION.sketch()
    for number in range(parts - 1):
        total.merge(sketch_of(number))
    assert release(total).data_ids == release(pickled(total)).data_ids == MECHANISM.release(total).data_ids


def test_published_ids_do_not_tell_which_of_them_are_of_parts() -> None:
    """Whoever knows how ids are derived must not find the fillers that follow from a published id."""
    total = sketch_of(1) + sketch_of(2)
    published = set(release(total).data_ids)
    assert published.isdisjoint(one[:8] for one in total.data_ids.parts)
    for one in published:
        padded = DataIds(one, frozenset([one]))
        assert published.isdisjoint(padded.published())


def test_equal_hashes_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = data_ids.published_id

    def colliding(one: bytes, number: bytes) -> bytes:
        return hashed(one, b"" if number in (b"1", b"2") else number)

    monkeypatch.setattr(data_ids, "published_id", colliding)
    assert len(set(data_ids.new().published())) == PUBLISHED


def test_unknown_data_is_never_called_shared_and_what_is_known_is_kept() -> None:
    sketch = sketch_of(1)
    one = release(sketch)
    unknown = ss.PrivateSketch(PROJECTION, one.values, one.noise, one.guarantee, release_ids=[b"release2"], data_ids=())
    assert disjoint(one, unknown).epsilon == 1.0
    total = unknown.combine(one, populations="disjoint")
    assert total.data_ids == one.data_ids
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        total.combine(release(sketch), populations="disjoint")


@pytest.mark.parametrize("ids", [[b"short"], [b"8 bytes!"] * 2], ids=["length", "repeated"])
def test_invalid_ids_are_refused(ids: list[bytes]) -> None:
    one = release(sketch_of(1))
    with pytest.raises(ss.InvalidInputError, match="data ids must be distinct, 8 bytes long"):
        ss.PrivateSketch(PROJECTION, one.values, one.noise, one.guarantee, release_ids=[b"release2"], data_ids=ids)
