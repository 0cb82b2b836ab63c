"""Files that commands write."""

from pathlib import Path

import streamsketch as ss


def new_file(path: Path, suffix: str | tuple[str, ...], what: str, *, force: bool = False) -> Path:
    """Return the name of a file to write, once it is sure to replace nothing and to have the right suffix.

    With ``force`` a file of this kind may be replaced, but nothing else, such as a folder.
    """
    suffixes = (suffix,) if isinstance(suffix, str) else suffix
    if path.suffix not in suffixes:
        raise ss.InvalidInputError(
            f"{what} is written to a file named {' or '.join(f'*{ending}' for ending in suffixes)}, got {path}"
        )
    if path.exists() and not (force and path.is_file()):
        raise ss.InvalidInputError(f"{path} already exists and is not replaced; name another file, or move it away")
    if not path.parent.is_dir():
        raise ss.InvalidInputError(f"{path} cannot be written: there is no folder {path.parent}")
    return path
