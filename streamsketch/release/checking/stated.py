"""What the text of a guarantee says of its mechanism, as far as it can be read."""

import dataclasses
import math
import re
from fractions import Fraction

from streamsketch.errors import InvalidInputError
from streamsketch.privacy import DiscreteGaussian, DiscreteLaplace, Guarantee, Noise

KEYS_THEOREM = "Korolova et al. 2009 for the keys, with Dwork and Roth 2014, Theorem 3.16 (THEORY.md 4.2)"

_NOISE = re.compile(r"discrete (Laplace, scale|Gaussian, variance) (\d+(?:/\d+)?)(?=[,;]|$)")
_KEYS = re.compile(r"Laplace threshold for the keys, ε = ([0-9.e+-]+), δ = ([0-9.e+-]+)")


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
    return noises_of(guarantee.mechanism)


def noises_of(mechanism: str) -> list[Noise]:
    """Return the noises that a text names, as far as it can be read."""
    found: list[Noise] = []
    for name, amount in _NOISE.findall(mechanism):
        try:
            size = Fraction(amount)
            found.append(DiscreteLaplace(size) if name.startswith("Laplace") else DiscreteGaussian(size))
        except (InvalidInputError, ZeroDivisionError):  # untrusted text
            continue
    return found


def names_keys(guarantee: Guarantee) -> bool:
    """Return whether the text names a share for the keys, readable or not."""
    return _KEYS.search(guarantee.mechanism) is not None


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
