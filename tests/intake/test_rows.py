"""What rows become under an agreement, and what becomes of those that lack something or are malformed."""

import datetime as dt
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.windows import Tumbling
from streamsketch.intake import Events, Intake, salvage
from streamsketch.intake.columns import missing, plain

HASHED = ss.SJLT(dim=HASHED_DIM, sketch_dim=16, sparsity=4, seed=3, resolution="1/2")
SMALL = ss.SJLT(dim=50, sketch_dim=16, sparsity=4, seed=3)
AGREEMENT = ss.Agreement(
    HASHED, key="shop", index={"item": "integer"}, value="sold", unit="buyer", missing="drop",
    neighbours=ss.L1(5, unit="buyer", max_keys=2),
)  # fmt: skip
HEAVY = (1 << 62) - 1


def batch(**columns: Any) -> pa.RecordBatch:
    """Return four good rows, with some columns replaced."""
    full = {"shop": ["N", "S", "N", "E"], "item": ["7", "8", "9", "7"], "sold": [3.0, 2.5, 1.0, 4.0]}
    full |= {"buyer": ["Ann", "Bob", "Ann", "Cy"], "at": ["2026-01-01T10:00:00Z"] * 4}
    return pa.record_batch(full | columns)


def shown(events: Events) -> tuple[Any, ...]:
    keys, units = (None if one is None else one.to_pylist() for one in (events.keys, events.units))
    window = None if events.window is None else events.window.tolist()
    return keys, units, events.indices.tolist(), events.steps.tolist(), window


# --- what one row may be, and what becomes of it ------------------------------------------------------------------

BLANK: dict[str, dict[str, Any]] = {
    "a null": {"item": ["7", None, "9", "7"]},
    "blank text": {"shop": ["N", "", "N", "E"]},
    "NaN": {"sold": [3.0, float("nan"), 1.0, 4.0]},
    "a blank unit": {"buyer": ["Ann", "", "Ann", "Cy"]},
    "a blank of a dictionary": {"shop": pa.array(["N", "", "N", "E"]).dictionary_encode()},
}
MALFORMED: dict[str, dict[str, Any]] = {
    "a value that does not fit": {"item": ["7", "x", "9", "7"]},
    "an infinity": {"sold": [3.0, float("inf"), 1.0, 4.0]},
    "a key that is not UTF-8": {"shop": pa.array([b"N", b"\xff", b"N", b"E"]).view(pa.string())},
    "a value that is not UTF-8": {"sold": pa.array([b"3", b"\xff", b"1", b"4"]).view(pa.string())},
    "a unit that is not UTF-8": {"buyer": pa.array([b"Ann", b"\xff", b"Ann", b"Cy"]).view(pa.string())},
    "a word of a dictionary that is not UTF-8": {
        "shop": pa.array([b"N", b"\xff", b"N", b"E"]).view(pa.string()).dictionary_encode()
    },
}
GOOD = batch().take(pa.array([0, 2, 3]))


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("lacking", ["refuse", "drop"])
@pytest.mark.parametrize("name", BLANK)
def test_a_row_in_which_something_is_missing(name: str, lacking: Any, bounded: bool) -> None:  # noqa: FBT001
    agreement, rows = AGREEMENT.replace(missing=lacking), batch(**BLANK[name])
    expected = shown(Intake(agreement, bounded=bounded).read(GOOD))
    bad: list[tuple[int, str]] = []
    collected = Intake(agreement, on_bad=lambda *one: bad.append(one), bounded=bounded).read(rows, first=11)
    dropped = Intake(agreement, on_bad="drop", bounded=bounded).read(rows)
    assert shown(collected) == shown(dropped) == expected
    assert (dropped.rows, dropped.blank, dropped.malformed, len(dropped)) == (4, 1, 0, 3)
    if lacking == "drop":
        assert bad == []
        assert shown(Intake(agreement, bounded=bounded).read(rows)) == expected
    else:
        assert [row for row, _ in bad] == [12]
        with pytest.raises(ss.InvalidInputError, match="is null or blank in row 2") as raised:
            Intake(agreement, bounded=bounded).read(rows)
        assert str(raised.value) == bad[0][1].replace("12", "2")


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_row_is_left_out_alone(name: str, bounded: bool) -> None:  # noqa: FBT001
    rows = batch(**MALFORMED[name])
    expected = shown(Intake(AGREEMENT, bounded=bounded).read(GOOD))
    bad: list[tuple[int, str]] = []
    collected = Intake(AGREEMENT, on_bad=lambda *one: bad.append(one), bounded=bounded).read(rows, first=11)
    dropped = Intake(AGREEMENT, on_bad="drop", bounded=bounded).read(rows)
    assert shown(collected) == shown(dropped) == expected
    assert (dropped.rows, dropped.blank, dropped.malformed) == (4, 0, 1)
    assert [row for row, _ in bad] == [12]
    assert "x" not in bad[0][1].split()


def test_what_breaks_the_agreement_is_refused_of_units_too_and_what_cannot_be_sketched_is_not() -> None:
    intake = Intake(AGREEMENT, bounded=True)
    with pytest.raises(
        ss.InvalidInputError,
        match="column item holds string, and in row 2 a value that is not of the agreed type integer",
    ):
        intake.read(batch(**MALFORMED["a value that does not fit"]))
    with pytest.raises(ss.InvalidInputError, match="column sold holds text, and in row 2 a text that is not a plain"):
        intake.read(batch(**MALFORMED["a value that is not UTF-8"]))
    for name in MALFORMED.keys() - {"a value that does not fit", "a value that is not UTF-8"}:
        assert intake.read(batch(**MALFORMED[name])).malformed == 1, name


@pytest.mark.parametrize("on_bad", ["refuse", "drop"])
@pytest.mark.parametrize("kind", ["text", "integer", "decimal(2)", "boolean", "date", "timestamp"])
def test_columns_without_any_value_are_read_as_those_with_some(kind: str, on_bad: Any) -> None:
    """Libraries give them a type of their own: whether somebody has a value must not decide whether rows are read."""
    agreement = ss.Agreement(HASHED, key="shop", index={"item": kind}, value="sold", unit="buyer", missing="drop")
    for name in ("shop", "item", "sold", "buyer"):
        for bounded in (False, True):
            intake = Intake(agreement, on_bad=on_bad, bounded=bounded, time="at", windows=Tumbling(10**6))
            found = intake.read(batch(**{name: pa.nulls(4)}))
            assert (len(found), found.blank) == (0, 4), name


def test_windows_of_rows_without_any_time_are_empty() -> None:
    windows = ss.Windows(time="at", every="day", first="2026-01-01", last="2026-01-01")
    fields: dict[str, Any] = {"index": "item", "unit": "buyer", "neighbours": ss.L1(5, unit="buyer")}
    agreement = ss.Agreement(HASHED, **fields, missing="drop", windows=windows)
    rows = pa.table(batch(at=pa.nulls(4)).to_pydict())
    assert rows.schema.field("at").type == pa.null()
    assert {name: one.mass for name, one in agreement.sketch(rows).items()} == {"2026-01-01": 0}


def test_features_may_be_views_beside_rows_that_are_left_out() -> None:
    features = ss.Features({"sold": ss.features.Number(0, 5), "item": ss.features.Category(["7", "8"])}, seed=7)
    agreement = ss.Agreement(features.projection, features=features, unit="buyer", missing="drop")
    rows = batch(sold=["3", "2.5", "1", "4"], buyer=["Ann", None, "Ann", "Cy"])
    views = pa.record_batch({name: rows.column(name).cast(pa.string_view()) for name in ("sold", "item", "buyer")})
    expected = Intake(agreement, bounded=True).read(rows)
    assert Intake(agreement, bounded=True).read(views).features.tolist() == expected.features.tolist()  # type: ignore[union-attr]


def test_heavy_values_are_cut_of_units_and_malformed_elsewhere() -> None:
    heavy = batch(sold=[3.0, 1e300, -1e300, 4.0])
    assert Intake(AGREEMENT, bounded=True).read(heavy).steps.tolist() == [6, HEAVY, -HEAVY, 8]
    assert Intake(AGREEMENT, on_bad="drop").read(heavy).steps.tolist() == [6, 8]
    with pytest.raises(ss.InvalidInputError, match=r"the column sold, rows 1 to 4: .* 2\*\*63 grid steps"):
        Intake(AGREEMENT).read(heavy)


@pytest.mark.parametrize("bounded", [False, True])
def test_an_index_out_of_range_is_malformed(bounded: bool) -> None:  # noqa: FBT001
    agreement = ss.Agreement(SMALL, index="item", unit="buyer", neighbours=ss.L1(5))
    rows = batch(item=[1, 50, -1, 49])
    bad: list[int] = []
    found = Intake(agreement, on_bad=lambda row, _: bad.append(row), bounded=bounded).read(rows)
    assert (found.indices.tolist(), bad) == ([1, 49], [2, 3])


@pytest.mark.parametrize("on_bad", ["refuse", "drop", lambda *_: None])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"item": [True] * 4}, "column item holds bool, but the agreement has integer"),
        ({"sold": [True] * 4}, "column sold holds bool, but the agreement needs numbers"),
        ({"buyer": [1.5] * 4}, "column buyer holds double, but the agreement has text"),
        ({"at": [1, 2, 3, 4]}, "the column at must hold times"),
    ],
)
def test_a_column_of_a_wrong_type_is_no_rows_fault(
    columns: dict[str, Any],
    says: str,
    bounded: bool,  # noqa: FBT001
    on_bad: Any,
) -> None:
    intake = Intake(AGREEMENT, on_bad=on_bad, bounded=bounded, time="at", windows=Tumbling(10**6))
    with pytest.raises(ss.InvalidInputError, match=says):
        intake.read(batch(**columns))


@pytest.mark.parametrize("on_bad", ["refuse", "drop"])
def test_columns_are_there_once(on_bad: Any) -> None:
    twice = pa.RecordBatch.from_arrays([pa.array(["a"])] * 2, names=["item", "item"])
    for rows in (twice, pa.record_batch({"other": ["a"]})):
        with pytest.raises(ss.InvalidInputError, match="must have the column item exactly once"):
            Intake(ss.Agreement(HASHED, index="item"), on_bad=on_bad).read(rows)


fields = st.sampled_from(["7", "x", "", None, "12"])


@given(st.lists(st.tuples(st.sampled_from(["Ann", "", None]), fields, fields), max_size=12), st.booleans())
def test_each_row_is_judged_by_itself(rows: list[Any], bounded: bool) -> None:  # noqa: FBT001
    """Rows read together are those that can be read one by one."""
    agreement = ss.Agreement(
        HASHED, key="key", index={"item": "integer"}, unit="buyer", neighbours=ss.L1(9), missing="drop"
    )
    intake = Intake(agreement, on_bad="drop", bounded=bounded)

    def read(rows: list[Any]) -> tuple[Any, ...]:
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        types = {
            name: pa.array(column, pa.string()) for name, column in zip(["buyer", "item", "key"], columns, strict=True)
        }
        return shown(intake.read(pa.record_batch(types)))

    alone = [row for row in rows if read([row])[2]]
    assert read(rows) == read(alone)


# --- times and windows --------------------------------------------------------------------------------------------


def test_rows_are_in_the_windows_of_their_times() -> None:
    hours = Tumbling(3_600_000_000, offset=60_000_000)
    at = ["2026-01-01T10:00:59Z", "2026-01-01T10:01:00Z", "yesterday", "2026-01-01T12:00:00+01:00"]
    with pytest.raises(ss.InvalidInputError, match="the column at holds text, and in row 3 a text that is not a time"):
        Intake(AGREEMENT, time="at", windows=hours).read(batch(at=at))
    for bounded in (False, True):
        found = Intake(AGREEMENT, on_bad="drop", time="at", windows=hours, bounded=bounded).read(batch(at=at))
        ten = int(dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC).timestamp()) // 3600
        assert found.window is not None
        assert found.window.tolist() == [ten - 1, ten, ten]
        assert found.malformed == 1
        sold = [float("inf"), 2.5, 1.0, 4.0]
        found = Intake(AGREEMENT, on_bad="drop", time="at", windows=hours, bounded=bounded).read(
            batch(at=at, sold=sold)
        )
        assert found.window.tolist() == [ten, ten]  # type: ignore[union-attr]
    timed = Intake(AGREEMENT, time="at", time_format="%d.%m.%Y", windows=Tumbling(86_400_000_000))
    assert timed.read(batch(at=["02.01.1970"] * 4)).window.tolist() == [1] * 4  # type: ignore[union-attr]


def test_what_is_asked_for_must_fit() -> None:
    with pytest.raises(ss.InvalidInputError, match="names no column of units"):
        Intake(AGREEMENT.replace(unit=None), bounded=True)
    with pytest.raises(ss.InvalidInputError, match="need a column of times"):
        Intake(AGREEMENT, windows=Tumbling(1))
    with pytest.raises(ss.InvalidInputError, match="on_bad must be"):
        Intake(AGREEMENT, on_bad="skip")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an Agreement"):
        Intake(HASHED)  # type: ignore[arg-type]


@pytest.mark.parametrize("bounded", [False, True])
def test_rows_with_times_of_no_common_type_are_judged_each_by_itself(bounded: bool) -> None:  # noqa: FBT001
    agreement = ss.Agreement(HASHED, index="item", unit={"at": "timestamp"}, neighbours=ss.L1(9))
    intake = Intake(agreement, on_bad="drop", bounded=bounded)
    at = ["2026-01-01T10:00:00.123456789", "1500-01-01T00:00:00", "1501-01-01T00:00:00", "2026-01-01T10:00:00"]
    assert len(intake.read(batch(at=at))) == 2
    rows = pa.Table.from_batches([batch(at=at)])
    assert [len(intake.read(rows.slice(place, 1).to_batches()[0])) for place in range(4)] == [1, 0, 0, 1]
    assert len(Intake(agreement, bounded=bounded).read(batch(at=[*at[1:], at[1]]))) == 4, "these have one"


# --- batches that were cast ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_bad", ["refuse", "drop"])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_batch_is_cast_once_and_read_as_the_rows_are(on_bad: Any, bounded: bool) -> None:  # noqa: FBT001
    intake = Intake(AGREEMENT, on_bad=on_bad, bounded=bounded, time="at")
    rows = batch(**BLANK["NaN"])
    cast = intake.cast(rows)
    assert cast.schema.names == ["shop", "item", "buyer", "sold", "at"]
    assert cast.num_rows == 3
    assert intake.cast(cast) is cast
    assert shown(intake.read(cast)) == shown(intake.read(rows))
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match="were already cast by the agreement"):
        Intake(AGREEMENT.replace(title="another")).read(cast)


def test_bad_rows_are_left_out_of_a_cast_batch_and_collected() -> None:
    bad: list[int] = []
    found = Intake(AGREEMENT, on_bad=lambda row, _: bad.append(row)).cast(batch(item=["x", "8", "y", "7"]), first=5)
    assert (found.column("item").to_pylist(), bad) == ([8, 7], [5, 7])
    none = Intake(AGREEMENT, on_bad="drop").cast(batch(item=["x"] * 4))
    assert (none.num_rows, none.schema.field("item").type) == (0, pa.int64())


def test_numbers_in_text_are_cast_to_one_type_whatever_a_batch_holds() -> None:
    whole, broken = batch(sold=["3", "2", "1", "4"]), batch(sold=["3", "2.5", "1", "4"])
    intake = Intake(AGREEMENT)
    assert intake.cast(whole).schema == intake.cast(broken).schema
    assert shown(intake.read(whole)) == shown(intake.read(batch(sold=[3, 2, 1, 4])))
    assert shown(intake.read(intake.cast(whole))) == shown(intake.read(whole))


def test_tables_of_libraries_are_read_batch_by_batch_and_rows_counted_over_them() -> None:
    frame = pd.DataFrame(batch().to_pydict())
    (found,) = Intake(AGREEMENT).batches(frame)
    assert shown(found) == shown(Intake(AGREEMENT).read(batch()))
    table = pa.Table.from_batches([batch(), batch(item=["1", "x", "3", "4"])])
    with pytest.raises(ss.InvalidInputError, match="in row 6 a value"):
        list(Intake(AGREEMENT).batches(table))
    with pytest.warns(ss.errors.TruncationWarning, match="1/2"):
        list(Intake(AGREEMENT).batches(pa.Table.from_batches([batch(sold=[0.25] * 4)])))


# --- columns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.string_view(), pa.binary_view(), pa.binary(3), pa.dictionary(pa.int8(), pa.string_view()), pa.string()]
)
def test_plain_columns_hold_the_same(kind: pa.DataType) -> None:
    is_dictionary = pa.types.is_dictionary(kind)
    base = kind.value_type if is_dictionary else kind
    cells = ["abc", None, "xyz"] if "string" in str(base) else [b"abc", None, b"xyz"]
    array = pa.array(cells, base)
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), array) if is_dictionary else array
    found = plain(array)
    assert found.to_pylist() == cells
    assert "view" not in str(found.type)
    assert missing(found).tolist() == [False, True, False]


@given(st.lists(st.sampled_from([0, 1, 2]), max_size=30))
def test_salvage_reads_all_that_can_be_read_alone(rows: list[int]) -> None:
    bad: list[int] = []

    def read(start: int, stop: int) -> list[int]:
        if 0 in rows[start:stop]:
            raise ValueError
        return rows[start:stop]

    found = list(salvage(read, len(rows), lambda place, _: bad.append(place), ValueError))
    assert [row for part in found for row in part] == [row for row in rows if row]
    assert bad == [place for place, row in enumerate(rows) if not row]


def test_salvage_passes_on_what_is_no_rows_fault() -> None:
    def read(*_: int) -> None:
        raise ValueError("the column")

    with pytest.raises(ValueError, match="the column"):
        list(salvage(read, 9, lambda *_: None, ValueError))
    with pytest.raises(ValueError, match="the column"):
        list(salvage(read, 9, lambda *_: None, KeyError))
