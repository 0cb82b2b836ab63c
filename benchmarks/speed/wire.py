"""The exchange format, µs per release of 1024 cells, beside pickle and plain protobuf.

Reading a release checks everything a stranger could have changed; pickle checks nothing, and runs what the
stranger wrote. What is pickled is a tuple of the release's fields: a release itself pickles through its own
format, so that would be no comparison. *Protobuf* is a message of nothing but the cells as ``repeated sint64``,
packed or as one field a cell, from an array to bytes and back: what one writes first. The size is a property of the
format, not a time.
"""

import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

import streamsketch as ss
from benchmarks.rows import MICROSECONDS, Effort, Row, Target, compare_each
from benchmarks.timing import Work
from streamsketch.core.numbers import Ints


def run(effort: Effort) -> list[Row]:
    """Measure writing and reading, and compare the sizes."""
    rng = np.random.default_rng(5)
    n = effort.size(100_000)
    sketch = ss.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024).sketch()
    sketch.update(rng.integers(0, 1 << 40, n), rng.integers(-9, 10, n))
    release = sketch.release(epsilon=1.0, neighbours=ss.L1(9))
    fields = (
        release.projection,
        release.values,
        release.noise,
        release.guarantee,
        release.multiplier,
        release.release_ids,
    )
    data, pickled = release.to_bytes(), pickle.dumps(fields)
    naive = {name: message(packed=packed) for name, packed in (("protobuf, packed", True), ("a field a cell", False))}
    written = {name: encoded(message, release.values) for name, message in naive.items()}
    encode = {
        "streamsketch": Work(release.to_bytes),
        "pickle": Work(lambda: pickle.dumps(fields)),
        **{name: Work(functools.partial(encoded, message, release.values)) for name, message in naive.items()},
    }
    decode = {
        "streamsketch": Work(lambda: ss.PrivateSketch.from_bytes(data)),
        "pickle": Work(lambda: pickle.loads(pickled)),  # noqa: S301 - our own bytes, some lines above
        **{name: Work(functools.partial(decoded, message, written[name])) for name, message in naive.items()},
    }
    sizes = {"pickle": len(pickled), **{name: len(encoded) for name, encoded in written.items()}}
    return [
        *compare_each("to_bytes", encode, effort, {}, MICROSECONDS),
        *compare_each("from_bytes", decode, effort, {"pickle": Target("ours", 30)}, MICROSECONDS),
        *(Row("size", "bytes", len(data), {name: size}, len(data) / size) for name, size in sizes.items()),
    ]


def message(*, packed: bool) -> type[Message]:
    """Return a message of ``repeated sint64 cells = 1``."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="naive.proto", package="naive", syntax="proto3")
    cells = file.message_type.add(name="Cells").field.add(
        name="cells", number=1, type=field.TYPE_SINT64, label=field.LABEL_REPEATED
    )
    cells.options.packed = packed
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("naive.Cells"))


def encoded(kind: Callable[..., Message], cells: Ints) -> bytes:
    """Return the message's bytes."""
    return kind(cells=cells.tolist()).SerializeToString()


def decoded(kind: type[Message], data: bytes) -> Ints:
    """Return the cells of a message's bytes."""
    message: Any = kind.FromString(data)
    return np.array(message.cells, dtype=np.int64)
