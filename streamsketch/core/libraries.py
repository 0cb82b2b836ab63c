"""Large libraries that load when something of them is first used.

Reading, checking and estimating use none of them, so that commands answer at once, and the reader installs without
them. In annotations their names are quoted; otherwise a definition would load them.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
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
    "load_for_commands",
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


# What a library imports, if it is installed, to serve callers that commands are not: whose arrays are pandas', whose
# kernels multiply matrices or call C, or who measure what tests cover. They take longer than a small file's rows.
_FOR_OTHERS = {"pyarrow": ("pandas",), "numba": ("cffi", "coverage", "scipy.linalg")}
_SHORTENED: set[str] = set()


def load_for_commands() -> None:
    """Let Arrow and Numba load without libraries that no command uses, where neither has loaded them yet.

    This holds for the whole process, so it is for processes of commands alone: Arrow then takes a pandas object for a
    plain sequence, and Numba compiles no product of matrices and no call by cffi. Those libraries themselves can be
    imported as ever.
    """
    _SHORTENED.update(_FOR_OTHERS)
    if "pyarrow" in sys.modules:
        _load("pyarrow")


def _load(name: str) -> Any:
    library = name.partition(".")[0]
    if library not in _SHORTENED:
        return import_module(name)
    _SHORTENED.remove(library)
    with _hidden(_FOR_OTHERS[library]):
        module = import_module(name)
        if library == "pyarrow":
            sys.modules[library].array([])  # looks for pandas once
        else:
            target = import_module("numba.core.registry").cpu_target
            target.typing_context.refresh()  # which any first kernel does: it looks for BLAS and cffi once
            target.target_context.refresh()
    return module


class _Hidden:
    """A finder of modules that finds none, and says of some that there are none."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextlib.contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Within the context, let modules that are not loaded be as if they were not installed."""
    finder = _Hidden(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


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
            module = _load(self.__name__)
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
