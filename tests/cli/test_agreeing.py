"""Agreements in the shell: written, followed by ``sketch``, and checked, through the real executable."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.privacy import Counting
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import Forks

ROWS = {
    "land": ["D", "F", "D", "F"],
    "item": ["007", "milk", "007", "8"],
    "week": [7, 8, 7, 10],
    "price": [0.29, 1.1, 3.0, 0.07],
    "paid": [True, False, True, True],
    "buyer": [17, 17, 18, None],
}
COLUMNS = ["--index", "item:text", "--index", "week:integer", "--index", "paid:boolean", "--value", "price"]
BOUND = ["--unit-column", "buyer:integer", "--l1", "5", "--missing", "drop", "--set", "title=Sales"]
MADE = ["--key", "land", *COLUMNS, *BOUND, "--set", "resolution=1/100", "--set", "sketch-dim=64", "--set", "seed=5"]


@pytest.fixture
def folder(tmp_path: Path, forks: Forks) -> Path:
    table = pa.table(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    lines = [json.dumps(row) for row in table.to_pylist()]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    cells = [[*row.values()] for row in table.to_pylist()]
    texts = [",".join("" if cell is None else str(cell) for cell in row) for row in cells]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(ROWS), *texts]) + "\n")
    done = forks.run("agree", *MADE, "-o", "sales.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def agreed(folder: Path) -> ss.Agreement:
    return ss.Agreement.load(folder / "sales.json")


def test_an_agreement_is_written_as_asked(folder: Path, forks: Forks) -> None:
    assert agreed(folder) == ss.Agreement(
        ss.SJLT(sketch_dim=64, sparsity=4, seed=5, resolution="1/100"),
        key="land",
        index={"item": "text", "week": "integer", "paid": "boolean"},
        value="price",
        unit={"buyer": "integer"},
        neighbours=ss.L1(5, unit="buyer"),
        missing="drop",
        title="Sales",
    )
    done = forks.run("agree", "--index", "item", "-o", "one.json", "--json", cwd=folder)
    assert json.loads(done.stdout)["fingerprint"] == ss.Agreement.load(folder / "one.json").fingerprint


def test_a_euclidean_bound_is_agreed_on(folder: Path, forks: Forks) -> None:
    (folder / "map.json").write_text(ss.projections.OPORP(dim=100, sketch_dim=16, seed=3).to_json())
    bound = ["--index", "week:integer", "--unit-column", "buyer:integer", "--set", "l2=5"]
    forks.succeeded("agree", *bound, "--set", "projection=map.json", "-o", "agreed.json", cwd=folder)
    assert ss.Agreement.load(folder / "agreed.json").neighbours == ss.L2(5, unit="buyer")


COUNTED = ["--set", "clip=equal", "--set", "count=yes"]
PEOPLE = ["--index", "item", "--unit-column", "buyer", "--set", "seed=5"]


@pytest.mark.parametrize(("sample", "kind"), [([], "text"), (["rows.parquet"], "integer")])
@pytest.mark.parametrize(("options", "fields"), [
    ([], {}),
    (["--key", "land", "--max-keys", "3"], {"key": "land", "max_keys": 3}),
    (["--key", "land"], {"key": "land"}),
    (["--set", "resolution=1/100"], {"resolution": "1/100"}),
])  # fmt: skip
def test_units_are_protected_by_default_as_in_python(
    options: list[str], fields: dict[str, Any], sample: list[str], kind: str, folder: Path, forks: Forks
) -> None:
    forks.succeeded("agree", *sample, *PEOPLE, *options, "--set", "sparsity=4", "-o", "people.json", cwd=folder)
    more = dict(fields)
    projection = ss.SJLT(sketch_dim=1024, sparsity=4, seed=5, resolution=more.pop("resolution", 1))
    expected = ss.agree(pa.table(ROWS), projection, index="item", unit={"buyer": kind}, **more)
    assert ss.Agreement.load(folder / "people.json") == expected
    assert expected.clip == "equal"


def test_what_is_chosen_is_shown_with_its_reason(folder: Path, forks: Forks) -> None:
    shown = forks.succeeded("agree", *PEOPLE, "-o", "people.json", cwd=folder)
    text = " ".join(shown.split())
    assert "one buyer of at most 1 in one key (L2 of sketches)" in text
    assert "resolution 1/16384, on which a clipped unit's sketch has a norm of 16,384 steps" in text
    assert "beside the cells, a count of units" in text
    bounds = ["--sketch-l2", "40", "--set", "clip=scale", "--set", "count=no"]
    forks.succeeded("agree", *PEOPLE, *bounds, "--unit", "person", "-o", "scaled.json", cwd=folder)
    scaled = ss.Agreement.load(folder / "scaled.json")
    assert (scaled.neighbours, scaled.clip, scaled.counting) == (
        ss.SketchL2(40, unit="person", max_keys=1),
        "scale",
        None,
    )
    shown = forks.succeeded("agree", *PEOPLE, "--sketch-l2", "40", "--set", "count=yes", "-o", "one.json", cwd=folder)
    assert "a count of units" in shown, "of the one stream that a unit is in"
    forks.succeeded("agree", *PEOPLE, "--l1", "40", "--set", "count=yes", "-o", "counted.json", cwd=folder)
    counted = ss.Agreement.load(folder / "counted.json")
    assert counted.counting == Counting.of(counted.projection, ss.L1(40, unit="buyer"), delta=0)


@pytest.mark.parametrize(("options", "shown"), [
    (["--max-keys", "3"], "a count of units (weight 2334)"),
    (["--max-keys", "3", "--sketch-l2", "1", *COUNTED], "a count of units (weight 2334)"),
    (["--max-keys", "3", "--sketch-l2", "1", *COUNTED[:2]], "so no averages: --set count=yes adds it"),
    ([], "no count of units, so no averages: --max-keys adds it"),
])  # fmt: skip
def test_counts_of_bounds_on_sketches_weigh_what_gaussian_noise_allows(
    options: list[str], shown: str, folder: Path, forks: Forks
) -> None:
    text = forks.succeeded("agree", *PEOPLE, "--key", "land", *options, "-o", "keyed.json", cwd=folder)
    assert shown in " ".join(text.split())


def test_a_name_with_colons_is_named_with_its_type_or_by_a_sample(tmp_path: Path, forks: Forks) -> None:
    forks.succeeded("agree", "--index", "a:b:text", "--key", "x:date:text", "-o", "one.json", cwd=tmp_path)
    one = ss.Agreement.load(tmp_path / "one.json")
    assert [*map(str, one.index), str(one.key)] == ["a:b:text", "x:date:text"]
    pq.write_table(pa.table({"a:b": ["x"], "n:int": [1], "k:text": [2]}), tmp_path / "rows.parquet")
    command = ["agree", "rows.parquet", "--index", "a:b", "--value", "n:int", "--key", "k:text:integer"]
    forks.succeeded(*command, "-o", "two.json", cwd=tmp_path)
    two = ss.Agreement.load(tmp_path / "two.json")
    assert (str(two.index[0]), two.value, two.key) == ("a:b:text", "n:int", ("k:text", "integer"))


def test_types_come_from_a_parquet_file(folder: Path, forks: Forks) -> None:
    names = ["--index", "item", "--index", "week", "--unit-column", "buyer", "--l1", "1", "--unit", "person"]
    assert forks.run("agree", "rows.parquet", *names, "-o", "typed.json", cwd=folder).returncode == 0
    found = ss.Agreement.load(folder / "typed.json")
    assert [str(column) for column in (*found.index, found.unit)] == ["item:text", "week:integer", "buyer:integer"]
    assert found.neighbours == ss.L1(1, unit="person")


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_files_of_every_format_are_sketched_as_in_python(name: str, folder: Path, forks: Forks) -> None:
    done = forks.run("sketch", name, "--agreement", "sales.json", "--assert-bounds", "-o", "a.raw-sketch", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "1 row left out" in done.stderr
    assert f"3 events of 2 keys. Agreement {agreed(folder).fingerprint}" in done.stderr
    raw = ss.storage.load_raw(folder / "a.raw-sketch")
    assert raw.state == ss.sketch(pa.table(ROWS), agreed(folder))
    assert (raw.agreement, raw.events) == (agreed(folder), 3)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_standard_input_is_sketched_alike(form: str, folder: Path, forks: Forks) -> None:
    within = ["--agreement", "sales.json", "--assert-bounds"]
    command = ["sketch", "-", "--set", f"format={form}", *within, "-o", "a.raw-sketch", "--json"]
    done = forks.run(*command, cwd=folder, stdin=(folder / f"rows.{form}").read_bytes())
    assert json.loads(done.stdout)["agreement"] == agreed(folder).fingerprint, done.stderr
    assert ss.storage.load_raw(folder / "a.raw-sketch").state == ss.sketch(pa.table(ROWS), agreed(folder))


def test_more_rows_follow_the_same_agreement_or_are_refused(folder: Path, forks: Forks) -> None:
    command = ["sketch", "rows.csv", "--agreement", "sales.json", "--assert-bounds", "-o", "a.raw-sketch"]
    for more in ([], ["--append"]):
        assert forks.run(*command, *more, cwd=folder).returncode == 0
    agreed(folder).replace(title="Returns").save(folder / "returns.json")
    plain = ["--assert-bounds", "--append", "-o", "a.raw-sketch"]
    refused = forks.refused("sketch", "rows.csv", "--agreement", "returns.json", *plain, cwd=folder)
    assert "title ('Sales' here, 'Returns' there)" in refused
    assert ss.storage.load_raw(folder / "a.raw-sketch").events == 6
    save_raw(RawSketch(agreed(folder).projection.table()), folder / "b.raw-sketch")
    refused = forks.refused(*command[:-1], "b.raw-sketch", "--append", cwd=folder)
    assert "the rows in b.raw-sketch follow no agreement" in refused


def test_releases_carry_it_show_it_and_are_compared_under_it(folder: Path, forks: Forks) -> None:
    agreed(folder).replace(title="Returns").save(folder / "returns.json")
    release = ["--epsilon", "1000", "--l1", "5", "--unit", "buyer", "--public-key", "D", "--public-key", "F"]
    for name in ("sales", "returns"):
        sketch = ["sketch", "rows.csv", "--agreement", f"{name}.json", "-o", f"{name}.raw-sketch"]
        assert forks.run(*sketch, cwd=folder).returncode == 0
        done = forks.run("release", f"{name}.raw-sketch", *release, "-o", f"{name}.parquet", cwd=folder)
        assert done.returncode == 0
        assert done.stderr.startswith("warning: ε = 1000 hardly protects anybody")
        assert done.stderr.count("\n") == 1
    assert agreed(folder).fingerprint in forks.run("explain", "sales.raw-sketch", cwd=folder).stdout
    published = agreed(folder).replace(terms=ss.Terms(epsilon=1000), keys=["D", "F"]).fingerprint
    assert published in forks.run("explain", "sales.parquet", cwd=folder).stdout
    (shown,) = json.loads(forks.run("explain", "sales.parquet", "--json", cwd=folder).stdout)["files"]
    assert shown["agreement"] == published
    assert forks.run("compare", "sales.parquet", cwd=folder).returncode == 0
    for command in (["compare"], ["nearest"], ["report", "-o", "page.html"]):
        refused = forks.refused(*command, "sales.parquet", "returns.parquet", cwd=folder)
        assert "sales.parquet and returns.parquet: the agreements differ: fingerprint" in refused
    sales = ss.load(folder / "sales.parquet")
    assert isinstance(sales, ss.PrivateTable)
    sales.with_agreement(None).save(folder / "unsaid.parquet")
    for command in (["compare"], ["nearest"], ["report", "-o", "page.html"]):
        refused = forks.refused(*command, "sales.parquet", "unsaid.parquet", cwd=folder)
        assert f"sales.parquet and unsaid.parquet: one follows the agreement {published}, and" in refused


def test_public_keys_are_of_the_agreed_type(folder: Path, forks: Forks) -> None:
    made = ["--index", "item:text", "--key", "week:integer", "-o", "weeks.json"]
    assert forks.run("agree", *made, cwd=folder).returncode == 0
    sketch = ["sketch", "rows.csv", "--agreement", "weeks.json", "-o", "a.raw-sketch"]
    assert forks.run(*sketch, cwd=folder).returncode == 0
    release = ["release", "a.raw-sketch", "--epsilon", "1", "--l1", "1"]
    done = forks.run(*release, "--public-key", "7", "--public-key", "009", "-o", "a.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert list(ss.load(folder / "a.parquet")) == [7, 9]
    refused = forks.refused(*release, "--again", "--public-key", "x", "-o", "b.parquet", cwd=folder)
    assert "not of the agreed type" in refused


def test_the_operator_alone_is_warned_of_values_beyond_the_bound(folder: Path, forks: Forks) -> None:
    sketch = ["sketch", "rows.csv", "--agreement", "sales.json", "--assert-bounds", "-o", "a.raw-sketch"]
    assert forks.run(*sketch, cwd=folder).returncode == 0
    release = ["release", "a.raw-sketch", "--epsilon", "1", "--l1", "2", "--keys-are-public", "-o", "a.parquet"]
    done = forks.run(*release, "--assert-bounds", cwd=folder)
    assert done.returncode == 0
    assert "warning: an event in this sketch is larger than the bound of 2" in done.stderr
    assert "larger" not in done.stdout
    assert b"larger" not in (folder / "a.parquet").read_bytes()


MISTAKES: dict[str, tuple[list[Any], str]] = {
    "no index": (["agree", "-o", "x.json"], "--index NAME:TYPE"),
    "another type": (["agree", "--index", "item", "--key", "day:boolean", "-o", "x.json"], "keys must be of type"),
    "a value with a type": (
        ["agree", "--index", "item:text", "--value", "paid:integer", "-o", "x.json"],
        "without a type, as values are numbers: --value paid, got paid:integer",
    ),
    "a value with a type beside a sample": (
        ["agree", "rows.parquet", "--index", "item", "--value", "paid:integer", "-o", "x.json"],
        "--value paid, got paid:integer",
    ),
    "a type of another language": (
        ["agree", "--index", "item:str", "-o", "x.json"],
        "item:str does not end in a type of an agreement: write NAME:TYPE, with one of integer, text,",
    ),
    "such a type of a key": (
        ["agree", "--index", "item", "--key", "land:int", "-o", "x.json"],
        "land:int does not end in a",
    ),
    "such a type of a unit": (
        ["agree", "--index", "item", "--unit-column", "buyer:String", "--l1", 1, "-o", "x.json"],
        "buyer:String does not end in a",
    ),
    "such a type beside a sample": (
        ["agree", "rows.parquet", "--index", "item:str", "-o", "x.json"],
        "item:str does not end",
    ),
    "a plan with such a type": (
        ["plan", "streams", "--epsilon", 1, "--squared-distance", 9, "-o", "x.json", "--index", "item:str"],
        "item:str does not end in a type",
    ),
    "a plan with a value of a type": (
        ["plan", "streams", "--epsilon", 1, "-o", "x.json", "--index", "item", "--set", "value=n:int"],
        "--value n, got n:int",
    ),
    "a bound that is a range": (
        ["agree", "--index", "item", "--l1", "10-100", "-o", "x.json"],
        "--l1 must be a finite number",
    ),
    "a unit without a bound": (
        ["agree", "--index", "item", "--unit", "sale", "-o", "x.json"],
        "give --unit-column, or --l1 BOUND",
    ),
    "a way to clip without a bound": (
        ["agree", "--index", "item", "--unit-column", "buyer", "--set", "clip=scale", "-o", "x.json"],
        "clip='scale' needs a bound to clip to",
    ),
    "a count of units in any number of keys": (
        ["agree", "--key", "land", "--index", "item", "--unit-column", "buyer", "--set", "count=yes", "-o", "x.json"],
        "pass the largest number",
    ),
    "two bounds": (
        ["agree", "--index", "a", "--l1", 1, "--set", "one-coordinate=1", "-o", "x.json"],
        "give one of them",
    ),
    "a sample of JSON lines": (
        ["agree", "rows.jsonl", "--index", "item", "-o", "x.json"],
        "Leave it out, and state the type of",
    ),
    "a column that a CSV has not": (
        ["agree", "rows.csv", "--index", "Item ", "-o", "x.json"],
        "has no column Item ; a column's name differs from it in case or in blanks",
    ),
    "a map beside an agreement": (
        ["agree", "sales.json", "--set", "seed=7", "-o", "x.json"],
        "sales.json says what is sketched, and by which map: leave out --seed",
    ),
    "no sample": (["agree", "nowhere/a.parquet", "--index", "item", "-o", "x.json"], "there is no folder nowhere"),
    "a column that is not there": (
        ["agree", "rows.parquet", "--index", "x", "-o", "x.json"],
        "must have the column x exactly",
    ),
    "options of a projection that is there": (
        ["agree", "--index", "item", "--set", "projection=bare.json", "--set", "seed=1", "-o", "x.json"],
        "states the whole projection; leave out --set seed",
    ),
    "a projection for an agreement": (
        ["sketch", "rows.csv", "--agreement", "bare.json", "-o", "x.raw-sketch"],
        "bare.json is not an agreement: it is a projection alone",
    ),
    "a file of rows as an agreement": (
        ["sketch", "good.csv", "--agreement", "long.csv", "-o", "x.raw-sketch"],
        "long.csv is not an agreement, a JSON file that `streamsketch agree` writes",
    ),
    "a cell of another type, where units are bounded": (
        ["sketch", "good.csv", "bad.csv", "--agreement", "sales.json", "-o", "x.raw-sketch"],
        "bad.csv, rows 2 to 3 (the header is row 1): the column week holds string, and in row 3 a value that is not of",
    ),
    "a cell of another type, where a bound is chosen": (
        [
            *[
                "choose-bound",
                "good.csv",
                "bad.parquet",
                "--index",
                "item",
                "--value",
                "price",
                "--unit-column",
                "buyer",
            ],
            *["--projection", "bare.json", "--candidates", "1,2", "--epsilon", "1"],
        ],
        "bad.parquet, rows 1 to 2: the column price holds string, but the agreement needs numbers",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_sentences(name: str, folder: Path, forks: Forks) -> None:
    (folder / "bare.json").write_text(agreed(folder).projection.to_json())
    rows = "land,item,week,price,paid,buyer\nD,a,7,1,true,1\nD,a,secret,1,true,1\n"
    (folder / "bad.csv").write_text(rows)
    (folder / "good.csv").write_text(rows.replace("secret", "8"))
    (folder / "long.csv").write_text(rows + "D,a,7,1,true,1\n" * 10_000)
    pq.write_table(pa.table({"item": ["a", "a"], "price": ["1", "secret"], "buyer": [1, 1]}), folder / "bad.parquet")
    command, says = MISTAKES[name]
    refused = forks.refused(*command, cwd=folder)
    assert says in refused
    assert "secret," not in refused
    assert not (folder / "x.json").exists()
    assert not (folder / "x.raw-sketch").exists()


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (["colour=red"], "--set takes NAME=VALUE, with one of the names title, clip, rows-of-unit, count,"),
        (["seed"], "--set takes NAME=VALUE"),
        (["seed="], "--set takes NAME=VALUE"),
        (["seed=five"], "--set seed takes NUMBER, got 'five'"),
        (["count=maybe"], "--set count takes yes|no, got 'maybe'"),
        (["windows=rows"], "--set windows takes keys|releases, got 'rows'"),
        (["seed=1", "seed=2"], "--set seed is stated twice"),
        (["zone=UTC"], "windows have a length and a column of times: --window LENGTH --time COLUMN"),
        (["catalogue=50"], "items and catalogue go with --units"),
    ],
)
def test_a_further_field_has_a_name_and_takes_a_value(
    stated: list[str], message: str, tmp_path: Path, forks: Forks
) -> None:
    further = [word for each in stated for word in ("--set", each)]
    refused = forks.refused("agree", "--index", "item", *further, "-o", "x.json", cwd=tmp_path)
    assert message in refused
    assert not (tmp_path / "x.json").exists()


def test_further_fields_are_those_of_the_agreement(tmp_path: Path, forks: Forks) -> None:
    columns = ["--index", "item", "--key", "shop", "--unit-column", "buyer", "--max-keys", "2", "--missing", "drop"]
    timed = ["--window", "month", "--time", "at", "--first", "2026-01-01", "--epsilon", "1", "--delta", "1e-6"]
    sets = ["title=A = B", "clip=scale", "count=no", "select-keys=0.1,1e-7", "zone=Europe/Berlin", "windows=keys"]
    sets += ["time-format=%d.%m.%Y %H:%M", "sketch-dim=64", "sparsity=2", "seed=5", "mechanism=gaussian"]
    further = [word for each in sets for word in ("--set", each)]
    bound = ["--sketch-l2", "3"]
    forks.succeeded("agree", *columns, *bound, *timed, *further, "-o", "x.json", cwd=tmp_path)
    agreed = ss.Agreement.load(tmp_path / "x.json")
    windows: Any = agreed.windows
    assert (agreed.title, agreed.clip, agreed.counting) == ("A = B", "scale", None)
    assert (windows.are, windows.zone, windows.format) == ("keys", "Europe/Berlin", "%d.%m.%Y %H:%M")
    assert agreed.keys == ss.Selected(epsilon="0.1", delta="1e-7")
    assert agreed.terms == ss.Terms(epsilon="1", delta="1e-6", mechanism="gaussian")
    projection: Any = agreed.projection
    assert (projection.sketch_dim, projection.sparsity, projection.seed) == (64, 2, 5)
