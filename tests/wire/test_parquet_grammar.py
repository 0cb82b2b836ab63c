"""Footers and headers of pages with each field doubled, moved, left out or of another type, read without Arrow.

The verdict is Arrow's: what is accepted has the rows that it reads from the same bytes, and anything else is refused by
the library's error.
"""

import datetime as dt
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamsketch.errors import WireFormatError
from streamsketch.wire import tables
from tests.untrusted.thrift import Field, read_struct, variants, written
from tests.wire.test_plain_parquet import RELEASES

KEYS: dict[str, Any] = {
    "text": ["a", "b"],
    "integers": pa.array([3, 200], pa.uint16()),
    "dates": [dt.date(2026, 1, 2), dt.date(1969, 1, 2)],
    "times": pa.array([1_000, 2_000], pa.timestamp("us", "UTC")),
}
_CHUNKS, _GROUPS, _META, _SIZE, _DATA_PLACE, _DICTIONARY_PLACE = 1, 4, 3, 7, 9, 11


def sample(keys: Any, **options: Any) -> bytes:
    table = pa.table({"key": keys, "sketch": pa.array(RELEASES, pa.binary())})
    pq.write_table(table, file := io.BytesIO(), store_schema=False, **options)
    return file.getvalue()


def with_footer(data: bytes, start: int, fields: list[Field]) -> bytes:
    footer = written(fields)
    return data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def footers(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the file with each change of its footer."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    fields, _ = read_struct(data[start:-8])
    assert with_footer(data, start, fields) == data
    for name, changed in variants(fields):
        yield name, with_footer(data, start, changed)


def headers(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the file with each change of the header of its first page, and all places behind moved."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data[start:-8])
    header, end = read_struct(data, 4)
    for name, changed in variants(header):
        page = written(changed)
        moved = len(page) - (end - 4)
        body = data[:4] + page + data[end:start]
        yield name, with_footer(body, len(body), _moved(footer, moved))


def _moved(footer: list[Field], by: int) -> list[Field]:
    """Return a footer in which the first page is so much longer."""

    def of_chunk(place: int, fields: list[Field]) -> list[Field]:
        def at(field: Field) -> Field:
            own = field.number == _SIZE and place == 0
            behind = field.number in (_DATA_PLACE, _DICTIONARY_PLACE) and field.value > 8
            return field._replace(value=field.value + 2 * by) if own or behind else field

        return [one._replace(value=list(map(at, one.value))) if one.number == _META else one for one in fields]

    (groups,) = (field for field in footer if field.number == _GROUPS)
    of, (group,) = groups.value
    found = []
    for field in group.value:
        if field.number != _CHUNKS:
            found.append(field)
            continue
        kind, chunks = field.value
        chunks = [one._replace(value=of_chunk(place, one.value)) for place, one in enumerate(chunks)]
        found.append(field._replace(value=(kind, chunks)))
    changed = groups._replace(value=(of, [group._replace(value=found)]))
    return [changed if field.number == _GROUPS else field for field in footer]


def arrows(data: bytes) -> Any:
    """Return what Arrow reads, without this library; None where it reads nothing."""
    try:
        table = pq.ParquetFile(io.BytesIO(data)).read(columns=["key", "sketch"])
        if table.column_names != ["key", "sketch"]:
            return None
        return dict(zip(table.column("key").to_pylist(), table.column("sketch").to_pylist(), strict=True))
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        return None


def read(data: bytes) -> Any:
    """Return the rows of a table, or None where it is refused."""
    try:
        found = tables.read_table(io.BytesIO(data), len(data), None, expect=None, max_bytes=None)
    except WireFormatError:
        return None
    return {key: release.to_bytes() for key, release in found.items()}


LONG = [(name, how) for name in KEYS for how in ("plain", "dictionary") if (name, how) != ("text", "dictionary")]


@pytest.mark.parametrize("change", [footers, headers])
@pytest.mark.parametrize(
    ("name", "how"), [("text", "dictionary"), *(pytest.param(*one, marks=pytest.mark.long) for one in LONG)]
)
def test_what_is_accepted_without_arrow_is_what_arrow_reads(
    change: Any, name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow alone may refuse fields that nothing here reads, but none that are there twice or in another order."""
    monkeypatch.setattr(tables, "is_installed", lambda _: False)
    data = sample(KEYS[name], compression="none", use_dictionary=how == "dictionary")
    assert read(data) == arrows(data)
    accepted = 0
    for what, changed in change(data):
        found = read(changed)
        if found is None:
            continue
        accepted += 1
        expected = arrows(changed)
        if expected is None:
            assert not any(word in what for word in ("twice", "then", "first", "last ")), f"Arrow refuses: {what}"
        else:
            assert found == expected, what
    assert accepted > 20
