"""Large libraries that load when something of them is first used.

Reading, checking and estimating use none of them, so that commands answer at once, and the reader installs without
them. In annotations their names stand in quotes: else a definition would load them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["cgutils", "ir", "numba", "pa", "pc", "pq", "sparse", "special", "types"]


class _Library:
    """A module, imported when an attribute of it is first read."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        try:
            module = import_module(self.__name__)
        except ModuleNotFoundError as error:
            library = self.__name__.partition(".")[0]
            if (error.name or "").partition(".")[0] != library:
                raise
            raise ModuleNotFoundError(
                f"this takes {library}, which streamsketch-reader does without: pip install streamsketch"
            ) from None
        value = getattr(module, attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import numba
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from scipy import sparse, special
else:
    numba, types, cgutils = _Library("numba"), _Library("numba.core.types"), _Library("numba.core.cgutils")
    ir = _Library("llvmlite.ir")
    pa, pc, pq = _Library("pyarrow"), _Library("pyarrow.compute"), _Library("pyarrow.parquet")
    sparse, special = _Library("scipy.sparse"), _Library("scipy.special")
