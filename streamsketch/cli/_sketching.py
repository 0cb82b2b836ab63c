"""Sketches files and streams into a raw file, and informs the operator about their rows."""

import dataclasses
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

import streamsketch as ss
from streamsketch.agreement.casts import Rows
from streamsketch.cli._inputs import Snapshots, Stop
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, progress_bar
from streamsketch.core.libraries import pa, pc
from streamsketch.data.calendar import EventWindows
from streamsketch.data.grid import NO_LOSS
from streamsketch.intake.events import Events
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BadLines, pipe_blocks
from streamsketch.intake.rows import Intake
from streamsketch.intake.seen import Seen
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.privacy.neighbours import Clip
from streamsketch.sketching.bounding.units import bound_batches
from streamsketch.storage.raw_files import append_raw
from streamsketch.storage.sketches import RawHeader, RawSketch, State, check_size

MOST_BAD = 0.01
"""The share of lines up to which bad ones are left out with status 0."""

_REASONS = 5  # that are printed


class Pending:
    """Events that are not yet in a raw file.

    Parameters
    ----------
    intake
        The reader of rows.
    header
        The header of the file.
    windows
        If given, each key's events in each window are a separate stream.
    """

    def __init__(self, intake: Intake, header: RawHeader, windows: EventWindows | None) -> None:
        self._intake, self._windows = intake, windows
        self.dropped = 0
        """The number of rows that were dropped because a value is missing."""
        self._total = self._kept = 0.0
        self.start(header)

    def start(self, header: RawHeader) -> None:
        """Continue without events, once the earlier ones are in the file: other processes may have added to it, too."""
        # nothing clips them: the file's bounds end with or without rows, as one unit's may be the only ones
        self.header = header
        self._state: State = header.empty(UNKNOWN)
        self.events = 0

    @property
    def raw(self) -> RawSketch:
        """The events in a form that can be appended to the file."""
        return RawSketch(self._state, self.events)

    def add(self, batch: "pa.RecordBatch", first: int | Rows) -> None:
        """Add a batch, with the number of its first row or those of all rows; after an error nothing has changed."""
        events = self._intake.read(batch, first)
        if self._windows is not None:
            events = events.keyed_by(self._windows)
        if isinstance(self._state, ss.Sketch):
            self._state.add_events(events)
        else:
            keys: Any = events.keys
            keys = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
            _check_room(self._state, keys.unique().to_pylist())
            self._state.add_events(dataclasses.replace(events, keys=keys))
        self.events += len(events)
        self.dropped += events.blank
        if events.amounts is not None and len(events):
            self._total += pc.sum(pc.abs(events.amounts.cast(pa.float64(), safe=False))).as_py()

    def flush(self, header: RawHeader) -> None:
        """Continue without events, because they are now in the file."""
        masses = self._state.masses if isinstance(self._state, ss.SketchTable) else [self._state.mass]
        self._kept += float(sum(map(int, masses)) * self._state.projection.grid)
        self.start(header)

    @property
    def warning(self) -> str:
        """The share of the values that truncation lost, for the operator; nothing if all is kept."""
        lost, name = self._total - self._kept, self._intake.agreement.value
        grid = self._state.projection.grid
        if lost <= NO_LOSS * self._total:
            return ""
        return (
            f"warning: of --value {name} {100 * lost / self._total:.2g} % is lost: absolute values "
            f"sum to {self._total:,.6g}, and to {self._kept:,.6g} in the sketch, since each is truncated to a multiple "
            f"of the resolution, {grid}. A finer one, such as {grid / 100}, keeps it; all parties must agree on it"
        )


def _check_room(state: ss.SketchTable, keys: list[Any]) -> None:
    """Raise an error, before memory is filled, if a table with these additional keys is too large for a file."""
    try:
        check_size(state.projection, len(state) + sum(key not in state for key in keys))
    except ss.InvalidInputError as error:
        raise ss.StreamsketchError(str(error)) from None  # which is no fault of a line


def sketch_files(pending: Pending, paths: list[Path], reader: RowReader) -> None:
    """Read the events of files, separately from the output file: other processes may add to it meanwhile."""
    with progress_bar() as progress:
        task = progress.add_task("sketching", total=sum(path.stat().st_size for path in paths), events=0)
        done = 0
        for path in paths:

            def on_read(at: int, done: int = done) -> None:
                progress.update(task, completed=done + at, events=pending.events)

            if path.is_file():
                reader.read(path, pending.add, on_read)
            else:
                with Stop() as stop:
                    reader.read(path, pending.add, on_read, stop)
                    if stop.number is not None:
                        raise typer.Exit(128 + stop.number)
            done += path.stat().st_size
            progress.update(task, completed=done)


def sketch_stream(pending: Pending, output: Path, reader: RowReader, every: float, *, new: bool) -> None:
    """Add the events of a stream to a file, at regular intervals."""
    snapshots = Snapshots(every)
    pending.start(append_raw(pending.raw, output, new=new))  # what cannot be written is known at once
    snapshots.taken()

    def snapshot() -> None:
        """Move the events since the last snapshot to the file, which others may have changed or moved away."""
        if pending.events:
            pending.flush(append_raw(pending.raw, output))
        snapshots.taken()

    wrong: ss.StreamsketchError | None = None
    lines = reader.lines("standard input", reader.format or "csv", is_whole=True)  # type: ignore[arg-type]
    add = reader.noting(pending.add, "standard input")
    with Stop() as stop:
        try:
            with progress_bar() as progress:
                task = progress.add_task("sketching", total=None, events=pending.header.events)
                blocks = reader.transcoded(pipe_blocks(sys.stdin.fileno(), stop, snapshots.wait), "standard input")
                for piece in lines.pieces(blocks):
                    lines.read(piece, add)
                    progress.update(task, events=pending.header.events + pending.events)
                    if not snapshots.wait():
                        snapshot()
        except ss.StreamsketchError as error:
            wrong = error
        finally:
            snapshot()
        number = stop.number
    held = f"{plural(pending.header.events, 'event')}"
    if wrong is not None:
        raise ss.InvalidInputError(f"{wrong}. {output} holds the {held} before")
    if number is not None:
        say(f"Stopped: {output}, secret, holds {held}. Continue with --append.")
        raise typer.Exit(128 + number)


def sketch_bounded(
    paths: list[Path], reader: RowReader, header: RawHeader, clip: Clip, summary_file: Path | None
) -> RawSketch:
    """Return the sketches of files within the bounds of their agreement; write the summary if it is requested.

    They count as the data of ``header``, the file that they will be in. If the agreement lists keys, they are of these
    alone.
    """
    summary, agreement = ss.bounding.BoundingSummary(), reader.agreement

    def read(intake: Intake) -> Iterator[Events]:
        for path in paths:
            yield from reader.events(path, intake)

    table: Any = dataclasses.replace(header, keys=0).empty()  # also of one stream: units are bounded in tables
    windows, published = agreement.windows, agreement.published_keys
    state = bound_batches(
        read,
        agreement,
        table=table,
        clip=clip,
        public_keys=published if isinstance(published, tuple) else None,
        summary=summary,
        windows=None if windows is None else windows.of_times,
        time=None if windows is None else windows.time.name,
        time_format=None if windows is None else windows.format,
    )
    if isinstance(state, ss.SketchTable):
        check_size(state.projection, len(state))
    if summary_file is not None:
        summary.save(summary_file)
        say(f"{summary_file}, secret: what the bounds dropped and clipped.")
    else:
        say("--summary FILE writes what the bounds dropped and clipped, which is secret.")
    if cut := _cut(summary, agreement, in_windows=windows is not None):
        say(cut)
    return RawSketch(state, summary.rows_read - summary.rows_dropped)


def _cut(summary: ss.bounding.BoundingSummary, agreement: ss.Agreement, *, in_windows: bool) -> str:
    """Return the share of units that were in more keys than they may be; nothing if there are none."""
    neighbours: Any = agreement.neighbours
    if not summary.units_over_keys:
        return ""
    what = "window" if in_windows and agreement.key is None else "key and window" if in_windows else "key"
    each = f"one {what}" if neighbours.max_keys == 1 else f"{neighbours.max_keys:,} {what}s"
    share = 100 * summary.units_over_keys / summary.units
    sentence = (
        f"{share:.3g} % of units were in more and were cut to {each}, which a secret chooses. To keep more, agree on a "
        f"larger number (--max-keys), for wider noise"
    )
    # without an agreement on windows, one window of a unit is hardly what is meant
    return f"warning: {sentence}" if in_windows else sentence


def tell_bad_lines(bad: BadLines) -> bool:
    """Print how many lines were left out, and why; return whether these are more than 1 %."""
    if not bad.count:
        return False
    reasons = [f"{count:,} because {why}" for why, count in bad.reasons[:_REASONS]]
    more = len(bad.reasons) - len(reasons)
    say(f"{bad}. Their reasons, each of its first line: {'; '.join(reasons)}{f'; and {more} more' if more else ''}")
    if bad.share <= MOST_BAD:
        return False
    say(
        f"warning: {100 * bad.share:.3g} % of the lines were left out, more than {100 * MOST_BAD:g} %. The rows that "
        "remain may differ from all rows; see why they were left out"
    )
    return True


def tell_seen(seen: Seen, unit: str | None) -> None:
    """Print which files have no rows, and which texts in the unit column may stand for nobody."""
    for name, rows in seen.rows.items():
        if not rows:
            say(f"warning: {name} has no rows that could be read, at most a header line")
    if seen.unit_texts:
        texts = ", ".join(sorted(seen.unit_texts))
        say(
            f"warning: the unit column {unit} has the text {texts} (in some spelling), which often stands for a "
            "missing value. All rows with one such text count as one unit. Leave these cells empty, or name such texts "
            "of CSV by --set null-values=TEXTS, and their rows are dropped. This is as secret as the data"
        )


def check_bounds(output: Path, before: Bounds, added: Bounds, *, keyed: bool) -> None:
    """Raise an error if no bound would hold for a file after bounded rows are added: it could never have one again."""
    if not added.is_enforced or before.merged(added, keyed=keyed).is_enforced:
        return
    if before.is_enforced:
        why = f"{output} is bounded to {before.neighbours}, and the new rows would be to {added.neighbours}"
    else:
        why = f"{output} holds rows without a bound, and the new ones would be bounded to {added.neighbours}"
    raise ss.InvalidInputError(
        f"{why}: no bound would hold for both, whatever is released later. Sketch the new rows into a file of their "
        f"own, or all rows together"
    )


def bounds_of_sum(output: Path, parts: str, before: Sequence[Bounds], after: Bounds) -> str:
    """Return a sentence on the bounds of data that were added up: of the parts, and of the output."""
    enforced = [bounds for bounds in before if bounds.is_enforced]
    if not enforced:
        return ""
    if not after.is_enforced:
        were = " and to ".join(dict.fromkeys(str(bounds.neighbours) for bounds in enforced))
        return f"warning: no bound holds for {output}, although rows in it were bounded to {were}: {after.ended}."
    if after.neighbours in [bounds.neighbours for bounds in enforced]:
        return ""
    uncounted = (
        " Its units are no longer counted." if any(bounds.counted for bounds in before) and not after.counted else ""
    )
    return f"A unit may be in {parts}, so the bound that was enforced is now: {after.neighbours}.{uncounted}"


def commands_of_release(file: Path, agreed: ss.Agreement | None, *, keyed: bool, needs_delta: bool) -> str:
    """Return the commands that release a raw file whose own agreement does not say what a release spends."""
    columns = " --index COLUMN --l1 BOUND" if agreed is None else ""
    bound = "" if agreed is None or agreed.neighbours is not None else " --l1 BOUND"
    keys = " --public-key KEY" if keyed and (agreed is None or agreed.published_keys is None) else ""
    keys = f" --key COLUMN{keys}" if keyed and agreed is None else keys
    delta = " --delta DELTA" if needs_delta else ""
    name, output = (shlex.quote(str(path)) for path in (file, file.with_suffix(".parquet" if keyed else ".sketch")))
    return (
        f"`streamsketch agree {name}{columns}{bound}{keys} --epsilon EPSILON{delta} -o terms.json`, then "
        f"`streamsketch release {name} --agreement terms.json -o {output}`"
    )
