from .database import Database, NotSQLiteError, Row, create, opened
from .first_bytes import SUFFIX, is_old_sketch, is_raw
from .old_formats import read_old_sketch, read_old_state
from .raw_files import RawTransaction, append_raw, load_raw, read_header, save_raw, transaction
from .releases import ReleasedBeforeError, release_loaded, release_loaded_as_agreed, release_raw, released_before
from .sketches import (
    PastRelease,
    RawHeader,
    RawSketch,
    State,
    check_size,
    distinct_releases,
    empty_like,
    read_sketch,
    write_sketch,
)

__all__ = [
    "SUFFIX",
    "Database",
    "NotSQLiteError",
    "PastRelease",
    "RawHeader",
    "RawSketch",
    "RawTransaction",
    "ReleasedBeforeError",
    "Row",
    "State",
    "append_raw",
    "check_size",
    "create",
    "distinct_releases",
    "empty_like",
    "is_old_sketch",
    "is_raw",
    "load_raw",
    "opened",
    "read_header",
    "read_old_sketch",
    "read_old_state",
    "read_sketch",
    "release_loaded",
    "release_loaded_as_agreed",
    "release_raw",
    "released_before",
    "save_raw",
    "transaction",
    "write_sketch",
]
