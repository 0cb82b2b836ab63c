"""A reader in Go, written from WIRE.md alone, agrees with the conformance kit, which notices what it forgets."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.audit.record import judged

READER = Path(__file__).parent.parent / "readers" / "go"
PAGE = READER.parent.parent.parent / "docs" / "how-to" / "write-a-reader.md"
FAULTS: list[dict[str, str]] = json.loads((READER / "faults.json").read_text(encoding="utf-8"))

FILES = {
    f"{name}.json"
    for name in ("estimates", "frequencies", "projections", "refused", "releases", "simultaneous", "streams", "tables")
}
"""Of the kit, those that it reads: of what is refused, releases and tables of them."""

GO = shutil.which("go")
ENVIRONMENT = os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def go(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run go in the reader's folder, without a network."""
    assert GO is not None
    return subprocess.run([GO, *arguments], cwd=READER, env=ENVIRONMENT, capture_output=True, text=True, check=False)  # noqa: S603


def builds() -> bool:
    """Return whether there is a go that is new enough for the reader's module."""
    version = re.match(r"go(\d+)\.(\d+)", go("env", "GOVERSION").stdout if GO else "")
    return version is not None and tuple(map(int, version.groups())) >= (1, 21)


built = pytest.mark.skipif(not builds(), reason="no go 1.21 on the PATH, or newer, to build the reader in Go with")


def agreements(text: str) -> dict[str, tuple[int, int]]:
    """Return how many cases of each file agree, and how many there are."""
    found = re.findall(r"(\w+\.json): (\d+) of (\d+) cases agree", text)
    return {file: (int(agree), int(cases)) for file, agree, cases in found}


@built
def test_it_agrees_with_the_kit() -> None:
    done = go("test", "-count=1", "-vet=off", "-v", ".")
    assert done.returncode == 0, done.stdout + done.stderr
    found = agreements(done.stdout)
    assert set(found) == FILES
    assert all(agree == cases for agree, cases in found.values())
    judged(cases=sum(cases for _, cases in found.values()))


@built
def test_its_source_is_formatted_and_sound() -> None:
    done = go("vet", ".")
    assert done.returncode == 0, done.stderr
    if gofmt := shutil.which("gofmt"):
        done = subprocess.run([gofmt, "-l", "."], cwd=READER, capture_output=True, text=True, check=True)  # noqa: S603
        assert not done.stdout


@built
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["forgets"])
def test_the_kit_notices_what_it_forgets(fault: dict[str, str], tmp_path: Path) -> None:
    source = (READER / fault["file"]).read_text(encoding="utf-8")
    assert source.count(fault["text"]) == 1
    changed = tmp_path / fault["file"]
    changed.write_text(source.replace(fault["text"], fault["replacement"]), encoding="utf-8")
    overlay = tmp_path / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {str(READER / fault["file"]): str(changed)}}), encoding="utf-8")
    flags = ("-count=1", "-vet=off", "-ldflags=-s -w", "-skip=TestDamaged", "-v", f"-overlay={overlay}")
    done = go("test", *flags, ".")
    found = agreements(done.stdout)
    assert found, done.stdout + done.stderr
    assert any(agree < cases for agree, cases in found.values())


def test_the_page_names_each_file_and_says_how_long_each_step_is() -> None:
    """Within 30 lines."""
    lines = {
        path.name: len(path.read_text(encoding="utf-8").splitlines())
        for path in READER.glob("*.go")
        if not path.name.endswith("_test.go")
    }
    rows = re.findall(r"^\| \d \| (`.*\.go`) \| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = [(re.findall(r"`(\w+\.go)`", files), int(length)) for files, length in rows]
    assert sorted(file for files, _ in named for file in files) == sorted(lines)
    for files, length in named:
        assert length == pytest.approx(sum(lines[file] for file in files), abs=30)
