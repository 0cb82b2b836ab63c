"""What each release in a sum of releases stated."""

import dataclasses
from collections.abc import Iterable
from fractions import Fraction

from streamsketch.core.numbers import Exact, exact_fraction
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.history import HistoryPart

NO_HISTORY = "a release by a schedule must state which part of the history it is, and this one does not"
"""What is wrong with a release of a schedule that names no part of a history."""

_MOST_ALIKE = (1 << 32) - 1  # what the exchange format carries


@dataclasses.dataclass(frozen=True)
class NoisePart:
    """One release in a sum of releases, or several that stated the same.

    Parameters
    ----------
    noise
        Cumulants of one noise, in grid steps of the part's own cells.
    guarantee
        What the part guaranteed by itself.
    multiplier
        Exact factor on the part's cells in the sum, > 0; a subtracted part counts by its absolute value.
    count
        The number of equal parts.
    history
        Of a range of windows, which part of its history it is.
    """

    noise: NoiseMoments
    guarantee: Guarantee
    multiplier: Exact = 1
    count: int = 1
    history: HistoryPart | None = None

    def __post_init__(self) -> None:
        factor = exact_fraction(self.multiplier, "the multiplier of a part")
        if factor <= 0 or type(self.count) is not int or not 1 <= self.count <= _MOST_ALIKE:
            raise InvalidInputError(
                f"a part of a sum has a positive multiplier and a count from 1 to {_MOST_ALIKE}, got {factor} and "
                f"{self.count}"
            )
        if self.history is not None:
            self.history.check_within(self.guarantee.mechanism.layout)
        elif self.guarantee.mechanism.layout.by_rows:
            raise InvalidInputError(NO_HISTORY)
        object.__setattr__(self, "multiplier", factor)

    def scaled(self, factor: Fraction) -> "NoisePart":
        """Return the part of a sum that was multiplied by ``factor``, not 0."""
        return dataclasses.replace(self, multiplier=Fraction(self.multiplier) * abs(factor))


def merge_parts(parts: Iterable[NoisePart]) -> tuple[NoisePart, ...]:
    """Return parts with equal ones counted together, in an order that depends only on them."""
    counts: dict[NoisePart, int] = {}
    for part in parts:
        kind = dataclasses.replace(part, count=1)
        counts[kind] = counts.get(kind, 0) + part.count
    ordered = sorted(counts, key=repr)
    return tuple(dataclasses.replace(part, count=counts[part]) for part in ordered)
