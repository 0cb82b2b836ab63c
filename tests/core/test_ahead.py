"""Work one step ahead on a thread: items and errors in order, one item at most, and no thread that stays."""

import threading
from collections.abc import Iterator

import pytest

import streamsketch as ss
from streamsketch.core.ahead import one_ahead
from streamsketch.core.limits import current_limits, reading_limits
from tests.patience import wait_until


class Counted:
    """An iterator of numbers that says how many were begun, and notices if two threads are in it."""

    def __init__(self, count: int) -> None:
        self.count, self.begun, self.is_busy = count, 0, False

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        assert not self.is_busy
        self.is_busy = True
        self.begun += 1
        number, self.is_busy = self.begun - 1, False
        if number >= self.count:
            raise StopIteration
        return number


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("streamsketch-ahead")}


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_items_come_in_their_order(count: int) -> None:
    assert list(one_ahead(Counted(count))) == list(range(count))
    assert not threads()


def test_the_next_item_is_made_while_one_is_used_and_no_more() -> None:
    numbers = Counted(5)
    for number in one_ahead(numbers):
        wait_until(lambda number=number: numbers.begun == number + 2, "the next item")


def test_an_error_comes_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise ss.InvalidInputError("row 3 is not CSV")

    found: list[int] = []
    with pytest.raises(ss.InvalidInputError, match="row 3 is not CSV"):
        found.extend(one_ahead(failing()))
    assert found == [1, 2]
    assert not threads()


def test_no_thread_is_left_if_its_caller_fails() -> None:
    numbers = Counted(5)
    with pytest.raises(OSError, match="no space"):  # noqa: PT012 - as a caller does
        for _ in one_ahead(numbers):
            raise OSError("no space")
    assert not threads()
    assert numbers.begun <= 2


def test_items_are_made_under_the_limits_of_the_caller() -> None:
    with reading_limits(max_json_bytes=77):
        assert list(one_ahead(current_limits().max_json_bytes for _ in range(2))) == [77, 77]
