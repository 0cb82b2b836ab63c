"""Sites compared by features in the shell: agreed on, described, compared and watched, as the library does it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.features import Category, Embedding, Number
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.running import Forks

FEATURES = ss.Features(
    {
        "age": Number(0, 110),
        "sex": Category(["F", "M"]),
        "code": Category(hashed=8),
        "scan": Embedding(2, waves=2, weight=2),
    },
    seed=7,
    joint=2,
)
WRITTEN = {
    "columns": [
        {"name": "age", "kind": "number", "low": 0, "high": 110},
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
        {"name": "code", "kind": "category", "hashed": 8},
        {"name": "scan", "kind": "embedding", "size": 2, "waves": 2, "weight": 2},
    ],
    "seed": 7,
    "joint": 2,
}
"""As somebody writes it: fields that have a default are left out."""


def people(first: int, count: int, age: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "patient": list(numbers),
            "age": [age + number % 20 for number in numbers],
            "sex": ["FM"[number % 2] for number in numbers],
            "code": [f"E{number % 5}" for number in numbers],
            "scan": [[1.0, number % 3] for number in numbers],
        }
    )


ROWS = people(0, 300, 40)
AGREEMENT = ss.agree(ROWS, features=FEATURES, unit="patient")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    (tmp_path / "features.json").write_text(json.dumps(WRITTEN))
    AGREEMENT.save(tmp_path / "agreed.json")
    return tmp_path


AGREE = ["agree", "--features", "features.json", "--unit-column", "patient:integer", "-o", "a.json"]


def test_an_agreement_on_features_is_that_of_python(folder: Path, forks: Forks) -> None:
    shown = forks.succeeded("agree", "rows.parquet", *AGREE[1:4], "patient", "-o", "a.json", cwd=folder)
    assert ss.Agreement.load(folder / "a.json") == AGREEMENT
    assert max(map(len, shown.splitlines())) <= 80
    for text in ("number from 0 to 110", "category: F, M", "hashed into 8 features", "2 waves, weight 2", "(joint)"):
        assert text in shown
    (folder / "whole.json").write_text(FEATURES.to_json())
    whole = ["agree", "--features", "whole.json", *AGREE[3:5], "-o", "b.json", "--json"]
    assert json.loads(forks.succeeded(*whole, cwd=folder))["fingerprint"] == AGREEMENT.fingerprint
    (folder / "features.json").write_text(json.dumps({"columns": WRITTEN["columns"]}))
    for name, seed in (("c", []), ("d", []), ("e", ["--set", "seed=5"])):
        forks.succeeded(*AGREE[:-1], f"{name}.json", *seed, cwd=folder)
    drawn = [ss.Agreement.load(folder / f"{name}.json").features for name in "cde"]
    assert len({one.seed for one in drawn if one is not None}) == 3
    assert drawn[2] == ss.Features(FEATURES.columns, seed=5)


def test_rows_are_sketched_by_it(folder: Path, forks: Forks) -> None:
    forks.succeeded("sketch", "rows.parquet", "--agreement", "agreed.json", "-o", "a.raw-sketch", cwd=folder)
    assert ss.storage.load_raw(folder / "a.raw-sketch").state == ss.bound(ROWS, AGREEMENT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": None}, "the number 'age' needs low and high, the ends of a range that is public"),
        ({"kind": "category", "low": None, "high": None}, "the category 'age' needs values, the list of its"),
        ({"kind": "embedding", "low": None, "high": None}, "the embedding 'age' needs size, how many numbers"),
        ({"kind": "date"}, "an object whose kind is one of number, category, embedding"),
        ({"weigh": 2}, "have the fields high, low, moments, weight, got"),
        ({"low": 200}, "low must be below high, got 200.0 and 110.0"),
    ],
)
def test_a_column_that_is_not_whole_is_refused(
    change: dict[str, Any], message: str, folder: Path, forks: Forks
) -> None:
    column = {name: value for name, value in (WRITTEN["columns"][0] | change).items() if value is not None}  # type: ignore[index]
    (folder / "features.json").write_text(json.dumps(WRITTEN | {"columns": [column]}))
    refused = forks.refused(*AGREE, cwd=folder)
    assert "features.json does not hold features: " in refused
    assert message in refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "seed=5"], "it has the seed 7: leave out --set seed"),
        (["--set", "count=no"], "their number must be published: give --set count=yes"),
        (["--key", "ward"], "their number must be published: give --max-keys, in how many keys a unit may be"),
        (["--index", "item", "--l1", 5], "rows have length 1 whatever they hold: leave out --l1, --index"),
        (["--features", "agreed.json"], "agreed.json does not hold features: it is an agreement already"),
        (["--features", "list.json"], "list.json does not hold features: it has no list of columns"),
        (["--features", "rows.parquet"], "rows.parquet does not hold features: features must be one JSON object"),
        (["other.parquet"], "other.parquet has no column code; the names of its other columns are not shown"),
        (["lists.parquet"], "the column age holds list<element: double>, which is not a number"),
    ],
)
def test_mistakes_of_agreeing_are_sentences(arguments: list[object], message: str, folder: Path, forks: Forks) -> None:
    pq.write_table(ROWS.rename_columns(["patient", "age", "sex", "codes", "scan"]), folder / "other.parquet")
    pq.write_table(ROWS.set_column(1, "age", ROWS["scan"]), folder / "lists.parquet")
    (folder / "list.json").write_text('{"columns": {"age": {"kind": "number"}}}')
    assert message in forks.refused(*AGREE, *arguments, cwd=folder)


def test_units_are_needed(folder: Path, forks: Forks) -> None:
    refused = forks.refused(*AGREE[:3], *AGREE[5:], cwd=folder)
    assert "state which column names them: --unit-column patient" in refused


SITES = {"north": ROWS, "south": people(300, 400, 40), "west": people(700, 300, 70)}
NOISE = {"epsilon": 20.0, "delta": 1e-6, "neighbours": AGREEMENT.neighbours}


@pytest.fixture(scope="module")
def releases() -> dict[str, ss.PrivateSketch]:
    """Return the releases of three sites, of which west's people are 30 years older, with little noise."""
    bits = KeyedBits(bytes(32), b"sites")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
        found: dict[str, ss.PrivateSketch] = {
            name: ss.bound(rows, AGREEMENT).release(**NOISE) for name, rows in SITES.items()
        }
        return found


@pytest.fixture
def sites(folder: Path, releases: dict[str, ss.PrivateSketch]) -> Path:
    for name, release in releases.items():
        release.save(folder / f"{name}.sketch")
    ss.agree(ROWS, ss.SJLT(sketch_dim=64, sparsity=4, seed=5), index="code", unit="patient").save(folder / "items.json")
    AGREEMENT.replace(title="Other").save(folder / "other.json")
    return folder


FILES = [f"{name}.sketch" for name in SITES]
BY = ["--agreement", "agreed.json"]


def test_people_are_described_as_by_the_library(
    sites: Path, releases: dict[str, ss.PrivateSketch], forks: Forks
) -> None:
    asked = ["describe", *FILES, *BY, "--share", "code=E1", "--share", "code=E3", "--confidence", "0.9"]
    shown = json.loads(forks.succeeded(*asked, "--json", cwd=sites))
    assert [one["of"] for one in shown] == list(SITES)
    for one, release in zip(shown, releases.values(), strict=True):
        table = ss.estimation.describe(release, AGREEMENT, shares={"code": ["E1", "E3"]}, confidence=0.9)
        rows = [{("error" if at == "standard_error" else at): row[at] for at in row} for row in one["measures"]]
        assert rows == table.to_pylist()
        assert one["units"]["value"] == release.units.value
    text = forks.succeeded(*asked, "--only", "[nw]*", cwd=sites)
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.split() for line in text.splitlines()]
    (number,) = [place for place, line in enumerate(lines) if line[:2] == ["patient", "number"]]
    assert [line[0] for line in lines[number + 1 : number + 3]] == ["west", "age"]
    (mean,) = [place for place, line in enumerate(lines) if line[:2] == ["age", "mean"]]
    assert lines[mean][2:5] == ["north", f"{releases_mean(releases['north']):.2f}", "±"]
    assert "west" in forks.succeeded("describe", "west.sketch", *BY, "--column", "sex", cwd=sites).splitlines()[0]


def releases_mean(release: ss.PrivateSketch) -> float:
    return float(ss.estimation.describe(release, AGREEMENT)["estimate"][0].as_py())


def test_a_mean_at_the_end_of_its_range_is_said(sites: Path, forks: Forks) -> None:
    far = ROWS.set_column(1, "age", pa.array([999] * len(ROWS)))
    save_raw(RawSketch(ss.bound(far, AGREEMENT), 300), sites / "far.raw-sketch")
    asked = ["describe", "far.raw-sketch", *BY]
    assert "give --raw to read it all the same" in forks.refused(*asked, cwd=sites)
    done = forks.run(*asked, "--raw", "--column", "age", cwd=sites)
    assert "the mean of age is at the end 110 of its range" in done.stderr
    assert "as secret as they are" in done.stderr
    (fields,) = json.loads(forks.succeeded(*asked, "--raw", "--json", cwd=sites))
    assert fields["secret"]
    assert fields["units"]["value"] == 300


def test_sites_that_are_too_small_have_no_averages(sites: Path, forks: Forks) -> None:
    few = ss.bound(ROWS.slice(0, 2), AGREEMENT).release(**NOISE | {"epsilon": 0.01})
    few.save(sites / "few.sketch")
    done = forks.run("describe", "few.sketch", "north.sketch", *BY, cwd=sites)
    assert "undefined" in done.stdout
    assert "two standard errors of zero" in done.stderr
    assert done.stderr.rstrip().endswith(": few.")
    (fields,) = json.loads(forks.succeeded("describe", "few.sketch", *BY, "--json", cwd=sites))
    assert {row["low"] for row in fields["measures"]} == {row["estimate"] for row in fields["measures"]} == {None}


@pytest.mark.parametrize("clip", ["average", "equal"])
def test_people_with_several_rows_are_averaged_or_not_described(clip: Any, tmp_path: Path, forks: Forks) -> None:
    again = people(301, 300, 60).set_column(0, "patient", ROWS["patient"])
    agreement = ss.agree(ROWS, features=AGREEMENT.features, unit="patient", clip=clip)
    agreement.save(tmp_path / "agreed.json")
    for name, rows in (("twice", pa.concat_tables([ROWS, again])), ("north", ROWS)):
        ss.bound(rows, agreement).release(**NOISE).save(tmp_path / f"{name}.sketch")
    done = forks.run("describe", "twice.sketch", "north.sketch", *BY, "--column", "age", cwd=tmp_path)
    apart = forks.run("compare", "twice.sketch", "north.sketch", *BY, cwd=tmp_path)
    if clip == "average":
        assert (done.stdout.count("undefined"), done.stderr, apart.returncode) == (0, "", 0)
    else:
        assert done.stdout.count("undefined") == 3
        assert "people have several rows and these were not averaged: twice. In agreements" in done.stderr
        assert apart.returncode == 2
        assert "some units have several rows" in apart.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agreement", "items.json"], "items.json has no features, so its releases are of items: frequency shows"),
        (["--agreement", "other.json"], "north and other.json: the agreements differ: fingerprint"),
        (["--share", "E1"], "--share takes COLUMN=VALUE, such as diagnosis=E11, got E1"),
        (["--share", "cod=E1"], "which are code; got cod=E1. Did you mean code?"),
        (["--share", "sex=F"], "the categories of sex are listed in the agreement, and all their shares shown"),
        (["--column", "ages"], "there is no column ages; columns are age, sex, code, scan. Did you mean age?"),
        (["--only", "east"], "--only east leaves no sketch, and describe needs at least 1"),
    ],
)
def test_mistakes_of_describing_are_sentences(arguments: list[str], message: str, sites: Path, forks: Forks) -> None:
    assert message in forks.refused("describe", *FILES, *BY, *arguments, cwd=sites)


def by_names(shown: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(pair["first"], pair["second"]): pair for pair in shown}


def test_populations_are_compared_as_by_the_library(
    sites: Path, releases: dict[str, ss.PrivateSketch], forks: Forks
) -> None:
    shown = json.loads(forks.succeeded("compare", *FILES, *BY, "--json", cwd=sites))
    found = by_names(shown)
    assert list(found) == [("north", "south"), *sorted(list(found)[1:], key=lambda pair: found[pair]["discrepancy"])]
    for (first, second), pair in found.items():
        x, y = releases[first], releases[second]
        estimate = ss.estimation.mmd(x, y, AGREEMENT)
        assert (pair["discrepancy"], pair["standard_error"]) == (estimate.value, estimate.standard_error)
        assert (pair["low"], pair["high"]) == estimate.interval(0.95)
        assert pair["p_value"] == ss.sameness(x, y, by="mean", samples=True).p_value
        rows = ss.estimation.column_differences(x, y, AGREEMENT, samples=True).to_pylist()
        columns = {row.pop("column"): row for row in pair["columns"]}
        assert {name: row["low"] for name, row in columns.items()} == {row["column"]: row["low"] for row in rows}
        assert {name for name, row in columns.items() if row["differs"]} == (
            set() if (first, second) == ("north", "south") else {"age", "(joint)"}
        )
    (nearest,) = json.loads(forks.succeeded("compare", *FILES, *BY, "--top", 1, "--together", "--json", cwd=sites))
    assert nearest["candidates"] == 3
    # Holm's, of three: the largest of them stays as it is
    assert nearest["p_value"] == found["north", "south"]["p_value"]
    ends = ss.estimation.mmd(releases["north"], releases["south"], AGREEMENT).selected_interval(3)
    assert (nearest["low"], nearest["high"]) == ends


def test_people_see_pairs_and_the_columns_of_the_farthest(sites: Path, forks: Forks) -> None:
    done = forks.run("compare", *FILES, *BY, cwd=sites)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].split()[:3] == ["north", "–", "south"]
    (title,) = [place for place, line in enumerate(lines) if "column by column" in line]
    pair = lines[title].split(",")[0]
    assert pair == " ".join(lines[4].split()[:3]), "the farthest pair"
    assert [line.split()[-1] for line in lines[title + 4 : title + 6]] == ["differs", "differs"]
    assert f"{pair.replace(' –', ' and')} are shown to differ in 2 of 5 rows." in " ".join(done.stderr.split())
    assert "Of 3 pairs this is the one farthest apart" in done.stderr
    assert "--together allows for all" in done.stderr
    two = forks.run("compare", *FILES, *BY, "--only", "[ns]*", cwd=sites)
    assert "north and south are shown to differ in 0 of 5 rows." in two.stderr
    assert "--together" not in two.stderr


def test_a_population_without_average_is_named(sites: Path, forks: Forks) -> None:
    drawn = (ss.bound(ROWS.slice(0, 2), AGREEMENT).release(**NOISE | {"epsilon": 0.01}) for _ in range(20))
    few = next(one for one in drawn if one.units.value < 2 * one.units.standard_error)  # the first, in most runs
    few.save(sites / "few.sketch")
    files = ["few.sketch", *FILES[:2]]
    done = forks.run("compare", *files, *BY, cwd=sites)
    assert "north – south, column by column" in done.stdout
    assert done.stdout.count("undefined") == 2
    assert done.stderr.rstrip().endswith(": few.")
    shown = by_names(json.loads(forks.succeeded("compare", *files, *BY, "--json", cwd=sites)))
    assert shown["few", "north"] == {"first": "few", "second": "north"} | dict.fromkeys(
        ["discrepancy", "p_value", "columns"]
    )
    none = forks.run("compare", *files[:2], *BY, "--together", cwd=sites)
    assert none.returncode == 0, none.stderr
    assert "column by column" not in none.stdout


def test_other_measures_and_agreements_stay(sites: Path, releases: dict[str, ss.PrivateSketch], forks: Forks) -> None:
    means = json.loads(forks.succeeded("compare", *FILES[:2], *BY, "--by", "mean", "--json", cwd=sites))
    x, y = releases["north"], releases["south"]
    assert means[0]["mean_distance"] == ss.estimation.mean_distance(x, y).value
    assert "give --agreement FILE" in forks.run("compare", *FILES, cwd=sites).stderr
    save_raw(RawSketch(ss.bound(ROWS, AGREEMENT), 300), sites / "own.raw-sketch")
    done = forks.run("compare", "own.raw-sketch", "south.sketch", "--raw", *BY, cwd=sites)
    assert "as secret as they are" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agreement", "other.json"], "north and other.json: the agreements differ: fingerprint"),
        (["--agreement", "other.json", "--by", "mean"], "north and other.json: the agreements differ: fingerprint"),
        (["--agreement", "items.json"], "--agreement is for what separates two streams: give --why DICTIONARY"),
        ([*BY, "--why", "a.csv"], "agreed.json has features, which are no items: leave out --why"),
        ([*BY, "--set", "picture=a.svg", "--set", "index=a"], "no items: leave out --set index, --set picture"),
        ([*BY, "--top", "0"], "--top must be at least 1, got 0"),
    ],
)
def test_mistakes_of_comparing_are_sentences(arguments: list[str], message: str, sites: Path, forks: Forks) -> None:
    assert message in forks.refused("compare", *FILES, *arguments, cwd=sites)


MONTHS = ["2024-01", "2024-02", "2024-03"]


@pytest.fixture
def months(sites: Path, releases: dict[str, ss.PrivateSketch]) -> Path:
    """Return a folder with three months, in the last of which people are older."""
    (sites / "months").mkdir()
    for window, release in zip(MONTHS, releases.values(), strict=True):
        release.save(sites / f"months/{window}.sketch")
    return sites


def test_drift_is_of_populations_and_names_columns(
    months: Path, releases: dict[str, ss.PrivateSketch], forks: Forks
) -> None:
    (found,) = json.loads(forks.succeeded("changes", "months", *BY, "--json", cwd=months))
    expected = ss.changes(dict(zip(MONTHS, releases.values(), strict=True)), by="mean", samples=True)
    assert (found["by"], found["samples"], found["alarms"]) == ("mean", True, ["2024-03"])
    assert [row["p_value"] for row in found["windows"]] == expected.table["p_value"].to_pylist()
    quiet, alarm = found["windows"]
    assert "columns" not in quiet
    rows = ss.estimation.column_differences(releases["west"], releases["south"], AGREEMENT, samples=True).to_pylist()
    assert {row["column"]: row["low"] for row in alarm["columns"]} == {row["column"]: row["low"] for row in rows}
    assert {row["column"] for row in alarm["columns"] if row["differs"]} == {"age", "(joint)"}
    text = forks.succeeded("changes", "months", *BY, cwd=months)
    assert max(map(len, text.splitlines())) <= 80
    columns = text.partition("columns that changed most clearly")[2].split()
    assert {"2024-03", "age", "(joint)"} < set(columns)
    assert "code" not in columns
    (sums,) = json.loads(forks.succeeded("changes", "months", *BY, "--by", "distance", "--json", cwd=months))
    assert (sums["by"], sums["samples"]) == ("distance", False)
    (people,) = json.loads(forks.succeeded("changes", "months", *BY, "--set", "samples=no", "--json", cwd=months))
    assert (people["by"], people["samples"]) == ("mean", False)
    assert "give --agreement FILE" in forks.run("changes", "months", cwd=months).stderr


@pytest.mark.parametrize(
    ("agreement", "message"),
    [
        ("other.json", "2024-01 and other.json: the agreements differ: fingerprint"),
        ("items.json", "items.json has no features, so its releases are of items"),
    ],
)
def test_mistakes_of_drift_are_sentences(agreement: str, message: str, months: Path, forks: Forks) -> None:
    assert message in forks.refused("changes", "months", "--agreement", agreement, cwd=months)
