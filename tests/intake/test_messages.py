"""Messages of a partition from a pipe: each read once, by its offset."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.intake import BadLines, Messages, RowReader
from streamsketch.intake.rotation import LostLogError
from tests.intake.logs import AGREEMENT, READER, Rows, piped


def message(offset: int, content: str | None = "", topic: str = "sales", partition: int = 0) -> str:
    payload = f'{{"item": "a", "n": {offset}}}' if content == "" else content
    return json.dumps({"topic": topic, "partition": partition, "offset": offset, "payload": payload}) + "\n"


def read(
    lines: Iterable[str], position: dict[str, Any] | None = None, reader: RowReader = READER, **options: Any
) -> tuple[list[int], dict[str, Any] | None]:
    rows = Rows()
    with piped("".join(lines).encode()) as descriptor:
        pipe = Messages(descriptor, reader, position=position, **options)
        for piece in pipe.pieces():
            pipe.read(piece, rows.add)
    return [int(number) for _, number in rows], json.loads(json.dumps(pipe.position))


def test_a_pipe_may_begin_anywhere_up_to_the_next_offset() -> None:
    numbers, position = read(map(message, range(50, 60)))
    assert numbers == list(range(50, 60))
    for first in (50, 55, 59, 60):
        assert read(map(message, range(first, 65)), position)[0] == list(range(60, 65))
    assert read([], position) == ([], position)
    assert read([], None) == ([], None)


def test_missing_offsets_are_counted_and_line_breaks_read() -> None:
    lines = [message(3), message(5, None), message(8, '{"item": "b",\n "n": 8}')]
    numbers, position = read(lines)
    assert (numbers, position and position["missing"], position and position["next"]) == ([3, 8], 3, 9)
    bad = BadLines("skip")
    lines += [message(9, '{"item": "b\n", "n": 9}'), message(10, "no"), "no message\n", message(11)]
    assert read(lines, reader=RowReader(AGREEMENT, bad=bad))[0] == [3, 8, 11]
    assert bad.count == 3


@pytest.mark.parametrize("length", [301, 400, 5000])
def test_a_message_that_is_too_long_is_counted_once(length: int) -> None:
    """It keeps its offset: it is not missing, and not counted again if a later pipe delivers it again."""
    lines = [message(3), message(4, '{"item": "' + "b" * length + '", "n": 4}'), message(5), message(6)]
    position, counts = None, []
    for last in (2, 3, 4):
        bad = BadLines("skip")
        numbers, position = read(lines[:last], position, RowReader(AGREEMENT, bad=bad), longest=300)
        counts.append((numbers, bad.count, position and (position["missing"], position["next"])))
    assert counts == [([3], 1, (0, 5)), ([5], 0, (0, 6)), ([6], 0, (0, 7))]
    with pytest.raises(ss.InvalidInputError, match="a message longer than 300 bytes, the limit"):
        read(lines, longest=300)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([message(5)], "begins at offset 5, but reading began at 10"),
        ([message(11), message(11)], "offset 11 after 11"),
        ([message(12), message(11)], "offset 11 after 12"),
        ([message(11), message(12, topic="other")], "partition 0 of 'other', but earlier ones were of partition 0 of"),
        ([message(12, partition=1)], "messages of partition 1 of"),
        ([message(12, '{"item": "z", "n": 1}')], "at offset 12 differs from the one read before"),
        ([message(10, '{"item": "z", "n": 1}')], "at offset 10 differs from the one read before"),
        ([message(10), message(11)], "ended at offset 11, but messages up to 12"),
        ([message(15)], "begins at offset 15, but messages were read only up to 12; begin at 12 or before"),
        (["no message\n"], "not a message as printed by kcat -J"),
        ([message(13).replace("13", "true", 1)], "not a message as printed by kcat -J"),
    ],
)
def test_a_pipe_that_does_not_agree_with_the_position_is_refused(lines: list[str], said: str) -> None:
    position = read(map(message, range(10, 13)))[1]
    with pytest.raises(ss.InvalidInputError, match=said) as raised:
        read(lines, position)
    assert isinstance(raised.value, LostLogError) == ("begin at" in said)


def test_a_loss_is_accepted_with_a_sentence() -> None:
    position, losses = read(map(message, range(10, 13)))[1], list[str]()
    numbers, position = read([message(15), message(16)], position, on_loss=losses.append)
    assert (numbers, position and position["missing"]) == ([15, 16], 2)
    assert losses == [
        "the pipe begins at offset 15, but messages were read only up to 12; the messages in between are lost"
    ]


@pytest.mark.parametrize("changes", [{"next": -1}, {"topic": 1}, {"first": [1]}, {"last": ["1", ""]}, {"line": None}])
def test_a_position_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    position = read([message(1)])[1]
    with pytest.raises(ss.InvalidInputError, match="does not record up to which offset"):
        read([], (position or {}) | changes)
