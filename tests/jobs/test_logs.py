"""What a job says: lines of JSON with events, and never what its data hold."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from streamsketch.jobs.logs import logs
from tests.beam.streams.prism import ROOT
from tests.cli.running import Forks
from tests.jobs.job import end, options, published, put, run

CANARY = "canary-7391"
ROWS = [("AA", CANARY, CANARY, 5), (CANARY, "EWR-SFO", "N2", 61), ("UA", "EWR-SFO", CANARY, 130)]
FIRST = {"time", "level", "event"}


def said(text: str) -> list[dict[str, Any]]:
    assert CANARY not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(line.keys() >= FIRST for line in lines)
    return lines


@pytest.mark.usefixtures("root_key")
@pytest.mark.parametrize("form", ["json", "text"])
def test_a_job_says_what_becomes_of_it_and_nothing_of_its_data(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "log", "001.parquet", ROWS)
    end(tmp_path / "log")
    for _ in range(2):  # the second time all is refused
        assert run(tmp_path, [], log=form) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    alarms = sorted(path.name for path in (tmp_path / "claims/flights.alarms").iterdir())
    assert CANARY not in " ".join([*alarms, *published(tmp_path)])
    if form == "text":
        assert CANARY not in printed.err
        assert " INFO launched stream=flights epoch=1 " in printed.err
        return
    releases = sorted(name.replace("/", " ") for name in published(tmp_path) if name.endswith(".sketch"))
    lines = said(printed.err)
    named = [(line["event"], line["epoch"]) for line in lines if line["event"] != "alarm"]
    assert named == [("launched", 1), ("ended", 1), ("launched", 2), ("ended", 2)]
    refused = {f"{line['window']} {line['key']}.{line['result']}.json" for line in lines if line["event"] == "alarm"}
    assert sorted(refused) == alarms == [f"{one}.json" for one in releases]
    assert {line["stream"] for line in lines} == {"flights"}


@pytest.mark.usefixtures("root_key")
def test_a_failure_shows_no_data_either(tmp_path: Path, forks: Forks) -> None:
    log = tmp_path / "log"
    put(log, "001.parquet", ROWS)
    (log / f"003-{CANARY}.parquet").write_text(CANARY)
    done = forks.run(*options(tmp_path, log="json"), cwd=ROOT)
    assert done.returncode == 2, done.stderr
    *_, last = said(done.stdout + done.stderr)
    assert (last["event"], last["epoch"]) == ("failed", 1)
    assert last["error"] == "InvalidInputError"


def test_of_others_messages_the_place_alone_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogger().handlers
    with logs("json", stream="flights"):
        logging.getLogger("apache_beam.transforms").error("%s", CANARY)
        logging.getLogger("pyarrow").error(CANARY, exc_info=ValueError(CANARY))
        logging.getLogger("streamsketch.beam").warning("ours")
        logging.getLogger("apache_beam").info("quiet")
    assert logging.getLogger().handlers == before
    lines = said(capsys.readouterr().err)
    assert [line.get("text") for line in lines] == [None, None, "ours"]
    assert [line["logger"] for line in lines][:2] == ["apache_beam.transforms", "pyarrow"]


def test_a_job_that_cannot_be_built_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").mkdir()
    assert run(tmp_path, [], log="json", epoch=7) == 2
    (line,) = said(capsys.readouterr().err)
    assert line["event"] == "failed"
    assert line["text"].startswith("epoch 7 of the stream flights")
