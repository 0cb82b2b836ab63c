"""Lines that cannot be read, files written otherwise, values that a grid truncates, and windows of time."""

import gzip
import json
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.storage import load_raw
from tests.cli.running import Forks
from tests.cli.sales import EVENTS, expected

MADE = ["--projection", "agreed.json", "-o", "a.raw-sketch"]
CSV_FAULTS = b"north,too few\nnorth,a,1,NaN\nnorth,b,1,\nnorth,c,1,1.0000000000001\nnorth,\xff,1,2\nnorth,d,1,1e30\n"
JSON_FAULTS = b'{"shop": 1}\nno JSON\n{"shop": "a", "item": "b", "aisle": 1, "amount": 1e30}\n[]\n'


@pytest.mark.parametrize("source", ["stream", "file"])
@pytest.mark.parametrize(("form", "faults"), [("csv", CSV_FAULTS), ("jsonl", JSON_FAULTS)])
def test_bad_lines_are_left_out_counted_and_kept(
    form: str,
    faults: bytes,
    source: str,
    folder: Path,
    forks: Forks,
) -> None:
    lines = (folder / f"sales.{form}").read_bytes().splitlines(keepends=True)
    header, good = (lines[0], lines[1:]) if form == "csv" else (b"", lines)
    data = header + faults + b"".join(good[:2]) + faults + b"".join(good[2:]) + faults
    (folder / f"bad.{form}").write_bytes(data)
    given, stdin = (["-", "--set", f"format={form}"], data) if source == "stream" else ([f"bad.{form}"], b"")
    number = 3 * faults.count(b"\n")
    skipped = forks.run("sketch", *given, *EVENTS, *MADE, "--set", "bad-lines=skip", "--json", cwd=folder, stdin=stdin)
    assert skipped.returncode == 1, skipped.stderr
    assert (json.loads(skipped.stdout)["bad_lines"], json.loads(skipped.stdout)["events"]) == (number, 4)
    assert load_raw(folder / "a.raw-sketch").state == expected()
    (folder / "a.raw-sketch").unlink()
    kept = forks.run("sketch", *given, *EVENTS, *MADE, "--set", "bad-lines=bad.txt", cwd=folder, stdin=stdin)
    assert f"{number} bad lines left out and written to bad.txt (secret)" in kept.stderr
    assert (folder / "bad.txt").read_bytes() == header + 3 * faults
    assert stat.S_IMODE((folder / "bad.txt").stat().st_mode) == 0o600
    assert load_raw(folder / "a.raw-sketch").state == expected()
    again = forks.run(
        "sketch", *given, *EVENTS, *MADE, "--append", "--set", "bad-lines=bad.txt", cwd=folder, stdin=stdin
    )
    assert "bad.txt already exists; name a new file for bad lines" in again.stderr


def test_good_lines_leave_no_file_of_bad_ones(folder: Path, forks: Forks) -> None:
    (folder / "sales.csv.gz").write_bytes(gzip.compress((folder / "sales.csv").read_bytes()))
    forks.succeeded("sketch", "sales.csv.gz", *EVENTS, *MADE, "--set", "bad-lines=bad.txt", cwd=folder)
    assert load_raw(folder / "a.raw-sketch").state == expected()
    assert not (folder / "bad.txt").exists()


@pytest.mark.parametrize("source", ["stream", "file"])
def test_a_quote_that_never_closes_takes_one_line_or_is_an_error(source: str, folder: Path, forks: Forks) -> None:
    """If cells may hold line breaks, the rows after it are not known."""
    lines = [
        b"shop,item,aisle,amount\n",
        b"north,x,1,2\n",
        b'north,"open,1,2\n',
        b"north,z,1,2\n",
        b'north,"a""b",1,2\n',
    ]
    data = b"".join(lines)
    (folder / "open.csv").write_bytes(data)
    given, stdin = (["-", "--set", "format=csv"], data) if source == "stream" else (["open.csv"], b"")
    options = [*EVENTS, *MADE, "--set", "bad-lines=skip"]
    done = forks.run("sketch", *given, *options, "--set", "multiline=no", "--json", cwd=folder, stdin=stdin)
    assert done.returncode == 1  # more than 1 % of the lines are bad
    told = json.loads(done.stdout)
    assert (told["events"], told["bad_lines"]) == (3, 1)
    (folder / "a.raw-sketch").unlink()
    done = forks.run("sketch", *given, *options, cwd=folder, stdin=stdin)
    assert done.returncode == 2
    assert "row 3 of" in done.stderr
    assert "give --set multiline=no" in done.stderr


def test_a_stream_ends_at_its_first_bad_line_and_names_it(folder: Path, forks: Forks) -> None:
    data = (folder / "sales.csv").read_bytes() + b"north,secret-name,1,secret-number\nnorth,x,1,1\n"
    done = forks.run("sketch", "-", *EVENTS, *MADE, "--set", "format=csv", cwd=folder, stdin=data)
    assert done.returncode == 2
    assert "standard input cannot be read as CSV (row 6, column amount)" in done.stderr
    assert "a.raw-sketch holds the 4 events before" in done.stderr
    assert "secret-n" not in done.stderr
    assert load_raw(folder / "a.raw-sketch").state == expected()


def test_errors_in_files_name_the_file_the_row_and_the_column(folder: Path, forks: Forks) -> None:
    head = "shop,item,aisle,amount\n" + "north,x,1,2\n" * 9
    for text, message in [
        (head + "north,x,1,two\n", "bad.csv cannot be read as CSV (row 11, column amount)"),
        (head + "north,x\n", "bad.csv cannot be read as CSV (row 11, 2 cells, not 4)"),
        (head + "north,x,1,\n", "bad.csv, rows 2 to 11 (the header is row 1): the column amount has nulls"),
        (head.replace(",", ";"), "bad.csv has one column only; if ';' is its delimiter"),
        (head.replace(",", ";"), "on the command line --set delimiter=';'"),
    ]:
        (folder / "bad.csv").write_text(text)
        assert message in forks.refused("sketch", "sales.csv", "bad.csv", *EVENTS, *MADE, cwd=folder)
    columns = {"shop": ["a", None], "item": ["b", "c"], "aisle": [1, 2], "amount": [1, 2]}
    pq.write_table(pa.table(columns), folder / "bad.parquet", compression="none")
    assert "bad.parquet, rows 1 to 2: the column shop has nulls" in forks.refused(
        "sketch", "bad.parquet", *EVENTS, *MADE, cwd=folder
    )


@pytest.mark.parametrize(("delimiter", "said"), [(";", ";"), ("\t", r"\t"), ("\t", "\t"), ("|", "|")])
def test_a_delimiter_is_what_is_between_the_cells(delimiter: str, said: str, folder: Path, forks: Forks) -> None:
    lines = [
        ["shop", "item", "aisle", "amount"],
        *([shop, f'"{item}"', str(aisle), amount] for shop, item, aisle, amount in ROWS),
    ]
    text = "\n".join(delimiter.join(line) for line in lines) + "\n"
    (folder / "other.csv").write_text(text)
    for name, stdin in (("other.csv", b""), ("-", text.encode())):
        forks.succeeded(
            "sketch", name, *EVENTS, *MADE, "--set", "format=csv", "--set", f"delimiter={said}", cwd=folder, stdin=stdin
        )
        assert load_raw(folder / "a.raw-sketch").events == len(ROWS)
        assert set(load_raw(folder / "a.raw-sketch").state) == {"north", "south"}
        (folder / "a.raw-sketch").unlink()
    assert "the delimiter must be one ASCII" in forks.refused(
        "sketch", "other.csv", *EVENTS, *MADE, "--set", "delimiter=::", cwd=folder
    )


ROWS = [("north", f"a{delimiter}\nb", 7, "0.5") for delimiter in ";\t|,"] + [("south", "x", 1, "2")]


def test_values_that_a_grid_truncates_are_told_to_the_operator(folder: Path, forks: Forks) -> None:
    (folder / "cents.csv").write_text("item,price\na,1.99\nb,-0.99\nc,2\n")
    options = ["--index", "item", "--value", "price", "-o", "a.raw-sketch", "--sketch-dim", 64]
    for name, stdin in (("cents.csv", b""), ("-", (folder / "cents.csv").read_bytes())):
        done = forks.run("sketch", name, *options, "--set", "format=csv", cwd=folder, stdin=stdin)
        assert done.returncode == 0, done.stderr
        assert "of --value price 40 % is lost: absolute values sum to 4.98, and to 3 in the sketch" in done.stderr
        assert done.stderr.count("truncated") == 1
        (folder / "a.raw-sketch").unlink()
    done = forks.run("sketch", "cents.csv", *options, "--resolution", "1/100", cwd=folder)
    assert "lost" not in done.stderr


def test_windows_of_a_day_are_keys_of_their_own(folder: Path, forks: Forks) -> None:
    (folder / "times.csv").write_text(
        "shop,item,when\nnorth,a,31.05.2024 23:59\nnorth,b,01.06.2024 00:00\nsouth,b,01.06.2024 08:30\n"
    )
    timed = ["--index", "item", *MADE, "--time", "when", "--time-format", "%d.%m.%Y %H:%M", "--window"]
    for window, keyed, keys in [
        ("1 day", ["--key", "shop"], {"north 2024-05-31", "north 2024-06-01", "south 2024-06-01"}),
        ("24h", [], {"2024-05-31", "2024-06-01"}),
        ("15 min", [], {"2024-05-31T23:45Z", "2024-06-01T00:00Z", "2024-06-01T08:30Z"}),
    ]:
        forks.succeeded("sketch", "times.csv", *timed, window, *keyed, cwd=folder)
        assert set(load_raw(folder / "a.raw-sketch").state) == keys
        (folder / "a.raw-sketch").unlink()
    wrong = forks.refused("sketch", "times.csv", *timed[:-3], "--window", "1d", cwd=folder)
    assert "in row 2 a text that is not a time in ISO 8601" in wrong
    windows = ["agree", "--index", "item", "--set", "windows=keys", "-o", "x.json"]
    assert "got 'a day'" in forks.refused(*windows, "--window", "a day", "--time", "when", cwd=folder)
    assert "a length and a column of times" in forks.refused(*windows, "--time", "when", cwd=folder)


def test_windows_of_the_calendar_are_in_a_time_zone(folder: Path, forks: Forks) -> None:
    (folder / "times.csv").write_text(
        "shop,item,when\nnorth,a,2024-04-30T21:59:59Z\nnorth,b,2024-04-30T22:00:00Z\nsouth,b,2024-05-01T00:30+02:00\n"
    )
    timed = ["--index", "item", *MADE, "--time", "when", "--window"]
    for options, keys in [
        (["month", "--zone", "Europe/Berlin", "--key", "shop"], {"north 2024-04", "north 2024-05", "south 2024-05"}),
        (["month"], {"2024-04"}),
        (["1 week", "--zone", "Asia/Kathmandu"], {"2024-04-29"}),
        (["day", "--zone", "Europe/Berlin"], {"2024-04-30", "2024-05-01"}),
    ]:
        forks.succeeded("sketch", "times.csv", *timed, *options, cwd=folder)
        assert set(load_raw(folder / "a.raw-sketch").state) == keys
        (folder / "a.raw-sketch").unlink()
    for options, message in [
        (["1 day", "--set", "zone=Berlin"], "'Berlin' is not a time zone in this machine's IANA database"),
        (["15 min", "--set", "zone=UTC"], "must be a day, a week or a month in a time zone, got '15 min'"),
    ]:
        windows = ["agree", "--index", "item", "--time", "when", "-o", "x.json", "--window", *options]
        assert message in forks.refused(*windows, cwd=folder)
    lone = forks.refused("agree", "--index", "item", "-o", "x.json", "--set", "zone=UTC", cwd=folder)
    assert "windows have a length and a column of times" in lone


def test_names_are_given_with_commas_or_one_by_one(raws: Path, forks: Forks) -> None:
    spend = ["--epsilon", 1, "--l1", 1]
    for place, keys in enumerate([["north,west"], ["north", "west"], ['"north","west"']]):
        options = [part for key in keys for part in ("--public-key", key)]
        forks.succeeded("release", "a.raw-sketch", *spend, *options, "--again", "-o", f"{place}.parquet", cwd=raws)
        assert list(ss.load(raws / f"{place}.parquet")) == ["north", "west"]
    one = ["--public-key", '"north, by the sea"', "--again", "-o", "sea.parquet"]
    forks.succeeded("release", "a.raw-sketch", *spend, *one, cwd=raws)
    assert list(ss.load(raws / "sea.parquet")) == ["north, by the sea"]
    for keys, message in [("a,,b", "has an empty name"), ("a,b,a", "has 'a' twice"), ('"a"b', "has a quote that")]:
        refused = forks.refused("release", "b.raw-sketch", *spend, "--public-key", keys, "-o", "c.parquet", cwd=raws)
        assert f"--public-key {message}" in refused
    commas = [part for name in EVENTS for part in ([] if name in ("--index", "item", "aisle") else [name])]
    forks.succeeded(
        "sketch",
        "sales.csv",
        *commas,
        "--index",
        "item,aisle",
        "--projection",
        "agreed.json",
        "-o",
        "z.raw-sketch",
        cwd=raws,
    )
    assert load_raw(raws / "z.raw-sketch").state == expected()
