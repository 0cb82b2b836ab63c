"""A bound chosen privately by the command: what it prints, what it keeps to the operator, the path of a new user."""

import json
import stat
from fractions import Fraction
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.privacy import Budget
from streamsketch.report import picture_of
from tests.cli.agreeing import FILE
from tests.cli.running import Forks

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=3, resolution="1/4")
COLUMNS = ["--unit-column", "customer", "--key", "shop", "--index", "item", "--value", "paid"]
ASKED = [*COLUMNS, "--projection", "agreed.json", "--candidates", "1,5,50", "--candidates", "100000", "--share", "0.9"]
CHOOSE = ["choose-bound", "rows.csv", *ASKED]
TRADE_OFF = ["--set", "squared-distance=1e6", "--release-epsilon", "2", "--max-keys", "2"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write the rows of 1,000 customers: nine of ten add 4, some after a return; the others 40 in one shop."""
    rows = ["customer,shop,item,paid"]
    for customer in range(1000):
        size = 4 if customer % 10 else 40
        rows += [f"{customer},DE,tea,{size}", f"{customer},FR,jam,-1"]
        rows += [f"{customer},DE,tea,80995", f"{customer},DE,tea,-80995"] if customer % 7 == 0 else []
    (tmp_path / "rows.csv").write_text("\n".join([*rows, ",DE,tea,1e9", "9,DE,tea,", ""]))
    (tmp_path / "agreed.json").write_text(PROJECTION.to_json())
    return tmp_path


def test_a_bound_is_printed_with_what_it_spent_and_nothing_else(folder: Path, forks: Forks) -> None:
    before = {*folder.iterdir(), folder / FILE}
    done = forks.run(*CHOOSE, "--epsilon", "20", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "bound 5, of 4 candidates" in text
    assert "spent ε = 20, δ = 0 for one customer, whatever it adds, in addition to what releases spend" in text
    assert "with --l1 5" in text
    assert "1000" not in text
    assert {*folder.iterdir()} == before
    told = json.loads(forks.succeeded(*CHOOSE, "--epsilon", "20", "--json", cwd=folder))
    chosen = ss.bounding.ChosenBound(Fraction(5), Budget(20.0), Fraction(9, 10), 4)
    assert told == {
        "bound": "5", "epsilon": 20.0, "delta": 0.0, "share": "9/10", "candidates": ["1", "5", "50", "100000"],
        "rank_error": chosen.rank_error(0.95), "confidence": 0.95,
    }  # fmt: skip


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_bound_may_be_chosen_for_the_accuracy_of_answers(norm: str, folder: Path, forks: Forks) -> None:
    """Nine of ten customers add 4 in one shop, the others 40: a cosine wants no more than 4, a distance 40."""
    asked = [*CHOOSE[:-2], "--candidates", "10", "--epsilon", "20", "--norm", norm, "--set", "units=1e6"]
    chosen = {}
    for question in ("cosine", "distance"):
        shown = json.loads(forks.succeeded(*asked, "--question", question, "--json", cwd=folder))
        assert sum(shown["counts"]) == pytest.approx(1000, abs=5)
        assert len(shown["counts"]) == len(shown["errors"]) + 1 == len(shown["candidates"]) + 1
        bounds = sorted(map(Fraction, shown["candidates"]))
        assert shown["errors"][bounds.index(Fraction(shown["bound"]))] == min(shown["errors"])
        chosen[question] = Fraction(shown["bound"])
    assert chosen["cosine"] <= 5 < chosen["distance"]
    text = forks.succeeded(*asked, "--question", "distance", "--release-epsilon", "2", cwd=folder)
    option = "--l1" if norm == "l1" else "--sketch-l2"
    assert f"with {option} {chosen['distance']}" in " ".join(text.split())
    assert "distance: at ε = 2, the predicted error is ±" in " ".join(text.split())


@pytest.mark.parametrize("suffix", [".txt", ".json", ".svg"])
def test_noise_against_bias_is_written_on_request_for_its_owner_alone(suffix: str, folder: Path, forks: Forks) -> None:
    path = folder / f"told{suffix}"
    done = forks.run(*CHOOSE, "--epsilon", "20", *TRADE_OFF, "--set", f"trade-off={path.name}", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{path.name}, secret: noise against bias. A bound read off from it is not private.\n"
    assert "bias" not in done.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    plan = ss.bounding.plan_bounds(
        [4.0] * 900 + [40.0] * 100, [1, 5, 50, 100_000], PROJECTION, squared_distance=1e6, epsilon=2.0, unit="customer",
        max_keys=2,
    )  # fmt: skip
    expected = {
        ".txt": f"{plan}\n",
        ".json": json.dumps(plan.to_dict(), indent=2) + "\n",
        ".svg": picture_of(plan),
    }
    assert path.read_text() == expected[suffix]


def test_the_path_of_a_new_user(folder: Path, forks: Forks) -> None:
    """Agree on columns, choose a bound, agree on it, release."""
    columns = ["--key", "shop", "--index", "item", "--value", "paid", "--unit-column", "customer", "--missing", "drop"]
    forks.succeeded("agree", *columns, "--l1", "1", "-o", "first.json", cwd=folder)
    choose = ["choose-bound", "rows.csv", "--agreement", "first.json", *CHOOSE[CHOOSE.index("--candidates") :]]
    bound = json.loads(forks.succeeded(*choose, "--epsilon", "20", "--json", cwd=folder))["bound"]
    terms = ["--l1", bound, "--epsilon", "1", "--public-key", "DE,FR"]
    forks.succeeded("agree", *columns, *terms, "-o", "sales.json", cwd=folder)
    assert ss.Agreement.load(folder / "sales.json").neighbours == ss.L1(5, unit="customer")
    done = forks.run("release", "rows.csv", "--agreement", "sales.json", "-o", "a.parquet", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "secret: 0.087 % of the rows were left out\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0"], "epsilon must be"),
        (["--epsilon", "1", "--share", "1"], "share must lie in (0, 1)"),
        (["--epsilon", "1", "--question", "cosine"], "for a share of units or for accuracy; leave out one"),
        (["--epsilon", "1", "--norm", "l2", "--set", "trade-off=a.txt", *TRADE_OFF], "trade-off is about L1 bounds"),
        (["--epsilon", "1", "--candidates", "many"], "must be a finite number"),
        (["--epsilon", "1", "--candidates", "10-100"], "a candidate must be a finite number"),
        (["--epsilon", "1", "--candidates", "1/8"], "below one grid step of 1/4"),
        (["--epsilon", "1", "--candidates", "5"], "--candidates has '5' twice"),
        (["--epsilon", "1", "--unit-column", "buyer"], "has no column buyer"),
        (
            ["--epsilon", "1", "--set", "trade-off=a.txt"],
            "--set trade-off=FILE and squared-distance=NUMBER belong together",
        ),
        (["--epsilon", "1", "--set", "trade-off=a.pdf", *TRADE_OFF], "named *.txt or *.json or *.svg"),
        (["--epsilon", "1", "--set", "trade-off=agreed.json", *TRADE_OFF], "already exists"),
    ],
)
def test_mistakes_are_sentences(options: list[str], message: str, folder: Path, forks: Forks) -> None:
    assert message in forks.refused(*CHOOSE, *options, cwd=folder)


def test_what_is_not_a_file_is_refused(folder: Path, forks: Forks) -> None:
    asked = [*ASKED, "--epsilon", "1"]
    assert "none.csv" in forks.refused("choose-bound", "none.csv", *asked, cwd=folder)
    assert "is not a file" in forks.refused("choose-bound", ".", *asked, cwd=folder)
    assert "is named twice" in forks.refused("choose-bound", "rows.csv", "rows.csv", *asked, cwd=folder)
