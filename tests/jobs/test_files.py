"""The job on a user's own files: releases, comparisons, bounds, and mistakes."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.jobs import FilesJob, RunSecrets
from tests.jobs.running import command

SALES = pa.table(
    {
        "shop": ["north", "north", "south", "south", "west/1"],
        "product": ["apple", "pear", "apple", "pear", "apple"],
        "day": [1, 1, 1, 2, 1],
        "paid": [30.0, 40.0, -10.0, 2.5, 100.25],
    }
)


def write_sales(folder: Path) -> Path:
    pq.write_table(SALES, folder / "sales.parquet")
    pa_csv.write_csv(SALES, folder / "sales.csv")
    return folder


KEYS = ["north", "south", "west/1", "east"]
AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=256, sparsity=2, seed=2013, resolution="0.25"),
    key="shop",
    index=["product", "day"],
    value="paid",
    neighbours=ss.L1(50, unit="receipt"),
    missing="keep",
)
HOURS = ss.Windows(time="sold_at", every="1 hour", first="2026-11-22T00:00Z", last="2026-11-22T23:00Z")


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    return write_sales(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the job ran once."""
    folder = write_sales(tmp_path_factory.mktemp("finished"))
    job(folder).run()
    return folder


def job(folder: Path, *names: str, **changed: Any) -> FilesJob:
    given: dict[str, Any] = {
        "patterns": [str(folder / name) for name in names or ["sales.parquet"]],
        "agreement": AGREEMENT,
        "epsilon": 1e6,
        "public_keys": KEYS,
        "output": str(folder / "out"),
    }
    return FilesJob(**given | changed)


def exact(first: str, second: str) -> float:
    cells: dict[tuple[object, object], float] = {}
    for row in SALES.to_pylist():
        sign = (row["shop"] == first) - (row["shop"] == second)
        cells[row["product"], row["day"]] = cells.get((row["product"], row["day"]), 0.0) + sign * row["paid"]
    return sum(value**2 for value in cells.values())


def distances(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "out" / "distances.parquet").to_pylist()
    return found


@pytest.mark.parametrize("name", ["sales.parquet", "sales.csv"])
def test_distances_of_the_users_files_come_out(sales: Path, finished: Path, name: str) -> None:
    if name == "sales.parquet":
        sales = finished
    else:
        job(sales, name).run()
    rows = distances(sales)
    assert len(rows) == 6
    assert [row["squared_distance"] for row in rows] == sorted(row["squared_distance"] for row in rows)
    for row in rows:  # at ε = 10⁶ the noise is nearly nil; the few indices hardly meet in 256 cells
        assert row["squared_distance"] == pytest.approx(exact(row["first"], row["second"]), rel=1e-6)
    written = pa_csv.read_csv(sales / "out" / "distances.csv").to_pylist()
    assert [row["first"] for row in written] == [row["first"] for row in rows]


def test_cosines_come_out(finished: Path) -> None:
    rows = pq.read_table(finished / "out" / "cosines.parquet").to_pylist()
    assert [(row["first"], row["second"]) for row in rows[:3]] == [
        ("north", "west/1"), ("north", "south"), ("south", "west/1"),
    ]  # fmt: skip
    assert rows[0]["cosine"] == pytest.approx(30 / 50, abs=1e-3)  # 30 of (30, 40), along the one axis of the other
    assert {row["cosine"] for row in rows[3:]} == {None}, "there is nothing in the east, unless noise passes for it"
    assert len(pa_csv.read_csv(finished / "out" / "cosines.csv")) == 6


def test_releases_are_written_twice_alike_and_sorted(sales: Path, finished: Path) -> None:
    pq.write_table(SALES.take([4, 2, 0, 1, 3]), sales / "sales.parquet")
    job(sales).run()
    for folder in (sales, finished):
        table = ss.load(folder / "out" / "sketches.parquet")
        assert list(table) == sorted(KEYS)
    for key, name in {"east": "east", "west/1": "west%2F1"}.items():
        assert ss.load(finished / "out" / "sketches" / f"{name}.sketch") == table[key]
    assert str(table["east"].guarantee).startswith("ε = 1000000, δ = 0 for one receipt of at most 50 (L1)")
    assert (table.agreement, table.projection) == (AGREEMENT.fingerprint, AGREEMENT.projection)


def test_a_run_with_a_claim_runs_once_and_leaves_no_secret(sales: Path) -> None:
    (sales / "root.key").write_bytes(bytes(range(32)))
    (sales / "root.key").chmod(0o600)
    secrets = RunSecrets(str(sales / "claims"), "monday", sales / "root.key")
    job(sales, secrets=secrets).run()
    assert b'"nonce": null' in (sales / "claims" / "monday.claim").read_bytes()
    before = (sales / "out" / "sketches.parquet").read_bytes()
    with pytest.raises(ss.InvalidInputError, match="was used before"):
        job(sales, secrets=secrets).run()
    assert (sales / "out" / "sketches.parquet").read_bytes() == before
    with pytest.raises(ss.InvalidInputError, match="pass claims as well"):
        RunSecrets(run_id="monday")


def test_the_keys_may_be_declared_public(sales: Path) -> None:
    assert sorted(job(sales, public_keys=None).run()) == ["north", "south", "west/1"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be a finite number > 0, from 1e-06 to 1e\\+06, got 0.0"),
        ({"agreement": AGREEMENT.replace(index="hour")}, "has no column hour"),
        ({"agreement": AGREEMENT.replace(index="[/product]")}, "has no column .*product"),
        ({"agreement": AGREEMENT.replace(key=None)}, "an agreement with a key column and neighbours"),
        ({"agreement": AGREEMENT.replace(neighbours=None)}, "an agreement with a key column and neighbours"),
        ({"public_keys": ["a"]}, "at least two public keys"),
        ({"clip": "cut"}, "needs an agreement with a unit column"),
        ({"agreement": AGREEMENT.replace(unit="product"), "clip": "round"}, "units are clipped to L1 by"),
        ({"window": "1d"}, "window and time go together"),
        ({"window": "a day", "time": "day"}, "a window must be"),
        ({"window": "2 months", "time": "day"}, "must be a day, a week or a month of the calendar, got '2 months'"),
        ({"zone": "Europe/Berlin"}, "zone='Europe/Berlin' needs a window such as 'month'"),
        (
            {"agreement": AGREEMENT.replace(key={"shop": "bytes"}), "window": "1d", "time": "day"},
            "the key column shop is of type bytes",
        ),
        ({"delimiter": "::"}, "delimiter"),
        ({"agreement": AGREEMENT.replace(windows=HOURS)}, r"has windows of .*: use `streamsketch\.beam\.Release`"),
        (
            {"agreement": AGREEMENT.replace(windows=dataclasses.replace(HOURS, are="keys"))},
            r"has windows of .*: use `streamsketch\.beam\.Release`",
        ),
    ],
)
def test_a_mistake_is_one_sentence(sales: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        job(sales, **changed).run()
    assert not (sales / "out").exists(), "nothing is released, so nothing is spent"


def test_integers_of_parquet_and_csv_files_are_the_same_indices(sales: Path, finished: Path) -> None:
    alone = {(row["first"], row["second"]): row["squared_distance"] for row in distances(finished)}
    job(sales, "sales.parquet", "sales.csv").run()
    for row in distances(sales):
        assert row["squared_distance"] == pytest.approx(4 * alone[row["first"], row["second"]], rel=1e-6)


def test_an_earlier_runs_releases_do_not_stay_and_a_neighbouring_folder_does(sales: Path, finished: Path) -> None:
    for name in ("out[1]", "out1"):
        shutil.copytree(finished / "out", sales / name)
    before = sorted(path.name for path in (sales / "out1").rglob("*"))
    job(sales, public_keys=["north", "west/1"], output=str(sales / "out[1]")).run()
    assert sorted(path.name for path in (sales / "out[1]/sketches").iterdir()) == ["north.sketch", "west%2F1.sketch"]
    assert sorted(path.name for path in (sales / "out1").rglob("*")) == before


def test_odd_keys_make_files_too(sales: Path) -> None:
    keys = ["a$x_{$", "..", "店" * 90]
    table = pa.table({"shop": keys, "product": ["p", "q", "r"], "day": [1, 2, 3], "paid": [1.0, 2.0, 3.0]})
    pq.write_table(table, sales / "sales.parquet")
    assert sorted(job(sales, public_keys=None).run()) == sorted(keys)
    assert len(list((sales / "out" / "sketches").iterdir())) == 3


def test_bytes_are_refused_where_names_are_text(sales: Path) -> None:
    for name in ("shop", "product"):
        place = SALES.schema.get_field_index(name)
        pq.write_table(SALES.set_column(place, name, SALES[name].cast(pa.binary())), sales / "sales.parquet")
        with pytest.raises(ss.InvalidInputError, match=f"column {name}"):
            job(sales).run()
    assert not (sales / "out").exists()


def test_no_rows_at_all_have_distances(sales: Path) -> None:
    pq.write_table(SALES.slice(0, 0), sales / "sales.parquet")
    job(sales).run()
    assert len(distances(sales)) == 6


@pytest.mark.parametrize("name", ["sales.parquet", "sales.csv"])
def test_units_are_clipped_where_the_agreement_names_them(sales: Path, name: str) -> None:
    customers = SALES.append_column("customer", pa.array([7, 7, 7, None, 8]))
    pq.write_table(customers, sales / "sales.parquet")
    pa_csv.write_csv(customers, sales / "sales.csv")
    near = ss.L1(20, unit="customer", max_keys=2)
    table = job(sales, name, agreement=AGREEMENT.replace(unit="customer", neighbours=near, missing="drop")).run()
    assert {release.guarantee.neighbours for release in table.values()} == {near}
    assert ss.squared_norm(table["west/1"]).value == pytest.approx(20**2, rel=1e-3)  # of 100.25
    assert ss.squared_norm(table["south"]).value == pytest.approx(10**2, rel=1e-3)  # the row of nobody is dropped
    assert 0 < ss.squared_norm(table["north"]).value <= 20**2 * (1 + 1e-3)


@pytest.mark.parametrize(
    ("clip", "norms"), [(None, {15**2 + 20**2}), ("cut", {30**2 + 5**2, 35**2}), ("none", {30**2 + 40**2})]
)
def test_units_are_clipped_as_asked(sales: Path, clip: Any, norms: set[int]) -> None:
    customers = SALES.append_column("customer", pa.array(["Ann", "Ann", "Ann", "Bob", "Bob"]))
    pq.write_table(customers, sales / "sales.parquet")
    near = ss.L1(35, unit="customer", max_keys=2)
    table = job(sales, agreement=AGREEMENT.replace(unit="customer", neighbours=near), clip=clip).run()
    assert table.guarantee.neighbours == near
    norm = ss.squared_norm(table["north"]).value
    assert min(abs(norm - one) for one in norms) < 1
    assert ss.squared_norm(table["south"]).value == pytest.approx(10**2 + 2.5**2, abs=1)


FINE = AGREEMENT.projection.replace(resolution="1/8192")
CUSTOMER = ss.SketchL2(1, unit="customer", max_keys=2)
PEOPLE = AGREEMENT.replace(
    projection=FINE,
    unit="customer",
    neighbours=CUSTOMER,
    clip="equal",
    counting=ss.privacy.Counting.of(FINE, CUSTOMER, delta=1e-6),
)


def test_customers_count_the_same_and_are_counted_as_agreed_on(sales: Path) -> None:
    """Ann's 1e6 and Bob's 2.50 are one length; in the north is Ann alone, in the south both, by parts."""
    paid = pa.array([1e6, 0.0, -1e6, 2.5, 0.0])
    customers = SALES.append_column("customer", pa.array(["Ann", "Ann", "Ann", "Bob", "Bob"]))
    pq.write_table(customers.set_column(3, "paid", paid), sales / "sales.parquet")
    one = job(sales, agreement=PEOPLE, delta=1e-6, epsilon=5e5)
    table = one.run()
    assert {key: round(release.units.value, 1) for key, release in table.items()} == {
        "east": 0,
        "north": 1,
        "south": 2,
        "west/1": 0,
    }
    assert table.guarantee == one.guarantee.on("enforced")
    assert table.guarantee.mechanism.layout.counting == PEOPLE.counting
    assert ss.squared_norm(table["north"]).value == pytest.approx(1 / 2, abs=0.05)  # half of Ann, in squares
    assert ss.squared_norm(table["south"]).value == pytest.approx(3 / 2, abs=0.05)
    means = pq.read_table(sales / "out" / "means.parquet").to_pylist()
    (met,) = [row["mean_distance"] for row in means if (row["first"], row["second"]) == ("north", "south")]
    assert met == pytest.approx(ss.estimation.mean_distance(table["north"], table["south"]).value)
    with pytest.raises(ss.InvalidInputError, match="the agreement has clip='equal', got 'scale'"):
        job(sales, agreement=PEOPLE, delta=1e-6, clip="scale")


def test_a_file_in_the_place_of_the_folder_is_one_sentence(sales: Path) -> None:
    (sales / "out").write_text("mine")
    with pytest.raises(ss.InvalidInputError, match="names a folder for the results"):
        job(sales).run()
    assert (sales / "out").read_text() == "mine"


def test_streams_of_days_in_text_with_another_delimiter(sales: Path) -> None:
    (sales / "days.csv").write_text(
        "shop;product;day;when;paid\nnorth;a;1;31.05.2024;2\nnorth;a;1;01.06.2024;3\nsouth;a;1;01.06.2024;4\n"
    )
    times = {"delimiter": ";", "time": "when", "time_format": "%d.%m.%Y"}
    for window, names in [("1 day", ["2024-05-31", "2024-06-01"]), ("month", ["2024-05", "2024-06"])]:
        one, two, three = f"north {names[0]}", f"north {names[1]}", f"south {names[1]}"
        job(sales, "days.csv", public_keys=[one, two, three], window=window, **times).run()
        assert {(row["first"], row["second"]): row["squared_distance"] for row in distances(sales)} == {
            (one, two): pytest.approx(1, abs=0.1),
            (one, three): pytest.approx(4, abs=0.1),
            (two, three): pytest.approx(1, abs=0.1),
        }


@pytest.mark.parametrize("bad", ["soon", "", "31.13.2024"])
def test_a_row_without_a_legible_time_ends_no_job_of_units(sales: Path, bad: str) -> None:
    """It is left out, as other bad rows of a unit are. Without units it is refused, and counts for nothing."""
    text = f"shop,product,day,who,when,paid\nnorth,a,1,Ann,31.05.2024,2\nsouth,a,1,Bob,{bad},3\n"
    (sales / "days.csv").write_text(text)
    changes: dict[str, Any] = {"neighbours": ss.L1(50, unit="person"), "unit": "who", "missing": "drop"}
    times = {"window": "month", "time": "when", "time_format": "%d.%m.%Y"}
    keys = ["north 2024-05", "south 2024-05"]
    job(sales, "days.csv", agreement=AGREEMENT.replace(**changes), public_keys=keys, **times).run()
    (row,) = distances(sales)
    assert row["squared_distance"] == pytest.approx(2**2, abs=0.1)
    with pytest.raises((ss.InvalidInputError, RuntimeError)):
        job(sales, "days.csv", public_keys=keys, **times).run()


def test_units_are_clipped_by_their_norm(sales: Path) -> None:
    near = ss.L2(10, unit="receipt")
    projection = ss.SJLT(dim=8, sketch_dim=8, sparsity=2, seed=1, resolution="0.25")
    agreement = ss.Agreement(projection, key="shop", index="day", value="paid", unit="product", neighbours=near)
    table = job(sales, agreement=agreement, delta=1e-6).run()
    assert table.guarantee.neighbours == near
    assert ss.squared_norm(table["west/1"]).value <= 10**2 * 1.5  # of 100.25


def test_keys_have_the_agreed_type(sales: Path) -> None:
    near = ss.L1(500, unit="product", max_keys=3)
    agreement = AGREEMENT.replace(key={"day": "integer"}, index="product", unit="product", neighbours=near)
    for name in ("sales.csv", "sales.parquet"):
        assert list(job(sales, name, agreement=agreement, public_keys=["1", "2"]).run()) == [1, 2]
        assert [(row["first"], row["second"]) for row in distances(sales)] == [("1", "2")]


def test_the_command_runs_the_job_and_says_what_is_released(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terms = ss.Terms(epsilon=1e6)
    AGREEMENT.replace(terms=terms, keys=["north", "south", "east"]).save(sales / "sales.json")
    AGREEMENT.save(sales / "bare.json")
    given, beam = [sales / "*.parquet", "--output", sales / "out"], ["--", "--direct_runner_bundle_repeat=1"]
    assert command("release", *given, "--agreement", sales / "sales.json", *beam) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "releases 3 keys" in shown
    assert "for one receipt of at most 50 (L1)" in shown
    assert "below the noise floor east" in shown
    with pytest.raises(ss.InvalidInputError, match="must state ε, noise that is added, and which keys"):
        command("release", *given, "--agreement", sales / "bare.json", *beam)
    with pytest.raises(ss.InvalidInputError, match="--again: not for releases on a cluster"):
        command("release", *given, "--agreement", sales / "sales.json", "--again", *beam)
    with pytest.raises(ss.InvalidInputError, match="run-id and root-key are for a cluster"):
        command("release", *given, "--agreement", sales / "sales.json", "--set", "run-id=monday")
