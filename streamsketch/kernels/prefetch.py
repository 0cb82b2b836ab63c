"""Prefetching of memory."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typingctx: Any, array: Any, place: Any) -> Any:
    """Request the cache line of ``array[place]``, to be loaded during other work; ``place`` may lie past the end.

    A kernel that processes blocks in several passes reads new memory in its first pass only, faster than it arrives.
    Hardware prefetching does not continue across the other passes, nor past a page.

    Parameters
    ----------
    array
        One-dimensional and C-contiguous.
    place
        In elements.
    """
    del typingctx, place  # Numba passes types here; the values are in ``arguments``

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        read, keep, of_data = ir.Constant(number, 0), ir.Constant(number, 3), ir.Constant(number, 1)
        builder.call(function, [address, read, keep, of_data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
