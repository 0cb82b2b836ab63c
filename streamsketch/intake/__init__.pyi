from .windows import Tumbling, times_in, window_names, window_seconds

__all__ = [
    "Tumbling",
    "times_in",
    "window_names",
    "window_seconds",
]
