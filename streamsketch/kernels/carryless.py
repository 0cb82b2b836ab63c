"""Polynomials over GF(2^64), evaluated at 16 keys at a time by the processor's carry-less multiplication.

Elements are 64-bit words, addition is XOR, and x^64 = x^4 + x^3 + x + 1. The product of a word and a key below 2^60 has
an upper half of degree at most 58. Multiplying that half by 0x1B stays within 64 bits and reduces it; as
0x1B = (x + 1)(x^3 + 1), two shifts suffice.

An instruction that the processor lacks would abort the process. The implementation is therefore chosen when a kernel
is compiled, by the features that Numba compiles for; Numba stores them with the machine code that it caches.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from streamsketch.core.jit import intrinsic
from streamsketch.core.libraries import cgutils, ir, numba, types
from streamsketch.kernels.llvm_types import (
    Builder,
    Context,
    Intrinsic,
    NumbaType,
    Signature,
    TypingContext,
    Value,
    i8,
    i32,
    i64,
    i128,
)

TILE = 16
"""Keys hashed at a time."""

AVX512, AVX2, PCLMUL, PMULL, PLAIN = "AVX-512 VPCLMULQDQ", "AVX2 VPCLMULQDQ", "PCLMULQDQ", "PMULL", "plain code"

Step = Callable[[Value], None]

_LANES = {AVX512: 8, AVX2: 4, PCLMUL: 2, PMULL: 2, PLAIN: 1}
_REGISTERS = {AVX512: "v", AVX2: "x", PCLMUL: "x", PMULL: "w"}  # of vectors, as LLVM's assembly statements name them
_PRODUCT = {8: "llvm.x86.pclmulqdq.512", 4: "llvm.x86.pclmulqdq.256", 2: "llvm.x86.pclmulqdq"}
_CLASSES = 4  # bits that are four apart: up to 15 ones, so that no sum of products carries into the next
_ONE_IN_FOUR = 0x1111_1111_1111_1111


def instructions_of(triple: str, cpu: str, features: str) -> str:
    """Return which of the five implementations suits an LLVM target; only features listed explicitly count.

    Examples
    --------
    >>> instructions_of("x86_64-unknown-linux-gnu", "znver2", "+sse2,+avx2,+pclmul,-vpclmulqdq")
    'PCLMULQDQ'
    >>> instructions_of("x86_64-unknown-linux-gnu", "generic", "")
    'plain code'
    """
    named = set(features.split(","))
    if triple.startswith(("aarch64", "arm64")):
        # LLVM may list no features of Apple's processors; all of them have this one
        return PMULL if "+aes" in named or (cpu.startswith("apple-") and "-aes" not in named) else PLAIN
    if not triple.startswith("x86_64") or not named >= {"+sse2", "+pclmul"}:
        return PLAIN
    if named >= {"+vpclmulqdq", "+avx512f", "+avx512vl"}:
        return AVX512
    return AVX2 if named >= {"+vpclmulqdq", "+avx2"} else PCLMUL


def target() -> tuple[str, str, str]:
    """Return the target triple, the processor's name and the features that Numba compiles for."""
    triple, cpu, features = numba.core.registry.cpu_target.target_context.codegen().magic_tuple()
    return triple, cpu, features


@functools.cache
def instructions() -> str:
    """Return the implementation that this process uses; warn the first time if it is the slow one."""
    implementation = instructions_of(*target())
    if implementation == PLAIN:
        warnings.warn(
            "the processor that Numba compiles for has no carry-less multiplication (PCLMULQDQ or PMULL), so hashing "
            "is many times slower; the results are the same. Check NUMBA_CPU_NAME and NUMBA_CPU_FEATURES",
            RuntimeWarning,
            stacklevel=2,
        )
    return implementation


class Emitter:
    """Emits LLVM code for the words of a tile, in one of the five implementations."""

    def __init__(self, builder: Builder, code: str) -> None:
        self.builder, self.code, self.lanes = builder, code, _LANES[code]
        self.vector = i64() if self.lanes == 1 else ir.VectorType(i64(), self.lanes)

    def constant(self, value: int) -> Value:
        """Broadcast a constant to every lane."""
        return ir.Constant(self.vector, value if self.lanes == 1 else [value] * self.lanes)

    def everywhere(self, word: Value) -> Value:
        """Broadcast a run-time word to every lane."""
        if self.lanes == 1:
            return word
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, word, ir.Constant(i32(), 0))
        return self.builder.shuffle_vector(first, nothing, self._lane_numbers([0] * self.lanes))

    def at(self, data: Value, place: Value) -> Value:
        """Return a pointer to the vector that starts at ``data[place]``."""
        address = self.builder.gep(data, [place])
        return self.builder.bitcast(address, self.vector.as_pointer())

    def hash_tile(self, keys: Value, coefficients: Value, count: Value, between: Step | None = None) -> list[Value]:
        """Return the hash words of the 16 keys that start at ``keys``, as vectors.

        ``count`` is the number of coefficients: an int unrolls the steps, a run-time word makes them a loop.
        ``between(j)`` emits code after step j.
        """
        builder, steps = self.builder, range(1, count) if isinstance(count, int) else None
        held_in_place, between = self.placed if between else (lambda vector: vector), between or (lambda _: None)
        if self.lanes == 1:
            words = self._hash_singly(keys, coefficients, ir.Constant(i64(), count) if steps else count)
            for j in steps or ():
                between(j)
            return words
        places = [ir.Constant(i64(), first) for first in range(0, TILE, self.lanes)]
        held_keys = [builder.load(self.at(keys, place), align=8) for place in places]
        totals = [self.everywhere(builder.load(coefficients))] * len(places)
        if steps:
            for j in steps:
                coefficient = self._coefficient(coefficients, ir.Constant(i64(), j))
                totals = [self.step(total, key, coefficient) for total, key in zip(totals, held_keys, strict=True)]
                totals = [held_in_place(total) for total in totals]
                between(j)
            return totals
        one, held = ir.Constant(i64(), 1), [cgutils.alloca_once_value(builder, total) for total in totals]
        with cgutils.for_range_slice(builder, one, count, one) as (j, _):
            coefficient = self._coefficient(coefficients, j)
            for total, key in zip(held, held_keys, strict=True):
                builder.store(self.step(builder.load(total), key, coefficient), total)
            between(j)
        return [builder.load(total) for total in held]

    def placed(self, vector: Value) -> Value:
        """Return the vector, computed before whatever is emitted next.

        LLVM would move steps to where their words are used, behind all additions between them. An empty assembly
        statement that reads and writes the vector, and may read memory, keeps its place.
        """
        kind = ir.FunctionType(self.vector, [self.vector])
        statement = ir.InlineAsm(kind, "", f"={_REGISTERS[self.code]},0,~{{memory}}", side_effect=True)
        return self.builder.call(statement, [vector])

    def step(self, total: Value, key: Value, coefficient: Value) -> Value:
        """Return total · key + coefficient in each lane, for keys below 2^60."""
        lower, upper = self._product(total, key)
        once = self.builder.xor(upper, self.builder.shl(upper, self.constant(1)))
        folded = self.builder.xor(once, self.builder.shl(once, self.constant(3)))
        return self.builder.xor(self.builder.xor(lower, coefficient), folded)

    def _coefficient(self, coefficients: Value, j: Value) -> Value:
        return self.everywhere(self.builder.load(self.builder.gep(coefficients, [j])))

    def _hash_singly(self, keys: Value, coefficients: Value, count: Value) -> list[Value]:
        builder, zero, one = self.builder, ir.Constant(i64(), 0), ir.Constant(i64(), 1)
        words = cgutils.alloca_once(builder, i64(), size=TILE)
        total = cgutils.alloca_once(builder, i64())
        with cgutils.for_range_slice(builder, zero, ir.Constant(i64(), TILE), one) as (i, _):
            key = builder.load(builder.gep(keys, [i]))
            builder.store(builder.load(coefficients), total)
            with cgutils.for_range_slice(builder, one, count, one) as (j, _):
                coefficient = self._coefficient(coefficients, j)
                builder.store(self.step(builder.load(total), key, coefficient), total)
            builder.store(builder.load(total), builder.gep(words, [i]))
        return [builder.load(builder.gep(words, [ir.Constant(i64(), i)])) for i in range(TILE)]

    def _product(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Return the lower and upper halves of the carry-less product in each lane."""
        if self.lanes == 1:
            return self._integer_product(x, y)
        if self.code == PMULL:
            even, odd = (self._neon_product(x, y, lane) for lane in (0, 1))
        else:
            even, odd = (self._x86_product(x, y, places) for places in (0x00, 0x11))
        pairs = [(lane, self.lanes + lane) for lane in range(0, self.lanes, 2)]
        lower = self._lane_numbers([lane for pair in pairs for lane in pair])
        upper = self._lane_numbers([lane + 1 for pair in pairs for lane in pair])
        return self.builder.shuffle_vector(even, odd, lower), self.builder.shuffle_vector(even, odd, upper)

    def _x86_product(self, x: Value, y: Value, places: int) -> Value:
        kind = ir.FunctionType(self.vector, [self.vector, self.vector, i8()])
        function = cgutils.get_or_insert_function(self.builder.module, kind, _PRODUCT[self.lanes])
        return self.builder.call(function, [x, y, ir.Constant(i8(), places)])

    def _neon_product(self, x: Value, y: Value, lane: int) -> Value:
        kind = ir.FunctionType(ir.VectorType(i8(), 16), [i64(), i64()])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.aarch64.neon.pmull64")
        number = ir.Constant(i32(), lane)
        product = self.builder.call(function, [self.builder.extract_element(factor, number) for factor in (x, y)])
        return self.builder.bitcast(product, self.vector)

    def _integer_product(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Multiply parts with every fourth bit, so that carries stay in the gaps; for y < 2^60 a part has 15 bits."""
        builder = self.builder
        parts = [
            [
                builder.zext(builder.and_(factor, ir.Constant(i64(), _ONE_IN_FOUR << shift)), i128())
                for shift in range(4)
            ]
            for factor in (x, y)
        ]
        total = None
        mask = _ONE_IN_FOUR << 64 | _ONE_IN_FOUR
        for place in range(_CLASSES):
            products = [builder.mul(parts[0][i], parts[1][(place - i) % _CLASSES]) for i in range(_CLASSES)]
            ones = functools.reduce(builder.xor, products)
            ones = builder.and_(ones, ir.Constant(i128(), mask << place & ((1 << 128) - 1)))
            total = ones if total is None else builder.or_(total, ones)
        upper = builder.lshr(total, ir.Constant(i128(), 64))
        return builder.trunc(total, i64()), builder.trunc(upper, i64())

    @staticmethod
    def _lane_numbers(lanes: list[int]) -> Value:
        return ir.Constant(ir.VectorType(i32(), len(lanes)), lanes)


def emitter(context: Context, builder: Builder) -> Emitter:
    """Return an emitter for the target that ``context`` compiles for."""
    return Emitter(builder, instructions_of(*context.codegen().magic_tuple()))


def arrays(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> dict[int, Value]:
    """Return the array arguments of an intrinsic, by position."""
    return {
        place: context.make_array(kind)(context, builder, argument)
        for place, (kind, argument) in enumerate(zip(signature.args, arguments, strict=True))
        if isinstance(kind, types.Array)
    }


def check_contiguous(*kinds: Any) -> None:
    """Raise `TypingError` unless all array types among ``kinds`` are C-contiguous."""
    if {kind.layout for kind in kinds if isinstance(kind, types.Array)} - {"C"}:
        raise numba.TypingError("the arrays of a tile must be C-contiguous")


@intrinsic
def hash_tile(
    typingctx: TypingContext, keys: NumbaType, place: NumbaType, coefficients: NumbaType, out: NumbaType, at: NumbaType
) -> Intrinsic:
    """Write the hash words of the 16 keys that start at ``keys[place]`` to ``out[at:]``.

    Parameters
    ----------
    keys, out
        uint64, one-dimensional, C-contiguous. Keys of 2^60 and above give arbitrary words.
    coefficients
        uint64, (independence,), C-contiguous, leading coefficient first.
    place, at
        In elements; bounds are not checked.
    """
    del typingctx, place, at  # Numba passes types here; the values are in ``arguments``
    check_contiguous(keys, coefficients, out)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        operands, code = arrays(context, builder, signature, arguments), emitter(context, builder)
        first = builder.gep(operands[0].data, [arguments[1]])
        count = builder.extract_value(operands[2].shape, 0)
        for number, words in enumerate(code.hash_tile(first, operands[2].data, count)):
            place = builder.add(arguments[4], ir.Constant(i64(), number * code.lanes))
            builder.store(words, code.at(operands[3].data, place), align=8)
        return context.get_dummy_value()

    return types.void(keys, types.intp, coefficients, out, types.intp), generate


@intrinsic
def multiply_add(typingctx: TypingContext, total: NumbaType, key: NumbaType, coefficient: NumbaType) -> Intrinsic:
    """Return total · key + coefficient in GF(2^64), all uint64, for a key below 2^60."""
    del typingctx, total, key, coefficient  # as above

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        del signature
        code = emitter(context, builder).code
        if code == PLAIN:
            return Emitter(builder, code).step(*arguments)
        pair = Emitter(builder, PMULL if code == PMULL else PCLMUL)
        words = pair.step(*(pair.everywhere(argument) for argument in arguments))
        return builder.extract_element(words, ir.Constant(i32(), 0))

    return types.uint64(types.uint64, types.uint64, types.uint64), generate
