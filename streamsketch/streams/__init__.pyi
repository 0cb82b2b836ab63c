from .policy import StreamPolicy
from .state import STREAM_SUFFIX
from .stream import Stream

__all__ = [
    "STREAM_SUFFIX",
    "Stream",
    "StreamPolicy",
]
