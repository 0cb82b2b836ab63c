"""What `pip install` brings: the wheel, unpacked far from the repository, does what the repository does."""

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import streamsketch
from tests.cli.running import Forks
from tests.compiled import carry_kernels

ROOT = Path(streamsketch.__file__).parents[1]
USED = """
import json
import runpy
import sys
import streamsketch as ss

assert {folder!r} in ss.__file__, ss.__file__
projection = ss.projections.Projection.from_json({agreement!r})
sketch = projection.sketch()
sketch.update([1, 2, 3])
for arguments in (["demo", "--output", "all.parquet"], ["report", "all.parquet", "--output", "page.html"]):
    sys.argv[1:] = arguments
    try:
        runpy.run_module("streamsketch", run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, ended.code
print(json.dumps([projection.fingerprint, len(ss.__all__)]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Path:
    """Return the folder into which the wheel was unpacked, as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    forks.succeeded("demo", "--output", "all.parquet", cwd=folder)  # compiles what the copy then has already
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    carry_kernels(folder / "site")
    return folder / "site"


def test_the_wheel_holds_what_is_no_module(installed: Path) -> None:
    package = installed / "streamsketch"
    held = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {
        "py.typed",
        "__init__.pyi",
        "wire/WIRE.md",
        "report/templates/page.css",
        "report/templates/page.html.j2",
    } <= held
    assert {"conformance/README.md", "conformance/refused.json"} <= held
    source = ROOT / "streamsketch"
    wanted = {path.relative_to(source).as_posix() for path in source.rglob("*.py*") if path.suffix in {".py", ".pyi"}}
    assert wanted <= held


MODULES = {
    "apache-beam": "apache_beam",
    "psycopg[binary]": "psycopg",
    "pyspark[sql]": "pyspark",
    "scikit-learn": "sklearn",
}
"""What some packages are imported as."""


def test_an_extra_installs_what_the_wheel_imports(installed: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (installed / "streamsketch").rglob("*.py"))
    for extra, packages in extras.items():
        for package in (re.split("[<>=]", each)[0] for each in packages):
            module = MODULES.get(package, package.replace("-", "_"))
            used = re.search(rf'^\s*(from|import) {module}\b|import_module\("{module}"\)', text, re.MULTILINE)
            assert used, f"{extra} installs {package}, which nothing in the wheel imports"


def test_it_works_far_from_the_repository(installed: Path, tmp_path: Path) -> None:
    """Its functions, and its command, which makes releases and a report of them."""
    projection = streamsketch.SJLT(dim=100, sketch_dim=8, sparsity=4, seed=1)
    code = USED.format(folder=str(installed), agreement=projection.to_json())
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    fingerprint, names = json.loads(done.stdout.splitlines()[-1])
    assert fingerprint == projection.fingerprint
    assert names == len(streamsketch.__all__)
    assert streamsketch.load(tmp_path / "all.parquet")
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")


ZIPPED = """
import importlib
import sys
sys.path.insert(0, sys.argv.pop(1))
import streamsketch as ss

assert ss.__file__.startswith(sys.path[0]), ss.__file__
print(ss.L1(2, unit="sale"))
for name in sys.argv.pop(1).split(","):
    print(name, *importlib.import_module(name).__all__)
from streamsketch.cli import main
sys.argv[1:] = ["ledger", "--help"]
main()
"""


def test_it_is_imported_from_a_zip(tmp_path: Path) -> None:
    """As by zipapp, or by Spark's --py-files: stubs are read by what loads the packages."""
    source = ROOT / "streamsketch"
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in source.rglob("*.py*"):
            if path.suffix != ".pyc":
                archive.write(path, path.relative_to(ROOT))
    folders = [
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in source.rglob("__init__.pyi")
        if not {"beam", "jobs"} & set(path.parts)  # which take a second
    ]
    command = [sys.executable, "-c", ZIPPED, str(tmp_path / "all.zip"), ",".join(folders)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    neighbours, *lists = done.stdout.splitlines()[: 1 + len(folders)]
    assert neighbours == str(streamsketch.L1(2, unit="sale"))
    for folder, names in zip(folders, lists, strict=True):
        assert names.split(" ") == [folder, *importlib.import_module(folder).__all__]
    assert "Enter a data set and its budget" in done.stdout
