"""A topic is released once, whatever order its partitions are read in, and wherever its reader is killed."""

import base64
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.continual import Tree
from streamsketch.errors import LedgerError
from streamsketch.intake.framing import idle_after as idle_condition
from streamsketch.intake.rotation import LostLogError
from tests.jobs.topic import (
    AGREEMENT,
    BASE,
    MINUTE,
    NeverStop,
    Topic,
    arrow,
    as_json,
    read_to_end,
    reader,
    released,
    rows,
)

pytest.importorskip("confluent_kafka")

from streamsketch.jobs import Bounds, DroppedRows, Malformed, Message, Payloads, TopicError

MINUTES, PARTITIONS, ROWS = 4, 3, 8  # of a minute in a partition


def topic_of(form: str, *, seed: int = 0) -> Topic:
    """Return a topic of some minutes; heartbeats end all but the last."""
    topic = Topic(PARTITIONS, seed)
    for minute in range(MINUTES):
        for number in topic.messages:
            batch = rows(minute, ROWS, seed=number)
            topic.write(number, *(as_json(batch) if form == "json" else [arrow(batch[:3]), arrow(batch[3:])]))
    for number in topic.messages:
        topic.write(number, b"", second=MINUTE * (MINUTES - 1) + 5)
    return topic


def begun(topic: Topic, folder: Path, **options: Any) -> Path:
    """Return a folder with a state in which nothing was read: its secrets are those of all copies."""
    reader(topic, folder, **options)
    return folder


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_any_order_of_partitions_gives_the_same_bytes(tmp_path: Path, form: Any) -> None:
    begun(topic_of(form), tmp_path / "begun", form=form)
    found = []
    for seed in range(3):
        folder = shutil.copytree(tmp_path / "begun", tmp_path / str(seed))
        read = read_to_end(topic_of(form, seed=seed), folder, form=form)
        assert read.lag == 0
        found.append(released(folder))
    assert len(found[0]) == MINUTES - 1
    assert found[0] == found[1] == found[2]


def test_json_and_arrow_are_the_same_rows(tmp_path: Path) -> None:
    begun(topic_of("json"), tmp_path / "begun")
    for form in ("json", "arrow"):
        read_to_end(topic_of(form), shutil.copytree(tmp_path / "begun", tmp_path / form), form=form)
    assert released(tmp_path / "json") == released(tmp_path / "arrow")


class Killed:
    """A topic whose reader is killed before its n-th poll or operation on a file."""

    def __init__(self, topic: Topic, folder: Path, n: int) -> None:
        self._topic, self._folder, self._left = topic, str(folder), n
        sys.addaudithook(self._hook)

    def __getattr__(self, name: str) -> Any:
        if name == "poll":
            self._count()
        return getattr(self._topic, name)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.rename", "os.link", "os.remove", "os.utime") and self._folder in str(arguments[0]):
            self._count()

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def kill_once(folder: Path, n: int) -> bool:
    """Read in a process that is killed at its n-th step; return whether it ended before."""
    if not (pid := os.fork()):
        try:
            read_to_end(Killed(topic_of("arrow", seed=n), folder, n), folder, form="arrow", every=0.0)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("points", [4, pytest.param(50, marks=pytest.mark.long)])
def test_a_reader_that_is_killed_anywhere_publishes_the_same_bytes(tmp_path: Path, points: int) -> None:
    begun(topic_of("arrow"), tmp_path / "begun", form="arrow")
    whole = shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    read_to_end(topic_of("arrow"), whole, form="arrow")
    kills = 0
    for n in np.random.default_rng(points).permutation(np.arange(60) % 20 + 2)[:points].tolist():
        folder = shutil.copytree(tmp_path / "begun", tmp_path / str(n))
        kills += sum(not kill_once(folder, at) for at in (n, n // 2 + 3))
        read_to_end(topic_of("arrow", seed=n), folder, form="arrow")
        assert released(folder) == released(whole), n
    assert kills >= points


def test_an_added_partition_is_read_from_its_beginning_before_windows_end(tmp_path: Path) -> None:
    topic, folder = topic_of("json"), tmp_path / "added"
    read = reader(topic, folder, policy={"epsilon": 1e6})
    for number in topic.messages:
        topic.write(number, b"", second=MINUTE * MINUTES + 5)
    topic.messages[PARTITIONS], topic.first[PARTITIONS] = [], 0
    topic.write(PARTITIONS, *as_json(rows(0, 20, seed=9)))
    read.run(NeverStop(), every=1e9, once=True)
    assert list(released(folder)) == [], "the new partition has no heartbeat behind its rows yet"
    topic.write(PARTITIONS, b"", second=MINUTE * MINUTES + 5)
    read.run(NeverStop(), every=1e9, once=True)
    assert len(released(folder)) == MINUTES
    counts = read.stream.summary
    assert counts["rows_late"] == 0
    assert read.summary["partitions"]["3"]["next"] == len(topic.messages[3])


def test_offsets_that_retention_removed_are_refused_or_accepted(tmp_path: Path) -> None:
    topic = topic_of("json")
    read = reader(topic, tmp_path)
    topic.remove(1, 5)
    with pytest.raises(LostLogError, match="partition 1 of sales begins at offset 5, but 0 is to be read next"):
        reader(topic, tmp_path)
    read = reader(topic, tmp_path, accept_loss=True)
    read.run(NeverStop(), every=1e9, once=True)
    assert read.summary["offsets_missing"] == 5
    assert len(released(tmp_path)) == MINUTES - 1


def test_a_first_reader_begins_with_what_is_there(tmp_path: Path) -> None:
    topic = topic_of("json")
    topic.remove(1, 5)
    assert read_to_end(topic, tmp_path).summary["offsets_missing"] == 0


def test_another_topic_is_refused(tmp_path: Path) -> None:
    topic = topic_of("json")
    read_to_end(topic, tmp_path)
    topic.identity = "another"
    with pytest.raises(ss.InvalidInputError, match="a topic with the id a topic, but this topic has another"):
        reader(topic, tmp_path)
    with pytest.raises(TopicError, match=r"partition 0 of sales ends at offset 0, but 33 is to be read next"):
        reader(Topic(PARTITIONS), tmp_path)
    with pytest.raises(TopicError, match="partitions 1, 2 of sales are gone"):
        reader(Topic(1), tmp_path)


POISON = [
    b"{",
    b"[1]",
    b"\xff\xfe",
    b'{"person": "p", "shop": "north", "item": "i", "at": "yesterday"}',
    b'{"person": "p", "shop": "north", "item": "i", "at": "9999-01-01"}',
]


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
def test_poison_is_dropped_alone_counted_and_kept(tmp_path: Path, clock: str, caplog: pytest.LogCaptureFixture) -> None:
    topic = Topic(1)
    good = as_json(rows(0, 6))
    topic.write(0, good[0], POISON[0], good[1], *POISON[1:], b"\n".join([good[2], POISON[3], good[3], POISON[4]]))
    topic.write(0, b"", second=2 * MINUTE)
    caplog.set_level("WARNING")
    with Malformed(tmp_path / "bad") as bad:
        read = read_to_end(topic, tmp_path, malformed=bad, policy={"clock": clock}, counts=tmp_path / "counts")
    ((wrong,), numbers) = DroppedRows(tmp_path / "counts").look(0, 60)
    assert wrong.startswith("63.6 % of the rows that were read were dropped")
    assert (numbers["rows_read"], numbers["rows_malformed"]) == (11, 7)
    assert "7 malformed" in caplog.text
    assert (read.stream.events, read.stream.bad_lines) == (4, 7)
    kept = [json.loads(line) for line in (tmp_path / "bad").read_bytes().splitlines()]
    assert [one["offset"] for one in kept] == [1, 3, 4, 5, 6, 7], "a message once"
    assert base64.b64decode(kept[0]["message"]) == POISON[0]
    assert (tmp_path / "bad").stat().st_mode & 0o777 == 0o600
    assert len(released(tmp_path)) == 1


def test_malformed_rows_of_arrow_are_dropped_alone(tmp_path: Path) -> None:
    good = rows(0, 6)
    late = good.set_column(3, "at", pa.array([None, *good.column("at")[1:].to_pylist()], good.schema.field("at").type))
    far = pa.array([*good.column("at")[:5].to_pylist(), None], good.schema.field("at").type)
    texts = good.set_column(3, "at", pa.array(["2023-11-14T22:13:30Z"] * 5 + ["never"]))
    invalid = good.set_column(0, "person", pa.Array.from_buffers(
        pa.string(), 6, [None, pa.py_buffer(np.arange(7, dtype="<i4")), pa.py_buffer(b"abc\xffef")]
    ))  # fmt: skip
    topic = Topic(1)
    other = good.drop_columns(["shop"])
    contents = [arrow(one) for one in (good, late, good.set_column(3, "at", far), texts, invalid, other)]
    topic.write(0, *contents, contents[0][:50], b"poison")
    topic.write(0, b"", second=2 * MINUTE)
    with Malformed(tmp_path / "bad") as bad:
        read = read_to_end(topic, tmp_path, malformed=bad, form="arrow")
    kept = sorted(json.loads(line)["offset"] for line in (tmp_path / "bad").read_bytes().splitlines())
    assert kept == [3, 4, 5, 6, 7]
    assert read.stream.bad_lines == 5
    assert read.stream.events == 6 + 5 + 5 + 5 + 5, "rows without a time are missing, not malformed"


@pytest.mark.parametrize("form", ["arrow", "json"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()])
def test_no_row_is_malformed_because_of_a_full_disk_or_memory(form: Any, error: Exception) -> None:
    good = rows(0, 6)
    contents = [arrow(good), arrow(good)] if form == "arrow" else as_json(good)
    bad = Malformed(None)

    def add(*_: object) -> None:
        raise error

    payloads = Payloads(AGREEMENT, "at", form, bad)
    with pytest.raises(type(error)):
        payloads.add(0, [Message(place, 0, content) for place, content in enumerate(contents)], add)
    assert bad.rows == 0


def test_messages_that_are_read_again_are_kept_once(tmp_path: Path) -> None:
    topic = Topic(1)
    topic.write(0, b"poison")
    with Malformed(tmp_path / "bad") as bad:
        reader(topic, tmp_path, malformed=bad).step(0)  # and killed before it is saved
    again = len((tmp_path / "bad").read_bytes())
    with Malformed(tmp_path / "bad", 0) as bad:
        read_to_end(topic, tmp_path, malformed=bad)
    assert len((tmp_path / "bad").read_bytes()) == again


def test_windows_wait_for_silent_partitions_until_they_are_idle(tmp_path: Path) -> None:
    topic, now = topic_of("json"), 0.0
    topic.messages[PARTITIONS], topic.first[PARTITIONS] = [], 0
    read = reader(topic, tmp_path, idle_after=30.0, clock=lambda: now)
    for _ in range(60):
        read.step(0)
    read.save()
    assert not released(tmp_path)
    now = 31.0
    read.step(0)
    read.save()
    assert len(released(tmp_path)) == MINUTES - 1
    assert read.summary["partitions"]["3"]["idle"]
    topic.write(PARTITIONS, *as_json(rows(0, 1)))
    topic.write(PARTITIONS, *as_json(rows(MINUTES, 1)))
    read.run(NeverStop(), every=1e9, once=True)
    assert read.stream.summary["rows_late"] == 1
    assert not read.summary["partitions"]["3"]["idle"]


def test_the_log_names_silent_partitions_and_the_remedy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    topic, now = topic_of("json"), 0.0
    topic.messages[PARTITIONS], topic.first[PARTITIONS] = [], 0
    read = reader(topic, tmp_path, clock=lambda: now)
    for _ in range(60):
        read.step(0)
    now = 61.0
    read.step(0)
    found = [json.loads(record.getMessage()) for record in caplog.records]
    silent = {one["partition"]: one["text"] for one in found if one["event"] == "silent"}
    text = "its clock stood still for 60 s, and all windows wait for it. Write heartbeats, or set idle_after in the job"
    assert silent[PARTITIONS] == text


@pytest.mark.parametrize("rows_come", [False, True])
def test_rows_of_a_unit_do_not_keep_a_partition_from_being_idle(tmp_path: Path, *, rows_come: bool) -> None:
    """Where heartbeats move its clock: others see when windows end."""
    topic, now = topic_of("json"), 0.0
    topic.messages[PARTITIONS], topic.first[PARTITIONS] = [], 0
    read = reader(topic, tmp_path, idle_after=30.0, clock=lambda: now, policy={"clock": "heartbeats"})
    while now < 32:
        now += 4
        if rows_come:
            topic.write(PARTITIONS, *as_json(rows(MINUTES - 1, 1)))
        for _ in range(60):
            read.step(0)
    read.save()
    assert len(released(tmp_path)) == MINUTES - 1
    assert read.summary["partitions"]["3"]["idle"]


def test_brokers_that_do_not_answer_are_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    topic, now = topic_of("json"), 0.0
    read = reader(topic, tmp_path, clock=lambda: now)
    for _ in range(60):
        read.step(0)
    topic.down = "no answer"
    read.step(0)
    assert not read.save(), "a partition may have been added"
    now = 20.0
    read.step(0)
    assert not released(tmp_path)
    topic.down = None
    assert read.save()
    assert len(released(tmp_path)) == MINUTES - 1
    events = [json.loads(record.message)["event"] for record in caplog.records]
    assert events == ["unreachable", "reached", "released"]


def test_offsets_are_committed_after_they_are_saved(tmp_path: Path) -> None:
    topic = topic_of("json")
    read = read_to_end(topic, tmp_path)
    assert topic.committed == read.offsets == {0: 33, 1: 33, 2: 33}


def test_a_ledger_that_refuses_ends_it_with_what_was_read(tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise LedgerError("spent")

    with pytest.raises(LedgerError):
        read_to_end(topic_of("json"), tmp_path / "refused", charge=refuse)
    assert not released(tmp_path / "refused")
    read_to_end(topic_of("json"), tmp_path / "refused")
    assert len(released(tmp_path / "refused")) == MINUTES - 1


def test_the_sums_are_those_of_one_loop(tmp_path: Path) -> None:
    """With each person within their bounds, and hardly any noise."""
    topic, plain = Topic(2), ss.SketchTable(AGREEMENT)
    for minute in range(2):
        for number in range(2):
            batch = rows(minute, 8, seed=10 + number)
            names = pa.array([f"{minute} {number} {place}" for place in range(8)])
            batch = batch.set_column(0, "person", names)
            topic.write(number, *as_json(batch))
            if minute == 0:
                plain.update_rows(batch)
    for number in range(2):
        topic.write(number, b"", second=MINUTE + 5)
    read_to_end(topic, tmp_path, policy={"epsilon": 1e6})
    (data,) = released(tmp_path).values()
    found = ss.PrivateTable.from_bytes(data)
    for key in ("north", "south"):
        np.testing.assert_array_equal(found[key].values, plain.sketch_of(key).state())


class Transactions(Topic):
    """A topic whose partitions may have open transactions, of which a reader of committed records sees nothing."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.held: dict[int, list[Message]] = {}

    def begin(self, partition: int, *contents: bytes) -> None:
        """Write records in a transaction."""
        self.write(partition, *contents)
        self.held[partition] = self.messages[partition][-len(contents) :]
        del self.messages[partition][-len(contents) :]

    def commit_all(self) -> None:
        """Commit what is open."""
        for number, found in self.held.items():
            self.messages[number] += found
        self.held = {}

    def bounds(self) -> Any:
        return {
            number: Bounds(first, end + len(self.held.get(number, [])), end)
            for number, (first, end) in super().bounds().items()
        }


@pytest.mark.parametrize("idle_after", [None, 30.0])
def test_a_partition_behind_an_open_transaction_is_not_idle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, idle_after: float | None
) -> None:
    """Its rows were written before windows ended, so they are not late; and the log says what to do."""
    caplog.set_level("INFO")
    now, topic = 0.0, Transactions(2)
    read = reader(topic, tmp_path, idle_after=idle_after, clock=lambda: now, policy={"clock": "heartbeats"})
    topic.begin(1, *as_json(rows(0, 15)))
    for second in range(1, 100):
        now = float(second)
        topic.write(0, b"", second=2 * second)
        for _ in range(4):
            read.step(0)
        assert not read.stream.windows.is_over
    assert released(tmp_path) == {}
    assert (read.summary["partitions"]["1"]["end"], read.summary["partitions"]["1"]["behind_transaction"]) == (15, 15)
    assert read.lag == 15
    events = [json.loads(record.getMessage()) for record in caplog.records]
    (silent,) = [one for one in events if one["event"] == "silent" and one["partition"] == 1]
    assert "behind an open transaction of 15 offsets" in silent["text"]
    assert "commit or abort it; heartbeats do not help" in silent["text"]
    assert not [one for one in events if one["event"] == "idle"]
    topic.commit_all()
    topic.write(1, b"", second=190)
    for _ in range(20):
        read.step(0)
    read.save()
    assert len(released(tmp_path)) == 3
    assert read.stream.summary["rows_late"] == 0


class Slow(Topic):
    """A topic of which each poll brings one message of each partition."""

    def poll(self, _: float) -> dict[int, list[Message]]:
        found = {}
        for number in list(self._next):
            if its := self.messages[number][self._next[number] - self.first[number] :][:1]:
                found[number] = its
                self._next[number] = its[-1].offset + 1
        return found


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
@pytest.mark.parametrize("idle_after", [None, 30.0])
def test_one_person_decides_about_rows_of_others_only_under_a_condition(
    tmp_path: Path, clock: str, idle_after: float | None
) -> None:
    """A backlog of hers keeps a partition from its end, and the clock of the reader goes on."""

    def play(folder: Path, *, eve: bool) -> tuple[int, Any]:
        now, topic = 0.0, Slow(2)
        read = reader(topic, folder, idle_after=idle_after, clock=lambda: now, policy={"clock": clock})
        others = as_json(rows(0, 15, seed=1))
        topic.write(1, *(as_json(rows(0, 1)) * 60 if eve else []))
        for second in range(1, 160):
            now = float(second)
            topic.write(0, b"", second=2 * second)
            if second == 45:
                topic.write(1, *others)
            if second == 120:
                topic.write(1, b"", second=400)
            read.step(0)
            if read.stream.windows.is_over:
                read.save()
        return read.stream.summary["rows_late"], read.stream.guarantee

    late, guarantee = play(tmp_path / "without", eve=False)
    late_with, stated = play(tmp_path / "with", eve=True)
    assert guarantee == stated
    conditions = set(stated.conditions) - set(
        reader(Topic(1), tmp_path / "plain", policy={"clock": clock}).stream.guarantee.conditions
    )
    if idle_after is None:
        assert (late, late_with, conditions) == (0, 0, set())
    else:
        assert late != late_with
        assert conditions == {idle_condition(30.0)}
        found = [ss.load(path) for path in sorted((tmp_path / "with" / "out").iterdir())]
        assert found
        assert all(idle_condition(30.0) in one.guarantee.conditions for one in found)


def test_conditions_stay_with_a_state(tmp_path: Path) -> None:
    """Rows that were late under one are missing later, too."""
    topic = topic_of("json")
    options: dict[str, Any]
    for options in ({"idle_after": 60.0}, {}, {"idle_after": 90.0}):
        read = reader(topic, tmp_path, **options)
    assert read.stream.guarantee.conditions[1:] == tuple(sorted([idle_condition(60.0), idle_condition(90.0)]))
    assert len(read.stream.guarantee.conditions) == 3
    schedule: dict[str, Any] = {"policy": {"schedule": Tree(horizon=6, depth=2)}}
    read_to_end(topic, tmp_path / "rows", **schedule)
    with pytest.raises(
        ss.InvalidInputError, match="rows of a schedule were released without the condition that no unit"
    ):
        reader(topic, tmp_path / "rows", idle_after=60.0, **schedule)
    read_to_end(topic, tmp_path / "idle", idle_after=60.0, **schedule)
    assert reader(topic, tmp_path / "idle", idle_after=60.0, **schedule).stream.released == MINUTES - 1


def test_deletions_of_a_person_move_no_clock(tmp_path: Path) -> None:
    """A record with a key and no content is counted, whatever its time; one without a key is a heartbeat."""
    found = []
    for extra in ([], [b""], [b"customer 17"]):
        topic, folder = topic_of("json"), tmp_path / repr(extra)
        for key in extra:
            log = topic.messages[0]
            log.insert(20, Message(20, (BASE + 3600) * 1000, b"", key))
            log[21:] = [message._replace(offset=at) for at, message in enumerate(log[21:], 21)]
        read = read_to_end(topic, folder, policy={"clock": "heartbeats"})
        found.append(
            (read.stream.summary["rows_late"], read.stream.events, len(released(folder)), read.stream.bad_lines)
        )
    events = found[0][1]
    assert found == [(0, events, 3, 0), (0, events, 3, 1), (0, events, 3, 1)]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_a_log_that_lost_its_end_and_grew_again_is_noticed(form: Any, tmp_path: Path) -> None:
    """Wherever it was cut, unless the rest came back as it was; the state of an earlier version has no digest."""
    for cut in (0, 1, 2, 5):
        topic, folder = Topic(2), tmp_path / str(cut)
        for minute in range(5):
            for partition in (0, 1):
                batch = rows(minute, 12)
                topic.write(partition, *([arrow(batch)] if form == "arrow" else as_json(batch)), second=MINUTE * minute)
        before = read_to_end(topic, folder, form=form)
        again = read_to_end(topic, folder, form=form)
        assert (again.stream.events, again.offsets) == (before.stream.events, before.offsets)
        log = topic.messages[1]
        del log[len(log) - cut :]
        for minute in range(5, 12):
            batch = rows(minute, 12, seed=7)
            topic.write(1, *([arrow(batch)] if form == "arrow" else as_json(batch)), second=MINUTE * minute)
        if not cut:
            assert read_to_end(topic, folder, form=form).stream.events > before.stream.events
            continue
        with pytest.raises(ss.StreamsketchError, match="has another record at offset") as caught:
            read_to_end(topic, folder, form=form)
        assert caught.value.reason == "truncated"


def test_a_last_record_that_retention_removed_is_no_other_one(tmp_path: Path) -> None:
    topic = topic_of("json")
    before = read_to_end(topic, tmp_path)
    topic.remove(0, len(topic.messages[0]))
    topic.write(0, *as_json(rows(9)), second=9 * MINUTE)
    assert read_to_end(topic, tmp_path).stream.events > before.stream.events


def test_alarms_and_refusals_of_one_machine_are_files_that_a_watch_counts(tmp_path: Path) -> None:
    alarms = tmp_path / "alarms"
    topic = topic_of("json")
    read_to_end(topic, tmp_path / "one")
    (tmp_path / "other").mkdir()
    (tmp_path / "one/out").rename(tmp_path / "other/out")  # another state finds other releases in its folder
    read = read_to_end(topic, tmp_path / "other", policy={"alarms": str(alarms)})
    assert read.stream.released == 0
    names = sorted(path.name for path in alarms.iterdir())
    assert len(names) == 3
    assert {path.stat().st_mode & 0o777 for path in alarms.iterdir()} == {0o600}

    def charge(*_: Any) -> None:
        raise LedgerError("ε = 1 does not fit")

    with pytest.raises(LedgerError):
        read_to_end(topic, tmp_path / "third", policy={"alarms": str(alarms)}, charge=charge)
    added = {path.name for path in alarms.iterdir()} - {*names}
    assert [name.endswith(".refused.json") for name in added] == [True], "the first window that was refused"


def test_a_compacted_topic_is_refused(tmp_path: Path) -> None:
    topic = topic_of("json")
    topic.is_compacted = True
    with pytest.raises(TopicError, match="is compacted") as caught:
        read_to_end(topic, tmp_path)
    assert caught.value.reason == "compacted"
    assert not (tmp_path / "s.raw-stream").exists()
