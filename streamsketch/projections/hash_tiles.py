"""Polynomial hashing of 64 keys at a time, in registers.

`horner_narrow` and `horner_wide` write every step of every key to memory. Here 64 keys stay in registers from the
first step to the last. That leaves the stores to the scatter that uses the hash words, which is bound by them; and
tiles are so small that the processor hashes the next one while the stores of the last one drain.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from streamsketch.hashing import PRIME

TILE = 64
"""Keys hashed at a time."""

_LANES = 8
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, _LANES)
_VECTORS = TILE // _LANES


def _constant(value: int) -> Any:
    return ir.Constant(_VECTOR, [value] * _LANES)


_P, _LOW_32, _LOW_29 = _constant(PRIME), _constant((1 << 32) - 1), _constant((1 << 29) - 1)
_3, _29, _32, _61 = (_constant(bits) for bits in (3, 29, 32, 61))


def _hash_tile(*, wide: bool) -> Callable[..., Any]:
    """Return the code of a tile's hash; the steps and their bounds are those of `horner_narrow` and `horner_wide`."""

    def code(typingctx: Any, keys: Any, place: Any, coefficients: Any, out: Any) -> Any:
        del typingctx, place  # Numba hands the types over; the values come with the arguments
        if {array.layout for array in (keys, coefficients, out)} != {"C"}:
            raise TypingError("the arrays of a tile's hash must be C-contiguous")
        return types.void(keys, types.intp, coefficients, out), generate

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        key_array, coefficient_array, out_array = (
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 3)
        )
        keys = [builder.load(_vector(builder, key_array.data, v, arguments[1]), align=8) for v in range(_VECTORS)]
        lower_keys = [builder.and_(key, _LOW_32) for key in keys]
        upper_keys = [builder.lshr(key, _32) if wide else None for key in keys]
        hashes = [cgutils.alloca_once(builder, _VECTOR) for _ in keys]
        first = _broadcast(builder, builder.load(coefficient_array.data))
        for held in hashes:
            builder.store(first, held)
        one, count = ir.Constant(_WORD, 1), builder.extract_value(coefficient_array.shape, 0)
        with cgutils.for_range_slice(builder, one, count, one) as (j, _):
            coefficient = _broadcast(builder, builder.load(builder.gep(coefficient_array.data, [j])))
            for held, lower, upper in zip(hashes, lower_keys, upper_keys, strict=True):
                builder.store(_step(builder, builder.load(held), lower, upper, coefficient), held)
        for v, held in enumerate(hashes):
            builder.store(_reduced(builder, builder.load(held)), _vector(builder, out_array.data, v), align=8)
        return context.get_dummy_value()

    return code


def _step(builder: Any, held: Any, lower_key: Any, upper_key: Any, coefficient: Any) -> Any:
    """Return held · key + coefficient, lazily reduced."""
    held_upper, held_lower = builder.lshr(held, _32), builder.and_(held, _LOW_32)
    middle, lower = builder.mul(held_upper, lower_key), builder.mul(held_lower, lower_key)
    total = builder.add(coefficient, builder.lshr(lower, _61))
    if upper_key is not None:
        middle = builder.add(middle, builder.mul(held_lower, upper_key))
        total = builder.add(total, builder.shl(builder.mul(held_upper, upper_key), _3))
    total = builder.add(total, builder.lshr(middle, _29))
    total = builder.add(total, builder.and_(lower, _P))
    return builder.add(total, builder.shl(builder.and_(middle, _LOW_29), _32))


def _reduced(builder: Any, held: Any) -> Any:
    """Return the residue below p."""
    folded = builder.add(builder.and_(held, _P), builder.lshr(held, _61))
    less = builder.sub(folded, _P)
    return builder.select(builder.icmp_unsigned("<", folded, less), folded, less)


def _vector(builder: Any, data: Any, number: int, start: Any = None) -> Any:
    """Return where a vector of an array lies, counted from ``start``."""
    place = ir.Constant(_WORD, number * _LANES)
    at = builder.gep(data, [place if start is None else builder.add(start, place)])
    return builder.bitcast(at, _VECTOR.as_pointer())


def _broadcast(builder: Any, word: Any) -> Any:
    nothing, index = ir.Constant(_VECTOR, ir.Undefined), ir.IntType(32)
    one = builder.insert_element(nothing, word, ir.Constant(index, 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(index, _LANES), [0] * _LANES))


hash_tile_narrow: Callable[..., None] = intrinsic(_hash_tile(wide=False))
"""``hash_tile_narrow(keys, place, coefficients, out)``: `horner_narrow` of the 64 keys from ``place`` on into ``out``.

All arrays are uint64, one-dimensional and C-contiguous; bounds are the caller's to keep.
"""

hash_tile_wide: Callable[..., None] = intrinsic(_hash_tile(wide=True))
"""As `hash_tile_narrow`, for `horner_wide`."""
