"""Measure what each extra adds to an installation, for docs/installation.md (needs uv and an index of packages).

Each set of extras is installed into a folder of its own, with byte code, as pip installs it. Sizes are those of all
files, in MB of a million bytes. An extra's is what it adds to the library alone; what two extras share counts in both.

    python docs/sizes.py
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def installed(what: str) -> tuple[int, int]:
    """Return the number of packages and of bytes that an installation has."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", sys.executable]
        subprocess.run([*command, "--target", folder, what], check=True, cwd=ROOT)  # noqa: S603 - of this repository
        packages = len(list(Path(folder).glob("*.dist-info")))
        return packages, sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def main() -> None:
    """Print a line for the reader, the library and each extra."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    packages, size = installed(".")
    print(f"{'.':12} {packages:4} packages  {size / 1e6:6.0f} MB")  # noqa: T201 - that is what it is for
    others = {"./reader": (0, 0)} | {f".[{extra}]": (packages, size) for extra in extras}
    for name, (fewer, less) in others.items():
        packages, size = installed(name)
        print(f"{name:12} {packages - fewer:+4} packages  {(size - less) / 1e6:+6.0f} MB")  # noqa: T201 - likewise


if __name__ == "__main__":
    main()
