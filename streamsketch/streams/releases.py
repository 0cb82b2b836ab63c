"""What releases windows once, as users of streams find it."""

from streamsketch.once import (
    VERSION,
    Alarm,
    DatabaseSink,
    DeadLetters,
    FileSink,
    LedgerCharge,
    ObjectSink,
    Released,
    ReleaseOnce,
    RowCounts,
    Sink,
    Slot,
    claim_epoch,
    counts_in,
    log_event,
    sink_in,
)

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
    "Sink",
    "Slot",
    "claim_epoch",
    "counts_in",
    "log_event",
    "sink_in",
]
