"""``demo --warmup`` compiles what later commands and workers need."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import caching, config

from streamsketch.cli import _warmup, _workload
from streamsketch.core import jit
from streamsketch.core.jit import kernel
from tests.cli.running import ENVIRONMENT, ROOT, Forks

SOURCE = "def successor(x):\n    return x + 1\n"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the workload be one kernel, and return the folder for its machine code."""
    source = tmp_path / "tiles.py"  # as one of the library's
    source.write_text(SOURCE)
    names: dict[str, object] = {}
    exec(compile(SOURCE, source, "exec"), names)  # noqa: S102 - the line above
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(jit, "_COMPILED", [])
    monkeypatch.setattr(_workload, "STEPS", {"toy": lambda: kernel(names["successor"])(1)})  # type: ignore[arg-type]
    monkeypatch.setattr(_warmup, "STEPS", {"toy": None})
    return tmp_path / "kept"


def test_it_compiles_once_and_states_where_and_how_much(toy: Path, forks: Forks) -> None:
    first, second = (json.loads(forks.succeeded("demo", "--warmup", "--json")) for _ in range(2))
    assert (first["compiled"], second["compiled"]) == (1, 0)
    assert first["kernels"] == second["kernels"] == 1
    (folder,) = toy.iterdir()
    assert first["folder"] == str(folder)
    assert first["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    shown = forks.run("demo", "--warmup")
    assert shown.stderr == ""
    assert "0 in" in shown.stdout
    assert str(folder) in shown.stdout


@pytest.mark.usefixtures("toy")
def test_it_announces_that_it_compiles(forks: Forks) -> None:
    assert forks.run("demo", "--warmup").stderr == "compiling kernels, once, about a minute …\n"


@pytest.mark.usefixtures("toy")
def test_it_refuses_where_no_folder_is_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> None:
    def refuse(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    monkeypatch.setitem(ENVIRONMENT, "NUMBA_CACHE_DIR", "/read-only")
    said = forks.refused("demo", "--warmup", cwd=tmp_path)
    assert "neither NUMBA_CACHE_DIR (/read-only), the package's own" in said
    assert "Set NUMBA_CACHE_DIR to a folder that is" in said


@pytest.mark.tools
def test_every_step_runs_and_compiles_nothing_the_second_time(forks: Forks) -> None:
    forks.succeeded("demo", "--warmup")
    again = json.loads(forks.succeeded("demo", "--warmup", "--json"))
    assert again["compiled"] == 0
    assert again["kernels"] > 150


def kernels() -> set[str]:
    """Return the names of all functions that are kernels by their decorator."""
    found = set()
    for name in jit.SOURCES:
        for node in ast.walk(ast.parse((ROOT / "streamsketch" / name).read_text(encoding="utf-8"))):
            decorators = {getattr(each, "id", "") for each in getattr(node, "decorator_list", ())}
            if decorators & {"kernel", "plain_kernel"}:
                found.add(f"{Path(name).stem}.{node.name}")  # type: ignore[attr-defined]
    return found


@pytest.mark.long
def test_it_compiles_every_kernel_and_leaves_commands_none(tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "streamsketch", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)  # noqa: S603

    assert "warning" not in run("demo", "--warmup").stderr
    assert kernels() <= {file.name.partition("-")[0] for file in tmp_path.rglob("*.nbi")}
    before = set(tmp_path.rglob("*.nbc"))
    assert "compiling" not in run("demo", "-o", "all.parquet").stderr
    assert "compiling" not in run("report", "all.parquet", "-o", "page.html").stderr
    assert set(tmp_path.rglob("*.nbc")) == before
