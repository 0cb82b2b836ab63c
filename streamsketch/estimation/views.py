"""Sketches as estimators use them: cells in grid steps and in data units, with their noise and its place."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement import check_same
from streamsketch.core import Ints
from streamsketch.privacy import NoiseMoments
from streamsketch.projections import MapVariance
from streamsketch.release import (
    InputNoise,
    OutputNoise,
    PrivateSketch,
    check_independent,
    check_same_place,
    effect_of,
    noise_unit,
    warn_of_mismatches,
)
from streamsketch.sketching import Sketch

AnySketch: TypeAlias = PrivateSketch | Sketch

_NO_OVERFLOW = 1 << 62  # two integers of at most this size have a difference in int64


class View(NamedTuple):
    """The cells of one sketch, and what determines its standard errors."""

    cells: Ints  # in grid steps
    cell_unit: float  # in data units
    values: NDArray[np.float64]  # cells in data units
    noise: NoiseMoments  # in data units
    variance: MapVariance
    effect: OutputNoise | InputNoise


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
            raise TypeError(f"estimates need PrivateSketch or Sketch objects, got a {type(sketch).__name__}")
    check_same(*sketches)
    releases = [sketch for sketch in sketches if isinstance(sketch, PrivateSketch)]
    check_independent(releases)
    check_same_place(releases)
    warn_of_mismatches(releases)


def views_of(*sketches: AnySketch) -> list[View]:
    """Return the views of comparable sketches; raises what `check_comparable` raises."""
    check_comparable(sketches)
    views = [view_of(sketch) for sketch in sketches]
    return [view._replace(effect=place_of(views).effect) for view in views]


def place_of(views: Sequence[View]) -> View:
    """Return the first view with noise, if any: a raw sketch has none, and is comparable with any place of noise."""
    return next((view for view in views if view.noise.k2 > 0), views[0])


def view_of(sketch: AnySketch) -> View:
    """Return the view of one sketch."""
    projection = sketch.projection
    if isinstance(sketch, PrivateSketch):
        cells, cell_unit = sketch.values, sketch.cell_unit
        noise = sketch.noise.scaled(float(sketch.multiplier) * noise_unit(projection, sketch.noise_place))
        effect = effect_of(projection, sketch.noise_place)
    else:
        cells, cell_unit, noise = sketch.state(), projection.cell_unit, NoiseMoments()
        effect = effect_of(projection, "output")
    return View(cells, cell_unit, cell_unit * cells.astype(np.float64), noise, projection.variance, effect)


def block_of(sketches: Sequence[AnySketch]) -> Block:
    """Return sketches that `check_comparable` accepts as one block for `distances_between`."""
    views = [view_of(sketch) for sketch in sketches]
    return Block(
        np.stack([view.cells for view in views]),
        np.array([view.cell_unit for view in views]),
        np.array([view.noise.k2 for view in views]),
        np.array([view.noise.k4 for view in views]),
        views[0].variance,
        place_of(views).effect,
    )


def gap_of(x: View, y: View) -> NDArray[np.float64]:
    """Return x - y in data units."""
    return x.cell_unit * difference(x.cells, y.cells) if x.cell_unit == y.cell_unit else x.values - y.values


def difference(x: Ints, y: Ints) -> NDArray[np.float64]:
    """Return x - y, subtracted as integers: beyond 2^53, floats may be coarser than the difference."""
    exact = (x - y).astype(np.float64)
    if max(_largest(x), _largest(y)) <= _NO_OVERFLOW:
        return exact
    rough = x.astype(np.float64) - y.astype(np.float64)
    return np.where(np.abs(rough) <= _NO_OVERFLOW, exact, rough)  # elsewhere the integers wrapped around


def _largest(cells: Ints) -> int:
    return max(int(cells.max(initial=0)), -int(cells.min(initial=0)))
