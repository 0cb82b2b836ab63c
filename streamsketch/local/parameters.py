"""The cap probabilities p and q₁ of least error, found once for each dimension and ε.

PrivUnit and PrivUnitG put their output into the cap {⟨V, v⟩ ≥ γ} with probability p; independently of v the cap has
mass q₁ (1 - q in the papers). They are ε-LDP if and only if (p / q₁) · ((1 - q₁) / (1 - p)) ≤ e^ε. Equality leaves one
free parameter, b = ln(p / (1-p)), the share of ε that is spent on p; ln(q₁ / (1-q₁)) = b - ε. The error as a function
of b has one minimum (Asi, Feldman and Talwar 2022, Section 4). It is found numerically and rounded to a grid of 2^-10,
finer below ε = 1, so that machines with different libraries find the same b and the same caps. This costs about 10^-7
of the error and no privacy: every b spends ε, up to at most two of the 2^52 words that decide p.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from streamsketch.core.libraries import optimize, scipy_special
from streamsketch.local.portable_floats import round_portably

MIN_EPSILON, MAX_EPSILON = 2.0**-10, 256.0

_GRID = 2.0**-10  # of b, for ε from 1 on
_MOST = 24.0  # of b: beyond it too few of the 2^52 words that decide p would represent 1 - p
_WORDS = 2.0**52  # see `normal.uniforms`

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


class GaussianCap(NamedTuple):
    """Parameters of PrivUnitG in R^k; components along v are in multiples of the standard deviation 1/√k.

    Attributes
    ----------
    inside
        p, the probability of the cap: a multiple of 2^-52, rounded down.
    mass
        q₁, the cap's mass under N(0, 1).
    threshold
        g = Φ⁻¹(1 - q₁), where the cap begins.
    scale
        τ = 1/μ with μ = E α the mean along v: the factor of the output. It is rounded to 32 bits, so that all servers
        agree on it, which changes the mean by at most a factor 1 ± 2^-32.
    """

    inside: float
    mass: float
    threshold: float
    scale: float

    def squared_norm(self, dim: float, along: float = 1.0) -> float:
        """Return E‖Wᵀû‖² for tr(WᵀW) = dim and E‖Wᵀu‖² = along: d·τ² + along·g·τ (Theory 7)."""
        return dim * self.scale**2 + along * self.threshold * self.scale


class SphereCap(NamedTuple):
    """Parameters of PrivUnit on the sphere of R^d.

    Attributes
    ----------
    inside
        p, the probability of the cap: a multiple of 2^-52, rounded down.
    mass
        q₁, the cap's share of the sphere.
    threshold
        γ, the least ⟨V, v⟩ in the cap.
    mean
        m = E⟨V, v⟩, the divisor of the output.
    deficit
        1 - m, without cancellation.
    """

    inside: float
    mass: float
    threshold: float
    mean: float
    deficit: float

    @property
    def squared_error(self) -> float:
        """1/m² - 1, without cancellation."""
        return self.deficit * (1 + self.mean) / (self.mean * self.mean)


@functools.lru_cache(maxsize=1024)
def gaussian_cap(dim: int, epsilon: float) -> GaussianCap:
    """Return the parameters that minimise PrivUnitG's error d·τ² + g·τ - 1 in R^dim.

    Source: Asi et al. 2023, Algorithm 8; Theory 7 for the error.

    Examples
    --------
    >>> cap = gaussian_cap(1 << 15, 10.0)
    >>> round(cap.inside, 4), round(cap.threshold, 3), round(cap.squared_norm(1 << 15) - 1, 1)
    (0.9247, 3.26, 3083.2)
    """
    # without τ's rounding, which would move the minimum where the error is flat
    cap = _gaussian(_least(lambda share: _gaussian(share, epsilon).squared_norm(dim), epsilon), epsilon)
    return cap._replace(scale=round_portably(cap.scale))


@functools.lru_cache(maxsize=1024)
def sphere_cap(dim: int, epsilon: float) -> SphereCap:
    """Return the parameters that minimise PrivUnit's error 1/m² - 1 on the sphere of R^dim, dim ≥ 2.

    Caps are exact, by the inverse of the incomplete beta function; closed-form bounds on them would increase the error
    up to 1.4 times. Source: Bhowmick et al. 2018, with the choice of p of Asi, Feldman and Talwar 2022.

    Examples
    --------
    >>> cap = sphere_cap(1 << 15, 10.0)
    >>> round(1 / cap.mean**2 - 1, 1)
    3082.6
    """
    return _sphere(_least(lambda share: math.log(_sphere(share, dim, epsilon).squared_error), epsilon), dim, epsilon)


def _least(error: Callable[[float], float], epsilon: float) -> float:
    most = min(epsilon, _MOST)
    minimum = optimize.minimize_scalar(
        error, bounds=(0.0, most), method="bounded", options={"xatol": 1e-9 * max(1.0, epsilon)}
    )
    grid = _GRID * min(1.0, 2.0 ** math.floor(math.log2(epsilon)))
    return min(grid * max(1, round(float(minimum.x) / grid)), most - grid)


def _masses(share: float, epsilon: float) -> tuple[float, float, float, float]:
    """Return p, ln q₁, ln(1 - q₁) and p/q₁ - (1-p)/(1-q₁) = (1 - e^-ε) p/q₁."""
    log_mass = float(scipy_special.log_expit(share - epsilon))
    # whole words for 1 - p, plus one, which outweighs the rounding of the logarithms
    outside = (math.ceil(math.exp(float(scipy_special.log_expit(-share))) * _WORDS) + 1) / _WORDS
    inside = 1 - outside
    return (
        inside,
        log_mass,
        float(scipy_special.log_expit(epsilon - share)),
        -math.expm1(-epsilon) * inside * math.exp(-log_mass),
    )


def _gaussian(share: float, epsilon: float) -> GaussianCap:
    inside, log_mass, _, gain = _masses(share, epsilon)
    threshold = -float(scipy_special.ndtri_exp(log_mass))
    density = math.exp(-threshold * threshold / 2 - _LOG_ROOT_2_PI)
    return GaussianCap(inside, math.exp(log_mass), threshold, 1 / (density * gain))


def _sphere(share: float, dim: int, epsilon: float) -> SphereCap:
    inside, log_mass, log_rest, gain = _masses(share, epsilon)
    mass = math.exp(log_mass)
    half = (dim - 1) / 2
    # (1 - ⟨V, v⟩)/2 follows Beta(half, half); the density's integral from γ up is c (1 - γ²)^half / (d - 1)
    below = float(scipy_special.betaincinv(half, half, mass))  # (1 - γ)/2, small where the cap is
    log_density = float(scipy_special.gammaln(dim / 2) - scipy_special.gammaln(half)) - 0.5 * math.log(math.pi)
    log_integral = log_density - math.log(dim - 1) + half * math.log(4 * below * (1 - below))
    mean = gain * math.exp(log_integral)
    deficit = 1 - mean
    if mean > 0.5:  # 1 - m is 2 E (1 - ⟨V, v⟩)/2; a Beta variable's mean below b is a half of I_b(half + 1, half)
        share_below = float(scipy_special.betainc(half + 1, half, below))
        outside = (1 - inside) / math.exp(log_rest)
        deficit = inside * share_below / mass + outside * (1 - share_below)
        mean = 1 - deficit
    return SphereCap(inside, mass, 1 - 2 * below, mean, deficit)
