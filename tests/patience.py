"""How long a test waits for what must come: no test is of how soon, on a machine that others may share."""

import time
from collections.abc import Callable

PATIENCE = 600  # seconds, after which a hang ends


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait until something is so, however slow the machine is."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.01)
