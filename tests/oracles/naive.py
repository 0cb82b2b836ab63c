"""Slow, readable twins of the kernels and encoders, in Python integers only.

They are written from the documented definitions (docstrings and JSON fields), never by calling the library, so
that both can be wrong only in different ways. The samplers' twins live in ``naive_noise.py``.
"""

import datetime as dt
import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

MODULUS = 2**64 | 0x1B  # x^64 + x^4 + x^3 + x + 1
HASHED_DIM = 2**60

Key = int | str | bytes | dt.date | dt.datetime


# --- public randomness --------------------------------------------------------------------------------------


def field_elements(seed: int, label: str, count: int) -> list[int]:
    """Return uniform elements of GF(2^64): one keyed digest each."""
    start = label.encode() + bytes(1)
    return [blake2b_8(start + index.to_bytes(8, "little"), seed, b"streamsketch.gf2") for index in range(count)]


def blake2b_8(message: bytes, seed: int, person: bytes) -> int:
    """Return the 8-byte BLAKE2b digest, keyed by the 8 bytes of ``seed``, as a little-endian integer."""
    digest = hashlib.blake2b(message, digest_size=8, key=seed.to_bytes(8, "little"), person=person).digest()
    return int.from_bytes(digest, "little")


def product(a: int, b: int, modulus: int = MODULUS) -> int:
    """Return a · b in the field GF(2)[x] / modulus, both of lower degree, one bit of b at a time."""
    top, total = modulus.bit_length() - 1, 0
    while b:
        if b & 1:
            total ^= a
        b >>= 1
        a <<= 1
        if a >> top:
            a ^= modulus
    return total


def polynomial_at(key: int, coefficients: Sequence[int], modulus: int = MODULUS) -> int:
    """Return the value at ``key`` of the polynomial with these coefficients, leading one first."""
    total = 0
    for coefficient in coefficients:
        total = product(total, key, modulus) ^ coefficient
    return total


def inverse(a: int) -> int:
    """Return 1 / a in GF(2^64): a^(2^64 - 2), the product of a^2, a^4, …, a^(2^63)."""
    total = 1
    for _ in range(63):
        a = product(a, a)
        total = product(total, a)
    return total


def interpolate(points: dict[int, int]) -> list[int]:
    """Return the coefficients, leading one first, of the one polynomial over GF(2^64) through ``points`` (Lagrange)."""
    coefficients = [0] * len(points)
    for key, value in points.items():
        basis, denominator = [1], 1
        for other in points:
            if other != key:
                # basis(x) · (x + other)
                shifted, scaled = [*basis, 0], [0] + [product(other, c) for c in basis]
                basis = [a ^ b for a, b in zip(shifted, scaled, strict=True)]
                denominator = product(denominator, key ^ other)
        weight = product(value, inverse(denominator))
        coefficients = [c ^ product(weight, b) for c, b in zip(coefficients, basis, strict=True)]
    return coefficients


# --- the sparse maps ----------------------------------------------------------------------------------------


def words_and_rows_per_word(rows: int, width: int) -> tuple[int, int]:
    """Return how many hash words ``rows`` fields of ``width`` bits take, and how many rows read each."""
    most_in_one_word = 64 // width
    words = -(-rows // most_in_one_word)
    return words, -(-rows // words)


def bucket_and_sign(word: int, position: int, width: int) -> tuple[int, int]:
    """Return what field ``position`` of a word says: its top bit is the sign (1 is minus), the rest the bucket."""
    field = (word >> (position * width)) % 2**width
    minus, bucket = divmod(field, 2 ** (width - 1))
    return bucket, -1 if minus else 1


@dataclass(frozen=True)
class Map:
    """The fields of a projection's JSON that its matrix follows from."""

    kind: str
    sketch_dim: int
    sparsity: int
    seed: int
    independence: int
    resolution: Fraction

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the map that `Projection.to_json` describes."""
        fields = json.loads(text)
        return cls(
            kind=fields["kind"],
            sketch_dim=fields["sketch_dim"],
            sparsity=1 if fields["kind"] == "count-sketch" else fields["sparsity"],
            seed=fields["seed"],
            independence=fields["independence"],
            resolution=Fraction(fields["resolution"]),
        )

    @property
    def buckets(self) -> int:
        """Rows in one block."""
        return self.sketch_dim // self.sparsity

    @functools.cached_property
    def polynomials(self) -> list[list[int]]:
        """The coefficients of each hash word's polynomial."""
        words, _ = words_and_rows_per_word(self.sparsity, self.buckets.bit_length())
        elements = iter(field_elements(self.seed, self.kind, words * self.independence))
        return [[next(elements) for _ in range(self.independence)] for _ in range(words)]

    def column(self, index: int) -> list[tuple[int, int]]:
        """Return the nonzeros of A's column as (row, ±1): one in each block, in order."""
        width = self.buckets.bit_length()  # of a power of two: log2 + 1
        _, rows_per_word = words_and_rows_per_word(self.sparsity, width)
        words = [polynomial_at(index, coefficients) for coefficients in self.polynomials]
        nonzeros = []
        for block in range(self.sparsity):
            bucket, sign = bucket_and_sign(words[block // rows_per_word], block % rows_per_word, width)
            nonzeros.append((block * self.buckets + bucket, sign))
        return nonzeros

    def sketch(self, events: Iterable[tuple[int, int | float | Decimal | Fraction]]) -> list[int]:
        """Return A x̃ of a stream of (index, value), by one loop."""
        cells = [0] * self.sketch_dim
        for index, value in events:
            steps = truncated(value, self.resolution)
            for row, sign in self.column(index):
                cells[row] += sign * steps
        return cells

    def mass(self, values: Iterable[int | float | Decimal | Fraction]) -> int:
        """Return Σ|q|."""
        return sum(abs(truncated(value, self.resolution)) for value in values)


# --- the door -----------------------------------------------------------------------------------------------


def truncated(value: float | Decimal | Fraction, resolution: Fraction) -> int:
    """Return value / resolution without its fraction, toward zero."""
    quotient = Fraction(value) / resolution
    steps = abs(quotient.numerator) // quotient.denominator
    return steps if quotient >= 0 else -steps


def nanoseconds(moment: dt.datetime) -> int:
    """Return nanoseconds since 1970-01-01T00:00Z; a moment without a zone counts as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000


def canonical_bytes(key: Key) -> bytes:
    """Return the tag byte and canonical bytes of a key."""
    if isinstance(key, str):
        return b"s" + key.encode("utf-8")
    if isinstance(key, bytes):
        return b"b" + key
    if isinstance(key, dt.datetime):
        return canonical_nanoseconds(nanoseconds(key))
    if isinstance(key, dt.date):
        return b"d" + str(key.toordinal() - dt.date(1970, 1, 1).toordinal()).encode("ascii")
    return b"i" + str(key).encode("ascii")


def canonical_nanoseconds(count: int) -> bytes:
    """Return the tag byte and canonical bytes of a time."""
    return b"t" + str(count).encode("ascii")


def fingerprint_of(canonical: bytes, seed: int) -> int:
    """Return the 60-bit fingerprint of canonical bytes."""
    return blake2b_8(canonical, seed, b"streamsketch.key") % 2**60


def fingerprint(key: Key, seed: int) -> int:
    """Return the 60-bit fingerprint of a key."""
    return fingerprint_of(canonical_bytes(key), seed)


def tuple_index(fingerprints: Sequence[int], seed: int) -> int:
    """Return the index of a tuple of parts: the low 60 bits of a_0 + Σ a_i f_i in GF(2^64)."""
    constant, *factors = field_elements(seed, f"tuple/{len(fingerprints)}", len(fingerprints) + 1)
    total = constant
    for factor, part in zip(factors, fingerprints, strict=True):
        total ^= product(factor, part)
    return total % 2**60


# --- contribution bounding ------------------------------------------------------------------------------------


def unit_digest(tag: str, name: bytes, secret: bytes) -> list[int]:
    """Return the name's polynomial over GF(2^64) at two secret points below 2^60."""
    drawn = hashlib.blake2b(digest_size=16, key=secret, person=b"streamsketch.uni").digest()
    words = [len(name) << 8 | ord(tag)]
    words += [int.from_bytes(name[at : at + 8], "big") for at in range(0, len(name), 8)]
    points = [int.from_bytes(drawn[at : at + 8], "little") % 2**60 for at in (0, 8)]
    return [polynomial_at(point, words) for point in points]


Place = tuple[tuple[Any, int], int]
"""A slot, which is a key and a window, and an index."""


class Draws:
    """What a secret decides for units and slots."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def _digest(self, message: bytes, person: bytes, size: int) -> bytes:
        return hashlib.blake2b(message, digest_size=size, key=self._secret, person=person).digest()

    def _coefficients(self) -> list[int]:
        words = self._digest(b"", b"streamsketch.ord", 64)
        return [int.from_bytes(words[at : at + 8], "little") for at in range(0, 64, 8)]

    def word(self, slot: tuple[Any, int]) -> int:
        return int.from_bytes(self._digest(slot_bytes(slot), b"streamsketch.slt", 8), "little")

    def rank(self, unit: bytes, slot: tuple[Any, int]) -> tuple[int, int]:
        point = (int.from_bytes(unit[:8], "little") + self.word(slot)) % 2**60
        return polynomial_at(point, self._coefficients()), self.word(slot)

    def queue(self, unit: bytes, place: Place) -> tuple[int, int, int]:
        word, index = self.word(place[0]), place[1]
        row = b"r" + unit + word.to_bytes(8, "little") + index.to_bytes(8, "little")
        return int.from_bytes(self._digest(row, b"streamsketch.ord", 8), "little"), word, index


def slot_bytes(slot: tuple[Any, int]) -> bytes:
    key, window = slot
    return window.to_bytes(8, "little", signed=True) + canonical_bytes(key)


def bounded(
    events: list[tuple[bytes, tuple[Any, int], int, int]],
    *,
    max_keys: int,
    limit: int,
    secret: bytes,
    clip: str = "scale",
    together: bool = False,
) -> list[tuple[tuple[Any, int], int, int]]:
    """Bound (unit digest, slot, index, steps) events unit by unit, slot by slot; return (slot, index, steps)."""
    draws = Draws(secret)
    kept = []
    for unit in {event[0] for event in events}:
        net: dict[Place, int] = {}
        for _, slot, index, steps in (event for event in events if event[0] == unit):
            net[slot, index] = (net.get((slot, index), 0) + steps + 2**63) % 2**64 - 2**63
        slots = sorted({slot for slot, _ in net}, key=lambda slot: draws.rank(unit, slot))[:max_keys]
        for group in [slots] if together else [[slot] for slot in slots]:
            own = {place: net[place] for place in sorted(net, key=lambda place: draws.queue(unit, place))}
            own = {place: steps for place, steps in own.items() if place[0] in group}
            kept += [(*place, steps) for place, steps in clipped(own, limit, clip).items() if steps]
    return kept


def clipped(vector: dict[Place, int], limit: int, clip: str) -> dict[Place, int]:
    """Return a vector with an l1 norm of at most ``limit``."""
    total, left, before = sum(map(abs, vector.values())), limit, 0
    if total <= limit:
        return vector
    out = {}
    for place, steps in vector.items():
        scaled = (before + abs(steps)) * limit // total - before * limit // total
        size = scaled if clip == "scale" else min(abs(steps), left)
        left, before = left - size, before + abs(steps)
        out[place] = size if steps > 0 else -size
    return out
