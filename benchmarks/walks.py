"""``python -m benchmarks.walks [NAME…] [--calls]``: how many functions of the library a datum passes through.

The *spine* of a walk lists, in the order of their first calls, the functions of streamsketch that the datum (rows,
indices, steps, cells, noise or a release) passes through on its way from one file of the library to another, as that is
what a reader has to follow. A function is on it that is called from another file, if it

- returns the datum without having been given it, as the reader of a file does,
- is given the datum and changes it in place, as a kernel's caller does, or
- is given the datum and hands it on to another file.

So these are left out: helpers of the same file; conversions that return what they are given in another form, and
lead nowhere; checks; properties and special methods; and compiled kernels, which the profiler does not see. A function
that is called for each batch or key counts once.

The spine alone flatters: a datum that goes through ten helpers of a file makes one hop. So three more numbers stand
beside it. *Carriers* are all functions that are given the datum or return it, helpers, checks, properties and special
methods among them, with their files. *Calls* are all calls of the library, whatever they carry, with their functions
and files. *Both-way pairs* are two files whose functions call each other in both directions, directly: what Beam calls
while a function hands it an element is not called by that function.

The datum is recognised by its size: arrays of integers or floats, Arrow columns and batches, and bytes, of at least
``LEAST`` entries that are not all zero, also inside of tuples, lists, dicts and the library's own objects, but for what
is public: projections, agreements, guarantees, noises.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import inspect
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.agreement import Column
from streamsketch.beam import BoundContributions, ReadColumns, ReleasePerKey, SketchPerKey, TumblingWindows
from streamsketch.beam.streams import DecodeMessages, WriteFilesOnce, encoded_batch
from streamsketch.cli.app import main
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.privacy import Budget, Guarantee, Mechanism, Neighbours
from streamsketch.privacy.noise import Noise
from streamsketch.release import AdditiveNoise

PACKAGE = f"{Path(ss.__file__).parent}/"
LEAST = 24
"""Entries of an array that is the datum."""
_PUBLIC = (ss.projections.Projection, ss.Agreement, Column, Guarantee, Mechanism, Neighbours, Noise, Budget)
_CHECKS = ("check", "_check", "warn", "_warn")
_DEPTH = 4


def carries(thing: Any, depth: int = _DEPTH) -> bool:
    """Return whether a thing is the datum, or holds it."""
    if isinstance(thing, np.ndarray):
        return thing.size >= LEAST and thing.dtype.kind in "iuf" and bool(thing.any())
    if isinstance(thing, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
        return len(thing) >= LEAST
    if isinstance(thing, bytes | bytearray | memoryview | pa.Buffer):
        return len(thing) >= 8 * LEAST
    if depth == 0 or isinstance(thing, (*_PUBLIC, type, str, int, float)):
        return False
    return any(carries(part, depth - 1) for part in _parts(thing))


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, tuple | list):
        return list(thing[:8])
    if isinstance(thing, dict):
        return list(thing.values())[:8]
    if not type(thing).__module__.startswith("streamsketch."):
        return []
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(thing, "__dict__", {}).values(), *(getattr(thing, name, None) for name in slots)]


def _digest(thing: Any, depth: int = _DEPTH) -> bytes:
    """Return a digest of the arrays that a thing holds."""
    if isinstance(thing, np.ndarray):
        return hashlib.blake2b(np.ascontiguousarray(thing).tobytes()).digest() if thing.dtype.kind in "iuf" else b""
    if depth == 0 or isinstance(thing, (*_PUBLIC, type, str, int, float, bytes)):
        return b""
    return b"".join(_digest(part, depth - 1) for part in _parts(thing))


def _arguments(frame: FrameType) -> list[Any]:
    code = frame.f_code
    spread = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + spread
    return [frame.f_locals.get(name) for name in code.co_varnames[:count]]


@dataclasses.dataclass
class _Call:
    name: str | None
    code: CodeType
    file: str
    takes: bool
    before: bytes
    leads_on: bool = False
    """Whether it has called a function of another file that the datum passes through."""


class Walk:
    """Traces what runs inside of it.

    Parameters
    ----------
    package
        The folder of the files whose functions count.
    """

    def __init__(self, package: str = PACKAGE) -> None:
        self._package = package
        self.calls: list[str] = []
        """Every call of a function of the library, but for properties, special methods and checks."""
        self.functions: Counter[CodeType] = Counter()
        """Calls of each function of the library."""
        self.carriers: set[CodeType] = set()
        """The functions that are given the datum, or return it."""
        self._edges: set[tuple[str, str]] = set()
        self._order: dict[str, None] = {}
        self._spine: set[str] = set()
        self._names: dict[CodeType, str | None] = {}
        self._local = threading.local()

    @property
    def spine(self) -> list[str]:
        """The functions that the datum passes through, in the order of their first calls."""
        return [name for name in self._order if name in self._spine]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of files that call each other."""
        return sorted(pair for pair in self._edges if pair[0] < pair[1] and pair[::-1] in self._edges)

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Trace this thread, and those that start in it."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(self._package):
            return
        stack: list[_Call] = self._local.__dict__.setdefault("stack", [])
        if event == "call":
            stack.append(self._called(frame))
        elif stack:
            self._returned(stack.pop(), frame, result, stack[-1] if stack else None)

    def _called(self, frame: FrameType) -> _Call:
        name, file, arguments = self._name(frame), frame.f_code.co_filename, _arguments(frame)
        self.functions[frame.f_code] += 1
        caller = self._caller(frame)
        if caller is not None and caller != file:
            self._edges.add((self._module(caller), self._module(file)))
        if name:
            self.calls.append(name)
            self._order.setdefault(name, None)
        takes = any(carries(value) for value in arguments)
        return _Call(name, frame.f_code, file, takes, b"".join(map(_digest, arguments)) if takes else b"")

    def _returned(self, call: _Call, frame: FrameType, result: Any, caller: _Call | None) -> None:
        passes = call.takes or carries(result)
        if passes:
            self.carriers.add(call.code)
        if call.name is None or not passes:
            if call.leads_on and caller:  # what it does is its caller's
                caller.leads_on = True
            return
        crosses = caller is None or caller.file != call.file
        if crosses and (call.leads_on or not call.takes or self._changed(frame, call)):
            self._spine.add(call.name)
        if caller and (crosses or call.leads_on):
            caller.leads_on = True

    def _module(self, file: str) -> str:
        return file.removeprefix(self._package).removesuffix(".py").replace("/", ".")

    def _caller(self, frame: FrameType) -> str | None:
        """Return the file that called a function, be it through NumPy, but not through Beam; None if there is none."""
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self._package):
            if "/apache_beam/" in caller.f_code.co_filename:
                return None
            caller = caller.f_back
        return None if caller is None else caller.f_code.co_filename

    @staticmethod
    def _changed(frame: FrameType, call: _Call) -> bool:
        return call.before != b"".join(map(_digest, _arguments(frame)))

    def _name(self, frame: FrameType) -> str | None:
        """Return the name of a function, None for one that is never on a spine."""
        code = frame.f_code
        if code not in self._names:
            name, owner = code.co_qualname, inspect.getmodule(code)
            parts = name.split(".")
            hidden = name.endswith(">") or parts[-1].startswith(("__", *_CHECKS))
            if not hidden and owner is not None and len(parts) > 1 and "<locals>" not in parts:
                member = inspect.getattr_static(getattr(owner, parts[0], None), parts[-1], None)
                hidden = not (inspect.isfunction(member) or isinstance(member, staticmethod | classmethod))
            self._names[code] = None if hidden else f"{self._module(code.co_filename)}.{name.replace('.<locals>', '')}"
        return self._names[code]


# --- walks ------------------------------------------------------------------------------------------------------

ROWS, CELLS = 64, 128
PROJECTION = ss.SJLT(dim=HASHED_DIM, sketch_dim=CELLS, sparsity=4, seed=7)
NEIGHBOURS = ss.L1(3, unit="customer")
COLUMNS = {
    "shop": [f"shop {row % 2}" for row in range(ROWS)],
    "item": [f"item {row % 40}" for row in range(ROWS)],
    "sold": [1 + row % 3 for row in range(ROWS)],
    "customer": [f"customer {row % 8}" for row in range(ROWS)],
}


def _updated() -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update(np.arange(ROWS), np.ones(ROWS, dtype=np.int64))
    return sketch


def update(_: Path) -> Callable[[], Any]:
    """`Sketch.update` with an array."""
    sketch, indices, values = PROJECTION.sketch(), np.arange(ROWS), np.ones(ROWS, dtype=np.int64)
    return lambda: sketch.update(indices, values)


def release(_: Path) -> Callable[[], Any]:
    """`Sketch.release`."""
    sketch = _updated()
    return lambda: sketch.release(epsilon=1.0, neighbours=NEIGHBOURS)


def interval(_: Path) -> Callable[[], Any]:
    """From two releases to an estimate with its interval."""
    first, second = (_updated().release(epsilon=1.0, neighbours=NEIGHBOURS) for _ in range(2))
    return lambda: ss.squared_distance(first, second).interval()


def command(folder: Path) -> Callable[[], Any]:
    """``streamsketch sketch data.csv -o x.raw-sketch``."""
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in zip(*COLUMNS.values(), strict=True))]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    terms = ss.Terms(epsilon=1)
    ss.Agreement(PROJECTION, index="item", value="sold", neighbours=NEIGHBOURS, terms=terms).save(
        folder / "agreed.json"
    )
    call = "sketch", folder / "data.csv", "--agreement", folder / "agreed.json", "-o", folder / "data.raw-sketch"
    return lambda: _run(*call)


def release_command(folder: Path) -> Callable[[], Any]:
    """``streamsketch release x.raw-sketch -o x.sketch``."""
    command(folder)()
    return lambda: _run("release", folder / "data.raw-sketch", "-o", folder / "data.sketch")


def _run(*arguments: object) -> None:
    before, sys.argv = sys.argv, ["streamsketch", *map(str, arguments)]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(said.getvalue()) from None
    finally:
        sys.argv = before


def bounded_release(folder: Path) -> Callable[[], Any]:
    """Beam: from a Parquet file to a table of releases, with contributions bounded."""
    path = folder / "data.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    columns: dict[str, Any] = {"key": "shop", "index": "item", "value": "sold", "unit": "customer"}
    agreement = ss.Agreement.of(PROJECTION, **columns, neighbours=NEIGHBOURS)
    noise = AdditiveNoise(epsilon=1.0, neighbours=NEIGHBOURS)

    def work() -> None:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            events = pipeline | ReadColumns([str(path)], agreement)
            releases = events | BoundContributions(agreement) | SketchPerKey(agreement)
            _ = releases | ReleasePerKey(noise, public_keys=["shop 0", "shop 1"])

    return work


def stream(folder: Path) -> Callable[[], Any]:
    """Beam: from a message of a log, as a source hands it on, to a window's release in its file.

    Of Kafka, Java hands it on in three calls more: ``Batching.poll``, ``LogClock.getTimestampForRecord`` and
    ``MarkedSource.Reader.getCurrent``; then comes ``_content`` of `streamsketch.beam.streams.topic`.
    """
    columns: dict[str, Any] = {"key": "shop", "index": "item", "value": "sold", "unit": "customer"}
    agreement = ss.Agreement.of(PROJECTION, **columns, neighbours=NEIGHBOURS)
    day = dataclasses.replace(NEIGHBOURS, unit="customer in one window of 86400 s")
    noise = AdditiveNoise(epsilon=1.0, neighbours=day)
    rows = pa.RecordBatch.from_pydict(COLUMNS | {"at": pa.array([3600] * ROWS, pa.timestamp("s"))})
    message = TimestampedValue(encoded_batch(rows), 3600)

    def work() -> None:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            messages = pipeline | beam.Create([message]).with_output_types(bytes)
            batches, _, _ = messages | DecodeMessages(agreement, time="at", size=86_400)
            events = batches | TumblingWindows(86_400) | BoundContributions(agreement)
            keys = ReleasePerKey(noise, public_keys=["shop 0", "shop 1"], public_windows=(0, 86_400))
            _ = events | SketchPerKey(agreement) | keys | WriteFilesOnce(str(folder / "out"), "sales")

    return work


WALKS = {
    "update": update,
    "release": release,
    "interval": interval,
    "sketch-command": command,
    "release-command": release_command,
    "beam": bounded_release,
    "stream": stream,
}


def traced(name: str) -> Walk:
    """Return the walk of this name, traced after a first run that compiles and loads."""
    walk = Walk()
    with tempfile.TemporaryDirectory() as warm, tempfile.TemporaryDirectory() as folder:
        WALKS[name](Path(warm))()
        work = WALKS[name](Path(folder))
        with walk.traced():
            work()
    return walk


def summary(walk: Walk) -> str:
    """Return the numbers of a walk, in words."""
    called = walk.functions
    return (
        f"{len(walk.spine)} on the spine; {len(walk.carriers)} functions of {_files(walk.carriers)} files carry the "
        f"datum, of {called.total()} calls of {len(called)} functions of {_files(called)} files; {len(walk.pairs)} "
        "pairs of files call each other"
    )


def _files(functions: Iterable[CodeType]) -> int:
    return len({code.co_filename for code in functions})


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *WALKS], help="which; by default all")
    parser.add_argument("--calls", action="store_true", help="print every call, in order")
    arguments = parser.parse_args()
    for name in arguments.names or WALKS:
        walk = traced(name)
        typer.echo(f"{name}: {summary(walk)}")
        for pair in walk.pairs:
            typer.echo(f"  both ways: {' and '.join(pair)}")
        for place, call in enumerate(walk.calls if arguments.calls else walk.spine, 1):
            typer.echo(f"  {place:3} {call}")


if __name__ == "__main__":
    _main()
