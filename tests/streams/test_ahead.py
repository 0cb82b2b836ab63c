"""What the end of a window needs is computed while rows are added to other windows, and changes nothing."""

import threading
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.continual import Tree
from streamsketch.errors import LedgerError
from streamsketch.streams import Stream
from streamsketch.streams.ahead import Ahead
from streamsketch.streams.dry_run import DryStream
from tests.jobs.topic import NeverStop, Topic, as_json, reader, released, rows
from tests.patience import PATIENCE
from tests.streams.naive import AGREEMENT, KEYS, Row, batch_of, beat, policy_of
from tests.streams.test_sources import HOW

ONE = AGREEMENT.replace(key=None, neighbours=ss.L1(5, unit="customer"))
KINDS: dict[str, tuple[ss.Agreement, dict[str, Any]]] = {
    **HOW,
    "schedule": (ONE, {"schedule": Tree(horizon=8, max_windows=3), "public_keys": None, "epsilon": 5.0}),
    "slots": (AGREEMENT, {"stream": "sales"}),
    "counted": (AGREEMENT.replace(counting=ss.privacy.Counting(10, 2)), {}),
}
LOG = [
    row
    for second in range(0, 260, 9)
    for row in (Row(second, KEYS[second % 3], "abc"[second % 3], 1, f"c{second % 4}"), beat(second))
]


def stream_of(out: Path, kind: str, charge: Any = None) -> Stream:
    agreement, changes = KINDS[kind]
    policy = policy_of(out, agreement, **{"epsilon": 1.0} | changes)
    sink = ss.streams.FileSink(out) if "stream" in changes else None
    return Stream(*policy, out.parent / "s.raw-stream", charge or (lambda *_: None), sink=sink)


def files_of(out: Path) -> dict[str, bytes]:
    """Return what is published, without the salt of claims."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.suffix != ".version"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_come_meanwhile_lead_to_the_same_bytes(kind: str, out: Path) -> None:
    """Also those of the window itself, of a source that no window waits for."""
    stream = stream_of(out, kind)
    stream.add_sources(["a", "b"])
    stream.set_idle("b")
    stream.save({})
    state, results = (out.parent / "s.raw-stream").read_bytes(), []
    for ahead in (False, True):
        (out.parent / "s.raw-stream").write_bytes(state)
        stream, computed, changed = stream_of(out, kind), 0, 0
        for place in range(0, len(LOG), 12):
            rows = LOG[place : place + 12]
            stream.add(batch_of(rows), place + 1, "a")
            if ahead:
                computed += stream.windows.is_over
                assert stream.prepare(PATIENCE)
            size = stream.windows.size
            stream.add(batch_of([Row(max(0, rows[-1].at - 65), "south", "b", 2, f"d{place}")]), place + 1, "b")
            stream.set_idle("b")
            assert not ahead or stream.prepare(0), "it is not begun again, and again"
            changed += stream.windows.is_over and stream.windows.size > size
            stream.save({"row": place})
        results.append((files_of(out), stream.summary))
        for path in [path for path in out.rglob("*") if path.is_file()]:
            path.unlink()
    assert results[0] == results[1]
    assert len(results[0][0]) > 2
    assert computed >= changed > 1


def test_what_is_drawn_is_neither_charged_nor_written_before_it_is_saved(out: Path) -> None:
    charges: list[str] = []
    stream = stream_of(out, "scale", lambda *charge: charges.append(charge[2]))
    stream.add_sources(["a"])
    stream.save({})
    state = (out.parent / "s.raw-stream").read_bytes()
    stream.add(batch_of([*LOG[:20], beat(70)]), 1, "a")
    assert stream.prepare(PATIENCE)
    assert not charges
    assert not files_of(out)
    assert (out.parent / "s.raw-stream").read_bytes() == state
    stream.save({})
    assert len(charges) == len(files_of(out)) == 1


def test_a_charge_that_is_refused_publishes_nothing_that_was_drawn(out: Path) -> None:
    def refuse(*_: Any) -> None:
        raise LedgerError("spent")

    stream = stream_of(out, "scale", refuse)
    stream.add_sources(["a"])
    stream.add(batch_of([*LOG[:20], beat(70)]), 1, "a")
    assert stream.prepare(PATIENCE)
    with pytest.raises(LedgerError, match="spent"):
        stream.save({})
    assert not files_of(out)


def test_a_release_that_is_drawn_states_conditions_that_come_later(out: Path) -> None:
    stream = stream_of(out, "scale")
    stream.add_sources(["a"])
    stream.add(batch_of([*LOG[:20], beat(70)]), 1, "a")
    assert stream.prepare(PATIENCE)
    stream.require(["the log is read at night"])
    stream.save({})
    (path,) = out.iterdir()
    assert "the log is read at night" in ss.load(path).guarantee.conditions


def test_an_error_is_raised_where_it_has_a_caller() -> None:
    def fail() -> None:
        raise ss.InvalidInputError("no")

    ahead = Ahead(1, 2, fail)
    assert ahead.wait(PATIENCE)
    assert ahead.result(1, 2) is None


def test_the_thread_does_not_keep_a_process_that_ends() -> None:
    going = threading.Event()
    ahead = Ahead(1, 2, going.wait)
    assert not ahead.wait(0)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "window 1")
    going.set()
    assert ahead.result(1, 2)


def test_a_dry_run_draws_nothing(out: Path) -> None:
    agreement, job = policy_of(out, AGREEMENT, epsilon=1.0)
    stream = DryStream(agreement, job)
    stream.add(batch_of(LOG), 1)
    before = threading.active_count()
    assert stream.prepare(0)
    assert threading.active_count() == before


def test_a_topic_is_read_on_while_a_window_is_computed(tmp_path: Path) -> None:
    """What takes long here is the answer of `prepare`, as it does for many keys."""
    log = {minute: as_json(rows(minute, 9)) for minute in range(4)}
    found, adding = [], list[int]()
    for patience in (0, 3):
        topic = Topic(1)
        for messages in log.values():
            for message in messages:
                topic.write(0, message, second=0)
        folder = tmp_path / str(patience)
        read = reader(topic, folder)
        prepare, left = read.stream.prepare, patience

        def slow(seconds: float) -> bool:
            nonlocal left
            left -= 1
            adding.append(read.stream.events)  # noqa: B023 - called in the same turn
            return left < 0 and prepare(seconds)  # noqa: B023

        read.stream.prepare = slow  # type: ignore[method-assign]
        read.run(NeverStop(), every=0, once=True)
        found.append(set(released(folder)))
    assert found[0] == found[1]
    assert len(set(adding[-10:])) > 1
