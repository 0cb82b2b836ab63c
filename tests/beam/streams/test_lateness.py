"""What moves a log's clock: every record, or heartbeats alone, which no unit writes."""

import dataclasses
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, TumblingWindows
from streamsketch.beam.streams import (
    DecodeMessages,
    PartitionClock,
    ReadGrowingFolder,
    TakeOnTime,
    configure_stream,
    encoded_batch,
)
from streamsketch.beam.streams.folder import ReadFiles
from streamsketch.beam.streams.lateness import micros_of
from streamsketch.data.windows import Tumbling
from streamsketch.intake.clock import AheadLimit, ClockKind
from streamsketch.release import AdditiveNoise
from streamsketch.streams.open_windows import Windows
from streamsketch.streams.policy import StreamPolicy
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.streams.prism import BASE, MINUTE, run, with_minute
from tests.jobs import job
from tests.streams.agreed import followed

SIZE, DELAY = 60, 5
PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
KEYS = ["AA", "UA"]
ENDS = [MIN_TIMESTAMP.micros, GlobalWindow().max_timestamp().micros, (1 << 63) - 1, -(1 << 63)]
LOGS = st.lists(st.tuples(st.integers(0, 600) | st.sampled_from(ENDS), st.booleans()), max_size=30)


@given(LOGS, st.integers(0, 7), st.integers(0, 200))
def test_records_are_late_by_the_heartbeats_before_them(
    records: list[tuple[int, bool]], offset: int, delay: int
) -> None:
    """Against a loop of its own, all at once, and in two parts."""
    expected, newest = [], None
    for moment, is_beat in records:
        over = newest is not None and (moment - offset) // SIZE * SIZE + offset + SIZE <= newest - delay
        expected.append(moment in ENDS or over)
        if is_beat and moment not in ENDS:
            newest = moment if newest is None else max(newest, moment)
    clocks = [PartitionClock(delay, SIZE, offset, clock="heartbeats") for _ in range(2)]
    assert [clocks[0].is_late(moment, heartbeat=is_beat) for moment, is_beat in records] == expected
    moments = np.array([moment for moment, _ in records], dtype=np.int64)
    beats = np.array([is_beat for _, is_beat in records], dtype=bool)
    half = len(records) // 2
    late = [clocks[1].are_late(moments[part], beats[part]) for part in (slice(half), slice(half, None))]
    assert np.concatenate(late).tolist() == expected
    assert [clock.newest for clock in clocks] == [newest] * 2


@given(
    st.none() | st.integers(-500, 500),
    st.integers(0, 200),
    st.integers(1, 3),
    st.none() | st.integers(-2, 5),
    st.data(),
)
def test_rows_between_two_times_are_on_time(
    newest: int | None, delay: int, most: int, first: int | None, data: st.DataObject
) -> None:
    limit = data.draw(st.sampled_from([None, AheadLimit(Tumbling(SIZE, 7), most, first)]))
    clock = PartitionClock(delay, SIZE, 7, newest, limit=limit)
    low, high = clock.on_time()
    times = [low - 1, low, *data.draw(st.lists(st.integers(-900, 900))), high - 1, high]
    late, ahead = clock.judge(np.array(times, dtype=np.int64))
    assert (late | ahead).tolist() == [not low <= time < high for time in times]


@pytest.mark.parametrize("moment", ENDS)
def test_a_time_that_beam_cannot_hold_is_late_and_moves_nothing(moment: int) -> None:
    clock = PartitionClock(DELAY, SIZE)
    assert not clock.is_late(100)
    assert clock.is_late(moment)
    assert clock.watermark == 100 - DELAY


def test_a_runner_ends_a_window_once_its_rows_are_late() -> None:
    """It does so a millisecond before the end, and a row may come for as long as the watermark is not past that."""
    for behind in (0, 1):
        clock = PartitionClock(DELAY, SIZE * 1000, newest=DELAY + SIZE * 1000 - behind)
        ended = clock.passed.micros >= SIZE * 1000 - 1000
        assert ended is clock.is_late(0) is (behind == 0)
    assert PartitionClock(DELAY, SIZE).passed == MIN_TIMESTAMP


SECOND = 10**6
AGREED = ss.Agreement(
    PROJECTION.replace(dim=2**60), key="key", index="item", neighbours=ss.L1(1, unit="row"), missing="drop"
)
HERE = followed(
    AGREED, time="time", window=1, delay=3, start="1970-01-01", epsilon=1, folder="out", public_keys=["a"], clip="none"
)


def of_second(second: int, key: str | None) -> pa.RecordBatch:
    columns = [pa.array([key], pa.string()), pa.array([key], pa.string())]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([second * SECOND], pa.timestamp("us", "UTC"))], names=["key", "item", "time"]
    )


def in_job(sent: list[tuple[int, int | None]], clock: ClockKind) -> tuple[int, int, int]:
    """Return how many rows are on time, late and too far ahead, of messages at a time with a row of another."""
    partition = PartitionClock(3 * SECOND, SECOND, clock=clock, limit=HERE.limit)
    decode = DecodeMessages(AGREED, time="time", size=1, delay=3, limit=HERE.limit)._step
    decode.start_bundle()
    counts = dict.fromkeys(["", "late", "malformed"], 0)
    for moment, row in sent:
        content = b"" if row is None else encoded_batch(of_second(row, "a"))
        for found in decode.process(content, partition.timestamp):
            tag, timed = (found.tag, found.value) if isinstance(found, beam.pvalue.TaggedOutput) else ("", found)
            counts[tag] += timed.value.num_rows
        partition.is_late(moment * SECOND, heartbeat=row is None)
    return counts[""], counts["late"], counts["malformed"]


def on_one_machine(sent: list[tuple[int, int | None]], clock: ClockKind) -> tuple[int, int, int]:
    windows = Windows(StreamPolicy(HERE.agreement, dataclasses.replace(HERE.job, clock=clock)), bytes(32))
    rows = [of_second(moment if row is None else row, None if row is None else "a") for moment, row in sent]
    kept, far = 0, 0
    for place, row in enumerate(rows):
        try:
            kept += windows.add(row, place + 1)
        except ss.InvalidInputError:
            far += 1
    return kept, windows.counts.rows_late, far + windows.counts.bounding.rows_malformed


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
@pytest.mark.parametrize("engine", [in_job, on_one_machine])
@pytest.mark.parametrize("behind", [0, 2, 3, 4, 9, -9, -20_000])
def test_a_producer_loses_rows_only_beyond_the_delay_and_each_is_counted(
    behind: int, engine: Any, clock: ClockKind
) -> None:
    """It sends a row each second, which is some seconds old, or has a clock that is ahead; others send heartbeats."""
    sent = [(100, None), *((second, second - behind) for second in range(100, 110))]
    if clock == "heartbeats":
        sent = [pair for second, row in sent for pair in ((second, row), (second, None))]
    kept, late, far = engine(sent, clock)
    expected = {4: (9, 1, 0), 9: (0, 10, 0), -20_000: (0, 0, 10)}.get(behind, (10, 0, 0))
    if engine is on_one_machine and clock == "events" and behind == 9:
        expected = (4, 6, 0)  # the clock is that of its own rows, but for the first heartbeat
    assert (kept, late, far) == expected


ROWS: list[tuple[int, Any]] = [  # None is a heartbeat
    (0, None),
    (5, ("Ann", "AA", 1, 3)),
    (90_000, ("Eve", "UA", 9, 1)),  # a day ahead
    (58, ("Bob", "AA", 2, 4)),
    (70, None),
    (7, ("Cyd", "AA", 3, 1)),  # late
    (110, ("Dan", "UA", 4, 2)),
    (130, None),
]


def stream(rows: list[tuple[int, Any]], moved_by: ClockKind) -> test_stream.TestStream:
    """Return a log as its source gives it, with late rows marked."""
    clock = PartitionClock(DELAY * 10**6, MINUTE * 10**6, clock=moved_by)
    passed = Timestamp(BASE - DELAY)
    test = test_stream.TestStream().advance_watermark_to(passed)
    for at, row in rows:
        late = clock.is_late((BASE + at) * 10**6, heartbeat=row is None)
        if row is not None:
            test = test.add_elements([TimestampedValue(row, MIN_TIMESTAMP if late else BASE + at)])
        if clock.watermark > passed.micros:
            passed = Timestamp(micros=clock.watermark)
            test = test.advance_watermark_to(passed)
    return test.advance_watermark_to_infinity()


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("moved_by", ["heartbeats", "events"])
def test_one_unit_cannot_move_what_heartbeats_move(
    moved_by: ClockKind, prism: list[str], root_key: Path, tmp_path: Path
) -> None:
    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        secrets = {"root_key": root_key, "claims": str(tmp_path / "claims"), "clock": moved_by}
        configure_stream(pipeline, stream="test", **secrets)
        on_time, late = pipeline | stream(ROWS, moved_by) | TakeOnTime()
        releases = (
            on_time
            | TumblingWindows(MINUTE)
            | bound_rows(PROJECTION, unit="person", max_keys=1, l1=10, public_keys=KEYS)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(
                AdditiveNoise(epsilon=1.0, neighbours=ss.L1(10, unit="person")),
                public_keys=KEYS,
                public_windows=(BASE, BASE + 2 * MINUTE),
            )
        )
        return {"releases": releases | beam.Map(with_minute), "late": late}

    found = run(prism, build, tmp_path / "out")
    late = [row[0] for row in found["late"]]
    assert late == (["Cyd"] if moved_by == "heartbeats" else ["Bob", "Cyd", "Dan"]), "the clock is what decides"
    sums = {(key, start): release.values.tolist() for key, start, release in found["releases"]}
    rows = [(at // MINUTE * MINUTE, row) for at, row in ROWS if row is not None and row[0] not in late]
    for (key, start), cells in sums.items():
        sketch = PROJECTION.sketch()
        for _, (_, _, index, value) in [(at, row) for at, row in rows if (row[1], at) == (key, start)]:
            sketch.update(index, value)
        assert cells == sketch.state().tolist()
    assert len(sums) == 4
    (conditions,) = {release.guarantee.conditions for *_, release in found["releases"]}
    assert len(conditions) == (moved_by == "events")


def test_rows_of_a_folder_are_late_by_the_heartbeats_among_them() -> None:
    """A heartbeat has a time and nothing else, be it null or empty text."""
    rows = [("a", 5), (None, 70), ("late", 7), ("far", 90_000), ("b", 61), ("", 130), ("late too", 119), ("c", 124)]
    columns = [pa.array([key for key, _ in rows]), pa.array([at * 10**6 for _, at in rows], pa.timestamp("us", "UTC"))]
    batch = pa.RecordBatch.from_arrays(columns, names=["key", "time"])
    step = ReadFiles(["key", "time"], "time", [DELAY * 10**6, SIZE * 10**6, 0], 1.0, "_END")
    step.clock = "heartbeats"
    limit = AheadLimit(Tumbling(SIZE * 10**6), 100)
    step.limit = limit
    for cut in range(len(rows) + 1):  # batches of any size give the same
        clock = PartitionClock(DELAY * 10**6, SIZE * 10**6, clock="heartbeats", limit=limit)
        found: dict[str, list[str]] = {"late": [], "ahead": [], "timely": []}
        for part in (batch.slice(0, cut), batch.slice(cut)):
            for moment, one in step._parts(part, clock):
                newest = None if moment == MIN_TIMESTAMP else moment.micros + DELAY * 10**6
                judge = PartitionClock(DELAY * 10**6, SIZE * 10**6, newest=newest, limit=limit)
                late, ahead = judge.judge(micros_of(one.column("time"), "time"))
                for key, *flags in zip(one.column("key").to_pylist(), late, ahead, strict=True):
                    found["late" if flags[0] else "ahead" if flags[1] else "timely"].append(key)
        assert found["late"] == ["late", "late too"]
        assert sorted(found["ahead"]) == ["far"]
        assert sorted(found["timely"]) == ["a", "b", "c"]
        assert clock.newest == 130 * 10**6


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # sums without noise
@pytest.mark.usefixtures("no_noise", "root_key")
@pytest.mark.parametrize("moved_by", ["heartbeats", "events"])
def test_a_job_on_a_folder_keeps_rows_that_follow_one_far_ahead(moved_by: str, tmp_path: Path) -> None:
    job.put(tmp_path / "log", "001.parquet", [("UA", "EWR-SFO", "N9", 90_000)])
    job.put(tmp_path / "log", "002.parquet", [("AA", "JFK-LAX", "N1", 5), (None, None, None, 200)])
    job.end(tmp_path / "log")
    assert job.run(tmp_path, ["--runner=FnApiRunner"], lambda: None, clock=moved_by) == 0
    releases = [ss.load(path) for path in sorted((tmp_path / "out/flights").rglob("AA.sketch"))]
    assert len(releases) == 3
    assert [bool(np.any(release.values)) for release in releases] == [moved_by == "heartbeats", False, False]
    assert {len(release.guarantee.conditions) for release in releases} == {int(moved_by == "events")}


def test_one_pipeline_has_one_clock(root_key: Path, tmp_path: Path) -> None:
    def read() -> ReadGrowingFolder:
        return ReadGrowingFolder("log", ["key", "time"], time="time", delay=1, size=1, clock="heartbeats")

    secrets = {"stream": "test", "root_key": root_key, "claims": str(tmp_path / "claims")}
    pipeline = beam.Pipeline(runner="FnApiRunner")
    pipeline | read()
    with pytest.raises(
        ss.InvalidInputError, match="clock='events' and an earlier one in the pipeline clock='heartbeats'"
    ):
        configure_stream(pipeline, **secrets)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    configure_stream(pipeline, **secrets)
    with pytest.raises(
        ss.InvalidInputError, match="clock='heartbeats' and an earlier one in the pipeline clock='events'"
    ):
        pipeline | read()
    with pytest.raises(ss.InvalidInputError, match="clock must be one of events, heartbeats"):
        PartitionClock(1, 1, clock="wall")  # type: ignore[arg-type]
