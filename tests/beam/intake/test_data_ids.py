"""Ids of the data in releases: of the graph, the key, the window and the run, never of the data."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import streamsketch as ss
from streamsketch.beam import ReleasePerKey
from streamsketch.release import AdditiveNoise
from streamsketch.release.additive_noise import CalibratedNoise
from tests.beam.rows import sketch_rows

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="visit"))
EVENTS = [("AA", 1, 1), ("UA", 7, 5)]


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, ...]]:
    """Record the data ids that releases are drawn with."""
    found: list[tuple[bytes, ...]] = []
    for_data = CalibratedNoise.for_data

    def recording(self: Any, sketch: ss.Sketch, **options: Any) -> Any:
        found.append(tuple(sketch.data_ids.parts))
        return for_data(self, sketch, **options)

    monkeypatch.setattr(CalibratedNoise, "for_data", recording)
    return found


def publish(sketches: beam.PCollection, name: str) -> beam.PCollection:
    return sketches | name >> ReleasePerKey(NOISE, public_keys=["AA", "UA"], projection=PROJECTION)


def test_releases_of_the_same_data_share_ids_and_others_do_not(ids: list[Any]) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        events = pipeline | beam.Create(EVENTS)
        sketches = events | sketch_rows(PROJECTION)
        publish(sketches, "one")
        publish(sketches, "the same sketches")
        publish(events | "Again" >> sketch_rows(PROJECTION), "the same events")
        publish(sketches | beam.Filter(lambda _: True), "through a step")
    assert {len(one) for one in ids} == {1}
    assert {len(one[0]) for one in ids} == {16}
    assert sorted(ids.count(one) for one in set(ids)) == [4, 4]  # of each key
    ids.clear()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        for name in ("x", "y"):
            publish(pipeline | name >> beam.Create(EVENTS) | f"Sketch {name}" >> sketch_rows(PROJECTION), f"to {name}")
    assert len(set(ids)) == 4


def test_branches_of_one_source_share_ids(ids: list[Any]) -> None:
    """However their events were filtered or made anew, they may be of the same people."""
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        events = pipeline | beam.Create(EVENTS)
        publish(events | sketch_rows(PROJECTION), "all")
        some = events | beam.Filter(lambda event: event[1] < 7)
        publish(some | "Sketch some" >> sketch_rows(PROJECTION), "some")
    assert sorted(ids.count(one) for one in set(ids)) == [2, 2]


def test_joined_data_have_the_ids_of_all_sources(ids: list[Any]) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        parts = [
            pipeline | name >> beam.Create(EVENTS) | f"Sketch {name}" >> sketch_rows(PROJECTION) for name in ("x", "y")
        ]
        publish(parts[0], "one")
        publish(parts | beam.Flatten(), "both")
    single, joined = (sorted(one for one in ids if len(one) == count) for count in (1, 2))
    assert len(single) == len(joined) == 2
    assert {one[0] for one in single} < {part for one in joined for part in one}


def test_ids_are_the_same_in_retries_and_without_data_and_new_in_each_run(ids: list[Any]) -> None:
    seen = []
    for events in (EVENTS, []):
        pipeline = beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner", "--direct_runner_bundle_repeat=2"]))
        publish(pipeline | beam.Create(events, reshuffle=False) | sketch_rows(PROJECTION), "release")
        ids.clear()
        pipeline.run().wait_until_finish()
        assert sorted(ids.count(one) for one in set(ids)) == [3, 3]
        seen += set(ids)
    assert len(set(seen)) == 4


def test_no_id_is_in_a_raw_sketch_on_its_way(ids: list[Any]) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        publish(pipeline | beam.Create(EVENTS) | sketch_rows(PROJECTION), "release")
    sketch = PROJECTION.sketch()
    encoded = beam.coders.registry.get_coder(ss.Sketch).encode(sketch)
    assert not any(part in encoded for one in ids for part in one)
    assert encoded == beam.coders.registry.get_coder(ss.Sketch).encode(PROJECTION.sketch())
