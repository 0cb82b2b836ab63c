from .budget import BoundAcrossWindows
from .changes import WindowChanges
from .lateness import PartitionClock, TakeOnTime
from .secret import claim_epoch, configure_stream
from .sinks import Alarm, WriteFilesOnce, WriteRowsOnce
from .slots import Slot
from .stable import StableParDo

__all__ = [
    "Alarm",
    "BoundAcrossWindows",
    "PartitionClock",
    "Slot",
    "StableParDo",
    "TakeOnTime",
    "WindowChanges",
    "WriteFilesOnce",
    "WriteRowsOnce",
    "claim_epoch",
    "configure_stream",
]
