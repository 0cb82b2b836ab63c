"""Events on their way to their shards."""

import numpy as np
import pytest

from streamsketch.beam.shards import _HEADER, by_shard, decoded, encoded
from streamsketch.errors import WireFormatError
from streamsketch.sketching import Contributions


def events(seed: int, count: int, slots: list[tuple[object, int]], *, large: int = 9) -> Contributions:
    rng = np.random.default_rng(seed)
    return Contributions(
        rng.integers(1 << 63, size=(50, 2), dtype=np.uint64)[rng.integers(50, size=count)],
        slots,
        rng.integers(len(slots), size=count),
        rng.integers(1 << 60, size=count),
        rng.integers(-large, large, size=count),
    )


def listed(found: Contributions) -> list[tuple[object, ...]]:
    names = [found.slots[code] for code in found.codes.tolist()]
    return list(zip(map(tuple, found.units.tolist()), names, found.indices.tolist(), found.steps.tolist(), strict=True))


@pytest.mark.parametrize("windows", [1, 100])
def test_each_event_goes_to_the_shard_of_its_unit_beside_the_others_of_the_unit(windows: int) -> None:
    parts = [
        events(1, 200, [("AA", 7), ("UA", 7)]),
        events(2, 0, [("AA", 7)]),
        events(3, 100, [("UA", 7), (5, 7), *((b"x", moment) for moment in range(windows))], large=1 << 40),
    ]
    expected: dict[int, dict[object, list[tuple[object, ...]]]] = {}
    for row in (row for part in parts for row in listed(part)):
        unit = row[0]
        assert isinstance(unit, tuple)
        expected.setdefault(unit[0] % 5, {}).setdefault(unit, []).append(row)
    together = {shard: [row for rows in units.values() for row in rows] for shard, units in expected.items()}
    assert {shard: listed(decoded([found])) for shard, found in by_shard(parts, 5)} == together


def test_shards_without_events_get_nothing() -> None:
    assert list(by_shard([events(1, 0, [("AA", 7)])], 5)) == []


@pytest.mark.parametrize(
    "large", [9, *(1 << bits for bits in (7, 8, 15, 16, 23, 24, 31, 39, 40, 47, 48)), (1 << 62) - 1]
)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_coding_keeps_every_event(count: int, large: int) -> None:
    value = events(4, count, [("AA", -7), (5, 1 << 60), *((b"x", moment) for moment in range(200))], large=large)
    value.steps[:1] = -large
    found = decoded([encoded(value)])
    assert found.slots == value.slots
    for name in ("units", "codes", "indices", "steps"):
        np.testing.assert_array_equal(getattr(found, name), getattr(value, name))
        assert getattr(found, name).dtype == getattr(value, name).dtype


def test_parts_are_joined_in_order_and_slots_of_all_are_known_once() -> None:
    parts = [
        events(1, 200, [("AA", 7), ("UA", 7)]),
        events(2, 0, [("AA", 7)]),
        events(3, 100, [("UA", 7), (5, 7), (b"x", 9)]),
        events(7, 50, [("AA", 7), ("UA", 7)], large=1 << 40),
    ]
    found = decoded(map(encoded, parts))
    assert listed(found) == [row for part in parts for row in listed(part)]
    assert found.slots == [("AA", 7), ("UA", 7), (5, 7), (b"x", 9)]
    assert len(decoded([])) == 0


def test_events_take_as_few_bytes_as_they_need() -> None:
    value = events(5, 1000, [("AA", 7)])
    assert len(encoded(value)) < 1000 * (16 + 1 + 8 + 1 + 1) + 100
    value.indices[:] &= (1 << 39) - 1
    ((_, together),) = by_shard([value], 1)
    assert len(together) < 50 * (16 + 1) + 1000 * (5 + 1 + 1) + 100


def test_runs_that_do_not_add_up_are_refused() -> None:
    content = bytearray(encoded(events(6, 10, [("AA", 7)])))
    runs = content[8]
    content[_HEADER.size + 16 * runs] += 1
    with pytest.raises(WireFormatError, match="runs"):
        decoded([bytes(content)])


@pytest.mark.parametrize("cut", [0, 10, 100])
def test_other_bytes_are_refused(cut: int) -> None:
    whole = encoded(events(6, 10, [("AA", 7)]))
    with pytest.raises(WireFormatError):
        decoded([whole[:cut]])
