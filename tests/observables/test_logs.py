"""What commands print and log, from their start to their end: nothing of rows, and in JSON nothing of their number."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch import jobs
from streamsketch.jobs.logs import logs
from streamsketch.once.logs import EVENTS, SECRET_EVENTS
from streamsketch.streams import log_event
from tests.cli.running import Forks
from tests.jobs import topic
from tests.observables.test_commands import run
from tests.streams.agreed import split

CANARY = "canary-7391"
FORMS = ["late", "malformed", "of no key", "blank"]


def row(who: str, second: int, **changes: Any) -> bytes:
    fields = {"person": who, "shop": "north", "item": "i", "at": f"{np.datetime64(topic.BASE + second, 's')}Z"}
    return json.dumps(fields | changes).encode()


HERS: dict[str, bytes] = {
    "late": row("Eve", 3),
    "malformed": row("Eve", 71, at=CANARY),
    "of no key": row("Eve", 72, shop=CANARY),
    "blank": row("Eve", 73, item=None),
}


OTHERS = 48
"""Rows of other units."""


def consumed(folder: Path, hers: list[bytes], capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """Run ``stream kafka`` over a topic in which Eve has these rows; return its status and all that it printed."""
    folder.mkdir()
    log = topic.Topic(1)
    log.write(0, *[row(f"p{place}", place % 50) for place in range(OTHERS)])
    log.write(0, b"", second=70)
    if hers:
        log.write(0, *hers)
    log.write(0, b"", second=140)
    log.assign({0: 0})
    (folder / "out").mkdir()
    policy = topic.policy_in(folder / "out", clock="heartbeats")
    policy.agreement.save(folder / "a.json")
    policy.job.save(folder / "p.json")
    capfd.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "Partitions", lambda *_, **__: log)
        patch.setattr(jobs, "Brokers", lambda *_, **__: None)
        stated = ["--agreement", str(folder / "a.json"), "--job", str(folder / "p.json"), "--set", "servers=x:1"]
        status = run("stream", "kafka", *stated, "--set", "topic=sales", "--set", "format=json", "--once", *options)
    printed = capfd.readouterr()
    return status, (printed.out + printed.err).replace(str(folder), "…")


def timeless(printed: str) -> list[dict[str, Any]]:
    """Return the lines without their times, and windows that are released one after the other as one line."""
    found: list[dict[str, Any]] = []
    for text in printed.splitlines():
        if text.startswith("compiling"):
            continue
        line = {name: value for name, value in json.loads(text).items() if name != "time"}
        if line["event"] == "released" and found and found[-1]["event"] == "released":
            line["windows"] += found.pop()["windows"]
        found.append(line)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_lines_of_json_do_not_depend_on_the_rows_of_one_unit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    """Not their number, and not whether there are so many that a limit is crossed."""
    worlds = [consumed(tmp_path / str(n), [HERS[form]] * n, capfd, "--set", "log=json") for n in (0, 1, 5, 300)]
    (first, *others) = [(status, timeless(printed)) for status, printed in worlds]
    assert [line["event"] for line in first[1]] == ["released", "ended"]
    assert all(other == first for other in others)
    assert not any(CANARY in printed or "Eve" in printed for _, printed in worlds)


def test_text_and_counts_are_for_the_operator(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hers = [HERS["late"]] * 5
    _, printed = consumed(tmp_path / "a", hers, capfd, "--set", f"counts={tmp_path}/counts")
    assert re.search(r"rows_dropped.*\b\d late", printed)
    assert f"secret: {OTHERS} events" in printed
    assert json.loads((tmp_path / "counts/consume.json").read_text())["late"] == 5
    assert CANARY not in printed


@pytest.mark.parametrize("event", [*EVENTS, *sorted(SECRET_EVENTS)])
def test_only_listed_fields_of_listed_events_are_lines_of_json(event: str, capfd: pytest.CaptureFixture[str]) -> None:
    names = set().union(*EVENTS.values()) | {"text", "late", "sums"}
    with logs("json", topic="sales"):
        log_event(logging.getLogger("streamsketch.x"), logging.ERROR, event, **dict.fromkeys(names, CANARY))
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert len(lines) == (event not in SECRET_EVENTS)
    for line in lines:
        assert {name for name, value in line.items() if value == CANARY} == EVENTS[event]
    with logs("text"):
        log_event(logging.getLogger("streamsketch.x"), logging.ERROR, event, late=CANARY)
    assert CANARY in capfd.readouterr().err


def test_an_event_that_is_not_listed_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="list it with its public fields"):
        log_event(logging.getLogger("streamsketch.x"), logging.INFO, "sums", cells=1)


# --- canaries ---------------------------------------------------------------------------------------------------------

ROWS = {
    "shop": ["a", CANARY, "b"],
    "item": ["tea", CANARY, "jam"],
    "sold": [1, 2, 3],
    "customer": ["Ann", CANARY, "Bob"],
    "at": ["2026-11-22T00:10:00Z", "2026-11-22T00:20:00Z", "2026-11-24T00:10:00Z"],
}
FAULTS: dict[str, Callable[[dict[str, list[Any]]], dict[str, list[Any]]]] = {
    "none": lambda rows: rows,
    "a value that is no number": lambda rows: rows | {"sold": ["1", CANARY, "3"]},
    "a time that is none": lambda rows: rows | {"at": [rows["at"][0], CANARY, rows["at"][2]]},
    "no unit": lambda rows: rows | {"customer": ["Ann", None, "Bob"]},
    "pivoted, without a column": lambda rows: {"shop": rows["shop"], CANARY: rows["sold"], f"{CANARY} 2": rows["sold"]},
    "other capitals": lambda rows: {name.title(): column for name, column in rows.items()} | {CANARY: rows["sold"]},
}
COMMANDS = {
    "sketch": ["sketch", "{file}", "--agreement", "a.json", "-o", "o.raw-sketch"],
    "sketch, summary": ["sketch", "{file}", "--agreement", "a.json", "--summary", "t.json", "-o", "o.raw-sketch"],
    "choose-bound": [
        *("choose-bound", "{file}", "--unit-column", "customer", "--index", "item", "--candidates", "1,5,20"),
        *("--epsilon", "1", "--value", "sold", "--projection", "m.json"),
    ],
    "stream": ["stream", "file", "{file}", "--agreement", "s.json", "--job", "p.json", "--set", "state=o.raw-stream"],
}


def write(rows: dict[str, list[Any]], path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(rows), path)
    elif path.suffix == ".csv":
        pa_csv.write_csv(pa.table(rows), path)
    else:
        lines = [json.dumps(dict(zip(rows, cells, strict=True))) for cells in zip(*rows.values(), strict=True)]
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_value_or_a_name_of_a_column(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forks: Forks,
    command: str,
    fault: str,
    suffix: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    projection, near = ss.SJLT(sketch_dim=16, sparsity=2, seed=3), ss.L1(9, unit="customer", max_keys=2)
    agreed = ss.Agreement(projection, index="item", key="shop", value="sold", unit="customer", neighbours=near)
    Path("a.json").write_text(agreed.to_json())
    Path("m.json").write_text(projection.to_json())
    Path("out").mkdir()
    times: dict[str, Any] = {"time": "at", "window": "1 day", "start": "2026-11-22", "delay": 5}
    streamed, job = split(agreed, **times, epsilon=1, public_keys=["a", "b"], folder=str(tmp_path / "out"))
    streamed.save("s.json")
    job.save("p.json")
    write(FAULTS[fault](ROWS), tmp_path / f"rows{suffix}")
    done = forks.run(*(word.format(file=f"rows{suffix}") for word in COMMANDS[command]), cwd=tmp_path)
    assert CANARY not in done.stdout + done.stderr
    assert done.returncode in {0, 1, 2}
    assert done.returncode == 0 or done.stderr, "and still says why"
