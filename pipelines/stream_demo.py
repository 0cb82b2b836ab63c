"""A week of flights as one minute: Kafka, Flink, a task manager killed in the middle, and every window once.

    python -m pipelines.stream_demo [--jars DIR]

Nothing stays behind, even after Ctrl-C. All servers listen on 127.0.0.1, except for those that `FlinkCluster` names.
"""

import argparse
import contextlib
import datetime as dt
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

import streamsketch as ss
from streamsketch.beam.streams import encoded_batch
from streamsketch.jobs import Replay, StreamJob, Topic, replay
from streamsketch.streams.job import Job
from tests.clusters.cluster import FlinkCluster
from tests.clusters.kafka import Kafka
from tests.clusters.processes import STOPPING, StartError

FLIGHTS = Path(__file__).resolve().parent / "data" / "flights.parquet"
CARRIERS = ["B6", "EV", "UA", "DL", "AA", "MQ"]
START, DAYS, WINDOW = dt.datetime(2013, 1, 7, tzinfo=dt.UTC), 7, 6 * 3600
SECONDS = 60  # that the week takes
TOPIC, SHOWN = "flights", 8
AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=128, sparsity=1, seed=2013),
    key="carrier",
    index="route",
    unit="tailnum",
    neighbours=ss.L1(3, unit="aircraft"),
    missing="drop",
    terms=ss.Terms(epsilon=4),
    keys=CARRIERS,
    windows=ss.Windows(time="time", every=WINDOW, first=f"{START:%Y-%m-%d}"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.stream_demo", description=__doc__)
    parser.add_argument("--jars", type=Path, default=Path(".flink/lib"), metavar="DIR", help="(default .flink/lib)")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="stream-demo-", ignore_cleanup_errors=True) as folder:
            return _demo(console, options.jars, Path(folder))
    except StartError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 2
    except KeyboardInterrupt:
        console.print("Ended; nothing is left running.")
        return 130


def _demo(console: Console, jars: Path, folder: Path) -> int:
    root_key = folder / "root key"
    root_key.touch(mode=0o600)
    root_key.write_bytes(secrets.token_bytes(32))
    console.print("Starting Kafka, and Flink with two task managers (half a minute) …")
    with Kafka(jars, folder / "kafka") as kafka, FlinkCluster(jars, folder / "flink") as cluster:
        kafka.create(TOPIC, 2)
        arguments = _arguments(kafka, folder)
        console.print(f"Flink: {cluster.web_page}. Submitting the job …")
        with (folder / "job.log").open("wb") as log:
            job = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "streamsketch", "stream", "beam", *arguments, "--", *cluster.stream_options()],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _watch(console, job, cluster, kafka, folder)
        finally:
            job.kill()
            job.wait()
        console.print("Computing the topic again, in batch, which only the operator could do …")
        job_again = StreamJob(
            agreement=AGREEMENT,
            job=Job.load(folder / "job.json"),
            source=Topic(kafka.servers, TOPIC, kafka.expansion),
            epoch=1,
        )
        replayed = replay(job_again, kafka.read(TOPIC))
    windows = DAYS * 86_400 // WINDOW
    console.print(
        f"{replayed.slots} releases, each once: {windows} windows of {len(CARRIERS)} carriers; "
        f"{replayed.missing} missing.\n"
        f"{replayed.same_bytes} have the bytes of the computation in batch; "
        f"{replayed.same_sums} have the topic's sums once the noise is taken off."
    )
    every = windows * len(CARRIERS)
    good = replayed == Replay(every, every, every, 0)
    console.print("[bold green]Every window came once, and is right.[/]" if good else "[bold red]That is wrong.[/]")
    return 0 if good else 1


def _arguments(kafka: Kafka, folder: Path) -> list[str]:
    """Write agreement and job, and return the options of the command."""
    AGREEMENT.save(folder / "agreement.json")
    Job(
        folder="out",
        delay=3600,
        stream="flights",
        servers=kafka.servers,
        topic=TOPIC,
        expansion=kafka.expansion,
        root_key="root key",
        claims="claims",
    ).save(folder / "job.json")
    return [f"--agreement={folder / 'agreement.json'}", f"--job={folder / 'job.json'}"]


def _watch(console: Console, job: subprocess.Popen[bytes], cluster: FlinkCluster, kafka: Kafka, folder: Path) -> None:
    """Show windows as they come, while the week is replayed and a task manager is killed."""
    out, log = folder / "out" / "flights", folder / "job.log"
    producer = threading.Thread(target=_produce, args=(kafka,), daemon=True)
    windows, started, killed, status = DAYS * 86_400 // WINDOW, 0.0, False, "waiting for the job to run"
    deadline = time.monotonic() + 600
    with Live(console=console, refresh_per_second=4) as live:
        while len(_complete(out)) < windows:
            if job.poll() is not None:
                raise StartError(f"the job ended: {log.read_text()[-3000:]}")
            if time.monotonic() > deadline:
                raise StartError(f"only {len(_complete(out))} of {windows} windows came in ten minutes")
            if not started and _is_running(cluster):
                producer.start()
                started, status = time.monotonic(), "replaying a week of flights as a minute"
            if started and not killed and len(_complete(out)) >= windows // 3:
                cluster.kill_task_manager(-1)
                cluster.start_task_manager()
                killed, status = True, f"a task manager was killed {time.monotonic() - started:.0f} s into the replay"
            live.update(_shown(out, status))
            time.sleep(0.25)
        live.update(_shown(out, status))


def _is_running(cluster: FlinkCluster) -> bool:
    jobs = cluster.rest("/jobs/overview")["jobs"]
    return any(job["tasks"]["running"] == job["tasks"]["total"] > 0 for job in jobs)


def _produce(kafka: Kafka) -> None:
    """Write the week, then heartbeats until the broker is gone."""
    with contextlib.suppress(OSError):
        _write(kafka)


def _write(kafka: Kafka) -> None:
    with kafka.writer(TOPIC) as writer:
        began = time.monotonic()
        for hour, batch in _hours():
            wait = (hour - START).total_seconds() / (DAYS * 86_400) * SECONDS - (time.monotonic() - began)
            time.sleep(max(0, wait))
            stamp = round(hour.timestamp() * 1000)
            middle = batch.num_rows // 2
            for partition, part in enumerate((batch.slice(0, middle), batch.slice(middle))):
                writer.write(partition, stamp, encoded_batch(part))
            writer.flush()
        minute = 0
        while True:  # heartbeats, as a window's results leave when the log goes on
            minute += 1
            for partition in (0, 1):
                beat = START + dt.timedelta(days=DAYS, hours=1, minutes=minute)
                writer.write(partition, round(beat.timestamp() * 1000))
            writer.flush()
            time.sleep(1)


def _hours() -> Iterator[tuple[dt.datetime, pa.RecordBatch]]:
    """Yield the flights of each hour of the week: aircraft, carrier, route and time."""
    table = pq.read_table(FLIGHTS)
    time_of = table.column("scheduled_hour").cast(pa.timestamp("us", "UTC"))
    text = {name: table.column(name).cast(pa.string()) for name in ("carrier", "tailnum", "route")}
    table = pa.table({**text, "time": time_of})
    for hour in range(DAYS * 24):
        start = START + dt.timedelta(hours=hour)
        flights = table.filter(pc.equal(table.column("time"), pa.scalar(start, pa.timestamp("us", "UTC"))))
        yield start, pa.RecordBatch.from_struct_array(flights.to_struct_array().combine_chunks())


def _complete(out: Path) -> list[Path]:
    """Return the folders of windows whose releases are all there."""
    if not out.exists():
        return []
    return [folder for folder in sorted(out.iterdir()) if all((folder / f"{key}.sketch").exists() for key in CARRIERS)]


def _shown(out: Path, status: str) -> Table:
    folders = _complete(out)
    table = Table(
        title=f"{len(folders)} windows released; {status}.\nSquared distance of each carrier to the window before",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("window", no_wrap=True)
    for key in CARRIERS:
        table.add_column(key, justify="right", no_wrap=True)
    for folder in folders[-SHOWN:]:
        table.add_row(folder.name[5:13].replace("T", " ") + "h", *(_cell(folder / f"{key}.change") for key in CARRIERS))
    return table


def _cell(path: Path) -> str:
    try:
        change: dict[str, Any] = json.loads(path.read_text())
    except OSError:
        return "·"
    return f"{change['squared_distance']:,.0f}±{change['standard_error']:,.0f}"


if __name__ == "__main__":
    for number in STOPPING - {signal.SIGINT}:  # nothing may stay behind, as after Ctrl-C
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.exit(main())
