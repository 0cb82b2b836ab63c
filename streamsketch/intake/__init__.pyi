from .columns import missing, plain, salvage
from .events import Events
from .rows import Intake, OnBad
from .units import unit_events, whole_days
from .windows import (
    LARGEST_TIME,
    Clock,
    ClockKind,
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
    "Clock",
    "ClockKind",
    "Events",
    "Intake",
    "OnBad",
    "Tumbling",
    "micros_in",
    "microseconds",
    "missing",
    "plain",
    "salvage",
    "seconds_text",
    "times_in",
    "unit_events",
    "whole_days",
    "window_names",
    "window_seconds",
]
