"""The server of the page of phones adds reports, and refuses all else."""

import html
import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipelines.phones import collect
from pipelines.phones.collect import ACTIVITIES, Collector, mechanism_of
from tests.patience import PATIENCE


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
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
SOMEBODY = """
<script type="module">
  const until = async (is) => {
    for (let wait = 0; wait < 200 && !is(); wait++) await new Promise((done) => setTimeout(done, 50));
  };
  const status = document.getElementById("status");
  await until(() => document.querySelectorAll("#activities input").length === 5);
  const said = JSON.parse(sessionStorage.getItem("said") ?? "[]");
  if (said.length === 0) {
    [8, 16, 0, 0, 0].forEach((hours, place) => {
      const slider = document.querySelectorAll("#activities input")[place];
      slider.value = hours;
      slider.dispatchEvent(new Event("input"));
    });
    said.push(document.querySelectorAll("#activities output")[1].textContent);
    document.querySelector("form button").click();
    await until(() => status.textContent !== "");
    said.push(status.textContent);
    document.querySelector("form button").click(); // which sends nothing
    sessionStorage.setItem("said", JSON.stringify(said));
    location.reload();
  } else {
    await until(() => status.textContent !== "");
    said.push(status.textContent, document.getElementById("guarantee").textContent);
    const result = document.createElement("pre");
    result.id = "result";
    result.textContent = JSON.stringify(said);
    document.body.append(result);
  }
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the PATH to report from")
@pytest.mark.skipif(not ESBUILD.exists(), reason="no esbuild in web/node_modules: `make test-web` installs it")
def test_somebody_moves_the_sliders_and_sends_one_report(
    server: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BROWSER is not None
    script, page = tmp_path / "streamsketch.js", tmp_path / "page.html"
    bundled = [str(ESBUILD), "src/index.ts", "--bundle", "--format=esm", "--target=es2022", f"--outfile={script}"]
    subprocess.run(bundled, cwd=WEB, check=True, capture_output=True, timeout=PATIENCE)  # noqa: S603
    page.write_text(collect._FILES["/"][0].read_text("utf-8") + SOMEBODY, "utf-8")
    monkeypatch.setitem(collect._FILES, "/", (page, "text/html; charset=utf-8"))
    monkeypatch.setitem(collect._FILES, "/streamsketch.js", (script, "text/javascript"))
    fixed = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    shown = subprocess.run(  # noqa: S603
        [
            *(BROWSER, *fixed, f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000", "--dump-dom"),
            f"http://127.0.0.1:{server.server_port}/",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    result = re.search(r'<pre id="result">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert result is not None, shown.stdout[-2000:]
    hours, sent, again, guarantee = json.loads(html.unescape(result[1]))
    assert hours == "16 h"
    assert re.fullmatch(r"Sent \d+ bytes\. Thank you\.", sent)
    assert again == "This phone has reported already."
    assert guarantee.startswith("What is sent is randomised here first: ε = 4.")
    found = json.loads(asked(server, "/mean.json"))
    assert found["reports"] == 1
    assert np.isfinite(list(found["mean"].values())).all()
