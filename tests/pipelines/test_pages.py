"""Pages about clusters name what is there, and their first command runs."""

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path

import streamsketch as ss
from streamsketch.jobs import GrowingFolder, StreamJob
from streamsketch.streams.job import Job
from tests.docs.pages import blocks_of, commands_of
from tests.jobs.running import command

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to"


def test_the_make_targets_are_there() -> None:
    text = "\n".join((HOW_TO / f"{name}.md").read_text() for name in ("flink", "dataflow", "kafka", "operate"))
    targets = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    for name in re.findall(r"(?m)(?:^|`)make ([a-z-]+)", text + (ROOT / "pipelines/README.md").read_text()):
        assert re.search(rf"^{name} ", targets, re.MULTILINE), name


def test_agreement_and_job_of_the_page_are_those_of_a_job(tmp_path: Path) -> None:
    blocks = blocks_of(HOW_TO / "kafka.md")
    lines = [line for block in blocks if block.language == "sh" for line in commands_of(block.text)]
    (agree,) = [line for line in lines if " agree " in line]
    place = tmp_path / "flights.json"
    assert command(*shlex.split(agree.replace("flights.json", str(place)))[1:]) == 0
    agreement = ss.Agreement.load(place)
    (stated,) = [block.text for block in blocks if block.language == "json"]
    job = StreamJob(
        agreement=agreement,
        job=dataclasses.replace(Job.from_json(stated), stream="flights", root_key="key", claims="claims"),
        source=GrowingFolder("log"),
    )
    assert job.public_keys == list(agreement.keys)
