"""Machine code is read from any folder that has it, and written where it can be."""

import importlib.util
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching, config

from streamsketch.core import jit
from streamsketch.core.kernel_cache import announce_compiling, before_compiling

SOURCE = "def successor(x):\n    return x + 1\n"
FOLDERS = ("given", "beside", "user")


class Machine:
    """Folders for machine code of one kernel, of which some are writable; each load is as in a new process."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source = folder / "package" / "module.py"
        self.source.parent.mkdir()
        self.source.write_text(SOURCE)
        self.folders = dict(zip(FOLDERS, (folder / "given", self.source.parent, folder / "home"), strict=True))
        self.is_given, self.writable = False, set(FOLDERS)
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.folders["user"]))
        self._patch = monkeypatch
        ensure = caching._CacheLocator.ensure_cache_path

        def ensured(locator: Any) -> None:  # as the system does, but for root
            if not any(self.folders[name] in Path(locator.get_cache_path()).parents for name in self.writable):
                raise PermissionError
            ensure(locator)

        monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", ensured)

    def compiles(self) -> bool:
        """Call the kernel, and return whether it was compiled."""
        self._patch.setattr(config, "CACHE_DIR", str(self.folders["given"]) if self.is_given else "")
        compiled: list[Any] = []
        with before_compiling(compiled.append):
            assert self.load()(1) == 2
        return bool(compiled)

    def load(self) -> Callable[[int], int]:
        spec = importlib.util.spec_from_file_location("module", self.source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return jit.kernel(module.successor)

    def filled(self) -> set[str]:
        return {name for name, folder in self.folders.items() if any(folder.rglob("*.nbc"))}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_code_is_kept_under_the_stamp_of_all_sources(machine: Machine) -> None:
    """Numba's index of a kernel's machine code has its own version, and then the stamp and what was compiled."""
    assert machine.compiles()
    (index,) = machine.folders["beside"].rglob("*.nbi")
    with index.open("rb") as file:
        pickle.load(file)  # noqa: S301 - our own bytes
        stamp, compiled = pickle.loads(file.read())  # noqa: S301 - as above
    assert len(compiled) == 1
    assert stamp == jit.sources_stamp()


@pytest.mark.parametrize(
    ("is_given", "writable", "filled"),
    [
        (False, {"beside", "user"}, {"beside"}),
        (False, {"user"}, {"user"}),
        (False, set(), set()),
        (True, {"given", "beside", "user"}, {"given"}),
        (True, {"beside", "user"}, {"beside"}),
    ],
)
def test_code_is_written_to_the_first_writable_folder(
    machine: Machine,
    is_given: bool,  # noqa: FBT001 - of the table
    writable: set[str],
    filled: set[str],
) -> None:
    machine.is_given, machine.writable = is_given, writable
    assert machine.compiles()
    assert machine.filled() == filled
    assert machine.compiles() == (not filled), "at every start, where no folder keeps it"


@pytest.mark.parametrize("by", ["beside", "given"])
@pytest.mark.parametrize("then", [set(), {"user"}])
def test_code_is_read_from_a_folder_that_became_read_only(machine: Machine, by: str, then: set[str]) -> None:
    """As an image, whose build compiles and whose containers may write nothing, or run as another user."""
    machine.is_given, machine.writable = by == "given", {by}
    assert machine.compiles()
    machine.writable = then
    assert not machine.compiles()
    assert machine.filled() == {by}


def test_a_copy_with_other_times_has_the_same_code(machine: Machine) -> None:
    machine.writable = {"beside"}
    assert machine.compiles()
    machine.source.touch()
    assert not machine.compiles()


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_file_is_written_anew(machine: Machine, kind: str) -> None:
    machine.compiles()
    (file,) = machine.folders["beside"].rglob(f"*.{kind}")
    file.write_bytes(file.read_bytes()[:20])
    assert machine.compiles()
    assert not machine.compiles()


@pytest.mark.parametrize("call", ["load_overload", "save_overload"])
def test_a_file_that_the_system_refuses_is_no_error(
    machine: Machine, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's, or on a full disk."""
    if call == "load_overload":
        machine.compiles()

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(caching.FunctionCache, call, refuse)
    assert machine.compiles()


@pytest.mark.parametrize(
    ("writable", "before", "said"),
    [
        ({"beside"}, "", "compiling kernels, once, about 10 s …"),
        ({"beside"}, "other.nbi", "compiling kernels, once …"),
        (set(), "", "at this start and each other: no folder for them is writable"),
    ],
)
def test_the_first_compilation_is_announced_once(machine: Machine, writable: set[str], before: str, said: str) -> None:
    machine.writable = writable
    if before:
        (machine.source.parent / "__pycache__").mkdir()
        (machine.source.parent / "__pycache__" / before).touch()
    sentences: list[str] = []
    with announce_compiling(sentences.append):
        kernel = machine.load()
        assert not sentences, "it is loaded, and not called"
        kernel(1)
        kernel(1.5)  # type: ignore[arg-type]
    (sentence,) = sentences
    assert said in sentence


def test_nothing_is_announced_where_all_is_compiled(machine: Machine) -> None:
    machine.compiles()
    sentences: list[str] = []
    with announce_compiling(sentences.append):
        machine.load()(1)
    assert not sentences
