"""``dry_run`` of streams shows what would be dropped to the operator, and changes no file."""

import json
from pathlib import Path

import pytest

import streamsketch as ss
from tests.cli.running import Forks
from tests.streams.naive import HEADER, Row, beat, write

OPTIONS = ["--agreement", "agreement.json", "--job", "job.json", "--set", "dry_run=yes"]
ROWS = [
    Row(-100, "north", "a", 1, "c1"),  # before the first window
    Row(10, "north", "a", 1, "c1"),
    Row(20, "moon", "a", 1, "c1"),
    Row(140, "south", "a", 1, "c2"),
    Row(30, "south", "a", 1, "c2"),  # late
]
LOG = HEADER + "".join(row.line for row in ROWS) + "nonsense\n"


def content(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return the files and folders of a folder, with their times and contents."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in folder.rglob("*")
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("out", "dead_letters"):
        (tmp_path / name).mkdir()
    places = {name: name for name in ("alarms", "dead_letters")}
    write(tmp_path, epsilon=1.0, ledger="ledger.sqlite", dataset="sales", summary="summary.json", **places)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=2.5)
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path


@pytest.mark.parametrize(
    "command", [["file", "log.csv"], ["file", "l*.csv"], ["file", "log[1].csv"], ["pipe", "--set", "format=csv"]]
)
@pytest.mark.parametrize("other", [[], ["--set", "stream=sales"], ["--set", "follow=yes"], ["--set", "bad_lines=bad"]])
def test_nothing_is_written_released_or_charged(
    folder: Path, forks: Forks, command: list[str], other: list[str]
) -> None:
    if command[0] == "pipe" and "follow=yes" in other:
        pytest.skip("a pipe is not followed")
    if command[-1] == "log[1].csv":
        (folder / "log.csv").rename(folder / command[-1])
    before = content(folder)
    found = json.loads(forks.succeeded("stream", *command, *OPTIONS, *other, "--json", cwd=folder, stdin=LOG.encode()))
    assert content(folder) == before
    assert found["private"]
    assert found["windows"] == [
        {"window": "2026-11-22T1300Z", "rows": 3, "late": 1, "blank": 0, "other_keys": 1, "is_over": True},
        {"window": "2026-11-22T1302Z", "rows": 1, "late": 0, "blank": 0, "other_keys": 0, "is_over": False},
    ]
    assert found["rows"] | {"read": 6, "late": 1, "malformed": 1, "early": 1, "other_keys": 1} == found["rows"]
    assert set(found["alarms"]) == {"rows_dropped", "rows_early"}


def test_a_state_that_is_there_stays_and_is_not_continued(folder: Path, forks: Forks) -> None:
    (folder / "log.csv").write_text(HEADER + "".join(row.line for row in ROWS))
    forks.succeeded("stream", "file", "log.csv", *OPTIONS[:4], cwd=folder)
    before = content(folder)
    assert "job.raw-stream" in {Path(path).name for path in before}
    shown = forks.run("stream", "file", "log.csv", *OPTIONS, cwd=folder)
    assert content(folder) == before
    assert shown.returncode == 0
    assert "private: for the operator alone" in shown.stdout
    assert "2026-11-22T1300Z     3     1      0           1   yes" in shown.stdout
    assert "warning: 20 % of the rows that were read were dropped" in shown.stderr


def test_other_commands_refuse_to_try(folder: Path, forks: Forks) -> None:
    for command in (["watch", *OPTIONS], ["beam", *OPTIONS], ["publish", *OPTIONS[2:]]):
        assert "leave out dry_run" in forks.refused("stream", *command, "--set", "stream=sales", cwd=folder)


def test_heartbeats_are_no_rows_and_a_mistake_is_found_before_a_row_is_read(folder: Path, forks: Forks) -> None:
    beats = HEADER + "".join(row.line for row in (beat(5), Row(10, "north", "a", 1, "c"), beat(150)))
    (folder / "log.csv").write_text(beats)
    found = json.loads(
        forks.succeeded("stream", "file", "log.csv", *OPTIONS, "--set", "clock=heartbeats", "--json", cwd=folder)
    )
    assert [(one["rows"], one["is_over"]) for one in found["windows"]] == [(1, True)]
    said = forks.refused("stream", "file", "log.csv", *OPTIONS, "--set", "comparisons=mean", cwd=folder)
    assert "comparisons" in said
