"""Work that is done one step ahead on a thread, while what it made before is used."""

import contextvars
import threading
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

_END: Any = object()


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield what an iterator yields, each item made on a thread of its own while the one before is used.

    Two cores are busy where both sides release Python's lock, as Arrow's readers and compiled kernels do. Items and
    errors come in the same order, at most one item waits, and the iterator runs in one thread at a time, in the context
    of the caller. Each thread ends with its item, whatever becomes of the caller.

    Parameters
    ----------
    items
        The iterator. Nothing else may use it.

    Examples
    --------
    >>> list(one_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    following = _Next(items)
    try:
        while (item := following.result()) is not _END:
            following = _Next(items)
            yield item
    finally:
        following.join()


class _Next(threading.Thread, Generic[Item]):
    """A thread, which is started, that takes the next item of an iterator."""

    def __init__(self, items: Iterator[Item]) -> None:
        super().__init__(name="streamsketch-ahead")
        self._items, self._context = items, contextvars.copy_context()
        self._item: Item = _END
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Take the item, or keep the error."""
        try:
            self._item = self._context.run(next, self._items, _END)
        except BaseException as error:  # noqa: BLE001 - which the caller raises
            self._error = error

    def result(self) -> Item:
        """Return the item, `_END` after the last one, or raise the error."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._item
