"""What is known about units: those of a public sample."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from streamsketch.core.libraries import pa, pc, sparse
from streamsketch.core.numbers import Floats, Ints
from streamsketch.data.tables import batches_of, names_of
from streamsketch.errors import InvalidInputError
from streamsketch.planning.unit_facts import MOST_SUMS, UnitFacts, UnitSizes, UnitSums

_MOST_CELLS = 1 << 24  # of these sums, whose items are held one by one


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
        cls, rows: object, *, unit: str, index: str | Sequence[str], key: str | None = None, value: str | None = None
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
        first, second = sums.pairs
        return np.asarray(sums.products[first, second] / np.sqrt(norms[first] * norms[second]))

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
            values: Floats = ratio * np.sqrt((popular * what**2).sum(axis=1))
            return values

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
        first, second = self._products.coords
        held = (self._key_of[first] >= 0) & (self._key_of[second] >= 0)
        first, second = first[held], second[held]
        places = self._key_of[first] * (self._key_of.max() + 1) + self._key_of[second]
        return first, second, places, self._products.data[held]

    def _own(self, weights: Floats) -> Floats:
        """Return what units' own entries add to the inner products of the keys' sums: (n_keys, n_keys)."""
        size = int(self._key_of.max()) + 1
        first, second, place, products = self._pairs
        return _total(place, weights[first] * weights[second] * products, size * size).reshape(size, size)

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
    numbers: Ints = np.zeros(table.num_rows, dtype=np.int64)
    for name in columns:
        codes = pc.dictionary_encode(table[name].combine_chunks(), null_encoding="encode").indices
        both = numbers * (len(codes) + 1) + codes.to_numpy(zero_copy_only=False)
        numbers = np.unique(both, return_inverse=True)[1].astype(np.int64)
    return numbers
