"""A stream of several sources: its windows are a function of their logs, in whatever order they are read."""

import collections
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.streams import Stream
from streamsketch.streams.open_windows import Windows
from tests.streams.naive import AGREEMENT, KEYS, NEIGHBOURS, PEOPLE, Row, batch_of, beat, over_in, policy_of, windows_of
from tests.streams.test_open_windows import SECRET, STEPS, log_of

ROWS = ss.Agreement(AGREEMENT.projection, index="item", key="shop", value="n")
HOW: dict[str, tuple[ss.Agreement, dict[str, Any]]] = {
    "scale": (AGREEMENT, {}),
    "cut": (AGREEMENT, {"clip": "cut"}),
    "sums": (ROWS, {"clip": "none", "neighbours": NEIGHBOURS}),
    "people": (PEOPLE, {}),
    "heartbeats": (AGREEMENT, {"clock": "heartbeats"}),
}


def played(logs: list[list[Row]], how: str, seed: int) -> tuple[list[Any], Windows]:
    """Return the exact sums of each window that is over, with the logs read beside each other in some order."""
    agreement, changes = HOW[how]
    windows, chance = Windows(policy_of(Path("out"), agreement, **changes), SECRET), random.Random(seed)  # noqa: S311 - an order
    windows.clocks.add(map(str, range(len(logs))))
    found, read = [], [0] * len(logs)
    while places := [place for place, log in enumerate(logs) if read[place] < len(log)]:
        place = chance.choice(places)
        size = chance.randint(1, 9)
        windows.add(batch_of(logs[place][read[place] : read[place] + size]), read[place] + 1, str(place))
        read[place] += size
        while windows.is_over:
            closed = windows.closing()
            found.append({key: closed.table.sketch_of(key).state().tolist() for key in KEYS})
            windows.advance(closed)
    return found, windows


@given(
    st.lists(st.lists(STEPS, min_size=1, max_size=12).map(log_of), min_size=1, max_size=3),
    st.sampled_from([*HOW]),
    st.integers(0, 99),
)
def test_windows_do_not_depend_on_the_order_in_which_sources_are_read(
    logs: list[list[Row]], how: str, seed: int
) -> None:
    clock = "heartbeats" if how == "heartbeats" else "events"
    found, windows = played(logs, how, seed)
    again, others = played(logs, how, seed + 1)
    assert found == again
    assert windows.counts == others.counts
    expected = [windows_of(log, clock=clock) for log in logs]
    assert windows.counts.rows_late == sum(late for _, late in expected), "each by the clock of its own source"
    marks = [[row for row in log if clock == "events" or not row.shop] for log in logs]
    assert len(found) == (min(map(over_in, marks)) if all(marks) else 0)
    rows = collections.Counter(number for one, _ in expected for number in one)
    assert {number - windows._policy.first for number in windows.open} == {n for n in rows if n >= len(found)}


def stream_of(out: Path, **changes: Any) -> Stream:
    stream = Stream(*policy_of(out, **changes), out.parent / "s.raw-stream")
    stream.add_sources(["a", "b"])
    return stream


def published(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


LOG_A = [Row(second, KEYS[second % 2], "abc"[second % 3], 1, f"c{second % 4}") for second in range(0, 300, 13)]
LOG_B = [Row(second - second % 5, KEYS[second % 2], "b", 2, f"c{second % 5}") for second in range(0, 200, 11)]


def test_each_source_goes_on_from_its_place_whichever_is_read_first(out: Path) -> None:
    """From an earlier state, in another order, with restarts: the same bytes."""
    state = out.parent / "s.raw-stream"
    stream_of(out, epsilon=1.0).save({})
    backup, found = state.read_bytes(), []
    for order in ("aabb", "baba"):
        state.write_bytes(backup)
        for path in out.iterdir():
            path.unlink()
        for name in order:
            stream = stream_of(out, epsilon=1.0)
            log, place = {"a": LOG_A, "b": LOG_B}[name], dict(stream.position or {})
            start = place.get(name, 0)
            stream.add(batch_of(log[start : start + len(log) // 2 + 1]), start + 1, name)
            place[name] = min(len(log), start + len(log) // 2 + 1)
            stream.save(place)
        found.append(published(out))
    assert len(found[0]) == over_in(LOG_B) > 1
    assert found[0] == found[1]
    last = stream_of(out, epsilon=1.0)
    assert last.watermarks.keys() == {"a", "b"}
    assert last.position == {"a": len(LOG_A), "b": len(LOG_B)}


def test_a_source_without_rows_holds_windows_back_unless_it_is_idle(out: Path) -> None:
    stream = stream_of(out)
    stream.add(batch_of(LOG_A), 1, "a")
    stream.save({})
    assert not published(out)
    stream.set_idle("b")
    stream.save({})
    assert len(published(out)) == over_in(LOG_A)
    stream = stream_of(out)
    assert stream.idle == {"b"}
    stream.add(batch_of([Row(10, "north", "a", 1, "Ann"), Row(290, "north", "a", 1, "Ann")]), 1, "b")
    assert stream.idle == frozenset()
    assert stream.summary["rows_late"] == 1, "its window is closed, although its own clock was before it"
    stream.add(batch_of([beat(1000)]), 9, "a")
    stream.save({})
    assert len(published(out)) == over_in(LOG_A), "it holds them back again"


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
def test_a_source_stays_idle_until_its_watermark_moves(clock: str, out: Path) -> None:
    """Not by rows of a unit where heartbeats move it: others would see that windows wait."""
    stream = stream_of(out, clock=clock)
    stream.add(batch_of([beat(100)]), 1, "b")
    stream.add(batch_of([*LOG_A, beat(250)]), 1, "a")
    stream.set_idle("b")
    stream.add(batch_of([Row(90, "north", "a", 1, "Ann")]), 1, "b")
    assert stream.idle == {"b"}
    stream.add(batch_of([Row(240, "north", "a", 1, "Ann")]), 2, "b")
    assert stream.idle == ({"b"} if clock == "heartbeats" else set())
    stream.add(batch_of([beat(245)]), 3, "b")
    assert stream.idle == frozenset()


def test_a_source_that_is_added_later_counts_from_the_next_window_on(out: Path) -> None:
    stream = stream_of(out)
    stream.add(batch_of(LOG_A), 1, "a")
    stream.add(batch_of([beat(130)]), 1, "b")
    stream.save({})
    before = published(out)
    assert len(before) == 2
    assert stream.add_sources(["a", "c", "b"]) == ["c"]
    stream.add(batch_of([Row(second, "north", "c", 1, "Cy") for second in range(0, 400, 50)]), 1, "c")
    stream.add(batch_of([beat(400)]), 2, "b")
    stream.add(batch_of([beat(400)]), 99, "a")
    assert stream.summary["rows_late"] == 3
    stream.save({})
    assert len(published(out)) == over_in([beat(350)])
    assert before.items() <= published(out).items()


def test_a_stream_has_one_log_or_sources(out: Path) -> None:
    stream = stream_of(out)
    rows = batch_of(LOG_A[:1])
    for source in (None, "c"):
        with pytest.raises(ss.InvalidInputError, match="its sources are a, b"):
            stream.add(rows, 1, source)
    with pytest.raises(ss.InvalidInputError, match="no source c"):
        stream.set_idle("c")
    single = Stream(*policy_of(out), out.parent / "other.raw-stream")
    single.add(rows, 1)
    with pytest.raises(ss.InvalidInputError, match="one log without a name"):
        single.add_sources(["a"])
    assert single.events == 1
