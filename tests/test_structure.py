"""The house: rooms in one order, imports pointing down only, nothing heavy at the door."""

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import streamsketch

ROOT = Path(streamsketch.__file__).parent

# A room may import those above it. What comes later knows what comes before, never the reverse.
ORDER = [
    "_version",
    "errors",
    "core",
    "data",
    "projections",
    "sketching",
    "privacy",
    "release",
    "estimation",
    "planning",
    "signs",
    "local",
    "wire",
    "explanation",
    "report",
    "integrations",
    "conformance",
    "beam",
    "cli",
    "__main__",
]
# Methods that hand an object on to the next room; the import waits inside the method.
HANDED_ON = {
    ("projections", "sketching"),
    ("sketching", "release"),
    ("release", "wire"),
    ("release", "explanation"),
    ("signs", "explanation"),
    ("signs", "wire"),
    ("local", "wire"),
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "wire_pb2.py" and path != ROOT / "__init__.py")


def room(module: str) -> str:
    return module.removeprefix("streamsketch.").split(".")[0]


def imports(path: Path) -> list[tuple[str, bool]]:
    """Return (imported module, whether at the top level of the file and at run time)."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "streamsketch":
                names = [f"streamsketch.{alias.name}" for alias in node.names]
            found += [(name, id(node) in top) for name in names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
    return found


def test_every_room_has_its_place() -> None:
    rooms = {room(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in MODULES}
    assert rooms == set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down_only(path: Path) -> None:
    here = room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for module, at_top in imports(path):
        if not module.startswith("streamsketch."):
            continue
        there = room(module)
        if there not in ORDER:
            continue  # a public name of the package, which the command imports as users do
        if at_top:
            assert ORDER.index(there) <= ORDER.index(here), f"{path.name} imports {module}"
        else:
            assert (here, there) in HANDED_ON or ORDER.index(there) <= ORDER.index(here), f"{path.name}: {module}"


def test_projections_and_privacy_do_not_know_each_other() -> None:
    for path in MODULES:
        here = path.relative_to(ROOT).parts[0]
        for module, _ in imports(path):
            assert not (here == "projections" and module.startswith("streamsketch.privacy")), path
            assert not (here == "privacy" and module.startswith("streamsketch.projections")), path


def test_only_beam_imports_beam() -> None:
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] != "beam":
            assert not any(module.startswith("apache_beam") for module, _ in imports(path)), path


def test_noise_never_comes_from_numpy_or_the_random_module() -> None:
    for path in MODULES:
        text = path.read_text()
        assert "np.random" not in text, path
        assert not any(module in {"random", "numpy.random"} for module, _ in imports(path)), path


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, streamsketch; "
        "heavy = {'numpy', 'numba', 'scipy', 'pyarrow', 'google.protobuf', 'apache_beam', 'typer', 'matplotlib'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_the_wheel_holds_what_is_no_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT.parent, capture_output=True, check=True)  # noqa: S603
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"streamsketch/py.typed", "streamsketch/report/page.css"} <= names
    assert {"streamsketch/conformance/README.md", "streamsketch/conformance/refused.json"} <= names


def test_every_public_name_is_there_and_documented() -> None:
    for name in streamsketch.__all__:
        thing = getattr(streamsketch, name)
        if callable(thing):
            assert thing.__doc__, name
    assert set(dir(streamsketch)) == set(streamsketch.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="sketchy"):
        streamsketch.sketchy  # noqa: B018


def test_no_file_holds_two_rooms() -> None:
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 420, path
