"""The paper's **individual** differential privacy for signs (Li and Li 2023, Appendix A): **not** differential privacy.

Only cells that some neighbour of the data at hand could bring to zero or across it are perturbed: those with |y_j| at
most Δ̃·max_i|A_ji|. Which these are depends on the data. The guarantee holds for the mechanism calibrated to the data at
hand and then thought to run on a neighbour; a mechanism that calibrates itself anew on the neighbour breaks it, as some
of its signs are then never perturbed, although the paper's Definition A.1 reads that way (Theory 6.5).
"""

import dataclasses
from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget, least
from streamsketch.privacy.flip_sampler import flips
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.samplers import BitSource
from streamsketch.privacy.sign_flips import rate_below, sign_margin
from streamsketch.projections.base import Projection
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.release.ready import Calibrated, Stated
from streamsketch.signs.publishers import SignPublisher
from streamsketch.signs.sign_changes import cell_steps
from streamsketch.signs.sketch import IndividualSignSketch, Method, pack_signs


@dataclasses.dataclass(frozen=True, kw_only=True)
class IndividualSignMechanism(SignPublisher[IndividualSignSketch]):
    """How signs are published under individual differential privacy, which is **not** differential privacy.

    Parameters
    ----------
    epsilon
        Privacy loss bound between the data at hand and a neighbour, in nats, > 0.
    neighbours
        ``L1(bound)`` or ``OneCoordinate(bound)``, with ``max_keys`` 1: individual guarantees do not add up.

    Raises
    ------
    InvalidInputError
        For ε out of range, more keys than one, or a relation the mechanism does not hold for.
    TypeError
        If ``neighbours`` is not a relation.
    """

    name: ClassVar[Method]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._stated()

    def calibrated(self, projection: Projection) -> Calibrated[IndividualSignSketch]:
        """Return the mechanism for a projection's sketches; what it adapts to the data, it adapts when it draws.

        Raises
        ------
        InvalidInputError
            For another projection than `OPORP` where the mechanism is for one.
        """
        self.check_bins(projection)
        return _CalibratedSigns(projection, self._stated(), self, cell_steps(projection, self.neighbours))

    @abstractmethod
    def positive(self, cells: Ints, steps: Ints, near_zero: NDArray[np.bool_], bits: BitSource) -> NDArray[np.bool_]:
        """Return which signs are published as +, (k,); the cells ``near_zero`` are perturbed.

        ``near_zero`` is the calibration: that of the data at hand, whatever the cells.
        """

    def _stated(self) -> IndividualGuarantee:
        return IndividualGuarantee(self.epsilon, self._spent_delta, self.neighbours, self.name)


@dataclasses.dataclass(frozen=True)
class _CalibratedSigns(Calibrated[IndividualSignSketch]):
    """A mechanism for the sketches of one projection, whose cells neighbours move by at most ``steps``."""

    mechanism: IndividualSignMechanism
    steps: Ints

    @property
    def row_bytes(self) -> int:
        """Of a bit for each cell, in whole words."""
        return 8 * -(-self.projection.sketch_dim // 64)

    def _draw(self, exact: Ints, bits: BitSource, stated: Stated) -> list[IndividualSignSketch]:
        released = []  # without ids: individual guarantees do not add up, whatever the data
        for row in exact:
            packed = pack_signs(self.mechanism.positive(row, self.steps, find_near_zero(row, self.steps), bits))
            identity = bits.read(RELEASE_ID_BYTES)
            released.append(
                IndividualSignSketch(
                    self.projection,
                    packed,
                    self.mechanism.name,
                    self.guarantee,
                    release_id=identity,
                    agreement=stated.agreement,
                )
            )
        return released


def find_near_zero(cells: Ints, steps: Ints) -> NDArray[np.bool_]:
    """Return which cells a neighbour could bring to another sign: margin (`sign_margin`) at most Δ̃·max_i|A_ji|."""
    return sign_margin(cells) <= steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class IDPSignRPG(IndividualSignMechanism):
    """iDP-SignRP-G: Gaussian noise where a neighbour could turn the sign (Li and Li 2023, Algorithm 6, Theorem A.1).

    (ε, δ)-**individual** differential privacy, **not** differential privacy. The noise is the exact discrete Gaussian,
    for the squared ℓ2 distance Δ̃²·Σ max_i|A_ji|² over the perturbed cells; Δ̃²N for ±1 maps, best `Rademacher`. A sum
    of exactly zero publishes a fair coin.

    Parameters
    ----------
    epsilon, neighbours
        As in `IndividualSignMechanism`.
    delta
        In (0, 1).

    Raises
    ------
    InvalidInputError
        As in `IndividualSignMechanism`, and for δ = 0.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import Rademacher
    >>> x = Rademacher(dim=100, sketch_dim=64, seed=1).sketch()
    >>> x.update(range(100), 1)
    >>> IDPSignRPG(epsilon=1, delta=1e-6, neighbours=OneCoordinate(1, unit="pixel")).release(x).guarantee.delta
    1e-06
    """

    delta: float

    name: ClassVar[Method] = "iDP-SignRP-G"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta == 0:
            raise InvalidInputError(
                "Gaussian noise never gives delta = 0: set delta (such as 1e-6), or use IDPSignRPRR"
            )
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def _spent_delta(self) -> float:
        return self.delta

    def calibrated(self, projection: Projection) -> Calibrated[IndividualSignSketch]:
        """Raise `InvalidInputError` if the noise would be too wide to sample with every cell near zero.

        All cells of a zero vector are. Fewer take less, so whether the data have them decides no refusal.
        """
        self.check_bins(projection)
        self.noise(cell_steps(projection, self.neighbours))
        return super().calibrated(projection)

    def positive(self, cells: Ints, steps: Ints, near_zero: NDArray[np.bool_], bits: BitSource) -> NDArray[np.bool_]:
        """Return sign(y + noise) for the cells near zero, sign(y) for the others."""
        noisy, places = cells.copy(), np.flatnonzero(near_zero)
        if places.size:
            noisy[places] += self.noise(steps[places]).sample(places.size, bits)
        return _with_coins(noisy, bits)

    def noise(self, steps: Ints) -> DiscreteGaussian:
        """Return the noise for cells near zero that a neighbour moves by at most ``steps`` each."""
        return noise_near_zero(sum(step * step for step in steps.tolist()), steps.size, self._budget)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IDPSignRPRR(IndividualSignMechanism):
    """iDP-SignRP-RR: flips where a neighbour could turn the sign (Li and Li 2023, Algorithm 8).

    ε-**individual** differential privacy, **not** differential privacy: of N cells near zero each is flipped with
    probability 1/(exp(ε/N) + 1).

    Parameters
    ----------
    epsilon, neighbours
        As in `IndividualSignMechanism`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import Rademacher
    >>> x = Rademacher(dim=100, sketch_dim=64, seed=1).sketch()
    >>> x.update(range(100), 1)
    >>> print(IDPSignRPRR(epsilon=1, neighbours=OneCoordinate(1, unit="pixel")).release(x).guarantee)
    individual differential privacy only (not differential privacy): ε = 1, δ = 0 for one pixel of at most 1 \
(one coordinate), asserted, by iDP-SignRP-RR
    """

    name: ClassVar[Method] = "iDP-SignRP-RR"

    def positive(self, cells: Ints, steps: Ints, near_zero: NDArray[np.bool_], bits: BitSource) -> NDArray[np.bool_]:
        """Return sign(y), flipped for cells near zero with odds e^{ε/N} against."""
        del steps
        flipped, places = np.zeros(cells.size, dtype=np.bool_), np.flatnonzero(near_zero)
        if places.size:
            levels = (cells[places] != 0).astype(np.int64)
            flipped[places] = flips(levels, rate_below(self._share(places.size)), bits) == 1
        positive: NDArray[np.bool_] = (cells > 0) ^ flipped
        return positive

    def _share(self, count: int) -> Fraction:
        """Return the ε of each of ``count`` cells near zero."""
        return least(self.epsilon) / count


@dataclasses.dataclass(frozen=True, kw_only=True)
class IDPSignOPORP(IDPSignRPRR):
    """iDP-SignOPORP: the same flips for the bins of an `OPORP`, each with all of ε (Li and Li 2023, Appendix A).

    ε-**individual** differential privacy, **not** differential privacy, for ``OneCoordinate`` neighbours only: the one
    coordinate meets one bin, so bins near zero need not share ε. Bins are small sums, so many are near zero, and the
    paper finds it worse than iDP-SignRP.

    Parameters
    ----------
    epsilon
        As in `IndividualSignMechanism`.
    neighbours
        ``OneCoordinate(bound)``.

    Raises
    ------
    InvalidInputError
        As in `IndividualSignMechanism`; for other neighbours; of `release`, for another projection than `OPORP`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> x = OPORP(dim=100, sketch_dim=64, seed=1).sketch()
    >>> x.update(range(100), 1)
    >>> IDPSignOPORP(epsilon=1, neighbours=OneCoordinate(1, unit="pixel")).release(x).guarantee.epsilon
    1.0
    """

    name: ClassVar[Method] = "iDP-SignOPORP"
    one_bin = True

    def _share(self, count: int) -> Fraction:
        del count
        return least(self.epsilon)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IDPSignOPORPG(IDPSignRPG):
    """iDP-SignOPORP-G: Gaussian noise for bins near zero of an `OPORP` (Li and Li 2023, Algorithm 6, Appendix A.3).

    (ε, δ)-**individual** differential privacy, **not** differential privacy, for ``OneCoordinate`` neighbours only. The
    paper applies both of its algorithms to an OPORP and calls both iDP-SignOPORP; this is the one with noise, and
    `IDPSignOPORP` the one with flips. The one coordinate meets one bin, so the noise hides one bin's step, where
    `IDPSignRPG` hides those of all bins near zero together.

    Parameters
    ----------
    epsilon, delta
        As in `IDPSignRPG`.
    neighbours
        ``OneCoordinate(bound)``.

    Raises
    ------
    InvalidInputError
        As in `IDPSignRPG`; for other neighbours; of `release`, for another projection than `OPORP`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> x = OPORP(dim=100, sketch_dim=64, seed=1).sketch()
    >>> x.update(range(100), 1)
    >>> IDPSignOPORPG(epsilon=1, delta=1e-6, neighbours=OneCoordinate(1, unit="pixel")).release(x).method
    'iDP-SignOPORP-G'
    """

    name: ClassVar[Method] = "iDP-SignOPORP-G"
    one_bin = True

    def noise(self, steps: Ints) -> DiscreteGaussian:
        """Return the noise for bins near zero, of which a neighbour moves one by at most its step."""
        return super().noise(steps.max(keepdims=True))


def noise_near_zero(reach: int, count: int, budget: Budget) -> DiscreteGaussian:
    """Return noise for ``count`` cells that a neighbour moves by √``reach`` in ℓ2; the ℓ1 distance plays no part."""
    return DiscreteGaussian.calibrated(Sensitivity(1, reach, count), budget)


def _with_coins(cells: Ints, bits: BitSource) -> NDArray[np.bool_]:
    positive, zeros = cells > 0, np.flatnonzero(cells == 0)
    if zeros.size:
        positive[zeros] = flips(np.zeros(zeros.size, dtype=np.int64), Fraction(1), bits) == 1
    return positive
