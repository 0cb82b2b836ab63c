from .calendar import Calendar, EventWindows, Period, check_times_of_day, event_windows
from .clock import AheadLimit, Clock, ClockKind
from .columns import missing, plain, salvage, single_value
from .events import Events
from .files import RowReader
from .framing import ONE_LINE, QUOTED, heartbeat, idle_after, is_heartbeat, json_rows
from .lines import Add, BadLines, LineFormat, Lines, Stop, pipe_blocks
from .log import Log
from .messages import Messages
from .objects import is_malformed
from .rotation import LostLogError
from .rows import Intake, OnBad
from .seen import MISSING_TEXTS, Seen
from .units import column_events, unit_events, whole_days
from .windows import (
    LARGEST_TIME,
    Tumbling,
    key_and_window,
    micros_in,
    microseconds,
    seconds_text,
    times_in,
    window_seconds,
    window_time,
)

__all__ = [
    "LARGEST_TIME",
    "MISSING_TEXTS",
    "ONE_LINE",
    "QUOTED",
    "Add",
    "AheadLimit",
    "BadLines",
    "Calendar",
    "Clock",
    "ClockKind",
    "EventWindows",
    "Events",
    "Intake",
    "LineFormat",
    "Lines",
    "Log",
    "LostLogError",
    "Messages",
    "OnBad",
    "Period",
    "RowReader",
    "Seen",
    "Stop",
    "Tumbling",
    "check_times_of_day",
    "column_events",
    "event_windows",
    "heartbeat",
    "idle_after",
    "is_heartbeat",
    "is_malformed",
    "json_rows",
    "key_and_window",
    "micros_in",
    "microseconds",
    "missing",
    "pipe_blocks",
    "plain",
    "salvage",
    "seconds_text",
    "single_value",
    "times_in",
    "unit_events",
    "whole_days",
    "window_seconds",
    "window_time",
]
