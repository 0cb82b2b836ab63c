"""How sketches travel between Beam workers."""

import functools
import struct

import apache_beam as beam
import numpy as np

from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError, SketchOverflowError, WireFormatError
from streamsketch.local import MeanAggregator
from streamsketch.projections import Projection, check_entries
from streamsketch.release import PrivateSketch
from streamsketch.signs import SignSketch
from streamsketch.sketching import Sketch

# bytes of projection JSON, of a cell, of a place (0: all cells follow), of counts behind the cells, mass
_HEADER = struct.Struct("<IBBB16s")
_COUNT_BYTES = 16
_WIDTHS = (1, 2, 4, 8)
_NO_MASS = bytes(16)


def counts_of(sketch: Sketch) -> Ints:
    """Return the counts that a sketch carries, int64, (2,), whether or not it is known that they are whole.

    Sketches of a pipeline know nothing of bounds, which are an attribute of their collection (`known_of`).
    """
    carried: Ints | None = sketch._counts  # noqa: SLF001
    return np.zeros(2, dtype=np.int64) if carried is None else carried


class SketchCoder(beam.coders.Coder):
    """Raw sketches between workers of one pipeline: **secret**, not the exchange format, of no fixed layout.

    Cells take as few bytes as the largest needs; where most are 0, the others follow with their places. Counts of units
    follow at the end, where there are some; that they are whole, what is known of the collection says.
    """

    def encode(self, value: Sketch) -> bytes:
        """Return the sketch's bytes: a function of its projection and stream alone.

        Raises
        ------
        InvalidInputError
            For a sketch on which bounds were enforced outside of the pipeline: its bytes would forget them.
        """
        if value.bounds.neighbours is not None:
            raise InvalidInputError(
                f"this sketch was bounded to {value.bounds.neighbours}, which a pipeline would forget: release it "
                f"where it was bounded, or bound its rows in the pipeline (BoundContributions)"
            )
        agreement = value.projection.to_json().encode()
        if not value.mass:  # an empty sketch, as of a public key without data
            place_width = _width(value.projection.sketch_dim - 1, signed=False)
            return _HEADER.pack(len(agreement), 1, place_width, 0, _NO_MASS) + agreement
        state = value.state()
        # ufuncs and not methods: where most sketches hold few events, these lines are most of a job
        width = _width(max(int(np.maximum.reduce(state)), -int(np.minimum.reduce(state)) - 1), signed=True)
        place_width = _width(state.size - 1, signed=False)
        if int(np.count_nonzero(state)) * (width + place_width) >= state.size * width:
            place_width = 0
            body = state.astype(f"<i{width}").tobytes()
        else:
            (places,) = state.nonzero()
            body = state[places].astype(f"<i{width}").tobytes() + places.astype(f"<u{place_width}").tobytes()
        counts = counts_of(value)
        behind = counts.astype("<i8").tobytes() if counts.any() else b""
        header = _HEADER.pack(len(agreement), width, place_width, len(behind), value.mass.to_bytes(16, "little"))
        return header + agreement + body + behind

    def estimate_size(self, value: Sketch) -> int:
        """Return how many bytes the cells take in memory: Beam would encode the sketch once more to count them."""
        return 8 * value.projection.sketch_dim

    def decode(self, encoded: bytes) -> Sketch:
        """Return the sketch.

        Raises
        ------
        WireFormatError
            If the bytes are not those of a sketch.
        """
        if len(encoded) < _HEADER.size:
            raise WireFormatError("length", f"{len(encoded)} bytes, a raw sketch has {_HEADER.size} or more")
        length, width, place_width, behind, mass = _HEADER.unpack_from(encoded)
        start, stop = _HEADER.size + length, len(encoded) - behind
        widths = width in _WIDTHS and place_width in (0, *_WIDTHS[:-1]) and behind in (0, _COUNT_BYTES)
        if start > stop or not widths:
            raise WireFormatError("header", "does not fit the bytes that follow")
        count, rest = divmod(stop - start, width + place_width)
        projection = _projection(bytes(encoded[_HEADER.size : start]))
        if rest or count > projection.sketch_dim or (not place_width and count < projection.sketch_dim):
            raise WireFormatError("cells", f"{stop - start} bytes, of a sketch of {projection.sketch_dim} cells")
        if not count and mass == _NO_MASS:
            return projection.sketch()
        cells = np.frombuffer(encoded, dtype=f"<i{width}", offset=start, count=count)
        if place_width:
            places = np.frombuffer(encoded, dtype=f"<u{place_width}", offset=start + count * width, count=count)
            if count and not (int(places[-1]) < projection.sketch_dim and (places[1:] > places[:-1]).all()):
                raise WireFormatError("places", f"do not ascend within a sketch of {projection.sketch_dim} cells")
            state = np.zeros(projection.sketch_dim, dtype=np.int64)
            state[places] = cells
        else:
            state = cells.astype(np.int64)
        try:
            counts = np.frombuffer(encoded, dtype="<i8", offset=stop).astype(np.int64) if behind else None
            return Sketch.from_state(projection, state, int.from_bytes(mass, "little"), counts=counts)
        except (InvalidInputError, SketchOverflowError):
            # never their values
            raise WireFormatError("cells", "do not belong together with the mass and the projection") from None

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

    def estimate_size(self, value: PrivateSketch) -> int:
        """Return about how many bytes the cells take in memory, as `SketchCoder.estimate_size`."""
        return 8 * value.projection.sketch_dim

    def decode(self, encoded: bytes) -> PrivateSketch:
        """Return the release."""
        return PrivateSketch.from_bytes(encoded, max_bytes=len(encoded))

    def is_deterministic(self) -> bool:
        """Equal releases have equal bytes."""
        return True

    def to_type_hint(self) -> type[PrivateSketch]:
        """Return the coded type."""
        return PrivateSketch


class MeanAggregatorCoder(beam.coders.Coder):
    """Sums of locally private reports, in the exchange format."""

    def encode(self, value: MeanAggregator) -> bytes:
        """Return `MeanAggregator.to_bytes`."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> MeanAggregator:
        """Return the sum."""
        return MeanAggregator.from_bytes(encoded, max_bytes=len(encoded))

    def is_deterministic(self) -> bool:
        """Equal sums have equal bytes."""
        return True

    def to_type_hint(self) -> type[MeanAggregator]:
        """Return the coded type."""
        return MeanAggregator


class SignSketchCoder(beam.coders.Coder):
    """Published signs, in the exchange format."""

    def encode(self, value: SignSketch) -> bytes:
        """Return `SignSketch.to_bytes`."""
        if not isinstance(value, SignSketch):
            raise TypeError(f"published signs must be a SignSketch, got a {type(value).__name__}")
        return value.to_bytes()

    def decode(self, encoded: bytes) -> SignSketch:
        """Return the release."""
        release: SignSketch = SignSketch.from_bytes(encoded, max_bytes=len(encoded))
        return release

    def is_deterministic(self) -> bool:
        """Equal releases have equal bytes."""
        return True

    def to_type_hint(self) -> type[SignSketch]:
        """Return the coded type."""
        return SignSketch


def _width(largest: int, *, signed: bool) -> int:
    bits = largest.bit_length() + signed
    return 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


@functools.lru_cache(maxsize=64)
def _projection(agreement: bytes) -> Projection:
    try:
        projection = Projection.from_json(agreement)
        check_entries(projection, "largest entry", raw=True)
    except InvalidInputError as error:
        raise WireFormatError("projection", str(error)) from None
    return projection


def register_coders() -> None:
    """Make Beam use these coders for their types wherever it infers one."""
    beam.coders.registry.register_coder(Sketch, SketchCoder)
    beam.coders.registry.register_coder(PrivateSketch, PrivateSketchCoder)
    beam.coders.registry.register_coder(MeanAggregator, MeanAggregatorCoder)
    beam.coders.registry.register_coder(SignSketch, SignSketchCoder)
