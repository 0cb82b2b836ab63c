"""Public names that load when they are first used, and stay."""

import sys
from collections.abc import Callable
from typing import Any

import lazy_loader


def attach(name: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, by the stub beside its ``__init__``.

    `lazy_loader.attach_stub` imports the module again at every use of a name, which takes microseconds.
    """
    load, names, public = lazy_loader.attach_stub(name, file)

    def get(attribute: str) -> Any:
        value = load(attribute)
        setattr(sys.modules[name], attribute, value)
        return value

    return get, names, public
