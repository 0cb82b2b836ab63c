"""Object stores of this machine."""

from pathlib import Path
from typing import Any

import pytest


def store_of(kind: str, folder: Path) -> Any:
    """Return a store; skip the test without the extra ``objects``."""
    stores = pytest.importorskip("obstore.store", reason="object stores need the extra objects")
    return stores.MemoryStore() if kind == "memory objects" else stores.LocalStore(folder)
