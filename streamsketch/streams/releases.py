"""What releases windows once, as users of streams find it."""

from streamsketch.once.alarms import Alarm
from streamsketch.once.charges import LedgerCharge
from streamsketch.once.counts import RowCounts, RowLimits, counts_in
from streamsketch.once.dead_letters import DeadLetters
from streamsketch.once.epochs import claim_epoch
from streamsketch.once.logs import log_event
from streamsketch.once.release_once import Released, ReleaseOnce
from streamsketch.once.sinks import DatabaseSink, FileSink, ObjectSink, Sink, sink_in
from streamsketch.once.slots import VERSION, Slot

__all__ = [
    "VERSION",
    "Alarm",
    "DatabaseSink",
    "DeadLetters",
    "FileSink",
    "LedgerCharge",
    "ObjectSink",
    "ReleaseOnce",
    "Released",
    "RowCounts",
    "RowLimits",
    "Sink",
    "Slot",
    "claim_epoch",
    "counts_in",
    "log_event",
    "sink_in",
]
