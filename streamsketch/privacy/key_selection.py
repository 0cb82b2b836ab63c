"""Which keys may be published at all: those whose noisy count of units reaches a threshold."""

import dataclasses
import math

from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.neighbours import MOST_KEYS
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.samplers import BitSource

_MOST_UNITS = 1 << 62


@dataclasses.dataclass(frozen=True)
class KeyThreshold:
    """Keep a key if its units plus discrete Laplace noise are at least ``threshold``.

    Parameters
    ----------
    noise
        In units.
    threshold
        In units.
    """

    noise: DiscreteLaplace
    threshold: int

    def keeps(self, units: int, bits: BitSource) -> bool:
        """Return whether a key with so many units is kept, by noise drawn from ``bits``."""
        return min(units, _MOST_UNITS) + int(self.noise.sample(1, bits)[0]) >= self.threshold


def key_threshold(budget: Budget, max_keys: int) -> KeyThreshold:
    """Return what makes the choice of keys (ε, δ)-differentially private for one unit in at most ``max_keys`` keys.

    A unit moves ``max_keys`` counts by 1 each, so discrete Laplace noise of scale b = max_keys/ε gives ε for the keys
    that other units have too (Dwork and Roth 2014, Theorem 3.6). A key that only this unit has shows with probability
    P(1 + Y ≥ τ) = q^(τ-1) / (1 + q), q = exp(-1/b), and over max_keys such keys that may be δ at most (Korolova
    et al. 2009, with the lattice's own tail). A key without a unit is never published.

    Parameters
    ----------
    budget
        What the choice may spend, with δ > 0.
    max_keys
        How many keys one unit may touch.

    Raises
    ------
    InvalidInputError
        For δ = 0, a budget so small that no count would do, or ``max_keys`` as large as it gets, which is no bound.

    Examples
    --------
    >>> key_threshold(Budget(1.0, 1e-6), max_keys=1).threshold
    15
    """
    if budget.delta == 0:
        raise InvalidInputError(
            "keys cannot be selected with delta = 0, because a key that only one unit has may be published. Give a "
            "delta far below 1 / number of units, or list the keys: public_keys"
        )
    if max_keys >= MOST_KEYS:
        raise InvalidInputError(
            "keys cannot be selected if a unit may be in any number of them, because the noise on their counts grows "
            "with that number: set max_keys, or list the keys: public_keys"
        )
    noise = DiscreteLaplace.calibrated(Sensitivity(max_keys, max_keys, max_keys), budget)
    scale = float(noise.scale)
    log_tail = math.log(max_keys) - math.log(budget.delta) - math.log1p(math.exp(-1 / scale))
    # rounded up, with room for the floats' own error
    return KeyThreshold(noise, 1 + max(1, math.ceil(scale * log_tail * (1 + 1e-12))))
