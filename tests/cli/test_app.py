"""The command as a whole: help, completion, the demo, and how it ends."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.cli import app as program
from tests.cli.running import ENVIRONMENT, Forks, open_when_read, streamsketch
from tests.cli.sentences import FILE, FOLDER, sentences, text
from tests.cli.test_help import COMMANDS as PATHS
from tests.cli.test_help import GROUPS
from tests.patience import PATIENCE


def test_version_and_help(tmp_path: Path, forks: Forks) -> None:
    assert streamsketch("--version", cwd=tmp_path) == (0, f"{ss.__version__}\n", "")  # as a shell starts it
    assert forks.run("--version", cwd=tmp_path) == (0, f"{ss.__version__}\n", "")
    for path in PATHS:
        if path.rpartition(" ")[2] not in {"export", "watch", "publish"}:  # JSON lines; what goes on for ever
            assert "--json" in forks.run(*path.split(), "--help", cwd=tmp_path).stdout
    assert "No such command 'skech'" in forks.refused("skech", cwd=tmp_path)


def test_what_is_said_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys\n"
        "from streamsketch.cli.app import main\n"
        "sys.argv[1:] = {!r}\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    for arguments in (["--version"], ["--help"], ["more"]):
        command = [sys.executable, "-c", code.format(arguments)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)  # noqa: S603
        imported = set(done.stdout.splitlines()[-1].split())
        assert "typer" in imported
        assert imported.isdisjoint({"numpy", "numba", "pyarrow", "scipy", "google.protobuf"})
        commands = {name.rpartition(".")[2] for name in imported if name.startswith("streamsketch.cli.")}
        assert commands == {"app", "_help", "_pages", "_saying", "_sentences", "_values"}


RUN_AND_END = """
import atexit, sys
from streamsketch.cli.app import run_and_end
atexit.register(lambda: print("cleaned up", flush=True))
sys.argv[1:] = {!r}
run_and_end()
"""


def test_a_process_of_a_command_ends_with_its_status_and_all_that_it_printed() -> None:
    """As by the installed script, which skips the interpreter's own end."""
    for arguments, status, said in (
        (["--version"], 0, ss.__version__),
        (["plan", "--help"], 0, "Usage"),
        (["skech"], 2, "No such command"),
        (["explain", "nothing.sketch"], 2, "does not exist"),
    ):
        command = [sys.executable, "-c", RUN_AND_END.format(arguments)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)  # noqa: S603
        assert done.returncode == status, arguments
        assert said in done.stdout + done.stderr


def test_an_end_of_a_command_cleans_up_and_tells_of_output_that_is_lost() -> None:
    command = [sys.executable, "-c", RUN_AND_END.format(["--version"])]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.splitlines() == [ss.__version__, "cleaned up"]
    full = Path("/dev/full")
    if full.exists():
        with full.open("wb") as nowhere:
            lost = subprocess.run(command, env=ENVIRONMENT, stdout=nowhere, stderr=subprocess.PIPE, check=False)  # noqa: S603
        assert lost.returncode != 0
        assert b"No space left" in lost.stderr


def test_every_file_of_the_folder_is_a_command_or_a_group_and_each_function_one() -> None:
    read = sentences()
    assert set(read) == set(PATHS)
    assert {path.stem for path in FOLDER.glob("[!_]*.py")} - {"app"} == {
        name.replace(" ", "_").replace("-", "_") for name in (*GROUPS, *(path for path in PATHS if " " not in path))
    }
    assert FILE.read_text(encoding="utf-8") == text(), "run `python -m tests.cli.sentences`, and commit it"


def test_the_demo_is_right_about_itself_and_writes_nothing(tmp_path: Path, forks: Forks) -> None:
    result = json.loads(forks.succeeded("demo", "--json", cwd=tmp_path))
    assert len(result["pairs"]) == 45
    covered = sum(pair["low"] <= pair["exact"] <= pair["high"] for pair in result["pairs"])
    assert covered == result["inside"]
    for pair in result["pairs"]:  # wrong once in 10^9 at most, though the projection is one
        assert abs(pair["cosine"] - pair["exact"]) < 7 * pair["standard_error"]
    assert list(tmp_path.iterdir()) == []


def test_the_demo_prints_a_table_that_fits_and_writes_releases_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", "80")
    monkeypatch.setitem(ENVIRONMENT, "FORCE_COLOR", "1")  # as on a terminal
    done = forks.run("demo", "-o", "all.parquet", cwd=tmp_path)
    assert "ε = 1, δ = 0 for one word of at most 1 (L1)" in done.stdout
    assert "\\n" not in done.stdout
    assert sum(bool(re.search(r"….* (yes|no) ", line)) for line in done.stdout.splitlines()) == 10, "none is folded"
    assert len(ss.load(tmp_path / "all.parquet")) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sketch", "--nope"], "No such option: --nope. See"),
        (["release", "--zone", "UTC"], "No such option: --zone. See"),
        (["agree", "--sketch-l1", "2"], "--sketch-l2)"),
        (
            ["sketch", "a.csv", "--seed", "3"],
            "No such option: --seed. An agreement says that: `streamsketch agree`",
        ),
        (["agree", "--seed", "3"], "No such option: --seed. Write --set seed=NUMBER"),
        (["choose-bound", "a.csv", "--norm", "l2"], "No such option: --norm. An agreement says that"),
        (["sketch", "a.csv", "--policy", "p.json"], "are released by `streamsketch stream file`, or `stream pipe`"),
        (["compare", "a", "b", "--by", "cosin"], "Did you mean cosine? See"),
        (["compare", "a", "b", "--by", "xyz"], "Invalid value for '--by': 'xyz' is not one of"),
    ],
)
def test_only_close_names_are_suggested(arguments: list[str], said: str, forks: Forks, tmp_path: Path) -> None:
    told = forks.refused(*arguments, cwd=tmp_path)
    assert said in told
    assert "Value error" not in told


def test_the_demo_refuses_to_write_over_anything(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "all.parquet").touch()
    assert "already exists" in forks.refused("demo", "-o", "all.parquet", cwd=tmp_path)
    assert "named *.parquet" in forks.refused("demo", "-o", "all.sketch", cwd=tmp_path)
    assert "there is no folder" in forks.refused("demo", "-o", "no/all.parquet", cwd=tmp_path)
    assert "No such option: --fast" in forks.refused("demo", "--fast", cwd=tmp_path)
    assert "unexpected extra argument" in forks.refused("demo", "asyncio", cwd=tmp_path)


@pytest.mark.parametrize(("arguments", "said"), [([], ["compiling …"]), (["--json"], [])])
def test_compiling_is_announced_but_to_programs(
    arguments: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks
) -> None:
    def announce(say: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
        say("compiling …")
        return contextlib.nullcontext()

    monkeypatch.setattr(program, "announce_compiling", announce)
    assert forks.run("party", "key", "show", "missing", *arguments, cwd=tmp_path).stderr.splitlines()[:-1] == said


def test_a_shell_completes_commands_and_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> None:
    def completed(words: str) -> list[str]:
        monkeypatch.setitem(ENVIRONMENT, "COMP_WORDS", words)
        monkeypatch.setitem(ENVIRONMENT, "COMP_CWORD", str(len(words.split()) - 1))
        return forks.run(cwd=tmp_path).stdout.split()

    monkeypatch.setitem(ENVIRONMENT, "_STREAMSKETCH_COMPLETE", "complete_bash")
    assert completed("streamsketch rel") == ["release"]
    assert completed("streamsketch compare --by me") == ["mean"]


def test_a_pipe_that_closes_early_is_no_mistake(tmp_path: Path, forks: Forks) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with forks.started(["demo", "--json"], tmp_path, stdout=writer, stderr=subprocess.PIPE) as running:
        os.close(writer)
        assert running.stderr.read() == b""
        assert running.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_an_interrupt_ends_a_command_without_a_traceback(tmp_path: Path, forks: Forks) -> None:
    os.mkfifo(tmp_path / "endless.csv")
    (tmp_path / "p.json").write_text(ss.CountSketch(sketch_dim=8, seed=1).to_json())
    command = ["sketch", "endless.csv", "--index", "a", "--projection", "p.json", "-o", "a.raw-sketch"]
    with forks.started(command, tmp_path, stderr=subprocess.PIPE) as running:
        with open_when_read(tmp_path / "endless.csv", running):  # it is past its imports
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE) == 130
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert not (tmp_path / "a.raw-sketch").exists()
