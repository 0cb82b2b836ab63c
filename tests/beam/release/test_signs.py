"""Published signs through Beam: once each, for public keys only, whatever the runner repeats; and their neighbours."""

import itertools
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch import signs
from streamsketch.beam import (
    NearestSigns,
    ReleasePerKey,
    SelectKeys,
    SignSketchCoder,
    TumblingWindows,
)
from streamsketch.release.ready import Ready
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
PUBLISH = signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1, unit="visit"))
EVENTS = [("AA", (index, 1)) for index in range(30)] + [("UA", (7, 5)), ("hidden", (8, 1))]


def released(tmp_path: Path, *options: str, **arguments: Any) -> tuple[list[Any], dict[str, int]]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(EVENTS) | sketch_rows(PROJECTION) | ReleasePerKey(PUBLISH, **arguments)

    return run(build, tmp_path, *options)


def test_repeated_bundles_draw_the_same_flips(tmp_path: Path) -> None:
    found, _ = released(tmp_path, "--direct_runner_bundle_repeat=2", public_keys=["AA", "UA", "ZZ"])
    images = defaultdict(set)
    for key, release in found:
        images[key].add(release.to_bytes())
    assert len(found) == 9
    assert {key: len(seen) for key, seen in images.items()} == {"AA": 1, "UA": 1, "ZZ": 1}


def test_the_same_check_catches_fresh_flips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Ready.draw
    monkeypatch.setattr(Ready, "draw", lambda ready, _: draw(ready))
    found, _ = released(tmp_path, "--direct_runner_bundle_repeat=2", public_keys=["AA"])
    assert len({release.to_bytes() for _, release in found}) == 3


def test_exactly_the_public_keys_are_released_with_the_mechanisms_guarantee(tmp_path: Path) -> None:
    found, counters = released(tmp_path, public_keys=["AA", "UA", "ZZ"], count_private_data=True)
    assert sorted(key for key, _ in found) == ["AA", "UA", "ZZ"]
    assert counters == {"releases": 3, "keys_dropped": 1, "keys_without_data": 1}
    by_hand = PUBLISH.release(PROJECTION.sketch())
    for _, release in found:
        assert isinstance(release, signs.SignSketch)
        assert (release.projection, release.law, release.guarantee) == (PROJECTION, by_hand.law, by_hand.guarantee)
    assert len({release.release_id for _, release in found}) == 3


def test_keys_and_runs_share_no_flips(tmp_path: Path) -> None:
    (first, _), (second, _) = (released(tmp_path, public_keys=["empty", "void"]) for _ in range(2))
    assert len({release.packed for _, release in first + second}) == 4


def test_bounds_upstream_are_honoured(tmp_path: Path) -> None:
    """The mechanism's neighbours must be those that were enforced, and ε is shared by a unit's keys."""
    neighbours = ss.L1(3, unit="visitor", max_keys=2)
    rows = [(unit, key, unit, 1) for unit in range(40) for key in ("a", "b")]

    def build(mechanism: signs.DPSignLogistic) -> Any:
        return lambda pipeline: (
            pipeline
            | beam.Create(rows)
            | bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=3)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(mechanism, public_keys=["a", "b"])
        )

    found, _ = run(build(signs.DPSignLogistic(epsilon=1.0, neighbours=neighbours)), tmp_path)
    assert {release.guarantee.neighbours for _, release in found} == {neighbours}
    (rate,) = {release.law.rate for _, release in found}
    assert rate == pytest.approx(1 / (2 * 3 * 4), rel=1e-6)
    with pytest.raises(ss.InvalidInputError, match="does not imply"):
        run(build(PUBLISH), tmp_path)


def test_a_step_after_the_bounds_is_refused_though_the_mechanism_names_neighbours() -> None:
    mechanism = signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(3, unit="visitor", max_keys=2))
    bounds = bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=3)
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([(1, "a", 1, 1)])
    sketches = rows | bounds | sketch_rows(PROJECTION)
    twice = (sketches, sketches) | beam.Flatten()
    with pytest.raises(ss.InvalidInputError, match="passed a step that may move events"):
        twice | ReleasePerKey(mechanism, public_keys=["a"], projection=PROJECTION)
    twice | "Asserted" >> ReleasePerKey(mechanism, public_keys=["a"], assert_bounds=True, projection=PROJECTION)


def test_individual_releases_are_refused(tmp_path: Path) -> None:
    one = signs.IDPSignRPRR(epsilon=1.0, neighbours=ss.L1(1)).release(
        ss.projections.Rademacher(dim=9, sketch_dim=16, seed=1).sketch()
    )
    with pytest.raises(TypeError, match="needs SignSketch values, got IndividualSignSketch"):
        run(lambda pipeline: pipeline | beam.Create([("x", one)]) | NearestSigns(1), tmp_path)
    with pytest.raises(TypeError, match="must be SignSketch objects"):
        SignSketchCoder().encode(one)  # type: ignore[arg-type]


def test_selected_keys_pay_for_their_choice(tmp_path: Path) -> None:
    neighbours = ss.L1(1, unit="visitor", max_keys=2)
    rows = [(unit, "often", 1, 1) for unit in range(500)] + [(1, "once", 1, 1)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        events = pipeline | beam.Create(rows)
        events |= bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=1)
        keys = events | SelectKeys(epsilon=0.5, delta=1e-9)
        publish = signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=neighbours)
        return events | sketch_rows(PROJECTION) | ReleasePerKey(publish, selected_keys=keys)

    ((key, release),), _ = run(build, tmp_path)
    assert key == "often"
    assert (release.guarantee.epsilon, release.guarantee.delta) == (1.5, 1e-9)


def test_each_window_is_released_once(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = [TimestampedValue((key, 7, 5), at) for key in ("AA", "UA") for at in (1, 2, 70)]
        releases = (
            pipeline
            | beam.Create(rows)
            | TumblingWindows(60)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(PUBLISH, public_keys=["AA", "ZZ"], public_windows=(0, 180))
        )
        return releases | beam.Map(lambda keyed, window=beam.DoFn.WindowParam: (keyed[0], int(window.start)))

    found, _ = run(build, tmp_path)
    assert Counter(found) == Counter({(key, start): 1 for key in ("AA", "ZZ") for start in (0, 60, 120)})


@pytest.mark.parametrize(
    ("mechanism", "error", "message"),
    [
        (
            signs.DPSignRPRR(epsilon=1, delta=1e-6, neighbours=ss.L1(1), norm_bound=9),
            ss.InvalidInputError,
            "has no guarantee for keys without data",
        ),
        (signs.IDPSignRPRR(epsilon=1, neighbours=ss.L1(1)), TypeError, "has no guarantee for a table of keys"),
        ("logistic", TypeError, "got a str"),
    ],
)
def test_what_has_no_guarantee_for_a_table_is_refused(mechanism: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ReleasePerKey(mechanism, public_keys=["a"])


def test_mistakes_are_found_before_the_job_runs() -> None:
    with pytest.raises(ss.InvalidInputError, match="which keys have data is private"):
        ReleasePerKey(PUBLISH)
    by_bin = signs.DPSignOPORPRR(epsilon=1, neighbours=ss.OneCoordinate(1))
    with pytest.raises(ss.InvalidInputError, match="use OPORP"):
        ReleasePerKey(by_bin, public_keys=["a"], projection=PROJECTION)
    too_fine = signs.DPSignRPRRSmooth(epsilon=1, neighbours=ss.L1("1/2"))
    with pytest.raises(ss.InvalidInputError, match="below one grid step"):
        ReleasePerKey(too_fine, public_keys=["a"], projection=PROJECTION)
    for top in (0, 1.5):
        with pytest.raises(ss.InvalidInputError, match="top must be"):
            NearestSigns(top)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="results must be"):
        NearestSigns(1, results="pictures")  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="references must be"):
        NearestSigns(1, references={})


def test_the_guarantee_shows_and_no_secret() -> None:
    shown = str(DisplayData.create_from(ReleasePerKey(PUBLISH, public_keys=["a"])).items)
    assert "DPSignLogistic" in shown


def test_signs_travel_in_the_exchange_format() -> None:
    coder = beam.coders.registry.get_coder(signs.SignSketch)
    assert isinstance(coder, SignSketchCoder)
    assert coder.is_deterministic()
    release = PUBLISH.release(PROJECTION.sketch())
    assert coder.encode(release) == release.to_bytes()
    assert coder.decode(coder.encode(release)) == release


# --- nearest ----------------------------------------------------------------------------------------------------


def some(count: int, seed: int, name: str) -> dict[str, signs.SignSketch]:
    rng = np.random.default_rng(seed)
    law, guarantee = PUBLISH.law(PROJECTION), PUBLISH.guarantee(PROJECTION)
    return {
        f"{name} {i:02}": signs.SignSketch(PROJECTION, rng.bytes(8), law, guarantee, release_id=rng.bytes(8))
        for i in range(count)
    }


KEYED, REFERENCES = some(70, 1, "key"), some(40, 2, "reference")


def by_hand(key: str, among: dict[str, signs.SignSketch], top: int) -> list[tuple[str, int]]:
    own = int.from_bytes(KEYED[key].packed)
    distances = [((own ^ int.from_bytes(one.packed)).bit_count(), name) for name, one in among.items() if name != key]
    return [(name, distance) for distance, name in sorted(distances)[:top]]


AMONG = ("itself", "a mapping", "a collection")


@pytest.mark.parametrize(
    ("among", "top"),
    [
        *((among, 7) for among in AMONG),
        *(pytest.param(*case, marks=pytest.mark.long) for case in itertools.product(AMONG, [1, 100])),
    ],
)
def test_the_nearest_are_those_of_a_full_comparison(among: str, top: int, tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        references: Any = None if among == "itself" else REFERENCES
        if among == "a collection":
            references = pipeline | "Known" >> beam.Create(list(REFERENCES.items()))
        return pipeline | beam.Create(list(KEYED.items())) | NearestSigns(top, references=references)

    found, _ = run(build, tmp_path)
    everyone = KEYED if among == "itself" else REFERENCES
    assert dict(found) == {key: by_hand(key, everyone, top) for key in KEYED}


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_the_nearest_come_as_rows_too(form: Any, tmp_path: Path) -> None:
    found, _ = run(lambda p: p | beam.Create(list(KEYED.items())) | NearestSigns(2, results=form), tmp_path)
    rows = [row for table in found for row in table.to_pylist()] if form == "columns" else found
    assert not found or isinstance(found[0], pa.Table if form == "columns" else dict)
    assert len(rows) == 140
    for row in rows:
        assert (row["second"], row["hamming_distance"]) == by_hand(row["first"], KEYED, 2)[row["rank"] - 1]


def test_one_key_alone_has_no_neighbours(tmp_path: Path) -> None:
    alone = list(KEYED.items())[:1]
    assert run(lambda p: p | beam.Create(alone) | NearestSigns(3), tmp_path)[0] == [("key 00", [])]


def test_keys_of_several_types_make_no_column(tmp_path: Path) -> None:
    """Each may be in a block of its own, and all of the references' keys are text."""
    keyed = [(key, release) for key, release in zip(["a", 1], KEYED.values(), strict=False)]
    known = dict(list(KEYED.items())[2:])
    with pytest.raises(ss.InvalidInputError, match="must be of one type, got int and str"):
        run(lambda p: p | beam.Create(keyed) | NearestSigns(1, references=known, results="columns"), tmp_path)
    found, _ = run(lambda p: p | beam.Create(keyed) | NearestSigns(1, references=known), tmp_path)
    assert {key for key, _ in found} == {"a", 1}


def test_what_cannot_be_compared_is_refused_in_the_workers(tmp_path: Path) -> None:
    one = next(iter(KEYED.values()))
    elsewhere = PUBLISH.release(PROJECTION.replace(seed=12).sketch())
    for keyed, error in (
        ([("a", one), ("b", one)], ss.errors.DependentNoiseError),
        ([("a", one), ("a", elsewhere)], ss.InvalidInputError),
        ([("a", one), ("b", elsewhere)], ss.errors.IncompatibleProjectionsError),
        ([("a", one), ("b", PROJECTION.sketch())], TypeError),
        ([(None, one)], ss.InvalidInputError),
        ([(("a", 1), one)], ss.InvalidInputError),
    ):
        with pytest.raises(error):
            run(lambda p, keyed=keyed: p | beam.Create(keyed) | NearestSigns(1), tmp_path)  # type: ignore[misc]
