"""Features of rows: a public map from mixed columns to a vector of length 1 (Theory 10)."""

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.text import TextRule
from streamsketch.core.documents import Json
from streamsketch.core.libraries import pa, pc
from streamsketch.core.limits import json_fields
from streamsketch.core.numbers import Cells, Floats, check_int, short
from streamsketch.core.text import check_text
from streamsketch.data.columns import check_codes, is_text_type
from streamsketch.data.tables import batches_of
from streamsketch.errors import InvalidInputError
from streamsketch.features.arrays import listed_places, numbers_in, text_hashes, texts_in, vectors_in
from streamsketch.features.columns import (
    MOST_CELLS,
    Category,
    Embedding,
    FeatureColumn,
    Number,
    check_width,
    column_fields,
    column_of,
)
from streamsketch.features.cosines import TURN_BITS, cosine_table
from streamsketch.features.kernels import (
    UNIT_BITS,
    add_directions,
    add_hashed,
    add_listed,
    add_numbers,
    add_waves,
    quantise_vectors,
)
from streamsketch.products import SERVICES
from streamsketch.projections.identity import Identity
from streamsketch.projections.independent import GaussianProjection

JOINT = "(joint)"
"""Name of the block over all numbers together."""

REST = "(rest)"
"""Name of the cell that brings all rows to one length."""

_MOST_COLUMNS = 1024
_MOST_SEED = (1 << 64) - 1
_ONE = 1 << UNIT_BITS
_FRACTION_BITS = 8  # of frequencies
_SPREAD = Fraction(1, 5)  # of the distance between two rows, over the square root of the number of columns
_PI = Fraction(31415926535897932385, 10**19)
_WAVE_BITS = 31
_KEPT = 1 << 17  # frequencies of a block that are drawn once and not for each batch: 1 MiB


class Block(NamedTuple):
    """The features of one column, of all numbers jointly, or the rest: cells ``first`` to ``first + cells``.

    Examples
    --------
    >>> features = Features({"age": Number(0, 110), "smokes": Category(["yes", "no"])}, seed=7)
    >>> [(block.name, block.first, block.cells) for block in features.blocks]
    [('age', 0, 3), ('smokes', 3, 4), ('(rest)', 7, 1)]
    """

    name: str
    first: int
    cells: int
    amplitude: int
    """Its length in a row, in grid steps: no row is longer there."""

    @property
    def places(self) -> slice:
        """Its cells."""
        return slice(self.first, self.first + self.cells)


@dataclasses.dataclass(frozen=True)
class Features(AgreedFeatures):
    """A public map φ from rows of mixed columns to vectors of length 1.

    Sums of φ over people, divided by their number, are mean embeddings. Their distance is zero if φ cannot tell two
    populations apart, and their expected squared distance over the seed is the squared maximum mean discrepancy of a
    kernel (Gretton et al. 2012; Theory 10). Each column has a block of features of its own, which shows whether it
    differs. ``joint`` adds random Fourier features of all numbers together (Rahimi and Recht 2007), of the Gaussian
    kernel exp(-‖u - v‖²/(2 width²)) with every range scaled to [0, 1]. They also show how columns depend on each other,
    and need few cells. Polynomials of numbers have different lengths, so one more cell completes the length to 1: every
    row counts the same.

    φ is the same on every machine, because it is computed in integers, or by IEEE operations that round correctly. It
    is not learned from data: scales are part of it.

    Parameters
    ----------
    columns
        A `Number`, `Category` or `Embedding` for each column by name, at least one.
    seed
        Public seed of hashes and frequencies, 0 to 2^64 - 1. Choose it independently of the data.
    joint
        Number of random frequencies over all numbers together, each with a cosine and a sine; 0 for none.
    width
        Width of the joint kernel; by default 0.2 √d for d numbers.
    joint_weight
        Weight of the joint features, like that of a column; by default the sum of all numbers' weights.

    Raises
    ------
    InvalidInputError
        If there are no columns, a value is out of range, or ``joint`` is given without numbers.

    Examples
    --------
    >>> import pyarrow as pa
    >>> features = Features({"age": Number(0, 110), "smokes": Category(["yes", "no"])}, seed=7)
    >>> features.dim, [block.name for block in features.blocks]
    (8, ['age', 'smokes', '(rest)'])
    >>> features.transform(pa.table({"age": [55, 110], "smokes": ["no", None]})).round(2)
    array([[ 0.  , -0.5 ,  0.  ,  0.  ,  0.71,  0.  ,  0.  ,  0.5 ],
           [ 0.5 ,  0.5 ,  0.  ,  0.  ,  0.  ,  0.  ,  0.71,  0.01]])
    """

    columns: Mapping[str, FeatureColumn]
    seed: int
    joint: int = 0
    width: float | None = None
    joint_weight: int | None = None
    blocks: tuple[Block, ...] = dataclasses.field(init=False, repr=False, compare=False)
    """Its blocks: of the columns in their order, then `JOINT` and `REST`, if there are numbers. Numbers with
    ``moments=0`` have none."""

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not 1 <= len(self.columns) <= _MOST_COLUMNS:
            raise InvalidInputError(
                f"features are made of 1 to {_MOST_COLUMNS} columns, a dict of names to Number, Category or "
                f"Embedding, got {short(self.columns)}"
            )
        for name, column in self.columns.items():
            check_text("the name of a column", name)
            if name in (JOINT, REST):
                raise InvalidInputError(
                    f"a column cannot be called {name}, which is the name of a block of features: rename it"
                )
            if not isinstance(column, FeatureColumn):
                raise TypeError(
                    f"the features of {name} must be a Number, Category or Embedding, got a {type(column).__name__}: "
                    f"scales are public, and never learned from the data"
                )
        object.__setattr__(self, "columns", dict(self.columns))
        check_int(self.seed, "seed", 0, _MOST_SEED)
        check_int(self.joint, "joint", 0, MOST_CELLS // 2)
        if not self.joint:
            unseen = [name for name, column in self.columns.items() if not column.cells]
            if unseen:
                raise InvalidInputError(
                    f"{short(unseen[0])} has no features, because its moments are 0: set moments, or add joint "
                    "features (joint=16)"
                )
            if (self.width, self.joint_weight) != (None, None):
                raise InvalidInputError(
                    "width and joint_weight need joint features; also give their number, such as joint=16"
                )
        else:
            numbers = [column for column in self.columns.values() if isinstance(column, Number)]
            if not numbers:
                raise InvalidInputError("joint features need a Number column, but there is none; leave out joint")
            width = float(_SPREAD) * math.sqrt(len(numbers)) if self.width is None else self.width
            object.__setattr__(self, "width", check_width(width))
            weight = sum(column.weight for column in numbers) if self.joint_weight is None else self.joint_weight
            object.__setattr__(self, "joint_weight", check_int(weight, "joint_weight", 1))
        object.__setattr__(self, "blocks", self._blocks())

    def _blocks(self) -> tuple[Block, ...]:
        parts = [(name, column.cells, column.weight) for name, column in self.columns.items() if column.cells]
        parts += [(JOINT, 2 * self.joint, int(self.joint_weight or 0))] if self.joint else []
        total, first, blocks = sum(weight for _, _, weight in parts), 0, []
        for name, cells, weight in parts:
            blocks.append(Block(name, first, cells, min(math.isqrt(_ONE**2 * weight // total), _ONE - 1)))
            first += cells
        if left := sum(block.amplitude**2 for block in blocks if isinstance(self.columns.get(block.name), Number)):
            blocks.append(Block(REST, first, 1, math.isqrt(left)))
            first += 1
        if first > MOST_CELLS:
            raise InvalidInputError(
                f"these columns have {first:,} features, and there may be {MOST_CELLS:,}: hash categories into fewer"
            )
        return tuple(blocks)

    @property
    def dim(self) -> int:
        """How many features a row has, D."""
        last = self.blocks[-1]
        return last.first + last.cells

    @property
    def lenient(self) -> dict[str, bool]:
        """Its columns, in which rows may hold anything, and whether each holds lists."""
        return {name: isinstance(column, Embedding) for name, column in self.columns.items()}

    @property
    def numeric(self) -> list[str]:
        """Its columns of numbers."""
        return [name for name, column in self.columns.items() if isinstance(column, Number)]

    @property
    def projection(self) -> Identity:
        """The map that sums features, with one cell for each, on a grid of 2^-15."""
        return Identity(dim=self.dim, resolution=Fraction(1, _ONE))

    def block(self, name: str) -> Block:
        """Return the block of a column, or `JOINT`; raise `InvalidInputError` for another name."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise InvalidInputError(
            f"there is no column {short(name)}; columns are {short([block.name for block in self.blocks])}"
        )

    def waves_of(self, block: Block) -> int:
        """Return the number of random frequencies of a block."""
        column = self.columns.get(block.name)
        return column.waves if isinstance(column, Embedding) else self.joint if block.name == JOINT else 0

    def cell_of(self, name: str, value: str) -> tuple[int, int]:
        """Return which cell of its block a value of a hashed category is in, and with which sign, 1 or -1."""
        column = self.columns.get(name)
        if not isinstance(column, Category) or column.values is not None:
            raise InvalidInputError(f"{short(name)} is not a hashed category, so its values have no cells")
        out = np.zeros((1, column.cells), dtype=np.int32)
        add_hashed(text_hashes(texts_in(pa.array([value]), name), self.seed), 1, column.cells - 1, out, 0)
        place = int(np.flatnonzero(out[0])[0])
        return place, int(out[0, place])

    # --- rows -----------------------------------------------------------------------------------------------

    def transform(self, rows: Any) -> Floats:
        """Return the features of each row of a table: float64, (n, D), multiples of 2^-15, as secret as the rows.

        Parameters
        ----------
        rows
            A data frame of pandas or polars, an Arrow table or reader, a relation of DuckDB, or anything else with
            ``__arrow_c_stream__``.

        Raises
        ------
        TypeError
            If ``rows`` is not such a table.
        InvalidInputError
            For columns that are missing, or have a type that cannot be such a column, such as lists for numbers.
        """
        parts = [
            self.cells({name: batch.column(name) for name in self.columns})
            for batch in batches_of(rows, list(self.columns), lenient=self.lenient)
        ]
        cells = np.concatenate(parts) if parts else np.zeros((0, self.dim), dtype=np.int32)
        return cells.astype(np.float64) / _ONE

    @property
    def texts(self) -> list[str]:
        """The names of the columns of categories, whose text has a spelling."""
        return [name for name, column in self.columns.items() if isinstance(column, Category)]

    def check_spelling(self, rule: TextRule) -> None:
        """Raise `InvalidInputError` if two listed values of a category are the same name under a rule for text."""
        for name in self.texts:
            self._listed(name, rule)

    def spelt(self, columns: "Mapping[str, pa.Array]", rule: TextRule) -> "dict[str, pa.Array]":
        """Return columns with the text of categories in the spelling of a rule; listed values are as they are listed.

        Parameters
        ----------
        columns
            Arrow arrays by name, of any type; what is not text stays as it is.
        rule
            The rule for text of an agreement.
        """
        spelt = dict(columns)
        for name in self.texts:
            spelt[name] = rule.apply_to(columns[name])
            for spelling, value in self._listed(name, rule).items():
                if spelling != value:
                    spelt[name] = _replaced(spelt[name], spelling, value)
        return spelt

    def _listed(self, name: str, rule: TextRule) -> dict[str, str]:
        """Return the listed values of a category by their spelling."""
        by_spelling: dict[str, str] = {}
        for value in self.columns[name].values or ():  # type: ignore[union-attr]
            if (other := by_spelling.setdefault(rule.apply(value), value)) != value:
                raise InvalidInputError(
                    f"the category {name} lists {short(other)} and {short(value)}, which are one name in the agreed "
                    f"spelling ({rule}): list one of them, or agree on another text"
                )
        return by_spelling

    def cells(self, columns: "Mapping[str, pa.Array]") -> Cells:
        """Return the features of rows in grid steps of 2^-15: int32, (n, D).

        No row is refused for what it holds: what does not fit a column is missing.

        Parameters
        ----------
        columns
            Arrow arrays of one length, with a column of each name at least.

        Raises
        ------
        InvalidInputError
            As in `transform`.
        """
        size = len(columns[next(iter(self.columns))])
        out = np.zeros((size, self.dim), dtype=np.int32)
        numbers = sum(isinstance(column, Number) for column in self.columns.values()) if self.joint else 0
        together = np.zeros((max(numbers, 1), size))  # integers
        rest, scratch, at = np.zeros(size, dtype=np.int64), np.zeros(size), 0
        blocks = {block.name: block for block in self.blocks}
        for name, column in self.columns.items():
            array, block = columns[name], blocks.get(name, Block(name, 0, 0, 0))
            check_codes(array, name)
            if isinstance(column, Number):
                amplitude = math.isqrt(block.amplitude**2 // max(column.moments, 1))
                held = together[at] if numbers else scratch
                at += 1
                values = np.clip(numbers_in(array, block.name), column.low, column.high)
                shares = (values - column.low) / (column.high - column.low)
                rest += block.amplitude**2
                add_numbers(shares, column.moments, amplitude, block.amplitude, out, block.first, held, rest)
            elif isinstance(column, Category):
                self._add_category(array, column, block, out)
            else:
                self._add_embedding(array, column, block, out)
        if self.joint:
            self._add_joint(together, out)
        if self.blocks[-1].name == REST:
            # below 2^30, so the root of a float, floored, is exact
            out[:, self.blocks[-1].first] = np.sqrt(np.maximum(rest, 0)).astype(np.int32)
        return out

    def _add_category(self, array: "pa.Array", column: Category, block: Block, out: Cells) -> None:
        texts = texts_in(array, block.name)
        if column.values is None:
            add_hashed(text_hashes(texts, self.seed), block.amplitude, column.cells - 1, out, block.first)
        else:
            add_listed(listed_places(texts, column.values), block.amplitude, out, block.first)

    def _add_embedding(self, array: "pa.Array", column: Embedding, block: Block, out: Cells) -> None:
        vectors = vectors_in(array, column.size, block.name)
        levels, norms = np.empty_like(vectors), np.empty(vectors.shape[0])
        quantise_vectors(vectors, levels, norms)
        # a step of a phase is below 2^12 · 2^10 · 2^16 = 2^38, so that sums of floats are exact in any order
        phases = levels @ self._frequencies(block.name, column.size, column.waves)
        # the norm is that of the levels, so a vector's own scale cancels out
        factor = float(Fraction(1 << TURN_BITS, 1 << _FRACTION_BITS) / (2 * _PI * Fraction(column.width)))
        table = cosine_table(math.isqrt(block.amplitude**2 // column.waves))
        add_directions(phases, norms, factor, table, block.amplitude, out, block.first)

    def _add_joint(self, together: Any, out: Cells) -> None:
        block = self.block(JOINT)
        # below 2^15 · 2^12 · 2^10 = 2^37: exact, as above
        phases = together.T @ self._frequencies(JOINT, together.shape[0], self.joint)
        # a range has 2^16 steps
        step = Fraction(1 << (TURN_BITS + _WAVE_BITS), 1 << (UNIT_BITS + 1 + _FRACTION_BITS))
        multiplier = round(step / (2 * _PI * Fraction(self.width or 1)))
        table = cosine_table(math.isqrt(block.amplitude**2 // self.joint))
        add_waves(phases, multiplier, table, out, block.first)

    def _frequencies(self, name: str, size: int, waves: int) -> Floats:
        """Return standard normal frequencies in multiples of 2^-8: float64, (size, waves)."""
        draw = _kept_frequencies if size * waves <= _KEPT else _frequencies
        return draw(self.seed, name, size, waves)

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return the features as what JSON can hold."""
        return {
            "columns": [{"name": name, **column_fields(column)} for name, column in self.columns.items()],
            "seed": self.seed,
            "joint": self.joint,
            "width": self.width,
            "joint_weight": self.joint_weight,
        }

    @staticmethod
    def from_dict(fields: Any) -> "Features":
        """Return the features that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For other fields or values.
        """
        wanted = {"columns", "seed", "joint", "width", "joint_weight"}
        if not isinstance(fields, Mapping) or fields.keys() != wanted:
            raise InvalidInputError(f"features are an object of {', '.join(sorted(wanted))}, got {short(fields)}")
        entries = fields["columns"]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and "name" in entry for entry in entries):
            raise InvalidInputError(f"the columns of features are a list of objects with a name, got {short(entries)}")
        columns: dict[str, FeatureColumn] = {}
        for entry in entries:
            name = entry["name"]
            if not isinstance(name, str) or name in columns:
                raise InvalidInputError(f"names of columns are texts, each once, got {short(name)}")
            columns[name] = column_of(name, {key: value for key, value in entry.items() if key != "name"})
        return Features(columns, **{name: fields[name] for name in wanted - {"columns"}})

    def to_json(self) -> str:
        """Return the features as canonical JSON: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str | bytes) -> "Features":
        """Return the features that `to_json` wrote; errors as `from_dict`, and for text that is not JSON."""
        return Features.from_dict(json_fields(text, "features", {"columns"}))


def _frequencies(seed: int, name: str, size: int, waves: int) -> Floats:
    own = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "little")
    projection = GaussianProjection(dim=size, sketch_dim=waves, seed=own, fraction_bits=_FRACTION_BITS)
    frequencies: Floats = projection.columns(np.arange(size)).T.astype(np.float64)
    frequencies = np.ascontiguousarray(frequencies)
    frequencies.flags.writeable = False
    return frequencies


_kept_frequencies = functools.lru_cache(maxsize=16)(_frequencies)


SERVICES.enter("agreed features", Features.from_dict)


def _replaced(array: "pa.Array", spelling: str, value: str) -> "pa.Array":
    """Return text with one word in place of another, and any other column as it is."""
    if pa.types.is_dictionary(array.type):
        words = _replaced(array.dictionary, spelling, value)
        return pa.DictionaryArray.from_arrays(array.indices, words)
    if not is_text_type(array.type):
        return array
    return pc.if_else(pc.fill_null(pc.equal(array, spelling), fill_value=False), pa.scalar(value, array.type), array)
