"""Spark and Beam bound the same rows to the same bits under one secret."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import streamsketch as ss
from streamsketch.beam import BoundContributions, SketchPerKey
from streamsketch.beam.run.runs import RunSecret, use_secret
from streamsketch.spark.sketches import Work
from tests.beam.running import append_to, recorded
from tests.spark.frames import LocalFrame
from tests.spark.rows import SECRET, agreed, sales

RUN = RunSecret(SECRET, b"", None)


@pytest.mark.parametrize("clip", ["scale", "cut"])
def test_the_same_secret_clips_the_same_rows_to_the_same_bits_on_both(tmp_path: Path, clip: Any) -> None:
    rows, agreement = sales(), agreed(ss.L1(20, unit="customer", max_keys=2))
    path = str(tmp_path / "sketches")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        use_secret(pipeline, RUN)
        given = pipeline | beam.Create(rows.to_batches(max_chunksize=90))
        bounded = given | "Bound" >> BoundContributions(agreement, clip=clip, shards=3)
        _ = bounded | SketchPerKey(agreement) | beam.Map(append_to, path)
    work = Work(agreement, clip=clip, shards=5)
    frame: Any = LocalFrame.of(rows, 4)
    table = work.sketches(frame, RUN.derive("bounds", "Bound")).table()
    assert dict(recorded(Path(path))) == dict(table)
