"""Agreements: what they fix, their JSON and fingerprint, and what a mismatch says."""

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.agreement import Column, TextRule, fine_enough
from streamsketch.agreement.grids import MOST_COARSE
from streamsketch.agreement.same import check_agreed
from streamsketch.privacy import Counting, Neighbours
from streamsketch.privacy.neighbours import MOST_KEYS

HASHED = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
AGREEMENT = ss.Agreement(
    HASHED,
    index={"item": "text", "week": "integer"},
    key="country",
    value="quantity",
    unit={"customer": "integer"},
    neighbours=ss.L1(500, unit="customer"),
    title="Sales by country",
)
OTHERS: dict[str, Any] = {
    "projection": HASHED.replace(seed=8),
    "index": {"week": "integer", "item": "text"},
    "key": "land",
    "value": None,
    "unit": "customer",
    "neighbours": ss.L1(500, unit="customer", max_keys=2),
    "missing": "drop",
    "title": "Sales",
    "clip": "cut",
    "counting": Counting(9, slack=2),
    "text": TextRule(case="fold"),
}
PEOPLE = ss.SketchL2(500, unit="customer")

names = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=12)
types = st.sampled_from(["integer", "text", "bytes", "date", "timestamp", "boolean", "decimal(0)", "decimal(18)"])
keys = st.tuples(names, st.sampled_from(["integer", "text", "bytes", "date"]))
bounds = (
    st.builds(ss.L1, st.fractions(min_value=1, max_value=10**9, max_denominator=10**6), names, st.integers(1, 9))
    | st.builds(ss.OneCoordinate, st.integers(1, 99), names)
    | st.builds(
        ss.SketchL2, st.fractions(21, 10**6, max_denominator=10**6), names, st.just(MOST_KEYS) | st.integers(1, 9)
    )
)


def countings(neighbours: Neighbours | None) -> st.SearchStrategy[Counting | None]:
    if isinstance(neighbours, ss.L1):
        return st.none() | st.builds(Counting, st.integers(1, 99), st.integers(0, 2))
    if isinstance(neighbours, ss.SketchL2) and not neighbours.any_keys:
        return st.none() | st.builds(Counting, st.integers(1, 99))
    return st.none()


@st.composite
def agreements(draw: st.DrawFn) -> ss.Agreement:
    columns = draw(st.dictionaries(names, types, min_size=1, max_size=4))
    free = names.filter(lambda name: name not in columns)
    neighbours = draw(st.none() | bounds)
    keys = st.tuples(free, st.just("text"))
    return ss.Agreement(
        HASHED,
        index=columns,
        key=draw(keys if neighbours is not None and neighbours.max_keys > 1 else st.none() | keys),
        clip=draw(st.sampled_from([None, *(() if neighbours is None else set(neighbours.clips) - {"average"})])),
        value=draw(st.none() | st.just("the value")),
        unit=(unit := draw(st.none() | st.sampled_from([Column(*pair) for pair in columns.items()]))),
        neighbours=neighbours,
        counting=draw(countings(neighbours)) if unit is not None else None,
        missing=draw(st.sampled_from(["refuse", "drop", "keep"])),
        title=draw(st.just("") | names),
    )


@given(agreements())
def test_json_gives_an_equal_agreement_with_an_equal_fingerprint(agreement: ss.Agreement) -> None:
    again = ss.Agreement.from_json(agreement.to_json())
    assert (again, again.to_json(), again.fingerprint) == (agreement, agreement.to_json(), agreement.fingerprint)
    agreement.check_same(again)
    assert hash(again) == hash(agreement)


@given(agreements(), agreements())
def test_fingerprints_are_equal_exactly_for_equal_agreements(one: ss.Agreement, other: ss.Agreement) -> None:
    assert (one == other) == (one.fingerprint == other.fingerprint)


def test_the_fields_that_can_differ_are_all_of_them() -> None:
    assert OTHERS.keys() | {"agreement"} == AGREEMENT.replace(clip="cut", counting=Counting(9)).to_dict().keys()


def test_fields_of_later_versions_are_absent_where_they_say_nothing() -> None:
    """So agreements that were made before there were such fields keep their text and fingerprint."""
    assert AGREEMENT.replace(text=None).to_json() == (
        '{"agreement":1,"index":[{"name":"item","type":"text"},{"name":"week","type":"integer"}],'
        '"key":{"name":"country","type":"text"},"missing":"refuse","neighbours":{"bound":"500","max_keys":1,'
        '"relation":"l1","unit":"customer"},"projection":{"dim":1152921504606846976,"independence":8,'
        '"kind":"sjlt-block","resolution":"1/100","seed":7,"sketch_dim":64,"sparsity":4},'
        '"title":"Sales by country","unit":{"name":"customer","type":"integer"},"value":"quantity"}'
    )
    assert AGREEMENT.replace(text=None).fingerprint == "54a43f1bc77ea3cf4833773f4859a2d7"
    for name in ("clip", "counting"):
        with pytest.raises(ss.InvalidInputError, match=f"unknown: \\['{name}', 'text'\\]"):
            ss.Agreement.from_json(json.dumps(AGREEMENT.to_dict() | {name: None}))


@pytest.mark.parametrize("bound", ["1/1000", 1, 3, 700, 10**5])
@pytest.mark.parametrize("resolution", [1, "1/4096", "3/1000"])
def test_the_grid_is_made_fine_enough_for_clipped_sketches(bound: Any, resolution: Any) -> None:
    projection, neighbours = HASHED.replace(resolution=resolution), ss.SketchL2(bound, unit="customer")
    fine = fine_enough(projection, neighbours)
    steps = neighbours.cell_steps(fine)
    assert fine.replace(resolution=resolution) == projection
    assert fine == projection if fine.resolution == projection.resolution else 1 << 14 <= steps < 1 << 15
    assert steps >= MOST_COARSE
    assert fine_enough(fine, neighbours) is fine
    assert ss.Agreement(fine, index="item", unit="customer", neighbours=neighbours).projection == fine
    if fine != projection:
        with pytest.raises(ss.InvalidInputError, match=f"4,096 are needed. Use resolution='{fine.resolution}'"):
            ss.Agreement(projection, index="item", unit="customer", neighbours=neighbours)
    assert fine_enough(projection, ss.L1(1)) is fine_enough(projection, None) is projection


def test_all_parties_clip_as_was_agreed_on() -> None:
    free, equal = AGREEMENT.replace(neighbours=PEOPLE), AGREEMENT.replace(neighbours=PEOPLE, clip="equal")
    assert (AGREEMENT.clip_of(), AGREEMENT.clip_of("cut"), free.clip_of(), free.clip_of("equal")) == (
        "scale", "cut", "scale", "equal",
    )  # fmt: skip
    assert equal.clip_of() == equal.clip_of("equal") == "equal"
    with pytest.raises(ss.InvalidInputError, match=r"agreement has clip='equal', got 'scale'\. Leave clip out"):
        equal.clip_of("scale")
    with pytest.raises(
        ss.InvalidInputError, match="clipped to SketchL2 by clip='scale', clip='equal' or clip='average', got 'cut'"
    ):
        free.clip_of("cut")


@pytest.mark.parametrize("field", OTHERS)
def test_any_field_changes_the_fingerprint_and_a_mismatch_names_it(field: str) -> None:
    other = AGREEMENT.replace(**{field: OTHERS[field]})
    assert other.fingerprint != AGREEMENT.fingerprint
    with pytest.raises(ss.errors.IncompatibleProjectionsError) as raised:
        AGREEMENT.check_same(other)
    assert ("seed (7 here, 8 there)" if field == "projection" else f"{field} (") in str(raised.value)
    assert field == "projection" or isinstance(raised.value, ss.errors.IncompatibleAgreementsError)


def test_a_mismatch_says_both_sides() -> None:
    with pytest.raises(
        ss.errors.IncompatibleAgreementsError, match="item:text week:integer here, week:integer item:text the"
    ):
        AGREEMENT.check_same(AGREEMENT.replace(index=OTHERS["index"]))
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match=f"{AGREEMENT.fingerprint} here, {'0' * 32} there"):
        check_agreed(AGREEMENT, "0" * 32)


def test_what_says_nothing_is_refused_nowhere_and_leaves_nothing_said() -> None:
    assert check_agreed(AGREEMENT, None) is check_agreed(None, AGREEMENT) is check_agreed(None, None) is None
    assert check_agreed(AGREEMENT.fingerprint, AGREEMENT) is AGREEMENT
    assert check_agreed(AGREEMENT.fingerprint, AGREEMENT.fingerprint) == AGREEMENT.fingerprint


def test_a_name_alone_is_text_where_indices_are_hashed_and_an_integer_elsewhere() -> None:
    assert ss.Agreement(HASHED, index="item").index == (Column("item", "text"),)
    assert ss.Agreement(HASHED.replace(dim=100), index="item").index == (Column("item", "integer"),)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"index": {"item": "float"}}, "'float'"),
        ({"index": {"item": "decimal(19)"}}, "PLACES from 0 to 18"),
        ({"index": ["item", "item"]}, "twice"),
        ({"index": []}, "1 to 64 columns"),
        ({"index": 7}, "1 to 64 columns"),
        ({"index": "a\nb"}, "printable"),
        ({"index": "item", "key": {"price": "decimal(2)"}}, "keys must be of type text, integer, bytes, date"),
        ({"index": "item", "key": ["one", "two"]}, "one key column"),
        ({"index": "item", "unit": {"item": "integer"}}, "text in one place and integer in another"),
        ({"index": "item", "value": ""}, "value column"),
        ({"index": "item", "value": "item"}, "column item holds values"),
        ({"index": "item", "missing": "fill"}, "one of 'refuse', 'drop', 'keep'"),
        ({"index": "item", "title": "x" * 201}, "title"),
        ({"index": "item", "neighbours": ss.L1("1/1000")}, "below one grid step"),
        ({"index": "item", "clip": "scale"}, "needs a bound to clip to"),
        (
            {"index": "item", "clip": "equal", "neighbours": ss.L1(5)},
            "to L1 by clip='scale' or clip='cut', got 'equal'",
        ),
        ({"index": "item", "clip": "cut", "neighbours": ss.SketchL2(500)}, "to SketchL2 by"),
        ({"index": "item", "clip": "scale", "neighbours": ss.OneCoordinate(5)}, "OneCoordinate by nothing"),
        ({"index": "item", "neighbours": ss.SketchL2("1/1000")}, "norm of 0 grid steps"),
        (
            {"index": "item", "neighbours": ss.L1(5), "counting": Counting(1)},
            r"column of units \(unit=…\): pass it, or leave out",
        ),
        ({"index": "item", "unit": "u", "counting": Counting(1)}, r"bound on what one adds \(neighbours=…\)"),
        ({"index": "item", "unit": "u", "neighbours": ss.L2(5), "counting": Counting(1)}, "counted under L1"),
        ({"index": "item", "unit": "u", "neighbours": PEOPLE, "counting": Counting(1)}, "pass the largest number"),
        (
            {
                "index": "item",
                "unit": "u",
                "neighbours": ss.SketchL2(500, max_keys=1),
                "counting": Counting(1, slack=1),
            },
            "slack is free where",
        ),
        ({"index": "item", "unit": "u", "neighbours": ss.L1(5), "counting": Counting(1, slack=3)}, "at most Δ2"),
    ],
)
def test_what_cannot_be_agreed_on_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=says):
        ss.Agreement(HASHED, **fields)


@pytest.mark.parametrize("index", ["item", {"item": "text"}, ["one", "two"]])
def test_only_one_column_of_integers_enters_a_projection_that_does_not_hash(index: Any) -> None:
    narrow = HASHED.replace(dim=100)
    if index == "item":
        assert ss.Agreement(narrow, index=index).index[0].is_whole
        return
    with pytest.raises(ss.InvalidInputError, match="one index column of integers"):
        ss.Agreement(narrow, index=index)


def test_other_objects_are_type_errors() -> None:
    with pytest.raises(TypeError, match="needs a Projection"):
        ss.Agreement("projection", index="item")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="neighbours must be"):
        ss.Agreement(HASHED, index="item", neighbours="l1")  # type: ignore[arg-type]


def test_a_file_gives_the_agreement_back_and_errors_name_it(tmp_path: Path) -> None:
    path = tmp_path / "sales.json"
    AGREEMENT.save(path)
    assert ss.Agreement.load(path) == AGREEMENT
    path.write_text(HASHED.to_json())
    with pytest.raises(ss.InvalidInputError, match=r"sales.json is not an agreement: it is a projection alone"):
        ss.Agreement.load(path)
    path.write_bytes(b" " * (1 << 17))
    with pytest.raises(ss.InvalidInputError, match=r"streamsketch agree` .* longer than .*max_json_bytes"):
        ss.Agreement.load(path)


def changed(path: list[Any], value: Any) -> str:
    """Return the agreement's JSON with one value in it replaced."""
    fields = AGREEMENT.to_dict()
    place = fields
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(fields)


PLACES = [
    *([name] for name in AGREEMENT.to_dict()),
    *(["projection", name] for name in json.loads(HASHED.to_json())),
    *(["neighbours", name] for name in ss.L1(1).to_dict()),
    ["clip"],
    *(["index", 0], ["index", 1], ["index", 0, "name"], ["index", 0, "type"], ["key", "name"], ["unit", "type"]),
]
JUNK: list[Any] = [None, True, -1, 2**70, 1.5, "", "\x1b[31m", "x" * 300, [], {}, [[]], {"name": "x"}, [None] * 99]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_json_of_a_stranger_is_read_or_refused(place: list[Any]) -> None:
    for junk in JUNK:
        try:
            read = ss.Agreement.from_json(changed(place, junk))
        except ss.InvalidInputError as error:
            said = str(error)
        else:
            said = ""
            assert ss.Agreement.from_json(read.to_json()) == read
        assert "\x1b" not in said


@pytest.mark.parametrize(
    "text", ["[]", "{}", "[" * 10_000, '{"a":' * 5_000, '{"agreement":1,"agreement":1}', b"\xff", "x", "1" * 70_000]
)
def test_other_texts_are_refused(text: Any) -> None:
    with pytest.raises(ss.InvalidInputError):
        ss.Agreement.from_json(text)


# --- agreeing on the schema of a table ----------------------------------------------------------------------------


def test_types_are_those_of_a_table() -> None:
    schema = pa.schema(
        {
            "small": pa.uint8(),
            "name": pa.dictionary(pa.int32(), pa.large_string()),
            "raw": pa.binary(3),
            "day": pa.date64(),
            "at": pa.timestamp("ms", "UTC"),
            "price": pa.decimal128(9, 2),
            "paid": pa.bool_(),
            "amount": pa.float64(),
        }
    )
    agreement = ss.agree(schema, HASHED, index=schema.names[:-1], key="name", value="amount", unit="small")
    assert [column.type for column in agreement.index] == [
        *("integer", "text", "bytes", "date", "timestamp", "decimal(2)", "boolean"),
    ]
    assert agreement.key == Column("name", "text")
    assert agreement.unit == Column("small", "integer")
    assert agreement == ss.agree(
        schema.empty_table(), HASHED, index=schema.names[:-1], key="name", value="amount", unit="small"
    )


BOUGHT = pa.schema({"item": pa.string(), "shop": pa.string(), "sold": pa.int64(), "customer": pa.int64()})
EXACT = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)


@pytest.mark.parametrize("resolution", [1, "1/100"])
def test_by_default_each_unit_counts_the_same_whatever_its_rows_hold(resolution: Any) -> None:
    projection = EXACT.replace(resolution=resolution)
    agreement = ss.agree(BOUGHT, projection, index="item", value="sold", unit="customer")
    assert agreement.neighbours == ss.SketchL2(1, unit="customer", max_keys=1)
    assert (agreement.clip, agreement.unit) == ("equal", Column("customer", "integer"))
    assert agreement.projection == fine_enough(projection, agreement.neighbours)
    assert (projection.grid / agreement.projection.grid).denominator == 1, "values of the given grid stay exact"
    assert agreement.counting == Counting.of(agreement.projection, agreement.neighbours, delta=1e-6)


def test_units_in_keys_are_counted_where_it_is_known_in_how_many_they_may_be() -> None:
    keyed: dict[str, Any] = {"index": "item", "key": "shop", "unit": "customer"}
    free, counted = (ss.agree(BOUGHT, EXACT, **keyed, max_keys=keys) for keys in (None, 3))
    assert (free.neighbours, free.counting) == (ss.SketchL2(1, unit="customer"), None)
    assert counted.neighbours == ss.SketchL2(1, unit="customer", max_keys=3)
    assert counted.counting is not None
    alone = sensitivity_of(counted.projection, counted.neighbours)
    beside = sensitivity_of(counted.projection, counted.neighbours, counted.layout)
    assert alone.l2_squared < beside.l2_squared <= 1.03**2 * alone.l2_squared
    assert ss.agree(BOUGHT, EXACT, **keyed, max_keys=3, counting=Counting(7)).counting == Counting(7)


@pytest.mark.parametrize(("fields", "says"), [
    ({"unit": "customer", "clip": "scale"}, "needs a bound to clip to"),
    ({"key": "shop", "max_keys": 2}, "set by unit=…, too"),
    ({"key": "shop", "unit": "customer", "max_keys": 2, "neighbours": ss.L1(1)}, "set by neighbours, SketchL2"),
    ({"key": "shop", "unit": "customer", "max_keys": 0}, "max_keys must be"),
])  # fmt: skip
def test_what_the_default_cannot_say_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=says):
        ss.agree(BOUGHT, EXACT, index="item", **fields)


def test_floats_want_a_word_and_missing_columns_are_named() -> None:
    table = pa.table({"item": [1.0], "sold": [1]})
    with pytest.raises(ss.InvalidInputError, match="item holds double"):
        ss.agree(table, HASHED, index="item")
    assert ss.agree(table, HASHED, index={"item": "integer"}).index == (Column("item", "integer"),)
    missing: list[dict[str, Any]] = [{"index": "there"}, {"index": "sold", "value": "there"}]
    for fields in missing:
        with pytest.raises(ss.InvalidInputError, match="must have the column there exactly once"):
            ss.agree(table, HASHED, **fields)
    with pytest.raises(TypeError, match=r"rows must be a data frame, .*from_pylist"):
        ss.agree([1, 2], HASHED, index="item")


def test_days_are_keys_of_units_as_text() -> None:
    rows = pa.table({"day": [dt.date(2026, 1, 31), dt.date(2026, 2, 1)], "item": ["a", "b"], "who": ["Ann", "Bob"]})
    projection = ss.CountSketch(sketch_dim=64, seed=1)
    agreement = ss.agree(rows, projection, key="day", index="item", unit="who", max_keys=2)
    assert agreement.key == Column("day", "text")
    table = ss.bound(rows, agreement)
    assert isinstance(table, ss.SketchTable)
    assert sorted(table.keys()) == ["2026-01-31", "2026-02-01"]
    assert ss.agree(rows, projection, key="day", index="item").key == Column("day", "date")


def test_a_euclidean_bound_is_agreed_on() -> None:
    agreement = ss.Agreement(
        ss.projections.OPORP(dim=100, sketch_dim=16, seed=3), index="item", neighbours=ss.L2(5, unit="image")
    )
    assert ss.Agreement.from_json(agreement.to_json()) == agreement
    with pytest.raises(ss.InvalidInputError, match="below one grid step"):
        agreement.replace(neighbours=ss.L2("1/2"))


def test_another_bound_takes_another_weight_of_counts() -> None:
    one, wider = (ss.SketchL2(bound, unit="customer", max_keys=2) for bound in (1, 20))
    fine = HASHED.replace(resolution="1/12800")
    counted = AGREEMENT.replace(projection=fine, neighbours=one, clip="equal", counting=Counting(100))
    with pytest.raises(ss.InvalidInputError, match="also pass counting"):
        counted.replace(neighbours=wider)
    for other in (None, Counting(2000)):
        assert counted.replace(neighbours=wider, counting=other).counting == other


@pytest.mark.parametrize("values", [[True, False], [dt.date(2026, 1, 1), None], [b"3", b"4"]])
def test_a_value_column_of_a_type_without_numbers_is_refused_before_data_are_read(values: list[Any]) -> None:
    rows = pa.table({"item": ["tea", "jam"], "value": values})
    with pytest.raises(ss.InvalidInputError, match=r"the column value holds .*, but the agreement needs numbers"):
        ss.agree(rows, ss.CountSketch(sketch_dim=64, seed=7), index="item", value="value")


def test_a_whole_price_is_the_same_in_every_type() -> None:
    agreed = ss.Agreement(ss.CountSketch(sketch_dim=64, seed=1), index={"price": "decimal(2)"})
    columns = [
        pa.array([3, 40]),
        pa.array([3.0, 40.0]),
        pa.array(["3.00", "40"]),
        pa.array([decimal.Decimal(3), decimal.Decimal("40.00")]),
        pa.array([3, 40]).dictionary_encode(),
    ]
    sketches = [ss.sketch(pa.table({"price": column}), agreed) for column in columns]
    assert all(sketch == sketches[0] for sketch in sketches)
    cents = ss.sketch(pa.table({"price": pa.array(["0.03", "0.40"])}), agreed)
    assert cents != sketches[0]
