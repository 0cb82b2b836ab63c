from .brokers import Brokers, Token, TopicError, UnreachableError, client_settings, with_token
from .causes import Cause, FlinkJob
from .consume import TopicStream, dry_run, log_end, log_failure, malformed_size
from .decoders import Decoder, Registry, avro_rows, debezium_rows, imported, protobuf_rows
from .dropped import DroppedRows
from .files import FilesJob
from .partitions import Bounds, Log, LostOffsetsError, Partitions
from .payloads import Malformed, Message, Payloads
from .readers import Readers
from .replay import Replay, replay
from .resharding import ShardStream
from .run import RunSecrets, beam_options
from .serving import Server
from .shards import Shard, Shards, kinesis_client
from .stream import GrowingFolder, Source, StreamJob, Topic
from .topics import PartitionLag, Publisher, Record, SilentPartitions, group_of, records, slots_in
from .watch import Watch

__all__ = [
    "Bounds",
    "Brokers",
    "Cause",
    "Decoder",
    "DroppedRows",
    "FilesJob",
    "FlinkJob",
    "GrowingFolder",
    "Log",
    "LostOffsetsError",
    "Malformed",
    "Message",
    "PartitionLag",
    "Partitions",
    "Payloads",
    "Publisher",
    "Readers",
    "Record",
    "Registry",
    "Replay",
    "RunSecrets",
    "Server",
    "Shard",
    "ShardStream",
    "Shards",
    "SilentPartitions",
    "Source",
    "StreamJob",
    "Token",
    "Topic",
    "TopicError",
    "TopicStream",
    "UnreachableError",
    "Watch",
    "avro_rows",
    "beam_options",
    "client_settings",
    "debezium_rows",
    "dry_run",
    "group_of",
    "imported",
    "kinesis_client",
    "log_end",
    "log_failure",
    "malformed_size",
    "protobuf_rows",
    "records",
    "replay",
    "slots_in",
    "with_token",
]
