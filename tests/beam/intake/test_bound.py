"""Contribution bounding through Beam: no unit moves the table further than stated, whatever its rows hold."""

import datetime as dt
import math
import types
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import TimestampedValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.beam import BoundContributions, ReleasePerKey, RowsToBatches, SketchPerKey, TumblingWindows
from streamsketch.beam.intake.bound import BoundedEvents
from streamsketch.beam.run import runs
from streamsketch.beam.run.known import known_of
from streamsketch.privacy import Neighbours
from streamsketch.release import AdditiveNoise
from tests.beam.rows import agreement_of, bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=11, resolution="0.5")
BOUNDS: dict[str, Any] = {"unit": "plane", "max_keys": 2, "l1": 3}
NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(3, unit="plane", max_keys=2))

Row = tuple[Any, Any, Any, Any]
values = st.one_of(st.floats(width=32), st.sampled_from([1.0, 0.5, -2.0, 1e300, math.nan, math.inf]), st.none())
rows = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 3), st.none()),
        st.one_of(st.sampled_from(["a", "b", "ü", "d"]), st.none()),
        st.one_of(st.sampled_from(["x", "y"]), st.integers(0, 9).map(str), st.none()),
        values,
    ),
    max_size=40,
)


@pytest.fixture
def fixed_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two runs choose alike, so that they can be compared."""
    monkeypatch.setattr(runs, "secrets", types.SimpleNamespace(token_bytes=bytes))


def batch(stream: list[Row]) -> pa.RecordBatch:
    units, keys, indices, amounts = zip(*stream, strict=True) if stream else ((), (), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(units, pa.int64()),
            pa.array(keys, pa.string()),
            pa.array(indices, pa.string()),
            pa.array(amounts, pa.float64()),
        ],
        names=["plane", "key", "index", "value"],
    )


def sketched(elements: list[Any], tmp_path: Path, **arguments: Any) -> dict[Any, ss.Sketch]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        bounded = pipeline | beam.Create(elements) | bound_rows(PROJECTION, **(BOUNDS | arguments))
        return bounded | sketch_rows(PROJECTION)

    return dict(run(build, tmp_path)[0])


def moved(one: dict[Any, ss.Sketch], other: dict[Any, ss.Sketch]) -> tuple[int, float, int]:
    """Return ‖·‖₁ and ‖·‖₂² between two tables, and how many keys differ."""
    gaps = []
    for key in one.keys() | other.keys():
        states = [table[key].state() if key in table else np.zeros(32, dtype=np.int64) for table in (one, other)]
        gaps.append(states[0] - states[1])
    return (
        sum(int(np.abs(gap).sum()) for gap in gaps),
        sum(int((gap**2).sum()) for gap in gaps),
        sum(bool(gap.any()) for gap in gaps),
    )


STREAMS = 8  # in one job, of units and keys of their own: a job takes far longer than its rows
cases = st.lists(st.tuples(rows, st.integers(0, 3)), min_size=STREAMS, max_size=STREAMS)


@pytest.mark.usefixtures("fixed_secret")
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams=cases, form=st.sampled_from(["rows", "columns", "both"]))
def test_a_unit_less_moves_the_table_by_no_more_than_stated(
    streams: list[tuple[list[Row], int]], form: str, tmp_path: Path
) -> None:
    def elements(rows: list[Row]) -> list[Any]:
        half = len(rows) // 2 if form == "both" else 0 if form == "rows" else len(rows)
        return [batch(rows[:half]), *rows[half:]]

    named, left_out = [], set()
    for number, (stream, unit) in enumerate(streams):
        left_out.add(4 * number + unit)
        for who, key, index, value in stream:
            named.append((
                None if who is None else 4 * number + who, None if key is None else f"{key}{number}", index, value,
            ))  # fmt: skip
    everyone = sketched(elements(named), tmp_path)
    without = sketched(elements([row for row in named if row[0] not in left_out]), tmp_path)
    stated = sensitivity_of(PROJECTION, ss.L1(3, unit="plane", max_keys=2))
    for number in range(STREAMS):
        both = [{key: found for key, found in all_.items() if key[1:] == str(number)} for all_ in (everyone, without)]
        l1, l2_squared, keys = moved(*both)
        assert l1 <= stated.l1 == 2 * 4 * 6
        assert l2_squared <= stated.l2_squared == 2 * 4 * 6**2
        assert keys <= 2


@pytest.mark.usefixtures("fixed_secret")
@pytest.mark.parametrize("layout", ["table of chunks", "one row a batch"])
def test_a_malformed_row_takes_no_other_with_it_through_dictionaries(layout: str, tmp_path: Path) -> None:
    bad = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    table = pa.table(
        {
            "plane": pa.array(range(20)),
            "key": pa.DictionaryArray.from_arrays(pa.array([0] * 19 + [1], pa.int8()), bad),
            "index": pa.array(["x"] * 20).dictionary_encode(),
            "value": [1.0] * 20,
        }
    )
    step = 7 if layout == "table of chunks" else 1
    batches = [table.slice(at, step).to_batches()[0] for at in range(0, 20, step)]
    elements = [pa.Table.from_batches(batches)] if layout == "table of chunks" else batches
    assert {key: sketch.mass for key, sketch in sketched(elements, tmp_path).items()} == {"a": 19 * 2}


def test_chunks_of_a_table_may_have_dictionaries_of_their_own(tmp_path: Path) -> None:
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), [f"{half}{key}" for key in range(100)])
        for half in "xy"
    ]
    table = pa.table({"plane": range(200), "key": pa.chunked_array(chunks), "index": ["x"] * 200, "value": [1.0] * 200})
    assert len(sketched([table], tmp_path)) == 200


def test_events_carry_only_their_own_slots(tmp_path: Path) -> None:
    stream = [TimestampedValue((unit, f"key {unit}", "x", 1.0), 60 * unit) for unit in range(40)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        bounds = bound_rows(PROJECTION, **(BOUNDS | {"max_keys": 9}), across_windows=True, shards=2)
        return pipeline | beam.Create(stream) | TumblingWindows(60) | bounds

    found, _ = run(build, tmp_path)
    assert len(found) == 40
    assert all(len(bounded.events.slots) == len(bounded.events.codes) == 1 for bounded in found)


@pytest.mark.usefixtures("fixed_secret")
def test_the_bounds_are_reached_by_a_heavy_unit_and_no_sooner(tmp_path: Path) -> None:
    heavy = [(1, key, "x", 1e12) for key in "abcd"]
    light = [(2, "a", "y", 1.0), (2, "b", "z", -2.0)]
    alone = sketched(light, tmp_path)
    l1, _, keys = moved(sketched([*heavy, *light], tmp_path), alone)
    assert (l1, keys) == (2 * 4 * 6, 2)
    expected = {}
    for _, key, index, value in light:
        expected[key] = PROJECTION.sketch()
        expected[key].update(PROJECTION.indices_of([index]), value)
    assert alone == expected


def test_the_same_check_catches_bounds_that_are_too_wide(tmp_path: Path) -> None:
    heavy = [(1, key, "x", 1e12) for key in "abcd"]
    l1, _, keys = moved(sketched(heavy, tmp_path, max_keys=3), {})
    assert (l1, keys) == (3 * 4 * 6, 3)
    l1, _, _ = moved(sketched(heavy, tmp_path, l1=4), {})
    assert l1 == 2 * 4 * 8


@pytest.mark.usefixtures("fixed_secret")
def test_what_is_kept_does_not_depend_on_how_the_rows_come(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    stream = [
        (int(unit), "abcdef"[key], str(index), float(value))
        for unit, key, index, value in zip(
            rng.integers(8, size=300), rng.integers(6, size=300), rng.integers(9, size=300), rng.normal(size=300),
            strict=True,
        )
    ]  # fmt: skip
    whole = sketched([batch(stream)], tmp_path)
    shuffled = [stream[place] for place in rng.permutation(300)]
    for parts in (3, 50):
        split = [batch(shuffled[at::parts]) for at in range(parts)]
        assert sketched(split, tmp_path, shards=3) == whole
    assert sketched(shuffled, tmp_path, shards=1) == whole


def test_the_choice_is_secret(tmp_path: Path) -> None:
    stream = [(unit, key, "x", 1.0) for unit in range(40) for key in "abcd"]
    assert sketched(stream, tmp_path, max_keys=1) != sketched(stream, tmp_path, max_keys=1)


FINE = PROJECTION.replace(resolution="1/4096")
EQUAL: dict[str, Any] = {"unit": "plane", "neighbours": ss.SketchL2(2, unit="plane", max_keys=2), "clip": "equal"}


def test_all_units_count_the_same_in_sketch_space(tmp_path: Path) -> None:
    """Ann's million flights and Bob's two are of one length, over both of their keys; what Cyd took back is nothing."""
    stream = [("Ann", "a", "x", 1e6), ("Bob", "a", "y", 2.0), ("Bob", "b", "z", -2.0), ("Cyd", "b", "x", 1.0)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = pipeline | beam.Create([*stream, ("Cyd", "b", "x", -1.0)])
        return rows | bound_rows(FINE, **EQUAL, count_private_data=True) | sketch_rows(FINE)

    found, counters = run(build, tmp_path)
    expected = {"a": FINE.sketch(), "b": FINE.sketch()}
    for key, index, length in [("a", "x", 2.0), ("a", "y", math.sqrt(2)), ("b", "z", -math.sqrt(2))]:
        expected[key].update(FINE.indices_of([index]), length)
    assert {key for key, _ in found} == {"a", "b"}
    for key, sketch in found:
        assert np.abs(sketch.state() - expected[key].state()).max() <= 2  # of 4096 steps: rounded to zero
    assert counters == {"units": 3, "units_over_keys": 0, "units_over_bound": 2, "units_below_bound": 0}


@pytest.mark.parametrize(
    ("projection", "bounds"), [(PROJECTION, BOUNDS), (FINE, EQUAL)], ids=["l1", "equal in sketch space"]
)
def test_bundles_may_be_repeated(projection: ss.projections.Projection, bounds: dict[str, Any], tmp_path: Path) -> None:
    stream = [batch([(unit, "a", "x", 1.0) for unit in range(40)])]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(stream) | bound_rows(projection, **bounds) | sketch_rows(projection)

    found, _ = run(build, tmp_path, "--direct_runner_bundle_repeat=2")
    assert {key for key, _ in found} == {"a"}
    assert len({sketch.state().tobytes() for _, sketch in found}) == 1


def keys_given(form: str, tmp_path: Path) -> Callable[[beam.Pipeline], Any]:
    if form == "file":
        (tmp_path / "keys.txt").write_text("a\n\nü\n", encoding="utf-8")
        return lambda _: tmp_path / "keys.txt"
    if form == "collection":
        return lambda pipeline: pipeline | "Keys" >> beam.Create(["a", "ü", "a"])
    return lambda _: ["a", "ü"]


@pytest.mark.parametrize("form", ["list", "file", "collection"])
def test_no_budget_is_spent_on_keys_that_are_not_public(form: str, tmp_path: Path) -> None:
    stream = [(unit, key, "x", 1.0) for unit in range(20) for key in ["a", "b", "c", "d", "ü"]]
    given_keys = keys_given(form, tmp_path)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        bounds = bound_rows(PROJECTION, **BOUNDS, public_keys=given_keys(pipeline))
        return pipeline | beam.Create(stream) | bounds | sketch_rows(PROJECTION)

    found = dict(run(build, tmp_path)[0])
    assert {key: sketch.mass for key, sketch in found.items()} == {"a": 40, "ü": 40}


@pytest.mark.parametrize("form", ["list", "file", "collection"])
def test_the_release_is_calibrated_to_the_bounds_and_names_the_unit(form: str, tmp_path: Path) -> None:
    given_keys = keys_given(form, tmp_path)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | beam.Create([(1, "a", "x", 1.0)])
            | bound_rows(PROJECTION, **BOUNDS, unit_name="aircraft")
            | sketch_rows(PROJECTION)
            | ReleasePerKey(
                AdditiveNoise(epsilon=1.0, neighbours=ss.L1(3, unit="aircraft", max_keys=2)),
                public_keys=given_keys(pipeline),
            )
        )

    found = dict(run(build, tmp_path)[0])
    assert sorted(found) == ["a", "ü"]
    by_hand = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(3, unit="aircraft", max_keys=2))
    for release in found.values():
        assert release.guarantee == by_hand.guarantee.on("enforced")
        assert release.noise == by_hand.noise
    assert "one aircraft of at most 3 in each of at most 2 keys" in str(by_hand.guarantee)


def test_no_data_at_all_is_noise_for_every_public_key(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        bounded = pipeline | beam.Create([]) | bound_rows(PROJECTION, **BOUNDS)
        return bounded | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, public_keys=["a", "b"])

    assert sorted(key for key, _ in run(build, tmp_path)[0]) == ["a", "b"]


def windowed(tmp_path: Path, **arguments: Any) -> tuple[dict[Any, int], Neighbours | None]:
    """Run one plane's flights in three windows; return the mass in each (key, window), and who is protected."""
    relation = []

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        flights = [TimestampedValue((1, key, "x", 3.0), at) for key in "ab" for at in (0, 60, 120)]
        bounded = pipeline | beam.Create(flights) | TumblingWindows(60) | bound_rows(PROJECTION, **(BOUNDS | arguments))
        relation.append(known_of(bounded).bounds.neighbours)
        return (
            bounded
            | sketch_rows(PROJECTION)
            | beam.Map(lambda keyed, window=beam.DoFn.WindowParam: (keyed[0], int(window.start), keyed[1].mass))
        )

    found = {(key, start): mass for key, start, mass in run(build, tmp_path)[0]}
    return found, relation[0]


def test_each_window_is_bounded_by_itself_and_the_guarantee_says_so(tmp_path: Path) -> None:
    found, relation = windowed(tmp_path, max_keys=1)
    assert sorted(start for _, start in found) == [0, 60, 120]
    assert set(found.values()) == {6}
    assert relation == ss.L1(3, unit="plane in one window of 60 s", max_keys=1)


@pytest.mark.parametrize(("size", "told"), [(2_592_000, "2592000"), (1_000_001, "1000001"), (0.1234567, "0.123456")])
def test_the_guarantee_names_its_window_in_full(size: float, told: str) -> None:
    """Rounded, windows of different lengths would bear one guarantee, and their releases compose as if it were."""
    pipeline = beam.Pipeline()
    windows = pipeline | beam.Create([(1, "a", "x", 3.0)]) | TumblingWindows(size)
    bounded = windows | bound_rows(PROJECTION, **BOUNDS)
    assert str(known_of(bounded).bounds.neighbours).startswith(f"one plane in one window of {told} s ")


def test_across_windows_the_pairs_of_key_and_window_count(tmp_path: Path) -> None:
    found, relation = windowed(tmp_path, max_keys=4, across_windows=True)
    assert len(found) == 4
    assert set(found.values()) == {6}
    assert relation == ss.L1(3, unit="plane", max_keys=4)


def test_units_are_counted_per_slot(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = [(1, "a", "x", 1.0), (1, "b", "x", 0.1), (2, "b", "x", 1.0)]  # 0.1 is no grid step, but a visit
        return pipeline | beam.Create(rows) | bound_rows(PROJECTION, **BOUNDS, shards=1)

    ((bounded,),) = (run(build, tmp_path)[0],)
    assert isinstance(bounded, BoundedEvents)
    names = [key for key, _ in bounded.events.slots]
    assert dict(zip(names, bounded.events.units_of.tolist(), strict=True)) == {"a": 1, "b": 2}


def test_dropped_rows_and_units_are_counted_when_asked(tmp_path: Path) -> None:
    stream = [(1, "a", "x", math.nan), (None, "a", "x", 1.0), (1, "a", "x", 1.0), batch([(1, None, "x", 1.0)])]

    def build(count: bool) -> Callable[[beam.Pipeline], beam.PCollection]:  # noqa: FBT001
        bounds = bound_rows(PROJECTION, **BOUNDS, count_private_data=count)
        return lambda pipeline: pipeline | beam.Create(stream) | bounds

    counted = {"rows_dropped": 3, "units": 1, "units_over_keys": 0, "units_over_bound": 0, "units_below_bound": 0}
    assert run(build(True), tmp_path)[1] == counted  # noqa: FBT003
    assert run(build(False), tmp_path)[1] == {}  # noqa: FBT003


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_keys": 0}, "max_keys must be"),
        ({"l1": 0}, "must be positive"),
        ({"l1": Fraction(1, 4)}, "below one grid step"),
        ({"l1": 1 << 61}, "below 2\\*\\*62 grid steps"),
        ({"unit_name": ""}, "privacy unit"),
        ({"shards": 0}, "shards must be"),
        ({"public_keys": []}, "empty"),
        ({"public_keys": "a"}, "to read keys from a file"),
    ],
)
def test_mistakes_are_found_before_the_job_runs(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        bound_rows(PROJECTION, **(BOUNDS | arguments))


def test_only_agreements_are_taken() -> None:
    with pytest.raises(TypeError, match="must be an Agreement"):
        BoundContributions("SJLT")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (pa.table({"key": ["a"], "index": ["x"], "value": [1.0]}), "must have the column plane exactly once"),
        (pa.table({"plane": [1.5], "key": ["a"], "index": ["x"], "value": [1.0]}), "the column plane holds double"),
    ],
)
def test_the_callers_mistakes_raise_in_the_workers(element: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        sketched([element], tmp_path)


WRONG_FIELDS = [
    True,
    0.5,
    "text",
    None,
    [1],
    {"a": 1},
    np.zeros(2),
    np.bool_(1),
    complex(1, 1),
    Decimal("sNaN"),
    object,
    b"\xff",
    1 << 70,
    dt.datetime(2026, 1, 1, 5),  # noqa: DTZ001 - no zone
    dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC),
]
TYPED: dict[str, Any] = {"unit": ("plane", "date"), "key": ("key", "bytes"), "index": {"index": "date"}}


@pytest.mark.parametrize(
    ("projection", "key", "index", "columns"),
    [
        (PROJECTION, "a", "x", {}),
        (PROJECTION.replace(dim=100), "a", 3, {}),
        (PROJECTION, b"a", dt.date(2026, 1, 1), TYPED),
    ],
    ids=["hashed", "small", "typed"],
)
def test_one_persons_wrong_types_cost_that_persons_rows_alone(
    projection: ss.projections.Projection, key: Any, index: Any, columns: dict[str, Any], tmp_path: Path
) -> None:
    units = [dt.date(2026, 1, day) for day in range(1, 11)] if columns else list(range(90, 100))
    sound = [(unit, key, index, 1.0) for unit in units[:9]]
    wrong = [
        tuple(field if at == place else old for at, old in enumerate((units[9], key * 2, index, 1.0)))
        for place in range(4)
        for field in WRONG_FIELDS
    ]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = pipeline | beam.Create([*wrong, *sound]) | beam.Map(lambda row: row).with_output_types(Any)
        return rows | bound_rows(projection, **BOUNDS, columns=columns) | sketch_rows(projection)

    assert dict(run(build, tmp_path)[0])[key].mass == 9 * 2


def test_what_is_no_row_is_dropped(tmp_path: Path) -> None:
    odd: list[Any] = [(), ("a", "x", 1.0), (1, "a", "x", 1.0, 2), [1, "a", "x", 1.0], "rows", None, 7, {}]
    found = sketched([(1, "a", "x", 1.0), *odd], tmp_path)
    assert {key: sketch.mass for key, sketch in found.items()} == {"a": 2}


def test_the_secret_shows_nowhere() -> None:
    near = ss.L1(3, unit="plane", max_keys=2)
    bounds = BoundContributions(agreement_of(PROJECTION, unit="plane", neighbours=near))
    shown = DisplayData.create_from(bounds).items
    assert {item.key: item.value for item in shown} == {
        "bounds": "L1(3, unit='plane', max_keys=2)",
    }


@pytest.mark.usefixtures("fixed_secret")
@pytest.mark.parametrize(
    ("neighbours", "how", "keys"),
    [(ss.L2(3, unit="plane", max_keys=2), {}, 2), (ss.L1(3, unit="plane"), {"max_keys": 3}, 3)],
    ids=["l2", "keys together"],
)
def test_a_unit_moves_the_table_by_no_more_than_other_bounds_say(
    neighbours: Neighbours, how: dict[str, Any], keys: int, tmp_path: Path
) -> None:
    projection = ss.SJLT(dim=1000, sketch_dim=32, sparsity=4, seed=11, resolution="0.5")
    heavy = [(1, key, index, 1e12) for key in "abcd" for index in (7, 8, 9)]
    light = [(unit, key, 5, 0.5) for unit in range(2, 6) for key in "ab"]
    agreement = agreement_of(projection, unit="plane", neighbours=neighbours)

    def table(rows: list[Row]) -> dict[Any, ss.Sketch]:
        batches = RowsToBatches(agreement, ["plane", "key", "index", "value"])
        bounds = BoundContributions(agreement, **how)
        return dict(run(lambda p: p | beam.Create(rows) | batches | bounds | SketchPerKey(agreement), tmp_path)[0])

    l1, l2_squared, changed = moved(table([*heavy, *light]), table(light))
    stated = sensitivity_of(projection, neighbours)
    assert 0 < l1 <= stated.l1
    assert 0 < l2_squared <= stated.l2_squared
    assert changed == keys


def test_signs_that_no_proof_covers_are_refused_for_keys_bounded_together() -> None:
    agreement = agreement_of(PROJECTION, unit="plane", neighbours=ss.L1(3, unit="plane"))
    rows = beam.Pipeline(runner="FnApiRunner") | beam.Create([batch([(1, "a", "x", 1.0)])])
    sketches = rows | BoundContributions(agreement, max_keys=3) | SketchPerKey(agreement)
    smooth = ss.signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=ss.L1(3, unit="plane"))
    with pytest.raises(ss.InvalidInputError, match="bounded over 3 keys together"):
        sketches | ReleasePerKey(smooth, public_keys=["a"])
    noise = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(3, unit="plane"))
    sketches | "Noise" >> ReleasePerKey(noise, public_keys=["a"])


def test_the_order_of_fields_is_said_where_rows_have_units() -> None:
    """Else customers could become keys: text fits either."""
    agreement = agreement_of(PROJECTION, unit="plane", neighbours=ss.L1(3, unit="plane"))
    with pytest.raises(ss.InvalidInputError, match=r"columns=\['key', 'index', 'plane', 'value'\]"):
        RowsToBatches(agreement)
    RowsToBatches(agreement_of(PROJECTION))
