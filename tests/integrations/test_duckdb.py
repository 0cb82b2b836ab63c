"""SQL over a table of releases says what the library says."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.features import Category, Features, Number
from streamsketch.integrations.duckdb import register
from tests.counted import shops
from tests.golden.make_kit import KIT

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)


def release(count: int) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update([1, 2], [count, 70])
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    monkeypatch.chdir(tmp_path)
    connected = duckdb.connect()
    register(connected)
    return connected


def test_a_join_estimates_all_pairs(connection: Any) -> None:
    found = {name: release(count) for name, count in (("a", 500), ("b", 520), ("c", 9000))}
    ss.PrivateTable(found).save("all.parquet")
    rows = connection.sql(
        "SELECT * FROM (SELECT a.key x, b.key y, squared_distance(a.sketch, b.sketch) d "
        "FROM 'all.parquet' a, 'all.parquet' b WHERE a.key < b.key) ORDER BY d.value"
    ).fetchall()
    assert [row[:2] for row in rows] == [("a", "b"), ("b", "c"), ("a", "c")]
    for first, second, shown in rows:
        estimate = ss.squared_distance(found[first], found[second])
        assert (shown["value"], shown["standard_error"]) == (estimate.value, estimate.standard_error)
        assert (shown["low_95"], shown["high_95"]) == estimate.interval(0.95)


def test_every_function_is_the_library_s(connection: Any) -> None:
    x, y = release(500), release(900)
    asked = "SELECT inner_product($x, $y).value, cosine($x, $y).value, squared_norm($x).value, guarantee($y)"
    row = connection.execute(asked, {"x": x.to_bytes(), "y": y.to_bytes()}).fetchone()
    estimates = (ss.inner_product(x, y).value, ss.cosine(x, y).value, ss.squared_norm(x).value)
    assert row == (*estimates, str(y.guarantee))
    assert connection.execute("SELECT guarantee(NULL::BLOB)").fetchone() == (None,)


def test_what_is_no_sketch_ends_the_query(connection: Any) -> None:
    with pytest.raises(Exception, match="not the first bytes of a private sketch"):
        connection.execute("SELECT guarantee('junk'::BLOB)").fetchall()


@pytest.mark.rejects(0.04)  # the noise floor is two standard errors above an empty stream's squared norm
def test_the_cosine_of_an_empty_stream_is_null(connection: Any) -> None:
    x, empty = release(500), PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    both = {"x": x.to_bytes(), "y": empty.to_bytes()}
    asked = "SELECT cosine($x, $y), profile_distance($x, $y), cosine($x, NULL), cosine($x, $y).value, $y IS NULL"
    assert connection.execute(asked, both).fetchone() == (None, None, None, None, False)
    other = release(900)
    asked = "SELECT profile_distance($x, $y).value"
    (value,) = connection.execute(asked, {"x": x.to_bytes(), "y": other.to_bytes()}).fetchone()
    assert value == ss.profile_distance(x, other).value


def test_averages_are_null_where_units_are_too_few(connection: Any) -> None:
    found = shops()
    x, y, few = (found[name] for name in ("north", "south", "kiosk"))
    given = {"x": x.to_bytes(), "y": y.to_bytes(), "few": few.to_bytes()}
    asked = "SELECT mean_distance($x, $y).value, mean_product($x, $y).value, mean_norm($x).value"
    expected = (
        ss.estimation.mean_distance(x, y).value,
        ss.estimation.mean_product(x, y).value,
        ss.estimation.mean_norm(x).value,
    )
    assert connection.execute(asked, {name: given[name] for name in "xy"}).fetchone() == expected
    asked = "SELECT mean_distance($x, $few), mean_product($few, $x), mean_norm($few), mean_norm(NULL)"
    assert connection.execute(asked, {name: given[name] for name in ("x", "few")}).fetchone() == (None,) * 4


def test_counts_and_checks_of_the_noise_are_the_library_s(connection: Any) -> None:
    cases = {case["name"]: case for case in json.loads((KIT / "releases.json").read_text(encoding="utf-8"))}
    counted, plain = (bytes.fromhex(cases[name]["bytes"]) for name in ("of counted units, x", "a part, x"))
    shop = ss.PrivateSketch.from_bytes(counted)
    asked = "SELECT units($x).value, total($x).standard_error, units(NULL), noise_check($x)"
    found = connection.execute(asked, {"x": counted}).fetchone()
    assert found == (shop.units.value, shop.total.standard_error, None, "enough")
    assert connection.execute("SELECT warnings($x), units($y)", {"x": counted, "y": plain}).fetchone() == ("", None)


def kit() -> dict[str, bytes]:
    cases = json.loads((KIT / "releases.json").read_text(encoding="utf-8"))
    return {case["name"]: bytes.fromhex(case["bytes"]) for case in cases}


def test_warnings_are_those_of_the_typescript_package(connection: Any) -> None:
    words = json.loads((KIT.parents[1] / "web/tests/words.json").read_text(encoding="utf-8"))
    releases = kit()
    for one in words:
        said = connection.execute("SELECT warnings($x)", {"x": releases[one["name"]]}).fetchone()
        assert said == ("\n".join(one["Warnings"]),)
    assert any("It holds only if: no vector is zero" in line for one in words for line in one["Warnings"])
    with pytest.warns(ss.errors.WeakGuaranteeWarning):
        weak = PROJECTION.sketch().release(epsilon=21, neighbours=ss.L1(1)).to_bytes()
    (said,) = connection.execute("SELECT warnings($x)", {"x": weak}).fetchone()
    assert [line[:10] for line in said.split("\n")] == ["ε = 21 har", "Nothing wa"]


@pytest.mark.filterwarnings("ignore")  # the noise of the kit is made up
def test_what_sound_releases_do_not_say_is_null_with_a_reason(connection: Any) -> None:
    releases = kit()
    plain, other = releases["a part, x"], releases["a part, y"]
    counted, row = releases["of counted units, x"], releases["row 0 of root"]
    of_two = ("squared_distance", "inner_product", "cosine", "profile_distance", "mean_distance", "mean_product")
    for name in of_two:
        for x, y in ((counted, counted), (row, counted), (counted, row)):
            found = connection.execute(f"SELECT {name}($x, $y), why_null($x, $y, '{name}')", {"x": x, "y": y})
            value, reason = found.fetchone()
            assert value is None
            assert ("share" in reason) == (x == y), reason
    for name, x in (("units", plain), ("total", plain), ("mean_norm", plain), ("units", row), ("squared_norm", row)):
        value, reason = connection.execute(f"SELECT {name}($x), why_null($x, NULL, '{name}')", {"x": x}).fetchone()
        assert value is None
        assert reason
    given = {"x": plain, "y": other, "row": row}
    asked = "SELECT sameness($x, $x, 0), combine($x, $x, 'disjoint'), frequency($row, 3)"
    assert connection.execute(asked, {"x": plain, "row": row}).fetchone() == (None,) * 3
    asked = "SELECT why_null($x, $y, 'cosine'), why_null($x, $row, 'squared_norm'), why_null($x, NULL, 'cosine')"
    assert connection.execute(asked, given).fetchone() == (None, None, "a sketch is NULL")
    for name, message in (("frequency", "there is a reason for squared_distance"), ("nothing", "not for 'nothing'")):
        with pytest.raises(Exception, match=message):
            connection.execute("SELECT why_null($x, NULL, $name)", {"x": plain, "name": name}).fetchone()
    with pytest.raises(Exception, match="projection"):
        connection.execute("SELECT cosine($x, $y)", {"x": plain, "y": releases["identity, x"]}).fetchone()


def test_no_order_of_conditions_ends_a_query(connection: Any) -> None:
    """SQL promises no order, so a pair of a release with itself cannot be kept from a function."""
    ss.PrivateTable({name: release(500 + 300 * place) for place, name in enumerate("abcd")}).save("all.parquet")
    of = "FROM 'all.parquet' a, 'all.parquet' b"
    for function in ("cosine", "squared_distance", "inner_product", "profile_distance"):
        value = f"{function}(a.sketch, b.sketch).value"
        for asked, rows in (
            (f"SELECT count(*) {of} WHERE {value} > -1e300 AND a.key <> b.key", [(12,)]),
            (f"SELECT count(*) {of} WHERE NOT (a.key = b.key OR {value} < -1e300)", [(12,)]),
            (f"SELECT count({value}) FILTER (WHERE a.key <> b.key) {of} GROUP BY a.key", [(3,)] * 4),
            (f"SELECT count({value}) {of}", [(12,)]),
        ):
            assert connection.sql(asked).fetchall() == rows


def test_a_second_registration_changes_nothing_but_agreements(connection: Any) -> None:
    agreement = ss.Agreement(HASHED, index=[("item", "text")], value="n")
    sketch = ss.Sketch(agreement)
    sketch.update(["7"], [900])
    asked, given = (
        "SELECT frequency($x, 7) IS NULL",
        {"x": sketch.release(epsilon=1.0, neighbours=ss.L1(1000)).to_bytes()},
    )
    register(connection)
    with pytest.raises(Exception, match="pass it to register"):
        connection.execute(asked, given).fetchone()
    register(connection.cursor(), agreements=[agreement])
    register(connection)
    for one in (connection, connection.cursor()):
        assert one.execute(asked, given).fetchone() == (False,)


def test_a_registration_that_fails_leaves_nothing_behind() -> None:
    with pytest.importorskip("duckdb").connect() as taken:
        taken.create_function("noise_check", lambda x: x, ["INTEGER"], "INTEGER")
        with pytest.raises(Exception, match="noise_check"):
            register(taken)
        taken.remove_function("noise_check")
        register(taken)
        assert taken.execute("SELECT noise_check(NULL)").fetchone() == (None,)


HASHED = ss.SJLT(sketch_dim=320, sparsity=5, seed=3)
ITEMS: dict[str, list[Any]] = {
    "VARCHAR": ["tea", None, "salt", "jam"],
    "INTEGER": [7, 9, None],
    "UTINYINT": [7],
    "BLOB": [b"tea", None],
    "DATE": [dt.date(2026, 1, 2)],
    "TIMESTAMP": [dt.datetime(2026, 1, 2, 3)],  # noqa: DTZ001 - DuckDB's have no zone
}


def sales(largest: int) -> ss.PrivateSketch:
    sketch = HASHED.sketch()
    for items in ITEMS.values():
        kept = [item for item in items if item is not None]
        sketch.update(kept, [largest + place for place in range(len(kept))])
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1000, unit="sale"))


def test_frequencies_of_items_of_every_type_are_the_library_s(connection: Any) -> None:
    found = {"a": sales(900), "b": sales(500)}
    ss.PrivateTable(found).save("all.parquet")
    for kind, items in ITEMS.items():
        rows = connection.execute(
            "SELECT key, item, frequency(sketch, item) FROM "  # noqa: S608 - types of this file
            "(SELECT key, sketch FROM 'all.parquet' UNION ALL SELECT 'c', NULL), "
            f"(SELECT unnest($items::{kind}[]) item)",
            {"items": items},
        ).fetchall()
        assert len(rows) == 3 * len(items)
        for key, item, shown in rows:
            if key == "c" or item is None:
                assert shown is None
                continue
            estimate = ss.frequency(found[key], item)
            assert tuple(shown.values()) == (estimate.value, estimate.standard_error, *estimate.interval())


def test_many_rows_of_one_query_are_estimated_together(connection: Any) -> None:
    release = sales(900)
    asked = "SELECT list(frequency($x, 'item ' || range).value ORDER BY range) FROM range(5000)"
    (values,) = connection.execute(asked, {"x": release.to_bytes()}).fetchone()
    assert values == ss.frequency(release, [f"item {number}" for number in range(5000)])["estimate"].to_pylist()


def test_items_are_cast_by_the_agreement_that_is_given(connection: Any) -> None:
    agreement = ss.Agreement(HASHED, index=[("item", "text")], value="n")
    sketch = ss.Sketch(agreement)
    sketch.update(["7"], [900])
    release = sketch.release(epsilon=1.0, neighbours=ss.L1(1000))
    asked, given = "SELECT frequency($x, 7).value", {"x": release.to_bytes()}
    with pytest.raises(Exception, match="pass it to register"):
        connection.execute(asked, given).fetchone()
    with pytest.importorskip("duckdb").connect() as other:
        register(other, agreements=[agreement])
        assert other.execute(asked, given).fetchone() == (ss.frequency(release, 7, agreement=agreement).value,)


def test_a_test_of_sameness_is_the_library_s(connection: Any) -> None:
    x, y = release(500), release(520)
    given = {"x": x.to_bytes(), "y": y.to_bytes()}
    asked = "SELECT sameness($x, $y, 0), sameness($x, $y, 15.5).p_value, sameness($x, NULL, 0)"
    found, p_value, nothing = connection.execute(asked, given).fetchone()
    expected = ss.sameness(x, y)
    assert found["p_value"] == expected.p_value
    assert found["distance"]["value"] == expected.distance.value
    assert (found["distance"]["low_95"], found["distance"]["high_95"]) == expected.distance.interval()
    assert (p_value, nothing) == (ss.sameness(x, y, 15.5).p_value, None)
    with pytest.raises(Exception, match="tolerance must be finite"):
        connection.execute("SELECT sameness($x, $y, -1)", given).fetchone()


def test_two_releases_are_added_up(connection: Any) -> None:
    x, y = release(500), release(900)
    asked, given = "SELECT combine($x, $y, $p), combine($x, NULL, $p)", {"x": x.to_bytes(), "y": y.to_bytes()}
    found = connection.execute(asked, given | {"p": "disjoint"}).fetchone()
    assert found == (x.combine(y, populations="disjoint").to_bytes(), None)
    with pytest.raises(Exception, match="populations must be"):
        connection.execute(asked, given | {"p": "all"}).fetchone()


FEATURES = Features({"age": Number(0, 110), "sex": Category(["F", "M"]), "code": Category(hashed=8)}, seed=7, joint=2)
PATIENTS = pa.schema({"patient": pa.int64(), "age": pa.int64(), "sex": pa.string(), "code": pa.string()})
AGREEMENT = ss.agree(PATIENTS, features=FEATURES, unit="patient")


def site(count: int, age: int, epsilon: float = 10.0) -> ss.PrivateSketch:
    numbers = range(count)
    ages, sexes = [age + number % 20 for number in numbers], ["FM"[number % 2] for number in numbers]
    rows = pa.table([list(numbers), ages, sexes, [f"E{number % 5}" for number in numbers]], schema=PATIENTS)
    return ss.bound(rows, AGREEMENT).release(epsilon=epsilon, delta=1e-6, neighbours=AGREEMENT.neighbours)


@pytest.fixture
def populations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    monkeypatch.chdir(tmp_path)
    connected = duckdb.connect()
    register(connected, agreements=[AGREEMENT])
    return connected


def test_populations_are_compared_and_described_as_by_the_library(populations: Any) -> None:
    x, y = site(300, 40), site(300, 70)
    ss.PrivateTable({"north": x, "west": y}).save("sites.parquet")
    given = {"x": x.to_bytes(), "y": y.to_bytes()}
    estimate, test = ss.estimation.mmd(x, y, AGREEMENT), ss.sameness(x, y, by="mean", samples=True)
    asked = "SELECT discrepancy($x, $y).value, test_populations($x, $y).p_value, discrepancy($x, $y).high_95"
    row = populations.execute(asked, given).fetchone()
    assert row == (estimate.value, test.p_value, estimate.interval(0.95).high)
    found = populations.execute("FROM column_differences($x, $y)", given).fetchall()
    expected = ss.estimation.column_differences(x, y, AGREEMENT, samples=True).to_pylist()
    assert found == [(*row.values(), row["low"] > 0) for row in expected]
    assert {row[0] for row in found if row[-1]} == {"age", "(joint)"}
    asked = "SELECT key, d.* FROM 'sites.parquet', describe_release(sketch) d WHERE d.measure = 'mean' ORDER BY key"
    means = {key: ss.estimation.describe(one, AGREEMENT).to_pylist()[0] for key, one in (("north", x), ("west", y))}
    assert populations.sql(asked).fetchall() == [(key, *row.values()) for key, row in means.items()]
    assert populations.execute("SELECT len(describe_release($x))", {"x": given["x"]}).fetchone() == (8,)
    asked = "SELECT share($x, 'code', 'E1').value, share($x, 'sex', 'F').low_95"
    shares = ss.estimation.describe(x, AGREEMENT, shares={"code": ["E1"]}).to_pylist()
    by_measure = {row["measure"]: row for row in shares}
    expected_shares = by_measure["share of E1"]["estimate"], by_measure["share of F"]["low"]
    assert populations.execute(asked, {"x": given["x"]}).fetchone() == expected_shares


def test_populations_without_averages_or_agreement(populations: Any, connection: Any) -> None:
    x, few = site(300, 40).to_bytes(), site(2, 40, 0.01).to_bytes()
    asked = "SELECT discrepancy($x, $few), test_populations($few, $x), describe_release($few), share(NULL, 'sex', 'F')"
    assert populations.execute(asked, {"x": x, "few": few}).fetchone() == (None,) * 4
    for refused, message in [
        ("share($x, 'age', 'F')", "'age' is not a category with the value 'F'"),
        ("share($x, 'sex', 'X')", "'sex' is not a category with the value 'X'"),
    ]:
        with pytest.raises(Exception, match=message):
            populations.execute(f"SELECT {refused}", {"x": x}).fetchone()
    with pytest.raises(Exception, match="pass it to register"):
        connection.execute("SELECT describe_release($x)", {"x": x}).fetchone()
    unknown = release(500).to_bytes()
    with pytest.raises(Exception, match="a sketch states no agreement"):
        populations.execute("SELECT describe_release($x)", {"x": unknown}).fetchone()
