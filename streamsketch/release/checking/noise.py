"""Whether the noise that one release states is enough for its guarantee."""

import dataclasses
import math
from fractions import Fraction
from typing import Literal

from streamsketch.errors import InvalidInputError
from streamsketch.privacy import (
    Cumulants,
    DiscreteLaplace,
    Guarantee,
    Noise,
    Sensitivity,
    gaussian_epsilon,
    gaussian_log_delta,
)
from streamsketch.projections import Projection, check_entries, entries_of
from streamsketch.release.checking.stated import KeySelection, is_pan_private, key_selection_in, names_keys, noise_in
from streamsketch.release.noise_effect import NoisePlace
from streamsketch.release.sensitivity import grid_steps, sensitivity_of

Verdict = Literal["enough", "too little", "not checked"]

_ROUNDING_VARIANCE = 3  # τ² of THEORY.md 3
_TOLERANCE = 1e-6  # the calibration's own margins


@dataclasses.dataclass(frozen=True)
class NoiseCheck:
    """Whether the noise is enough for the guarantee, by the sensitivity that the projection and the bound give.

    Parameters
    ----------
    verdict
        ``"enough"``, ``"too little"`` or ``"not checked"``, which says nothing either way.
    reason
        A sentence.
    sigma
        For enough Gaussian noise, its standard deviation over the ℓ2 sensitivity (the rounding's share left out).
    """

    verdict: Verdict
    reason: str
    sigma: float | None = None


def check_noise(
    guarantee: Guarantee,
    projection: Projection,
    noise: Cumulants,
    place: NoisePlace,
    *,
    most_entries: int | None = None,
) -> NoiseCheck:
    """Compare the noise that one release states with the noise that its guarantee takes; see `NoiseCheck`.

    Parameters
    ----------
    guarantee, projection
        Of the release.
    noise, place
        The cumulants that its estimates use, and where the noise was added.
    most_entries
        Larger random matrices are not read for their sensitivity.
    """
    stated = noise_in(guarantee)
    if len(stated) != 1:
        return NoiseCheck("not checked", "its text names no single noise, so one sensitivity does not tell")
    (one,) = stated
    expected = one.cumulants.times(2 if is_pan_private(guarantee) else 1)
    if not agree(expected, noise):
        return NoiseCheck(
            "too little",
            f"the estimates assume another noise than the {one} that the text names: the stated cumulants are "
            f"{noise.k2:.6g} and {noise.k4:.6g}, those of that noise {expected.k2:.6g} and {expected.k4:.6g}",
        )
    selection = key_selection_in(guarantee)
    if selection is None and names_keys(guarantee):
        return NoiseCheck("not checked", "its text names a share for the keys that is no ε and δ")
    return judge(one, guarantee, selection or KeySelection(0.0, 0.0), (projection, place), most_entries=most_entries)


def judge(
    noise: Noise,
    guarantee: Guarantee,
    keys: KeySelection,
    where: tuple[Projection, NoisePlace],
    *,
    most_entries: int | None = None,
) -> NoiseCheck:
    """Compare a noise on a projection, at a place, with what is left of a guarantee after the share of the keys."""
    projection, place = where
    unread = unread_matrix(projection, most_entries) if place == "output" else None
    if unread is not None:
        return unread
    try:
        sensitivity = _sensitivity(guarantee, projection, place)
    except InvalidInputError as error:  # a bound below the grid, or a map that nothing moves
        return NoiseCheck("not checked", str(error))
    return _judge(noise, sensitivity, guarantee, keys)


def unread_matrix(projection: Projection, most_entries: int | None = None) -> NoiseCheck | None:
    """Return why nothing is checked, for a random matrix too large to be read for its sensitivity; else None."""
    try:
        check_entries(projection)
    except InvalidInputError as error:
        return NoiseCheck("not checked", f"the sensitivity takes the matrix itself, and {error}")
    entries = entries_of(projection)
    if most_entries is not None and entries > most_entries:
        return NoiseCheck("not checked", f"the sensitivity of this map takes reading its {entries:,} entries")
    return None


def agree(stated: Cumulants, used: Cumulants) -> bool:
    """Return whether two noises have the same cumulants, up to rounding."""
    return math.isclose(stated.k2, used.k2, rel_tol=_TOLERANCE) and math.isclose(
        stated.k4, used.k4, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * used.k2**2
    )


def _judge(noise: Noise, sensitivity: Sensitivity, guarantee: Guarantee, keys: KeySelection) -> NoiseCheck:
    epsilon, delta = guarantee.epsilon - keys.epsilon, guarantee.delta - keys.delta
    left = f"the promised ε = {guarantee.epsilon:g}" + (f", less {keys.epsilon:g} for the keys" if keys.epsilon else "")
    if isinstance(noise, DiscreteLaplace):
        spent = float(sensitivity.l1 / noise.scale)
        found = f"scale {_short(noise.scale)} at ℓ1 sensitivity {sensitivity.l1:,} gives ε = {spent:.4g}"
        sigma = None
    else:
        spare = float(noise.sigma_squared) - _ROUNDING_VARIANCE
        if delta <= 0:
            return NoiseCheck("too little", f"Gaussian noise gives no ε at δ = {max(delta, 0.0):g}")
        if spare <= 0:
            return NoiseCheck("not checked", f"{noise} is narrower than any that the theorem here covers")
        sigma = math.sqrt(spare / sensitivity.l2_squared)
        spent = gaussian_epsilon(sigma, delta)
        if gaussian_log_delta(max(epsilon, 0.0), sigma) <= math.log(delta) + _TOLERANCE:
            spent = min(spent, epsilon)  # the solver's last digit
        found = (
            f"variance {_short(noise.sigma_squared)} at ℓ2 sensitivity {math.sqrt(sensitivity.l2_squared):.6g} gives "
            f"ε = {spent:.4g} at δ = {delta:.4g}"
        )
    if spent <= epsilon * (1 + _TOLERANCE):
        return NoiseCheck("enough", f"{found}, within {left}", sigma)
    return NoiseCheck("too little", f"{found}, more than {left}")


def _sensitivity(guarantee: Guarantee, projection: Projection, place: NoisePlace) -> Sensitivity:
    if place == "output":
        return sensitivity_of(projection, guarantee.neighbours)
    steps = grid_steps(projection, guarantee.neighbours)
    size = 1 if place == "input" or projection.after_hadamard is None else projection.after_hadamard[0]
    return Sensitivity(size * steps, size * steps**2, size).over_keys(guarantee.neighbours.max_keys)


def _short(value: Fraction) -> str:
    return f"{value}" if value.denominator == 1 else f"{float(value):.6g}"
