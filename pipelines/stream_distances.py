r"""Private comparisons of a stream that never ends: an Apache Beam pipeline.

Each key is a party, each row an event at a time. In every window of event time each public key is sketched and released
once, whatever fails and restarts. With the releases appear comparisons, by squared distance or by cosine, of each key
with the window before, and of the keys of a window with each other.

    python -m pipelines.stream_distances --servers broker:9092 --topic flights --expansion 127.0.0.1:8097 \
        --time time --key carrier --index route,hour --unit-column aircraft --max-keys 1 --l1 12 \
        --window 3600 --delay 60 --start 2013-01-01 --public-keys AA,UA --epsilon 1 --delta 1e-9 \
        --stream flights --root-key /run/secrets/key --claims /shared/claims --output /shared/out \
        --runner=FlinkRunner --checkpointing_interval=10000 --finish_bundle_before_checkpointing --max_bundle_size=50

Any further option goes to Beam. How keys, epochs, upgrades and restores work is in docs/how-to/kafka.md.
"""

import argparse
import datetime as dt
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

import streamsketch as ss
from pipelines.agreeing import follow
from pipelines.databases import connection
from pipelines.logs import logs
from pipelines.sources import ReadTopic
from streamsketch.beam import BoundContributions, ReleasePerKey, SketchPerKey, TumblingWindows, comparison_schema
from streamsketch.beam.streams import (
    BoundAcrossWindows,
    DecodeMessages,
    ReadGrowingFolder,
    WindowChanges,
    WindowDistances,
    WriteAlarms,
    WriteFilesOnce,
    WriteRowsOnce,
    configure_stream,
    log_event,
    refused_alarm,
)
from streamsketch.release import AdditiveNoise

_LOG = logging.getLogger("pipelines.stream_distances")  # whatever this module is run as


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with command-line arguments until it is ended; return the exit status."""
    known, rest = parsed(arguments)
    options = PipelineOptions([*rest, "--streaming"])
    options.view_as(StandardOptions).runner = options.view_as(StandardOptions).runner or "FnApiRunner"
    with logs(known.log, stream=known.stream) as always:
        runs = False
        try:
            pipeline = _built(known, options, always)
            runs = True
            _run(pipeline)
        except Exception as error:
            ours = isinstance(error, ss.StreamsketchError)
            # once it runs, even our errors say where in the data something is wrong
            text = str(error) if ours and (known.log == "text" or not runs) else None
            log_event(_LOG, logging.ERROR, "failed", error=type(error).__name__, text=text)
            if known.log == "text" and not ours:
                raise
            return 2 if ours else 1
    return 0


def _built(arguments: argparse.Namespace, options: PipelineOptions, always: dict[str, Any]) -> beam.Pipeline:
    pipeline = beam.Pipeline(options=options)
    _check_ledger(arguments)
    secrets = {"stream": arguments.stream, "root_key": arguments.root_key, "claims": arguments.claims}
    epoch = configure_stream(pipeline, **secrets, epoch=arguments.epoch, clock=arguments.clock)
    always["epoch"] = epoch  # needed for a restore
    build(arguments, messages(arguments, pipeline), epoch)
    restored = arguments.epoch is not None
    log_event(_LOG, logging.INFO, "launched", runner=type(pipeline.runner).__name__, restored=restored)
    return pipeline


def _check_ledger(arguments: argparse.Namespace) -> None:
    """Fail before the job runs where the ledger would refuse every window."""
    if arguments.ledger is None:
        return
    unit = _unit(arguments)
    units = {one.name: one.unit for one in ss.Ledger(arguments.ledger).datasets}
    if units.get(arguments.dataset) != unit:
        held = f"is for one {units[arguments.dataset]}" if arguments.dataset in units else "is not in it"
        raise ss.InvalidInputError(
            f"the ledger would be charged for one {unit}, and its data set {arguments.dataset!r} {held}; name another, "
            f"or enter one by: streamsketch ledger init"
        )


def _run(pipeline: beam.Pipeline) -> None:
    result = pipeline.run()
    if job := getattr(result, "_job_id", None):
        log_event(_LOG, logging.INFO, "submitted", job=job)
    log_event(_LOG, logging.INFO, "ended", state=str(result.wait_until_finish()))


def messages(arguments: argparse.Namespace, pipeline: beam.Pipeline) -> beam.PCollection:
    """Return the messages of the source that the arguments name."""
    windows: dict[str, Any] = {"delay": arguments.delay, "size": arguments.window, "offset": arguments.offset}
    windows["clock"] = arguments.clock
    if arguments.folder is not None:
        columns = [*(arguments.agreed or schema_of(arguments)).names, arguments.time]
        return pipeline | "Folder" >> ReadGrowingFolder(arguments.folder, columns, time=arguments.time, **windows)
    return pipeline | "Topic" >> ReadTopic(arguments.servers, arguments.topic, expansion=arguments.expansion, **windows)


def build(
    arguments: argparse.Namespace, log: beam.PCollection, epoch: int | None = None
) -> dict[str, beam.PCollection]:
    """Let messages of a log become releases and distances, each written once; return what sinks and steps say."""
    projection = projection_of(arguments)
    decode = DecodeMessages(
        arguments.agreed or schema_of(arguments),
        time=arguments.time,
        size=arguments.window,
        offset=arguments.offset,
        format=arguments.format,
        count_private_data=arguments.count_private_data,
    )
    batches, late, malformed = log | "Decode" >> decode
    columns = {"key": arguments.key, "index": arguments.index, "value": arguments.value}
    events = batches | "Windows" >> TumblingWindows(arguments.window, offset=arguments.offset, column=arguments.time)
    if arguments.unit_column is not None:
        events |= "Bound" >> _bounds(arguments, projection, columns)
    per_key = SketchPerKey(arguments.agreed) if arguments.agreed else SketchPerKey(projection, **columns)
    sketches = events | "Sketch" >> per_key
    release = ReleasePerKey(
        AdditiveNoise(
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            neighbours=ss.L1(arguments.l1, unit=_unit(arguments), max_keys=arguments.max_keys),
            mechanism=arguments.mechanism,
        ),
        public_keys=arguments.public_keys,
        public_windows=(arguments.start, arguments.stop),
        projection=projection,
        ledger=arguments.ledger,
        dataset=arguments.dataset,
    )
    refused: list[beam.PCollection] = []
    if arguments.ledger is None:
        releases = sketches | "Release" >> release
    else:
        releases, keys = sketches | "Release" >> release.with_refused()
        refused = [keys | "As alarms" >> beam.Map(refused_alarm, arguments.stream, epoch)]
    held, alarms = releases | "Write releases" >> _sink(arguments, epoch)
    changes = (
        held  # not what the sink refused: a comparison with that would publish it
        | "Changes" >> WindowChanges(by=arguments.by)
        | "As rows" >> beam.Map(_change, comparison_schema(pa.string(), by=arguments.by).names[2])
    )
    pairs = (
        held
        | "Pairs" >> WindowDistances(len(arguments.public_keys), by=arguments.by)
        | "Name them" >> beam.Map(lambda rows: ("pairs", rows))
    )
    files: dict[str, Any] = {"folder": arguments.output, "stream": arguments.stream, "epoch": epoch}
    changed, change_alarms = changes | "Write changes" >> WriteFilesOnce(**files, suffix="change")
    paired, pair_alarms = pairs | "Write pairs" >> WriteFilesOnce(**files, suffix="json")
    all_alarms = (alarms, change_alarms, pair_alarms, *refused) | "All alarms" >> beam.Flatten()
    all_alarms | "Write alarms" >> WriteAlarms(FileSystems.join(arguments.claims, f"{arguments.stream}.alarms"))
    return {
        "sketches": sketches,
        "releases": releases,
        "held": held,
        "alarms": all_alarms,
        "distances": (changed, paired) | "All distances" >> beam.Flatten(),
        "late": late,
        "malformed": malformed,
    }


def projection_of(arguments: argparse.Namespace) -> ss.Projection:
    """Return the public map."""
    if arguments.agreed is not None:
        agreed: ss.Projection = arguments.agreed.projection
        return agreed
    return ss.SJLT(
        sketch_dim=arguments.sketch_dim,
        sparsity=arguments.sparsity,
        seed=arguments.seed,
        resolution=arguments.resolution,
    )


def schema_of(arguments: argparse.Namespace) -> pa.Schema:
    """Return the columns of messages: text, but for the time and the value."""
    text = [arguments.key, *arguments.index, *([arguments.unit_column] if arguments.unit_column else [])]
    fields = {name: pa.string() for name in text}
    fields |= {arguments.value: pa.int64()} if arguments.value else {}
    return pa.schema([*fields.items(), (arguments.time, pa.timestamp("us", "UTC"))])


def _unit(arguments: argparse.Namespace) -> str:
    return str(arguments.unit or arguments.unit_column or "event")


def _bounds(arguments: argparse.Namespace, projection: ss.Projection, columns: dict[str, Any]) -> beam.PTransform:
    bounds = {
        "unit": arguments.unit_column,
        "unit_name": _unit(arguments),
        "max_keys": arguments.max_keys,
        "l1": arguments.l1,
        "public_keys": arguments.public_keys,
        **columns,
    }
    if arguments.period is None:
        return BoundContributions(projection, **bounds)
    return BoundAcrossWindows(projection, max_windows=arguments.max_windows, period=arguments.period, **bounds)


def _sink(arguments: argparse.Namespace, epoch: int | None) -> beam.PTransform:
    if arguments.database is None:
        return WriteFilesOnce(arguments.output, arguments.stream, epoch=epoch)
    return WriteRowsOnce(connection(arguments.database), arguments.stream, epoch=epoch)


def parsed(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the job's arguments and Beam's; those that contradict each other end the program."""
    found = _parser()
    known, rest = found.parse_known_args(arguments)
    topic = {"--servers": known.servers, "--topic": known.topic, "--expansion": known.expansion}
    given, missing = ([name for name, value in topic.items() if (value is None) == absent] for absent in (False, True))
    if known.folder is None and missing:
        found.error(f"the stream comes from --folder, or from {', '.join(topic)}; {', '.join(missing)} is missing")
    if known.folder is not None and given:
        found.error(f"the stream comes from --folder; leave out {', '.join(given)}")
    if (known.ledger is None) != (known.dataset is None):
        found.error("--ledger and --dataset go together: where the budget is kept, and whose it is")
    if known.folder is not None and known.format != "arrow":
        found.error("--format is of Kafka's messages, and --folder has Parquet files; leave it out")
    try:
        follow(found, known)
        if known.agreed is not None:
            known.public_keys = known.agreed.keys_of(known.public_keys)
    except (ss.StreamsketchError, OSError) as error:
        found.error(str(error))
    return known, rest


def _change(keyed: tuple[Any, ss.Estimate], name: str) -> tuple[Any, dict[str, Any]]:
    key, estimate = keyed
    low, high = estimate.interval(0.95)
    row = {name: estimate.value, "standard_error": estimate.standard_error, "low_95": low, "high_95": high}
    return key, {column: number if math.isfinite(number) else None for column, number in row.items()}


def _parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m pipelines.stream_distances",
        description="Private comparisons of a stream that never ends.",
        epilog="Any further option goes to Apache Beam, e.g. --runner=FlinkRunner --checkpointing_interval=10000.",
        allow_abbrev=False,
    )
    source = found.add_argument_group("source")
    source.add_argument("--servers", metavar="HOST:PORT", help="Kafka's brokers")
    source.add_argument("--topic", help="Kafka's topic")
    source.add_argument(
        "--expansion", metavar="HOST:PORT", help="Beam's expansion service, with ReadLog on its class path"
    )
    source.add_argument("--folder", metavar="DIR", help="folder of Parquet files that grows, instead of a topic")
    source.add_argument("--format", choices=["arrow", "json"], default="arrow", help="of a message (default arrow)")
    data = found.add_argument_group("data")
    data.add_argument("--time", required=True, metavar="COLUMN", help="column of event times")
    data.add_argument(
        "--agreement", metavar="FILE", help="what all parties sketch by: columns, types, bound, projection"
    )
    data.add_argument("--key", metavar="COLUMN", help="column that names the party")
    data.add_argument("--index", type=names_in, metavar="COLUMN[,COLUMN…]", help="columns of the index")
    data.add_argument("--value", metavar="COLUMN", help="column of values; without it each row counts 1")
    data.add_argument("--resolution", metavar="STEP", help="grid step of the values (default 1)")
    windows = found.add_argument_group("windows")
    windows.add_argument("--window", required=True, type=float, metavar="SECONDS", help="length of a window")
    windows.add_argument("--offset", default=0.0, type=float, metavar="SECONDS", help="where windows start (default 0)")
    windows.add_argument(
        "--delay", required=True, type=float, metavar="SECONDS", help="how far events may be out of order"
    )
    windows.add_argument(
        "--clock",
        default="events",
        choices=["events", "heartbeats"],
        help="what moves the watermark (default events): every row, or only rows and messages without data",
    )
    windows.add_argument(
        "--start", required=True, type=moment_of, metavar="TIME", help="first window to release, ISO 8601"
    )
    windows.add_argument("--stop", type=moment_of, metavar="TIME", help="release no window from here on")
    privacy = found.add_argument_group("privacy")
    privacy.add_argument("--epsilon", required=True, type=float, help="privacy loss bound, in nats")
    privacy.add_argument("--delta", default=0.0, type=float, help="its failure probability (default 0)")
    privacy.add_argument("--unit-column", metavar="COLUMN", help="column of the privacy unit, which is then clipped")
    privacy.add_argument("--unit", help="what is protected, in a word (default: the unit's column, or event)")
    privacy.add_argument("--max-keys", type=int, metavar="N", help="keys of one unit in a window (default 1)")
    privacy.add_argument("--l1", metavar="BOUND", help="sum of |value| of one unit and key (default 1)")
    privacy.add_argument("--period", type=float, metavar="SECONDS", help="bound a unit in each period, not each window")
    privacy.add_argument("--max-windows", default=1, type=int, metavar="N", help="windows of one unit in a period")
    privacy.add_argument(
        "--ledger", metavar="FILE|postgresql://…", help="where each window is charged, before it is released"
    )
    privacy.add_argument("--dataset", metavar="NAME", help="what the ledger calls the data")
    privacy.add_argument("--mechanism", default="auto", help="auto, laplace, gaussian or least-variance (default auto)")
    privacy.add_argument("--public-keys", required=True, type=names_in, metavar="KEY[,KEY…]", help="keys to release")
    sketch = found.add_argument_group("sketch")
    sketch.add_argument("--sketch-dim", type=int, metavar="K", help="cells a sketch (default 1024)")
    sketch.add_argument("--sparsity", type=int, metavar="S", help="cells an event meets (default 4)")
    sketch.add_argument("--seed", type=int, help="public seed of the projection (default 2013)")
    run = found.add_argument_group("stream")
    run.add_argument("--stream", required=True, metavar="NAME", help="name of the stream")
    run.add_argument("--root-key", required=True, type=Path, metavar="FILE", help="32 bytes on every worker, mode 0600")
    run.add_argument("--claims", required=True, metavar="DIR", help="folder that all workers share, for epochs")
    run.add_argument("--epoch", type=int, metavar="N", help="of a job that is restored; a new launch claims the next")
    run.add_argument("--output", required=True, metavar="DIR", help="folder that all workers share, for results")
    run.add_argument(
        "--by", default="distance", choices=["distance", "cosine"], help="what is compared by (default distance)"
    )
    run.add_argument("--database", metavar="sqlite:PATH|postgresql", help="where releases go instead")
    run.add_argument(
        "--log",
        default="text",
        choices=["text", "json"],
        help="text, with all that Beam says, for the operator alone, or lines of JSON without private values",
    )
    run.add_argument("--count-private-data", action="store_true", help="count late rows, for the operator alone")
    return found


def names_in(text: str) -> list[str]:
    """Return names that stand between commas."""
    return [name.strip() for name in text.split(",")]


def moment_of(text: str) -> float:
    """Return a time in ISO 8601 as seconds after 1970; without a zone it is in UTC."""
    moment = dt.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


if __name__ == "__main__":
    sys.exit(main())
