"""Streams under load on a cluster of this machine: how fast, how late, and whether anything grows.

    python -m pipelines.flink.load backlog [--events 10000000] [--format arrow|json] [--count-alone]
    python -m pipelines.flink.load soak [--seconds 3600] [--rate 200000]

*backlog* fills a topic and then starts the job with one slot; events a second are those between the first window and
the last. *soak* feeds a running job at a steady rate, and prints every minute how late windows were released, the
resident memory of what runs, and the size of a checkpoint. Events have 10 keys, 100,000 units, each bounded, and 10,000
indices.
"""

import argparse
import contextlib
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from rich.console import Console

from pipelines.flink.cluster import FlinkCluster
from pipelines.flink.kafka import Kafka
from pipelines.flink.processes import STOPPING, StartError
from streamsketch.beam.streams import encoded_batch

KEYS = [f"key {number}" for number in range(10)]
UNITS, INDICES, ROWS = 100_000, 10_000, 20_000
WINDOW, DELAY = 10, 1
_TOPIC, _STREAM = "events", "load"
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
    """Invented events, made once: only their times differ."""

    def __init__(self, form: str) -> None:
        rng = np.random.default_rng(1)
        self._form = form
        columns = [("unit", UNITS), ("key", len(KEYS)), ("index", INDICES)]
        text = [[f"{name} {number}" for number in rng.integers(size, size=ROWS).tolist()] for name, size in columns]
        self._columns = [*map(pa.array, text), pa.array(np.ones(ROWS, dtype=np.int64))]
        self._rows = list(zip(*text, strict=True))
        self._offsets = np.sort(rng.integers(WINDOW * 10**6, size=ROWS))

    def messages(self, start: int, rows: int = ROWS) -> Iterator[bytes]:
        """Yield messages with events of the window that starts at so many seconds since 1970."""
        moments = start * 10**6 + self._offsets[:rows]
        if self._form == "arrow":
            columns = [column.slice(0, rows) for column in self._columns]
            times = pa.array(moments, pa.timestamp("us", "UTC"))
            yield encoded_batch(pa.RecordBatch.from_arrays([*columns, times], schema=_SCHEMA))
            return
        for (unit, key, index), moment in zip(self._rows[:rows], moments.tolist(), strict=True):
            row = {"unit": unit, "key": key, "index": index, "value": 1, "time": moment}
            yield json.dumps(row).encode()


class Late(NamedTuple):
    """When windows were released: their starts, and the seconds since 1970 when their last key was there."""

    starts: list[int]
    released: list[float]


class Stream:
    """A running job on a cluster of one slot, with its topic.

    A context manager: all ends with the block.
    """

    def __init__(self, jars: Path, folder: Path, form: str, *, count_alone: bool = False) -> None:
        self.folder, self.out, self._form, self._count_alone = folder, folder / "out" / _STREAM, form, count_alone
        self._open = contextlib.ExitStack()
        self.kafka = Kafka(jars, folder / "kafka")
        self.cluster = FlinkCluster(jars, folder / "flink", task_managers=1)

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
        moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(start))
        places = {"root-key": key, "claims": self.folder / "claims", "output": self.folder / "out"}
        arguments = [
            *(f"--servers={self.kafka.servers}", f"--topic={_TOPIC}", f"--expansion={self.kafka.expansion}"),
            *("--time=time", "--key=key", "--index=index", "--value=value", "--unit-column=unit"),
            *("--max-keys=2", "--l1=30", "--epsilon=1", f"--format={self._form}", f"--stream={_STREAM}"),
            *(f"--window={WINDOW}", f"--delay={DELAY}", f"--start={moment}", f"--public-keys={','.join(KEYS)}"),
            *(f"--{name}={place}" for name, place in places.items()),
        ]
        module = "pipelines.flink.counting" if self._count_alone else "pipelines.stream_distances"
        log = self._open.enter_context((self.folder / "job.log").open("wb"))
        command = [sys.executable, "-m", module, *arguments, *self.cluster.stream_options()]
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

    def memory(self) -> int:
        """Return the resident memory of the task manager and all Python workers, in bytes."""
        listed = subprocess.run(["ps", "-eo", "rss=,args="], capture_output=True, text=True, check=True).stdout  # noqa: S607
        ours = ("sdk_worker_main", "pipelines.flink.workers", str(self.folder))
        return sum(int(line.split()[0]) << 10 for line in listed.splitlines() if any(name in line for name in ours))

    def checkpoint(self) -> int:
        """Return the size of the last checkpoint, in bytes."""
        (job,) = (job["id"] for job in self.cluster.rest("/jobs")["jobs"])
        latest = self.cluster.rest(f"/jobs/{job}/checkpoints")["latest"]["completed"]
        return int(latest["state_size"]) if latest else 0


def backlog(jars: Path, console: Console, *, events: int, form: str, count_alone: bool) -> float:
    """Return events a second with one slot."""
    windows = 20
    batches = max(1, events // windows // ROWS)
    first = 1_356_998_400
    made = Events(form)
    with (
        tempfile.TemporaryDirectory(prefix="load-", ignore_cleanup_errors=True) as name,
        Stream(jars, Path(name), form, count_alone=count_alone) as stream,
    ):
        for window in range(windows):
            start = first + WINDOW * window
            for _ in range(batches):
                for message in made.messages(start):
                    stream.writer.write(0, start * 1000, message)
        stream.writer.flush()
        console.print(f"{windows * batches * ROWS:,} events are in the topic; starting the job")
        stream.launch(first)
        end = first + WINDOW * windows + DELAY
        while len((late := stream.late()).starts) < windows:
            end += 1
            stream.heartbeat(end)
            time.sleep(0.5)
    seconds = late.released[-1] - late.released[0]
    return (windows - 1) * batches * ROWS / seconds


def soak(jars: Path, console: Console, *, seconds: float, rate: int) -> dict[str, Any]:
    """Feed a job at a steady rate; return what was seen."""
    made, seen = Events("arrow"), []
    with (
        tempfile.TemporaryDirectory(prefix="load-", ignore_cleanup_errors=True) as name,
        Stream(jars, Path(name), "arrow") as stream,
    ):
        began = int(time.time()) // WINDOW * WINDOW + WINDOW
        stream.launch(began)
        written, said, now = 0, time.monotonic() + 60, time.time()
        while now < began + seconds:
            while written < rate * (now - began):
                start = int(now) // WINDOW * WINDOW
                for message in made.messages(start):
                    stream.writer.write(0, start * 1000, message)
                written += ROWS
            stream.heartbeat(now)
            time.sleep(0.2)
            if time.monotonic() > said:
                said += 60
                late = stream.late()
                delays = [at - start - WINDOW - DELAY for start, at in zip(late.starts, late.released, strict=True)]
                live = delays[len(delays) // 4 :]  # windows that waited for the job to start are none of its delay
                row = {
                    "minutes": round((now - began) / 60),
                    "events": written,
                    "windows": len(delays),
                    "p99_seconds": float(np.quantile(live, 0.99)) if live else None,
                    "memory_mb": stream.memory() >> 20,
                    "checkpoint_kb": stream.checkpoint() >> 10,
                }
                seen.append(row)
                console.print(json.dumps(row))
            now = time.time()
    return {"rate": rate, "minutes": seen}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.flink.load", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("what", choices=["backlog", "soak"])
    parser.add_argument("--jars", type=Path, default=Path(".flink/lib"), metavar="DIR", help="(default .flink/lib)")
    parser.add_argument("--events", type=int, default=10_000_000, help="of a backlog (default 10,000,000)")
    parser.add_argument("--format", choices=["arrow", "json"], default="arrow", help="of messages (default arrow)")
    parser.add_argument("--count-alone", action="store_true", help="count events by key, without sketches or bounds")
    parser.add_argument("--seconds", type=float, default=3600, help="of a soak (default 3600)")
    parser.add_argument("--rate", type=int, default=200_000, help="events a second of a soak (default 200,000)")
    known = parser.parse_args(arguments)
    console = Console()
    try:
        if known.what == "soak":
            soak(known.jars, console, seconds=known.seconds, rate=known.rate)
        else:
            form = {"form": known.format, "count_alone": known.count_alone}
            console.print(f"{backlog(known.jars, console, events=known.events, **form):,.0f} events a second")
    except StartError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 2
    except KeyboardInterrupt:
        console.print("Ended; nothing is left running.")
        return 130
    return 0


if __name__ == "__main__":
    for number in STOPPING - {signal.SIGINT}:
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.exit(main())
