"""Many rows of JSON at a time, where reading them together and one by one must give the same."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from streamsketch.agreement import Agreement

_LONGEST = 4000  # bytes of a row: Python reads no longer numbers
_ODD = (b"\r", b"\0", b"[", b"NaN", b"Inf")


def plain_types(schema: pa.Schema | Agreement, time: str) -> pa.Schema | None:
    """Return the JSON types of columns, or None if they may be others than text and integers.

    Times are numbers here, and agreed values integers: rows in which they are not are read one by one.
    """
    if isinstance(schema, Agreement):
        agreed = {column.name: column.type for column in (schema.key, *schema.index, schema.unit) if column is not None}
        kinds = {name: {"text": pa.string(), "integer": pa.int64()}.get(kind) for name, kind in agreed.items()}
        kinds |= {} if schema.value is None else {schema.value: pa.int64()}
    else:
        kinds = {field.name: field.type for field in schema if field.type in (pa.string(), pa.int64())}
        kinds |= dict.fromkeys({*schema.names, time} - {*kinds, time})
    kinds[time] = pa.int64()
    return None if None in kinds.values() else pa.schema(kinds)


def read_plain(messages: Sequence[bytes], types: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows of messages of JSON lines, or None unless all are plain objects of these types.

    A row counts as plain if Arrow's parser and Python's agree about it, whatever is in the others. Arrow's parser reads
    object by object, not line by line. So each line begins with the only brace that opens, and ends with one that
    closes: no object goes on in the next line, and as there are as many objects as lines, each line is one.
    """
    data = b"\n".join(messages)
    rows = data.count(b"\n") + 1
    lines = data.startswith(b"{") and data.endswith(b"}") and data.count(b"}\n{") == rows - 1 == data.count(b"{") - 1
    if not lines or any(odd in data for odd in _ODD) or _longest(data) > _LONGEST:
        return None
    try:
        data.decode()
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
        )
    except (UnicodeDecodeError, pa.ArrowException):
        return None
    if table.num_rows != rows:
        return None
    return table.combine_chunks().to_batches()[0]


def _longest(data: bytes) -> int:
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    return int(np.diff(ends, prepend=-1, append=len(data)).max())
