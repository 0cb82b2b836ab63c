"""Whether the noise that one release states is enough for its guarantee."""

import dataclasses
import math
from typing import Literal

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core import sentences
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import AddedNoise, NoisePlace
from streamsketch.privacy.noise import Noise, NoiseMoments, Sensitivity
from streamsketch.projections.base import MatrixNumber, Projection, check_entries
from streamsketch.release.history import HistoryPart

Verdict = Literal["enough", "too little", "not checked"]

_TOLERANCE = 1e-6  # the calibration's own margins
_MOST_HALVINGS = 62  # a multiplier is a ratio of 63-bit integers
MOST_BLOCKS = 1 << 23  # in all schedules of a release, at most: checking them takes some seconds and 0.5 GB


@dataclasses.dataclass(frozen=True)
class NoiseCheck:
    """Whether the noise is enough for the guarantee, given the sensitivity of the projection under the bound.

    Parameters
    ----------
    verdict
        ``"enough"``, ``"too little"`` or ``"not checked"``; the last one is no judgement.
    reason
        A sentence.
    sigma
        For enough Gaussian noise, its standard deviation divided by the ℓ2 sensitivity (without the share of rounding).
    """

    verdict: Verdict
    reason: str
    sigma: float | None = None


def check_noise(
    guarantee: Guarantee,
    projection: Projection,
    noise: NoiseMoments,
    place: NoisePlace,
    *,
    most_entries: int | None = None,
    history: HistoryPart | None = None,
) -> NoiseCheck:
    """Compare the noise that one release states with the noise that its guarantee requires; see `NoiseCheck`.

    Parameters
    ----------
    guarantee, projection
        Of the release.
    noise, place
        The cumulants that its estimates use, and where the noise was added.
    most_entries
        Larger random matrices are not read for their sensitivity, and schedules of as many windows are not computed.
    history
        For what is published by a schedule, which part of the history it is.
    """
    mechanism = guarantee.mechanism
    if not mechanism.is_record:
        return NoiseCheck("not checked", sentences.ONLY_TEXT)
    step = mechanism.the_noise
    if step is None:
        return NoiseCheck("not checked", sentences.NO_SINGLE_NOISE)
    if step.layout.most_blocks > (most_entries or MOST_BLOCKS):
        return NoiseCheck("not checked", f"its schedule has up to {step.layout.most_blocks:,} blocks to look through")
    if not step.layout.is_unit(unit := guarantee.neighbours.unit):
        return NoiseCheck("too little", f"it is for one {unit}, and its noise for a unit{step.layout.unit_text('')}")
    if (assumed := _assumed_otherwise(step, noise, place, history)) is not None:
        return NoiseCheck("too little", assumed)
    return judge(step.noise, guarantee, (projection, place), most_entries=most_entries)


def _assumed_otherwise(
    step: AddedNoise, noise: NoiseMoments, place: NoisePlace, history: HistoryPart | None
) -> str | None:
    """Return how the noise that estimates assume differs from what a mechanism adds; None if it does not."""
    if step.place != place:
        return f"its mechanism adds noise to the {step.place}, and its estimates assume that of the {place}"
    what, used, alike = sentences.NOISE_OF_MECHANISM.format(noise=step.noise), step.cumulants, agree
    if history is not None and step.layout.by_rows and not history.is_row:
        what, used, alike = f"that of {history} by its schedule", history.noise(step.layout, used), _agree_on_lattice
    if alike(noise, used):
        return None
    return sentences.OTHER_NOISE.format(
        noise=what, stated2=f"{noise.k2:.6g}", stated4=f"{noise.k4:.6g}", used2=f"{used.k2:.6g}", used4=f"{used.k4:.6g}"
    )


def judge(
    noise: Noise, guarantee: Guarantee, where: tuple[Projection, NoisePlace], *, most_entries: int | None = None
) -> NoiseCheck:
    """Compare a noise on a projection, at a place, with what is left of a guarantee after the share of the keys."""
    projection, place = where
    number = guarantee.neighbours.matrix_number
    unread = unread_matrix(projection, number, most_entries=most_entries) if place == "output" else None
    if unread is not None:
        return unread
    try:
        sensitivity = _sensitivity(guarantee, projection, place)
    except InvalidInputError as error:  # a bound below the grid, or a map that nothing moves
        return NoiseCheck("not checked", str(error))
    return _judge(noise, sensitivity, guarantee)


def unread_matrix(
    projection: Projection, number: MatrixNumber | None, *, most_entries: int | None = None
) -> NoiseCheck | None:
    """Return why nothing is checked if a matrix is too large to read for its sensitivity; None if it may be read."""
    if number is None:
        return None
    try:
        check_entries(projection, number)
    except InvalidInputError as error:
        return NoiseCheck("not checked", f"the sensitivity takes the matrix itself, and {error}")
    entries = projection.enumerated_entries(number)
    if most_entries is not None and entries > most_entries:
        return NoiseCheck("not checked", f"the sensitivity of this map takes reading its {entries:,} entries")
    return None


def agree(stated: NoiseMoments, used: NoiseMoments) -> bool:
    """Return whether two noises have the same cumulants, up to rounding."""
    return math.isclose(stated.k2, used.k2, rel_tol=_TOLERANCE) and math.isclose(
        stated.k4, used.k4, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * used.k2**2
    )


def _agree_on_lattice(stated: NoiseMoments, used: NoiseMoments) -> bool:
    """Return whether a range states the noise of its rows, on a lattice of 2^-g grid steps for some whole g."""
    if not (stated.k2 > 0 and used.k2 > 0):
        return False
    halvings = round((math.log2(stated.k2) - math.log2(used.k2)) / 2)  # their ratio may be 0 as a float
    return 0 <= halvings <= _MOST_HALVINGS and agree(stated, used.scaled(2.0**halvings))


def _judge(noise: Noise, sensitivity: Sensitivity, guarantee: Guarantee) -> NoiseCheck:
    keys = guarantee.mechanism.keys
    less = sentences.LESS_FOR_KEYS.format(epsilon=f"{keys.epsilon:g}") if keys else ""
    left = f"{sentences.STATED_EPSILON.format(epsilon=f'{guarantee.epsilon:g}')}{less}"
    try:
        budget = guarantee.budget.minus(keys)
    except InvalidInputError:
        return NoiseCheck("too little", sentences.NOTHING_LEFT.format(stated=left))
    loss = noise.loss(sensitivity, budget)
    if loss.epsilon is None:
        return NoiseCheck("not checked", loss.reason)
    if math.isinf(loss.epsilon):
        return NoiseCheck("too little", loss.reason)
    if loss.epsilon <= budget.epsilon * (1 + _TOLERANCE):
        return NoiseCheck("enough", sentences.WITHIN.format(reason=loss.reason, stated=left), loss.sigma)
    return NoiseCheck("too little", sentences.MORE_THAN.format(reason=loss.reason, stated=left))


def _sensitivity(guarantee: Guarantee, projection: Projection, place: NoisePlace) -> Sensitivity:
    if place == "output":
        return sensitivity_of(projection, guarantee.neighbours, guarantee.mechanism.layout)
    behind = 1 if place == "input" or projection.after_hadamard is None else projection.after_hadamard[0]
    size = projection.dim if place == "input" else behind
    return guarantee.neighbours.sensitivity_before_map(behind, size, projection.grid)
