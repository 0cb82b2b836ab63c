"""Ledgers, through the real executable: entered, charged, shown, audited, exported."""

import contextlib
import json
import sqlite3
import sys
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.cli._releasing import ledger_name, open_ledger
from streamsketch.storage import load_raw
from tests.cli.running import Forks

LEDGER = "ledger.sqlite"
RELEASE = ["release", "a1.raw-sketch", "--l1", "2", "--unit", "customer", "--ledger", LEDGER]


@pytest.fixture
def books(raws: Path, forks: Forks) -> Path:
    """Return the folder with a ledger of one data set in it."""
    forks.succeeded(
        *("ledger", "init", LEDGER, "--dataset", "sales", "--unit", "customer", "--epsilon", "2", "--delta", "1e-6"),
        cwd=raws,
    )
    return raws


def test_a_release_is_charged_and_refused_where_it_does_not_fit(books: Path, forks: Forks) -> None:
    shown = forks.succeeded(*RELEASE, "--dataset", "sales", "--epsilon", "1.5", "-o", "one.sketch", cwd=books)
    assert "left ε = 0.5, δ = 1e-06 of sales" in " ".join(shown.split())
    again = [*RELEASE, "--again", "-o", "two.sketch"]
    assert "does not fit into what is left of 'sales': ε = 0.5" in forks.refused(*again, "--epsilon", "1", cwd=books)
    assert len(load_raw(books / "a1.raw-sketch").releases) == 1
    forks.succeeded(*again, "--epsilon", "0.5", cwd=books)  # the data are known to be of the data set
    (told,) = json.loads(forks.succeeded("ledger", "show", LEDGER, "--json", cwd=books))["datasets"]
    assert (told["epsilon"], told["left"]["epsilon"], told["left"]["charges"]) == (2.0, 0.0, 2)


@pytest.mark.parametrize("column", ["customer", "Customer ID"])
def test_a_choice_of_a_bound_is_charged(books: Path, forks: Forks, column: str) -> None:
    (books / "agreed.json").write_text(ss.SJLT(sketch_dim=64, sparsity=4, seed=3).to_json())
    (books / "rows.csv").write_text(f"{column},item\n" + "".join(f"{customer},tea\n" for customer in range(100)))
    choose = ["choose-bound", "rows.csv", "--unit-column", column, "--index", "item", "--candidates", "1,5"]
    choose += ["--projection", "agreed.json", "--ledger", LEDGER, "--dataset", "sales", "--epsilon"]
    if column != "customer":
        said = f"agree with --unit customer if each value of the column {column} is one customer"
        assert said in forks.refused(*choose, "1.5", cwd=books)
    assert "spent ε = 1.5, δ = 0 for one customer, " in " ".join(
        forks.succeeded(*choose, "1.5", "--unit", "customer", cwd=books).split()
    )
    assert "does not fit" in forks.refused(*choose, "1.5", "--unit", "customer", cwd=books)
    assert "for one customer, and the choice protects one shop" in forks.refused(
        *choose, "0.5", "--unit", "shop", cwd=books
    )
    assert ss.Ledger(books / LEDGER).left("sales").epsilon == 0.5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "sales"], "names a data set of a ledger; give --ledger FILE as well"),
        (["--ledger", "none.sqlite", "--dataset", "sales"], "`streamsketch ledger init none.sqlite --dataset NAME"),
        (["--ledger", "none.sqlite", "--dataset", "sales"], " --unit WORD --epsilon EPSILON`"),
        (["--ledger", "a1.raw-sketch"], "a1.raw-sketch is not a ledger"),
        (["--ledger", LEDGER, "--dataset", "other"], "there is no data set 'other' in the ledger"),
        (["--ledger", LEDGER], "not in any data set of the ledger"),
    ],
)
def test_mistakes_end_in_a_sentence_and_write_nothing(
    books: Path, forks: Forks, arguments: list[str], said: str
) -> None:
    release = [*RELEASE[:-2], "--epsilon", "1", "-o", "one.sketch", *arguments]
    assert said in forks.refused(*release, cwd=books)
    assert not load_raw(books / "a1.raw-sketch").releases


def test_a_ledger_is_not_made_for_a_budget_that_is_none(raws: Path, forks: Forks) -> None:
    init = ["ledger", "init", LEDGER, "--dataset", "sales", "--unit", "customer", "--epsilon"]
    assert "must be" in forks.refused(*init, "-1", cwd=raws)
    assert "needs delta > 0" in forks.refused(*init, "1", "--accounting", "filter", cwd=raws)
    assert "accounting must be one of sum, filter" in forks.refused(*init, "1", "--accounting", "x", cwd=raws)


def test_a_database_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    monkeypatch.delitem(sys.modules, "streamsketch.accounting.database", raising=False)
    with pytest.raises(
        ss.InvalidInputError, match=r"needs SQLAlchemy and psycopg \(the extra `postgres` of streamsketch\)"
    ):
        open_ledger("postgresql+psycopg://ada@localhost/privacy")


def test_what_is_left_is_shown_for_people(books: Path, forks: Forks) -> None:
    init = ["ledger", "init", LEDGER, "--dataset", "visits", "--unit", "patient", "--epsilon", "4"]
    shown = forks.succeeded(*init, "--delta", "1e-6", "--accounting", "filter", "--period-days", "30", cwd=books)
    assert "ε = 4, δ = 1e-06 for each patient, by filter" in shown
    assert "every 30 days" in shown
    table = [line.split() for line in forks.succeeded("ledger", "show", LEDGER, cwd=books).splitlines()]
    assert ["data", "set", "unit", "ε", "ε", "left", "δ", "δ", "left", "or", "ρ", "left", "renewed"] in table
    assert ["sales", "customer", "2", "2", "1e-06", "1e-06", "–", "never"] in table
    (visits,) = (line for line in table if line[:2] == ["visits", "patient"])
    renewed = ss.Ledger(books / LEDGER).left("visits").renewed
    assert visits[2:] == ["4", "4", "1e-06", "0", "0.2961", f"{renewed:%Y-%m-%d}"]


def test_other_releases_are_charged_by_hand_once_a_job(books: Path, forks: Forks) -> None:
    charge = [
        "ledger",
        "charge",
        LEDGER,
        "--dataset",
        "sales",
        "--bound",
        "l1=1",
        "--note",
        "a count",
        "--once",
        "job 7",
    ]
    first = json.loads(forks.succeeded(*charge, "--epsilon", "1", "--json", cwd=books))
    assert first == json.loads(forks.succeeded(*charge, "--epsilon", "1", "--json", cwd=books))
    assert first["left"]["epsilon"] == 1.0
    assert first["guarantee"]["unit"] == "customer"
    assert "another release under the same id" in forks.refused(*charge, "--epsilon", "0.5", cwd=books)
    assert f"receipt {first['receipt']}" in " ".join(forks.succeeded(*charge, "--epsilon", "1", cwd=books).split())


def test_an_audit_ends_with_1_and_says_which_entry(books: Path, forks: Forks) -> None:
    charge = [
        "ledger",
        "charge",
        LEDGER,
        "--dataset",
        "sales",
        "--bound",
        "l1=1",
        "--note",
        "a count",
        "--epsilon",
        "0.5",
    ]
    for _ in range(2):
        forks.succeeded(*charge, cwd=books)
    audit = ["ledger", "audit", LEDGER]
    receipt = json.loads(forks.succeeded(*audit, "--json", cwd=books))["receipt"]
    shown = " ".join(forks.succeeded(*audit, "--receipt", receipt, cwd=books).split())
    assert f"entries 3, each as it was written receipt {receipt}" in shown
    assert "--receipt is NUMBER:DIGEST" in forks.refused(*audit, "--receipt", "3", cwd=books)
    with contextlib.closing(sqlite3.connect(books / LEDGER)) as connection, connection:
        connection.execute("DELETE FROM streamsketch_ledger WHERE number = 3")
    assert forks.run(*audit, cwd=books).returncode == 0, "the file alone does not show it"
    cut = forks.run(*audit, "--receipt", receipt, cwd=books)
    assert (cut.returncode, cut.stdout) == (1, "")
    assert cut.stderr == f"error: {LEDGER}: entry 3 in the ledger differs from its receipt\n"
    with contextlib.closing(sqlite3.connect(books / LEDGER)) as connection, connection:
        connection.execute("UPDATE streamsketch_ledger SET body = replace(body, '0.5', '0.1') WHERE number = 2")
    changed = forks.run(*audit, cwd=books)
    assert (changed.returncode, changed.stdout) == (1, "")
    assert changed.stderr == f"error: {LEDGER}: entry 2 was changed after it was written\n"


def test_an_export_has_a_line_for_each_entry(books: Path, forks: Forks) -> None:
    printed = forks.succeeded("ledger", "export", LEDGER, cwd=books)
    (line,) = map(json.loads, printed.splitlines())
    (entry,) = ss.Ledger(books / LEDGER).entries()
    assert line == {"number": 1, "previous": entry.previous, "digest": entry.digest, "body": entry.body}
    assert forks.succeeded("ledger", "export", LEDGER, "-o", "all.jsonl", cwd=books) == ""
    assert (books / "all.jsonl").read_text() == printed
    assert (books / "all.jsonl").stat().st_mode & 0o777 == 0o600
    assert "is not replaced" in forks.refused("ledger", "export", LEDGER, "-o", "all.jsonl", cwd=books)


def test_a_database_is_named_without_passwords() -> None:
    assert ledger_name("postgresql+psycopg://ada:secret@h/db?password=x&host=y") == "postgresql+psycopg://ada@h/db"
    assert ledger_name("postgresql+psycopg://h/db") == "postgresql+psycopg://h/db"
    assert ledger_name("a:b@c?d.sqlite") == "a:b@c?d.sqlite"
