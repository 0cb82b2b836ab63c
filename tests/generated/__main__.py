"""Write every generated file, or compare: ``make generated``, or ``python -m tests.generated [--check] [KIND …]``."""

import argparse
import subprocess
from typing import TYPE_CHECKING

from tests.generated.kinds import KINDS, differing
from tests.generated.namespaces import ROOT, superfluous

if TYPE_CHECKING:
    from pathlib import Path

WEB = ROOT / "web"


def main() -> None:
    """Write the files, or exit with 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description="Write every generated file.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    asked = parser.parse_args()
    unknown = sorted(set(asked.kinds) - set(KINDS))
    if unknown:
        parser.error(f"no kind is named {', '.join(unknown)}: they are {', '.join(KINDS)}")
    old: dict[Path, bytes | None] = dict.fromkeys(superfluous())
    files = old | {path: content for kind in asked.kinds or KINDS for path, content in differing(kind).items()}
    names = ", ".join(str(path.relative_to(ROOT)) for path in files)
    if asked.check and files:
        raise SystemExit(f"not current: {names}; run `make generated`")
    for path, content in files.items():
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
    print(f"wrote {names}" if files else "nothing has changed")  # noqa: T201 - a command
    if not asked.kinds:
        page(check=asked.check)


def page(*, check: bool) -> None:
    """Build the page of the report, and what Python's tests read of the TypeScript package, where there is node."""
    if not (WEB / "node_modules" / ".complete").exists():
        print("The report's page and web/tests/written.json need node, and `make web` first.")  # noqa: T201 - a command
        return
    for command in (["page", "--", "--check"],) if check else (["page"], ["write"]):
        subprocess.run(["npm", "run", "--silent", *command], cwd=WEB, check=True)  # noqa: S603, S607 - npm is on the PATH


if __name__ == "__main__":
    main()
