"""How sketches travel between Beam workers."""

from typing import Any, ClassVar

import apache_beam as beam

from streamsketch.local.aggregation import MeanAggregator
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.signs.sketch import SignSketch
from streamsketch.sketching.partials import decode_partial, encode_partial
from streamsketch.sketching.sketch import Sketch


class _Deterministic(beam.coders.Coder):
    """A coder of one type, which gives equal values equal bytes.

    Parameters
    ----------
    kind
        The type.
    """

    kind: ClassVar[type[Any]]

    def is_deterministic(self) -> bool:
        """Return True: equal values have equal bytes."""
        return True

    def to_type_hint(self) -> type[Any]:
        """Return the coded type."""
        return self.kind


def _bytes_of_cells(_: beam.coders.Coder, value: Sketch | PrivateSketch) -> int:
    """Return how many bytes the cells take in memory: by default, Beam would encode the sketch to find out."""
    return 8 * value.projection.sketch_dim


class SketchCoder(_Deterministic):
    """Coder for raw sketches between workers of a pipeline: **secret**, in a layout that may change between versions.

    Every cell takes as many bytes as the largest cell needs. If most cells are 0, only the others are stored, with
    their positions. Counts of units, if any, follow at the end. A sketch that was bounded outside of the pipeline is
    refused, since its bytes do not hold the bounds.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> sketch = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> sketch.update([17, 18], [1, 2])
    >>> SketchCoder().decode(SketchCoder().encode(sketch)).mass
    3
    """

    kind = Sketch
    encode = staticmethod(encode_partial)
    decode = staticmethod(decode_partial)
    estimate_size = _bytes_of_cells


class ExchangeCoder(_Deterministic):
    """Coder for what is saved in the exchange format."""

    def encode(self, value: Any) -> bytes:
        """Return the value's bytes in the exchange format."""
        if not isinstance(value, self.kind):
            raise TypeError(f"values must be {self.kind.__name__} objects, got a {type(value).__name__}")
        encoded: bytes = value.to_bytes()
        return encoded

    def decode(self, encoded: bytes) -> Any:
        """Return the value."""
        return self.kind.from_bytes(encoded, max_bytes=len(encoded))


class PrivateSketchCoder(ExchangeCoder):
    """Coder for releases, in the exchange format."""

    kind = PrivateSketch
    estimate_size = _bytes_of_cells


class MeanAggregatorCoder(ExchangeCoder):
    """Coder for sums of locally private reports, in the exchange format."""

    kind = MeanAggregator


class SignSketchCoder(ExchangeCoder):
    """Coder for published signs, in the exchange format."""

    kind = SignSketch


def register_coders() -> None:
    """Make Beam use these coders for their types wherever it infers a coder.

    Importing `streamsketch.beam` calls it.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import Sketch
    >>> register_coders()
    >>> type(beam.coders.registry.get_coder(Sketch)).__name__
    'SketchCoder'
    """
    for coder in (SketchCoder, PrivateSketchCoder, MeanAggregatorCoder, SignSketchCoder):
        beam.coders.registry.register_coder(coder.kind, coder)
