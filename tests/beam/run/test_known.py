"""What is known of the collections of secret data, what a release takes from it, and what it does not believe."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import (
    BoundContributions,
    MergeSketches,
    ReleasePerKey,
    SelectKeys,
    SketchPerKey,
    TumblingWindows,
)
from streamsketch.beam.run.known import Known, known_of
from streamsketch.beam.streams import BoundAcrossWindows
from streamsketch.privacy.bounds import Bounds
from streamsketch.release import AdditiveNoise
from streamsketch.signs import DPSignLogistic
from tests.beam.rows import agreement_of, bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=11, resolution="0.5")
BOUNDS: dict[str, Any] = {"unit": "plane", "max_keys": 2, "l1": 3}
PLANE = ss.L1(3, unit="plane", max_keys=2)
NOISE = AdditiveNoise(epsilon=1.0, neighbours=PLANE)


def bounded(pipeline: beam.Pipeline, label: str = "Events", **arguments: Any) -> beam.PCollection:
    events = pipeline | label >> beam.Create([(1, "a", "x", 1.0)])
    return events | f"Bound {label}" >> bound_rows(PROJECTION, **(BOUNDS | arguments))


def test_other_neighbours_than_were_enforced_are_refused() -> None:
    sketches = bounded(beam.Pipeline(runner="FnApiRunner")) | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="bounded to one plane of at most 3 in each of at most 2 keys"):
        sketches | ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(3)), public_keys=["a"])


def test_weaker_neighbours_than_were_enforced_hold_too(tmp_path: Path) -> None:
    weaker = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(4, unit="plane", max_keys=3))
    found, _ = run(
        lambda given: bounded(given) | sketch_rows(PROJECTION) | ReleasePerKey(weaker, public_keys=["a"]), tmp_path
    )
    assert [(one.guarantee.neighbours, one.guarantee.basis) for _, one in found] == [(weaker.neighbours, "enforced")]


def test_events_that_were_bounded_have_no_units_to_be_bounded_by_again() -> None:
    events = bounded(beam.Pipeline(runner="FnApiRunner"))
    for again in (
        bound_rows(PROJECTION, **BOUNDS),
        BoundAcrossWindows(agreement_of(PROJECTION, unit="plane", neighbours=PLANE), max_windows=1, period=60),
    ):
        with pytest.raises(ss.InvalidInputError, match="already been bounded and no longer name"):
            events | again


def test_a_relation_that_an_agreement_does_not_imply_is_refused_with_a_remedy_that_works() -> None:
    near = ss.L1(30, unit="plane")
    agreement = ss.Agreement(PROJECTION, key="key", index="index", value="value", neighbours=near)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create([pa.table({"key": ["a"], "index": ["x"], "value": [1]})])
    sketches = rows | SketchPerKey(agreement)
    noise = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(3, unit="plane"))
    with pytest.raises(ss.InvalidInputError, match=r"does not imply one plane of at most 3 \(L1\)") as refused:
        sketches | "Less" >> ReleasePerKey(noise, public_keys=["a"])
    assert "assert_bounds=True" in str(refused.value)
    sketches | "Assert" >> ReleasePerKey(noise, public_keys=["a"], assert_bounds=True)
    sketches | ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=near), public_keys=["a"])


def test_two_branches_with_a_budget_each_are_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    both = (bounded(pipeline, "One"), bounded(pipeline, "Other")) | beam.Flatten()
    with pytest.raises(ss.InvalidInputError, match="passed a step that may move events"):
        both | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, public_keys=["a"])


def test_a_branch_that_was_not_bounded_is_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rest = pipeline | "Rest" >> beam.Create([("a", "y", 1.0)])
    mixed = (bounded(pipeline), rest) | beam.Flatten()
    with pytest.raises(ss.InvalidInputError, match="passed a step that may move events"):
        (mixed | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, public_keys=["a"]))


STEPS_BETWEEN: dict[str, Callable[[beam.PCollection], beam.PCollection]] = {
    "to other windows": lambda events: events | beam.WindowInto(beam.window.GlobalWindows()) | sketch_rows(PROJECTION),
    "sketches to other windows": lambda events: (
        events | sketch_rows(PROJECTION) | beam.WindowInto(beam.window.GlobalWindows())
    ),
    "to other keys": lambda events: (
        events
        | sketch_rows(PROJECTION)
        | beam.MapTuple(lambda _, sketch: ("all", sketch))
        | beam.CombinePerKey(MergeSketches(PROJECTION))
    ),
    "twice": lambda events: (events, events) | beam.Flatten() | sketch_rows(PROJECTION),
    "through a function": lambda events: events | beam.Map(lambda found: found) | sketch_rows(PROJECTION),
}


WEIGHED = ss.Agreement(
    PROJECTION.replace(resolution="1/4096"),
    key="key",
    index="index",
    value="value",
    unit="plane",
    neighbours=ss.SketchL2(3, unit="plane"),
    clip="equal",
)


def test_units_are_clipped_as_agreed_on_and_all_their_windows_of_a_period_are_one_relation() -> None:
    windows = beam.Pipeline(runner="FnApiRunner") | beam.Create([]) | TumblingWindows(60)
    relations = {}
    bounds: dict[str, Any] = {
        "each": BoundContributions(WEIGHED),
        "all": BoundContributions(WEIGHED, across_windows=True),
        "four": BoundAcrossWindows(WEIGHED, max_windows=4, period=600),
        "seven": BoundAcrossWindows(WEIGHED, max_windows=7, period=600),
    }
    for name, bound in bounds.items():
        known = known_of(windows | name >> bound)
        # of the period's bound a window holds a unit of less than its length
        assert known.bounds.clip == ("equal" if name in {"each", "all"} else "scale and equal")
        relations[name] = known.bounds.neighbours
    assert relations["each"] == ss.SketchL2(3, unit="plane in one window of 60 s")
    assert relations["all"] == ss.SketchL2(3, unit="plane")
    assert relations["four"] == ss.SketchL2(6, unit="plane in one period of 600 s")  # √4 times the bound
    assert relations["seven"] == ss.SketchL2(3, unit="plane in one period of 600 s").in_windows(7)
    with pytest.raises(ss.InvalidInputError, match=r"the agreement has clip='equal', got 'scale'\. Leave clip out"):
        BoundContributions(WEIGHED, clip="scale")


@pytest.mark.parametrize("step", STEPS_BETWEEN)
def test_a_step_that_may_undo_the_bounds_is_noticed(step: str) -> None:
    sketches = STEPS_BETWEEN[step](bounded(beam.Pipeline(runner="FnApiRunner")))
    with pytest.raises(ss.InvalidInputError, match="passed a step that may move events"):
        sketches | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=["a"])


def test_a_step_between_takes_the_callers_assertion() -> None:
    sketches = STEPS_BETWEEN["to other keys"](bounded(beam.Pipeline(runner="FnApiRunner")))
    noise = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(6, unit="plane"))
    sketches | ReleasePerKey(noise, assert_bounds=True, projection=PROJECTION, public_keys=["all"])


def test_bounds_go_with_what_was_bounded_and_with_its_sketches() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    events = bounded(pipeline)
    sketches = events | sketch_rows(PROJECTION)
    for known in map(known_of, (events, sketches)):
        assert known.bounds == Bounds(PLANE, "scale", counted=True)
        assert (known.projection, known.neighbours, known.late) == (PROJECTION, PLANE, False)
    assert known_of(events | beam.Map(lambda found: found)).bounds.ended


def test_sketches_that_nobody_bounded_have_a_projection_and_no_bounds() -> None:
    sketches = beam.Pipeline(runner="FnApiRunner") | beam.Create([("a", 1, 1)]) | sketch_rows(PROJECTION)
    assert known_of(sketches) == Known(PROJECTION, agreement=agreement_of(PROJECTION))


def test_one_description_of_bounds_serves_several_collections() -> None:
    """The transform holds nothing of what it was applied to."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create([(1, "a", "x", 1.0)])
    bounds, select = bound_rows(PROJECTION, **BOUNDS), SelectKeys(epsilon=1.0, delta=1e-6)
    whole = rows | "Whole" >> bounds
    windowed = rows | TumblingWindows(60) | "Windowed" >> bounds
    keys = whole | "Keys" >> select
    windowed | "Keys of windows" >> select
    assert known_of(windowed).bounds.neighbours == dataclasses.replace(PLANE, unit="plane in one window of 60 s")
    assert known_of(windowed).neighbours == PLANE
    whole | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, selected_keys=keys)


def test_keys_are_not_selected_after_a_step_between() -> None:
    events = bounded(beam.Pipeline(runner="FnApiRunner")) | beam.WindowInto(beam.window.GlobalWindows())
    with pytest.raises(ss.InvalidInputError, match="directly to the output"):
        events | SelectKeys(epsilon=1.0, delta=1e-6)


def test_late_rows_cannot_be_released() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    events = pipeline | beam.Create([(1, "a", "x", 1.0)])
    _, late = events | bound_rows(PROJECTION, **BOUNDS).with_late_data()
    with pytest.raises(ss.InvalidInputError, match="late data"):
        late | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, public_keys=["a"])
    with pytest.raises(ss.InvalidInputError, match="late data"):
        (
            late
            | "Pass on" >> beam.Map(lambda found: found)
            | "Other" >> sketch_rows(PROJECTION)
            | "Release" >> ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["a"])
        )


def test_late_sketches_cannot_be_released() -> None:
    sketches = bounded(beam.Pipeline(runner="FnApiRunner")) | sketch_rows(PROJECTION)
    _, late = sketches | ReleasePerKey(NOISE, public_keys=["a"]).with_late_data()
    with pytest.raises(ss.InvalidInputError, match="late data"):
        late | "Again" >> ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["a"])


def test_sketches_of_another_projection_than_bounded_are_refused(tmp_path: Path) -> None:
    other = PROJECTION.replace(seed=12)
    with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
        run(lambda pipeline: bounded(pipeline) | sketch_rows(other), tmp_path)
    sketches = bounded(beam.Pipeline(runner="FnApiRunner")) | sketch_rows(PROJECTION)
    with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
        sketches | ReleasePerKey(NOISE, public_keys=["a"], projection=other)


AGREED = ss.Agreement(
    PROJECTION, key="shop", index="item", value="sold", neighbours=ss.L1(3, unit="plane", max_keys=2), missing="drop"
)
BATCH = pa.table({"shop": ["a"], "item": ["x"], "sold": [1]})
# how the sketches were made, what the release is told, and what its guarantee says of the bound
ROADS: dict[str, tuple[Callable[[beam.Pipeline], beam.PCollection], dict[str, Any], str]] = {
    "bounded": (lambda given: bounded(given, "A") | "SA" >> sketch_rows(PROJECTION), {}, "enforced"),
    "nothing bounded": (
        lambda given: given | "D" >> beam.Create([("a", "x", 1)]) | "SD" >> sketch_rows(PROJECTION),
        {},
        "asserted",
    ),
    "a step in between": (
        lambda given: bounded(given, "E") | "SE" >> sketch_rows(PROJECTION) | "E2" >> beam.Map(lambda keyed: keyed),
        {"assert_bounds": True, "projection": PROJECTION},
        "asserted",
    ),
    "an agreement": (
        lambda given: given | "F" >> beam.Create([BATCH]) | "SF" >> SketchPerKey(AGREED),
        {},
        "asserted",
    ),
}


def test_each_guarantee_says_whether_its_bound_was_enforced(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        found = []
        for name, (make, said, _) in ROADS.items():
            release = ReleasePerKey(NOISE, public_keys=["a"], **said)
            found.append(make(pipeline) | f"Release {name}" >> release | f"Name {name}" >> beam.Map(named, name))
        return found | beam.Flatten()

    found = dict(run(build, tmp_path)[0])
    assert found == {name: basis for name, (_, _, basis) in ROADS.items()}


def test_however_keys_are_named_and_whatever_is_published_enforced_bounds_are_called_so(tmp_path: Path) -> None:
    logistic = DPSignLogistic(epsilon=1.0, neighbours=PLANE)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        visits = pipeline | beam.Create([(plane, "a", "x", 1) for plane in range(99)])
        events = visits | bound_rows(PROJECTION, **BOUNDS)
        sketches = events | sketch_rows(PROJECTION)
        chosen = events | SelectKeys(epsilon=1.0, delta=1e-6)
        found = []
        for keys in ({"public_keys": ["a"]}, {"selected_keys": chosen}, {"keys_are_public": True}):
            for publisher in (NOISE, logistic):
                name = f"{type(publisher).__name__}, {min(keys)}"
                release = ReleasePerKey(publisher, **keys)
                found.append(sketches | name >> release | f"Name {name}" >> beam.Map(named, name))
        return found | beam.Flatten()

    found = run(build, tmp_path)[0]
    assert len(dict(found)) == 6
    assert set(dict(found).values()) == {"enforced"}


def named(keyed: tuple[Any, Any], name: str) -> tuple[str, str | None]:
    return name, keyed[1].guarantee.basis


def test_an_agreement_is_not_contradicted() -> None:
    sketches = beam.Pipeline(runner="FnApiRunner") | beam.Create([BATCH]) | SketchPerKey(AGREED)
    with pytest.raises(ss.InvalidInputError, match="sketched under an agreement for one plane of at most 3 in each of"):
        sketches | ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(3, unit="plane")), public_keys=["a"])


@pytest.mark.parametrize("neighbours", [PLANE, ss.L1(1)])
def test_a_sketch_that_was_bounded_elsewhere_does_not_enter_without_its_bounds(neighbours: ss.L1) -> None:
    near = ss.L1(100, unit="plane", max_keys=3)
    table = ss.bounding.bound_units([(["a"], ["x"], [400], ["Ann"])], PROJECTION, neighbours=near)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    with pytest.raises(Exception, match=r"was bounded to one plane of at most 100 .* the workers of a job do not keep"):  # noqa: PT012
        sketches = pipeline | beam.Create([("a", table["a"])]).with_output_types(beam.typehints.KV[str, ss.Sketch])
        release = ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=neighbours), projection=PROJECTION, public_keys=["a"]
        )
        sketches | release
        pipeline.run().wait_until_finish()
