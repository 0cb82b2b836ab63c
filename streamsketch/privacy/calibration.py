"""How much noise a guarantee takes, on the integer lattice."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import check_budget
from streamsketch.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise, squared_distance_variance

Mechanism: TypeAlias = Literal["auto", "laplace", "gaussian", "least-variance"]
MECHANISMS: tuple[str, ...] = get_args(Mechanism)

_NEVER = -1e9  # the logarithm of a δ too small to compute; finite, for the root finder
_ROUNDING_VARIANCE = 3  # τ² of THEORY.md 3: rounding a continuous Gaussian to the lattice
_LAPLACE_BITS = 24  # kept below the leading bit of a scale, so rounding up costs at most 2^-24 of it
_MAX_DELTA = 1 - 1e-6  # calibrating to less is sound; nearer to 1 the solver loses its digits
_NO_DELTA = "Gaussian noise never gives delta = 0: set delta (say 1e-9), or use mechanism='laplace'"
_GAUSSIAN_BITS = 8  # fractional bits of a small σ²; from 2^16 on it is an integer


@dataclasses.dataclass(frozen=True)
class Sensitivity:
    """How far one privacy unit can move the published integer vector.

    Parameters
    ----------
    l1
        D1, the ℓ1 distance in grid steps.
    l2_squared
        D2², the squared ℓ2 distance in grid steps².
    cells
        How many cells are published.
    layers
        How many independent noises each published cell carries, all of them seen by somebody.

    Raises
    ------
    InvalidInputError
        If no unit moves anything, as with a map whose columns are all zero.
    """

    l1: int
    l2_squared: int
    cells: int
    layers: int = 1

    def __post_init__(self) -> None:
        if self.l1 < 1 or self.l2_squared < 1:
            raise InvalidInputError(
                f"no contribution moves any cell: the sensitivities are l1={self.l1} and l2²={self.l2_squared}, so "
                f"there is nothing to publish. A sparse map whose columns are all empty does that: use another seed, "
                f"or more cells"
            )

    def over_keys(self, keys: int) -> "Sensitivity":
        """Return that of a table in which one unit moves up to ``keys`` vectors, each as far as this one."""
        return dataclasses.replace(self, l1=keys * self.l1, l2_squared=keys * self.l2_squared, cells=keys * self.cells)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A mechanism that would give the guarantee, and what it would cost.

    Parameters
    ----------
    mechanism
        ``"laplace"`` or ``"gaussian"``.
    noise
        The calibrated distribution.
    variance
        The noise's part of the variance of a squared distance between two close streams released with it, in
        grid steps⁴ (THEORY.md 4).
    """

    mechanism: str
    noise: Noise
    variance: float


def laplace(sensitivity: Sensitivity, epsilon: float) -> DiscreteLaplace:
    """Return the discrete Laplace noise of scale D1/ε that makes the integer vector ε-DP.

    Source: Dwork and Roth 2014, Theorem 3.6; on the lattice the pmf ratio at ℓ1 distance D is at most
    exp(D / scale), for any number of cells. The scale is an exact rational, rounded up.
    """
    scale = Fraction(sensitivity.l1) / Fraction(epsilon)
    if scale.numerator.bit_length() > 2 * _LAPLACE_BITS or scale.denominator.bit_length() > 2 * _LAPLACE_BITS:
        whole_bits = max(0, math.floor(scale).bit_length())
        scale = _round_up(scale, max(0, _LAPLACE_BITS - whole_bits) if whole_bits else 2 * _LAPLACE_BITS - 1)
    return DiscreteLaplace(scale)


def gaussian(sensitivity: Sensitivity, epsilon: float, delta: float) -> DiscreteGaussian:
    """Return the discrete Gaussian noise that makes the integer vector (ε, δ)-DP.

    σ² = (σ_BW · D2)² + 3, rounded up: if N(0, σ² - τ²) is (ε, δ)-DP at sensitivity D2, then N_Z(0, σ²) is
    (ε + 2kη, e^{kη}δ)-DP, with η = 7.7e-26 at τ² = 3 (THEORY.md 3: the lattice Gaussian is a data-independent
    rounding of the continuous one). The continuous σ used verbatim would exceed δ. The calibration
    to (ε - 2kη, e^{-kη}δ) covers η, the margin of 1e-7 on σ_BW the solver's error.

    Raises
    ------
    InvalidInputError
        For δ = 0, which no Gaussian gives.
    """
    if delta == 0:
        raise InvalidInputError(_NO_DELTA)
    eta = 7.7e-26 * sensitivity.cells * sensitivity.layers
    target = min(delta, _MAX_DELTA) * math.exp(-eta)
    sigma = Fraction(gaussian_sigma(epsilon - 2 * eta, target)) * Fraction(1 + 1e-7)
    variance = sigma**2 * sensitivity.l2_squared + _ROUNDING_VARIANCE
    return DiscreteGaussian(_round_up(variance, _GAUSSIAN_BITS if variance < 1 << 16 else 0))


@functools.lru_cache(maxsize=1024)
def gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return σ_BW, the least σ at which continuous N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1.

    Source: Balle and Wang 2018, Theorem 8: Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ) ≤ δ, solved for log σ.

    Examples
    --------
    >>> round(gaussian_sigma(1.0, 1e-9), 6)
    5.495266
    """

    def excess(log_sigma: float) -> float:
        return gaussian_log_delta(epsilon, math.exp(log_sigma)) - math.log(delta)

    low = high = 0.0
    while excess(low) < 0:
        low -= 1
    while excess(high) > 0:
        high += 1
    return math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14))


def gaussian_log_delta(epsilon: float, sigma: float) -> float:
    """Return the logarithm of the least δ for which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1."""
    near, far = epsilon * sigma - 1 / (2 * sigma), epsilon * sigma + 1 / (2 * sigma)
    if near < 0:
        first, second = float(log_ndtr(-near)), epsilon + float(log_ndtr(-far))
        return first + math.log(-math.expm1(second - first)) if second < first else _NEVER
    # Φ(-x) = erfcx(x/√2) exp(-x²/2) / 2 and far² - near² = 2ε: the two exponentials are one, and what is
    # left loses fewer digits than the difference of two logarithms
    difference = float(erfcx(near / math.sqrt(2)) - erfcx(far / math.sqrt(2)))
    return math.log(difference / 2) - near**2 / 2 if difference > 0 else _NEVER


def candidates(sensitivity: Sensitivity, epsilon: float, delta: float) -> list[Candidate]:
    """Return the mechanisms that give (ε, δ), with their predicted variance, the automatic choice first.

    A mechanism whose noise would be too wide to sample is left out, or refused if there is no other.
    The automatic choice is Laplace when δ < exp(-D1²/D2²), else Gaussian (Stausholm 2021, Note 5); for an SJLT
    that is δ < e^{-s}. The rule ignores constants, so the other one may have the smaller variance.
    """
    epsilon, delta = check_budget(epsilon, delta)
    names = ["laplace"]
    if delta > 0:
        names.append("gaussian")
        if math.log(delta) >= -(sensitivity.l1**2) / sensitivity.l2_squared:
            names.reverse()
    found, refusals = [], []
    for name in names:
        try:
            found.append(_candidate(name, sensitivity, epsilon, delta))
        except InvalidInputError as refusal:  # too wide to sample; the other may not be
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return found


def choose(sensitivity: Sensitivity, epsilon: float, delta: float, mechanism: Mechanism) -> Noise:
    """Return the noise of the mechanism asked for.

    Parameters
    ----------
    mechanism
        ``"laplace"``, ``"gaussian"``; ``"auto"``, the first of `candidates`; ``"least-variance"``, the one of
        them with the least predicted variance.

    Raises
    ------
    InvalidInputError
        For ε ≤ 0, δ outside [0, 1), Gaussian with δ = 0, another mechanism, or noise too wide to sample.
    """
    epsilon, delta = check_choice(epsilon, delta, mechanism)
    if mechanism in ("laplace", "gaussian"):
        return _candidate(mechanism, sensitivity, epsilon, delta).noise
    options = candidates(sensitivity, epsilon, delta)
    if mechanism == "least-variance":
        options.sort(key=lambda candidate: candidate.variance)
    return options[0].noise


def check_choice(epsilon: float, delta: float, mechanism: str) -> tuple[float, float]:
    """Return (ε, δ) as floats; raise `InvalidInputError` for what no sensitivity would make a release of."""
    budget = check_budget(epsilon, delta)
    if not (isinstance(mechanism, str) and mechanism in MECHANISMS):
        raise InvalidInputError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {mechanism!r:.40}")
    if mechanism == "gaussian" and budget[1] == 0:
        raise InvalidInputError(_NO_DELTA)
    return budget


def _candidate(mechanism: str, sensitivity: Sensitivity, epsilon: float, delta: float) -> Candidate:
    noise: Noise = laplace(sensitivity, epsilon) if mechanism == "laplace" else gaussian(sensitivity, epsilon, delta)
    layered = noise.cumulants.times(sensitivity.layers)
    return Candidate(mechanism, noise, squared_distance_variance(layered, sensitivity.cells))


def _round_up(value: Fraction, fractional_bits: int) -> Fraction:
    return Fraction(math.ceil(value * (1 << fractional_bits)), 1 << fractional_bits)
