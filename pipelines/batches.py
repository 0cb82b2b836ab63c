"""Small steps on Arrow batches between reading and sketching."""

import pyarrow as pa


def text_key(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """Return the batch with its key column as text, so that keys of Parquet and CSV files are alike."""
    place = batch.schema.get_field_index(key)
    column = batch.column(place)
    values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(values):
        return batch
    return batch.set_column(place, key, column.cast(pa.string()))
