"""A Kafka broker and what Beam needs to read it, as processes of this machine, on 127.0.0.1."""

import contextlib
import struct
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streamsketch.jobs import Record
from tests.clusters.processes import Processes, StartError, Usage, free_ports, listens
from tests.patience import PATIENCE

_HEADER = struct.Struct(">iqi")  # partition, milliseconds, bytes: as Topic.java has it
_JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
_SEGMENT = 1 << 28
_LENGTH = struct.Struct(">i")
PASSWORD = "correct horse"  # noqa: S105 - of a broker of the tests


class Kafka:
    """A broker (KRaft) that keeps its log in a folder, and Beam's expansion service with `ReadLog`.

    A context manager, as `FlinkCluster`.

    Parameters
    ----------
    jars
        Folder of the jars that ``pom.xml`` names, and of ours.
    folder
        A folder for the log and for configuration.
    keep
        How many bytes of each partition to keep at least, for topics that never end; by default all.
    lasting
        Whether the broker runs for long: it then takes all of its heap at the start.
    secure
        Whether it also listens to clients that use TLS and log in.

    Attributes
    ----------
    servers
        Address of the broker.
    expansion
        Address of the expansion service.
    secure
        If it is secure, its address for clients with TLS and a password.
    client_settings
        If it is secure, the file of settings by which they reach it.
    """

    def __init__(
        self, jars: Path, folder: Path, *, keep: int | None = None, lasting: bool = False, secure: bool = False
    ) -> None:
        self._jars, self._folder, self._keep, self._lasting = jars.resolve(), folder.resolve(), keep, lasting
        self._processes = Processes(folder)
        self._port, self._controller, expansion, sasl = free_ports(4)
        self.secure = f"127.0.0.1:{sasl}" if secure else None
        self.client_settings = self._folder / "client.properties"
        self.servers, self.expansion = f"127.0.0.1:{self._port}", f"127.0.0.1:{expansion}"

    def __enter__(self) -> Self:
        if not any(self._jars.glob("kafka_2.13-*.jar")):
            raise StartError(f"there are no Kafka jars in {self._jars}; fetch them with: make flink")
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._processes)
            if self.secure is not None:
                self._certify()
            settings = self._folder / "server.properties"
            settings.write_text(self._settings())
            format_log = ["kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex[:22], "-c", str(settings)]
            self._end_of(self._processes.start("format", self._java("128m", *format_log)), "format")
            port = self.expansion.split(":")[1]
            self._processes.start("expansion", self._java("256m", "Expansion", port))
            self.start_broker()
            self._processes.wait("Beam's expansion service", lambda: listens(int(port)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _certify(self) -> None:
        """Make a certificate of the broker, which signs itself, and the settings of clients that trust it."""
        key, certificate = self._folder / "key.pem", self._folder / "certificate.pem"
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
        request += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(request, check=True, capture_output=True)  # noqa: S603 - our own command
        (self._folder / "store.pem").write_text(key.read_text() + certificate.read_text())
        settings = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": certificate,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "reader",
            "sasl.password": PASSWORD,
        }
        self.client_settings.touch(mode=0o600)
        self.client_settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def usage(self) -> dict[str, Usage]:
        """Return what each process uses."""
        return self._processes.usage()

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        name = f"create-{topic}"
        self._end_of(self._processes.start(name, self._tool("create", topic, str(partitions))), name)

    def grow(self, topic: str, partitions: int) -> None:
        """Let a topic have more partitions."""
        name = f"grow-{topic}"
        self._end_of(self._processes.start(name, self._tool("grow", topic, str(partitions))), name)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Remove the records of a partition before an offset, as its retention does."""
        place = TopicPartition(topic, partition, before)
        admin = AdminClient({"bootstrap.servers": self.servers})  # which has to live until there is an answer
        admin.delete_records([place])[place].result(PATIENCE)

    def replace(self, topic: str, partitions: int) -> None:
        """Delete a topic, and create one with its name."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.delete_topics([topic], operation_timeout=PATIENCE)[topic].result(PATIENCE)
        self.create(topic, partitions)

    def kill_broker(self) -> None:
        """Kill the broker; what it has written stays."""
        self._processes.kill(self._broker)

    def start_broker(self) -> None:
        """Start the broker, and wait until it listens."""
        heap = ["-Xms384m", "-XX:+AlwaysPreTouch"] if self._lasting else []
        settings = str(self._folder / "server.properties")
        self._broker = self._processes.start("broker", self._java("384m", *heap, "kafka.Kafka", settings))
        self._processes.wait("the broker", lambda: listens(self._port))

    @contextlib.contextmanager
    def writer(self, topic: str) -> Iterator["Writer"]:
        """Write records to a topic; all are in it at the end of the block."""
        with subprocess.Popen(  # noqa: S603 - our own command
            self._tool("write", topic), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                writer = Writer(cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout))
                yield writer
                writer.flush()
            finally:
                process.kill()

    def read(self, topic: str) -> Iterator[Record]:
        """Yield all records that are committed to a topic now, each partition's in order."""
        with subprocess.Popen(  # noqa: S603 - our own command
            self._tool("read", topic), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            records = cast("IO[bytes]", process.stdout)
            while header := records.read(_HEADER.size):
                partition, timestamp, length = _HEADER.unpack(header)
                content = records.read(length)
                (length,) = _LENGTH.unpack(records.read(_LENGTH.size))
                yield Record(partition, timestamp, content, None if length < 0 else records.read(length))

    def _tool(self, *arguments: str) -> list[str]:
        return self._java("256m", "Topic", self.servers, *arguments)

    def _java(self, heap: str, *main: str) -> list[str]:
        return [*_JAVA, f"-Xmx{heap}", "-cp", f"{self._jars}/*", *main]

    def _end_of(self, process: subprocess.Popen[bytes], name: str) -> None:
        if process.wait() != 0:
            raise StartError(f"Kafka's {name} failed: {(self._folder / f'{name}.log').read_text()[-2000:]}")
        self._processes.kill(process)

    def _settings(self) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self._folder / "log",
            "log.retention.ms": -1,  # the demo's events are of 2013
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "message.max.bytes": 1 << 22,
            "auto.create.topics.enable": "false",
            # one timestamp of the future would end every window up to it
            "log.message.timestamp.after.max.ms": 3_600_000,
        }
        if self.secure is not None:
            settings["listeners"] = f"{settings['listeners']},SASL_SSL://{self.secure}"
            settings["advertised.listeners"] = f"{settings['advertised.listeners']},SASL_SSL://{self.secure}"
            login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
            settings |= {
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self._folder / "store.pem",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{login} user_reader="{PASSWORD}";',
            }
        if self._keep is not None:
            settings |= {
                "log.retention.bytes": self._keep,
                "log.segment.bytes": _SEGMENT,
                "log.retention.check.interval.ms": 10_000,
                "log.segment.delete.delay.ms": 1000,
            }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


class Writer:
    """Writes records to a topic."""

    def __init__(self, records: IO[bytes], answers: IO[bytes]) -> None:
        self._records, self._answers = records, answers

    def write(self, partition: int, timestamp: int, content: bytes = b"") -> None:
        """Write a record; one without content is a heartbeat, which lets windows of idle partitions end."""
        self._records.write(_HEADER.pack(partition, timestamp, len(content)) + content)

    def flush(self) -> None:
        """Wait until all records are in the topic."""
        self._records.write(_HEADER.pack(0, 0, -1))
        self._records.flush()
        self._answers.readline()
