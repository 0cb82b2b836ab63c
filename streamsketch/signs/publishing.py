"""What every mechanism that publishes signs has: a budget, a neighbour relation, and the ways to a release."""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from streamsketch.core import Ints
from streamsketch.data import matrix_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import L1, BitSource, Neighbours, OneCoordinate, SystemBits, check_budget
from streamsketch.projections import OPORP, Projection, transform_read
from streamsketch.release import check_carried, check_whole_steps
from streamsketch.signs.sketch import Signs
from streamsketch.sketching import Sketch

Published = TypeVar("Published", bound=Signs)

_WHY_ONE_COORDINATE = (
    "holds where a neighbour changes one coordinate, which meets one bin: each bin then has all of epsilon. Neighbours "
    "that change several coordinates change several bins, and would learn epsilon from each"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignPublisher(ABC, Generic[Published]):
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
        if not isinstance(self.neighbours, Neighbours):
            raise TypeError(
                f"neighbours must be streamsketch.L1(bound) or OneCoordinate(bound), got a "
                f"{type(self.neighbours).__name__}"
            )
        check_carried(self.neighbours)
        object.__setattr__(self, "epsilon", check_budget(self.epsilon, self._spent_delta)[0])

    @abstractmethod
    def check(self, projection: Projection) -> None:
        """Raise `InvalidInputError` for a projection the mechanism does not hold for, or cannot draw for.

        Whatever passes is released, so that no refusal tells of the data.
        """

    def release(self, sketch: Sketch) -> Published:
        """Return the sketch's signs, perturbed by bits of the operating system's CSPRNG, with the class's guarantee.

        Raises
        ------
        TypeError
            If it is no `Sketch`.
        InvalidInputError
            As `check`; never for what the sketch holds.
        """
        return self.release_with(sketch, SystemBits())

    def release_with(self, sketch: Sketch, bits: BitSource) -> Published:
        """As `release`, with bits of the caller's: they must be secret and uniform."""
        if not isinstance(sketch, Sketch):
            raise TypeError(f"only the signs of a Sketch can be released, got a {type(sketch).__name__}")
        self.check(sketch.projection)
        (released,) = self._draw(sketch.projection, sketch.state.reshape(1, -1), bits)
        return released

    def release_rows(self, projection: Projection, matrix: Any) -> list[Published]:
        """Return the signs of each row of a matrix, one release a row; a row is one person's vector.

        Parameters
        ----------
        projection
            The public map.
        matrix
            (n, dim), as `Projection.transform` takes it. For `L1` neighbours integers, on a resolution of 1 or 1/n.

        Raises
        ------
        InvalidInputError
            As `check` and `Projection.transform`; for fractions under `L1`. Never for sums.
        """
        given = matrix_of(matrix, exact=True)
        check_whole_steps(projection, self.neighbours, given.dtype)
        self.check(projection)
        return self._draw(projection, transform_read(projection, given, exact=True), SystemBits())

    @property
    def _spent_delta(self) -> float:
        return 0.0

    @abstractmethod
    def _draw(self, projection: Projection, cells: Ints, bits: BitSource) -> list[Published]:
        """Return a release for each row of cells, (n, k), of a projection that was checked."""


def require_one_coordinate(name: str, neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` unless neighbours differ in one coordinate."""
    if not isinstance(neighbours, OneCoordinate):
        remedy = "DPSignLogistic is safe for L1" if isinstance(neighbours, L1) else "use OneCoordinate(bound)"
        raise InvalidInputError(f"{name} {_WHY_ONE_COORDINATE}. Got {neighbours}; {remedy}")


def require_oporp(name: str, projection: Projection) -> None:
    """Raise `InvalidInputError` unless each coordinate meets one bin."""
    if not isinstance(projection, OPORP):
        raise InvalidInputError(f"{name} {_WHY_ONE_COORDINATE}. Got {type(projection).__name__}; use OPORP")
