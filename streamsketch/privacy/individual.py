"""What individual differential privacy guarantees: less than differential privacy, so it has a separate type."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Basis
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import Mechanism
from streamsketch.privacy.neighbours import Neighbours


@dataclasses.dataclass(frozen=True)
class IndividualGuarantee:
    """(ε, δ)-**individual** differential privacy of one data set, which is **not** differential privacy.

    The guarantee is for the data set at hand and each of its neighbours, with the mechanism calibrated to that data set
    (Li and Li 2023, Definition A.1; Soria-Comas et al. 2017): which signs were perturbed depends on the data, and so
    may reveal them. It does not compose with anything, so `streamsketch.compose` refuses it (Theory 6.5).

    Parameters
    ----------
    epsilon
        Privacy loss bound between the data set and a neighbour, in nats.
    delta
        Probability with which the bound may fail.
    neighbours
        The relation.
    mechanism
        The name of the method.
    basis
        As of a `Guarantee`. No clipping enforces the relations that these methods are for, so ``"asserted"`` or None.

    Raises
    ------
    InvalidInputError
        For numbers out of range, neighbours with ``max_keys`` other than 1, and `SketchL2`.
    TypeError
        If ``neighbours`` is not a neighbour relation.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> print(IndividualGuarantee(1.0, 0.0, OneCoordinate(1), "iDP-SignRP-RR"))
    individual differential privacy only (not differential privacy): ε = 1, δ = 0 for one event of at most 1 \
(one coordinate), by iDP-SignRP-RR
    """

    epsilon: float
    delta: float
    neighbours: Neighbours
    mechanism: str
    basis: Basis | None = None

    conditions: ClassVar[tuple[str, ...]] = ()
    """Always none; those of a `Guarantee` may be some."""

    def __post_init__(self) -> None:
        checked = self._as_guarantee  # the same ranges
        if self.neighbours.max_keys != 1:
            raise InvalidInputError(
                f"individual differential privacy does not compose, so one unit may touch one key only, got "
                f"max_keys={self.neighbours.max_keys}. Use a mechanism of differential privacy"
            )
        if self.neighbours.of_sketches:
            raise InvalidInputError(
                f"individual differential privacy rests on which cells a unit's data could turn, and "
                f"{self.neighbours!r} bounds nothing before the map: use L1(bound) or OneCoordinate(bound)"
            )
        object.__setattr__(self, "epsilon", checked.epsilon)
        object.__setattr__(self, "delta", checked.delta)

    @property
    def budget(self) -> Budget:
        """ε and δ together."""
        return Budget(self.epsilon, self.delta)

    @property
    def _as_guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, self.neighbours, Mechanism.stated(self.mechanism), basis=self.basis)

    def on(self, basis: Basis, _: Sequence[str] = ()) -> "IndividualGuarantee":
        """Return the guarantee of data of which the bound is asserted."""
        return dataclasses.replace(self, basis=basis)

    def to_dict(self) -> Json:
        """Return the guarantee as what JSON can hold; the fields of `Guarantee.to_dict`."""
        return self._as_guarantee.to_dict()

    def __str__(self) -> str:
        return sentences.INDIVIDUAL_GUARANTEE.format(guarantee=self._as_guarantee)
