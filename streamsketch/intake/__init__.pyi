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
    "Tumbling",
    "micros_in",
    "microseconds",
    "seconds_text",
    "times_in",
    "window_names",
    "window_seconds",
]
