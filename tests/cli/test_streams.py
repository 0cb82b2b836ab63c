"""Endless streams and pipes into raw sketches: whole lines, snapshots, signals."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from streamsketch.data.readers.rows import whole_rows
from streamsketch.storage import load_raw
from tests.cli.running import Forks, open_when_read, started, wait_until_read
from tests.cli.sales import EVENTS, PROJECTION, expected
from tests.patience import PATIENCE


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_input_makes_the_same_sketch(form: str, folder: Path, forks: Forks) -> None:
    stdin = (folder / f"sales.{form}").read_bytes().rstrip(b"\n")  # the end of the stream ends the last line
    options = ["--set", f"format={form}", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    done = forks.run("sketch", "-", *EVENTS, *options, cwd=folder, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()


def wait_for_events(path: Path, count: int) -> None:
    for _ in range(50 * PATIENCE):
        if path.exists() and load_raw(path).events == count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never held {count} events")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_the_middle_of_a_stream_loses_nothing_that_was_written(
    number: signal.Signals, folder: Path, forks: Forks
) -> None:
    header, *_ = (folder / "sales.csv").read_bytes().split(b"\n")
    rows = (folder / "sales.csv").read_bytes().removeprefix(header + b"\n")
    options = ["--set", "format=csv", "--projection", "agreed.json", "-o", "a.raw-sketch", "--set"]
    every = "every=0.1" if number == signal.SIGKILL else "every=3600"
    command = ["sketch", "-", *EVENTS, *options, every]
    with forks.started(command, folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
        assert stream.stdin is not None
        stream.stdin.write(header + b"\n" + rows + b'north,"open')
        stream.stdin.flush()
        if number == signal.SIGKILL:
            wait_for_events(folder / "a.raw-sketch", 4)
        else:
            wait_for_events(folder / "a.raw-sketch", 0)  # written at once, so that a wrong place is known early
            wait_until_read(stream.stdin)
        stream.send_signal(number)
        stream.stdin.close()
        assert stream.wait(PATIENCE) == (-9 if number == signal.SIGKILL else 128 + number)
        assert stream.stderr is not None
        said = stream.stderr.read().decode()
    assert "Traceback" not in said
    assert load_raw(folder / "a.raw-sketch").state == expected()
    if number == signal.SIGKILL:  # it may have come while the next snapshot was written: the write after it clears up
        done = forks.run("sketch", "-", *EVENTS, *options, every, "--append", cwd=folder, stdin=header + b"\n")
        assert done.returncode == 0, done.stderr
        assert load_raw(folder / "a.raw-sketch").state == expected()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == [], "no half-written file is left"


def test_a_quote_within_a_field_is_a_letter_in_a_stream_as_in_a_file(tmp_path: Path, forks: Forks) -> None:
    lines = 'item,n\n5" pipe,1\nx,2\nx"y"z,4\n"a\n""b""",8\n7" pipe,16\n'
    (tmp_path / "a.csv").write_text(lines)
    (tmp_path / "agreed.json").write_text(PROJECTION.to_json())
    events = ["--index", "item", "--value", "n", "--projection", "agreed.json"]
    assert forks.run("sketch", "a.csv", *events, "-o", "a.raw-sketch", cwd=tmp_path).returncode == 0
    stream = ["sketch", "-", "--set", "format=csv", *events, "-o", "b.raw-sketch"]
    assert forks.run(*stream, cwd=tmp_path, stdin=lines.encode()).returncode == 0
    told = PROJECTION.sketch()
    told.update(['5" pipe', "x", 'x"y"z', 'a\n"b"', '7" pipe'], [1, 2, 4, 8, 16])
    assert load_raw(tmp_path / "a.raw-sketch").state == load_raw(tmp_path / "b.raw-sketch").state == told
    first, rest = lines.encode()[:14], lines.encode()[14:]
    assert whole_rows(b"", first, ended=False) == (first[:7], first[7:])
    assert whole_rows(first, rest[:5], ended=False) == (lines.encode()[:17], b"x,")


def test_a_pipe_is_read_as_a_file_once(folder: Path, forks: Forks) -> None:
    command = ["sketch", "pipe", *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch"]
    os.mkfifo(folder / "pipe")
    for form in ("csv", "jsonl"):
        with started(["/bin/cp", f"sales.{form}", "pipe"], folder):
            done = forks.run(*command, "--set", f"format={form}", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert load_raw(folder / "a.raw-sketch").state == expected()
        (folder / "a.raw-sketch").unlink()
    for form in ([], ["--set", "format=parquet"]):
        with started(["/bin/cp", "sales.parquet", "pipe"], folder):
            assert "pipe is a pipe, and a pipe must carry" in forks.refused(*command, *form, cwd=folder)


INTERRUPTED_WITHIN_ARROW = """
import io, os, signal
from streamsketch.core.libraries import pa  # which keeps what it has looked up

class Interrupted(io.BytesIO):
    def read(self, size):
        os.kill(os.getpid(), signal.SIGINT)
        return super().read(size)

pa.BufferReader = lambda data: pa.PythonFile(Interrupted(data), mode="r")
"""


INTERRUPTED_BETWEEN_HANDLERS = """
import os, signal

def signal_and_one_more(number, handler, set_handler=signal.signal):
    before = set_handler(number, handler)
    if number == signal.SIGINT and handler.__name__ == "_do_nothing":
        os.kill(os.getpid(), number)
    return before

signal.signal = signal_and_one_more
"""


@pytest.mark.parametrize(("script", "taken"), [(INTERRUPTED_WITHIN_ARROW, 2), (INTERRUPTED_BETWEEN_HANDLERS, 0)])
def test_a_signal_that_comes_at_a_bad_moment_is_not_lost(script: str, taken: int, folder: Path, forks: Forks) -> None:
    options = ["--index", "item", "--set", "format=csv", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    command = ["sketch", "-", *options]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with forks.started(command, folder, script, **pipes) as stream:
        assert stream.stdin is not None
        stream.stdin.write(b"item\nx\ny\n")
        stream.stdin.flush()
        assert stream.wait(PATIENCE) == 130
    assert load_raw(folder / "a.raw-sketch").events == taken


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_pipe_interrupted_while_nothing_comes_ends_at_once(form: str, folder: Path, forks: Forks) -> None:
    os.mkfifo(folder / "pipe")
    options = ["--set", f"format={form}", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    command = ["sketch", "pipe", *EVENTS, *options]
    with forks.started(command, folder) as running, open_when_read(folder / "pipe", running) as pipe:
        pipe.write((folder / f"sales.{form}").read_bytes())
        wait_until_read(pipe)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130
    assert not (folder / "a.raw-sketch").exists()


def test_a_stream_of_csv_without_a_header_is_refused(folder: Path, forks: Forks) -> None:
    options = ["--set", "format=csv", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    done = forks.run("sketch", "-", *EVENTS, *options, cwd=folder, stdin=b"")
    assert done.returncode == 2
    assert "CSV must begin with the names of columns. a.raw-sketch holds the 0 events before" in done.stderr


def test_a_bad_line_ends_a_stream_and_keeps_what_came_before(folder: Path, forks: Forks) -> None:
    options = ["--set", "format=jsonl", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    good = (folder / "sales.jsonl").read_bytes()
    done = forks.run("sketch", "-", *EVENTS, *options, cwd=folder, stdin=good)
    assert done.returncode == 0
    bad = forks.run("sketch", "-", *EVENTS, *options, "--append", cwd=folder, stdin=b'{"shop": "private-name"}\n')
    assert bad.returncode == 2
    assert "line 1 of standard input is not a JSON object with the fields shop, item, aisle, amount" in bad.stderr
    assert "holds the 4 events before" in bad.stderr
    assert "private-name" not in bad.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()
    again = ["--index", "a", "--set", "format=csv", "--projection", "agreed.json", "-o", "b.raw-sketch"]
    twice = forks.run("sketch", "-", *again, cwd=folder, stdin=b"a,a\n1,2\n")
    assert "standard input has a more than once" in twice.stderr


def test_events_that_are_appended_at_the_same_time_all_count(tmp_path: Path, forks: Forks) -> None:
    processes, rows = 8, 100
    (tmp_path / "agreed.json").write_text(PROJECTION.to_json())
    (tmp_path / "rows.csv").write_text("item\n" + "x\n" * rows)
    options = ["--index", "item", "--projection", "agreed.json", "-o", "a.raw-sketch", "--append"]
    forks.succeeded("sketch", "rows.csv", *options, cwd=tmp_path)
    stream = ["sketch", "-", "--set", "format=csv", *options, "--set", "every=0.01"]
    append = ["sketch", "rows.csv", *options]
    with contextlib.ExitStack() as stack:
        streaming = stack.enter_context(forks.started(stream, tmp_path, stdin=subprocess.PIPE))
        running = [stack.enter_context(forks.started(append, tmp_path)) for _ in range(processes - 1)]
        assert streaming.stdin is not None
        streaming.stdin.write(b"item\n")
        for _ in range(rows):
            streaming.stdin.write(b"x\n")
            streaming.stdin.flush()
            time.sleep(0.002)
        streaming.stdin.close()
        assert [one.wait(PATIENCE) for one in (*running, streaming)] == [0] * processes
    raw = load_raw(tmp_path / "a.raw-sketch")
    whole = PROJECTION.sketch()
    whole.update(["x"], [rows * (1 + processes)])
    assert (raw.events, raw.state) == (rows * (1 + processes), whole)
    assert len(raw.state.data_ids.parts) == 1, "all is added to the data that were there"


def test_a_stream_goes_on_in_a_new_file_when_its_file_is_moved(folder: Path, forks: Forks) -> None:
    options = ["--index", "item", "--set", "format=csv", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    with forks.started(["sketch", "-", *options, "--set", "every=0.05"], folder, stdin=subprocess.PIPE) as stream:
        assert stream.stdin is not None
        stream.stdin.write(b"item\nx\n")
        stream.stdin.flush()
        wait_for_events(folder / "a.raw-sketch", 1)
        (folder / "a.raw-sketch").rename(folder / "b.raw-sketch")
        stream.stdin.write(b"y\nz\n")
        stream.stdin.close()
        assert stream.wait(PATIENCE) == 0
    assert [load_raw(folder / f"{name}.raw-sketch").events for name in "ab"] == [2, 1]
