"""Parquet files as Arrow record batches."""

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from streamsketch.core import pa, pq
from streamsketch.data.readers.opening import BATCH_ROWS, check_columns, raise_if_of_the_file_system
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def row_groups(file: Any, path: str) -> int:
    """Return how many row groups a Parquet file has."""
    try:
        return int(pq.ParquetFile(file).num_row_groups)
    except Exception as error:  # noqa: BLE001 - as in `batches`
        raise_if_of_the_file_system(error)
        raise InvalidInputError(
            f"{path} is not a Parquet file, or not a valid one ({type(error).__name__}); it is not named .csv, .jsonl, "
            f".ndjson, .avro, .txt or .log either"
        ) from None


def batches(file: Any, path: str, group: int, columns: list[str]) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of a row group; text comes as the file's own dictionaries, so that each key is hashed once."""
    try:
        schema = pq.read_schema(file)
        check_columns(path, columns, schema.names)
        texts = [name for name in columns if _is_text(schema.field(name).type)]
        try:
            found = _read(file, group, columns, texts)
            first = list(islice(found, 1))
        except (pa.ArrowException, OSError):
            found, first = _read(file, group, columns, []), []  # Arrow makes no dictionaries of text in delta encodings
        for batch in chain(first, found):
            batch.validate(full=True)  # codes without words, and text that is not UTF-8: Arrow's reader checks neither
            yield batch
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged files lead Arrow to raise whatever there is
        raise_if_of_the_file_system(error)
        # Arrow's own text may quote the file, which is private
        raise InvalidInputError(f"{path} is not a valid Parquet file ({type(error).__name__})") from None


def _read(file: Any, group: int, columns: list[str], texts: list[str]) -> "Iterator[pa.RecordBatch]":
    yield from pq.ParquetFile(file, read_dictionary=texts).iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)


def _is_text(kind: "pa.DataType") -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))
