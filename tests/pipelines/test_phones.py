"""The server of the page of phones adds reports, and refuses all else."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipelines.phones import collect
from pipelines.phones.collect import ACTIVITIES, Collector, mechanism_of
from tests.chromium import BROWSER, Chromium
from tests.patience import PATIENCE
from tests.serving import serving


@pytest.fixture
def server() -> Iterator[Collector]:
    with serving(Collector(0, mechanism_of(4.0))) as collector:
        yield collector


def asked(server: Collector, path: str, body: bytes | None = None) -> bytes:
    address = f"http://127.0.0.1:{server.server_port}{path}"
    with urllib.request.urlopen(address, body, timeout=PATIENCE) as answer:
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


WEB = Path(__file__).parents[2] / "web"
ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"
SLIDE = """
[8, 16, 0, 0, 0].forEach((hours, place) => {
  const slider = document.querySelectorAll("#activities input")[place];
  slider.value = hours;
  slider.dispatchEvent(new Event("input"));
});
return document.querySelectorAll("#activities output")[1].textContent;
"""
SEND = 'document.querySelector("form button").click();'
STATUS = 'document.getElementById("status").textContent'


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the PATH to report from")
@pytest.mark.skipif(not ESBUILD.exists(), reason="no esbuild in web/node_modules: `make test-web` installs it")
def test_somebody_moves_the_sliders_and_sends_one_report(
    server: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "streamsketch.js"
    bundled = [str(ESBUILD), "src/index.ts", "--bundle", "--format=esm", "--target=es2022", f"--outfile={script}"]
    subprocess.run(bundled, cwd=WEB, check=True, capture_output=True, timeout=PATIENCE)  # noqa: S603
    monkeypatch.setitem(collect._FILES, "/streamsketch.js", (script, "text/javascript"))
    with Chromium(tmp_path) as tab:
        tab.show(f"http://127.0.0.1:{server.server_port}/")
        tab.until('document.querySelectorAll("#activities input").length === 5')
        hours = tab.run(SLIDE)
        tab.run(SEND)
        tab.until(f"{STATUS} !== ''")
        sent = tab.run(f"return {STATUS};")
        tab.run(SEND)  # which sends nothing
        tab.show(f"http://127.0.0.1:{server.server_port}/")
        tab.until(f"{STATUS} !== ''")
        again = tab.run(f"return {STATUS};")
        guarantee = tab.run('return document.getElementById("guarantee").textContent;')
    assert hours == "16 h"
    assert re.fullmatch(r"Sent \d+ bytes\. Thank you\.", sent)
    assert again == "This phone has reported already."
    assert guarantee.startswith("What is sent is randomised here first: ε = 4.")
    found = json.loads(asked(server, "/mean.json"))
    assert found["reports"] == 1
    assert np.isfinite(list(found["mean"].values())).all()
