"""What a computation does, line by line: to show that it does the same whatever is private.

Kernels run as the Python that they are written in, so that their loops and branches are seen too. A conditional
expression is one line on both sides: it is compiled to a selection.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import streamsketch

ROOT = str(Path(streamsketch.__file__).parent)


class Tape:
    """A secret source of written-down words: some given ones, then those of a generator; notes what is read."""

    def __init__(self, first: list[int], seed: int) -> None:
        self._first = b"".join(word.to_bytes(8, "little") for word in first)
        self._rest = np.random.default_rng(seed)
        self.reads: list[int] = []

    def read(self, size: int) -> bytes:
        self.reads.append(size)
        given, self._first = self._first[:size], self._first[size:]
        return given + self._rest.bytes(size - len(given))


class Steps:
    """The lines of the library, or of ``files``, that ran, in order; and sizes of what was read."""

    def __init__(self, files: tuple[str, ...] = (ROOT,)) -> None:
        self.lines: list[tuple[str, int]] = []
        self.reads: list[int] = []
        self._files = files

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        return self._line if event == "call" and frame.f_code.co_filename.startswith(self._files) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            self.lines.append((frame.f_code.co_qualname, frame.f_lineno))
        return self._line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Steps) and self.lines == other.lines and self.reads == other.reads

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Steps({len(self.lines)} lines, {sum(self.reads)} bytes in {len(self.reads)} reads)"


def steps_of(action: Callable[[Tape], Any], tape: Tape, *more: str) -> Steps:
    """Return what ``action`` does with a tape, in the library and in further files."""
    steps = Steps((ROOT, *more))
    with steps.counted():
        action(tape)
    steps.reads = tape.reads
    return steps


def interpret(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Replace the kernels that modules of these packages define by the Python that they are written in."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(packages)]
    for module in modules:
        for name, found in list(vars(module).items()):
            if hasattr(found, "py_func") and found.py_func.__module__.startswith(packages):
                monkeypatch.setattr(module, name, found.py_func)
