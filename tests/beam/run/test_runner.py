"""Runners that lose data, or cut it, are refused with the reason."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import streamsketch as ss
from streamsketch.beam import PairwiseDistances, ReleasePerKey
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
TRANSFORMS = [
    bound_rows(PROJECTION, unit="unit", max_keys=1, l1=1),
    sketch_rows(PROJECTION),
    ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["a"]),
    PairwiseDistances(),
]


class DaskRunner(beam.runners.runner.PipelineRunner):
    """Stands for Beam's own, which needs Dask to be imported."""


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: type(transform).__name__)
def test_dask_is_refused(transform: Any) -> None:
    elements = beam.Pipeline(runner=DaskRunner()) | beam.Create([])
    with pytest.raises(ss.InvalidInputError, match="DaskRunner silently loses data"):
        elements | transform


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: type(transform).__name__)
def test_threads_are_refused(transform: Any) -> None:
    options = PipelineOptions(["--runner=FnApiRunner", "--direct_running_mode=multi_threading"])
    elements = beam.Pipeline(options=options) | beam.Create([])
    with pytest.raises(ss.InvalidInputError, match="multi_threading is broken"):
        elements | transform


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
def test_other_modes_are_taken(mode: str) -> None:
    options = PipelineOptions(["--runner=FnApiRunner", f"--direct_running_mode={mode}"])
    beam.Pipeline(options=options) | beam.Create([]) | sketch_rows(PROJECTION)
