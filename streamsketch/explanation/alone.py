"""What one release guarantees, and a table as one release."""

import dataclasses
from typing import Any

from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.text import filled
from streamsketch.errors import printable
from streamsketch.explanation.base import EXPLANATIONS, BaseExplanation
from streamsketch.explanation.registry import registry_entry
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import Projection
from streamsketch.release.checking.noise import NoiseCheck, Verdict
from streamsketch.release.published import Published
from streamsketch.release.published_table import PublishedTable

INDIVIDUAL = "individual differential privacy is not differential privacy and does not compose"
"""Why what has such a guarantee is explained alone."""
_ONE_RELEASE = "A table counts as one release: the guarantee of one key holds for all of its keys together, "
_NAMED_KEYS = 5
_WORST_FIRST: tuple[Verdict, ...] = ("too little", "not checked", "enough")


def explain_alone(release: Published) -> Any:
    """Return the explanation of one release, or of a table as one release."""
    if isinstance(release, PublishedTable):
        return explain_table(release)
    explain_it = EXPLANATIONS.get(type(release).magic, f"a {type(release).__name__} is to be explained")
    if explain_it is None:
        raise TypeError(f"no explanation of a {type(release).__name__} is known: enter one in EXPLANATIONS")
    return explain_it(release)


@dataclasses.dataclass(frozen=True)
class TableExplanation(ShownAsText):
    """The explanation of a `PrivateTable` or `SignTable` as one release, and of each of its keys.

    Parameters
    ----------
    guarantee, projection
        Of the table.
    groups
        The distinct explanations of the rows, each with its keys. There is one if all rows were made in the same way.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> table = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).table()
    >>> released = table.release(epsilon=1.0, neighbours=L1(1, max_keys=2), public_keys=["AA", "UA"])
    >>> explanation = released.explain()
    >>> explanation.check.verdict, len(explanation.groups)
    ('enough', 1)
    >>> print(str(explanation).splitlines()[0])
    2 keys (AA, UA)
    """

    guarantee: Guarantee
    projection: Projection
    groups: tuple[tuple[BaseExplanation, tuple[Any, ...]], ...]

    @property
    def check(self) -> NoiseCheck:
        """The worst check of all keys."""
        checks = [explanation.check for explanation, _ in self.groups]
        worst = min(checks, key=lambda check: _WORST_FIRST.index(check.verdict))
        sigmas = [check.sigma for check in checks if check.sigma is not None]
        return dataclasses.replace(worst, sigma=min(sigmas) if len(sigmas) == len(checks) else None)

    @property
    def explanations(self) -> list[BaseExplanation]:
        """The distinct explanations of its rows."""
        return [explanation for explanation, _ in self.groups]

    def to_registry(self) -> Json:
        """Return an entry for a public registry of deployments; see `explain`."""
        return registry_entry(self.guarantee, self.explanations, one_release(self.guarantee.neighbours))

    def to_dict(self) -> Json:
        """Return the explanation as JSON-serialisable objects."""
        return {"groups": [{"keys": list(map(str, keys))} | explanation.to_dict() for explanation, keys in self.groups]}

    def __str__(self) -> str:
        rows = [f"{heading_of(keys)}\n\n{explanation}" for explanation, keys in self.groups]
        return "\n\n".join([*rows, filled(one_release(self.guarantee.neighbours))])


def one_release(neighbours: Neighbours) -> str:
    """Return in how many keys of a table one unit may be for its guarantee to hold."""
    if neighbours.any_keys:
        return f"{_ONE_RELEASE}however many of them a unit is in."
    if neighbours.of_sketches:
        return f"{_ONE_RELEASE}as long as no unit is in more keys than the guarantee allows."
    return (
        f"{_ONE_RELEASE}as long as no unit is in more keys than the guarantee allows (one, if it gives no number). A "
        f"unit in more keys spends ε in each."
    )


def explain_table(table: PublishedTable[Any]) -> TableExplanation:
    """Return what a table guarantees."""
    groups: dict[BaseExplanation, list[Any]] = {}
    for key, release in table.items():
        groups.setdefault(release.explain(), []).append(key)
    alike = tuple((explanation, tuple(keys)) for explanation, keys in groups.items())
    return TableExplanation(table.guarantee, table.projection, alike)


def heading_of(keys: tuple[Any, ...]) -> str:
    """Return the number of keys and the first of them, escaped to one line."""
    named = ", ".join(printable(key) for key in keys[:_NAMED_KEYS]) + (", …" if len(keys) > _NAMED_KEYS else "")
    return f"{len(keys)} {'keys' if len(keys) > 1 else 'key'} ({named})"
