"""Streams wait for a real PostgreSQL server that goes down and comes back: ``make test-postgres``."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.jobs import Malformed, Payloads, TopicStream
from streamsketch.once.databases import connection
from streamsketch.once.waiting import Waiting, waiting_for
from streamsketch.streams import DatabaseSink, Stream
from tests.cli.running import COMMAND, started
from tests.jobs.topic import MINUTE, NeverStop, Topic, as_json, policy_in, rows
from tests.patience import PATIENCE
from tests.postgres import NO_SERVER, Server, programs
from tests.streams.naive import HEADER, KEYS, Row, write

pytest.importorskip("psycopg")
pytest.importorskip("sqlalchemy")

COMMAND_OF_FILE = [*COMMAND, "stream", "file", "log.csv", "--agreement", "agreement.json", "--job", "job.json"]
WINDOWS = 4
_SECONDS = 40
ROWS = [Row(10 * place, KEYS[place % 3], "abc"[place % 3], 1, f"c{place % 5}") for place in range(6 * WINDOWS + 2)]
STOPS = pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["shut down", "crashed"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip(NO_SERVER)
    with Server(found) as running:
        for name, value in variables(running).items():
            monkeypatch.setenv(name, value)
        yield running


def variables(server: Server) -> dict[str, str]:
    return {"PGHOST": str(server.folder), "PGUSER": "owner", "PGDATABASE": "postgres"}


def ledger_at(server: Server) -> ss.Ledger:
    return ss.Ledger(address_of(server))


def address_of(server: Server) -> str:
    return f"postgresql+psycopg://owner@/postgres?host={server.folder}"


def windows_in_sink() -> list[int]:
    """Return how many keys each window has, in the order of windows."""
    with connection("postgresql")() as connected:
        if connected.execute("SELECT to_regclass('releases')").fetchone() == (None,):
            return []
        cursor = connected.execute("SELECT count(*) FROM releases GROUP BY window_start ORDER BY window_start")
        return [count for (count,) in cursor.fetchall()]


def until(what: Callable[[], bool], why: Callable[[], str]) -> None:
    for _ in range(10 * _SECONDS):
        if what():
            return
        time.sleep(0.1)
    raise AssertionError(why())


def events_in(text: str) -> list[str]:
    return [json.loads(line)["event"] for line in text.splitlines() if line.startswith("{")]


@STOPS
@pytest.mark.parametrize("uses", ["sink", "ledger", "sink and ledger"])
def test_a_command_waits_for_a_server_that_goes_down_and_comes_back(
    server: Server, how: signal.Signals, uses: str, tmp_path: Path
) -> None:
    """It releases each window once, in order, and never shows a traceback; ended meanwhile, it says why."""
    charged = "ledger" in uses
    fields: dict[str, Any] = {"stream": "shops", "follow": True, "epsilon": 1}
    if "sink" in uses:
        fields |= {"database": "postgresql"}
    if charged:
        ledger_at(server).dataset("shops", unit="customer", epsilon=100.0)
        fields |= {"ledger": address_of(server), "dataset": "shops"}
    write(tmp_path, **fields)
    log, said = tmp_path / "log.csv", tmp_path / "said"
    log.write_text(HEADER + "".join(row.line for row in ROWS[:9]))  # the first window is over

    def append(first: int, last: int) -> None:
        with log.open("a") as file:
            file.writelines(row.line for row in ROWS[first:last])

    def text() -> str:
        return said.read_text(encoding="utf-8")

    command = ["env", *(f"{name}={value}" for name, value in variables(server).items()), *COMMAND_OF_FILE]
    away = "ledger_unreachable" if uses == "ledger" else "sink_unreachable"  # which is looked at first

    def published() -> list[int]:
        if "sink" in uses:
            return windows_in_sink()
        return [len(list(folder.glob("*.sketch"))) for folder in sorted((tmp_path / "out" / "shops").glob("*Z"))]

    with said.open("wb") as errors, started(command, tmp_path, stderr=errors.fileno()) as running:
        until(lambda: published() == [len(KEYS)], text)
        server.stop(how)
        append(9, 15)  # the second one
        until(lambda: away in events_in(text()), text)
        assert running.poll() is None
        server.start()
        until(lambda: published() == [len(KEYS)] * 2, text)
        server.stop(how)
        append(15, 21)
        until(lambda: events_in(text()).count(away) == 2, text)
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) != 0
    assert "error: " in text()
    assert "Traceback" not in text()
    with said.open("wb") as errors, started(command, tmp_path, stderr=errors.fileno()) as running:
        assert running.wait(PATIENCE) != 0, "it does not begin without its server"
    assert "Traceback" not in text()
    server.start()
    append(21, len(ROWS))
    with said.open("wb") as errors, started(command, tmp_path, stderr=errors.fileno()) as running:
        until(lambda: len(published()) == WINDOWS, text)
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 128 + signal.SIGTERM, text()
    assert published() == [len(KEYS)] * WINDOWS
    if charged:
        assert sum(entry.body["kind"] == "charge" for entry in ledger_at(server).entries()) == WINDOWS
    assert "Traceback" not in text()


@STOPS
def test_what_reads_a_topic_waits_and_loses_no_window(server: Server, how: signal.Signals, tmp_path: Path) -> None:
    topic = Topic(2)
    for minute in range(3):
        for place, message in enumerate(as_json(rows(minute))):
            topic.write(place % 2, message, second=MINUTE * minute)
    policy = policy_in(tmp_path, stream="sales")
    with waiting_for(DatabaseSink(connection("postgresql")), Waiting(first=0.1, longest=0.2)) as sink:
        stream, bad = Stream(*policy, tmp_path / "s.raw-stream", sink=sink, strict=True), Malformed(None)
        reader = TopicStream(stream, topic, "sales", Payloads(policy.agreement, "at", "json", bad), bad)
        server.stop(how)
        back = threading.Timer(1.0, server.start)
        back.start()
        try:
            reader.run(NeverStop(), every=1e9, once=True)
        finally:
            back.join()
    assert windows_in_sink() == [2] * reader.stream.released
    assert reader.stream.released >= 2
