"""``streamsketch plan``, through the real executable."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.cli._planning import MECHANISMS
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.report import picture_of_keys
from tests.cli.running import Forks

ASKED = ("plan", "streams", "--epsilon", 1, "--squared-distance", 4000, "--unit", "flight", "--relative-error", 0.25)


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
        "--set",
        "dim=5000",
        "--delta",
        1e-6,
        "--set",
        "l1=5/2",
        "--set",
        "step=1/2",
        "--set",
        "accept=yes",
        "--json",
    )
    done = forks.run(*ASKED, *options)
    assert done.returncode == 0
    plan = json.loads(done.stdout)
    projection = ss.projections.Projection.from_json(json.dumps(plan["projection"] | {"seed": 7}))
    assert projection.dim == 5000
    assert plan["guarantee"]["relation"] == "l1"
    assert plan["guarantee"]["bound"] == "5/2"


def test_a_plan_says_when_nothing_can_be_told_apart(tmp_path: Path, forks: Forks) -> None:
    hopeless = forks.run("plan", "streams", "--epsilon", 1e-6, "--squared-distance", 100, cwd=tmp_path).stdout
    assert "such streams cannot be distinguished" in " ".join(hopeless.split())
    assert (
        "distinguished"
        not in forks.run("plan", "streams", "--epsilon", 1, "--squared-distance", 1e5, cwd=tmp_path).stdout
    )
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


@pytest.mark.parametrize(
    ("stated", "keys"),
    [
        (None, None),
        ("public-key=north,south", ("north", "south")),
        ("keys-are-public=yes", "public"),
    ],
)
def test_a_plan_leaves_an_agreement_to_release_by(stated: str | None, keys: Any, tmp_path: Path, forks: Forks) -> None:
    keyed = () if stated is None else ("--set", "key=carrier:text", "--set", stated)
    columns = ("--index", "route", "--set", "value=seats", *keyed)
    forks.succeeded(*ASKED, *columns, "-o", "agreed.json", cwd=tmp_path)
    agreed = ss.Agreement.load(tmp_path / "agreed.json")
    assert isinstance(agreed.projection, ss.CountSketch)
    assert agreed.projection.sketch_dim == 512
    assert agreed.neighbours == ss.L1(1, unit="flight")
    assert (str(agreed.index[0]), agreed.value) == ("route:text", "seats")
    assert (agreed.terms, agreed.keys) == (ss.Terms(epsilon=1), keys)
    rows = {"route": ["a", "b"], "seats": [1, 1]} | ({} if keys is None else {"carrier": ["north", "south"]})
    assert agreed.release(pa.table(rows)).guarantee.epsilon == 1


def test_a_plan_with_a_key_column_says_which_keys_are_published(tmp_path: Path, forks: Forks) -> None:
    refused = forks.refused(*ASKED, "--index", "a", "--set", "key=b", "-o", "agreed.json", cwd=tmp_path)
    assert "which keys have data is private: give --set public-key=KEY,…" in refused
    assert not (tmp_path / "agreed.json").exists()
    keys = ("--set", "keys-are-public=yes")
    for asked in ((), ("--index", "a", "-o", "agreed.json")):
        assert "name both, --output FILE and the column of keys" in forks.refused(*ASKED, *asked, *keys, cwd=tmp_path)


def test_a_plan_for_units_leaves_a_share_to_the_choice_of_keys(tmp_path: Path, forks: Forks) -> None:
    """The sketch is planned at what is left, and the agreement states the whole."""
    asked = ("plan", "units", "--items", 20, "--units", 900, "--unit", "who:integer", "--json")
    columns = ("--index", "item:integer", "--key", "shop", "-o", "agreed.json")
    share = ("--set", "select-keys=0.5,0.0000005")
    spent = ("--epsilon", 1, "--delta", 1e-6)
    selected = json.loads(forks.succeeded(*asked, *columns, *share, *spent, cwd=tmp_path))
    left = json.loads(forks.succeeded(*asked, "--epsilon", 0.5, "--delta", 5e-7, cwd=tmp_path))
    assert selected == left
    agreed = ss.Agreement.load(tmp_path / "agreed.json")
    assert agreed.terms == ss.Terms(epsilon=1, delta=1e-6)
    assert agreed.keys == ss.Selected(epsilon="0.5", delta="0.0000005")
    rows = pa.table({"who": range(99), "item": [3] * 99, "shop": ["north"] * 99})
    assert agreed.release(rows).guarantee.epsilon == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--epsilon", 1, "--set", "events=9", "--set", "dim=many"),
            "dim must be a whole number or 'hashed', got 'many'",
        ),
        (("--epsilon", 0, "--set", "events=9"), "epsilon must be a finite number > 0"),
        (("--set", "events=9"), "Missing option '--epsilon'"),
        (
            ("--epsilon", 1, "--set", "events=9", "--index", "item"),
            "are columns of an agreement: name it, --output FILE",
        ),
        (
            ("--epsilon", 1, "--set", "events=9", "-o", "agreed.json"),
            "an agreement names the columns that are sketched",
        ),
        (("--epsilon", 1, "--set", "events=9", "-o", "agreed.txt"), "written to a file named *.json"),
        (("--epsilon", 1, "--items", 9), "No such option: --items"),
        (("--epsilon", 1), "a plan needs squared_distances"),
        (("--epsilon", 1, "--set", "events=9", "--set", "l1=x"), "must be a finite number"),
        (("--epsilon", 1, "--squared-distance", 9, "--set", "step=0"), "step must be a positive fraction"),
        (
            ("--epsilon", 1, "--set", "events=9", "--set", "dim=7", "--set", "max-cells=5"),
            "no sketch has at most 5 cells; raise max_cells to 7 or more",
        ),
        (
            ("--epsilon", 1, "--set", "events=9", "--set", "max-cells=1"),
            "no sketch has at most 1 cell; raise max_cells to 16 or more",
        ),
    ],
)
def test_mistakes_are_sentences(arguments: tuple[object, ...], message: str, forks: Forks, tmp_path: Path) -> None:
    assert message in forks.refused("plan", "streams", *arguments, cwd=tmp_path)


def test_a_plan_that_misses_its_goal_writes_no_agreement_unless_told(tmp_path: Path, forks: Forks) -> None:
    asked = ("plan", "streams", "--epsilon", 0.01, "--squared-distance", 4000, "--relative-error", 0.25)
    asked = (*asked, "--index", "item", "-o", "a.json")
    missed = forks.run(*asked, cwd=tmp_path)
    assert missed.returncode == 1
    assert "The goal is missed, and a.json is not written: the predicted error is" in missed.stderr
    assert missed.stdout.startswith("Plan: ")
    assert not list(tmp_path.iterdir())
    assert forks.run(*asked[:-4], "--json", cwd=tmp_path).returncode == 1
    assert forks.run(*asked, "--set", "accept=yes", cwd=tmp_path).returncode == 0
    assert ss.Agreement.load(tmp_path / "a.json").neighbours == ss.L1(1)


UNITS = ("plan", "units", "--epsilon", 1, "--delta", 1e-6, "--unit", "customer")
TYPICAL = (*UNITS, "--items", "10,40,160", "--set", "in-keys=3", "--units", "500,3000")


def test_a_plan_for_whole_units_is_that_of_python(forks: Forks) -> None:
    typical = ss.planning.TypicalUnit(items=[10, 40, 160], keys=3)
    plan = ss.planning.plan_units(typical, epsilon=1, delta=1e-6, unit="customer", units=[500, 3000])
    assert forks.succeeded(*TYPICAL) == f"{plan}\n"
    assert json.loads(forks.succeeded(*TYPICAL, "--json")) == json.loads(json.dumps(plan.to_dict()))
    points = forks.succeeded(*TYPICAL, "--set", "question=point", "--set", "match=0.02", "--cosine", 0.1)
    assert "Predicted error of the amount of one item in a sum" in points


@pytest.mark.parametrize("keyed", [False, True])
def test_a_plan_for_units_leaves_an_agreement_on_their_bound(*, keyed: bool, tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "keys.csv").write_text("key,units\nnorth,900\nsouth,60\n")
    sizes = ("--units", "keys.csv", "--key", "shop") if keyed else ("--units", 4000)
    asked = ("plan", "units", "--epsilon", 1, "--delta", 1e-6, "--items", 20, "--unit", "who:integer")
    shown = forks.succeeded(*asked, *sizes, "--index", "item:integer", "-o", "agreed.json", cwd=tmp_path)
    assert "who" in shown
    agreement = ss.Agreement.load(tmp_path / "agreed.json")
    assert (str(agreement.unit), str(agreement.index[0])) == ("who:integer", "item:integer")
    assert agreement.neighbours is not None
    assert agreement.neighbours.unit == "who"
    assert agreement.clip is not None
    assert agreement.terms == ss.Terms(epsilon=1, delta=1e-6)
    assert agreement.keys == (("north", "south") if keyed else None)
    rows = {"who": [1, 2], "item": [3, 4]} | ({"shop": ["north", "south"]} if keyed else {})
    assert agreement.release(pa.table(rows)).guarantee.epsilon == 1


KEYS = {"France": 900, "Korea, South": 60, "007": 3}


@pytest.fixture(scope="module")
def plan_of_keys() -> ss.planning.UnitPlan:
    typical = ss.planning.TypicalUnit(items=20)
    return ss.planning.plan_units(typical, epsilon=1, delta=1e-6, unit="customer", units=KEYS)


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
    asked = (*UNITS, "--items", 20, "--units", file)
    assert forks.succeeded(*asked, "--set", "picture=keys.svg", cwd=tmp_path) == f"{plan_of_keys}\n"
    assert (tmp_path / "keys.svg").read_text() == picture_of_keys(plan_of_keys)
    if columns == ("key", "units"):
        fields = json.loads(forks.succeeded(*asked, "--json", cwd=tmp_path))
        assert [(key["key"], key["units"]) for key in fields["keys"]] == list(KEYS.items())


def test_mechanisms_of_signs_are_named_as_their_classes_name_them() -> None:
    assert {getattr(ss.signs, kind).name: kind for kind in MECHANISMS.values()} == MECHANISMS


def test_a_plan_for_signs_is_that_of_python(forks: Forks) -> None:
    asked = ("plan", "signs", "--epsilon", 2, "--members", 5_000, "--unit", "word")
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1))
    projection = ss.projections.OPORP(dim=HASHED_DIM, sketch_dim=256, seed=0)
    plan = ss.planning.plan_signs(publish, projection, members=5_000, signs=[32, 64])
    found = forks.succeeded(*asked, "--signs", "32,64", "--json")
    assert json.loads(found)["options"] == json.loads(json.dumps(plan.to_dict()))["options"]
    narrow = (*asked, "--cosine", "0.7,0.9", "--set", "rest=0.1", "--set", "nearest=4", "--set", "top=20")
    shown = forks.succeeded(*narrow, "--signs", "64", "--set", "exact-query=yes")
    more: dict[str, Any] = {"cosine": [0.7, 0.9], "rest": 0.1, "nearest": 4, "top": 20, "exact_query": True}
    publish = ss.signs.DPSignOPORPRR(epsilon=2, neighbours=ss.OneCoordinate(1, unit="word"))
    assert shown == f"{ss.planning.plan_signs(publish, projection, members=5_000, signs=[64], **more)}\n"
    logistic = (
        "--set",
        "mechanism=DP-Sign-logistic",
        "--set",
        "l1=1",
        "--set",
        "norm=100",
        "--set",
        "dim=5000",
        "--signs",
        32,
    )
    assert "DP-Sign-logistic" in forks.succeeded(*asked, *logistic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--members'"),
        (("--members", 9, "--items", 3), "No such option: --items"),
        (("--members", 9, "--set", "mechanism=laplace"), "the mechanism of signs must be one"),
        (("--members", 90, "--signs", 1.5), "must be an integer"),
        (("--members", 90, "--set", "rest=few"), "--set rest takes numbers with commas"),
        (("--members", 90, "-o", "a.json"), "an agreement names the columns"),
    ],
)
def test_mistakes_about_signs_are_sentences(
    arguments: tuple[object, ...], message: str, forks: Forks, tmp_path: Path
) -> None:
    assert message in forks.refused("plan", "signs", "--epsilon", 1, *arguments, cwd=tmp_path)


def test_a_plan_for_signs_leaves_an_agreement_that_publishes_them(tmp_path: Path, forks: Forks) -> None:
    asked = ("plan", "signs", "--epsilon", 2, "--members", 5_000, "--signs", "64,256", "--unit", "word")
    forks.succeeded(*asked, "--index", "item", "-o", "agreed.json", cwd=tmp_path)
    agreed = ss.Agreement.load(tmp_path / "agreed.json")
    assert isinstance(agreed.projection, ss.projections.OPORP)
    signs = agreed.release(pa.table({"item": ["a", "b"]}))
    assert isinstance(signs, ss.signs.SignSketch)
    assert signs.projection.sketch_dim == 64


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
    assert message in forks.refused(*UNITS, "--items", 20, "--units", "keys.csv", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--items", 5, "--units", 9, "--units", "a.csv"), "a.csv does not exist"),
        (("--items", 5, "--units", 9, "--set", "picture=a.png"), "written to a file named *.svg"),
        (
            ("--items", 5, "--units", 9, "--set", "question=point", "--set", "picture=a.svg"),
            "keys are lost for cosines and",
        ),
        (("--units", "a.csv"), "Missing option '--items'"),
        (("--items", "many", "--units", 9), "--items takes numbers with commas, such as 3,10,40, got 'many'"),
        (("--items", 5), "the number of units in a key is missing"),
        (("--items", 5, "--units", 9, "--l1", 5), "No such option: --l1"),
        (
            ("--items", 5, "--units", 9, "--set", "question=sum"),
            "question must be one of cosine, distance, mean, point",
        ),
        (("--items", 5, "--index", "item", "--units", 9), "are columns of an agreement"),
        (("--items", 5, "--units", 9, "--index", "i", "-o", "b.json"), "state the column of units: --unit NAME:TYPE"),
    ],
)
def test_mistakes_about_units_are_sentences(
    arguments: tuple[object, ...], message: str, forks: Forks, tmp_path: Path
) -> None:
    assert message in forks.refused("plan", "units", "--epsilon", 1, *arguments, cwd=tmp_path)
    assert not list(tmp_path.iterdir())
