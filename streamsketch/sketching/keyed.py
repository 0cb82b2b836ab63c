"""Columns of keys as positions among the distinct ones."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Ints
from streamsketch.core.text import warn_outside
from streamsketch.data.columns import key_column, keys_named, value_type
from streamsketch.errors import InvalidInputError, KeyTypeWarning
from streamsketch.kernels.slots import Codes
from streamsketch.projections.base import Projection
from streamsketch.sketching.encoding import encode_batch


def keyed_steps(
    projection: Projection, keys: object, indices: object, values: object, last: "LastKeys"
) -> tuple[Sequence[Any], Codes, Ints, Ints]:
    """Return the arguments of `SketchTable.add_steps` for a batch; parameters and errors as in `SketchTable.update`."""
    encoded, quantised = encode_batch(projection, indices, values)
    column = table_keys(keys)
    if len(column) != encoded.size:
        raise InvalidInputError(f"keys and indices must have the same length, got {len(column)} and {encoded.size}")
    return *last.codes_of(column), encoded, quantised


def codes_of(column: "pa.Array") -> tuple[list[Any], Codes]:
    """Return the distinct keys of a column, and the place of each row's key among them.

    Words of a dictionary that are the same key get one place: a unit is clipped by places.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words, codes = python_keys(column.dictionary), column.indices.to_numpy(zero_copy_only=False)
    places = {key: place for place, key in enumerate(dict.fromkeys(words))}
    if len(places) < len(words):
        codes = np.array([places[word] for word in words], dtype=np.int64)[codes]
    return list(places), codes


class LastKeys:
    """The keys of the last dictionary that a table read, and their rows: batches of a stream often share one."""

    __slots__ = ("_dictionary", "distinct", "rows")

    def __init__(self) -> None:
        self._dictionary: pa.Array | None = None
        self.distinct: Sequence[TableKey] = ()
        """Distinct keys, as `codes_of` returns them."""
        self.rows: Ints | None = None
        """Where they are in the table, once all of them are."""

    def codes_of(self, column: "pa.Array") -> tuple[Sequence[Any], Codes]:
        """Return what `codes_of` does."""
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if self._dictionary is not None and column.dictionary.equals(self._dictionary):
            return self.distinct, column.indices.to_numpy(zero_copy_only=False)
        distinct, codes = codes_of(column)
        whole = len(distinct) == len(column.dictionary)  # otherwise places are not those of the dictionary
        self._dictionary, self.distinct, self.rows = column.dictionary if whole else None, tuple(distinct), None
        return self.distinct, codes


def table_keys(column: object) -> "pa.Array":
    """Return a key column as a plain or dictionary-encoded Arrow array."""
    array = key_column(column, "key")
    if pa.types.is_timestamp(value_type(array)):
        raise InvalidInputError("times cannot be keys of a table: their units differ; cast them to text or dates first")
    return array


def public_names(keys: Iterable[object]) -> list[Any]:
    """Return the different keys in ``public_keys``, as they are in a table; errors as `keys_named` and `table_keys`."""
    return list(dict.fromkeys(python_keys(table_keys(keys_named(keys, "public_keys")))))


def warn_of_other_types(named: Collection[object], held: Iterable[object]) -> None:
    """Warn if no key of the data has a type of the public keys.

    The warning depends on the data, and only the operator sees it. An error would be visible to everyone.
    """
    own, wanted = ({type(key) for key in keys} for keys in (held, named))
    if own and wanted and not own & wanted:
        own_names, wanted_names = (" and ".join(sorted(kind.__name__ for kind in kinds)) for kinds in (own, wanted))
        warn_outside(
            f"the data's keys are {own_names}, and public_keys are {wanted_names}: none of them has data, because 7 "
            "and '7' are different keys. Pass keys of the data's type, or sketch under an agreement, which casts "
            "both. This warning depends on the data: do not publish it",
            KeyTypeWarning,
        )


def python_keys(array: "pa.Array") -> list[TableKey]:
    """Return the keys of an Arrow array as Python objects."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        keys: list[TableKey] = array.to_pylist()
    except (UnicodeDecodeError, OverflowError) as error:
        raise InvalidInputError(
            f"the key column holds text that is not UTF-8, or dates beyond the year 9999 ({type(error).__name__})"
        ) from None
    return keys
