from .brokers import TopicError, client_settings
from .causes import Cause, FlinkJob
from .dropped import DroppedRows
from .files import FilesJob
from .logs import LogForm, logs
from .replay import Replay, replay
from .results import comparisons, read_comparisons, read_releases, write
from .run import RunSecrets, beam_options
from .serving import Server
from .stream import GrowingFolder, Source, StreamJob, Topic
from .topics import PartitionLag, Publisher, Record, SilentPartitions, group_of, records, slots_in
from .watch import Watch

__all__ = [
    "Cause",
    "DroppedRows",
    "FilesJob",
    "FlinkJob",
    "GrowingFolder",
    "LogForm",
    "PartitionLag",
    "Publisher",
    "Record",
    "Replay",
    "RunSecrets",
    "Server",
    "SilentPartitions",
    "Source",
    "StreamJob",
    "Topic",
    "TopicError",
    "Watch",
    "beam_options",
    "client_settings",
    "comparisons",
    "group_of",
    "logs",
    "read_comparisons",
    "read_releases",
    "records",
    "replay",
    "slots_in",
    "write",
]
