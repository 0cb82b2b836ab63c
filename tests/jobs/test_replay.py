"""What a stream published is computed again from its log, and whatever differs is found."""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue
from confluent_kafka import Producer

import streamsketch as ss
from streamsketch.beam.streams import encoded_batch
from streamsketch.jobs import Record, Replay, StreamJob, replay
from streamsketch.streams import counts_in
from tests.beam.streams.prism import BASE, MINUTE
from tests.jobs.job import KEYS, SCHEMA, Row, job_of, options
from tests.jobs.running import command
from tests.patience import PATIENCE

ROWS: list[Row] = [("AA", "JFK-LAX", "N1", 5), ("UA", "EWR-SFO", "N2", 61), ("AA", "JFK-SFO", "N3", 125)]


def record(*rows: Row) -> Record:
    """Return a record of a topic of one partition."""
    columns = [*zip(*rows, strict=True)]
    columns[-1] = tuple((BASE + second) * 10**6 for second in columns[-1])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return Record(0, (BASE + rows[0][-1]) * 1000, encoded_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)))


LOG = [*map(record, ROWS), Record(0, (BASE + 3 * MINUTE + 6) * 1000, b"")]


class Given(NamedTuple):
    """A log of which all is known."""

    log: list[Record]
    format: Literal["arrow"] = "arrow"

    def read(self, pipeline: beam.Pipeline, *_: Any) -> beam.PCollection:
        elements = [TimestampedValue(one.content, one.timestamp / 1000) for one in self.log]
        return pipeline | beam.Create(elements, reshuffle=False).with_output_types(bytes)


def ran(place: Path, log: list[Record] = LOG) -> StreamJob:
    """Let a job run; return it as its operator replays it."""
    fields: dict[str, Any] = {name: getattr(job_of(place), name) for name in ("agreement", "job")}
    assert StreamJob(source=Given(log), **fields).run() == 0
    return StreamJob(source=Given(log), epoch=1, **fields)


@pytest.mark.usefixtures("root_key")
def test_a_stream_is_what_its_log_gives_again_and_what_differs_is_found(tmp_path: Path) -> None:
    job, slots = ran(tmp_path), 3 * len(KEYS)
    counts = counts_in(tmp_path / "claims/flights.counts")
    assert sum(one.read for one in counts.values()) > 0
    assert replay(job, LOG) == Replay(slots, slots, slots, 0)
    assert counts_in(tmp_path / "claims/flights.counts") == counts, "what is read again is not counted again"
    late = record(("AA", "late", "N9", 7))  # behind the heartbeat that ended all windows
    assert replay(job, [*LOG, late]) == Replay(slots, slots, slots, 0)
    more = [*LOG[:2], record(("UA", "more", "N7", 70)), *LOG[2:]]
    assert replay(job, more) == Replay(slots, slots - 1, slots, 0)
    first = min((tmp_path / "out/flights").iterdir())
    (first / "UA.sketch").unlink()
    assert replay(job, LOG) == Replay(slots - 1, slots - 1, slots - 1, 1)
    (tmp_path / "out/flights").rename(tmp_path / "moved")
    with pytest.raises(ss.InvalidInputError, match="there are no releases in"):
        replay(job, LOG)


@pytest.mark.usefixtures("root_key")
def test_a_unit_over_its_bound_has_other_sums_than_the_log_and_the_same_bytes(tmp_path: Path) -> None:
    heavy = record(*[("UA", "EWR-SFO", "N2", 62)] * 11)  # of at most 10
    log = [*LOG[:2], heavy, *LOG[2:]]
    slots = 3 * len(KEYS)
    assert replay(ran(tmp_path, log), log) == Replay(slots, slots, slots - 1, 0)


@pytest.mark.usefixtures("root_key")
def test_the_command_reads_the_topic_and_ends_with_1_where_a_release_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(tmp_path)
    broker = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})  # librdkafka's own, in this process
    (address,) = broker.list_topics(timeout=PATIENCE).brokers.values()
    files = [one for one in options(tmp_path, incoming=None) if one.startswith("--")]
    given = ["stream", "replay", *files, f"--set=servers={address.host}:{address.port}", "--epoch=1", "--json"]
    for topic, log in {"whole": LOG, "cut": LOG[1:]}.items():
        for one in log:
            broker.produce(topic, one.content, partition=0, timestamp=one.timestamp)
        assert broker.flush(30) == 0
        capsys.readouterr()
        assert command(*given, f"--set=topic={topic}") == (0 if topic == "whole" else 1)
        found = json.loads(capsys.readouterr().out)
        assert found == {"slots": 6, "same_bytes": 6 - (topic == "cut"), "same_sums": 6, "missing": 0}
