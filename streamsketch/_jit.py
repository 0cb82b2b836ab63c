"""One decorator for every Numba kernel."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function`` without the GIL and keep the machine code on disk where a disk can be written.

    Numba renews what it keeps when the kernel's own file changes. Having edited a kernel that another file's kernels
    call, run ``make clean``.
    """
    try:
        compiled: Callable[Parameters, Result] = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no writable cache folder, e.g. a read-only site-packages or a zip import
        compiled = njit(nogil=True)(function)
    return compiled


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function`` into every kernel that calls it.

    A call between kernels costs some nanoseconds for each array that it hands on, a slice most of all: too much in the
    loops over a few items at a time.
    """
    compiled: Callable[Parameters, Result] = njit(nogil=True, inline="always")(function)
    return compiled
