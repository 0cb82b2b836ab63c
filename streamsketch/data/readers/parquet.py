"""Parquet files as Arrow record batches."""

import os
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from streamsketch.core.libraries import pa, pq
from streamsketch.data.readers.opening import (
    BATCH_ROWS,
    check_columns,
    open_file,
    other_kind,
    raise_if_of_the_file_system,
)
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SNIFFED = 64
_NANOSECONDS = 1000


def row_groups(file: Any, path: str) -> int:
    """Return how many row groups a Parquet file has."""
    try:
        return int(pq.ParquetFile(file).num_row_groups)
    except Exception as error:  # noqa: BLE001 - as in `batches`
        raise_if_of_the_file_system(error)
        raise InvalidInputError(
            f"{path} is not a Parquet file, or not a valid one ({_what(file) or type(error).__name__}); it is not "
            f"named .csv, .jsonl, .ndjson, .avro, .txt or .log either"
        ) from None


def _what(file: Any) -> str:
    """Return what a file is that is not Parquet, if its first bytes tell; or nothing."""
    try:
        file.seek(0)
        start = bytes(file.read(_SNIFFED))
    except (OSError, ValueError):
        return ""
    if start[:1] in (b"[", b"{"):
        what = "a JSON array" if start[:1] == b"[" else "JSON"
        return f"it begins as {what}, and JSON is read from files named .jsonl, one object in each line"
    if not start:
        return "it has 0 bytes"
    kind = "" if start.startswith(b"PAR1") else other_kind(start)
    return kind and f"it {kind}"


def read_parquet(path: "str | os.PathLike[str]", columns: list[str] | None = None) -> "pa.Table":
    """Return columns of a Parquet file, by default all, with times as they were written.

    Raises
    ------
    InvalidInputError
        If the file is not valid or lacks a column; and for times that no type of Arrow holds.
    OSError
        If the file cannot be read.
    """
    name = os.fspath(path)
    open(name, "rb").close()  # noqa: PTH123 - its error names the file, and Arrow's does not
    file = open_file(name)
    groups = row_groups(file, name)
    schema = pq.read_schema(file)
    names = list(schema.names) if columns is None else columns
    parts = [batch for group in range(groups) for batch in batches(file, name, group, names)]
    if not parts:
        return schema.empty_table().select(names)
    return pa.concat_tables([pa.Table.from_batches([part]) for part in parts], promote_options="permissive")


def batches(file: Any, path: str, group: int, columns: list[str]) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of a row group; text comes as the file's own dictionaries, so that each key is hashed once."""
    try:
        schema = pq.read_schema(file)
        check_columns(path, columns, schema.names)
        texts = [name for name in columns if _is_text(schema.field(name).type)]
        try:
            pieces = _read(file, path, group, columns, texts)
            first = list(islice(pieces, 1))
        except (pa.ArrowException, OSError):
            pieces, first = (
                _read(file, path, group, columns, []),
                [],
            )  # Arrow makes no dictionaries of text in delta encodings
        for batch in chain(first, pieces):
            batch.validate(full=True)  # codes without words, and text that is not UTF-8: Arrow's reader checks neither
            yield batch
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged files lead Arrow to raise whatever there is
        raise_if_of_the_file_system(error)
        # Arrow's own text may quote the file, which is private
        raise InvalidInputError(f"{path} is not a valid Parquet file ({type(error).__name__})") from None


def _read(file: Any, path: str, group: int, columns: list[str], texts: list[str]) -> "Iterator[pa.RecordBatch]":
    opened = pq.ParquetFile(file, read_dictionary=texts, coerce_int96_timestamp_unit="us")
    pieces = opened.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)
    fields = [opened.schema.column(at) for at in range(len(opened.schema))]
    old = [field.path for field in fields if field.physical_type == "INT96" and field.path in columns]
    if not old:
        yield from pieces
        return
    in_nanos = pq.ParquetFile(file, coerce_int96_timestamp_unit="ns")
    for batch, exact in zip(pieces, in_nanos.iter_batches(BATCH_ROWS, row_groups=[group], columns=old), strict=True):
        for name in old:
            place = batch.schema.get_field_index(name)
            times = _times(batch.column(place), exact.column(exact.schema.get_field_index(name)), f"{name} of {path}")
            batch = batch.set_column(place, name, times)  # noqa: PLW2901 - with this column
        yield batch


def _times(micros: "pa.Array", nanos: "pa.Array", name: str) -> "pa.Array":
    """Return times of INT96 from both of Arrow's readings: microseconds, which are cut, and nanoseconds, which wrap.

    INT96 holds days and nanoseconds of a day. Microseconds are enough, unless a time has nanoseconds.
    """
    cut, wrapped = (array.cast(pa.int64()).fill_null(0).to_numpy() for array in (micros, nanos))
    if not (wrapped - cut * _NANOSECONDS).any():  # modulo 2^64, so that it is the part that was cut
        return micros
    if (wrapped // _NANOSECONDS != cut).any():
        raise InvalidInputError(
            f"the column {name} has times of INT96 with nanoseconds, and times outside the years 1678 to 2261, which "
            "no type holds together: write it in microseconds"
        )
    return nanos


def _is_text(kind: "pa.DataType") -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))
