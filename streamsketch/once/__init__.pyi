from .alarms import OTHER_BYTES, REFUSED, Alarm
from .counts import MAX_DROPPED, RowCounts, Tally, counts_in
from .databases import connection
from .dead_letters import DeadLetters
from .draws import Draw, DrawSecret, names_of_keys
from .epochs import claim_epoch
from .logs import EVENT, OPERATOR, SECRET_EVENTS, log_event
from .publishing import filled, in_order, put_window
from .release_once import Released, ReleaseOnce
from .root_keys import RootKey, check_root_key, fetch_root_key, hkdf, key_fingerprint
from .rows import ANEW, Charge, LedgerCharge, OtherRowsError, Rows, RowsOf
from .sinks import DatabaseSink, FileSink, ObjectSink, Sink, WindowFiles, sink_in
from .slots import VERSION, Slot, check_stream, key_of_file, named_key, start_of
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
    "ANEW",
    "EVENT",
    "MAX_DROPPED",
    "OPERATOR",
    "OTHER_BYTES",
    "REFUSED",
    "SECRET_EVENTS",
    "VERSION",
    "Alarm",
    "Charge",
    "DatabaseSink",
    "DeadLetters",
    "Draw",
    "DrawSecret",
    "FileSink",
    "LedgerCharge",
    "ObjectSink",
    "OtherRowsError",
    "ReleaseOnce",
    "Released",
    "RootKey",
    "RowCounts",
    "Rows",
    "RowsOf",
    "Sink",
    "Slot",
    "Tally",
    "Version",
    "WindowFiles",
    "check_root_key",
    "check_stream",
    "claim_epoch",
    "claimed",
    "connection",
    "counts_in",
    "drawn_numbers",
    "fetch_root_key",
    "filled",
    "hkdf",
    "in_order",
    "is_other",
    "key_fingerprint",
    "key_of_file",
    "log_event",
    "name_of_draw",
    "named_key",
    "names_of_keys",
    "other_version",
    "put_window",
    "sink_in",
    "start_of",
    "version_of",
    "version_slot",
    "version_tag",
]
