from .job import Job
from .releases import (
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
from .stream import Stream

__all__ = [
    "Alarm",
    "DatabaseSink",
    "DeadLetters",
    "FileSink",
    "Job",
    "LedgerCharge",
    "ObjectSink",
    "ReleaseOnce",
    "Released",
    "RowCounts",
    "Sink",
    "Slot",
    "Stream",
    "claim_epoch",
    "counts_in",
    "log_event",
    "sink_in",
]
