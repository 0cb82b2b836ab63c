"""Whether the noise that a release states is enough for what it promises."""

import dataclasses
import math
import re
from fractions import Fraction
from typing import Literal

from streamsketch.errors import InvalidInputError
from streamsketch.noise_effect import NoisePlace
from streamsketch.privacy.accounting import gaussian_epsilon
from streamsketch.privacy.calibration import Sensitivity, gaussian_log_delta
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.noise import Cumulants, DiscreteGaussian, DiscreteLaplace, Noise
from streamsketch.projections import Projection
from streamsketch.projections.reading import check_entries
from streamsketch.sensitivity import grid_steps, sensitivity_of

Verdict = Literal["enough", "too little", "not checked"]

KEYS_THEOREM = "Korolova et al. 2009 for the keys, with Dwork and Roth 2014, Theorem 3.16 (THEORY.md 4.2)"

_NOISE = re.compile(r"discrete (Laplace, scale|Gaussian, variance) (\d+(?:/\d+)?)(?=[,;]|$)")
_KEYS = re.compile(r"Laplace threshold for the keys, ε = ([0-9.e+-]+), δ = ([0-9.e+-]+)")
_ROUNDING_VARIANCE = 3  # τ² of THEORY.md 3
_TOLERANCE = 1e-6  # the calibration's own margins


@dataclasses.dataclass(frozen=True)
class NoiseCheck:
    """Whether the noise is enough for the promise, by the sensitivity that the projection and the bound give.

    Parameters
    ----------
    verdict
        ``"enough"``, ``"too little"`` or ``"not checked"``.
    reason
        A sentence.
    sigma
        For enough Gaussian noise, its standard deviation over the ℓ2 sensitivity (the rounding's share left out).
    """

    verdict: Verdict
    reason: str
    sigma: float | None = None


@dataclasses.dataclass(frozen=True)
class KeySelection:
    """The share of a guarantee that went into choosing the keys."""

    epsilon: float
    delta: float

    @property
    def said(self) -> str:
        """That share, in a sentence."""
        return f"Which keys are published was chosen privately, with ε = {self.epsilon:g}, δ = {self.delta:g} of it."


def noise_in(guarantee: Guarantee) -> list[Noise]:
    """Return the noises that a guarantee's text names, as far as it can be read."""
    found: list[Noise] = []
    for name, amount in _NOISE.findall(guarantee.mechanism):
        try:
            size = Fraction(amount)
            found.append(DiscreteLaplace(size) if name.startswith("Laplace") else DiscreteGaussian(size))
        except (InvalidInputError, ZeroDivisionError):  # a stranger's text
            continue
    return found


def key_selection_in(guarantee: Guarantee) -> KeySelection | None:
    """Return the share of the key selection that a guarantee's text names."""
    match = _KEYS.search(guarantee.mechanism)
    try:
        epsilon, delta = (0.0, 0.0) if match is None else (float(match[1]), float(match[2]))
    except ValueError:
        return None
    return KeySelection(epsilon, delta) if 0 < epsilon < math.inf and 0 < delta < 1 else None


def is_pan_private(guarantee: Guarantee) -> bool:
    """Return whether the text names noise inside the sketch and on release."""
    return "inside and on release" in guarantee.mechanism


def check_noise(
    guarantee: Guarantee, projection: Projection, noise: Cumulants, place: NoisePlace, releases: int
) -> NoiseCheck:
    """Compare the noise stated with the noise that the promise takes; see `NoiseCheck`.

    Parameters
    ----------
    guarantee, projection
        Of the release.
    noise, place
        The cumulants that its estimates use, and where the noise was added.
    releases
        How many releases went into it.
    """
    stated = noise_in(guarantee)
    if releases > 1 or len(stated) != 1:
        what = f"{releases} releases went into it" if releases > 1 else "its text names no single noise"
        return NoiseCheck("not checked", f"{what}, so one sensitivity does not tell")
    (one,) = stated
    if not _agree(one.cumulants.times(2 if is_pan_private(guarantee) else 1), noise):
        return NoiseCheck("too little", f"the estimates assume another noise than the {one} that the text names")
    selection = key_selection_in(guarantee)
    if selection is None and _KEYS.search(guarantee.mechanism):
        return NoiseCheck("not checked", "its text names a share for the keys that is no ε and δ")
    unread = unread_matrix(projection) if place == "output" else None
    if unread is not None:
        return unread
    try:
        sensitivity = _sensitivity(guarantee, projection, place)
    except InvalidInputError as error:  # a bound below the grid, or a map that nothing moves
        return NoiseCheck("not checked", str(error))
    return _judge(one, sensitivity, guarantee, selection or KeySelection(0.0, 0.0))


def unread_matrix(projection: Projection) -> NoiseCheck | None:
    """Return why nothing is checked, for a random matrix too large to be read for its sensitivity; else None."""
    try:
        check_entries(projection)
    except InvalidInputError as error:
        return NoiseCheck("not checked", f"the sensitivity takes the matrix itself, and {error}")
    return None


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


def _agree(stated: Cumulants, used: Cumulants) -> bool:
    return math.isclose(stated.k2, used.k2, rel_tol=_TOLERANCE) and math.isclose(
        stated.k4, used.k4, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * used.k2**2
    )


def _short(value: Fraction) -> str:
    return f"{value}" if value.denominator == 1 else f"{float(value):.6g}"
