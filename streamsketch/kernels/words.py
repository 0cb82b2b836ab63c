"""Bytes of a buffer as words of eight."""

from streamsketch.core.jit import intrinsic
from streamsketch.core.libraries import cgutils, ir, types
from streamsketch.kernels.llvm_types import Builder, Context, Intrinsic, NumbaType, Signature, TypingContext, Value, i64

_BYTES = 8


@intrinsic
def bytes_at(typingctx: TypingContext, data: NumbaType, place: NumbaType, stop: NumbaType) -> Intrinsic:
    """Return up to eight bytes of ``data[place:stop]`` as a uint64, the first byte lowest; 0 if there are none.

    Nothing outside ``data[:stop]`` is read. All processors that Numba supports are little-endian.

    Parameters
    ----------
    data
        uint8, one-dimensional, C-contiguous.
    place, stop
        Bounds are not checked.
    """
    del typingctx, place, stop  # Numba passes types here; the values are in ``arguments``

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        _, place, stop = arguments
        whole, none = ir.Constant(i64(), _BYTES), ir.Constant(i64(), 0)
        count = builder.sub(stop, place)
        word = cgutils.alloca_once(builder, i64())
        with builder.if_else(builder.icmp_signed(">=", count, whole)) as (many, few):
            with many:
                builder.store(_load(builder, data, place), word)
            with few:
                builder.store(none, word)
                is_some, is_far = builder.icmp_signed(">", count, none), builder.icmp_signed(">=", stop, whole)
                with builder.if_then(is_some), builder.if_else(is_far) as (far, at_start):
                    with far:  # the eight bytes that end where these do, without those before them
                        before = builder.shl(builder.sub(whole, count), ir.Constant(i64(), 3))
                        ending = _load(builder, data, builder.sub(stop, whole))
                        builder.store(builder.lshr(ending, before), word)
                    with at_start:
                        copied = cgutils.alloca_once(builder, i64())  # `word` stays in a register
                        builder.store(none, copied)
                        first = builder.gep(data, [place])
                        cgutils.raw_memcpy(builder, builder.bitcast(copied, first.type), first, count, 1)
                        builder.store(builder.load(copied), word)
        return builder.load(word)

    return types.uint64(data, types.intp, types.intp), generate


@intrinsic
def put_word(typingctx: TypingContext, data: NumbaType, place: NumbaType, word: NumbaType) -> Intrinsic:
    """Write a uint64 as the eight bytes ``data[place : place + 8]``, the lowest first.

    Parameters
    ----------
    data
        uint8, one-dimensional, C-contiguous.
    place
        Bounds are not checked.
    """
    del typingctx, place, word  # as above

    def generate(context: Context, builder: Builder, signature: Signature, arguments: list[Value]) -> Value:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        target = builder.bitcast(builder.gep(data, [arguments[1]]), i64().as_pointer())
        builder.store(arguments[2], target, align=1)
        return context.get_dummy_value()

    return types.void(data, types.intp, types.uint64), generate


def _load(builder: Builder, data: Value, place: Value) -> Value:
    return builder.load(builder.bitcast(builder.gep(data, [place]), i64().as_pointer()), align=1)
