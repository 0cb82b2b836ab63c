"""The example of a producer: no row of it is late, and it ends a silence that was longer than a row may be ahead."""

import json
import random
from typing import Any

import pytest

from pipelines.producer import LogWriter, seconds_of, steps, write
from streamsketch.beam.streams import PartitionClock
from streamsketch.data.windows import Tumbling
from streamsketch.intake.clock import AheadLimit, ClockKind

SECOND = 10**6


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
@pytest.mark.parametrize("kept", [0, 3])
def test_no_row_is_late_however_long_it_waits(clock: ClockKind, kept: int) -> None:
    """Windows of a second, and rows of which some wait for the next heartbeat; with a clock of events, old ones too."""
    picked, now, sent = random.Random(5), [1000.0], list[tuple[int, int, bytes]]()  # noqa: S311 - times of a test
    writer = LogWriter(lambda *message: sent.append(message), 2, lambda: now[0])
    behind = 20 if clock == "events" else 0
    waiting: list[float] = []
    for _ in range(60):
        now[0] += 1
        for place in range(4):
            at = now[0] - picked.random() * behind
            writer.take(at, b"%d %d" % (len(sent), place))
            waiting.append(at)
        writer.flush(most=len(waiting) - kept)
        waiting = sorted(waiting)[len(waiting) - kept :] if kept else []
    clocks = [PartitionClock(behind * SECOND, SECOND, clock=clock) for _ in range(2)]
    late = [clocks[at].is_late(moment * 1000, heartbeat=not content) for at, moment, content in sent]
    assert not any(late)
    assert {at for at, _, content in sent if not content} == {0, 1}
    beats = [moment for at, moment, content in sent if not content and at == 0]
    assert beats == sorted(beats)


def test_a_heartbeat_does_not_overtake_rows_that_wait() -> None:
    sent = list[tuple[int, int, bytes]]()
    writer = LogWriter(lambda *message: sent.append(message), 1, lambda: 1000.0)
    for at in (990.0, 995.0):
        writer.take(at, b"%d" % at)
    writer.flush(most=1)
    assert sent == [(0, 990_000, b"990"), (0, 995_000, b"")]
    writer.flush()
    assert sent[2:] == [(0, 995_000, b"995"), (0, 1_000_000, b"")]


@pytest.mark.parametrize("silent", [10, 100, 7205, 7200])
def test_heartbeats_in_steps_end_a_silence(silent: int) -> None:
    limit = AheadLimit.of_length(Tumbling(60 * SECOND), 3600 * SECOND)
    clock = PartitionClock(5 * SECOND, 60 * SECOND, newest=10**6 * SECOND, clock="heartbeats", limit=limit)
    for moment in steps(10**6, 10**6 + silent, 3600):
        clock.is_late(moment * 1000, heartbeat=True)
    assert clock.newest == (10**6 + silent) * SECOND


def test_rows_are_read_from_lines() -> None:
    sent = list[Any]()
    writer = LogWriter(lambda *message: sent.append(message), 1, lambda: 50.0)
    lines = [
        json.dumps({"at": at}).encode() + b"\n"
        for at in (7_000_000, "1970-01-01T00:00:05", "1970-01-01T01:00:06+01:00")
    ]
    write([*lines, b"\n"], "at", writer, 100)
    assert [moment for _, moment, _ in sent] == [5000, 6000, 7000, 50_000]
    assert seconds_of(5_500_000) == 5.5
