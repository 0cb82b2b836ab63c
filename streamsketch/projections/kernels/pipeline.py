"""Hashing one tile of keys while the values of another are added.

Additions to cells are bound by stores, hashing by arithmetic. In one stream of instructions, a few additions after
each step of the polynomials, a processor does both at once; one after the other it does not, as its window is shorter
than a tile.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from streamsketch.core import AVX512, TILE, WORD, BitSlices, Emitter, Words, arrays, check_contiguous, emitter

QUAD = 4
"""Rows whose cells are kept side by side, 16 bits each."""

COMMON_INDEPENDENCE = 8
"""The default of every map, for which there is straight code."""

_MOST_CELLS = 1 << 16
_NUMBERS = 3  # of a line of a layout
_SHORT, _INDEX, _BYTE = ir.IntType(16), ir.IntType(32), ir.IntType(8)


def layout_of(slices: BitSlices) -> Words:
    """Return how a word becomes 16-bit cell numbers: uint64, (groups, 3), a line for each four rows that share it.

    Lane q, of 16 bits, of a line's first number holds the bits of the word below row 4g + q's field and, 8 bits
    higher, 8 more; of the second, the first cell of that row; of the third, a field's ones. There are no lines where
    16 bits are too few for a cell of the word's rows.
    """
    rows, width = slices.rows_per_word, slices.width
    lines = []
    for first in range(0, rows, QUAD):
        lanes = [min(first + lane, rows - 1) for lane in range(QUAD)]  # what the last lanes hold beyond it is not read
        shifts = [row * width | (row * width + 8) % 64 << 8 for row in lanes]
        bases = [row << width for row in lanes]
        lines.append([_packed(shifts), _packed(bases), _packed([(1 << width) - 1] * QUAD)])
    fits = rows << width <= _MOST_CELLS
    return np.array(lines if fits else [], dtype=np.uint64).reshape(-1, _NUMBERS)


def _packed(lanes: list[int]) -> int:
    return sum((number & _MOST_CELLS - 1) << 16 * lane for lane, number in enumerate(lanes))


@intrinsic  # type: ignore[untyped-decorator]
def address(typingctx: Any, array: Any, place: Any) -> Any:
    """Return where ``array[place]`` lies in memory; one-dimensional and C-contiguous."""
    del typingctx, place  # as in `hash_tile`
    check_contiguous(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = arrays(context, builder, signature, arguments)[0].data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), WORD)

    return types.intp(array, types.intp), generate


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def hash_and_add(
    typingctx: Any,
    next_keys: Any,
    coefficients: Any,
    next_word: Any,
    layout: Any,
    write: Any,
    read: Any,
    straight: Any,
    rows: Any,
    values: Any,
    cells: Any,
) -> Any:
    """Write the cell numbers of one word of the next tile, and add the values of this tile to its cells.

    Keys, values and all that is written are given by their `address`: a tile's keys and values may lie in one of two
    arrays, and the code is long.

    Parameters
    ----------
    next_keys
        The next tile's 16 keys, uint64.
    coefficients, next_word
        uint64, (words, independence), and which of the words; C-contiguous, as all arrays are.
    layout
        As `layout_of` returns it.
    write, read
        Where the next tile's numbers go, and this tile's are: uint16, (groups, 16, 4).
    straight, rows
        How many rows this tile's word serves. If it is 4 or 8 and the independence the common one, ``straight`` may be
        that literal, for straight code; else the literal 0.
    values
        This tile's 16 values, int64.
    cells
        The first of the cells that are numbered, int64.
    """
    del typingctx
    check_contiguous(coefficients, layout)
    del next_keys, next_word, write, read, rows, values, cells  # as in `hash_tile`
    if not isinstance(straight, types.IntegerLiteral):
        raise TypingError("straight must be a literal")
    size = types.intp
    signature = types.void(size, coefficients, size, layout, size, size, straight, size, size, size)
    return signature, _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    given, code = arrays(context, builder, signature, arguments), emitter(context, builder)
    next_keys, write, values, cells = (builder.inttoptr(arguments[i], WORD.as_pointer()) for i in (0, 4, 8, 9))
    count = builder.extract_value(given[1].shape, 1)
    coefficients = builder.gep(given[1].data, [builder.mul(arguments[2], count)])
    adder = _Adder(builder, read=builder.inttoptr(arguments[5], _SHORT.as_pointer()), values=values, cells=cells)
    groups = signature.args[6].literal_value // QUAD or None
    if groups:
        words = _in_step(code, adder, next_keys, coefficients, groups)
    else:
        words = _in_portions(code, adder, next_keys, coefficients, count, arguments[7])
    _write_cells(context, builder, code, given[3], write, words, groups)
    return context.get_dummy_value()


def _in_step(code: Emitter, adder: "_Adder", keys: Any, coefficients: Any, quads: int) -> list[Any]:
    """Write straight code for the common independence and so many groups of rows; return the words."""
    done = 0

    def between(step: int) -> None:
        nonlocal done
        end = step * TILE // (COMMON_INDEPENDENCE - 1)
        for item in range(done, end):
            for group in range(quads):
                adder.quad(ir.Constant(WORD, group * TILE + item))
        done = end

    return code.hash_tile(keys, coefficients, COMMON_INDEPENDENCE, between)


def _in_portions(code: Emitter, adder: "_Adder", keys: Any, coefficients: Any, count: Any, rows: Any) -> list[Any]:
    """Write code for any independence and any number of rows; return the words."""
    builder, one, tile = code.builder, ir.Constant(WORD, 1), ir.Constant(WORD, TILE)
    quads = builder.mul(builder.udiv(rows, ir.Constant(WORD, QUAD)), tile)
    singles = builder.mul(builder.urem(rows, ir.Constant(WORD, QUAD)), tile)
    # `steps` portions of each suffice for all of them
    steps = builder.sub(count, one)
    portions = [builder.udiv(builder.add(total, builder.sub(steps, one)), steps) for total in (quads, singles)]
    done = [cgutils.alloca_once_value(builder, ir.Constant(WORD, 0)) for _ in portions]

    def add_until(ends: list[Any]) -> None:
        for kind, (held, end) in enumerate(zip(done, ends, strict=True)):
            with _range(builder, builder.load(held), end) as number:
                if kind == 0:
                    adder.quad(number)
                else:
                    adder.single(quads, number)
            builder.store(end, held)

    def between(j: Any) -> None:
        ends = []
        for total, portion in zip((quads, singles), portions, strict=True):
            end = builder.mul(j, portion)
            ends.append(builder.select(builder.icmp_unsigned("<", end, total), end, total))
        add_until(ends)

    words = code.hash_tile(keys, coefficients, count, between)
    add_until([quads, singles])
    return words


class _Adder:
    """Writes code that adds values to cells."""

    def __init__(self, builder: Any, *, read: Any, values: Any, cells: Any) -> None:
        self.builder, self.read, self.values, self.cells = builder, read, values, cells

    def quad(self, number: Any) -> None:
        """Add one value to four cells; ``number`` counts the tile's items first, then the groups of rows."""
        value = self._value(number)
        first = self.builder.mul(number, ir.Constant(WORD, QUAD))
        for lane in range(QUAD):
            self._add_at(self.builder.add(first, ir.Constant(WORD, lane)), value)

    def single(self, quads: Any, number: Any) -> None:
        """Add one value to one cell of the last, smaller group of rows."""
        builder = self.builder
        item, row = (divide(number, ir.Constant(WORD, TILE)) for divide in (builder.urem, builder.udiv))
        self._add_at(
            builder.add(builder.mul(builder.add(quads, item), ir.Constant(WORD, QUAD)), row), self._value(number)
        )

    def _value(self, number: Any) -> Any:
        item = self.builder.and_(number, ir.Constant(WORD, TILE - 1))
        return self.builder.load(self.builder.gep(self.values, [item]))

    def _add_at(self, place: Any, value: Any) -> None:
        cell = self.builder.zext(self.builder.load(self.builder.gep(self.read, [place])), WORD)
        address = self.builder.gep(self.cells, [cell])
        self.builder.store(self.builder.add(self.builder.load(address), value), address)


def _write_cells(
    context: Any, builder: Any, code: Emitter, layout: Any, target: Any, words: list[Any], known: int | None
) -> None:
    """Write the cells of all groups of rows, in straight code if their number is ``known``.

    Behind a loop's test, LLVM would also put the hashing of straight code, and so after the additions.
    """

    def write(group: Any) -> None:
        line = builder.mul(group, ir.Constant(WORD, _NUMBERS))
        shift, base, mask = (
            builder.load(builder.gep(layout.data, [builder.add(line, ir.Constant(WORD, number))]))
            for number in range(_NUMBERS)
        )
        first = builder.mul(group, ir.Constant(WORD, TILE))
        for number, word in enumerate(words):
            fields = _fields(context, builder, code, word, shift, mask)
            place = builder.add(first, ir.Constant(WORD, number * code.lanes))
            builder.store(builder.or_(fields, code.everywhere(base)), code.at(target, place), align=8)

    if known is not None:
        for number in range(known):
            write(ir.Constant(WORD, number))
        return
    with _range(builder, ir.Constant(WORD, 0), builder.extract_value(layout.shape, 0)) as group:
        write(group)


def _fields(context: Any, builder: Any, code: Emitter, word: Any, shift: Any, mask: Any) -> Any:
    """Return four fields of each word in 16 bits each."""
    if code.code == AVX512 and "+avx512vbmi" in context.codegen().magic_tuple()[2].split(","):
        kind = ir.VectorType(_BYTE, 64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind]), "llvm.x86.avx512.pmultishift.qb.512"
        )
        given = [builder.bitcast(one, kind) for one in (code.everywhere(shift), word)]
        spread = builder.bitcast(builder.call(function, given), code.vector)
        return builder.and_(spread, code.everywhere(mask))
    lane_mask = builder.and_(mask, ir.Constant(WORD, 0xFFFF))
    total = None
    for lane in range(QUAD):
        bits = builder.and_(builder.lshr(shift, ir.Constant(WORD, 16 * lane)), ir.Constant(WORD, 63))
        field = builder.and_(builder.lshr(word, code.everywhere(bits)), code.everywhere(lane_mask))
        field = builder.shl(field, code.constant(16 * lane))
        total = field if total is None else builder.or_(total, field)
    return total


@contextmanager
def _range(builder: Any, start: Any, stop: Any) -> Iterator[Any]:
    with cgutils.for_range_slice(builder, start, stop, ir.Constant(WORD, 1)) as (number, _):
        yield number
