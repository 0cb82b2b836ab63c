from .alarms import WriteAlarms, refused_alarm
from .bound import BoundAcrossWindows
from .changes import ChangesBetweenWindows, WindowChange, WindowDistances
from .dead_letters import WriteDeadLetters
from .folder import ReadGrowingFolder
from .lateness import PartitionClock, TakeOnTime
from .messages import DecodeMessages, encoded_batch
from .secret import claim_epoch, configure_stream
from .sinks import WriteFilesOnce, WriteOnce, WriteRowsOnce
from .stable import StableParDo
from .topic import ReadTopic

__all__ = [
    "BoundAcrossWindows",
    "ChangesBetweenWindows",
    "DecodeMessages",
    "PartitionClock",
    "ReadGrowingFolder",
    "ReadTopic",
    "StableParDo",
    "TakeOnTime",
    "WindowChange",
    "WindowDistances",
    "WriteAlarms",
    "WriteDeadLetters",
    "WriteFilesOnce",
    "WriteOnce",
    "WriteRowsOnce",
    "claim_epoch",
    "configure_stream",
    "encoded_batch",
    "refused_alarm",
]
