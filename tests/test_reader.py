"""``streamsketch-reader``: the same package, installed without what makes sketches."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import streamsketch

ROOT = Path(streamsketch.__file__).parents[1]
READING = Path(__file__).with_name("reading.py")
MOST_BYTES = 90_000_000


def read(path: str) -> dict[str, object]:
    """Return how much `reading.py` read of the kit, by the package on a path."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, READING], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, object] = json.loads(done.stdout)
    return counts


def test_releases_are_read_and_compared_without_what_makes_them() -> None:
    counts = read(str(ROOT))
    names = counts.pop("takes kernels")
    assert isinstance(names, list)
    assert len(names) == 7, "dense maps, whose noise is checked by entries of their matrix"
    assert counts["releases"] == counts["explained"] + len(names)  # type: ignore[operator]
    assert min(counts.values()) > 8, counts  # type: ignore[type-var, operator]


def test_the_reader_is_the_same_package_in_90_mb(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / "reader", capture_output=True, check=True)  # noqa: S603
    (wheel,) = tmp_path.glob("streamsketch_reader-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    held = sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file())
    needed = tomllib.loads((ROOT / "reader" / "pyproject.toml").read_text())["project"]["dependencies"]
    for name in [*(each.partition(">")[0] for each in needed), "packaging"]:  # which lazy-loader needs
        listed = distribution(name).files or []
        held += sum(Path(str(each.locate())).stat().st_size for each in listed if each.suffix != ".pyc")
    assert held <= MOST_BYTES
    assert read(str(tmp_path / "site"))["estimates"]


def test_the_reader_needs_what_the_whole_needs() -> None:
    whole, reader = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "reader")
    )
    ours = [each.partition(" ")[0] for each in whole["dependencies"]]
    assert set(reader["dependencies"]) < set(ours), "in the same versions"
    assert whole["optional-dependencies"].items() >= reader["optional-dependencies"].items()
