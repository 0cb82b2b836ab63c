"""What an operator should know of the files that were read: no rows, and texts that often stand for nobody."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamsketch.agreement.columns import Column
from streamsketch.core.libraries import pa, pc
from streamsketch.data.columns import LARGEST_ASCII, bytes_of_texts, is_text_type, value_type
from streamsketch.intake.columns import Mask, plain

MISSING_TEXTS = (
    *("NA", "N/A", "#N/A", "#NA", "<NA>", "NULL", "<NULL>", "(null)", "NaN", "-NaN", "NaT", "None", "nil", "\\N"),
    *("1.#QNAN", "-1.#IND", "undefined"),
)
"""Texts that programs write for a missing value, in any case; pandas reads most of them as missing."""

_BLANKS = "blanks"
_NAMED = {text.lower(): text for text in MISSING_TEXTS} | {"": _BLANKS}
_LONGEST = max(map(len, MISSING_TEXTS))
_BEGINS = np.isin(
    np.arange(256), [ord(letter) for text in MISSING_TEXTS for letter in (text[0].lower(), text[0].upper())]
)
_MAY_BE_BLANK = (np.arange(256) <= ord(" ")) | (np.arange(256) > LARGEST_ASCII)  # as bytes of UTF-8


@dataclass
class Seen:
    """What was seen in files, for the operator's eyes alone.

    Parameters
    ----------
    rows
        The number of rows that were read of each file.
    unit_texts
        Which of `MISSING_TEXTS` were cells of the unit column; ``"blanks"`` stands for text of white space alone. All
        rows with one of them count as one unit.

    Examples
    --------
    >>> seen = Seen()
    >>> seen.add("a.csv", pa.record_batch({"customer": ["null", "Ann", "NA"]}), Column("customer", "text"))
    >>> seen.rows, sorted(seen.unit_texts)
    ({'a.csv': 3}, ['NA', 'NULL'])
    """

    rows: dict[str, int] = field(default_factory=dict)
    unit_texts: set[str] = field(default_factory=set)

    def add(self, name: str, batch: "pa.RecordBatch", unit: Column | None) -> None:
        """Note a batch of a file, as it was read, and no batch of another type."""
        self.rows[name] = self.rows.get(name, 0) + batch.num_rows
        if unit is None or batch.schema.names.count(unit.name) != 1:
            return
        column: Any = batch.column(unit.name)
        if not is_text_type(value_type(column)):
            return
        try:
            cells = plain(column.dictionary if pa.types.is_dictionary(column.type) else column)
            cells = cells.filter(pa.array(_may_be_missing(cells))).cast(pa.large_string())
            cells = cells.filter(pc.greater(pc.binary_length(cells), 0))  # empty text is a missing unit
            texts = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
            missing = texts.filter(pc.is_in(texts, pa.array(list(_NAMED), pa.large_string())))
        except pa.ArrowException:
            return  # text that is not UTF-8, which is refused where rows are read
        self.unit_texts |= {_NAMED[text] for text in pc.unique(missing).to_pylist()}


def _may_be_missing(cells: "pa.Array") -> Mask:
    """Return which texts may be one of `MISSING_TEXTS` or blanks, by their ends and lengths: bool, (n,).

    Hardly any unit may, and to read a text takes many times as long.
    """
    joined = bytes_of_texts(cells)
    if joined is None or not joined[0].size:
        return np.ones(len(cells), dtype=np.bool_)
    used, ends = joined
    first, last = used.take(ends[:-1], mode="clip"), used.take(ends[1:] - 1, mode="clip")
    at_edges = _MAY_BE_BLANK[first] | _MAY_BE_BLANK[last]
    mask: Mask = at_edges | (_BEGINS[first] & (np.diff(ends) <= _LONGEST))
    return mask
