"""Machine code of kernels, for copies of the library that would else compile all of it again."""

import shutil
from pathlib import Path

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
