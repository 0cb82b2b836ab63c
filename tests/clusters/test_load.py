"""Streams under load: what goes in, and what is said of it."""

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.streams import DecodeMessages, encoded_batch
from streamsketch.beam.streams.topic import content_of
from tests.beam.streams.test_json_lines import AGREEMENT
from tests.clusters.feed import DELAY, ROWS, WINDOW, Events, Late
from tests.clusters.soak import _delays, trend

HOURS = np.linspace(0, 60, 45)


def test_both_formats_hold_the_same_events() -> None:
    (batch,) = Events("arrow", 1).messages(1000)
    rows = list(Events("json", 1).messages(1000))
    assert len(rows) == ROWS
    assert batch.count(b"unit ") == b"".join(rows).count(b"unit ") == ROWS
    assert list(Events("arrow", 2).messages(1000, 5)) != list(Events("arrow", 2).messages(1010, 5))


def test_what_does_not_grow_is_flat_and_what_does_is_told() -> None:
    noise = np.random.default_rng(1).normal(size=HOURS.size)
    steady = trend(list(zip(HOURS, 1000 + noise, strict=True)))
    assert steady.verdict == "flat"
    assert steady.low < 0 < steady.high
    grown = trend(list(zip(HOURS, 1000 + 3 * HOURS + noise, strict=True)))
    assert grown.verdict == "grows"
    assert grown.low < 180 < grown.high
    assert trend(list(zip(HOURS, 1000 + 300 * noise, strict=True))).verdict == "not known to be flat"
    assert trend([(1, 2), (2, 2)]).verdict == trend([]).verdict == "too short to say"


def test_windows_that_waited_for_the_start_are_no_delay() -> None:
    starts = [WINDOW * number for number in range(6)]
    late = Late(starts, [40.0, 40.5, 41.0, 41.5, 53.0, WINDOW * 6 + DELAY + 1.5])
    assert _delays(late) == [1.5]
    assert _delays(Late([], [])) == []


@pytest.mark.parametrize("messages", [[b"a", b"bc", b""], [b"x" * 300] * 70])
def test_records_that_were_joined_are_taken_apart(messages: list[bytes]) -> None:
    lengths = b"".join(len(message).to_bytes(4, "little") for message in messages)
    assert content_of(b"".join(messages), lengths) == messages


def test_records_that_stay_alone_are_messages() -> None:
    assert [content_of(b"a", None), content_of(None, None), content_of(b"b", b"")] == [b"a", b"", b"b"]


def test_a_list_of_arrow_messages_is_each_of_them() -> None:
    columns = [pa.array(["a"]), pa.array([1]), pa.array([60 * 10**6], pa.timestamp("us", "UTC"))]
    message = encoded_batch(pa.RecordBatch.from_arrays(columns, names=["unit", "value", "time"]))
    step = DecodeMessages(AGREEMENT, time="time", size=60)._step
    step.start_bundle()
    found = list(step.process([message, b"", message, b"?"], Timestamp(60)))
    # in a list, nothing is a heartbeat: an empty message is a record with a key, which is counted
    assert [getattr(one, "tag", None) for one in found] == [None, "malformed", None, "malformed"]
    assert [one.value.num_rows for one in (found[0], found[2])] == [1, 1]
