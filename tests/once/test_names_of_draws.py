"""Seeds: every place that draws, and everything that is published or names the draw. One alone changes the first bytes.

Each site is given as a function of these facts that returns the first secret bytes it draws from, or for releases the
noise itself. Whoever adds a fact adds a line.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp

import streamsketch as ss
from streamsketch.beam.release.draws import KeyedDraw, RowDraw
from streamsketch.beam.release.rows import ScheduledWindows
from streamsketch.beam.run.bits import repeatable_bits
from streamsketch.beam.run.runs import RunSecret
from streamsketch.continual import Releaser, Tree
from streamsketch.data.windows import Tumbling
from streamsketch.once.draws import DrawSecret
from streamsketch.once.names import drawn_numbers, name_of_draw
from streamsketch.once.versions import Version, version_of, version_tag
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import AdditiveNoise
from streamsketch.sketching.exact import ExactSums
from streamsketch.streams import ReleaseOnce, Slot
from tests.once.test_release_once import Memory

CELLS, HOUR = 4, 3600
NEAR = ss.L1(9, unit="visit")
BOUNDED = Bounds(neighbours=NEAR, clip="cut", counted=True)
COUNTING = ss.privacy.Counting(1, slack=1)


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is published of a draw, and what names it."""

    cells: tuple[int, ...] = (3, 0, -2, 1)
    counts: tuple[int, ...] = (5, 4)
    counted: bool = True
    epsilon: float = 1.0
    unit: str = "visit"
    conditions: tuple[str, ...] = ()
    seed: int = 7
    key: Any = "north"
    window: int = 1
    stream: str = "sales"
    epoch: int = 1
    secret: bytes = bytes(32)
    label: str = "Release"
    history: bytes = bytes(8)

    @property
    def neighbours(self) -> ss.L1:
        return dataclasses.replace(NEAR, unit=self.unit)

    @property
    def projection(self) -> ss.projections.Projection:
        return ss.CountSketch(sketch_dim=CELLS, seed=self.seed)

    @property
    def noise(self) -> AdditiveNoise:
        counting = COUNTING if self.counted else None
        return AdditiveNoise(epsilon=self.epsilon, neighbours=self.neighbours, counting=counting)

    @property
    def publisher(self) -> Any:
        calibrated = self.noise.calibrated(self.projection)
        return calibrated.with_guarantee(calibrated.guarantee.on("enforced", list(self.conditions)))

    @property
    def rows_publisher(self) -> Any:
        calibrated = dataclasses.replace(self.noise, schedule=Tree(horizon=4)).calibrated(self.projection)
        return calibrated.with_guarantee(calibrated.guarantee.on("enforced", list(self.conditions)))

    @property
    def sketch(self) -> ss.Sketch:
        bounds = dataclasses.replace(BOUNDED, neighbours=self.neighbours)
        sums = ExactSums.of(np.array(self.cells), np.array(self.counts))
        return ss.Sketch.from_state(self.projection, sums, 9, bounds=bounds)

    @property
    def row(self) -> Any:
        return np.array([*self.cells, *(self.counts if self.counted else ())], dtype=np.int64)

    @property
    def beam_window(self) -> IntervalWindow:
        return IntervalWindow(Timestamp(HOUR * self.window), Timestamp(HOUR * (self.window + 1)))


def once(facts: Facts) -> bytes:
    sink, how = Memory(), {"public_keys": [facts.key], "epoch": facts.epoch}
    release = ReleaseOnce(facts.publisher, facts.secret, sink, facts.stream, **how)  # type: ignore[arg-type]
    found = release.release(facts.window * 10**6, {facts.key: facts.sketch}).held[facts.key]
    noise: bytes = (found.values - np.array(facts.cells)).tobytes()
    return noise


def window_of_a_stream(facts: Facts) -> bytes:
    numbers = {facts.key: drawn_numbers(facts.sketch, facts.publisher.guarantee)}
    draw = DrawSecret(facts.secret).draw(facts.window, facts.publisher, numbers)
    return draw.bits(facts.key).read(32)


def row_of_a_stream(facts: Facts) -> bytes:
    rows = {facts.key: facts.row}
    draw = DrawSecret(facts.secret).draw_row(facts.window, facts.rows_publisher, facts.history, rows)
    return draw.bits(facts.key).read(32)


def _first(draw: Any, total: Any, facts: Facts) -> bytes:
    run, found = RunSecret(facts.secret, b"", None), []

    def bits_of(*parts: bytes) -> KeyedBits:
        bits = repeatable_bits(run.derive("noise", facts.label), facts.key, facts.beam_window, *parts)
        found.append(bits.read(32))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        list(draw.draw(total, bits_of, facts.key, facts.beam_window, run))
    return found[0]


def on_beam(facts: Facts) -> bytes:
    draw = KeyedDraw(facts.noise, facts.projection, facts.publisher.guarantee, ["source"])
    return _first(draw, facts.sketch, facts)


def row_on_beam(facts: Facts) -> bytes:
    schedule = Tree(horizon=4)
    publisher = dataclasses.replace(facts.noise, schedule=schedule)
    of = ScheduledWindows(schedule, Tumbling(HOUR * 10**6), 0, 4)
    guarantee = facts.rows_publisher.guarantee
    draw = RowDraw(publisher, facts.projection, guarantee, ["source"], of=of, label=facts.label)
    return _first(draw, (facts.window, facts.row.astype("<i8").tobytes()), facts)


def releaser(facts: Facts) -> bytes:
    """Its bits are a function of the caller's: all that it passes is the key and the exact numbers of the row."""
    found: list[bytes] = []

    def bits(key: Any, row: Any) -> KeyedBits:
        found.append(repr((key, row.tolist())).encode())
        return KeyedBits(bytes(32), found[-1])

    adding = Releaser(facts.rows_publisher, facts.projection, history=facts.history)
    sums = facts.sketch.sums()
    table = ss.SketchTable.from_state(facts.projection, [facts.key], sums, np.array([9]), bounds=facts.sketch.bounds)
    adding.add(table, keys_are_public=True, bits=bits)
    return found[0]


def version(facts: Facts) -> bytes:
    """Of a window: the claim depends on these, and not on the epoch."""
    guarantee = facts.publisher.guarantee
    numbers = drawn_numbers(facts.sketch, guarantee)
    name = name_of_draw(guarantee, facts.projection, numbers, str(facts.key).encode(), bytes([facts.window]))
    return version_of({facts.key: version_tag(facts.secret, name)})


WHAT: dict[str, list[dict[str, Any]]] = {
    "cells": [{"cells": tuple(n + (place == at) for place, n in enumerate(Facts.cells))} for at in range(CELLS)],
    "counts": [{"counts": (6, 4)}, {"counts": (5, 5)}],
    "counted": [{"counted": False}],
    "guarantee": [{"epsilon": 2.0}, {"unit": "person"}, {"conditions": ("a condition",)}],
    "map": [{"seed": 8}],
    "key": [{"key": "south"}, {"key": 7}, {"key": "7"}],
    "window": [{"window": 2}],
    "stream": [{"stream": "returns"}],
    "epoch": [{"epoch": 2}],
    "secret": [{"secret": bytes(31) + b"1"}],
    "label": [{"label": "Another"}],
    "history": [{"history": bytes(7) + b"1"}],
}
PUBLISHED = ("cells", "counts", "counted", "guarantee", "map", "key", "window", "secret")
SITES: dict[str, tuple[Callable[[Facts], bytes], tuple[str, ...]]] = {
    "ReleaseOnce": (once, (*PUBLISHED, "stream", "epoch")),
    "streams.Draw": (window_of_a_stream, PUBLISHED),
    "streams.Draw, a row": (row_of_a_stream, (*PUBLISHED, "history")),
    "KeyedDraw": (on_beam, (*PUBLISHED, "label")),
    "RowDraw": (row_on_beam, (*PUBLISHED, "label")),
    "Releaser": (releaser, ("cells", "counts", "key")),
    "version": (version, PUBLISHED),
}
CASES = [(site, what) for site, (_, facts) in SITES.items() for what in facts]


@pytest.mark.parametrize(("site", "what"), CASES)
def test_one_thing_alone_changes_the_first_bytes(site: str, what: str) -> None:
    draw, _ = SITES[site]
    facts = Facts()
    found = [draw(dataclasses.replace(facts, **change)) for change in [{}, *WHAT[what]]]
    assert draw(facts) == found[0], "and nothing else does"
    assert len(set(found)) == 1 + len(WHAT[what])


@pytest.mark.parametrize("site", [site for site in SITES if site not in {"Releaser", "version"}])
def test_no_two_of_all_changes_draw_alike(site: str) -> None:
    draw, named = SITES[site]
    changes = [change for what in named for change in WHAT[what]]
    found = [draw(dataclasses.replace(Facts(), **change)) for change in changes]
    assert all(one != other for one, other in itertools.combinations(found, 2))


def test_counts_that_are_not_published_change_nothing() -> None:
    for draw, named in SITES.values():
        if "counted" in named:
            plain = dataclasses.replace(Facts(), counted=False)
            assert draw(plain) == draw(dataclasses.replace(plain, counts=(9, 9)))


def test_parts_of_a_name_do_not_run_into_each_other() -> None:
    """The same bytes in other parts are another name, and other keys another version."""
    facts, tags = Facts(), [b"1" * 32, b"2" * 32]
    guarantee = facts.publisher.guarantee
    names = [
        version_tag(bytes(32), name_of_draw(guarantee, facts.projection, [np.arange(2)], *place))
        for place in ((b"ab", b"c"), (b"a", b"bc"), (b"abc",), (b"abc", b""))
    ]
    assert len(set(names)) == 4
    versions = [
        dict(zip(keys, tags, strict=False)) for keys in (["a", "b"], ["b", "a"], ["a"], ["a", "c"], [b"a", "b"])
    ]
    assert len({version_of(one) for one in versions}) == 5
    assert version_of({"a": tags[0], "b": tags[1]}) == version_of({"b": tags[1], "a": tags[0]})


@pytest.mark.parametrize(
    "claim", [b"", b"other bytes", b"\xff\xfe", b"streamsketch version 1 zz zz\n", b"streamsketch version 1 00"]
)
def test_what_is_no_claim_is_no_version(claim: bytes) -> None:
    found = Version(Slot("sales", 0, "version", ""), bytes(32))
    assert not found.made(claim)
    assert found.made(found.claim())
    assert not found.made(found.claim()[:-2])
    assert not Version(found.slot, bytes(31) + b"1").made(found.claim())
