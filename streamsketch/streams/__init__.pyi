from .alarms import OTHER_BYTES, OTHER_VERSION, REFUSED, WITHHELD, Alarm
from .counts import MAX_DROPPED, RowCounts, Tally, counts_in
from .databases import connection
from .dead_letters import DeadLetters
from .epochs import claim_epoch
from .job import Job
from .logs import EVENT, EVENTS, OPERATOR, SECRET_EVENTS, log_event
from .policy import StreamPolicy
from .release_once import Released, ReleaseOnce
from .root_keys import RootKey, check_root_key, fetch_root_key, hkdf, joined, key_fingerprint
from .rows import LedgerCharge, OtherRowsError
from .sinks import DatabaseSink, FileSink, ObjectSink, Sink, sink_in
from .slots import VERSION, Slot, check_stream, key_of_file, named_key, start_of
from .state import STREAM_SUFFIX
from .stream import Stream
from .versions import (
    Version,
    claimed,
    drawn_numbers,
    is_other,
    name_of_draw,
    other_version,
    version_of,
    version_slot,
    version_tag,
)

__all__ = [
    "EVENT",
    "EVENTS",
    "MAX_DROPPED",
    "OPERATOR",
    "OTHER_BYTES",
    "OTHER_VERSION",
    "REFUSED",
    "SECRET_EVENTS",
    "STREAM_SUFFIX",
    "VERSION",
    "WITHHELD",
    "Alarm",
    "DatabaseSink",
    "DeadLetters",
    "FileSink",
    "Job",
    "LedgerCharge",
    "ObjectSink",
    "OtherRowsError",
    "ReleaseOnce",
    "Released",
    "RootKey",
    "RowCounts",
    "Sink",
    "Slot",
    "Stream",
    "StreamPolicy",
    "Tally",
    "Version",
    "check_root_key",
    "check_stream",
    "claim_epoch",
    "claimed",
    "connection",
    "counts_in",
    "drawn_numbers",
    "fetch_root_key",
    "hkdf",
    "is_other",
    "joined",
    "key_fingerprint",
    "key_of_file",
    "log_event",
    "name_of_draw",
    "named_key",
    "other_version",
    "sink_in",
    "start_of",
    "version_of",
    "version_slot",
    "version_tag",
]
