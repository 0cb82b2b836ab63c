"""Run small pipelines and bring their results home."""

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions


def append_to(element: Any, path: str) -> None:
    """Record an element, without care for retries: what a sloppy sink would see."""
    with Path(path).open("ab") as file:
        pickle.dump(element, file)


def recorded(path: Path) -> list[Any]:
    """Return what `append_to` wrote."""
    found = []
    if path.exists():
        with path.open("rb") as file:
            while file.peek(1):
                found.append(pickle.load(file))  # noqa: S301 - our own file
    return found


def run(
    build: Callable[[beam.Pipeline], beam.PCollection], tmp_path: Path, *options: str
) -> tuple[list[Any], dict[str, int]]:
    """Run a pipeline on FnApiRunner; return every element its last step saw, and streamsketch's counters."""
    sink = tmp_path / f"elements-{len(list(tmp_path.iterdir()))}"
    pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", *options]))
    build(pipeline) | "Record" >> beam.Map(append_to, str(sink))
    result = pipeline.run()
    result.wait_until_finish()
    counters: Counter[str] = Counter()  # of all steps that count the same
    for counter in result.metrics().query()["counters"]:
        if counter.key.metric.namespace == "streamsketch":
            counters[counter.key.metric.name] += counter.committed
    return recorded(sink), dict(counters)
