"""Decorators for Numba kernels, which load Numba when the first kernel is called."""

import contextlib
import functools
import hashlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.kernel_cache import KernelCache
from streamsketch.core.libraries import is_installed, numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Number = TypeVar("Number", bound=np.generic)

_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True}  # no entry for C, which takes a twelfth of the compilation

SOURCES = (
    "features/kernels.py",
    "kernels/carryless.py",
    "kernels/csv_rows.py",
    "kernels/hashing.py",
    "kernels/words.py",
    "kernels/blake2b.py",
    "local/compressed.py",
    "local/baselines/frames.py",
    "local/baselines/kashin.py",
    "local/random_words.py",
    "privacy/exact_coins.py",
    "privacy/flip_sampler.py",
    "privacy/samplers.py",
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
    "kernels/schedules.py",
    "kernels/slots.py",
    "kernels/tiles.py",
    "kernels/vectors.py",
    "projections/oporp.py",
    "projections/srht.py",
    "kernels/popcount.py",
    "sketching/bounding/cell_kernels.py",
    "sketching/bounding/clip.py",
    "sketching/bounding/digests.py",
    "sketching/bounding/runs.py",
    "sketching/bounding/shards.py",
    "sketching/bounding/clip_kernels.py",
    "sketching/bounding/sums.py",
)
"""Files with kernels, or with code that is compiled into them."""


_COMPILING = threading.RLock()
_COMPILED: list[Any] = []


class _Lazy:
    """Something of Numba's that is made of a function when it is first needed, by Python or by a kernel's compilation.

    Numba takes half a second to load, and what only reads and estimates calls no kernel.
    """

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Any]) -> None:
        functools.update_wrapper(self, function)
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name != "made":
            return getattr(self.made, name)
        with _COMPILING:  # kernels that call one another refer to one object
            if "made" not in vars(self):
                vars(self)["made"] = self._make(self.__wrapped__)
        return vars(self)["made"]

    def __call__(self, *arguments: object) -> Any:
        return self.made(*arguments)

    def __reduce__(self) -> str:
        return cast("str", self.__wrapped__.__qualname__)


class _LazyIntrinsic(_Lazy):
    """An intrinsic, which Numba finds by its type once its registries are up to date."""

    @property
    def _numba_type_(self) -> Any:
        target = numba.core.registry.cpu_target
        made = self.made
        target.typing_context.refresh()
        target.target_context.refresh()
        return target.typing_context.resolve_value_type(made)


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile ``function`` to run without the GIL, when it is first called; cache the machine code where possible.

    The cache is invalidated when any file with kernels changes, since kernels call those of other files.
    """
    return cast("Callable[Parameters, Result]", _Lazy(function, _compiled))


def plain_kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Do what `kernel` does; without Numba, ``function`` runs as plain Python.

    For loops over few numbers, without intrinsics, in which Python and NumPy compute what the compiled code does.
    """
    return cast("Callable[Parameters, Result]", _Lazy(function, _compiled_or_plain))


def _compiled_or_plain(function: Callable[..., Any]) -> Any:
    return _compiled(function) if is_installed("numba") else np.errstate(over="ignore")(function)


def _compiled(function: Callable[..., Any]) -> Any:
    compiled = numba.njit(**_OPTIONS)(function)
    with contextlib.suppress(AttributeError):  # a Numba with other internals keeps nothing
        compiled._cache = KernelCache(function, sources_stamp())  # noqa: SLF001
    _COMPILED.append(compiled)
    return compiled


def kernel_files() -> set[Path]:
    """Return the files with machine code, of this version of Python, beside those of kernels called so far."""
    caches = [compiled._cache for compiled in tuple(_COMPILED)]  # noqa: SLF001
    folders = {folder for cache in caches if isinstance(cache, KernelCache) for folder in cache.folders}
    stems = {Path(name).stem for name in SOURCES}
    files = (file for folder in folders for file in folder.glob("*.nb[ci]"))
    version = f".py{sys.version_info[0]}{sys.version_info[1]}"
    return {file for file in files if file.name.partition(".")[0] in stems and version in file.name}


def _inlined(function: Callable[..., Any]) -> Any:
    return numba.njit(nogil=True, inline="always")(function)


def _emitting(function: Callable[..., Any]) -> Any:
    return numba.extending.intrinsic(function)


def _emitting_for_literals(function: Callable[..., Any]) -> Any:
    return numba.extending.intrinsic(prefer_literal=True)(function)


@functools.cache
def sources_stamp() -> str | None:
    """Return a digest of all files whose code is compiled into kernels; None where they cannot be read, as in a zip.

    The digest is of their text alone: a copy of the files has other times, and the same machine code.
    """
    folder = Path(__file__).parent.parent
    if not folder.is_dir():
        return None
    digest = hashlib.blake2b(digest_size=16)
    for name in SOURCES:
        with contextlib.suppress(OSError):
            digest.update((folder / name).read_bytes())
        digest.update(name.encode())
    return digest.hexdigest()


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Return a view that cannot be written to: kernels are compiled for each mix of such arrays and others."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Inline ``function`` into every kernel that calls it.

    A call between kernels costs some nanoseconds for each array argument, and more for a slice: too much in loops
    over a few items at a time.
    """
    return cast("Callable[Parameters, Result]", _Lazy(function, _inlined))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call what ``function`` emits: as `numba.extending.intrinsic`."""
    return _LazyIntrinsic(function, _emitting)


def literal_intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do what `intrinsic` does, and pass the types of literals as such where they are literals."""
    return _LazyIntrinsic(function, _emitting_for_literals)


def compiles_for(context: Any, *features: str) -> bool:
    """Return whether ``context`` generates code for processors with all ``features``, as LLVM names them.

    For intrinsics: an instruction that the processor lacks would abort the process, or become a slow call. Only
    features listed explicitly count, not those that a processor's name implies. Numba stores the list with the machine
    code that it caches.
    """
    return {f"+{feature}" for feature in features} <= set(context.codegen().magic_tuple()[2].split(","))
