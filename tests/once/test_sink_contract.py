"""The contract of sinks, on stores that lack one property each: they are refused when opened, or fill a slot once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.once.slots import VERSION
from streamsketch.streams import FileSink, ObjectSink, Sink, Slot
from tests.once.stores import store_of
from tests.once.test_release_once import KEYS, Memory, bytes_of, once, sums

SLOTS = [Slot("sales", 0, *key) for key in (("text", "north"), ("integer", "7"), ("text", "=7"), (VERSION, ""))]


# --- object stores ------------------------------------------------------------------------------------------------


class Store:
    """What `obstore` is asked for, on a dictionary: a store of a test, which lacks what the test takes from it."""

    def __init__(self, folder: Path) -> None:
        self.objects: dict[str, bytes] = {}
        self.real = store_of("memory objects", folder)

    def put(self, _: Any, name: str, content: bytes, *, mode: str, use_multipart: bool) -> None:
        assert (mode, use_multipart) == ("create", False), "only the store itself can compare and put in one step"
        if name in self.objects:
            raise self.exists(name)
        self.objects[name] = content

    def get(self, _: Any, name: str) -> Any:
        if name not in self.objects:
            raise FileNotFoundError(name)
        content = self.objects[name]
        return type("Result", (), {"bytes": lambda _: content})()

    def exists(self, name: str) -> Exception:
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 - an extra

        return AlreadyExistsError(name)


class Unconditional(Store):
    """Replaces an object, whatever is asked."""

    def put(self, _: Any, name: str, content: bytes, **__: Any) -> None:
        self.objects[name] = content


class NoConditions(Store):
    """Knows no conditional put."""

    def put(self, *_: Any, **__: Any) -> None:
        from obstore.exceptions import NotSupportedError  # noqa: PLC0415

        raise NotSupportedError("create")


class NotImplementedYet(Store):
    def put(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError


class LostAnswer(Store):
    """Carries out a put whose answer is lost, and finds its own object when it tries again."""

    def put(self, store: Any, name: str, content: bytes, **how: Any) -> None:
        super().put(store, name, content, **how)
        if "streamsketch" not in name:
            raise self.exists(name)


class TornPut(Store):
    """Fails while another put of the same object is not complete."""

    failures = 2

    def put(self, store: Any, name: str, content: bytes, **how: Any) -> None:
        if self.failures and "streamsketch" not in name:
            self.failures -= 1
            raise self.exists(name)
        super().put(store, name, content, **how)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Store]], tuple[Store, ObjectSink]]:
    obstore = pytest.importorskip("obstore", reason="object stores need the extra objects")

    def of(kind: type[Store]) -> tuple[Store, ObjectSink]:
        store = kind(tmp_path)
        monkeypatch.setattr(obstore, "put", store.put)
        monkeypatch.setattr(obstore, "get", store.get)
        monkeypatch.setattr("time.sleep", lambda _: None)
        return store, ObjectSink(store.real, "releases")

    return of


@pytest.mark.parametrize("kind", [Unconditional, NoConditions, NotImplementedYet])
def test_a_store_that_could_publish_twice_is_refused_when_it_is_opened(kind: type[Store], opened: Any) -> None:
    store, sink = opened(kind)
    for _ in range(2):
        with pytest.raises(ss.InvalidInputError, match="could be published twice"):
            sink.open()
    assert not [name for name in store.objects if not name.endswith(".streamsketch")]


@pytest.mark.parametrize("kind", [Store, LostAnswer, TornPut])
def test_a_store_that_hesitates_fills_each_slot_once(kind: type[Store], opened: Any) -> None:
    store, sink = opened(kind)
    with sink:
        for slot in SLOTS:
            assert sink.put(slot, b"first") in {None, b"first"}
            assert sink.put(slot, b"second") == b"first"
            assert sink.get(slot) == b"first"
    assert len([name for name in store.objects if not name.endswith(".streamsketch")]) == len(SLOTS)


def test_a_claim_whose_answer_was_lost_is_ones_own(opened: Any) -> None:
    _, sink = opened(LostAnswer)
    with sink:
        found = once(sink).release(0, sums(north=3))
        assert (sorted(found.held), found.alarms) == (KEYS, [])
        other = once(sink, epoch=2).release(0, sums(north=4))
        assert (other.held, len(other.alarms)) == ({}, 3)


# --- users' sinks -------------------------------------------------------------------------------------------------


class NoGet(Memory):
    """A sink that cannot find out what a slot holds."""

    def get(self, slot: Slot) -> bytes | None:
        del slot
        return None


class Deaf(Memory):
    """Answers a put as if the slot had been filled, though it was the one who filled it."""

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        super().put(slot, content)
        return self.slots[slot]


@pytest.mark.parametrize("kind", [Memory, NoGet, Deaf])
def test_a_window_is_of_one_version_in_a_sink_that_lacks_something(kind: type[Memory]) -> None:
    for breaks in range(5):
        sink = kind()
        sink.breaks_after = breaks
        if breaks < 4:
            with pytest.raises(OSError, match="network"):
                once(sink).release(0, sums(north=3, south=1))
        sink.breaks_after = 10**9
        once(sink, epoch=2).release(0, sums(north=4, south=2))
        contents = {slot.key: content for slot, content in sink.slots.items() if slot.kind != VERSION}
        versions = [
            bytes_of(once(Memory(), epoch=epoch).release(0, rows))
            for epoch, rows in ((1, sums(north=3, south=1)), (2, sums(north=4, south=2)))
        ]
        assert any(contents.items() <= version.items() for version in versions)


# --- names --------------------------------------------------------------------------------------------------------


def test_the_claim_has_a_name_that_no_key_has(tmp_path: Path) -> None:
    keys: list[Any] = ["", "version", "=version", "=sketch.version", "sketch", b"version", -1, "=", "=all"]
    from streamsketch.once.slots import named_key  # noqa: PLC0415

    slots = [Slot("sales", 0, *named_key(key)) for key in keys] + [SLOTS[-1]]
    sink = FileSink(tmp_path / "out")
    assert len({sink.path(slot) for slot in slots}) == len({slot.file for slot in slots}) == len(slots)
    assert [sink.put(slot, str(n).encode()) for n, slot in enumerate(slots)] == [None] * len(slots)
    assert len(list((tmp_path / "out").rglob("*.sketch"))) == len(keys), "and none that readers of releases look for"
    assert sink.path(SLOTS[-1]).name == "=sketch.version"
    assert isinstance(sink, Sink)
