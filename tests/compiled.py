"""Machine code of kernels, for processes that would else compile all of it again."""

import fcntl
import shutil
from pathlib import Path
from typing import Any, TextIO

from numba.core.caching import Cache
from numba.core.dispatcher import Dispatcher

import streamsketch
from streamsketch.core.jit import SOURCES

PACKAGE = Path(streamsketch.__file__).parent


def carry_kernels(folder: Path) -> None:
    """Give the copy of the library in ``folder`` what is compiled of this one, file by file where both are the same.

    Numba keeps machine code by a source's time and size: the copy gets the time of the original.
    """
    for name in SOURCES:
        own, copied = PACKAGE / name, folder / "streamsketch" / name
        assert own.read_bytes() == copied.read_bytes()
        shutil.copystat(own, copied)
        kept = copied.parent / "__pycache__"
        kept.mkdir(exist_ok=True)
        for path in (own.parent / "__pycache__").glob(f"{own.stem}.*.nb?"):
            shutil.copyfile(path, kept / path.name)


def compile_once() -> None:
    """Let one process compile a kernel while others wait for its machine code, by a lock beside it.

    Two that begin at once would each compile it; and as both then write one list of what there is, one of two
    signatures would be forgotten, and compiled again by the next.
    """
    load, compile_ = Cache.load_overload, Dispatcher.compile
    held: dict[str, TextIO] = {}

    def loaded(cache: Any, signature: Any, context: Any) -> Any:
        found = load(cache, signature, context)
        path = f"{cache._cache_file._index_path}.lock"
        if found is not None or path in held:
            return found
        cache._impl.locator.ensure_cache_path()
        lock = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - it is held until the code is there
        fcntl.flock(lock, fcntl.LOCK_EX)
        held[path] = lock
        return load(cache, signature, context)

    def compiled(dispatcher: Any, signature: Any) -> Any:
        before = set(held)
        try:
            return compile_(dispatcher, signature)
        finally:  # a kernel calls others, and none of these calls it: nobody waits for who waits for him
            for path in held.keys() - before:
                held.pop(path).close()

    Cache.load_overload, Dispatcher.compile = loaded, compiled
