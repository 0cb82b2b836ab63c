"""States of streams as versions of the library left them: how each goes on, and ``states.json``, which only grows.

``python -m tests.golden.states`` appends the states of today under the number of their format. What is there already
never changes: a state outlives the process that wrote it, and the version.
"""

import base64
import json
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import streamsketch as ss
from streamsketch.beam.streams.secret import StreamSecret, claim_epoch
from streamsketch.continual import Tree
from streamsketch.jobs import Malformed, Payloads, TopicStream
from streamsketch.once.slots import VERSION
from streamsketch.release import AdditiveNoise
from streamsketch.spark import ReleaseBatches
from streamsketch.streams import FileSink, Stream
from tests.jobs.topic import NeverStop, Topic, policy_in
from tests.spark.frames import LocalFrame
from tests.streams.naive import AGREEMENT, KEYS, batch_of, policy_of
from tests.streams.naive import Row as Event

PATH = Path(__file__).parent / "states.json"
STATE = "s.raw-stream"
SECRET = bytes(range(32))
SCHEDULE: dict[str, Any] = {"schedule": Tree(horizon=8, max_windows=3), "epsilon": 5.0}
ONE = AGREEMENT.replace(key=None, neighbours=ss.L1(5, unit="customer"))
TWO = ss.L1(2, unit="person")
BATCHES = ss.Agreement(
    ss.SJLT(sketch_dim=16, sparsity=2, seed=3),
    index="item",
    key="shop",
    unit="person",
    neighbours=TWO,
)
SALES = [
    {"person": f"p{number % 5}", "shop": ["north", "south", "other"][number % 3], "item": f"item {number % 7}"}
    for number in range(24)
]
MESSAGES = [json.dumps({**row, "at": f"2023-11-14T22:{13 + place // 6}:{place % 6}0Z"}).encode()
            for place, row in enumerate(SALES)]  # fmt: skip
LINES = [Event(7 * place, KEYS[place % 3], "abc"[place % 3], 1 + place % 4, f"c{place % 5}") for place in range(30)]


class Broken(FileSink):
    """Files of which none can be written but claims: what is drawn waits in the state."""

    def put(self, slot: Any, content: bytes) -> bytes | None:
        """Refuse a release."""
        if slot.kind != VERSION:
            raise OSError("the disk is gone")
        return super().put(slot, content)


def of_log(folder: Path, first: int, last: int, sink: type[FileSink] = FileSink, **changes: Any) -> None:
    """Read lines of a log by one machine."""
    agreement, job = policy_of(folder / "out", AGREEMENT, **{"epsilon": 1.0, "stream": "sales"} | changes)
    stream = Stream(agreement, job, folder / STATE, sink=sink(folder / "out"))
    stream.add(batch_of(LINES[first:last]), first + 1)
    stream.save({"row": last})


def of_schedule(folder: Path, first: int, last: int, _: type[FileSink] = FileSink) -> None:
    """Read lines of a log by one machine, of which each person is in at most three windows."""
    (folder / "out").mkdir(exist_ok=True)
    agreement, job = policy_of(folder / "out", ONE, **SCHEDULE | {"public_keys": None})
    stream = Stream(agreement, job, folder / STATE, charge=lambda *_: None)
    stream.add(batch_of(LINES[first:last]), first + 1)
    stream.save({"row": last})


def of_topic(folder: Path, _: int, last: int, sink: type[FileSink] = FileSink) -> None:
    """Read the first messages of a topic with two partitions, beside Kafka."""
    topic = Topic(2)
    for place, message in enumerate(MESSAGES[:last]):
        topic.write(place % 2, message, second=0)
    policy = policy_in(folder / "out", stream="sales", start="2023-11-14T22:13Z")
    stream = Stream(*policy, folder / STATE, sink=sink(folder / "out"), strict=True)
    bad = Malformed(None)
    reader = TopicStream(stream, topic, "sales", Payloads(policy.agreement, "at", "json", bad), bad)
    reader.run(NeverStop(), every=1e9, once=True)


def of_batches(folder: Path, _: int, last: int, __: type[FileSink] = FileSink) -> None:
    """Release batches of eight rows by Spark's functions, from the first on, as without a checkpoint."""
    noise = AdditiveNoise(epsilon=1.0, neighbours=TWO)
    sink = FileSink(folder / "out")
    publish = ReleaseBatches(
        BATCHES, noise, SECRET, sink, "sales", public_keys=["north", "south"], alarms=folder / "alarms"
    )
    for number, at in enumerate(range(0, last, 8)):
        frame: Any = LocalFrame.of(pa.Table.from_pylist(SALES[at : at + 8]), 2)
        publish(frame, number)


def of_cluster(folder: Path, first: int, _: int, __: type[FileSink] = FileSink) -> None:
    """Claim the epoch of a launch on a cluster, and derive its secrets from the root key and the claims."""
    (folder / "key").write_bytes(SECRET)
    (folder / "key").chmod(0o600)
    epoch = 1 if first else claim_epoch(str(folder / "claims"), "sales")
    secret = StreamSecret("sales", epoch, str(folder / "claims"), folder / "key")
    (folder / "out").mkdir(exist_ok=True)
    for use in ("noise", "bounds", "version"):
        (folder / "out" / use).write_text(f"{secret.derive(use, 'a step').hex()} {secret.fingerprint().hex()}\n")


ENGINES: dict[str, tuple[Callable[..., None], int, int]] = {
    "stream file": (of_log, 20, 30),
    "stream file by a schedule": (of_schedule, 20, 30),
    "stream kafka": (of_topic, 15, 24),
    "Spark": (of_batches, 16, 24),
    "Beam and Flink": (of_cluster, 1, 2),
}
"""What reads the rows of each engine from one number to another, where its state was left, and the end."""


def left(engine: str, folder: Path) -> None:
    """Write what an engine leaves: its state, with releases that wait where it has them, and its sink."""
    read, middle, _ = ENGINES[engine]
    try:
        read(folder, 0, middle, Broken)
    except OSError:
        if not (folder / STATE).exists():
            raise


def went_on(engine: str, folder: Path) -> dict[str, str]:
    """Let an engine go on from what is in a folder, and return what it published, without the salt of claims."""
    read, middle, last = ENGINES[engine]
    read(folder, middle, last)
    return {
        name: content
        for name, content in files_of(folder).items()
        if name.startswith("out/") and not name.endswith(".version")
    }


def files_of(folder: Path) -> dict[str, str]:
    """Return all files of a folder as texts."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): base64.b64encode(zlib.compress(path.read_bytes(), 9)).decode() for path in paths
    }


def write_files(files: dict[str, str], folder: Path) -> None:
    """Write files that `files_of` read, for their owner alone."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.decompress(base64.b64decode(content)))
        path.chmod(0o600)


def content_of(text: str) -> bytes:
    """Return the bytes of a file."""
    return zlib.decompress(base64.b64decode(text))


def main() -> None:
    """Append today's states to the file."""
    cases = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else []
    for engine in ENGINES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            left(engine, folder)
            files = files_of(folder)
            cases.append({"engine": engine, "version": ss.__version__, "files": files, "out": went_on(engine, folder)})
    PATH.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
