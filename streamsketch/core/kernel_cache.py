"""The machine code of kernels on disk: read from any folder where Numba keeps it, written to the first writable one."""

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from streamsketch.core.libraries import numba

_LOCATORS = ("UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator")
_DAMAGED = (EOFError, pickle.UnpicklingError)

_LISTENERS: list[Callable[["KernelCache"], None]] = []


class KernelCache:
    """The machine code of one kernel, as `numba.core.caching.FunctionCache` keeps it.

    Numba looks for a folder in this order: ``NUMBA_CACHE_DIR``, ``__pycache__`` beside the source, the user's cache. It
    takes the first that it can write to, and reads no other: a container that runs on a read-only file system, or as
    another user than the one who installed, would compile what its image has compiled already. This class reads the
    folders before that one as well. A file that cannot be read or written is no error: the kernel is compiled.

    Parameters
    ----------
    function
        The kernel's source.
    stamp
        Of which sources the code is; code of others is never used. By default Numba's own: of the kernel's file.
    """

    def __init__(self, function: Callable[..., Any], stamp: str | None = None) -> None:
        try:
            self._written: Any = numba.core.caching.FunctionCache(function)
        except RuntimeError:  # no folder is writable
            self._written = None
        self._caches = ([self._written] if self.is_writable else []) + self._readable(function)
        for cache in self._caches if stamp is not None else ():
            cache._cache_file._source_stamp = stamp  # noqa: SLF001 - Numba has no public way

    def _readable(self, function: Callable[..., Any]) -> list[Any]:
        """Return the caches that exist and can only be read."""
        caches = []
        own_locators = getattr(numba.config, "CACHE_LOCATOR_CLASSES", "")  # of the user, since Numba 0.62
        for make in () if own_locators else _reading_caches():
            try:
                cache = make(function)
            except RuntimeError:  # NUMBA_CACHE_DIR is not set, or the source is in a zip
                continue
            if self.is_writable and cache.cache_path == self.cache_path:
                break
            if Path(cache.cache_path).is_dir():
                caches.append(cache)
        return caches

    @property
    def is_writable(self) -> bool:
        """Whether there is a folder for what is compiled."""
        return self._written is not None

    @property
    def cache_path(self) -> str | None:
        """The folder to which machine code is written, or else the first from which it is read."""
        caches = [self._written] if self.is_writable else self._caches
        return str(caches[0].cache_path) if caches else None

    @property
    def folders(self) -> set[Path]:
        """The folders from which this cache reads."""
        return {Path(cache.cache_path) for cache in self._caches}

    def load_overload(self, signature: object, context: object) -> Any:
        """Return what was compiled for a signature and this processor, or None: Numba then compiles it."""
        for cache in self._caches:
            try:
                compiled = cache.load_overload(signature, context)
            except _DAMAGED:
                if cache is self._written:
                    with contextlib.suppress(OSError):
                        cache.flush()
                continue
            except OSError:
                continue
            if compiled is not None:
                return compiled
        for listener in tuple(_LISTENERS):
            listener(self)
        return None

    def save_overload(self, signature: object, compiled: object) -> None:
        """Write what was compiled, where a folder is writable."""
        if self.is_writable:
            with contextlib.suppress(OSError, *_DAMAGED):  # another user's file, or a full disk
                self._written.save_overload(signature, compiled)

    def enable(self) -> None:
        """Read and write files; they are from the start."""
        for cache in self._caches:
            cache.enable()

    def disable(self) -> None:
        """Stop reading and writing files of kernels."""
        for cache in self._caches:
            cache.disable()

    def flush(self) -> None:
        """Forget what was written."""
        if self.is_writable:
            self._written.flush()


@functools.cache
def _reading_caches() -> list[Callable[..., Any]]:
    """Return Numba's caches in the order in which it looks for a folder, without the condition that it be writable."""
    caching = numba.core.caching
    made: list[Callable[..., Any]] = []
    for locator in caching.CompileResultCacheImpl._locator_classes:  # noqa: SLF001 - whose names differ by version
        if not locator.__name__.endswith(_LOCATORS):
            continue
        reading = type(f"Reading{locator.__name__}", (locator,), {"ensure_cache_path": lambda _: None})
        files = type("Files", (caching.CompileResultCacheImpl,), {"_locator_classes": [reading]})
        made.append(type("Reading", (caching.FunctionCache,), {"_impl_class": files}))
    return made


@contextlib.contextmanager
def before_compiling(call: Callable[[KernelCache], None]) -> Iterator[None]:
    """Within the context, call ``call`` before each compilation of a kernel that no folder has for its arguments."""
    _LISTENERS.append(call)
    try:
        yield
    finally:
        _LISTENERS.remove(call)


@contextlib.contextmanager
def announce_compiling(say: Callable[[str], object]) -> Iterator[None]:
    """Within the context, call ``say`` with a sentence before the first kernel is compiled, if any has to be."""
    announced = False

    def announce(cache: KernelCache) -> None:
        nonlocal announced
        if announced:
            return
        announced = True
        if cache.is_writable and any(Path(str(cache.cache_path)).glob("*.nbi")):
            say("compiling kernels, once …")  # a few, which the others did not need
        elif cache.is_writable:
            say("compiling kernels, once, about 10 s …")
        else:
            say(
                "compiling kernels, about 10 s, at this start and each other: no folder for them is writable; set "
                "NUMBA_CACHE_DIR to one that is …"
            )

    with before_compiling(announce):
        yield
