"""Mechanism: turns one person's unit vector into a locally private report, and reports into a mean."""

import dataclasses
import functools
import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Self

import numpy as np

from streamsketch.core.documents import Json
from streamsketch.core.limits import json_fields
from streamsketch.core.numbers import Floats, Ints, Numbers, check_int, short
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local.parameters import MAX_EPSILON, MIN_EPSILON
from streamsketch.local.random_words import dot_rows, round_to_steps, squared_lengths
from streamsketch.local.report import Layout, Report, Reports, Values
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.samplers import BitSource, SystemBits

MAX_DIM = 1 << 24

_LENGTH_TOLERANCE = 1e-5  # a float32 vector of length 1 is within it
_MANY_CHUNKS = 2  # worth a thread for each core
CHUNK_CELLS = 1 << 19  # of vectors randomised at a time: their random words stay in a cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """A locally private randomiser of unit vectors, and an estimator of their mean. Immutable, compared by fields.

    Every report is ε-LDP: for any two inputs v, v' and any set S of reports, P(S | v) ≤ e^ε P(S | v') (plus δ for
    `GaussianMechanism`). Reports of one person compose: two of them are 2ε-LDP. Their secret randomness comes from the
    operating system's CSPRNG; public randomness (a projection, a direction) follows from a seed in the report. The
    number of secret bits and the work are the same for every vector (Theory 7.5; `GaussianMechanism` is the
    exception).

    Parameters
    ----------
    dim
        Length of the vectors (d), 2 to 2^24; from 1 with ``ball``.
    epsilon
        The ε of one report, 2^-10 to 256.
    ball
        False: vectors have length 1. True: vectors have length at most 1, and are completed to length 1 by one more
        coordinate, √(1 - ‖v‖²).

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> from streamsketch.local import PrivUnitG
    >>> Mechanism.from_json(PrivUnitG(dim=100, epsilon=4.0).to_json())
    PrivUnitG(dim=100, epsilon=4.0, ball=False, precision='float32')
    """

    dim: int
    epsilon: float
    ball: bool = False

    kind: ClassVar[str]
    """The name in JSON and the exchange format."""

    def __post_init__(self) -> None:
        self._set_flag("ball")
        self._set_int("dim", 2 - self.ball, MAX_DIM)
        self._set_float("epsilon", MIN_EPSILON, MAX_EPSILON)
        Budget(self.epsilon).warn_if_weak()

    # --- what a kind of mechanism defines ---------------------------------------------------------------------

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The content of a report."""

    @property
    @abstractmethod
    def squared_error(self) -> float:
        """Expected squared error of one report; see `expected_squared_error`."""

    @abstractmethod
    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports of unit vectors, (n, sphere_dim), to ``seeds``, (n,), and ``values``, (n, count)."""

    @abstractmethod
    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return what each report adds to the server's state, in real units, float64 of shape (n, state_dim)."""

    @property
    def state_dim(self) -> int:
        """Number of cells that the server keeps."""
        return self.sphere_dim

    @property
    def cell_size(self) -> float:
        """The root mean square of what a report adds to a cell that it touches."""
        return math.sqrt((self.squared_error + 1) / self.sphere_dim)

    @property
    def limiting_squared_error(self) -> float:
        """The squared bias, which is the squared error that remains with any number of reports of one vector.

        It is 0 for all mechanisms except `ProjUnit`, which describes when it is exact and when it is a bound.
        """
        return 0.0

    @functools.cached_property
    def honest_lengths(self) -> tuple[float, float]:
        """The smallest and the largest Euclidean length of an honest report's values, except for one report in 10^9.

        They are 0 and infinity if values are seeds or bits, all of which may be honest.
        """
        return 0.0, math.inf

    @property
    def longest_contribution(self) -> float:
        """A bound on the Euclidean length of an honest report's contribution to the server's state, in real units."""
        return self.honest_lengths[1]

    def add_steps(self, seeds: Words, values: Values, total: Ints, step: float, limit: float) -> None:
        """Add `contributions`, each rounded to a multiple of ``step``, to ``total``, int64 (state_dim,), in steps.

        Raises
        ------
        InvalidInputError
            If a contribution exceeds ``limit`` steps, which no honest report does. ``total`` is then unchanged.
        """
        add_in_chunks(self.contributions, seeds, values, total, step, limit)

    def mean_of(self, total: Floats) -> Floats:
        """Return the mean of vectors on the sphere, (sphere_dim,), from the mean of their contributions."""
        return total

    # --- common to all ------------------------------------------------------------------------------------------

    @property
    def sphere_dim(self) -> int:
        """The length of the unit vectors that are randomised, dim or, with ``ball``, dim + 1."""
        return self.dim + self.ball

    def expected_squared_error(self, n: int = 1) -> float:
        """Return E‖mean - true mean‖² over the mechanism's randomness, for ``n`` reports of one unit vector.

        The closed form (Theory 7) is over all sphere_dim coordinates. For different vectors the error is no larger,
        up to the bias of a biased mechanism, which is about `limiting_squared_error`.

        Raises
        ------
        InvalidInputError
            If ``n`` is not positive.
        """
        check_int(n, "the number of reports", 1)
        limit = self.limiting_squared_error
        return (self.squared_error - limit) / n + limit

    def randomize(self, vector: object, *, bits: BitSource | None = None) -> Report:
        """Return the locally private report of one vector.

        Parameters
        ----------
        vector
            (dim,): numbers, of Euclidean length 1 within 1e-5 (at most 1 + 1e-5 with ``ball``).
        bits
            Source of the secret bits; by default the operating system's CSPRNG. Use another one only in tests, and in
            pipelines that may retry a bundle.

        Raises
        ------
        InvalidInputError
            If the vector has another shape or NaN, or is too long or too short.
        """
        return self.randomize_many(_array(vector, 1)[np.newaxis], bits=bits)[0]

    def randomize_many(self, vectors: object, *, bits: BitSource | None = None) -> Reports:
        """Return independent reports of the rows of a matrix, (n, dim); see `randomize`.

        Many vectors are spread over all cores, unless ``bits`` is given, which is read in the order of the rows.
        """
        matrix = _array(vectors, 2)
        if matrix.shape[1] != self.dim:
            raise InvalidInputError(f"vectors must have dim={self.dim} coordinates, got {matrix.shape[1]}")
        source = SystemBits() if bits is None else bits
        seeds = np.zeros(matrix.shape[0], dtype=np.uint64)
        values = np.empty((matrix.shape[0], self.layout.count), dtype=self.layout.stored)
        rows = max(1, CHUNK_CELLS // self.sphere_dim)

        def fill(start: int) -> None:
            part = slice(start, start + rows)
            self.fill(self.on_sphere(matrix[part], start), source, seeds[part], values[part])

        starts = range(0, matrix.shape[0], rows)
        if bits is not None or len(starts) < _MANY_CHUNKS:  # a given source is read in one order
            for start in starts:
                fill(start)
            return Reports(self, seeds, values)
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(starts))) as pool:  # made anew: none survives into a fork
            for _ in pool.map(fill, starts):
                pass
        return Reports(self, seeds, values)

    def on_sphere(self, matrix: Numbers, first: int = 0) -> Floats:
        """Check rows, and return them, with ``ball`` completed to length 1, as float64 of shape (n, sphere_dim)."""
        with np.errstate(over="ignore"):  # overflow is refused below as infinite
            rows = np.require(matrix, np.float64, ["C", "A", "W"])  # one layout needs only one compiled kernel
        squares = dot_rows(rows, rows) if self.ball else squared_lengths(rows)
        off = squares - 1 if self.ball else np.abs(squares - 1)
        wrong = ~(off <= 2 * _LENGTH_TOLERANCE)  # NaN is wrong too
        if wrong.any():
            rule, remedy = "at most 1", "scale it down"
            if not self.ball:
                rule, remedy = "1", "divide it by its length, or use ball=True for vectors of length at most 1"
            raise InvalidInputError(
                f"vector {first + int(np.argmax(wrong))} must be finite and have length {rule}, within "
                f"{_LENGTH_TOLERANCE:g}; {remedy}"
            )
        if not self.ball:
            return rows
        rest = np.sqrt(np.maximum(0.0, 1 - squares))
        return np.concatenate([rows, rest[:, np.newaxis]], axis=1)

    # --- identity -----------------------------------------------------------------------------------------------

    def agreed_fields(self) -> Json:
        """Return the kind and the parameters as a dict of plain values."""
        return {"kind": self.kind} | {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def to_json(self) -> str:
        """Return the parameters as JSON with sorted keys and no spaces: equal mechanisms have equal text."""
        return json.dumps(self.agreed_fields(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the mechanism that `to_json` wrote.

        Raises
        ------
        InvalidInputError
            If the text does not describe a mechanism of this class.
        """
        mechanism = mechanism_from_fields(json_fields(text, "a mechanism"))
        if not isinstance(mechanism, cls):
            raise InvalidInputError(
                f"the JSON describes a {type(mechanism).__name__}, but a {cls.__name__} was expected; use "
                "Mechanism.from_json for any mechanism"
            )
        return mechanism

    @functools.cached_property
    def fingerprint(self) -> str:
        """64 bits of the BLAKE2b hash of `to_json`, in hexadecimal, which the bytes of every report carry."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8, person=b"streamsketch.ldp").hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        return mechanism_from_fields, (self.agreed_fields(),)  # without cached properties

    # --- checks of fields ---------------------------------------------------------------------------------------

    def _set_int(self, name: str, least: int, most: int) -> None:
        whole = check_int(getattr(self, name), name, least, most)
        object.__setattr__(self, name, whole)

    def _set_float(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        valid = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not (valid and least <= value <= most):
            raise InvalidInputError(f"{name} must be a number from {least:g} to {most:g}, got {short(value)}")
        object.__setattr__(self, name, float(value))

    def _set_flag(self, name: str) -> None:
        if type(getattr(self, name)) is not bool:
            raise InvalidInputError(f"{name} must be True or False, got {short(getattr(self, name))}")

    def _set_choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {short(getattr(self, name))}")


_KINDS: dict[str, type[Mechanism]] = {}


def register(mechanism: type[Mechanism]) -> None:
    """Register a class for `Mechanism.from_json` and the exchange format."""
    _KINDS[mechanism.kind] = mechanism


def mechanism_from_fields(fields: Json) -> Mechanism:
    """Return the mechanism with the given ``kind`` and exactly its fields.

    Raises
    ------
    InvalidInputError
        For an unknown kind, missing or unknown fields, or values out of range.
    """
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInputError(f"the mechanism's kind must be one of {', '.join(sorted(_KINDS))}, got {short(kind)}")
    arguments = {name: value for name, value in fields.items() if name != "kind"}
    wanted = {field.name for field in dataclasses.fields(_KINDS[kind])}
    if arguments.keys() != wanted:
        names = short(", ".join(map(str, arguments)))
        raise InvalidInputError(
            f"a mechanism of kind {kind} must have exactly the fields {', '.join(sorted(wanted))}; got {names}"
        )
    return _KINDS[kind](**arguments)


def add_in_chunks(
    contributions: Callable[[Words, Values], Floats],
    seeds: Words,
    values: Values,
    total: Ints,
    step: float,
    limit: float,
) -> None:
    """Add ``contributions(seeds, values)``, (n, total.size), to ``total`` in whole steps, some rows at a time.

    Raises
    ------
    InvalidInputError
        If one exceeds ``limit`` steps; ``total`` is then unchanged.
    """
    added = np.zeros_like(total)
    rows = max(1, CHUNK_CELLS // total.size)
    for start in range(0, seeds.size, rows):
        part = slice(start, start + rows)
        added += whole_steps(contributions(seeds[part], values[part]), step, limit).sum(axis=0)
    total += added


def whole_steps(contributions: Floats, step: float, limit: float) -> Ints:
    """Return contributions in steps, rounded to nearest, ties to even: int64.

    Raises
    ------
    InvalidInputError
        If one exceeds ``limit`` steps, which no honest report does.
    """
    values = np.ascontiguousarray(contributions, dtype=np.float64)
    steps = np.empty(values.shape, dtype=np.int64)
    if not round_to_steps(values.reshape(-1), step, limit, steps.reshape(-1)):
        raise InvalidInputError("a report has values outside the range of the mechanism; it is damaged or dishonest")
    return steps


def _array(vectors: object, axes: int) -> Numbers:
    if isinstance(vectors, np.ma.MaskedArray):
        raise InvalidInputError("vectors must not be a masked array; fill the masked entries first")
    shape = "(dim,)" if axes == 1 else "(n, dim)"
    try:
        array = np.asarray(vectors)
    except (TypeError, ValueError):  # lists of different lengths
        raise InvalidInputError(f"expected numbers of shape {shape}, got rows of different lengths") from None
    if array.dtype.kind not in "iuf" or array.ndim != axes:
        raise InvalidInputError(f"expected numbers of shape {shape}, got {array.dtype} of shape {array.shape}")
    return array
