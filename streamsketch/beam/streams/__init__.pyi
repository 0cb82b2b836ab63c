from .budget import BoundAcrossWindows
from .changes import WindowChanges, WindowDistances
from .folder import ReadGrowingFolder
from .lateness import PartitionClock, TakeOnTime
from .messages import DecodeMessages, encoded_batch
from .secret import claim_epoch, configure_stream
from .sinks import Alarm, WriteFilesOnce, WriteRowsOnce
from .slots import Slot
from .stable import StableParDo

__all__ = [
    "Alarm",
    "BoundAcrossWindows",
    "DecodeMessages",
    "PartitionClock",
    "ReadGrowingFolder",
    "Slot",
    "StableParDo",
    "TakeOnTime",
    "WindowChanges",
    "WindowDistances",
    "WriteFilesOnce",
    "WriteRowsOnce",
    "claim_epoch",
    "configure_stream",
    "encoded_batch",
]
