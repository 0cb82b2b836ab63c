"""Servers of HTTP, each in a thread of a test: they answer at once, and end at once."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, TypeVar

S = TypeVar("S", bound=HTTPServer)
_LOOK = 0.005  # seconds between two looks whether the server is to end


class Page(BaseHTTPRequestHandler):
    """Answers at once, over connections that stay open.

    By Nagle's algorithm, the body of an answer would wait until the client acknowledges the headers, which it delays
    by 40 ms where a connection is used again.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def respond(self) -> None:
        """Respond to a request, whose method is ``self.command``."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def do_PUT(self) -> None:
        self.respond()

    @property
    def body(self) -> bytes:
        """What the client sent."""
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        """Answer; names of headers have underscores for hyphens."""
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(content))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def answer_json(self, status: int, content: Any, kind: str = "application/json") -> None:
        """Answer with what JSON holds."""
        self.answer(status, json.dumps(content).encode(), Content_Type=kind)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def serving(server: S) -> Iterator[S]:
    """Run a server in a thread; it ends with the block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": _LOOK}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def serving_pages(page: type[Page]) -> Iterator[str]:
    """Serve pages on a free port of this machine, each connection in a thread; yield the address."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), page)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
