"""Files into a raw sketch to which no privacy unit adds more than a bound."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.cli._events import STDIN, Reading, as_index, as_text, file_batches
from streamsketch.cli._reading import new_file
from streamsketch.cli._showing import say
from streamsketch.release import RawSketch, check_size
from streamsketch.sketching import Batch, check_clip

_NO_KEY = ""


@dataclass(frozen=True)
class Bounds:
    """What one privacy unit may add, and where the operator's summary goes."""

    unit: str
    neighbours: ss.L1
    clip: Any
    summary: Path | None

    @property
    def options(self) -> str:
        """The options of `release` that state the bounds."""
        near = self.neighbours
        keys = "" if near.max_keys == 1 else f" --max-keys {near.max_keys}"
        return f"--l1 {near.bound}{keys} --unit {shlex.quote(near.unit)}"


def bounds_of(
    unit: str | None, max_keys: int | None, l1: str | None, clip: str | None, summary: Path | None
) -> Bounds | None:
    """Return what the options of `sketch` say, None if they ask for no bounds."""
    if unit is None:
        given = {"--max-keys": max_keys, "--l1": l1, "--clip": clip, "--summary": summary}
        if names := [name for name, value in given.items() if value is not None]:
            raise ss.InvalidInputError(f"{', '.join(names)}: say whose contributions are bounded, --unit-column COLUMN")
        return None
    if l1 is None:
        raise ss.InvalidInputError("say how much one unit may add to a key: --l1 BOUND, in the values' units")
    check_clip(clip or "scale")
    if summary is not None:
        new_file(summary, ".json", "a summary")
    return Bounds(unit, ss.L1(l1, unit, 1 if max_keys is None else max_keys), clip or "scale", summary)


def check_bounded(inputs: list[str], bounds: Bounds, *, whole: bool, keyed: bool) -> None:
    """Raise `InvalidInputError` where a unit's events would not be whole."""
    if STDIN in inputs or any(Path(name).is_fifo() for name in inputs):
        raise ss.InvalidInputError("units are bounded once all their events are there: name files, not standard input")
    if not whole:
        raise ss.InvalidInputError(
            "a unit in two windows, or in the file and in the new events, would have two bounds: sketch all files in "
            "one command, without --append, --window and --bad-lines"
        )
    if not keyed and bounds.neighbours.max_keys != 1:
        raise ss.InvalidInputError("--max-keys is for streams by key: say which column, --key COLUMN")


def sketch_bounded(projection: ss.Projection, paths: list[Path], reading: Reading, bounds: Bounds) -> RawSketch:
    """Return the sketches of files within the bounds; write the summary if one is asked for."""
    columns, summary = replace(reading.columns, unit=bounds.unit), ss.BoundingSummary()

    def batches() -> Iterator[Batch]:
        for path in paths:
            for batch in file_batches(path, reading.form, columns, lambda _: None, reading.delimiter):
                indices = tuple(as_index(batch, name, projection) for name in columns.index)
                keys = None if columns.key is None else as_text(batch, columns.key)
                values = None if columns.value is None else batch.column(columns.value)
                yield keys, indices, values, as_text(batch, bounds.unit)

    table = ss.bound_units(batches(), projection, neighbours=bounds.neighbours, clip=bounds.clip, summary=summary)
    check_size(projection, len(table))
    state = table if columns.key is not None else table.sketch_of(_NO_KEY)
    if bounds.summary is not None:
        summary.save(bounds.summary)
        say(f"{bounds.summary}, secret: what the bounds dropped and clipped.")
    else:
        say("What the bounds dropped and clipped is counted, in secret: --summary FILE writes it.")
    say(f"Release it with {bounds.options}.")
    return RawSketch(state, summary.rows_read - summary.rows_dropped)
