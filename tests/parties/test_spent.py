"""A key contributes once to a round, whoever holds it: objects, processes, and what a crash leaves behind."""

import contextlib
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.core.files import append, appending
from streamsketch.errors import InvalidInputError
from streamsketch.parties import Key, Round
from streamsketch.privacy.samplers import KeyedBits
from tests.parties.test_rounds import KEYS, PROJECTION, a_round
from tests.patience import PATIENCE

FORK = multiprocessing.get_context("fork")
ALREADY = r"has already contributed to round \w+…"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    Key.generate("North").save(tmp_path / "north.pem")
    return tmp_path / "north.pem"


def round_of(key: Key) -> Round:
    return a_round([key, KEYS[0]])


def linked(path: Path) -> Key:
    link = path.with_name("link.pem")
    if not link.exists():
        link.symlink_to(path)
    return Key.load(link)


def elsewhere(path: Path) -> Key:
    """Load the key by another path, from another folder."""
    (path.parent / "folder").mkdir(exist_ok=True)
    return Key.load(path.parent / "folder" / ".." / path.name, name="other")


HOLDERS: dict[str, Callable[[Path], Key]] = {"loaded": Key.load, "by a link": linked, "by another path": elsewhere}


@pytest.mark.parametrize(("first", "second"), list(itertools.product(HOLDERS, HOLDERS)))
def test_two_objects_of_one_file_contribute_once(first: str, second: str, saved: Path) -> None:
    one, other = HOLDERS[first](saved), HOLDERS[second](saved)
    agreed, sketch = round_of(one), PROJECTION.sketch()
    agreed.contribute(sketch, one)
    for key in (one, other, Key.load(saved)):
        with pytest.raises(InvalidInputError, match=f"{ALREADY}, as north.pem.rounds records"):
            agreed.contribute(sketch, key)
    round_of(one).contribute(sketch, other)
    record = saved.with_name("north.pem.rounds")
    assert record.stat().st_mode & 0o777 == 0o600
    assert len(record.read_text().splitlines()) == 2


def test_a_key_file_with_two_names_has_one_record_or_is_refused(saved: Path) -> None:
    agreed, sketch, record = round_of(Key.load(saved)), PROJECTION.sketch(), saved.with_name("north.pem.rounds")
    agreed.contribute(sketch, Key.load(saved))
    other = saved.with_name("other.pem")
    os.link(saved, other)
    for path in (saved, other):
        with pytest.raises(InvalidInputError, match=f"{path.name} is one of several names of one file"):
            Key.load(path)
        with pytest.raises(InvalidInputError, match=ALREADY):
            agreed.contribute(sketch, Key.load(path, record=record))


def test_a_key_that_is_saved_or_saved_again_does_not_forget(tmp_path: Path) -> None:
    key, sketch = Key.generate(), PROJECTION.sketch()
    before, after = round_of(key), round_of(key)
    before.contribute(sketch, key)
    for name in ("a.pem", "b.pem"):
        key.save(tmp_path / name)
    after.contribute(sketch, key)
    last, loaded = round_of(key), Key.load(tmp_path / "a.pem")
    last.contribute(sketch, key)
    loaded.save(tmp_path / "c.pem")  # which has not read what others wrote
    for agreed, name in itertools.product((before, after, last), ("a.pem", "b.pem", "c.pem")):
        with pytest.raises(InvalidInputError, match=ALREADY):
            agreed.contribute(sketch, Key.load(tmp_path / name))


def test_where_the_record_cannot_be_written_nothing_is_sent_or_charged(saved: Path, tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("visits", unit="visit", epsilon=2.0)
    key = Key.load(saved, record=tmp_path / "none" / "record")
    agreed = round_of(key)
    with pytest.raises(OSError, match="none"):
        agreed.contribute(PROJECTION.sketch(), key, ledger=ledger, dataset="visits")
    assert ledger.left("visits").epsilon == 2.0
    (tmp_path / "none").mkdir()
    agreed.contribute(PROJECTION.sketch(), key, ledger=ledger, dataset="visits")
    with pytest.raises(InvalidInputError, match=f"{ALREADY}, as record records"):
        agreed.contribute(PROJECTION.sketch(), Key.load(saved, record=tmp_path / "none" / "record"))


# --- a round and the rounds of its keys ----------------------------------------------------------------------------


def whole(agreed: Round, key: Key) -> bytes:
    return agreed.contribute(PROJECTION.sketch(), key)


def part(name: str) -> Callable[[Round, Key], bytes]:
    return lambda agreed, key: agreed.for_key(name).contribute(PROJECTION.sketch(), key)


def repeatable(name: str, seed: int) -> Callable[[Round, Key], bytes]:
    sketch = PROJECTION.sketch()  # whose data ids are the same each time
    return lambda agreed, key: agreed.for_key(name).contribute_again(sketch, key, KeyedBits(bytes(32), b"%d" % seed))


STEPS: dict[str, Callable[[Round, Key], bytes]] = {
    "whole": whole,
    "A": part("A"),
    "B": part("B"),
    "A, repeatable": repeatable("A", 1),
    "A, of other bits": repeatable("A", 2),
    "B, repeatable": repeatable("B", 1),
}
TOGETHER = {("A", "B"), ("A", "B, repeatable"), ("B", "A, repeatable"), ("B", "A, of other bits"),
            ("A, repeatable", "A, repeatable"), ("A, of other bits", "A, of other bits"),
            ("B, repeatable", "B, repeatable"), ("A, repeatable", "B, repeatable"),
            ("A, of other bits", "B, repeatable")}  # fmt: skip


@pytest.mark.parametrize("session", ["the same", "signed anew"])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(STEPS, STEPS)))
def test_what_may_follow_what_in_one_round(first: str, second: str, session: str, saved: Path) -> None:
    key = Key.load(saved)
    agreed = round_of(key)
    again = agreed.signed(key).signed(KEYS[0]) if session == "signed anew" else agreed
    sent = STEPS[first](agreed, key)
    may = {(first, second), (second, first)} & TOGETHER and (session == "the same" or first != second)
    if may:
        found = STEPS[second](again, Key.load(saved))
        assert (found == sent) == (first == second)
        return
    lines = saved.with_name("north.pem.rounds").read_bytes()
    with pytest.raises(InvalidInputError, match=ALREADY):
        STEPS[second](again, Key.load(saved))
    assert saved.with_name("north.pem.rounds").read_bytes() == lines


# --- processes, and crashes ----------------------------------------------------------------------------------------


def contribute_to(path: Path, agreed: Round, ready: Any, number: int) -> None:
    key = Key.load(path)
    ready.wait()
    try:
        sent = agreed.contribute(PROJECTION.sketch(), key)
    except InvalidInputError:
        return
    path.with_name(f"{number}.contribution").write_bytes(sent)


def test_of_processes_that_contribute_at_once_one_does(saved: Path) -> None:
    key = Key.load(saved)
    for _ in range(2):
        agreed, ready = round_of(key), FORK.Barrier(4)
        workers = [FORK.Process(target=contribute_to, args=(saved, agreed, ready, number)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(PATIENCE)
            assert worker.exitcode == 0
        (sent,) = saved.parent.glob("*.contribution")
        sent.unlink()


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_whenever_the_record_is_free_another_may_take_part_and_then_nobody_else(
    first: str, turn: int, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the record and the line in it, there is no time at which it is free."""
    key, other = Key.load(saved), Key.load(saved)
    agreed, sent, releases = round_of(key), [], itertools.count(1)

    @contextlib.contextmanager
    def then_another(path: Path) -> Iterator[Any]:
        with appending(path) as file:
            yield file
        if next(releases) == turn:
            with contextlib.suppress(InvalidInputError):
                sent.append(whole(agreed, other))

    monkeypatch.setattr("streamsketch.parties.spent.appending", then_another)
    with contextlib.suppress(InvalidInputError):
        sent.append(STEPS[first](agreed, key))
    assert len(sent) == 1


def test_the_game_of_processes_finds_a_record_without_a_lock(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault put back: both read before either writes."""
    key = Key.load(saved)
    agreed, meet = round_of(key), FORK.Barrier(2)
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    add = append

    def slowly(file: Any, data: bytes) -> None:
        meet.wait()
        add(file, data)

    monkeypatch.setattr("streamsketch.parties.spent.append", slowly)
    workers = [FORK.Process(target=contribute_to, args=(saved, agreed, FORK.Barrier(1), n)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert len(list(saved.parent.glob("*.contribution"))) == 2


@pytest.mark.parametrize("where", ["before the line", "half the line", "before it is on the disk", "after it"])
def test_killed_at_any_time_nothing_is_sent_twice(where: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key.load(saved)
    agreed, other, add = round_of(key), round_of(key), append

    def die(file: Any, data: bytes) -> None:
        written = {"before the line": b"", "half the line": data[:33]}.get(where, data)
        if where == "after it":
            add(file, written)
        else:
            file.write(written)
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr("streamsketch.parties.spent.append", die)
        worker = FORK.Process(target=contribute_to, args=(saved, agreed, FORK.Barrier(1), 0))
        worker.start()
        worker.join(PATIENCE)
    assert worker.exitcode == -signal.SIGKILL
    assert not list(saved.parent.glob("*.contribution"))
    other.contribute(PROJECTION.sketch(), Key.load(saved))  # nothing is locked, and what was torn is mended
    with pytest.raises(InvalidInputError, match=ALREADY):
        other.contribute(PROJECTION.sketch(), Key.load(saved))
    if where in {"before the line", "half the line"}:  # nothing left, so nothing is lost
        agreed.contribute(PROJECTION.sketch(), Key.load(saved))
    with pytest.raises(InvalidInputError, match=ALREADY):
        agreed.contribute(PROJECTION.sketch(), Key.load(saved))


@pytest.mark.parametrize("first", ["whole", "A, repeatable"])
@pytest.mark.parametrize("end", [1, 63, 64, 65, 128, 129, 130, 193, 194])
def test_a_line_torn_anywhere_is_no_record(first: str, end: int, saved: Path) -> None:
    """Nothing was sent, also where what is left looks like the record of a round, or of a key without its digest."""
    key, record = Key.load(saved), saved.with_name("north.pem.rounds")
    agreed, step = round_of(key), STEPS[first]
    step(agreed, key)
    line = record.read_bytes().removesuffix(b"\n")
    record.write_bytes(line[:end])
    other = Key.load(saved)
    round_of(other).contribute(PROJECTION.sketch(), other)  # what follows does not make it one
    sent = step(agreed, other)
    if first == "whole":
        with pytest.raises(InvalidInputError, match=ALREADY):
            step(agreed, Key.load(saved))
        return
    assert step(agreed, Key.load(saved)) == sent
    STEPS["B, repeatable"](agreed, Key.load(saved))


def test_a_line_is_on_the_disk_before_anything_leaves(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, kept, record = Key.load(saved), [""], saved.with_name("north.pem.rounds")
    agreed, other = round_of(key), round_of(key)
    monkeypatch.setattr(os, "fsync", lambda _: kept.append(record.read_text() if record.exists() else ""))
    agreed.contribute(PROJECTION.sketch(), key)
    assert kept[-1] == f"{agreed.fingerprint}\n"
    repeatable("A", 1)(other, key)
    assert kept[-1].splitlines()[-1].startswith(f"{other.fingerprint} {other.for_key('A').fingerprint} ")


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"hello\n", b"AB" * 32 + b"\n", b"ab" * 100 + b"\n"])
def test_a_damaged_record_ends_a_key(damage: bytes, saved: Path) -> None:
    key = Key.load(saved)
    saved.with_name("north.pem.rounds").write_bytes(b"ab" * 32 + b"\n" + damage)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="is damaged"):
            round_of(key).contribute(PROJECTION.sketch(), key)


def test_a_record_that_is_deleted_or_replaced_is_not_forgotten_by_who_read_it(saved: Path) -> None:
    key, record = Key.load(saved), saved.with_name("north.pem.rounds")
    agreed = [round_of(key) for _ in range(3)]
    agreed[0].contribute(PROJECTION.sketch(), key)
    for left in (b"", f"{agreed[2].fingerprint}\n".encode()):
        record.unlink()
        record.write_bytes(left)
        with pytest.raises(InvalidInputError, match=ALREADY):
            agreed[0].contribute(PROJECTION.sketch(), key)
    agreed[1].contribute(PROJECTION.sketch(), key)
    with pytest.raises(InvalidInputError, match=ALREADY):
        agreed[2].contribute(PROJECTION.sketch(), key)
