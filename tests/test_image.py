"""The Dockerfile: what it says, and what its steps make, which are followed here without a container.

`make image` follows all of them in one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.image import FOLDER, ROOT, USER, context, instructions, smoke

BEFORE, BUILT, FINAL = instructions()
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SETTINGS = {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"}


def texts(stage: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [text for each, text in stage if each == name]


def test_it_ends_as_a_user_without_rights_that_starts_the_command() -> None:
    assert texts(FINAL, "USER") == [USER]
    assert texts(FINAL, "ENTRYPOINT") == ['["streamsketch"]']
    assert [each for each, _ in FINAL].index("USER") > max(at for at, (each, _) in enumerate(FINAL) if each == "RUN")
    assert texts(FINAL, "COPY") == ["--from=build /opt/streamsketch /opt/streamsketch"], "nothing else of the build"


def test_it_is_built_on_a_slim_base_from_pinned_packages() -> None:
    (base,) = texts(BEFORE, "ARG")
    assert re.fullmatch(r"BASE=docker\.io/library/python:3\.\d+-slim", base)
    assert texts(BUILT, "FROM") == ["${BASE} AS build"]
    assert texts(FINAL, "FROM") == ["${BASE}"]
    installs = [text for text in texts(BUILT, "RUN") if "pip install" in text]
    assert all("--require-hashes" in text or "--no-index" in text for text in installs)
    assert any("demo --warmup" in text for text in texts(BUILT, "RUN"))
    assert any("pip uninstall" in text for text in texts(BUILT, "RUN"))


def test_it_holds_no_secret_and_is_labelled() -> None:
    named = [text for stage in (BUILT, FINAL) for name in ("ARG", "ENV") for text in texts(stage, name)]
    assert not re.search("(?i)passw|secret|token|credential", " ".join(named))
    (labels,) = texts(FINAL, "LABEL")
    assert set(re.findall(r"org\.opencontainers\.image\.(\w+)=", labels)) >= {
        "title",
        "licenses",
        "version",
        "revision",
    }


def test_kernels_are_compiled_for_the_processors_for_which_they_are_read() -> None:
    def stated(stage: Sequence[tuple[str, str]]) -> set[str]:
        return {text for text in texts(stage, "ARG") if text.partition("=")[0] in SETTINGS}

    assert stated(BUILT) == stated(FINAL)
    (environment,) = (text for text in texts(FINAL, "ENV"))
    assert all(f"{name}=${{{name}}}" in environment for name in SETTINGS)
    caches = (ROOT / "docs/how-to/caches.md").read_text(encoding="utf-8")
    assert all(text.partition("=")[2] in caches for text in stated(BUILT)), "as the page says"


def test_the_lock_has_what_the_manifests_need() -> None:
    pins = set(re.findall(r"^([\w-]+)(?:\[\w+\])?==", (FOLDER / "requirements.lock").read_text(), re.MULTILINE))
    assert {"boto3", "confluent-kafka", "prometheus-client", "psycopg", "sqlalchemy", "obstore", "numba"} <= pins
    assert "--extra streams --extra kinesis --extra postgres --extra objects" in MAKEFILE
    assert "apache-beam" not in pins


def test_the_manifests_run_it_as_its_user() -> None:
    manifest = (ROOT / "pipelines/kubernetes/stream.yaml").read_text(encoding="utf-8")
    number, group = USER.split(":")
    assert f"runAsUser: {number}\n" in manifest
    assert f"runAsGroup: {group}\n" in manifest


@pytest.fixture
def root() -> Iterator[Path]:
    """Yield a folder into which other users may look, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.long
def test_its_steps_make_a_command_that_releases_without_rights(root: Path) -> None:
    """All steps of the first stage run here, in other folders, with packages from an index; no container is made."""
    prefix, environment = root / "opt/streamsketch", dict(os.environ)
    environment |= dict(text.split("=", 1) for text in texts(BUILT, "ARG"))
    environment["PATH"] = f"{Path(sys.executable).resolve().parent}:{environment['PATH']}"
    context(root / "build")
    for step in texts(BUILT, "RUN"):
        here = step.replace("/opt/streamsketch", str(prefix)).replace("/build/", f"{root}/build/")
        here = re.sub(r"^python ", f"{Path(sys.executable).resolve()} ", here)
        done = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", here], env=environment, capture_output=True, text=True, check=False, umask=0o022
        )
        assert done.returncode == 0, (step, done.stdout, done.stderr)
    assert not (prefix / "bin/pip").exists()
    data = root / "data"
    data.mkdir()
    as_user = []
    if os.geteuid() == 0 and shutil.which("setpriv"):
        number, group = map(int, USER.split(":"))
        os.chown(data, number, group)
        as_user = ["setpriv", f"--reuid={number}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
    inside = {name: environment[name] for name in SETTINGS} | {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    before = sorted(prefix.rglob("*"))

    def start(command: Sequence[str]) -> str:
        given = [one.replace("/data/", f"{data}/") for one in command]
        done = subprocess.run(  # noqa: S603
            [*as_user, prefix / "bin/streamsketch", *given],
            env=inside,
            cwd=data,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "compiling" not in done.stderr
        return done.stdout

    smoke(start)
    assert sorted(prefix.rglob("*")) == before, "nothing was compiled again"
    assert json.loads(start(["demo", "--json"]))
