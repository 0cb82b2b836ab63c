"""What a release takes from the bounds upstream, and what it does not believe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import streamsketch as ss
from streamsketch.beam import BoundContributions, MergeSketches, ReleasePerKey, SelectKeys, SketchPerKey
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=ss.HASHED_DIM, sketch_dim=32, sparsity=4, seed=11, resolution="0.5")
BOUNDS: dict[str, Any] = {"unit": "plane", "max_keys": 2, "l1": 3}


def upstream(pipeline: beam.Pipeline, label: str = "Events", **arguments: Any) -> beam.PCollection:
    events = pipeline | label >> beam.Create([(1, "a", "x", 1.0)])
    return events | f"Bound {label}" >> BoundContributions(PROJECTION, **(BOUNDS | arguments))


def test_other_neighbours_than_were_enforced_are_refused() -> None:
    sketches = upstream(beam.Pipeline(runner="FnApiRunner")) | SketchPerKey(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="the events were bounded to L1"):
        sketches | ReleasePerKey(epsilon=1.0, neighbours=ss.L1(3), public_keys=["a"])


def test_the_enforced_neighbours_may_be_said_again() -> None:
    sketches = upstream(beam.Pipeline(runner="FnApiRunner")) | SketchPerKey(PROJECTION)
    sketches | ReleasePerKey(epsilon=1.0, neighbours=ss.L1(3, unit="plane", max_keys=2), public_keys=["a"])


def test_a_release_of_events_that_nobody_bounded_needs_a_word() -> None:
    sketches = beam.Pipeline(runner="FnApiRunner") | beam.Create([("a", 1, 1)]) | SketchPerKey(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="apply BoundContributions to the events"):
        sketches | ReleasePerKey(epsilon=1.0, public_keys=["a"])


def test_two_branches_with_a_budget_each_are_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    both = (upstream(pipeline, "One"), upstream(pipeline, "Other")) | beam.Flatten()
    with pytest.raises(ss.InvalidInputError, match="a step that is not SketchPerKey"):
        both | SketchPerKey(PROJECTION) | ReleasePerKey(epsilon=1.0, public_keys=["a"])


def test_a_branch_that_was_not_bounded_is_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rest = pipeline | "Rest" >> beam.Create([("a", "y", 1.0)])
    mixed = (upstream(pipeline), rest) | beam.Flatten()
    with pytest.raises(ss.InvalidInputError, match="a step that is not SketchPerKey"):
        mixed | SketchPerKey(PROJECTION) | ReleasePerKey(epsilon=1.0, public_keys=["a"])


STEPS_BETWEEN: dict[str, Callable[[beam.PCollection], beam.PCollection]] = {
    "to other windows": lambda events: events | beam.WindowInto(beam.window.GlobalWindows()) | SketchPerKey(PROJECTION),
    "sketches to other windows": lambda events: (
        events | SketchPerKey(PROJECTION) | beam.WindowInto(beam.window.GlobalWindows())
    ),
    "to other keys": lambda events: (
        events
        | SketchPerKey(PROJECTION)
        | beam.MapTuple(lambda _, sketch: ("all", sketch))
        | beam.CombinePerKey(MergeSketches(PROJECTION))
    ),
    "twice": lambda events: (events, events) | beam.Flatten() | SketchPerKey(PROJECTION),
    "through a function": lambda events: events | beam.Map(lambda found: found) | SketchPerKey(PROJECTION),
}


@pytest.mark.parametrize("step", STEPS_BETWEEN)
def test_a_step_that_may_undo_the_bounds_is_noticed(step: str) -> None:
    sketches = STEPS_BETWEEN[step](upstream(beam.Pipeline(runner="FnApiRunner")))
    with pytest.raises(ss.InvalidInputError, match="a step that is not SketchPerKey"):
        sketches | ReleasePerKey(epsilon=1.0, public_keys=["a"])


def test_a_step_between_takes_the_callers_word() -> None:
    sketches = STEPS_BETWEEN["to other keys"](upstream(beam.Pipeline(runner="FnApiRunner")))
    word = {"neighbours": ss.L1(6, unit="plane"), "projection": PROJECTION}
    sketches | ReleasePerKey(epsilon=1.0, **word, public_keys=["all"])


def test_keys_are_not_selected_after_a_step_between() -> None:
    events = upstream(beam.Pipeline(runner="FnApiRunner")) | beam.WindowInto(beam.window.GlobalWindows())
    with pytest.raises(ss.InvalidInputError, match="without a step in between"):
        events | SelectKeys(epsilon=1.0, delta=1e-6)


def test_late_rows_cannot_be_released() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    events = pipeline | beam.Create([(1, "a", "x", 1.0)])
    _, late = events | BoundContributions(PROJECTION, **BOUNDS).with_late_data()
    with pytest.raises(ss.InvalidInputError, match="late data"):
        late | SketchPerKey(PROJECTION) | ReleasePerKey(epsilon=1.0, public_keys=["a"])
    with pytest.raises(ss.InvalidInputError, match="late data"):
        (
            late
            | "Pass on" >> beam.Map(lambda found: found)
            | "Other" >> SketchPerKey(PROJECTION)
            | "Release" >> ReleasePerKey(epsilon=1.0, neighbours=ss.L1(1), public_keys=["a"])
        )


def test_late_sketches_cannot_be_released() -> None:
    sketches = upstream(beam.Pipeline(runner="FnApiRunner")) | SketchPerKey(PROJECTION)
    _, late = sketches | ReleasePerKey(epsilon=1.0, public_keys=["a"]).with_late_data()
    with pytest.raises(ss.InvalidInputError, match="late data"):
        late | "Again" >> ReleasePerKey(epsilon=1.0, neighbours=ss.L1(1), public_keys=["a"])


def test_sketches_of_another_projection_than_bounded_are_refused(tmp_path: Path) -> None:
    other = PROJECTION.replace(seed=12)
    with pytest.raises(ss.IncompatibleProjectionsError, match="seed"):
        run(lambda pipeline: upstream(pipeline) | SketchPerKey(other), tmp_path)
    sketches = upstream(beam.Pipeline(runner="FnApiRunner")) | SketchPerKey(PROJECTION)
    with pytest.raises(ss.IncompatibleProjectionsError, match="seed"):
        sketches | ReleasePerKey(epsilon=1.0, public_keys=["a"], projection=other)
