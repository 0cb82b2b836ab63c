"""The privacy loss of whole releases, enumerated: neighbouring streams through real sketches, exact laws of noise.

The loss of a pair of streams at an output is the logarithm of the ratio of the output's two probabilities. Cells have
independent noise, so the largest loss over all output vectors is the sum of the cells' largest losses; each is
searched over a window around both cells, at whose ends it has become constant (the tails of a discrete Laplace law
are geometric).
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.privacy import Budget, Neighbours, calibration
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.noise import Sensitivity
from streamsketch.projections.explicit import RandomNorms
from streamsketch.release.pan_private import PanPrivateSketch
from tests.audit.record import judged
from tests.oracles.naive_noise import laplace_pmf, lattice_delta

Cells = tuple[int, ...]
Pair = tuple[Cells, Cells]
Update = tuple[int, Fraction]
ROUNDING = mpmath.mpf(10) ** -50

PROJECTIONS = [ss.SJLT(dim=4, sketch_dim=4, sparsity=s, seed=seed) for s in (1, 2) for seed in (0, 3, 8)]
PROJECTIONS += [ss.CountSketch(dim=4, sketch_dim=4, seed=5)]
OTHER_MAPS: list[ss.projections.Projection] = [
    ss.SJLT(dim=4, sketch_dim=3, sparsity=2, seed=1, construction="graph"),
    ss.projections.Rademacher(dim=4, sketch_dim=3, seed=1),
    ss.projections.OPORP(dim=4, sketch_dim=3, seed=1),
    ss.projections.VerySparse(dim=4, sketch_dim=4, sparsity=2, seed=1),
    ss.projections.Achlioptas(dim=4, sketch_dim=5, seed=1),
    ss.projections.UniformProjection(dim=4, sketch_dim=2, seed=1, fraction_bits=2),
    ss.projections.GaussianProjection(dim=4, sketch_dim=2, seed=1, fraction_bits=2),
    ss.projections.SRHT(dim=4, sketch_dim=2, seed=1),
    ss.projections.FJLT(dim=4, sketch_dim=2, seed=2, density="1/2", fraction_bits=2),
    ss.projections.Rotation(dim=4, sketch_dim=2, seed=1, fraction_bits=2),
    ss.projections.Identity(dim=4),
]
PROJECTIONS = OTHER_MAPS + PROJECTIONS
NAMES = [f"{projection.kind} D1={projection.l1_sensitivity} seed={projection.seed}" for projection in PROJECTIONS]
each_projection = pytest.mark.parametrize("projection", PROJECTIONS, ids=NAMES)
FEW = [PROJECTIONS[place] for place in (1, 6, 9, 11)]  # Rademacher, Gaussian, Rotation, SJLT


def each_projection_with(
    names: tuple[str, ...], first: tuple[Any, ...], *others: tuple[Any, ...]
) -> pytest.MarkDecorator:
    """Take the first case for every map; the others for four of them here, and for all in ``make test-long``."""
    cases = [
        pytest.param(projection, *case, marks=[pytest.mark.long] * (case != first and projection not in FEW))
        for case in (first, *others)
        for projection in PROJECTIONS
    ]
    return pytest.mark.parametrize(("projection", *names), cases, ids=NAMES * (1 + len(others)))


EPSILONS = [0.5, 1.0, 3.0]


# --- losses ---------------------------------------------------------------------------------------------------


@functools.cache
def cell_loss(scale: Fraction, one: int, other: int) -> mpmath.mpf:
    """Return max over all outputs of ln(P(output | cell one) / P(output | cell other))."""
    low, high = min(one, other) - 3, max(one, other) + 3
    ratios = [laplace_pmf(scale, output - one) / laplace_pmf(scale, output - other) for output in range(low, high + 1)]
    assert abs(ratios[0] / ratios[3] - 1) < ROUNDING  # constant to the left of both cells, and so ever after
    assert abs(ratios[-1] / ratios[-4] - 1) < ROUNDING  # and to the right
    return mpmath.log(max(ratios))


def loss(scale: Fraction, pair: Pair) -> mpmath.mpf:
    """Return the largest privacy loss of one pair over all output vectors."""
    return mpmath.fsum(cell_loss(scale, one, other) for one, other in zip(*pair, strict=True))


def worst_loss(scale: Fraction, pairs: Iterable[Pair]) -> mpmath.mpf:
    """Return the largest privacy loss of the pairs, both ways round."""
    differences = {tuple(other - one for one, other in zip(*pair, strict=True)): pair for pair in pairs}
    return max(max(loss(scale, pair), loss(scale, pair[::-1])) for pair in differences.values())


def laplace_scale(projection: ss.projections.Projection, neighbours: Neighbours, epsilon: float) -> Fraction:
    """Return the scale of the noise a release would get."""
    noise = calibration.choose(sensitivity_of(projection, neighbours), Budget(epsilon, 0.0), "auto")
    return noise.scale  # type: ignore[union-attr]


def test_the_largest_loss_over_output_vectors_is_the_sum_over_cells() -> None:
    scale, pair = Fraction(5, 3), ((0, 1, -1), (2, 1, 0))
    outputs = itertools.product(range(-4, 6), repeat=3)
    brute = max(
        mpmath.log(
            mpmath.fprod(laplace_pmf(scale, o - c) for o, c in zip(output, pair[0], strict=True))
            / mpmath.fprod(laplace_pmf(scale, o - c) for o, c in zip(output, pair[1], strict=True))
        )
        for output in outputs
    )
    assert abs(brute - loss(scale, pair)) < ROUNDING
    assert abs(brute - mpmath.mpf(3) / scale.numerator * scale.denominator) < ROUNDING


# --- neighbouring streams -------------------------------------------------------------------------------------


def cells_of(projection: ss.projections.Projection, stream: Iterable[Update]) -> Cells:
    sketch = projection.sketch()
    for index, value in stream:
        sketch.update(index, value)
    return tuple(sketch.state().tolist())


VALUES = [Fraction(tenths, 10) for tenths in (3, 4, 5, 9, 13)]
BASES: list[list[Update]] = [[], [(0, Fraction("0.5")), (3, Fraction("-1.1")), (0, Fraction("0.3"))]]


@functools.cache
def contributions(bound: Fraction, most: int) -> list[list[Update]]:
    """Return every list of at most ``most`` updates whose absolute values sum to at most ``bound``, up to order."""
    updates = [(index, sign * value) for index in range(4) for value in VALUES for sign in (1, -1) if value <= bound]

    def extend(start: int, left: Fraction, room: int) -> Iterator[list[Update]]:
        yield []
        if room:
            for place in range(start, len(updates)):
                size = abs(updates[place][1])
                if size <= left:
                    for rest in extend(place, left - size, room - 1):
                        yield [updates[place], *rest]

    return list(extend(0, bound, most))


def streams_with_and_without(projection: ss.projections.Projection, bound: Fraction) -> set[Pair]:
    """Return the sketches of every base stream without, and with, every contribution a unit may make."""
    units = contributions(bound, most=3)
    alone = {update: cells_of(projection, [update]) for unit in units for update in unit if len(unit) == 1}
    pairs = set()
    for base in BASES:
        without = cells_of(projection, base)
        added = [tuple(map(sum, zip(without, *map(alone.get, unit), strict=True))) for unit in units]
        for longest in sorted(range(len(units)), key=lambda place: len(units[place]))[-20:]:
            assert added[longest] == cells_of(projection, [*base, *units[longest]]), "updates add up"
        pairs |= {(without, cells) for cells in added}
    return pairs


def vectors_within_l1(projection: ss.projections.Projection, bound: int) -> set[Pair]:
    """Return the sketches of all pairs of vectors in {-1, 0, 1}⁴ at ℓ1 distance at most ``bound``."""
    vectors = np.array(list(itertools.product((-1, 0, 1), repeat=4)))
    cells = vectors @ projection.columns(np.arange(4)).T
    near = np.abs(vectors[:, None] - vectors).sum(axis=2) <= bound
    return {(tuple(cells[i].tolist()), tuple(cells[j].tolist())) for i, j in np.argwhere(near)}


@functools.cache
def fine_vectors(projection: ss.projections.Projection) -> list[dict[int, Cells]]:
    """Return, for each coordinate and rest of a vector, the sketches by that coordinate's value, in tenths."""
    sketched = []
    for coordinate, rest in itertools.product(range(4), (Fraction(0), Fraction("-0.7"))):
        others = [(index, rest) for index in range(4) if index != coordinate]
        sketched.append(
            {tenths: cells_of(projection, [*others, (coordinate, Fraction(tenths, 10))]) for tenths in range(-13, 14)}
        )
    return sketched


def vectors_that_differ_in_one_coordinate(projection: ss.projections.Projection, bound: Fraction) -> set[Pair]:
    """Return the sketches of all pairs of fine vectors that differ in one coordinate by at most ``bound``."""
    most = math.floor(10 * bound)
    return {
        (sketched[one], sketched[other])
        for sketched in fine_vectors(projection)
        for one, other in itertools.product(sketched, repeat=2)
        if abs(one - other) <= most
    }


# --- Laplace releases are ε-DP --------------------------------------------------------------------------------


@each_projection_with(("epsilon", "bound"), (1.0, 2), (1.0, 1), (0.5, 2), (3.0, 2), (0.5, 1), (3.0, 1))
def test_count_streams_within_the_l1_bound_lose_at_most_epsilon(
    projection: ss.projections.Projection, epsilon: float, bound: int
) -> None:
    scale = laplace_scale(projection, ss.L1(bound), epsilon)
    pairs = vectors_within_l1(projection, bound)
    worst = worst_loss(scale, pairs)
    judged((epsilon - worst) / epsilon, len(pairs))
    assert worst <= epsilon + ROUNDING
    assert worst >= epsilon * (1 - 2**-20)  # and attained: no noise is wasted


def unit_in_two_keys(projection: ss.projections.Projection, bound: int) -> Iterator[Pair]:
    """Yield tables of two sketches side by side, without and with a unit that touches both up to the bound."""
    base = [(0, Fraction(2)), (1, Fraction(-1))]
    own = [[(index, Fraction(bound))] for index in range(projection.dim)]
    without = cells_of(projection, base)
    for first, second in itertools.product(own, repeat=2):
        yield without + without, cells_of(projection, base + first) + cells_of(projection, base + second)


@each_projection
def test_a_unit_in_two_keys_loses_at_most_epsilon_over_the_whole_table(projection: ss.projections.Projection) -> None:
    pairs = list(unit_in_two_keys(projection, 2))
    scale = laplace_scale(projection, ss.L1(2, max_keys=2), 1.0)
    assert worst_loss(scale, pairs) <= 1 + ROUNDING
    one_key = laplace_scale(projection, ss.L1(2), 1.0)
    assert worst_loss(one_key, pairs) > 1.9, "noise for one key is caught"


@each_projection_with(("bound",), ("1.3",), ("0.4",))
def test_real_streams_lose_at_most_epsilon_however_a_unit_splits_its_bound(
    projection: ss.projections.Projection, bound: str
) -> None:
    gridded = projection.replace(resolution="2/5")
    pairs = streams_with_and_without(gridded, Fraction(bound))
    for epsilon in EPSILONS:
        worst = worst_loss(laplace_scale(gridded, ss.L1(bound), epsilon), pairs)
        judged((epsilon - worst) / epsilon, len(pairs))
        assert epsilon * (1 - 2**-20) <= worst <= epsilon + ROUNDING


@each_projection_with(("bound",), ("1.2",), ("0.1",), ("0.4",), ("0.5",))
def test_vectors_that_differ_in_one_coordinate_lose_at_most_epsilon(
    projection: ss.projections.Projection, bound: str
) -> None:
    gridded = projection.replace(resolution="2/5")
    pairs = vectors_that_differ_in_one_coordinate(gridded, Fraction(bound))
    for epsilon in EPSILONS:
        worst = worst_loss(laplace_scale(gridded, ss.OneCoordinate(bound), epsilon), pairs)
        judged((epsilon - worst) / epsilon, len(pairs))
        assert epsilon * (1 - 2**-20) <= worst <= epsilon + ROUNDING


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 0.7, math.pi])
def test_an_epsilon_without_an_exact_scale_is_kept_too(epsilon: float) -> None:
    projection = PROJECTIONS[-2]
    worst = worst_loss(laplace_scale(projection, ss.L1(2), epsilon), vectors_within_l1(projection, 2))
    exact = mpmath.mpf(epsilon)
    assert exact * (1 - mpmath.mpf(2) ** -20) <= worst <= exact + ROUNDING


# --- the same checks catch broken releases --------------------------------------------------------------------

WITH_TWO_ROWS = [p for p in PROJECTIONS if p.l1_sensitivity == p.l2_sensitivity_squared == 2]


@pytest.mark.parametrize("projection", WITH_TWO_ROWS)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    "wrong_l1",
    [lambda s: Fraction(s - 1), lambda s: Fraction(math.isqrt(s * 10**12), 10**6)],
    ids=["one row forgotten", "Δ2 where Δ1 is due"],
)
def test_a_scale_from_too_small_a_sensitivity_is_caught(
    projection: ss.projections.Projection, epsilon: float, wrong_l1: Callable[[int], Fraction]
) -> None:
    scale = wrong_l1(projection.l1_sensitivity) / Fraction(epsilon)
    assert worst_loss(scale, vectors_within_l1(projection, 1)) > epsilon * 1.2


RANDOM_NORMS = [projection for projection in OTHER_MAPS if isinstance(projection, RandomNorms)]


@pytest.mark.parametrize("projection", RANDOM_NORMS, ids=lambda projection: projection.kind)
def test_an_average_norm_instead_of_the_largest_is_caught(projection: ss.projections.Projection) -> None:
    norms = np.abs(projection.columns(np.arange(4))).sum(axis=0)
    assert norms.max() == projection.l1_sensitivity > norms.mean()
    assert worst_loss(Fraction(int(norms.sum()), 4), vectors_within_l1(projection, 1)) > 1.01


@each_projection
def test_contributions_beyond_the_bound_are_caught(projection: ss.projections.Projection) -> None:
    scale = laplace_scale(projection, ss.L1(1), 1.0)
    assert worst_loss(scale, vectors_within_l1(projection, 2)) > 1.9


@each_projection
def test_a_sensitivity_rounded_down_for_one_coordinate_is_caught(projection: ss.projections.Projection) -> None:
    gridded = projection.replace(resolution="2/5")
    pairs = vectors_that_differ_in_one_coordinate(gridded, Fraction("0.5"))
    assert worst_loss(laplace_scale(gridded, ss.L1("0.5"), 1.0), pairs) > 1.9  # L1 takes ⌊0.5 / 0.4⌋


@pytest.mark.parametrize("projection", FEW, ids=lambda projection: projection.kind)
def test_a_grid_met_by_rounding_to_the_nearest_is_caught(projection: ss.projections.Projection) -> None:
    """Truncation toward zero is what the bound of `L1` rests on."""
    scale = laplace_scale(projection.replace(resolution="2/5"), ss.L1("1.3"), 1.0)
    columns = projection.columns(np.arange(4))
    pairs = set()
    for unit in contributions(Fraction("1.3"), most=4):
        rounded = np.zeros(4, dtype=np.int64)
        for index, value in unit:
            rounded[index] += round(value / Fraction(2, 5))
        pairs.add(((0,) * projection.sketch_dim, tuple((columns @ rounded).tolist())))
    assert worst_loss(scale, pairs) > 1.3


# --- Gaussian releases ----------------------------------------------------------------------------------------


@each_projection_with(("epsilon", "delta"), (1.0, 1e-6), (0.5, 1e-2), (4.0, 1e-9))
def test_gaussian_releases_of_count_streams_keep_delta(
    projection: ss.projections.Projection, epsilon: float, delta: float
) -> None:
    worst, broken = 0.0, 0.0
    noise = calibration.choose(sensitivity_of(projection, ss.L1(2)), Budget(epsilon, delta), "gaussian")
    narrow = DiscreteGaussian.calibrated(Sensitivity(1, 1, 4), Budget(epsilon, delta))  # for a bound of 1
    for one, other in vectors_within_l1(projection, 2):
        shift = tuple(sorted(abs(b - a) for a, b in zip(one, other, strict=True) if a != b))
        worst = max(worst, memoised_delta(noise.sigma_squared, shift, epsilon))  # type: ignore[union-attr]
        broken = max(broken, memoised_delta(narrow.sigma_squared, shift, epsilon))
    judged((delta - worst) / delta, len(vectors_within_l1(projection, 2)))
    assert 0 < worst <= delta
    assert broken > delta


memoised_delta = functools.cache(lattice_delta)


# --- pan-private sketches: an intruder's view and the release together -----------------------------------------

Pmf = Callable[[int], mpmath.mpf]


def joint_cell_loss(inside: Pmf, fresh: Pmf, one: tuple[int, int], other: tuple[int, int]) -> mpmath.mpf:
    """Return the largest loss of one cell's (view, release); ``one`` and ``other`` are the cell (then, at the end).

    The view is the cell then plus the noise inside; the release is the cell at the end plus that noise plus fresh one.
    """
    cells = (*one, *other)
    window = range(min(cells) - 3, max(cells) + 4)
    worst = mpmath.mpf(0)  # the largest ratio
    for view in window:
        seen = [inside(view - then) for then, _ in (one, other)]
        for release in window:
            first, second = (
                mass * fresh(release - end - (view - then))
                for mass, (then, end) in zip(seen, (one, other), strict=True)
            )
            if first > 0:
                worst = max(worst, first / second if second > 0 else mpmath.inf)
    return mpmath.log(worst)


def joint_loss(inside: Pmf, fresh: Pmf, before: Cells, after: Cells) -> mpmath.mpf:
    """Return the largest loss between a stream without a unit, and one where it adds ``before``, then ``after``."""
    cell = functools.cache(functools.partial(joint_cell_loss, functools.cache(inside), functools.cache(fresh)))
    base = (1, 1)  # the cell of everybody else, then and at the end; laws shift with it
    with_unit = [(1 + early, 1 + early + late) for early, late in zip(before, after, strict=True)]
    return max(mpmath.fsum(cell(base, both) for both in with_unit), mpmath.fsum(cell(both, base) for both in with_unit))


def point_mass(n: int) -> mpmath.mpf:
    return mpmath.mpf(n == 0)


def splits(projection: ss.projections.Projection, bound: int) -> Iterator[Pair]:
    """Every way for a unit to spread integer updates of absolute sum ≤ bound before and after the intrusion."""
    columns = projection.columns(np.arange(2))
    parts = list(itertools.product(range(-bound, bound + 1), repeat=4))
    for part in parts:
        if sum(map(abs, part)) <= bound:
            before, after = columns @ part[:2], columns @ part[2:]
            yield tuple(before.tolist()), tuple(after.tolist())


PAN_PROJECTIONS = [ss.CountSketch(dim=2, sketch_dim=2, seed=1), ss.SJLT(dim=2, sketch_dim=2, sparsity=2, seed=3)]


def pan_laplace(projection: ss.projections.Projection, bound: int, epsilon: float) -> Pmf:
    scale = PanPrivateSketch(projection, epsilon=epsilon, neighbours=ss.L1(bound))._noisy.noise.scale  # type: ignore[attr-defined]
    return functools.partial(laplace_pmf, scale)


@pytest.mark.parametrize("projection", PAN_PROJECTIONS, ids=lambda projection: projection.kind)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("bound", [1, 2])
def test_one_intrusion_and_the_release_together_lose_at_most_epsilon(
    projection: ss.projections.Projection, epsilon: float, bound: int
) -> None:
    noise = pan_laplace(projection, bound, epsilon)
    losses = [joint_loss(noise, noise, *split) for split in splits(projection, bound)]
    worst = max(losses)
    judged((epsilon - worst) / epsilon, len(losses))
    assert epsilon * (1 - 2**-20) <= worst <= epsilon + ROUNDING


@pytest.mark.parametrize("projection", PAN_PROJECTIONS, ids=lambda projection: projection.kind)
def test_a_release_without_fresh_noise_is_caught(projection: ss.projections.Projection) -> None:
    noise = pan_laplace(projection, 1, 1.0)
    assert max(joint_loss(noise, point_mass, *split) for split in splits(projection, 1)) == mpmath.inf


@pytest.mark.parametrize("projection", PAN_PROJECTIONS, ids=lambda projection: projection.kind)
def test_a_state_without_noise_inside_is_caught(projection: ss.projections.Projection) -> None:
    noise = pan_laplace(projection, 1, 1.0)
    assert max(joint_loss(point_mass, noise, *split) for split in splits(projection, 1)) == mpmath.inf


@pytest.mark.parametrize("projection", PAN_PROJECTIONS, ids=lambda projection: projection.kind)
def test_a_bound_for_each_view_alone_is_caught(projection: ss.projections.Projection) -> None:
    """A unit that may spend its bound before and once more after the intrusion would lose 2ε."""
    noise = pan_laplace(projection, 1, 1.0)
    assert max(joint_loss(noise, noise, *split) for split in splits(projection, 2)) > 1.9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (3.0, 1e-7)])
def test_pan_private_gaussian_noise_keeps_delta_for_both_views_as_one_vector(epsilon: float, delta: float) -> None:
    projection = PAN_PROJECTIONS[1]
    sketch = PanPrivateSketch(projection, epsilon=epsilon, delta=delta, neighbours=ss.L1(2), mechanism="gaussian")
    deltas = []
    for before, after in splits(projection, 2):
        # the view, and the release minus the view: an invertible function of both
        shift = tuple(sorted(abs(entry) for entry in (*before, *after) if entry))
        deltas.append(memoised_delta(sketch._noisy.noise.sigma_squared, shift, epsilon))  # type: ignore[union-attr]
    judged((delta - max(deltas)) / delta, len(deltas))
    assert 0 < max(deltas) <= delta
