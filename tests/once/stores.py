"""Object stores of this machine: in memory, in a folder, and a server of S3's protocol."""

import contextlib
import datetime as dt
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Page, serving


def store_of(kind: str, folder: Path) -> Any:
    """Return a store; skip the test without the extra ``objects``."""
    stores = pytest.importorskip("obstore.store", reason="object stores need the extra objects")
    return stores.MemoryStore() if kind == "memory objects" else stores.LocalStore(folder)


class Bucket(ThreadingHTTPServer):
    """A bucket as S3 serves it: puts with ``If-None-Match: *``, and gets.

    Parameters
    ----------
    honours
        Whether it follows the condition of a put, as some that follow the protocol do not.
    """

    daemon_threads = True

    def __init__(self, *, honours: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.honours, self.objects, self.lock = honours, dict[str, bytes](), threading.Lock()
        self.lose_answers = 0
        """How many puts are carried out, and then not answered."""
        self.conflicts = 0
        """How many puts are refused since another one of the same object is not complete (409)."""

    @property
    def store(self) -> Any:
        """A client of it."""
        stores = pytest.importorskip("obstore.store", reason="object stores need the extra objects")
        return stores.S3Store(
            "bucket",
            endpoint=f"http://127.0.0.1:{self.server_port}",
            access_key_id="key",
            secret_access_key="key",  # noqa: S106 - of a server of this test
            region="local",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 3, "backoff": {"init_backoff": dt.timedelta(milliseconds=1)}},
        )


class _Handler(Page):
    server: Bucket

    def respond(self) -> None:
        if self.command == "PUT":
            self._put()
        else:
            content = self.server.objects.get(self.path)
            self._answer(404 if content is None else 200, content or b"")

    def _put(self) -> None:
        bucket, content = self.server, self.body
        with bucket.lock:
            if bucket.conflicts:
                bucket.conflicts -= 1
                self._answer(409)
                return
            if bucket.honours and self.headers["If-None-Match"] == "*" and self.path in bucket.objects:
                self._answer(412)
                return
            bucket.objects[self.path] = content
            if bucket.lose_answers:
                bucket.lose_answers -= 1
                self._answer(503)
                return
        self._answer(200)

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.answer(status, content, ETag='"1"', Last_Modified="Mon, 23 Nov 2026 12:00:00 GMT")


@contextlib.contextmanager
def bucket(**how: Any) -> Iterator[Bucket]:
    """Serve a bucket."""
    with serving(Bucket(**how)) as server:
        yield server
