"""Event-time windows: each key and window is released at most once, whatever comes when."""

import datetime as dt
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger
from apache_beam.transforms.window import FixedWindows, GlobalWindow, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

import streamsketch as ss
from streamsketch.beam import (
    ReleasePerKey,
    SlidingWindowSums,
    TumblingWindows,
)
from streamsketch.beam.intake.windows import SplitByTime, tumbling_of
from streamsketch.data.windows import Tumbling
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import append_to, recorded, run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="visit"))
KEYS = ["AA", "UA"]
MINUTES = (0, 180)  # three windows of a minute

Found = dict[tuple[str, int], list[ss.PrivateSketch]]


def with_window(keyed: tuple[Any, Any], window: Any = beam.DoFn.WindowParam) -> tuple[Any, int, Any]:
    return keyed[0], int(window.start), keyed[1]


def stream(events: list[tuple[float | str, Any]]) -> test_stream.TestStream:
    """Return a stream of (event time, row), in which ("watermark", time) moves the watermark."""
    test = test_stream.TestStream()
    for at, row in events:
        test = test.advance_watermark_to(row) if at == "watermark" else test.add_elements([TimestampedValue(row, at)])
    return test.advance_watermark_to_infinity()


def run_stream(
    build: Callable[[beam.Pipeline], tuple[beam.PCollection, beam.PCollection]], tmp_path: Path
) -> tuple[list[Any], list[Any]]:
    """Run a streaming pipeline; return what it released, and what came late, each with its window's start."""
    sinks = tmp_path / "released", tmp_path / "late"
    with beam.Pipeline(
        runner="BundleBasedDirectRunner", options=beam.options.pipeline_options.PipelineOptions(["--streaming"])
    ) as pipeline:
        for name, sink, found in zip("ab", sinks, build(pipeline), strict=True):
            found | f"Window {name}" >> beam.Map(with_window) | f"Record {name}" >> beam.Map(append_to, str(sink))
    return recorded(sinks[0]), recorded(sinks[1])


ON_TIME_AND_LATE: list[tuple[Any, Any]] = [
    (5, ("AA", 1, 7)),
    (70, ("UA", 2, 7)),
    ("watermark", 65),  # the first window is over
    (6, ("AA", 3, 500)),
    (75, ("UA", 4, 7)),
    ("watermark", 130),
    (7, ("UA", 5, 500)),
    (72, ("UA", 6, 500)),
]


def masses(found: list[Any]) -> dict[tuple[str, int], float]:
    """Return each release's rough mass: its squared norm, up to the noise of ± 200."""
    return {(key, start): ss.squared_norm(release).value for key, start, release in found}


@pytest.mark.parametrize("lateness", [0, 3600])
def test_each_key_and_window_is_released_once_and_late_data_never(lateness: float, tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> Any:
        return (
            pipeline
            | stream(ON_TIME_AND_LATE)
            | TumblingWindows(60, allowed_lateness=lateness)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=KEYS, public_windows=MINUTES).with_late_data()
        )

    released, late = run_stream(build, tmp_path)
    assert Counter((key, start) for key, start, _ in released) == Counter(
        {(key, start): 1 for key in KEYS for start in (0, 60, 120)}
    )
    assert max(masses(released).values()) < 400**2, "a late 500 would show"
    if not lateness:
        return  # a runner may drop what is late, or hand it over
    assert {type(sketch) for *_, sketch in late} == {ss.Sketch}
    assert {(key, start, sketch.mass) for key, start, sketch in late} == {
        ("AA", 0, 500),
        ("UA", 0, 500),
        ("UA", 60, 500),
    }


def test_the_same_check_sees_late_data_that_is_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsketch.beam.run.ordering.is_the_one_pane", lambda _: True)
    monkeypatch.setattr(beam.Reshuffle, "expand", lambda _, releases: releases)  # which hides what comes late

    def build(pipeline: beam.Pipeline) -> Any:
        return (
            pipeline
            | stream(ON_TIME_AND_LATE)
            | TumblingWindows(60, allowed_lateness=3600)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=KEYS, public_windows=MINUTES).with_late_data()
        )

    released, late = run_stream(build, tmp_path)
    assert max(Counter((key, start) for key, start, _ in released).values()) == 2
    assert max(masses(released).values()) > 400**2
    assert not late


def test_on_time_windows_hold_their_events(tmp_path: Path) -> None:
    events: list[tuple[Any, Any]] = [(5, ("AA", 1, 10_000)), ("watermark", 65), (70, ("AA", 2, 20_000))]

    def build(pipeline: beam.Pipeline) -> Any:
        return (
            pipeline
            | stream(events)
            | TumblingWindows(60)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=KEYS, public_windows=MINUTES).with_late_data()
        )

    released, _ = run_stream(build, tmp_path)
    found = masses(released)
    assert found["AA", 0] == pytest.approx(1e8, rel=0.01)
    assert found["AA", 60] == pytest.approx(4e8, rel=0.01)
    assert all(abs(found[slot]) < 1e4 for slot in [("AA", 120), ("UA", 0), ("UA", 60), ("UA", 120)])


def test_late_rows_of_a_unit_are_not_released(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> Any:
        rows: list[tuple[Any, Any]] = [(at, row if at == "watermark" else (1, *row)) for at, row in ON_TIME_AND_LATE]
        bounded, late = (
            pipeline
            | stream(rows)
            | TumblingWindows(60, allowed_lateness=3600)
            | bound_rows(PROJECTION, unit="plane", max_keys=2, l1=600).with_late_data()
        )
        sketches = bounded | sketch_rows(PROJECTION)
        released = sketches | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(600, unit="plane", max_keys=2)),
            public_keys=KEYS,
            public_windows=MINUTES,
        )
        return released, late | "Number" >> beam.Map(lambda bounded: ("late", int(np.abs(bounded.events.steps).sum())))

    released, late = run_stream(build, tmp_path)
    assert Counter((key, start) for key, start, _ in released) == Counter(
        {(key, start): 1 for key in KEYS for start in (0, 60, 120)}
    )
    assert {release.guarantee.neighbours for *_, release in released} == {
        ss.L1(600, unit="plane in one window of 60 s", max_keys=2)
    }
    assert sorted((start, steps) for _, start, steps in late) == [(0, 500), (0, 500), (60, 500)]


def released_in_batch(events: beam.PCollection, **arguments: Any) -> beam.PCollection:
    keys = {} if "keys_are_public" in arguments else {"public_keys": KEYS, "public_windows": MINUTES}
    return (
        events
        | sketch_rows(PROJECTION)
        | ReleasePerKey(NOISE, projection=PROJECTION, **(keys | arguments))
        | beam.Map(with_window)
    )


def test_data_outside_the_public_windows_is_dropped(tmp_path: Path) -> None:
    rows = [TimestampedValue(("AA", 1, 1), at) for at in (-1, 0, 59, 179, 180)]
    found, _ = run(lambda p: released_in_batch(p | beam.Create(rows) | TumblingWindows(60)), tmp_path)
    assert sorted((key, start) for key, start, _ in found) == [(key, start) for key in KEYS for start in (0, 60, 120)]


def test_windows_that_are_said_to_be_public_are_those_with_data(tmp_path: Path) -> None:
    rows = [TimestampedValue(("AA", 1, 1), at) for at in (-1, 0, 180)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return released_in_batch(pipeline | beam.Create(rows) | TumblingWindows(60), keys_are_public=True)

    found, _ = run(build, tmp_path)
    assert sorted((key, start) for key, start, _ in found) == [("AA", -60), ("AA", 0), ("AA", 180)]
    assert {release.guarantee.conditions for *_, release in found} == {
        ("the keys are public, and so are the windows in which each has data",)
    }


def test_windows_share_no_noise_and_repeated_bundles_draw_the_same(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return released_in_batch(pipeline | beam.Create([], reshuffle=False) | TumblingWindows(60))

    found, _ = run(build, tmp_path, "--direct_runner_bundle_repeat=2")
    images: dict[Any, set[bytes]] = {}
    for key, start, release in found:
        images.setdefault((key, start), set()).add(release.to_bytes())
    assert len(found) == 3 * 6
    assert {len(same) for same in images.values()} == {1}
    assert len(set.union(*images.values())) == 6


@pytest.mark.parametrize(
    "times",
    [
        pa.array([0, 59_999, 60_000, None, 119_000], pa.timestamp("ms")),
        pa.array([0, 59, 60, None, 119], pa.timestamp("s", tz="America/New_York")),
        pa.array([0, 59_999_999_999, 60_000_000_000, None, 119_000_000_000], pa.timestamp("ns")),
    ],
)
def test_batches_are_split_by_the_times_in_a_column(times: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"at": times, "key": ["a", "a", "a", "b", "b"], "index": [1, 2, 3, 4, 5], "value": [1] * 5})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        windowed = pipeline | beam.Create([table, table.to_batches()[0]]) | TumblingWindows(60, column="at")
        return windowed | sketch_rows(PROJECTION) | beam.Map(with_window)

    found, _ = run(build, tmp_path)
    assert {(key, start): sketch.mass for key, start, sketch in found} == {("a", 0): 4, ("a", 60): 2, ("b", 60): 2}


def test_dates_and_windows_that_start_elsewhere(tmp_path: Path) -> None:
    day = 86_400
    dates = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 3)]
    table = pa.table({"at": dates, "key": ["a"] * 3, "index": [1] * 3, "value": [1] * 3})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        windowed = pipeline | beam.Create([table]) | TumblingWindows(2 * day, offset=day, column="at")
        return windowed | sketch_rows(PROJECTION) | beam.Map(with_window)

    found, _ = run(build, tmp_path)
    assert {start // day: sketch.mass for _, start, sketch in found} == {-1: 2, 1: 1}


DAY_MILLIS = 86_400_000
FARTHEST = 2**63 - 1


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([0, FARTHEST, -FARTHEST, None, 59], pa.timestamp("s")),
        ([0, FARTHEST // 1000, 2**62, -(2**62), 59_999], pa.timestamp("ms")),
        ([0, FARTHEST, -FARTHEST - 1, None, 59_999_999], pa.timestamp("us")),
        ([0, 2**62, (2**64) // 10**6 + 1, -(2**62), 59], pa.timestamp("s")),  # which wrap to other windows
        ([5, FARTHEST, -FARTHEST - 1, None, 0], pa.date64()),
    ],
    ids=str,
)
def test_times_that_beam_cannot_hold_are_dropped(times: list[int | None], kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"at": pa.array(times, pa.int64()).cast(kind), "key": ["a"] * 5, "index": [1] * 5})
    found = windowed_masses(table, TumblingWindows(60, column="at"), tmp_path)
    assert found == {0: 2}


@pytest.mark.parametrize("size", [60, 7 * 86_400, 10**12])
@pytest.mark.parametrize("offset", [0, 59])
def test_the_first_and_last_times_that_are_kept_have_whole_windows(size: int, offset: int, tmp_path: Path) -> None:
    ends = MIN_TIMESTAMP.micros, GlobalWindow().max_timestamp().micros
    times = [ends[0], ends[0] + size * 10**6, ends[1] - size * 10**6, ends[1]]
    table = pa.table({"at": pa.array(times, pa.timestamp("us")), "key": ["a"] * 4, "index": [1] * 4})
    found = windowed_masses(table, TumblingWindows(size, offset=offset, column="at"), tmp_path)
    assert list(found.values()) == [1, 1]


def windowed_masses(table: pa.Table, windows: TumblingWindows, tmp_path: Path) -> dict[int, int]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        events = pipeline | beam.Create([table]) | windows
        return events | sketch_rows(PROJECTION, value=None) | beam.Map(with_window)

    return {start: sketch.mass for _, start, sketch in run(build, tmp_path)[0]}


def test_times_of_day_in_dates_count_as_their_day(tmp_path: Path) -> None:
    dates = pa.array([-1, 0, DAY_MILLIS - 1, DAY_MILLIS], pa.int64()).cast(pa.date64())
    table = pa.table({"at": dates, "key": ["a"] * 4, "index": [1] * 4})
    found = windowed_masses(table, TumblingWindows(86_400, column="at"), tmp_path)
    assert found == {-86_400: 1, 0: 2, 86_400: 1}


def test_far_dates_are_kept(tmp_path: Path) -> None:
    dates = pa.array([-(2**31), 0, 2**31 - 1, 10**8], pa.int32()).cast(pa.date32())  # 10⁸ days are 273 790 years
    table = pa.table({"at": dates, "key": ["a"] * 4, "index": [1] * 4})
    found = windowed_masses(table, TumblingWindows(86_400, column="at"), tmp_path)
    assert found == {0: 1, 10**8 * 86_400: 1}


@pytest.mark.parametrize("whole", [True, False])
def test_parts_carry_no_words_of_others(whole: bool) -> None:  # noqa: FBT001
    words = pa.array([f"word {number}" for number in range(100)]).dictionary_encode()
    table = pa.table({"at": pa.array(range(0, 200, 2), pa.timestamp("s")), "key": words})
    split = SplitByTime(Tumbling(20 * 10**6), "at", None)
    parts = list(split.process(table if whole else table.to_batches()[0]))
    assert [int(part.timestamp) for part in parts] == list(range(0, 200, 20))
    assert pa.Table.from_batches([part.value for part in parts]).column("key").to_pylist() == words.to_pylist()
    assert {len(part.value.column("key").dictionary) for part in parts} == {10}


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (("a", 1, 1), "splits Arrow record batches, got a tuple"),
        (pa.table({"key": ["a"]}), "no column 'at'"),
        (pa.table({"at": [1]}), "must hold times or dates, got int64"),
        (pa.table({"at": ["a day"]}), "holds text that is not a time in ISO 8601"),
    ],
)
def test_elements_without_times_are_refused(element: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        run(lambda pipeline: pipeline | beam.Create([element]) | TumblingWindows(60, column="at"), tmp_path)


def keyed_sketches() -> beam.PCollection:
    return beam.Pipeline(runner="FnApiRunner") | beam.Create([("a", PROJECTION.sketch())])


@pytest.mark.parametrize(
    "windowing",
    [
        beam.WindowInto(FixedWindows(60)),  # the default trigger fires again for late data
        beam.WindowInto(SlidingWindows(60, 30)),
        beam.WindowInto(Sessions(60)),
        beam.WindowInto(
            FixedWindows(60),
            trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
        beam.WindowInto(
            FixedWindows(60),
            trigger=trigger.AfterWatermark(),
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        ),
        beam.WindowInto(
            FixedWindows(60),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
    ],
)
def test_windowing_that_could_publish_twice_is_refused_at_construction(windowing: beam.WindowInto) -> None:
    with pytest.raises(ss.InvalidInputError, match="TumblingWindows"):
        (
            keyed_sketches()
            | windowing
            | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=["a"], public_windows=MINUTES)
        )


def test_an_endless_stream_needs_windows() -> None:
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner")
    endless = pipeline | test_stream.TestStream().add_elements([("a", PROJECTION.sketch())])
    with pytest.raises(ss.InvalidInputError, match="needs bounded input"):
        endless | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=["a"])


def test_public_keys_in_windows_need_public_windows() -> None:
    windowed = keyed_sketches() | TumblingWindows(60)
    with pytest.raises(ss.InvalidInputError, match="windows in which a key has data are private"):
        windowed | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=["a"])
    with pytest.raises(ss.InvalidInputError, match="pass projection="):
        windowed | "Other" >> ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["a"], public_windows=MINUTES
        )


def test_an_empty_range_of_windows_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="start < stop"):
        ReleasePerKey(NOISE, projection=PROJECTION, public_keys=["a"], public_windows=(60, 60))
    with pytest.raises(ss.InvalidInputError, match="needs public_keys"):
        ReleasePerKey(NOISE, projection=PROJECTION, keys_are_public=True, public_windows=MINUTES)


def test_across_windows_needs_an_end() -> None:
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner")
    endless = pipeline | test_stream.TestStream().add_elements([(1, "a", 1, 1)]) | TumblingWindows(60)
    with pytest.raises(ss.InvalidInputError, match="needs bounded input"):
        endless | bound_rows(PROJECTION, unit="plane", max_keys=1, l1=1, across_windows=True)


def test_sliding_windows_are_sums_of_releases(tmp_path: Path) -> None:
    rows = [TimestampedValue(("AA", minute, 1000 * (minute + 1)), 60 * minute) for minute in range(3)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        sketches = pipeline | beam.Create(rows) | TumblingWindows(60) | sketch_rows(PROJECTION)
        releases = sketches | ReleasePerKey(NOISE, projection=PROJECTION, public_keys=KEYS, public_windows=MINUTES)
        once = releases | "Once" >> beam.Map(with_window)
        sums = releases | SlidingWindowSums(120, 60) | "Sums" >> beam.Map(with_window)
        return (once, sums) | beam.Flatten()

    found, _ = run(build, tmp_path)
    parts = {(key, start): release for key, start, release in found if len(release.release_ids) == 1}
    sums = [(key, start, release) for key, start, release in found if len(release.release_ids) == 2]
    assert sorted((key, start) for key, start, _ in sums) == [(key, start) for key in KEYS for start in (0, 60)]
    for key, start, total in sums:
        halves = parts[key, start], parts[key, start + 60]
        assert np.array_equal(total.values, halves[0].values + halves[1].values)
        assert total.noise == halves[0].noise + halves[1].noise
        assert total.guarantee.epsilon == 1.0
    by_slot = {(key, start): release for key, start, release in sums}
    with pytest.raises(ss.errors.DependentNoiseError):
        ss.squared_distance(by_slot["AA", 0], by_slot["AA", 60])
    ss.squared_distance(by_slot["AA", 0], by_slot["UA", 0])


@pytest.mark.parametrize(("size", "period"), [(90, 60), (0, 60), (60, 0), (30, 60)])
def test_sliding_windows_hold_whole_tumbling_ones(size: float, period: float) -> None:
    with pytest.raises(ss.InvalidInputError, match="multiple of period"):
        SlidingWindowSums(size, period)


def test_sliding_windows_need_releases_of_their_period() -> None:
    releases = keyed_sketches() | TumblingWindows(30)
    with pytest.raises(ss.InvalidInputError, match=r"TumblingWindows\(60\), got FixedWindows"):
        releases | SlidingWindowSums(120, 60)


def test_beam_timestamps_name_windows_too(tmp_path: Path) -> None:
    named = (Timestamp(0), Timestamp(60))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return released_in_batch(pipeline | beam.Create([]) | TumblingWindows(60), public_windows=named)

    assert sorted((key, start) for key, start, _ in run(build, tmp_path)[0]) == [("AA", 0), ("UA", 0)]


def test_windows_have_lengths_in_words_and_times_in_text() -> None:
    rows = pa.table({"at": ["1.5.2024", "2.5.2024", None], "key": ["a", "b", "c"]})
    split = TumblingWindows("1 day", column="at", time_format="%d.%m.%Y")
    assert split._windows.size.micros == 86_400 * 10**6
    found = list(SplitByTime(tumbling_of(split._windows), "at", "%d.%m.%Y").process(rows))
    assert [(one.value.column("key").to_pylist(), one.timestamp.micros // (86_400 * 10**6)) for one in found] == [
        (["a"], 19844),
        (["b"], 19845),
    ]
    assert list(found[0].value.column("at")) == list(rows.column("at")[:1])
    with pytest.raises(ss.InvalidInputError, match="got 'a day'"):
        TumblingWindows("a day")
