"""Files into a raw sketch to which no privacy unit adds more than a bound."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import streamsketch as ss
from streamsketch.cli._events import STDIN, Columns, Reading, as_index, as_text, file_batches
from streamsketch.cli._reading import new_file
from streamsketch.cli._showing import say
from streamsketch.sketching import Batch, bound_batches, check_clip
from streamsketch.storage import RawSketch, State, check_size

WITHIN = "none"
"""What `--clip` says of rows that keep to the bounds of their agreement already."""

_NO_KEY = ""


@dataclass(frozen=True)
class Bounds:
    """What one privacy unit may add, and where the operator's summary goes."""

    unit: str
    neighbours: Any
    clip: Any
    summary: Path | None
    agreement: ss.Agreement | None = None

    @property
    def options(self) -> str:
        """The options of `release` that state the bounds."""
        near = self.neighbours
        keys = "" if near.max_keys == 1 else f" --max-keys {near.max_keys}"
        return f"--{near.kind} {near.bound}{keys} --unit {shlex.quote(near.unit)}"


def bounds_of(
    agreement: ss.Agreement | None,
    unit: str | None,
    max_keys: int | None,
    l1: str | None,
    clip: str | None,
    summary: Path | None,
) -> Bounds | None:
    """Return what the agreement or the options of `sketch` say, None if they ask for no bounds."""
    if agreement is not None:
        return _agreed(agreement, clip, summary, {"--unit-column": unit, "--max-keys": max_keys, "--l1": l1})
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


def _agreed(agreement: ss.Agreement, clip: str | None, summary: Path | None, others: dict[str, Any]) -> Bounds | None:
    """Return the bounds of an agreement, None if it names none or the rows are asserted to keep to them."""
    if given := [name for name, value in others.items() if value is not None]:
        raise ss.InvalidInputError(f"the agreement says whose contributions are bounded; leave out {', '.join(given)}")
    if agreement.unit is None or agreement.neighbours is None or clip == WITHIN:
        if summary is not None or clip not in (None, WITHIN):
            raise ss.InvalidInputError("nothing is clipped here, so leave out --clip and --summary")
        return None
    check_clip(clip or "scale")
    if summary is not None:
        new_file(summary, ".json", "a summary")
    return Bounds(agreement.unit.name, agreement.neighbours, clip or "scale", summary, agreement)


def check_bounded(inputs: list[str], bounds: Bounds, *, whole: bool, keyed: bool) -> None:
    """Raise `InvalidInputError` where a unit's events would not be whole."""
    if STDIN in inputs or any(Path(name).is_fifo() for name in inputs):
        raise ss.InvalidInputError(
            f"units are bounded once all their events are there: name files, not standard input; or, where rows keep "
            f"to an agreement's bounds, say --clip {WITHIN}"
        )
    if not whole:
        raise ss.InvalidInputError(
            "a unit in two windows, or in the file and in the new events, would have two bounds: sketch all files in "
            "one command, without --append, --window and --bad-lines. To bound a unit in each window by itself, say "
            "--agreement FILE and --policy FILE; where rows keep to an agreement's bounds, "
            f"say --clip {WITHIN}"
        )
    if not keyed and bounds.neighbours.max_keys != 1:
        raise ss.InvalidInputError("--max-keys is for streams by key: say which column, --key COLUMN")


def sketch_bounded(projection: ss.Projection, paths: list[Path], reading: Reading, bounds: Bounds) -> RawSketch:
    """Return the sketches of files within the bounds; write the summary if one is asked for."""
    summary = ss.BoundingSummary()
    make = _by_projection if bounds.agreement is None else _by_agreement
    state = make(projection, paths, reading, bounds, summary)
    if isinstance(state, ss.SketchTable):
        check_size(projection, len(state))
    if bounds.summary is not None:
        summary.save(bounds.summary)
        say(f"{bounds.summary}, secret: what the bounds dropped and clipped.")
    else:
        say("What the bounds dropped and clipped is counted, in secret: --summary FILE writes it.")
    say(f"Release it with {bounds.options}.")
    return RawSketch(state, summary.rows_read - summary.rows_dropped)


def _by_projection(
    projection: ss.Projection, paths: list[Path], reading: Reading, bounds: Bounds, summary: ss.BoundingSummary
) -> State:
    columns = replace(reading.columns, unit=bounds.unit)

    def batches() -> Iterator[Batch]:
        for batch in _batches(paths, reading, columns):
            indices = tuple(as_index(batch, name, projection) for name in columns.index)
            keys = None if columns.key is None else as_text(batch, columns.key)
            values = None if columns.value is None else batch.column(columns.value)
            yield keys, indices, values, as_text(batch, bounds.unit)

    table = ss.bound_units(batches(), projection, neighbours=bounds.neighbours, clip=bounds.clip, summary=summary)
    return table if columns.key is not None else table.sketch_of(_NO_KEY)


def _by_agreement(
    _: ss.Projection, paths: list[Path], reading: Reading, bounds: Bounds, summary: ss.BoundingSummary
) -> State:
    assert bounds.agreement is not None  # noqa: S101 - the caller looked
    batches = _batches(paths, reading, reading.columns)
    return bound_batches(batches, bounds.agreement, clip=bounds.clip, summary=summary)


def _batches(paths: list[Path], reading: Reading, columns: Columns) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield from file_batches(path, reading.form, columns, lambda _: None, reading.delimiter)
