"""Sketches as estimators use them: arrays of cells in grid steps and in data units, with their noise and its place."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement.same import check_same
from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import SKETCH, SKETCHES, listed, wrong_type
from streamsketch.estimation.counts import moments_of_units
from streamsketch.estimation.equal_units import EqualUnits, equal_units_of
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise, effect_of, noise_unit
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.base import Projection
from streamsketch.projections.variance import MapVariance
from streamsketch.release.checking.release import warn_of_mismatches
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.published import check_independent, check_same_place
from streamsketch.sketching.sketch import Sketch

AnySketch: TypeAlias = PrivateSketch | Sketch

_Kind = TypeVar("_Kind", Estimate, Estimates)

_MOST_SHARED = 12  # of 1/s: the probability that two items share a cell, beyond which cells say little of items
_NO_OVERFLOW = 1 << 62  # two integers of at most this size have a difference in int64


class Units(NamedTuple):
    """How many units are in each of n sketches: float64, (n,); NaN where they were not counted."""

    number: NDArray[np.float64]
    """With noise."""
    variance: NDArray[np.float64]
    """Of the noise in it."""


class Block(NamedTuple):
    """Comparable sketches as arrays, for `distances_between`."""

    cells: Ints
    """(n, k), in grid steps."""
    cell_units: NDArray[np.float64]
    """The grid step of each sketch's cells, in data units: (n,)."""
    k2: NDArray[np.float64]
    """The second cumulant of each sketch's noise, in data units: (n,)."""
    k4: NDArray[np.float64]
    """The fourth cumulant of each sketch's noise, in data units: (n,)."""
    variance: MapVariance
    effect: OutputNoise | InputNoise
    units: Units | None = None
    """None where nothing is known of them."""
    secret: bool = False
    """Whether one of the sketches is raw, so that whatever follows from it is secret."""
    steps: NDArray[np.float64] | None = None
    """The distance of two values of each sketch's noise, in data units, (n,): the largest of its parts, 0 of a raw one.
    None where nothing is known of them."""
    nonzeros: int = 0
    """Cells of an item under a hashed map of many cells, whose fourth moment shows how few items make up a vector; 0 of
    other maps, and for noise before the map."""
    equal: EqualUnits | None = None
    """None where no sketch states that its units have one length."""

    @property
    def values(self) -> NDArray[np.float64]:
        """Cells in data units: (n, k)."""
        values: NDArray[np.float64] = self.cell_units[:, None] * self.cells.astype(np.float64)
        return values

    @property
    def squared_norms(self) -> NDArray[np.float64]:
        """The estimated squared norms, in squared data units: (n,)."""
        values = self.values
        norms: NDArray[np.float64] = np.einsum("ik,ik->i", values, values) - self.effect.count * self.k2
        return norms

    def only(self, place: int) -> "Block":
        """Return a block of one of the sketches."""
        kept = slice(place, place + 1)
        return self._replace(
            cells=self.cells[kept],
            cell_units=self.cell_units[kept],
            k2=self.k2[kept],
            k4=self.k4[kept],
            units=None if self.units is None else Units(*(part[kept] for part in self.units)),
            steps=None if self.steps is None else self.steps[kept],
            equal=None if self.equal is None else self.equal.at(kept),
        )


def check_comparable(sketches: Sequence[AnySketch]) -> None:
    """Raise unless all are sketches of one projection with independent noise, added at the same place.

    Releases that contradict their own statement of the noise cause a `NoiseMismatchWarning`.

    Raises
    ------
    TypeError
        If one is not a sketch.
    IncompatibleProjectionsError, IncompatibleAgreementsError
        If the projections or the agreements differ, or only some follow an agreement.
    DependentNoiseError
        If two contain the noise of one release.
    InvalidInputError
        If noise was added at different places.
    """
    for sketch in sketches:
        if not isinstance(sketch, PrivateSketch | Sketch):
            raise wrong_type("estimates need PrivateSketch or Sketch objects", sketch, SKETCH)
    check_same(*sketches)
    releases = [sketch for sketch in sketches if isinstance(sketch, PrivateSketch)]
    check_independent(releases)
    check_same_place(releases)
    warn_of_mismatches(releases)


def streams_of(sketches: object, needed: str) -> list[Any]:
    """Return the sketches in a table or another mapping, in the order of its keys, or in another iterable.

    Raises
    ------
    TypeError
        For anything else, such as a path or one sketch.
    """
    return list(sketches.values()) if isinstance(sketches, Mapping) else listed(sketches, needed, SKETCHES)


def is_secret(sketches: Iterable[AnySketch]) -> bool:
    """Return whether what is computed from these is as secret as a raw sketch: whether one of them is a `Sketch`."""
    return any(isinstance(sketch, Sketch) for sketch in sketches)


def mark_secret(estimates: _Kind, *blocks: Block) -> _Kind:
    """Return estimates made of blocks, as secret ones if one of the sketches is raw."""
    return estimates.as_secret() if any(block.secret for block in blocks) else estimates


def block_of(sketches: Sequence[AnySketch]) -> Block:
    """Return sketches that `check_comparable` accepts as one block.

    A raw sketch has no noise, and is comparable with any place of noise: the first sketch with noise decides.
    """
    projection, noises = sketches[0].projection, list(map(_noise_of, sketches))
    units = np.array([_units_of(sketch) for sketch in sketches])
    equal = np.array([equal_units_of(sketch) for sketch in sketches])
    noisy = next((sketch for sketch, noise in zip(sketches, noises, strict=True) if noise.k2 > 0), sketches[0])
    noisy_place = noisy.noise_place if isinstance(noisy, PrivateSketch) else "output"
    return Block(
        np.array([sketch.values if isinstance(sketch, PrivateSketch) else sketch.state() for sketch in sketches]),
        np.array(
            [sketch.cell_unit if isinstance(sketch, PrivateSketch) else projection.cell_unit for sketch in sketches]
        ),
        np.array([noise.k2 for noise in noises]),
        np.array([noise.k4 for noise in noises]),
        projection.variance,
        effect_of(projection, noisy_place),
        None if np.isnan(units).all() else Units(units[:, 0], units[:, 1]),
        is_secret(sketches),
        np.array([_step_of(sketch) for sketch in sketches]),
        _shown_by_cells(projection) if noisy_place == "output" else 0,
        EqualUnits(equal[:, 0], equal[:, 1]) if np.isfinite(equal[:, 0]).any() else None,
    )


def pair_of(x: AnySketch, y: AnySketch) -> tuple[Block, Block]:
    """Return two sketches as a block each; raises what `check_comparable` raises."""
    check_comparable([x, y])
    both = block_of([x, y])
    return both.only(0), both.only(1)


def difference(x: Ints, y: Ints) -> NDArray[np.float64]:
    """Return x - y, subtracted as integers: beyond 2^53, floats may be coarser than the difference."""
    exact = (x - y).astype(np.float64)
    if max(_largest(x), _largest(y)) <= _NO_OVERFLOW:
        return exact
    rough = x.astype(np.float64) - y.astype(np.float64)
    return np.where(np.abs(rough) <= _NO_OVERFLOW, exact, rough)  # elsewhere the integers wrapped around


def _noise_of(sketch: AnySketch) -> NoiseMoments:
    """Return the noise of a sketch in data units; none of a raw one."""
    if not isinstance(sketch, PrivateSketch):
        return NoiseMoments()
    return sketch.noise.scaled(float(sketch.multiplier) * noise_unit(sketch.projection, sketch.noise_place))


def _shown_by_cells(projection: Projection) -> int:
    """Return `Block.nonzeros`."""
    few = projection.nonzeros * _MOST_SHARED * projection.variance.norms <= 1 and projection.variance.fourth < 0
    return projection.nonzeros if few and 2 * projection.nonzeros <= projection.sketch_dim else 0


def _step_of(sketch: AnySketch) -> float:
    """Return the distance of two values of a sketch's noise, in data units: the largest of its parts."""
    if not isinstance(sketch, PrivateSketch):
        return 0.0
    largest = max(abs(float(part.multiplier)) for part in sketch.as_parts())
    return largest * noise_unit(sketch.projection, sketch.noise_place)


def _units_of(sketch: AnySketch) -> tuple[float, float]:
    """Return the number of units in a sketch and its variance, 0 of a raw one; NaN where they were not counted."""
    if sketch.counts is None:
        return math.nan, math.nan
    if not isinstance(sketch, PrivateSketch):
        return float(sketch.counts[0]), 0.0
    return moments_of_units(sketch)


def _largest(cells: Ints) -> int:
    return max(int(cells.max(initial=0)), -int(cells.min(initial=0)))
