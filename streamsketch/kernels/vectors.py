"""Explicit 64-byte vectors: the butterflies of a Hadamard transform, an in-place sum, a transposed tile.

LLVM does not vectorise these loops by itself, because of possible aliases and operations across lanes. With explicit
vectors the transform of 2^15 doubles is about three times as fast, and the projection of dense matrices four times.
"""

from collections.abc import Callable
from typing import TypeAlias

from streamsketch.core.jit import compiles_for, intrinsic, literal_intrinsic
from streamsketch.core.libraries import cgutils, ir, numba, types
from streamsketch.kernels.llvm_types import Builder, Context, Intrinsic, NumbaType, Signature, TypingContext, Value, i32

VECTOR_BYTES = 64

Combine: TypeAlias = Callable[[Value, Value], Value]


@literal_intrinsic
def butterflies(
    typingctx: TypingContext,
    array: NumbaType,
    offset: NumbaType,
    stride: NumbaType,
    vectors: NumbaType,
    width: NumbaType,
    within: NumbaType,
) -> Intrinsic:
    """Transform ``vectors`` vectors of one array in registers, in place.

    Vector m holds the ``width`` bytes from ``array[offset + m · stride]`` on. All butterflies between the vectors are
    computed, and with ``within`` also those between the lanes of each.

    Parameters
    ----------
    array
        One-dimensional and C-contiguous, of float64, float32 or int64; bounds are not checked.
    offset, stride
        In elements.
    vectors
        2, 4 or 8, a literal.
    width
        16 or 64, a literal.
    within
        1 or 0, a literal.
    """
    del typingctx, offset, stride  # Numba passes types here; the values are in ``arguments``
    if not all(isinstance(literal, types.IntegerLiteral) for literal in (vectors, width, within)):
        raise numba.TypingError("vectors, width and within must be literals")
    count = vectors.literal_value
    signature = types.void(array, types.intp, types.intp, vectors, width, within)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        array_type = signature.args[0]
        element = context.get_data_type(array_type.dtype)
        size = array_type.dtype.bitwidth // 8
        vector = ir.VectorType(element, width.literal_value // size)
        data = context.make_array(array_type)(context, builder, arguments[0]).data
        if isinstance(array_type.dtype, types.Float):
            add, subtract = builder.fadd, builder.fsub
        else:
            add, subtract = builder.add, builder.sub

        def pointer(place: int) -> Value:
            step = builder.mul(arguments[2], ir.Constant(arguments[2].type, place))
            address = builder.gep(data, [builder.add(arguments[1], step)])
            return builder.bitcast(address, vector.as_pointer())

        held = [builder.load(pointer(place), align=size) for place in range(count)]
        _between(held, add, subtract)
        if within.literal_value and isinstance(array_type.dtype, types.Float) and compiles_for(context, "fma"):
            _inside_by_products(builder, held)
        elif within.literal_value:
            _inside(builder, held, add, subtract)
        for place, x in enumerate(held):
            builder.store(x, pointer(place), align=size)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_signed(
    typingctx: TypingContext,
    target: NumbaType,
    offsets: NumbaType,
    source: NumbaType,
    start: NumbaType,
    signs: NumbaType,
) -> Intrinsic:
    """Add ±1 times the 64 bytes of ``source`` from ``start`` on to those of ``target`` from each of ``offsets`` on.

    Parameters
    ----------
    target, source
        One-dimensional, C-contiguous, of one dtype: float64, float32 or int64; bounds are not checked.
    offsets, start
        A tuple and a number, in elements.
    signs
        A tuple of 1 and -1 of that dtype, one for each offset.
    """
    del typingctx, start  # as above
    signature = types.void(target, offsets, source, types.intp, signs)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        dtype = signature.args[0].dtype
        size = dtype.bitwidth // 8
        vector = ir.VectorType(context.get_data_type(dtype), VECTOR_BYTES // size)

        def pointer(which: int, place: Value) -> Value:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            return builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer())

        def everywhere(number: Value) -> Value:
            nothing = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(nothing, number, ir.Constant(i32(), 0))
            return builder.shuffle_vector(first, nothing, _mask([0] * vector.count))

        added = builder.load(pointer(2, arguments[3]), align=size)
        for offset, sign in zip(*(cgutils.unpack_tuple(builder, arguments[i]) for i in (1, 4)), strict=True):
            place = pointer(0, offset)
            if isinstance(dtype, types.Float):
                total = builder.fadd(builder.load(place, align=size), builder.fmul(added, everywhere(sign)))
            else:  # a product of 64 bits takes several instructions
                minus = everywhere(builder.ashr(sign, ir.Constant(sign.type, 63)))
                signed = builder.sub(builder.xor(added, minus), minus)
                total = builder.add(builder.load(place, align=size), signed)
            builder.store(total, place, align=size)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def transpose_tile(
    typingctx: TypingContext,
    source: NumbaType,
    offset: NumbaType,
    stride: NumbaType,
    target: NumbaType,
    start: NumbaType,
    step: NumbaType,
) -> Intrinsic:
    """Write the transpose of a square tile of as many vectors as a vector has lanes.

    Line m of the tile is the 64 bytes of ``source`` from ``offset + m · stride`` on; column m is written to the 64
    bytes of ``target`` from ``start + m · step`` on.

    Parameters
    ----------
    source, target
        One-dimensional, C-contiguous, of one dtype of 4 or 8 bytes; bounds are not checked.
    offset, stride, start, step
        In elements.
    """
    del typingctx, offset, stride, start, step  # as above
    signature = types.void(source, types.intp, types.intp, target, types.intp, types.intp)

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        dtype = signature.args[0].dtype
        size = dtype.bitwidth // 8
        lanes = VECTOR_BYTES // size
        vector = ir.VectorType(context.get_data_type(dtype), lanes)

        def pointer(which: int, first: Value, step: Value, place: int) -> Value:
            array = context.make_array(signature.args[which])(context, builder, arguments[which])
            element = builder.add(first, builder.mul(step, ir.Constant(step.type, place)))
            return builder.bitcast(builder.gep(array.data, [element]), vector.as_pointer())

        held = [builder.load(pointer(0, arguments[1], arguments[2], m), align=size) for m in range(lanes)]
        half = 1
        while half < lanes:  # swap one bit of the vector's number with the same bit of the lane's
            first_mask = _mask([lane if not lane & half else lanes + (lane ^ half) for lane in range(lanes)])
            second_mask = _mask([lane | half if not lane & half else lanes + lane for lane in range(lanes)])
            for first in range(lanes):
                if first & half == 0:
                    x, y = held[first], held[first + half]
                    held[first] = builder.shuffle_vector(x, y, first_mask)
                    held[first + half] = builder.shuffle_vector(x, y, second_mask)
            half *= 2
        for m, x in enumerate(held):
            builder.store(x, pointer(3, arguments[4], arguments[5], m), align=size)
        return context.get_dummy_value()

    return signature, generate


def _between(held: list[Value], add: Combine, subtract: Combine) -> None:
    half = 1
    while half < len(held):
        for first in range(len(held)):
            if first & half == 0:
                x, y = held[first], held[first + half]
                held[first], held[first + half] = add(x, y), subtract(x, y)
        half *= 2


def _inside_by_products(builder: Builder, held: list[Value]) -> None:
    """As `_inside` for floats, with half the additions: ±own + partner's in one rounding, as the sum has."""
    vector, lanes = held[0].type, held[0].type.count
    bits = 64 if isinstance(vector.element, ir.DoubleType) else 32
    kind = ir.FunctionType(vector, [vector] * 3)
    multiply_add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{lanes}f{bits}")
    half = 1
    while half < lanes:
        swap = _mask([lane ^ half for lane in range(lanes)])
        signs = ir.Constant(vector, [-1.0 if lane & half else 1.0 for lane in range(lanes)])
        for place, x in enumerate(held):
            held[place] = builder.call(multiply_add, [x, signs, builder.shuffle_vector(x, x, swap)])
        half *= 2


def _inside(builder: Builder, held: list[Value], add: Combine, subtract: Combine) -> None:
    lanes = held[0].type.count
    half = 1
    while half < lanes:
        swap = _mask([lane ^ half for lane in range(lanes)])
        blend = _mask([lane + lanes if lane & half else lane for lane in range(lanes)])
        for place, x in enumerate(held):
            y = builder.shuffle_vector(x, x, swap)
            # lane l: x + y where its bit `half` is 0, the partner's value minus its own where it is 1
            held[place] = builder.shuffle_vector(add(x, y), subtract(y, x), blend)
        half *= 2


def _mask(lanes: list[int]) -> Value:
    return ir.Constant(ir.VectorType(i32(), len(lanes)), lanes)
