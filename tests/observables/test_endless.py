"""What an outsider sees of an endless stream: nothing of one unit, wherever its rows are and whenever they come."""

import itertools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.core.numbers import Ints
from streamsketch.privacy import SystemBits
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


COUNTING = ss.Counting(4000)
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


def play(
    rows: list[Row], clock: str, folder: Path, patch: pytest.MonkeyPatch, agreement: ss.Agreement = AGREEMENT
) -> Seen:
    public = folder / "public"
    public.mkdir(parents=True)
    patch.setattr("streamsketch.streams.stream.secrets.token_bytes", bytes)
    # bits keyed by a window's exact sketches: without the secret as good as fresh ones
    patch.setattr("streamsketch.streams.draws.KeyedBits", lambda *_: SystemBits())
    with observed(patch) as seen:
        policy = policy_of(public, clock=clock, epsilon=1.0, delta=1e-6 if agreement is COUNTED else 0.0)
        with hidden(patch, exact(rows, clock, agreement)):
            stream = Stream(policy, agreement, folder / "secret.raw-stream")
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


def test_a_unit_that_decides_itself_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row far ahead, where rows move the watermark: what the condition of such releases excludes."""
    worlds = [play(WORLDS[n], "events", tmp_path / str(n), monkeypatch) for n in (0, 2)]
    assert differences(worlds)
