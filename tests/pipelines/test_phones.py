"""The server of the page of phones adds reports, and refuses all else."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest

from pipelines.phones.collect import ACTIVITIES, Collector, mechanism_of


@pytest.fixture
def server() -> Iterator[Collector]:
    with Collector(0, mechanism_of(4.0)) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def asked(server: Collector, path: str, body: bytes | None = None) -> bytes:
    address = f"http://127.0.0.1:{server.server_port}{path}"
    with urllib.request.urlopen(address, body, timeout=30) as answer:
        return bytes(answer.read())


def test_reports_are_added_up(server: Collector) -> None:
    assert json.loads(asked(server, "/mean.json"))["reports"] == 0
    assert b"randomize" in asked(server, "/")
    assert asked(server, "/mechanism.json").decode() == server.mechanism.to_json()
    for _ in range(3):
        report = server.mechanism.randomize(np.full(len(ACTIVITIES), 0.2))
        assert asked(server, "/report", report.to_bytes()) == b"added"
    found = json.loads(asked(server, "/mean.json"))
    assert (found["reports"], list(found["mean"])) == (3, list(ACTIVITIES))
    assert found["standard_error"] > 0


@pytest.mark.parametrize("body", [b"", b"junk", bytes(1 << 17)])
def test_what_is_no_report_is_refused(server: Collector, body: bytes) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        asked(server, "/report", body)
    assert server.result()["reports"] == 0


def test_a_report_of_another_mechanism_is_refused(server: Collector) -> None:
    report = mechanism_of(2.0).randomize(np.full(len(ACTIVITIES), 0.2))
    with pytest.raises(urllib.error.HTTPError, match="400"):
        asked(server, "/report", report.to_bytes())
