"""Build the image of pipelines/container by docker or podman, try it, and list what it holds: ``make image``."""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from streamsketch import __version__
from tests.distributions import ROOT, build, check, run

FOLDER = ROOT / "pipelines/container"
USER = "10001:10001"
LISTED = """
from importlib.metadata import distributions
for name, version in sorted({(one.name, one.version) for one in distributions()}):
    print(f"{name}=={version}")
"""


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, such as ``RUN``, and its text."""

    name: str
    text: str


def instructions(path: Path = FOLDER / "Dockerfile") -> list[list[Instruction]]:
    """Return the instructions of each stage of a Dockerfile; those before the first ``FROM`` by themselves."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    stages: list[list[Instruction]] = [[]]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, text = line.partition(" ")
            if name == "FROM":
                stages.append([])
            stages[-1].append(Instruction(name, text.strip()))
    return stages


def context(folder: Path) -> Path:
    """Fill a folder with all that the Dockerfile copies: the wheel, as it is built now, and the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    build("streamsketch", ROOT, "wheel", folder)
    shutil.copy(FOLDER / "requirements.lock", folder)
    return folder


def smoke(start: Callable[[Sequence[str]], str]) -> None:
    """Try an image: ``start`` runs a command in it, as a user without rights, in a folder that can be written to."""
    check("Usage: streamsketch" in start(["--help"]), "the image prints no help")
    start(["demo", "--output", "/data/all.parquet"])
    start(["report", "/data/all.parquet", "--output", "/data/page.html"])
    found = json.loads(start(["explain", "/data/all.parquet", "--json"]))
    check(bool(found), "the release of the image is not explained")


def main() -> None:
    """Build and try the image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--base", help="the image to build on, by its digest for a release")
    parser.add_argument("--bills", type=lambda path: Path(path).absolute(), required=True, help="cyclonedx-py")
    asked = parser.parse_args()
    engine, tag, folder = asked.engine, asked.tag, context(asked.folder.absolute())
    revision = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    stated = [f"VERSION={__version__}", f"REVISION={revision}", *([f"BASE={asked.base}"] if asked.base else [])]
    arguments = [part for one in stated for part in ("--build-arg", one)]
    run(engine, "build", "-f", FOLDER / "Dockerfile", "-t", tag, *arguments, folder, cwd=ROOT)
    volume = f"streamsketch-smoke-{revision[:12]}"
    confined = ["--rm", "--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    confined += [f"--user={USER}", "--tmpfs=/tmp", f"--volume={volume}:/data"]
    try:
        smoke(lambda command: run(engine, "run", *confined, tag, *command, cwd=ROOT))
        python = "/opt/streamsketch/bin/python"
        held = run(engine, "run", *confined, f"--entrypoint={python}", tag, "-c", LISTED, cwd=ROOT)
    finally:
        subprocess.run([engine, "volume", "rm", "-f", volume], check=False, capture_output=True)  # noqa: S603
    (folder / "installed.txt").write_text(held, encoding="utf-8")
    bill = folder / "streamsketch-image.cdx.json"
    described = ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "application", "--output-reproducible"]
    run(asked.bills, "requirements", *described, "--of", "JSON", "-o", bill, folder / "installed.txt", cwd=folder)
    print(f"{tag}: {len(held.splitlines())} packages of Python, listed in {bill}")


if __name__ == "__main__":
    sys.exit(main())
