"""Metrics and health of a stream, from a watch, served on this machine or, of what is public, to a network."""

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from streamsketch.core.files import write_whole
from streamsketch.jobs.watch import Watch

_PREFIX = "streamsketch_stream_"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"  # what every Prometheus reads


class Server(ThreadingHTTPServer):
    """Serve the metrics and the health of a watch, in separate threads, until the ``with`` block ends.

    ``/metrics`` is for Prometheus; ``/health`` is one line of JSON, with status 200 or 503. The server has no access to
    the job's data, its key or the contents of alarms. It asks for no login. So on an address that other machines reach,
    it serves public facts alone, without what the watch's causes found (`Watch.health`).

    Parameters
    ----------
    watch
        The watch.
    port
        The port to listen on; 0 for any free port.
    address
        The IP address to listen on, such as ``"::1"``; ``"0.0.0.0"`` for all of IPv4, ``"::"`` for all of both.
    """

    daemon_threads = True

    def __init__(self, watch: Watch, port: int, address: str = "127.0.0.1") -> None:
        self.watch, self.registry = watch, CollectorRegistry()
        place = ipaddress.ip_address(address)
        # by the address alone: a proxy beside the server, as meshes have them, makes all clients look local
        self.is_private = place.is_loopback
        self.registry.register(_Metrics(watch, private=self.is_private))
        self.address_family = socket.AF_INET if place.version == 4 else socket.AF_INET6
        super().__init__((address, port), _Page)
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """The address of the pages, without a path."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}"

    def server_bind(self) -> None:
        """Listen; on ``"::"`` to IPv4 as well, whatever the machine's default is."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def keep_on(self, every: float, health: Path | None = None) -> None:
        """Check the stream every ``every`` seconds, forever; with a file, also write the line of ``/health`` to it."""
        while True:
            if health is not None:
                write_whole(health, _line(self.watch, private=True))
            time.sleep(every)
            self.watch.look()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Page(BaseHTTPRequestHandler):
    server: Server
    timeout = 10.0  # seconds, for a client that sends nothing
    server_version, sys_version = "streamsketch", ""  # without the version of Python

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, _TEXT, generate_latest(self.server.registry))
        elif path == "/health":
            watch, private = self.server.watch, self.server.is_private
            status = 503 if watch.complaints(private=private) else 200
            self._answer(status, "application/json", _line(watch, private=private))
        else:
            self._answer(404, "text/plain; charset=utf-8", b"/metrics or /health\n")

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


METRICS = {
    "healthy": "Whether the stream is healthy: 1 or 0",
    "releases": "Releases of public keys in the sink",
    "windows_missing_keys": "Windows before the newest one that lack a key",
    "newest_window_end_seconds": "End of the newest window with a release of every key, in seconds after 1970",
    "lag_seconds": "Seconds since the end of the newest complete window",
    "alarms": "Slots that were offered other bytes than they hold, or that the ledger refused",
    "refused": "Slots that the ledger refused",
    "job_restarts": "Restarts of the job, counted by Flink",
    "checkpoints_failed": "Checkpoints of the job that failed",
    "checkpoint_age_seconds": "Seconds since the last completed checkpoint began",
    "partitions": "Partitions of the topic",
    "partitions_silent": "Partitions of the topic that had no record for a time, which delays all windows",
    "partitions_added": "Partitions that were added to the topic since the watch began",
    "rows_read": "Rows that workers have read, including repeated work; private",
    "rows_late": "Rows dropped because their window was over; private",
    "rows_ahead": "Rows dropped because they were too far ahead of the log's clock (max_ahead); private",
    "rows_malformed": "Rows that could not be read and were dropped; private",
    "rows_blank": "Rows dropped because they lack a value that is needed; private",
    "rows_early": "Rows dropped because they are before the first window; private",
    "rows_other_keys": "Rows dropped because their key is not listed; private",
    "rows_messages": "Messages with content that were read; private",
    "rows_undecodable": "Messages that could not be decoded; private",
    "rows_lost": "Dropped rows and messages for which the folder of dead letters had no room; private",
    "partition_lag_records": "Records of a partition that the stream has not read, from its committed offsets",
}
"""Descriptions of metrics, by their names without the prefix."""


class _Metrics:
    """Numbers of a watch, computed when Prometheus asks."""

    def __init__(self, watch: Watch, *, private: bool) -> None:
        self._watch, self._private = watch, private

    def collect(self) -> Iterator[GaugeMetricFamily]:
        seen, lag = self._watch.seen, self._watch.lag
        numbers: dict[str, float | Mapping[int, float] | None] = {
            "healthy": not self._watch.complaints(private=self._private),
            "lag_seconds": lag,
        }
        if seen is not None:
            numbers |= {"releases": seen.releases, "windows_missing_keys": seen.missing}
            numbers |= {"newest_window_end_seconds": seen.newest_end, "alarms": seen.alarms, "refused": seen.refused}
        numbers |= self._watch.numbers if self._private else {}
        for name, number in numbers.items():
            if number is not None:
                labels = ["stream", "partition"] if isinstance(number, Mapping) else ["stream"]
                family = GaugeMetricFamily(_PREFIX + name, METRICS.get(name, name), labels=labels)
                if isinstance(number, Mapping):
                    for partition, each in number.items():
                        family.add_metric([self._watch.stream, str(partition)], float(each))
                else:
                    family.add_metric([self._watch.stream], float(number))
                yield family


def _line(watch: Watch, *, private: bool) -> bytes:
    return json.dumps(watch.health(private=private)).encode() + b"\n"
