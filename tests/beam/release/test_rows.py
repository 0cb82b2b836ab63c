"""Rows of schedules through Beam: those of one machine, of every window in its order, with noise drawn once."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import IntervalWindow, TimestampedValue

import streamsketch as ss
from streamsketch.beam import (
    BoundContributions,
    CalendarWindows,
    ReleasePerKey,
    RowsToBatches,
    SketchPerKey,
    TumblingWindows,
)
from streamsketch.beam.release import rows as rows_module
from streamsketch.beam.release.draws import RowDraw
from streamsketch.beam.release.rows import ScheduledWindows
from streamsketch.beam.run.bits import repeatable_bits
from streamsketch.beam.run.known import Known, Span
from streamsketch.beam.run.runs import RunSecret
from streamsketch.beam.streams.slots import encoded_key
from streamsketch.continual import Factorisation, History, Releaser, Schedule, Separate, Tree
from streamsketch.data.windows import Tumbling
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.release import AdditiveNoise
from tests.beam.rows import agreement_of, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=11, resolution="1/1024")
DAY = 86_400
KEYS = ["AA", "UA", "empty"]
WINDOWS = 6
ROWS = [  # (day, row): day 1 and the last two are empty
    (0, ("Ann", "AA", 1, 3)),
    (0, ("Bob", "UA", 2, 4)),
    (2, ("Ann", "AA", 1, 5)),
    (2, ("Cyd", "AA", 900, 1)),
    (3, ("Ann", "UA", 5, 2)),
    (3, ("Ann", "dropped", 5, 2)),
]
COLUMNS = ["unit", "key", "index", "value"]
SCHEDULES: dict[str, Schedule] = {
    "tree": Tree(horizon=WINDOWS, depth=2, max_windows=2),
    "longer than the windows": Factorisation(horizon=2 * WINDOWS, blocks=2),
}


def agreed(neighbours: Any) -> ss.Agreement:
    is_length = isinstance(neighbours, ss.SketchL2)
    counting = ss.privacy.Counting.of(PROJECTION, neighbours, delta=1e-6) if is_length else None
    return agreement_of(PROJECTION, unit="unit", neighbours=neighbours, counting=counting)


BOUNDED = {
    "L1": agreed(ss.L1(20, unit="person", max_keys=3)),
    "SketchL2": agreed(ss.SketchL2(20, unit="person", max_keys=2)),
}
WINDOWED: dict[str, beam.PTransform] = {"tumbling": TumblingWindows(DAY), "calendar": CalendarWindows("day")}


def noise(neighbours: Any, schedule: Schedule | None) -> AdditiveNoise:
    return AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=neighbours, schedule=schedule)


def over(near: Any, most: int) -> Any:
    return dataclasses.replace(near.in_windows(most), max_keys=near.max_keys)


def without_noise(patch: pytest.MonkeyPatch) -> None:
    for noise in (DiscreteLaplace, DiscreteGaussian):
        patch.setattr(noise, "sample", lambda _, size, __: np.zeros(size, dtype=np.int64))


def all_paths(paths: dict[tuple[str, str], list[str]]) -> Callable[[beam.Pipeline], beam.PCollection]:
    """Return a pipeline with rows of all schedules, each element (bounds, windows, schedule, key, day, row)."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        events = pipeline | beam.Create([TimestampedValue(row, day * DAY + 7) for day, row in ROWS])
        found = []
        for (bounds, windows), names in paths.items():
            agreement = BOUNDED[bounds]
            sketches = (
                events
                | f"{bounds}, {windows}" >> WINDOWED[windows]
                | f"Batches {bounds}, {windows}" >> RowsToBatches(agreement, COLUMNS)
                | f"Bound {bounds}, {windows}" >> BoundContributions(agreement, public_keys=KEYS)
                | f"Sketch {bounds}, {windows}" >> SketchPerKey(agreement)
            )
            for name in names:
                schedule = SCHEDULES[name]
                label = f"{bounds}, {windows}, {name}"
                release = ReleasePerKey(
                    noise(agreement.neighbours, schedule), public_keys=KEYS, public_windows=(0, WINDOWS * DAY)
                )
                named = beam.Map(placed, (bounds, windows, name))
                rows = sketches | f"Release {label}" >> release | f"Name {label}" >> named
                found.append(rows | f"Together {label}" >> beam.WindowInto(beam.window.GlobalWindows()))
        return found | beam.Flatten()

    return build


def placed(keyed: Any, names: tuple[str, ...], window: IntervalWindow = beam.DoFn.WindowParam) -> tuple[Any, ...]:
    return (*names, keyed[0], int(window.start) // DAY, keyed[1])


def of_one_machine(bounds: str, name: str) -> list[Any]:
    """Return the exact numbers of each window's row by key."""
    agreement, schedule, found = BOUNDED[bounds], SCHEDULES[name], []
    near: Any = agreement.neighbours
    if isinstance(near, ss.SketchL2):
        near = over(near, schedule.most)
    counted = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=near, schedule=schedule, counting=agreement.counting)
    releaser = Releaser(counted, PROJECTION)
    for day in range(WINDOWS):
        columns = zip(*(row for of, row in ROWS if of == day), strict=True) if day in {of for of, _ in ROWS} else []
        data = pa.table(dict(zip(COLUMNS, map(list, columns), strict=False)) or {name: [] for name in COLUMNS})
        table: Any = ss.bound(data, agreement, public_keys=KEYS)
        found.append(dict(releaser.exact(table, public_keys=KEYS)))
        releaser.add(table, public_keys=KEYS)
    return found


PATHS = {("L1", "tumbling"): ["longer than the windows"], ("SketchL2", "calendar"): ["tree"]}


def test_rows_are_those_of_one_machine_whatever_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    found, counters = run(all_paths(PATHS), tmp_path)
    assert counters["releases"] == len(found) == len(SCHEDULES) * len(KEYS) * WINDOWS
    by_path: dict[Any, dict[Any, Any]] = {}
    for bounds, windows, name, key, day, row in found:
        by_path.setdefault((bounds, windows, name), {})[key, day] = row
    ids: set[bytes] = set()
    for (bounds, windows, name), rows in by_path.items():
        expected = of_one_machine(bounds, name)
        for key, day in itertools.product(KEYS, range(WINDOWS)):
            row = rows[key, day]
            numbers = row.values if row.counts is None else np.concatenate([row.values, row.counts])
            assert numbers.tolist() == expected[day][key].tolist(), (bounds, windows, name, key, day)
            assert (row.history.start, row.history.is_row) == (day, True)
            assert row.guarantee.basis == "enforced"
        ids.add(*{row.history.id for row in rows.values()})
        history = History([rows["AA", day] for day in range(WINDOWS)])
        truth = PROJECTION.sketch()
        truth.update(1, 8)
        truth.update(900, 1)
        whole = history.range(0, WINDOWS)
        assert (whole.values * float(whole.multiplier)).tolist() == truth.state().tolist()
    assert len(ids) == len(by_path), "each transform has a history of its own"
    some = by_path["SketchL2", "calendar", "tree"]["AA", 0].guarantee.neighbours
    assert some.unit == "person in at most 2 of 6 windows of one day (UTC)"
    assert (some.bound, some.max_keys) == (ss.SketchL2(20).in_windows(2).bound, 2)
    assert by_path["L1", "tumbling", "longer than the windows"]["AA", 0].guarantee.neighbours.unit == (
        "person in one of 12 windows of 86400 s"
    )


# --- windows in any order, and again ----------------------------------------------------------------------------


def scheduled(schedule: Schedule, count: int | None = None) -> ScheduledWindows:
    return ScheduledWindows(schedule, Tumbling(DAY * 10**6), 3, schedule.horizon if count is None else count)


def draw_of(schedule: Schedule) -> RowDraw:
    neighbours = ss.L1(20, unit=schedule.unit_text("person", "86400 s"))
    publisher = AdditiveNoise(epsilon=1.0, neighbours=neighbours, schedule=schedule)
    guarantee = publisher.guarantee(PROJECTION).on("asserted")
    return RowDraw(publisher, PROJECTION, guarantee, ["source"], of=scheduled(schedule), label="Release")


class Value:
    """State of one value, as a runner keeps it."""

    def __init__(self) -> None:
        self.bytes: bytes | None = None

    def read(self) -> bytes | None:
        return self.bytes

    def write(self, value: bytes) -> None:
        self.bytes = value


class Bag(list[Any]):
    """State of several values."""

    read = list.copy
    add = list.append


WEEK = [PROJECTION.sketch() for _ in range(5)]
for _day, _sketch in enumerate(WEEK):
    if _day != 2:  # which is empty
        _sketch.update(_day % 2, 1 + _day)


def stepped(schedule: Schedule, windows: list[int], held: Value | None = None) -> list[tuple[int, list[int]]]:
    """Return the rows of windows that come in this order, by a new worker each, in the order in which they leave."""
    held, waiting, found = held or Value(), Bag(), []
    for window in windows:
        step = rows_module.ReleaseRows(draw_of(schedule).sums._sums, scheduled(schedule))
        for timed in step.process((encoded_key("AA"), (window, WEEK[window])), held, waiting):
            _, (place, row) = timed.value
            assert timed.timestamp.micros == (3 + place) * DAY * 10**6
            found.append((place, np.frombuffer(row, dtype="<i8").tolist()))
    assert not waiting or len(found) < len(set(windows))
    return found


def rows_of(schedule: Schedule) -> list[tuple[int, list[int]]]:
    cells = np.array([sketch.state() for sketch in WEEK])
    return list(enumerate((schedule.matrix() @ cells).tolist()))


FIVE: list[Schedule] = [
    Separate(horizon=5),
    Tree(horizon=5, depth=2),
    Factorisation(horizon=5, blocks=2),
    Factorisation(horizon=5, band=2, gap=2, max_windows=3),
]


@pytest.mark.parametrize("schedule", FIVE, ids=str)
def test_windows_that_come_in_any_order_and_again_give_the_same_rows_in_theirs(schedule: Schedule) -> None:
    for order in list(itertools.permutations(range(5)))[::11]:
        assert stepped(schedule, list(order)) == rows_of(schedule)
        assert stepped(schedule, [order[0], *order, *order]) == rows_of(schedule)


def test_a_window_that_was_left_out_is_waited_for() -> None:
    assert [place for place, _ in stepped(FIVE[1], [0, 1, 3, 4])] == [0, 1]


@pytest.mark.parametrize("fault", ["as they come", "without empty ones"])
def test_the_same_check_catches_windows_in_another_order_and_some_left_out(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_they_come(of: Any, sums: Any, waiting: dict[int, Any]) -> Any:
        del of
        for place in list(waiting):
            total = waiting.pop(place)
            if fault == "as they come" or total.mass:
                window = sums.next([total])
                sums.take(window)
                yield window.rows[0]

    process = rows_module.ReleaseRows.process

    def at_once(step: Any, keyed: Any, held: Any, waiting: Any) -> Any:
        window = int.from_bytes(held.read()[16:24], "little") if held.read() else 0
        return process(step, (keyed[0], (window, keyed[1][1])), held, waiting)

    monkeypatch.setattr(rows_module.SumsOfRows, "rows", as_they_come)
    monkeypatch.setattr(rows_module.ReleaseRows, "process", at_once)
    order = [0, 1, 2, 3, 4]
    if fault == "as they come":
        assert stepped(FIVE[1], order) == rows_of(FIVE[1])
        order = [0, 2, 1, 3, 4]
    assert stepped(FIVE[1], order) != rows_of(FIVE[1])


def test_state_of_another_guarantee_is_refused() -> None:
    held = Value()
    stepped(FIVE[1], [0, 1], held)
    with pytest.raises(ss.InvalidInputError, match="another projection or another guarantee"):
        stepped(FIVE[2], [2], held)


# --- noise ------------------------------------------------------------------------------------------------------


def test_noise_is_a_function_of_run_key_window_guarantee_and_numbers() -> None:
    numbers = np.arange(16)

    def drawn(
        secret: bytes = bytes(32), key: str = "AA", place: int = 2, row: Any = numbers, schedule: Schedule = FIVE[1]
    ) -> Any:
        window = IntervalWindow((3 + place) * DAY, (4 + place) * DAY)
        run_secret = RunSecret(secret, b"", None)

        def bits_of(*parts: bytes) -> Any:
            return repeatable_bits(run_secret.derive("noise", "Release"), key, window, *parts)

        given = place, row.astype("<i8").tobytes()
        (found,) = draw_of(schedule).draw(given, bits_of, key, window, run_secret)
        return found

    once = drawn()
    assert drawn().to_bytes() == once.to_bytes()
    assert drawn(key="UA").history.id == drawn(place=1).history.id == once.history.id
    assert drawn(place=1).data_ids == once.data_ids != drawn(key="UA").data_ids
    others = [drawn(key="UA"), drawn(place=1), drawn(row=numbers + 1), drawn(bytes(31) + b"1"), drawn(schedule=FIVE[0])]
    noises = [(one.values - np.arange(16)).tolist() for one in [once, *others]]
    assert all(a != b for a, b in itertools.combinations(noises, 2))
    assert len({one.release_ids for one in [once, *others]}) == 6
    assert len({one.history.id for one in [once, *others[3:]]}) == 3


# --- what is enforced, and what is refused ----------------------------------------------------------------------


def known_of(neighbours: Any, near: Any, span: Span | None = None) -> Known:
    bounds = Bounds(neighbours=near, clip="scale")
    return Known(PROJECTION, bounds, neighbours, span)


PERIOD = Tumbling(5 * DAY * 10**6, 3 * DAY * 10**6)


@pytest.mark.parametrize(
    ("schedule", "span", "whose"),
    [
        (Tree(horizon=5), Span("person", Tumbling(DAY * 10**6)), "person in one of 5 windows of 86400 s"),
        (Tree(horizon=5, max_windows=None), Span("person", Tumbling(DAY * 10**6)), "person"),
        (Tree(horizon=5, max_windows=2), Span("person", PERIOD, 2), "person"),
        (Tree(horizon=5), None, "person in one of 5 windows of 86400 s"),
    ],
)
def test_a_stream_is_charged_once_and_for_whom_the_bounds_hold(schedule: Schedule, span: Any, whose: str) -> None:
    of = scheduled(schedule)
    found = of.span(Known(span=span), of.unit("person"))
    assert found.unit == whose
    starts = {found.stretches.start_of((3 + window) * DAY * 10**6) for window in range(5)}
    assert starts == {3 * DAY * 10**6}


@pytest.mark.parametrize(
    ("schedule", "span", "message"),
    [
        (
            Tree(horizon=5, max_windows=2),
            Span("person", PERIOD, 3),
            "in 3 windows of its period, but the schedule allows it in 2",
        ),
        (Tree(horizon=5, max_windows=2, gap=2), Span("person", PERIOD, 2), "2 apart, which BoundAcrossWindows does"),
        (Tree(horizon=5), Span("person", PERIOD._replace(offset=0), 1), "a period of 5 windows, with first="),
        (Tree(horizon=6), Span("person", PERIOD, 1), "periods of 5 windows, but the schedule has 6"),
    ],
)
def test_periods_of_bounds_are_those_of_the_schedule(schedule: Schedule, span: Span, message: str) -> None:
    each = ss.L1(20, unit="person")
    known, of = known_of(each, each.in_windows(2), span), scheduled(schedule)
    publisher = rows_module.publisher_of_rows(noise(each, schedule), known, of)
    with pytest.raises(ss.InvalidInputError, match=message):
        rows_module.guarantee_of_rows(publisher, PROJECTION, known, of, assert_bounds=False)


@pytest.mark.parametrize(
    ("stated", "known", "found"),
    [
        (ss.L1(20, unit="person"), "each", ss.L1(20)),
        (ss.SketchL2(8, unit="person"), "each", ss.SketchL2(8).in_windows(2)),
        (ss.SketchL2(8, unit="person"), "all", ss.SketchL2(8)),
    ],
)
def test_the_relation_is_that_of_all_windows_of_a_unit(stated: Any, known: str, found: Any) -> None:
    held = stated if known == "all" else dataclasses.replace(stated, unit="person in one window of 86400 s")
    data, of = known_of(stated, held), scheduled(Tree(horizon=5, max_windows=2))
    publisher = rows_module.publisher_of_rows(noise(stated, of.schedule), data, of)
    assert publisher.neighbours.bound == found.bound
    assert publisher.neighbours.unit == "person in at most 2 of 5 windows of 86400 s"
    guarantee = rows_module.guarantee_of_rows(publisher, PROJECTION, data, of, assert_bounds=False)
    assert guarantee.basis == "enforced"
    assert guarantee.mechanism.layout.schedule == of.schedule
    less = dataclasses.replace(noise(stated, of.schedule), neighbours=dataclasses.replace(stated, bound=1))
    with pytest.raises(ss.InvalidInputError, match="which does not imply"):
        rows_module.guarantee_of_rows(
            rows_module.publisher_of_rows(less, data, of), PROJECTION, data, of, assert_bounds=False
        )


@pytest.mark.parametrize(
    ("options", "windowed", "message"),
    [
        ({"keys_are_public": True}, TumblingWindows(DAY), "pass public_keys and public_windows"),
        ({"public_keys": KEYS}, TumblingWindows(DAY), "pass public_keys, and public_windows"),
        (
            {"public_keys": KEYS, "public_windows": (0, 7 * DAY)},
            TumblingWindows(DAY),
            "has 7 windows, but the noise of the sch",
        ),
        ({"public_keys": KEYS}, None, "a schedule needs windows of event time, got GlobalWindows"),
        ({"public_keys": KEYS, "public_windows": (0, None)}, TumblingWindows(DAY), "but the input does"),
    ],
)
def test_windows_of_a_schedule_are_named(options: dict[str, Any], windowed: Any, message: str) -> None:
    events = beam.Pipeline(runner="FnApiRunner") | beam.Create([("AA", 1, 1)])
    sketches = (events if windowed is None else events | windowed) | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match=message):
        sketches | ReleasePerKey(noise(ss.L1(1), Tree(horizon=6)), projection=PROJECTION, **options)
