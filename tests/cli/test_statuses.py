"""How commands end: the exit status, and what a program reads of a mistake with --json."""

import contextlib
import json
import shlex
import sqlite3
import sys
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.cli._saying import be_quiet
from streamsketch.cli._showing import progress_bar
from streamsketch.parties import Key, sign
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import Forks
from tests.cli.test_help import COMMANDS, help_at

GOAL = "plan streams --epsilon 1 --squared-distance 4000 --relative-error"
STATUSES = {
    "party verify signed.sketch --signer north.pub": 0,
    "party verify changed.sketch --signer north.pub": 1,
    "party verify signed.sketch --signer south.pub": 1,
    "party verify bare.sketch --signer north.pub": 1,
    "party verify signed.sketch changed.sketch --signer north.pub": 1,
    "party verify missing.sketch --signer north.pub": 2,
    "party verify signed.sketch": 2,
    "party verify": 2,
    "ledger audit intact.db": 0,
    "ledger audit intact.db --receipt 9:" + 64 * "0": 1,
    "ledger audit changed.db": 1,
    "ledger audit missing.db": 2,
    "ledger audit intact.db --receipt 9": 2,
    f"{GOAL} 0.5": 0,
    f"{GOAL} 0.001": 1,
    f"{GOAL} none": 2,
    "release once.raw-sketch --epsilon 1 --l1 1 --dry-run": 0,
    "release twice.raw-sketch --epsilon 1 --l1 1 --dry-run": 1,
    "release missing.raw-sketch --epsilon 1 --l1 1 --dry-run": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("statuses")
    keys = {name: Key.generate(name) for name in ("north", "south")}
    for name, key in keys.items():
        (made / f"{name}.pub").write_text(f"{key.public.to_text()}\n")
    sketch = ss.CountSketch(sketch_dim=8, seed=1).sketch()
    for name in ("signed", "changed", "bare"):
        sketch.release(epsilon=1, neighbours=ss.L1(1)).save(made / f"{name}.sketch")
    for name in ("signed", "changed"):
        sign(made / f"{name}.sketch", keys["north"])
    (made / "changed.sketch").write_bytes((made / "bare.sketch").read_bytes())
    for name in ("intact", "changed"):
        book = ss.Ledger(str(made / f"{name}.db"))
        book.dataset("sales", unit="event", epsilon=3)
        book.charge("sales", sketch.release(epsilon=1, neighbours=ss.L1(1)).guarantee, note="first")
    with contextlib.closing(sqlite3.connect(made / "changed.db")) as database, database:
        database.execute("update streamsketch_ledger set body = replace(body, 'first', 'other')")
    for name in ("once", "twice"):
        own = ss.CountSketch(sketch_dim=8, seed=1).sketch()
        save_raw(RawSketch(own, 1), made / f"{name}.raw-sketch")
    ss.storage.release_raw(made / "twice.raw-sketch", epsilon=1, neighbours=ss.L1(1))
    return made


@pytest.mark.parametrize(("call", "status"), STATUSES.items())
def test_the_status_says_whether_it_is_done_or_no_or_a_mistake(
    call: str, status: int, folder: Path, forks: Forks
) -> None:
    done = forks.run(*shlex.split(call), cwd=folder)
    assert done.returncode == status, done
    for_programs = forks.run(*shlex.split(call), "--json", cwd=folder)
    assert for_programs.returncode == status
    said = [json.loads(line) for line in for_programs.stderr.splitlines()]
    if status < 2:
        assert json.loads(for_programs.stdout), "an answer is a result, also if it is no"
    else:
        assert for_programs.stdout == ""
        assert "error" in said[-1]
        assert done.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("path", COMMANDS)
def test_with_json_every_command_prints_json_or_an_error_as_json(path: str, forks: Forks, tmp_path: Path) -> None:
    wrong = forks.run(*path.split(), "--json", "--fast", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    (line,) = wrong.stderr.splitlines()
    assert json.loads(line)["error"]["kind"] == "usage"
    if path == "demo":  # which has tests of its own
        return
    example = shlex.split(help_at(path).examples[0])[1:]
    done = forks.run(*path.split(), "--json", *example[len(path.split()) :], cwd=tmp_path)
    said = [json.loads(line) for line in done.stderr.splitlines()]
    if done.returncode == 0:
        assert json.loads(done.stdout)
    else:  # the files of the example are not there
        assert (done.returncode, done.stdout) == (2, "")
        assert set(said[-1]["error"]) == {"kind", "message"}


def test_quiet_leaves_out_notes_but_no_warning_error_or_reason(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item\ntea\n")
    for output, flags in (("a", ()), ("b", ("--quiet",)), ("c", ("-q", "--json"))):
        written = ("-o", f"{output}.raw-sketch", *flags)
        done = forks.run("sketch", "items.csv", "--index", "item", *written, cwd=tmp_path)
        assert done.returncode == 0
        assert bool(done.stderr) == (not flags), "the note that it is written, and nothing else"
    (raw,) = forks.run("compare", "a.raw-sketch", "a.raw-sketch", "--raw", "-q", cwd=tmp_path).stderr.splitlines()
    assert raw.startswith("error: ")
    (secret,) = forks.run(
        "frequency", "a.raw-sketch", "--raw", "--items", "tea", "-q", cwd=tmp_path
    ).stderr.splitlines()
    assert secret.startswith("warning: raw sketches took part")
    (missed,) = forks.run(*GOAL.split(), "0.001", "-q", cwd=tmp_path).stderr.splitlines()
    assert missed.startswith("The goal is missed")
    assert forks.run("demo", "-o", "a.csv", "-q", cwd=tmp_path).stderr.startswith("error: ")


def test_quiet_draws_no_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    drawn = []
    for quiet in (True, False):  # and as it was for later commands of this process
        be_quiet(quiet)
        with progress_bar() as bar:
            drawn.append(type(bar).__name__)
    assert drawn == ["_NoBar", "Progress"]
