"""What products add to the core, by name: a table of modules, and registries that import them when they are asked.

The core imports no product, engine or folder for people. Where it meets what only a product has (bytes that hold
signs, an agreement with features, a schedule of windows), it asks a `Registry` for a name. Products enter what they
have when they are imported; `PARTS` says which module enters a name, so that nothing is imported before it is used.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Generic, TypeVar

from streamsketch.errors import MissingProductError

T = TypeVar("T")

PARTS: dict[str, dict[Any, str]] = {
    "codec": {
        b"\x89SSK\r\n\x1a\n": "wire.releases",
        b"PAR1": "wire.tables",
        b"\x89SSG\r\n\x1a\n": "wire.signs",
        b"\x89SSI\r\n\x1a\n": "wire.signs",
        b"\x89SSR\r\n\x1a\n": "wire.local_reports",
        b"\x89SSM\r\n\x1a\n": "wire.local_reports",
    },
    "table": {"sketch": "release.private_table", "signs": "signs.publishers"},
    "other file": {"raw sketch": "storage.first_bytes", "index of signs": "signs.index_file"},
    "explanation": {
        b"\x89SSK\r\n\x1a\n": "explanation.release",
        b"\x89SSG\r\n\x1a\n": "explanation.signs",
        b"\x89SSI\r\n\x1a\n": "explanation.signs",
    },
    "mechanism": {
        # DP-SignRP-RR needs a bound on norms, which no agreement has
        "DP-Sign-logistic": "signs.publishers",
        "DP-SignOPORP-RR": "signs.publishers",
        "DP-SignOPORP-RR-smooth": "signs.publishers",
        "DP-SignRP-RR-smooth": "signs.publishers",
    },
    "schedule": {
        "separate": "schedules.separate",
        "tree": "schedules.tree",
        "factorisation": "schedules.factorisation",
    },
    "service": {
        "agreed features": "features.features",
        "agreed publishers": "release.agreed_publisher",
        "planned sizes": "planning.agreed_sizes",
        "rows of a schedule": "schedules.releaser",
        "rows of signs": "wire.sign_tables",
        "signatures": "parties.signing",
    },
}
"""The module, below the package, that enters each name, by registry."""

HELD = {
    b"\x89SSG\r\n\x1a\n": "published signs",
    b"\x89SSI\r\n\x1a\n": "individually private signs",
    b"\x89SSR\r\n\x1a\n": "a local report",
    b"\x89SSM\r\n\x1a\n": "a sum of local reports",
}
"""What the bytes of products hold, for errors where these are not installed."""


class Registry(Generic[T]):
    """Things of one kind by name. Those of a product are there once it is imported, which asking for one does.

    Parameters
    ----------
    kind
        Its name in `PARTS`.

    Examples
    --------
    >>> from streamsketch.privacy.schedule import SCHEDULES
    >>> SCHEDULES.get("tree", "this is a schedule")
    <class 'streamsketch.schedules.tree.Tree'>
    >>> SCHEDULES.get("another", "this is a schedule") is None
    True
    """

    def __init__(self, kind: str) -> None:
        self._modules = PARTS[kind]
        self._entered: dict[Any, T] = {}

    def enter(self, name: object, thing: T) -> T:
        """Enter a thing under its name, and return it."""
        self._entered[name] = thing
        return thing

    def get(self, name: Any, what: str) -> T | None:
        """Return the thing of a name; None for a name that no product has.

        Parameters
        ----------
        name
            As it was entered.
        what
            What asks for it, for the error: ``"these bytes hold published signs"``.

        Raises
        ------
        MissingProductError
            If the product that has it is not installed.
        """
        if name not in self._entered and name in self._modules:
            _import(self._modules[name], what)
        return self._entered.get(name)

    def need(self, name: str, what: str) -> T:
        """Return the thing of a name that is in `PARTS`; errors as `get`."""
        thing = self.get(name, what)
        if thing is None:
            raise LookupError(f"no module enters {name!r}; add it to PARTS")
        return thing

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the names, those of products that were not imported included."""
        return iter(dict.fromkeys([*self._modules, *self._entered]))

    def installed(self) -> Iterator[T]:
        """Iterate over the things of all products that are installed."""
        for name in self:
            try:
                yield self.need(name, name)
            except MissingProductError:
                continue


def _import(module: str, what: str) -> None:
    """Import a module of the package; raise `MissingProductError` if it, or a part of the package, is not there."""
    try:
        import_module(f"streamsketch.{module}")
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.partition(".")[0] != "streamsketch":
            raise
        raise MissingProductError(f"{what}, and {name} is not installed: install all of streamsketch") from None


SERVICES: Registry[Any] = Registry("service")
"""Single functions and classes of products: what reads agreed features, publishes rows, verifies signatures."""
