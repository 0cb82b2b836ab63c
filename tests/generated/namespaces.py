"""What each namespace shows: the names with an entry on a page of the reference, and nothing else.

A public name is entered once, as a directive (``.. autofunction:: streamsketch.release.release_vector``) on its page.
The stubs ``__init__.pyi``, which make names load on first use, are written from the pages. A name that a page documents
at the root, such as ``streamsketch.Ledger``, is shown by the root and by the folder that defines it, if that is a
namespace, too.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streamsketch"
REFERENCE = ROOT / "docs" / "reference"
PAGES = [*sorted((REFERENCE / "api").glob("*.md")), REFERENCE / "error-messages.md"]
COMMAND = "cli"  # whose one name is the entry point of the command, which pyproject.toml names
_DIRECTIVE = re.compile(r"^\.\. (?:py:)?(currentmodule|module|auto\w+):: (\S+)$", re.MULTILINE)


def documented() -> dict[str, list[str]]:
    """Return the names that pages document in each namespace, "" the root, in the pages' order."""
    names: dict[str, list[str]] = defaultdict(list)
    for page in PAGES:
        current = ""
        for kind, name in _DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind.startswith("auto"):
                full = name if name.startswith("streamsketch.") else f"{current}.{name}"
                namespace, _, last = full.removeprefix("streamsketch").removeprefix(".").rpartition(".")
                names[namespace].append(last)
            else:
                current = name
    return dict(names)


def stub_of(namespace: str) -> Path:
    """Return where the stub of a namespace is, whether there is one or not."""
    return PACKAGE.joinpath(*namespace.split(".")) / "__init__.pyi"


def imports_of(stub: Path) -> dict[str, str]:
    """Return the module, below the stub's folder, of each name that a stub imports; "" of a module."""
    if not stub.exists():
        return {}
    nodes = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in nodes for alias in node.names}


def defined_in(module: Path) -> set[str]:
    """Return the names that a module defines, or lists in its ``__all__``."""
    names: set[str] = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=listed)):
                names |= {str(each.value) for each in listed if isinstance(each, ast.Constant)}
            case ast.Assign(targets=targets):
                names |= {each.id for each in targets if isinstance(each, ast.Name)}
    return names


def home(namespace: str, name: str) -> str:
    """Return the module, below a namespace, that defines a name: the one of the stub, or the only one."""
    stub = stub_of(namespace)
    module = imports_of(stub).get(name)
    if module and stub.parent.joinpath(*module.split(".")).with_suffix(".py").exists():
        return module
    paths = [path for path in sorted(stub.parent.rglob("*.py")) if path.name not in {"__init__.py", "wire_pb2.py"}]
    homes = [
        ".".join(path.relative_to(stub.parent).with_suffix("").parts) for path in paths if name in defined_in(path)
    ]
    if len(homes) != 1:
        where = " and ".join(homes) or "no module"
        sys.exit(
            f"{namespace or 'streamsketch'}.{name}, which a page documents, is defined in {where}. Import it in "
            f"{stub.relative_to(ROOT)} from the module that is meant, and run `make generated` again."
        )
    return homes[0]


def shown() -> dict[str, dict[str, str]]:
    """Return the names of each namespace that is a folder, and the module of each."""
    names = {
        namespace: {name: home(namespace, name) for name in listed}
        for namespace, listed in documented().items()
        if stub_of(namespace).with_suffix(".py").exists()
    }
    for name, module in names[""].items():
        folder, _, inside = module.partition(".")
        if folder in names and inside:
            names[folder][name] = inside
    return names


def stub_text(namespace: str, names: dict[str, str]) -> str:
    """Return the text of a stub, as ruff writes it."""
    lines = [f"from .{module} import {name}" for name, module in names.items()]
    listed = list(names)
    if not namespace:  # the modules that the root shows, and its version
        kept = [name for name, module in imports_of(stub_of("")).items() if module in {"", "_version"}]
        lines += [f"from .{'_version' if name == '__version__' else ''} import {name}" for name in kept]
        listed += kept
    text = "\n".join([*lines, "", f"__all__ = {listed!r}", ""])
    for command in (["check", "--quiet", "--fix-only", "--select", "I,RUF022"], ["format", "--quiet"]):
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(stub_of(namespace)), "-"],
            input=text, capture_output=True, text=True, check=True, encoding="utf-8", cwd=ROOT,
        )  # fmt: skip
        text = done.stdout
    return text


def stubs() -> dict[Path, str]:
    """Return every stub with its text."""
    return {stub_of(namespace): stub_text(namespace, names) for namespace, names in shown().items()}


def superfluous() -> list[Path]:
    """Return the stubs of folders that show no name."""
    wanted = {stub_of(namespace) for namespace in shown()} | {stub_of(COMMAND)}
    return sorted(set(PACKAGE.rglob("__init__.pyi")) - wanted)
