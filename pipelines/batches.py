"""Small steps on Arrow batches between reading and sketching."""

import pyarrow as pa


def as_text(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Return the batch with columns of integers and dates as text, so that Parquet and CSV files are alike.

    Times stay times: files write them in too many ways.
    """
    for name in names:
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_integer(values) or pa.types.is_date(values):
            batch = batch.set_column(place, name, column.cast(pa.string()))
    return batch
