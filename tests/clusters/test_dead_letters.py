"""What a stream on Flink drops is kept once each, whatever is killed."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.clusters.cluster import FlinkCluster
from tests.clusters.streaming import MINUTE, Folder, Job, Log, assert_is_the_log, assert_once, rows


def letters(folder: Path, kind: str) -> list[tuple[object, ...]]:
    """Return the rows of all files of a kind."""
    tables = [pq.read_table(path) for path in sorted(folder.glob(f"{kind}-*.parquet"))]
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def test_a_producer_that_is_behind_loses_no_row_within_the_delay(
    cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    """Messages of one row each are sent up to 3 s after their minute, among those of the next one."""
    folder, kept = Folder(tmp_path / "stream"), tmp_path / "letters"
    kept.mkdir()
    for minute in range(3):
        whole = rows(minute, 40)
        for row in range(whole.num_rows):
            log.write(row % 2, minute, whole.slice(row, 1), after=MINUTE + 3 * row / whole.num_rows)
            log.write(row % 2, minute + 1, rows(minute + 1, 1, seed=row + 1), after=3 * row / whole.num_rows)
    log.end(3)
    with Job(cluster, log, folder, dead_letters=kept) as job:
        job.wait_for(lambda: len(folder.windows()) == 4, "the windows")
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 4)
    assert not letters(kept, "late")
    assert len(folder.images("sketches")) >= 2 * 3, "of two keys in each of the first minutes"


def test_dead_letters_are_kept_once_each_with_a_task_manager_killed(
    cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    folder, kept = Folder(tmp_path / "stream"), tmp_path / "letters"
    late = [rows(0, 40 + number, seed=number) for number in range(4)]
    log.put(range(2))
    with Job(cluster, log, folder, dead_letters=kept) as job:
        job.wait_for(lambda: len(folder.windows()) == 2, "the first windows")
        log.write(0, 0, late[0])
        log.write(1, 0, b"malformed 0")
        job.wait_for(lambda: letters(kept, "late") and letters(kept, "malformed"), "the first dead letters")
        log.write(1, 0, late[1])
        log.write(0, 0, b"malformed 1")
        cluster.kill_task_manager(-1)
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        log.write(0, 0, late[2])
        log.put(range(2, 4))
        job.wait_for(lambda: len(folder.windows()) == 4, "the windows after it")
        log.write(1, 0, late[3])
        log.write(0, 0, b"malformed 2")
        job.wait_for(lambda: (b"malformed 2",) in letters(kept, "malformed"), "the last one")
        job.wait_for(lambda: len(letters(kept, "late")) >= sum(batch.num_rows for batch in late), "all late rows")
        before = job.checkpoints()
        job.wait_for(lambda: job.checkpoints() > before + 1, "two checkpoints")
    assert sorted(letters(kept, "malformed")) == [(b"malformed %d" % number,) for number in range(3)]
    found, expected = (
        Counter((row["unit"], row["index"], row["time"]) for row in table.to_pylist())
        for table in (
            pa.concat_tables([pq.read_table(path) for path in kept.glob("late-*.parquet")]),
            pa.Table.from_batches(late),
        )
    )
    assert found == expected
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}
