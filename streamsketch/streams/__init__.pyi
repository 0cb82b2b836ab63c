from .dry_run import DryStream
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
    RowLimits,
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
    "DryStream",
    "FileSink",
    "Job",
    "LedgerCharge",
    "ObjectSink",
    "ReleaseOnce",
    "Released",
    "RowCounts",
    "RowLimits",
    "Sink",
    "Slot",
    "Stream",
    "claim_epoch",
    "counts_in",
    "log_event",
    "sink_in",
]
