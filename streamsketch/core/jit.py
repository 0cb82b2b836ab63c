"""Decorators for Numba kernels."""

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from numba import njit

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True}  # no entry for C, which takes a twelfth of the compilation

SOURCES = (
    "features/kernels.py",
    "kernels/carryless.py",
    "kernels/hashing.py",
    "kernels/words.py",
    "kernels/blake2b.py",
    "local/compressed.py",
    "local/baselines/frames.py",
    "local/baselines/kashin.py",
    "local/random_words.py",
    "privacy/exact_coins.py",
    "privacy/flip_sampler.py",
    "privacy/inverse_sampler.py",
    "privacy/share_samplers.py",
    "projections/explicit.py",
    "projections/fjlt.py",
    "projections/hadamard.py",
    "projections/identity.py",
    "projections/independent.py",
    "kernels/lattice.py",
    "kernels/matrices.py",
    "kernels/permutation.py",
    "kernels/pipeline.py",
    "kernels/slots.py",
    "kernels/tiles.py",
    "kernels/vectors.py",
    "projections/oporp.py",
    "projections/srht.py",
    "kernels/popcount.py",
    "schedules/kernels.py",
    "sketching/bounding/cell_kernels.py",
    "sketching/bounding/clip.py",
    "sketching/bounding/digests.py",
    "sketching/bounding/runs.py",
    "sketching/bounding/shards.py",
    "sketching/bounding/clip_kernels.py",
    "sketching/bounding/sums.py",
)
"""Files with kernels, or with code that is compiled into them."""


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function`` to run without the GIL, and cache the machine code on disk where possible.

    The cache is invalidated when any file with kernels changes, since kernels call those of other files.
    """
    compiled: Any
    try:
        compiled = njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no writable cache folder, e.g. a read-only site-packages or a zip import
        compiled = njit(**_OPTIONS)(function)
    else:
        # Numba watches the kernel's own file only, and has no public way to add others
        with contextlib.suppress(AttributeError):
            kept = compiled._cache._cache_file  # noqa: SLF001
            kept._source_stamp = (kept._source_stamp, sources_stamp())  # noqa: SLF001
    result: Callable[Parameters, Result] = compiled
    return result


@functools.cache
def sources_stamp() -> str:
    """Return a digest of all files whose code is compiled into kernels."""
    folder = Path(__file__).parent.parent
    digest = hashlib.blake2b(digest_size=16)
    for name in SOURCES:
        with contextlib.suppress(OSError):  # compiled without sources, as in a zip
            digest.update((folder / name).read_bytes())
        digest.update(name.encode())
    return digest.hexdigest()


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Inline ``function`` into every kernel that calls it.

    A call between kernels costs some nanoseconds for each array argument, and more for a slice: too much in loops
    over a few items at a time.
    """
    compiled: Callable[Parameters, Result] = njit(nogil=True, inline="always")(function)
    return compiled


def compiles_for(context: Any, *features: str) -> bool:
    """Return whether ``context`` generates code for processors with all ``features``, as LLVM names them.

    For intrinsics: an instruction that the processor lacks would abort the process, or become a slow call. Only
    features listed explicitly count, not those that a processor's name implies. Numba stores the list with the machine
    code that it caches.
    """
    return {f"+{feature}" for feature in features} <= set(context.codegen().magic_tuple()[2].split(","))
