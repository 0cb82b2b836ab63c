"""Keyed BLAKE2b (RFC 7693) of a whole column of texts, or of few under many keys, eight at a time.

Each lane of a vector hashes its own text, block by block, and takes the next text of the column when that one ends.
LLVM does not find such vectors in loops over lanes. An intrinsic therefore names them, as wide as the processor's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import compiles_for, intrinsic, kernel, part, read_only
from streamsketch.core.libraries import cgutils, ir, types
from streamsketch.core.numbers import Ints
from streamsketch.kernels.carryless import arrays, check_contiguous
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.llvm_types import (
    Builder,
    Context,
    Intrinsic,
    NumbaType,
    Signature,
    TypingContext,
    Value,
    i32,
    i64,
)
from streamsketch.kernels.words import bytes_at

_BLOCK, _ROUNDS = 128, 12
_LANES = 8
_SHORT, _BEGINS = 23, (0, 7, 15)  # most bytes of a short text, and where its words begin: the tag is in the first
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_IV = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    dtype=np.uint64,
)

_ORDERS = np.array(  # of the words of a block, by round
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    dtype=np.uint8,
)


_KEPT = np.array(  # the bits of a short text's words, by length
    [[256 ** min(max(size - begin, 0), 8 if begin else 7) - 1 for begin in _BEGINS] for size in range(_SHORT + 1)],
    dtype=np.uint64,
)

_QUADS = [  # of words that a round mixes: the columns of a square, then its diagonals
    *((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)),
    *((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)),
]


class _Lanes(NamedTuple):
    """The arrays of `compress_lanes`. Numba would take long to compile their allocation."""

    fresh: Words
    h: Words
    m: Words
    counts: Words
    last: Words


def _lanes() -> _Lanes:
    words = np.zeros((27, _LANES), dtype=np.uint64)
    return _Lanes(words[0], words[1:9], words[9:25], words[25], words[26])


class _Vectors:
    """Emits LLVM code for vectors of words, each in a lane of its own."""

    def __init__(self, context: Context, builder: Builder) -> None:
        # on AVX2 four lanes of sixteen words fill the registers, and measure faster than eight
        self.width = 8 if compiles_for(context, "avx512f") else 4 if compiles_for(context, "avx2") else 2
        self.kind, self.builder = ir.VectorType(i64(), self.width), builder

    def everywhere(self, word: Value) -> Value:
        """Broadcast a word."""
        if isinstance(word, int):
            return ir.Constant(self.kind, [word] * self.width)
        number, nothing = i32(), ir.Constant(self.kind, ir.Undefined)
        first = self.builder.insert_element(nothing, word, ir.Constant(number, 0))
        return self.builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(number, self.width), None))

    def at(self, data: Value, row: Value, lane: Value) -> Value:
        """Return a pointer to the vector that starts at a lane of a row."""
        row = ir.Constant(i64(), row) if isinstance(row, int) else row
        place = self.builder.add(self.builder.mul(row, ir.Constant(i64(), _LANES)), lane)
        return self.builder.bitcast(self.builder.gep(data, [place]), self.kind.as_pointer())

    def load(self, data: Value, row: Value, lane: Value) -> Value:
        """Return the vector that starts at a lane of a row."""
        return self.builder.load(self.at(data, row, lane), align=8)

    def turn(self, words: Value, bits: int) -> Value:
        """Rotate to the right."""
        name, kind = "i64" if words.type == i64() else f"v{self.width}i64", words.type
        of = ir.FunctionType(kind, [kind] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, of, f"llvm.fshr.{name}")
        by = ir.Constant(kind, bits if words.type == i64() else [bits] * self.width)
        return self.builder.call(function, [words, words, by])

    def mix(self, v: list[Value], quad: tuple[int, ...], x: Value, y: Value) -> None:
        """Mix two words of a block, None where they are 0, into four of the state, all vectors or all words."""
        a, b, c, d = quad
        for word, first, second in ((x, 32, 24), (y, 16, 63)):
            v[a] = self.builder.add(v[a], v[b])
            v[a] = v[a] if word is None else self.builder.add(v[a], word)
            v[d] = self.turn(self.builder.xor(v[d], v[a]), first)
            v[c] = self.builder.add(v[c], v[d])
            v[b] = self.turn(self.builder.xor(v[b], v[c]), second)

    def mix_any(self, v: list[Value], quad: tuple[int, ...], x: Value, y: Value) -> None:
        """Do what `mix` does where some are the same in all lanes: words."""
        if any(word is not None and word.type != i64() for word in (*(v[place] for place in quad), x, y)):
            for place in quad:
                v[place] = self.everywhere(v[place]) if v[place].type == i64() else v[place]
        self.mix(v, quad, x, y)


@intrinsic
def _compress(
    typingctx: TypingContext,
    start: NumbaType,
    fresh: NumbaType,
    h: NumbaType,
    m: NumbaType,
    counts: NumbaType,
    last: NumbaType,
    orders: NumbaType,
) -> Intrinsic:
    """Do what `compress_lanes` does, with the orders of a block's words by round."""
    del typingctx
    check_contiguous(start, fresh, h, m, counts, last, orders)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        code, operands = _Vectors(context, builder), arrays(context, builder, signature, arguments)
        start, fresh, h, m, counts, last, orders = (operands[place].data for place in range(len(operands)))
        zero, one, lanes = (ir.Constant(i64(), number) for number in (0, 1, _LANES))
        with cgutils.for_range_slice(builder, zero, lanes, ir.Constant(i64(), code.width)) as (lane, _):
            is_fresh = builder.icmp_unsigned("!=", code.load(fresh, 0, lane), code.everywhere(0))
            before = []
            for word in range(8):
                begun = code.everywhere(builder.load(builder.gep(start, [ir.Constant(i64(), word)])))
                before.append(builder.select(is_fresh, begun, code.load(h, word, lane)))
            v = before + [code.everywhere(int(word)) for word in _IV]
            v[12] = builder.xor(v[12], code.load(counts, 0, lane))
            v[14] = builder.xor(v[14], code.load(last, 0, lane))
            entry, rounds = builder.block, builder.append_basic_block("rounds")
            builder.branch(rounds)
            builder.position_at_end(rounds)
            number, held = builder.phi(i64()), [builder.phi(code.kind) for _ in v]
            after = list(held)
            for place, quad in enumerate(_QUADS):
                pair = []
                for which in (2 * place, 2 * place + 1):
                    at = builder.add(builder.mul(number, ir.Constant(i64(), 16)), ir.Constant(i64(), which))
                    row = builder.zext(builder.load(builder.gep(orders, [at])), i64())
                    pair.append(code.load(m, row, lane))
                code.mix(after, quad, *pair)
            following = builder.add(number, one)
            for phi, begun, left in zip([number, *held], [zero, *v], [following, *after], strict=True):
                phi.add_incoming(begun, entry)
                phi.add_incoming(left, rounds)
            done = builder.append_basic_block("rounds.done")
            builder.cbranch(builder.icmp_unsigned("<", following, ir.Constant(i64(), _ROUNDS)), rounds, done)
            builder.position_at_end(done)
            for word in range(8):
                mixed = builder.xor(before[word], builder.xor(after[word], after[word + 8]))
                builder.store(mixed, code.at(h, word, lane), align=8)
        return context.get_dummy_value()

    return types.void(start, fresh, h, m, counts, last, orders), generate


@intrinsic
def _digest_short(  # noqa: PLR0913, PLR0917 - and an array to work in
    typingctx: TypingContext,
    start: NumbaType,
    tag: NumbaType,
    data: NumbaType,
    ends: NumbaType,
    first: NumbaType,
    kept: NumbaType,
    short: NumbaType,
    out: NumbaType,
) -> Intrinsic:
    """Write the digests of the eight texts from ``first`` on, which are short by `_are_short`, to ``out[first:]``.

    Rounds are unrolled. Additions of words that are 0, and what these digests do not depend on, are left out.

    Parameters
    ----------
    start, tag, data, ends, out
        As in `hash_texts`.
    kept, short
        `_KEPT`, and an array to work in: uint64, (4, lanes).
    """
    del typingctx, tag, first
    check_contiguous(start, data, ends, kept, short, out)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        code, operands = _Vectors(context, builder), arrays(context, builder, signature, arguments)
        start, data, ends, kept, short, out = (operands[place].data for place in (0, 2, 3, 5, 6, 7))
        tag, first = arguments[1], arguments[4]
        zero, one, lanes = (ir.Constant(i64(), number) for number in (0, 1, _LANES))
        with cgutils.for_range_slice(builder, zero, lanes, one) as (lane, _):
            row = builder.add(first, lane)
            at = builder.load(builder.gep(ends, [row]))
            size = builder.sub(builder.load(builder.gep(ends, [builder.add(row, one)])), at)
            for number, begin in enumerate(_BEGINS):  # whole words: branches by the length are often mispredicted
                byte = builder.gep(data, [builder.add(at, ir.Constant(i64(), begin))])
                word = builder.load(builder.bitcast(byte, i64().as_pointer()), align=1)
                place = builder.add(builder.mul(size, ir.Constant(i64(), len(_BEGINS))), ir.Constant(i64(), number))
                word = builder.and_(word, builder.load(builder.gep(kept, [place])))
                if number == 0:
                    word = builder.or_(builder.shl(word, ir.Constant(i64(), 8)), tag)
                builder.store(word, builder.gep(short, [builder.add(ir.Constant(i64(), number * _LANES), lane)]))
            count = builder.add(size, ir.Constant(i64(), _BLOCK + 1))
            builder.store(count, builder.gep(short, [builder.add(ir.Constant(i64(), len(_BEGINS) * _LANES), lane)]))
        with cgutils.for_range_slice(builder, zero, lanes, ir.Constant(i64(), code.width)) as (lane, _):
            before = [builder.load(builder.gep(start, [ir.Constant(i64(), word)])) for word in range(8)]
            v = before + [ir.Constant(i64(), int(word)) for word in _IV]
            v[12] = builder.xor(code.everywhere(v[12]), code.load(short, len(_BEGINS), lane))
            v[14] = ir.Constant(i64(), int(~_IV[6]))
            words = [code.load(short, row, lane) for row in range(len(_BEGINS))] + [None] * (16 - len(_BEGINS))
            for order in _ORDERS.tolist():
                for quad, x, y in zip(_QUADS, order[::2], order[1::2], strict=True):
                    code.mix_any(v, quad, words[x], words[y])
            mixed = builder.xor(code.everywhere(before[0]), builder.xor(v[0], v[8]))
            builder.store(mixed, code.at(out, 0, builder.add(first, lane)), align=8)
        return context.get_dummy_value()

    return types.void(start, types.uint64, data, ends, types.intp, kept, short, out), generate


@kernel
def compress_lanes(start: Words, fresh: Words, h: Words, m: Words, counts: Words, last: Words) -> None:
    """Take a block into the state of each lane.

    Parameters
    ----------
    start, fresh
        The state in which lanes begin, (8,), and, (lanes,), which do so now: not 0.
    h
        The states, in and out: (8, lanes).
    m, counts, last
        The blocks, (16, lanes), the number of bytes hashed with them, and the last ones: all bits, else 0; (lanes,).
    """
    _compress(start, fresh, h, m, counts, last, _ORDERS)


def keyed_state(key: bytes, person: bytes) -> Words:
    """Return the state of a keyed hash of eight bytes after the block with its key: uint64, (8,).

    Parameters
    ----------
    key
        1 to 64 bytes.
    person
        At most 16 bytes.
    """
    start, lanes = _start(len(key), person), _lanes()
    lanes.m[:, 0] = np.frombuffer(key.ljust(_BLOCK, b"\0"), dtype="<u8")
    lanes.fresh[0], lanes.counts[0] = _ALL, _BLOCK
    compress_lanes(start, *lanes)
    return lanes.h[:, 0].copy()


def _start(key_bytes: int, person: bytes) -> Words:
    """Return the state of a keyed hash of eight bytes before the block with its key: uint64, (8,)."""
    parameters = bytes([8, key_bytes, 1, 1]) + bytes(44) + person.ljust(16, b"\0")
    return _IV ^ np.frombuffer(parameters, dtype="<u8").astype(np.uint64)


def digest_under_keys(keys: Words, person: bytes, messages: Sequence[bytes]) -> Words:
    """Return the digest of each message under each key, as little-endian words: uint64, (n, len(messages)).

    Parameters
    ----------
    keys
        Of 16 bytes, as little-endian words: uint64, (n, 2).
    person
        At most 16 bytes.
    messages
        Of at most 8 bytes.
    """
    groups = -(-len(keys) // _LANES)
    padded = np.zeros((groups * _LANES, 2), dtype=np.uint64)
    padded[: len(keys)] = keys
    words = np.frombuffer(b"".join(message.ljust(8, b"\0") for message in messages), dtype="<u8").astype(np.uint64)
    sizes = np.array([len(message) for message in messages], dtype=np.int64)
    out = np.empty((len(padded), len(messages)), dtype=np.uint64)
    hash_under_keys(_start(16, person), padded, words, sizes, out, np.empty((8, _LANES), dtype=np.uint64), *_lanes())
    return out[: len(keys)]


@kernel
def _copy(states: Words, out: Words) -> None:
    """Write states, (8, lanes), to another array: ``out[:] = states`` would take Numba seconds to compile."""
    for word in range(len(out)):
        for lane in range(_LANES):
            out[word, lane] = states[word, lane]


@kernel
def hash_under_keys(  # noqa: PLR0913, PLR0917 - and arrays to work in
    start: Words,
    keys: Words,
    words: Words,
    sizes: Ints,
    out: Words,
    keyed: Words,
    fresh: Words,
    h: Words,
    m: Words,
    counts: Words,
    last: Words,
) -> None:
    """Do what `digest_under_keys` does, for a multiple of eight keys, each in a lane.

    Parameters
    ----------
    words, sizes
        The messages as words, and their lengths.
    keyed
        An array to work in: uint64, (8, lanes).
    fresh, h, m, counts, last
        As in `compress_lanes`: 0.
    """
    for first in range(0, len(keys), _LANES):
        for place in range(-1, len(words)):  # at -1, the states after the block with the key
            is_empty = place >= 0 and sizes[place] == 0  # then that block is the last
            of_key = place < 0 or is_empty
            for lane in range(_LANES):
                m[0, lane] = keys[first + lane, 0] if of_key else words[place]
                m[1, lane] = keys[first + lane, 1] if of_key else np.uint64(0)
                fresh[lane] = _ALL if of_key else np.uint64(0)
                counts[lane] = _BLOCK if of_key else _BLOCK + sizes[place]
                last[lane] = np.uint64(0) if place < 0 else _ALL
            if not of_key:
                _copy(keyed, h)
            compress_lanes(start, fresh, h, m, counts, last)
            if place < 0:
                _copy(h, keyed)
            else:
                for lane in range(_LANES):
                    out[first + lane, place] = h[0, lane]


def digest_column(state: Words, tag: int, data: NDArray[np.uint8], ends: Ints) -> Words:
    """Return the digest of a tag byte and each text, as little-endian words: uint64, (n,).

    Parameters
    ----------
    state
        After the block with the key, by `keyed_state`.
    data, ends
        All texts as one, where the first begins, and the end of each: uint8, and int64, (n + 1,). Bounds are not
        checked.
    """
    lanes, (rows, places, filled) = _lanes(), np.zeros((3, _LANES), dtype=np.int64)
    short = np.zeros((len(_BEGINS) + 1, _LANES), dtype=np.uint64)
    lanes.last[:] = _ALL
    out = np.empty(ends.size - 1, dtype=np.uint64)
    hash_texts(state, tag, read_only(data), read_only(ends), out, short, rows, places, filled, *lanes)
    return out


@part
def _are_short(ends: Ints, first: int) -> bool:
    """Return whether the next texts are short, and the last is followed by as many bytes as fill its words."""
    is_short = ends[first + _LANES - 1] + _SHORT <= ends[ends.size - 1]
    for row in range(first, first + _LANES):
        is_short &= ends[row + 1] - ends[row] <= _SHORT
    return bool(is_short)


@kernel
def hash_texts(  # noqa: PLR0913, PLR0917 - and arrays to work in
    state: Words,
    tag: int,
    data: NDArray[np.uint8],
    ends: Ints,
    out: Words,
    short: Words,
    rows: Ints,
    places: Ints,
    filled: Ints,
    fresh: Words,
    h: Words,
    m: Words,
    counts: Words,
    last: Words,
) -> None:
    """Do what `digest_column` does.

    Parameters
    ----------
    short
        Any: uint64, (4, lanes).
    rows, places, filled
        By lane: its text, where its next block begins, the number of words of its last block that are in use; int64,
        (lanes,), all 0.
    fresh, h, m, counts, last
        As in `compress_lanes`: 0, but all lanes at their last block.
    """
    following, is_busy = 0, True
    while is_busy:
        while following + _LANES < ends.size and _are_short(ends, following):
            _digest_short(state, tag, data, ends, following, _KEPT, short, out)
            following += _LANES
        is_busy = False
        for lane in range(_LANES):
            fresh[lane] = last[lane]  # of the block before
            if last[lane] != 0:
                if following == ends.size - 1:
                    rows[lane] = -1
                    continue
                row, following = following, following + 1
                rows[lane] = row
                at = ends[row] + 7  # seven bytes share the first word with the tag
                stop = min(ends[following], at + _BLOCK - 8)
                m[0, lane] = bytes_at(data, at - 7, stop) << np.uint64(8) | np.uint64(tag)
                word = 1
            else:
                row, at = rows[lane], places[lane]
                stop = min(ends[row + 1], at + _BLOCK)
                word = 0
            is_busy = True
            places[lane] = stop
            counts[lane] = _BLOCK + 1 + stop - ends[row]
            last[lane] = _ALL if stop == ends[row + 1] else np.uint64(0)
            while at < stop:
                m[word, lane] = bytes_at(data, at, stop)
                at, word = at + 8, word + 1
            for unused in range(word, filled[lane]):
                m[unused, lane] = 0
            filled[lane] = word
        compress_lanes(state, fresh, h, m, counts, last)
        for lane in range(_LANES):
            if last[lane] != 0 and rows[lane] >= 0:
                out[rows[lane]] = h[0, lane]
