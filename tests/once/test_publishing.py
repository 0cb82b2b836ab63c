"""Slots that are filled once, in stores of any kind, and the alarms of those that hold other bytes."""

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from streamsketch.once.alarms import OTHER_BYTES, OTHER_VERSION, REFUSED, WITHHELD, Alarm, keep
from streamsketch.once.logs import EVENT, OPERATOR
from streamsketch.once.publishing import draw_window, put_slot, put_window
from streamsketch.once.sinks import NamedObjects
from streamsketch.once.slots import Slot
from streamsketch.once.versions import Version, version_slot

SLOTS = {key: Slot("sales", 0, "text", key) for key in ("north", "south", "west")}


class Objects(NamedObjects):
    """A store in memory."""

    def __init__(self, prefix: str = "/bucket/releases/") -> None:
        super().__init__(prefix, "sketch")
        self.objects: dict[str, bytes] = {}

    def create(self, name: str, content: bytes) -> bool:
        return self.objects.setdefault(name, content) is content

    def read(self, name: str) -> bytes | None:
        return self.objects.get(name)


def contents_of(text: str) -> dict[str, tuple[Slot, bytes]]:
    return {key: (slot, f"{text} {key}".encode()) for key, slot in SLOTS.items()}


def version(digest: bytes) -> Version:
    return Version(version_slot("sales", 0), digest * 32)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_store_needs_no_more_than_to_create_and_to_read() -> None:
    store = Objects()
    assert [store.put(SLOTS["north"], content) for content in (b"first", b"other")] == [None, b"first"]
    assert store.get(SLOTS["south"]) is None
    store.put(version_slot("sales", 0), b"a claim")
    folder = "bucket/releases/sales/1970-01-01T00-00-00Z"
    assert store.objects == {f"{folder}/north.sketch": b"first", f"{folder}/=sketch.version": b"a claim"}
    assert Objects("").name(SLOTS["north"]) == "sales/1970-01-01T00-00-00Z/north.sketch"


def test_a_slot_keeps_its_bytes_and_the_log_shows_no_digest(caplog: pytest.LogCaptureFixture) -> None:
    store, slot = Objects(), SLOTS["north"]
    assert [put_slot(store, slot, b"first", 1) for _ in range(2)] == [None, None]
    assert not caplog.records
    alarm = put_slot(store, slot, b"other", 2, "text")
    assert alarm == (slot, "text", 2, digest(b"first"), digest(b"other"))
    assert store.get(slot) == b"first"
    (record,) = caplog.records
    event = getattr(record, EVENT)
    assert event.keys() == {"time", "level", "event", "stream", "epoch", "window", "key", "result", "text"}
    assert (event["text"], event["key"], event["result"], event["epoch"]) == (OTHER_BYTES, "north", "text", 2)
    assert getattr(record, OPERATOR) == {}
    assert record.levelno == logging.ERROR


def test_a_window_of_another_version_is_withheld_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    store = Objects()
    assert put_window(store, contents_of("one"), 1, version(b"1")) == (["north", "south", "west"], [])
    held, alarms = put_window(store, contents_of("two"), 2, version(b"2"))
    assert held == []
    first = digest(b"one north")
    assert alarms[0] == (SLOTS["north"], "sketch", 2, first, None), "nothing was drawn, so nothing was offered"
    assert [alarm.result for alarm in alarms[1:]] == [WITHHELD, WITHHELD]
    assert [getattr(record, EVENT)["text"] for record in caplog.records] == [OTHER_VERSION]
    assert put_window(store, contents_of("one"), 3, version(b"1")).alarms == []


def test_without_a_claim_no_slot_is_put_beside_one_that_differs(caplog: pytest.LogCaptureFixture) -> None:
    """Neither before it nor after it: the window would hold two versions."""
    store = Objects()
    put_slot(store, SLOTS["south"], b"of an earlier version of the library", None)
    before = dict(store.objects)
    held, alarms = put_window(store, contents_of("one"), 1, version(b"1"))
    assert held == []
    results = [(alarm.slot, alarm.result) for alarm in alarms]
    assert results == [(SLOTS["north"], WITHHELD), (SLOTS["south"], "sketch"), (SLOTS["west"], WITHHELD)]
    assert store.objects == before
    assert [getattr(record, EVENT)["key"] for record in caplog.records] == ["south"]
    put_slot(store, SLOTS["north"], b"one north", None)
    put_slot(store, SLOTS["west"], b"of an earlier version, too", None)
    held, alarms = put_window(store, contents_of("one"), 1, version(b"1"))
    assert held == ["north"]
    assert [(alarm.slot, alarm.result) for alarm in alarms] == [(SLOTS["south"], "sketch"), (SLOTS["west"], WITHHELD)]


class Meanwhile(Objects):
    """A store in which something happens before or after it is read for the n-th time."""

    def __init__(self, place: int, then: Callable[[], object]) -> None:
        super().__init__()
        self._place, self._then, self._reads = place, then, 0

    def read(self, name: str) -> bytes | None:
        self._reads += 1
        if self._reads == self._place:
            self._then()
        held = super().read(name)
        if self._reads == -self._place:
            self._then()
        return held


@pytest.mark.parametrize("keys", [["north"], ["south"], ["west"], ["north", "west"], ["north", "south", "west"]])
def test_two_writers_at_once_publish_one_version(keys: list[str]) -> None:
    """Whatever keys have sketches in each version, and whenever the other writer comes: all its slots are its own."""
    for place in (sign * number for number in range(1, 10) for sign in (1, -1)):
        other = {key: contents_of("two")[key] for key in keys}
        store = Meanwhile(place, lambda: put_window(store, other, 1, version(b"2")))  # noqa: B023 - called in this round
        put_window(store, contents_of("one"), 1, version(b"1"))
        releases = {held.split()[0] for name, held in store.objects.items() if name.endswith(".sketch")}
        assert len(releases) == 1, (place, store.objects)


@pytest.mark.parametrize("claim", [None, b"1", b"2"])
@pytest.mark.parametrize("held", ["none", "one", "all", "all other"])
@pytest.mark.parametrize("covered", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_window_is_charged_before_it_is_drawn_and_only_if_it_can_be_published(
    claim: bytes | None, held: str, *, covered: bool, at_once: bool
) -> None:
    """All states of a sink: claimed or not, with no, some or all slots filled, with these bytes or others."""
    store, steps = Objects(), list[str]()
    if claim is not None:
        store.put(version_slot("sales", 0), version(claim).claim())
    for slot, content in contents_of("other" if held == "all other" else "mine").values() if held != "none" else ():
        store.put(slot, content)
        if held == "one":
            break
    before = dict(store.objects)

    def charge() -> bool:
        steps.append("charge")
        return covered

    def draw() -> str:
        steps.append("draw")
        return "mine"

    found = draw_window(
        store,
        list(SLOTS.values()),
        version(b"1"),
        charge=charge,
        draw=draw,
        contents=contents_of,
        epoch=3,
        at_once=at_once,
    )
    assert store.objects == before, "whoever calls it publishes"
    is_filled, results = held.startswith("all"), [alarm.result for alarm in found.alarms]
    if claim == b"2":
        assert (steps, found.release, results) == ([], None, [store.result, WITHHELD, WITHHELD])
    elif is_filled:
        later = ["charge"] if not at_once and held == "all" else []
        assert steps == ["draw", *later], "compared with what is there, which costs nothing"
        assert (found.release is None) == (later != [] and not covered)
        assert bool(results) == (held == "all other" or found.release is None)
    elif covered:
        assert (steps, found.release, found.put, results) == (["charge", "draw"], "mine", None, [])
    else:
        assert (steps, found.release, results) == (["charge"], None, [REFUSED] * 3)


@pytest.mark.parametrize("table", ["releases", "t" * 54])
@pytest.mark.parametrize("key", ["n", "n" * 200, "\u0447" * 33, "n" * 1000])
@pytest.mark.parametrize("start", [0, 1])
def test_an_alarm_has_a_file_whatever_the_names_of_its_key_and_table(
    table: str, key: str, start: int, tmp_path: Path
) -> None:
    slots = [Slot("sales", start, "text", name) for name in (key, key[:-1] + "m")]
    for _ in range(2):
        keep([Alarm(slot, table, 1) for slot in slots], tmp_path)
    read = [json.loads(path.read_bytes()) for path in tmp_path.iterdir()]
    assert sorted(fields["key"] for fields in read) == sorted(slot.key for slot in slots)
