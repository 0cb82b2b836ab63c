"""Serve a page that reports in a browser, by web/, and add the reports up.

    make web
    python -m pipelines.phones.collect --port 8000

The page asks how a person's day is shared among five activities, randomises the answer on the phone, and sends the
report. Reports are ε-locally private: the operator of this server learns little about anyone, and the mean of all. In
production, a server in front provides TLS, and limits who may report and how often.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.local import MeanAggregator, Mechanism, PrivUnitG, Report

ACTIVITIES = ("sleep", "work", "family", "friends", "screens")
MOST_BYTES = 1 << 16  # of a report
_HERE = Path(__file__).parent
_BUNDLE = _HERE.parents[1] / "web/dist/streamsketch.js"
_FILES = {"/": (_HERE / "page.html", "text/html; charset=utf-8"), "/streamsketch.js": (_BUNDLE, "text/javascript")}


class Collector(ThreadingHTTPServer):
    """A server of the page, which adds reports of one mechanism."""

    def __init__(self, port: int, mechanism: Mechanism) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.mechanism = mechanism
        self._mean, self._lock = MeanAggregator(mechanism), threading.Lock()

    def add(self, data: bytes) -> None:
        """Add a report; one that no honest phone sends raises `WireFormatError` and changes nothing."""
        report = Report.from_bytes(data, self.mechanism)
        with self._lock:
            self._mean.add(report)

    def result(self) -> dict[str, Any]:
        """Return the mean so far, as JSON."""
        with self._lock:
            count = self._mean.count
            mean = self._mean.mean().tolist() if count else []
            error = self._mean.standard_error() if count else None
        return {"reports": count, "mean": dict(zip(ACTIVITIES, mean, strict=False)), "standard_error": error}


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_GET(self) -> None:
        """Answer with the page, its script, the mechanism or the mean."""
        if self.path == "/mechanism.json":
            self._answer(self.server.mechanism.to_json().encode(), "application/json")
        elif self.path == "/mean.json":
            self._answer(json.dumps(self.server.result()).encode(), "application/json")
        elif self.path in _FILES and _FILES[self.path][0].exists():
            path, kind = _FILES[self.path]
            self._answer(path.read_bytes(), kind)
        else:
            self._answer(b"there is no such page; the script is made by make web", "text/plain", 404)

    def do_POST(self) -> None:
        """Add a report."""
        size = self.headers.get("Content-Length", "")
        if self.path != "/report" or not size.isdecimal() or int(size) > MOST_BYTES:
            self._answer(b"not a report", "text/plain", 400)
            return
        try:
            self.server.add(self.rfile.read(int(size)))
        except (WireFormatError, InvalidInputError):  # the text may repeat bytes of the report
            self._answer(b"no report of this mechanism", "text/plain", 400)
            return
        self._answer(b"added", "text/plain")

    def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base
        """Log nothing: who reported, and when, is private."""


def mechanism_of(epsilon: float) -> Mechanism:
    """Return the mechanism of the page: the shares of a day, a vector of length 1 at most."""
    return PrivUnitG(dim=len(ACTIVITIES), epsilon=epsilon, ball=True)


def main() -> None:
    """Serve until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--epsilon", type=float, default=4.0)
    options = parser.parse_args()
    with Collector(options.port, mechanism_of(options.epsilon)) as server:
        print(f"http://127.0.0.1:{server.server_port}/ reports; /mean.json is the mean so far")  # noqa: T201 - a command
        server.serve_forever()


if __name__ == "__main__":
    main()
