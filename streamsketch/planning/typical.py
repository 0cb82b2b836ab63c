"""What is known about units: the sizes of a typical one, as somebody states them."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats, short
from streamsketch.errors import InvalidInputError
from streamsketch.planning.unit_facts import MOST_SUMS, UnitFacts, UnitSizes, UnitSums

Sizes: TypeAlias = float | Sequence[float]

_MOST_SIZES = 4096
_MOST_UNITS = 1e15
_LARGEST = 1e12
_MOST_SHOWN = 6
_CATALOGUE = 4000.0  # items, where nothing is stated
_SKEW = 4.0  # times 1 over the number of items: Σp² of shares as uneven as those of a shop, a timetable or a newspaper
_OFF = 3.0  # times, by which that may be wrong either way
_COSINE = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class TypicalUnit(UnitFacts):
    """What is publicly known about a typical unit, without looking at the data.

    Parameters
    ----------
    items
        How many different items a unit adds to one key, such as products that a customer buys in a month. Several
        numbers are equally frequent sizes of units, such as quartiles: ``[3, 10, 40]``.
    pieces
        How much a unit adds to one key, Σ|value|: as many numbers, or one for all. By default 1 per item.
    keys
        How many keys a unit is in: as many numbers, or one for all.
    shares
        How frequent each size is among units, as many numbers; by default all are equally frequent. Distances and
        averages depend on the largest units, so state what the largest hundredth adds: ``items=[10, 40, 400]``,
        ``shares=[0.5, 0.49, 0.01]``.
    match
        The probability that two pieces of different units in one key are of the same item: Σp², if a piece is of item j
        with probability p_j. It determines how long the sums of many units are, and so how many cells are useful: error
        and k both hang on it. Shares of sales in a past year tell it. If it is not stated, plans are made for a range:
        a third of `likely_match` to three times as much.
    cosine
        The cosine between the sums of two keys that you want to see, or several cosines; 0.5 if it is not stated. The
        closest keys have the largest relative errors of distances.
    catalogue
        Instead of ``match``, how many different items are sold, or can occur: N. The likely match is then 4/N. In a
        shop of 3,680 items it was 4.6/N, of flights' 224 routes 2.5/N, of words in news 8.4/N. If nothing is stated,
        4,000 items are assumed.

    Raises
    ------
    InvalidInputError
        If a number is out of range, or the lists have different lengths.

    Examples
    --------
    >>> print(TypicalUnit(items=[3, 40], keys=2).assumed("customer")[:66])
    one customer adds 3 or 40 items (3 or 40 pieces) to each of 2 keys
    """

    items: Sizes
    pieces: Sizes | None = None
    keys: int | Sequence[int] = 1
    shares: Sequence[float] | None = None
    match: float | None = None
    cosine: Sizes | None = None
    catalogue: float | None = None

    def __post_init__(self) -> None:
        stated = {name: _numbers(getattr(self, name), name) for name in ("items", "pieces", "keys")}
        longest = max(len(numbers) for numbers in stated.values())
        for name, numbers in stated.items():
            if len(numbers) not in {0, 1, longest}:
                raise InvalidInputError(
                    f"{name} must have 1 number or {longest}, as the other lists have, got {len(numbers)}"
                )
        if self.shares is not None:
            object.__setattr__(self, "shares", _shares(self.shares, longest))
        pieces = stated["pieces"] or stated["items"]
        if (np.array(pieces) < np.array(stated["items"])).any():
            raise InvalidInputError(
                "pieces must be at least items, because a unit adds one piece or more of each item; got "
                f"pieces={short(self.pieces)} and items={short(self.items)}"
            )
        if any(number % 1 for number in stated["keys"]):
            raise InvalidInputError(f"keys must be whole numbers, got {short(self.keys)}")
        self._check_match()
        cosines = np.atleast_1d(np.asarray(_COSINE if self.cosine is None else self.cosine))
        if cosines.dtype.kind not in "if" or cosines.ndim != 1 or not 1 <= cosines.size <= MOST_SUMS:
            raise InvalidInputError(f"cosine must be a number, or up to {MOST_SUMS} of them, got {short(self.cosine)}")
        if not ((cosines >= -1) & (cosines < 1)).all():
            raise InvalidInputError(f"cosine must lie in [-1, 1), got {short(self.cosine)}")
        assumed = self._left_open(several=longest > 1)
        object.__setattr__(self, "_assumed", {name: words for name, words in assumed.items() if words})
        object.__setattr__(self, "cosine", tuple(cosines.tolist()))
        for name, numbers in (stated | {"pieces": pieces}).items():
            object.__setattr__(self, name, numbers)

    def _check_match(self) -> None:
        if self.match is not None and not (isinstance(self.match, int | float) and 0 < self.match <= 1):
            raise InvalidInputError(f"match must be a probability, in (0, 1], got {short(self.match)}")
        if self.catalogue is not None:
            (items,) = _numbers([self.catalogue], "catalogue")
            if self.match is not None:
                raise InvalidInputError("match and catalogue both say how often pieces match; pass one of them")
            object.__setattr__(self, "catalogue", items)

    def _left_open(self, *, several: bool) -> dict[str, str]:
        """Return what is assumed where an argument is not given, in words; nothing where it is."""
        return {
            "match": "" if self.match is not None else f"how often pieces match ({self._match_words})",
            "cosine": "" if self.cosine is not None else f"the cosine ({_COSINE:g})",
            "shares": "how frequent each size is (equally)" if self.shares is None and several else "",
        }

    @property
    def likely_match(self) -> float:
        """The match that is stated, or the one that is likely.

        Examples
        --------
        >>> TypicalUnit(items=10, match=0.002).likely_match, TypicalUnit(items=10, catalogue=800).likely_match
        (0.002, 0.005)
        """
        if self.match is not None:
            return self.match
        return min(_SKEW / (self.catalogue or _CATALOGUE), 1.0)

    @property
    def _match_words(self) -> str:
        low, high = (min(self.likely_match * factor, 1.0) for factor in (1 / _OFF, _OFF))
        of = f" of {self.catalogue:,.6g} items" if self.catalogue else ""
        return f"with a probability of {low:.2g} to {high:.2g}{of}"

    @property
    def unstated(self) -> dict[str, str]:
        """What was assumed because nobody stated it, in words, by the name of the argument."""
        return dict(self._assumed)  # type: ignore[attr-defined] # __post_init__ set it

    def others(self) -> "dict[str, TypicalUnit]":
        """Return the same unit with a third of the match, and with three times as much."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in ("items", "pieces", "keys", "shares", "cosine")}
        others: dict[str, TypicalUnit] = {}
        for words, factor in (("a third", 1 / _OFF), ("three times as large", _OFF)):
            match = min(self.likely_match * factor, 1.0)
            others[f"match is {words}, {match:.2g}"] = TypicalUnit(**fields, match=match)
        return others

    @functools.cached_property
    def sizes(self) -> UnitSizes:
        """How much units add, with one entry for each of the given numbers."""
        items, pieces, keys = np.broadcast_arrays(
            *(np.array(numbers) for numbers in (self.items, self.pieces, self.keys))
        )
        squares = pieces**2 / items
        return UnitSizes(pieces, squares, keys * squares, keys)

    @property
    def units(self) -> None:
        """None, because the number is not known."""
        return

    @property
    def cosines(self) -> Floats:
        """The assumed cosines."""
        return np.array(self.cosine)

    @functools.cached_property
    def _often(self) -> Floats:
        often = self.sizes.keys * (1.0 if self.shares is None else np.array(self.shares))  # a unit in many keys
        return np.asarray(often / often.sum())

    def squared_norms(self, units: Floats, weights: Floats, kept: Floats) -> Floats:
        """Return the squared norms of sums of that many units; see `UnitFacts.squared_norms`."""
        return modelled_norms(self.sizes, self._often, self.likely_match, units, weights, kept)[1]

    def sums(self, units: Sequence[float], weights: Floats, kept: Floats) -> UnitSums:
        """Return the sums of two or more keys with the assumed cosines; see `UnitFacts.sums`."""
        return modelled_sums(self.sizes, self._often, (self.likely_match, self.cosine), units, weights, kept)  # type: ignore[arg-type] # __post_init__ made it a tuple

    def assumed(self, unit: str) -> str:
        """Return the assumptions in words; ``unit`` is what one unit is called."""
        keys, items, pieces = either(self.keys), either(self.items), either(self.pieces)
        items, pieces = f"{items} item{'s' * (items != '1')}", f"{pieces} piece{'s' * (pieces != '1')}"
        where = "one key" if keys == "1" else f"each of {keys} keys"
        return (
            f"one {unit} adds {items} ({pieces}) to {where}; two pieces match with probability "
            f"{self.likely_match:.3g}, two sums have a cosine of {either(self.cosine)}"
        )


def key_sizes(units: float | Sequence[float], most: int = MOST_SUMS) -> tuple[float, ...]:
    """Return how many units each key has, as one or several numbers say; `InvalidInputError` for others."""
    sizes = tuple(units) if isinstance(units, Sequence) and not isinstance(units, str) else (units,)
    real = all(
        isinstance(size, int | float) and not isinstance(size, bool) and 1 <= size <= _MOST_UNITS for size in sizes
    )
    if not real or not 1 <= len(sizes) <= most:
        raise InvalidInputError(
            f"units must be a number from 1 to {_MOST_UNITS:g}, or up to {most:,} of them, got {short(units)}"
        )
    return tuple(float(size) for size in sizes)


def modelled_norms(
    sizes: UnitSizes, often: Floats, match: float, units: Floats, weights: Floats, kept: Floats
) -> tuple[Floats, Floats]:
    """Return Σ|x| of sums of so many units, and their squared norms: (n,) each; parameters as `modelled_sums`."""
    shares = often * kept
    pieces = units * float((shares * weights * sizes.pieces).sum())
    own = float((shares * weights**2 * (sizes.squares - match * sizes.pieces**2)).sum())
    return pieces, np.maximum(units * own, 0.0) + match * pieces**2


def modelled_sums(
    sizes: UnitSizes,
    often: Floats,
    alike: tuple[float, Sequence[float]],
    units: Sequence[float],
    weights: Floats,
    kept: Floats,
) -> UnitSums:
    """Return the sums of two or more keys whose units have these sizes so often.

    Pieces of different units match alike often, so a sum of n units with w pieces each has a squared norm of
    n·Σx² + match·n(n - 1)w². Keys of all the sizes given, or two of the one, are as alike as each cosine says.

    Parameters
    ----------
    sizes, often
        The sizes and the share of units in a key that have each.
    alike
        ``match`` and ``cosine`` of `TypicalUnit`.
    units, weights, kept
        As in `UnitFacts.sums`.
    """
    match, cosines = alike
    group = np.array(units if len(units) > 1 else 2 * [*units])
    many, places = np.tile(group, len(cosines)), np.repeat(np.arange(len(cosines)), group.size)

    everything = np.ones_like(weights)
    whole, squares = modelled_norms(sizes, often, match, many, everything, everything)
    left, norms = modelled_norms(sizes, often, match, many, weights, kept)
    alone = np.repeat(np.asarray(cosines, dtype=np.float64), group.size)
    products = alone * np.sqrt(np.outer(squares, squares)) * np.outer(left / whole, left / whole)
    np.fill_diagonal(products, norms)
    first, second = np.triu_indices(many.size, 1)
    compared = places[first] == places[second]
    return UnitSums(
        (first[compared], second[compared]),
        products,
        many * float((often * kept).sum()),
        match * whole,
        match * np.abs(whole - left),
    )


def _shares(values: Sequence[float], count: int) -> tuple[float, ...]:
    shares = tuple(values)
    real = all(isinstance(share, int | float) and 0 < share <= _LARGEST for share in shares)
    if not real or len(shares) != count:
        raise InvalidInputError(f"shares must be {count} numbers above 0, as many as sizes, got {short(shares)}")
    return shares


def _numbers(value: Any, what: str) -> tuple[float, ...]:
    if value is None and what == "pieces":
        return ()
    numbers = np.atleast_1d(np.asarray(value))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or not 1 <= numbers.size <= _MOST_SIZES:
        raise InvalidInputError(f"{what} must be a number, or up to {_MOST_SIZES} of them, got {short(value)}")
    if not ((numbers >= 1) & (numbers <= _LARGEST)).all():
        raise InvalidInputError(f"{what} must lie in [1, {_LARGEST:g}], got {short(value)}")
    return tuple(numbers.tolist())


def either(numbers: Any) -> str:
    """Return numbers as words: 3, 10 or 40; of many the first and the last."""
    shown = [f"{number:,.6g}" for number in (numbers[:1] if len(set(numbers)) == 1 else numbers)]
    if len(shown) > _MOST_SHOWN:
        shown = [shown[0], "…", shown[-1]]
        return " ".join(shown)
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
