"""The plain job beside `pipelines.stream_distances`: how many events each key has in each window, and nothing else."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.stream_distances import messages, parsed, schema_of
from streamsketch.beam import TumblingWindows
from streamsketch.beam.streams import DecodeMessages, WriteFilesOnce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job until it is ended; return the exit status."""
    known, rest = parsed(arguments)
    pipeline = beam.Pipeline(options=PipelineOptions([*rest, "--streaming"]))
    decode = DecodeMessages(schema_of(known), time=known.time, size=known.window, format=known.format)
    batches, _, _ = messages(known, pipeline) | "Decode" >> decode
    counts = (
        batches
        | "Windows" >> TumblingWindows(known.window, column=known.time)
        | "Count batches" >> beam.FlatMap(_counts, known.key).with_output_types(tuple[str, int])
        | "Add up" >> beam.CombinePerKey(sum)
    )
    counts | "Write" >> WriteFilesOnce(known.output, known.stream)
    pipeline.run().wait_until_finish()
    return 0


def _counts(batch: pa.RecordBatch, key: str) -> Iterator[tuple[Any, int]]:
    found = batch.column(key).value_counts()
    yield from zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)


if __name__ == "__main__":
    sys.exit(main())
