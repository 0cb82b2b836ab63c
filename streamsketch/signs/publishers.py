"""The paper's differentially private sign mechanisms (Li and Li 2023, Section 4), on the exact cells.

A mechanism is a frozen description. `release` draws every flip exactly, from the operating system's CSPRNG, out of the
integer cells and rational rates alone; proofs on the lattice are in Theory 6. Where one unit may touch several keys
(``max_keys``), each key gets an equal share of ε and δ, so that the guarantee covers all of them together.
"""

import dataclasses
import functools
from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from streamsketch.accounting.sensitivity import check_carried, grid_steps, sensitivity_of
from streamsketch.core.numbers import Exact, Ints, exact_fraction, short
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget, least
from streamsketch.privacy.flip_sampler import flips
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import FlippedSigns, Mechanism
from streamsketch.privacy.neighbours import Neighbours, check_neighbours
from streamsketch.privacy.samplers import BitSource
from streamsketch.privacy.sign_flips import FlipLaw, rate_below
from streamsketch.projections.base import Projection
from streamsketch.projections.independent import GaussianProjection
from streamsketch.projections.oporp import OPORP
from streamsketch.release.agreed_publisher import PUBLISHERS
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.release.published_table import TABLES, PublishedTable
from streamsketch.release.publishers import Publisher
from streamsketch.release.ready import Calibrated, Stated
from streamsketch.signs.sign_changes import (
    binomial_count,
    cell_steps,
    chernoff_count,
    neighbourhood_change_bound,
    pair_change_bound,
)
from streamsketch.signs.sketch import Signs, SignSketch, pack_signs

_INT64_MAX = (1 << 63) - 1

Counting: TypeAlias = Literal["pairs", "paper"]

WITHIN_63_BITS = "no cell of a vector published by DP-SignRP-RR exceeds 63 bits"
"""A condition of `DPSignRPRR` that its first releases do not state."""

Made = TypeVar("Made", bound=Signs)

_WHY_ONE_COORDINATE = (
    "holds where a neighbour changes one coordinate, which meets one bin: each bin then has all of epsilon. Neighbours "
    "that change several coordinates change several bins, and would learn epsilon from each"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignPublisher(Publisher[Made]):
    """The budget and the neighbour relation that signs are published with; its classes describe both."""

    epsilon: float
    neighbours: Neighbours

    name: ClassVar[str]
    one_bin: ClassVar[bool] = False
    """Whether it holds only where a neighbour changes one bin: for `OneCoordinate`, of an `OPORP`."""
    by_sums: ClassVar[bool] = False
    """Whether it rests on the sum of what all cells move alone, and so holds for `SketchL2`, too."""

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        check_carried(self.neighbours)
        if self.neighbours.of_sketches and not self.by_sums:
            raise InvalidInputError(
                f"{self.name} rests on what a unit changes in the data, and {self.neighbours!r} bounds what it changes "
                f"in the exact sketch. Use DPSignLogistic, or noise on the cells"
            )
        if self.one_bin and not self.neighbours.one_coordinate:
            remedy = "DPSignLogistic is safe for L1" if self.neighbours.norm == "l1" else "use OneCoordinate(bound)"
            raise InvalidInputError(f"{self.name} {_WHY_ONE_COORDINATE}. Got {self.neighbours!r}; {remedy}")
        object.__setattr__(self, "epsilon", self._budget.warn_if_weak().epsilon)

    def check_bins(self, projection: Projection) -> None:
        """Raise `InvalidInputError` if a coordinate may be in several bins, and the mechanism needs it to be in one."""
        if self.one_bin and not isinstance(projection, OPORP):
            raise InvalidInputError(f"{self.name} {_WHY_ONE_COORDINATE}. Got {type(projection).__name__}; use OPORP")

    @property
    def _budget(self) -> Budget:
        return Budget(self.epsilon, self._spent_delta)

    @property
    def _spent_delta(self) -> float:
        return 0.0


class SignTable(PublishedTable[SignSketch]):
    """Published signs by key, as **one** release, whose guarantee covers all keys.

    `SignMechanism.release_table` makes one. The constructor makes one from single releases. It is an immutable mapping
    in ascending order of its keys. It holds only `SignSketch` objects, because individual guarantees do not combine.

    Parameters
    ----------
    releases
        The releases by key, at least one. Keys have one type: text, bytes, integers, dates or times.

    Raises
    ------
    TypeError
        If a value is not a `SignSketch`.
    IncompatibleProjectionsError, InvalidInputError
        As in `streamsketch.PrivateTable`.

    Examples
    --------
    >>> import streamsketch as ss
    >>> table = ss.projections.Rademacher(dim=1000, sketch_dim=256, seed=7).table()
    >>> table.update(["UA", "AA"], [3, 4], [500, -200])
    >>> mechanism = ss.signs.DPSignLogistic(epsilon=4.0, neighbours=ss.L1(1))
    >>> released = mechanism.release_table(table, keys_are_public=True)
    >>> list(released), released.guarantee.epsilon
    (['AA', 'UA'], 4.0)
    """

    row_type = SignSketch
    column = "signs"

    __slots__ = ()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the table as one release, which covers all keys together."""
        return self._first.guarantee


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignMechanism(SignPublisher[SignSketch]):
    """How signs are published with differential privacy: a budget, a neighbour relation and a subclass's flip law.

    Parameters
    ----------
    epsilon
        Privacy loss bound in nats, > 0.
    neighbours
        The change of the stream to hide: ``L1(bound)`` or ``OneCoordinate(bound)``; for `DPSignLogistic` also
        ``SketchL2(bound, max_keys=…)``.

    Raises
    ------
    InvalidInputError
        If ε is out of range, or the mechanism is not private for these neighbours.
    TypeError
        If ``neighbours`` is not a neighbour relation.
    """

    published = SignSketch
    keyed = SignTable

    @abstractmethod
    def law(self, projection: Projection) -> FlipLaw:
        """Return the flip law for sketches of a projection.

        Raises
        ------
        InvalidInputError
            If the mechanism is not private for the projection, or the share of ε per sign is below 2^-52.
        """

    def guarantee(self, projection: Projection) -> Guarantee:
        """Return what a release of a sketch of ``projection`` guarantees; errors as `law`."""
        mechanism = Mechanism((FlippedSigns(self.name, self.law(projection), self._least_norm),))
        return Guarantee.of(self._budget, self.neighbours, mechanism, self.conditions)

    def calibrated(self, projection: Projection) -> Calibrated[SignSketch]:
        """Return the flips for a projection's sketches. Raises the same errors as `law`, and if levels have no step."""
        law = self.law(projection)
        by_step = law.shape == "levels"  # others do not look at steps, which may take an enumeration
        steps = cell_steps(projection, self.neighbours) if by_step else np.ones(1, dtype=np.int64)
        return _CalibratedFlips(projection, self.guarantee(projection), law, steps)

    @property
    def _least_norm(self) -> Fraction | None:
        """The norm that every vector is asserted to have at least, where the guarantee rests on that."""
        return None

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of the guarantee that the library cannot check."""
        return ()

    @property
    def _key_epsilon(self) -> Fraction:
        """The share of ε for the signs of one key."""
        return least(self.epsilon) / self.neighbours.max_keys


@dataclasses.dataclass(frozen=True)
class _CalibratedFlips(Calibrated[SignSketch]):
    """Flips of the signs of one projection's cells, by the levels that ``steps`` count."""

    law: FlipLaw
    steps: Ints

    @property
    def holds_together(self) -> bool:
        """True of logistic flips: the loss of a cell is linear in how far it moves."""
        return self.law.shape == "linear"

    @property
    def row_bytes(self) -> int:
        """Of a bit for each cell, in whole words."""
        return 8 * -(-self.projection.sketch_dim // 64)

    def check_public_keys(self) -> None:
        """Raise `InvalidInputError` if the guarantee has conditions on every vector: a key without data breaks them."""
        by_norms = [step for step in self.guarantee.mechanism.flips if step.norm_bound is not None]
        if by_norms:
            raise InvalidInputError(
                f"{by_norms[0].method} has no guarantee for public keys without data, whose norm is 0: "
                f"{'; '.join(self.guarantee.conditions)}. Use another mechanism, or keys_are_public=True for keys that "
                "all have such data"
            )

    def _draw(self, exact: Ints, bits: BitSource, stated: Stated) -> list[SignSketch]:
        levels = self.law.levels(exact, self.steps)
        flipped = flips(levels.reshape(-1), self.law.rate, bits).reshape(exact.shape)
        positive = (exact > 0) ^ (flipped == 1)
        ids = stated.ids or ()  # of rows none, as they would be longer than the signs
        data_ids = ids.published() if isinstance(ids, DataIds) else ids
        return [
            SignSketch(
                self.projection,
                pack_signs(row),
                self.law,
                self.guarantee,
                release_id=bits.read(RELEASE_ID_BYTES),
                data_ids=data_ids,
                agreement=stated.agreement,
            )
            for row in positive
        ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPSignRPRR(SignMechanism):
    """DP-SignRP-RR: each sign of a Gaussian projection by randomised response (Li and Li 2023, Algorithm 3).

    (ε, δ)-differentially private over the draw of the seed, for ``L1`` or ``OneCoordinate`` neighbours **whose norms
    are both at least** ``norm_bound``. Every sign is kept with odds e^{ε/N}, where N bounds the number of signs in
    which two neighbours differ, except with probability δ. Choose the seed at random, before anyone looks at data: one
    bad seed fails for everyone who shares it. You assert the bound on the norm. It must be known without looking at the
    data and is not checked, because a refusal would reveal something about them. You also assert that no cell exceeds
    63 bits: beyond that its sign changes, and the angle between neighbours does not bound how many signs do. The other
    mechanisms need no such conditions.

    The paper's theorem is for independent continuous entries, so the projection's ``independence`` must be at least its
    ``dim``. N accounts for the lattice (Theory 6.2).

    Parameters
    ----------
    epsilon, neighbours
        As in `SignMechanism`.
    delta
        In (0, 1).
    norm_bound
        A public lower bound m on ‖x‖₂ of every vector in the domain, in data units, on the grid. It must be at least
        the neighbours' bound.
    counting
        ``"pairs"`` computes N from the angle between two neighbours, which is all that differential privacy requires.
        ``"paper"`` takes N₊ of Proposition 4.4, which is several times as large, or that of the pairs if it is larger.

    Raises
    ------
    InvalidInputError
        If a number is out of range. `law` raises it for projections other than `GaussianProjection`, and for one with
        less independence.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import GaussianProjection
    >>> projection = GaussianProjection(dim=64, sketch_dim=256, seed=1, independence=64)
    >>> by_pairs = DPSignRPRR(epsilon=8, delta=1e-6, neighbours=OneCoordinate(1), norm_bound=30)
    >>> by_pairs.count(projection), dataclasses.replace(by_pairs, counting="paper").count(projection)
    (19, 48)
    """

    delta: float
    norm_bound: Exact
    counting: Counting = "pairs"

    name = "DP-SignRP-RR"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta == 0:
            raise InvalidInputError("DP-SignRP-RR needs delta > 0, such as 1e-6; DPSignRPRRSmooth gives delta = 0")
        norm = exact_fraction(self.norm_bound, "norm_bound")
        if max(norm.numerator, norm.denominator) > _INT64_MAX:
            raise InvalidInputError(
                f"norm_bound must be a ratio of 63-bit integers, got {short(self.norm_bound)}: no sketch holds longer "
                f"vectors"
            )
        if norm < Fraction(self.neighbours.bound):
            raise InvalidInputError(
                f"norm_bound must be at least the neighbours' bound, got {norm} and {self.neighbours.bound}: a change "
                f"as large as the vector may turn every sign"
            )
        if self.counting not in get_args(Counting):
            raise InvalidInputError(f"counting must be 'pairs' or 'paper', got {short(self.counting)}")
        object.__setattr__(self, "delta", self._budget.delta)
        object.__setattr__(self, "norm_bound", norm)

    @property
    def _spent_delta(self) -> float:
        return self.delta

    @property
    def _least_norm(self) -> Fraction:
        return Fraction(self.norm_bound)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The norms, the size of the cells, and how the seed was drawn."""
        return (
            WITHIN_63_BITS,
            f"every vector published by {self.name} has a Euclidean norm of at least {self.norm_bound}",
            f"the seed of {self.name} was drawn at random, without a look at the data",
        )

    def count(self, projection: Projection) -> int:
        """Return N, the number of signs that differ at most, except with probability δ / max_keys."""
        if not isinstance(projection, GaussianProjection):
            raise InvalidInputError(
                f"DP-SignRP-RR is proven for a Gaussian projection, got {type(projection).__name__}: no other map has "
                f"a bound on the signs that change. DPSignRPRRSmooth and DPSignLogistic hold for every map"
            )
        if projection.independence < projection.dim:
            raise InvalidInputError(
                f"DP-SignRP-RR is proven for independent entries: set independence to at least dim, got "
                f"independence={projection.independence} and dim={projection.dim}"
            )
        farthest = grid_steps(projection, self.neighbours) * projection.grid
        ratio = farthest / Fraction(self.norm_bound)
        if ratio > 1:
            raise InvalidInputError(
                f"on a grid of {projection.grid} neighbours may differ by {farthest}, more than "
                f"norm_bound={self.norm_bound}; use a finer resolution"
            )
        delta = self.delta / self.neighbours.max_keys
        fine = (projection.fraction_bits, projection.max_entry)
        return _count(projection.sketch_dim, projection.dim, ratio, *fine, delta=delta, counting=self.counting)

    def law(self, projection: Projection) -> FlipLaw:
        """Return flips with odds e^{ε/N} against each, N from `count`; see `SignMechanism.law`."""
        return FlipLaw("constant", rate_below(self._key_epsilon / self.count(projection)))


@functools.lru_cache(maxsize=256)
def _count(  # of numbers alone, so that no projection is kept with its coefficients
    k: int, dim: int, ratio: Fraction, fraction_bits: int, max_entry: int, *, delta: float, counting: Counting
) -> int:
    pairs = binomial_count(k, pair_change_bound(dim, ratio, fraction_bits, max_entry), delta)
    if counting == "pairs":
        return pairs
    return max(pairs, chernoff_count(k, neighbourhood_change_bound(dim, float(ratio)), delta))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPSignRPRRSmooth(SignMechanism):
    """DP-SignRP-RR-smooth: signs far from zero are flipped less (Li and Li 2023, Algorithm 4 and Theorem 4.6).

    ε-differentially private for ``L1`` and ``OneCoordinate`` neighbours and every projection matrix. The sign of cell
    y_j is flipped with probability 1/(exp(L_j·ε/k) + 1), where L_j = ⌈|y_j| / (Δ̃ max_i|A_ji|)⌉. Paper and theory
    favour `Rademacher`.

    Parameters
    ----------
    epsilon, neighbours
        As in `SignMechanism`.

    Examples
    --------
    >>> from streamsketch import L1
    >>> from streamsketch.projections import Rademacher
    >>> print(DPSignRPRRSmooth(epsilon=8, neighbours=L1(1)).law(Rademacher(dim=9, sketch_dim=64, seed=1)))
    flips with 1/(exp(1/8·⌈|cell|/step⌉) + 1)
    """

    name = "DP-SignRP-RR-smooth"

    def law(self, projection: Projection) -> FlipLaw:
        """Return flips by level at rate ε/k; see `SignMechanism.law`."""
        return FlipLaw("levels", rate_below(self._key_epsilon / projection.sketch_dim))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPSignOPORPRR(SignMechanism):
    """DP-SignOPORP-RR: each bin's sign by randomised response with all of ε (Li and Li 2023, Algorithm 5).

    ε-differentially private **only** for ``OneCoordinate`` neighbours and an `OPORP`, where the one coordinate is in
    one bin. A bin that is empty, or sums to zero, publishes a fair coin flip.

    Parameters
    ----------
    epsilon
        As in `SignMechanism`.
    neighbours
        ``OneCoordinate(bound)``.

    Raises
    ------
    InvalidInputError
        For other neighbours. `law` raises it for projections other than `OPORP`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> print(DPSignOPORPRR(epsilon=2, neighbours=OneCoordinate(1)).law(OPORP(dim=99, sketch_dim=16, seed=1)))
    flips with 1/(exp(2) + 1)
    """

    name = "DP-SignOPORP-RR"
    one_bin = True

    def law(self, projection: Projection) -> FlipLaw:
        """Return flips with odds e^ε against each; see `SignMechanism.law`."""
        self.check_bins(projection)
        return FlipLaw("constant", rate_below(self._key_epsilon))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPSignOPORPRRSmooth(DPSignOPORPRR):
    """DP-SignOPORP-RR-smooth: each bin with all of ε; large sums are flipped less (Li and Li 2023, Algorithm 5).

    ε-differentially private **only** for ``OneCoordinate`` neighbours and an `OPORP`. The sign of bin y_j is flipped
    with probability 1/(exp(L_j·ε) + 1), where L_j = ⌈|y_j| / Δ̃⌉.

    Parameters
    ----------
    epsilon, neighbours
        As in `DPSignOPORPRR`.

    Raises
    ------
    InvalidInputError
        As in `DPSignOPORPRR`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> publish = DPSignOPORPRRSmooth(epsilon=2, neighbours=OneCoordinate(1))
    >>> release = publish.release(OPORP(dim=99, sketch_dim=16, seed=1).sketch())
    >>> release.guarantee.epsilon, release.guarantee.delta
    (2.0, 0.0)
    """

    name = "DP-SignOPORP-RR-smooth"

    def law(self, projection: Projection) -> FlipLaw:
        """Return flips by level at rate ε; see `SignMechanism.law`."""
        self.check_bins(projection)
        return FlipLaw("levels", rate_below(self._key_epsilon))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DPSignLogistic(SignMechanism):
    """Flips with log-odds proportional to the cell, which is private even if many cells move (Theory 6.4).

    ε-differentially private for ``L1``, ``SketchL2`` (with ``max_keys``) and ``OneCoordinate`` neighbours and every
    projection. The sign of cell y_j is flipped with probability 1/(exp(ε|y_j| / D1) + 1), where D1 is the exact ℓ1
    sensitivity of the sketches of all keys. So the log-odds of all signs together move by at most ε. The published sign
    is that of y_j plus logistic noise of scale D1/ε.

    Parameters
    ----------
    epsilon, neighbours
        As in `SignMechanism`.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> print(DPSignLogistic(epsilon=1, neighbours=L1(2)).law(SJLT(dim=99, sketch_dim=64, sparsity=4, seed=1)))
    flips with 1/(exp(1/8·|cell|) + 1)
    """

    name = "DP-Sign-logistic"
    by_sums = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours.any_keys:
            raise InvalidInputError(
                f"{self.name} hides what a unit changes in all cells, summed up, and {self.neighbours!r} lets it "
                "change the cells of any number of keys; pass max_keys, the number of keys that a unit may be in"
            )

    def law(self, projection: Projection) -> FlipLaw:
        """Return flips with log-odds ε|y| / D1; see `SignMechanism.law`."""
        # over all keys: a unit's D1 there is that of one key times max_keys
        return FlipLaw("linear", rate_below(least(self.epsilon) / sensitivity_of(projection, self.neighbours).l1))


# DPSignRPRR needs a bound on norms, which no agreement has
for _mechanism in (DPSignRPRRSmooth, DPSignOPORPRR, DPSignOPORPRRSmooth, DPSignLogistic):
    PUBLISHERS.enter(_mechanism.name, _mechanism)

TABLES.enter(SignTable.column, SignTable)
