"""A sink of one's own is one class: where slots are, and how one is filled once."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, TumblingWindows
from streamsketch.beam.streams import WriteOnce
from streamsketch.release import AdditiveNoise
from streamsketch.streams import Sink, Slot
from tests.beam.rows import sketch_rows

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1))


class Journal(Sink):
    """One line of JSON for each slot in one file, which writers lock: a toy, as it reads the file at each write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        with self._locked() as file:
            held = {tuple(line[:4]): bytes.fromhex(line[4]) for line in map(json.loads, file)}
            if slot not in held:
                file.write(json.dumps([*slot, content.hex()]) + "\n")
        return held.get(slot)

    @contextmanager
    def _locked(self) -> Iterator[IO[str]]:
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield file


def write(path: Path, alarms: Path) -> None:
    """Release a stream of two windows into the journal, and note the alarms."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        held, refused = (
            pipeline
            | beam.Create([TimestampedValue(("AA", 17, 1), 3600)])
            | TumblingWindows(3600)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(NOISE, public_keys=["AA"], public_windows=(0, 7200))
            | WriteOnce(Journal(path), "flights", result="journal")
        )
        for place, found in enumerate((held, refused)):
            found | f"As text {place}" >> beam.Map(str) | f"Note {place}" >> beam.Map(_note, alarms, place)


def _note(text: str, alarms: Path, place: int) -> None:
    if place:
        with alarms.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def test_a_toy_sink_fills_each_slot_once_and_refuses_other_noise(tmp_path: Path) -> None:
    path, alarms = tmp_path / "journal", tmp_path / "alarms"
    write(path, alarms)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)[:4] for line in sorted(lines)] == [
        ["flights", 0, "text", "AA"],
        ["flights", 3_600_000_000, "text", "AA"],
    ]
    for line in lines:
        assert ss.PrivateSketch.from_bytes(bytes.fromhex(json.loads(line)[4])).guarantee.epsilon == 1
    assert not alarms.exists()
    write(path, alarms)  # a run of its own, with noise of its own
    assert path.read_text(encoding="utf-8").splitlines() == lines
    refused = alarms.read_text(encoding="utf-8").splitlines()
    assert len(refused) == 2
    assert all("journal" in each for each in refused)
