"""A hundred mistakes at the command line: each is refused, or warned of, in a sentence; none is silent."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from tests.cli.running import run_command

ROWS = {"customer": ["ann", "bob", "cy", "dee"], "shop": ["n", "n", "s", "s"], "item": ["tea", "jam", "tea", "milk"]}
WINDOWS = ss.Windows(time="at", every="day", first="2026-01-01")
JOB = {"job": 1, "folder": "out", "delay": 60}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of what people have: rows in files of all kinds, agreements, releases and a job."""
    folder = tmp_path_factory.mktemp("mistakes")
    table = pa.table(ROWS | {"n": [1, 2, 3, 4], "at": ["2026-01-01T10:00Z"] * 4})
    pq.write_table(table, folder / "rows.parquet")
    text = "\n".join([",".join(table.column_names), *(",".join(map(str, row.values())) for row in table.to_pylist())])
    (folder / "rows.csv").write_text(text + "\n")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (folder / "array.jsonl").write_text(json.dumps(table.to_pylist()))
    (folder / "semicolons.csv").write_text(text.replace(",", ";"))
    (folder / "utf16.csv").write_bytes(text.encode("utf-16"))
    (folder / "latin.csv").write_bytes("customer,shop,item\nann,n,Käse\n".encode("latin-1"))
    (folder / "head.csv").write_text("customer,shop,item\n")
    (folder / "na.csv").write_text("customer,shop,item\nNA,n,tea\nNULL,n,tea\n")
    (folder / "blank.csv").write_text("customer, shop,item\nann,n,tea\n")
    (folder / "capitals.csv").write_text("Customer,Shop,Item\nann,n,tea\n")
    (folder / "empty.csv").write_text("")
    (folder / "cents.csv").write_text("customer,item,price\nann,tea,1.99\n")
    (folder / "comma.csv").write_text('customer,item,price\nann,tea,"1,99"\n')
    (folder / "excel.xlsx").write_bytes(b"PK\x03\x04 not a table")
    (folder / "csv.parquet").write_text(text)
    (folder / "notes.txt").write_text("tea\njam\n")
    (folder / "map.json").write_text(ss.SJLT(sketch_dim=64, sparsity=4, seed=7).to_json())
    (folder / "no.json").write_text("{}")
    (folder / "broken.json").write_text("{")
    terms = {"epsilon": 1, "delta": 1e-6, "missing": "drop"}
    whole = ss.agree(table, ss.SJLT(sketch_dim=64, sparsity=4, seed=7), index="item", unit="customer", **terms)
    whole.save(folder / "a.json")
    whole.replace(terms=None).save(folder / "free.json")
    whole.replace(windows=WINDOWS).save(folder / "days.json")
    keyed = {"key": "shop", "max_keys": 1, "keys": ["n", "s"]}
    by_key = ss.agree(table, whole.projection, index="item", unit="customer", **keyed, **terms)
    by_key.save(folder / "shops.json")
    whole.release(table).save(folder / "web.sketch")
    whole.release(table).save(folder / "shop.sketch")
    by_key.release(table).save(folder / "shops.parquet")
    ss.storage.save_raw(whole.sketch(table), folder / "raw.raw-sketch")
    ss.storage.save_raw(whole.replace(terms=None).sketch(table), folder / "free.raw-sketch")
    plain = whole.projection.sketch()
    plain.update(["tea"])
    ss.storage.save_raw(plain, folder / "plain.raw-sketch")
    ss.Agreement.of(whole.projection, index="item", value="price").save(folder / "cents.json")
    (folder / "job.json").write_text(json.dumps(JOB))
    (folder / "named.json").write_text(json.dumps(JOB | {"stream": "shops"}))
    (folder / "out").mkdir()
    (folder / "taken.json").write_text("{}")
    return folder


AGREE = "agree rows.csv --index item --unit-column customer"
REFUSED = {
    # agreeing
    "agree": "Missing option '--output'",
    "agree -o x.json": "state which columns are sketched",
    "agree --index item -o x.txt": "written to a file named *.json",
    "agree --index item -o taken.json": "already exists and is not replaced",
    "agree --index item -o nowhere/x.json": "there is no folder nowhere",
    "agree nowhere.csv --index item -o x.json": "does not exist",
    "agree excel.xlsx --index item -o x.json": "is neither Parquet nor CSV",
    "agree rows.jsonl --index item -o x.json": "is neither Parquet nor CSV",
    "agree rows.csv --index thing -o x.json": "rows.csv has no column thing",
    "agree rows.csv --index Item -o x.json": "differs from it in case or in blanks",
    "agree blank.csv --index item --key shop -o x.json": "differs from it in case or in blanks",
    "agree semicolons.csv --index item -o x.json": "if its delimiter is no comma, leave the file out",
    "agree rows.csv --index item:word -o x.json": "does not end in a type of an agreement",
    "agree rows.csv --index item --value n:int -o x.json": "without a type",
    f"{AGREE} --epsilon 0 -o x.json": "epsilon",
    f"{AGREE} --epsilon -1 -o x.json": "epsilon",
    f"{AGREE} --epsilon one -o x.json": "decimal number",
    f"{AGREE} --epsilon 0,5 -o x.json": "decimal number",
    f"{AGREE} --epsilon 50% -o x.json": "decimal number",
    f"{AGREE} --epsilon 1 -o x.json": "meant for Gaussian noise",
    f"{AGREE} --epsilon 1 --delta 1 -o x.json": "delta",
    f"{AGREE} --delta 1e-6 -o x.json": "also give --epsilon",
    f"{AGREE} --epsilon 1 --delta 1e-6 --set mechanism=gausian -o x.json": "unknown here",
    "agree rows.csv --index item --epsilon 1 -o x.json": "a release protects somebody",
    f"{AGREE} --key shop --epsilon 1 --delta 1e-6 -o x.json": "which keys have data is private",
    f"{AGREE} --key shop --keys-are-public --public-key n -o x.json": "give one of --public-key",
    f"{AGREE} --public-key n -o x.json": "no key column",
    "agree rows.csv --index item --max-keys 3 -o x.json": "belong to a bound",
    f"{AGREE} --l1 many -o x.json": "--l1",
    f"{AGREE} --l1 0 -o x.json": "bound",
    f"{AGREE} --l1 5 --sketch-l2 1 -o x.json": "each state how much one unit can change",
    f"{AGREE} --missing ignore -o x.json": "missing must be one of",
    f"{AGREE} --window day -o x.json": "--window LENGTH --time COLUMN",
    f"{AGREE} --time at -o x.json": "--window LENGTH --time COLUMN",
    f"{AGREE} --window fortnight --time at -o x.json": "a window must be a number and a unit",
    f"{AGREE} --window day --time at --first yesterday -o x.json": "first",
    f"{AGREE} --window day --time at --set zone=Berlin -o x.json": "is not a time zone",
    f"{AGREE} --set colour=blue -o x.json": "--set takes NAME=VALUE, with one of the names",
    f"{AGREE} --set sed=7 -o x.json": "Did you mean seed?",
    f"{AGREE} --set seed -o x.json": "--set takes NAME=VALUE",
    f"{AGREE} --set seed=x -o x.json": "--set seed takes NUMBER",
    f"{AGREE} --set seed=1 --set seed=2 -o x.json": "stated twice",
    f"{AGREE} --set projection=a.json -o x.json": "it is an agreement",
    f"{AGREE} --set clip=round -o x.json": "clip",
    "agree a.json --index shop --set sketch-dim=9 -o x.json": "leave out --sketch-dim",
    "agree map.json --index item -o x.json": "it is a projection alone",
    "agree plain.raw-sketch --epsilon 1 --l1 1 -o x.json": "state its columns: --index",
    # releasing
    "release comma.csv --agreement cents.json -o x.sketch": "does not say what a release spends",
    "sketch comma.csv --agreement cents.json -o x.raw-sketch": "--set decimal=,",
    "release": "Missing argument",
    "release rows.csv": "`streamsketch agree rows.csv --index COLUMN",
    "release rows.csv -o x.sketch": "`streamsketch agree rows.csv --index COLUMN",
    "release nowhere.csv --agreement a.json -o x.sketch": "does not exist",
    "release rows.csv --agreement nowhere.json -o x.sketch": "does not exist",
    "release rows.csv --agreement rows.csv -o x.sketch": "is not an agreement",
    "release rows.csv --agreement map.json -o x.sketch": "it is a projection alone",
    "release rows.csv --agreement no.json -o x.sketch": "is not an agreement",
    "release rows.csv --agreement broken.json -o x.sketch": "is not an agreement",
    "release rows.csv --agreement free.json -o x.sketch": "`streamsketch agree free.json --epsilon 1",
    "release rows.csv --agreement a.json": "--output FILE, or --dry-run",
    "release rows.csv --agreement a.json -o x.csv": "named *.sketch",
    "release rows.csv --agreement shops.json -o x.sketch": "named *.parquet",
    "release rows.csv --agreement a.json -o web.sketch": "already exists and is not replaced",
    "release rows.csv rows.csv --agreement a.json -o x.sketch": "named twice",
    "release rows.csv ./rows.csv --agreement a.json -o x.sketch": "named twice",
    "release rows.csv --agreement days.json -o x.sketch": "releases each window by itself",
    "release rows.csv --agreement a.json --epsilon 2 -o x.sketch": "An agreement says that",
    "release rows.csv --agreement a.json --assert-bounds -o x.sketch": "rows are bounded as the agreement says",
    "release rows.csv --agreement a.json --ledger no.db -o x.sketch": "there is no ledger no.db",
    "release rows.csv --agreement a.json --dataset sales -o x.sketch": "give --ledger FILE as well",
    "release rows.csv --agreement a.json --set claims=d -o x.sketch": "for a cluster",
    "release capitals.csv --agreement a.json -o x.sketch": "differs from item in case or in blanks",
    "release semicolons.csv --agreement a.json -o x.sketch": "--set delimiter=';'",
    "release rows.csv --agreement a.json --set delimiter=:: -o x.sketch": "one ASCII character",
    "release rows.csv --agreement a.json --set format=xml -o x.sketch": "--set format takes csv|jsonl|parquet",
    "release utf16.csv --agreement a.json -o x.sketch": "--set encoding=utf-16",
    "release latin.csv --agreement a.json -o x.sketch": "encoding",
    "release array.jsonl --agreement a.json -o x.sketch": "JSON",
    "release excel.xlsx --agreement a.json -o x.sketch": "excel.xlsx",
    "release csv.parquet --agreement a.json -o x.sketch": "csv.parquet",
    "release empty.csv --agreement a.json -o x.sketch": "empty.csv",
    "release notes.txt --agreement a.json -o x.sketch": "--set format=csv",
    "release free.raw-sketch -o x.sketch": "`streamsketch agree free.raw-sketch --epsilon EPSILON",
    "release plain.raw-sketch -o x.sketch": "`streamsketch agree plain.raw-sketch --index COLUMN --l1 BOUND",
    "release raw.raw-sketch --agreement shops.json -o x.parquet": "of the other kind",
    "release raw.raw-sketch": "--output FILE, or --dry-run",
    "release raw.raw-sketch free.raw-sketch -o x.sketch": "merge them first",
    "release web.sketch -o x.sketch": "is a release, not a raw sketch",
    # sketching
    "sketch rows.csv -o x.raw-sketch": "Missing option '--agreement'",
    "sketch rows.csv --agreement a.json": "Missing option '--output'",
    "sketch rows.csv --agreement a.json -o x.sketch": "named *.raw-sketch",
    "sketch rows.csv rows.csv --agreement a.json -o x.raw-sketch": "named twice",
    "sketch rows.csv --agreement days.json -o x.raw-sketch": "windows that are releases",
    "sketch - --agreement a.json -o x.raw-sketch": "state what standard input is: --set format=csv",
    "sketch rows.csv --agreement a.json --set every=x -o x.raw-sketch": "--set every takes SECONDS",
    "sketch rows.csv --agreement a.json --window day -o x.raw-sketch": "An agreement says that",
    "sketch rows.csv --agreement a.json --set bad-lines=skip -o x.raw-sketch": "may depend on one unit",
    "sketch rows.csv --agreement shops.json --append -o raw.raw-sketch": "agreements differ",
    # reading
    "compare": "Missing argument",
    "compare web.sketch": "needs at least two",
    "compare web.sketch web.sketch": "named twice",
    "compare web.sketch shops.parquet": "agreements differ",
    "compare web.sketch rows.csv": "is not a release",
    "compare web.sketch raw.raw-sketch": "is a raw sketch, which is secret",
    "compare web.sketch shop.sketch --by cosin": "Did you mean cosine?",
    "compare web.sketch shop.sketch --top 0": "--top must be at least 1",
    "compare web.sketch shop.sketch --confidence 95": "confidence",
    "compare web.sketch shop.sketch --why notes.txt": "give --agreement FILE",
    "compare web.sketch shop.sketch --set picture=a.svg": "give --why DICTIONARY",
    "frequency web.sketch": "name the items",
    "frequency web.sketch --items tea": "--agreement FILE",
    "nearest web.sketch": "needs at least two",
    "describe web.sketch --agreement a.json": "has no features",
    "report web.sketch -o r.html": "needs at least two sketches",
    "report web.sketch shop.sketch -o r.pdf": "named *.html",
    "changes web.sketch": "window",
    "history web.sketch": "window",
    "explain": "name files",
    "explain rows.csv": "is not a release",
    "merge web.sketch -o x.sketch": "at least two files",
    "merge web.sketch raw.raw-sketch -o x.sketch": "is raw",
    # plans, ledgers, parties and streams
    "plan": "Usage",
    "plan units --items 10 --epsilon 1": "number of units in a key",
    "plan units --items ten --units 9 --epsilon 1": "numbers with commas",
    "plan units --items 10 --units no.csv --epsilon 1": "no.csv",
    "plan sites --features 5 --units 2000": "state one difference",
    "plan windows --windows 9 -o x.json": "an agreement has columns and a bound",
    "plan windows --windows 9 --agreement a.json --range 99": "from 1 to 9",
    "plan windows --windows 9 --agreement a.json --epsilon 2": "leave out --epsilon",
    "ledger show no.db": "there is no ledger no.db",
    "ledger charge no.db --dataset d --epsilon 1 --bound 1 --note n": "there is no ledger no.db",
    "party verify web.sketch": "state whose signature is expected",
    "party round new x.json --agreement free.json": "does not say what the round spends",
    "party key show no.pem": "does not exist",
    "stream file rows.csv --agreement days.json": "Missing option '--job'",
    "stream file rows.csv --agreement a.json --job job.json": "agree on windows",
    "stream file rows.csv --agreement days.json --job a.json": "is not a job",
    "stream file rows.csv --agreement days.json --job job.json --set color=1": "unknown field",
    "stream file rows.csv --agreement days.json --job job.json --set every=0": "a number of seconds > 0",
    "stream file rows.csv --agreement days.json --job job.json --set port=x": "--set port takes a whole number",
    "stream file rows.parquet --agreement days.json --job job.json": "state what rows.parquet is",
    "stream pipe --agreement days.json --job job.json": "state what standard input is",
    "stream kafka --agreement days.json --job job.json": "needs servers, topic in the job",
    "stream publish --job job.json": "names no stream",
    "stream publish --job named.json": "needs servers, releases_topic in the job",
    "realease rows.csv": "No such command 'realease'",
}
WARNED = {
    "release na.csv --agreement a.json -o na.sketch": "which often stands for a missing value",
    "release head.csv --agreement a.json -o head.sketch": "warning: head.csv has no rows",
    "sketch na.csv --agreement a.json -o na.raw-sketch": "which often stands for a missing value",
    "sketch head.csv --agreement a.json -o head.raw-sketch": "warning: head.csv has no rows",
    "sketch cents.csv --agreement cents.json -o cents.raw-sketch": "is lost",
}


def test_there_are_more_than_a_hundred() -> None:
    assert len(REFUSED) + len(WARNED) > 150


@pytest.mark.parametrize("call", REFUSED)
def test_a_mistake_is_refused_in_one_sentence_and_writes_nothing(call: str, made: Path) -> None:
    before = sorted(made.rglob("*"))
    done = run_command(call.split(), made)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert REFUSED[call] in done.stderr
    if call != "plan":  # which prints its help
        assert re.fullmatch(r"(?:(?!error).*\n)*error: [^\n]+\n", done.stderr), done.stderr
    assert sorted(made.rglob("*")) == before


@pytest.mark.parametrize("call", WARNED)
def test_what_is_done_all_the_same_is_warned_of(call: str, made: Path) -> None:
    done = run_command(call.split(), made)
    assert done.returncode == 0, done
    assert WARNED[call] in done.stderr
