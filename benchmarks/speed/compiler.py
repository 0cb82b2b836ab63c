"""C beside us, compiled on the spot where there is a compiler."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

_OPTIONS = ("-O3", "-march=native", "-Wno-psabi", "-shared", "-fPIC")


@functools.cache
def compiled(name: str, *defines: str) -> ctypes.CDLL | None:
    """Return ``<name>.c`` of this folder as a library, with macros like ``"CELL=double"``; None without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source = Path(__file__).with_name(f"{name}.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / f"{name}.so"
        command = [compiler, *_OPTIONS, *(f"-D{define}" for define in defines), "-o", str(library), str(source)]
        if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603 - our own source
            return None
        return ctypes.CDLL(str(library))
