"""Where code lives: folders in one order, imports that point one way, nothing heavy loaded at the door."""

import ast
import functools
import importlib
import json
import pydoc
import subprocess
import sys
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import streamsketch
from tests.generated.namespaces import documented, shown, superfluous

ROOT = Path(streamsketch.__file__).parent

# A folder may import those above it: what comes later knows what comes before, never the reverse.
ORDER = [
    "_version",
    "_lazy",
    "errors",
    "products",
    "core",
    "limits",
    "kernels",
    "data",
    "projections",
    "privacy",
    "accounting",
    "agreement",
    "features",
    "intake",
    "sketching",
    "release",
    "schedules",
    "storage",
    "once",
    "streams",
    "estimation",
    "continual",
    "signs",
    "local",
    "parties",
    "wire",
    "planning",
    "bounding",
    "explanation",
    "auditing",
    "report",
    "integrations",
    "conformance",
    "beam",
    "spark",
    "jobs",
    "cli",
    "__main__",
]
# What hands an object on to a later folder or file, which it imports when it is called.
HANDED_ON = {
    "projections.base._sketches",
    "projections.base.Projection.from_json",
    "projections.base.Projection.transform",
    "agreement.publishing.publishing",
    "release.published._wire",
    "release.published.Published.explain",
    "release.private_sketch._counts",
}
# Methods that name what one of those returns, in their annotations alone.
ANNOTATED = {
    "projections.base.Projection.sketch",
    "projections.base.Projection.table",
    "agreement.agreement.Agreement.sketch",
    "agreement.agreement.Agreement.release",
    "agreement.agreement.Agreement.load_release",
    "sketching.sketch.Sketch.release",
    "sketching.table.SketchTable.release",
    "release.private_sketch.PrivateSketch.explain",
    "release.private_sketch.PrivateSketch.units",
    "release.private_sketch.PrivateSketch.total",
    "signs.sketch.SignSketch.explain",
    "signs.sketch.IndividualSignSketch.explain",
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
            if isinstance(child, ast.expr):  # in which nothing is imported
                continue
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


def names_in(text: str) -> set[str]:
    """Return the names in an annotation written as text; none for other text."""
    try:
        return {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError):
        return set()


@functools.cache
def functions(path: Path) -> dict[str, set[str]]:
    """Return the names that each function and class of a module uses, annotations as text included; "" the module."""
    found: dict[str, set[str]] = {"": set()}

    def walk(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{where}.{child.name}".lstrip(".")
                found.setdefault(inside, set())
            if isinstance(child, ast.Name):
                found[where].add(child.id)
            if isinstance(child, ast.Constant) and isinstance(child.value, str):
                found[where] |= names_in(child.value)
            walk(child, inside)

    walk(tree(path), "")
    return found


@functools.cache
def is_handed_on(path: Path, found: Import) -> bool:
    """Return whether an import belongs to what hands an object on: is made there, or only types its signature."""
    here = name_of(path)
    if found.where == TYPES_ONLY:
        users = {f"{here}.{where}" for where, names in functions(path).items() if found.name in names}
        return users <= HANDED_ON | ANNOTATED
    return f"{here}.{found.where}" in HANDED_ON


SHOWN = {
    namespace: {name: f"{namespace}.{module}".strip(".") for name, module in names.items()}
    for namespace, names in shown().items()
}


def target(found: Import) -> str:
    """Return the module that an import reaches."""
    nested = f"{found.module}.{found.name}".lstrip(".")
    return nested if nested in NAMES else SHOWN.get(found.module, {}).get(found.name, found.module)


def test_every_folder_has_its_place() -> None:
    assert {folder(name_of(path)) for path in MODULES} - {""} == set(ORDER)


def test_imports_point_one_way() -> None:
    """Deferred ones and those of types included, but for what hands an object on."""
    for path, found in ((each, found) for each in MODULES for found in imports(each)):
        here = name_of(path)
        if found.module == "" and found.name not in NAMES:
            assert folder(here) in {"cli", "beam", "conformance"}, f"{here}: only what users run imports as users do"
            continue
        there = target(found)
        if here == "":
            assert there == "_lazy", "the package itself imports nothing"
        elif ORDER.index(folder(there)) > ORDER.index(folder(here)):
            assert is_handed_on(path, found), f"{here} imports {there}"


def test_folders_are_crossed_by_modules_and_public_names_only() -> None:
    """Folders show names to users; the package itself imports each name from the module that has it."""
    for module, found in ((name_of(path), found) for path in MODULES for found in imports(path)):
        here = folder(module)
        if found.module == "" and "." in found.name:
            assert folder(found.name) == here, f"{module}: {found.name}"
        if found.module and folder(found.module) != here:
            assert not found.name.startswith("_") or found.module == "_version", f"{module}: {found.name}"
            assert not any(part.startswith("_") for part in found.module.split(".")[1:]), f"{module}: {found.module}"
        if found.module in SHOWN and found.module:
            reached = f"{found.module}.{found.name}"
            assert reached in NAMES, f"{module}: import {found.name} from {target(found)}"


def circle_in(graph: Mapping[str, set[str]]) -> str:
    """Return modules of which each is imported by the next, the last being the first again; "" for no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " → ".join(error.args[1])
    return ""


def test_a_circle_is_seen() -> None:
    assert not circle_in({"a": {"b"}, "b": {"c"}, "c": set()})
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in {"b → c → b", "c → b → c"}
    assert circle_in({"a": {"a"}}) == "a → a"


def test_no_imports_go_in_circles() -> None:
    """Deferred ones and those of types included, but for what hands an object on."""
    graph = {
        name_of(path): {target(found) for found in imports(path) if not is_handed_on(path, found)} for path in MODULES
    }
    assert not circle_in(graph)


@pytest.mark.parametrize("name", ["pipelines", "benchmarks"])
def test_no_scripts_import_each_other_in_circles(name: str) -> None:
    names = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT.parent / name).rglob("*.py")
    }
    assert not circle_in({module: foreign(path) & names.keys() for module, path in names.items()})


def test_few_methods_hand_on() -> None:
    """Each of them is there."""
    deferred = {f"{name_of(path)}.{found.where}" for path in MODULES for found in imports(path)}
    assert deferred >= HANDED_ON
    assert len(HANDED_ON) <= 7
    assert all(pydoc.locate(f"streamsketch.{name}") for name in ANNOTATED)


def test_namespaces_show_what_their_pages_document() -> None:
    """Stubs are written from the pages by ``make generated``; what they list is there, and nothing else is listed."""
    for namespace, names in SHOWN.items():
        module = importlib.import_module(f"streamsketch.{namespace}".rstrip("."))
        modules = {name for name in dir(module) if isinstance(getattr(module, name), ModuleType)}
        assert set(dir(module)) - ({"__version__"} | modules if not namespace else set()) == set(names), namespace
        assert sorted(dir(module)) == sorted(module.__all__), namespace


def test_the_root_shows_few_names() -> None:
    """What a first program needs; each further name has a page of its namespace."""
    assert len(SHOWN[""]) <= 40
    assert sum(map(len, SHOWN.values())) <= 600


def test_what_moved_from_the_root_is_reached_through_it() -> None:
    """Modules of one file have no folder in which users find them, and arguments of releases are in ``privacy``."""
    files = {namespace for namespace in documented() if (ROOT / f"{namespace}.py").exists()}
    assert files == {"bounding", "errors", "limits"}
    assert files | {"privacy", "estimation", "projections"} <= set(streamsketch.__all__)


def test_folders_without_a_page_show_nothing() -> None:
    assert superfluous() == []


def test_projections_and_privacy_do_not_know_each_other() -> None:
    for path in MODULES:
        here = folder(name_of(path))
        for found in imports(path):
            assert {here, folder(found.module)} != {"projections", "privacy"}, path


@functools.cache
def foreign(path: Path) -> set[str]:
    """Return the dotted names of all modules that a module imports, and of what it imports from them."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_only_jobs_and_beam_import_beam() -> None:
    for path in MODULES:
        if folder(name_of(path)) not in {"beam", "jobs"}:
            assert not any(module.startswith("apache_beam") for module in foreign(path)), path


def test_noise_never_comes_from_numpy_or_the_random_module() -> None:
    for path in MODULES:
        assert "np.random" not in path.read_text(encoding="utf-8"), path
        assert not foreign(path) & {"random", "numpy.random"}, path


# What samples noise outside of what `Ready` calls, and why that publishes no sketch.
OTHER_NOISE = {
    "local": "on a person's own device, which has no exact sums of others",
    "privacy": "the samplers; and what is chosen before a release: keys and a bound",
}
DRAWING = {"release.private_vector._NoiseBeforeMap._cells", "signs.individual.IDPSignRPG.positive"}  # of a _draw


@functools.cache
def calls(path: Path) -> set[tuple[str, str]]:
    """Return the functions of a module, each with a method that it calls."""
    found = set()

    def walk(node: ast.AST, where: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{where}.{child.name}"
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
                found.add((f"{name_of(path)}{inside}", child.func.attr))
            walk(child, inside)

    walk(tree(path), "")
    return found


def test_noise_is_sampled_in_what_ready_calls_alone() -> None:
    """So every guard of `Calibrated.for_data`, or of a round or vector, came before it."""
    sampling = {
        function
        for path in MODULES
        if folder(name_of(path)) not in OTHER_NOISE
        for function, name in calls(path)
        if name in {"sample", "sample_each", "sample_share"}
    }
    assert {function for function in sampling if not function.endswith(("._draw", "._draw_each"))} == DRAWING
    assert len(sampling - DRAWING) >= 2


def test_ready_alone_draws() -> None:
    drawn = {f"release.ready.{kind}.draw" for kind in ("Ready", "ReadyRows", "ReadyKeys")}
    found = {
        function
        for path in MODULES
        if name_of(path) != "streams.stream"  # whose windows are drawn by what is ready
        for function, name in calls(path)
        if name in {"_draw", "_draw_each"}
    }
    others = {"once.draws.DrawSecret.draw", "once.draws.DrawSecret.draw_row"}
    assert found - others - {"release.ready.Calibrated._draw_each"} == drawn


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


HEAVY = {"apache_beam", "jinja2", "llvmlite", "numba", "pandas", "pyarrow", "pydantic", "scipy"}
# What releases of sketches are read without: secrets at rest, ledgers, rows, mechanisms of signs and of local means.
MAKERS = {
    "rich.console",
    "sqlite3",
    "streamsketch.agreement.agreement",
    "streamsketch.intake.rows",
    "streamsketch.local.mechanism",
    "streamsketch.projections.families",
    "streamsketch.release.additive_noise",
    "streamsketch.release.publishers",
    "streamsketch.signs.publishers",
    "streamsketch.sketching.table",
    "streamsketch.storage.database",
}
# What one sketch is shown without: pages, lists of names, several releases together, other maps, tables.
SHOWN_WITHOUT = {
    "csv",
    "html",
    "streamsketch.estimation.joint",
    "streamsketch.estimation.joint_estimate",
    "streamsketch.explanation.joint",
    "streamsketch.privacy.composition",
    "streamsketch.projections.identity",
    "streamsketch.wire.tables",
}
COMMANDS = """
import sys
from streamsketch.cli.app import main

for line, without in {}:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit:
        pass
    loaded = sorted(without & set(sys.modules))
    assert not loaded, f"{{line.split()[0]}} loads {{', '.join(loaded)}}"
print("nothing")
"""


def test_commands_that_read_and_plan_load_nothing_heavy(tmp_path: Path) -> None:
    """Of releases and of a plan: loading what they do not use took most of their time."""
    kit = json.loads(ROOT.joinpath("conformance", "releases.json").read_text(encoding="utf-8"))
    released = {case["name"]: bytes.fromhex(case["bytes"]) for case in kit}
    for name, of in {"a": "sjlt-block, x", "b": "sjlt-block, y"}.items():
        (tmp_path / f"{name}.sketch").write_bytes(released[of])
    lines = [
        ("explain a.sketch", HEAVY | MAKERS | SHOWN_WITHOUT),
        ("compare a.sketch b.sketch --json", HEAVY | MAKERS | SHOWN_WITHOUT),
        ("plan streams --epsilon 1 --delta 1e-6 --squared-distance 1000 --set l1=10 --set events=5000", HEAVY | MAKERS),
        ("party verify --help", HEAVY),
    ]
    command = [sys.executable, "-c", COMMANDS.format(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "nothing"


def test_commands_of_rows_load_no_more_than_kernels_and_arrow(tmp_path: Path) -> None:
    """What Arrow and Numba load for others took a third of the time of a small release."""
    (tmp_path / "rows.csv").write_text("person,item\nAnn,tea\nBob,jam\n", encoding="utf-8")
    unused = {"apache_beam", "cffi", "matplotlib", "pandas", "scipy.linalg", "scipy.stats"}
    rows = "--index item:text --unit-column person --epsilon 1 --delta 1e-6 --set sketch-dim=64"
    lines = [
        (f"agree rows.csv {rows} --output terms.json", unused),
        ("sketch rows.csv --agreement terms.json --output rows.raw-sketch", unused),
        ("release rows.csv --agreement terms.json --output rows.sketch", unused),
    ]
    command = [sys.executable, "-c", COMMANDS.format(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)  # noqa: S603
    assert done.stdout.splitlines()[-1] == "nothing"
    assert (tmp_path / "rows.raw-sketch").exists()
    assert (tmp_path / "rows.sketch").exists()


def test_every_public_name_is_there_and_documented() -> None:
    for name in streamsketch.__all__:
        thing = getattr(streamsketch, name)
        if callable(thing):
            assert thing.__doc__, name
    assert set(dir(streamsketch)) == set(streamsketch.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="sketchy"):
        streamsketch.sketchy  # noqa: B018
