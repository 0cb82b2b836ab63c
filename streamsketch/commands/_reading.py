"""Sketch files by name, as commands take them."""

from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.estimators import AnySketch
from streamsketch.raw import SUFFIX, is_raw, load_raw

Files = Annotated[
    list[Path], typer.Argument(help=".sketch files, or .parquet tables of them", metavar="FILE", show_default=False)
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Take raw sketches too: what is printed is then as secret as they are.")
]


def load_sketches(paths: list[Path], *, least: int, command: str, raw: bool = False) -> dict[str, AnySketch]:
    """Return the sketches of files by short names: a file's stem, or a table's key.

    Raises
    ------
    InvalidInputError
        For fewer than ``least`` sketches, files named twice, or raw ones unless ``raw`` says that they are wanted.
    """
    if len(set(paths)) < len(paths):
        raise ss.InvalidInputError(f"a file is named twice; {command} different releases")
    found: list[tuple[Path, Any, AnySketch]] = []
    for path in paths:
        found += [(path, key, sketch) for key, sketch in _sketches_of(path, command, raw=raw).items()]
    if len(found) < least:
        files = "files" if all(key is None for _, key, _ in found) else "sketches"
        number = {1: "one", 2: "two"}[least]
        raise ss.InvalidInputError(f"{command} needs at least {number} {files}, got {len(found)}")
    short = [path.stem if key is None else str(key) for path, key, _ in found]
    long = [str(path) if key is None else f"{path}:{key}" for path, key, _ in found]
    return {short[i] if short.count(short[i]) == 1 else long[i]: sketch for i, (_, _, sketch) in enumerate(found)}


def _sketches_of(path: Path, command: str, *, raw: bool) -> dict[Any, AnySketch]:
    """Return a file's sketches by key; of a file with one sketch, the key is None."""
    if path.suffix == ".parquet":
        return dict(load_table(path))
    if path.suffix != SUFFIX and not is_raw(path):
        return {None: load_release(path)}
    if not raw:
        or_raw = ", or say --raw to compare it all the same, for your eyes only" if command == "compare" else ""
        raise ss.InvalidInputError(
            f"{path} is a raw sketch, which is secret, and so is all that is computed from it. Release it first{or_raw}"
        )
    state = load_raw_file(path).state
    return {None: state} if isinstance(state, ss.Sketch) else dict(state)


def load_release(path: Path) -> ss.PrivateSketch:
    """Return the release in a file; errors name the file."""
    try:
        return ss.load(path)
    except ss.WireFormatError as error:
        if path.is_file() and is_raw(path):
            raise ss.InvalidInputError(f"{path} is a raw sketch, which is secret; release it first") from None
        if path.suffix == ".signs":
            raise ss.InvalidInputError(
                f"{path} holds published signs, not a private sketch: inspect shows their promise, and "
                f"streamsketch.signs compares them in Python"
            ) from None
        raise ss.InvalidInputError(f"{path} is not a sound private sketch: {error}") from None


def load_table(path: Path) -> dict[Any, ss.PrivateSketch]:
    """Return the releases in a Parquet table; errors name the file."""
    try:
        return ss.load_table(path)
    except ss.WireFormatError as error:
        raise ss.InvalidInputError(f"{path} is not a sound table of private sketches: {error}") from None


def load_raw_file(path: Path) -> Any:
    """Return what a raw file holds; errors name the file."""
    try:
        return load_raw(path)
    except ss.WireFormatError as error:
        what = "a release, not a raw sketch" if _is_release(path) else f"not a sound raw sketch: {error}"
        raise ss.InvalidInputError(f"{path} is {what}") from None


def _is_release(path: Path) -> bool:
    try:
        ss.load(path)
    except (ss.StreamsketchError, OSError):
        return False
    return True


def new_file(path: Path, suffix: str | tuple[str, ...], what: str) -> Path:
    """Return the name of a file to write, once it is sure to replace nothing and to be what its suffix says."""
    suffixes = (suffix,) if isinstance(suffix, str) else suffix
    if path.suffix not in suffixes:
        raise ss.InvalidInputError(
            f"{what} is written to a file named {' or '.join(f'*{one}' for one in suffixes)}, got {path}"
        )
    if path.exists():
        raise ss.InvalidInputError(f"{path} is there already and is not replaced; name another file, or move it away")
    if not path.parent.is_dir():
        raise ss.InvalidInputError(f"{path} cannot be written: there is no folder {path.parent}")
    return path
