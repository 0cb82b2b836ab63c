"""Events: rows of any source as integers, ready to be added to a sketch."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence, Sized
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamsketch.core import Ints

Part = TypeVar("Part", bound=Sized)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Events:
    """A batch of rows as `Intake` reads it: secret, on the projection's grid. Columns have one length, (n,).

    Parameters
    ----------
    keys
        Of the agreed type: text, integers, bytes or dates, plain or dictionary-encoded. None without a key column.
    units
        Privacy units. None without a column of them.
    indices
        In [0, dim): int64.
    steps
        Values in grid steps: int64.
    window
        Numbers of the windows that the rows' times fall into (`Tumbling.number`): int64. None without windows.
    amounts
        The values as they were read: an array of numbers, or a list of them. None where each row counts 1.
    truncated
        Whether steps lose part of the values, beyond what floats round; of rows to be bounded, which are counted one
        by one, always False.
    rows
        How many rows were read.
    blank
        How many of them were left out as something in them is missing. All others that are not here were malformed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT, Agreement
    >>> from streamsketch.intake import Intake
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> intake = Intake(Agreement(projection, index="item", key="shop", value="sold", missing="drop"))
    >>> batch = pa.record_batch({"shop": ["N", "S"], "item": ["tea", ""], "sold": [3, 2]})
    >>> events = intake.read(batch)
    >>> len(events), events.steps, events.keys.to_pylist(), events.blank
    (1, array([3]), ['N'], 1)
    """

    keys: pa.Array | None
    units: pa.Array | None
    indices: Ints
    steps: Ints
    window: Ints | None = None
    amounts: Any = None
    truncated: bool = False
    rows: int = 0
    blank: int = 0

    def __len__(self) -> int:
        return self.steps.size

    @property
    def malformed(self) -> int:
        """How many rows were left out for another fault than that something is missing."""
        return self.rows - self.blank - self.steps.size

    def take(self, rows: NDArray[np.bool_]) -> "Events":
        """Return the events of some rows: bool, (n,). Counts of what was read stay with this batch."""
        mask = pa.array(rows)
        amounts = self.amounts
        if isinstance(amounts, pa.Array):
            amounts = amounts.filter(mask)
        elif amounts is not None:
            amounts = amounts[rows] if isinstance(amounts, np.ndarray) else list(itertools.compress(amounts, rows))
        return Events(
            None if self.keys is None else self.keys.filter(mask),
            None if self.units is None else self.units.filter(mask),
            self.indices[rows],
            self.steps[rows],
            None if self.window is None else self.window[rows],
            amounts,
            self.truncated,
            int(rows.sum()),
        )


def joined_events(parts: Sequence[Events]) -> Events:
    """Return at least one part, all of them read from one batch, as one."""
    if len(parts) == 1:
        return parts[0]
    same = alike(parts, lambda part: part.units is not None and part.units.type)
    first = same[0]
    return Events(
        None if first.keys is None else pa.concat_arrays([part.keys for part in same]),
        None if first.units is None else pa.concat_arrays([part.units for part in same]),
        np.concatenate([part.indices for part in same]),
        np.concatenate([part.steps for part in same]),
        None if first.window is None else np.concatenate([part.window for part in same]),
        None if first.amounts is None else _joined_amounts([part.amounts for part in same]),
        any(part.truncated for part in same),
        sum(part.rows for part in parts),
        sum(part.blank for part in parts),
    )


def alike(parts: Sequence[Part], kind: Callable[[Part], Any]) -> list[Part]:
    """Return the parts that have rows and the commonest kind; the last part if none has rows.

    Parts of one batch are of two kinds only where times finer than microseconds are beside years that nanoseconds do
    not reach: no type holds both, though each part can be read.
    """
    full = [part for part in parts if len(part)] or [parts[-1]]
    kinds = [kind(part) for part in full]
    commonest = max(kinds, key=kinds.count)
    return [part for part, its in zip(full, kinds, strict=True) if its == commonest]


def _joined_amounts(parts: list[Any]) -> Any:
    if all(isinstance(part, pa.Array) for part in parts):
        return pa.concat_arrays(parts)
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [amount for part in parts for amount in (part.to_pylist() if isinstance(part, pa.Array) else part)]
