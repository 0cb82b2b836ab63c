"""What a table guarantees, as one release."""

import dataclasses
from typing import Any

from streamsketch.core import filled, printable
from streamsketch.explanation.facts import Explained
from streamsketch.explanation.registry import registry_entry
from streamsketch.privacy import Guarantee
from streamsketch.projections import Projection
from streamsketch.release import NoiseCheck, PublishedTable, Verdict

ONE_RELEASE = (
    "A table counts as one release: the guarantee of each key covers all of its keys, as long as no unit is in more "
    "keys than the guarantee allows (one, if it gives no number). A unit in more keys spends ε in each."
)
_WORST_FIRST: tuple[Verdict, ...] = ("too little", "not checked", "enough")
_NAMED_KEYS = 5


@dataclasses.dataclass(frozen=True)
class TableExplanation:
    """What a `PrivateTable` or `SignTable` guarantees as one release, with the explanation of each key.

    Parameters
    ----------
    guarantee, projection
        Of the table.
    groups
        The distinct explanations of its rows, each with its keys: one if all rows were made in the same way.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> table = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).table()
    >>> released = table.release(epsilon=1.0, neighbours=L1(1, max_keys=2), public_keys=["AA", "UA"])
    >>> told = released.explain()
    >>> told.check.verdict, len(told.groups)
    ('enough', 1)
    >>> print(str(told).splitlines()[0])
    2 keys (AA, UA)
    """

    guarantee: Guarantee
    projection: Projection
    groups: tuple[tuple[Explained, tuple[Any, ...]], ...]

    @property
    def check(self) -> NoiseCheck:
        """The worst check of all keys."""
        checks = [one.check for one, _ in self.groups]
        worst = min(checks, key=lambda check: _WORST_FIRST.index(check.verdict))
        sigmas = [check.sigma for check in checks if check.sigma is not None]
        return dataclasses.replace(worst, sigma=min(sigmas) if len(sigmas) == len(checks) else None)

    @property
    def told(self) -> list[Explained]:
        """The distinct explanations of its rows."""
        return [one for one, _ in self.groups]

    def to_registry(self) -> dict[str, Any]:
        """Return an entry for a public registry of deployments; see `explain`."""
        return registry_entry(self.guarantee, self.told, ONE_RELEASE)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON-serialisable objects."""
        return {"groups": [{"keys": list(map(str, keys))} | one.to_dict() for one, keys in self.groups]}

    def __str__(self) -> str:
        told = [f"{heading_of(keys)}\n\n{one}" for one, keys in self.groups]
        return "\n\n".join([*told, filled(ONE_RELEASE)])


def explain_table(table: PublishedTable[Any]) -> TableExplanation:
    """Return what a table guarantees."""
    groups: dict[Explained, list[Any]] = {}
    for key, release in table.items():
        groups.setdefault(release.explain(), []).append(key)
    alike = tuple((one, tuple(keys)) for one, keys in groups.items())
    return TableExplanation(table.guarantee, table.projection, alike)


def heading_of(keys: tuple[Any, ...]) -> str:
    """Return the number of keys and the first of them, escaped to one line."""
    named = ", ".join(printable(key) for key in keys[:_NAMED_KEYS]) + (", …" if len(keys) > _NAMED_KEYS else "")
    return f"{len(keys)} {'keys' if len(keys) > 1 else 'key'} ({named})"
