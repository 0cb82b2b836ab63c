"""Units bounded by the command: as in Python, refused where a unit would not be whole, counted in secret."""

import dataclasses
import json
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import streamsketch as ss
from streamsketch.privacy import Neighbours
from streamsketch.privacy.neighbours import MOST_KEYS
from streamsketch.storage import load_raw
from tests.cli.running import Forks
from tests.cli.sales import PROJECTION

SALES = """shop,item,sold,customer
DE,tea,80995,Ann
DE,tea,-80995,Ann
DE,jam,5,Ann
FR,jam,80,Bob
FR,tea,-20,Bob
FR,tea,,Bob
FR,tea,7,
"""
COLUMNS = ["--key", "shop", "--index", "item", "--value", "sold", "--projection", "agreed.json", "-o", "a.raw-sketch"]
BOUNDS = ["--unit-column", "customer", "--max-keys", "2", "--l1", "50"]


@pytest.fixture
def sales(folder: Path) -> Path:
    (folder / "sold.csv").write_text(SALES)
    return folder


@pytest.mark.parametrize("clip", [None, "scale"])
def test_units_are_netted_and_scaled(clip: str | None, sales: Path, forks: Forks) -> None:
    options = [] if clip is None else ["--clip", clip]
    done = forks.run("sketch", "sold.csv", *COLUMNS, *BOUNDS, *options, cwd=sales)
    assert done.returncode == 0, done.stderr
    expected = PROJECTION.table()
    expected.update(["DE", "FR", "FR"], ["jam", "jam", "tea"], [5, 40, -10])
    raw = load_raw(sales / "a.raw-sketch")
    assert raw.state == expected
    assert raw.events == 5
    assert done.stderr.splitlines()[-1] == (
        "Bound enforced: one customer of at most 50 in each of at most 2 keys (L1). To release it: `streamsketch agree "
        "a.raw-sketch --public-key KEY --epsilon EPSILON -o terms.json`, then `streamsketch release a.raw-sketch "
        "--agreement terms.json -o a.parquet`"
    )
    assert done.stderr.splitlines()[-2].startswith("a.raw-sketch, secret: ")
    assert "--summary FILE writes what the bounds dropped" in done.stderr
    assert sorted(path.suffix for path in sales.iterdir() if path.suffix == ".raw-sketch") == [".raw-sketch"]


def test_values_of_units_that_a_grid_truncates_are_told_once(sales: Path, forks: Forks) -> None:
    (sales / "sold.csv").write_text(SALES.replace("80,Bob", "80.3,Bob"))
    done = forks.run("sketch", "sold.csv", *COLUMNS, *BOUNDS, cwd=sales)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("warning: values are truncated to multiples of the resolution, 1/4,") == 1


def test_a_release_keeps_to_what_was_enforced(sales: Path, forks: Forks) -> None:
    forks.succeeded("sketch", "sold.csv", *COLUMNS, *BOUNDS, cwd=sales)
    release = ["release", "a.raw-sketch", "--epsilon", "1", "--keys-are-public", "-o", "a.parquet"]
    for less in (
        ["--l1", "50", "--unit", "customer"],
        ["--l1", "25", "--max-keys", "2", "--unit", "customer"],
        ["--l1", "50", "--max-keys", "2", "--unit", "sale"],
        ["--one-coordinate", "50", "--max-keys", "2", "--unit", "customer"],
    ):
        assert "which does not imply one" in forks.refused(*release, *less, cwd=sales)
    assert not load_raw(sales / "a.raw-sketch").releases
    shown = json.loads(forks.succeeded(*release, "--json", cwd=sales))["guarantee"]  # by default, what was enforced
    assert (shown["bound"], shown["max_keys"], shown["unit"], shown["basis"]) == ("50", 2, "customer", "enforced")
    again = [*release[:-1], "b.parquet", "--again", "--l1", "25", "--unit", "customer", "--assert-bounds"]
    forks.succeeded(*again, cwd=sales)
    assert ss.load(sales / "b.parquet").guarantee.basis == "asserted"


def test_the_unit_of_the_data_may_be_named_and_another_is_refused(sales: Path, forks: Forks) -> None:
    forks.succeeded("sketch", "sold.csv", *COLUMNS, *BOUNDS, cwd=sales)
    release = ["release", "a.raw-sketch", "--epsilon", "1", "--keys-are-public", "-o", "a.parquet"]
    for less in (["--unit", "patient"], ["--max-keys", 1], ["--l1", 1]):
        told = forks.refused(*release, *less, cwd=sales)
        assert "bounded to one customer of at most 50 in each of at most 2 keys (L1), which does not imply" in told
        assert "on which `streamsketch agree FILE.raw-sketch …` agrees" in told
    forks.succeeded(*release, "--unit", "customer", "--max-keys", 2, cwd=sales)
    assert ss.load(sales / "a.parquet").guarantee.basis == "enforced"


@pytest.mark.parametrize("rows", ["", "DE,tea,1,Ann\n"])
def test_rows_that_nothing_clips_end_the_bounds_whether_or_not_any_came(rows: str, sales: Path, forks: Forks) -> None:
    (sales / "more.csv").write_text(SALES.splitlines()[0] + "\n" + rows)
    forks.succeeded("sketch", "sold.csv", *COLUMNS, *BOUNDS, cwd=sales)
    forks.succeeded("sketch", "more.csv", *COLUMNS[:-1], "b.raw-sketch", *BOUNDS, "--assert-bounds", cwd=sales)
    ended = [forks.run("sketch", "more.csv", *COLUMNS, *BOUNDS, "--assert-bounds", "--append", cwd=sales)]
    forks.succeeded("sketch", "sold.csv", *COLUMNS[:-1], "c.raw-sketch", *BOUNDS, cwd=sales)
    for first, second, name in (("c", "b", "both"), ("b", "c", "back")):
        merge = ["merge", f"{first}.raw-sketch", f"{second}.raw-sketch", "-o", f"{name}.raw-sketch"]
        ended.append(forks.run(*merge, cwd=sales))
    for name, done in zip(("a", "both", "back"), ended, strict=True):
        assert done.returncode == 0
        assert f"warning: no bound holds for {name}.raw-sketch, although rows in it were bounded" in done.stderr
        assert "so the bound" not in done.stderr
        bounds = load_raw(sales / f"{name}.raw-sketch").state.bounds
        assert bounds.ended == "rows were added that nothing clipped"


def test_a_unit_is_named_by_a_word_or_its_column(sales: Path, forks: Forks) -> None:
    (sales / "sold.csv").write_text(SALES.replace("customer", "Customer ID"))
    bounds = ["--unit-column", "Customer ID", "--l1", "50"]
    for word, options in (("Customer ID", []), ("customer", ["--unit", "customer"])):
        forks.succeeded("sketch", "sold.csv", *COLUMNS, *bounds, *options, cwd=sales)
        assert load_raw(sales / "a.raw-sketch").state.bounds.neighbours == ss.L1(50, unit=word)
        release = ["release", "a.raw-sketch", "--epsilon", "1", "--keys-are-public", "-o", f"{len(word)}.parquet"]
        forks.succeeded(*release, "--l1", "50", "--unit", word, cwd=sales)
        (sales / "a.raw-sketch").unlink()
    assert ss.load(sales / "8.parquet").guarantee.neighbours == ss.L1(50, unit="customer")


def test_bounds_of_merged_files_add_up_unless_no_unit_is_in_two(sales: Path, forks: Forks) -> None:
    for name in ("a", "b"):
        output = [*COLUMNS[:-1], f"{name}.raw-sketch"]
        forks.succeeded("sketch", "sold.csv", *output, *BOUNDS, cwd=sales)
    merge = ["merge", "a.raw-sketch", "b.raw-sketch", "-o"]
    forks.succeeded(*merge, "both.raw-sketch", cwd=sales)
    forks.succeeded(*merge, "apart.raw-sketch", "--populations", "disjoint", cwd=sales)
    assert load_raw(sales / "both.raw-sketch").state.bounds.neighbours == ss.L1(100, unit="customer", max_keys=4)
    apart = load_raw(sales / "apart.raw-sketch").state.bounds
    assert apart.neighbours == ss.L1(50, unit="customer", max_keys=2)
    assert apart.conditions == ("no customer is in two of the parts that were merged",)


MORE = """shop,item,sold,customer
DE,tea,7,Ann
UK,jam,500,Bob
"""
PEOPLE = ["--unit-column", "customer", "--sketch-l2", "1", "--clip", "equal"]
APPENDED: dict[str, tuple[list[str], Neighbours]] = {
    "l1": (BOUNDS, ss.L1(100, unit="customer", max_keys=4)),
    "cut": ([*BOUNDS, "--clip", "cut"], ss.L1(100, unit="customer", max_keys=4)),
    "sketch": ([*PEOPLE, "--max-keys", "2"], ss.SketchL2(2, unit="customer", max_keys=4)),
}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("bounds", APPENDED)
def test_bounded_rows_are_appended_as_files_are_merged(bounds: str, keyed: bool, sales: Path, forks: Forks) -> None:  # noqa: FBT001
    (sales / "agreed.json").write_text(PROJECTION.replace(resolution="1/65536").to_json())
    # no value is scaled, so that no secret decides how it is rounded
    (sales / "more.csv").write_text(MORE.replace("500", "5") if bounds == "l1" else MORE)
    (sales / "sold.csv").write_text(MORE.replace("500", "50"))
    options, neighbours = APPENDED[bounds]
    columns = COLUMNS[:-1] if keyed else COLUMNS[2:-1]
    if not keyed:
        options = [one for one in options if one not in ("--max-keys", "2")]
        neighbours = dataclasses.replace(neighbours, max_keys=ss.SketchL2(1).max_keys if bounds == "sketch" else 1)
    for name, rows in (("a", "sold.csv"), ("b", "more.csv")):
        forks.succeeded("sketch", rows, *columns, f"{name}.raw-sketch", *options, cwd=sales)
    forks.succeeded("merge", "a.raw-sketch", "b.raw-sketch", "-o", "ab.raw-sketch", cwd=sales)
    done = forks.run("sketch", "more.csv", *columns, "a.raw-sketch", *options, "--append", cwd=sales)
    assert done.returncode == 0, done.stderr
    assert f"in the new rows, so the bound that was enforced is now: {neighbours}. Its units are no" in done.stderr
    assert f"Bound enforced: {neighbours}. To release it: `streamsketch agree a.raw-sketch " in done.stderr
    appended, merged = load_raw(sales / "a.raw-sketch"), load_raw(sales / "ab.raw-sketch")
    assert appended.state == merged.state
    assert appended.state.bounds == merged.state.bounds
    assert (appended.events, appended.state.counts) == (merged.events, None)
    assert appended.state.bounds.neighbours == neighbours
    release = [
        "release",
        "a.raw-sketch",
        "--epsilon",
        "1",
        *(["--delta", "1e-6"] if bounds == "sketch" else []),  # on so fine a grid Gaussian noise is too wide for others
        "-o",
        "a.parquet" if keyed else "a.sketch",
    ]
    shown = json.loads(forks.succeeded(*release, *["--keys-are-public"] * keyed, "--json", cwd=sales))["guarantee"]
    assert (shown["bound"], shown["max_keys"], shown["basis"]) == (
        str(neighbours.bound),
        neighbours.max_keys,
        "enforced",
    )


def test_bounded_rows_are_added_only_where_a_bound_holds_afterwards(sales: Path, forks: Forks) -> None:
    append = ["sketch", "sold.csv", *COLUMNS, "--append"]
    forks.succeeded(*append, *BOUNDS, cwd=sales)  # makes the file
    for others, said in (
        (["--l1", "50", "--unit-column", "customer", "--unit", "person"], "one person of at most 50"),
        (["--l1", "50", "--max-keys", str(MOST_KEYS), "--unit-column", "customer"], "neighbours"),
    ):
        before = (sales / "a.raw-sketch").read_bytes()
        refused = forks.refused(*append, *others, cwd=sales)
        assert "the agreements differ" in refused
        assert said in refused
        assert (sales / "a.raw-sketch").read_bytes() == before
    for rows in (5, 10):
        assert load_raw(sales / "a.raw-sketch").events == rows
        done = forks.run(*append, *BOUNDS, cwd=sales)
        assert done.returncode == 0, done.stderr
    assert load_raw(sales / "a.raw-sketch").state.bounds.neighbours == ss.L1(150, unit="customer", max_keys=6)
    (sales / "sold.csv").write_text(MORE)
    plain = forks.run(*append, *BOUNDS, "--assert-bounds", cwd=sales)
    assert plain.returncode == 0
    assert "warning: no bound holds for a.raw-sketch, although rows in it were bounded to" in plain.stderr
    assert "holds rows without a bound" in forks.refused(*append, *BOUNDS, cwd=sales)


def test_cut_values_stay_within_the_bound_of_one_stream(sales: Path, forks: Forks) -> None:
    unkeyed = [*COLUMNS[2:], "--unit-column", "customer", "--l1", "50", "--clip", "cut"]
    forks.succeeded("sketch", "sold.csv", *unkeyed, cwd=sales)
    state = load_raw(sales / "a.raw-sketch").state
    assert isinstance(state, ss.Sketch)
    assert state.mass == 4 * (5 + 50)


def test_units_are_clipped_in_sketch_space_and_released_so(sales: Path, forks: Forks) -> None:
    fine = PROJECTION.replace(resolution="1/65536")
    (sales / "agreed.json").write_text(fine.to_json())
    said = forks.run("sketch", "sold.csv", *COLUMNS, *PEOPLE, cwd=sales)
    assert said.returncode == 0, said.stderr
    assert "agree a.raw-sketch --public-key KEY --epsilon EPSILON --delta DELTA -o terms.json" in said.stderr
    raw = load_raw(sales / "a.raw-sketch")
    people = ss.SketchL2(1, unit="customer")
    rows = pa.csv.read_csv(sales / "sold.csv")
    agreement = ss.Agreement.of(fine, key="shop", index="item", value="sold", unit="customer", neighbours=people)
    assert raw.state == ss.bound(rows, agreement, clip="equal")
    assert (raw.state.bounds.neighbours, raw.state.bounds.clip) == (people, "equal")
    release = ["release", "a.raw-sketch", "--epsilon", "1", "--delta", "1e-6", "--keys-are-public", "-o", "a.parquet"]
    assert "does not imply" in forks.refused(*release, "--sketch-l2", "1/2", "--unit", "customer", cwd=sales)
    without = [one for one in release if one not in ("--delta", "1e-6")]
    assert "Set delta (such as 1e-9) for Gaussian noise" in forks.refused(*without, cwd=sales)
    assert "max_keys" in forks.refused(*without, "--mechanism", "laplace", cwd=sales)
    shown = json.loads(forks.succeeded(*release, "--json", cwd=sales))["guarantee"]
    assert (shown["relation"], shown["bound"], shown["basis"]) == ("sketch-l2", "1", "enforced")
    assert "enforced whatever its rows hold" in shown["text"]


def test_the_summary_is_written_on_request_for_its_owner_alone(sales: Path, forks: Forks) -> None:
    done = forks.run("sketch", "sold.csv", *COLUMNS, *BOUNDS, "--summary", "told.json", cwd=sales)
    assert done.stderr.startswith("told.json, secret: what the bounds dropped and clipped.\n")
    assert stat.S_IMODE((sales / "told.json").stat().st_mode) == 0o600
    told = json.loads((sales / "told.json").read_text())
    assert told["secret"] is True
    counts = ("rows_read", "rows_blank", "rows_dropped", "units", "units_over_bound", "largest_value", "share_kept")
    assert [told[name] for name in counts] == [7, 2, 2, 2, 1, 80995.0, 55 / 105]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--summary", "a.json"], "nothing is clipped here, so leave out --summary"),
        ([*BOUNDS, "--set", "bad-lines=skip"], "which lines are left out may depend on one unit"),
        ([*BOUNDS, "--summary", "agreed.json"], "already exists"),
        (["--unit-column", "buyer", "--l1", "5"], "buyer"),
    ],
)
def test_mistakes_are_named(options: list[str], message: str, sales: Path, forks: Forks) -> None:
    assert message in forks.refused("sketch", "sold.csv", *COLUMNS, *options, cwd=sales)


def test_what_is_not_whole_is_refused(sales: Path, forks: Forks) -> None:
    said = forks.refused("sketch", "-", "--set", "format=csv", *COLUMNS, *BOUNDS, cwd=sales)
    assert "name files, not standard input" in said


AGREED = ["--key", "shop", "--index", "item", "--value", "sold", "--missing", "drop", "--unit-column", "customer"]


def test_an_agreement_that_names_units_and_a_bound_bounds_them(sales: Path, forks: Forks) -> None:
    bounds = ["--l1", "50", "--max-keys", "2", "--set", "sketch-dim=64", "--set", "resolution=1/4"]
    forks.succeeded("agree", *AGREED, *bounds, "-o", "sales.json", cwd=sales)
    done = forks.run(
        *("sketch", "sold.csv", "--agreement", "sales.json", "-o", "a.raw-sketch", "--summary", "told.json"), cwd=sales
    )
    assert done.returncode == 0, done.stderr
    agreement = ss.Agreement.load(sales / "sales.json")
    expected = ss.SketchTable(agreement)
    expected.update(["DE", "FR", "FR"], ["jam", "jam", "tea"], [5, 40, -10])
    raw = load_raw(sales / "a.raw-sketch")
    assert raw.state == expected
    assert (raw.events, raw.agreement) == (5, agreement)
    assert json.loads((sales / "told.json").read_text())["rows_blank"] == 2
    forks.succeeded("release", "a.raw-sketch", "--epsilon", 1, "--keys-are-public", "-o", "a.parquet", cwd=sales)
    assert ss.load(sales / "a.parquet").guarantee.neighbours == agreement.neighbours
    assert ss.bound(pa.csv.read_csv(sales / "sold.csv"), agreement) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--l1", "5"], "No such option: --l1"),
        (["--unit-column", "shop"], "No such option: --unit-column"),
        (["--format", "csv"], "No such option: --format. Write --set format=csv|jsonl|parquet"),
        (["--set", "bad-lines=skip"], "give --assert-bounds"),
        (["--assert-bounds", "--summary", "told.json"], "nothing is clipped here"),
    ],
)
def test_options_against_an_agreement_are_refused(options: list[str], said: str, sales: Path, forks: Forks) -> None:
    forks.succeeded("agree", *AGREED, "--l1", "50", "-o", "sales.json", cwd=sales)
    sketch = ["sketch", "sold.csv", "--agreement", "sales.json", "-o", "a.raw-sketch", *options]
    assert said in forks.refused(*sketch, cwd=sales)
