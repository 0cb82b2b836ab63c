from .policy import StreamPolicy
from .slots import Slot, named_key, window_start
from .state import STREAM_SUFFIX
from .stream import Stream

__all__ = [
    "STREAM_SUFFIX",
    "Slot",
    "Stream",
    "StreamPolicy",
    "named_key",
    "window_start",
]
