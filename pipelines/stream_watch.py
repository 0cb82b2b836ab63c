r"""Metrics and health of a stream, from what it published alone.

    python -m pipelines.stream_watch --output /shared/out --stream flights --window 3600 --start 2013-01-01 \
        --public-keys AA,UA --alarms /shared/claims/flights.alarms --port 9100 --health /run/flights.json

serves http://127.0.0.1:9100/metrics for Prometheus and http://127.0.0.1:9100/health (200 or 503, one line of JSON), and
writes that line to a file. It reads the sink, as anybody may, and counts the alarms; it never meets the job, its data,
its key or the contents of alarms.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

import streamsketch as ss
from pipelines.stream_distances import moment_of, names_in
from pipelines.watching import Watch, sink_of
from streamsketch.core import write_whole

_PREFIX = "streamsketch_stream_"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"  # what every Prometheus reads


def main(arguments: Sequence[str] | None = None, stop: threading.Event | None = None) -> int:
    """Watch a stream until the program is ended; return the exit status."""
    known = _parser().parse_args(arguments)
    stop = stop or threading.Event()
    try:
        keys = known.public_keys
        watch = Watch(
            sink_of(known.output, known.database, known.stream),
            keys if known.agreement is None else ss.Agreement.load(known.agreement).keys_of(keys),
            start=known.start,
            size=known.window,
            offset=known.offset,
            stale_after=3 * known.window if known.stale_after is None else known.stale_after,
            patience=60 + 3 * known.every,
            alarms=known.alarms,
        )
        watch.look()
        with Server(watch, known.stream, known.port) as server:
            print(f"http://127.0.0.1:{server.server_port}/metrics and /health", flush=True)  # noqa: T201
            while True:
                if known.health is not None:
                    write_whole(known.health, _line(watch))
                if stop.wait(known.every):
                    return 0
                watch.look()
    except (ss.StreamsketchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 0


class Server(ThreadingHTTPServer):
    """Serves the metrics and the health of a watch on 127.0.0.1, in threads of its own, until the block ends.

    Parameters
    ----------
    watch
        The watch.
    stream
        Name of the stream.
    port
        Where to listen; 0 for any that is free.
    """

    daemon_threads = True

    def __init__(self, watch: Watch, stream: str, port: int) -> None:
        self.watch, self.registry = watch, CollectorRegistry()
        self.registry.register(_Metrics(watch, stream))
        super().__init__(("127.0.0.1", port), _Page)
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Page(BaseHTTPRequestHandler):
    server: Server
    timeout = 10.0  # of a client that says nothing

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, _TEXT, generate_latest(self.server.registry))
        elif path == "/health":
            status = 503 if self.server.watch.complaints() else 200
            self._answer(status, "application/json", _line(self.server.watch))
        else:
            self._answer(404, "text/plain; charset=utf-8", b"/metrics or /health\n")

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


class _Metrics:
    """Numbers of a watch, computed when Prometheus asks."""

    def __init__(self, watch: Watch, stream: str) -> None:
        self._watch, self._stream = watch, stream

    def collect(self) -> Iterator[GaugeMetricFamily]:
        seen, lag = self._watch.seen, self._watch.lag
        numbers: dict[str, tuple[str, float]] = {
            "healthy": ("Whether the stream is well: 1 or 0", not self._watch.complaints())
        }
        if seen is not None:
            numbers |= {
                "releases": ("Releases of public keys in the sink", seen.releases),
                "windows_missing_keys": ("Windows behind the newest one that lack a key", seen.missing),
            }
            if seen.newest_end is not None:
                end = "End of the newest window in which every key is there, in seconds after 1970"
                numbers["newest_window_end_seconds"] = (end, seen.newest_end)
            if lag is not None:
                numbers["lag_seconds"] = ("Seconds since the end of the newest window that is complete", lag)
            if seen.alarms is not None:
                numbers["alarms"] = (
                    "Slots that were offered other bytes than they hold, which were refused",
                    seen.alarms,
                )
        for name, (text, number) in numbers.items():
            family = GaugeMetricFamily(_PREFIX + name, text, labels=["stream"])
            family.add_metric([self._stream], float(number))
            yield family


def _line(watch: Watch) -> bytes:
    return json.dumps(watch.health()).encode() + b"\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.stream_watch",
        description="Metrics and health of a stream, from what it published alone, on 127.0.0.1.",
        allow_abbrev=False,
    )
    job = parser.add_argument_group("stream", "as the job pipelines.stream_distances has it")
    sink = job.add_mutually_exclusive_group(required=True)
    sink.add_argument("--output", metavar="DIR", help="folder of the releases, local or mounted")
    sink.add_argument("--database", metavar="sqlite:PATH|postgresql", help="where releases are instead")
    job.add_argument("--stream", required=True, metavar="NAME", help="name of the stream")
    job.add_argument("--window", required=True, type=float, metavar="SECONDS", help="length of a window")
    job.add_argument("--offset", default=0.0, type=float, metavar="SECONDS", help="where windows start (default 0)")
    job.add_argument(
        "--start", required=True, type=moment_of, metavar="TIME", help="first window that counts, ISO 8601"
    )
    job.add_argument("--public-keys", required=True, type=names_in, metavar="KEY[,KEY…]", help="keys that are released")
    job.add_argument("--agreement", metavar="FILE", help="what says of which type the keys are (default text)")
    watch = parser.add_argument_group("watch")
    watch.add_argument("--alarms", type=Path, metavar="DIR", help="folder of alarms, to count them: CLAIMS/NAME.alarms")
    watch.add_argument("--port", default=9100, type=int, help="on 127.0.0.1 (default 9100; 0: any that is free)")
    watch.add_argument("--health", type=Path, metavar="FILE", help="file for the line of health")
    watch.add_argument(
        "--stale-after", type=float, metavar="SECONDS", help="how long nothing may come (default three windows)"
    )
    watch.add_argument("--every", default=5.0, type=float, metavar="SECONDS", help="between two looks (default 5)")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sys.exit(main())
