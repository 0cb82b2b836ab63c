"""Measure the first two commands of README.md on a fresh clone: seconds, and what each installs (needs an index).

Sizes are those of all files of the environment, in GB of a billion bytes. README.md states medians of three runs on two
quiet cores.

    python docs/first_minutes.py            # make demo, then make test
    python docs/first_minutes.py demo       # one of them
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = {"demo": ".venv-demo", "test": ".venv"}
"""What each target of make installs into."""


def main() -> None:
    """Print a line for each command, run in a clone of its own."""
    for target in sys.argv[1:] or ENVIRONMENTS:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)  # noqa: S603, S607 - of this repository
            began = time.monotonic()
            subprocess.run(["make", target, f"PYTHON={sys.executable}"], check=True, cwd=folder)  # noqa: S603, S607 - its own
            seconds = time.monotonic() - began
            environment = Path(folder, ENVIRONMENTS[target])
            installed = {path.name.partition("-")[0] for path in environment.glob("lib/*/site-packages/*.dist-info")}
            packages = len(installed - {"pip", "setuptools", "streamsketch"})
            size = sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file())
            print(f"make {target}: {seconds:.0f} s, {packages} packages, {size / 1e9:.1f} GB")  # noqa: T201 - it is for that


if __name__ == "__main__":
    main()
