from .alarms import REFUSED, Alarm
from .charges import Charge, LedgerCharge, check_together, draw_id
from .counts import MAX_DROPPED, RowCounts, Tally, counts_in
from .databases import connection
from .dead_letters import FILE_BYTES, MOST_BYTES, DeadLetters, has_room, letter_of
from .draws import Draw, DrawSecret
from .epochs import claim_epoch
from .keys import StateSecret, hkdf, ids_from, joined, number_bytes
from .logs import EVENT, OPERATOR, SECRET_EVENTS, log_event
from .names import drawn_numbers, name_of_draw, names_of_keys
from .publishing import filled, in_order, put_slot, put_window
from .release_once import Released, ReleaseOnce
from .root_keys import RootKey, check_root_key, fetch_root_key, key_fingerprint
from .rows import ANEW, OtherRowsError, Rows, RowsOf
from .sinks import DatabaseSink, FileSink, NamedObjects, ObjectSink, Sink, WindowFiles, sink_in
from .slots import VERSION, Slot, check_stream, key_of_file, named_key, start_of
from .versions import Version, claimed, is_other, other_version, version_of, version_slot, version_tag

__all__ = [
    "ANEW",
    "EVENT",
    "FILE_BYTES",
    "MAX_DROPPED",
    "MOST_BYTES",
    "OPERATOR",
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
    "NamedObjects",
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
    "StateSecret",
    "Tally",
    "Version",
    "WindowFiles",
    "check_root_key",
    "check_stream",
    "check_together",
    "claim_epoch",
    "claimed",
    "connection",
    "counts_in",
    "draw_id",
    "drawn_numbers",
    "fetch_root_key",
    "filled",
    "has_room",
    "hkdf",
    "ids_from",
    "in_order",
    "is_other",
    "joined",
    "key_fingerprint",
    "key_of_file",
    "letter_of",
    "log_event",
    "name_of_draw",
    "named_key",
    "names_of_keys",
    "number_bytes",
    "other_version",
    "put_slot",
    "put_window",
    "sink_in",
    "start_of",
    "version_of",
    "version_slot",
    "version_tag",
]
