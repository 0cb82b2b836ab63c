"""Compute in a thread what the end of a window needs, while rows are added to other windows."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

ResultT = TypeVar("ResultT")


class Ahead(Generic[ResultT]):
    """A result that is computed in a thread of its own, from what a window of this number and size holds.

    Parameters
    ----------
    number, size
        The window, and how many events it holds. If it has more by the time, the result is of no use.
    compute
        Returns the result, and changes nothing.

    Examples
    --------
    >>> ahead = Ahead(3, 200, lambda: "a result")
    >>> ahead.wait(60)
    True
    >>> ahead.result(3, 200), ahead.result(3, 201), ahead.result(4, 200)
    ('a result', None, None)
    """

    def __init__(self, number: int, size: int, compute: Callable[[], ResultT]) -> None:
        self.number, self._size, self._compute = number, size, compute
        self._result: ResultT | None = None
        self._thread = threading.Thread(target=self._run, name=f"window {number}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._compute()
        except Exception:  # noqa: BLE001 - it is computed again, where the error has a caller
            self._result = None

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; return whether the thread has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self, number: int, size: int) -> ResultT | None:
        """Return the result, once the thread has ended; None if it raised an error, or is of another window or size."""
        self._thread.join()
        return self._result if (self.number, self._size) == (number, size) else None
