"""What elements may be on their way to a sketch: Arrow batches, rows, and events that are bounded already."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from streamsketch.errors import InvalidInputError
from streamsketch.projections import Projection
from streamsketch.sketching import Bounded

ROWS = 8192
"""How many rows wait until they enter a table together."""


@dataclasses.dataclass(frozen=True, eq=False)
class BoundedEvents:
    """Events of one window after `BoundContributions`: secret, on the projection's grid.

    Parameters
    ----------
    projection
        The map whose grid and indices the events are of.
    events
        The events.
    """

    projection: Projection
    events: Bounded


def column_of(element: pa.RecordBatch | pa.Table, name: str) -> Any:
    """Return a column by name; raise `InvalidInputError` unless there is exactly one."""
    if element.schema.names.count(name) != 1:
        raise InvalidInputError(
            f"there is no column {name!r}, or more than one; the columns are {', '.join(element.schema.names)}; "
            f"name the columns in the transform's key=…, index=…, value=…"
        )
    return element.column(name)


class RowBuffer:
    """Rows that wait to be read together, by the types of their fields: what else waits must not matter."""

    def __init__(self) -> None:
        self._rows: dict[tuple[type, ...], list[Sequence[Any]]] = {}
        self.waiting = 0

    def add(self, row: Sequence[Any]) -> None:
        """Let a row wait."""
        self._rows.setdefault(tuple(map(type, row)), []).append(row)
        self.waiting += 1

    def take(self) -> Iterator[list[Sequence[Any]]]:
        """Yield all rows, those of equal types together, and start anew."""
        rows, self._rows, self.waiting = self._rows, {}, 0
        yield from rows.values()
