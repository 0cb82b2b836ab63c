from . import data_ids
from .arrow_messages import message_batches
from .canonical import HASHED_DIM, canonical_bytes, check_indices, key_of
from .columns import (
    NOT_SHOWN,
    arrow_column,
    check_codes,
    check_keys,
    is_bytes_type,
    is_key_type,
    is_text_type,
    joined_bytes,
    key_column,
    key_values,
    keys_named,
    plain_key,
    value_column,
    value_type,
)
from .data_ids import SECRET_BYTES, DataIds, from_list
from .grid import NO_LOSS, quantise, quantise_and_tell, quantise_one, warn_of_truncation
from .keys import canonical_column, check_hashed_dim, encode_columns, index_of, indices_of
from .lenient import lenient_column, lenient_json
from .matrices import matrix_of, steps_of
from .readers.delimited import Dialect, check_delimiter, csv_dialect, csv_header, csv_piece
from .readers.formats import Format, batches, format_of, parts_of
from .readers.json_lines import json_batch
from .readers.opening import open_file, uncompressed
from .readers.parquet import read_parquet
from .readers.rows import LONGEST_ROW, first_row, not_a_row, split_rows, strict_until, whole_rows
from .readers.streams import Decoder
from .tables import batches_of, names_of, schema_of

__all__ = [
    "HASHED_DIM",
    "LONGEST_ROW",
    "NOT_SHOWN",
    "NO_LOSS",
    "SECRET_BYTES",
    "DataIds",
    "Decoder",
    "Dialect",
    "Format",
    "arrow_column",
    "batches",
    "batches_of",
    "canonical_bytes",
    "canonical_column",
    "check_codes",
    "check_delimiter",
    "check_hashed_dim",
    "check_indices",
    "check_keys",
    "csv_dialect",
    "csv_header",
    "csv_piece",
    "data_ids",
    "encode_columns",
    "first_row",
    "format_of",
    "from_list",
    "index_of",
    "indices_of",
    "is_bytes_type",
    "is_key_type",
    "is_text_type",
    "joined_bytes",
    "json_batch",
    "key_column",
    "key_of",
    "key_values",
    "keys_named",
    "lenient_column",
    "lenient_json",
    "matrix_of",
    "message_batches",
    "names_of",
    "not_a_row",
    "open_file",
    "parts_of",
    "plain_key",
    "quantise",
    "quantise_and_tell",
    "quantise_one",
    "read_parquet",
    "schema_of",
    "split_rows",
    "steps_of",
    "strict_until",
    "uncompressed",
    "value_column",
    "value_type",
    "warn_of_truncation",
    "whole_rows",
]
