"""Where code lives: folders in one order, imports that point one way, nothing heavy loaded at the door."""

import ast
import functools
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import streamsketch

ROOT = Path(streamsketch.__file__).parent

# A folder may import those above it: what comes later knows what comes before, never the reverse.
ORDER = [
    "_version",
    "_lazy",
    "errors",
    "core",
    "data",
    "projections",
    "privacy",
    "agreement",
    "intake",
    "sketching",
    "release",
    "storage",
    "streams",
    "estimation",
    "signs",
    "local",
    "parties",
    "wire",
    "planning",
    "explanation",
    "report",
    "integrations",
    "conformance",
    "beam",
    "cli",
    "__main__",
]
# What hands an object on to a later folder or file, which it imports when it is called.
HANDED_ON = {
    "projections.base.Projection.sketch",
    "projections.base.Projection.table",
    "projections.base.projection_from_fields",
    "sketching.sketch.Sketch.release",
    "sketching.table.SketchTable.release",
    "release.published._wire",
    "release.published.Published.explain",
}
TYPES_ONLY = "if TYPE_CHECKING"
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "wire_pb2.py")


class Import(NamedTuple):
    """One imported name, and the function that imports it, "" for the module, or `TYPES_ONLY`."""

    module: str
    name: str
    where: str


def name_of(path: Path) -> str:
    """Return a module's dotted name below the package; of a folder that of the folder itself."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


NAMES = {name_of(path) for path in MODULES} | {"wire.wire_pb2"}


def folder(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path: Path) -> list[Import]:
    """Return the imports from this package, lazy ones of the ``__init__`` included."""
    found: list[Import] = []

    def walk(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{where}.{child.name}".lstrip(".")
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                inside = TYPES_ONLY
            if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "streamsketch":
                module = (child.module or "").removeprefix("streamsketch").removeprefix(".")
                found.extend(Import(module, alias.name, inside) for alias in child.names)
            if isinstance(child, ast.Import):
                names = [alias.name.removeprefix("streamsketch.") for alias in child.names]
                found.extend(Import("", name, inside) for name in names if name in NAMES)
            walk(child, inside)

    walk(tree(path), "")
    return found


def public_names(of: str) -> dict[str, str]:
    """Return where each public name of a folder, "" for the package, comes from, as the stub beside it says."""
    stub = ROOT / of / "__init__.pyi"
    if not stub.exists():
        return {}
    homes = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1, stub
            base = ".".join(part for part in (of, node.module) if part)
            for alias in node.names:
                homes[alias.name] = f"{base}.{alias.name}" if f"{base}.{alias.name}" in NAMES else base
    return homes


PUBLIC = {each: public_names(each) for each in ORDER if (ROOT / each).is_dir()}


def target(found: Import) -> str:
    """Return the module that an import reaches."""
    nested = f"{found.module}.{found.name}".lstrip(".")
    if nested in NAMES:
        return nested
    return PUBLIC.get(found.module, {}).get(found.name, found.module)


def test_every_folder_has_its_place() -> None:
    assert {folder(name_of(path)) for path in MODULES} - {""} == set(ORDER)


def test_imports_point_one_way() -> None:
    for here, found in ((name_of(path), found) for path in MODULES for found in imports(path)):
        if found.module == "" and found.name not in NAMES:
            assert folder(here) in {"cli", "beam", "conformance"}, f"{here}: only what users run imports as users do"
            continue
        there = target(found)
        is_handed_on = f"{here}.{found.where}" in HANDED_ON or found.where == TYPES_ONLY
        if here == "":
            assert there == "_lazy", "the package itself imports nothing"
        elif ORDER.index(folder(there)) > ORDER.index(folder(here)):
            assert is_handed_on, f"{here} imports {there}"


def test_folders_are_crossed_by_public_names_only() -> None:
    for module, found in ((name_of(path), found) for path in MODULES for found in imports(path)):
        here = folder(module)
        if found.module == "" and "." in found.name:
            assert folder(found.name) == here, f"{module}: {found.name}"
        if found.module and folder(found.module) not in {here, "errors", "_version", "_lazy"}:
            assert found.name in PUBLIC.get(found.module, {}), f"{module}: {found.module}.{found.name}"


def test_no_imports_go_in_circles() -> None:
    """Deferred ones included, but for those that hand an object on."""
    graph = {
        name_of(path): {
            target(found)
            for found in imports(path)
            if found.where != TYPES_ONLY and f"{name_of(path)}.{found.where}" not in HANDED_ON
        }
        for path in MODULES
    }
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module not in done:
            for there in sorted(graph.get(module, ())):
                visit(there, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])


def test_few_methods_hand_on() -> None:
    """Each of them is there."""
    deferred = {f"{name_of(path)}.{found.where}" for path in MODULES for found in imports(path)}
    assert deferred >= HANDED_ON
    assert len(HANDED_ON) <= 7


def test_public_names_are_there_and_listed_once() -> None:
    for each, homes in PUBLIC.items():
        stub = ROOT / each / "__init__.pyi"
        if stub.exists():
            module = __import__(f"streamsketch.{each}", fromlist=["_"])
            assert sorted(module.__all__) == sorted(homes)
            assert all(hasattr(module, name) for name in module.__all__)


def test_projections_and_privacy_do_not_know_each_other() -> None:
    for path in MODULES:
        here = folder(name_of(path))
        for found in imports(path):
            assert {here, folder(found.module)} != {"projections", "privacy"}, path


def foreign(path: Path) -> set[str]:
    """Return the dotted names of all modules that a module imports, and of what it imports from them."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_only_beam_imports_beam() -> None:
    for path in MODULES:
        if folder(name_of(path)) != "beam":
            assert not any(module.startswith("apache_beam") for module in foreign(path)), path


def test_noise_never_comes_from_numpy_or_the_random_module() -> None:
    for path in MODULES:
        assert "np.random" not in path.read_text(encoding="utf-8"), path
        assert not foreign(path) & {"random", "numpy.random"}, path


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, streamsketch; "
        "heavy = {'numpy', 'numba', 'scipy', 'pyarrow', 'google.protobuf', 'apache_beam', 'typer', 'matplotlib'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "[]"


def test_updates_by_integers_load_no_arrow() -> None:
    code = (
        "import sys, numpy, streamsketch as ss; "
        "sketch = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=1).sketch(); "
        "sketch.update(numpy.arange(9), 1); sketch.update(5, 2); "
        "print({'pyarrow', 'cryptography', 'google.protobuf'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "set()"


def test_every_public_name_is_there_and_documented() -> None:
    for name in streamsketch.__all__:
        thing = getattr(streamsketch, name)
        if callable(thing):
            assert thing.__doc__, name
    assert set(dir(streamsketch)) == set(streamsketch.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="sketchy"):
        streamsketch.sketchy  # noqa: B018
