"""Files into raw sketches, through the real executable."""

import gzip
import json
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.intake import RowReader
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import ENVIRONMENT, Forks
from tests.cli.sales import EVENTS, PROJECTION, expected
from tests.patience import PATIENCE


def test_sketching_a_csv_file(folder: Path, forks: Forks) -> None:
    done = forks.run("sketch", "sales.csv", *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", cwd=folder)
    assert done.returncode == 0, done.stderr
    agreed = ss.Agreement.of(PROJECTION, key="shop", index=["item", "aisle"], value="amount")
    assert done.stderr == f"a.raw-sketch, secret: 4 events of 2 keys. Agreement {agreed.fingerprint}.\n"
    assert load_raw(folder / "a.raw-sketch").state == expected()
    assert stat.S_IMODE((folder / "a.raw-sketch").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["sales.jsonl", "sales.parquet"])
def test_all_formats_make_the_same_sketch(name: str, folder: Path, forks: Forks) -> None:
    done = forks.run("sketch", name, *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", "--json", cwd=folder)
    assert json.loads(done.stdout)["events"] == 4, done.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()


def test_a_file_of_before_without_an_agreement_is_not_added_to(folder: Path, forks: Forks) -> None:
    save_raw(RawSketch(expected(), 4), folder / "a.raw-sketch")
    call = ("sketch", "sales.csv", *EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", "--append")
    assert "the rows in a.raw-sketch follow no agreement" in forks.refused(*call, cwd=folder)
    agreement = ss.Agreement.of(PROJECTION, key="shop", index=["item", "aisle"], value="amount")
    agreement.save(folder / "named.json")
    for number, name in enumerate(["sales.csv", "sales.jsonl", "sales.parquet"]):
        forks.succeeded("sketch", name, "--agreement", "named.json", "-o", f"{number}.raw-sketch", cwd=folder)
        stated = load_raw(folder / f"{number}.raw-sketch").state
        assert (stated, stated.agreement) == (expected(), agreement)
    assert ss.sketch(pq.read_table(folder / "sales.parquet"), agreement) == expected()


def test_integers_below_a_dimension_are_indices(folder: Path, forks: Forks) -> None:
    made = ["--dim", "100", "--sketch-dim", "32", "--seed", "5", "-o", "a.raw-sketch"]
    assert forks.run("sketch", "sales.csv", "--index", "amount", *made, cwd=folder).returncode == 2  # not integers
    (folder / "counts.csv").write_text("at\n1\n2\n1\n")
    forks.succeeded("sketch", "counts.csv", "--index", "at", *made, cwd=folder)
    sketch = ss.SJLT(dim=100, sketch_dim=32, sparsity=4, seed=5).sketch()
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


def test_a_format_that_is_said_is_the_files_however_it_is_named(folder: Path, forks: Forks) -> None:
    options = [*EVENTS, "--projection", "agreed.json", "-o", "a.raw-sketch", "--set", "format=csv"]
    (folder / "sales.csv").rename(folder / "sales.parquet")
    # without the time, whose bytes decide what else of these could be a header line
    (folder / "packed.gz").write_bytes(gzip.compress((folder / "sales.parquet").read_bytes(), mtime=0))
    for name in ("sales.parquet", "packed.gz"):
        forks.succeeded("sketch", name, *options, cwd=folder)
        assert load_raw(folder / "a.raw-sketch").state == expected()
        (folder / "a.raw-sketch").unlink()
    (folder / "packed.gz").rename(folder / "packed.data")
    assert "packed.data cannot be read as CSV" in forks.refused("sketch", "packed.data", *options, cwd=folder)


def test_one_event_is_told_in_the_singular(folder: Path, forks: Forks) -> None:
    (folder / "one.csv").write_text("shop,item,aisle,amount\nnorth,pears,1,2\n")
    done = forks.run("sketch", "one.csv", *EVENTS, "--projection", "agreed.json", "-o", "one.raw-sketch", cwd=folder)
    assert done.stderr.startswith("one.raw-sketch, secret: 1 event of 1 key. ")


def test_arrows_threads_hold_nothing_of_pythons(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sales.csv.gz").write_bytes(gzip.compress((folder / "sales.csv").read_bytes()))
    monkeypatch.setattr(
        "streamsketch.core.libraries.pa.PythonFile", None
    )  # it keeps what it reads of pyarrow: so it is first
    monkeypatch.setattr(pa, "PythonFile", None)
    read: list[int] = []
    for name in ("sales.csv", "sales.csv.gz", "sales.jsonl", "sales.parquet"):
        agreement = ss.Agreement.of(PROJECTION, key="shop", index=["item", "aisle"], value="amount")
        (batch,) = RowReader(agreement).batches(folder / name, read.append)
        assert batch.num_rows == 4
    assert read, "progress is told all the same"


def test_a_mistake_in_a_file_ends_the_process_before_the_interpreter_ends() -> None:
    # Arrow's threads may still hold bytes of Python's then, and letting go of them aborted one process in five
    script = (
        "import atexit, sys, streamsketch as ss, streamsketch.cli.app as cli\n"
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


CLOSED = "import os, sys; os.close(0); sys.stdin = None"  # as Python starts where it is closed
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"


@pytest.mark.parametrize(
    ("arguments", "before", "message"),
    [
        (["-", "--set", "format=csv"], CLOSED, "standard input (-) is closed; there is nothing to read"),
        (["sales.csv"], FULL, "a.raw-sketch cannot be read or written: disk I/O error"),
    ],
)
def test_standard_input_that_is_closed_and_a_full_disk_end_in_a_sentence(
    arguments: list[str], before: str, message: str, folder: Path, forks: Forks
) -> None:
    sketch = ["sketch", "--index", "item", "--projection", "agreed.json", "-o", "a.raw-sketch", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with forks.started(sketch, folder, before, **pipes) as running:
        assert (running.stdout.read(), running.stderr.read()) == (b"", f"error: {message}\n".encode())
        assert running.wait(PATIENCE) == 2
    assert not list(folder.glob("*a.raw-sketch*"))


def test_sketch_refuses_what_it_cannot_sketch(folder: Path, forks: Forks) -> None:
    save_raw(RawSketch(PROJECTION.sketch()), folder / "there.raw-sketch")
    (folder / "bad.csv").write_text("shop,item,aisle,amount\nx,y,1,lots\n")
    (folder / "sales.txt").write_text((folder / "sales.csv").read_text())
    (folder / "twice.csv").write_text("item,item\nx,y\n")
    (folder / "twice.csv.gz").write_bytes(gzip.compress(b"item,item\nx,y\n"))
    (folder / "bad.jsonl").write_text('{"shop": "x", "item": "y", "aisle": 1, "amount": NaN}\n')
    gaps = {"shop": ["x", None], "item": ["y", "z"], "aisle": [1, 2], "amount": [1.0, 2.0]}
    pq.write_table(pa.table(gaps), folder / "gaps.parquet")
    agreed = ["--projection", "agreed.json"]
    out = ["-o", "a.raw-sketch"]
    for arguments, message in [
        (["nowhere.csv", *EVENTS, *agreed, *out], "nowhere.csv does not exist"),
        (
            ["sales.csv", "--index", "colour", *agreed, *out],
            "sales.csv has no column colour: CSV must begin with a header",
        ),
        (
            ["sales.parquet", "--index", "colour", *agreed, *out],
            "has no column colour; the names of its other",
        ),
        (["sales.csv", *out], "Missing option '--agreement'"),
        (["sales.csv", *EVENTS, *agreed, "-o", "there.raw-sketch"], "already exists and is not replaced"),
        (["sales.csv", *EVENTS, *agreed, "-o", "there.raw-sketch", "--append"], "follow no agreement"),
        (["sales.csv", *EVENTS, *agreed, "-o", "a.sketch"], "named *.raw-sketch, got a.sketch"),
        (["sales.csv", *EVENTS, *agreed, "-o", "no/a.raw-sketch"], "there is no folder no"),
        (["bad.csv", *EVENTS, *agreed, *out], "plain decimal numbers"),
        (["gaps.parquet", *EVENTS, *agreed, *out], "the column shop has nulls (1 of 2 rows read together)"),
        (["sales.txt", *EVENTS, *agreed, *out], "as it is read as lines of text. If it is CSV, "),
        (["sales.txt", *EVENTS, *agreed, *out], "--set format=csv"),
        (["twice.csv", "--index", "item", *agreed, *out], "twice.csv has item more than once"),
        (["twice.csv.gz", "--index", "item", *agreed, *out], "twice.csv.gz has item more than once"),
        (["bad.jsonl", *EVENTS, *agreed, *out], "line 1 of bad.jsonl"),
        (["-", *EVENTS, *agreed, *out], "state what standard input is: --set format=csv"),
        (["-", "sales.csv", *EVENTS, *agreed, *out], "is read alone"),
        (["agreed.json", *EVENTS, *agreed, *out], "is not a Parquet file"),
    ]:
        assert message in forks.refused("sketch", *arguments, cwd=folder)


def test_more_keys_than_a_raw_file_holds_are_refused_before_memory_is_filled(folder: Path, forks: Forks) -> None:
    wide = ss.CountSketch(sketch_dim=1 << 24, seed=3)
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
