"""What an outsider sees of Beam's transforms: nothing but the noise depends on one event.

Every release is drawn as in the games of `tests.observables.game`: whatever its data, its cells or signs are those of
`target`. What is compared is what the last step gets, in the order in which it gets it, the counters that are always
public, the table that is written, and how the job ends.
"""

import dataclasses
import functools
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import (
    BoundContributions,
    MeanPerKey,
    MergeSketches,
    NearestNeighbours,
    NearestSigns,
    PairwiseDistances,
    ReleasePerKey,
    RoundContribution,
    RowsToBatches,
    SelectKeys,
    SketchPerKey,
    SlidingWindowSums,
    TumblingWindows,
    WriteTable,
    configure_run,
)
from streamsketch.beam.release import means as means_of
from streamsketch.beam.run import ordering
from streamsketch.beam.run.steps import merge_group
from streamsketch.core.numbers import Ints
from streamsketch.data.data_ids import DataIds
from streamsketch.local import PrivHS
from streamsketch.parties import Key, Round
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.projections.base import MAX_MASS
from streamsketch.release import AdditiveNoise
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.ready import Ready
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import run
from tests.observables.game import Seen, assert_alike, differences, fixed_key, target

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
SIGNED = ss.projections.Rademacher(dim=1000, sketch_dim=64, seed=7)
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1)}
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1))
FOR_USERS = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="user"))
FINE = PROJECTION.replace(resolution="1/8192")
FOR_PEOPLE = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=ss.SketchL2(1, unit="user", max_keys=1))
FINE = PROJECTION.replace(resolution="1/8192")
CELLS = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=ss.SketchL2(1, unit="user", max_keys=4))
SIGNS = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1))
REPORTS = {key: PrivHS(dim=3, epsilon=2.0).randomize([0.6, 0.8, 0.0]) for key in "BAC"}
LARGE = (1 << 63) - 4
KEYS = ["A", "B", "C", "D"]
AGREED = Round(PROJECTION, parties=[fixed_key(n, "").public for n in (1, 2)], round_id=bytes(16), **PRIVACY)

Event = tuple[str, int, int]
WORLDS: list[list[Event]] = [  # one event more or less, another order, a sum at the brink of 63 bits
    [("B", 1, 1), ("A", 2, 1), ("B", 3, 1), ("C", 4, LARGE), ("C", 5, 4)],
    [("C", 5, 4), ("C", 4, LARGE), ("B", 3, 1), ("A", 2, 1)],
    [("B", 1, 1), ("A", 2, 1), ("B", 3, 1), ("C", 4, LARGE)],
]
A_KEY_LESS = [[("B", 1, 1), ("A", 2, 1)], [("B", 1, 1)]]

Build = Callable[[beam.Pipeline, list[Event]], beam.PCollection]


class Hiding:
    """A noise that hides the cells of one sketch, and the counts that are published beside them."""

    def __init__(self, calibrated: CalibratedNoise, exact: Ints) -> None:
        self.cumulants, self._numbers = calibrated.noise.cumulants, exact.reshape(-1)

    def sample(self, size: int, _: Any) -> Ints:
        return target(size) - self._numbers


@pytest.fixture(autouse=True)
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let noise and flips hide what they are added to, and let a run's secret be a known one."""
    draw, contribute = Ready.draw, Round.contribute_again

    def hiding(ready: Any, _: Any) -> Any:
        if isinstance(ready.calibrated, CalibratedNoise):
            calibrated: Any = dataclasses.replace(ready.calibrated, noise=Hiding(ready.calibrated, ready.exact))
            ready = dataclasses.replace(ready, calibrated=calibrated)
        flips = ((ready.exact[:, :64] > 0) ^ (target(64) > 0)).astype(np.int64)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streamsketch.signs.publishers.flips", lambda *_: flips)
            return draw(ready, known(ready.stated.ids))

    def contributing(agreed: Round, sketch: ss.Sketch, key: Key, _: Any) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(agreed.noise), "sample_share", lambda *_: target(64) - sketch.state())
            return contribute(agreed, sketch, key, known(sketch.data_ids))

    monkeypatch.setattr(Ready, "draw", hiding)
    monkeypatch.setattr(Round, "contribute_again", contributing)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("streamsketch.beam.run.runs.secrets.token_bytes", bytes)


def known(ids: DataIds) -> KeyedBits:
    """Return bits of a release that depend on its key, through its data id, and on nothing of its data."""
    return KeyedBits(bytes(32), ids.own)


def rows(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    return pipeline | beam.Create(events) | sketch_rows(PROJECTION)


def public_keys(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    return rows(pipeline, events) | ReleasePerKey(NOISE, public_keys=KEYS)


def collected_keys(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    keys = pipeline | "Public" >> beam.Create(KEYS)
    return rows(pipeline, events) | ReleasePerKey(NOISE, public_keys=keys)


def keys_are_public(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    return rows(pipeline, events) | ReleasePerKey(NOISE, keys_are_public=True)


def windows(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    stamped = pipeline | beam.Create([TimestampedValue(event, 10 * event[1]) for event in events])
    sketches = stamped | TumblingWindows(20) | sketch_rows(PROJECTION)
    return sketches | ReleasePerKey(NOISE, public_keys=KEYS, public_windows=(0, 60))


def signs(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    sketches = pipeline | beam.Create(events) | sketch_rows(SIGNED)
    return sketches | ReleasePerKey(SIGNS, public_keys=KEYS)


def bounded(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    units = [(f"unit {number}", *event) for number, event in enumerate(events)]
    kept = pipeline | beam.Create(units) | bound_rows(PROJECTION, unit="user", max_keys=1, l1=1)
    return kept | sketch_rows(PROJECTION) | ReleasePerKey(FOR_USERS, public_keys=KEYS)


def equals(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    """One unit's rows are any: each is brought to one length in sketch space."""
    units = [(f"unit {number}", *event) for number, event in enumerate(events)]
    units += [("Ann", key, index, 1) for key, index, _ in events]
    bounds = bound_rows(FINE, unit="user", neighbours=CELLS.neighbours, clip="equal", public_keys=KEYS)
    return pipeline | beam.Create(units) | bounds | sketch_rows(FINE) | ReleasePerKey(CELLS, public_keys=KEYS)


def people(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    """Bound units in sketch space, and count them."""
    units = [(f"unit {number}", *event) for number, event in enumerate(events)]
    columns: dict[str, Any] = {"key": "key", "index": "index", "value": "value", "unit": "unit", "missing": "drop"}
    agreement = ss.Agreement(
        FINE, **columns, neighbours=FOR_PEOPLE.neighbours, clip="equal", counting=ss.privacy.Counting(4000)
    )
    rows = pipeline | beam.Create(units) | RowsToBatches(agreement, ["unit", "key", "index", "value"])
    sketches = rows | BoundContributions(agreement) | SketchPerKey(agreement)
    return sketches | ReleasePerKey(FOR_PEOPLE, public_keys=KEYS)


def selected(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    crowd = [(f"{key} {number}", key, 1, 1) for key in "AC" for number in range(200)]
    units = [*crowd, *((f"unit {number}", *event) for number, event in enumerate(events) if event[0] != "B")]
    kept = pipeline | beam.Create(units) | bound_rows(PROJECTION, unit="user", max_keys=1, l1=1)
    keys = kept | SelectKeys(epsilon=1.0, delta=1e-9)
    return kept | sketch_rows(PROJECTION) | ReleasePerKey(FOR_USERS, selected_keys=keys)


def distances(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    releases = public_keys(pipeline, events)
    return (releases | PairwiseDistances(), releases | NearestNeighbours(top=2)) | beam.Flatten()


def nearest_signs(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    return signs(pipeline, events) | NearestSigns(top=2)


def sliding(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    return windows(pipeline, events) | SlidingWindowSums(40, 20)


def contributions(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    """Contribute to a round as one party: once for each public key."""
    configure_run(pipeline, claims=tempfile.mkdtemp(), run_id=AGREED.fingerprint)
    return rows(pipeline, events) | ReleasePerKey(
        RoundContribution(AGREED, lambda: fixed_key(1, "North")), public_keys=KEYS
    )


def merged(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    """Sketches are made elsewhere, one for each event, and merged."""
    made = [(key, PROJECTION.sketch()) for key, _, _ in events]
    for (_, sketch), (_, index, value) in zip(made, events, strict=True):
        sketch.update(index, value)
    sketches = pipeline | beam.Create(made) | beam.CombinePerKey(MergeSketches(PROJECTION))
    return sketches | ReleasePerKey(NOISE, public_keys=KEYS, projection=PROJECTION)


def malformed(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
    """One person's rows are of every wrong type."""
    units: list[Any] = [(f"unit {number}", *event) for number, event in enumerate(events[1:])]
    if len(events) == len(WORLDS[0]):
        units += [("x", "A", "text", 1), ("x", "A", 1, "text"), ("x", 1.5, 1, 1), (True, "A", 1, 1), ("x", "A", 0.5, 1)]
        units += [
            ("x", "A", 1, float("nan")),
            ("x", None, 1, 1),
            ("x",),
            "x",
            None,
            ("x", "A", -1, 1),
            ("x", "A", 1, 1 << 80),
        ]
    kept = pipeline | beam.Create(units) | bound_rows(PROJECTION, unit="user", max_keys=1, l1=1)
    return kept | sketch_rows(PROJECTION) | ReleasePerKey(FOR_USERS, public_keys=KEYS)


GAMES: dict[str, tuple[Build, list[list[Event]]]] = {
    "public keys": (public_keys, WORLDS + A_KEY_LESS),
    "public keys in a collection": (collected_keys, A_KEY_LESS),
    "keys are public": (keys_are_public, WORLDS[:2]),
    "windows": (windows, A_KEY_LESS),
    "signs": (signs, A_KEY_LESS),
    "bounded": (bounded, WORLDS[::2]),
    "equal in sketch space": (equals, WORLDS[:1] + A_KEY_LESS[1:]),
    "people": (people, WORLDS[:1] + A_KEY_LESS[1:]),
    "selected keys": (selected, WORLDS[:2]),
    "distances": (distances, WORLDS[:2]),
    "nearest signs": (nearest_signs, WORLDS[:2]),
    "sliding windows": (sliding, WORLDS[:2]),
    "merged sketches": (merged, WORLDS[:2]),
    "contributions": (contributions, A_KEY_LESS),
    "malformed rows": (malformed, WORLDS[:2]),
}


def play(
    build: Callable[..., beam.PCollection],
    events: Any,
    folder: Path,
    *options: str,
    write: Callable[[str], beam.PTransform] | None = None,
) -> Seen:
    folder.mkdir()
    table = folder / "written" / "all.parquet"

    def observed(pipeline: beam.Pipeline) -> beam.PCollection:
        releases = build(pipeline, events)
        if write is not None:
            releases | write(str(table))
        return releases

    try:
        elements, counters = run(observed, folder, *options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is seen
        return {"end": f"{type(error).__name__}"}
    seen: Seen = {"elements": [pickle.dumps(element) for element in elements], "counters": counters, "end": "done"}
    if write is None:
        return seen
    return seen | {"table": table.read_bytes(), "names": [path.name for path in table.parent.iterdir()]}


@pytest.mark.parametrize("name", GAMES)
def test_nothing_but_the_noise_tells_one_event(name: str, tmp_path: Path) -> None:
    build, streams = GAMES[name]
    seen = [play(build, events, tmp_path / str(number)) for number, events in enumerate(streams)]
    assert seen[0]["end"] == "done"
    assert seen[0]["elements"]
    assert_alike(seen)


def means(pipeline: beam.Pipeline, order: str) -> beam.PCollection:
    """Add up reports, which are private already: what is left to show is the order in which they came."""
    reports = pipeline | beam.Create([(key, REPORTS[key]) for key in order])
    return reports | MeanPerKey(PrivHS(dim=3, epsilon=2.0))


def test_means_do_not_show_the_order_of_reports(tmp_path: Path) -> None:
    seen = [play(means, order, tmp_path / order) for order in ("BAC", "CAB")]
    assert seen[0]["end"] == "done"
    assert len(seen[0]["elements"]) == 3
    assert_alike(seen)


@pytest.mark.parametrize(
    "name",
    [
        "public keys",
        "contributions",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("signs", "selected keys")),
    ],
)
def test_repeated_bundles_show_no_more(name: str, tmp_path: Path) -> None:
    build, streams = GAMES[name]
    repeat = "--direct_runner_bundle_repeat=2"
    seen = [play(build, events, tmp_path / str(number), repeat) for number, events in enumerate(streams[-2:])]
    assert seen[0]["end"] == "done"
    assert_alike(seen)


@pytest.mark.parametrize(
    ("build", "write"), [(public_keys, WriteTable), (signs, functools.partial(WriteTable, signs=True))]
)
def test_the_table_that_is_written_is_the_same(
    build: Build, write: Callable[[str], beam.PTransform], tmp_path: Path
) -> None:
    seen = [play(build, events, tmp_path / str(number), write=write) for number, events in enumerate(A_KEY_LESS)]
    assert seen[0]["end"] == "done"
    assert_alike(seen)


# --- faults put back, which the game must find -------------------------------------------------------------------


def test_the_game_finds_keys_with_data_that_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As releases came out before they were ordered; which came first then depended on the process too."""
    seen = []
    for number, events in enumerate(A_KEY_LESS):
        known = {key for key, _, _ in events}
        monkeypatch.setattr(ordering, "order", lambda key, known=known: (key not in known, key))
        seen.append(play(public_keys, events, tmp_path / str(number)))
    assert differences(seen) == ["elements"]


def test_the_game_finds_means_in_order_of_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unordered(beam.PTransform):
        def expand(self, sums: beam.PCollection) -> tuple[beam.PCollection, None]:
            return sums | beam.GroupByKey() | beam.FlatMap(merge_group), None

    monkeypatch.setattr(means_of, "InOrder", lambda *_: Unordered())
    seen = [play(means, order, tmp_path / order) for order in ("BAC", "CAB")]
    assert differences(seen) == ["elements"]


def test_the_game_finds_keys_without_data_that_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, published = CalibratedNoise.numbers, CalibratedNoise.published
    masses: list[int] = []

    def noted(calibrated: CalibratedNoise, sketch: ss.Sketch) -> Ints:
        masses.append(sketch.mass)
        return exact(calibrated, sketch)

    def uncounted(calibrated: CalibratedNoise, *noisy: Any) -> ss.PrivateSketch:
        whole = published(calibrated, *noisy)
        ids = {"release_ids": whole.release_ids, "data_ids": whole.data_ids}
        bare = ss.PrivateSketch(whole.projection, whole.values, whole.noise, whole.guarantee, **ids)
        return whole if masses.pop() else bare

    monkeypatch.setattr(CalibratedNoise, "numbers", noted)
    monkeypatch.setattr(CalibratedNoise, "published", uncounted)
    seen = [play(people, events, tmp_path / str(number)) for number, events in enumerate(A_KEY_LESS)]
    assert differences(seen) == ["elements"], seen


def test_the_game_finds_counters_of_private_data(tmp_path: Path) -> None:
    def counting(pipeline: beam.Pipeline, events: list[Event]) -> beam.PCollection:
        sketches = rows(pipeline, events)
        return sketches | ReleasePerKey(NOISE, public_keys=KEYS, count_private_data=True)

    seen = [play(counting, events, tmp_path / str(number)) for number, events in enumerate(A_KEY_LESS)]
    assert differences(seen) == ["counters"]


def test_the_game_finds_a_job_that_one_sum_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = ss.Sketch.__add__

    def refusing(sketch: ss.Sketch, other: ss.Sketch) -> ss.Sketch:
        total = add(sketch, other)
        if total.mass == MAX_MASS:
            raise ss.errors.SketchOverflowError("the sum leaves 63 bits")
        return total

    monkeypatch.setattr(ss.Sketch, "__add__", refusing)
    seen = [play(public_keys, events, tmp_path / str(number)) for number, events in enumerate(WORLDS)]
    assert "end" in differences(seen)
