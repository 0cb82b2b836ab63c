"""How far one privacy unit moves a sketch, and which noise would hide it."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import calibration
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.calibration import Candidate, candidates
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.mechanism import Mechanism, NoisePlace
from streamsketch.privacy.neighbours import Neighbours, check_neighbours
from streamsketch.privacy.noise import Noise, Sensitivity
from streamsketch.projections.base import Projection

_MOST = (1 << 63) - 1


def grid_steps(projection: Projection, neighbours: Neighbours) -> int:
    """Return Δ̃, how far one unit can move the integer vector x̃ in ℓ1, in grid steps."""
    return neighbours.grid_steps(projection.grid)


def check_steps(projection: Projection, neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` for a bound that is nothing on the projection's grid, or not one on vectors."""
    check_neighbours(neighbours)
    _refuse_sketches(neighbours)
    neighbours.check_steps(projection)


def check_mechanism(neighbours: Neighbours, budget: Budget, mechanism: str) -> None:
    """Raise `TypeError` or `InvalidInputError` for what no projection would make a release of.

    For an object that is not a neighbour relation; as `calibration.check_choice` and `Neighbours.check_delta`; and for
    Laplace noise, the only one with δ = 0, where a unit may be in any number of keys: its sums of absolute values have
    no useful bound.
    """
    check_neighbours(neighbours)
    calibration.check_choice(budget, mechanism)
    if neighbours.any_keys and (budget.delta == 0 or mechanism == DiscreteLaplace.name):
        raise InvalidInputError(
            f"Laplace noise hides what a unit changes in all cells, summed up, and {neighbours!r} lets it change the "
            "cells of any number of keys. Set delta (such as 1e-9) for Gaussian noise, or set max_keys, the number "
            "of keys that a unit may be in"
        )
    neighbours.check_delta(budget.delta, mechanism)


def _refuse_sketches(neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` for a bound on sketches, where a release is made of whole vectors."""
    if neighbours.of_sketches:
        raise InvalidInputError(
            f"{neighbours!r} bounds what a unit changes in an exact sketch, to which the rows of each unit are clipped "
            f"(streamsketch.bound); whole vectors are not. Use L2(bound), or L1 or OneCoordinate, for vectors"
        )


def check_whole_steps(projection: Projection, neighbours: Neighbours, values: np.dtype[Any]) -> None:
    """Raise unless totals of this dtype are sure to be multiples of the grid, where the neighbours rest on that.

    A coordinate that several units add to is truncated once: its fraction lets one contribution move it a step more
    than ⌊bound / resolution⌋ counts (`L1`). By type, not by value: an error must not reveal data.
    """
    _refuse_sketches(neighbours)
    if neighbours.whole_steps and not (values.kind in "iu" and projection.grid.numerator == 1):
        raise InvalidInputError(
            f"for {neighbours.label} neighbours a whole vector must hold integers, on a resolution of 1 or 1/n; got "
            f"{values} on {projection.grid}: its fractions are truncated together, which moves a step more than the "
            f"bound counts. Round contributions to the grid before adding them up and pass the integers, or use "
            f"OneCoordinate"
        )


def sensitivity_of(projection: Projection, neighbours: Neighbours, layout: Layout = CELLS) -> Sensitivity:
    """Return how far one unit can move its sketches, in all keys together, and what is published beside them.

    For the cells alone it is `Neighbours.sensitivity`; for others, see `Layout.sensitivity`.
    """
    check_neighbours(neighbours)
    return layout.sensitivity(projection, neighbours)


def most_in_a_cell(projection: Projection, neighbours: Neighbours, layout: Layout = CELLS) -> int:
    """Return how far one unit can move a single cell or count at most, in grid steps; of a row, in all its windows."""
    return layout.most_in_a_cell(projection, neighbours)


def guarantee_of(
    noise: Noise,
    budget: Budget,
    neighbours: Neighbours,
    *,
    layers: int = 1,
    place: NoisePlace = "output",
    layout: Layout = CELLS,
) -> Guarantee:
    """Return what noise calibrated to a budget guarantees: Laplace noise gives δ = 0, whatever the budget's δ.

    Parameters
    ----------
    noise, layers, place, layout
        As in `AddedNoise`.
    budget, neighbours
        What the noise was calibrated to; for rows, the unit is that of all their windows (`Schedule.unit_text`).

    Raises
    ------
    InvalidInputError
        As in `check_carried`.
    """
    check_carried(neighbours)
    mechanism = Mechanism.of_noise(noise, layers=layers, place=place, layout=layout)
    return Guarantee.of(noise.spends(budget), neighbours, mechanism)


def check_carried(neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` if the exchange format could not carry the bound: better before noise is drawn."""
    bound = Fraction(neighbours.bound)
    if max(bound.numerator, bound.denominator) > _MOST:
        raise InvalidInputError(f"the bound of a release must be a ratio of 63-bit integers, got {short(bound)}")


def mechanisms(
    projection: Projection, *, epsilon: float, neighbours: Neighbours, delta: float = 0.0
) -> list[Candidate]:
    """Return the mechanisms that give (ε, δ), with their noise and predicted variance. The automatic choice is first.

    Parameters
    ----------
    projection
        The public map.
    epsilon, delta, neighbours
        As in `Sketch.release`.

    Returns
    -------
    list of Candidate
        ``variance`` is the noise's part of the variance of a squared distance between close streams, in data units to
        the fourth power. It can be compared between projections.

    Raises
    ------
    InvalidInputError
        If ε or δ is out of range, or if the noise of every mechanism is too wide to sample.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=1)
    >>> [option.mechanism for option in mechanisms(projection, epsilon=1.0, delta=1e-6, neighbours=L1(1))]
    ['laplace', 'gaussian']
    """
    check_mechanism(neighbours, Budget(epsilon, delta), "auto" if delta else DiscreteLaplace.name)
    options = candidates(sensitivity_of(projection, neighbours), Budget(epsilon, delta))
    return [dataclasses.replace(option, variance=option.variance * projection.cell_unit**4) for option in options]
