from .job import Job
from .policy import StreamPolicy
from .releases import (
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
from .state import STREAM_SUFFIX
from .stream import Stream

__all__ = [
    "STREAM_SUFFIX",
    "VERSION",
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
    "StreamPolicy",
    "claim_epoch",
    "counts_in",
    "log_event",
    "sink_in",
]
