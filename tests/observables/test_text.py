"""The game on bytes: the text of one unit, whatever it holds, changes no row of another unit.

Neighbours differ by the bytes of one unit's cells: any text, any length, any quotes, and a log that is cut within them.
Each format is written as its writers do, and read in each place: whole files, standard input, logs that are followed,
rotated or lost, messages of Kafka, and Beam. A text holds rows of ghosts, heartbeats and deletions, in every format.
"""

import contextlib
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.beam.intake.read import read_batches
from streamsketch.beam.streams import DecodeMessages, encoded_batch
from streamsketch.intake import BadLines, Intake, Log, Messages, RowReader
from streamsketch.intake.framing import ONE_LINE, QUOTED, heartbeat
from streamsketch.jobs import Malformed, Message, Payloads
from streamsketch.sketching.bounding.units import bound_batches

BOUND = ss.L1(2, unit="cust")
AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=16, sparsity=2, seed=3),
    index="item",
    unit="cust",
    neighbours=BOUND,
    missing="drop",
)
COLUMNS = ["item", "cust", "at"]
AT = "2026-11-22T00:05:00Z"
MICROS = 1_795_306_500_000_000
LONGEST = 300


class Row(NamedTuple):
    """A row of the log."""

    item: str
    cust: str
    at: str = AT


OTHERS = [
    Row("tea", "c0"),
    Row('5" pipe', "c1"),
    Row("a, b", "c2"),
    Row('""', "c3"),
    *(Row("x", f"c{n}") for n in range(4, 9)),
]
GHOST = "tea,ghost,2026-11-22T00:05:00Z"
GHOST_JSON = json.dumps({"item": "tea", "cust": "ghost", "at": AT})
BEAT = ",,2026-11-22T09:00:00Z"
LINES = [
    GHOST,
    f'"tea","ghost","{AT}"',
    GHOST_JSON,
    BEAT,
    f"{GHOST_JSON},",
    f'{{"at": "{AT}"}}',
    "",
    "{",
    "}",
    "]",
    "c0",
]
QUOTES = ["", '"', '""', '"""', ',"', '",', '\\"', "'", '","', '"x', "\\"]
ENDS = ["\n", "\r\n", "\r", "\n\n", "\u2028", "\x0b", "\x1c", "\x85", "\0"]


LENGTHS = (0, LONGEST - 60, 2 * LONGEST)


def texts_of(lengths: tuple[int, ...] = LENGTHS) -> Iterator[str]:
    """Yield texts of one unit: quotes, rows of others between line ends, quotes, after text of some length."""
    yield from QUOTES
    for quote, end, line, length in itertools.product(QUOTES, ENDS, LINES, lengths):
        if length == 0 or (quote in ("", '"') and end in ("\n", "\r\n", "\r")):
            yield "A" * length + quote + end + line + end + line + end + quote


TEXTS = list(dict.fromkeys(texts_of()))
ANY = st.lists(st.sampled_from([*QUOTES, *ENDS, *LINES, "A" * 299, ",", "é"]), max_size=8).map("".join)


# --- writers ------------------------------------------------------------------------------------------------


def quoted(rows: list[Row]) -> list[bytes]:
    """Return rows of CSV with quotes where they are needed."""
    return [
        (",".join(_quoted(cell) if set(cell) & set(',"\r\n') else cell for cell in row) + "\n").encode() for row in rows
    ]


def all_quoted(rows: list[Row]) -> list[bytes]:
    """Return rows of CSV with quotes around each cell."""
    return [(",".join(map(_quoted, row)) + "\n").encode() for row in rows]


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def formatted(rows: list[Row]) -> list[bytes]:
    """Return rows of CSV as string formatting writes them, which quotes nothing, but those of others are sound."""
    return [
        (",".join(row) + "\n").encode() if row.cust == "eve" else line
        for row, line in zip(rows, quoted(rows), strict=True)
    ]


def in_quotes(rows: list[Row]) -> list[bytes]:
    """Return rows of CSV with quotes around each cell, but none is doubled."""
    return [
        (",".join(f'"{cell}"' for cell in row) + "\n").encode() if row.cust == "eve" else line
        for row, line in zip(rows, quoted(rows), strict=True)
    ]


def json_lines(rows: list[Row], **options: Any) -> list[bytes]:
    """Return rows as lines of JSON."""
    return [json.dumps(row._asdict(), **options).encode(errors="surrogatepass") + b"\n" for row in rows]


def json_of_unicode(rows: list[Row]) -> list[bytes]:
    """Return rows as lines of JSON with few escapes."""
    return json_lines(rows, ensure_ascii=False)


CSV: list[Callable[[list[Row]], list[bytes]]] = [quoted, all_quoted, formatted, in_quotes]
JSON: list[Callable[[list[Row]], list[bytes]]] = [json_lines, json_of_unicode]


# --- places -------------------------------------------------------------------------------------------------


class Found(list[tuple[str, str]]):
    """Rows that were read, of others than Eve: customers and items; heartbeats have none."""

    def add(self, batch: pa.RecordBatch, _: int = 0) -> None:
        """Add the rows of a batch."""
        for cust, item in zip(batch.column("cust").to_pylist(), batch.column("item").to_pylist(), strict=True):
            if cust != "eve":
                self.append((cust, item))

    def of_others(self) -> list[tuple[str, str]]:
        """Return the rows of the others."""
        names = {row.cust for row in OTHERS}
        return [row for row in self if row[0] in names]


def lines_of(pieces: Any, read: Any) -> Found:
    found = Found()
    for piece in pieces:
        read(piece, found.add)
    return found


def log_of(form: str, *files: bytes, folder: Path, restart: bool = False, lost: bool = False) -> tuple[Found, Log]:
    """Read a log of some files, each of which is rotated once it was read."""
    path, found, position = folder / f"log.{form}", Found(), None
    losses: list[str] = []
    with contextlib.ExitStack() as stack:
        for number, data in enumerate(files):
            if number:
                path.unlink() if lost else path.rename(path.with_name(f"{path.name}.1"))
            path.write_bytes(data)
            if restart or lost or not number:
                file = stack.enter_context(path.open("rb", buffering=0))
                reader = RowReader(AGREEMENT, time="at", bad=BadLines("skip"))
                options: dict[str, Any] = {"path": path, "on_loss": losses.append, "longest": LONGEST, "look": 0.001}
                log = stack.enter_context(Log(file, reader, form, str(path), position, **options))  # type: ignore[arg-type]
            for piece in log.pieces():
                log.read(piece, found.add)
            position = json.loads(json.dumps(log.position))
    assert len(losses) == lost
    for other in folder.iterdir():
        other.unlink()
    return found, log


def read_pipe(log: Any, source: int, sink: int, data: bytes, size: int, found: Found) -> None:
    """Read a pipe to its end, into which blocks of this size are written whenever it is empty."""
    at = 0
    for piece in log.pieces(wait=lambda: 0):
        log.read(piece, found.add)
        if not piece and sink >= 0:
            if at < len(data):
                os.write(sink, data[at : at + size])
                at += size
            else:
                os.close(sink)
                sink = -1
    os.close(source)


def piped(form: str, data: bytes, size: int) -> tuple[Found, Log]:
    """Read a log from standard input, whose blocks have this size."""
    source, sink = os.pipe()
    reader = RowReader(AGREEMENT, time="at", bad=BadLines("skip"))
    log = Log(source, reader, form, longest=LONGEST)  # type: ignore[arg-type]
    found = Found()
    read_pipe(log, source, sink, data, size, found)
    return found, log


def whole(path: Path, data: bytes, **options: Any) -> tuple[Found | None, tuple[str, ...]]:
    """Read a whole file to bound its units; None if it is refused."""
    path.write_bytes(data)
    found, intake = Found(), Intake(AGREEMENT, bounded=True)
    reader = RowReader(AGREEMENT, **options)
    try:
        for batch in reader.batches(path):
            found.add(batch)
        list(reader.events(path, intake))
    except ss.InvalidInputError:
        return None, ()
    return found, tuple(intake.conditions)


# --- games --------------------------------------------------------------------------------------------------


def world(text: str | None, write: Callable[[list[Row]], list[bytes]]) -> list[bytes]:
    """Return the lines of a log with Eve's row, if she has a text, in the middle of others."""
    return write([*OTHERS[:5], *([] if text is None else [Row(text, "eve")]), *OTHERS[5:]])


HEADER = b"item,cust,at\n"
EXPECTED = [(row.cust, row.item) for row in OTHERS]
# Of quotes, ends and lines, 11, 9 and 11, whose number 7 does not divide: all pairs of them are among every seventh.
at_each_text = pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])


def test_every_seventh_text_has_each_pair_of_its_pieces() -> None:
    texts = set(TEXTS[::7])
    pairs = [itertools.product(QUOTES, ENDS), itertools.product(QUOTES, LINES), itertools.product(ENDS, LINES)]
    of_quotes_and_ends, of_quotes_and_lines, of_ends_and_lines = (set[tuple[str, str]]() for _ in pairs)
    for quote, end, line in itertools.product(QUOTES, ENDS, LINES):
        if any("A" * length + quote + end + line + end + line + end + quote in texts for length in LENGTHS):
            of_quotes_and_ends.add((quote, end))
            of_quotes_and_lines.add((quote, line))
            of_ends_and_lines.add((end, line))
    assert [of_quotes_and_ends, of_quotes_and_lines, of_ends_and_lines] == [set(pair) for pair in pairs]


@at_each_text
@pytest.mark.parametrize("write", CSV)
def test_whole_files_of_csv_give_the_rows_of_others_or_an_error(
    write: Callable[[list[Row]], list[bytes]], every: int, tmp_path: Path
) -> None:
    path, refused, texts = tmp_path / "rows.csv", 0, TEXTS[::every]
    for text in texts:
        if write in (formatted, in_quotes) and "\n" in text:
            continue  # such a writer makes lines of its own, whatever reads them
        found, conditions = whole(path, HEADER + b"".join(world(text, write)))
        assert found in (None, EXPECTED), repr(text)
        assert conditions == ()
        refused += found is None
    assert 0 < refused < len(texts)


@at_each_text
@pytest.mark.parametrize("write", [quoted, all_quoted])
def test_cells_over_several_lines_are_read_under_a_condition(
    write: Callable[[list[Row]], list[bytes]], every: int, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    for text in TEXTS[::every]:
        found, conditions = whole(path, HEADER + b"".join(world(text, write)), multiline=True)
        assert found == EXPECTED, repr(text)
        assert conditions == (QUOTED,)


def test_the_guarantee_of_cells_over_several_lines_states_its_condition(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(HEADER)  # also without rows
    for multiline, expected in ((None, ()), (False, ()), (True, (QUOTED,))):
        reader = RowReader(AGREEMENT, multiline=multiline)
        exact = bound_batches(partial(reader.events, path), AGREEMENT)
        released: Any = exact.release(epsilon=1.0, neighbours=BOUND)
        assert (released.guarantee.conditions, released.guarantee.basis) == (expected, "enforced")


@at_each_text
@pytest.mark.parametrize("write", JSON)
def test_whole_files_of_json_lines_give_the_rows_of_others(
    write: Callable[[list[Row]], list[bytes]], every: int, tmp_path: Path
) -> None:
    for text in TEXTS[:: 2 * every]:
        assert whole(tmp_path / "rows.jsonl", b"".join(world(text, write))) == (EXPECTED, ()), repr(text)


@at_each_text
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_whole_files_of_typed_cells_give_the_rows_of_others(form: str, every: int, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{form}"
    for text in TEXTS[:: 4 * every]:
        rows = [row._asdict() for row in [*OTHERS[:5], Row(text, "eve"), *OTHERS[5:]]]
        data = io.BytesIO()
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), data)
        else:
            fields = [{"name": name, "type": "string"} for name in COLUMNS]
            fastavro.writer(data, {"type": "record", "name": "row", "fields": fields}, rows)
        assert whole(path, data.getvalue()) == (EXPECTED, ()), repr(text)


@at_each_text
@pytest.mark.parametrize("size", [7, 300, 10_000])
@pytest.mark.parametrize("write", [*CSV, *JSON])
def test_standard_input_gives_the_rows_of_others(
    write: Callable[[list[Row]], list[bytes]], size: int, every: int
) -> None:
    form = "csv" if write in CSV else "jsonl"
    for text in TEXTS[:: every if size > 7 else 14 * every]:
        data = (HEADER if form == "csv" else b"") + b"".join(world(text, write))
        check_log(form, text, *piped(form, data, size))


def check_log(form: str, text: str, found: Found, log: Log) -> None:
    """Check what was read of a log; only CSV with line breaks may hold more rows, and then says so."""
    assert found.of_others() == EXPECTED, repr(text)
    if form == "csv":
        assert log.conditions == (ONE_LINE,)
    if form == "jsonl" or "\n" not in text:
        assert found == EXPECTED, repr(text)


@pytest.mark.parametrize("how", ["rotated", "rotated and left", "lost"])
@pytest.mark.parametrize("write", [*CSV, *JSON])
def test_a_log_that_is_cut_anywhere_gives_the_rows_of_others(
    write: Callable[[list[Row]], list[bytes]], how: str, tmp_path: Path
) -> None:
    """Within Eve's row, after which its file ends, as after a crash; and the next file begins with others."""
    form = "csv" if write in CSV else "jsonl"
    header = HEADER if form == "csv" else b""
    for place, text in enumerate(TEXTS[:: 400 if how == "lost" else 23]):  # a loss is waited for
        lines = world(text, write)
        cut = (place * 37) % (len(lines[5]) + 1)
        files = [header + b"".join(lines[:5]) + lines[5][:cut], b"".join(lines[6:])]
        if place % 2:
            files[1] = header + files[1]
        options = {"restart": how == "rotated and left", "lost": how == "lost"}
        check_log(form, text, *log_of(form, *files, folder=tmp_path, **options))


def test_a_log_is_left_within_a_line_that_is_too_long(tmp_path: Path) -> None:
    """What is left of it is no row in the next run either, in the file or after its rotation."""
    for write in (quoted, json_lines):
        form = "csv" if write is quoted else "jsonl"
        lines = world("A" * 3 * LONGEST, write)
        start = (HEADER if form == "csv" else b"") + b"".join(lines[:5]) + lines[5][: 2 * LONGEST]
        ghost = GHOST.encode() if form == "csv" else GHOST_JSON.encode()
        rest = ghost + b"\n" + b"".join(lines[6:])
        path = tmp_path / f"log.{form}"
        path.write_bytes(start)
        found, position, counts = Found(), None, []
        for data in (b"", rest):
            with path.open("ab") as file:
                file.write(data)
            with path.open("rb", buffering=0) as file:
                bad = BadLines("skip")
                reader = RowReader(AGREEMENT, time="at", bad=bad)
                with Log(file, reader, form, position=position, longest=LONGEST) as log:  # type: ignore[arg-type]
                    for piece in log.pieces():
                        log.read(piece, found.add)
                    position = json.loads(json.dumps(log.position))
            counts.append(bad.count)
        assert found == EXPECTED
        assert counts == [1, 0]
        path.unlink()


def kcat(contents: list[tuple[bytes | None, bytes | None]]) -> bytes:
    """Return messages of keys and contents as `kcat -J` prints them."""
    text = [[None if one is None else one.decode(errors="surrogatepass") for one in pair] for pair in contents]
    fields = {"topic": "t", "partition": 0}
    return b"".join(
        json.dumps(fields | {"offset": at, "ts": 1000 * at, "key": key, "payload": content}).encode() + b"\n"
        for at, (key, content) in enumerate(text)
    )


def read_messages(data: bytes, size: int) -> Found:
    source, sink = os.pipe()
    messages = Messages(source, RowReader(AGREEMENT, time="at", bad=BadLines("skip")), longest=4 * LONGEST)
    found = Found()
    read_pipe(messages, source, sink, data, size, found)
    return found


def read_payloads(form: Any, messages: list[Message]) -> Found:
    found = Found()
    Payloads(AGREEMENT, "at", form, Malformed(None)).add(0, messages, found.add)
    return found


def read_beam(form: Any, elements: list[Any]) -> Found:
    step = DecodeMessages(AGREEMENT, time="at", size=3600, format=form)._step
    step.start_bundle()
    outputs = [one for element in elements for one in step.process(element, MIN_TIMESTAMP)]
    found = Found()
    for one in [*outputs, *step.finish_bundle()]:
        if not isinstance(one, TaggedOutput):
            found.add(one.value)
    return found


def pretty(rows: list[Row]) -> list[bytes]:
    """Return rows as JSON over several lines."""
    return [json.dumps(row._asdict(), indent=1).encode() for row in rows]


def nested(rows: list[Row]) -> list[bytes]:
    """Return rows as JSON over several lines, in which Eve also has a list of what looks like rows."""
    return [
        json.dumps(row._asdict(), indent=1)[:-2].encode()
        + (b',\n"more": [\n' + GHOST_JSON.encode() + b"\n, " + b"9" * 5000 + b"]}" if row.cust == "eve" else b"}")
        for row in rows
    ]


def deep(rows: list[Row]) -> list[bytes]:
    """Return rows as JSON over several lines, in which Eve has what is nested too deeply to be read."""
    depth = 100_000
    return [
        json.dumps(row._asdict(), indent=1)[:-2].encode()
        + (
            b',\n"more": [\n' + GHOST_JSON.encode() + b"\n, " + b"[" * depth + b"]" * depth + b"]}"
            if row.cust == "eve"
            else b"}"
        )
        for row in rows
    ]


@pytest.mark.parametrize("write", [*JSON, pretty, nested, deep])
def test_messages_of_json_give_the_rows_of_others(write: Callable[[list[Row]], list[bytes]]) -> None:
    for text in TEXTS[:: 90 if write is deep else 20]:
        contents = world(text, write)
        messages = [Message(at, 0, content) for at, content in enumerate(contents)]
        assert read_payloads("json", messages) == EXPECTED, repr(text)
        assert sorted(read_beam("json", [contents[:3], *contents[3:]])) == sorted(EXPECTED), repr(text)
        if write is not deep:
            assert read_messages(kcat([(None, content) for content in contents]), 1 << 16) == EXPECTED, repr(text)


@pytest.mark.parametrize("size", [11, 4096])
def test_messages_that_are_too_long_are_left_out(size: int) -> None:
    for length in (4 * LONGEST - 200, 4 * LONGEST, 5 * LONGEST):
        for text in ("A" * length, "A" * length + GHOST_JSON, "A" * length + "\n" + GHOST_JSON):
            assert read_messages(kcat([(None, content) for content in world(text, json_lines)]), size) == EXPECTED


def test_messages_with_several_rows_give_the_rows_of_others() -> None:
    """Among them Eve's, with text that is not JSON, too: such a line ends with its newline."""
    for text in TEXTS[::20]:
        for write in JSON:
            content = b"".join(world(text, write))
            assert read_payloads("json", [Message(0, 0, content)]) == EXPECTED
            assert sorted(read_beam("json", [content])) == sorted(EXPECTED)
    for line in (
        b"{",
        b'"',
        b"[",
        b'{"item": "',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"}",
        b"9" * 5000,
        b"\xff",
        b"\x00",
    ):
        sound = json_lines(OTHERS)
        content = b"".join([*sound[:5], line + b"\n", *sound[5:]])
        assert read_payloads("json", [Message(0, 0, content)]) == EXPECTED
        assert sorted(read_beam("json", [content])) == sorted(EXPECTED)


def test_messages_of_arrow_give_the_rows_of_others() -> None:
    for text in TEXTS[::5]:
        rows = [*OTHERS[:5], Row(text, "eve"), *OTHERS[5:]]
        batch = pa.RecordBatch.from_pylist([row._asdict() for row in rows])
        micros = pa.array([MICROS] * len(rows), pa.timestamp("us", "UTC"))
        batch = batch.set_column(2, "at", micros)
        assert read_payloads("arrow", [Message(0, 0, encoded_batch(batch))]) == EXPECTED
        assert read_beam("arrow", [encoded_batch(batch)]) == EXPECTED


@given(ANY)
def test_any_text_changes_no_row_of_others(text: str) -> None:
    for write in JSON:
        content = b"".join(world(text, write))
        check_log("jsonl", text, *piped("jsonl", content, 4096))
        assert read_payloads("json", [Message(0, 0, content)]) == EXPECTED
    for write in CSV:
        check_log("csv", text, *piped("csv", HEADER + b"".join(world(text, write)), 4096))


@pytest.mark.parametrize("multiline", [None, True])
def test_beam_reads_whole_files_as_they_are_read_elsewhere(tmp_path: Path, *, multiline: bool | None) -> None:
    path = tmp_path / "rows.csv"
    for text in TEXTS[::17]:
        path.write_bytes(HEADER + b"".join(world(text, quoted)))
        found = Found()
        try:
            for batch in read_batches([str(path)], COLUMNS, text=COLUMNS, multiline=multiline):
                found.add(batch)
        except ss.InvalidInputError:
            assert not multiline
            assert "\n" in text
        else:
            assert found == EXPECTED
    with pytest.raises(ss.InvalidInputError, match="units are bounded, the column cust"):
        list(read_batches([str(path)], AGREEMENT, multiline=True))


# --- heartbeats ---------------------------------------------------------------------------------------------

KINDS: dict[str, list[tuple[bytes | None, bytes | None]]] = {  # key and content, and what each is
    "heartbeat": [(None, None), (None, b"")],
    "bad": [(b"k", None), (b"k", b""), (b"", None), (b"", b""), (None, b" "), (b"k", b"\n"), (b"k", b" \r\n\t")],
}


def _append(added: list[pa.RecordBatch], batch: pa.RecordBatch, _: int) -> None:
    added.append(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_null_empty_and_blank_mean_the_same_to_all_readers(kind: str) -> None:
    """A heartbeat has neither key nor content. What has a key, or blanks, is counted as a message without rows."""
    for key, content in KINDS[kind]:
        added: list[pa.RecordBatch] = []
        malformed = Malformed(None)
        Payloads(AGREEMENT, "at", "json", malformed).add(
            0, [Message(0, 5, content or b"", key)], partial(_append, added)
        )
        beats = [heartbeat(COLUMNS, "at", 5)] if kind == "heartbeat" else []
        assert (added, malformed.undecodable) == (beats, kind == "bad"), (key, content)
        bad = BadLines("skip")
        source, sink = os.pipe()
        os.write(
            sink, kcat([(None, b'{"item": "a", "cust": "c", "at": 0}')] * 5 + [(key, content)]).replace(b"5000", b"5")
        )
        os.close(sink)
        messages = Messages(source, RowReader(AGREEMENT, time="at", bad=bad))
        rows = list(messages.pieces())
        added = []
        for piece in rows[1:]:
            messages.read(piece, partial(_append, added))
        os.close(source)
        assert (added, bad.count) == (beats, kind == "bad"), (key, content)
        step = DecodeMessages(AGREEMENT, time="at", size=3600, format="json")._step
        step.start_bundle()
        element = (content or b"") if content or key is None else [b""]  # as ReadTopic gives it
        outputs = [*step.process(element, MIN_TIMESTAMP), *step.finish_bundle()]
        assert [one.tag for one in outputs] == ["malformed"] * (kind == "bad"), (key, content)
