"""Unbounded logs by a job: killed, started again and fed once more, each window comes once with its sums."""

import itertools
import json
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.continual import History
from streamsketch.intake import log as intake_log
from streamsketch.intake.framing import ONE_LINE
from streamsketch.streams import Stream
from streamsketch.streams.job import Job
from streamsketch.streams.open_windows import Windows
from tests.cli.killing import PIECE_BYTES
from tests.cli.running import Forks, started, wait_until_read, wait_until_there
from tests.patience import PATIENCE
from tests.streams.naive import AGREEMENT, HEADER, KEYS, Row, batch_of, beat, bound_by, over_in, windows_of, write

OPTIONS = ["--agreement", "agreement.json", "--job", "job.json", "--set", "state=s.raw-stream"]
FILE = ["stream", "file", "log.csv", *OPTIONS]
PIPE = ["stream", "pipe", "--set", "format=csv", *OPTIONS]


def drawn_log(count: int, seed: int, seconds: int = 360) -> list[Row]:
    """Return a log whose units straddle windows, with late rows, other keys and a gap."""
    bits = random.Random(seed)  # noqa: S311 - a test's data
    rows = []
    for number in range(count):
        at = number * seconds // count + (120 if 2 * number > count else 0)  # two windows without any
        behind = bits.choice([0] * 8 + [8, 75])
        shop = bits.choice([*KEYS, "moon"])
        rows.append(Row(at - behind, shop, bits.choice("abc"), bits.randrange(1, 9), f"c{bits.randrange(6)}"))
    return rows


def text_of(rows: list[Row]) -> str:
    return HEADER + "".join(row.line for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "out").mkdir(parents=True)
    write(folder)
    return folder


def stream_in(folder: Path, state: str = "s.raw-stream") -> Stream:
    """Return the stream of the command's files."""
    return Stream(ss.Agreement.load(folder / "agreement.json"), Job.load(folder / "job.json"), folder / state)


def check_rows(folder: Path, rows: list[Row]) -> None:
    """Check that every window that is over has one row, and that of the windows of a log that is read at once."""
    stream = stream_in(folder)
    policy = stream.policy
    expected, late = windows_of(rows, size=20)
    assert (stream.events, stream.summary["rows_late"]) == (sum(map(len, expected.values())), late)
    paths = sorted((folder / "out").iterdir())
    names = [policy.windows.name(policy.first + number) for number in range(over_in(rows, size=20))]
    assert [path.stem for path in paths] == names
    released = [ss.load(path) for path in paths]
    histories, whole = {key: History(released, key) for key in KEYS}, Windows(policy, stream._secret)
    whole.add(batch_of(rows), 1)
    for number in range(len(paths)):
        closed = whole.closing()
        for key in KEYS:
            release = histories[key].range(number, number + 1)
            assert np.array_equal(release.values, closed.table.sketch_of(key).state())
        whole.advance(closed)
    assert whole.counts.bounding.units_over_windows > 0
    assert whole.counts.bounding == stream.windows.counts.bounding


def check_exact(folder: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that every window that is over came once, with the sums of a batch job on its rows."""
    stream = stream_in(folder)
    expected, late = windows_of(rows)
    assert stream.events == sum(map(len, expected.values())), "no row is read twice, and none left out"
    assert stream.summary["rows_late"] == late
    paths = sorted((folder / "out").iterdir())
    assert [path.name for path in paths] == [f"2026-11-22T13{n:02}Z.parquet" for n in range(over_in(rows))]
    first = stream.windows.next - len(paths)
    for number, path in enumerate(paths):
        table = ss.load(path)
        assert list(table) == KEYS
        its = expected.get(number) or [Row(0, "moon", "a", 1, "A")]
        told = bound_by(stream.windows.secret_of(first + number), its, monkeypatch)
        for key in KEYS:
            assert np.array_equal(table[key].values, told.sketch_of(key).state())
    assert [path.name for path in folder.iterdir() if path.name[0] == "."] == [".s.raw-stream.lock"]


@pytest.mark.parametrize("place", ["out", "file://"])
def test_a_named_stream_fills_a_slot_for_each_key(place: str, folder: Path, forks: Forks) -> None:
    """As a job does; in an object store, too. From an earlier state, in an empty place, with the same bytes."""
    if place != "out":
        pytest.importorskip("obstore", reason="object stores need the extra objects")
    rows = drawn_log(60, 3)
    where = "out" if place == "out" else f"file://{folder}/out"
    write(folder, stream="shops", folder=where, epsilon=1)
    (folder / "log.csv").write_text(text_of(rows[:1]))
    forks.succeeded(*FILE, cwd=folder)
    backup = (folder / "s.raw-stream").read_bytes()
    found = []
    for is_new in (True, False):
        (folder / "log.csv").write_text(text_of(rows))
        (folder / "s.raw-stream").write_bytes(backup)
        shutil.rmtree(folder / "out")
        (folder / "out").mkdir()
        said = forks.run(*FILE, cwd=folder)
        assert said.returncode == 0, said.stderr
        assert "was there already" not in said.stderr
        found.append({path: path.read_bytes() for path in (folder / "out").rglob("*.sketch")})
        (folder / "s.raw-stream").write_bytes(backup)
        assert "was there already" not in forks.run(*FILE, cwd=folder).stderr, is_new
    assert found[0] == found[1]
    slots = {path.parent.name for path in (folder / "out/shops").rglob("*.sketch")}
    assert len(slots) == over_in(rows)
    assert {path.stem for path in (folder / "out/shops").rglob("*.sketch")} == set(KEYS)
    (folder / "log.csv").write_text(text_of([rows[0], *(row._replace(item="b") for row in rows[1:])]))
    (folder / "s.raw-stream").write_bytes(backup)
    assert "was there already" in forks.run(*FILE, cwd=folder).stderr


@pytest.mark.parametrize(
    ("schedule", "every"),
    [
        (None, 8),
        ({"kind": "tree", "horizon": 20, "depth": 2}, 19),
        pytest.param(None, 1, marks=pytest.mark.long),
        pytest.param({"kind": "tree", "horizon": 20, "depth": 2}, 1, marks=pytest.mark.long),
    ],
)
def test_killed_before_any_operation_on_a_file(
    schedule: dict[str, Any] | None, every: int, folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = drawn_log(40, 1, 70)
    (folder / "log.csv").write_text(text_of(rows))
    if schedule is not None:
        write(folder, schedule=schedule, window="20 s")
    command = [*FILE, "--set", "summary=told.json"]
    monkeypatch.setattr(intake_log, "BLOCK_BYTES", PIECE_BYTES)
    shutil.copytree(folder, warm := folder.with_name("warm"))
    forks.warm(*command, cwd=warm)
    for n in itertools.count(1, every):
        copy = folder.with_name(f"{folder.name}-{n}")
        shutil.copytree(folder, copy)
        kill = f"from tests.cli.killing import kill_before; kill_before({n}, {str(copy)!r})"
        with (
            (copy / "said.txt").open("wb") as said,
            forks.started(command, copy, kill, stdout=said, stderr=said) as one,
        ):
            killed = one.wait(PATIENCE)
        assert killed in (0, -signal.SIGKILL), (copy / "said.txt").read_text()
        before = {path: path.read_bytes() for path in (copy / "out").glob("[!.]*")}  # what an outsider saw then
        forks.succeeded(*command, cwd=copy)
        check_exact(copy, rows, monkeypatch) if schedule is None else check_rows(copy, rows)
        assert {path: path.read_bytes() for path in before} == before, "what was published never changes"
        size = 60 if schedule is None else 20
        assert json.loads((copy / "told.json").read_text())["rows_late"] == windows_of(rows, size=size)[1]
        if killed == 0:
            break
    assert n > 30


def test_a_log_is_followed_over_many_restarts(folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn_log(60, 9)
    data = text_of(rows)
    for end in [*range(400, len(data), 400), len(data)]:
        (folder / "log.csv").write_text(data[:end])
        forks.succeeded(*FILE, cwd=folder)
    check_exact(folder, rows, monkeypatch)


def test_blank_text_is_kept_by_an_agreement_that_keeps_it(folder: Path, forks: Forks) -> None:
    write(folder, AGREEMENT.replace(missing="keep"))
    blank = Row(1, KEYS[0], "", 2, "c1")
    (folder / "log.csv").write_text(text_of([Row(0, KEYS[0], "a", 1, "c1"), blank]))
    forks.succeeded(*FILE, cwd=folder)
    stream = stream_in(folder)
    assert stream.events == 2


@pytest.mark.parametrize("piped", [False, True])
def test_killed_at_any_time_while_the_log_grows(
    piped: bool,  # noqa: FBT001
    folder: Path,
    forks: Forks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, chance = drawn_log(1500, 2), random.Random(3)  # noqa: S311 - a test's data
    log, state, data = folder / "log.csv", folder / "s.raw-stream", text_of(rows)
    pieces = [data[at : at + 997] for at in range(0, len(data), 997)]  # to the middle of lines
    log.write_text("")

    def grow(count: int) -> None:
        with log.open("a") as file:
            file.write("".join(pieces[:count]))
        del pieces[:count]

    seen: dict[str, bytes] = {}

    def look() -> None:
        now = {path.name: path.read_bytes() for path in (folder / "out").glob("[!.]*")}
        assert {name: now[name] for name in seen} == seen, "what was published never changes"
        seen.update(now)

    command = [*(PIPE if piped else [*FILE, "--set", "follow=yes"]), "--set", "every=0.02"]
    for _ in range(3):
        with (
            started(["tail", "-c", "+1", "-f", "log.csv"], folder, stdout=subprocess.PIPE) as tail,
            forks.started(command, folder, stdin=tail.stdout) as running,
        ):
            for _ in range(chance.randrange(1, 4)):
                before = state.stat().st_mtime_ns if state.exists() else 0
                grow(5)
                while not state.exists() or state.stat().st_mtime_ns == before:
                    assert running.poll() is None
                    time.sleep(0.01)
                look()
            grow(5)
            time.sleep(chance.random() / 20)
            running.send_signal(signal.SIGKILL)
            running.wait(PATIENCE)
        look()
    assert pieces, "it was killed while the log grew"
    grow(len(pieces))
    with log.open("rb") as whole, forks.started(PIPE if piped else FILE, folder, stdin=whole) as last:
        assert last.wait(PATIENCE) == 0
    look()
    check_exact(folder, rows, monkeypatch)


@pytest.mark.parametrize("how", ["rename", "copytruncate"])
def test_killed_while_a_log_is_rotated(how: str, folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, chance = drawn_log(600, 11), random.Random(12)  # noqa: S311 - a test's data
    log, state, lines = folder / "log.csv", folder / "s.raw-stream", [row.line for row in rows]
    log.write_text(HEADER)

    def rotate() -> None:
        for number in range(len(list(folder.glob("log.csv.*"))), 0, -1):
            (folder / f"log.csv.{number}").rename(folder / f"log.csv.{number + 1}")
        if how == "rename":
            log.rename(folder / "log.csv.1")
            log.write_text(HEADER)
        else:
            shutil.copy(log, folder / "log.csv.1")
            log.write_text("")

    def grow(count: int) -> None:
        with log.open("a") as file:
            file.write("".join(lines[:count]))
        del lines[:count]

    for _ in range(2):
        with forks.started([*FILE, "--set", "follow=yes", "--set", "every=0.02"], folder) as running:
            for _ in range(2):
                before = state.stat().st_mtime_ns if state.exists() else 0
                grow(60)
                while not state.exists() or state.stat().st_mtime_ns == before:
                    assert running.poll() is None
                    time.sleep(0.01)
                grow(20)
                rotate()
            time.sleep(chance.random() / 4)
            running.send_signal(signal.SIGKILL)
            running.wait(PATIENCE)
        grow(10)
        rotate()
    grow(len(lines))
    forks.succeeded(*FILE, cwd=folder)
    check_exact(folder, rows, monkeypatch)


def test_files_of_a_pattern_are_one_log(folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each part of the day, with a run after each; and the state is not that of one file."""
    rows = drawn_log(90, 11)
    command = ["stream", "file", "log-*.csv", *OPTIONS]
    for part in range(3):
        (folder / f"log-{part}.csv").write_text(text_of(rows[30 * part : 30 * (part + 1)]))
        done = forks.run(*command, cwd=folder)
        assert done.returncode == 0, done.stderr
    check_exact(folder, rows, monkeypatch)
    (folder / "log.csv").write_text(text_of(rows))
    done = forks.run(*FILE, cwd=folder)
    assert (done.returncode, "pattern of their names" in done.stderr) == (2, True), done.stderr


def test_a_log_that_is_gone_is_refused_and_its_loss_accepted(folder: Path, forks: Forks) -> None:
    rows = drawn_log(60, 13)
    (folder / "log.csv").write_text(text_of(rows[:30]))
    forks.succeeded(*FILE, cwd=folder)
    (folder / "log.csv").write_text("".join(row.line for row in rows[30:]))
    assert "If the rest is lost, --set accept_loss=yes continues with what is there" in forks.refused(*FILE, cwd=folder)
    done = forks.run(*FILE, "--set", "accept_loss=yes", cwd=folder)
    assert done.returncode == 0
    assert "warning: log.csv is read from its beginning" in done.stderr
    assert "log.csv is read" not in forks.run(*FILE, "--set", "accept_loss=yes", cwd=folder).stderr
    stream = stream_in(folder)
    assert stream.events == sum(map(len, windows_of(rows)[0].values()))


def messages_of(rows: list[Row], first: int) -> list[bytes]:
    names = HEADER.strip().split(",")
    found = []
    for number, row in enumerate(rows):
        payload = json.dumps(dict(zip(names, row.line.strip().split(","), strict=True)))
        message = {"topic": "sales", "partition": 0, "offset": first + number, "key": None, "payload": payload}
        found.append(json.dumps(message).encode() + b"\n")
    return found


def test_messages_are_read_once_whatever_offset_a_consumer_begins_at(
    folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, chance, lines = drawn_log(600, 14), random.Random(15), []  # noqa: S311 - a test's data
    state, command = (
        folder / "s.raw-stream",
        ["stream", "pipe", *OPTIONS, "--set", "format=messages", "--set", "summary=told.json"],
    )
    lines = messages_of(rows, 1000)
    for end in (200, 500):
        with forks.started([*command, "--set", "every=0.02"], folder, stdin=subprocess.PIPE) as running:
            assert running.stdin is not None
            first = json.loads((folder / "told.json").read_text())["last_offset"] - 1000 if end > 200 else 0
            running.stdin.writelines(lines[first - chance.randrange(min(first, 50) + 1) : end])
            running.stdin.flush()
            before = state.stat().st_mtime_ns if state.exists() else 0
            while not (folder / "told.json").exists() or state.stat().st_mtime_ns == before:
                assert running.poll() is None
                time.sleep(0.01)
            time.sleep(chance.random() / 10)
            running.send_signal(signal.SIGKILL)
            running.wait(PATIENCE)
    place = stream_in(folder, state.name).position
    assert place is not None
    last = place["next"] - 1001
    said = forks.refused(*command, cwd=folder, stdin=b"".join(lines[last + 2 :]))
    assert f"messages were read only up to {last + 1000:,}; begin at {last + 1000:,} or before" in said
    forks.succeeded(*command, cwd=folder, stdin=b"".join(lines[last:]))
    check_exact(folder, rows, monkeypatch)
    assert json.loads((folder / "told.json").read_text())["offsets_missing"] == 0
    assert 'holds a position in messages: set "format": "messages" in the job' in forks.refused(*PIPE, cwd=folder)


def test_a_log_fed_again_is_read_once_and_a_longer_one_on(
    folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = drawn_log(300, 4)
    data = text_of(rows).encode()
    half = len(data) // 2
    assert data[half - 1 : half] != b"\n", "the last line has no end yet"
    for part, run in ((data[:half], forks.run), (data[:half], forks.piped), (data, forks.piped), (data, forks.run)):
        done = run(*PIPE, cwd=folder, stdin=part)  # a file, sought in, or a pipe, read again
        assert done.returncode == 0, done.stderr
    check_exact(folder, rows, monkeypatch)
    lines = [json.dumps(dict(zip(HEADER.strip().split(","), row.line.strip().split(","), strict=True))) for row in rows]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n" + lines[-1])  # the last line has no end yet
    (folder / "out").rename(folder / "of-csv")
    (folder / "s.raw-stream").rename(folder / "of-csv.raw-stream")
    told = json.loads(forks.succeeded("stream", "file", "log.jsonl", *OPTIONS, "--json", cwd=folder))
    assert (told["events"], told["windows"]) == (sum(map(len, windows_of(rows)[0].values())), over_in(rows))
    check_exact(folder, rows, monkeypatch)


def test_a_log_is_known_again(folder: Path, forks: Forks) -> None:
    rows = drawn_log(300, 5)
    text = text_of(rows)
    (folder / "log.csv").write_text(text)
    forks.succeeded(*FILE, cwd=folder)
    state = (folder / "s.raw-stream").read_bytes()
    for wrong, said in (
        (text.replace("north", "south", 1), "is not the log that was read before"),
        (text[:-30] + text[-29:] + "\n", "is not the log that was read before"),
        (text[:-100], f"{len(text) - 100:,} bytes, but {len(text):,} were read before"),
        ("", "has 0 bytes"),
    ):
        (folder / "log.csv").write_text(wrong)
        assert said in forks.refused(*FILE, cwd=folder)
        assert said in forks.refused(*PIPE, cwd=folder, stdin=wrong.encode())
    assert (folder / "s.raw-stream").read_bytes() == state


def test_dropped_rows_are_said_and_kept(folder: Path, forks: Forks) -> None:
    """The alarm's rate is the job's, which may change while a state goes on."""
    late = [Row(place, "north", "a", 1, "Ann") for place in range(9)]
    (folder / "log.csv").write_text(text_of([Row(100, "north", "a", 1, "Bob"), *late]))
    assert "lies where releases are published" in forks.refused(*FILE, "--set", "dead_letters=out", cwd=folder)
    (folder / "letters").mkdir()
    done = forks.run(*FILE, "--set", "dead_letters=letters", cwd=folder)
    assert done.returncode == 0
    assert "warning: 90 % of the rows read" in done.stderr
    assert "9 late, 0 too far ahead, 0 malformed" in done.stderr
    (letters,) = (folder / "letters").iterdir()
    assert letters.stat().st_mode & 0o777 == 0o600
    assert pq.read_table(letters).num_rows == 9
    write(folder, max_dropped=1)
    with (folder / "log.csv").open("a") as log:
        log.write(late[0].line)
    done = forks.run(*FILE, cwd=folder)
    assert done.returncode == 0
    assert "dropped" not in done.stderr


def test_two_processes_on_one_state_are_refused(folder: Path, forks: Forks) -> None:
    rows = drawn_log(10, 6, 30)[:5]  # no window is over, so only the last snapshot has them
    (folder / "log.csv").write_text(text_of(rows))
    with forks.started(PIPE, folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(text_of(rows).encode())
        running.stdin.flush()
        wait_until_read(running.stdin)
        wait_until_there(folder / "s.raw-stream")
        assert "s.raw-stream is in use by another process; end that one first" in forks.refused(*FILE, cwd=folder)
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 128 + signal.SIGTERM
        assert running.stderr is not None
        said = running.stderr.read().decode()
    assert "Stopped: s.raw-stream, secret: " in said
    assert "The same command continues." in said
    stream = stream_in(folder)
    assert stream.events == sum(map(len, windows_of(rows)[0].values())), "what was read is written"
    forks.succeeded(*FILE, cwd=folder)


def test_heartbeats_move_the_watermark_of_a_silent_log(folder: Path, forks: Forks) -> None:
    write(folder, clock="heartbeats")
    rows = [Row(1, "north", "a", 2, "Ann"), Row(500, "north", "a", 2, "Bob"), beat(75), Row(2, "north", "a", 9, "Cy")]
    for form in ("csv", "jsonl"):
        names = HEADER.strip().split(",")
        cells = [row.line.rstrip("\n").split(",") for row in rows]
        lines = [json.dumps({name: cell or None for name, cell in zip(names, row, strict=True)}) for row in cells]
        data = text_of(rows) if form == "csv" else "\n".join(lines) + "\n"
        options = [*OPTIONS[:-1], f"state={form}.raw-stream", "--set", f"summary={form}.json"]
        forks.succeeded("stream", "pipe", "--set", f"format={form}", *options, cwd=folder, stdin=data.encode())
        assert json.loads((folder / f"{form}.json").read_text())["rows_late"] == 1
        assert (folder / f"{form}.json").stat().st_mode & 0o777 == 0o600
        (path,) = (folder / "out").iterdir()
        assert ss.load(path).guarantee.conditions == ((ONE_LINE,) if form == "csv" else ())
        path.unlink()


def test_a_bad_line_ends_a_stream_or_is_left_out(folder: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn_log(60, 7)
    text = text_of(rows)
    at = len(text_of(rows[:30]))
    (folder / "log.csv").write_text(text[:at] + "private-time,north,a,1,Ann\n" + text[at:])
    done = forks.run(*FILE, cwd=folder)
    assert done.returncode == 2
    assert "row 32 of log.csv: the column at holds text that is not a time" in done.stderr
    assert "s.raw-stream holds what was read before, and continues from there" in done.stderr
    assert "private-time" not in done.stderr
    told = json.loads(forks.succeeded(*FILE, "--set", "bad_lines=skip", "--json", cwd=folder))
    assert told["bad_lines"] == 1
    check_exact(folder, rows, monkeypatch)
    told = json.loads(forks.succeeded(*FILE, "--set", "bad_lines=skip", "--json", cwd=folder))
    assert told["bad_lines"] == 1, "counted over all runs"
    log = folder / "log.csv"
    for count in (2, 3):  # the same command goes on, with the same file
        log.write_text(log.read_text() + "worse-time,north,a,1,Ann\n")
        told = json.loads(forks.succeeded(*FILE, "--set", "bad_lines=kept.csv", "--json", cwd=folder))
        assert told["bad_lines"] == count
    assert (folder / "kept.csv").read_text() == HEADER + 2 * "worse-time,north,a,1,Ann\n"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_with_heartbeats_no_line_of_a_unit_ends_the_stream(form: str, folder: Path, forks: Forks) -> None:
    write(folder, clock="heartbeats")
    rows = [beat(0), *drawn_log(30, 9, 100), beat(130)]
    eve = Row(1, "north", "a", 1, "Eve").line.rstrip("\n").split(",")
    bad = [["soon", *eve[1:]], ["2046-01-01T00:00:00Z", *eve[1:]], [*eve[:3], "many", eve[4]], eve[:2]]
    lines = [row.line.rstrip("\n").split(",") for row in rows]
    lines[4:4] = bad
    if form == "csv":
        data = HEADER + "".join(",".join(line) + "\n" for line in lines)
    else:  # a line with too few fields lacks them
        names = HEADER.strip().split(",")
        data = "".join(json.dumps(dict(zip(names, line, strict=False))) + "\n" for line in lines)
    options = [*OPTIONS, "--set", "summary=told.json"]
    said = forks.run("stream", "pipe", "--set", f"format={form}", *options, cwd=folder, stdin=data.encode())
    assert said.returncode == 0, said.stderr
    assert "1 bad line left out" in said.stderr
    assert "3 malformed rows dropped" in said.stderr
    told = json.loads((folder / "told.json").read_text())
    assert (told["rows_malformed"], told["bad_lines"]) == (3, 1)
    expected, late = windows_of(rows, clock="heartbeats")
    assert (told["rows_late"], len(list((folder / "out").iterdir()))) == (late, 2)
    stream = stream_in(folder)
    assert stream.events == sum(map(len, expected.values()))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["file", "log.csv", "--agreement", "agreement.json"], "Missing option '--job'"),
        (["file", "log.csv", "--job", "job.json"], "Missing option '--agreement'"),
        (["file", "log.csv", "log.csv", *OPTIONS], "unexpected extra argument"),
        (["file", "log.csv", *OPTIONS, "--messages"], "No such option: --messages"),
        (
            ["file", "log.csv", *OPTIONS, "--set", "format=messages"],
            "read from standard input, by `streamsketch stream",
        ),
        (["pipe", *OPTIONS, "--messages"], "Write --set format=messages"),
        (["pipe", *OPTIONS], "state what standard input is"),
        (["pipe", *OPTIONS, "--follow"], "The job says that: --set follow=VALUE"),
        (["file", "log.parquet", *OPTIONS], "state what log.parquet is"),
        (["file", "log.csv.gz", *OPTIONS], "state what log.csv.gz is"),
        (["file", "log.csv", *OPTIONS[:-1], "state=s.raw-sketch"], "written to a file named *.raw-stream"),
        (["file", "log.csv", *OPTIONS, "--set", "every=0"], "every must be a number of seconds > 0"),
        (["file", "log.csv", *OPTIONS, "--set", "summary=told.txt"], "a summary is written to a file named *.json"),
        (["file", "log.csv", *OPTIONS, "-o", "s.raw-stream"], "The job says that: --set state=VALUE"),
    ],
)
def test_mistakes_are_sentences(arguments: list[str], said: str, folder: Path, forks: Forks) -> None:
    (folder / "log.csv").write_text(text_of([]))
    assert said in forks.refused("stream", *arguments, cwd=folder)


def test_windows_are_charged_to_a_ledger(folder: Path, forks: Forks) -> None:
    (folder / "log.csv").write_text(text_of(drawn_log(60, 8)))
    write(folder, epsilon=1.0, ledger="ledger.sqlite", dataset="sales")
    assert "there is no ledger ledger.sqlite" in forks.refused(*FILE, cwd=folder)
    ledger = ss.Ledger(folder / "ledger.sqlite")
    assert "there is no data set 'sales'" in forks.refused(*FILE, cwd=folder)
    ledger.dataset("sales", unit="customer", epsilon=2.5)
    done = forks.run(*FILE, cwd=folder)
    assert done.returncode == 2
    assert "ε = 1, δ = 0 does not fit into what is left of 'sales'" in done.stderr
    assert len(list((folder / "out").iterdir())) == 2
    assert ss.Ledger(folder / "ledger.sqlite").left("sales").epsilon == 0.5


def test_after_the_last_window_of_a_schedule_the_command_ends(folder: Path, forks: Forks) -> None:
    """Also one that follows a log, which may grow for ever."""
    write(folder, schedule={"kind": "tree", "horizon": 3})
    (folder / "log.csv").write_text(text_of(drawn_log(60, 9)))
    for _ in range(2):
        done = forks.run(*FILE, "--set", "follow=yes", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "All windows of the agreement are released" in done.stderr
        assert "3 windows released into out" in done.stderr
    assert len(list((folder / "out").iterdir())) == 3
    (folder / "s.raw-stream").unlink()
    assert "but there is no state s.raw-stream" in forks.refused(*FILE, cwd=folder)


def test_a_row_that_differs_from_the_published_one_is_refused(folder: Path, forks: Forks) -> None:
    write(folder, schedule={"kind": "tree", "horizon": 9})
    (folder / "log.csv").write_text(text_of(drawn_log(60, 9)))
    forks.succeeded(*FILE, cwd=folder)
    (folder / "out" / "2026-11-22T1308Z.parquet").write_bytes(b"of another state")
    (folder / "log.csv").write_text(text_of([*drawn_log(60, 9), Row(600, "north", "a", 1, "Ann")]))
    for _ in range(2):
        done = forks.run(*FILE, cwd=folder)
        assert done.returncode == 2
        assert "is not the row of s.raw-stream, but a row of another state or of another log" in done.stderr
        assert "continues from there" not in done.stderr
