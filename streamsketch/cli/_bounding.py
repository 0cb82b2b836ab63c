"""Files into a raw sketch to which no privacy unit adds more than a bound."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.cli._inputs import STDIN
from streamsketch.cli._reading import new_file
from streamsketch.cli._showing import say
from streamsketch.intake import RowReader
from streamsketch.sketching import bound_batches, check_clip
from streamsketch.storage import RawSketch, check_size

WITHIN = "none"
"""What `--clip` says of rows that keep to the bounds of their agreement already."""


@dataclass(frozen=True)
class Bounds:
    """The agreement whose bound units are clipped to, how, and where the operator's summary goes."""

    agreement: ss.Agreement
    clip: Any
    summary: Path | None

    @property
    def neighbours(self) -> Any:
        """What one privacy unit may add."""
        return self.agreement.neighbours

    @property
    def options(self) -> str:
        """The options of `release` that state the bounds."""
        near = self.neighbours
        keys = "" if near.max_keys == 1 else f" --max-keys {near.max_keys}"
        return f"--{near.kind} {near.bound}{keys} --unit {shlex.quote(near.unit)}"


def neighbours_of(bound: dict[str, Any], clip: str | None, summary: Path | None) -> ss.L1 | None:
    """Return what one unit may add by the options unit_column, unit, max_keys and l1; None without such a column."""
    column, max_keys = bound["unit_column"], bound["max_keys"]
    if column is None:
        given = bound | {"clip": clip, "summary": summary}
        if names := [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]:
            raise ss.InvalidInputError(f"{', '.join(names)}: say whose contributions are bounded, --unit-column COLUMN")
        return None
    if bound["l1"] is None:
        raise ss.InvalidInputError("say how much one unit may add to a key: --l1 BOUND, in the values' units")
    check_clip(clip or "scale")
    return ss.L1(bound["l1"], bound["unit"] or column, 1 if max_keys is None else max_keys)


def bounds_of(agreement: ss.Agreement, clip: str | None, summary: Path | None) -> Bounds | None:
    """Return the bounds of an agreement, None if it names none or the rows are asserted to keep to them."""
    if agreement.unit is None or agreement.neighbours is None or clip == WITHIN:
        if summary is not None or clip not in (None, WITHIN):
            raise ss.InvalidInputError("nothing is clipped here, so leave out --clip and --summary")
        return None
    check_clip(clip or "scale")
    if summary is not None:
        new_file(summary, ".json", "a summary")
    return Bounds(agreement, clip or "scale", summary)


def check_bounded(inputs: list[str], *, whole: bool) -> None:
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


def sketch_bounded(table: ss.SketchTable, paths: list[Path], reader: RowReader, bounds: Bounds) -> RawSketch:
    """Return the sketches of files within the bounds, in a table that is empty; write the summary that is asked for."""
    summary = ss.bounding.BoundingSummary()
    batches = (batch for path in paths for batch in reader.batches(path))
    state = bound_batches(batches, bounds.agreement, table=table, clip=bounds.clip, summary=summary)
    if isinstance(state, ss.SketchTable):
        check_size(state.projection, len(state))
    if bounds.summary is not None:
        summary.save(bounds.summary)
        say(f"{bounds.summary}, secret: what the bounds dropped and clipped.")
    else:
        say("What the bounds dropped and clipped is counted, in secret: --summary FILE writes it.")
    say(f"Release it with {bounds.options}.")
    return RawSketch(state, summary.rows_read - summary.rows_dropped)
