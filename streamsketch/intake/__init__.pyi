from .clock import Clock, ClockKind
from .columns import missing, plain, salvage
from .events import Events
from .files import RowReader
from .lines import Add, BadLines, LineFormat, Lines, Stop, pipe_blocks
from .log import Log
from .objects import is_malformed
from .rows import Intake, OnBad
from .units import column_events, unit_events, whole_days
from .windows import (
    LARGEST_TIME,
    Tumbling,
    micros_in,
    microseconds,
    seconds_text,
    times_in,
    window_names,
    window_seconds,
)

__all__ = [
    "LARGEST_TIME",
    "Add",
    "BadLines",
    "Clock",
    "ClockKind",
    "Events",
    "Intake",
    "LineFormat",
    "Lines",
    "Log",
    "OnBad",
    "RowReader",
    "Stop",
    "Tumbling",
    "column_events",
    "is_malformed",
    "micros_in",
    "microseconds",
    "missing",
    "pipe_blocks",
    "plain",
    "salvage",
    "seconds_text",
    "times_in",
    "unit_events",
    "whole_days",
    "window_names",
    "window_seconds",
]
