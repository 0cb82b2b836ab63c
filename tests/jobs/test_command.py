"""The commands `streamsketch stream` say what it needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch import jobs
from tests.cli.running import ENVIRONMENT
from tests.jobs.job import options
from tests.jobs.running import command


@pytest.mark.parametrize(
    ("arguments", "file", "name", "package", "said"),
    [
        (["beam"], "stream", "StreamJob", "apache_beam", r"needs Apache Beam \(the extra `beam` of streamsketch\)"),
        (["watch"], "serving", "Server", "prometheus_client", r"needs prometheus-client \(the extra `streams`"),
        (
            ["publish", "--set=servers=a:1", "--set=releases_topic=b"],
            "topics",
            "Publisher",
            "confluent_kafka",
            r"needs confluent-kafka \(the extra `streams`",
        ),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(
    arguments: list[str],
    file: str,
    name: str,
    package: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"streamsketch.jobs.{file}", raising=False)
    monkeypatch.delitem(vars(jobs), name, raising=False)
    given = options(tmp_path)[2:]
    wanted = {"beam": given, "watch": given[:2], "publish": given[1:2]}[arguments[0]]
    with pytest.raises(ModuleNotFoundError, match=said):
        command("stream", *arguments, *wanted)


def test_a_job_without_a_name_is_of_no_cluster(tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"job": 1, "delay": 0, "folder": "out"}))
    with pytest.raises(ss.InvalidInputError, match="names no stream, so no cluster follows it"):
        command("stream", "publish", f"--job={job}", "--set=servers=a:1", "--set=releases_topic=b")


def test_what_stands_beside_a_job_needs_no_beam() -> None:
    code = "import sys; from streamsketch.jobs import Publisher, Server, Watch; print('apache_beam' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT)  # noqa: S603
    assert done.stdout.strip() == "False"
