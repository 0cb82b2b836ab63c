"""Individual privacy, enumerated: it holds with the calibration of the data at hand, and with no other reading."""

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch import signs
from streamsketch.core.numbers import Ints
from streamsketch.privacy import Neighbours
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.sign_flips import rate_below
from streamsketch.signs.individual import find_near_zero
from streamsketch.signs.sign_changes import cell_steps
from tests.oracles import naive_signs
from tests.oracles.naive_noise import gaussian_masses

BOX = np.array(list(itertools.product(range(-4, 5), repeat=3)))
RADEMACHER = ss.projections.Rademacher(dim=3, sketch_dim=3, seed=1)
OPORP = ss.projections.OPORP(dim=3, sketch_dim=3, seed=2)
DELTA = 1e-3
MECHANISMS = [
    (signs.IDPSignRPRR(epsilon=1.0, neighbours=ss.OneCoordinate(1)), RADEMACHER),
    (signs.IDPSignRPRR(epsilon=3.0, neighbours=ss.L1(2)), RADEMACHER),
    (
        signs.IDPSignRPRR(epsilon=1.0, neighbours=ss.L1(1)),
        ss.projections.GaussianProjection(dim=3, sketch_dim=3, seed=1, fraction_bits=2),
    ),
    (signs.IDPSignOPORP(epsilon=1.0, neighbours=ss.OneCoordinate(2)), OPORP),
    (signs.IDPSignRPG(epsilon=1.0, delta=DELTA, neighbours=ss.OneCoordinate(1)), RADEMACHER),
    (signs.IDPSignRPG(epsilon=2.0, delta=DELTA, neighbours=ss.L1(2)), RADEMACHER),
    (signs.IDPSignOPORPG(epsilon=1.0, delta=DELTA, neighbours=ss.OneCoordinate(2)), OPORP),
]
INDIVIDUAL = (signs.IDPSignRPG, signs.IDPSignRPRR, signs.IDPSignOPORP, signs.IDPSignOPORPG)
Mechanism = signs.IDPSignRPRR | signs.IDPSignRPG


@functools.cache
def plus_with_noise(variance: Fraction, cell: int) -> float:
    """Return P(cell + noise > 0) + P(cell + noise = 0) / 2."""
    support, masses = gaussian_masses(variance)
    return float(masses[support > -cell].sum() + masses[support == -cell].sum() / 2)


@functools.cache
def variance_of(mechanism: signs.IDPSignRPG, steps: tuple[int, ...]) -> Fraction:
    return mechanism.noise(np.array(steps)).sigma_squared


@functools.cache
def plus_with_flips(epsilon: Fraction, cell: int) -> float:
    return float(naive_signs.plus_chance("constant", rate_below(epsilon), cell, 1))


def plus_chances(mechanism: Mechanism, cells: Ints, steps: Ints, near: NDArray[np.bool_]) -> list[float]:
    """Return P(+) of each cell, written from the definition, for a calibration to the cells that are ``near``."""
    count = int(near.sum())
    chances = []
    for cell, is_near in zip(cells.tolist(), near.tolist(), strict=True):
        if not is_near:
            chances.append(0.5 if cell == 0 and isinstance(mechanism, signs.IDPSignRPG) else float(cell > 0))
        elif isinstance(mechanism, signs.IDPSignRPG):
            chances.append(plus_with_noise(variance_of(mechanism, tuple(steps[near].tolist())), cell))
        else:
            share = 1 if isinstance(mechanism, signs.IDPSignOPORP) else count
            chances.append(plus_with_flips(Fraction(mechanism.epsilon) / share, cell))
    return chances


def divergences(here: list[float], there: list[list[float]], epsilon: float) -> NDArray[np.float64]:
    """Return the least δ at which laws of signs are (ε, δ)-close both ways, over all 2^k outputs, of each there."""
    outputs = np.array(list(itertools.product([True, False], repeat=len(here))))
    p, q = (
        np.where(outputs, np.array(chances)[..., np.newaxis, :], 1 - np.array(chances)[..., np.newaxis, :]).prod(-1)
        for chances in (here, there)
    )
    return np.maximum(*(np.maximum(0.0, a - math.exp(epsilon) * b).sum(-1) for a, b in ((p, q), (q, p))))


@functools.cache
def neighbours_of(
    projection: ss.projections.Projection, relation: Neighbours
) -> dict[tuple[int, ...], set[tuple[int, ...]]]:
    steps = relation.grid_steps(projection.grid)
    cells = BOX @ projection.columns(np.arange(3)).T
    gaps = np.abs(BOX[:, None] - BOX)
    close = gaps.sum(axis=2) <= steps
    if isinstance(relation, ss.OneCoordinate):
        close &= (gaps > 0).sum(axis=2) <= 1
    found: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for i, j in np.argwhere(close):
        found.setdefault(tuple(cells[i].tolist()), set()).add(tuple(cells[j].tolist()))
    return found


def losses(mechanism: Mechanism, projection: ss.projections.Projection, *, anew: bool) -> Iterator[float]:
    """Yield the δ beyond ε of all neighbours both ways: calibrated to the data at hand, or ``anew`` to each."""
    steps = cell_steps(projection, mechanism.neighbours)
    for one, others in neighbours_of(projection, mechanism.neighbours).items():
        cells = np.array(one)
        near = find_near_zero(cells, steps)
        here = plus_chances(mechanism, cells, steps, near)
        laws = [
            plus_chances(mechanism, other, steps, find_near_zero(other, steps) if anew else near)
            for other in map(np.array, others)
        ]
        yield from divergences(here, laws, mechanism.epsilon).tolist()


@pytest.mark.parametrize(("mechanism", "projection"), MECHANISMS[:4])
def test_flips_keep_epsilon_for_the_data_at_hand(mechanism: Mechanism, projection: ss.projections.Projection) -> None:
    assert max(losses(mechanism, projection, anew=False)) < 1e-12


@pytest.mark.parametrize(("mechanism", "projection"), MECHANISMS[4:])
def test_gaussian_noise_keeps_epsilon_and_delta_for_the_data_at_hand(
    mechanism: Mechanism, projection: ss.projections.Projection
) -> None:
    assert max(losses(mechanism, projection, anew=False)) <= DELTA


@pytest.mark.parametrize(("mechanism", "projection"), [MECHANISMS[0], MECHANISMS[4]])
def test_calibrated_anew_on_the_neighbour_it_is_broken(
    mechanism: Mechanism, projection: ss.projections.Projection
) -> None:
    """Definition A.1 as it is written runs the mechanism on the neighbour: signs it leaves alone there tell all."""
    assert any(one > 0.1 for one in losses(mechanism, projection, anew=True))


@pytest.mark.parametrize(("mechanism", "projection"), MECHANISMS)
def test_it_is_not_differential_privacy(mechanism: Mechanism, projection: ss.projections.Projection) -> None:
    """Two vectors further apart, linked by neighbours, would be told apart with certainty: group privacy fails too."""
    x = projection.sketch()
    x.update([0, 1, 2], [50, 20, 10])
    released = [mechanism.release(x).packed for _ in range(5)]
    assert len(set(released)) == 1  # far from zero nothing is perturbed


def test_cells_that_a_neighbour_takes_past_63_bits_are_perturbed() -> None:
    """Sums are modulo 2^64, so the sign changes there as it does at 0."""
    most, steps = (1 << 63) - 1, np.full(1, 3)
    for cell in (0, 3, -3, most, most - 2, -most, -most - 1, -most + 2):
        assert find_near_zero(np.array([cell]), steps).all(), cell
    for cell in (4, -4, most - 3, -most + 3, 1 << 62):
        assert not find_near_zero(np.array([cell]), steps).any(), cell
    for moved in range(-3, 4):  # whoever is not near keeps the sign
        for cell in (4, -4, most - 3, -most + 3):
            assert (np.array([cell]) + moved > 0) == (cell > 0)


@pytest.mark.parametrize(("mechanism", "projection"), MECHANISMS)
def test_released_signs_follow_the_law_that_was_enumerated(
    mechanism: Mechanism, projection: ss.projections.Projection
) -> None:
    """False rejects: 18 cells at 1e-8."""
    rows, steps = 8000, cell_steps(projection, mechanism.neighbours)
    vector = np.array([1, 0, 1])
    cells = projection.columns(np.arange(3)) @ vector
    chances = plus_chances(mechanism, cells, steps, find_near_zero(cells, steps))
    released = mechanism.release_rows(projection, np.tile(vector, (rows, 1)))
    counts = sum((release.signs > 0).astype(np.int64) for release in released)
    for count, chance in zip(counts.tolist(), chances, strict=True):
        assert abs(count - rows * chance) <= 6 * math.sqrt(rows * chance * (1 - chance)) + 1e-9


def test_the_word_is_in_every_docstring_and_repr() -> None:
    for thing in (*INDIVIDUAL, signs.IndividualSignSketch):
        assert "**individual**" in str(thing.__doc__)
        assert "**not** differential privacy" in str(thing.__doc__)
    assert "individual" in str(IndividualGuarantee.__doc__).lower()
    released = MECHANISMS[0][0].release(RADEMACHER.sketch())
    assert isinstance(released, signs.IndividualSignSketch)
    assert not isinstance(released, signs.SignSketch)
    assert "individual differential privacy only (not differential privacy)" in repr(released)
    with pytest.raises(TypeError, match="only Guarantee objects compose"):
        ss.compose([released.guarantee] * 2, populations="overlapping")


@pytest.mark.parametrize("bound", [2**26, 2**27, 2**30])
def test_a_refusal_of_gaussian_noise_does_not_depend_on_the_data(bound: int) -> None:
    """A zero vector has all cells near zero, and takes the most noise; a large one may have none."""
    projection = ss.projections.Rademacher(dim=8, sketch_dim=64, seed=1)
    asked = signs.IDPSignRPG(epsilon=1, delta=1e-6, neighbours=ss.L1(bound))
    refusals = []
    for value in (0, 10**14):
        sketch = projection.sketch()
        sketch.update([0], [value])
        try:
            asked.release(sketch)
            refusals.append("")
        except ss.InvalidInputError as refusal:
            refusals.append(str(refusal))
    assert refusals[0] == refusals[1]
    with pytest.raises(ss.InvalidInputError, match="Gaussian variance"):
        signs.IDPSignRPG(epsilon=1, delta=1e-6, neighbours=ss.L1(2**30)).calibrated(projection)


FOUR: dict[str, Any] = {"epsilon": 1.0, "delta": DELTA, "neighbours": ss.OneCoordinate(4)}


def test_noise_on_bins_hides_one_and_less_would_not_do() -> None:
    """Noise for one moved bin, however many are near; that for a quarter of its step has another δ."""
    mechanism = signs.IDPSignOPORPG(epsilon=1.0, delta=DELTA, neighbours=ss.OneCoordinate(2))
    steps = np.full(3, 2)
    assert mechanism.noise(steps) == mechanism.noise(steps[:1])
    shared = signs.IDPSignRPG(epsilon=1.0, delta=DELTA, neighbours=ss.OneCoordinate(2)).noise(steps)
    assert mechanism.noise(steps).sigma_squared < shared.sigma_squared / 2

    class Broken(signs.IDPSignOPORPG):
        def noise(self, steps: Ints) -> DiscreteGaussian:
            return super().noise(steps // 4)

    assert max(losses(signs.IDPSignOPORPG(**FOUR), OPORP, anew=False)) <= DELTA
    broken = Broken(**FOUR)
    assert any(one > DELTA for one in losses(broken, OPORP, anew=False))


def test_what_does_not_hold_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="one unit may touch one key only, got max_keys=2"):
        signs.IDPSignRPRR(epsilon=1, neighbours=ss.L1(1, max_keys=2))
    with pytest.raises(ss.InvalidInputError, match="one unit may touch one key only, got max_keys=2"):
        IndividualGuarantee(1.0, 0.0, ss.L1(1, max_keys=2), "iDP-SignRP-RR")
    with pytest.raises(ss.InvalidInputError, match="one coordinate, which meets one bin"):
        signs.IDPSignOPORP(epsilon=1, neighbours=ss.L1(1))
    with pytest.raises(ss.InvalidInputError, match="use OPORP"):
        signs.IDPSignOPORP(epsilon=1, neighbours=ss.OneCoordinate(1)).release(RADEMACHER.sketch())
    with pytest.raises(ss.InvalidInputError, match="one coordinate, which meets one bin"):
        signs.IDPSignOPORPG(epsilon=1, delta=DELTA, neighbours=ss.L1(1))
    with pytest.raises(ss.InvalidInputError, match="use OPORP"):
        signs.IDPSignOPORPG(epsilon=1, delta=DELTA, neighbours=ss.OneCoordinate(1)).release(RADEMACHER.sketch())
    with pytest.raises(ss.InvalidInputError, match="never gives delta = 0"):
        signs.IDPSignRPG(epsilon=1, delta=0, neighbours=ss.L1(1))
    with pytest.raises(ss.InvalidInputError, match="delta must be"):
        signs.IDPSignRPG(epsilon=1, delta=2, neighbours=ss.L1(1))
    with pytest.raises(TypeError, match="only a Sketch can be released"):
        MECHANISMS[0][0].release(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="neighbours must be"):
        signs.IDPSignRPRR(epsilon=1, neighbours=1)  # type: ignore[arg-type]
