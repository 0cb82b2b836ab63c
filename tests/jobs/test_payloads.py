"""Messages as rows: which message a bad row is blamed on, and what a message without rows is."""

import base64
import errno
import itertools
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam.streams import encoded_batch
from streamsketch.intake.rows import rows_from
from streamsketch.streams import Stream
from tests.jobs.topic import AGREEMENT
from tests.streams.agreed import followed

pytest.importorskip("confluent_kafka")

from streamsketch.jobs import Malformed, Message, Payloads

POLICY = {"time": "at", "window": 60, "start": "2026-11-22T00:00:00Z", "delay": 5, "epsilon": 1}
POLICY |= {"public_keys": ["north", "south"]}
SIZES = [*itertools.product([1, 2, 3], repeat=3), (1,), (4,), (5, 1), (1, 5)]  # of messages, in rows


def messages_of(items: list[list[str]], form: str) -> list[Message]:
    """Return messages of rows, from offset 7 on."""
    found = []
    for offset, own in enumerate(items, 7):
        rows = [{"person": "a", "shop": "north", "item": item, "at": "2026-11-22T00:00:00Z"} for item in own]
        lines = b"\n".join(json.dumps(row).encode() for row in rows)
        content = lines if form == "json" else encoded_batch(pa.RecordBatch.from_pylist(rows))
        found.append(Message(offset, 0, content))
    return found


def refuse_bad(found: list[str], batch: pa.RecordBatch, _: Any) -> None:
    """Add the items of a batch, or none if one is bad."""
    items = batch.column("item").to_pylist()
    if "bad" in items:
        raise ss.InvalidInputError("a bad item")
    found += items


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_the_message_of_a_bad_row_is_set_aside_and_no_other(form: Any, tmp_path: Path) -> None:
    """Wherever it is: the first or the last of its message, beside the border of another, alone or one of two."""
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for sizes in SIZES:
        places = range(sum(sizes))
        cases += [(sizes, (place,)) for place in places] + [(sizes, pair) for pair in itertools.pairwise(places)]
    for number, (sizes, bad) in enumerate(cases):
        ends = [*itertools.accumulate(sizes)]
        items = ["bad" if place in bad else f"item {place}" for place in range(ends[-1])]
        messages = messages_of([items[end - size : end] for size, end in zip(sizes, ends, strict=True)], form)
        found: list[str] = []
        with Malformed(tmp_path / str(number)) as malformed:
            Payloads(AGREEMENT, "at", form, malformed).add(3, messages, partial(refuse_bad, found))
        assert found == [item for item in items if item != "bad"]
        assert malformed.rows == len(bad)
        blamed = sorted({next(at for at, end in enumerate(ends) if place < end) for place in bad})
        kept = [json.loads(line) for line in (tmp_path / str(number)).read_text().splitlines()]
        assert [(one["partition"], one["offset"], base64.b64decode(one["message"])) for one in kept] == [
            (3, messages[at].offset, messages[at].content) for at in blamed
        ]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_rows_have_their_numbers_among_those_that_are_read_together(form: Any) -> None:
    messages = messages_of([["a"], ["b", "c"]], form)
    found: list[list[int]] = []
    beats = [messages[0], Message(9, 5, b""), Message(10, 5, b"", b"a key"), *messages]
    malformed = Malformed(None)
    Payloads(AGREEMENT, "at", form, malformed).add(
        0, beats, lambda batch, first: found.append([*rows_from(first, batch)])
    )
    assert found == [[1], [1], [1, 2, 3]]
    assert (malformed.rows, malformed.undecodable, malformed.messages) == (0, 1, 4)


@pytest.mark.parametrize("form", ["json", "arrow"])
@pytest.mark.parametrize("clock", ["events", "heartbeats"])
def test_why_a_row_is_malformed_names_its_place_in_its_message(clock: str, form: Any, tmp_path: Path) -> None:
    """However many rows before it, of its message and of others, were left out as blank or malformed."""
    agreement = AGREEMENT.replace(index={"item": "integer"})
    policy = followed(agreement, **{**POLICY, "clock": clock, "folder": str(tmp_path)})
    stream = Stream(*policy, tmp_path / "s.raw-stream", strict=True)
    items = [["1", "x"], ["x"], ["", "2", "y", "3", "z"], ["4"], ["", "x"]]
    malformed = Malformed(tmp_path / "bad")
    with malformed:
        Payloads(agreement, "at", form, malformed).add(0, messages_of(items, form), stream.add)
    kept = [json.loads(line) for line in (tmp_path / "bad").read_text().splitlines()]
    named = [(one["offset"], {int(row) for row in re.findall(r"(?:row|line) (\d+)", one["why"])}) for one in kept]
    assert named == [(7, {2}), (8, {1}), (9, {3}), (11, {2})]
    assert (stream.events, malformed.rows) == (4, 5)


@pytest.mark.parametrize("form", ["json", "arrow"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), MemoryError()], ids=["disk", "memory"])
def test_an_error_of_the_machine_makes_no_row_malformed(error: Exception, form: Any, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise error

    with Malformed(tmp_path / "malformed") as malformed, pytest.raises(type(error)):
        Payloads(AGREEMENT, "at", form, malformed).add(3, messages_of([["tea", "jam"], ["salt"]], form), full)
    assert (malformed.rows, malformed.undecodable) == (0, 0)
