"""Events on their way to their shards."""

import dataclasses
import datetime as dt
import itertools

import numpy as np
import pytest

from streamsketch.errors import WireFormatError
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.runs import Runs
from streamsketch.sketching.bounding.shards import HEADER, by_shard, decoded
from tests.sketching.bounding.edges import EDGES

_STEP_BYTES = 18  # where a header has the width of steps


def events(seed: int, count: int, slots: list[tuple[object, int]], *, large: int = 9) -> Contributions:
    rng = np.random.default_rng(seed)
    return Contributions(
        rng.integers(1 << 63, size=(50, 2), dtype=np.uint64)[rng.integers(50, size=count)],
        slots,
        rng.integers(len(slots), size=count),
        rng.integers(1 << 60, size=count),
        rng.integers(-large, large, size=count),
    )


def encoded(found: Contributions) -> bytes:
    ((_, content),) = by_shard([found], 1)
    return content


def listed(found: Contributions | Runs) -> list[tuple[object, ...]]:
    units = np.repeat(found.units, np.diff(found.bounds), axis=0) if isinstance(found, Runs) else found.units
    names = [found.slots[code] for code in found.codes.tolist()]
    return list(zip(map(tuple, units.tolist()), names, found.indices.tolist(), found.steps.tolist(), strict=True))


def by_unit(rows: list[tuple[object, ...]]) -> dict[object, list[tuple[object, ...]]]:
    """Return the rows of each unit, in their order."""
    units: dict[object, list[tuple[object, ...]]] = {}
    for row in rows:
        units.setdefault(row[0], []).append(row)
    return units


def assert_decoded(found: Runs, rows: list[tuple[object, ...]]) -> None:
    """Check that events are these rows, each unit's in one run and in their order."""
    assert by_unit(listed(found)) == by_unit(rows)
    assert len(found) == len(rows)
    assert len(found.units) == len({row[0] for row in rows})


@pytest.mark.parametrize("shards", [4, 5])
@pytest.mark.parametrize("windows", [1, 100])
def test_each_event_goes_to_the_shard_of_its_unit_beside_the_others_of_the_unit(windows: int, shards: int) -> None:
    parts = [
        events(1, 200, [("AA", 7), ("UA", 7)]),
        events(2, 0, [("AA", 7)]),
        events(3, 100, [("UA", 7), (5, 7), *((b"x", moment) for moment in range(windows))], large=1 << 40),
    ]
    expected: dict[int, list[tuple[object, ...]]] = {}
    for row in (row for part in parts for row in listed(part)):
        unit = row[0]
        assert isinstance(unit, tuple)
        expected.setdefault(unit[0] % shards, []).append(row)
    found = {shard: decoded([content]) for shard, content in by_shard(parts, shards)}
    assert found.keys() == expected.keys()
    for shard, rows in expected.items():
        assert_decoded(found[shard], rows)
        assert windows == 1 or set(found[shard].slots) == {row[1] for row in rows}, "of many, those that occur"


@pytest.mark.parametrize("wide", [{"large": 1 << 40}, {"index": (1 << 60) - 1}, {"index": 1 << 40}, {"slots": 300}])
def test_parts_of_other_widths_are_coded_in_any_order(wide: dict[str, int]) -> None:
    """By the widest of all parts, wherever it is: the first, the last, or between narrow ones."""

    def part(seed: int, *, index: int = 9, slots: int = 1, large: int = 9) -> Contributions:
        found = events(seed, 60, [("AA", moment) for moment in range(slots)], large=large)
        return dataclasses.replace(found, indices=np.arange(60) * (index // 59))

    parts = [part(1, **wide), part(2), part(3, index=1 << 20), events(4, 0, [("AA", 0)])]
    expected = sorted(row for one in parts for row in listed(one))
    for order in itertools.permutations(parts):
        decoded_rows = [listed(decoded([content])) for _, content in by_shard(list(order), 3)]
        assert sorted(row for rows in decoded_rows for row in rows) == expected


def test_shards_without_events_get_nothing() -> None:
    assert list(by_shard([events(1, 0, [("AA", 7)])], 5)) == []
    assert list(by_shard([], 5)) == []
    assert len(decoded([])) == 0


@pytest.mark.parametrize(
    "large", [9, *(1 << bits for bits in (7, 8, 15, 16, 23, 24, 31, 39, 40, 47, 48)), (1 << 62) - 1]
)
@pytest.mark.parametrize("count", [1, 300])
def test_coding_keeps_every_event(count: int, large: int) -> None:
    value = events(4, count, [("AA", -7), (5, 1 << 60), *((b"x", moment) for moment in range(200))], large=large)
    value.steps[:1] = -large
    found = decoded([encoded(value)])
    assert_decoded(found, listed(value))
    assert {getattr(found, name).dtype for name in ("bounds", "codes", "indices", "steps")} == {np.dtype(np.int64)}


@pytest.mark.parametrize("edge", EDGES)
def test_steps_at_the_edges_take_their_own_width(edge: int) -> None:
    """Alone, and beside a narrow step of either sign: as many bytes as a signed number takes, and back as it was."""
    for others in ([], [3], [-3]):
        value = events(8, 1 + len(others), [("AA", 7)])
        value.steps[:] = [*others, edge]
        content = encoded(value)
        assert_decoded(decoded([content]), listed(value))
        wide = max((step if step >= 0 else ~step).bit_length() + 1 for step in [*others, edge])
        assert content[_STEP_BYTES] == -(-wide // 8)


def test_parts_are_joined_in_order_and_slots_of_all_are_known_once() -> None:
    parts = [
        events(1, 200, [("AA", 7), ("UA", 7)]),
        events(3, 100, [("UA", 7), (5, 7), (b"x", 9)]),
        events(7, 50, [("AA", 7), ("UA", 7)], large=1 << 40),
    ]
    found = decoded(map(encoded, parts))
    assert_decoded(found, [row for part in parts for row in listed(part)])
    assert found.slots == [("AA", 7), ("UA", 7), (5, 7), (b"x", 9)]


def test_units_of_several_parts_are_one() -> None:
    """Among them some of one row and some of very many."""
    parts = [events(seed, 20_000, [("AA", 7), ("UA", 7)]) for seed in (1, 2)]
    parts[1].units[:] = parts[1].units[0]
    parts[1].units[7] = 8
    assert_decoded(decoded(map(encoded, parts)), [row for part in parts for row in listed(part)])


def test_units_that_share_a_word_are_several() -> None:
    """Both in a shard and where runs, or whole rows, are brought together again."""
    second = np.random.default_rng(1).integers(1 << 63, size=300, dtype=np.uint64)  # some meet in a hash table
    units, ones = np.stack([np.full(900, 7, np.uint64), np.tile(second, 3)], axis=1), np.ones(900, dtype=np.int64)
    part = Contributions(units, [("AA", 7)], ones * 0, np.arange(900), ones)
    assert_decoded(decoded([encoded(part)]), listed(part))
    assert_decoded(Runs.of(part), listed(part))
    runs = part.rows(np.argsort(part.indices % 300, kind="stable").repeat(2))
    assert_decoded(Runs.of(runs), listed(runs))


def test_events_take_as_few_bytes_as_they_need() -> None:
    value = events(5, 1000, [("AA", 7)])
    assert len(encoded(value)) < 50 * (16 + 1) + 1000 * (8 + 1 + 1) + 100
    value.indices[:] &= (1 << 40) - 1
    assert len(encoded(value)) < 50 * (16 + 1) + 1000 * (5 + 1 + 1) + 100


def test_rows_that_do_not_add_up_are_refused() -> None:
    content = bytearray(encoded(events(6, 10, [("AA", 7)])))
    units = content[8]
    content[HEADER.size + 16 * units] += 1
    with pytest.raises(WireFormatError, match="units"):
        decoded([bytes(content)])


def test_codes_without_a_name_are_refused() -> None:
    value = encoded(events(6, 10, [("AA", 7), ("UA", 7)]))
    units, width, row = value[8], value[16], sum(value[17:20])
    first = HEADER.size + units * (16 + width)
    content = bytearray(value)
    content[first + row - 1] = 2
    with pytest.raises(WireFormatError, match="codes"):
        decoded([bytes(content)])


@pytest.mark.parametrize("cut", [0, 10, 100])
def test_other_bytes_are_refused(cut: int) -> None:
    whole = encoded(events(6, 10, [("AA", 7)]))
    with pytest.raises(WireFormatError):
        decoded([whole[:cut]])


@pytest.mark.parametrize("key", ["AA", "", b"\xff", -7, 1 << 70, dt.date(1969, 12, 31)])
def test_slots_keep_keys_of_every_type(key: object) -> None:
    assert decoded([encoded(events(6, 10, [(key, -(1 << 60))]))]).slots == [(key, -(1 << 60))]


@pytest.mark.parametrize("forged", ["i", "x", "d9999999999", "t7", "s\xff"])
def test_slots_that_are_no_keys_are_refused(forged: str) -> None:
    name = "k" * (len(forged) - 1)
    content = encoded(events(6, 10, [(name, 7)]))
    assert decoded([content]).slots == [(name, 7)]
    with pytest.raises(WireFormatError, match="slots"):
        decoded([content[: -len(forged)] + forged.encode("latin-1")])
