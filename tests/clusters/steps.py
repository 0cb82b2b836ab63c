"""A pipeline whose workers are other processes, and what it leaves behind: files."""

import hashlib
import os
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

import streamsketch as ss
from streamsketch.beam import ReadColumns, ReleasePerKey, configure_run
from streamsketch.release import AdditiveNoise
from tests.beam.rows import sketch_rows

PROJECTION = ss.SJLT(sketch_dim=128, sparsity=4, seed=11)
KEYS = [f"Schlüssel {number}" for number in range(50)]
PUBLIC_KEYS = [*KEYS[1:], "no data"]  # one key of the data is not public, and one public key has no data
MINUTES = 10  # on the slowest of machines


def run(
    options: list[str], events: Path, results: Path, *, batch_pause: float = 0.0, release_pause: float = 0.0
) -> beam.runners.runner.PipelineResult:
    """Start sketching and releasing; every worker writes its results to files below ``results``."""
    for name in ("batches", "sketches", "releases"):
        (results / name).mkdir(parents=True)
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    configure_run(pipeline, claims=str(results / "claims"))  # Flink computes again what is upstream of a shuffle
    sketches = (
        pipeline
        | ReadColumns([f"{events}/*.parquet"], ["key", "index", "value"])
        | "Pause" >> beam.Map(note_and_pause, str(results / "batches"), batch_pause)
        | sketch_rows(PROJECTION, index={"index": "integer"})
    )
    sketches | "Write sketches" >> beam.Map(write_sketch, str(results))
    (
        sketches
        | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1000)), public_keys=PUBLIC_KEYS, projection=PROJECTION
        )
        | "Note releases" >> beam.Map(add_release, str(results / "releases"), release_pause)
        | beam.combiners.ToList()
        | "Write releases" >> beam.Map(write_releases, str(results))
    )
    return pipeline.run()


def note_and_pause(batch: pa.RecordBatch, folder: str, pause: float) -> pa.RecordBatch:
    """Say that a batch is being worked on, then take one's time."""
    (Path(folder) / f"{os.getpid()}-{uuid.uuid4().hex}").touch()
    time.sleep(pause)
    return batch


def write_sketch(keyed: tuple[str, ss.Sketch], results: str) -> None:
    """Write a key's sketch; a repetition replaces it."""
    key, sketch = keyed
    write(Path(results) / "sketches" / file_name(key), sketch.state().tobytes())


def add_release(keyed: tuple[str, ss.PrivateSketch], folder: str, pause: float) -> tuple[str, ss.PrivateSketch]:
    """Keep each release that comes, repetitions as well, then take one's time."""
    key, release = keyed
    write(Path(folder) / f"{file_name(key)}-{uuid.uuid4().hex}", release.to_bytes())
    time.sleep(pause)
    return keyed


def write_releases(releases: list[tuple[str, ss.PrivateSketch]], results: str) -> None:
    """Write the job's output: a line for each release, so that a key released twice stands there twice."""
    lines = [f"{file_name(key)} {release.to_bytes().hex()}\n" for key, release in releases]
    write(Path(results) / "output", "".join(lines).encode())


def write(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    scratch = path.with_name(f".{uuid.uuid4().hex}")
    scratch.write_bytes(content)
    os.replace(scratch, path)  # noqa: PTH105 - says what it does: atomic


def file_name(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=8).hexdigest()


def sketches_in(results: Path) -> dict[str, bytes]:
    """Return the sketches' bytes by file name."""
    return {path.name: path.read_bytes() for path in (results / "sketches").iterdir()}


def releases_in(results: Path) -> dict[str, list[bytes]]:
    """Return all that was released on the way, repetitions as well, by file name of the key."""
    found = defaultdict(list)
    for path in (results / "releases").iterdir():
        found[path.name.split("-")[0]].append(path.read_bytes())
    return dict(found)


def output_in(results: Path) -> list[tuple[str, bytes]]:
    """Return what the job gave out at its end."""
    lines = (results / "output").read_text().splitlines()
    return [(name, bytes.fromhex(image)) for name, image in map(str.split, lines)]


def files_in(results: Path, name: str) -> int:
    return len(list((results / name).iterdir()))


def readers_in(results: Path) -> set[str]:
    """Return the processes that worked on batches."""
    return {path.name.split("-")[0] for path in (results / "batches").iterdir()}


def one_loop(columns: dict[str, np.ndarray[Any, Any]]) -> dict[str, bytes]:
    """Return the bytes of every key's sketch after one plain loop over the events."""
    sketches = {key: PROJECTION.sketch() for key in KEYS}
    for key, index, value in zip(*(columns[name].tolist() for name in ("key", "index", "value")), strict=True):
        sketches[key].update(index, value)
    return {file_name(key): sketch.state().tobytes() for key, sketch in sketches.items()}
