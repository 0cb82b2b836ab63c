"""How sketches travel between Beam workers."""

import functools
import struct

import apache_beam as beam
import numpy as np

from streamsketch.projections.base import Projection
from streamsketch.release import PrivateSketch
from streamsketch.sketch import Sketch

_HEADER = struct.Struct("<IB16s")  # bytes of projection JSON, bytes a cell, mass
_WIDTHS = (1, 2, 4, 8)


class SketchCoder(beam.coders.Coder):
    """Raw sketches between workers of one pipeline: **secret**, not the exchange format, of no fixed layout."""

    def encode(self, value: Sketch) -> bytes:
        """Return the sketch's bytes: a function of its projection and stream alone."""
        agreement = value.projection.to_json().encode()
        state = value.state
        largest = max(int(state.max()), -int(state.min()) - 1)
        width = next(width for width in _WIDTHS if largest < 1 << (8 * width - 1))
        header = _HEADER.pack(len(agreement), width, value.mass.to_bytes(16, "little"))
        return header + agreement + state.astype(f"<i{width}").tobytes()

    def decode(self, encoded: bytes) -> Sketch:
        """Return the sketch."""
        length, width, mass = _HEADER.unpack_from(encoded)
        start = _HEADER.size + length
        state = np.frombuffer(encoded, dtype=f"<i{width}", offset=start).astype(np.int64)
        projection = _projection(encoded[_HEADER.size : start])
        return Sketch.from_state(projection, state, int.from_bytes(mass, "little"))

    def is_deterministic(self) -> bool:
        """Equal streams have equal bytes."""
        return True

    def to_type_hint(self) -> type[Sketch]:
        """Return the coded type."""
        return Sketch


class PrivateSketchCoder(beam.coders.Coder):
    """Releases, in the exchange format."""

    def encode(self, value: PrivateSketch) -> bytes:
        """Return `PrivateSketch.to_bytes`."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> PrivateSketch:
        """Return the release."""
        return PrivateSketch.from_bytes(encoded, max_bytes=len(encoded))

    def is_deterministic(self) -> bool:
        """Equal releases have equal bytes."""
        return True

    def to_type_hint(self) -> type[PrivateSketch]:
        """Return the coded type."""
        return PrivateSketch


@functools.lru_cache(maxsize=64)
def _projection(agreement: bytes) -> Projection:
    return Projection.from_json(agreement)


def register_coders() -> None:
    """Make Beam use these coders for the two types wherever it infers one."""
    beam.coders.registry.register_coder(Sketch, SketchCoder)
    beam.coders.registry.register_coder(PrivateSketch, PrivateSketchCoder)
