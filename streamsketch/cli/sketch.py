"""``streamsketch sketch``: from events to a raw sketch."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.agreement.same import check_agreed
from streamsketch.cli._agreed import check_released_at_once
from streamsketch.cli._fields import Field, set_fields, set_option
from streamsketch.cli._inputs import READING, STDIN, Reading
from streamsketch.cli._options import option
from streamsketch.cli._reading import find_duplicate, load_raw_file
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, plural, show_json
from streamsketch.cli._sketching import (
    Pending,
    bounds_of_sum,
    check_bounds,
    commands_of_release,
    sketch_bounded,
    sketch_files,
    sketch_stream,
    tell_bad_lines,
    tell_seen,
)
from streamsketch.cli._writing import new_file
from streamsketch.intake.lines import BadLines
from streamsketch.intake.rows import Intake
from streamsketch.intake.seen import Seen
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.storage.first_bytes import SUFFIX
from streamsketch.storage.raw_files import append_raw, read_header
from streamsketch.storage.sketches import RawHeader, RawSketch, State

FIELDS = READING | {
    "bad-lines": Field(
        "stop|skip|FILE", "what to do with lines that cannot be read: stop, skip, or keep them in a file"
    ),
    "every": Field("SECONDS", "between snapshots of standard input, by default 60", float),
}
"""What `--set` states."""


def sketch(
    inputs: Annotated[
        list[str], typer.Argument(help="CSV, JSON lines or Parquet files, or - for standard input.", metavar="INPUT")
    ],
    *,
    agreement: Annotated[
        Path, option("Input", "FILE", "Agreement of all parties, which says what is sketched: a JSON file.")
    ],
    settings: Annotated[list[str] | None, set_option("Input", FIELDS)] = None,
    output: Annotated[Path, option("Output", "FILE", "File to write, .raw-sketch: secret.", "--output", "-o")],
    append: Annotated[bool, option("Output", "", "Add to the sketch in the output file.", "--append")] = False,
    assert_bounds: Annotated[
        bool,
        option("Privacy", "", "Clip nothing: you assert that the rows keep to the bound already.", "--assert-bounds"),
    ] = False,
    summary: Annotated[
        Path | None, option("Output", "FILE", "Write what was dropped and clipped to a JSON file: secret.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sketch events exactly, into a secret file for `release`.

    The file keeps what accumulates over days: --append adds to it. To release the rows that are there, `release` needs
    no such file.

    Rows are cast to the types of the agreement. Equal tables then give equal sketches in every format and in Python,
    unless units are clipped: if a unit exceeds the bound, a secret of the run decides what is kept.

    Standard input may be unbounded. A snapshot is written every 60 seconds, in one step, and contains every event
    that was read before it. If the machine fails, events after the last snapshot are lost. SIGINT and SIGTERM write a
    last snapshot. An unfinished line is never read. Files are sketched as a whole: if the command is interrupted,
    nothing is written. To release each window of a stream when it is over, use `stream`.

    If the agreement names units, the events of each are summed by key and index, and then clipped to the bound. Rows
    with nulls, or without a unit, are dropped. Otherwise, or with --assert-bounds, `release` can only assert a bound.
    With --append, a unit may be both in the file and in the new rows: the bounds add up, and units are no longer
    counted.

    A line of CSV is one row if there is a unit column: a quote that is not closed in its line is an error, as it could
    hide the rows of others. With --set multiline=yes, cells in quotes may hold line breaks, and releases state the
    condition that the file's writer quotes such cells and doubles quotes in them.

    If windows of the agreement are keys, each window of a key is a key of its own; without a key column, windows are
    the keys. A unit keeps as many of these keys as its bound allows, by default one, and its protection holds for all
    windows together. The command states the share of units that were in more.

    Lines that are left out are counted by reason. If they are more than 1 % of the lines, the command writes its
    output, warns, and ends with status 1.

    $ streamsketch sketch sales.csv --agreement agreement.json -o north.raw-sketch
    """
    agreed, reading = ss.Agreement.load(agreement), set_fields(Reading(), FIELDS, settings)
    if agreed.windows_are_releases:
        raise ss.InvalidInputError(
            f"{agreement} has windows that are releases, and a raw file holds sums without times: `streamsketch stream "
            "file LOG --agreement FILE --job FILE` releases each; `agree --set windows=keys` makes one release of all"
        )
    check_released_at_once(agreed, str(agreement))
    windows = agreed.windows
    of_times = None if windows is None else windows.of_times
    streaming = STDIN in inputs
    _check_inputs(inputs, reading)
    keyed = agreed.key is not None or windows is not None
    is_clipped = _check_clipping(
        agreed, inputs, summary, assert_bounds=assert_bounds, whole=reading.bad_lines == "stop"
    )
    if windows is None:
        intake = Intake(agreed)
    else:
        intake = Intake(agreed, time=windows.time.name, time_format=windows.format, windows=of_times)
    start = _start(output, agreed, keyed=keyed, append=append)
    added = Bounds(agreed.neighbours, agreed.clip_of()) if is_clipped else UNKNOWN
    check_bounds(output, start.bounds, added, keyed=keyed)
    pending = Pending(intake, start, of_times)
    with BadLines(reading.bad_lines) as bad:
        reader = reading.reader(agreed, bad)
        if not streaming:
            paths = [Path(name) for name in inputs]
            if is_clipped:
                raw = sketch_bounded(paths, reader, start, agreed.clip_of(), summary)
                pending.start(append_raw(raw, output, new=not append))
            else:
                sketch_files(pending, paths, reader)
                pending.flush(append_raw(pending.raw, output, new=not append))
        try:
            if streaming:
                sketch_stream(pending, output, reader, reading.every, new=not append)
        finally:
            too_many = _tell_read(pending, bad, reader.seen, agreed)
    header, keys = pending.header, pending.header.keys
    _tell_bounds(output, start.bounds, added, header.bounds)
    if as_json:
        show_json(
            {
                "file": str(output),
                "secret": True,
                "events": header.events,
                "keys": keys,
                "bad_lines": bad.count,
                "projection": agreed.projection.to_json(),
                "fingerprint": agreed.projection.fingerprint,
                "agreement": agreed.fingerprint,
            }
        )
    else:
        _tell_done(output, header, agreed, bounded=added.is_enforced)
    if too_many:
        raise typer.Exit(1)


def _tell_read(pending: Pending, bad: BadLines, seen: Seen, agreed: ss.Agreement) -> bool:
    """Print what was lost and left out, and what is strange; return whether more lines are bad than is usual."""
    for note in filter(None, (pending.warning, _left_out(pending.dropped))):
        say(note)
    tell_seen(seen, None if agreed.unit is None else agreed.unit.name)
    return tell_bad_lines(bad)


def _tell_bounds(output: Path, before: Bounds, added: Bounds, after: Bounds) -> None:
    """Print which bound holds for a file to which rows were added."""
    if holding := bounds_of_sum(output, "the file and in the new rows", [before, added], after):
        say(holding)


def _tell_done(output: Path, header: RawHeader, agreed: ss.Agreement, *, bounded: bool) -> None:
    """Print what a file holds now and, if its rows are bounded, how to release it."""
    of_keys = "" if header.keys is None else f" of {plural(header.keys, 'key')}"
    say(f"{output}, secret: {plural(header.events, 'event')}{of_keys}. Agreement {agreed.fingerprint}.")
    if bounded and header.bounds.is_enforced and header.events:
        command = _release_command(output, header, agreed)
        say(f"Bound enforced: {header.neighbours}. To release it: {command}")


def _release_command(output: Path, header: RawHeader, agreed: ss.Agreement) -> str:
    """Return the commands that release a file within its bounds, with the options that they need."""
    if agreed.terms is None:
        needs_delta = header.neighbours is not None and header.neighbours.of_sketches
        return commands_of_release(output, agreed, keyed=header.keys is not None, needs_delta=needs_delta)
    suffix = ".sketch" if header.keys is None else ".parquet"
    files = [shlex.quote(str(path)) for path in (output, output.with_suffix(suffix))]
    return f"`streamsketch release {files[0]} -o {files[1]}`"


def _left_out(rows: int) -> str:
    return f"{plural(rows, 'row')} left out, as something in them is missing; secret, as the sketch is" if rows else ""


def _check_clipping(
    agreed: ss.Agreement, inputs: list[str], summary: Path | None, *, assert_bounds: bool, whole: bool
) -> bool:
    """Return whether units are clipped; raise `InvalidInputError` if they are and not all of their events are there."""
    if agreed.unit is None or agreed.neighbours is None or assert_bounds:
        if summary is not None:
            raise ss.InvalidInputError("nothing is clipped here, so leave out --summary")
        return False
    if summary is not None:
        new_file(summary, ".json", "a summary")
    remedy = "or, if rows keep to the agreement's bounds, give --assert-bounds"
    if STDIN in inputs or any(Path(name).is_fifo() for name in inputs):
        raise ss.InvalidInputError(
            f"a unit is bounded when all its events are there: name files, not standard input; {remedy}"
        )
    if not whole:
        raise ss.InvalidInputError(
            "which lines are left out may depend on one unit: sketch all lines of the files, without --set bad-lines; "
            f"{remedy}"
        )
    return True


def _check_inputs(inputs: list[str], reading: Reading) -> None:
    if STDIN not in inputs:
        paths = [Path(name) for name in inputs]
        if twice := find_duplicate(paths):
            raise ss.InvalidInputError(f"{twice}; its events would count twice")
        for path in paths:
            if not path.is_fifo():  # a pipe opens once
                path.open("rb").close()  # before an hour's work on the others
        return
    if len(inputs) > 1:
        raise ss.InvalidInputError("standard input (-) is read alone; sketch the files by themselves and merge")
    if sys.stdin is None:
        raise ss.InvalidInputError("standard input (-) is closed; there is nothing to read")
    if reading.format not in ("csv", "jsonl"):
        raise ss.InvalidInputError(
            "state what standard input is: --set format=csv, with a header line, or --set format=jsonl"
        )
    if not 0 < reading.every < float("inf"):
        raise ss.InvalidInputError(f"--set every must be a number of seconds > 0, got {reading.every:g}")


def _start(output: Path, agreed: ss.Agreement, *, keyed: bool, append: bool) -> RawHeader:
    state: State = ss.SketchTable(agreed) if keyed else ss.Sketch(agreed)
    if append and output.exists():
        header: RawHeader = load_raw_file(output, read_header)
        header.projection.check_same(agreed.projection)
        if header.agreement is None:
            raise ss.InvalidInputError(f"the rows in {output} follow no agreement: sketch the new ones into a new file")
        check_agreed(header.agreement, agreed)
        if (header.keys is not None) != keyed:
            holds = "one sketch for each key" if header.keys is not None else "one sketch"
            raise ss.InvalidInputError(f"{output} holds {holds}, and the agreement's rows are of the other kind")
        return header
    new_file(output, SUFFIX, "a raw sketch")
    return RawHeader.of(RawSketch(state))
