"""``streamsketch-reader``: the same package, installed without what makes sketches."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pyarrow as pa
import pytest

import streamsketch
import streamsketch as ss

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


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the reader's command in a process without what the reader does not install."""
    refuse = READING.read_text().partition("import streamsketch as ss")[0]
    run = f"{refuse}\nfrom streamsketch.cli._reader import main\nsys.exit(main(sys.argv[1:]))"
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", run, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of two releases and a table."""
    place = tmp_path_factory.mktemp("releases")
    projection = ss.SJLT(sketch_dim=320, sparsity=5, seed=7)
    for name, counts in (("north", [300, 20]), ("south", [310, 200])):
        sketch = projection.sketch()
        sketch.update(["tea", "jam"], counts)
        sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).save(place / f"{name}.sketch")
    table = ss.CountSketch(dim=100, sketch_dim=64, seed=7).table()
    table.update_rows(pa.table({"key": ["a", "b\x1b[31m"], "item": [3, 4]}), key="key", index="item")
    table.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"), keys_are_public=True).save(place / "keys.parquet")
    return place


def test_the_command_of_the_reader_answers_as_the_library_does(folder: Path) -> None:
    north, south = (ss.load(folder / f"{name}.sketch") for name in ("north", "south"))
    files = [folder / "north.sketch", folder / "south.sketch"]
    inspected = command("inspect", files[0])
    assert inspected.stdout.strip() == str(ss.explain(north))
    for by, estimate in (("distance", ss.squared_distance(north, south)), ("cosine", ss.cosine(north, south))):
        row = json.loads(command("compare", *files, "--by", by, "--json").stdout)
        assert (row["first"], row["second"], row["by"]) == ("north", "south", by)
        assert row["estimate"] == pytest.approx(estimate.value, rel=1e-9)
        assert [row["low"], row["high"]] == pytest.approx(list(estimate.interval(0.95)), rel=1e-6)
    for item in ("tea", "jam", "salt"):
        found = command("frequency", files[0], item)
        assert found.stdout.startswith(f"{ss.frequency(north, item)}, 95 % interval"), found.stderr
    keys = command("compare", folder / "keys.parquet")
    assert keys.stdout.startswith("a – b\\x1b[31m: ")
    number = command("frequency", folder / "keys.parquet", "3", "--integer", "--key", "a")
    assert " ± " in number.stdout, number.stderr


def test_mistakes_are_said_in_a_line(folder: Path) -> None:
    (folder / "broken.sketch").write_bytes(b"no sketch")
    for arguments, said in [
        (("inspect", folder / "broken.sketch"), "broken.sketch"),
        (("inspect", folder / "missing.sketch"), "missing.sketch"),
        (("compare", folder / "north.sketch"), "two streams or more"),
        (("compare", folder / "north.sketch", folder / "keys.parquet"), "projection"),
        (("frequency", folder / "keys.parquet", "3"), "holds 2 streams: say which by --key"),
        (("frequency", folder / "north.sketch", "three", "--integer"), "three is no integer"),
        (("verify", folder / "north.sketch", "--signer", folder / "no.pub"), "parties"),
    ]:
        done = command(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        assert said in done.stderr


def test_signatures_are_checked_where_the_extra_is_installed(folder: Path) -> None:
    from streamsketch.cli._reader import main  # noqa: PLC0415 - in this process, which has the extra
    from streamsketch.parties import Key, sign  # noqa: PLC0415

    key = Key.generate("hospital")
    (folder / "hospital.pub").write_text(key.public.to_text())
    file = folder / "north.sketch"
    assert main(["verify", str(file), "--signer", str(folder / "hospital.pub")]) == 1
    sign(file, key)
    assert main(["verify", str(file), "--signer", str(folder / "hospital.pub")]) == 0


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
