"""The benchmark runs at a tiny size. No time is asserted."""

from pathlib import Path
from typing import Any

from benchmarks.spark import measure, write_events


def test_every_contender_runs(spark: Any, tmp_path: Path) -> None:
    write_events(tmp_path, 800)
    timings = measure(spark, tmp_path, 800, rounds=1)
    assert list(timings.seconds) == ["sketched", "count", "read by Python", "bounded"]
