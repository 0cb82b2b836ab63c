"""How sketches travel between Beam workers."""

import apache_beam as beam

from streamsketch.errors import InvalidInputError
from streamsketch.local.aggregation import MeanAggregator
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.signs.sketch import SignSketch
from streamsketch.sketching.partials import decode_partial, encode_partial
from streamsketch.sketching.sketch import Sketch


class SketchCoder(beam.coders.Coder):
    """Coder for raw sketches between workers of a pipeline: **secret**, in a layout that may change between versions.

    Every cell takes as many bytes as the largest cell needs. If most cells are 0, only the others are stored, with
    their positions. Counts of units, if any, follow at the end.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> sketch = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> sketch.update([17, 18], [1, 2])
    >>> SketchCoder().decode(SketchCoder().encode(sketch)).mass
    3
    """

    def encode(self, value: Sketch) -> bytes:
        """Return the sketch's bytes: a function of its projection and stream alone.

        Raises
        ------
        InvalidInputError
            If the sketch was bounded outside of the pipeline, since its bytes do not hold the bounds.
        """
        if value.bounds.neighbours is not None:
            raise InvalidInputError(
                f"this sketch was bounded to {value.bounds.neighbours}, but a pipeline does not keep these bounds; "
                "release it where it was bounded, or bound its rows in the pipeline with BoundContributions"
            )
        return encode_partial(value)

    def estimate_size(self, value: Sketch) -> int:
        """Return how many bytes the cells take in memory: by default, Beam would encode the sketch to find out."""
        return 8 * value.projection.sketch_dim

    def decode(self, encoded: bytes) -> Sketch:
        """Return the sketch.

        Raises
        ------
        WireFormatError
            If the bytes are not an encoded sketch.
        """
        return decode_partial(encoded)

    def is_deterministic(self) -> bool:
        """Return True: equal streams have equal bytes."""
        return True

    def to_type_hint(self) -> type[Sketch]:
        """Return the coded type."""
        return Sketch


class PrivateSketchCoder(beam.coders.Coder):
    """Coder for releases, in the exchange format."""

    def encode(self, value: PrivateSketch) -> bytes:
        """Return `PrivateSketch.to_bytes`."""
        return value.to_bytes()

    def estimate_size(self, value: PrivateSketch) -> int:
        """Return about how many bytes the cells take in memory, as `SketchCoder.estimate_size` does."""
        return 8 * value.projection.sketch_dim

    def decode(self, encoded: bytes) -> PrivateSketch:
        """Return the release."""
        return PrivateSketch.from_bytes(encoded, max_bytes=len(encoded))

    def is_deterministic(self) -> bool:
        """Return True: equal releases have equal bytes."""
        return True

    def to_type_hint(self) -> type[PrivateSketch]:
        """Return the coded type."""
        return PrivateSketch


class MeanAggregatorCoder(beam.coders.Coder):
    """Coder for sums of locally private reports, in the exchange format."""

    def encode(self, value: MeanAggregator) -> bytes:
        """Return `MeanAggregator.to_bytes`."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> MeanAggregator:
        """Return the sum."""
        return MeanAggregator.from_bytes(encoded, max_bytes=len(encoded))

    def is_deterministic(self) -> bool:
        """Return True: equal sums have equal bytes."""
        return True

    def to_type_hint(self) -> type[MeanAggregator]:
        """Return the coded type."""
        return MeanAggregator


class SignSketchCoder(beam.coders.Coder):
    """Coder for published signs, in the exchange format."""

    def encode(self, value: SignSketch) -> bytes:
        """Return `SignSketch.to_bytes`."""
        if not isinstance(value, SignSketch):
            raise TypeError(f"values must be SignSketch objects, got a {type(value).__name__}")
        return value.to_bytes()

    def decode(self, encoded: bytes) -> SignSketch:
        """Return the release."""
        release: SignSketch = SignSketch.from_bytes(encoded, max_bytes=len(encoded))
        return release

    def is_deterministic(self) -> bool:
        """Return True: equal releases have equal bytes."""
        return True

    def to_type_hint(self) -> type[SignSketch]:
        """Return the coded type."""
        return SignSketch


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
    beam.coders.registry.register_coder(Sketch, SketchCoder)
    beam.coders.registry.register_coder(PrivateSketch, PrivateSketchCoder)
    beam.coders.registry.register_coder(MeanAggregator, MeanAggregatorCoder)
    beam.coders.registry.register_coder(SignSketch, SignSketchCoder)
