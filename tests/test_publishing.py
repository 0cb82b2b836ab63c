"""What is published, and what publishes it: packages, workflows and the recipe agree with the repository."""

import hashlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import streamsketch

ROOT = Path(streamsketch.__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECTS = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for folder in (".", "reader")]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def loaded(path: Path) -> Any:
    """Return a file of YAML, in which every key and value is text."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 - which makes no objects


def versions() -> list[str]:
    """Return the versions of Python of which the package says that it supports them."""
    return re.findall(r"Python :: (3\.\d+)", " ".join(PROJECTS[0]["classifiers"]))


def test_both_packages_support_the_same_versions() -> None:
    assert PROJECTS[0]["requires-python"] == PROJECTS[1]["requires-python"] == f">={versions()[0]}"
    assert set(PROJECTS[0]["classifiers"]) == set(PROJECTS[1]["classifiers"])
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "reader" / "LICENSE").read_bytes()


def test_every_supported_version_is_tested() -> None:
    (tests,) = (loaded(path) for path in WORKFLOWS if path.name == "tests.yml")
    tested = tests["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested[: len(versions())] == versions(), "a version that is not supported yet may follow"
    assert f"tested-,{' '.join(tested)} lowest" in MAKEFILE


def test_the_version_is_the_same_wherever_it_is_stated() -> None:
    assert loaded(ROOT / "CITATION.cff")["version"] == streamsketch.__version__
    assert loaded(ROOT / "recipe" / "recipe.yaml")["context"]["version"] == streamsketch.__version__


@pytest.mark.parametrize("lock", ["requirements.lock", "pipelines/requirements.lock"])
def test_a_lock_pins_the_extras_that_its_packages_ask_for(lock: str) -> None:
    """Without them, pip tries newer versions, of which there is no hash, as soon as one is published."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.rstrip("\\ ")) for line in lines if line and line[0] not in " #"]
    pinned = {canonicalize_name(each.name): each.extras for each in pins}
    missing = [
        f"{found.name} asks for {asked}"
        for found in distributions()
        if canonicalize_name(found.name) in pinned
        for asked in map(Requirement, found.requires or ())
        if asked.extras and (asked.marker is None or asked.marker.evaluate({"extra": ""}))
        if not asked.extras <= pinned[canonicalize_name(asked.name)]
    ]
    assert not missing, "make lock keeps extras"


LOCKS = sorted([ROOT / "requirements.lock", *ROOT.glob("[pt]*/**/requirements.lock")])


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.parent.name)
def test_a_lock_pins_every_package_by_hash(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    pins = [part.strip() for part in re.split(r"\n(?=[\w.-]+[=\[ ])", text) if "==" in part]
    assert pins
    for pin in pins:
        assert "--hash=sha256:" in pin, pin[:80]
    assert "index-url" not in text


def test_what_is_published_was_attested() -> None:
    (release,) = (loaded(path)["jobs"] for path in WORKFLOWS if path.name == "release.yml")
    assert "attest" in release["publish"]["needs"]
    actions = [step["uses"].partition("@")[0] for step in release["attest"]["steps"]]
    assert actions.count("actions/attest-sbom") == len(PROJECTS)
    assert "actions/attest-build-provenance" in actions


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
class TestWorkflow:
    def steps(self, path: Path) -> list[dict[str, Any]]:
        return [step for job in loaded(path)["jobs"].values() for step in job.get("steps", ())]

    def test_its_commands_exist(self, path: Path) -> None:
        for command in (step["run"] for step in self.steps(path) if "run" in step):
            words = command.split()
            if words[0] == "make":
                assert re.search(rf"^{re.escape(words[1])}:", MAKEFILE, re.MULTILINE), command
            else:
                assert command == "python -m pip install uv"

    def test_its_actions_are_pinned_by_commit(self, path: Path) -> None:
        named = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
        assert all(re.fullmatch(r"\./.*|[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in named)

    def test_it_may_write_nothing_but_what_it_publishes(self, path: Path) -> None:
        """Nor does it keep the credentials with which it reads the repository."""
        workflow = loaded(path)
        assert workflow["permissions"] in ("", {}, {"contents": "read"})
        allowed = {
            "attest": {"attestations": "write", "id-token": "write"},
            "publish": {"id-token": "write"},
            "deploy": {"pages": "write", "id-token": "write"},
        }
        for name, job in workflow["jobs"].items():
            assert job.get("permissions", {}) in ({"contents": "read"}, allowed.get(name, {}))
        for step in self.steps(path):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] == "false"


def test_the_recipe_needs_what_the_package_needs() -> None:
    recipe = loaded(ROOT / "recipe" / "recipe.yaml")
    by_name = {re.split(r"[ <>=]", each)[0]: each for each in recipe["requirements"]["run"]}
    for each in PROJECTS[0]["dependencies"]:
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", each).groups()  # type: ignore[union-attr]
        conda = {"pyarrow": "pyarrow", "tzdata": "python-tzdata"}.get(name, name)
        assert by_name.pop(conda) == f"{conda} {bounds}"
    assert by_name == {"python": "python >=${{ python_min }}"}


@pytest.mark.tools
def test_both_packages_are_built_twice_to_the_same_bytes_and_hold_what_they_should(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.distributions", str(tmp_path / "dist"), "--no-install"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    built = sorted((tmp_path / "dist").iterdir())
    assert len(built) == 4
    sums = (tmp_path / "dist-about" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert sums == [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}" for each in built]
