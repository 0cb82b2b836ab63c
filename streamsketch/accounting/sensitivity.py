"""How far one privacy unit moves a sketch, and which noise would hide it."""

import dataclasses
import math
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from streamsketch.core import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import (
    L1,
    L2,
    MOST_KEYS,
    Budget,
    Candidate,
    Counting,
    DiscreteLaplace,
    Guarantee,
    Mechanism,
    Neighbours,
    Noise,
    NoisePlace,
    Sensitivity,
    SketchL2,
    calibration,
    candidates,
    check_delta_for,
)
from streamsketch.projections import MatrixNumber, Projection
from streamsketch.schedules import Schedule

_MOST = (1 << 63) - 1
_MOST_COORDINATES = 1 << 24  # for a spectral norm to be worth anything


def check_neighbours(neighbours: Neighbours) -> None:
    """Raise `TypeError` unless it is a neighbour relation."""
    if not isinstance(neighbours, Neighbours):
        raise TypeError(
            f"neighbours must be streamsketch.L1(bound), L2(bound), SketchL2(bound) or OneCoordinate(bound), got a "
            f"{type(neighbours).__name__}"
        )


def grid_steps(projection: Projection, neighbours: Neighbours) -> int:
    """Return Δ̃, how far one unit can move the integer vector x̃ in ℓ1, in grid steps."""
    return neighbours.grid_steps(projection.grid)


def check_steps(projection: Projection, neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` for a bound that is nothing on the projection's grid, or not one on vectors."""
    check_neighbours(neighbours)
    if isinstance(neighbours, SketchL2):
        refuse_vectors(neighbours)
    neighbours.check_steps(projection)


def check_mechanism(neighbours: Neighbours, budget: Budget, mechanism: str) -> None:
    """Raise `TypeError` or `InvalidInputError` for what no projection would make a release of.

    For an object that is not a neighbour relation; as `calibration.check_choice` and `check_delta_for`; and for Laplace
    noise, the only one with δ = 0, where a unit may be in any number of keys: its sums of absolute values have no
    useful bound.
    """
    check_neighbours(neighbours)
    calibration.check_choice(budget, mechanism)
    if neighbours.any_keys and (budget.delta == 0 or mechanism == DiscreteLaplace.name):
        raise InvalidInputError(
            f"Laplace noise hides what a unit changes in all cells, summed up, and {neighbours!r} lets it change the "
            "cells of any number of keys. Set delta (such as 1e-9) for Gaussian noise, or set max_keys, the number "
            "of keys that a unit may be in"
        )
    check_delta_for(neighbours, budget.delta, mechanism)


def refuse_vectors(neighbours: SketchL2) -> NoReturn:
    """Raise `InvalidInputError`, where a release is made of whole vectors."""
    raise InvalidInputError(
        f"{neighbours!r} bounds what a unit changes in an exact sketch, to which the rows of each unit are clipped "
        f"(streamsketch.bound); whole vectors are not. Use L2(bound), or L1 or OneCoordinate, for vectors"
    )


def check_whole_steps(projection: Projection, neighbours: Neighbours, values: np.dtype[Any]) -> None:
    """Raise unless totals of this dtype are sure to be multiples of the grid, where the neighbours rest on that.

    A coordinate that several units add to is truncated once: its fraction lets one contribution move it a step more
    than ⌊bound / resolution⌋ counts (`L1`). By type, not by value: an error must not reveal data.
    """
    if isinstance(neighbours, SketchL2):
        refuse_vectors(neighbours)
    if isinstance(neighbours, L1 | L2) and not (values.kind in "iu" and projection.grid.numerator == 1):
        raise InvalidInputError(
            f"for {neighbours.label} neighbours a whole vector must hold integers, on a resolution of 1 or 1/n; got "
            f"{values} on {projection.grid}: its fractions are truncated together, which moves a step more than the "
            f"bound counts. Round contributions to the grid before adding them up and pass the integers, or use "
            f"OneCoordinate"
        )


def number_for(neighbours: Neighbours) -> MatrixNumber | None:
    """Return what `sensitivity_of` takes of a matrix; None where it takes nothing."""
    if isinstance(neighbours, SketchL2):
        return None
    return "spectral bound" if isinstance(neighbours, L2) else "sensitivities"


def sensitivity_of(
    projection: Projection,
    neighbours: Neighbours,
    counting: Counting | None = None,
    schedule: Schedule | None = None,
) -> Sensitivity:
    """Return how far one unit can move its sketches: D1 = m·Δ1(A)·Δ̃ and D2² = m·Δ2(A)²·Δ̃² for m keys (Theory 2).

    For `L2` neighbours D2² = m·‖A‖₂²·C̃ and D1 = m·√k·√(D2²/m), with a proven bound on the spectral norm (2.1). For
    `SketchL2` neighbours D2² is the bound itself, over all keys, and D1 = √n·D2 for the n cells that a unit may move:
    min(k·m, D2²), as cells move by whole steps. With ``counting`` it is of the cells and the counts beside
    them (`Counting`).

    With ``schedule`` it is of all its rows together, for a unit in as many windows as the schedule says. `SketchL2` is
    then a bound on the sketches of all windows together, the other relations are for each window (Theory 11.2).
    """
    check_neighbours(neighbours)
    if schedule is not None:
        return _of_rows(projection, neighbours, counting, schedule)
    if counting is not None:
        counting.check_free(projection)
        return counting.beside(sensitivity_of(projection, neighbours), neighbours)
    if isinstance(neighbours, SketchL2):
        l2_squared = neighbours.squared_cell_steps(projection)
        moved = min(projection.sketch_dim * neighbours.max_keys, l2_squared)
        return Sensitivity(math.isqrt(moved * l2_squared), l2_squared, projection.sketch_dim, moved=moved)
    if isinstance(neighbours, L2):
        return _of_euclidean(projection, neighbours)
    steps = grid_steps(projection, neighbours)
    one_key = Sensitivity(
        l1=projection.l1_sensitivity * steps,
        l2_squared=projection.l2_sensitivity_squared * steps**2,
        cells=projection.sketch_dim,
    )
    return one_key.over_keys(neighbours.max_keys)


def _of_rows(
    projection: Projection, neighbours: Neighbours, counting: Counting | None, schedule: Schedule
) -> Sensitivity:
    """Return how far one unit moves all rows of a schedule together.

    Row t moves by Σ_j C[t, j]·v_j for a unit that moves window j by v_j, in at most m windows. With every ‖v_j‖ bounded
    norms of the columns apply; with Σ‖v_j‖₂² bounded, the norm of the matrix.
    """
    window, norms = sensitivity_of(projection, neighbours, counting), schedule.norms
    if isinstance(neighbours, SketchL2):
        cells = sensitivity_of(projection, neighbours)
        slots = min(neighbours.max_keys * schedule.most, MOST_KEYS)
        moved = min(projection.sketch_dim * slots, cells.l2_squared)
        # rows move by Σ_j ‖c_j‖₁ ‖v_j‖₁ at most, c_j the columns, and Σ_j ‖v_j‖₁ ≤ √moved · √Σ_j ‖v_j‖₂²
        column = dataclasses.replace(schedule, max_windows=1).norms.l1
        l1 = column * math.isqrt(moved * cells.l2_squared) + norms.l1 * (window.l1 - cells.l1)
        # counts move by their weight in each window, however little the cells do
        l2_squared = norms.together * cells.l2_squared + norms.l2_squared * (window.l2_squared - cells.l2_squared)
    else:
        l1, l2_squared = norms.l1 * window.l1, norms.l2_squared * window.l2_squared
    # a row has what moved in each of a unit's windows, which may be of other keys; each number moves by a whole step
    moved = min(window.moved * schedule.most * schedule.horizon, l2_squared)
    return dataclasses.replace(window, l1=l1, l2_squared=l2_squared, moved=moved)


def most_in_a_cell(
    projection: Projection,
    neighbours: Neighbours,
    counting: Counting | None = None,
    schedule: Schedule | None = None,
) -> int:
    """Return how far one unit can move a single cell or count at most, in grid steps; of a row, in all its windows.

    For ℓ2 bounds that is √(D2²) of one key.
    """
    if schedule is not None:
        return schedule.scale * schedule.most * most_in_a_cell(projection, neighbours, counting)
    if counting is not None:
        return max(most_in_a_cell(projection, neighbours), counting.most_steps(neighbours, projection.grid))
    if isinstance(neighbours, SketchL2):
        return neighbours.cell_steps(projection)
    if isinstance(neighbours, L2):
        return math.isqrt(_of_euclidean(projection, dataclasses.replace(neighbours, max_keys=1)).l2_squared)
    return projection.max_entry * grid_steps(projection, neighbours)


def _of_euclidean(projection: Projection, neighbours: L2) -> Sensitivity:
    bound = projection.spectral_bound if projection.dim <= _MOST_COORDINATES else None
    if bound is None:
        raise InvalidInputError(
            f"L2 neighbours need a map whose spectral norm has a useful bound: Identity, OPORP or SRHT with at most "
            f"2**24 indices, or an SJLT or CountSketch whose dim · sketch_dim is at most 2**26; got {projection.kind} "
            f"with dim={projection.dim}, sketch_dim={projection.sketch_dim}. Use SketchL2(bound), which bounds what a "
            f"unit does to the sketch of any map, or one of these"
        )
    return moved_by_rotation(bound, projection.sketch_dim, projection.grid, neighbours)


def moved_by_rotation(bound: int, cells: int, grid: Fraction, neighbours: L2) -> Sensitivity:
    """Return how far one unit moves ``cells`` integers under a map whose squared spectral norm is ``bound`` at most."""
    l2_squared = bound * neighbours.squared_steps(grid)
    one_key = Sensitivity(l1=math.isqrt(cells * l2_squared), l2_squared=l2_squared, cells=cells)
    return one_key.over_keys(neighbours.max_keys)


def moved_before_map(columns: int, size: int, grid: Fraction, neighbours: Neighbours) -> Sensitivity:
    """Return how far one unit moves ``size`` coordinates before a map, if one of its steps moves ``columns`` by 1.

    They are x̃ itself, or that behind a Hadamard transform of squared norm ``columns``.
    """
    if isinstance(neighbours, L2):
        return moved_by_rotation(columns, size, grid, neighbours)
    steps = neighbours.grid_steps(grid)
    return Sensitivity(columns * steps, columns * steps**2, size).over_keys(neighbours.max_keys)


def guarantee_of(
    noise: Noise,
    budget: Budget,
    neighbours: Neighbours,
    *,
    layers: int = 1,
    place: NoisePlace = "output",
    counting: Counting | None = None,
    schedule: Schedule | None = None,
) -> Guarantee:
    """Return what noise calibrated to a budget guarantees: Laplace noise gives δ = 0, whatever the budget's δ.

    Parameters
    ----------
    noise, layers, place, counting, schedule
        As in `AddedNoise`.
    budget, neighbours
        What the noise was calibrated to; with a schedule the unit is that of all its windows (`Schedule.unit_text`).

    Raises
    ------
    InvalidInputError
        As in `check_carried`.
    """
    check_carried(neighbours)
    mechanism = Mechanism.of_noise(noise, layers=layers, place=place, counting=counting, schedule=schedule)
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
