"""A job outlives its task managers: same bits, and one release a key."""

from pathlib import Path

import pytest
from apache_beam.runners.runner import PipelineState

from tests.clusters.cluster import FlinkCluster
from tests.clusters.conftest import ROW_GROUPS
from tests.clusters.steps import MINUTES, PUBLIC_KEYS, file_name, files_in, output_in, releases_in, run, sketches_in
from tests.patience import wait_until


def test_a_job_outlives_python_workers_killed_in_the_middle(
    cluster: FlinkCluster, events: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    result = run(cluster.pipeline_options(), events, results, batch_pause=0.3)
    wait_until(lambda: files_in(results, "batches") >= ROW_GROUPS // 2, "half of the batches")
    assert cluster.kill_workers() > 0
    assert result.wait_until_finish(MINUTES * 60_000) == PipelineState.DONE
    assert files_in(results, "batches") > ROW_GROUPS, "work was lost and done again"
    assert sketches_in(results) == expected


@pytest.mark.parametrize(("step", "all_of_them"), [("batches", ROW_GROUPS), ("releases", len(PUBLIC_KEYS))])
def test_a_job_outlives_a_task_manager_killed_in_the_middle_of(
    step: str, all_of_them: int, cluster: FlinkCluster, events: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    result = run(cluster.pipeline_options(), events, results, batch_pause=0.3, release_pause=0.2)
    wait_until(lambda: files_in(results, step) >= all_of_them // 2, f"half of the {step}")
    cluster.kill_task_manager(-1)
    assert files_in(results, step) < all_of_them, "it was killed in the middle"
    cluster.wait_for_task_managers(1)
    cluster.start_task_manager()
    assert result.wait_until_finish(MINUTES * 60_000) == PipelineState.DONE
    assert files_in(results, step) > all_of_them, "work was lost and done again"
    assert sketches_in(results) == expected
    output = output_in(results)
    assert sorted(name for name, _ in output) == sorted(map(file_name, PUBLIC_KEYS)), "one release a key"
    released = releases_in(results)
    assert {name: set(images) for name, images in released.items()} == {name: {image} for name, image in output}, (
        "whatever is released again is the same release"
    )
