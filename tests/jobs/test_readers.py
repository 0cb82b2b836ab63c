"""Processes that read messages ahead change nothing but the time, however they end."""

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamsketch.once.dead_letters import DeadLetters
from streamsketch.streams import Stream
from tests.cli.running import ENVIRONMENT
from tests.jobs.own_format import own_rows
from tests.jobs.topic import MINUTE, Topic, arrow, as_json, policy_in, read_to_end, released, rows
from tests.patience import wait_until

pytest.importorskip("confluent_kafka")

from streamsketch.jobs import Malformed, Message, Payloads, Readers, TopicStream

MINUTES, ROWS = 4, 400  # of a minute in a partition: more than is decoded here at once


class Waiting(Topic):
    """A topic of which each poll returns all that waits in some partitions, to a limit."""

    def poll(self, _: float) -> dict[int, list[Message]]:
        found = {}
        for number in self._order.permutation(list(self._next))[:2].tolist():
            at = self._next[number]
            its = self.messages[number][at - self.first[number] :][: int(self._order.integers(300, 600))]
            if its:
                found[number] = its
                self._next[number] = its[-1].offset + 1
        return found


def topic_of(form: str, seed: int = 0, clock: str = "events") -> Waiting:
    """Return a topic with rows that are late, blank and malformed, and messages that cannot be decoded.

    Without heartbeats, rows of a window that are in time are read together with others that are late.
    """
    topic, rng, back = Waiting(2, seed), np.random.default_rng(7), 2 if clock == "heartbeats" else 1
    for minute in range(MINUTES):
        for number in topic.messages:
            batch = rows(minute, ROWS, seed=number)
            late, blank = rows(max(0, minute - back), 3, seed=9 + number), batch.slice(0, 2).to_pylist()
            blank = pa.RecordBatch.from_pylist([one | {"item": None} for one in blank], schema=batch.schema)
            wrong = pa.RecordBatch.from_pylist([one | {"at": "soon"} for one in batch.slice(7, 2).to_pylist()])
            parts = [batch.slice(0, 150), late, blank, batch.slice(150)]
            contents = [content for part in parts for content in _contents(form, part)]
            bad = [b'{"at": "soon"', b" "] if form == "json" else [b"refused"]
            odd = [*bad, *_contents(form, wrong)] if minute % 2 else []
            for content in odd:
                contents.insert(int(rng.integers(len(contents))), content)
            topic.write(number, *contents)
            if clock == "heartbeats":
                topic.write(number, b"", second=MINUTE * minute + 6)
    for number in topic.messages:
        topic.write(number, b"", second=MINUTE * (MINUTES - 1) + 6)
    return topic


def _contents(form: str, batch: pa.RecordBatch) -> list[bytes]:
    if form == "arrow":
        return [arrow(batch.slice(start, 40)) for start in range(0, batch.num_rows, 40)]
    lines = [json.dumps(row, default=str).encode() for row in batch.to_pylist()]
    return lines if form == "json" else [b"\n".join(lines[start : start + 40]) for start in range(0, len(lines), 40)]


class Watched:
    """Other processes, of which it is counted how often they answered; this one does not help them."""

    def __init__(self, readers: Readers) -> None:
        self.readers, self.answers = readers, 0

    @property
    def is_alive(self) -> bool:
        return self.readers.is_alive

    def submit(self, contents: Sequence[bytes]) -> Any:
        return _Counted(self, self.readers.submit(contents))

    def help(self) -> bool:
        return False


class _Counted:
    def __init__(self, watched: Watched, asked: Any) -> None:
        self._watched, self._asked, self.is_answered = watched, asked, False

    def result(self) -> Any:
        found = self._asked.result()
        self._watched.answers += found is not None
        return found


@contextlib.contextmanager
def reading(count: int, form: str, *, is_helped: bool = False) -> Iterator[Callable[[Stream], Any]]:
    """Return a function that starts so many processes for a stream; they end with the block, and have answered."""
    with contextlib.ExitStack() as stack:
        started: list[Watched] = []

        def begin(stream: Stream) -> Any:
            readers = stack.enter_context(Readers(count, stream.windows.of, own_rows if form == "own" else form))  # type: ignore[arg-type]
            started.append(Watched(readers))
            return readers if is_helped else started[-1]

        yield begin
        assert is_helped or not count or sum(one.answers for one in started) > 0


def outcome(folder: Path, form: str, **options: Any) -> tuple[Any, ...]:
    """Read a topic to its end, and return all that an operator may look at."""
    (folder / "letters").mkdir()
    policy = options.pop("policy", {})
    with Malformed(folder / "bad") as malformed:
        read = read_to_end(
            topic_of(form, options.pop("seed", 0), policy.get("clock", "events")),
            folder,
            form=own_rows if form == "own" else form,
            malformed=malformed,
            dead_letters=DeadLetters(folder / "letters"),
            policy=policy,
            **options,
        )
    stream = read.stream
    files = {path: pq.read_table(path).to_pylist() for path in (folder / "letters").iterdir()}
    kept = sorted(f"{path.name.partition('-')[0]} {row}" for path, rows in files.items() for row in rows)
    lines = sorted((folder / "bad").read_text().splitlines())
    return released(folder), lines, kept, read.row_counts, read.summary, stream.position


@pytest.mark.parametrize(
    ("form", "clock", "clip", "processes"),
    [
        ("json", "events", None, 2),
        ("json", "heartbeats", "none", 1),
        ("arrow", "heartbeats", None, 2),
        ("arrow", "events", "none", 1),
        ("own", "events", None, 1),
    ],
)
def test_releases_counts_and_malformed_messages_do_not_depend_on_the_processes(
    form: str, clock: str, clip: str | None, processes: int, tmp_path: Path
) -> None:
    """Two processes read all; of what one reads, this process reads some."""
    policy = {"clock": clock, "clip": clip}
    read_to_end(Topic(2), tmp_path / "begun", policy=policy)
    found = []
    for count, seed, is_helped in [(0, 0, False), (processes, 1, processes == 1)]:
        folder = shutil.copytree(tmp_path / "begun", tmp_path / f"{count} {seed}")
        with reading(count, form, is_helped=is_helped) as ahead:
            found.append(outcome(folder, form, ahead=ahead, policy=policy, seed=seed))
    assert len(found[0][0]) == MINUTES - 1
    assert found[0][2]
    assert found[0][3].late > 0
    assert found[0][3].malformed > 0
    assert found[0][3].undecodable > 0
    assert found[0] == found[1]


@pytest.mark.parametrize("killed", [[0], [0, 1]])
def test_processes_that_are_killed_change_nothing(
    killed: list[int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read_to_end(Topic(2), tmp_path / "begun")
    plain = outcome(shutil.copytree(tmp_path / "begun", tmp_path / "plain"), "json")
    running: list[Readers] = []
    with contextlib.ExitStack() as stack:

        def begin(stream: Stream) -> Readers:
            running.append(stack.enter_context(Readers(2, stream.windows.of, "json")))
            asked = running[0].submit([b"{}"] * 10)
            assert asked.result() is not None
            for place in killed:
                os.kill(running[0].processes[place], signal.SIGKILL)
            return running[0]

        with caplog.at_level(logging.WARNING):
            found = outcome(shutil.copytree(tmp_path / "begun", tmp_path / "killed"), "json", ahead=begin)
            for _ in range(10):  # whoever was killed is noticed when it is asked
                running[0].submit([b"{}"]).result()
        assert running[0].is_alive == (len(killed) == 1)
    assert found == plain
    ended = [record for record in caplog.records if "a process that decodes messages ended" in record.getMessage()]
    assert len(ended) == len(killed)


@pytest.mark.parametrize("stopped", [[0], [0, 1]])
def test_processes_that_do_not_answer_change_nothing(stopped: list[int], tmp_path: Path) -> None:
    read_to_end(Topic(2), tmp_path / "begun")
    plain = outcome(shutil.copytree(tmp_path / "begun", tmp_path / "plain"), "json")
    found: list[Any] = []
    with contextlib.ExitStack() as stack:

        def begin(stream: Stream) -> Readers:
            readers = stack.enter_context(Readers(2, stream.windows.of, "json", patience=0.2))
            for place in stopped:
                os.kill(readers.processes[place], signal.SIGSTOP)
            return readers

        def read() -> None:
            found.append(outcome(shutil.copytree(tmp_path / "begun", tmp_path / "stopped"), "json", ahead=begin))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        wait_until(lambda: not thread.is_alive(), "a topic that is read without them")
    assert found == [plain]


def test_an_answer_after_all_patience_is_not_waited_for(tmp_path: Path) -> None:
    stream = Stream(*policy_in(tmp_path / "out"), tmp_path / "s.raw-stream", strict=True)
    patience = 0.05
    with Readers(1, stream.windows.of, "json", patience=patience) as readers:
        [process] = readers.processes
        os.kill(process, signal.SIGSTOP)
        later = threading.Timer(100 * patience, os.kill, (process, signal.SIGCONT))
        later.start()
        try:
            assert readers.submit([b"{}"]).result() is None
        finally:
            later.cancel()


def test_an_error_of_the_machine_is_raised_as_without_them(tmp_path: Path) -> None:
    topic = topic_of("own")
    topic.write(0, *_contents("own", rows(1, ROWS)), b"registry")
    with reading(1, "own") as ahead, pytest.raises(OSError, match="the registry does not answer"):
        read_to_end(topic, tmp_path, form=own_rows, ahead=ahead)


def test_a_function_that_cannot_be_sent_decodes_here(tmp_path: Path) -> None:
    stream = Stream(*policy_in(tmp_path / "out"), tmp_path / "s.raw-stream", strict=True)

    def within(content: bytes) -> pa.RecordBatch:
        return own_rows(content)

    with Readers(2, stream.windows.of, within) as readers:
        assert (readers.is_alive, readers.processes) == (False, [])
        assert readers.submit([b"x" * 10**6]).result() is None
        assert not readers.help()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("is_error", [False, True])
def test_no_process_is_left(tmp_path: Path, is_error: bool) -> None:  # noqa: FBT001 - by pytest
    stream = Stream(*policy_in(tmp_path / "out"), tmp_path / "s.raw-stream", strict=True)
    with contextlib.suppress(KeyError), Readers(2, stream.windows.of, "json") as readers:
        found, asked = readers.processes, [readers.submit([b"{}"] * 1000) for _ in range(20)]
        if is_error:
            raise KeyError
        assert asked[0].result() is not None
    assert all(map(is_gone, found))
    assert all(one.is_answered for one in asked), "none waits for ever"


@pytest.mark.parametrize(
    "is_stopped",
    [
        False,
        pytest.param(True, marks=pytest.mark.skipif(sys.platform != "linux", reason="by its kernel")),
    ],
)
def test_no_process_is_left_of_one_that_is_killed(tmp_path: Path, is_stopped: bool) -> None:  # noqa: FBT001 - by pytest
    code = f"""
import sys, time
from pathlib import Path
from streamsketch.jobs import Readers
from streamsketch.streams import Stream
from tests.jobs.topic import policy_in
folder = Path({str(tmp_path)!r})
stream = Stream(*policy_in(folder / "out"), folder / "s.raw-stream", strict=True)
with Readers(2, stream.windows.of, "json") as readers:
    for asked in [readers.submit([b"{{}}"]) for _ in range(20)]:
        asked.result()
    print(*readers.processes, flush=True)
    time.sleep(10**6)
"""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=ENVIRONMENT) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            found = [int(one) for one in process.stdout.readline().split()]
            assert len(found) == 2
            assert not any(map(is_gone, found))
            if is_stopped:
                for one in found:
                    os.kill(one, signal.SIGSTOP)
        finally:
            process.kill()
    wait_until(lambda: all(map(is_gone, found)), "the end of its processes")


def test_few_answers_wait_at_once(tmp_path: Path) -> None:
    stream = Stream(*policy_in(tmp_path / "out"), tmp_path / "s.raw-stream", strict=True)
    with Readers(1, stream.windows.of, "json") as readers:
        asked = [readers.submit(as_json(rows(0, 5))) for _ in range(12)]
        for place in range(12):
            wait_until(lambda place=place: asked[place].is_answered, "an answer")  # type: ignore[misc]
            assert sum(one.is_answered for one in asked[place:]) <= 2
            assert asked[place].result() is not None
        begun, asked = time.monotonic(), [readers.submit(as_json(rows(0, 5))) for _ in range(12)]
        wait_until(lambda: asked[1].is_answered, "two answers")
        time.sleep(10 * (time.monotonic() - begun))  # in which all others would be answered
        assert sum(one.is_answered for one in asked) == 2


def test_a_topic_is_polled_on_while_processes_read(tmp_path: Path) -> None:
    """One step takes more than one poll then, and adds all of it before it ends."""
    topic = topic_of("json")
    polls = 0
    poll = topic.poll

    def counted(seconds: float) -> dict[int, list[Message]]:
        nonlocal polls
        polls += 1
        return poll(seconds)

    topic.poll = counted  # type: ignore[method-assign]
    with reading(1, "json") as ahead:
        stream = Stream(*policy_in(tmp_path / "out"), tmp_path / "s.raw-stream", strict=True)
        bad = Malformed(None)
        payloads = Payloads(stream.policy.agreement, "at", "json", bad, ahead(stream))
        read = TopicStream(stream, topic, "sales", payloads, bad)
        read.step(0.1)
    assert polls > 2
    assert read.offsets == topic.ended()
    assert read.lag == 0
