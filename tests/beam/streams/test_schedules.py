"""An endless stream that is released by a schedule, on Prism: a row of every key in every window, and then no more."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, RowsToBatches, TumblingWindows
from streamsketch.beam.streams import BoundAcrossWindows, TakeOnTime, configure_stream
from streamsketch.continual import Factorisation, History, Schedule, Tree
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.release import AdditiveNoise
from tests.beam.rows import sketch_rows
from tests.beam.streams.prism import BASE, MINUTE, log, run, with_minute
from tests.beam.streams.test_windows import DELAY, KEYS, PEOPLE, PROJECTION, ROWS, cells_of

HORIZON = 7
TRUTH = {  # l1 = 10, one key and two windows each
    ("AA", 0): {1: 3, 7: 5},
    ("UA", 0): {2: 4},
    ("AA", 60): {1: 9, 8: 1, 4: 2},
}
AFTER = [*ROWS[:-3], (60 * HORIZON + 1, ("Eve", "UA", 1, 1)), (60 * HORIZON + 130, ("Eve", "UA", 1, 1))]


def released(
    pipeline: beam.Pipeline, root_key: Path, schedule: Schedule, epoch: int | None = None
) -> dict[str, beam.PCollection]:
    configure_stream(pipeline, stream="test", root_key=root_key, claims=str(root_key.parent / "claims"), epoch=epoch)
    on_time, _ = pipeline | log(AFTER, DELAY) | TakeOnTime()
    releases = (
        on_time
        | TumblingWindows(MINUTE)
        | RowsToBatches(PEOPLE, ["person", "key", "index", "value"])
        | BoundAcrossWindows(PEOPLE, max_windows=2, period=MINUTE * HORIZON, first=BASE, public_keys=KEYS)
        | sketch_rows(PROJECTION)
        | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=ss.L1(10, unit="person"), schedule=schedule),
            public_keys=KEYS,
            public_windows=(BASE, None),
        )
    )
    return {"all": releases | beam.Map(with_minute)}


def test_every_window_of_the_horizon_has_a_row_and_no_later_one(
    prism: list[str], root_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiscreteLaplace, "sample", lambda _, size, __: np.zeros(size, dtype=np.int64))
    schedule = Tree(horizon=HORIZON, depth=2, max_windows=2)
    found = run(prism, lambda pipeline: released(pipeline, root_key, schedule), tmp_path / "out")["all"]
    assert len(found) == len(KEYS) * HORIZON
    for key in KEYS:
        cells = np.array([cells_of(TRUTH.get((key, MINUTE * window), {})) for window in range(HORIZON)])
        rows = {start // MINUTE: release for named, start, release in found if named == key}
        assert [rows[window].values.tolist() for window in range(HORIZON)] == (schedule.matrix() @ cells).tolist()
        assert History(rows.values()).range(0, HORIZON).values.tolist() == cells.sum(axis=0).tolist()
        assert {row.guarantee.neighbours for row in rows.values()} == {
            ss.L1(10, unit="person in at most 2 of 7 windows of 60 s")
        }


def test_a_job_that_is_restored_publishes_the_same_rows_and_one_launched_anew_another_history(
    prism: list[str], root_key: Path, tmp_path: Path
) -> None:
    def rows_of(name: str, epoch: int | None) -> dict[Any, Any]:
        schedule = Factorisation(horizon=HORIZON, blocks=2, max_windows=2)
        found = run(prism, lambda pipeline: released(pipeline, root_key, schedule, epoch), tmp_path / name)
        return {(key, start): release for key, start, release in found["all"]}

    first, restored, relaunched = rows_of("a", None), rows_of("b", 1), rows_of("c", None)
    assert {slot: row.to_bytes() for slot, row in restored.items()} == {
        slot: row.to_bytes() for slot, row in first.items()
    }
    ids = [{row.history.id for row in rows.values()} for rows in (first, relaunched)]
    assert [len(one) for one in ids] == [1, 1]
    assert ids[0] != ids[1]
    assert all((first[slot].values != relaunched[slot].values).any() for slot in first)
