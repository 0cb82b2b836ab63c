"""What is known about units before any private data, as plans ask for it.

One question is answered: what do the sums of many units become if each unit's part is clipped? Errors depend only on
the inner products of these sums.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from streamsketch.core.numbers import Floats, Ints

MOST_SUMS = 64
"""The most keys whose sums are compared: of a sample, those of most units."""


@dataclasses.dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums of what units add to each of several keys, as far as errors depend on them.

    Parameters
    ----------
    pairs
        Which keys are compared: two arrays, (n_pairs,) each.
    products
        Inner products of the keys' sums, in squared data units: (n_keys, n_keys).
    units
        How many units are in each key: (n_keys,).
    points
        What the sums hold of one item, for each key as the root mean square over its pieces: (n_keys,).
    lost
        How much of that clipping took, likewise.
    """

    pairs: tuple[Ints, Ints]
    products: Floats
    units: Floats
    points: Floats
    lost: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class UnitSizes:
    """How much units add: an entry for each size of a unit in a key.

    Parameters
    ----------
    pieces
        Σ|value| of a unit in a key, in data units.
    squares
        Σvalue² over the items of a unit in a key.
    whole_squares
        The same over all keys of the unit.
    keys
        How many keys these are.
    """

    pieces: Floats
    squares: Floats
    whole_squares: Floats
    keys: Floats


class UnitFacts(ABC):
    """What is known of units: their sizes, and what their sums are once they are clipped."""

    knows_all: ClassVar[bool] = False
    """Whether the sizes are those of units that there are, with the largest of them."""

    @property
    @abstractmethod
    def sizes(self) -> UnitSizes:
        """How much units add."""

    @property
    @abstractmethod
    def units(self) -> tuple[float, ...] | None:
        """How many units each key has, where that is known."""

    @property
    def key_names(self) -> tuple[str, ...] | None:
        """The names of the keys of `units`, if they are known."""
        return None

    @property
    @abstractmethod
    def cosines(self) -> Floats:
        """Cosines between the sums of two keys: one or more that matter, or those of all pairs."""

    @abstractmethod
    def squared_norms(self, units: Floats, weights: Floats, kept: Floats) -> Floats:
        """Return the squared norms of sums of so many units, (n,), of which ``weights`` and ``kept`` are as in `sums`.

        Of the numbers of units that there are, those are the norms of the keys that there are.
        """

    @abstractmethod
    def sums(self, units: Sequence[float], weights: Floats, kept: Floats) -> UnitSums:
        """Return the sums of several keys.

        Parameters
        ----------
        units
            How many units each key has.
        weights
            By what clipping multiplies what a unit adds: an entry for each of `sizes`.
        kept
            With what probability a unit keeps a key: likewise.
        """

    @property
    def unstated(self) -> dict[str, str]:
        """What was assumed because nobody stated it, in words, by the name of the argument."""
        return {}

    def others(self) -> "Mapping[str, UnitFacts]":
        """Return other facts that would fit as well, or nearly so, and the condition in words that makes them hold."""
        return {}

    @abstractmethod
    def assumed(self, unit: str) -> str:
        """Return the assumptions in words; ``unit`` is what one unit is called."""
