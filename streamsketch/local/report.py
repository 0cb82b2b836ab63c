"""Reports: what one person sends, and batches of them."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.release.published import Encoded

Values: TypeAlias = NDArray[Any]
"""The values of reports, of the type that `Layout.stored` says: floats, levels, words or bits."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """The content of a mechanism's reports.

    Parameters
    ----------
    count
        Number of values.
    dtype
        Type of a value: ``"float32"``, ``"float16"``, ``"int32"``, ``"uint64"``, or ``"bits"`` (uint8 in memory, 0 or
        1).
    seeded
        Whether a report has a 64-bit public seed.
    """

    count: int
    dtype: str
    seeded: bool

    @property
    def stored(self) -> np.dtype[Any]:
        """The dtype of the values in memory."""
        return np.dtype(np.uint8 if self.dtype == "bits" else self.dtype)

    @property
    def value_bits(self) -> int:
        """Size of a report's values, in bits."""
        return self.count if self.dtype == "bits" else self.count * 8 * self.stored.itemsize

    @property
    def bits(self) -> int:
        """Size of a report, in bits."""
        return self.value_bits + 64 * self.seeded


class Reported(Protocol):
    """What reports know of their mechanism, which is a `Mechanism`."""

    @property
    def layout(self) -> Layout:
        """The content of a report."""

    @property
    def honest_lengths(self) -> tuple[float, float]:
        """The least and the largest Euclidean length of an honest report's values."""

    @property
    def fingerprint(self) -> str:
        """What the bytes of reports name it by."""

    def agreed_fields(self) -> Json:
        """Return the kind and the parameters as a dict of plain values."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Report(Encoded):
    """One person's locally private report, which is ε-LDP and so safe to send.

    `Mechanism.randomize` returns it.

    Parameters
    ----------
    mechanism
        The mechanism of the report.
    seed
        Public seed of the report's projection or directions, 0 to 2^64 - 1; 0 if the mechanism has none.
    values
        The randomised values: (count,), of the dtype of ``mechanism.layout``, read-only.

    Raises
    ------
    InvalidInputError
        If values have another shape or dtype, or are not finite.

    Examples
    --------
    >>> from streamsketch.local import ProjUnit
    >>> report = ProjUnit(dim=4, sketch_dim=2, epsilon=1.0, seed=7).randomize([1, 0, 0, 0])
    >>> report.bits
    128
    >>> Report.from_bytes(report.to_bytes(), report.mechanism) == report
    True
    """

    magic = b"\x89SSR\r\n\x1a\n"

    mechanism: Reported
    seed: int
    values: Values

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed < 1 << 64:
            raise InvalidInputError(f"a report's seed must be an integer from 0 to 2^64 - 1, got {short(self.seed)}")
        seeds = np.array([self.seed], dtype=np.uint64)
        if not isinstance(self.values, np.ndarray):
            raise InvalidInputError(f"a report's values must be an array, got a {type(self.values).__name__}")
        values = self.values
        _check(self.mechanism, seeds, values[np.newaxis])
        object.__setattr__(self, "values", np.frombuffer(values.tobytes(), dtype=values.dtype))

    @property
    def bits(self) -> int:
        """The size of seed and values, in bits. `to_bytes` adds a frame of about 60 bytes."""
        return self.mechanism.layout.bits

    @classmethod
    def from_bytes(cls, data: bytes, mechanism: Reported) -> Self:
        """Return the report in ``data``, which must come from an equal mechanism.

        Raises
        ------
        WireFormatError
            If the bytes are not a valid report of that mechanism.
        """
        return cls._decoded(data, mechanism=mechanism)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Report):
            return NotImplemented
        same = self.mechanism == other.mechanism and self.seed == other.seed
        return same and self.values.tobytes() == other.values.tobytes()

    def __hash__(self) -> int:
        return hash((self.mechanism, self.seed, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"Report({self.mechanism!r}, {self.bits} bits)"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reports:
    """Reports of many people as two arrays, and a sequence of `Report`; returned by `Mechanism.randomize_many`.

    Parameters
    ----------
    mechanism
        The mechanism of the reports.
    seeds
        The public seed of each report: uint64, (n,); 0 if the mechanism has none.
    values
        The randomised values: (n, count), of the dtype of ``mechanism.layout``.

    Raises
    ------
    InvalidInputError
        If arrays have other shapes or dtypes, or values are not finite.

    Examples
    --------
    >>> from streamsketch.local import PrivUnitG
    >>> reports = PrivUnitG(dim=2, epsilon=1.0).randomize_many([[1, 0], [0, 1], [1, 0]])
    >>> len(reports), reports.values.shape, reports[0].bits
    (3, (3, 2), 64)
    """

    mechanism: Reported
    seeds: Words
    values: Values

    def __post_init__(self) -> None:
        _check(self.mechanism, self.seeds, self.values)

    def __len__(self) -> int:
        return self.seeds.size

    def __getitem__(self, index: int) -> Report:
        return Report(self.mechanism, int(self.seeds[index]), self.values[index])

    def __iter__(self) -> Iterator[Report]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"Reports({self.mechanism!r}, {len(self)} of {self.mechanism.layout.bits} bits)"


def _check(mechanism: Reported, seeds: Words, values: Values) -> None:
    layout = mechanism.layout
    for name, array in (("seeds", seeds), ("values", values)):
        if not isinstance(array, np.ndarray):
            raise InvalidInputError(f"{name} must be an array, got a {type(array).__name__}")
    if seeds.dtype != np.uint64 or seeds.ndim != 1:
        raise InvalidInputError(f"seeds must be uint64 of shape (n,), got {seeds.dtype} of shape {seeds.shape}")
    if values.dtype != layout.stored or values.shape != (seeds.size, layout.count):
        raise InvalidInputError(
            f"{mechanism!r} reports {layout.count} values of {layout.stored} each, got {values.dtype} of shape "
            f"{values.shape} for {seeds.size} seeds"
        )
    if not layout.seeded and seeds.any():
        raise InvalidInputError(f"seeds must be 0, because reports of {mechanism!r} have no seed")
    if layout.dtype == "bits" and (values > 1).any():
        raise InvalidInputError("bits must be 0 or 1")
    if layout.stored.kind == "f" and not np.isfinite(values).all():
        raise InvalidInputError("a report's values must be finite; this one is damaged or dishonest")
