"""A headless Chromium, driven through its debugging pipe: in real time, without a port or a request to a network.

Virtual time, by which Chromium can also run a page, does not wait for other processes: it is over at once where the
page waits for one of them, on a machine that is busy.
"""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.patience import PATIENCE, wait_until

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
_FIXED = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]


class Chromium:
    """A window of a browser, whose profile is in a folder."""

    def __init__(self, folder: Path) -> None:
        assert BROWSER is not None
        self.folder = folder
        reading, own_end = os.pipe()
        own_start, writing = os.pipe()
        # where Chromium reads what it is asked, and writes its answers
        piped = ["bash", "-c", f'exec "$0" "$@" 3<&{reading} 4>&{writing}', BROWSER, *_FIXED]
        command = [*piped, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(  # noqa: S603
            command, pass_fds=(reading, writing), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(reading)
        os.close(writing)
        self._to, self._answers = os.fdopen(own_end, "wb", buffering=0), os.fdopen(own_start, "rb")
        self._count, self._rest, self._session = 0, b"", {}
        target = self._ask("Target.createTarget", url="about:blank", newWindow=True)["targetId"]
        session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = {}
        self._ask("Browser.close")
        self._process.wait(PATIENCE)
        self._to.close()
        self._answers.close()

    def _ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        asked = {"id": self._count, "method": method, "params": params, **self._session}
        self._to.write(json.dumps(asked).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            pass  # of what happened meanwhile
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._answers.fileno(), 1 << 16)
            assert data, "Chromium ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def show(self, url: str, size: tuple[int, int] = (1200, 1000)) -> None:
        """Show a page in a window of a size, once all of it is loaded."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        self._ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return what the body of an asynchronous function returns that runs in the page."""
        expression = f"(async () => {{ {script} }})()"
        found = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        wait_until(lambda: self.run(f"return Boolean({expression});"), expression)

    def picture(self) -> bytes:
        """Return a picture of the window."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed."""
        return base64.b64decode(self._ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
