"""One agreement and the same rows: one release on every engine, or one refusal."""

import dataclasses
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.agreement import Selected, Terms, TextRule
from streamsketch.beam import ReleasePerKey
from streamsketch.beam.release.agreed import Release
from streamsketch.continual import Tree
from streamsketch.intake.by_window import intake_of
from streamsketch.parties import Key, Round
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.spark import release as spark_release
from streamsketch.spark.windows import IntakeOfWindows
from streamsketch.streams import Stream
from streamsketch.streams.job import Job
from tests.crossed import crossed
from tests.jobs.running import command

SHOPS = ["north", "south"]
SALES = pa.table(
    {
        "customer": [f"c{n}" for n in range(200)],
        "shop": [SHOPS[n % 2] for n in range(200)],
        "item": ["tea", "jam", "oil", "tea"] * 50,
        "paid": [1 + n % 3 for n in range(200)],
        "age": [20.0 + n for n in range(200)],
        "at": [f"2026-11-22T13:0{n % 3}:{10 + n % 50}Z" for n in range(200)],
    }
)
MINUTES = ss.Windows(time="at", every="1 min", first="2026-11-22T13:00Z", last="2026-11-22T13:02Z")
NAMES = ["2026-11-22T1300Z", "2026-11-22T1301Z", "2026-11-22T1302Z"]
FINE = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/8192")
SHARE = Selected(epsilon=1, delta="0.000001")
TERMS: dict[str, dict[str, Any]] = {
    "L1": {"neighbours": ss.L1(100, unit="customer", max_keys=2)},
    "L2": {
        "neighbours": ss.L2(100, unit="customer", max_keys=2),
        "projection": ss.SJLT(dim=1 << 16, sketch_dim=64, sparsity=4, seed=7),
        "index": {"paid": "integer"},
        "delta": 1e-6,
    },
    "SketchL2": {"neighbours": ss.SketchL2(100, unit="customer", max_keys=2), "projection": FINE, "delta": 1e-6},
    "OneCoordinate": {"neighbours": ss.OneCoordinate(5, unit="customer"), "unit": None, "value": "paid"},
    "values": {"neighbours": ss.L1(100, unit="customer", max_keys=2), "value": "paid"},
    "counting": {"neighbours": ss.L1(100, unit="customer", max_keys=2), "counting": ss.privacy.Counting(10, 2)},
    "features": {
        "features": ss.Features({"age": ss.features.Number(0, 110)}, seed=7),
        "neighbours": ss.SketchL2(8, unit="customer", max_keys=2),
        "index": None,
        "projection": None,
        "delta": 1e-6,
        "clip": "scale",
    },
    "asserted": {"neighbours": ss.L1(100, unit="customer", max_keys=2), "unit": None},
}
ONE = ss.L1(100, unit="customer", max_keys=1)
exactly = pytest.mark.usefixtures("no_noise")
KEYS: dict[str, Any] = {"listed": [*SHOPS, "west"], "public": "public", "selected": SHARE}


def agreed_on(terms: str, published: str, **more: Any) -> ss.Agreement:
    fields: dict[str, Any] = {"projection": ss.SJLT(sketch_dim=64, sparsity=4, seed=7), "index": "item", "key": "shop"}
    fields |= {"unit": "customer", "epsilon": 2, "delta": 0, "mechanism": "auto"}
    fields |= TERMS[terms] | {"keys": KEYS[published]} | more
    if fields["keys"] is SHARE and not more.get("delta"):
        fields["delta"] = "0.000002"
    noise = {name: fields.pop(name) for name in ("epsilon", "delta", "mechanism")}
    return ss.Agreement(**fields, terms=Terms(**noise))


Released = dict[str, tuple[list[int], ss.Guarantee]]


def seen(table: Any) -> Released:
    """Return the cells, in grid steps, and the guarantee of each key."""
    return {
        key: (np.rint(one.values / float(one.projection.grid)).astype(int).tolist(), one.guarantee)
        for key, one in dict(table).items()
    }


def one_process(agreement: ss.Agreement, rows: pa.Table, _: Path) -> Any:
    return agreement.release(rows)


def in_beam(agreement: ss.Agreement, rows: pa.Table, folder: Path) -> Any:
    by_window: dict[str, dict[Any, Any]] = {}

    def note(keyed: tuple[Any, Any], window: Any = beam.DoFn.WindowParam) -> None:
        name = (
            ""
            if not agreement.windows_are_releases
            else agreement.windows.of_times.name(  # type: ignore[union-attr]
                int(agreement.windows.of_times.number(window.start.micros))  # type: ignore[union-attr]
            )
        )
        path = folder / "beam" / f"{name} {keyed[0]}"
        path.parent.mkdir(exist_ok=True)
        keyed[1].save(path.with_suffix(".sketch"))

    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        parts = [rows.slice(at, 50) for at in range(0, len(rows), 50)]
        pipeline | beam.Create(parts).with_output_types(pa.Table) | Release(agreement) | beam.Map(note)
    for path in sorted((folder / "beam").glob("*.sketch")):
        name, _, key = path.name.removesuffix(".sketch").partition(" ")
        by_window.setdefault(name, {})[key] = ss.load(path)
    return by_window if agreement.windows_are_releases else by_window[""]


def in_spark(agreement: ss.Agreement, rows: pa.Table, _: Path) -> Any:
    from tests.spark.frames import LocalFrame  # noqa: PLC0415 - with the engine alone

    return spark_release(LocalFrame.of(rows, 3), agreement)


def in_stream(agreement: ss.Agreement, rows: pa.Table, folder: Path) -> Any:
    """Heartbeats around all rows leave no condition on their times."""
    (folder / "out").mkdir()
    job = Job(folder=str(folder / "out"), delay="10 min", clock="heartbeats")
    stream = Stream(agreement, job, folder / "s.raw-stream")
    for at, part in enumerate((rows, beat_at("2026-11-22T13:30:00Z", rows))):
        stream.add(part.combine_chunks().to_batches()[0], 1 + 100 * at)
    stream.save({})
    return {path.stem: ss.load(path) for path in sorted((folder / "out").iterdir())[:3]}


def beat_at(time: str, rows: pa.Table) -> pa.Table:
    none = {name: pa.nulls(1, rows.schema.field(name).type) for name in rows.column_names}
    return pa.table(none | {"at": [time]})


def in_command(agreement: ss.Agreement, rows: pa.Table, folder: Path) -> Any:
    agreement.save(folder / "agreement.json")
    pq.write_table(rows, folder / "rows.parquet")
    kind = "parquet" if agreement.terms is not None and agreement.terms.is_noise else "signs.parquet"
    out = folder / f"released.{kind}"
    command("release", folder / "rows.parquet", "--agreement", folder / "agreement.json", "-o", out)
    return agreement.load(out)


BATCH = {"Beam": in_beam, "Spark": in_spark}
WHOLE = BATCH | {"command": in_command}


@exactly
@crossed(engine=WHOLE, terms=TERMS, keys=KEYS)
def test_the_same_rows_have_one_release_on_every_engine(engine: str, terms: str, keys: str, tmp_path: Path) -> None:
    if keys == "selected" and terms in ("L2", "OneCoordinate", "asserted"):
        with pytest.raises(ss.InvalidInputError, match="List the keys"):
            agreed_on(terms, keys)
        return
    agreement = agreed_on(terms, keys)
    expected = seen(agreement.release(SALES))
    assert seen(WHOLE[engine](agreement, SALES, tmp_path)) == expected
    assert len(expected) == (3 if keys == "listed" else 2)


@exactly
@pytest.mark.parametrize("terms", ["L1", "SketchL2", "counting", "features", "asserted"])
@pytest.mark.parametrize("engine", [in_beam, in_spark, in_stream])
def test_windows_that_are_releases_are_the_same_in_a_stream_and_in_a_batch(
    engine: Any, terms: str, tmp_path: Path
) -> None:
    agreement = agreed_on(terms, "listed", windows=MINUTES, missing="drop")
    expected = {name: seen(table) for name, table in agreement.release(SALES).items()}
    assert list(expected) == NAMES
    assert {name: seen(table) for name, table in engine(agreement, SALES, tmp_path).items()} == expected
    guarantees = {guarantee for table in expected.values() for _, guarantee in table.values()}
    assert len(guarantees) == 1
    assert guarantees.pop().neighbours.unit == "customer in one window of 60 s"


def as_views(rows: pa.Table) -> pa.Table:
    """Return rows whose text is views, as polars has it."""
    fields = [field.with_type(pa.string_view()) if pa.types.is_string(field.type) else field for field in rows.schema]
    columns = [rows.column(field.name).cast(field.type) for field in fields]
    return pa.table(columns, schema=pa.schema(fields))


@exactly
@crossed(engine=[one_process, in_beam, in_stream], terms=["L1", "features"], are=["releases", "keys"])
def test_text_of_views_is_read_on_every_engine(engine: Any, terms: str, are: Any, tmp_path: Path) -> None:
    """Rows without a time, an item or a customer among them, so that rows are left out as well."""
    if are == "keys" and engine is in_stream:
        pytest.skip("a stream releases windows")
    lacking = [
        SALES.slice(5, 1).set_column(SALES.column_names.index(name), name, pa.nulls(1, pa.string()))
        for name in ("at", "customer")
    ]
    rows = pa.concat_tables([*lacking, SALES])
    neighbours = dataclasses.replace(TERMS[terms]["neighbours"], max_keys=9)
    agreement = agreed_on(
        terms, "listed", windows=dataclasses.replace(MINUTES, are=are), missing="drop", neighbours=neighbours
    )

    def windows_of(released: Any) -> Any:
        return seen(released) if are == "keys" else {name: seen(table) for name, table in released.items()}

    expected = windows_of(agreement.release(rows))
    assert windows_of(engine(agreement, as_views(rows), tmp_path)) == expected


@exactly
@pytest.mark.parametrize("lacking", ["drop", "keep"])
@pytest.mark.parametrize("engine", [in_beam, in_spark, in_stream])
def test_a_row_that_is_blank_in_the_agreed_spelling_is_one_thing_on_every_engine(
    engine: Any, lacking: Any, tmp_path: Path
) -> None:
    """It lacks a value, and is dropped; if blank text is kept, it is an item, but no customer, and of no shop."""
    agreement = agreed_on("L1", "listed", windows=MINUTES, missing=lacking, text=TextRule())
    blank = [
        SALES.slice(5, 1).set_column(SALES.column_names.index(name), name, pa.array([" \u00a0"]))
        for name in ("customer", "shop", "item")
    ]
    rows = pa.concat_tables([SALES.slice(0, 100), *blank, SALES.slice(100)])
    without, expected = ({name: seen(table) for name, table in agreement.release(one).items()} for one in (SALES, rows))
    assert (expected == without) == (lacking == "drop")
    assert {name: seen(table) for name, table in engine(agreement, rows, tmp_path).items()} == expected


@exactly
def test_rows_of_a_schedule_are_the_same_in_a_stream_and_in_a_batch(tmp_path: Path) -> None:
    for terms in ("L1", "SketchL2", "asserted"):
        (tmp_path / terms).mkdir()
        agreement = agreed_on(terms, "listed", windows=MINUTES, missing="drop", schedule=Tree(horizon=4, max_windows=4))
        expected = {name: seen(table) for name, table in agreement.release(SALES).items()}
        found = {name: seen(table) for name, table in in_stream(agreement, SALES, tmp_path / terms).items()}
        assert found == expected


@exactly
@pytest.mark.parametrize("keys", ["public", "selected"])
@pytest.mark.parametrize("terms", ["L1", "SketchL2", "counting", "features"])
def test_windows_of_keys_that_nobody_lists_are_the_same_on_spark(terms: str, keys: str, tmp_path: Path) -> None:
    more: dict[str, Any] = {"keys": Selected(epsilon=15, delta="0.000001")} if keys == "selected" else {}
    agreement = agreed_on(terms, keys, windows=MINUTES, missing="drop", **({"epsilon": 20, "delta": "0.000002"} | more))
    expected = {name: seen(table) for name, table in agreement.release(SALES).items()}
    assert list(expected) == NAMES
    assert {name: seen(table) for name, table in in_spark(agreement, SALES, tmp_path).items()} == expected


@exactly
@pytest.mark.parametrize("keys", ["listed", "public"])
def test_windows_without_rows_are_released_on_spark(keys: str, tmp_path: Path) -> None:
    agreement = agreed_on("L1", keys, windows=MINUTES)
    first = SALES.filter(pc.equal(pc.utf8_slice_codeunits(SALES["at"], 0, 16), "2026-11-22T13:00"))
    for rows in (first, SALES.slice(0, 0)):
        expected = agreement.release(rows)
        released = in_spark(agreement, rows, tmp_path)
        assert list(released) == NAMES
        assert {name: table and seen(table) for name, table in released.items()} == {
            name: table and seen(table) for name, table in expected.items()
        }


@exactly
def test_a_unit_is_clipped_in_each_window_by_itself_on_spark(tmp_path: Path) -> None:
    """Everybody is in every window with more than the bound, so that a bound over all windows would leave a third."""
    at = ["2026-11-22T13:00Z", "2026-11-22T13:01Z", "2026-11-22T13:02:59Z", "2026-11-22T13:03Z", None]
    rows = pa.table({"customer": ["a", "b"] * 25, "shop": ["north"] * 50, "item": ["tea"] * 50, "at": at * 10})
    agreement = agreed_on("L1", "public", windows=MINUTES, missing="drop", neighbours=ss.L1(3, unit="customer"))
    released = in_spark(agreement, rows, tmp_path)
    expected = agreement.release(rows)
    assert {name: seen(table) for name, table in released.items()} == {
        name: seen(table) for name, table in expected.items()
    }
    assert [round(float(abs(table["north"].values).sum())) for table in released.values()] == [4 * 6] * 3


@exactly
@crossed(engine=[in_beam, in_spark], are=["keys", "releases"], missing=["refuse", "drop", "keep"])
def test_a_row_with_no_time_ends_no_job_of_units(engine: Any, are: str, missing: str, tmp_path: Path) -> None:
    """Whether it lacks or is none: a row of one person must not end everybody's job."""
    windows = dataclasses.replace(MINUTES, are=are)
    agreement = agreed_on("L1", "listed", windows=windows, neighbours=ONE, missing=missing)
    times = ["yesterday", "2026-13-01", "", None, "2026-11-22T13:00:99Z", "\0", "2026-11-22T14:00Z"]
    bad = pa.table({name: [SALES[name][0].as_py()] * len(times) for name in SALES.column_names})
    bad = bad.set_column(bad.column_names.index("at"), "at", pa.array(times))
    bad = bad.set_column(0, "customer", pa.array([f"d{n}" for n in range(len(times))]))
    rows = pa.concat_tables([bad.slice(0, 3), SALES, bad.slice(3)])
    released, expected = engine(agreement, rows, tmp_path), agreement.release(SALES)
    if are == "keys":
        released, expected = {"": released}, {"": expected}
    assert {name: seen(table) for name, table in released.items()} == {
        name: seen(table) for name, table in expected.items()
    }


@pytest.mark.parametrize("value", [None, "paid"])
@pytest.mark.parametrize("rows", [None, "latest by at"])
@pytest.mark.parametrize("read", [intake_of, IntakeOfWindows])
def test_no_row_of_another_window_passes_whatever_its_time_looks_like(read: Any, rows: Any, value: Any) -> None:
    """Nanoseconds are read, whether a column is cast to be ordered by or only has windows; more digits are not."""
    are = "keys" if read is intake_of else "releases"
    more: dict[str, Any] = {"value": value}
    if rows is not None:
        more = TERMS["features"] | {"neighbours": ss.SketchL2.of_averages("customer", 2), "clip": "average"}
        more |= {"rows_of_unit": rows}
    elif value is None:
        more = {}
    agreement = agreed_on("L1", "public", windows=dataclasses.replace(MINUTES, are=are), missing="drop", **more)
    times = ["2026-11-22T14:00:00.123456789Z", "2026-11-22T13:00:00.123456789Z", "2026-11-22T13:01Z", "2026-11-22T14Z"]
    times.append("2026-11-22T13:00:00.1234567890Z")
    batch = SALES.slice(0, 5).combine_chunks().to_batches()[0].set_column(5, "at", pa.array(times))
    events = read(agreement, on_bad="drop", bounded=True).read(batch)
    assert events.window is not None
    first, second, *_ = agreement.windows.numbers  # type: ignore[union-attr,misc]
    assert events.window.tolist() == [first, second]
    assert len(events) == len(events.units) == len(events.keys) == events.window.size
    assert (events.rows, events.malformed) == (3, 1)
    BoundingSummary().note(events, agreement.projection)


@pytest.mark.parametrize("missing", ["refuse", "drop"])
@pytest.mark.parametrize("read", [intake_of, IntakeOfWindows])
def test_rows_in_windows_keep_their_numbers(read: Any, missing: str) -> None:
    are = "keys" if read is intake_of else "releases"
    agreement = agreed_on("L1", "public", windows=dataclasses.replace(MINUTES, are=are), missing=missing)
    batch = SALES.slice(0, 6).combine_chunks().to_batches()[0]
    times = ["2026-11-22T14:00Z", "2026-11-22T13:00Z", "no time", "2026-11-22T13:01Z", "2026-11-22T13:01Z", None]
    items = ["tea", "tea", "tea", None, "jam", "tea"]
    batch = batch.set_column(5, "at", pa.array(times)).set_column(2, "item", pa.array(items))
    told = list[int]()
    events = read(agreement, on_bad=lambda row, _: told.append(row), bounded=True).read(batch, 11)
    assert sorted(told) == ([13, 14, 16] if missing == "refuse" else [13])
    assert (events.rows, events.blank, events.malformed, len(events)) == (5, 2, 1, 2)
    with pytest.raises(ss.InvalidInputError, match=r"row 14|the column at holds text"):
        read(agreement).read(batch, 11)


@exactly
@pytest.mark.parametrize("engine", BATCH)
@pytest.mark.parametrize("keys", KEYS)
def test_windows_that_are_keys_are_the_same(keys: str, engine: str, tmp_path: Path) -> None:
    windows = dataclasses.replace(MINUTES, are="keys")
    agreement = agreed_on("L1", keys, windows=windows, neighbours=ONE)
    expected = seen(agreement.release(SALES))
    assert len(expected) == (9 if keys == "listed" else 6)
    assert seen(BATCH[engine](agreement, SALES, tmp_path)) == expected


@exactly
@pytest.mark.parametrize("engine", BATCH)
@pytest.mark.parametrize("keys", KEYS)
def test_names_of_windows_are_never_spelt_otherwise(keys: str, engine: str, tmp_path: Path) -> None:
    """The key "North " is "north", and its window stays 2026-11-22T13:00Z; rows of other windows are left out."""
    windows = dataclasses.replace(MINUTES, are="keys")
    shouted = [f"{name.title()} " for name in SALES["shop"].to_pylist()]
    rows = SALES.set_column(SALES.column_names.index("shop"), "shop", pa.array(shouted))
    late = rows.set_column(rows.column_names.index("at"), "at", pa.array(["2026-11-22T14:00Z"] * len(rows)))
    rows = pa.concat_tables([rows, late.set_column(0, "customer", pa.array([f"d{n}" for n in range(len(rows))]))])
    for rule in ("NFC, trim", "NFC, trim, fold"):
        listed = [*map(str.title, SHOPS)] if keys == "listed" else KEYS[keys]
        agreement = agreed_on("L1", keys, windows=windows, text=rule, keys=listed, neighbours=ONE)
        expected = seen(agreement.release(rows))
        assert len(expected) == 6
        folder = tmp_path / rule
        folder.mkdir()
        assert seen(BATCH[engine](agreement, rows, folder)) == expected


@exactly
@pytest.mark.parametrize("engine", BATCH)
def test_windows_that_are_keys_may_stand_behind_numbers(engine: str, tmp_path: Path) -> None:
    windows = dataclasses.replace(MINUTES, are="keys")
    agreement = agreed_on("L1", "listed", windows=windows, key={"paid": "integer"}, keys=[1, 2, 9])
    expected = seen(agreement.release(SALES))
    assert "9 2026-11-22T13:02Z" in expected
    assert seen(BATCH[engine](agreement, SALES, tmp_path)) == expected


@crossed(engine=[in_beam, in_spark, in_command], mechanism=["DP-Sign-logistic", "DP-SignRP-RR-smooth"], keys=[*KEYS])
def test_signs_are_published_with_one_guarantee(engine: Any, mechanism: str, keys: str, tmp_path: Path) -> None:
    projection = ss.projections.Rademacher(dim=1 << 60, sketch_dim=64, seed=7)
    more: dict[str, Any] = {"delta": SHARE.delta} if keys == "selected" else {}
    agreement = agreed_on("L1", keys, projection=projection, mechanism=mechanism, epsilon=9, **more)
    expected = agreement.release(SALES)
    found = engine(agreement, SALES, tmp_path)
    assert {one.guarantee for one in dict(found).values()} == {expected.guarantee}
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("engine", ["one process", "Beam"])
def test_signs_with_a_condition_on_each_vector_are_of_keys_with_data(engine: str) -> None:
    """A key without data is no vector that meets it; Theory 6."""
    projection = ss.projections.GaussianProjection(dim=64, sketch_dim=256, seed=1, independence=64)
    mechanism: Any = ss.signs.DPSignRPRR(epsilon=8, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=30)

    def published(**keys: Any) -> Any:
        if engine == "Beam":
            return ReleasePerKey(mechanism, **keys, projection=projection)
        table = projection.table()
        table.update(["north"], [3], [40])
        return mechanism.release_table(table, **keys)

    with pytest.raises(ss.InvalidInputError, match="no guarantee for"):
        published(public_keys=["north", "west"])
    published(keys_are_public=True)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "Beam, no key": (in_beam, {"key": None, "keys": None, "neighbours": ss.L1(5)}, r"agreement\.release\(rows\)"),
    "Spark, no key": (in_spark, {"key": None, "keys": None, "neighbours": ss.L1(5)}, r"agreement\.release\(rows\)"),
    "Spark, a schedule": (
        in_spark,
        {"windows": MINUTES, "schedule": Tree(horizon=4)},
        r"a schedule: use agreement\.release\(rows\) or `streamsketch stream file`",
    ),
    "Spark, periods": (
        in_spark,
        {"windows": dataclasses.replace(MINUTES, period="1 hour")},
        "units in some windows of each period: use .*`streamsketch stream beam`",
    ),
    "Spark, no end": (in_spark, {"windows": dataclasses.replace(MINUTES, last=None)}, "the first and the last"),
    "Beam, public keys in windows": (in_beam, {"windows": MINUTES, "keys": "public"}, r"agreement\.release\(rows\)"),
    "Beam, units of a schedule": (
        in_beam,
        {"windows": MINUTES, "schedule": Tree(horizon=4)},
        r"agreement\.release\(rows\) and `streamsketch stream file`",
    ),
    "Beam, no end": (in_beam, {"windows": dataclasses.replace(MINUTES, last=None)}, "the first and the last"),
    "stream, keys": (in_stream, {"windows": dataclasses.replace(MINUTES, are="keys")}, r"agreement\.release\(rows\)"),
    "stream, public keys": (in_stream, {"windows": MINUTES, "keys": "public"}, r"agreement\.release\(rows\)"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_what_an_engine_does_not_do_is_refused_with_what_does(refused: str, tmp_path: Path) -> None:
    engine, fields, said = REFUSED[refused]
    agreement = agreed_on("L1", "listed", **fields)
    with pytest.raises(ss.InvalidInputError, match=said):
        engine(agreement, SALES, tmp_path)


@exactly
@pytest.mark.parametrize("rows", [0, 1])
def test_without_a_key_to_choose_the_answer_does_not_depend_on_there_being_rows(rows: int, tmp_path: Path) -> None:
    agreement = agreed_on("L1", "selected")
    with pytest.raises(ss.InvalidInputError, match="no key has enough units to be chosen"):
        agreement.release(SALES.slice(0, rows))
    with pytest.raises(ss.InvalidInputError, match="no key has enough units to be chosen"):
        in_spark(agreement, SALES.slice(0, rows), tmp_path)


@pytest.mark.filterwarnings("ignore::streamsketch.errors.WeakGuaranteeWarning")
@pytest.mark.parametrize("terms", ["L1", "SketchL2", "counting", "features"])
def test_a_round_spends_what_its_agreement_says_and_its_sum_follows_it(terms: str, tmp_path: Path) -> None:
    """Of one party with rows and one without; ε is so large that noise is some steps in all but one draw of 10^12."""
    neighbours = dataclasses.replace(TERMS[terms]["neighbours"], max_keys=1)
    one: dict[str, Any] = {"epsilon": 1_000_000, "key": None, "keys": None}
    agreement = agreed_on(terms, "listed", **one, neighbours=neighbours)
    parties = [Key.generate(name) for name in ("North", "South")]
    whole = Round.of(agreement, [key.public for key in parties])
    for key in parties:
        whole = whole.signed(key)
    exact = [agreement.sketch(rows) for rows in (SALES, SALES.slice(0, 0))]
    total = whole.combine([whole.contribute(one, key) for one, key in zip(exact, parties, strict=True)])
    alone = agreement.release(exact[0])
    sd = max(one.noise.k2 for one in (total, alone)) ** 0.5
    assert np.abs(total.values - alone.values).max() <= (60 if total.noise.k4 else 8) * sd
    assert (total.guarantee.budget, total.guarantee.neighbours) == (alone.guarantee.budget, alone.guarantee.neighbours)
    assert total.guarantee.mechanism.layout.counting == alone.guarantee.mechanism.layout.counting
    total.save(tmp_path / "total.sketch")
    assert agreement.load(tmp_path / "total.sketch") == total
    assert Round.from_json(whole.to_json()) == whole
    other = agreed_on(terms, "listed", **one, neighbours=neighbours, title="Other")
    with pytest.raises(
        ss.errors.IncompatibleAgreementsError, match=f"{agreement.fingerprint}, this sketch the .*{other.fingerprint}: "
    ):
        Round.of(agreement, whole.parties).contribute(other.sketch(SALES), parties[0], assert_bounds=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"windows": MINUTES},
        {"keys": "public"},
        {"mechanism": "DP-Sign-logistic"},
    ],
    ids=str,
)
def test_what_no_round_publishes_is_refused_with_what_does(fields: dict[str, Any]) -> None:
    parties = [Key.generate(name).public for name in ("North", "South")]
    with pytest.raises(ss.InvalidInputError, match=r"agreement\.release\(rows\), by each party"):
        Round.of(agreed_on("L1", "listed", **fields), parties)
