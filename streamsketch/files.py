"""Files that appear whole or not at all."""

import os
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file that appears whole or not at all."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
