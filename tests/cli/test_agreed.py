"""Three commands: agree, release, compare. Nothing else is said, and nothing secret is left behind."""

import json
import re
from pathlib import Path

import pytest

import streamsketch as ss
from tests.cli.running import Forks

AGREED = ["--index", "item:text", "--unit-column", "customer:text", "--missing", "drop", "--set", "seed=7"]
TERMS = ["--epsilon", "1", "--delta", "1e-6"]


def filled(folder: Path) -> Path:
    for name, first in (("web", 0), ("shops", 40)):
        rows = [f"person {one},north,item {one * 7 % 11}" for one in range(first, first + 80)]
        (folder / f"{name}.csv").write_text("\n".join(["customer,shop,item", *rows, ""]), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path)


@pytest.fixture(scope="module")
def agreements(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Path:
    """Return a folder with three agreements and a raw sketch, to which a command that is refused adds nothing."""
    folder = filled(tmp_path_factory.mktemp("agreements"))
    forks.succeeded("agree", *AGREED, *TERMS, "-o", "a.json", cwd=folder)
    forks.succeeded("agree", *AGREED, "-o", "free.json", cwd=folder)
    forks.succeeded("agree", "a.json", "--missing", "refuse", "-o", "other.json", cwd=folder)
    forks.succeeded("sketch", "web.csv", "--agreement", "free.json", "-o", "free.raw-sketch", cwd=folder)
    return folder


def test_three_commands_answer_a_question(folder: Path, forks: Forks) -> None:
    forks.succeeded("agree", *AGREED, *TERMS, "-o", "agreement.json", cwd=folder)
    for name in ("web", "shops"):
        arguments = [f"{name}.csv", "--agreement", "agreement.json", "-o", f"{name}.sketch"]
        shown = forks.succeeded("release", *arguments, cwd=folder)
        assert "keys" not in shown, "there is one stream"
    compared = json.loads(forks.succeeded("compare", "web.sketch", "shops.sketch", "--json", cwd=folder))
    assert compared
    assert sorted(one.name for one in folder.iterdir()) == [
        "agreement.json", "shops.csv", "shops.sketch", "web.csv", "web.sketch",
    ]  # fmt: skip
    agreement = ss.Agreement.load(folder / "agreement.json")
    released = agreement.load(folder / "web.sketch")
    assert (released.guarantee.basis, released.guarantee.epsilon, released.guarantee.delta) == ("enforced", 1, 1e-6)


def test_a_release_of_rows_states_what_python_states(folder: Path, forks: Forks) -> None:
    keyed = [*AGREED, "--key", "shop:text", "--max-keys", "2", "--public-key", "north,south"]
    forks.succeeded("agree", *keyed, *TERMS, "-o", "a.json", cwd=folder)
    said = json.loads(
        forks.succeeded("release", "web.csv", "--agreement", "a.json", "-o", "w.parquet", "--json", cwd=folder)
    )
    agreement = ss.Agreement.load(folder / "a.json")
    assert agreement.keys == ("north", "south")
    assert said["guarantee"]["epsilon"] == 1
    assert list(agreement.load(folder / "w.parquet")) == ["north", "south"]


def test_a_raw_sketch_is_released_within_what_is_agreed(folder: Path, forks: Forks) -> None:
    forks.succeeded("agree", *AGREED, *TERMS, "-o", "a.json", cwd=folder)
    for name in ("web", "shops"):
        append = ["--append"] if name == "shops" else []
        forks.succeeded("sketch", f"{name}.csv", "--agreement", "a.json", "-o", "all.raw-sketch", *append, cwd=folder)
    # an appended file has twice the bound, which is not the agreed one
    said = forks.refused("release", "all.raw-sketch", "-o", "all.sketch", cwd=folder)
    assert "publishes a count of the customers" in said
    assert "one customer of at most 2" in said
    remedy = re.findall("`streamsketch ([^`]*)`", said)
    assert len(remedy) == 2
    for call in remedy:
        words = call.replace("EPSILON", "1").replace("DELTA", "1e-6").split()
        forks.succeeded(*words, cwd=folder)
    released = ss.Agreement.load(folder / "terms.json").load(folder / "all.sketch")
    assert (released.guarantee.neighbours.bound, released.guarantee.basis) == (2, "enforced")


def test_a_raw_sketch_is_not_released_twice(folder: Path, forks: Forks) -> None:
    forks.succeeded("agree", *AGREED, *TERMS, "-o", "a.json", cwd=folder)
    forks.succeeded("sketch", "web.csv", "--agreement", "a.json", "-o", "w.raw-sketch", cwd=folder)
    forks.succeeded("release", "w.raw-sketch", "-o", "w.sketch", cwd=folder)
    assert "released once before" in forks.refused("release", "w.raw-sketch", "-o", "again.sketch", cwd=folder)
    forks.succeeded("release", "w.raw-sketch", "--again", "-o", "again.sketch", cwd=folder)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["web.csv", "--agreement", "a.json", "-o", "w.sketch", "--epsilon", "2"],
            "No such option: --epsilon. An agreement says that",
        ),
        (
            ["web.csv", "--agreement", "a.json", "-o", "w.sketch", "--delta", "1e-7"],
            "No such option: --delta. An agreement says that",
        ),
        (
            ["web.csv", "--agreement", "a.json", "-o", "w.sketch", "--l1", "2"],
            "No such option: --l1. An agreement says that",
        ),
        (
            ["web.csv", "--agreement", "a.json", "-o", "w.sketch", "--keys-are-public"],
            "--keys-are-public. An agreement says that",
        ),
        (["web.csv", "--agreement", "a.json"], "--output FILE, or --dry-run"),
        (["web.csv", "--agreement", "a.json", "-o", "w.parquet"], "is written to a file named *.sketch"),
        (["web.csv", "web.csv", "--agreement", "a.json", "-o", "w.sketch"], "named twice"),
        (["web.csv", "--agreement", "free.json", "-o", "w.sketch"], "does not say what a release spends"),
        (["web.csv", "-o", "w.sketch"], "rows are released by an agreement, and web.csv is no raw sketch"),
        (["web.csv", "shops.csv", "-o", "w.sketch"], "one raw sketch is released at a time"),
        (["free.raw-sketch", "-o", "w.sketch"], "the agreement of free.raw-sketch does not say what a release spends"),
        (["free.raw-sketch", "--agreement", "free.json", "-o", "w.sketch"], "free.json does not say what"),
        (["free.raw-sketch", "--agreement", "other.json", "-o", "w.sketch"], "the agreements differ: missing"),
    ],
)
def test_what_is_said_twice_or_not_at_all_is_refused(
    arguments: list[str], said: str, agreements: Path, forks: Forks
) -> None:
    assert said in forks.refused("release", *arguments, cwd=agreements)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--delta", "1e-6"], "also give --epsilon"),
        (["--epsilon", "0,5"], "is a decimal number"),
        (["--epsilon", "1"], "meant for Gaussian noise"),
        ([*TERMS, "--key", "shop:text"], "which keys have data is private"),
        ([*TERMS, "--key", "shop:text", "--keys-are-public", "--public-key", "north"], "give one of --public-key"),
        ([*TERMS, "--key", "shop:text", "--max-keys", "2", "--set", "select-keys=0.1"], "is a decimal number"),
        ([*TERMS, "--key", "shop:text", "--max-keys", "2", "--set", "select-keys=1,1e-7"], "give it a smaller share"),
    ],
)
def test_terms_that_no_release_keeps_are_refused(options: list[str], said: str, folder: Path, forks: Forks) -> None:
    assert said in forks.refused("agree", *AGREED, *options, "-o", "a.json", cwd=folder)
