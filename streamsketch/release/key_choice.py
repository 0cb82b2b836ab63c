"""Which keys of a bounded table are published, if they are chosen privately by the number of their units."""

import dataclasses
from typing import Any, Self

from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.key_selection import KeyThreshold, key_threshold
from streamsketch.privacy.mechanism import KeySelection, Mechanism
from streamsketch.privacy.samplers import BitSource, SystemBits
from streamsketch.sketching.table import SketchTable


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class KeyChoice:
    """A private choice of keys, before it is drawn. **Secret**: it holds exact counts.

    The choice is (ε, δ)-differentially private for one unit in as many keys as it was bounded to (Korolova et al. 2009;
    `privacy.key_threshold`). A key without a unit is never chosen.

    Parameters
    ----------
    keys
        The keys of the table, ascending.
    units
        The number of units in each: int64, (n,).
    threshold
        What decides.
    guarantee
        Of the choice alone; it is composed with that of the noise.
    """

    keys: list[TableKey]
    units: Ints
    threshold: KeyThreshold
    guarantee: Guarantee

    @classmethod
    def of(cls, table: SketchTable, budget: Budget) -> Self:
        """Return the choice among the keys of a table.

        Raises
        ------
        InvalidInputError
            If units were not counted, or may be in any number of keys.
        """
        counts, neighbours = table.counts, table.bounds.neighbours
        if counts is None or neighbours is None:
            raise InvalidInputError(
                "keys are chosen by the number of their units, which is known of tables that streamsketch.bound makes "
                "for L1 or SketchL2; list the keys instead"
            )
        threshold = key_threshold(budget, max(neighbours.max_keys, table.bounds.together))
        mechanism = Mechanism((KeySelection(budget),))
        guarantee = Guarantee.of(budget, neighbours, mechanism, table.bounds.conditions, basis="enforced")
        return cls(list(table), counts[:, 0], threshold, guarantee)

    def draw(self, bits: BitSource | None = None) -> list[Any]:
        """Return the chosen keys, ascending; ``bits`` are secret and uniform, by default the operating system's."""
        source = bits or SystemBits()
        counted = zip(self.keys, self.units.tolist(), strict=True)
        return [key for key, units in counted if self.threshold.keeps(units, source) and units > 0]

    def __repr__(self) -> str:
        return f"<KeyChoice, secret, {self.guarantee}>"
