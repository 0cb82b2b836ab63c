"""Classes whose values are secret, and whose text shows sizes alone, as it ends in tracebacks and error trackers."""

import dataclasses
from typing import Any, TypeVar

import numpy as np

ClassT = TypeVar("ClassT", bound=type)


def concealed(cls: ClassT) -> ClassT:
    """Let a dataclass or named tuple print the names and sizes of its fields, and none of their values.

    Every class that may hold rows, sums, names of units or keys of the data, secret ids or secret bits has this
    decorator, above ``@dataclass``.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> @concealed
    ... class Held(NamedTuple):
    ...     unit: str
    ...     sums: np.ndarray
    >>> Held("Ann", np.zeros((2, 3), np.int64))
    <Held: unit, sums (2, 3) int64>
    """
    is_dataclass = dataclasses.is_dataclass(cls)
    names = [field.name for field in dataclasses.fields(cls)] if is_dataclass else list(getattr(cls, "_fields", ()))

    def text(self: object) -> str:
        parts = (f"{name}{_size(getattr(self, name, None))}" for name in names)
        return f"<{type(self).__name__}: {', '.join(parts)}>"

    made: Any = cls
    made.__repr__ = made.__str__ = text
    return cls


def _size(value: object) -> str:
    """Return how large a value is; nothing of a single one."""
    if value is None:
        return " None"
    if isinstance(value, np.ndarray):
        return f" {value.shape} {'' if value.dtype.names else value.dtype}".rstrip()
    if isinstance(value, bytes | bytearray | memoryview):
        return f" {len(value)} bytes"
    if isinstance(value, list | tuple | dict | set | frozenset) and not hasattr(value, "_fields"):
        return f" of {len(value)}"
    return ""
