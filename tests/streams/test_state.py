"""The file of an endless stream: what no stream writes is refused, though its checksum fits."""

import dataclasses
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.storage.database import Database
from streamsketch.storage.sketches import RawSketch
from streamsketch.streams import Stream
from streamsketch.streams.state import read_state, write_state
from tests.streams.naive import AGREEMENT, KEYS, Row, batch_of, policy_of
from tests.tampering import rewritten

ROWS = [
    Row(second, KEYS[second % 2], "abc"[second % 3], 1 + second % 9, f"c{second % 4}") for second in range(0, 90, 4)
]


def stream_of(out: Path, clip: str = "scale") -> Stream:
    return Stream(*policy_of(out, clip=clip), out.parent / "s.raw-stream")


def begin(out: Path, clip: str = "scale") -> Path:
    stream = stream_of(out, clip)
    stream.add(batch_of(ROWS), 1)
    stream.save({"row": 1})
    return out.parent / "s.raw-stream"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stream": "00"}, "header.stream"),
        ({"secret": "z" * 64}, "its header is not valid"),
        ({"secret": 5}, "header.secret"),
        ({"draws": "0" * 63}, "header.draws"),
        ({"events": -1}, "header.events"),
        ({"events": 10**400}, "header.events"),
        ({"released": True}, "header.released"),
        ({"newest": 1e308}, "header.newest"),
        ({"sources": {"a": [1, False]}}, "header.sources"),  # beside the newest time of one log
        ({"newest": None, "sources": ["a"]}, "header.sources"),
        ({"newest": None, "sources": {"a": [0.5, False]}}, "header.sources"),
        ({"newest": None, "sources": {"a": [1 << 62, False]}}, "header.sources"),
        ({"newest": None, "sources": {"a": [None, 1]}}, "header.sources"),
        ({"newest": None, "sources": {"a": [None]}}, "header.sources"),
        ({"next": -5}, "header.next"),
        ({"next": 1 << 61}, "header.next"),
        ({"next": "1"}, "header.next"),
        ({"job": []}, "header.job"),
        ({"place": "here"}, "header.place"),
        ({"bounding": {}}, "header.bounding"),
        ({"bounding": None}, "header.bounding"),
        ({"more": 1}, "header.more"),
    ],
)
def test_a_state_that_says_what_no_stream_writes_is_refused(changes: dict[str, Any], said: str, out: Path) -> None:
    path = begin(out)
    saved = read_state(path)
    write_state(dataclasses.replace(saved, header=saved.header | changes), path)
    with pytest.raises(ss.InvalidInputError, match=f"s.raw-stream is not the state of a stream: {said}"):
        stream_of(out)


def test_a_state_of_an_earlier_version_goes_on(out: Path) -> None:
    """Its summary does not say how many units were lengthened, as none were."""
    path = begin(out)
    saved = read_state(path)
    del saved.header["bounding"]["units_below_bound"]
    write_state(saved, path)
    assert stream_of(out).summary["units_below_bound"] == 0
    assert stream_of(out).events == len(ROWS)


def of_another_agreement(raw: Any) -> RawSketch:
    other = AGREEMENT.replace(neighbours=None, missing="drop" if AGREEMENT.missing != "drop" else "refuse")
    table = ss.SketchTable.from_state(
        raw.projection, list(raw.state), raw.state.cells, raw.state.masses, agreement=other
    )
    return RawSketch(table, raw.events)


def changed(chunks: Mapping[int, bytes], change: Callable[[bytes], bytes]) -> dict[int, bytes]:
    """Return the chunks of a window with a change, under other numbers: one that is in the file is never written."""
    return {number + 1: change(data) for number, data in chunks.items()}


@pytest.mark.parametrize(
    ("clip", "damage"),
    [
        ("scale", lambda chunks: changed(chunks, lambda _: b"")),
        ("scale", lambda chunks: changed(chunks, lambda data: data[:-9])),
        ("scale", lambda chunks: changed(chunks, lambda data: data.replace(b"index", b"inde\xff"))),
        ("scale", lambda _: RawSketch(ss.SketchTable(AGREEMENT))),
        ("none", lambda _: {1: b"sums"}),
        ("none", lambda raw: RawSketch(raw.state[KEYS[0]], raw.events)),
        ("none", of_another_agreement),
    ],
)
def test_a_window_that_no_stream_writes_is_refused(clip: str, damage: Any, out: Path) -> None:
    path = begin(out, clip)
    saved = read_state(path)
    (number, content), *_ = saved.windows.items()
    for windows in ({number: damage(content)}, {number - 100: content}, {1 << 61: content}):
        write_state(dataclasses.replace(saved, windows=windows), path)
        with pytest.raises(ss.InvalidInputError, match="is not the state of a stream: "):
            stream_of(out, clip)
    write_state(saved, path)
    assert read_state(path) == saved
    assert stream_of(out, clip).windows.open.keys() == saved.windows.keys()


@pytest.mark.parametrize("clip", ["scale", "none"])
def test_long_content_is_in_pieces_and_parts_go_with_their_windows(clip: str, out: Path) -> None:
    path = begin(out, clip)
    saved = read_state(path)
    assert stream_of(out, clip).windows.open.keys() == saved.windows.keys()
    saved.waiting[7] = bytes(range(256)) * 3
    write_state(saved, path, piece_bytes=100)
    assert read_state(path) == saved
    saved.windows.clear()
    saved.waiting[7] = b""
    write_state(saved, path, piece_bytes=100)
    assert read_state(path) == saved
    assert bytes(range(256)) not in path.read_bytes()


def test_a_window_of_an_earlier_state_is_refused(out: Path) -> None:
    """As in a copy that was made while the state was written: each part by itself is valid."""
    path = begin(out)
    before = read_state(path)
    ((number, content),) = before.windows.items()
    assert not isinstance(content, RawSketch)
    part = f"chunk {number} {next(iter(content))}"
    other = path.with_name("other.raw-stream")
    write_state(dataclasses.replace(before, windows={number: dict.fromkeys(content, b"another")}), other)

    def mixed(_: Database, connection: sqlite3.Connection) -> None:
        connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute("DELETE FROM rows WHERE part = ?", (part,))
        connection.execute(
            "INSERT INTO rows (part, key, number, data, digest) SELECT part, key, number, data, digest "
            "FROM other.rows WHERE part = ?",
            (part,),
        )

    path.write_bytes(rewritten(path.read_bytes(), mixed))
    with pytest.raises(ss.InvalidInputError, match="not the one that was written"):
        read_state(path)


@pytest.mark.parametrize(("clip", "name"), [("scale", "units"), ("none", "sums")])
def test_a_state_of_version_1_followed_a_policy_and_says_how_to_go_on(clip: str, name: str, out: Path) -> None:
    """As commit 8f7a64b wrote it."""
    path = out.parent / "s.raw-stream"
    shutil.copy(Path(__file__).parents[1] / "storage" / "version2" / f"{name}.raw-stream", path)
    with pytest.raises(ss.InvalidInputError, match="whose policy is now an agreement and a job: begin a new state"):
        stream_of(out, clip)
    assert not list(out.iterdir())


def test_chunks_that_the_file_holds_are_not_written_again(out: Path) -> None:
    path = begin(out)
    saved = read_state(path)
    ((number, content),) = saved.windows.items()
    assert not isinstance(content, RawSketch)

    class Unread(dict[int, bytes]):
        def __getitem__(self, chunk: int) -> bytes:
            assert chunk == 5, "only the chunk that was added is encoded"
            return b"added"

    write_state(dataclasses.replace(saved, windows={number: Unread(dict.fromkeys([*content, 5], b""))}), path)
    assert read_state(path).windows == {number: dict(content) | {5: b"added"}}
    write_state(dataclasses.replace(saved, windows={number: Unread({5: b""})}), path)
    assert read_state(path).windows == {number: {5: b"added"}}


def test_a_state_that_another_process_continued_is_replaced_whole(out: Path) -> None:
    """As if a copy of it was put back while the stream ran: each number of a chunk is drawn at random."""
    begin(out)
    streams = [stream_of(out) for _ in range(2)]
    rows = [[Row(85, KEYS[0], item, 1, f"c{count}") for count in range(40)] for item in ("left", "right")]
    for stream, added in zip(streams, rows, strict=True):
        stream.add(batch_of(added), 100)
        stream.save({"row": 140})
    ours = stream_of(out)
    assert streams[1].windows.closing() == ours.windows.closing() != streams[0].windows.closing()
