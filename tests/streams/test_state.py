"""The file of an endless stream: what no stream writes is refused, though its checksum fits."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.streams import Stream
from streamsketch.streams.state import read_state, write_state
from tests.streams.naive import AGREEMENT, KEYS, Row, batch_of, policy_of

ROWS = [
    Row(second, KEYS[second % 2], "abc"[second % 3], 1 + second % 9, f"c{second % 4}") for second in range(0, 90, 4)
]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def stream_of(out: Path, clip: str = "scale") -> Stream:
    near = {} if clip == "scale" else {"neighbours": AGREEMENT.neighbours}
    agreement = AGREEMENT if clip == "scale" else AGREEMENT.replace(neighbours=None)
    return Stream(policy_of(out, clip=clip, **near), agreement, out.parent / "s.raw-stream")


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
        ({"next": -5}, "header.next"),
        ({"next": 1 << 61}, "header.next"),
        ({"next": "1"}, "header.next"),
        ({"policy": []}, "header.policy"),
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


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda data: data[:-9], lambda data: data.replace(b"index", b"inde\xff")]
)
@pytest.mark.parametrize("clip", ["scale", "none"])
def test_a_window_that_no_stream_writes_is_refused(clip: str, damage: Any, out: Path) -> None:
    path = begin(out, clip)
    saved = read_state(path)
    (number, data), *_ = saved.windows.items()
    for windows in ({number: damage(data)}, {number - 100: data}, {1 << 61: data}):
        if windows != saved.windows:
            write_state(dataclasses.replace(saved, windows=windows), path)
            with pytest.raises(ss.InvalidInputError, match="is not the state of a stream: "):
                stream_of(out, clip)
    write_state(saved, path)
    assert stream_of(out, clip).windows.open.keys() == saved.windows.keys()
