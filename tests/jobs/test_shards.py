"""A data stream of Kinesis is released once, through splits and merges of its shards and all that it refuses."""

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.intake.rotation import LostLogError
from tests.jobs.kinesis import ARN, START, DataStream, RefusedError, client, served
from tests.jobs.running import command
from tests.jobs.topic import BASE, MINUTE, NeverStop, as_json, policy_in, reader, released, rows

pytest.importorskip("boto3")

from botocore.exceptions import NoCredentialsError

from streamsketch.jobs import Shards, ShardStream, TopicError, UnreachableError
from streamsketch.once.reasons import reason_of

HOUR = 3600.0


@pytest.fixture
def opened() -> Iterator[Callable[[DataStream], Shards]]:
    """Yield a function that returns a log of a data stream, which it serves."""
    with ExitStack() as stack:
        addresses: dict[int, str] = {}

        def of(stream: DataStream) -> Shards:
            if id(stream) not in addresses:
                addresses[id(stream)] = stack.enter_context(served(stream))
            log = Shards(ARN, lambda region: client(addresses[id(stream)], region), every=0.0, now=lambda: stream.now)
            stack.callback(log.close)
            return log

        yield of


def reading(log: Shards, folder: Path, **options: Any) -> ShardStream:
    """Return a reader whose clock moves by half a second at each look at it, so that nothing waits for the next one."""
    ticking = itertools.count(0.0, 0.5)
    found = reader(log, folder, kind=ShardStream, name=ARN, **{"clock": lambda: next(ticking)} | options)
    assert isinstance(found, ShardStream)
    return found


def to_end(read: ShardStream) -> ShardStream:
    read.run(NeverStop(), every=1e9, once=True)
    return read


def at(stream: DataStream, second: float) -> None:
    """Let it be a time, in seconds after `BASE`, which is that of `START`."""
    stream.now = START + second


def resharded(*, seed: int = 0) -> DataStream:
    """Return a data stream of four minutes, in which a shard is split, and one of its halves is merged with another."""
    stream = DataStream(2, seed=seed)
    stream.most, live = 12, [0, 1]
    for minute in range(4):
        for number in live:
            at(stream, MINUTE * minute + 30)
            stream.write(number, *as_json(rows(minute, 8, seed=number)))
            at(stream, MINUTE * minute + 59)
            stream.beat(number)
        if minute == 0:
            live = [*stream.split(0), 1]
        elif minute == 1:
            live = [live[0], stream.merge(live[1], 1)]
    at(stream, MINUTE * 5)
    for number in live:
        stream.beat(number)
    return stream


def begun(opened: Any, folder: Path, **options: Any) -> Path:
    """Return a folder with a state in which nothing was read: its secrets are those of all copies."""
    reading(opened(DataStream(2)), folder, **options)
    return folder


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
def test_splits_and_merges_are_followed_and_any_order_gives_the_same_bytes(
    tmp_path: Path, opened: Any, clock: str
) -> None:
    begun(opened, tmp_path / "begun", policy={"clock": clock})
    found = []
    for seed in range(3):
        folder = shutil.copytree(tmp_path / "begun", tmp_path / str(seed))
        stream = resharded(seed=seed)
        read = to_end(reading(opened(stream), folder, policy={"clock": clock}))
        assert read.stream.summary["rows_late"] == 0
        assert read.offsets.keys() == {2, 4}, "the shards that are open"
        assert read.summary["losses"] == 0
        found.append(released(folder))
    assert len(found[0]) == 4
    assert found[0] == found[1] == found[2]


def test_a_window_has_the_rows_of_all_shards_that_went_on(tmp_path: Path, opened: Any) -> None:
    stream = resharded()
    written = sum(len(one.data) > 0 for part in stream.parts.values() for one in part.records)
    read = to_end(reading(opened(stream), tmp_path))
    counts = read.row_counts
    assert (counts.read, counts.late, counts.undecodable) == (written, 0, 0)
    assert read.summary["shards_ended"] == [0, 1, 3], "which are listed still, and not read again"


@pytest.mark.parametrize("steps", [1, 3, 8, 20])
def test_a_reader_that_ends_anywhere_publishes_the_same_bytes(tmp_path: Path, opened: Any, steps: int) -> None:
    begun(opened, tmp_path / "begun")
    whole = shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    to_end(reading(opened(resharded()), whole))
    folder, stream = shutil.copytree(tmp_path / "begun", tmp_path / "cut"), resharded(seed=steps)
    for save in (True, False, True):
        read = reading(opened(stream), folder)
        for _ in range(steps):
            read.step(0.0)
        if save:
            read.save()
    to_end(reading(opened(stream), folder))
    assert released(folder) == released(whole)


def test_later_shards_wait_for_the_one_that_they_go_on_from(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 20)))
    stream.split(0)
    stream.write(1, *as_json(rows(1, 4)))
    read = reading(opened(stream), tmp_path)
    assert read.offsets.keys() == {0}
    while 0 in read.offsets:
        assert read.stream.events == 0 or stream.asked.count("GetShardIterator") == 1
        read.step(0.0)
    assert read.offsets == {1: 0, 2: 0}
    assert read.row_counts.read == 20


def test_after_a_merge_no_row_is_late_that_was_not_before(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(2)
    stream.write(0, *as_json(rows(5, 3)))
    stream.write(1, *as_json(rows(0, 3)))
    merged = stream.merge(0, 1)
    stream.write(merged, *as_json(rows(0, 5, seed=1)))
    read = to_end(reading(opened(stream), tmp_path))
    assert (read.row_counts.read, read.row_counts.late) == (11, 0)
    assert read.stream.released == 0, "no window is over by the clock of the shard that was behind"


def test_after_a_split_rows_are_late_by_the_clock_that_goes_on(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(5, 3)))
    left, right = stream.split(0)
    stream.write(left, *as_json(rows(0, 4)))
    stream.write(right, *as_json(rows(6, 2)))
    read = to_end(reading(opened(stream), tmp_path))
    assert (read.row_counts.read, read.row_counts.late) == (9, 4)
    assert len(released(tmp_path)) == 5


def test_no_window_ends_while_a_shard_that_ended_waits_for_those_after_it(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(5, 3)))
    left, right = stream.split(0)
    hidden = stream.parts.pop(right)
    read = reading(opened(stream), tmp_path)
    for _ in range(20):
        read.step(0.0)
    stream.write(left, *as_json(rows(9, 1)))
    for _ in range(20):
        read.step(0.0)
    assert read.stream.windows.clocks.watermark is not None
    assert read.stream.windows.clocks.watermark < (BASE + 6 * MINUTE) * 10**6, "the clock of the shard that ended"
    stream.parts[right] = hidden
    stream.write(right, *as_json(rows(9, 1)))
    assert to_end(read).stream.released == 9


# --- what retention removed ---------------------------------------------------------------------------------


def silent(opened: Any, stream: DataStream, folder: Path, **options: Any) -> ShardStream:
    """Return a reader that looked at a stream of which all was read."""
    read = to_end(reading(opened(stream), folder, **options))
    read.save()
    return read


def test_records_that_may_have_been_removed_end_the_stream_or_are_accepted(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 4)))
    silent(opened, stream, tmp_path)
    at(stream, 1 * HOUR)
    stream.write(0, *as_json(rows(1, 4)))
    at(stream, 26 * HOUR)
    stream.write(0, *as_json(rows(2, 2)))
    with pytest.raises(LostLogError, match=r"may have removed records of shard 0 .*arrived after 2023-11-14") as caught:
        reading(opened(stream), tmp_path)
    assert reason_of(caught.value) == "retention"
    read = to_end(reading(opened(stream), tmp_path, accept_loss=True))
    assert read.summary["losses"] == 1
    assert read.row_counts.read == 6, "what is there"


def test_messages_that_were_begun_and_not_added_do_not_count_as_read(
    tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else records that retention removes before the next start would be missed by nobody."""
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 4)))
    silent(opened, stream, tmp_path)
    at(stream, 10 * HOUR)
    stream.write(0, *as_json(rows(1, 4)))
    read = reading(opened(stream), tmp_path)

    def add(*_: Any, **__: Any) -> None:
        raise OSError("no memory")

    with monkeypatch.context() as patched:
        patched.setattr(read.stream, "add", add)
        with pytest.raises(OSError, match="no memory"):
            to_end(read)
    read.save()
    at(stream, 26 * HOUR)
    with pytest.raises(LostLogError, match="may have removed records of shard 0"):
        reading(opened(stream), tmp_path)


def test_a_shard_that_is_silent_for_longer_than_retention_loses_nothing(tmp_path: Path, opened: Any) -> None:
    stream, seconds = DataStream(1), [0.0]
    stream.write(0, *as_json(rows(0, 4)))
    read = reading(opened(stream), tmp_path, clock=lambda: seconds[0])
    for hour in range(0, 41, 10):
        at(stream, hour * HOUR)
        for _ in range(3):
            to_end(read)
            seconds[0] += 20  # after which shards are listed again
    assert read.save()
    at(stream, 50 * HOUR)
    stream.write(0, *as_json(rows(2, 5)))
    again = to_end(reading(opened(stream), tmp_path))
    assert (again.row_counts.read, again.summary["losses"]) == (9, 0)


def test_records_of_a_shard_that_goes_on_may_be_removed_too(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 2)))
    silent(opened, stream, tmp_path)
    at(stream, HOUR)
    left, _ = stream.split(0)
    stream.write(left, *as_json(rows(1, 2)))
    at(stream, 24.5 * HOUR)
    with pytest.raises(LostLogError, match="shard 0 "):
        reading(opened(stream), tmp_path)


def test_a_split_just_before_a_stop_loses_nothing(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 2)))
    silent(opened, stream, tmp_path)
    at(stream, HOUR)
    left, right = stream.split(0)
    stream.write(left, *as_json(rows(1, 2)))
    at(stream, 23 * HOUR)
    stream.write(right, *as_json(rows(2, 2)))
    read = to_end(reading(opened(stream), tmp_path))
    assert (read.row_counts.read, read.summary["losses"]) == (6, 0)


def test_a_shard_that_is_no_longer_listed_was_lost(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 3)))
    reading(opened(stream), tmp_path)
    stream.split(0)
    at(stream, 30 * HOUR)
    stream.write(1, *as_json(rows(1, 4)))
    with pytest.raises(LostLogError, match="may have removed records of shard 0"):
        reading(opened(stream), tmp_path)
    read = to_end(reading(opened(stream), tmp_path, accept_loss=True))
    assert (read.row_counts.read, read.summary["losses"]) == (4, 1)
    assert read.summary["shards_ended"] == []


def test_a_first_reader_begins_with_what_is_there(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 5)))
    stream.split(0)
    at(stream, 30 * HOUR)
    stream.write(1, *as_json(rows(1, 4)))
    read = to_end(reading(opened(stream), tmp_path))
    assert (read.row_counts.read, read.summary["losses"]) == (4, 0)


def test_the_last_record_is_read_again_and_another_one_in_its_place_is_refused(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 5)))
    silent(opened, stream, tmp_path)
    last = stream.parts[0].records[-1]
    stream.parts[0].records[-1] = last._replace(data=b"{}")
    with pytest.raises(TopicError, match="has another record at offset") as caught:
        to_end(reading(opened(stream), tmp_path))
    assert reason_of(caught.value) == "truncated"


def test_another_data_stream_of_the_same_name_is_refused(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    silent(opened, stream, tmp_path)
    again = DataStream(1)
    again.created += 100
    with pytest.raises(ss.InvalidInputError, match="a topic with the id") as caught:
        reading(opened(again), tmp_path)
    assert reason_of(caught.value) == "other_topic"


# --- what Kinesis refuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("ProvisionedThroughputExceededException", 400, "Kinesis reports ProvisionedThroughputExceededException"),
        ("LimitExceededException", 400, "Kinesis reports LimitExceededException"),
        ("InternalFailure", 500, "Kinesis reports InternalFailure"),
        ("SomethingNew", 503, "Kinesis reports SomethingNew"),
        ("ExpiredTokenException", 400, "Kinesis refuses the credentials, so renew them"),
        ("UnrecognizedClientException", 400, "Kinesis refuses the credentials, so renew them"),
    ],
)
def test_what_may_succeed_later_is_waited_for(
    tmp_path: Path, opened: Any, caplog: pytest.LogCaptureFixture, code: str, status: int, said: str
) -> None:
    stream = resharded()
    caplog.set_level("WARNING")
    log = opened(stream)
    read = reading(log, tmp_path)
    stream.errors = [RefusedError(code, "a text", status) for _ in range(4)]
    read.step(0.0)
    assert said in str(log.trouble())
    to_end(read)
    assert log.trouble() is None
    assert len(released(tmp_path)) == 4
    assert '"event": "unreachable"' in caplog.text
    assert read.summary["losses"] == 0


@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException", "KMSAccessDeniedException"])
def test_what_will_not_succeed_ends_the_stream(tmp_path: Path, opened: Any, code: str) -> None:
    stream = resharded()
    read = reading(opened(stream), tmp_path)
    stream.errors = [RefusedError(code, "a text")]
    with pytest.raises(TopicError, match=rf"the data stream {ARN} cannot be read \({code}: a text\)") as caught:
        to_end(read)
    assert reason_of(caught.value) == "topic"


def test_an_iterator_that_expired_is_replaced_where_it_was(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 20)))
    read = reading(opened(stream), tmp_path)
    while not read.stream.events:
        read.step(0.0)
    at(stream, 600)
    to_end(read)
    assert read.row_counts.read == 20
    assert stream.asked.count("GetShardIterator") == 2


def test_an_iterator_that_expired_longer_ago_than_retention_finds_what_is_there(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 3)))
    read = silent(opened, stream, tmp_path, accept_loss=True)
    at(stream, 30 * HOUR)
    stream.write(0, *as_json(rows(1, 5)))
    assert to_end(read).row_counts.read == 8


def test_kinesis_that_does_not_answer_is_said_at_the_start(tmp_path: Path) -> None:
    log = Shards(ARN, lambda region: client("http://127.0.0.1:1", region))
    with pytest.raises(UnreachableError, match="Kinesis cannot be asked: Could not connect to the endpoint") as caught:
        reading(log, tmp_path)
    assert reason_of(caught.value) == "brokers_unreachable"
    log.close()


def test_credentials_that_are_missing_are_looked_for_again(tmp_path: Path) -> None:
    stream, made = resharded(), []

    def connect(region: str) -> Any:
        made.append(region)
        if len(made) == 1:
            raise NoCredentialsError
        return client(address, region)

    with served(stream) as address:
        log = Shards(ARN, connect, every=0.0, now=lambda: stream.now)
        with pytest.raises(UnreachableError, match="Unable to locate credentials"):
            reading(log, tmp_path / "first")
        to_end(reading(log, tmp_path / "second"))
        log.close()
    assert made == ["eu-central-1"] * 2
    assert len(released(tmp_path / "second")) == 4


# --- messages -----------------------------------------------------------------------------------------------


def test_only_a_record_without_data_under_the_key_of_heartbeats_is_one(tmp_path: Path, opened: Any) -> None:
    stream = DataStream(1)
    stream.write(0, *as_json(rows(0, 3)))
    at(stream, 10 * MINUTE)
    stream.write(0, b"")
    read = to_end(reading(opened(stream), tmp_path, policy={"clock": "heartbeats"}))
    assert (read.row_counts.undecodable, read.stream.released) == (1, 0), "of a person, maybe"
    stream.beat(0)
    assert to_end(read).stream.released == 9


def test_a_silent_shard_holds_windows_back_unless_the_job_says_otherwise(tmp_path: Path, opened: Any) -> None:
    stream, seconds = DataStream(2), [0.0]
    stream.write(0, *as_json(rows(3, 3)))
    stream.write(1, *as_json(rows(0, 3)))
    read = reading(opened(stream), tmp_path, idle_after=60.0, clock=lambda: seconds[0])
    for _ in range(20):
        read.step(0.0)
    assert read.save()
    assert read.stream.released == 0
    seconds[0] = 100.0
    for _ in range(3):
        seconds[0] += 2
        read.step(0.0)
    read.save()
    assert read.stream.released == 3


# --- the command --------------------------------------------------------------------------------------------


def job_in(folder: Path, **fields: Any) -> list[str]:
    agreement, _ = policy_in(folder / "out")
    agreement.save(folder / "agreement.json")
    job = {"job": 1, "folder": str(folder / "out"), "delay": 5, "topic": ARN, "format": "json"} | fields
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "out").mkdir(exist_ok=True)
    return [f"--agreement={folder / 'agreement.json'}", f"--job={folder / 'job.json'}"]


def test_the_command_reads_a_topic_that_is_an_arn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = DataStream(1)
    stream.now = time.time()
    stream.write(0, *as_json(rows(0, 5)))
    for number in stream.split(0):
        stream.write(number, *as_json(rows(1, 4)), *as_json(rows(3, 1)))
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "somebody")
    with served(stream) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", address)
        command("stream", "kafka", *job_in(tmp_path), "--set=dry_run=yes", "--json")
        tried = json.loads(capsys.readouterr().out)
        assert released(tmp_path) == {}
        command("stream", "kafka", *job_in(tmp_path), "--once", "--json")
        found = json.loads(capsys.readouterr().out)
    assert tried["rows"]["read"] == 15
    assert found["windows"] == len(released(tmp_path)) == 3


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"servers": "a:1"}, "the job has servers, of Kafka's brokers, and its topic is a data stream of Kinesis"),
        ({"group": "a", "token": "a:b"}, "the job has token, group"),
        ({"topic": "arn:aws:kinesis:eu-central-1:1:stream/sales"}, "is named by its ARN, arn:aws:kinesis:REGION"),
    ],
)
def test_mistakes_in_a_job_are_named(tmp_path: Path, fields: dict[str, str], said: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=said):
        command("stream", "kafka", *job_in(tmp_path, **fields), "--once")


def test_a_cluster_does_not_read_it(tmp_path: Path) -> None:
    given = job_in(tmp_path, servers="a:1", expansion="a:2", stream="sales", root_key="k", claims="c")
    with pytest.raises(ss.InvalidInputError, match="which `streamsketch stream kafka` alone reads"):
        command("stream", "beam", *given)
