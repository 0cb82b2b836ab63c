"""A job under load on a cluster of this machine, and the invented events that feed it."""

import contextlib
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

import streamsketch as ss
from streamsketch.beam.streams import encoded_batch
from tests.clusters.cluster import FlinkCluster
from tests.clusters.kafka import Kafka
from tests.clusters.processes import StartError, Usage
from tests.streams.agreed import split

KEYS = [f"key {number}" for number in range(10)]
UNITS, INDICES, ROWS = 100_000, 10_000, 20_000
WINDOW, DELAY = 10, 1
_TOPIC, _STREAM = "events", "load"
AGREEMENT = ss.Agreement.of(
    ss.SJLT(sketch_dim=1024, sparsity=4, seed=2013),
    key="key",
    index="index",
    value="value",
    unit="unit",
    neighbours=ss.L1(30, unit="unit", max_keys=2),
)
_SCHEMA = pa.schema(
    {
        "unit": pa.string(),
        "key": pa.string(),
        "index": pa.string(),
        "value": pa.int64(),
        "time": pa.timestamp("us", "UTC"),
    }
)


class Events:
    """Invented events, of which so many messages are made once: only their times differ from window to window."""

    def __init__(self, form: str, batches: int = 25) -> None:
        rng = np.random.default_rng(1)
        self._form = form
        self._offsets = np.sort(rng.integers(WINDOW * 10**6, size=ROWS))
        self._made = [self._some(rng) for _ in range(batches)]
        self._next = 0

    def messages(self, start: int, rows: int = ROWS) -> Iterator[bytes]:
        """Yield messages with events of the window that starts at so many seconds since 1970."""
        columns = self._made[self._next]
        self._next = (self._next + 1) % len(self._made)
        moments = start * 10**6 + self._offsets[:rows]
        if self._form == "arrow":
            times = pa.array(moments, pa.timestamp("us", "UTC"))
            sliced = [column.slice(0, rows) for column in columns]
            yield encoded_batch(pa.RecordBatch.from_arrays([*sliced, times], schema=_SCHEMA))
            return
        for unit, key, index, value, moment in zip(*columns, moments.tolist(), strict=False):
            yield f'{{"unit":"{unit}","key":"{key}","index":"{index}","value":{value},"time":{moment}}}'.encode()

    def _some(self, rng: np.random.Generator) -> list[Any]:
        sizes = {"unit": UNITS, "key": len(KEYS), "index": INDICES}
        text = [
            [f"{name} {number}" for number in rng.integers(size, size=ROWS).tolist()] for name, size in sizes.items()
        ]
        ones = np.ones(ROWS, dtype=np.int64)
        return [*text, ones.tolist()] if self._form == "json" else [*map(pa.array, text), pa.array(ones)]


class Late(NamedTuple):
    """When windows were released: their starts, and the seconds since 1970 when their last key was there."""

    starts: list[int]
    released: list[float]


class Stream:
    """A running job on a cluster of one slot, with its topic.

    A context manager: all ends with the block.

    Parameters
    ----------
    jars, folder
        As of `FlinkCluster`.
    form
        ``"arrow"`` or ``"json"``.
    options
        Further options of Beam.
    count_alone
        Whether to count events by key, without bounds and sketches.
    interval
        Milliseconds between checkpoints.
    lasting
        As of `FlinkCluster` and `Kafka`.
    keep
        As of `Kafka`.
    """

    def __init__(
        self,
        jars: Path,
        folder: Path,
        form: str,
        options: Sequence[str] = (),
        *,
        count_alone: bool = False,
        interval: int = 1000,
        lasting: bool = False,
        keep: int | None = None,
    ) -> None:
        self.folder, self.out, self._form, self._count_alone = folder, folder / "out" / _STREAM, form, count_alone
        self._options, self._interval = list(options), interval
        self._open = contextlib.ExitStack()
        self.kafka = Kafka(jars, folder / "kafka", keep=keep, lasting=lasting)
        self.cluster = FlinkCluster(jars, folder / "flink", task_managers=1, lasting=lasting, roomy=True)

    def __enter__(self) -> Self:
        self._open.enter_context(self.kafka)
        self._open.enter_context(self.cluster)
        self.kafka.create(_TOPIC, 1)
        self.writer = self._open.enter_context(self.kafka.writer(_TOPIC))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def launch(self, start: int) -> None:
        """Start the job, whose first window starts at so many seconds since 1970."""
        key = self.folder / "root key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(32))
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start))
        agreement, job = split(
            AGREEMENT, stream=_STREAM, time="time", window=WINDOW, delay=DELAY, start=moment, epsilon=1,
            public_keys=KEYS, folder="out", servers=self.kafka.servers, topic=_TOPIC, expansion=self.kafka.expansion,
            format=self._form, root_key="root key", claims="claims",
        )  # fmt: skip
        agreement.save(self.folder / "agreement.json")
        job.save(self.folder / "job.json")
        topic = [self.kafka.servers, _TOPIC, self.kafka.expansion, self._form]
        arguments = ["streamsketch", "stream", "beam"]
        arguments += [*(f"--{name}={self.folder / name}.json" for name in ("agreement", "job")), "--"]
        if self._count_alone:
            arguments = ["tests.clusters.counting", str(self.folder), *topic]
        log = self._open.enter_context((self.folder / "job.log").open("wb"))
        command = [
            sys.executable,
            "-m",
            *arguments,
            *self.cluster.stream_options(interval=self._interval),
            *self._options,
        ]
        self.job = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)  # noqa: S603
        self._open.callback(self.job.wait)
        self._open.callback(self.job.kill)

    def heartbeat(self, seconds: float) -> None:
        """Write an empty record, by which windows end."""
        self.writer.write(0, round(seconds * 1000))
        self.writer.flush()

    def late(self) -> Late:
        """Return when each window was released."""
        if self.job.poll() is not None:
            raise StartError(f"the job ended: {(self.folder / 'job.log').read_text()[-3000:]}")
        found = Late([], [])
        for folder in sorted(self.out.iterdir()) if self.out.exists() else []:
            files = [path for path in folder.glob("*.sketch") if path.name[0] != "."]
            if len(files) == len(KEYS):
                moment = time.strptime(folder.name + " UTC", "%Y-%m-%dT%H-%M-%SZ %Z")
                found.starts.append(round(time.mktime(moment) - time.timezone))
                found.released.append(max(path.stat().st_mtime for path in files))
        return found

    def usage(self) -> dict[str, Usage]:
        """Return what the task manager, all Python workers and the broker use."""
        found = self.cluster.usage() | self.kafka.usage()
        return {"task manager": found["task-manager-1"], "Python": found["workers"], "broker": found["broker"]}

    def checkpoints(self) -> list[dict[str, Any]]:
        """Return what Flink says of checkpoints that were completed, of the last ten that began."""
        for job in self.cluster.rest("/jobs")["jobs"]:
            history = self.cluster.rest(f"/jobs/{job['id']}/checkpoints")["history"]
            return [one for one in history if one["status"] == "COMPLETED"]
        return []
