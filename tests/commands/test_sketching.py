"""sketch, merge and release, through the real executable."""

import errno
import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.commands._events import Columns, _whole_lines, file_batches
from streamsketch.commands.release import release
from streamsketch.raw import PastRelease, RawSketch, load_raw, save_raw
from tests.commands.running import (
    COMMAND,
    ENVIRONMENT,
    PATIENCE,
    Forks,
    open_when_read,
    started,
    streamsketch,
    succeeded,
    wait_until_read,
)
from tests.noise_alone import assert_noise_alone

PROJECTION = ss.SJLT(dim=ss.HASHED_DIM, sketch_dim=64, sparsity=4, seed=3, resolution="1/4")
ROWS = [("north", "ä,b", 7, "0.5"), ("north", 'c"d', 7, "2"), ("south", "e\nf", -1, "-1.25"), ("north", "ä,b", 7, "1")]
EVENTS = ["--key", "shop", "--index", "item", "--index", "aisle", "--value", "amount"]


def expected() -> ss.SketchTable:
    shops, items, aisles, amounts = zip(*ROWS, strict=True)
    table = PROJECTION.table()
    table.update(
        list(shops), PROJECTION.indices_of(list(items), [str(aisle) for aisle in aisles]), [float(x) for x in amounts]
    )
    return table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agreed.json").write_text(PROJECTION.to_json())
    quoted = [f'{shop},"{item.replace(chr(34), chr(34) * 2)}",{aisle},{amount}' for shop, item, aisle, amount in ROWS]
    (tmp_path / "sales.csv").write_text("\n".join(["shop,item,aisle,amount", *quoted, ""]))
    lines = [
        json.dumps({"shop": shop, "item": item, "aisle": aisle})[:-1] + f', "amount": {amount}, "more": [null]}}\n'
        for shop, item, aisle, amount in ROWS
    ]
    (tmp_path / "sales.jsonl").write_text("".join(lines))
    shops, items, aisles, amounts = zip(*ROWS, strict=True)
    columns = {"shop": shops, "item": items, "aisle": aisles, "amount": [float(x) for x in amounts]}
    pq.write_table(pa.table(columns), tmp_path / "sales.parquet")
    return tmp_path


# --- sketch -----------------------------------------------------------------------------------------------------------


def test_sketching_a_csv_file(folder: Path) -> None:
    done = streamsketch("sketch", "sales.csv", *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"a.raw-sketch, secret: 4 events of 2 keys. Projection {PROJECTION.fingerprint}.\n"
    assert load_raw(folder / "a.raw-sketch").state == expected()
    assert stat.S_IMODE((folder / "a.raw-sketch").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["sales.jsonl", "sales.parquet"])
def test_all_formats_make_the_same_sketch(name: str, folder: Path, forks: Forks) -> None:
    done = forks.run("sketch", name, *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", "--json", cwd=folder)
    assert json.loads(done.stdout)["events"] == 4, done.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_input_makes_the_same_sketch(form: str, folder: Path, forks: Forks) -> None:
    stdin = (folder / f"sales.{form}").read_bytes().rstrip(b"\n")  # the end of the stream ends the last line
    options = ["--format", form, "--projection", "agreed.json", "-o", "a.raw-sketch"]
    done = forks.run("sketch", "-", *EVENTS, *options, cwd=folder, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()


def test_a_projection_is_made_and_shared(folder: Path, forks: Forks) -> None:
    making = ["--new-projection", "new.json", "--dim", "100", "--sketch-dim", "32", "--seed", "5", "-o", "a.raw-sketch"]
    assert forks.run("sketch", "sales.csv", "--index", "amount", *making, cwd=folder).returncode == 2  # not integers
    assert not (folder / "new.json").exists()
    (folder / "counts.csv").write_text("at\n1\n2\n1\n")
    done = forks.run("sketch", "counts.csv", "--index", "at", *making, cwd=folder)
    assert done.returncode == 0, done.stderr
    projection = ss.Projection.from_json((folder / "new.json").read_text())
    assert projection == ss.SJLT(dim=100, sketch_dim=32, sparsity=4, seed=5)
    sketch = projection.sketch()
    sketch.update([1, 2, 1])
    assert load_raw(folder / "a.raw-sketch").state == sketch


def test_append_adds_to_what_is_there(folder: Path, forks: Forks) -> None:
    command = ["sketch", "sales.csv", *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", "--append"]
    for _ in range(2):
        assert forks.run(*command, cwd=folder).returncode == 0
    twice = expected()
    twice.merge(expected())
    assert load_raw(folder / "a.raw-sketch").state == twice
    assert load_raw(folder / "a.raw-sketch").events == 8


def wait_for_events(path: Path, count: int) -> None:
    for _ in range(10 * PATIENCE):
        if path.exists() and load_raw(path).events == count:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} never held {count} events")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_the_middle_of_a_stream_loses_nothing_that_was_written(
    number: signal.Signals, folder: Path
) -> None:
    header, *_ = (folder / "sales.csv").read_bytes().split(b"\n")
    rows = (folder / "sales.csv").read_bytes().removeprefix(header + b"\n")
    options = ["--format", "csv", "--projection", "agreed.json", "-o", "a.raw-sketch", "--every"]
    every = "0.1" if number == signal.SIGKILL else "3600"
    command = [*COMMAND, "sketch", "-", *EVENTS, *options, every]
    with started(command, folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
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
    if number == signal.SIGKILL:
        return  # which may come while the next snapshot is written
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == [], "no half-written file is left"


def test_lines_in_quotes_and_quotes_that_never_close() -> None:
    assert _whole_lines(b'a,"b\nc"\nd,"e\n', "csv", ended=False) == (b'a,"b\nc"\n', b'd,"e\n')
    assert _whole_lines(b'"a\nb', "csv", ended=False) == (b"", b'"a\nb')
    assert _whole_lines(b'"a\nb', "jsonl", ended=False) == (b'"a\n', b"b")
    assert _whole_lines(b"a\nb", "csv", ended=True) == (b"a\nb\n", b"")
    lines = b"x\n" * 100_000
    assert _whole_lines(lines + b'"' + lines, "csv", ended=False) == (lines, b'"' + lines)


@given(st.text('",\n\rx', max_size=30).map(str.encode))
def test_lines_are_whole_where_a_reader_of_letters_finds_them_so(data: bytes) -> None:
    place, end = "start", 0  # of a field
    for at, letter in enumerate(data.decode()):
        if place == "quoted":
            place = "quote" if letter == '"' else "quoted"
        elif letter in ",\r\n":
            end = at + 1 if letter == "\n" else end
            place = "start"
        else:
            place = "quoted" if letter == '"' and place in ("start", "quote") else "plain"
    assert _whole_lines(data, "csv", ended=False) == (data[:end], data[end:])


def test_a_quote_within_a_field_is_a_letter_in_a_stream_as_in_a_file(tmp_path: Path, forks: Forks) -> None:
    lines = 'item,n\n5" pipe,1\nx,2\n"x"y"z,4\n"a\n""b""",8\n7" pipe,16\n'
    (tmp_path / "a.csv").write_text(lines)
    (tmp_path / "agreed.json").write_text(PROJECTION.to_json())
    events = ["--index", "item", "--value", "n", "--projection", "agreed.json"]
    assert forks.run("sketch", "a.csv", *events, "-o", "a.raw-sketch", cwd=tmp_path).returncode == 0
    stream = ["sketch", "-", "--format", "csv", *events, "-o", "b.raw-sketch"]
    assert forks.run(*stream, cwd=tmp_path, stdin=lines.encode()).returncode == 0
    told = PROJECTION.sketch()
    told.update(['5" pipe', "x", 'xy"z', 'a\n"b"', '7" pipe'], [1, 2, 4, 8, 16])
    assert load_raw(tmp_path / "a.raw-sketch").state == load_raw(tmp_path / "b.raw-sketch").state == told
    first, rest = lines.encode()[:14], lines.encode()[14:]
    assert _whole_lines(first, "csv", ended=False) == (first[:7], first[7:])
    assert _whole_lines(first + rest[:5], "csv", ended=False) == (lines.encode()[:17], b"x,")


def test_a_pipe_is_read_as_a_file_once(folder: Path, forks: Forks) -> None:
    command = ["sketch", "pipe", *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch"]
    os.mkfifo(folder / "pipe")
    for form in ("csv", "jsonl"):
        with started(["/bin/cp", f"sales.{form}", "pipe"], folder):
            done = forks.run(*command, "--format", form, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert load_raw(folder / "a.raw-sketch").state == expected()
        (folder / "a.raw-sketch").unlink()
    for form in ([], ["--format", "parquet"]):
        with started(["/bin/cp", "sales.parquet", "pipe"], folder):
            assert "pipe is a pipe, and of a pipe CSV and" in forks.refused(*command, *form, cwd=folder)


INTERRUPTED_WITHIN_ARROW = """
import io, os, signal
import pyarrow as pa
from streamsketch.cli import main

class Interrupted(io.BytesIO):
    def read(self, size):
        os.kill(os.getpid(), signal.SIGINT)
        return super().read(size)

pa.BufferReader = lambda data: pa.PythonFile(Interrupted(data), mode="r")
main()
"""


INTERRUPTED_BETWEEN_HANDLERS = """
import os, signal
from streamsketch.cli import main

def signal_and_one_more(number, handler, set_handler=signal.signal):
    before = set_handler(number, handler)
    if number == signal.SIGINT and handler.__name__ == "_do_nothing":
        os.kill(os.getpid(), number)
    return before

signal.signal = signal_and_one_more
main()
"""


@pytest.mark.parametrize(("script", "taken"), [(INTERRUPTED_WITHIN_ARROW, 2), (INTERRUPTED_BETWEEN_HANDLERS, 0)])
def test_a_signal_that_comes_at_a_bad_moment_is_not_lost(script: str, taken: int, folder: Path) -> None:
    options = ["--index", "item", "--format", "csv", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    command = [sys.executable, "-c", script, "sketch", "-", *options]
    with started(command, folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
        assert stream.stdin is not None
        stream.stdin.write(b"item\nx\ny\n")
        stream.stdin.flush()
        assert stream.wait(PATIENCE) == 130
    assert load_raw(folder / "a.raw-sketch").events == taken


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_pipe_interrupted_while_nothing_comes_ends_at_once(form: str, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    options = ["--format", form, "--projection", "agreed.json", "-o", "a.raw-sketch"]
    command = [*COMMAND, "sketch", "pipe", *EVENTS, *options]
    with started(command, folder) as running, open_when_read(folder / "pipe", running) as pipe:
        pipe.write((folder / f"sales.{form}").read_bytes())
        wait_until_read(pipe)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130
    assert not (folder / "a.raw-sketch").exists()


def test_one_event_is_told_in_the_singular(folder: Path, forks: Forks) -> None:
    (folder / "one.csv").write_text("shop,item,aisle,amount\nnorth,pears,1,2\n")
    done = forks.run("sketch", "one.csv", *EVENTS, "--projection", "agreed.json", "-o", "one.raw-sketch", cwd=folder)
    assert done.stderr.startswith("one.raw-sketch, secret: 1 event of 1 key. ")


def test_a_stream_of_csv_without_a_header_is_refused(folder: Path, forks: Forks) -> None:
    options = ["--format", "csv", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    done = forks.run("sketch", "-", *EVENTS, *options, cwd=folder, stdin=b"")
    assert done.returncode == 2
    assert "standard input ended before its header line. a.raw-sketch holds the 0 events before" in done.stderr


def test_arrows_threads_hold_nothing_of_pythons(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sales.csv.gz").write_bytes(gzip.compress((folder / "sales.csv").read_bytes()))
    monkeypatch.setattr(pa, "PythonFile", None)
    read: list[int] = []
    for name in ("sales.csv", "sales.csv.gz", "sales.jsonl", "sales.parquet"):
        columns = Columns("shop", ("item", "aisle"), "amount")
        (batch,) = file_batches(folder / name, None, columns, read.append)
        assert batch.num_rows == 4
    assert read, "progress is told all the same"


def test_a_bad_line_ends_a_stream_and_keeps_what_came_before(folder: Path, forks: Forks) -> None:
    options = ["--format", "jsonl", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    good = (folder / "sales.jsonl").read_bytes()
    done = forks.run("sketch", "-", *EVENTS, *options, cwd=folder, stdin=good)
    assert done.returncode == 0
    bad = forks.run("sketch", "-", *EVENTS, *options, "--append", cwd=folder, stdin=b'{"shop": "private-name"}\n')
    assert bad.returncode == 2
    assert "line 1 of standard input is not a JSON object with the fields shop, item, aisle, amount" in bad.stderr
    assert "holds the 4 events before" in bad.stderr
    assert "private-name" not in bad.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()
    again = ["--index", "a", "--format", "csv", "--projection", "agreed.json", "-o", "b.raw-sketch"]
    twice = forks.run("sketch", "-", *again, cwd=folder, stdin=b"a,a\n1,2\n")
    assert "standard input has a more than once" in twice.stderr


def test_a_mistake_in_a_file_ends_the_process_before_the_interpreter_ends() -> None:
    # Arrow's threads may still hold bytes of Python's then, and letting go of them aborted one process in five
    script = (
        "import atexit, sys, streamsketch as ss, streamsketch.cli as cli\n"
        "def mistaken(**_): raise ss.InvalidInputError('not so')\n"
        "cli.app = mistaken\n"
        "sys.stdout.write('before ')\n"
        "atexit.register(print, 'in order')\n"
        "cli.main()\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, check=False, env=ENVIRONMENT, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "before ", "error: not so\n")


def test_standard_input_that_is_closed_and_a_full_disk_end_in_a_sentence(folder: Path) -> None:
    sketch = [*COMMAND, "sketch", "--index", "item", "--projection", "agreed.json", "-o", "a.raw-sketch"]
    for arguments, prelude, message in [
        (["-", "--format", "csv"], "exec 0<&-", "error: standard input (-) is closed; there is nothing to read\n"),
        (["sales.csv"], "ulimit -f 0", "error: a.raw-sketch cannot be read or written: File too large\n"),
    ]:
        line = f'{prelude}; exec "$@"'
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", line, "sh", *sketch, *arguments], cwd=folder, capture_output=True, check=False,
            env=ENVIRONMENT | {"PYTHONDONTWRITEBYTECODE": "1"}, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
        assert not list(folder.glob("*a.raw-sketch*"))


def test_sketch_refuses_what_it_cannot_sketch(folder: Path, forks: Forks) -> None:
    save_raw(RawSketch(PROJECTION.sketch()), folder / "there.raw-sketch")
    (folder / "bad.csv").write_text("shop,item,aisle,amount\nx,y,1,lots\n")
    (folder / "twice.csv").write_text("item,item\nx,y\n")
    (folder / "twice.csv.gz").write_bytes(gzip.compress(b"item,item\nx,y\n"))
    (folder / "bad.jsonl").write_text('{"shop": "x", "item": "y", "aisle": 1, "amount": NaN}\n')
    gaps = {"shop": ["x", None], "item": ["y", "z"], "aisle": [1, 2], "amount": [1.0, 2.0]}
    pq.write_table(pa.table(gaps), folder / "gaps.parquet")
    agreed = ["--projection", "agreed.json"]
    out = ["-o", "a.raw-sketch"]
    for arguments, message in [
        (["nowhere.csv", *EVENTS, *agreed, *out], "nowhere.csv cannot be read or written: No such file"),
        (
            ["sales.csv", "--index", "colour", *agreed, *out],
            "sales.csv has no column colour, only shop, item, aisle, amount",
        ),
        (["sales.parquet", "--index", "colour", *agreed, *out], "has no column colour, only shop, item, aisle, amount"),
        (["sales.csv", *EVENTS, *out], "--projection FILE"),
        (["sales.csv", *EVENTS, "--projection", "sales.csv", *out], "sales.csv is not a projection"),
        (["sales.csv", *EVENTS, *agreed, "--seed", "3", *out], "leave out --seed"),
        (["sales.csv", *EVENTS, *agreed, "-o", "there.raw-sketch"], "is there already and is not replaced"),
        (["sales.csv", *EVENTS, *agreed, "-o", "there.raw-sketch", "--append"], "holds one sketch; leave out --key"),
        (["sales.csv", *EVENTS, *agreed, "-o", "a.sketch"], "named *.raw-sketch, got a.sketch"),
        (["sales.csv", *EVENTS, *agreed, "-o", "no/a.raw-sketch"], "there is no folder no"),
        (["bad.csv", *EVENTS, *agreed, *out], "plain decimal numbers"),
        (["gaps.parquet", *EVENTS, *agreed, *out], "the column shop has nulls (1 of 2 rows read together)"),
        (["twice.csv", "--index", "item", *agreed, *out], "twice.csv has item more than once"),
        (["twice.csv.gz", "--index", "item", *agreed, *out], "twice.csv.gz has item more than once"),
        (["bad.jsonl", *EVENTS, *agreed, *out], "line 1 of bad.jsonl"),
        (["-", *EVENTS, *agreed, *out], "say what standard input is: --format csv"),
        (["-", "sales.csv", *EVENTS, *agreed, *out], "is read alone"),
        (["sales.csv", *agreed, *out], "Missing option '--index'"),
        (["agreed.json", *EVENTS, *agreed, *out], "is not a Parquet file"),
    ]:
        assert message in forks.refused("sketch", *arguments, cwd=folder)


def test_more_keys_than_a_raw_file_holds_are_refused_before_memory_is_filled(folder: Path, forks: Forks) -> None:
    wide = ss.CountSketch(dim=ss.HASHED_DIM, sketch_dim=1 << 24, seed=3)
    (folder / "wide.json").write_text(wide.to_json())
    (folder / "keys.csv").write_text("key\n" + "".join(f"{key}\n" for key in range(64)))
    said = forks.refused(
        "sketch", "keys.csv", "--key", "key", "--index", "key", "--projection", "wide.json", "-o", "a.raw-sketch",
        cwd=folder,
    )  # fmt: skip
    assert (
        "64 sketches of 16,777,216 cells take 8,589,935,104 bytes, and a raw file holds at most 8,589,934,592" in said
    )
    assert "use fewer cells, split the events by key into several files, or sketch them by Beam" in said


# --- merge ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def raws(folder: Path) -> Path:
    for name in ("a", "b"):
        save_raw(RawSketch(expected(), 4), folder / f"{name}.raw-sketch")
        save_raw(RawSketch(expected()["north"], 3), folder / f"{name}1.raw-sketch")
        expected()["north"].release(epsilon=1.0, neighbours=ss.L1(1)).save(folder / f"{name}.sketch")
    return folder


def test_merging_raw_sketches_is_exact(raws: Path) -> None:
    done = streamsketch("merge", "a.raw-sketch", "b.raw-sketch", "-o", "c.raw-sketch", cwd=raws)
    assert done.stderr == "c.raw-sketch, secret: 8 events of 2 files.\n"
    twice = expected()
    twice.merge(expected())
    assert load_raw(raws / "c.raw-sketch").state == twice


def test_merging_releases_adds_up_what_was_promised(raws: Path, forks: Forks) -> None:
    command = ["merge", "a.sketch", "b.sketch", "-o", "c.sketch", "--populations", "overlapping", "--json"]
    assert json.loads(forks.run(*command, cwd=raws).stdout)["guarantee"]["epsilon"] == 2.0
    assert len(ss.load(raws / "c.sketch").release_ids) == 2


def test_merge_refuses_what_does_not_add_up(raws: Path, forks: Forks) -> None:
    other = PROJECTION.replace(seed=4)
    save_raw(RawSketch(other.table()), raws / "other.raw-sketch")
    raw, out = ["-o", "c.raw-sketch"], ["-o", "c.sketch"]
    for arguments, message in [
        (["a.raw-sketch", *raw], "at least two files, got 1"),
        (["a.raw-sketch", "a.raw-sketch", *raw], "named twice"),
        (["a.raw-sketch", "b.sketch", *raw], "a.raw-sketch is raw and b.sketch is not"),
        (["a.raw-sketch", "b1.raw-sketch", *raw], "one holds one stream"),
        (["a.raw-sketch", "other.raw-sketch", *raw], "seed (3 here, 4 there)"),
        (["a.raw-sketch", "b.raw-sketch", *out], "named *.raw-sketch"),
        (["a.sketch", "b.sketch", *out], "--populations disjoint"),
        (["a.raw-sketch", "b.raw-sketch", "-o", "b1.raw-sketch"], "is there already"),
        (["a.raw-sketch", "nowhere", *raw], "No such file"),
    ]:
        assert message in forks.refused("merge", *arguments, cwd=raws)


# --- release ----------------------------------------------------------------------------------------------------------


def test_a_release_is_what_the_library_would_give(raws: Path) -> None:
    bound = ["--l1", "5/2", "--unit", "sale"]
    shown = succeeded("release", "a1.raw-sketch", "-o", "north.sketch", "--epsilon", "0.5", *bound, cwd=raws)
    released = ss.load(raws / "north.sketch", expect=PROJECTION)
    library = expected()["north"].release(epsilon=0.5, neighbours=ss.L1("5/2", unit="sale"))
    assert released.guarantee == library.guarantee
    assert str(library.guarantee) in shown
    assert (released.noise, released.unit) == (library.noise, library.unit)
    assert_noise_alone(released.values - expected()["north"].state, released.noise.k2)
    assert load_raw(raws / "a1.raw-sketch").state == expected()["north"], "the raw sketch stays as it was"


def test_what_earlier_promises_rest_on_is_said_with_the_sum(raws: Path, forks: Forks) -> None:
    given = load_raw(raws / "a1.raw-sketch")
    promise = ss.Guarantee(0.5, 0.0, ss.L1(1), "a mechanism", ["no vector is zero"])
    save_raw(RawSketch(given.state, given.events, (PastRelease(promise, "ab"),)), raws / "a1.raw-sketch")
    refusal = forks.refused("release", "a1.raw-sketch", "--epsilon", "0.5", "--l1", "1", "-o", "one.sketch", cwd=raws)
    assert "of at most 1 (L1) together, only if: no vector is zero" in refusal


def test_a_second_release_costs_and_must_be_meant(raws: Path, forks: Forks) -> None:
    again = ["release", "a1.raw-sketch", "--epsilon", "0.5", "--l1", "1", "-o"]
    assert forks.run(*again, "one.sketch", cwd=raws).returncode == 0
    refusal = forks.refused(*again, "two.sketch", cwd=raws)
    assert "was released once before: ε = 0.5, δ = 0 for one event of at most 1 (L1)" in refusal
    assert "With this one, ε = 1, δ = 0 for one event of at most 1 (L1) together" in refusal
    assert forks.run("merge", "a1.raw-sketch", "b1.raw-sketch", "-o", "c.raw-sketch", cwd=raws).returncode == 0
    merged = forks.refused("release", "c.raw-sketch", "--epsilon", "1", "--l1", "1", "-o", "three.sketch", cwd=raws)
    assert "was released once before" in merged
    assert forks.run(*again, "two.sketch", "--again", cwd=raws).returncode == 0
    assert "was released 2 times before" in forks.refused(*again, "three.sketch", cwd=raws)
    inspected = json.loads(forks.run("inspect", "a1.raw-sketch", "--json", cwd=raws).stdout)
    assert [past["epsilon"] for past in inspected["releases"]] == [0.5, 0.5]


def test_public_keys_are_released_whether_or_not_there_are_data(raws: Path, forks: Forks) -> None:
    options = [
        "--epsilon",
        "1",
        "--delta",
        "1e-9",
        "--one-coordinate",
        "3",
        "--max-keys",
        "2",
        "--mechanism",
        "gaussian",
    ]
    keys = ["--public-key", "north", "--public-key", "west"]
    done = forks.run("release", "a.raw-sketch", "-o", "all.parquet", *options, *keys, "--json", cwd=raws)
    assert json.loads(done.stdout)["sketches"] == 2, done.stderr
    table = ss.load_table(raws / "all.parquet")
    assert list(table) == ["north", "west"]
    guarantee = table["west"].guarantee
    assert (guarantee.delta, guarantee.neighbours) == (1e-9, ss.OneCoordinate(3, max_keys=2))
    assert guarantee.mechanism.startswith("discrete Gaussian")


def test_release_refuses_what_it_cannot_promise(raws: Path, forks: Forks) -> None:
    one, many = ["a1.raw-sketch", "-o", "x.sketch"], ["a.raw-sketch", "-o", "x.parquet"]
    spend = ["--epsilon", "1", "--l1", "1"]
    for arguments, message in [
        ([*one, "--epsilon", "1"], "--l1 BOUND"),
        ([*one, *spend, "--one-coordinate", "1"], "one of the two"),
        ([*one, "--epsilon", "0", "--l1", "1"], "epsilon must be a finite number > 0"),
        ([*one, "--epsilon", "1", "--l1", "some"], "bound"),
        ([*one, *spend, "--mechanism", "gaussian"], "delta"),
        ([*one, *spend, "--keys-are-public"], "holds one stream"),
        ([*many, *spend], "--public-key NAME"),
        (["a1.raw-sketch", "-o", "a.sketch", *spend], "is there already and is not replaced"),
        (["a1.raw-sketch", "-o", "x.raw-sketch", *spend], "named *.sketch, got x.raw-sketch"),
        (["a.sketch", "-o", "x.sketch", *spend], "a.sketch is a release, not a raw sketch"),
        (["nowhere.raw-sketch", "-o", "x.sketch", *spend], "No such file"),
        ([*one, "--l1", "1"], "Missing option '--epsilon'"),
        ([*one, *spend, "--mechanism", "magic"], "Invalid value for '--mechanism'"),
    ]:
        assert message in forks.refused("release", *arguments, cwd=raws)
    assert load_raw(raws / "a1.raw-sketch").releases == (), "a refused release spends nothing"


def test_a_release_that_could_not_be_written_says_that_it_is_remembered(
    raws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ss.PrivateSketch, "save", full)
    with pytest.raises(ss.InvalidInputError, match=r"x\.sketch cannot be written: No space .* remembers the release"):
        release(raws / "a1.raw-sketch", output=raws / "x.sketch", epsilon=1.0, l1="1")
    assert len(load_raw(raws / "a1.raw-sketch").releases) == 1
