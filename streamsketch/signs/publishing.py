"""What every mechanism that publishes signs has: a budget and a neighbour relation that it holds for."""

import dataclasses
from typing import ClassVar, TypeVar

from streamsketch.accounting import check_carried, check_neighbours
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import L1, Budget, Neighbours, OneCoordinate
from streamsketch.projections import OPORP, Projection
from streamsketch.release import Publisher
from streamsketch.signs.sketch import Signs

Published = TypeVar("Published", bound=Signs)

_WHY_ONE_COORDINATE = (
    "holds where a neighbour changes one coordinate, which meets one bin: each bin then has all of epsilon. Neighbours "
    "that change several coordinates change several bins, and would learn epsilon from each"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignPublisher(Publisher[Published]):
    """How signs are published; its classes say under which guarantee.

    Parameters
    ----------
    epsilon
        Privacy loss bound in nats, > 0.
    neighbours
        Which change of the stream must stay hidden: ``L1(bound)`` or ``OneCoordinate(bound)``.

    Raises
    ------
    InvalidInputError
        For ε out of range, or a relation the mechanism does not hold for.
    TypeError
        If ``neighbours`` is no relation.
    """

    epsilon: float
    neighbours: Neighbours

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        check_carried(self.neighbours)
        object.__setattr__(self, "epsilon", self._budget.warn_if_weak().epsilon)

    @property
    def _budget(self) -> Budget:
        return Budget(self.epsilon, self._spent_delta)

    @property
    def _spent_delta(self) -> float:
        return 0.0


def require_one_coordinate(name: str, neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` unless neighbours differ in one coordinate."""
    if not isinstance(neighbours, OneCoordinate):
        remedy = "DPSignLogistic is safe for L1" if isinstance(neighbours, L1) else "use OneCoordinate(bound)"
        raise InvalidInputError(f"{name} {_WHY_ONE_COORDINATE}. Got {neighbours!r}; {remedy}")


def require_oporp(name: str, projection: Projection) -> None:
    """Raise `InvalidInputError` unless each coordinate meets one bin."""
    if not isinstance(projection, OPORP):
        raise InvalidInputError(f"{name} {_WHY_ONE_COORDINATE}. Got {type(projection).__name__}; use OPORP")
