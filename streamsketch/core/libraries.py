"""Large libraries that load when something of them is first used.

Reading, checking and estimating use none of them, so that commands answer at once, and the reader installs without
them. In annotations their names are quoted; otherwise a definition would load them.
"""

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "cgutils",
    "distance",
    "hierarchy",
    "integrate",
    "ir",
    "is_installed",
    "jinja2",
    "linalg",
    "numba",
    "once_loaded",
    "optimize",
    "pa",
    "pa_csv",
    "pa_json",
    "pc",
    "pq",
    "scipy_special",
    "sparse",
    "stats",
    "types",
]


_AWAITED: dict[str, Callable[[Any], None]] = {}


def once_loaded(library: str, then: Callable[[Any], None]) -> None:
    """Call ``then`` with a library when one of the names here loads it; at once where it is loaded."""
    if library in sys.modules:
        then(sys.modules[library])
    else:
        _AWAITED[library] = then


@functools.cache
def is_installed(library: str) -> bool:
    """Return whether a library can be imported."""
    try:
        import_module(library)
    except ModuleNotFoundError:
        return False
    return True


class _Library:
    """A module, imported when an attribute of it is first read."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        library = self.__name__.partition(".")[0]
        try:
            module = import_module(self.__name__)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != library:
                raise
            raise ModuleNotFoundError(
                f"this needs {library}, which streamsketch-reader does not install: install streamsketch instead"
            ) from None
        if library in _AWAITED:
            _AWAITED.pop(library)(sys.modules[library])
        value = getattr(module, attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import jinja2
    import numba
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pa_csv
    import pyarrow.json as pa_json
    import pyarrow.parquet as pq
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from scipy import integrate, linalg, optimize, sparse, stats
    from scipy import special as scipy_special
    from scipy.cluster import hierarchy
    from scipy.spatial import distance
else:
    numba, types, cgutils = _Library("numba"), _Library("numba.core.types"), _Library("numba.core.cgutils")
    ir, jinja2 = _Library("llvmlite.ir"), _Library("jinja2")
    pa, pc, pq = _Library("pyarrow"), _Library("pyarrow.compute"), _Library("pyarrow.parquet")
    pa_csv, pa_json = _Library("pyarrow.csv"), _Library("pyarrow.json")
    integrate, linalg, optimize, sparse, scipy_special, stats, hierarchy, distance = (
        _Library(f"scipy.{name}")
        for name in (
            *("integrate", "linalg", "optimize", "sparse", "special", "stats"),
            *("cluster.hierarchy", "spatial.distance"),
        )
    )
