"""Events with their privacy units: values quantised, malformed rows dropped.

An error for a malformed row of one unit would abort the whole job because of one person's data, and reveal it. So a
fault in a *row* (a null, NaN, an infinity, an index out of range, text that is not UTF-8, empty text as the unit, a
field of another type in rows of Python objects) drops that row; a fault in a *column* (its type, its name) is the
caller's mistake and raises.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamsketch.core import Ints
from streamsketch.data import arrow_column, is_key_type, quantise, quantise_one, value_type
from streamsketch.errors import InvalidInputError
from streamsketch.kernels import Words
from streamsketch.projections import Projection
from streamsketch.sketching.bounding.digests import UnitDigests
from streamsketch.sketching.bounding.objects import INDICES, KEYS, VALUES, Lists, is_list
from streamsketch.sketching.bounding.summary import BoundingSummary

Slot: TypeAlias = tuple[Any, int]
"""A key and a window (its last moment, in microseconds), which together identify a sketch."""

_FEW_SLOTS, _EVENTS_A_SLOT = 32, 8  # such slots weigh less than leaving some out takes
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_MOST_STEPS = (1 << 62) - 1  # of one value; heavier ones are clipped to it, in place of an error
_OFF_GRID = 1e-9  # of a value: what floats lose is no truncation
_DAY = 86_400_000  # in ms
_MAX_EXPONENT = 40  # of decimals; what is larger is beyond any reach, what is smaller below any grid step


@dataclasses.dataclass(frozen=True, eq=False)
class Contributions:
    """Valid, quantised events of many units, as columns of equal length.

    Parameters
    ----------
    units
        Digests of the privacy units, by `UnitDigests`: uint64, (n, 2).
    slots
        Distinct slots.
    codes
        The position of each event's slot in ``slots``: int64, (n,).
    indices, steps
        Indices in [0, dim), and values in grid steps: int64, (n,).
    """

    units: Words
    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints

    def __len__(self) -> int:
        return self.codes.size

    def rows(self, rows: NDArray[Any] | slice) -> "Contributions":
        """Return some of the events, selected by a mask, by positions or, without copying, by a slice."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)  # once, not for each column
        return Contributions(self.units[rows], self.slots, self.codes[rows], self.indices[rows], self.steps[rows])

    def compact(self) -> "Contributions":
        """Return the same events without many unused slots, for sending events in many parts."""
        if len(self.slots) <= max(_FEW_SLOTS, len(self) // _EVENTS_A_SLOT):
            return self
        slots, codes = used_slots(self.slots, self.codes)
        return dataclasses.replace(self, slots=slots, codes=codes)


def used_slots(slots: list[Slot], codes: Ints) -> tuple[list[Slot], Ints]:
    """Return the slots that occur in ``codes``, and the codes renumbered to match."""
    used = np.zeros(len(slots), dtype=bool)
    used[codes] = True
    places: Ints = np.cumsum(used) - 1
    return [slots[place] for place in np.flatnonzero(used).tolist()], places[codes]


def concatenated(parts: Sequence[Contributions]) -> Contributions:
    """Return the events of all parts as one object."""
    if len(parts) == 1:
        return parts[0]
    slots: dict[Slot, int] = {}
    codes = [np.empty(0, dtype=np.int64)]
    for part in parts:
        places = [slots.setdefault(slot, len(slots)) for slot in part.slots]
        same = places == list(range(len(places)))
        codes.append(part.codes if same else np.array(places, dtype=np.int64)[part.codes])
    return Contributions(
        np.concatenate([np.empty((0, 2), dtype=np.uint64), *(part.units for part in parts)]),
        list(slots),
        np.concatenate(codes),
        np.concatenate([codes[0], *(part.indices for part in parts)]),
        np.concatenate([codes[0], *(part.steps for part in parts)]),
    )


class Reader:
    """Reads columns and rows as `Contributions`.

    Parameters
    ----------
    projection
        The public map, for its grid and its indices.
    secret
        32 bytes, the key of the units' digests.
    summary
        Where to count what `columns` reads, drops and truncates.
    """

    def __init__(self, projection: Projection, secret: bytes, summary: BoundingSummary | None = None) -> None:
        self._projection, self._summary = projection, summary
        self._digests = UnitDigests(secret)
        self._reach = math.ceil((_MOST_STEPS + 1) * projection.grid)  # values beyond it are as many steps at least

    def columns(self, unit: Any, key: Any, index: Sequence[Any], value: Any, window: int) -> Contributions:
        """Return the valid events of columns of equal length; with ``value=None`` each event counts 1.

        In a list, which has no type, a field of another type than others is its row's fault alone.

        Raises
        ------
        InvalidInputError
            For columns of different lengths, or of a type that is not valid for keys or values.
        """
        names = ["unit", "key", *("index" for _ in index)]
        try:
            arrays = [arrow_column(column, name) for column, name in zip([unit, key, *index], names, strict=True)]
            values = None if value is None else arrow_column(value, "value")
        except InvalidInputError:
            given = [unit, key, *index, *([] if value is None else [value])]
            if not any(map(is_list, given)):
                raise
            return self._lists(names if value is None else [*names, "value"], given, window)
        return self._arrays(names, arrays, values, window)

    def _lists(self, names: list[str], given: list[Any], window: int) -> Contributions:
        """Return the valid events of columns of which some are lists, without rows of which a field does not fit."""
        lists = Lists(names, given)
        if self._summary is not None:
            self._summary.rows_blank += lists.blank

        def read(group: list[Any], start: int, stop: int) -> Contributions:
            columns = [column[start:stop] for column in group]
            values = columns.pop() if names[-1] == "value" else None
            arrays = [arrow_column(column, name) for column, name in zip(columns, names, strict=False)]
            return self._arrays(names[: len(arrays)], arrays, values, window)

        return concatenated([_salvaged(functools.partial(read, group), 0, len(group[0])) for group in lists.groups()])

    def _arrays(self, names: list[str], arrays: list[pa.Array], values: Any, window: int) -> Contributions:
        """Return the valid events of Arrow columns; values may be a list of finite numbers too."""
        arrays, numbers = [_plain(array) for array in arrays], []
        if isinstance(values, list):
            values, numbers = None, values
        self._check_types(arrays, names, values)
        if values is not None and pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        sound = self._sound(arrays, values)
        if self._summary is not None:
            blanks = _present([*arrays, *([] if values is None else [values])])
            self._summary.rows_blank += pc.sum(pc.invert(blanks)).as_py() or 0
        if not pc.all(sound).as_py():
            arrays = [array.filter(sound) for array in arrays]
            values = None if values is None else values.filter(sound)
            numbers = list(itertools.compress(numbers, sound.to_pylist()))
        given = values if values is not None else numbers or None
        amounts = None if given is None else self._within_reach(given)

        def read(part: list[pa.Array], start: int, stop: int) -> Contributions:
            part = [array.slice(start, stop - start) for array in part]
            return self._read(part, None if amounts is None else amounts[start:stop], stop - start, window)

        try:
            return read(arrays, 0, len(arrays[0]))
        except InvalidInputError:
            # a dictionary has all rows' texts: without it a row is judged by its own alone
            decoded = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in arrays]
            return _salvaged(functools.partial(read, decoded), 0, len(decoded[0]))

    def rows(self, rows: Sequence[Sequence[Any]], window: int) -> Contributions:
        """Return the valid events of rows (unit, key, index, value) whose fields have one type each.

        Rows may come from people, so none raises: rows with a field of an invalid type, or with text as an index where
        the projection needs numbers, are dropped.
        """
        fields = zip(rows[0], (INDICES, KEYS, INDICES, VALUES), strict=True)
        if not all(isinstance(field, types) and not isinstance(field, bool) for field, types in fields):
            return concatenated([])
        rows = [row for row in rows if row[0] not in ("", b"")]
        if not rows:
            return concatenated([])
        units, keys, indices, values = zip(*rows, strict=True)
        if not isinstance(indices[0], int):
            try:
                self._projection.indices_of([""])
            except InvalidInputError:  # it takes no hashed indices
                return concatenated([])
        amounts = self._within_reach(values)

        def read(start: int, stop: int) -> Contributions:
            part = slice(start, stop)
            arrays = [arrow_column(list(field[part]), "row's") for field in (units, keys, indices)]
            return self._read(arrays, amounts[part], stop - start, window)

        return _salvaged(read, 0, len(rows))

    def _check_types(self, arrays: list[pa.Array], names: list[str], values: pa.Array | None) -> None:
        lengths = {len(array) for array in [*arrays, *([] if values is None else [values])]}
        if len(lengths) > 1:
            raise InvalidInputError(f"the columns must have one length, got {', '.join(map(str, sorted(lengths)))}")
        for array, name in zip(arrays, names, strict=True):
            kind = value_type(array)
            if pa.types.is_null(kind):
                continue  # a batch of nulls alone: every row is dropped
            fits = is_key_type(kind) and not (name == "key" and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)))
            if not fits:
                raise InvalidInputError(
                    f"the {name} column must hold text, bytes or integers"
                    f"{'' if name == 'key' else ', dates or times'}, got {kind}; cast it first"
                )
        kinds = [value_type(array) for array in arrays[2:]]
        if len(kinds) > 1 or not (pa.types.is_integer(kinds[0]) or pa.types.is_null(kinds[0])):
            self._projection.indices_of([""])
        if values is not None:
            kind = value_type(values)
            checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
            if not any(is_kind(kind) for is_kind in checks):
                raise InvalidInputError(f"the value column must hold integers, floats or decimals, got {kind}; cast it")

    def _sound(self, arrays: list[pa.Array], values: pa.Array | None) -> pa.Array:
        """Return which rows have no nulls, a unit that is not empty, a finite value, and an index in range."""
        masks = [_present(arrays)]
        if len(arrays) == 3 and pa.types.is_integer(value_type(arrays[2])):
            index = arrays[2].dictionary_decode() if pa.types.is_dictionary(arrays[2].type) else arrays[2]
            numbers = index.fill_null(0).to_numpy(zero_copy_only=False)
            masks.append(pa.array((numbers >= 0) & (numbers < self._projection.dim)))
        if values is not None:
            masks.append(pc.is_finite(values) if pa.types.is_floating(values.type) else pc.is_valid(values))
        sound = masks[0]
        for mask in masks[1:]:
            sound = pc.and_(sound, pc.fill_null(mask, False))  # noqa: FBT003 - Arrow's signature
        return sound

    def _read(self, arrays: list[pa.Array], values: Any, length: int, window: int) -> Contributions:
        unit, key, *index = arrays
        if not length:
            return concatenated([])
        key = key if pa.types.is_dictionary(key.type) else key.dictionary_encode()
        try:
            names = key.dictionary.to_pylist()
        except UnicodeDecodeError:
            raise InvalidInputError("a key is not valid UTF-8") from None
        found = Contributions(
            self._digests.of(unit),
            [(name, window) for name in names],
            key.indices.to_numpy(zero_copy_only=False).astype(np.int64),
            self._projection.indices_of(*index),
            self._steps(values, length),
        )
        if self._summary is not None:
            self._note(values, found.steps)
        return found

    def _note(self, values: Any, steps: Ints) -> None:
        """Count rows whose values are off the grid, and note the largest."""
        step = float(self._projection.grid)
        amounts = values.cast(pa.float64()).to_numpy() if isinstance(values, pa.Array) else values
        amounts = np.ones(steps.size) if amounts is None else np.array(amounts, dtype=np.float64)
        off = np.abs(amounts / step - steps) > _OFF_GRID * np.maximum(1.0, np.abs(steps))
        self._summary.rows_truncated += int(off.sum())  # type: ignore[union-attr]
        self._summary.largest_value = max(self._summary.largest_value, float(np.abs(amounts).max()))  # type: ignore[union-attr]

    def _steps(self, values: Any, length: int) -> Ints:
        grid = self._projection.grid
        if values is None:
            steps = np.full(length, min(quantise_one(1, grid), _MOST_STEPS), dtype=np.int64)
        else:
            steps = quantise(values, grid)
        return np.clip(steps, -_MOST_STEPS, _MOST_STEPS)

    def _nearer(self, value: Any) -> Fraction:
        """Return a finite number clipped to the bound; the exponent of a Decimal could make it larger than memory."""
        if isinstance(value, Decimal) and value and abs(value.adjusted()) > _MAX_EXPONENT:
            far = -self._reach if value.is_signed() else self._reach
            return Fraction(0 if value.adjusted() < 0 else far)
        if not value:
            return Fraction(0)
        return max(min(Fraction(value), Fraction(self._reach)), Fraction(-self._reach))

    def _is_near(self, values: pa.Array) -> bool:
        """Return whether decimals are short, and all within the reach."""
        if not len(values) or not pa.types.is_decimal128(values.type) or abs(values.type.scale) > _MAX_EXPONENT:
            return False
        ends = pc.min_max(values)
        return bool(-self._reach <= ends["min"].as_py() and ends["max"].as_py() <= self._reach)

    def _within_reach(self, values: Any) -> Any:
        """Clip values before they are quantised to 63 bits."""
        if not isinstance(values, pa.Array):
            return [self._nearer(value) for value in values]
        if pa.types.is_decimal(values.type) or len(values) == 0:
            return values if self._is_near(values) else self._within_reach(values.to_pylist())
        array = values.to_numpy(zero_copy_only=False)
        if array.dtype.kind == "f":
            return np.clip(array.astype(np.float64), -float(self._reach), float(self._reach))
        if array.dtype == np.uint64 and self._reach > _INT64_MAX:  # which quantise would refuse
            return self._within_reach(array.tolist())
        held = np.iinfo(array.dtype)  # its ends may be nearer than the reach, and are not symmetric
        return np.clip(array, max(-self._reach, int(held.min)), min(self._reach, int(held.max)))


def _present(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return which rows have no nulls, and a unit, the first array, that is not empty text."""
    masks = [pc.is_valid(array) for array in arrays]
    unit = arrays[0]
    texts = unit.dictionary if pa.types.is_dictionary(unit.type) else unit
    if pa.types.is_large_string(texts.type) or pa.types.is_string(texts.type) or _is_bytes(texts.type):
        named = pc.greater(pc.binary_length(texts), 0)
        masks.append(pc.fill_null(named.take(unit.indices) if texts is not unit else named, False))  # noqa: FBT003
    present = masks[0]
    for mask in masks[1:]:
        present = pc.and_(present, mask)
    return present


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _plain(array: pa.Array) -> pa.Array:
    """Return a column in one of the layouts handled here; equal keys stay equal."""
    if pa.types.is_dictionary(array.type):
        if array.dictionary.null_count:
            return _plain(array.dictionary_decode())
        return pa.DictionaryArray.from_arrays(array.indices, _plain(array.dictionary))
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.large_binary())
    if pa.types.is_date64(array.type):
        days = array.cast(pa.int64()).fill_null(0).to_numpy() // _DAY
        missing = array.is_null().to_numpy(zero_copy_only=False) | (np.abs(days) > _INT32_MAX)
        return pa.array(days.astype(np.int32), mask=missing).cast(pa.date32())
    return array


def _salvaged(read: Callable[[int, int], Contributions], start: int, stop: int) -> Contributions:
    """Read rows together; if that fails, by halves, until the malformed rows are left out."""
    try:
        return read(start, stop)
    except InvalidInputError:
        if stop - start == 1:
            return read(start, start)
    middle = (start + stop) // 2
    return concatenated([_salvaged(read, start, middle), _salvaged(read, middle, stop)])
