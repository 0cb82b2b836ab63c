"""PrivateSketch: what may leave the party."""

import functools
import math
from collections.abc import Iterable
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, cast, get_args

import numpy as np

from streamsketch.agreement.same import check_alike, check_fingerprint
from streamsketch.core.notebooks import facts
from streamsketch.core.numbers import Exact, Ints, exact_fraction, short
from streamsketch.data import data_ids as ids_of_data
from streamsketch.errors import InvalidInputError, SketchOverflowError
from streamsketch.privacy.guarantee import Guarantee, Populations
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.base import Projection
from streamsketch.release.claims import Claim
from streamsketch.release.composition import compose
from streamsketch.release.history import HistoryPart, check_streams
from streamsketch.release.noise_parts import NO_HISTORY, NoisePart, merge_parts
from streamsketch.release.published import Published, check_independent, check_same_place, copy_with, with_agreement

if TYPE_CHECKING:
    from streamsketch.estimation.estimate import Estimate
    from streamsketch.explanation.release import Explanation

SketchClip: TypeAlias = Literal["scale", "equal", "average"]
"""How each unit's sketch was brought to the bound: longer ones shortened, or all brought to one length."""

RELEASE_ID_BYTES = 8
_SAY_POPULATIONS = (
    "releases are {name} with a.{method}(b, populations='disjoint' or 'overlapping'). The guarantee of the result "
    "depends on whether people are in both streams"
)
_MAX_CELL = (1 << 63) - 1
_ONE = Fraction(1)


class PrivateSketch(Published):
    """A published sketch: integer cells with noise, and all that a reader needs to interpret them.

    Immutable. In data units its cells are ``cell_unit · values``. `guarantee` states what is protected, and how well.

    Parameters
    ----------
    projection
        The public map.
    values
        Noisy cells: int64, (sketch_dim,), in grid steps times ``multiplier``.
    noise
        Cumulants of one noise, in grid steps of the place where it was added. For output noise these are steps of
        ``values``.
    guarantee
        The guarantee to the people in the data.
    noise_place
        ``"output"``: noise on each cell. ``"input"``: on each coordinate, before the map. ``"hadamard"``: after the
        Hadamard step of an FJLT. The last two come from `release_vector`.
    multiplier
        Exact factor on all cells, from `scaled`.
    release_ids
        One random id for each release that went into this one. Estimates between sketches that share noise are refused,
        because their error bars would be wrong.
    data_ids
        Random ids of the data inside (`streamsketch.data.data_ids`). Releases that share an id are not of disjoint
        populations. Empty if the data are unknown.
    parts
        Noise and guarantee of each release in a sum. Empty for a single release.
    counts
        Noisy counts beside the cells, with noise of the same distribution: int64, (1,) or (2,), in grid steps times
        ``multiplier``, with the weights of `layout`. None if nothing was counted, or counts were dropped.
    history
        The part of a history that this is, if it is published by a schedule: a row, from which no estimate is made, or
        a range of windows that was solved from rows. None for other releases, and for sums.
    agreement
        The fingerprint of the agreement that the data followed, in hexadecimal, if it is known.
    clip
        How each unit's sketch was clipped to an enforced `SketchL2` bound; None for other neighbours.

    Raises
    ------
    InvalidInputError
        If the values have another shape or type, ids repeat or have another length, or there are more parts than
        releases; if there are counts whose weights differ between the guarantees, or with a multiplier other than 1, or
        2^-g for ranges of windows; if the guarantee states a schedule but there is no ``history``, or the reverse.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> basket = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> basket.update([17, 18], [3, 1])
    >>> released = basket.release(epsilon=1.0, neighbours=L1(1, unit="sale"))
    >>> print(released.guarantee)
    ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 4
    >>> PrivateSketch.from_bytes(released.to_bytes()) == released
    True
    """

    magic = b"\x89SSK\r\n\x1a\n"

    __slots__ = (
        "_agreement",
        "_clip",
        "_counts",
        "_data_ids",
        "_guarantee",
        "_history",
        "_multiplier",
        "_noise",
        "_noise_place",
        "_parts",
        "_projection",
        "_release_ids",
        "_values",
    )

    def __init__(  # noqa: PLR0913 - what a reader needs to use a release honestly
        self,
        projection: Projection,
        values: Ints,
        noise: NoiseMoments,
        guarantee: Guarantee,
        *,
        noise_place: NoisePlace = "output",
        multiplier: Exact = _ONE,
        release_ids: Iterable[bytes],
        data_ids: Iterable[bytes] = (),
        parts: Iterable[NoisePart] = (),
        counts: Ints | None = None,
        history: HistoryPart | None = None,
        agreement: str | None = None,
        clip: SketchClip | None = None,
    ) -> None:
        if not isinstance(values, np.ndarray):
            raise TypeError(f"values must be a NumPy array, got a {type(values).__name__}")
        if values.dtype != np.int64 or values.shape != (projection.sketch_dim,):
            raise InvalidInputError(
                f"values must be int64 of shape ({projection.sketch_dim},), got {values.dtype} of shape {values.shape}"
            )
        ids = tuple(sorted(release_ids))
        if not ids or len(set(ids)) < len(ids) or set(map(len, ids)) != {RELEASE_ID_BYTES}:
            raise InvalidInputError(f"release ids must be distinct, of {RELEASE_ID_BYTES} bytes, and at least one")
        sources = tuple(sorted(data_ids))
        if sources:
            ids_of_data.check(sources)
        stated = merge_parts(parts) if parts else ()
        check_streams(stated)
        if stated and sum(part.count for part in stated) != len(ids):
            raise InvalidInputError(
                f"a sum of {len(ids)} releases needs {len(ids)} parts, got {sum(part.count for part in stated)}"
            )
        factor = exact_fraction(multiplier, "multiplier")
        if not 0 < abs(factor.numerator) <= _MAX_CELL or factor.denominator > _MAX_CELL:
            raise InvalidInputError("the multiplier must be a ratio of 63-bit integers, not 0")
        noisy_coordinates(projection, noise_place)
        self._noise_place: NoisePlace = noise_place
        self._projection = projection
        self._values = immutable(values)
        self._noise = noise
        self._guarantee = guarantee
        self._multiplier = factor
        self._release_ids = ids
        self._data_ids = sources
        self._parts = stated
        if agreement is not None:
            check_fingerprint(agreement)
        self._agreement = agreement
        self._clip = _checked_clip(clip, guarantee)
        self._history = history
        self._check_history()
        self._counts: Ints | None = None if counts is None else self._checked_counts(counts)

    def _check_history(self) -> None:
        layout = self._guarantee.mechanism.layout
        if self._history is None:
            if layout.by_rows and not self._parts:
                raise InvalidInputError(NO_HISTORY)
            return
        self._history.check_within(layout)
        if self._parts or len(self._release_ids) > 1 or self._noise_place != "output":
            raise InvalidInputError("a part of a history is a single release with noise on the cells, not a sum")
        if self._history.is_row and self._multiplier != 1:
            raise InvalidInputError("a row of a schedule must have the multiplier 1, as published")

    def _checked_counts(self, counts: Ints) -> Ints:
        """Return counts as they are kept."""
        layout = self._stated_layout
        on_grid = self._multiplier == 1 or (self._is_halved and any(part.history for part in self._parts or (self,)))
        if self._history is not None and self._history.minus is not None:
            raise InvalidInputError("a difference of two ranges of windows has no counts")
        if not layout.is_counted or not on_grid or self._noise_place != "output":
            raise InvalidInputError(
                "counts need a guarantee that states their weights (the same for all parts), noise on the cells, and "
                "a multiplier of 1, or of 2^-g for ranges of windows"
            )
        if counts.dtype != np.int64 or counts.shape != (layout.beside,):
            raise InvalidInputError(
                f"counts must be int64 of shape ({layout.beside},) for {layout}, got {counts.dtype} of shape "
                f"{counts.shape}"
            )
        return immutable(counts)

    @property
    def _is_halved(self) -> bool:
        """Whether the multiplier is 2^-g."""
        return self._multiplier.numerator == 1 and self._multiplier.denominator.bit_count() == 1

    @property
    def _stated_layout(self) -> Layout:
        """What all releases inside state of each key and window; `CELLS` if they differ."""
        stated = {part.guarantee.mechanism.layout.of_one_window for part in self._parts or (self,)}
        return stated.pop() if len(stated) == 1 else CELLS

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._projection

    @property
    def values(self) -> Ints:
        """The noisy cells, int64 of shape (sketch_dim,), read-only."""
        return self._values

    @property
    def noise(self) -> NoiseMoments:
        """The cumulants of one noise, in grid steps of the place where it was added (`noise_place`)."""
        return self._noise

    @property
    def noise_place(self) -> NoisePlace:
        """The place where the noise was added, one of ``"output"``, ``"input"`` and ``"hadamard"``."""
        return self._noise_place

    @property
    def agreement(self) -> str | None:
        """The fingerprint of the agreement that the data followed, in hexadecimal; None if it is unknown."""
        return self._agreement

    def with_agreement(self, agreement: str | None) -> Self:
        """Return the same release with this agreement's fingerprint: you assert that the data followed it."""
        return with_agreement(self, agreement)

    def with_clip(self, clip: SketchClip | None) -> Self:
        """Return the same release with this `clip`: you assert that each unit's sketch was clipped so."""
        return copy_with(self, _clip=_checked_clip(clip, self._guarantee))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee to the people in the data."""
        return self._guarantee

    @property
    def multiplier(self) -> Fraction:
        """The exact factor on all cells."""
        return self._multiplier

    @property
    def release_ids(self) -> tuple[bytes, ...]:
        """One random id for each release that went into this one."""
        return self._release_ids

    @property
    def summed_ids(self) -> frozenset[bytes]:
        """`release_ids` as a set."""
        return frozenset(self._release_ids)

    @property
    def data_ids(self) -> tuple[bytes, ...]:
        """Random ids of the data inside. Their number does not depend on the data; none if the data are unknown."""
        return self._data_ids

    @property
    def claim(self) -> Claim:
        """The proof that this is the release, or the sum, that its ids state; see `streamsketch.compose`."""
        return Claim((self._projection, self._noise_place), self._values, self._noise, self._counts)

    @property
    def history(self) -> HistoryPart | None:
        """The part of a history that this is, if it is published by a schedule; None for others, and for sums."""
        return self._history

    @property
    def parts(self) -> tuple[NoisePart, ...]:
        """Noise and guarantee of each release in a sum; empty for a single release."""
        return self._parts

    @property
    def cell_unit(self) -> float:
        """One step of a cell in data units, which is multiplier times scale times resolution."""
        return float(self._multiplier) * self._projection.cell_unit

    @property
    def clip(self) -> SketchClip | None:
        """How each unit was clipped to an enforced `SketchL2` bound: by ``"scale"``, ``"equal"`` or ``"average"``.

        The bound is that of the neighbours. None for other neighbours, and if parts were merged or added that were
        clipped to other bounds or may have units in common.
        """
        return self._clip

    @property
    def counts(self) -> Ints | None:
        """The noisy counts, int64 of shape (1,) or (2,), read-only, or None.

        They are in grid steps times `multiplier`, with the weights of `layout`. The first is the weighted number of
        units; the second, under `L1`, the weighted slack (`Counting`). The noise on each has the distribution of the
        noise on a cell. None if nothing was counted, or counts were dropped.
        """
        return self._counts

    @property
    def layout(self) -> Layout:
        """What the release has of each key and window: cells, and `counts` with their weights."""
        return CELLS if self._counts is None else self._stated_layout

    @property
    def numbers(self) -> Ints:
        """All that was published of the key, as one vector: `values`, and `counts` behind them. int64, read-only."""
        return self._values if self._counts is None else np.concatenate([self._values, self._counts])

    @property
    def units(self) -> "Estimate":
        """Estimate of the number of units that contributed to the sketch.

        Returns
        -------
        Estimate
            Unbiased; its error comes from the noise alone. A unit whose rows cancel out does not count.

        Raises
        ------
        InvalidInputError
            If the release has no counts.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from streamsketch import L1, SJLT, AdditiveNoise, Agreement, bound
        >>> from streamsketch.privacy import Counting
        >>> projection, bounded = SJLT(sketch_dim=64, sparsity=4, seed=7), L1(100, unit="customer")
        >>> agreement = Agreement(projection, index="item", unit="customer", neighbours=bounded)
        >>> rows = pa.table({"customer": ["Ann", "Ann", "Bob"], "item": ["tea", "jam", "tea"]})
        >>> counting = Counting.of(projection, bounded, delta=0)
        >>> publish = AdditiveNoise(epsilon=1, neighbours=bounded, counting=counting)
        >>> release = publish.release(bound(rows, agreement))
        >>> round(release.units.standard_error), round(release.total.standard_error)
        (49, 4864)
        """
        units: Estimate = _counts().units_of(self)
        return units

    @property
    def total(self) -> "Estimate":
        """Estimate of the sum of the absolute values that all units contributed, in data units.

        Each unit's rows are summed by index and clipped first, so this is the total of what the sketch holds.

        Returns
        -------
        Estimate
            Unbiased; its error comes from the noise alone.

        Raises
        ------
        InvalidInputError
            If the release has no counts, or no count of the slack, as under `SketchL2`.
        """
        total: Estimate = _counts().total_of(self)
        return total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivateSketch):
            return NotImplemented
        return (
            self._projection == other._projection
            and self._noise == other._noise
            and self._noise_place == other._noise_place
            and self._guarantee == other._guarantee
            and self._multiplier == other._multiplier
            and self._release_ids == other._release_ids
            and self._data_ids == other._data_ids
            and self._parts == other._parts
            and self._agreement == other._agreement
            and self._clip == other._clip
            and self._history == other._history
            and np.array_equal(self._values, other._values)
            and (self._counts is None) == (other._counts is None)
            and (self._counts is None or np.array_equal(self._counts, cast("Ints", other._counts)))
        )

    def __hash__(self) -> int:
        return hash((self._projection, self._release_ids))

    def __repr__(self) -> str:
        return f"<PrivateSketch of {self._projection!r}, {self._guarantee}>"

    def _repr_html_(self) -> str:
        return facts("PrivateSketch", [("projection", repr(self._projection)), ("guarantee", self._guarantee)])

    # --- arithmetic: noise adds up ----------------------------------------------------------------------------

    def combine(self, other: "PrivateSketch", *, populations: Populations) -> "PrivateSketch":
        """Return the release of both streams together; noise cumulants add up.

        Parameters
        ----------
        other
            A release of the same projection, with independent noise.
        populations
            ``"disjoint"`` if no privacy unit is in both streams, else ``"overlapping"``; see `streamsketch.compose`.
            Counts of disjoint populations add up if they have the same weights. Otherwise the sum has no counts.

        Raises
        ------
        TypeError
            If ``other`` is not a PrivateSketch.
        IncompatibleProjectionsError, IncompatibleAgreementsError
            If the projections or the agreements differ, or only one release follows an agreement.
        InvalidInputError
            If ``populations`` is ``"disjoint"`` although the releases share data.
        DependentNoiseError
            If a release went into both.
        SketchOverflowError
            If a cell would leave 63 bits.
        """
        return self._sum(other, 1, populations)

    def subtract(self, other: "PrivateSketch", *, populations: Populations) -> "PrivateSketch":
        """Return the release of this stream minus the other, without counts; noise cumulants add up. See `combine`."""
        return self._sum(other, -1, populations)

    def scaled(self, factor: Exact) -> Self:
        """Return exactly ``factor`` times this release: cells, signal and noise.

        An average is a sum scaled by ``Fraction(1, n)``. Scaling is post-processing, so the guarantee stays. Counts
        describe the stream before scaling, so they are dropped for a factor other than 1.
        """
        exact = exact_fraction(factor, "factor")
        check_streams([self])
        if exact == 1:
            return self
        return type(self)(
            self._projection,
            self._values,
            self._noise,
            self._guarantee,
            noise_place=self._noise_place,
            multiplier=self._multiplier * exact,
            release_ids=self._release_ids,
            data_ids=self._data_ids,
            parts=[part.scaled(exact) for part in self._parts] if exact else (),  # 0 is refused by the multiplier
            history=self._history,
            agreement=self._agreement,
            clip=self._clip,
        )

    @property
    def _unstated(self) -> bool:
        """Whether this is a sum that does not state its parts, such as one from an earlier version."""
        return not self._parts and len(self._release_ids) > 1

    def as_parts(self) -> tuple[NoisePart, ...]:
        """Return noise and guarantee of each release inside; a single release is one part."""
        return self._parts or (NoisePart(self._noise, self._guarantee, abs(self._multiplier), history=self._history),)

    def _sum(self, other: "PrivateSketch", sign: int, populations: Populations) -> "PrivateSketch":
        if not isinstance(other, PrivateSketch):
            raise TypeError(
                f"only a PrivateSketch can be combined with a PrivateSketch, got a {type(other).__name__}. "
                f"Call release() on a Sketch first"
            )
        self._projection.check_same(other._projection)
        check_alike(self._agreement, other._agreement)
        check_independent([self, other])
        check_same_place([self, other])
        guarantee = compose([self, other], populations=populations)
        step = _common_step(self._multiplier, other._multiplier)
        mine, theirs = int(self._multiplier / step), sign * int(other._multiplier / step)
        counts = self._summed_counts(other, mine, theirs) if sign > 0 and populations == "disjoint" else None
        if abs(mine) * max(1, _largest(self._values)) + abs(theirs) * max(1, _largest(other._values)) > _MAX_CELL:
            raise SketchOverflowError(
                "the sum of these releases could exceed 2**63 grid steps in a cell; nothing was changed. "
                "Scale them by multipliers with a larger common step, or combine fewer"
            )
        unstated = any(sketch._unstated for sketch in (self, other))
        alike = populations == "disjoint" and self._clip == other._clip
        return PrivateSketch(
            self._projection,
            mine * self._values + theirs * other._values,
            self._noise.scaled(mine) + other._noise.scaled(theirs),
            guarantee,
            noise_place=self._noise_place,
            multiplier=step,
            release_ids=self._release_ids + other._release_ids,
            data_ids={*self._data_ids, *other._data_ids},
            parts=[] if unstated else [*self.as_parts(), *other.as_parts()],
            counts=counts,
            agreement=self._agreement,
            clip=self._clip if alike else None,
        )

    def _summed_counts(self, other: "PrivateSketch", mine: int, theirs: int) -> Ints | None:
        """Return the counts of both together, each times a factor: None where one has none, or other weights."""
        if self._counts is None or other._counts is None or self.layout != other.layout:
            return None
        if mine * _largest(self._counts) + theirs * _largest(other._counts) > _MAX_CELL:
            raise SketchOverflowError("the sum of the counts of these releases could exceed 2**63 grid steps")
        return mine * self._counts + theirs * other._counts

    def __add__(self, other: object) -> "PrivateSketch":
        raise TypeError(_SAY_POPULATIONS.format(name="added", method="combine"))

    def __sub__(self, other: object) -> "PrivateSketch":
        raise TypeError(_SAY_POPULATIONS.format(name="subtracted", method="subtract"))

    # --- explaining -----------------------------------------------------------------------------------------

    def explain(self) -> "Explanation":
        """Return an explanation: who is protected, by which theorem, with how much noise, and what is not protected."""
        return cast("Explanation", super().explain())


def _checked_clip(clip: SketchClip | None, guarantee: Guarantee) -> SketchClip | None:
    """Return how units were clipped, once it fits the guarantee."""
    if clip not in (None, *get_args(SketchClip)):
        raise InvalidInputError(f"a sketch is clipped by 'scale', 'equal' or 'average', got {short(clip)}")
    if clip is not None and not guarantee.neighbours.of_sketches:
        raise InvalidInputError(
            f"clip={clip!r} is for SketchL2 neighbours, but the guarantee is for {guarantee.neighbours}: leave it out"
        )
    return clip


def noisy_coordinates(projection: Projection, place: NoisePlace) -> int:
    """Return on how many numbers noise at ``place`` is added.

    Raises
    ------
    InvalidInputError
        If the projection has no such place.
    """
    if place == "output":
        return projection.sketch_dim
    if place == "input":
        return projection.dim
    inner_map = projection.after_hadamard
    if place != "hadamard" or inner_map is None:
        raise InvalidInputError(
            f"noise can be added at the 'output' or the 'input' of a map, or after the 'hadamard' step of an FJLT; got "
            f"{place!r:.40} for {type(projection).__name__}"
        )
    return inner_map[0]


def immutable(numbers: Ints) -> Ints:
    """Return a copy that cannot be made writeable: int64."""
    return np.frombuffer(numbers.tobytes(), dtype=np.int64)


def _largest(values: Ints) -> int:
    return max(-int(values.min()), int(values.max()))


def _common_step(first: Fraction, second: Fraction) -> Fraction:
    """Return the largest positive fraction of which both are whole multiples."""
    denominator = math.lcm(first.denominator, second.denominator)
    return Fraction(math.gcd(int(first * denominator), int(second * denominator)), denominator)


@functools.cache
def _counts() -> ModuleType:
    from streamsketch.estimation import counts  # noqa: PLC0415 - estimates know releases, not the reverse

    return counts
