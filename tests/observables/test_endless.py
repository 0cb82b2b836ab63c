"""What an outsider sees of an endless stream: nothing of one unit, wherever its rows are and whenever they come."""

import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.continual import Schedule, Tree
from streamsketch.core.numbers import Ints
from streamsketch.privacy.samplers import SystemBits
from streamsketch.streams import Stream
from tests.observables.game import Seen, assert_alike, differences, files_in, hidden, observed
from tests.oracles import naive, naive_cells
from tests.streams.naive import AGREEMENT, KEYS, PEOPLE, PROJECTION, Row, batch_of, beat, policy_of, windows_of

CROWD = [Row(second, KEYS[second % 2], "a", 1, f"c{second}") for second in range(0, 240, 20)]
LATE = Row(10, "north", "b", 1, "c10")
WORLDS = [  # one unit less, early, late, far ahead, of another key and in an empty window; rows in another order
    [beat(0), *CROWD, beat(100), LATE, *CROWD[:2], beat(400)],
    [beat(0), Row(390, "west", "a", 2, "Ann"), *CROWD, beat(100), LATE, *CROWD[:2], beat(400)],
    [beat(0), *CROWD, Row(99_999, "north", "a", 2, "Ann"), beat(100), LATE, *CROWD[:2], beat(400)],
    [beat(0), *CROWD, beat(100), Row(2, "north", "a", 2, "Ann"), LATE, *CROWD[:2], beat(400)],
    [beat(0), *CROWD, Row(2, "moon", "a", 2, "Ann"), beat(100), Row(270, "north", "a", 2, "Ann"), LATE, beat(400)],
    [beat(0), *CROWD[::-1], beat(100), *CROWD[:2], LATE, beat(400)],
]


SCHEDULE = Tree(horizon=6, depth=2)
COUNTING = ss.privacy.Counting(4000)
COUNTED = PEOPLE.replace(neighbours=ss.SketchL2(1, unit="customer", max_keys=2), counting=COUNTING)


def exact(rows: list[Row], clock: str, agreement: ss.Agreement) -> list[Ints]:
    """Return the exact numbers of each window and key, in the order of publication."""
    found, _ = windows_of(rows, clock=clock)
    return list(itertools.chain(*(exact_window(found.get(number, []), agreement) for number in range(6))))


def exact_window(rows: list[Row], agreement: ss.Agreement) -> list[Ints]:
    """Return the exact numbers of each key, by plain Python: cells, and a count behind them."""
    if agreement is not COUNTED:
        table = PROJECTION.table()
        for row in rows:
            table.update([row.shop], [row.item], [row.n])
        return [table.sketch_of(key).state() for key in KEYS]
    fine, columns = agreement.projection, naive.Map.from_json(agreement.projection.to_json())
    limit, steps = COUNTED.neighbours.cell_steps(fine), int(1 / fine.grid)  # type: ignore[union-attr]
    sums: dict[str, Ints] = {key: np.zeros(fine.sketch_dim + 1, dtype=np.int64) for key in KEYS}
    for customer in {row.customer for row in rows}:
        own = [row for row in rows if row.customer == customer and row.shop in KEYS]
        cells: dict[tuple[str, int], int] = defaultdict(int)
        for row in own:
            for cell, sign in columns.column(naive.fingerprint(row.item, fine.seed)):
                cells[row.shop, cell] += sign * row.n * steps
        left = naive_cells.clipped(cells, limit, "equal")
        for (shop, cell), y in left.items():
            sums[shop][cell] += y
        for shop in {shop for shop, _ in left}:
            sums[shop][-1] += COUNTING.units
    return list(sums.values())


def rows_of(rows: list[Row], agreement: ss.Agreement) -> list[Ints]:
    """Return the exact numbers of each row of the schedule and key: of a unit, those of its first window."""
    found, _ = windows_of(rows, clock="heartbeats")
    seen: set[str] = set()
    windows = []
    for number in range(6):
        own = [row for row in found.get(number, []) if row.shop in KEYS and row.customer not in seen]
        seen |= {row.customer for row in own}
        windows.append(np.array(exact_window(own, agreement)))
    return list(np.tensordot(SCHEDULE.matrix(), np.array(windows), 1).reshape(6 * len(KEYS), -1))


def play(
    rows: list[Row],
    clock: str,
    folder: Path,
    patch: pytest.MonkeyPatch,
    agreement: ss.Agreement = AGREEMENT,
    schedule: Schedule | None = None,
) -> Seen:
    public = folder / "public"
    public.mkdir(parents=True)
    patch.setattr("streamsketch.streams.stream.secrets.token_bytes", bytes)
    # bits keyed by a window's exact sketches: without the secret as good as fresh ones
    patch.setattr("streamsketch.once.draws.KeyedBits", lambda *_: SystemBits())
    with observed(patch) as seen:
        delta = 1e-6 if agreement is COUNTED else 0.0
        policy = policy_of(public, agreement, clock=clock, epsilon=1.0, delta=delta, schedule=schedule)
        with hidden(patch, exact(rows, clock, agreement) if schedule is None else rows_of(rows, agreement)):
            stream = Stream(*policy, folder / "secret.raw-stream")
            for at in range(0, len(rows), 4):
                stream.add(batch_of(rows[at : at + 4]), at + 1)
            stream.save({})
    times = {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in public.iterdir()}
    return seen | {"files": files_in(public), "times": times}


@pytest.mark.parametrize("agreement", [AGREEMENT, COUNTED], ids=["l1", "people, counted"])
def test_a_unit_changes_nothing_that_heartbeats_decide(
    agreement: ss.Agreement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = [play(rows, "heartbeats", tmp_path / str(n), monkeypatch, agreement) for n, rows in enumerate(WORLDS)]
    assert [seen["end"] for seen in worlds] == ["done"] * len(worlds)
    assert len(worlds[0]["files"]) == 6
    assert_alike(worlds)


@pytest.mark.parametrize("agreement", [AGREEMENT, COUNTED], ids=["l1", "people, counted"])
def test_a_unit_in_several_windows_changes_nothing_of_a_schedule(
    agreement: ss.Agreement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts in the first of them, and is left out of the others."""
    often = [
        row for at in (5, 70, 130, 190) for row in (Row(at, "north", "a", 2, "Ann"), Row(at, "west", "b", 1, "Ann"))
    ]
    worlds = [*WORLDS, [beat(0), *often, *CROWD, beat(100), LATE, *CROWD[:2], beat(400)]]
    seen = [
        play(rows, "heartbeats", tmp_path / str(n), monkeypatch, agreement, SCHEDULE) for n, rows in enumerate(worlds)
    ]
    assert [one["end"] for one in seen] == ["done"] * len(worlds)
    assert len(seen[0]["files"]) == 6
    assert_alike(seen)


def test_a_unit_that_decides_itself_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row far ahead, where rows move the watermark: what the condition of such releases excludes."""
    worlds = [play(WORLDS[n], "events", tmp_path / str(n), monkeypatch) for n in (0, 2)]
    assert differences(worlds)
