"""A stream that publishes into a sink: each public key of a window in a slot of its own, once."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.continual import Tree
from streamsketch.once.rows import OtherRowsError
from streamsketch.streams import Sink, Slot, Stream
from streamsketch.streams.state import read_state
from tests.once.test_release_once import Memory, releases_in
from tests.once.test_release_once import sink as sink  # noqa: PLC0414 - which pytest then uses here
from tests.streams.naive import AGREEMENT, KEYS, Row, batch_of, over_in, policy_of
from tests.streams.test_draws import ONE

LOG = [
    Row(second, KEYS[second % 2], "abc"[second % 3], 1 + second % 5, f"c{second % 7}") for second in range(0, 200, 3)
]
OTHER = [LOG[0]._replace(item="c"), *LOG[1:]]
WINDOWS = over_in(LOG)


class Place:
    """A state that can be restored, and what it is charged for."""

    def __init__(self, folder: Path, agreement: ss.Agreement = AGREEMENT, **changes: Any) -> None:
        self.state, self.backup = folder / "s.raw-stream", folder / "backup"
        self.agreement = agreement
        self.policy = policy_of(folder / "unused", agreement, **{"epsilon": 1.0, "stream": "shops"} | changes)
        self.charges: list[str] = []

    def stream(self, sink: Sink) -> Stream:
        def charge(_: ss.Guarantee, __: Any, once: str) -> None:
            self.charges.append(once)

        return Stream(*self.policy, self.state, charge, sink=sink)

    def run(self, sink: Sink, rows: list[Row]) -> list[str]:
        """Read a log from the backup on, or from the first state; return alarms by key and result."""
        stream = self.stream(sink)
        if not self.backup.exists():
            stream.save({})
            shutil.copy(self.state, self.backup)
        shutil.copy(self.backup, self.state)
        stream = self.stream(sink)
        stream.add(batch_of(rows), 1)
        return [f"{one.slot.key} {one.result}" for one in stream.save({})]


def slots(keys: list[str]) -> list[Slot]:
    start = 1795352400 * 10**6  # 2026-11-22T13:00Z
    return [Slot("shops", start + 60 * 10**6 * n, "text", key) for n in range(WINDOWS) for key in sorted(keys)]


def test_an_earlier_state_gives_the_same_bytes_in_each_sink(sink: Callable[[], Sink], tmp_path: Path) -> None:
    check_lives(Place(tmp_path), sink, slots(KEYS))


def test_a_stream_without_keys_fills_one_slot_of_a_window(tmp_path: Path) -> None:
    check_lives(Place(tmp_path, ONE, public_keys=None), Memory, slots([""]))


def check_lives(place: Place, sink: Callable[[], Sink], named: list[Slot]) -> None:
    """Check the sink that holds the releases, and an empty one; other rows are an alarm of a slot of their window."""
    with sink() as first, sink() as empty:
        assert place.run(first, LOG) == []
        found = [first.get(slot) for slot in named]
        assert None not in found
        for again in (first, empty):
            assert place.run(again, LOG) == []
            assert [again.get(slot) for slot in named] == found
        assert len(set(place.charges)) == WINDOWS
        alarms = place.run(first, OTHER)
        assert alarms[0] == f"{named[0].key} {first.result}"
        assert [first.get(slot) for slot in named] == found, "the first stays"
        released = [ss.PrivateSketch.from_bytes(one or b"") for one in found]
        assert len({one.data_ids for one in released}) == len(named)
        assert {one.guarantee.neighbours.unit for one in released} == {"customer in one window of 60 s"}


def test_the_releases_are_those_of_the_table_that_the_state_holds(tmp_path: Path) -> None:
    place, sink = Place(tmp_path), Memory()
    sink.breaks_after = 0
    with pytest.raises(OSError, match="network"):
        place.run(sink, LOG)
    waiting = read_state(place.state).waiting
    sink.breaks_after = 10**9
    place.stream(sink).save({})
    tables = [ss.PrivateTable.from_bytes(waiting[number]) for number in sorted(waiting)]
    assert [table[key].to_bytes() for table in tables for key in sorted(KEYS)] == [*releases_in(sink).values()]


def test_killed_between_two_slots_the_rest_is_of_the_same_rows(tmp_path: Path) -> None:
    """Other rows then publish nothing more of that window, and all of those after it."""
    place, expected = Place(tmp_path), Memory()
    place.run(expected, LOG)
    for kept in range(1, 1 + len(KEYS)):
        sink = Memory()
        sink.breaks_after = kept  # the first is the claim
        with pytest.raises(OSError, match="network"):
            place.run(sink, LOG)
        sink.breaks_after = 10**9
        again = place.stream(sink)  # the state has what was drawn, and of which version it is
        assert again.save({}) == []
        assert releases_in(sink) == releases_in(expected)
        for slot in list(sink.slots)[kept:]:
            del sink.slots[slot]
        alarms = place.run(sink, OTHER)
        assert len(alarms) == len(KEYS)
        assert {slot: sink.slots.get(slot) for slot in slots(KEYS)[: len(KEYS)]} == {
            slot: expected.slots[slot] if place < kept - 1 else None
            for place, slot in enumerate(slots(KEYS)[: len(KEYS)])
        }
        assert all(slot in sink.slots for slot in slots(KEYS)[len(KEYS) :])


def test_after_a_state_is_lost_what_is_published_stays_and_is_not_charged_again(tmp_path: Path) -> None:
    place, sink = Place(tmp_path), Memory()
    place.run(sink, LOG)
    before = dict(sink.slots)
    place.state.unlink()
    place.backup.unlink()
    charged = len(place.charges)
    assert len(place.run(sink, LOG)) == len(slots(KEYS))
    assert sink.slots == before
    assert len(place.charges) == charged
    del sink.slots[slots(KEYS)[-1]]  # as if the process that lost its state was killed between two slots
    place.state.unlink()
    place.backup.unlink()
    place.run(sink, LOG)
    assert slots(KEYS)[-1] not in sink.slots, "rows of a window are of one state"


def test_rows_of_a_schedule_need_their_state(tmp_path: Path) -> None:
    place, sink = Place(tmp_path, schedule=Tree(horizon=8)), Memory()
    assert place.run(sink, LOG) == []
    assert list(releases_in(sink)) == slots(KEYS)
    found = dict(sink.slots)
    assert place.run(sink, LOG) == []
    assert sink.slots == found
    charged = [*place.charges]
    for _ in range(2):
        with pytest.raises(OtherRowsError, match="is not the row of"):
            place.run(sink, OTHER)
    assert set(place.charges) == set(charged), "other rows than the published ones are not charged"
    for path in (place.state, place.backup):
        path.unlink()
    with pytest.raises(ss.InvalidInputError, match=r"is published, but there is no state .*s\.raw-stream"):
        place.run(sink, LOG)
    assert sink.slots == found


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"stream": None}, "a stream's name must be"), ({"comparisons": "mean"}, "the job has comparisons, for")],
)
def test_a_stream_with_a_sink_has_a_name_and_nothing_else_of_a_job(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ss.InvalidInputError, match=said):
        Place(tmp_path, **changes).stream(Memory())


class Failing(Memory):
    """A sink that fails once, when so many slots were put before."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self._fails_at = fails_at

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        self._fails_at -= 1
        if self._fails_at == -1:
            raise OSError("no space left on the device")
        return super().put(slot, content)


@pytest.mark.parametrize("fails_at", range(WINDOWS * (len(KEYS) + 1)))
def test_each_window_is_counted_once_if_the_sink_fails_and_saving_is_tried_again(fails_at: int, tmp_path: Path) -> None:
    place, sink = Place(tmp_path), Failing(fails_at)
    stream = place.stream(sink)
    stream.add(batch_of(LOG), 1)
    with pytest.raises(OSError, match="no space"):
        stream.save({})
    assert stream.save({}) == []
    assert [sink.get(slot) is not None for slot in slots(KEYS)] == [True] * WINDOWS * len(KEYS)
    assert stream.released == WINDOWS
    assert len(place.charges) == WINDOWS
