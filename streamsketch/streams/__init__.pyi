from .policy import StreamPolicy
from .rows import OtherRowsError
from .slots import Slot, key_of_file, named_key
from .state import STREAM_SUFFIX
from .stream import Stream

__all__ = [
    "STREAM_SUFFIX",
    "OtherRowsError",
    "Slot",
    "Stream",
    "StreamPolicy",
    "key_of_file",
    "named_key",
]
