"""Hashing of one tile of keys, interleaved with the addition of another tile's values.

Additions to cells are bound by stores, hashing by arithmetic. If a few additions follow each step of the polynomials,
a processor executes both at once; if the whole tile is hashed first it does not, as its instruction window is shorter
than a tile.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from streamsketch.core.jit import compiles_for, intrinsic, literal_intrinsic
from streamsketch.core.libraries import cgutils, ir, numba, types
from streamsketch.kernels.carryless import AVX512, TILE, Emitter, arrays, check_contiguous, emitter
from streamsketch.kernels.hashing import BitSlices, Words
from streamsketch.kernels.llvm_types import (
    Builder,
    Context,
    Intrinsic,
    NumbaType,
    Signature,
    TypingContext,
    Value,
    i8,
    i16,
    i64,
)

QUAD = 4
"""Rows whose cells are kept side by side, 16 bits each."""

COMMON_INDEPENDENCE = 8
"""The default of every map, for which the loops are unrolled."""

_MOST_CELLS = 1 << 16
_NUMBERS = 3  # in each line of a layout


def layout_of(slices: BitSlices) -> Words:
    """Return how a word becomes 16-bit cell numbers: uint64, (groups, 3), with a line for every four rows of a word.

    Each number of line g has four 16-bit lanes, and lane q is about row 4g + q. The first number holds the bit offset
    of the row's field and, 8 bits higher, that offset plus 8 modulo 64; the second, the first cell of the row; the
    third, the mask of a field. The array is empty if the cells of a word's rows need more than 16 bits.
    """
    rows, width = slices.rows_per_word, slices.width
    lines = []
    for first in range(0, rows, QUAD):
        lanes = [min(first + lane, rows - 1) for lane in range(QUAD)]  # lanes beyond the last row are not read
        shifts = [row * width | (row * width + 8) % 64 << 8 for row in lanes]
        bases = [row << width for row in lanes]
        lines.append([_packed(shifts), _packed(bases), _packed([(1 << width) - 1] * QUAD)])
    fits = rows << width <= _MOST_CELLS
    return np.array(lines if fits else [], dtype=np.uint64).reshape(-1, _NUMBERS)


def _packed(lanes: list[int]) -> int:
    return sum((number & _MOST_CELLS - 1) << 16 * lane for lane, number in enumerate(lanes))


@intrinsic
def address(typingctx: TypingContext, array: NumbaType, place: NumbaType) -> Intrinsic:
    """Return the address of ``array[place]``; the array is one-dimensional and C-contiguous."""
    del typingctx, place  # as in `hash_tile`
    check_contiguous(array)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        data = arrays(context, builder, signature, arguments)[0].data
        return builder.ptrtoint(builder.gep(data, [arguments[1]]), i64())

    return types.intp(array, types.intp), generate


@literal_intrinsic
def hash_and_add(
    typingctx: TypingContext,
    next_keys: NumbaType,
    coefficients: NumbaType,
    next_word: NumbaType,
    layout: NumbaType,
    write: NumbaType,
    read: NumbaType,
    straight: NumbaType,
    rows: NumbaType,
    values: NumbaType,
    cells: NumbaType,
) -> Intrinsic:
    """Write the cell numbers of one word of the next tile, and add the values of this tile to its cells.

    Keys, values and outputs are given by `address`, since a tile's keys and values may lie in either of two arrays and
    a second copy of the code would be long.

    Parameters
    ----------
    next_keys
        The next tile's 16 keys, uint64.
    coefficients, next_word
        uint64, (words, independence), and the index of the word; C-contiguous, like all arrays.
    layout
        The result of `layout_of`.
    write, read
        Where to write the next tile's cell numbers, and read this tile's: uint16, (groups, 16, 4).
    straight, rows
        The number of rows that share this tile's word. If it is 4 or 8 and the independence is the common one,
        ``straight`` may be that literal, for unrolled code; otherwise it is the literal 0.
    values
        This tile's 16 values, int64.
    cells
        The first of the numbered cells, int64.
    """
    del typingctx
    check_contiguous(coefficients, layout)
    del next_keys, next_word, write, read, rows, values, cells  # as in `hash_tile`
    if not isinstance(straight, types.IntegerLiteral):
        raise numba.TypingError("straight must be a literal")
    size = types.intp
    signature = types.void(size, coefficients, size, layout, size, size, straight, size, size, size)
    return signature, _generate


def _generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
    operands, code = arrays(context, builder, signature, arguments), emitter(context, builder)
    next_keys, write, values, cells = (builder.inttoptr(arguments[i], i64().as_pointer()) for i in (0, 4, 8, 9))
    count = builder.extract_value(operands[1].shape, 1)
    coefficients = builder.gep(operands[1].data, [builder.mul(arguments[2], count)])
    adder = _Adder(builder, read=builder.inttoptr(arguments[5], i16().as_pointer()), values=values, cells=cells)
    groups = signature.args[6].literal_value // QUAD or None
    if groups:
        words = _in_step(code, adder, next_keys, coefficients, groups)
    else:
        words = _in_portions(code, adder, next_keys, coefficients, count, arguments[7])
    _write_cells(context, builder, code, operands[3], write, words, groups)
    return context.get_dummy_value()


def _in_step(code: Emitter, adder: "_Adder", keys: Value, coefficients: Value, quads: int) -> list[Value]:
    """Emit unrolled code for the common independence and ``quads`` groups of rows; return the words."""
    done = 0

    def between(step: int) -> None:
        nonlocal done
        end = step * TILE // (COMMON_INDEPENDENCE - 1)
        for item in range(done, end):
            for group in range(quads):
                adder.quad(ir.Constant(i64(), group * TILE + item))
        done = end

    return code.hash_tile(keys, coefficients, COMMON_INDEPENDENCE, between)


def _in_portions(
    code: Emitter, adder: "_Adder", keys: Value, coefficients: Value, count: Value, rows: Value
) -> list[Value]:
    """Emit code for any independence and any number of rows; return the words."""
    builder, one, tile = code.builder, ir.Constant(i64(), 1), ir.Constant(i64(), TILE)
    quads = builder.mul(builder.udiv(rows, ir.Constant(i64(), QUAD)), tile)
    singles = builder.mul(builder.urem(rows, ir.Constant(i64(), QUAD)), tile)
    # `steps` portions of each suffice for all of them
    steps = builder.sub(count, one)
    portions = [builder.udiv(builder.add(total, builder.sub(steps, one)), steps) for total in (quads, singles)]
    done = [cgutils.alloca_once_value(builder, ir.Constant(i64(), 0)) for _ in portions]

    def add_until(ends: list[Value]) -> None:
        for kind, (held, end) in enumerate(zip(done, ends, strict=True)):
            with _range(builder, builder.load(held), end) as number:
                if kind == 0:
                    adder.quad(number)
                else:
                    adder.single(quads, number)
            builder.store(end, held)

    def between(j: Value) -> None:
        ends = []
        for total, portion in zip((quads, singles), portions, strict=True):
            end = builder.mul(j, portion)
            ends.append(builder.select(builder.icmp_unsigned("<", end, total), end, total))
        add_until(ends)

    words = code.hash_tile(keys, coefficients, count, between)
    add_until([quads, singles])
    return words


class _Adder:
    """Emits code that adds values to cells."""

    def __init__(self, builder: Builder, *, read: Value, values: Value, cells: Value) -> None:
        self.builder, self.read, self.values, self.cells = builder, read, values, cells

    def quad(self, number: Value) -> None:
        """Add one value to four cells; ``number`` counts the tile's items first, then the groups of rows."""
        value = self._value(number)
        first = self.builder.mul(number, ir.Constant(i64(), QUAD))
        for lane in range(QUAD):
            self._add_at(self.builder.add(first, ir.Constant(i64(), lane)), value)

    def single(self, quads: Value, number: Value) -> None:
        """Add one value to one cell of the last, smaller group of rows."""
        builder = self.builder
        item, row = (divide(number, ir.Constant(i64(), TILE)) for divide in (builder.urem, builder.udiv))
        self._add_at(
            builder.add(builder.mul(builder.add(quads, item), ir.Constant(i64(), QUAD)), row), self._value(number)
        )

    def _value(self, number: Value) -> Value:
        item = self.builder.and_(number, ir.Constant(i64(), TILE - 1))
        return self.builder.load(self.builder.gep(self.values, [item]))

    def _add_at(self, place: Value, value: Value) -> None:
        cell = self.builder.zext(self.builder.load(self.builder.gep(self.read, [place])), i64())
        address = self.builder.gep(self.cells, [cell])
        self.builder.store(self.builder.add(self.builder.load(address), value), address)


def _write_cells(
    context: Context,
    builder: Builder,
    code: Emitter,
    layout: Value,
    target: Value,
    words: list[Value],
    groups: int | None,
) -> None:
    """Emit code that writes the cells of all groups of rows, unrolled if their number, ``groups``, is known.

    With a loop, LLVM would move the unrolled hashing behind the loop's test, and so after the additions.
    """

    def write(group: Value) -> None:
        line = builder.mul(group, ir.Constant(i64(), _NUMBERS))
        shift, base, mask = (
            builder.load(builder.gep(layout.data, [builder.add(line, ir.Constant(i64(), number))]))
            for number in range(_NUMBERS)
        )
        first = builder.mul(group, ir.Constant(i64(), TILE))
        for number, word in enumerate(words):
            fields = _fields(context, builder, code, word, shift, mask)
            place = builder.add(first, ir.Constant(i64(), number * code.lanes))
            builder.store(builder.or_(fields, code.everywhere(base)), code.at(target, place), align=8)

    if groups is not None:
        for number in range(groups):
            write(ir.Constant(i64(), number))
        return
    with _range(builder, ir.Constant(i64(), 0), builder.extract_value(layout.shape, 0)) as group:
        write(group)


def _fields(context: Context, builder: Builder, code: Emitter, word: Value, shift: Value, mask: Value) -> Value:
    """Return four fields of each word in 16 bits each."""
    if code.code == AVX512 and compiles_for(context, "avx512vbmi"):
        kind = ir.VectorType(i8(), 64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind, kind]), "llvm.x86.avx512.pmultishift.qb.512"
        )
        operands = [builder.bitcast(value, kind) for value in (code.everywhere(shift), word)]
        spread = builder.bitcast(builder.call(function, operands), code.vector)
        return builder.and_(spread, code.everywhere(mask))
    lane_mask = builder.and_(mask, ir.Constant(i64(), 0xFFFF))
    total = None
    for lane in range(QUAD):
        bits = builder.and_(builder.lshr(shift, ir.Constant(i64(), 16 * lane)), ir.Constant(i64(), 63))
        field = builder.and_(builder.lshr(word, code.everywhere(bits)), code.everywhere(lane_mask))
        field = builder.shl(field, code.constant(16 * lane))
        total = field if total is None else builder.or_(total, field)
    return total


@contextmanager
def _range(builder: Builder, start: Value, stop: Value) -> Iterator[Value]:
    with cgutils.for_range_slice(builder, start, stop, ir.Constant(i64(), 1)) as (number, _):
        yield number
