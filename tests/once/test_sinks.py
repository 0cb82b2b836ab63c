"""A sink fills each slot once: the first bytes stay, and whoever comes later gets them."""

import contextlib
import functools
import pickle
import sqlite3
import stat
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.once.databases import connection
from streamsketch.once.slots import VERSION, named_key
from streamsketch.streams import DatabaseSink, FileSink, ObjectSink, Sink, Slot
from tests.once.stores import bucket, store_of
from tests.powered import synchronised_connect

SLOTS = [
    Slot("flights", start, kind, key)
    for start in (0, 3_600_000_000)
    for kind, key in (("text", "AA"), ("text", "a/b ü"), ("text", "../up"), ("integer", "7"), ("text", "=7"))
]
KINDS = ["files", "database", "memory objects", "local objects"]


@pytest.fixture(params=KINDS)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Sink]:
    """Return what makes a sink of one place, as each of several processes does."""
    if request.param == "files":
        return lambda: FileSink(tmp_path)
    if request.param == "database":
        return lambda: DatabaseSink(functools.partial(sqlite3.connect, tmp_path / "releases.sqlite"))
    store = store_of(request.param, tmp_path)
    return lambda: ObjectSink(store, "some/releases")


def test_a_slot_is_filled_once(sink: Callable[[], Sink]) -> None:
    with sink() as first:
        assert [first.put(slot, b"%d" % place) for place, slot in enumerate(SLOTS)] == [None] * len(SLOTS)
        assert first.put(SLOTS[0], b"0") == b"0"
    with sink() as second:
        assert [second.put(slot, b"other") for slot in SLOTS] == [b"%d" % place for place in range(len(SLOTS))]


def test_slots_that_are_put_together_are_filled_once(sink: Callable[[], Sink]) -> None:
    with sink() as first:
        assert first.put(SLOTS[2], b"before") is None
        offered = [(slot, b"%d" % place) for place, slot in enumerate(SLOTS)]
        assert first.put_all(offered) == [None, None, b"before", *[None] * (len(SLOTS) - 3)]
        assert first.put_all([]) == []
    held = [b"before" if place == 2 else content for place, (_, content) in enumerate(offered)]
    with sink() as second:
        assert second.put_all([(slot, b"other") for slot in SLOTS]) == held
        assert [second.get(slot) for slot in SLOTS] == held


def test_a_database_inserts_the_rows_of_a_window_together_or_not_at_all(tmp_path: Path) -> None:
    with DatabaseSink(functools.partial(sqlite3.connect, tmp_path / "releases.sqlite")) as sink:
        with pytest.raises(sqlite3.IntegrityError):
            sink.put_all([(SLOTS[0], b"first"), (SLOTS[1], None), (SLOTS[2], b"third")])  # type: ignore[list-item]
        assert [sink.get(slot) for slot in SLOTS[:3]] == [None] * 3
        assert sink.put_all([(slot, b"again") for slot in SLOTS[:3]]) == [None] * 3


def test_a_row_of_sqlite_survives_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is synchronised after the journal was removed, which would undo the row."""
    monkeypatch.setattr(sqlite3, "connect", synchronised_connect)
    with contextlib.closing(connection(f"sqlite:{tmp_path / 'releases.sqlite'}")()) as opened:
        assert opened.execute("PRAGMA synchronous").fetchone() == (3,)


def test_one_of_several_writers_at_once_fills_a_slot(sink: Callable[[], Sink]) -> None:
    """Each of them gets what is in it."""
    results: list[tuple[bytes, bytes | None]] = []
    with sink():  # which makes the table of a database
        pass

    def write(content: bytes) -> None:
        with sink() as one:
            results.extend((content, one.put(slot, content)) for slot in SLOTS[:2])

    threads = [threading.Thread(target=write, args=(b"by %d" % number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [content for content, held in results if held is None]
    assert len(winners) == 2
    assert {held for _, held in results} <= {None, *winners}


def test_files_are_public_and_nothing_else_is_left(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "new" / "folder")
    for _ in range(2):
        sink.put(SLOTS[1], b"content")
    (found,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert found == sink.path(SLOTS[1])
    name = "flights/1970-01-01T00-00-00Z/a%2Fb %C3%BC.sketch"
    assert found.relative_to(tmp_path / "new" / "folder").as_posix() == name
    assert stat.S_IMODE(found.stat().st_mode) == 0o644


def test_a_pickled_sink_of_a_database_connects_anew(tmp_path: Path) -> None:
    sink = DatabaseSink(functools.partial(sqlite3.connect, tmp_path / "releases.sqlite"), table="mine")
    with sink:
        sink.put(SLOTS[0], b"content")
        with pickle.loads(pickle.dumps(sink)) as copy:  # noqa: S301 - our own
            assert copy.put(SLOTS[0], b"other") == b"content"
            assert copy.result == "mine"


def test_a_database_that_cannot_be_prepared_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "releases.sqlite").touch()
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(f"{(tmp_path / 'releases.sqlite').as_uri()}?mode=ro", uri=True))
        return opened[-1]

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        DatabaseSink(connect).open()
    monkeypatch.setattr("sqlite3.paramstyle", "numeric")
    with pytest.raises(ss.InvalidInputError, match="paramstyle 'numeric'"):
        DatabaseSink(connect).open()
    assert len(opened) == 2
    for one in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            one.execute("SELECT 1")


COLUMNS = "stream TEXT, window_start BIGINT, kind TEXT, key TEXT, release BLOB NOT NULL"


@pytest.mark.parametrize("table", ["releases", "releases_versions"])
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (stream, window_start, kind, key, release)", ", UNIQUE (stream)"])
def test_a_table_that_takes_a_slot_twice_is_refused_before_anything_is_written(
    table: str, key: str, tmp_path: Path
) -> None:
    """As one that was restored without its constraints, of which each writer would fill every slot."""
    connect = functools.partial(sqlite3.connect, tmp_path / "releases.sqlite")
    with contextlib.closing(connect()) as opened:
        opened.execute(f"CREATE TABLE {table} ({COLUMNS}{key})")
    with pytest.raises(ss.InvalidInputError, match=rf"{table} may hold several rows .* give it PRIMARY KEY \(stream"):
        DatabaseSink(connect).open()
    with contextlib.closing(connect()) as opened:
        opened.execute(f"CREATE UNIQUE INDEX slots ON {table} (stream, window_start, kind, key)")
        assert opened.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608 - a name of this test
    with DatabaseSink(connect) as sink:
        assert [sink.put(SLOTS[0], content) for content in (b"first", b"other")] == [None, b"first"]


def test_a_table_of_other_columns_beside_its_own_in_any_order_takes_a_slot_once(tmp_path: Path) -> None:
    """As one that an operator made: by place, the content would be its key, and each version another slot."""
    connect = functools.partial(sqlite3.connect, tmp_path / "releases.sqlite")
    with contextlib.closing(connect()) as opened:
        opened.execute(
            "CREATE TABLE releases (release BLOB NOT NULL, stream TEXT, window_start BIGINT, kind TEXT, key TEXT, "
            "put_at TEXT DEFAULT 'now', PRIMARY KEY (key, kind, stream, window_start))"
        )
    with DatabaseSink(connect) as sink:
        assert [sink.put(SLOTS[0], content) for content in (b"first", b"other")] == [None, b"first"]
        assert sink.get(SLOTS[0]) == b"first"


def test_a_database_is_opened_and_read_while_another_writer_is_at_work(tmp_path: Path) -> None:
    connect = functools.partial(sqlite3.connect, tmp_path / "releases.sqlite", timeout=0)
    with DatabaseSink(connect) as sink:
        sink.put(SLOTS[0], b"first")
    with contextlib.closing(connect()) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with DatabaseSink(connect) as sink:
            assert sink.get(SLOTS[0]) == b"first"


@pytest.mark.parametrize("slot", [SLOTS[0], Slot("flights", 0, VERSION, "")], ids=["release", "claim"])
def test_a_row_that_a_table_neither_takes_nor_shows_fills_no_slot(slot: Slot, tmp_path: Path) -> None:
    """As under a trigger or a policy of rows: taken for an empty slot, a second version would find it empty, too."""
    connect = functools.partial(sqlite3.connect, tmp_path / "releases.sqlite")
    with DatabaseSink(connect) as sink:
        table = "releases_versions" if slot.kind == VERSION else "releases"
        with contextlib.closing(connect()) as opened:
            opened.execute(f"CREATE TRIGGER no BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
        for _ in range(2):
            with pytest.raises(ss.InvalidInputError, match=rf"{table} neither takes the row of flights .* nor shows"):
                sink.put(slot, b"content")
        with contextlib.closing(connect()) as opened:
            opened.execute("DROP TRIGGER no")
        assert sink.put(slot, b"content") is None


@pytest.mark.parametrize("table", ["", "a b", "a;drop", 'a"', "ü"])
def test_tables_have_plain_names(table: str) -> None:
    with pytest.raises(ss.InvalidInputError, match="table must be letters"):
        DatabaseSink(lambda: None, table)


def test_objects_are_put_once_by_the_protocol_of_s3() -> None:
    """Also where the answer to a put was lost, so that the client finds its own object, and where two collide."""
    pytest.importorskip("obstore", reason="object stores need the extra objects")
    with bucket() as server, ObjectSink(server.store, "some/releases") as sink:
        server.lose_answers = server.conflicts = 1
        assert [sink.put(slot, b"%d" % place) for place, slot in enumerate(SLOTS)] in (
            [None] * len(SLOTS),
            [b"0", *[None] * (len(SLOTS) - 1)],
        )
        assert [sink.put(slot, b"other") for slot in SLOTS] == [b"%d" % place for place in range(len(SLOTS))]
        assert "/bucket/some/releases/flights/1970-01-01T00-00-00Z/a%252Fb%20%25C3%25BC.sketch" in server.objects
        assert sink.get(Slot("flights", 1, "text", "AA")) is None
        server.conflicts = 10**9
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.sleep", lambda _: None)
            with pytest.raises(OSError, match="another writer has not finished"):
                sink.put(Slot("flights", 1, "text", "AA"), b"never")


def test_a_store_that_replaces_objects_is_refused_before_anything_is_written() -> None:
    """As some do that follow S3's protocol, and ignore the condition of a put."""
    pytest.importorskip("obstore", reason="object stores need the extra objects")
    with bucket(honours=False) as server:
        for _ in range(2):
            with pytest.raises(ss.InvalidInputError, match="replaces existing objects"):
                ObjectSink(server.store, "releases").open()
        assert [*server.objects] == ["/bucket/releases/.streamsketch"]


class _Severable(sqlite3.Connection):
    """A connection that a server may close, as psycopg's tells in `closed`."""

    closed = False

    def cursor(self, *arguments: Any) -> Any:
        if self.closed:
            raise sqlite3.OperationalError("the connection is closed")
        return super().cursor(*arguments)


class _NoConnection:
    def close(self) -> None: ...


def test_what_is_no_connection_of_a_driver_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"of a driver of Python's DB-API, got .*test_sinks\._NoConnection"):
        DatabaseSink(_NoConnection).__enter__()


def test_a_database_that_closes_its_connection_is_asked_once_more(tmp_path: Path) -> None:
    opened: list[_Severable] = []

    def connect() -> _Severable:
        opened.append(sqlite3.connect(tmp_path / "releases.sqlite", factory=_Severable))
        return opened[-1]

    slot = Slot("flights", 0, "text", "AA")
    with DatabaseSink(connect) as sink:
        assert sink.put(slot, b"first") is None
        opened[-1].closed = True
        assert sink.put(slot, b"second") == b"first"
        opened[-1].closed = True
        assert sink.get(slot) == b"first"
        opened[-1].execute("DROP TABLE releases")
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            sink.get(slot)
    assert len(opened) == 3
    for one in opened:
        one.close()


def test_keys_in_other_letters_share_no_file_where_the_file_system_folds_names(tmp_path: Path) -> None:
    class Folding(FileSink):
        """As a file system that ignores capital letters."""

        def path(self, slot: Slot) -> Path:
            path = super().path(slot)
            return path.with_name(path.name.lower())

    sink, first = Folding(tmp_path), Slot("s", 0, "text", "shop")
    assert sink.put(first, b"one") is None
    with pytest.raises(ss.InvalidInputError, match=r"takes the name Shop\.sketch for another file"):
        sink.put(first._replace(key="Shop"), b"other")
    assert sink.put(first, b"other") == b"one"  # an alarm, as ever


def test_names_of_files_differ_in_more_than_the_form_of_unicode() -> None:
    """Apart from capital letters, all that file systems fold is in no name: these are ASCII."""
    keys = [
        "é",
        "e\u0301",
        "É",
        "ß",
        "ss",
        "\ufb01",
        "fi",
        "\u212a",
        "K",
        "\u0130",
        "i\u0307",
        "=all",
        "%c3%a9",
        "c3a9",
    ]
    slots = [Slot("s", 0, "text", key) for key in [*keys, "", "k\u0345" * 99, "k\u03b9" * 99, "1"]]
    slots += [Slot("s", 0, "bytes", "c3a9"), Slot("s", 0, "integer", "1"), Slot("s", 0, "integer", "-1")]
    names = {unicodedata.normalize(form, slot.file).casefold() for slot in slots for form in ("NFC", "NFD", "NFKC")}
    assert len(names) == len(slots)


def test_equal_texts_of_different_types_are_different_slots(tmp_path: Path) -> None:
    keys = ["5", 5, b"5", "=5", "=x35", "", b"", "35", 35]
    slots = [Slot("sales", 0, *named_key(key)) for key in keys]
    assert len(set(slots)) == len({slot.file for slot in slots}) == len(keys)
    sink = FileSink(tmp_path)
    for place, slot in enumerate(slots):
        assert sink.put(slot, b"%d" % place) is None
    assert [sink.get(slot) for slot in slots] == [b"%d" % place for place in range(len(keys))]
