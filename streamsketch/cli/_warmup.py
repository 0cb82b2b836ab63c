"""``streamsketch demo --warmup``: machine code for images of containers and workers."""

import os
import time
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.cli._saying import say
from streamsketch.cli._showing import progress_bar, show_result
from streamsketch.cli._workload import STEPS, run
from streamsketch.core.documents import Json
from streamsketch.core.jit import kernel_files
from streamsketch.core.kernel_cache import before_compiling
from streamsketch.core.libraries import numba


def warmup(*, as_json: bool) -> None:
    """Compile all kernels, and print how many are ready and where.

    Raises
    ------
    InvalidInputError
        If no folder for them is writable.
    """
    begun, compiled = time.monotonic(), 0
    with progress_bar("kernels") as bar:
        task = bar.add_task("compiling", total=len(STEPS), events=0)

        def count(cache: Any) -> None:
            nonlocal compiled
            if not cache.is_writable:
                raise ss.InvalidInputError(_unwritable())
            if not (compiled or as_json):
                say("compiling kernels, once, about a minute …")
            compiled += 1
            bar.update(task, events=compiled)

        with before_compiling(count):
            for step in STEPS:
                bar.update(task, description=step)
                run(step)
                bar.update(task, advance=1)
    fields = _facts(kernel_files()) | {
        "compiled": compiled,
        "seconds": round(time.monotonic() - begun, 1),
        "processor": numba.core.registry.cpu_target.target_context.codegen().magic_tuple()[1],
    }
    facts = {
        "compiled now": f"{compiled} in {fields['seconds']} s",
        "ready": f"{fields['kernels']} ({fields['bytes'] / 1e6:.1f} MB)",
        "folder": fields["folder"],
        "processor": fields["processor"],
    }
    show_result("Kernels", facts, fields, as_json=as_json)


def _facts(files: set[Path]) -> Json:
    return {
        "folder": os.path.commonpath([file.parent for file in files]),
        "kernels": sum(file.suffix == ".nbc" for file in files),
        "bytes": sum(file.stat().st_size for file in files),
    }


def _unwritable() -> str:
    folder = os.environ.get("NUMBA_CACHE_DIR")
    return (
        "kernels cannot be kept, as no folder for them is writable: neither "
        + (f"NUMBA_CACHE_DIR ({folder}), " if folder else "")
        + f"the package's own ({Path(ss.__file__).parent}) nor the user's cache ({Path.home() / '.cache'}). "
        "Set NUMBA_CACHE_DIR to a folder that is, or run this command as the user who installed the package"
    )
