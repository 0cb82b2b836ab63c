"""The private format: what is written is read, what is not valid is refused, and releases are remembered."""

import datetime as dt
import hashlib
import json
import stat
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.core import locked
from streamsketch.storage import format as raw
from streamsketch.storage.files import MAGIC, PastRelease, RawSketch, load_raw, remember, replace_raw, save_raw, united
from tests.tampering import parts_of_raw, raw_from

PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=3, resolution="1/2")


def one() -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update([1, 2], [3, -4])
    return sketch


def many(keys: list[object]) -> ss.SketchTable:
    table = PROJECTION.table()
    table.update(keys, list(range(len(keys))), list(range(1, len(keys) + 1)))
    return table


STATES = [one(), PROJECTION.sketch(), many(["a", "ü", ""]), many([b"\0"]), many([-7, 9]), PROJECTION.table()]
STATES += [many([dt.date(1969, 12, 31), dt.date(2026, 1, 1)])]


@pytest.mark.parametrize("state", STATES)
def test_round_trip(state: ss.Sketch | ss.SketchTable, tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    save_raw(RawSketch(state, events=5), path)
    back = load_raw(path)
    assert back.state == state
    assert back.events == 5
    for before, after in zip(_sketches(state), _sketches(back.state), strict=True):
        assert before.mass == after.mass
    back.state.merge(state)  # type: ignore[arg-type] # it can be added to


def _sketches(state: ss.Sketch | ss.SketchTable) -> list[ss.Sketch]:
    return [state] if isinstance(state, ss.Sketch) else list(state.values())


def test_the_file_is_its_owners_and_says_so(tmp_path: Path) -> None:
    save_raw(RawSketch(one()), tmp_path / "a.raw-sketch")
    assert stat.S_IMODE((tmp_path / "a.raw-sketch").stat().st_mode) == 0o600
    assert b"SECRET" in (tmp_path / "a.raw-sketch").read_bytes().split(b"\n")[2]
    assert "SECRET" in repr(raw.MAGIC)
    assert "3" not in repr(RawSketch(one())).replace("seed=3", "")


def test_it_is_no_release(tmp_path: Path) -> None:
    save_raw(RawSketch(one()), tmp_path / "a.raw-sketch")
    with pytest.raises(ss.WireFormatError, match="bytes 0-7"):
        ss.load(tmp_path / "a.raw-sketch")
    one().release(epsilon=1.0, neighbours=ss.L1(1)).save(tmp_path / "b.sketch")
    with pytest.raises(ss.WireFormatError, match="first line"):
        load_raw(tmp_path / "b.sketch")


def test_any_changed_byte_and_any_cut_is_noticed() -> None:
    data = raw.encode(RawSketch(many(["a", "b"]), 2))
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x10
        with pytest.raises(ss.WireFormatError):
            raw.decode(bytes(changed))
    for end in range(len(data)):
        with pytest.raises(ss.WireFormatError):
            raw.decode(data[:end])
    with pytest.raises(ss.WireFormatError, match="over the limit of 100"):
        raw.decode(data, max_bytes=100)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_hostile_bodies_under_a_good_checksum_end_in_the_one_error(junk: bytes, place: int) -> None:
    data = raw.encode(RawSketch(many(["a", "b"]), 2))
    header, body = parts_of_raw(data)
    both = bytearray(header + body)
    both[place : place + len(junk)] = junk
    try:
        back = raw.decode(raw_from(bytes(both[: len(header)]), bytes(both[len(header) :])))
    except ss.WireFormatError:
        return
    assert isinstance(back.state, ss.SketchTable)


def test_cells_that_no_data_could_give_are_refused_without_being_shown() -> None:
    data = raw.encode(RawSketch(one()))
    cells = one().state().astype("<i8").tobytes()
    forged = data[: -raw.CHECKSUM_BYTES].replace(cells, np.full(16, 77777, "<i8").tobytes())
    with pytest.raises(ss.WireFormatError, match="do not belong together") as caught:
        raw.decode(forged + raw._checksum(forged).digest())
    assert "77777" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("projection", 1, "text"),
        ("keys", -1, "an integer from 0 to 2^63 - 1, or null"),
        ("events", -77777, "an integer from 0 to 2^63 - 1"),
        ("events", True, "an integer from 0 to 2^63 - 1"),
        ("releases", None, "a list"),
    ],
)
def test_a_header_field_of_another_kind_is_named_and_not_shown(field: str, value: object, wanted: str) -> None:
    data = raw.encode(RawSketch(one()))
    header, body = parts_of_raw(data)
    text = json.dumps(json.loads(header) | {field: value}).encode()
    with pytest.raises(ss.WireFormatError) as caught:
        raw.decode(raw_from(text, body))
    assert str(caught.value) == f"header.{field}: must be {wanted}"


def test_the_file_remembers_releases_while_a_stream_goes_on_replacing_it(tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    stream = RawSketch(one())
    save_raw(stream, path)
    release = one().release(epsilon=0.5, neighbours=ss.OneCoordinate("1/2", unit="patient"))
    save_raw(remember(load_raw(path), [release]), path)
    save_raw(stream, path)  # the stream knows of no release
    (past,) = load_raw(path).releases
    assert past.guarantee == release.guarantee
    assert past.guarantee.mechanism.is_record
    assert past.release_id == release.release_ids[0].hex()


def test_a_save_reads_the_header_of_what_it_replaces_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    raw_sketch = remember(RawSketch(one()), [one().release(epsilon=0.5, neighbours=ss.L1(1))])
    save_raw(raw_sketch, path)
    data = bytearray(path.read_bytes())
    data[-raw.CHECKSUM_BYTES - 1] ^= 1  # a cell
    path.write_bytes(data)
    with pytest.raises(ss.WireFormatError, match="checksum"):
        load_raw(path)
    save_raw(RawSketch(one()), path)
    assert load_raw(path).releases == raw_sketch.releases
    for place in (len(MAGIC) + raw._FRAME.size + 5, len(data) - 1):  # of the header, and of the length
        broken = bytes(data[:place]) + bytes([data[place] ^ 1] if place < len(data) - 1 else [])
        path.write_bytes(broken + bytes(data[place + 1 :]))
        with pytest.raises(ss.InvalidInputError, match="is not replaced"):
            save_raw(RawSketch(one()), path)


def test_what_is_no_raw_sketch_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.raw-sketch").write_text("my notes")
    with pytest.raises(ss.InvalidInputError, match=r"a\.raw-sketch is not replaced, as it is not a valid raw sketch"):
        save_raw(RawSketch(one()), tmp_path / "a.raw-sketch")
    assert (tmp_path / "a.raw-sketch").read_text() == "my notes"


def test_a_release_in_two_records_counts_once() -> None:
    guarantee = one().release(epsilon=0.5, neighbours=ss.L1(1)).guarantee
    first, second = PastRelease(guarantee, "aa"), PastRelease(guarantee, "bb")
    assert united([[first], [second, first]]) == (first, second)


def test_a_table_from_its_parts_checks_them() -> None:
    table = many(["a", "b"])
    assert ss.SketchTable.from_state(PROJECTION, list(table), table.cells, table.masses) == table
    with pytest.raises(ss.InvalidInputError, match="1 different keys"):
        ss.SketchTable.from_state(PROJECTION, ["a", "a"], table.cells, table.masses)
    with pytest.raises(ss.InvalidInputError, match="masses must be int64"):
        ss.SketchTable.from_state(PROJECTION, ["a", "b"], table.cells, table.masses.astype(float))
    with pytest.raises(ss.InvalidInputError, match="cannot belong together"):
        ss.SketchTable.from_state(PROJECTION, ["a", "b"], table.cells, np.zeros(2, dtype=np.int64))


def test_what_could_not_be_read_again_is_not_written() -> None:
    table = PROJECTION.table()
    table.update(["a", "b"], [1, 2])
    size = len(raw.encode(RawSketch(table)))
    with pytest.raises(
        ss.InvalidInputError, match="2 sketches of 16 cells take 272 bytes, and a raw file holds at most 100: "
    ):
        raw.encode(RawSketch(table), max_bytes=100)
    with pytest.raises(ss.InvalidInputError, match=rf"take {size} bytes, .* at most {size - 1}: "):
        raw.encode(RawSketch(table), max_bytes=size - 1)  # with all that is around the cells
    assert len(raw.encode(RawSketch(table), max_bytes=size)) == size


def test_a_table_is_written_without_a_second_copy_of_it(tmp_path: Path) -> None:
    cells = 1 << 19
    table = ss.CountSketch(dim=1 << 40, sketch_dim=cells, seed=3).table()
    table.update(list(range(20)), list(range(20)))  # 80 MiB
    whole = hashlib.sha256(raw.encode(RawSketch(table))).digest()
    tracemalloc.start()
    try:
        save_raw(RawSketch(table), tmp_path / "a.raw-sketch")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < table.nbytes / 2
    assert hashlib.sha256((tmp_path / "a.raw-sketch").read_bytes()).digest() == whole
    assert load_raw(tmp_path / "a.raw-sketch").state == table


def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a+.raw-sketch"
    others = [
        ".a+.raw-sketch.0123abcd.txt",
        ".a+.raw-sketch.notes",
        ".aa.raw-sketch.0123abcd",
        "a+.raw-sketch.0123abcd",
    ]
    for name in (".a+.raw-sketch.0123abcd", ".a+.raw-sketch.ffffffff", *others):
        (tmp_path / name).write_bytes(raw.MAGIC)
    save_raw(RawSketch(one()), path)
    assert {found.name for found in tmp_path.iterdir()} == {path.name, *others}


def test_a_release_through_a_link_is_remembered_by_the_file_itself(tmp_path: Path) -> None:
    target, link = tmp_path / "a.raw-sketch", tmp_path / "sub" / "link.raw-sketch"
    link.parent.mkdir()
    save_raw(RawSketch(PROJECTION.sketch()), target)
    link.symlink_to(target)
    with locked(link):
        raw = load_raw(link)
        replace_raw(remember(raw, [raw.state.release(epsilon=1.0, neighbours=ss.L1(1))]), link)
    assert link.is_symlink()
    assert len(load_raw(target).releases) == len(load_raw(link).releases) == 1
    assert sorted(path.name for path in link.parent.iterdir()) == ["link.raw-sketch"]


def test_a_file_of_several_names_is_not_released_by_one_of_them(tmp_path: Path) -> None:
    one, other = tmp_path / "a.raw-sketch", tmp_path / "b.raw-sketch"
    save_raw(RawSketch(PROJECTION.sketch()), one)
    other.hardlink_to(one)
    before = one.read_bytes()
    with pytest.raises(ss.InvalidInputError, match="one of several names of one file"):
        save_raw(RawSketch(PROJECTION.sketch()), other)
    assert one.read_bytes() == other.read_bytes() == before
