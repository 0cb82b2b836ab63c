"""A window is released once: the same sums give the same bytes in any life, other sums an alarm."""

import datetime as dt
import functools
import hashlib
import itertools
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.once.slots import VERSION
from streamsketch.privacy.assertions import conditions_of_keys
from streamsketch.release import AdditiveNoise
from streamsketch.streams import DatabaseSink, FileSink, ObjectSink, Released, ReleaseOnce, Sink, Slot
from tests.once.stores import store_of
from tests.once.test_sinks import KINDS

PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=7)
PUBLISHER = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).calibrated(PROJECTION)
SECRET = bytes(range(32))
KEYS = ["east", "north", "south"]
OF_KEYS = conditions_of_keys(keys_are_public=True, in_windows=True)
HOUR = 3_600_000_000


def sums(**values: int) -> dict[Any, ss.Sketch]:
    """Return the exact sketch of each key, which holds one value."""
    found = {}
    for key in KEYS:
        found[key] = PROJECTION.sketch()
        found[key].update(5, values.get(key, 0))
    return found


class Memory(Sink):
    """Slots in a dictionary, which note each put."""

    def __init__(self) -> None:
        self.slots: dict[Slot, bytes] = {}
        self.puts: list[Slot] = []
        self.breaks_after = 10**9

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        if len(self.puts) >= self.breaks_after:
            raise OSError("the network is gone")
        self.puts.append(slot)
        if slot in self.slots:
            return self.slots[slot]
        self.slots[slot] = content
        return None

    def get(self, slot: Slot) -> bytes | None:
        return self.slots.get(slot)


class Emptied(Memory):
    """Slots that are emptied once the last of them was looked up."""

    def get(self, slot: Slot) -> bytes | None:
        held = super().get(slot)
        if slot.key == KEYS[-1]:
            self.slots.clear()
        return held


def once(sink: Sink, **changes: Any) -> ReleaseOnce:
    options: dict[str, Any] = {
        "publisher": PUBLISHER,
        "secret": SECRET,
        "stream": "sales",
        "public_keys": KEYS,
    } | changes
    return ReleaseOnce(sink=sink, **options)


def releases_in(sink: Memory) -> dict[Slot, bytes]:
    """Return what slots of keys hold, without the claims of versions."""
    return {slot: content for slot, content in sink.slots.items() if slot.kind != VERSION}


def bytes_of(found: Released) -> dict[Any, bytes]:
    return {key: release.to_bytes() for key, release in found.held.items()}


@pytest.fixture(params=[kind for kind in KINDS if kind != "memory objects"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Sink]:
    """Return what makes an empty sink."""
    numbers = itertools.count()

    def make() -> Sink:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        if request.param == "files":
            return FileSink(folder)
        if request.param == "database":
            return DatabaseSink(functools.partial(sqlite3.connect, folder / "releases.sqlite"))
        return ObjectSink(store_of(request.param, folder))

    return make


def test_an_earlier_state_gives_the_same_bytes_in_each_sink(sink: Callable[[], Sink]) -> None:
    """In the sink that holds them, and in an empty one; other sums are an alarm there, and nothing is published."""
    given = sums(north=3, south=1)
    with sink() as first, sink() as empty:
        found = once(first).release(HOUR, given)
        assert list(found.held) == KEYS
        assert not found.alarms
        for again in (first, empty):
            assert bytes_of(once(again).release(HOUR, given)) == bytes_of(found)
        other = once(first).release(HOUR, sums(east=1, north=3, south=1))
        assert not other.held
        assert [one.slot.key for one in other.alarms] == KEYS
        assert [one.result for one in other.alarms] == [first.result, "withheld", "withheld"]
        assert other.alarms[0].held == hashlib.sha256(found.held["east"].to_bytes()).hexdigest()
        assert bytes_of(once(first).release(HOUR, given)) == bytes_of(found), "the first stays"


def noise(found: Released, given: dict[Any, ss.Sketch]) -> dict[Any, tuple[int, ...]]:
    return {key: tuple((release.values - given[key].state()).tolist()) for key, release in found.held.items()}


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "the secret's place": {"secret": lambda: SECRET},
    "the sink": {},
    "the secret": {"secret": bytes(32)},
    "the stream": {"stream": "returns"},
    "the epoch": {"epoch": 2},
    "the guarantee": {
        "publisher": AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="person")).calibrated(PROJECTION)
    },
}


@pytest.mark.parametrize("changed", CHANGES)
def test_noise_is_a_function_of_all_that_makes_a_release_another(changed: str) -> None:
    given = sums(north=3)
    first, second = (noise(once(Memory(), **how).release(HOUR, given), given) for how in ({}, CHANGES[changed]))
    assert len({*first.values()}) == 3, "keys have their own"
    same = changed in {"nothing", "the secret's place", "the sink"}
    assert {first[key] == second[key] for key in KEYS} == {same}
    assert first != noise(once(Memory()).release(2 * HOUR, given), given), "windows have their own"


def test_a_key_whose_sums_are_the_same_keeps_its_bytes_beside_others_that_changed() -> None:
    first, second = (bytes_of(once(Memory()).release(0, sums(north=n))) for n in (3, 4))
    assert first["east"] == second["east"]
    values = [ss.PrivateSketch.from_bytes(one["north"]).values for one in (first, second)]
    assert np.unique(np.abs(values[0] - values[1])).size > 2, "independent noise, not the difference of the sums alone"


@pytest.mark.parametrize("epoch", [1, 2])
def test_what_a_window_holds_is_of_one_version_of_its_rows(epoch: int) -> None:
    """Two processes with other rows, one after each operation of the other: who claims the window first decides."""
    mine, others = sums(north=3, south=1), sums(north=4, south=2)
    first, second = (bytes_of(once(Memory(), epoch=n).release(0, rows)) for n, rows in ((1, mine), (epoch, others)))
    for breaks in range(5):
        sink = Memory()
        sink.breaks_after = breaks
        if breaks < 4:
            with pytest.raises(OSError, match="network"):
                once(sink).release(0, mine)
        else:
            once(sink).release(0, mine)
        sink.breaks_after = 10**9
        other = once(sink, epoch=epoch).release(0, others)
        found = once(sink).release(0, mine)
        held = {slot.key: content for slot, content in releases_in(sink).items()}
        is_mine = breaks > 0  # once it is claimed
        assert held == (first if is_mine else second)
        assert (bool(other.alarms), bool(other.held), bool(found.alarms)) == (is_mine, not is_mine, not is_mine)


def test_equal_sums_in_a_new_epoch_fill_the_slots_that_are_empty() -> None:
    """They are one version: a unit is in one release of each key, with the noise of one epoch or the other."""
    mine, sink = sums(north=3, south=1), Memory()
    sink.breaks_after = 3
    with pytest.raises(OSError, match="network"):
        once(sink).release(0, mine)
    sink.breaks_after = 10**9
    found = once(sink, epoch=2).release(0, mine)
    assert list(found.held) == ["south"]
    assert [one.slot.key for one in found.alarms] == ["east", "north"]
    assert len(releases_in(sink)) == 3


def test_a_window_that_began_without_a_claim_is_not_continued_by_another_version() -> None:
    """As earlier versions of the library filled slots; equal bytes are the same version, whoever put them."""
    mine, sink = sums(north=3, south=1), Memory()
    expected = bytes_of(once(Memory()).release(0, mine))
    for north in (3, 4):
        sink = Memory()
        sink.slots = {Slot("sales", 0, "text", key): expected[key] for key in ("east", "north")}
        for _ in range(2):
            found = once(sink).release(0, sums(north=north, south=1))
        assert sorted(found.held) == (KEYS if north == 3 else ["east"])
        assert (Slot("sales", 0, "text", "south") in sink.slots) == (north == 3)


def test_claims_show_nothing() -> None:
    """Not whether two windows, streams, sinks or epochs have equal sums; and claims of other rows are as long."""
    claims = set()
    for stream in ("sales", "returns"):
        for epoch in (1, 2):
            for north in (0, 0, 1 << 40):
                sink = Memory()
                for window in (0, HOUR):
                    once(sink, stream=stream, epoch=epoch).release(window, sums(north=north))
                claims |= {content for slot, content in sink.slots.items() if slot.kind == VERSION}
    assert len(claims) == 24
    assert len({len(one) for one in claims}) == 1
    parts = {one[place : place + 8] for one in claims for place in range(len(b"streamsketch version 1 "), len(one) - 8)}
    assert len(parts) == 24 * (len(next(iter(claims))) - 8 - len(b"streamsketch version 1 ")), "nor parts of them"


def test_each_window_is_charged_once_and_before_it_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("shop", unit="customer", epsilon=3.0)
    publisher = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="customer in one hour")).calibrated(PROJECTION)
    sink = Memory()
    charged = once(sink, publisher=publisher, ledger=ledger, dataset="shop", unit="customer")
    for _ in range(2):
        for hour in range(2):
            assert not charged.release(hour * HOUR, sums(north=hour)).alarms
    assert ledger.left("shop").charges == 2
    sink.breaks_after = 0
    with pytest.raises(OSError, match="network"):
        charged.release(2 * HOUR, sums())
    sink.breaks_after = 10**9
    assert not charged.release(2 * HOUR, sums()).alarms, "which costs nothing more"
    assert ledger.left("shop").charges == 3

    before = dict(sink.slots)
    monkeypatch.setattr(type(publisher.noise), "sample", lambda *_: pytest.fail("it was drawn"))
    refused = charged.release(3 * HOUR, sums(north=1))
    assert refused.held == {}
    assert [(one.slot.start, one.slot.key, one.result) for one in refused.alarms] == [
        (3 * HOUR, key, "refused") for key in KEYS
    ]
    assert sink.slots == before


def test_other_sums_are_not_charged_where_they_cannot_be_published(tmp_path: Path) -> None:
    """The window was claimed for others, whether or not all its slots are filled; without a claim, they are charged."""
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("shop", unit="sale", epsilon=3.0)
    sink = Memory()
    charged = once(sink, ledger=ledger, dataset="shop")
    charged.release(0, sums(north=1))
    for _ in range(2):
        found = charged.release(0, sums(north=2))
        assert [(one.slot.key, one.result) for one in found.alarms] == [
            ("east", "release"), ("north", "withheld"), ("south", "withheld"),
        ]  # fmt: skip
        assert ledger.left("shop").charges == 1
        sink.slots.pop(Slot("sales", 0, "text", "south"), None)
    assert sorted(charged.release(0, sums(north=1)).held) == KEYS
    assert ledger.left("shop").charges == 1
    sink.slots.clear()
    assert sorted(charged.release(0, sums(north=2)).held) == KEYS
    assert ledger.left("shop").charges == 2


def test_what_was_not_charged_is_never_published(tmp_path: Path) -> None:
    """All slots are filled when that is looked up, and then they are emptied."""
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("shop", unit="sale", epsilon=3.0)
    sink = Emptied()
    charged = once(sink, ledger=ledger, dataset="shop")
    charged.release(0, sums(north=1))
    assert {one.result for one in charged.release(0, sums(north=2)).alarms} == {"release", "withheld"}
    assert sink.slots == {}
    assert ledger.left("shop").charges == 1


def test_windows_and_keys_are_those_that_are_public() -> None:
    sink, table = Memory(), PROJECTION.table()
    table.update(["north", "elsewhere"], [1, 2], [3, 4])
    found = once(sink).release(dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC), table)
    assert list(found.held) == KEYS
    assert {slot.window for slot in sink.puts} == {"2026-11-23T12-00-00Z"}
    assert [slot.kind for slot in sink.puts] == [VERSION, "text", "text", "text"], "the claim is before the first slot"
    assert [slot.key for slot in sink.puts[1:]] == KEYS, "in an order that does not depend on the data"
    sink = Memory()
    once(sink, public_keys=KEYS[::-1]).release(0, dict(reversed(sums().items())))
    assert [slot.key for slot in sink.puts[1:]] == KEYS, "and not on the caller: lives that differ meet at one slot"
    alone = once(Memory(), public_keys=None).release(0, {7: PROJECTION.sketch(), 5: PROJECTION.sketch()})
    assert sorted(alone.held) == [5, 7]


@pytest.mark.parametrize(
    ("listed", "keys", "conditions"),
    [
        (KEYS, KEYS, ()),
        (None, KEYS, OF_KEYS),
        (None, [""], ()),  # a stream without keys shows none
        (None, ["north"], OF_KEYS),
    ],
)
def test_keys_that_nobody_listed_are_public_by_a_condition(
    listed: list[str] | None, keys: list[str], conditions: tuple[str, ...]
) -> None:
    sketches = {key: PROJECTION.sketch() for key in keys}
    released = once(Memory(), public_keys=listed).release(0, sketches).held
    assert {release.guarantee.conditions for release in released.values()} == {conditions}


@pytest.mark.parametrize("clip", ["scale", "equal"])
@pytest.mark.parametrize("whole", [True, False])
def test_releases_do_not_state_which_keys_have_data(clip: Any, whole: bool) -> None:  # noqa: FBT001 - a parameter
    """What is known of a new sketch is not what is known of bounded ones, so none is released beside them."""
    near, fine = ss.SketchL2(1, unit="customer", max_keys=2), PROJECTION.replace(resolution="1/8192")
    agreed = ss.Agreement(fine, key="shop", index={"item": "integer"}, unit="customer", neighbours=near, clip=clip)
    rows = pa.table({"shop": ["north", "south"], "item": [1, 2], "customer": ["Ann", "Bob"]})
    publish = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=near).calibrated(fine)
    stated = set()
    for count in (2, 1, 0):
        table = ss.bound(rows[:count], agreed)
        assert isinstance(table, ss.SketchTable)
        given = table if whole else {key: table.sketch_of(key) for key in KEYS}
        found, _ = once(Memory(), publisher=publish).release(0, given)
        stated |= {(one.guarantee, one.clip, one.agreement) for one in found.values()}
        for new in (ss.Sketch(agreed), fine.sketch()):
            beside = {key: new if key == "east" else table.sketch_of(key) for key in KEYS}
            with pytest.raises(ss.InvalidInputError, match="states no bound"):
                once(Memory(), publisher=publish).release(0, beside)
        with pytest.raises(ss.InvalidInputError, match=r"no sketch of the public key 'east'.*sketch_of"):
            once(Memory(), publisher=publish).release(0, dict(table))
        for all_new in (ss.SketchTable(agreed), dict.fromkeys(KEYS, ss.Sketch(agreed))):
            with pytest.raises(ss.InvalidInputError, match="states no bound"):
                once(Memory(), publisher=publish).release(0, all_new)
    ((guarantee, shown, _),) = stated
    assert (guarantee.basis, shown) == ("enforced", clip)


def test_releases_of_a_window_are_known_to_be_of_the_same_data_in_all_epochs() -> None:
    first, second = (once(Memory(), epoch=epoch).release(0, sums(north=1)).held["north"] for epoch in (1, 2))
    other = once(Memory()).release(HOUR, sums(north=1)).held["north"]
    assert first.data_ids == second.data_ids
    assert not {*first.data_ids} & {*other.data_ids}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "short secret": ({"secret": b"short"}, "must be 32 bytes, got 5"),
    "a stream's name": ({"stream": "a b"}, "a stream's name must be"),
    "a ledger alone": ({"dataset": "shop"}, "ledger and dataset go together"),
    "epoch": ({"epoch": 0}, "epoch"),
    "a publisher of rows": (
        {
            "publisher": AdditiveNoise(
                epsilon=1.0, neighbours=ss.L1(1), schedule=ss.continual.Tree(horizon=4)
            ).calibrated(PROJECTION)
        },
        "rows",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_out_of_range_is_refused(name: str) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(ss.InvalidInputError, match=message):
        once(Memory(), **changes)


def test_a_call_that_fails_charges_and_draws_nothing(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("shop", unit="sale", epsilon=3.0)
    sink = Memory()
    charged = once(sink, ledger=ledger, dataset="shop")
    wrong: list[tuple[Any, Any, type[Exception]]] = [
        (0, {key: sums()[key] for key in KEYS[:2]}, ss.InvalidInputError),
        (0, sums() | {"north": PROJECTION.replace(seed=8).sketch()}, ss.errors.IncompatibleProjectionsError),
        (0, sums() | {"north": 3}, TypeError),
        (dt.datetime(2026, 1, 1), sums(), ss.InvalidInputError),  # noqa: DTZ001 - refused
        (10**18, sums(), ss.InvalidInputError),
        ("2026", sums(), TypeError),
    ]
    for window, given, kind in wrong:
        with pytest.raises(kind):
            charged.release(window, given)
    assert ledger.left("shop").charges == 0
    assert not sink.puts


def test_secrets_are_in_no_text() -> None:
    secret = secrets.token_bytes(32)
    assert secret.hex() not in repr(once(Memory(), secret=secret))
