"""Every runner gives the bits of one plain loop, and releases each public key once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from apache_beam.runners.runner import PipelineState

import streamsketch as ss
from tests.clusters.steps import MINUTES, PROJECTION, PUBLIC_KEYS, file_name, output_in, readers_in, run, sketches_in


@pytest.mark.parametrize(
    "runner",
    [
        "one process",
        *(pytest.param(runner, marks=pytest.mark.long) for runner in ("processes", "job service")),
        "prism",
        "flink",
    ],
)
def test_sketches_have_the_bits_of_one_loop_and_each_key_is_released_once(
    runner: str,
    options_of: Callable[[str], list[str]],
    events: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
) -> None:
    result = run(options_of(runner), events, tmp_path / "results")
    assert result.wait_until_finish(MINUTES * 60_000) == PipelineState.DONE
    assert sketches_in(tmp_path / "results") == expected
    output = output_in(tmp_path / "results")
    assert sorted(name for name, _ in output) == sorted(map(file_name, PUBLIC_KEYS))
    for _, image in output:
        assert ss.PrivateSketch.from_bytes(image).projection == PROJECTION
    if runner == "flink":
        assert len(readers_in(tmp_path / "results")) == 2, "each task manager has a worker of its own"
