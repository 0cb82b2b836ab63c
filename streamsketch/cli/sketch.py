"""``streamsketch sketch``: from events to a raw sketch."""

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import streamsketch as ss
from streamsketch.agreement import check_agreed
from streamsketch.cli._events import STDIN, Columns, Format, Stop, add_events, file_batches, stream_batches
from streamsketch.cli._reading import load_raw_file, new_file
from streamsketch.cli._showing import Json, counted, say, show_json
from streamsketch.core import write_whole
from streamsketch.release import SUFFIX, RawSketch, State, save_raw

_SKETCH_DIM, _SPARSITY = 1024, 4


def sketch(  # noqa: PLR0913 - a command's options are its parameters
    inputs: Annotated[
        list[str], typer.Argument(help="CSV, JSON lines or Parquet files, or - for standard input", metavar="INPUT")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .raw-sketch file to write: secret.")],
    agreement: Annotated[
        Path | None,
        typer.Option(help="The agreement with the other parties: it says all below, and types.", show_default=False),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(help="Column that says what happened; several are read as a tuple.", show_default=False),
    ] = None,
    value: Annotated[
        str | None, typer.Option(help="Column of numbers to add up. By default, 1 an event.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of keys: one sketch for each of them.", show_default=False)
    ] = None,
    projection: Annotated[
        Path | None, typer.Option(help="The projection of the other parties: a JSON file.", show_default=False)
    ] = None,
    new_projection: Annotated[
        Path | None, typer.Option(help="Make such a file, an SJLT, from the options below.", show_default=False)
    ] = None,
    sketch_dim: Annotated[int | None, typer.Option(help=f"Cells of a sketch, k; by default {_SKETCH_DIM}.")] = None,
    sparsity: Annotated[int | None, typer.Option(help=f"Nonzeros of a column, s; by default {_SPARSITY}.")] = None,
    seed: Annotated[int | None, typer.Option(help="Public seed; by default one drawn now.")] = None,
    dim: Annotated[
        int | None, typer.Option(help="Indices are integers below it; by default, text to be hashed.")
    ] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Grid step of the values, such as 1/100; by default 1.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="What the input is; by default, what its name says.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between snapshots of standard input.")] = 60.0,
    append: Annotated[bool, typer.Option("--append", help="Add to the sketch in the output file.")] = False,
    as_json: Json = False,
) -> None:
    """Sketch events exactly, into a secret file for `release`.

    With --agreement, rows are cast to its types, and equal tables give equal sketches in every format and in Python.
    With a projection alone, indices are hashed as text, numbers and dates too; a party that sketches in Python passes
    text as well. Under another dim than 2**60 they are integers, as they are.

    Standard input may be endless. What was read is written at every snapshot, in one step; a snapshot holds every
    event read before it began, and what came later is lost if the machine fails. SIGINT and SIGTERM write a last one.
    A line that is not finished is never taken. Files are taken all or not at all: interrupted, nothing is written.
    """
    options = {"sketch_dim": sketch_dim, "sparsity": sparsity, "seed": seed, "dim": dim, "resolution": resolution}
    chosen = {"index": index, "value": value, "key": key, "projection": projection, "new-projection": new_projection}
    agreed_on = None if agreement is None else _agreement(agreement, chosen | options)
    columns = _columns(key, index, value) if agreed_on is None else Columns.of(agreed_on)
    streaming = STDIN in inputs
    _check_inputs(inputs, form, every)
    agreed = _projection(projection, new_projection, options) if agreed_on is None else agreed_on.projection
    raw = _start(output, agreed_on or agreed, keyed=columns.key is not None, append=append)
    if not streaming:
        raw = _sketch_files(raw, [Path(name) for name in inputs], columns, form)
        save_raw(raw, output)
    if new_projection is not None:  # without it the sketch would be of no use, and the other way round
        write_whole(new_projection, agreed.to_json().encode() + b"\n")
    if streaming:
        raw = _sketch_stream(raw, output, columns, form or "csv", every)
    keys = len(raw.state) if isinstance(raw.state, ss.SketchTable) else None
    named = {} if agreed_on is None else {"agreement": agreed_on.fingerprint}
    if as_json:
        show_json(
            {
                "file": str(output),
                "secret": True,
                "events": raw.events,
                "keys": keys,
                "projection": agreed.to_json(),
                "fingerprint": agreed.fingerprint,
                **named,
            }
        )
        return
    of_keys = "" if keys is None else f" of {counted(keys, 'key')}"
    by = f"Projection {agreed.fingerprint}" if agreed_on is None else f"Agreement {agreed_on.fingerprint}"
    say(f"{output}, secret: {counted(raw.events, 'event')}{of_keys}. {by}.")


def _check_inputs(inputs: list[str], form: Format | None, every: float) -> None:
    if STDIN not in inputs:
        for path in map(Path, inputs):
            if not path.is_fifo():  # a pipe opens once
                path.open("rb").close()  # before an hour's work on the others
        return
    if len(inputs) > 1:
        raise ss.InvalidInputError("standard input (-) is read alone; sketch the files by themselves and merge")
    if sys.stdin is None:
        raise ss.InvalidInputError("standard input (-) is closed; there is nothing to read")
    if form not in ("csv", "jsonl"):
        raise ss.InvalidInputError("say what standard input is: --format csv, with a header line, or --format jsonl")
    if not 0 < every < float("inf"):
        raise ss.InvalidInputError(f"--every must be a number of seconds > 0, got {every:g}")


def _agreement(path: Path, others: dict[str, Any]) -> ss.Agreement:
    if given := [f"--{name.replace('_', '-')}" for name, value in others.items() if value]:
        raise ss.InvalidInputError(f"{path} says which columns are sketched, and how; leave out {', '.join(given)}")
    return ss.Agreement.load(path)


def _columns(key: str | None, index: list[str] | None, value: str | None) -> Columns:
    if not index:
        raise ss.InvalidInputError("say which columns are sketched: --agreement FILE, or --index COLUMN for each")
    return Columns(key, tuple(index), value)


def _projection(path: Path | None, new: Path | None, options: dict[str, int | str | None]) -> ss.Projection:
    given = {name: value for name, value in options.items() if value is not None}
    if (path is None) == (new is None):
        raise ss.InvalidInputError(
            "say by which projection: --projection FILE, the agreement with the other parties, or --new-projection "
            "FILE to make one and share it; one of the two"
        )
    if path is not None:
        if given:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ss.InvalidInputError(f"{path} says all about the projection; leave out {names}")
        try:
            return ss.Projection.from_json(path.read_bytes())
        except ss.InvalidInputError:
            with contextlib.suppress(ss.InvalidInputError):
                ss.Agreement.load(path)
                error = ss.InvalidInputError("it is an agreement: say --agreement")
            raise ss.InvalidInputError(f"{path} is not a projection: {error}") from None
    if new is not None:
        new_file(new, ".json", "a projection")
    fields = {"sketch_dim": _SKETCH_DIM, "sparsity": _SPARSITY, "seed": secrets.randbits(63), "dim": ss.HASHED_DIM}
    return ss.SJLT(**(fields | given))  # type: ignore[arg-type]


def _start(output: Path, agreed: ss.Projection | ss.Agreement, *, keyed: bool, append: bool) -> RawSketch:
    if append and output.exists():
        raw: RawSketch = load_raw_file(output)
        _check_agreed(output, raw, agreed)
        if isinstance(raw.state, ss.SketchTable) != keyed:
            holds = "one sketch for each key" if isinstance(raw.state, ss.SketchTable) else "one sketch"
            raise ss.InvalidInputError(f"{output} holds {holds}; {'leave out' if keyed else 'say'} --key to add to it")
        return raw
    new_file(output, SUFFIX, "a raw sketch")
    state: State = ss.SketchTable(agreed) if keyed else ss.Sketch(agreed)
    return RawSketch(state)


def _check_agreed(output: Path, raw: RawSketch, agreed: ss.Projection | ss.Agreement) -> None:
    """Refuse rows that another agreement casts than those in a file, or none where it has one."""
    agreement = agreed if isinstance(agreed, ss.Agreement) else None
    raw.projection.check_same(agreed.projection if isinstance(agreed, ss.Agreement) else agreed)
    if (raw.agreement is None) != (agreement is None):
        follows = "no agreement: add to it" if raw.agreement is None else f"the agreement {raw.agreement.fingerprint}:"
        remedy = "without --agreement" if raw.agreement is None else "say --agreement FILE to add to it"
        raise ss.InvalidInputError(f"the rows in {output} follow {follows} {remedy}")
    check_agreed(raw.agreement, agreement)


def _sketch_files(raw: RawSketch, paths: list[Path], columns: Columns, form: Format | None) -> RawSketch:
    events, dropped = raw.events, 0
    with _progress() as progress:
        task = progress.add_task("sketching", total=sum(path.stat().st_size for path in paths), events=events)
        done = 0
        for path in paths:

            def on_read(at: int, done: int = done) -> None:
                progress.update(task, completed=done + at)

            rows = 0
            for batch in file_batches(path, form, columns, on_read):
                with _naming(path, columns):
                    left_out = add_events(raw.state, batch, columns, rows + 1)
                rows, dropped, events = rows + batch.num_rows, dropped + left_out, events + batch.num_rows - left_out
                progress.update(task, events=events)
            done += path.stat().st_size
            progress.update(task, completed=done)
    _say_dropped(dropped)
    return RawSketch(raw.state, events, raw.releases)


def _say_dropped(rows: int) -> None:
    if rows:
        say(f"{counted(rows, 'row')} left out, as something in them is missing: secret, as the sketch is.")


def _sketch_stream(raw: RawSketch, output: Path, columns: Columns, form: Format, every: float) -> RawSketch:
    state, events, rows, dropped = raw.state, raw.events, 0, 0
    save_raw(raw, output)  # an hour into an endless stream is late to learn that it cannot be written
    snapshots = _Snapshots(every)
    with Stop() as stop:
        try:
            with _progress() as progress:
                task = progress.add_task("sketching", total=None, events=events)
                for batch in stream_batches(sys.stdin.fileno(), "standard input", form, columns, stop, snapshots.wait):
                    if batch is not None:
                        left_out = add_events(state, batch, columns, rows + 1)
                        rows, dropped = rows + batch.num_rows, dropped + left_out
                        events += batch.num_rows - left_out
                        progress.update(task, events=events)
                    if not snapshots.wait():
                        save_raw(RawSketch(state, events, raw.releases), output)
                        snapshots.taken()
        except ss.StreamsketchError as error:
            raise ss.InvalidInputError(f"{error}. {output} holds the {counted(events, 'event')} before") from None
        finally:
            raw = RawSketch(state, events, raw.releases)
            save_raw(raw, output)
            _say_dropped(dropped)
        number = stop.number
    if number is not None:
        say(f"Stopped: {output}, secret, holds {counted(events, 'event')}. Go on with --append.")
        raise typer.Exit(128 + number)
    return raw


@contextlib.contextmanager
def _naming(path: Path, columns: Columns) -> Iterator[None]:
    """Name a file in the errors of its rows, which an agreement counts."""
    try:
        yield
    except ss.InvalidInputError as error:
        if columns.agreement is None:
            raise
        raise ss.InvalidInputError(f"{path}: {error}") from None


class _Snapshots:
    """When the next one is due."""

    def __init__(self, every: float) -> None:
        self._every = every
        self.taken()

    def taken(self) -> None:
        self._due = time.monotonic() + self._every

    def wait(self) -> float:
        """Return how many seconds are left."""
        return max(0.0, self._due - time.monotonic())


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[events]:,} events"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal or os.environ.get("TERM") == "dumb",
    )
