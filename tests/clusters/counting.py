"""The plain job beside `streamsketch stream beam`: how many events each key has in each window, and nothing else."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

import streamsketch as ss
from streamsketch.beam import TumblingWindows
from streamsketch.beam.streams import DecodeMessages, WriteFilesOnce
from streamsketch.jobs import Topic, beam_options
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy


def main(folder: Path, source: Topic, options: list[str]) -> None:
    """Count the events of a topic by the agreement and the job in a folder, until the job is ended."""
    agreement, job = ss.Agreement.load(folder / "agreement.json"), Job.load(folder / "job.json")
    policy = StreamPolicy(agreement, job)
    pipeline, size = beam.Pipeline(options=beam_options(options, streaming=True)), policy.windows.size / 10**6
    decode = DecodeMessages(agreement, time=policy.time, size=size, format=source.format)
    batches, _, _ = source.read(pipeline, policy) | "Decode" >> decode
    counts = (
        batches
        | "Windows" >> TumblingWindows(size, column=policy.time)
        | "Count batches" >> beam.FlatMap(_counts, agreement.key.name).with_output_types(tuple[str, int])
        | "Add up" >> beam.CombinePerKey(sum)
    )
    counts | "Write" >> WriteFilesOnce(job.folder, str(job.stream))
    pipeline.run().wait_until_finish()


def _counts(batch: pa.RecordBatch, key: str) -> Iterator[tuple[Any, int]]:
    found = batch.column(key).value_counts()
    yield from zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)


if __name__ == "__main__":
    folder, servers, topic, expansion, form, *options = sys.argv[1:]
    main(Path(folder), Topic(servers, topic, expansion, form), options)  # type: ignore[arg-type]
