"""What people give a command in their first minutes: the same file twice, no rows, NA as a person, names alike."""

import json
import re
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.core.libraries import pa, pq
from streamsketch.intake.seen import MISSING_TEXTS
from streamsketch.storage import load_raw
from tests.cli.running import Forks

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.json").write_text(PROJECTION.to_json())
    (tmp_path / "ok.csv").write_text("shop,item\na,tea\na,jam\n")
    (tmp_path / "head.csv").write_text("shop,item\n")
    units = ss.Agreement(PROJECTION, index="item", unit="who", neighbours=ss.L1(1, unit="who"), missing="drop")
    (tmp_path / "units.json").write_text(units.to_json())
    return tmp_path


MADE = ["--key", "shop", "--index", "item", "--projection", "p.json", "-o", "r.raw-sketch"]


@pytest.mark.parametrize("other", ["ok.csv", "./ok.csv", "link.csv", "hard.csv", "absolute"])
@pytest.mark.parametrize("how", ["plain", "bounded", "skip"])
def test_a_file_is_not_counted_twice(other: str, how: str, folder: Path, forks: Forks) -> None:
    (folder / "link.csv").symlink_to("ok.csv")
    (folder / "hard.csv").hardlink_to(folder / "ok.csv")
    named = str(folder / "ok.csv") if other == "absolute" else other
    bound = {"plain": [], "bounded": ["--unit-column", "item", "--l1", 1], "skip": ["--set", "bad-lines=skip"]}[how]
    said = forks.refused("sketch", "ok.csv", "head.csv", named, *MADE, *bound, cwd=folder)
    assert "named twice; its events would count twice" in said


def test_a_job_reads_a_file_once(folder: Path, forks: Forks) -> None:
    (folder / "link.csv").symlink_to("ok.csv")
    agreed = ss.Agreement.of(PROJECTION, key="shop", index="item", neighbours=ss.L1(1))
    agreed = agreed.replace(terms=ss.Terms(epsilon=1), keys="public")
    (folder / "a.json").write_text(agreed.to_json())
    for patterns in (["ok.csv", "o*.csv"], ["ok.csv", "link.csv"], ["[lo]*k.csv"]):
        given = [str(folder / pattern) for pattern in patterns]
        said = forks.refused(
            "release",
            *given,
            "--agreement",
            "a.json",
            "-o",
            "out",
            "--",
            "--runner=DirectRunner",
            cwd=folder,
        )
        assert "named twice; its rows would count twice" in said


@pytest.mark.parametrize("bound", [[], ["--unit-column", "item", "--l1", 1], ["--set", "bad-lines=skip"]])
def test_a_file_without_rows_is_named_and_no_release_is_suggested(bound: list[str], folder: Path, forks: Forks) -> None:
    done = forks.run("sketch", "head.csv", *MADE, *bound, cwd=folder)
    assert done.returncode == 0
    assert "warning: head.csv has no rows" in done.stderr
    assert "To release it" not in done.stderr
    (folder / "r.raw-sketch").unlink()
    done = forks.run("sketch", "head.csv", "ok.csv", *MADE, *bound, cwd=folder)
    assert "warning: head.csv has no rows" in done.stderr
    assert "ok.csv has no rows" not in done.stderr


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param(text, form, marks=[pytest.mark.long] * ((place + turn) % 3 > 0))
        for place, text in enumerate([*MISSING_TEXTS, "na", "Null", "none", " NaN ", "   "])
        for turn, form in enumerate(["csv", "jsonl", "parquet"])
    ],
)
def test_texts_that_stand_for_nobody_are_named_if_they_are_units(
    text: str, form: str, folder: Path, forks: Forks
) -> None:
    rows = {"who": [text, text, "secret-name", "c1"], "item": ["tea", "jam", "tea", "tea"]}
    table = pa.table(rows)
    if form == "parquet":
        pq.write_table(table, folder / "rows.parquet")
    elif form == "jsonl":
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        (folder / "rows.csv").write_text("who,item\n" + "".join(f"{r['who']},{r['item']}\n" for r in table.to_pylist()))
    done = forks.run("sketch", f"rows.{form}", "--agreement", "units.json", "-o", "u.raw-sketch", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "the unit column who has the text" in line]
    named = re.search("has the text (.*) \\(in some spelling\\)", warning)
    assert named is not None
    assert named[1].lower() == (text.strip().lower() or "blanks")
    assert "secret-name" not in done.stderr


def test_other_units_are_no_cause_for_a_warning(folder: Path, forks: Forks) -> None:
    (folder / "rows.csv").write_text("who,item\nNAomi,NA\nnull1,NULL\n,tea\n")
    done = forks.run("sketch", "rows.csv", "--agreement", "units.json", "-o", "u.raw-sketch", cwd=folder)
    assert "has the text" not in done.stderr


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["Item", "ITEM", " item", "item "])
def test_names_that_differ_in_case_or_blanks_are_hinted_at(name: str, form: str, folder: Path, forks: Forks) -> None:
    table = pa.table({name: ["tea"], "private-column": ["x"]})
    if form == "parquet":
        pq.write_table(table, folder / "rows.parquet")
    else:
        (folder / "rows.csv").write_text(f"{name},private-column\ntea,x\n")
    said = forks.refused(
        "sketch", f"rows.{form}", "--index", "item", "--projection", "p.json", "-o", "r.raw-sketch", cwd=folder
    )
    assert "a column's name differs from item in case or in blanks" in said
    assert "private-column" not in said
    assert name.strip() == "item" or name not in said


def test_lines_left_out_are_counted_by_reason_and_many_of_them_are_a_failed_check(folder: Path, forks: Forks) -> None:
    good, out = "a,tea\n" * 297, ["--set", "bad-lines=skip", "--json"]
    (folder / "few.csv").write_bytes(b"shop,item\n" + good.encode() + b"one cell\na,b\xff\nthree,cells,here\n")
    done = forks.run("sketch", "few.csv", *MADE, *out, cwd=folder)
    assert done.returncode == 0, "1 % is not more than 1 %"
    assert "warning" not in done.stderr
    assert all(
        reason in done.stderr for reason in ("2 because few.csv", "1 cells, not 2", "1 because few.csv", "UTF-8")
    )
    (folder / "r.raw-sketch").unlink()
    (folder / "many.csv").write_bytes((folder / "few.csv").read_bytes() + b"a,c\xff\n" * 9)
    done = forks.run("sketch", "many.csv", *MADE, *out, cwd=folder)
    assert done.returncode == 1
    note, warning = map(json.loads, done.stderr.splitlines())
    assert "12 bad lines left out" in note["note"]["message"]
    assert (
        "10 because many.csv cannot be read as CSV (row 300, column item): it is not in UTF-8"
        in note["note"]["message"]
    )
    assert warning["warning"]["message"].startswith("3.88 % of the lines were left out, more than 1 %")
    assert json.loads(done.stdout)["events"] == 297
    assert load_raw(folder / "r.raw-sketch").events == 297, "what could be read is written"


def test_options_read_another_dialect(folder: Path, forks: Forks) -> None:
    (folder / "de.csv").write_bytes("shop;item;n\na;Käse;1,5\na;Öl;-0,25\n".encode("cp1252"))
    (folder / "en.csv").write_text("shop,item,n\na,Käse,1.5\na,Öl,-0.25\n")
    fine = ss.SJLT(sketch_dim=64, sparsity=4, seed=3, resolution="1/4")
    (folder / "p.json").write_text(fine.to_json())
    how = ["--set", "delimiter=;", "--set", "encoding=cp1252", "--set", "decimal=,"]
    forks.succeeded("sketch", "en.csv", "--value", "n", *MADE, cwd=folder)
    true = load_raw(folder / "r.raw-sketch").state
    (folder / "r.raw-sketch").unlink()
    forks.succeeded("sketch", "de.csv", "--value", "n", *MADE, *how, cwd=folder)
    assert load_raw(folder / "r.raw-sketch").state == true
    (folder / "r.raw-sketch").unlink()
    forks.piped("sketch", "-", "--set", "format=csv", "--value", "n", *MADE, *how, cwd=folder,
                stdin=(folder / "de.csv").read_bytes())  # fmt: skip
    assert load_raw(folder / "r.raw-sketch").state == true


@pytest.mark.parametrize(("given", "written"), [("0,5", "0.5"), ("50%", "0.5"), ("50 %", "0.5")])
def test_numbers_with_a_comma_or_in_percent_are_spelt_out(given: str, written: str, folder: Path, forks: Forks) -> None:
    choose = ["choose-bound", "ok.csv", "--agreement", "units.json", "--candidates", "5"]
    agree = ["agree", "--index", "item", "-o", "y.json", "--l1", given]
    for call in ([*choose, "--epsilon", given], [*choose, f"--epsilon={given}"], agree):
        said = forks.refused(*call, cwd=folder)
        assert f"got {given!r}: write {written}" in said
    assert "write" not in forks.refused(*choose, "--epsilon", "many", cwd=folder)


def test_a_report_replaces_its_page_if_asked(folder: Path, forks: Forks) -> None:
    for name in ("a", "b"):
        PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1)).save(folder / f"{name}.sketch")
    page = ["report", "a.sketch", "b.sketch", "-o", "page.html"]
    forks.succeeded(*page, cwd=folder)
    (folder / "page.html").write_text("edited")
    assert "already exists and is not replaced" in forks.refused(*page, cwd=folder)
    assert (folder / "page.html").read_text() == "edited"
    forks.succeeded(*page, "--force", cwd=folder)
    assert "<html" in (folder / "page.html").read_text()
    (folder / "dir.html").mkdir()
    assert "already exists" in forks.refused(*page[:-1], "dir.html", "--force", cwd=folder)


def test_windows_are_keys_of_an_agreement_without_a_key_column(folder: Path, forks: Forks) -> None:
    rows = "".join(f"c{c},i{(c + m) % 9},2026-{m + 1:02d}-15T12:00:00Z\n" for c in range(20) for m in range(1 + c % 4))
    (folder / "rows.csv").write_text("who,item,at\n" + rows)
    timed = ["--window", "month", "--time", "at"]
    agree = ["agree", "--index", "item:text", "--unit-column", "who:text", "--missing", "drop", "--l1", 5]
    for most, says in ((1, "75 % of units were in more and were cut to one window"), (4, "")):
        forks.succeeded(*agree, "--max-keys", most, "-o", f"{most}.json", cwd=folder)
        made = ["--agreement", f"{most}.json", "-o", f"{most}.raw-sketch", "-q"]
        done = forks.run("sketch", "rows.csv", *made, *timed, cwd=folder)
        assert done.returncode == 0
        assert says in done.stderr
        assert bool(says) == ("were cut" in done.stderr)
    state = load_raw(folder / "4.raw-sketch").state
    assert {key: state[key].mass for key in state} == {f"2026-{m:02d}": 25 - 5 * m for m in range(1, 5)}
    ends = ["--first", "2026-01", "--set", "last=2026-02", "--set", "windows=keys", "--epsilon", 5]
    forks.succeeded("agree", "4.raw-sketch", *timed, *ends, "-o", "terms.json", cwd=folder)
    released = ["release", "4.raw-sketch", "--agreement", "terms.json", "-o", "4.parquet", "--json"]
    guarantee = json.loads(forks.succeeded(*released, cwd=folder))["guarantee"]
    assert list(ss.load(folder / "4.parquet")) == ["2026-01", "2026-02"]
    assert (guarantee["max_keys"], guarantee["basis"]) == (4, "enforced")
