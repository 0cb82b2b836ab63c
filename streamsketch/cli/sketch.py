"""``streamsketch sketch``: from events to a raw sketch."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import streamsketch as ss
from streamsketch.agreement.grids import check_fine
from streamsketch.agreement.same import check_agreed
from streamsketch.cli._agreeing import SKETCH_DIM, SPARSITY, SketchL2, given_options, neighbours_of, projection_from
from streamsketch.cli._inputs import STDIN, Decimal, Delimiter, Encoding, Format, Multiline
from streamsketch.cli._reading import find_duplicate, load_raw_file, new_file
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, plural, show_json
from streamsketch.cli._sketching import (
    Pending,
    bounds_of_sum,
    check_bounds,
    sketch_bounded,
    sketch_files,
    sketch_stream,
    tell_bad_lines,
    tell_seen,
)
from streamsketch.core.files import write_whole
from streamsketch.core.text import names_given
from streamsketch.data.calendar import EventWindows, event_windows
from streamsketch.data.readers.delimited import check_delimiter
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BadLines
from streamsketch.intake.rows import Intake
from streamsketch.intake.seen import Seen
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.privacy.neighbours import Clip
from streamsketch.storage.first_bytes import SUFFIX
from streamsketch.storage.raw_files import append_raw, read_header
from streamsketch.storage.sketches import RawHeader, RawSketch, State

if TYPE_CHECKING:
    from streamsketch.cli._unbounded import UnboundedLog

WITHIN = "none"
"""The value of `--clip` for rows that already keep to the bounds of their agreement."""


def sketch(  # noqa: PLR0913, PLR0915 - a command's options are its parameters
    inputs: Annotated[
        list[str], typer.Argument(help="CSV, JSON lines or Parquet files, or - for standard input.", metavar="INPUT")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .raw-sketch: secret.")],
    agreement: Annotated[
        Path | None,
        typer.Option(
            help="Agreement of all parties, which gives the columns and their types: a JSON file.", show_default=False
        ),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(
            help="Job that states how an unbounded log is released, window by window as agreed: a JSON file.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Wait for lines that are appended. Continue with the next file after a rotation.",
        ),
    ] = False,
    messages: Annotated[
        bool,
        typer.Option(
            "--messages", help="Read Kafka messages with their offsets from standard input, as `kcat -J` prints them."
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="If the log has lost lines, continue with the lines that remain."),
    ] = False,
    dead_letters: Annotated[
        Path | None,
        typer.Option(
            help="Folder for rows that are late, too far ahead or malformed: secret. By default, they are "
            "only counted.",
            show_default=False,
        ),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            help="Column that identifies an item or event. Several columns, separated by commas or given "
            "one by one, are read as a tuple.",
            show_default=False,
        ),
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(help="Column of numbers to add up. By default, each event counts 1.", show_default=False),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of keys. Each key gets a sketch of its own.", show_default=False)
    ] = None,
    projection: Annotated[
        Path | None, typer.Option(help="Projection of the other parties, a JSON file.", show_default=False)
    ] = None,
    write_projection: Annotated[
        Path | None,
        typer.Option(
            help="Make a projection (an SJLT with the options under Projection), and write it to this .json file.",
            show_default=False,
        ),
    ] = None,
    sketch_dim: Annotated[
        int | None, typer.Option(help=f"Number of cells of a sketch, k. By default {SKETCH_DIM}.")
    ] = None,
    sparsity: Annotated[
        int | None, typer.Option(help=f"Number of nonzeros in a column, s. By default {SPARSITY}.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Public seed. By default, one is drawn now.")] = None,
    dim: Annotated[
        int | None,
        typer.Option(help="Indices are integers below this number. By default, they are text, which is hashed."),
    ] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Grid step of the values, such as 1/100. By default 1.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Format of the input. By default, it follows from the file name.")
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    bad_lines: Annotated[
        str,
        typer.Option(
            help="What to do with lines of CSV or JSON that cannot be read: stop, skip them, or keep them in a file.",
            metavar="stop|skip|FILE",
        ),
    ] = "stop",
    multiline: Multiline = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Make one sketch for each window and key: of a length, such as '1 day' or '15 min', or a "
            "calendar's day, week or month.",
            show_default=False,
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of the calendar, such as Europe/Berlin. By default UTC.", show_default=False),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column of times, for --window. Times without a zone are in UTC.", show_default=False),
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(help="Format of times in text, as for strptime. By default ISO 8601.", show_default=False),
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between snapshots of standard input.")] = 60.0,
    append: Annotated[bool, typer.Option("--append", help="Add to the sketch in the output file.")] = False,
    unit_column: Annotated[
        str | None,
        typer.Option(help="Column that identifies the privacy unit, to bound what one unit adds.", show_default=False),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="Name of one unit, in a word. By default, the name of its column.", show_default=False),
    ] = None,
    l1: Annotated[str | None, typer.Option(help="Bound on a unit's Σ|value| in one key.", show_default=False)] = None,
    sketch_l2: SketchL2 = None,
    max_keys: Annotated[
        int | None, typer.Option(help="Number of keys that a unit keeps. By default 1; with --sketch-l2, all.")
    ] = None,
    clip: Annotated[
        str | None,
        typer.Option(
            help="What to do with a unit beyond the bound: scale its values (the default), cut some of "
            "them off, equal: scale every unit to the bound, so that each counts the same (for "
            "--sketch-l2), or none, if units keep to the bound."
        ),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Write what was dropped and clipped to a JSON file: secret.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sketch events exactly, into a secret file for `release`.

    With --agreement, rows are cast to its types. Equal tables then give equal sketches in every format and in Python,
    unless units are clipped: if a unit exceeds the bound, a secret of the run decides what is kept. Without
    --agreement, every index is hashed as text, even numbers and dates (in Python, pass text to match). With --dim below
    2**60, indices are taken as integers.

    Standard input may be unbounded. A snapshot is written every --every seconds, in one step, and contains every event
    that was read before it. If the machine fails, events after the last snapshot are lost. SIGINT and SIGTERM write a
    last snapshot. An unfinished line is never read. Files are sketched as a whole: if the command is interrupted,
    nothing is written.

    With --job, each window is released once, when it is over, and the output is a .raw-stream state. Run the same
    command again to continue. The input must be the same log from its start, or a file in which the command can seek. A
    unit's events in a window are clipped as the agreement states.

    With --unit-column, a unit's events are summed by key and index, and then clipped: to --l1 in each of at most
    --max-keys keys, or its whole sketch to --sketch-l2, whatever its rows contain. Rows with nulls, or without a unit,
    are dropped. An agreement that names units and a bound does the same. Otherwise `release` can only assert a bound.
    With --append, a unit may be both in the file and in the new rows: the bounds add up, and units are no longer
    counted.

    A line of CSV is one row if there is a unit column: a quote that is not closed in its line is an error, as it could
    hide the rows of others. With --multiline, cells in quotes may hold line breaks, and releases state the condition
    that the file's writer quotes such cells and doubles quotes in them.

    With --window, each window of a key is a key of its own; without a key column, windows are the keys. A unit keeps as
    many of these keys as its bound allows, by default one, and its protection holds for all windows together:
    --max-keys allows more. The command states the share of units that were in more. To bound a unit in each window by
    itself, agree on windows, and use `release`, or --job.

    Lines that --bad-lines leaves out are counted by reason. If they are more than 1 % of the lines, the command writes
    its output, warns, and ends with status 1.

    $ streamsketch sketch sales.csv --agreement agreement.json -o north.raw-sketch
    """
    options = {"sketch_dim": sketch_dim, "sparsity": sparsity, "seed": seed, "dim": dim, "resolution": resolution}
    chosen = {
        "index": index,
        "value": value,
        "key": key,
        "projection": projection,
        "write_projection": write_projection,
    }
    bound = {"unit_column": unit_column, "unit": unit, "max_keys": max_keys, "l1": l1, "sketch_l2": sketch_l2}
    unbounded: dict[str, Any] = {
        "follow": follow,
        "accept_loss": accept_loss,
        "messages": messages,
        "dead_letters": dead_letters,
    }
    if job is not None or any(unbounded.values()):
        others = chosen | options | {"window": window, "zone": zone, "time": time, "time_format": time_format}
        others |= bound | {"append": append, "clip": clip}
        agreed_by, run_by = _by_job(agreement, job, others, given_options(unbounded), multiline=multiline)
        _unbounded_log(
            inputs, output, agreed_by, run_by, form, check_delimiter(delimiter), bad_lines, every, summary,
            **unbounded, encoding=encoding, decimal=decimal,
        ).run(as_json=as_json)  # fmt: skip
        return
    windows = _windows_of(window, zone, time, time_format)
    streaming = STDIN in inputs
    _check_inputs(inputs, form, every)
    agreed = (
        _agreement_from(chosen, options, bound, {"clip": clip, "summary": summary})
        if agreement is None
        else _load_agreement(agreement, chosen | options | bound)
    )
    if agreed.windows is not None:
        raise ss.InvalidInputError(
            f"{agreement} has windows, and a raw file holds sums without times: `streamsketch release INPUT "
            "--agreement FILE` releases windows that are keys, and --job follows windows that are releases"
        )
    # options leave the file without an agreement: so are files of before, and releases of other parties by options
    stated = agreed.projection if agreement is None else agreed
    keyed = agreed.key is not None or window is not None
    _check_keys(agreed, windows, max_keys)
    clipped = _check_clipping(agreed, inputs, clip, summary, whole=bad_lines == "stop")
    intake = Intake(agreed, time=time, time_format=time_format, windows=windows)
    start = _start(output, stated, keyed=keyed, append=append)
    added = UNKNOWN if clipped is None else Bounds(agreed.neighbours, clipped)
    check_bounds(output, start.bounds, added, keyed=keyed)
    pending = Pending(intake, start, windows)
    with BadLines(bad_lines) as bad:
        written: dict[str, Any] = {"encoding": encoding, "decimal": decimal, "multiline": multiline}
        reader = RowReader(agreed, time, form, check_delimiter(delimiter), bad, **written)
        if not streaming:
            paths = [Path(name) for name in inputs]
            if clipped is not None:
                timed = {"windows": windows, "time": time, "time_format": time_format}
                raw = sketch_bounded(paths, reader, start, clipped, summary, **timed)
                pending.start(append_raw(raw, output, new=not append))
            else:
                sketch_files(pending, paths, reader)
                pending.flush(append_raw(pending.raw, output, new=not append))
        if write_projection is not None:  # without it the sketch would be of no use, and the other way round
            write_whole(write_projection, agreed.projection.to_json().encode() + b"\n")
        try:
            if streaming:
                sketch_stream(pending, output, reader, every, new=not append)
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
                **({} if agreement is None else {"agreement": agreed.fingerprint}),
            }
        )
    else:
        followed = f"{'Projection' if agreement is None else 'Agreement'} {stated.fingerprint}"
        _tell_done(output, header, followed, bounded=added.is_enforced)
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


def _tell_done(output: Path, header: RawHeader, followed: str, *, bounded: bool) -> None:
    """Print what a file holds now and, if its rows are bounded, how to release it."""
    of_keys = "" if header.keys is None else f" of {plural(header.keys, 'key')}"
    say(f"{output}, secret: {plural(header.events, 'event')}{of_keys}. {followed}.")
    if bounded and header.bounds.is_enforced and header.events:
        say(f"Bound enforced: {header.neighbours}. To release it: {_release_command(output, header)}")


def _release_command(output: Path, header: RawHeader) -> str:
    """Return the command that releases a file within its bounds, with the options that it needs."""
    delta = " --delta DELTA" if header.neighbours is not None and header.neighbours.of_sketches else ""
    keys, suffix = ("", ".sketch") if header.keys is None else (" --public-key KEY", ".parquet")
    files = [shlex.quote(str(path)) for path in (output, output.with_suffix(suffix))]
    return f"streamsketch release {files[0]} --epsilon EPSILON{delta}{keys} -o {files[1]}"


def _unbounded_log(*given: Any, **options: Any) -> "UnboundedLog":
    """Return a log; the code for streams and Parquet is loaded only for a log."""
    from streamsketch.cli._unbounded import UnboundedLog  # noqa: PLC0415 - as above

    return UnboundedLog(*given, **options)


def _left_out(rows: int) -> str:
    return f"{plural(rows, 'row')} left out, as something in them is missing; secret, as the sketch is" if rows else ""


def _by_job(
    agreement: Path | None, job: Path | None, others: dict[str, Any], option: str, *, multiline: bool | None
) -> tuple[Path, Path]:
    if job is None:
        raise ss.InvalidInputError(f"{option} is for streams that are released window by window: --job FILE")
    if agreement is None:
        raise ss.InvalidInputError("a job needs an agreement, which says what is published: give --agreement FILE")
    if given := given_options(others):
        raise ss.InvalidInputError(f"{agreement} and {job} say that; leave out {given}")
    if multiline:
        raise ss.InvalidInputError(
            "in a log a line break always ends a row, so that text of one person makes or hides no row of another: "
            "leave out --multiline, and write cells with line breaks as JSON lines"
        )
    return agreement, job


def _check_keys(agreed: ss.Agreement, windows: EventWindows | None, max_keys: int | None) -> None:
    """Raise `InvalidInputError` if keys do not go with windows; ``max_keys`` is an option, not the agreement's."""
    if windows is not None and agreed.key is not None and agreed.key.type != "text":
        raise ss.InvalidInputError(
            f"a window makes text of keys, such as 'north 2024-05': agree on {agreed.key.name} as text, not "
            f"{agreed.key.type}"
        )
    if windows is None and agreed.key is None and (max_keys or 1) > 1:
        raise ss.InvalidInputError(
            f"without keys or windows each unit is in one stream: leave out --max-keys {max_keys}, or pass the key "
            "column (--key), or --window and --time"
        )


def _windows_of(window: str | None, zone: str | None, time: str | None, time_format: str | None) -> EventWindows | None:
    if (time is None) != (window is None) or (time_format is not None and time is None):
        raise ss.InvalidInputError("--window, --time and, for text, --time-format go together")
    if zone is not None and window is None:
        raise ss.InvalidInputError("--zone goes with --window day, week or month")
    return None if window is None else event_windows(window, zone, "--window")


def _load_agreement(path: Path, others: dict[str, Any]) -> ss.Agreement:
    if given := given_options(others):
        raise ss.InvalidInputError(f"{path} says which columns are sketched, and how; leave out {given}")
    return ss.Agreement.load(path)


def _agreement_from(
    chosen: dict[str, Any], options: dict[str, Any], bound: dict[str, Any], clipping: dict[str, Any]
) -> ss.Agreement:
    """Return the agreement that options make."""
    unit, neighbours = bound["unit_column"], None
    if unit is None:
        if given := given_options(bound | clipping):
            raise ss.InvalidInputError(f"{given}: state whose contributions are bounded, --unit-column COLUMN")
    else:
        bounds = {name: bound[name] for name in ("l1", "sketch_l2")}
        neighbours = neighbours_of(bounds, bound["unit"] or unit, bound["max_keys"])
        if neighbours is None:
            raise ss.InvalidInputError(
                "state how much one unit may add: --l1 BOUND to a key, in the values' units; or --sketch-l2 BOUND to "
                "the sketches, which with --clip equal may be any, such as 1"
            )
        neighbours.check_clip(clipping["clip"] or neighbours.clips[0])
    if not chosen["index"]:
        raise ss.InvalidInputError("state which columns are sketched: --agreement FILE, or --index COLUMN for each")
    index = names_given(chosen["index"], "--index")
    projection = _projection(chosen["projection"], chosen["write_projection"], options)
    if neighbours is not None and chosen["projection"] is not None:
        check_fine(projection, neighbours)  # other parties have the file: its grid cannot be chosen here
    columns: dict[str, Any] = {"key": chosen["key"], "value": chosen["value"], "unit": unit}
    return ss.Agreement.of(projection, index=index, **columns, neighbours=neighbours)


def _check_clipping(
    agreed: ss.Agreement, inputs: list[str], clip: str | None, summary: Path | None, *, whole: bool
) -> Clip | None:
    """Return how units are clipped, if they are; raise `InvalidInputError` if not all of their events are present."""
    if agreed.unit is None or agreed.neighbours is None or clip == WITHIN:
        if summary is not None or clip not in (None, WITHIN):
            raise ss.InvalidInputError("nothing is clipped here, so leave out --clip and --summary")
        return None
    found = agreed.clip_of(clip)  # type: ignore[arg-type] # checked there
    if summary is not None:
        new_file(summary, ".json", "a summary")
    if STDIN in inputs or any(Path(name).is_fifo() for name in inputs):
        raise ss.InvalidInputError(
            f"a unit is bounded when all its events are there: name files, not standard input; or, if rows keep to the "
            f"agreement's bounds, give --clip {WITHIN}"
        )
    if not whole:
        raise ss.InvalidInputError(
            "which lines are left out may depend on one unit: sketch all lines of the files, without --bad-lines; or, "
            f"if rows keep to the agreement's bounds, give --clip {WITHIN}"
        )
    return found


def _check_inputs(inputs: list[str], form: Format | None, every: float) -> None:
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
    if form not in ("csv", "jsonl"):
        raise ss.InvalidInputError("state what standard input is: --format csv, with a header line, or --format jsonl")
    if not 0 < every < float("inf"):
        raise ss.InvalidInputError(f"--every must be a number of seconds > 0, got {every:g}")


def _projection(path: Path | None, new: Path | None, options: dict[str, int | str | None]) -> ss.projections.Projection:
    if (path is None) == (new is None):
        raise ss.InvalidInputError(
            "name the projection: --projection FILE, which the other parties have too, or --write-projection FILE to "
            "make one and share it; one of the two"
        )
    if new is not None:
        new_file(new, ".json", "a projection")
    return projection_from(path, **options)


def _start(output: Path, stated: ss.projections.Projection | ss.Agreement, *, keyed: bool, append: bool) -> RawHeader:
    state: State = ss.SketchTable(stated) if keyed else ss.Sketch(stated)
    if append and output.exists():
        header: RawHeader = load_raw_file(output, read_header)
        _check_agreed(output, header, state)
        if (header.keys is not None) != keyed:
            holds = "one sketch for each key" if header.keys is not None else "one sketch"
            raise ss.InvalidInputError(f"{output} holds {holds}; {'leave out' if keyed else 'give'} --key to add to it")
        return header
    new_file(output, SUFFIX, "a raw sketch")
    return RawHeader.of(RawSketch(state))


def _check_agreed(output: Path, header: RawHeader, new: State) -> None:
    """Refuse rows under another agreement than the rows in a file, or without an agreement if the file has one."""
    header.projection.check_same(new.projection)
    if (header.agreement is None) != (new.agreement is None):
        follows = (
            "no agreement: add to it" if header.agreement is None else f"the agreement {header.agreement.fingerprint}:"
        )
        remedy = "without --agreement" if header.agreement is None else "give --agreement FILE to add to it"
        raise ss.InvalidInputError(f"the rows in {output} follow {follows} {remedy}")
    check_agreed(header.agreement, new.agreement)
