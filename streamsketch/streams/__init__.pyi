from .policy import StreamPolicy
from .slots import Slot, key_of_file, named_key
from .state import STREAM_SUFFIX
from .stream import Stream

__all__ = [
    "STREAM_SUFFIX",
    "Slot",
    "Stream",
    "StreamPolicy",
    "key_of_file",
    "named_key",
]
