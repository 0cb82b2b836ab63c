"""``streamsketch plan``, through the real executable."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.report import picture_of_keys
from tests.cli.running import Forks

ASKED = ("plan", "--epsilon", 1, "--squared-distance", 4000, "--unit", "flight", "--relative-error", 0.25)


def test_a_plan_is_printed_within_eighty_columns(forks: Forks) -> None:
    done = forks.run(*ASKED)
    assert done.returncode == 0
    plan = ss.plan(
        ss.planning.StreamFacts(squared_distances=4000),
        epsilon=1.0,
        neighbours=ss.L1(1, unit="flight"),
        goal=ss.planning.Goal(relative_error=0.25),
    )
    assert done.stdout == f"{plan}\n"
    assert "Plan: CountSketch with k = 512 cells" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_plan_in_json_makes_a_projection_with_any_seed(forks: Forks) -> None:
    options = (
        "--dim",
        5000,
        "--delta",
        1e-6,
        "--one-coordinate",
        "5/2",
        "--step",
        "1/2",
        "--accept",
        "--json",
    )
    done = forks.run(*ASKED, *options)
    assert done.returncode == 0
    plan = json.loads(done.stdout)
    projection = ss.projections.Projection.from_json(json.dumps(plan["projection"] | {"seed": 7}))
    assert projection.dim == 5000
    assert plan["guarantee"]["relation"] == "one-coordinate"
    assert plan["guarantee"]["bound"] == "5/2"


def test_a_plan_for_a_euclidean_bound(forks: Forks) -> None:
    options = ("--dim", 1000, "--delta", 1e-6, "--l2", "3/2", "--accept", "--json")
    plan = json.loads(forks.succeeded(*ASKED, *options))
    assert (plan["guarantee"]["relation"], plan["guarantee"]["bound"]) == ("l2", "3/2")


def test_a_plan_says_when_nothing_can_be_told_apart(tmp_path: Path, forks: Forks) -> None:
    hopeless = forks.run("plan", "--epsilon", 1e-6, "--squared-distance", 100, cwd=tmp_path).stdout
    assert "such streams cannot be distinguished" in " ".join(hopeless.split())
    assert "distinguished" not in forks.run("plan", "--epsilon", 1, "--squared-distance", 1e5, cwd=tmp_path).stdout
    asked: dict[str, Any] = {
        "streams": ss.planning.StreamFacts(squared_distances=[40, 50, 1e6]),
        "neighbours": ss.L1(1),
    }
    plan = ss.plan(epsilon=0.5, **asked)
    assert plan.epsilon_to_see is not None
    text = " ".join(str(plan).split())
    assert "Squared distances of 40 and 50 are smaller than their errors" in text
    assert f"To distinguish them takes ε = {plan.epsilon_to_see:g} instead of 0.5" in text
    assert plan.to_dict()["epsilon_to_see"] == plan.epsilon_to_see
    seen = ss.plan(epsilon=plan.epsilon_to_see, **asked)
    assert (seen.chosen.error <= 1, seen.epsilon_to_see) == (True, None)
    assert ss.plan(epsilon=plan.epsilon_to_see / 1.2, **asked).chosen.error > 1


def test_a_plan_leaves_a_projection_to_sketch_by(tmp_path: Path, forks: Forks) -> None:
    for seed in ([], ["--seed", 7]):
        agreed = tmp_path / f"agreed{len(seed)}.json"
        done = forks.run(*ASKED, "--write-projection", agreed, *seed, cwd=tmp_path)
        assert done.returncode == 0
        projection = ss.projections.Projection.from_json(agreed.read_bytes())
        assert isinstance(projection, ss.CountSketch)
        assert projection.sketch_dim == 512
        assert projection.seed == 7 or not seed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--epsilon", 1, "--events", 9, "--dim", "many"), "dim must be a whole number or 'hashed', got 'many'"),
        (("--epsilon", 0, "--events", 9), "epsilon must be a finite number > 0"),
        (
            ("--epsilon", 1, "--events", 9, "--seed", 7),
            "a seed belongs to what --write-projection FILE or --write-agreement FILE writes",
        ),
        (("--epsilon", 1, "--events", 9, "--write-projection", "agreed.txt"), "written to a file named *.json"),
        (("--epsilon", 1, "--events", 9, "--write-agreement", "agreed.txt"), "written to a file named *.json"),
        (("--epsilon", 1), "a plan needs squared_distances"),
        (("--epsilon", 1, "--events", 9, "--l1", "x"), "must be a finite number"),
        (("--epsilon", 1, "--events", 9, "--l1", 1, "--l2", 1), "--l1 and --l2 each state"),
        (("--epsilon", 1, "--events", 9, "--l2", 1), "L2 neighbours need a map whose spectral norm"),
        (("--epsilon", 1, "--events", 9, "--confidence", 95), "confidence must lie in"),
        (("--epsilon", 1, "--squared-distance", 9, "--step", 0), "step must be a positive fraction"),
        (
            ("--epsilon", 1, "--events", 9, "--dim", 7, "--max-cells", 5),
            "no sketch has at most 5 cells; raise max_cells to 7 or more",
        ),
        (
            ("--epsilon", 1, "--events", 9, "--max-cells", 1),
            "no sketch has at most 1 cell; raise max_cells to 16 or more",
        ),
    ],
)
def test_mistakes_are_sentences(arguments: tuple[object, ...], message: str, forks: Forks, tmp_path: Path) -> None:
    assert message in forks.refused("plan", *arguments, cwd=tmp_path)


def test_a_plan_that_misses_its_goal_writes_no_agreement_unless_told(tmp_path: Path, forks: Forks) -> None:
    asked = (
        "plan",
        "--epsilon",
        0.01,
        "--squared-distance",
        4000,
        "--relative-error",
        0.25,
        "--write-projection",
        "a.json",
    )
    missed = forks.run(*asked, cwd=tmp_path)
    assert missed.returncode == 1
    assert "The goal is missed, and a.json is not written: the predicted error is" in missed.stderr
    assert missed.stdout.startswith("Plan: ")
    assert not list(tmp_path.iterdir())
    assert forks.run(*asked[:-2], "--json", cwd=tmp_path).returncode == 1
    assert forks.run(*asked, "--accept", cwd=tmp_path).returncode == 0
    ss.projections.Projection.from_json((tmp_path / "a.json").read_bytes())


UNITS = ("plan", "--epsilon", 1, "--delta", 1e-6, "--unit", "customer", "--max-cells", 4096, "--max-nonzeros", 1)
TYPICAL = (*UNITS, "--items", "10,40,160", "--in-keys", 3, "--units", "500,3000")


def test_a_plan_for_whole_units_is_that_of_python(forks: Forks) -> None:
    typical = ss.planning.TypicalUnit(items=[10, 40, 160], keys=3)
    plan = ss.planning.plan_units(
        typical, epsilon=1, delta=1e-6, unit="customer", units=[500, 3000], max_cells=4096, max_nonzeros=1
    )
    assert forks.succeeded(*TYPICAL) == f"{plan}\n"
    assert json.loads(forks.succeeded(*TYPICAL, "--json")) == json.loads(json.dumps(plan.to_dict()))
    points = forks.succeeded(*TYPICAL, "--question", "point", "--match", 0.02, "--cosine", 0.1, "--bounds", "5,20")
    assert "Predicted error of the amount of one item in a sum" in points


def test_a_plan_from_a_sample_leaves_an_agreement_on_units(tmp_path: Path, forks: Forks) -> None:
    rows = {"who": [1, 1, 2, 2, 3], "shop": ["a", "b", "a", "b", "a"], "item": [7, 8, 7, 9, 8], "paid": [1.5] * 5}
    pq.write_table(pa.table(rows), tmp_path / "last-year.parquet")
    columns = ("--unit-column", "who:integer", "--key", "shop", "--index", "item:integer", "--value", "paid")
    asked = (*UNITS, "--sample", "last-year.parquet", *columns, "--units", 4000, "--write-agreement", "agreed.json")
    shown = forks.succeeded(*asked, cwd=tmp_path)
    assert "Assumed: a public sample of 3 customers" in shown
    agreement = ss.Agreement.load(tmp_path / "agreed.json")
    assert (str(agreement.unit), agreement.value) == ("who:integer", "paid")
    assert agreement.neighbours is not None
    assert agreement.neighbours.unit == "customer"
    assert agreement.clip is not None
    assert agreement.counting is not None


KEYS = {"France": 900, "Korea, South": 60, "007": 3}


@pytest.fixture(scope="module")
def plan_of_keys() -> ss.planning.UnitPlan:
    typical = ss.planning.TypicalUnit(items=20)
    return ss.planning.plan_units(
        typical, epsilon=1, delta=1e-6, unit="customer", units=KEYS, max_cells=4096, max_nonzeros=1
    )


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("keys.csv", ("key", "units")),
        ("keys.parquet", ("country", "customers")),
        ("keys.csv", ("units", "rank", "key")),
        ("bare.csv", ()),  # without names of columns
    ],
)
def test_a_file_of_keys_says_which_stand_out(
    file: str, columns: tuple[str, ...], plan_of_keys: ss.planning.UnitPlan, tmp_path: Path, forks: Forks
) -> None:
    values = dict(zip(("units", "rank", "key"), (KEYS.values(), [1, 2, 3], KEYS), strict=True))
    rows = {name: list(values.get(name, KEYS if name == "country" else KEYS.values())) for name in columns}
    if file == "bare.csv":
        (tmp_path / file).write_text('France,900\n"Korea, South",60\n007,3\n')
    elif file == "keys.parquet":
        pq.write_table(pa.table(rows), tmp_path / file)
    else:
        pc.write_csv(pa.table(rows), tmp_path / file)
    asked = (*UNITS, "--items", 20, "--keys", file)
    assert forks.succeeded(*asked, "--picture", "keys.svg", cwd=tmp_path) == f"{plan_of_keys}\n"
    assert (tmp_path / "keys.svg").read_text() == picture_of_keys(plan_of_keys)
    if columns == ("key", "units"):
        fields = json.loads(forks.succeeded(*asked, "--json", cwd=tmp_path))
        assert [(key["key"], key["units"]) for key in fields["keys"]] == list(KEYS.items())


def test_a_plan_for_signs_is_that_of_python(forks: Forks) -> None:
    asked = ("plan", "--question", "neighbours", "--epsilon", 2, "--members", 5_000, "--unit", "word")
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1))
    projection = ss.projections.OPORP(dim=HASHED_DIM, sketch_dim=256, seed=0)
    plan = ss.planning.plan_signs(publish, projection, members=5_000, signs=[32, 64])
    found = forks.succeeded(*asked, "--signs", "32,64", "--json")
    assert json.loads(found)["options"] == json.loads(json.dumps(plan.to_dict()))["options"]
    narrow = (*asked, "--one-coordinate", 1, "--cosine", "0.7,0.9", "--rest", 0.1, "--nearest", 4, "--top", 20)
    shown = forks.succeeded(*narrow, "--signs", "64", "--exact-query")
    more: dict[str, Any] = {"cosine": [0.7, 0.9], "rest": 0.1, "nearest": 4, "top": 20, "exact_query": True}
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1, unit="word"))
    assert shown == f"{ss.planning.plan_signs(publish, projection, members=5_000, signs=[64], **more)}\n"
    logistic = ("--mechanism", "DP-Sign-logistic", "--l1", 1, "--norm", 100, "--dim", 5_000, "--signs", 32)
    assert "DP-Sign-logistic" in forks.succeeded(*asked, *logistic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--question", "neighbours"), "state how many vectors the collection has: --members 100000"),
        (
            ("--question", "neighbours", "--members", 9, "--items", 3),
            "--items: not an option for --question neighbours",
        ),
        (("--question", "neighbours", "--members", 9, "--mechanism", "laplace"), "the mechanism of signs must be one"),
        (("--question", "neighbours", "--members", 90, "--signs", 1.5), "must be an integer"),
        (("--question", "neighbours", "--members", 90, "--rest", "few"), "--rest takes numbers with commas"),
        (("--squared-distance", 9, "--members", 9), "--members: these are about published signs"),
        (("--items", 5, "--units", 9, "--exact-query"), "--exact-query: these are about published signs"),
    ],
)
def test_mistakes_about_signs_are_sentences(
    arguments: tuple[object, ...], message: str, forks: Forks, tmp_path: Path
) -> None:
    assert message in forks.refused("plan", "--epsilon", 1, *arguments, cwd=tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("key,units\na,5\nb,many\n", "the number of units in row 2 of keys.csv is not a number, got 'many'"),
        ("a,b,c\n1,2,3\n", "keys.csv must have columns key and units, or two columns in this order, got 'a', 'b', 'c'"),
        ("key,units\na,5\na,6\n", "keys.csv has 2 rows and 1 different keys: one row a key"),
        ("key,units\na,0\n", "units must be a number from 1"),
        ("key,units\n", "units must be a number from 1"),
        ('key,units\n"a\nb,5\n', "keys.csv is not a CSV or Parquet file of keys"),
        ("", "keys.csv is not a CSV or Parquet file of keys"),
    ],
)
def test_files_that_hold_no_keys_are_refused(rows: str, message: str, tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "keys.csv").write_text(rows)
    assert message in forks.refused(*UNITS, "--items", 20, "--keys", "keys.csv", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--items", 5, "--units", 9, "--keys", "a.csv"), "--units and --keys both state how many units a key has"),
        (("--items", 5, "--units", 9, "--picture", "a.png"), "written to a file named *.svg"),
        (("--items", 5, "--units", 9, "--question", "point", "--picture", "a.svg"), "keys are lost for cosines and"),
        (("--keys", "a.csv"), "--keys: these are about whole units; give --items or --sample, too"),
        (
            ("--in-keys", 3, "--units", 9),
            "--in-keys, --units: these are about whole units; give --items",
        ),
        (("--items", "many", "--units", 9), "--items takes numbers with commas, such as 3,10,40, got 'many'"),
        (("--items", 5), "the number of units in a key is missing"),
        (("--items", 5, "--units", 9, "--l1", 5), "--l1: for distances between streams; with --items"),
        (("--items", 5, "--units", 9, "--question", "sum"), "question must be one of cosine, distance, mean, point"),
        (("--items", 5, "--sample", "a.parquet"), "--items and --sample both state what a unit adds"),
        (("--sample", "a.parquet", "--in-keys", 3), "--in-keys: --sample says what units add"),
        (("--sample", "a.parquet"), "name the columns of the sample"),
        (("--sample", "a.parquet", "--index", "item", "--unit-column", "who"), "a.parquet"),
        (("--items", 5, "--index", "item", "--units", 9), "an agreement names the columns"),
        (
            ("--items", 5, "--units", 9, "--index", "item", "--write-agreement", "b.json"),
            "an agreement on whole units names their column",
        ),
    ],
)
def test_mistakes_about_units_are_sentences(
    arguments: tuple[object, ...], message: str, forks: Forks, tmp_path: Path
) -> None:
    assert message in forks.refused("plan", "--epsilon", 1, *arguments, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_frequencies_of_sizes_and_the_cosine_reach_the_plan(forks: Forks) -> None:
    call = "plan --items 3,10 --shares 0.9,0.1 --cosine 0.9 --units 500 --epsilon 1 --delta 1e-6 --max-cells 256"
    units = ss.planning.TypicalUnit(items=(3, 10), shares=(0.9, 0.1), cosine=0.9)
    found = ss.planning.plan_units(units, units=500, unit="event", epsilon=1, delta=1e-6, max_cells=256)
    assert json.loads(forks.succeeded(*call.split(), "--json"))["chosen"]["error"] == found.to_dict()["chosen"]["error"]
    assert "a cosine of 0.9" in " ".join(forks.succeeded(*call.split()).split())
