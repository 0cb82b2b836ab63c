"""Each launch of a stream has an epoch of its own."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.streams import FileSink, Sink, claim_epoch
from tests.once.test_release_once import Memory
from tests.once.test_release_once import sink as sink  # noqa: PLC0414 - which pytest then uses here


def test_epochs_are_claimed_in_their_order(sink: Callable[[], Sink]) -> None:
    with sink() as claims:
        assert [claim_epoch(claims, "sales") for _ in range(20)] == [*range(1, 21)]
        assert claim_epoch(claims, "returns") == 1


def test_launches_at_the_same_time_have_different_epochs(tmp_path: Path) -> None:
    claimed: list[int] = []
    launches = [
        threading.Thread(target=lambda: claimed.append(claim_epoch(FileSink(tmp_path, "epoch"), "sales")))
        for _ in range(8)
    ]
    for launch in launches:
        launch.start()
    for launch in launches:
        launch.join()
    assert sorted(claimed) == [*range(1, 9)]


def test_a_claim_that_another_launch_makes_in_between_is_seen() -> None:
    class Late(Memory):
        """In which another launch claims epochs after this one has looked."""

        def get(self, _: ss.streams.Slot) -> bytes | None:
            return None

    claims = Late()
    assert [claim_epoch(claims, "sales") for _ in range(3)] == [1, 2, 3]


def test_a_stream_has_a_name() -> None:
    with pytest.raises(ss.InvalidInputError, match="a stream's name must be"):
        claim_epoch(Memory(), "a b")
