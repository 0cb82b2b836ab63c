"""What is known about units before any private data: a stated typical unit, or the units of a public sample.

Both answer one question: what do the sums of many units become if each unit's part is clipped? Errors depend only on
the inner products of these sums.
"""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from streamsketch.core.libraries import pa, pc, sparse
from streamsketch.core.numbers import Floats, Ints, short
from streamsketch.data.tables import batches_of, names_of
from streamsketch.errors import InvalidInputError

Sizes: TypeAlias = float | Sequence[float]

MOST_SUMS = 64
"""The most keys whose sums are compared: of a sample, those of most units."""

_MOST_CELLS = 1 << 24  # of these sums, whose items are held one by one
_MOST_SIZES = 4096
_MOST_UNITS = 1e15
_LARGEST = 1e12
_MOST_SHOWN = 6
_CATALOGUE = 4000.0  # items, where nothing is stated
_SKEW = 4.0  # times 1 over the number of items: Σp² of shares as uneven as those of a shop, a timetable or a newspaper
_OFF = 3.0  # times, by which that may be wrong either way
_COSINE = 0.5


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
        given = {name: _numbers(getattr(self, name), name) for name in ("items", "pieces", "keys")}
        longest = max(len(numbers) for numbers in given.values())
        for name, numbers in given.items():
            if len(numbers) not in {0, 1, longest}:
                raise InvalidInputError(
                    f"{name} must have 1 number or {longest}, as the other lists have, got {len(numbers)}"
                )
        if self.shares is not None:
            object.__setattr__(self, "shares", _shares(self.shares, longest))
        pieces = given["pieces"] or given["items"]
        if (np.array(pieces) < np.array(given["items"])).any():
            raise InvalidInputError(
                "pieces must be at least items, because a unit adds one piece or more of each item; got "
                f"pieces={short(self.pieces)} and items={short(self.items)}"
            )
        if any(number % 1 for number in given["keys"]):
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
        for name, numbers in (given | {"pieces": pieces}).items():
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
        known: dict[str, Any] = {name: getattr(self, name) for name in ("items", "pieces", "keys", "shares", "cosine")}
        found: dict[str, TypicalUnit] = {}
        for words, factor in (("a third", 1 / _OFF), ("three times as large", _OFF)):
            match = min(self.likely_match * factor, 1.0)
            found[f"match is {words}, {match:.2g}"] = TypicalUnit(**known, match=match)
        return found

    @functools.cached_property
    def sizes(self) -> UnitSizes:
        """How much units add, with one entry for each of the given numbers."""
        items, pieces, keys = np.broadcast_arrays(*(np.array(given) for given in (self.items, self.pieces, self.keys)))
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
    given = tuple(units) if isinstance(units, Sequence) and not isinstance(units, str) else (units,)
    real = all(isinstance(one, int | float) and not isinstance(one, bool) and 1 <= one <= _MOST_UNITS for one in given)
    if not real or not 1 <= len(given) <= most:
        raise InvalidInputError(
            f"units must be a number from 1 to {_MOST_UNITS:g}, or up to {most:,} of them, got {short(units)}"
        )
    return tuple(float(one) for one in given)


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
    many, one = np.tile(group, len(cosines)), np.repeat(np.arange(len(cosines)), group.size)

    everything = np.ones_like(weights)
    whole, squares = modelled_norms(sizes, often, match, many, everything, everything)
    left, norms = modelled_norms(sizes, often, match, many, weights, kept)
    alone = np.repeat(np.asarray(cosines, dtype=np.float64), group.size)
    products = alone * np.sqrt(np.outer(squares, squares)) * np.outer(left / whole, left / whole)
    np.fill_diagonal(products, norms)
    first, second = np.triu_indices(many.size, 1)
    compared = one[first] == one[second]
    return UnitSums(
        (first[compared], second[compared]),
        products,
        many * float((often * kept).sum()),
        match * whole,
        match * np.abs(whole - left),
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class UnitSample(UnitFacts):
    """Units of a public table that resemble those to be protected, such as published sales of last year.

    A plan made from the private data themselves would reveal something about them. For these use `TypicalUnit`, or a
    bound from `streamsketch.bounding.choose_bound`. Make a sample with `of`.
    """

    knows_all: ClassVar[bool] = True

    _sizes: UnitSizes
    _key_of: Ints  # the key of each entry of `sizes`, of those compared, else -1
    _values: "sparse.csr_array"  # (entries of `sizes`, items)
    _products: "sparse.coo_array"  # of two entries of one unit
    _units: int
    _keys: int
    _names: tuple[str, ...] | None

    @classmethod
    def of(
        cls, rows: Any, *, unit: str, index: str | Sequence[str], key: str | None = None, value: str | None = None
    ) -> "UnitSample":
        """Return the units of a table.

        Parameters
        ----------
        rows
            A public table: a data frame, an Arrow table, a DuckDB relation, or anything else with
            ``__arrow_c_stream__``.
        unit, index, key, value
            Names of the columns, as in `Agreement`. Rows without a unit are left out. Each row counts 1 by default.

        Raises
        ------
        TypeError
            If ``rows`` is not a table.
        InvalidInputError
            If a column is missing, or there are no units.

        Examples
        --------
        >>> import pyarrow as pa
        >>> bought = pa.table({"who": [1, 1, 2], "item": ["tea", "tea", "jam"]})
        >>> print(UnitSample.of(bought, unit="who", index="item").assumed("buyer"))
        a public sample of 2 buyers, each in 1 of 1 keys on average, half of them with 1.5 pieces or fewer in a key
        """
        names = names_of(index)
        columns = [unit, *names, *([] if key is None else [key]), *([] if value is None else [value])]
        batches = [batch for batch in batches_of(rows, columns) if batch.num_rows]
        if not batches:
            raise InvalidInputError(
                f"no row of the sample names its {unit} and has a value other than 0; pass a sample that has such rows"
            )
        table = pa.Table.from_batches(batches)
        table = table.filter(pc.is_valid(table[unit]))
        entries = table.group_by(list(dict.fromkeys(name for name in columns if name != value))).aggregate(
            [([], "count_all") if value is None else (value, "sum")]
        )
        values = entries.columns[-1].to_numpy().astype(np.float64)
        entries, values = entries.filter(pa.array(values != 0)), values[values != 0]
        if not values.size:
            raise InvalidInputError(
                f"no row of the sample names its {unit} and has a value other than 0; pass a sample that has such rows"
            )
        units, keys = _codes(entries, [unit]), _codes(entries, [] if key is None else [key])
        items, pairs = _codes(entries, names), units * (keys.max() + 1) + keys
        _, first, row_of = np.unique(pairs, return_index=True, return_inverse=True)
        squares = _total(row_of, values**2)
        unit_of = units[first]
        sizes = UnitSizes(
            pieces=_total(row_of, np.abs(values)),
            squares=squares,
            whole_squares=_total(unit_of, squares)[unit_of],
            keys=np.bincount(unit_of)[unit_of].astype(np.float64),
        )
        key_of = keys[first]
        in_key = np.bincount(key_of)
        place = np.full(in_key.size, -1)
        compared = np.argsort(-in_key, kind="stable")[: max(2, min(MOST_SUMS, _MOST_CELLS // (int(items.max()) + 1)))]
        place[compared] = np.arange(compared.size)
        names_of_keys = None
        if key is not None:
            first_of = np.unique(keys, return_index=True)[1][compared]
            names_of_keys = tuple(map(str, entries[key].take(pa.array(first_of)).to_pylist()))
        own = np.unique(units * (items.max() + 1) + items, return_inverse=True)[1]
        by_unit = sparse.csr_array((values, (row_of, own)))
        return cls(
            sizes,
            place[key_of],
            sparse.csr_array((values, (row_of, items))),
            (by_unit @ by_unit.T).tocoo(),
            int(units.max()) + 1,
            in_key.size,
            names_of_keys,
        )

    @property
    def sizes(self) -> UnitSizes:
        """How much units add, with one entry for each unit and key."""
        return self._sizes

    @property
    def units(self) -> tuple[float, ...]:
        """The number of units of each of the compared keys."""
        return tuple(np.bincount(self._key_of[self._key_of >= 0]).tolist())

    @property
    def key_names(self) -> tuple[str, ...] | None:
        """The names of the compared keys; None without a key column."""
        return self._names

    @functools.cached_property
    def cosines(self) -> Floats:
        """Cosines between the sums of all pairs of the compared keys, without clipping."""
        everything = np.ones(self._key_of.size)
        sums = self.sums(self.units, everything, everything)
        norms = np.diagonal(sums.products)
        one, other = sums.pairs
        return np.asarray(sums.products[one, other] / np.sqrt(norms[one] * norms[other]))

    def squared_norms(self, units: Floats, weights: Floats, kept: Floats) -> Floats:
        """Return the squared norms of sums of that many units; see `UnitFacts.squared_norms`.

        For numbers other than the sample's own, the keys are as mixed as those of the sample on average.
        """
        expected = self._by_key(weights * kept)
        chance = self._own(weights * np.sqrt(kept)).diagonal()
        between = (expected**2).sum(axis=1) - self._own(weights * kept).diagonal()
        sizes = np.array(self.units)
        if np.array_equal(units, sizes):
            return np.asarray(between + chance)
        pairs = float((sizes * (sizes - 1)).sum())
        alike = max(float(between.sum()), 0.0) / pairs if pairs else 0.0
        return np.asarray(units * (chance.sum() / sizes.sum()) + units * (units - 1) * alike)

    def sums(self, units: Sequence[float], weights: Floats, kept: Floats) -> UnitSums:
        """Return the sums of the sample's keys, as if they had ``units`` units on average; see `UnitFacts.sums`.

        With r times as many units, products of different units count r² times, and those of a unit with itself r times.
        """
        ratio = float(np.mean(units)) / float(np.mean(self.units))
        expected, chance = self._by_key(weights * kept), np.sqrt(kept)
        own = self._own(weights * chance)
        expected_own = own if (kept == 1).all() else self._own(weights * kept)
        products = ratio**2 * (expected @ expected.T - expected_own) + ratio * own
        popular = abs(self._exact) / np.abs(self._exact).sum(axis=1, keepdims=True)
        held = self._key_of >= 0

        def typical(what: Floats) -> Floats:
            found: Floats = ratio * np.sqrt((popular * what**2).sum(axis=1))
            return found

        present = ratio * _total(self._key_of[held], kept[held])
        pairs = np.triu_indices(present.size, 1)
        return UnitSums(pairs, products, present, typical(self._exact), typical(self._exact - expected))

    def __repr__(self) -> str:
        return f"<UnitSample of {self._units:,} units>"

    @functools.cached_property
    def _exact(self) -> Floats:
        return self._by_key(np.ones(self._key_of.size))

    @functools.cached_property
    def _cells(self) -> tuple[Ints, Ints, Floats]:
        """For each value of the compared keys its entry of `sizes`, its place in `_by_key`, and the value."""
        entries = self._values.tocoo()
        held = self._key_of[entries.coords[0]] >= 0
        row, item = (coordinate[held].astype(np.int64) for coordinate in entries.coords)
        return row, self._key_of[row] * self._values.shape[1] + item, entries.data[held]

    def _by_key(self, weights: Floats) -> Floats:
        """Return each key's weighted sum: (n_keys, n_items)."""
        row, place, values = self._cells
        shape = int(self._key_of.max()) + 1, self._values.shape[1]
        return _total(place, weights[row] * values, shape[0] * shape[1]).reshape(shape)

    @functools.cached_property
    def _pairs(self) -> tuple[Ints, Ints, Ints, Floats]:
        """For each two entries of one unit in compared keys: both, their place among pairs of keys, and the product."""
        one, other = self._products.coords
        held = (self._key_of[one] >= 0) & (self._key_of[other] >= 0)
        one, other = one[held], other[held]
        return one, other, self._key_of[one] * (self._key_of.max() + 1) + self._key_of[other], self._products.data[held]

    def _own(self, weights: Floats) -> Floats:
        """Return what units' own entries add to the inner products of the keys' sums: (n_keys, n_keys)."""
        size = int(self._key_of.max()) + 1
        one, other, place, products = self._pairs
        return _total(place, weights[one] * weights[other] * products, size * size).reshape(size, size)

    def assumed(self, unit: str) -> str:
        """Return the assumptions in words; ``unit`` is what one unit is called."""
        median, keys = float(np.median(self.sizes.pieces)), self.sizes.keys.size / self._units
        return (
            f"a public sample of {self._units:,} {unit}s, each in {keys:.3g} of {self._keys:,} keys on average, half "
            f"of them with {median:,.4g} pieces or fewer in a key"
        )


def _total(places: Ints, values: Floats, size: int = 0) -> Floats:
    """Return the sums of the values of each place."""
    return np.bincount(places, values, size).astype(np.float64)


def _codes(table: "pa.Table", columns: Sequence[str]) -> Ints:
    """Return a number for each row, the same for rows that are equal in these columns: int64, (n,)."""
    found: Ints = np.zeros(table.num_rows, dtype=np.int64)
    for name in columns:
        codes = pc.dictionary_encode(table[name].combine_chunks(), null_encoding="encode").indices
        both = found * (len(codes) + 1) + codes.to_numpy(zero_copy_only=False)
        found = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return found


def _shares(given: Sequence[float], count: int) -> tuple[float, ...]:
    shares = tuple(given)
    real = all(isinstance(share, int | float) and 0 < share <= _LARGEST for share in shares)
    if not real or len(shares) != count:
        raise InvalidInputError(f"shares must be {count} numbers above 0, as many as sizes, got {short(shares)}")
    return shares


def _numbers(given: Any, what: str) -> tuple[float, ...]:
    if given is None and what == "pieces":
        return ()
    found = np.atleast_1d(np.asarray(given))
    if found.ndim != 1 or found.dtype.kind not in "iuf" or not 1 <= found.size <= _MOST_SIZES:
        raise InvalidInputError(f"{what} must be a number, or up to {_MOST_SIZES} of them, got {short(given)}")
    if not ((found >= 1) & (found <= _LARGEST)).all():
        raise InvalidInputError(f"{what} must lie in [1, {_LARGEST:g}], got {short(given)}")
    return tuple(found.tolist())


def either(numbers: Any) -> str:
    """Return numbers as words: 3, 10 or 40; of many the first and the last."""
    shown = [f"{number:,.6g}" for number in (numbers[:1] if len(set(numbers)) == 1 else numbers)]
    if len(shown) > _MOST_SHOWN:
        shown = [shown[0], "…", shown[-1]]
        return " ".join(shown)
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
