"""One decorator for every Numba kernel."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function`` without the GIL and keep the machine code on disk where a disk can be written."""
    try:
        compiled: Callable[Parameters, Result] = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no writable cache folder, e.g. a read-only site-packages or a zip import
        compiled = njit(nogil=True)(function)
    return compiled
