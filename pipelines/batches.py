"""Small steps on Arrow batches between reading and sketching."""

import argparse

import pyarrow as pa
import pyarrow.compute as pc

import streamsketch as ss
from streamsketch.intake import times_in, window_names


def text_columns(arguments: argparse.Namespace) -> list[str]:
    """Return the columns that the job reads as text: the key, the index, the privacy unit and the time."""
    return [arguments.key, *arguments.index, *filter(None, (arguments.unit_column, arguments.time))]


def all_columns(arguments: argparse.Namespace) -> list[str]:
    """Return all columns that the job reads."""
    return [*text_columns(arguments), *([arguments.value] if arguments.value else [])]


def with_unit(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the rows whose privacy unit is named; in CSV files a missing name is an empty text."""
    texts = batch.column(name).cast(pa.string())
    return batch.filter(pc.and_(pc.is_valid(texts), pc.not_equal(texts, "")))


def as_text(batch: pa.RecordBatch, arguments: argparse.Namespace) -> pa.RecordBatch:
    """Return the batch with columns of integers and dates as text, so that Parquet and CSV files are alike.

    Times stay times: files write them in too many ways. With windows, their names follow those of the keys.
    """
    windows = None
    if arguments.window:
        times = times_in(batch.column(arguments.time), arguments.time, arguments.time_format)
        windows = window_names(times, arguments.size).cast(pa.string())
    for name in text_columns(arguments):
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if any(
            is_kind(values)
            for is_kind in (
                pa.types.is_binary,
                pa.types.is_large_binary,
                pa.types.is_binary_view,
                pa.types.is_fixed_size_binary,
            )
        ):
            raise ss.InvalidInputError(
                f"column {name} holds bytes, which would never equal a name in --public-key or the text of another "
                f"file; write it as text"
            )
        if pa.types.is_integer(values) or pa.types.is_date(values):
            batch = batch.set_column(place, name, column.cast(pa.string()))
    if windows is not None:
        keys = pc.binary_join_element_wise(batch.column(arguments.key).cast(pa.string()), windows, " ")
        batch = batch.set_column(batch.schema.get_field_index(arguments.key), arguments.key, keys)
    return batch
