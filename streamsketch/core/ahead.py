"""Work that is done one step ahead on a thread, while what it made before is used."""

import contextvars
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")

_END: Any = object()


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield what an iterator yields, each item made on a thread while the one before is used.

    Two cores are busy where both sides release Python's lock, as Arrow's readers and compiled kernels do. Items and
    errors come in the same order, at most one item waits, and the iterator runs in the context of the caller. The
    thread ends after the last item, after an error, or when nothing refers to what is returned any more. It is one for
    all items, as a new one would begin with no memory of its own, whose pages cost more than the thread.

    Parameters
    ----------
    items
        The iterator. Nothing else may use it.

    Examples
    --------
    >>> list(one_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    context = contextvars.copy_context()

    def take() -> Item:
        return context.run(lambda: next(items, _END))

    with ThreadPoolExecutor(1, thread_name_prefix="streamsketch-ahead") as pool:
        following = pool.submit(take)
        while (item := following.result()) is not _END:
            following = pool.submit(take)
            yield item
