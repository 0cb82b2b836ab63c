"""``streamsketch sketch``: from events to a raw sketch."""

import os
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import streamsketch as ss
from streamsketch.cli._events import STDIN, Columns, Format, Stop, add_events, file_batches, stream_batches
from streamsketch.cli._reading import load_raw_file, new_file
from streamsketch.cli._showing import Json, counted, say, show_json
from streamsketch.core import write_whole
from streamsketch.release import SUFFIX, RawSketch, State, append_raw, emptied

_SKETCH_DIM, _SPARSITY = 1024, 4


def sketch(  # noqa: PLR0913 - a command's options are its parameters
    inputs: Annotated[
        list[str], typer.Argument(help="CSV, JSON lines or Parquet files, or - for standard input", metavar="INPUT")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .raw-sketch file to write: secret.")],
    index: Annotated[list[str], typer.Option(help="Column that says what happened; several are read as a tuple.")],
    value: Annotated[
        str | None, typer.Option(help="Column of numbers to add up. By default, 1 an event.", show_default=False)
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of keys: one sketch for each of them.", show_default=False)
    ] = None,
    projection: Annotated[
        Path | None, typer.Option(help="The agreement with the other parties: a JSON file.", show_default=False)
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

    Indices are hashed as text, numbers and dates too, so that all formats agree; a party that sketches in Python passes
    text as well. With a projection of another dim than 2**60 they are integers, as they are.

    Standard input may be endless. What was read is written at every snapshot, in one step; a snapshot holds every
    event read before it began, and what came later is lost if the machine fails. SIGINT and SIGTERM write a last one.
    A line that is not finished is never taken. Files are taken all or not at all: interrupted, nothing is written.
    """
    options = {"sketch_dim": sketch_dim, "sparsity": sparsity, "seed": seed, "dim": dim, "resolution": resolution}
    columns = Columns(key, tuple(index), value)
    streaming = STDIN in inputs
    _check_inputs(inputs, form, every)
    agreed = _projection(projection, new_projection, options)
    there = _start(output, agreed, keyed=key is not None, append=append)
    if not streaming:
        raw = append_raw(_sketch_files(there, [Path(name) for name in inputs], columns, form), output, new=not append)
    if new_projection is not None:  # without it the sketch would be of no use, and the other way round
        write_whole(new_projection, agreed.to_json().encode() + b"\n")
    if streaming:
        raw = _sketch_stream(there, output, columns, form or "csv", every, new=not append)
    keys = len(raw.state) if isinstance(raw.state, ss.SketchTable) else None
    if as_json:
        show_json(
            {
                "file": str(output),
                "secret": True,
                "events": raw.events,
                "keys": keys,
                "projection": agreed.to_json(),
                "fingerprint": agreed.fingerprint,
            }
        )
        return
    of_keys = "" if keys is None else f" of {counted(keys, 'key')}"
    say(f"{output}, secret: {counted(raw.events, 'event')}{of_keys}. Projection {agreed.fingerprint}.")


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
        except ss.InvalidInputError as error:
            raise ss.InvalidInputError(f"{path} is not a projection: {error}") from None
    if new is not None:
        new_file(new, ".json", "a projection")
    fields = {"sketch_dim": _SKETCH_DIM, "sparsity": _SPARSITY, "seed": secrets.randbits(63), "dim": ss.HASHED_DIM}
    return ss.SJLT(**(fields | given))  # type: ignore[arg-type]


def _start(output: Path, projection: ss.Projection, *, keyed: bool, append: bool) -> RawSketch:
    if append and output.exists():
        raw: RawSketch = load_raw_file(output)
        raw.projection.check_same(projection)
        if isinstance(raw.state, ss.SketchTable) != keyed:
            holds = "one sketch for each key" if isinstance(raw.state, ss.SketchTable) else "one sketch"
            raise ss.InvalidInputError(f"{output} holds {holds}; {'leave out' if keyed else 'say'} --key to add to it")
        return raw
    new_file(output, SUFFIX, "a raw sketch")
    state: State = projection.table() if keyed else projection.sketch()
    return RawSketch(state)


def _sketch_files(there: RawSketch, paths: list[Path], columns: Columns, form: Format | None) -> RawSketch:
    """Return the events of files, apart from what is there: other processes may add to it meanwhile."""
    state, events, known = emptied(there.state), 0, _keys(there)
    with _progress() as progress:
        task = progress.add_task("sketching", total=sum(path.stat().st_size for path in paths), events=events)
        done = 0
        for path in paths:

            def on_read(at: int, done: int = done) -> None:
                progress.update(task, completed=done + at)

            for batch in file_batches(path, form, columns, on_read):
                add_events(state, batch, columns, known)
                events += batch.num_rows
                progress.update(task, events=events)
            done += path.stat().st_size
            progress.update(task, completed=done)
    return RawSketch(state, events)


def _sketch_stream(
    there: RawSketch, output: Path, columns: Columns, form: Format, every: float, *, new: bool
) -> RawSketch:
    """Add the events of a stream to a file, again and again; return what it holds at the end."""
    # an hour into an endless stream is late to learn that it cannot be written
    there = append_raw(RawSketch(emptied(there.state)), output, new=new)
    state, events, known = emptied(there.state), 0, _keys(there)
    snapshots = _Snapshots(every)

    def snapshot() -> None:
        """Move what was read since the last one to the file, which others may have added to or moved away."""
        nonlocal there, state, events, known
        if events:
            there = append_raw(RawSketch(state, events), output)
            state, events, known = emptied(there.state), 0, _keys(there)
        snapshots.taken()

    wrong: ss.StreamsketchError | None = None
    with Stop() as stop:
        try:
            with _progress() as progress:
                task = progress.add_task("sketching", total=None, events=there.events)
                for batch in stream_batches(sys.stdin.fileno(), "standard input", form, columns, stop, snapshots.wait):
                    if batch is not None:
                        add_events(state, batch, columns, known)
                        events += batch.num_rows
                        progress.update(task, events=there.events + events)
                    if not snapshots.wait():
                        snapshot()
        except ss.StreamsketchError as error:
            wrong = error
        finally:
            snapshot()
        number = stop.number
    if wrong is not None:
        raise ss.InvalidInputError(f"{wrong}. {output} holds the {counted(there.events, 'event')} before")
    if number is not None:
        say(f"Stopped: {output}, secret, holds {counted(there.events, 'event')}. Go on with --append.")
        raise typer.Exit(128 + number)
    return there


def _keys(raw: RawSketch) -> frozenset[str]:
    return frozenset(raw.state) if isinstance(raw.state, ss.SketchTable) else frozenset()


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
