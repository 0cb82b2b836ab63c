"""What a published sign is on average, by how large its cell is: where flips depend on it, and where they do not."""

import math
from numbers import Real
from typing import NamedTuple, cast

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Ints, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.projections.base import Projection, check_entries
from streamsketch.signs.individual import noise_near_zero
from streamsketch.signs.sign_changes import cell_steps
from streamsketch.signs.sign_curve import Gain
from streamsketch.signs.sketch import IndividualSignSketch, Method, Signs, SignSketch

_GROUPS = 8  # of rows, where their steps differ
_MAX_NORM = 1e300
_MOST_STEPS = 2.0**64  # the cells of longer vectors do not fit their integers


def constant_gain(flipped: FlipLaw | Method) -> float:
    """Return c = tanh(rate / 2) of constant flips, 0 for others."""
    if isinstance(flipped, FlipLaw) and flipped.shape == "constant":
        return math.tanh(float(flipped.rate) / 2)
    return 0.0


def check_norm(norm: float | None) -> float:
    """Return a norm that is positive and finite; raise `InvalidInputError` for another one or none."""
    if norm is None:
        raise InvalidInputError(
            "these signs were flipped with probabilities that depend on the cells' size; pass norm_x and norm_y, the "
            "vectors' Euclidean norms, if they are public. Without them, rank by Hamming distances"
        )
    if isinstance(norm, bool) or not (isinstance(norm, Real) and 0 < norm < _MAX_NORM):
        raise InvalidInputError(f"a norm must be a positive, finite number below {_MAX_NORM:g}, got {short(norm)}")
    return float(norm)


class Cells(NamedTuple):
    """What a release's gains follow from; hashable, so that a collection of equal norms is integrated once."""

    law: FlipLaw | Method
    budget: Budget
    cells: int
    """k."""
    deviation: float
    """Of a cell, in grid steps."""
    steps: tuple[float, ...]
    """How far a neighbour moves a cell: the mean of each of a few groups of rows."""


def cells_of(
    projection: Projection, flipped: FlipLaw | Method, guarantee: Guarantee | IndividualGuarantee, norm: float
) -> Cells:
    """Return what the gains of a release follow from, ``norm`` that of its vector in data units.

    Raises
    ------
    InvalidInputError
        For a norm that no sketch has, and where the largest entries of a row take more than `Limits` allow.
    """
    in_steps = norm / float(projection.grid)
    if not 1 / _MOST_STEPS <= in_steps <= _MOST_STEPS:
        raise InvalidInputError(
            f"a norm of {norm:g} is {in_steps:.3g} steps of the projection's grid of {projection.grid}, outside "
            f"[2^-64, 2^64]; norms are in the data's units"
        )
    check_entries(projection, "row maxima")
    steps = cell_steps(projection, guarantee.neighbours)
    return Cells(
        flipped,
        guarantee.budget,
        projection.sketch_dim,
        norm / (projection.cell_unit * math.sqrt(projection.sketch_dim)),
        tuple(float(steps[rows].mean()) for rows in _groups(steps)),
    )


def row_groups(projection: Projection, guarantee: Guarantee | IndividualGuarantee) -> list[Ints]:
    """Return the cells of each group of `Cells.steps`."""
    return _groups(cell_steps(projection, guarantee.neighbours))


def _groups(steps: Ints) -> list[Ints]:
    order = np.argsort(steps, kind="stable")
    return np.array_split(order, 1 if steps[order[0]] == steps[order[-1]] else min(_GROUPS, steps.size))


def flipped_by(release: Signs) -> FlipLaw | Method:
    """Return the law of a release's flips, or its method."""
    return release.law if isinstance(release, SignSketch) else cast("IndividualSignSketch", release).method


def gain_of(release: Cells, group: int) -> Gain:
    """Return E[published sign] as a function of a standard normal cell."""
    law, step, deviation = release.law, release.steps[min(group, len(release.steps) - 1)], release.deviation
    if isinstance(law, FlipLaw):
        return lambda cells: law.gain(cells * deviation, step)
    reach = step / deviation  # of cells near zero
    inner = _gain_near_zero(release, law, reach, step)
    return lambda cells: np.where(np.abs(cells) <= reach, inner(cells), np.sign(cells))


def _gain_near_zero(release: Cells, method: Method, reach: float, step: float) -> Gain:
    """Return the gain of the cells that were perturbed, whose number is taken to be its expectation."""
    count = max(1.0, release.cells * (2 * float(special.ndtr(reach)) - 1))
    if method in ("iDP-SignRP-G", "iDP-SignOPORP-G"):
        moved = 1.0 if method == "iDP-SignOPORP-G" else count
        noise = noise_near_zero(math.ceil(moved * step * step), math.ceil(moved), release.budget)
        scale = release.deviation / math.sqrt(2 * noise.cumulants.k2)
        return lambda cells: special.erf(cells * scale)
    share = release.budget.epsilon if method == "iDP-SignOPORP" else release.budget.epsilon / count
    return lambda cells: np.sign(cells) * math.tanh(share / 2)
