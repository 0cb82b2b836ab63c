"""What to test after a change of a folder: ``make test-for FOLDER=streamsketch/report``, or of a file in it.

These are the folder's own tests and doctests, the tests that import its modules, and those of the structure and of
what can be added (``tests/growth``). A change of what is published, in ``wire``, needs the golden files too.
"""

import ast
import functools
import subprocess
import sys
from pathlib import Path

from tests.generated.namespaces import ROOT

TESTS = ROOT / "tests"
ALWAYS = ("tests/test_structure.py", "tests/test_generated.py", "tests/growth")
GOLDEN = {"wire", "conformance", "projections", "kernels", "data"}  # whose bytes and bits are pinned


@functools.cache
def modules_in(path: Path) -> set[str]:
    """Return the dotted names of the modules that a file imports, and of the names that it imports from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def folder_of(place: str) -> str:
    """Return the folder of the package that a place is in: ``report`` of ``streamsketch/report/page.py``."""
    parts = [part for part in Path(place).parts if part not in {".", "streamsketch"}]
    name = parts[0].removesuffix(".py") if parts else ""
    package = ROOT / "streamsketch"
    if not name or not ((package / name).is_dir() or (package / f"{name}.py").exists()):
        raise SystemExit(f"there is no folder streamsketch/{name}: pass FOLDER=streamsketch/report, or report")
    return name


def chosen(folder: str) -> list[str]:
    """Return the paths of what tests a folder, for pytest."""
    module = f"streamsketch.{folder}"
    users = [
        path
        for path in sorted(TESTS.rglob("test_*.py"))
        if any(name == module or name.startswith(f"{module}.") for name in modules_in(path))
    ]
    own = [path for path in (TESTS / folder, ROOT / "streamsketch" / folder) if path.is_dir()]
    own += [path for path in (ROOT / "streamsketch" / f"{folder}.py",) if path.exists()]
    kept = [path for path in users if not any(path.is_relative_to(place) for place in own)]
    more = [ROOT / place for place in (*ALWAYS, *(["tests/golden"] if folder in GOLDEN else []))]
    kept = [path for path in kept if not any(path.is_relative_to(place) for place in more)]
    return [str(path.relative_to(ROOT)) for path in (*own, *more, *kept)]


def main() -> None:
    """Run pytest on what tests a folder; further arguments are its own."""
    place, *arguments = sys.argv[1:] or [""]
    paths = chosen(folder_of(place))
    print(f"pytest {' '.join(paths)}", flush=True)  # noqa: T201 - a command
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments, *paths], cwd=ROOT, check=False)  # noqa: S603
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
