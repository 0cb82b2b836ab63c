"""Rows of tables as events: cast to the agreed types, with one rule for missing fields and one for malformed rows."""

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows, cast, misfit, misfits, numbers, text_numbers
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import AGREEMENT, wrong_type
from streamsketch.data.calendar import EventWindows, check_times_of_day
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.columns import NOT_SHOWN, check_codes, is_text_type, value_type
from streamsketch.data.formats import check_format
from streamsketch.data.grid import quantise_and_tell, quantise_one, warn_of_truncation
from streamsketch.data.keys import indices_of
from streamsketch.data.tables import batches_of
from streamsketch.data.windows import micros_in, not_a_time, readable_times
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.intake.columns import Mask, check_text, missing, null, plain, salvage
from streamsketch.intake.events import Events
from streamsketch.intake.units import unit_events

OnBad: TypeAlias = Literal["refuse", "drop"] | Callable[[int, str], Any]
"""What to do with a malformed row; a function is called with its number and what is wrong with it."""
_Columns: TypeAlias = dict[str, "pa.Array"]
Read = TypeVar("Read")

_CAST = b"streamsketch.agreement"  # metadata of a cast batch's schema: the agreement that cast it
_HASHING = "a projection with dim={dim} takes integers as indices; use dim=2**60 to hash text"
_CELLS = 1 << 22  # features that are made at a time: 16 MiB


class Intake:
    """Reads rows of tables, files and streams under an agreement, and returns them as `Events`.

    The agreement's ``missing`` decides whether a row with a missing value (null, NaN or blank text) is refused or
    dropped. A row is malformed if a value does not fit its agreed type, an index is out of range, a number is not
    finite, text is not UTF-8, a time cannot be read, or a required value is missing.

    Parameters
    ----------
    agreement
        Which columns are read, as which types.
    on_bad
        How to treat a malformed row. ``"refuse"`` raises an error that names the row. ``"drop"`` leaves out that row
        only. A function is called with the row's number and a text that describes the fault without showing a value;
        the row is left out too. No Arrow type holds both nanoseconds and all years, so with ``"drop"`` or a function,
        text under the type ``"timestamp"`` is malformed outside the years 1678 to 2261.
    bounded
        Whether each unit's rows will be clipped to the agreed bound. An error would then reveal what one unit sent. So
        rows that cannot be sketched are always left out, even those with nulls if the agreement has ``missing="keep"``,
        and values are clipped to 2**62 - 1 grid steps. ``on_bad`` then applies only to rows that break the agreement,
        because a value does not fit its type, or is blank although the agreement refuses blanks.
    time
        The column of event times, which holds times, dates or text. It may be one of the agreed columns or another one.
    time_format
        Format of times in text, as for ``strptime``; by default ISO 8601.
    windows
        The windows that times fall into, for `Events.window`: `Tumbling` or `Calendar`.

    Examples
    --------
    >>> from streamsketch import SJLT, Agreement
    >>> from streamsketch.data.windows import Tumbling
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement(projection, index={"item": "integer"}, value="sold")
    >>> batch = pa.record_batch({"item": ["7", "8", "x"], "sold": [3, 2, 1], "at": ["2026-01-01", "2026-01-02", ""]})
    >>> Intake(agreement, on_bad="drop").read(batch).steps
    array([3, 2])
    >>> bad = []
    >>> days = Tumbling(86_400 * 10**6)
    >>> collecting = Intake(agreement, on_bad=lambda row, why: bad.append(row), time="at", windows=days)
    >>> collecting.read(batch, first=10).window, bad
    (array([20454, 20455]), [12])
    >>> Intake(agreement).read(batch)
    Traceback (most recent call last):
        ...
    streamsketch.errors.InvalidInputError: the column item holds string, ...
    """

    def __init__(
        self,
        agreement: Agreement,
        *,
        on_bad: OnBad = "refuse",
        bounded: bool = False,
        time: str | None = None,
        time_format: str | None = None,
        windows: EventWindows | None = None,
    ) -> None:
        if not isinstance(agreement, Agreement):
            raise wrong_type("agreement must be an Agreement", agreement, AGREEMENT)
        if not callable(on_bad) and on_bad not in ("refuse", "drop"):
            raise InvalidInputError(f"on_bad must be 'refuse', 'drop' or a function, got {on_bad!r:.40}")
        if bounded and agreement.unit is None:
            raise InvalidInputError(
                "the agreement names no column of units, so nothing can be bounded; name it, such as unit='customer'"
            )
        if windows is not None and time is None:
            raise InvalidInputError("windows need a column of times; name it, such as time='at'")
        check_format(time_format)
        self._agreement, self._on_bad, self._bounded = agreement, on_bad, bounded
        self.conditions = set[str]()
        """Conditions under which the rows of a unit are only its own, which whoever reads a text adds (`Bounds`)."""
        self._time, self._time_format, self._windows = time, time_format, windows
        self._agreed = agreement.names
        self._needed = [name for name in agreement.names if name not in getattr(agreement.features, "columns", ())]
        if windows is not None and time is not None and time not in self._needed:
            self._needed.append(time)  # a row without a time is in no window
        self._keeps = agreement.missing == "keep"

    @property
    def agreement(self) -> Agreement:
        """Which columns are read, as which types."""
        return self._agreement

    @property
    def names(self) -> list[str]:
        """Names of all columns that are read, each once."""
        return list(dict.fromkeys([*self._agreed, *([] if self._time is None else [self._time])]))

    @property
    def needed(self) -> list[str]:
        """The names of the agreed columns that every row must have, which are all but those of features."""
        return list(self._needed)

    @property
    def lenient(self) -> dict[str, bool]:
        """The columns of features, in which rows may hold anything, and whether each column holds lists."""
        return {} if self._agreement.features is None else self._agreement.features.lenient

    def batches(self, rows: object) -> Iterator[Events]:
        """Yield the rows of a table, batch by batch. Warn the operator if truncation loses part of a value.

        Parameters
        ----------
        rows
            A pandas or polars data frame, an Arrow table or reader, a DuckDB relation, or anything else with
            ``__arrow_c_stream__``. Lazy ones are read batch by batch.

        Raises
        ------
        TypeError
            If ``rows`` is not such a table.
        InvalidInputError
            If a column is missing, and as in `read`.
        """
        for events in self.numbered(batches_of(rows, self.names, lenient=self.lenient)):
            if events.truncated:
                warn_of_truncation(self._agreement.projection.grid)
            yield events

    def numbered(self, batches: "Iterable[pa.RecordBatch]", first: int = 1) -> Iterator[Events]:
        """Yield the rows of batches, numbered from ``first`` over all batches. Raises the same errors as `read`."""
        for batch in batches:
            yield from self.parts(batch, range(first, first + batch.num_rows))
            first += batch.num_rows

    def parts(self, batch: "pa.RecordBatch", rows: Rows) -> Iterator[Events]:
        """Yield the rows of a batch, which have these numbers, as many at a time as `read` should make features of."""
        features = self._agreement.features
        most = max(1, batch.num_rows if features is None else _CELLS // features.dim)
        for start in range(0, max(1, batch.num_rows), most):
            yield self.read(batch.slice(start, most), rows[start : start + most])

    def read(self, batch: "pa.RecordBatch", first: int | Rows = 1) -> Events:
        """Return the rows of a batch as `Events`.

        Parameters
        ----------
        batch
            The rows.
        first
            The number of the first row, or those of all rows, by which errors name them.

        Raises
        ------
        InvalidInputError
            If a column's type cannot be cast, or if a row is malformed and ``on_bad`` is ``"refuse"``. The message
            names column and row, but no value.
        IncompatibleAgreementsError
            If another agreement has already cast the batch.
        """
        return self._read_numbered(batch, rows_from(first, batch))

    def _read_numbered(self, batch: "pa.RecordBatch", numbers: Rows) -> Events:
        """Return the rows of a batch, which have these numbers."""
        agreement = self._agreement
        columns, rows, is_cast = self._present(batch, numbers)

        def read(columns: _Columns, rows: Rows, on_bad: Any = None) -> Events:
            return self._events(columns if is_cast else self._cast(columns, rows), rows, on_bad)

        if not self._bounded and agreement.rows_rule is not None and agreement.rows_rule.is_one:
            raise InvalidInputError(
                f"the agreement counts the rows of a unit together (rows_of_unit='{agreement.rows_rule}'), and here "
                "rows are added up one by one: bound them, as streamsketch.bound and agreement.release do, or agree on "
                "rows_of_unit='all'"
            )
        events = self._read(read, columns, rows)
        if events.rows == batch.num_rows:
            return events
        blank = events.blank + batch.num_rows - len(rows)
        return dataclasses.replace(events, rows=batch.num_rows, blank=blank, fates=None)

    def cast(self, batch: "pa.RecordBatch", first: int = 1) -> "pa.RecordBatch":
        """Return the columns of a batch, cast to the agreed types; as `cast_rows`."""
        return self.cast_rows(batch, first)[0]

    def cast_rows(
        self, batch: "pa.RecordBatch", first: int | Rows = 1, *, is_whole: bool = False
    ) -> "tuple[pa.RecordBatch, Rows]":
        """Return the columns of a batch, cast to the agreed types, without rows that lack a value, and their numbers.

        ``is_whole`` states that the columns are in the agreed spelling (`spelt`), and that no row is `lacking`.

        Integers, booleans and decimals become int64, as they are hashed, and values become numbers. Times do not
        change. The schema names the agreement that cast the batch, so that `read` does not cast it again. The errors
        are those of `read`, which also checks that the rows can be sketched.
        """
        columns, rows, is_cast = self._present(batch, rows_from(first, batch), is_whole=is_whole)
        if is_cast:
            return batch, rows
        arrays, rows = self._read(lambda columns, rows, _=None: (self._cast(columns, rows), rows), columns, rows)
        value, typed = self._agreement.value, {column.name for column in self._agreement.columns}
        if value is not None and value not in typed and is_text_type(value_type(columns[value])):
            arrays[value] = arrays[value].cast(text_numbers())  # whole numbers of one batch need not be so in the next
        schema = pa.schema(
            [(name, arrays[name].type) for name in self.names], {_CAST: self._agreement.fingerprint.encode()}
        )
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.names], schema=schema), rows

    def _present(self, batch: "pa.RecordBatch", rows: Rows, *, is_whole: bool = False) -> tuple[_Columns, Rows, bool]:
        """Return the columns of rows in which nothing is missing, the rows' numbers, and whether they were cast."""
        done = (batch.schema.metadata or {}).get(_CAST, b"").decode()
        if done:
            if done != self._agreement.fingerprint:
                raise IncompatibleAgreementsError(
                    f"these rows were already cast by the agreement {done}, but this one is "
                    f"{self._agreement.fingerprint}; use one agreement in both steps"
                )
            return {name: batch.column(name) for name in self.names}, rows, True
        columns = {}
        for name in self.names:
            if batch.schema.names.count(name) != 1:
                raise InvalidInputError(f"rows must have the column {name} exactly once; {NOT_SHOWN}")
            column = batch.column(name)
            check_codes(column, name)
            columns[name] = column if is_whole else self._spelt_one(name, column)
        if is_whole:
            return columns, rows, False
        absent = {
            name: (null if self._keeps and name != self._time else missing)(columns[name]) for name in self._needed
        }
        gone: Mask = functools.reduce(np.logical_or, absent.values(), np.zeros(batch.num_rows, dtype=np.bool_))
        if gone.any():
            if self._agreement.missing != "drop" and not (self._keeps and self._bounded):
                self._refuse(absent, np.flatnonzero(gone), rows)
            kept = pa.array(~gone)
            rows = chosen(rows, ~gone)
            columns = {name: column.filter(kept) for name, column in columns.items()}
        return columns, rows, False

    def spelt(self, columns: _Columns) -> _Columns:
        """Return agreed columns in the agreed spelling; those that are in it already are returned themselves."""
        return {name: self._spelt_one(name, column) for name, column in columns.items()}

    def _spelt_one(self, name: str, column: "pa.Array") -> "pa.Array":
        agreed = next((candidate for candidate in self._agreement.columns if candidate.name == name), None)
        if agreed is None or name not in self._needed:
            return plain(column)
        return self._agreement.spelt(plain(column), agreed)

    def lacking(self, column: "pa.Array", name: str) -> Mask:
        """Return which rows lack a value in an agreed column, which is in the agreed spelling: bool, (n,).

        Blank text is a value if the agreement keeps what is missing, but names no unit.
        """
        return (null if self.keeps_blanks(name) else missing)(column)

    def keeps_blanks(self, name: str) -> bool:
        """Return whether blank text is a value in a column."""
        unit = self._agreement.unit
        return self._keeps and (unit is None or name != unit.name)

    def _refuse(self, absent: dict[str, Mask], places: Ints, rows: Rows) -> None:
        """Raise for the rows at some places, in which something is missing, or report each of them."""
        if self._on_bad == "refuse":
            name, flags = next((name, flags) for name, flags in absent.items() if flags.any())
            if not self._keeps:
                raise InvalidInputError(blank(name, rows[int(flags.argmax())]))
            raise InvalidInputError(
                f"the column {name} has nulls ({int(flags.sum()):,} of {len(rows):,} rows read together); drop or fill "
                f"those rows first"
            )
        if callable(self._on_bad):
            for place in places.tolist():
                name = next(name for name, flags in absent.items() if flags[place])
                self._on_bad(int(rows[place]), blank(name, rows[place]))

    def _cast(self, columns: _Columns, rows: Rows) -> _Columns:
        """Return columns without missing values, cast to the agreed types; a column of times is not changed."""
        agreement = self._agreement
        dim = agreement.projection.dim
        hint = "" if dim == HASHED_DIM else f"; {_HASHING.format(dim=dim)}"
        typed = {
            column.name: cast(
                columns[column.name],
                column,
                rows,
                keep_times=self._keeps and column != agreement.key,
                alone=self._on_bad != "refuse",
                hint=hint if column in agreement.index else "",
            )
            for column in agreement.columns
        }
        if agreement.value is not None and agreement.value not in typed:
            grid = None if self._keeps else agreement.projection.grid
            typed[agreement.value] = numbers(columns[agreement.value], agreement.value, grid, rows)
        return columns | typed

    def _events(self, columns: _Columns, rows: Rows, on_bad: Callable[[int, str], Any] | None) -> Events:
        """Return columns of the agreed types as events."""
        agreement, projection, window = self._agreement, self._agreement.projection, None
        if self._windows is not None and self._time is not None:
            check_times_of_day(self._windows, columns[self._time], self._time, self._time_format)
            window = self._windows.number(self._micros(columns[self._time], self._time, rows))
        keys, units = (None if column is None else columns[column.name] for column in (agreement.key, agreement.unit))
        index = [columns[column.name] for column in agreement.index]
        values = None if agreement.value is None else columns[agreement.value]
        if agreement.features is not None:
            return self._features(agreement.features, columns, rows, keys, units, window, on_bad)
        if self._bounded:
            bad = on_bad and (lambda place, why: on_bad(int(rows[place]), why))
            return unit_events(projection, units, keys, index, values, window=window, on_bad=bad)
        indices = indices_of(index, projection.dim, projection.seed)
        steps, truncated = self._steps(values, rows)
        if self._on_bad != "refuse":
            for column, array in ((agreement.key, keys), (agreement.unit, units)):
                if column is not None:
                    check_text(array, column.name)
        return Events(keys, units, indices, steps, window, values, truncated, len(rows))

    def _micros(self, column: "pa.Array", name: str, rows: Rows) -> Ints:
        """Return times in microseconds; an error names the first row whose text is no time."""
        try:
            return micros_in(column, name, self._time_format)
        except InvalidInputError:
            legible = readable_times(column, self._time_format)
            if legible.all():
                raise
            why = not_a_time(name, self._time_format, row=int(rows[int(legible.argmin())]))
            raise InvalidInputError(why) from None

    def _features(
        self, features: AgreedFeatures, columns: _Columns, rows: Rows, keys: Any, units: Any, window: Any, on_bad: Any
    ) -> Events:
        """Return the features of rows, whatever these hold, with keys and units that are valid."""
        rule, none = self._agreement.rule, np.empty(0, dtype=np.int64)
        cells = features.cells(columns if rule is None else features.spelt(columns, rule))
        times = self._times(columns)
        if not self._bounded:
            if self._on_bad != "refuse":
                for column, array in ((self._agreement.key, keys), (self._agreement.unit, units)):
                    if column is not None:
                        check_text(array, column.name)
            return Events(keys, units, none, none, window, rows=len(rows), features=cells)
        bad = on_bad and (lambda place, why: on_bad(int(rows[place]), why))
        places = np.arange(len(rows))
        index = [pa.array(np.zeros(len(rows), dtype=np.int64))]
        # its window column says which rows are left
        left = unit_events(self._agreement.projection, units, keys, index, None, window=places, on_bad=bad)
        kept: Any = left.window
        if kept.size < len(rows):
            cells = cells[kept]
            window, times = (None if column is None else column[kept] for column in (window, times))
        return dataclasses.replace(left, indices=none, steps=none, window=window, features=cells, times=times)

    def _times(self, columns: _Columns) -> Ints | None:
        """Return the times by which one row of a unit is chosen, if the agreement says so: int64, (n,)."""
        rule = self._agreement.rows_rule
        if rule is None or rule.time is None:
            return None
        column = columns[rule.time.name]
        if pa.types.is_integer(column.type):
            numbers: Ints = column.to_numpy(zero_copy_only=False)
            return numbers
        return micros_in(column, rule.time.name)

    def _steps(self, values: object, rows: Rows) -> tuple[Ints, bool]:
        grid = self._agreement.projection.grid
        if values is None:
            return np.full(len(rows), quantise_one(1, grid), dtype=np.int64), False
        try:
            return quantise_and_tell(values, grid)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the column {self._agreement.value}, rows {rows[0]:,} to {rows[-1]:,}: {error}"
            ) from None

    def _read(self, read: Callable[..., Read], columns: _Columns, rows: Rows) -> Read:
        """Return the result of ``read``; if bad rows are not refused, without those that fail by themselves."""
        on_bad: Any = self._on_bad if callable(self._on_bad) else lambda *_: None
        try:
            return read(columns, rows, on_bad)
        except InvalidInputError:
            if self._on_bad == "refuse":
                raise
        # a dictionary may hold a bad text of another row; decoded, each row is judged by its own text
        dictionaries = {name: array for name, array in columns.items() if pa.types.is_dictionary(array.type)}
        columns = columns | {name: array.dictionary_decode() for name, array in dictionaries.items()}
        reasons = self._misfits(columns, rows)
        good = np.ones(len(rows), dtype=np.bool_)
        good[list(reasons)] = False
        places = np.flatnonzero(good)
        tried, numbered = self._at(good, columns, rows)

        def part(start: int, stop: int) -> None:
            read({name: array.slice(start, stop - start) for name, array in tried.items()}, numbered[start:stop])

        def bad(place: int, error: Exception) -> None:
            reasons[int(places[place])] = str(error)

        deque(salvage(part, places.size, bad), 0)
        for place in sorted(reasons):
            on_bad(int(rows[place]), reasons[place])
        good[list(reasons)] = False
        kept, numbered = self._at(good, columns, rows)
        return read(kept, numbered, on_bad)

    def _misfits(self, columns: _Columns, rows: Rows) -> dict[int, str]:
        """Return what is wrong with rows whose text certainly is not of the agreed type, by place."""
        agreement = self._agreement
        looked: dict[str, Any] = {column.name: column for column in agreement.columns}
        if agreement.value is not None and not self._keeps:
            looked.setdefault(agreement.value, None)
        reasons: dict[int, str] = {}
        for name, column in looked.items():
            for place in np.flatnonzero(misfits(columns[name], column)).tolist():
                reasons.setdefault(place, misfit(name, columns[name].type, int(rows[place]), column))
        return reasons

    @staticmethod
    def _at(flags: Mask, columns: _Columns, rows: Rows) -> tuple[_Columns, Rows]:
        """Return the columns and the numbers of some rows."""
        kept = pa.array(flags)
        return {name: array.filter(kept) for name, array in columns.items()}, chosen(rows, flags)


def rows_from(first: int | Rows, batch: "pa.RecordBatch") -> Rows:
    """Return the numbers of the rows of a batch, of which ``first`` states the first one or all."""
    return range(first, first + batch.num_rows) if isinstance(first, int) else first


def chosen(rows: Rows, flags: Mask) -> Rows:
    """Return the numbers of the rows with a flag: bool, (n,).

    Examples
    --------
    >>> chosen(range(7, 10), np.array([True, False, True])).tolist()
    [7, 9]
    """
    if flags.all():
        return rows
    if isinstance(rows, range):  # which NumPy reads number by number
        return np.flatnonzero(flags) + rows.start
    return np.asarray(rows)[flags]


def blank(name: str, row: int) -> str:
    """Return what is wrong with a row that lacks a value in a column."""
    return (
        f"the column {name} is null or blank in row {row:,}, and the agreement refuses missing values; fill or drop "
        "such rows, or agree on missing='drop'"
    )
