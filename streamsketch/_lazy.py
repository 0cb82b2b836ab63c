"""Public names that load when they are first used, and stay."""

import ast
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import lazy_loader


def attach(name: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, by the stub beside its ``__init__``.

    The stub is read by the package's own loader, so that it may lie in a zip file. `lazy_loader.attach` imports the
    module again at every use of a name, which takes microseconds.
    """
    package = sys.modules[name]
    loader: Any = package.__loader__
    stub = ast.parse(loader.get_data(f"{file.rpartition('.')[0]}.pyi"))
    submodules: set[str] = set()
    names: dict[str, list[str]] = defaultdict(list)
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            attributes = [alias.name for alias in node.names]
            if node.module:
                names[node.module] += attributes
            else:
                submodules.update(attributes)
    load, public, listed = lazy_loader.attach(name, submodules, names)

    def get(attribute: str) -> Any:
        value = load(attribute)
        setattr(package, attribute, value)
        return value

    return get, public, listed
