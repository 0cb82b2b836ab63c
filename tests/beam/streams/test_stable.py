"""Nothing is published of a stream unless the runner gives a step that it repeats the same input."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.testing import test_stream

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, TumblingWindows, configure_run
from streamsketch.beam.streams import configure_stream
from streamsketch.continual import Tree
from streamsketch.release import AdditiveNoise
from tests.beam.rows import sketch_rows

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
STABLE = common_urns.requirements.REQUIRES_STABLE_INPUT.urn
FLINK = ["--runner=PortableRunner", "--job_endpoint=127.0.0.1:1", "--streaming"]
CHECKPOINTS = ["--checkpointing_interval=1000", "--finish_bundle_before_checkpointing", "--max_bundle_size=50"]


def release(pipeline: beam.Pipeline, schedule: Any = None) -> None:
    (
        pipeline
        | test_stream.TestStream()
        | TumblingWindows(60)
        | sketch_rows(PROJECTION)
        | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1), schedule=schedule),
            public_keys=["AA"],
            public_windows=(0, None),
        )
    )


def pipeline_with(options: list[str], root_key: Path, folder: Path) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    configure_stream(pipeline, stream="test", root_key=root_key, claims=str(folder))
    return pipeline


def test_noise_is_drawn_of_stable_input(root_key: Path, tmp_path: Path) -> None:
    pipeline = pipeline_with([*FLINK, *CHECKPOINTS], root_key, tmp_path)
    release(pipeline)
    specification = pipeline.to_runner_api()
    assert STABLE in specification.requirements
    flagged = []
    for transform in specification.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = beam.portability.api.beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            flagged += [transform.unique_name] if payload.requires_stable_input else []
    assert [name.rpartition("/")[2] for name in flagged] == ["Draw"]


@pytest.mark.parametrize("schedule", [None, Tree(horizon=7)], ids=str)
def test_no_state_is_kept_in_a_stage_with_stable_input(schedule: Any, root_key: Path, tmp_path: Path) -> None:
    """Flink would wait for ever: it keeps a stage's state locked while it gives it the elements of a checkpoint."""
    pipeline = pipeline_with([*FLINK, *CHECKPOINTS], root_key, tmp_path)
    release(pipeline, schedule)
    steps = pipeline.to_runner_api().components.transforms.values()
    made_by = {output: step for step in steps if not step.subtransforms for output in step.outputs.values()}
    above = [step for step in steps if step.unique_name.endswith("/Draw") and not step.subtransforms]
    met = set()
    while above:
        step = above.pop()
        if step.spec.urn == common_urns.primitives.GROUP_BY_KEY.urn or step.unique_name in met:
            continue
        met.add(step.unique_name)
        if step.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = beam.portability.api.beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
            assert not payload.state_specs, step.unique_name
        above += [made_by[given] for given in step.inputs.values() if given in made_by]
    assert len(met) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Pass --checkpointing_interval"),
        (["--checkpointing_interval=0", CHECKPOINTS[1]], "Pass --checkpointing_interval"),
        (CHECKPOINTS[:1], "Pass --finish_bundle_before_checkpointing"),
        ([CHECKPOINTS[0], f"{CHECKPOINTS[1]}=false"], "Pass --finish_bundle_before_checkpointing"),
        (CHECKPOINTS[:2], "Pass --max_bundle_size=50"),
        ([*CHECKPOINTS[:2], "--max_bundle_size=65"], "at most 64"),
    ],
)
def test_a_runner_without_it_is_refused(options: list[str], message: str, root_key: Path, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        release(pipeline_with([*FLINK, *options], root_key, tmp_path))


def test_a_secret_of_one_run_is_refused(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([*FLINK, *CHECKPOINTS]))
    configure_run(pipeline, claims=str(tmp_path))
    with pytest.raises(ss.InvalidInputError, match="Call configure_stream"):
        release(pipeline)


@pytest.mark.parametrize("runner", ["FnApiRunner", "PrismRunner", "BundleBasedDirectRunner"])
def test_runners_that_keep_what_they_shuffled_need_no_flag(runner: str, root_key: Path, tmp_path: Path) -> None:
    options = [f"--runner={runner}", "--streaming", "--experiments=prism_disable_sdf_split"]
    pipeline = pipeline_with(options, root_key, tmp_path)
    release(pipeline)
    assert STABLE not in pipeline.to_runner_api().requirements


def test_prism_is_refused_where_it_would_lose_state(root_key: Path, tmp_path: Path) -> None:
    pipeline = pipeline_with(["--runner=PrismRunner", "--streaming"], root_key, tmp_path)
    with pytest.raises(ss.InvalidInputError, match="Pass --experiments=prism_disable_sdf_split"):
        release(pipeline)


def test_windows_without_end_need_a_stream_without_end() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    windowed: Any = pipeline | beam.Create([("AA", 1, 1)]) | TumblingWindows(60) | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="pass a stop as well"):
        windowed | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["AA"], public_windows=(0, None)
        )
