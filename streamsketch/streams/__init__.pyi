from .alarms import OTHER_BYTES, REFUSED, WITHHELD, Alarm
from .counts import MAX_DROPPED, RowCounts, Tally, counts_in
from .databases import connection
from .dead_letters import DeadLetters
from .epochs import claim_epoch
from .logs import EVENT, EVENTS, OPERATOR, SECRET_EVENTS, log_event
from .policy import StreamPolicy
from .release_once import Released, ReleaseOnce
from .root_keys import RootKey, check_root_key, fetch_root_key, hkdf, joined, key_fingerprint
from .rows import OtherRowsError
from .sinks import DatabaseSink, FileSink, ObjectSink, Sink, sink_in
from .slots import Slot, check_stream, key_of_file, named_key, start_of
from .state import STREAM_SUFFIX
from .stream import Stream

__all__ = [
    "EVENT",
    "EVENTS",
    "MAX_DROPPED",
    "OPERATOR",
    "OTHER_BYTES",
    "REFUSED",
    "SECRET_EVENTS",
    "STREAM_SUFFIX",
    "WITHHELD",
    "Alarm",
    "DatabaseSink",
    "DeadLetters",
    "FileSink",
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
    "check_root_key",
    "check_stream",
    "claim_epoch",
    "connection",
    "counts_in",
    "fetch_root_key",
    "hkdf",
    "joined",
    "key_fingerprint",
    "key_of_file",
    "log_event",
    "named_key",
    "sink_in",
    "start_of",
]
