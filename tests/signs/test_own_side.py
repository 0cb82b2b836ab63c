"""Angles between an own exact sketch and published signs: the likelihood, its intervals, and what is refused.

Noise and projections have fixed seeds; were they drawn anew, each statistical assertion would fail with a probability
below 10^-4.
"""

import functools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch import signs
from streamsketch.estimation import SecretEstimate
from streamsketch.signs import own_side
from streamsketch.signs.sign_gains import cells_of, flipped_by, gain_of, row_groups
from streamsketch.signs.sketch import Signs
from tests.noise import SALT, salted_bits, salted_rng

pytestmark = pytest.mark.rejects(1e-4)


K, DIM, SIZE = 256, 1024, 2000
OPORP = ss.projections.OPORP(dim=DIM, sketch_dim=K, seed=7)
ROWS = ss.projections.Rademacher(dim=DIM, sketch_dim=K, seed=7)
ONE, ALL = ss.OneCoordinate(100), ss.L1(100)
MECHANISMS: dict[str, tuple[ss.projections.Projection, Any]] = {
    "RR": (OPORP, signs.DPSignOPORPRR(epsilon=2, neighbours=ONE)),
    "smooth": (OPORP, signs.DPSignOPORPRRSmooth(epsilon=2, neighbours=ONE)),
    "logistic": (OPORP, signs.DPSignLogistic(epsilon=2, neighbours=ALL)),
    "RP smooth": (ROWS, signs.DPSignRPRRSmooth(epsilon=200, neighbours=ONE)),
    "individual, G": (OPORP, signs.IDPSignOPORPG(epsilon=2, delta=1e-6, neighbours=ONE)),
    "individual": (OPORP, signs.IDPSignOPORP(epsilon=2, neighbours=ONE)),
    "individual RP, G": (ROWS, signs.IDPSignRPG(epsilon=10, delta=1e-6, neighbours=ss.OneCoordinate(10))),
    "individual RP": (ROWS, signs.IDPSignRPRR(epsilon=10, neighbours=ss.OneCoordinate(10))),
}
each = pytest.mark.parametrize("name", MECHANISMS)


@functools.cache
def vectors(theta: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = salted_rng(4)
    x, other = rng.standard_normal((2, DIM))
    x /= np.linalg.norm(x)
    other -= other @ x * x
    y = math.cos(theta) * x + math.sin(theta) * other / np.linalg.norm(other)
    return np.rint(SIZE * x).astype(np.int64), np.rint(SIZE * y).astype(np.int64)


def angle_between(x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
    return math.acos(float(x @ y) / float(np.linalg.norm(x) * np.linalg.norm(y)))


def released(name: str, theta: float, seed: int = 0) -> tuple[ss.Sketch, ss.Sketch, Signs, Signs]:
    projection, mechanism = MECHANISMS[name]
    sketches = [projection.replace(seed=seed).sketch() for _ in range(2)]
    for sketch, vector in zip(sketches, vectors(theta), strict=True):
        sketch.update(np.arange(DIM), vector)
    bits = salted_bits(f"{name} {theta} {seed}".encode())
    publisher = mechanism.calibrated(sketches[0].projection)
    return *sketches, *(publisher.for_data(sketch).draw(bits) for sketch in sketches)


def slow_mean(name: str, row: int, place: float, theta: float) -> float:
    """Return E[g(U cos θ + Z sin θ)] of a row by a plain sum."""
    _, _, _, release = released(name, 0.5)
    groups = row_groups(release.projection, release.guarantee)
    group = next(number for number, rows in enumerate(groups) if row in rows)
    gain = gain_of(cells_of(release.projection, flipped_by(release), release.guarantee, SIZE), group)

    z = np.linspace(-8, 8, 40_001)
    weights = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    return float(weights @ gain(place * math.cos(theta) + z * math.sin(theta)))


@each
def test_the_mean_of_a_sign_is_that_of_the_slow_twin(name: str) -> None:
    _, _, _, release = released(name, 0.5)
    places = np.linspace(-2.9, 2.7, K)
    angles = np.array([0.3, 1.1, 2.6])
    means = own_side.mean_cells(places, release, SIZE)(angles)
    for row in (3, 100, 200):
        for at, theta in enumerate(angles):
            assert means[at, row] == pytest.approx(slow_mean(name, row, places[row], theta), abs=0.01)


def test_the_estimate_is_where_the_likelihood_is_largest() -> None:
    x, _, _, release = released("RR", 0.8)
    cells = x.state() / np.sqrt((x.state().astype(float) ** 2).mean())
    kept = math.tanh(float(release.law.rate) / 2)  # type: ignore[attr-defined]
    points = np.linspace(0.001, math.pi - 0.001, 20_001)
    wrong_side = [math.erf(cell / math.tan(theta) / math.sqrt(2)) for theta in points[::100] for cell in cells]
    means = kept * np.array(wrong_side).reshape(-1, K)
    slow = np.log((1 + release.signs * means) / 2).sum(axis=1)
    found = signs.angle(x, release)
    assert found.value == pytest.approx(points[::100][slow.argmax()], abs=0.01)
    low, high = found.interval(0.95)
    inside = points[::100][slow >= slow.max() - 1.96**2 / 2]
    assert low == pytest.approx(inside[0], abs=0.03)
    assert high == pytest.approx(inside[-1], abs=0.03)


@each
def test_own_data_say_more_than_their_signs_would(name: str) -> None:
    x, _, mine, theirs = released(name, 0.6)
    own = signs.angle(x, theirs, norm_y=SIZE)
    both = signs.angle(mine, theirs, norm_x=SIZE, norm_y=SIZE)
    assert own.variance < 0.75 * both.variance
    assert abs(own.value - angle_between(*vectors(0.6))) < 4 * own.standard_error
    assert own.projection_variance <= own.variance


@pytest.mark.parametrize(
    ("name", "trials", "points"),
    [
        ("RR", 60, 12.0),
        *(pytest.param(name, 200, 7.0, marks=pytest.mark.long) for name in MECHANISMS),
    ],
)
@pytest.mark.parametrize("theta", [0.4, 1.3])
def test_intervals_cover_the_angle(name: str, trials: int, points: float, theta: float) -> None:
    truth = angle_between(*vectors(theta))
    found = []
    for seed in range(trials):
        x, _, _, release = released(name, theta, seed)
        found.append(signs.angle(x, release, norm_y=SIZE))
    errors = np.array([one.value - truth for one in found]) / np.sqrt(np.mean([one.variance for one in found]))
    assert abs(errors.mean()) < 4 / math.sqrt(trials) + 0.1
    assert 0.65 < (errors**2).mean() < 1.6
    covered = np.mean([low <= truth <= high for low, high in (one.interval(0.9) for one in found)])
    assert abs(covered - 0.9) < points / 100


def test_the_estimate_is_secret_in_either_order_and_in_degrees() -> None:
    x, _, _, release = released("RR", 0.8)
    found = signs.angle(x, release)
    assert isinstance(found, SecretEstimate)
    assert found.as_secret() is found
    assert signs.angle(release, x) == found
    degrees = found.scaled(180 / math.pi)
    assert isinstance(degrees, SecretEstimate)
    assert degrees.interval(0.9) == pytest.approx([math.degrees(end) for end in found.interval(0.9)])
    assert "secret" in str(degrees)


def test_the_cosine_is_that_of_the_angle() -> None:
    x, _, _, release = released("smooth", 0.8)
    found, cosine = (estimator(x, release, norm_y=SIZE) for estimator in (signs.angle, signs.cosine))
    assert cosine.value == pytest.approx(math.cos(found.value))
    assert cosine.interval(0.9) == pytest.approx(tuple(math.cos(end) for end in found.interval(0.9))[::-1], abs=1e-4)
    assert cosine.standard_error == pytest.approx(found.standard_error * math.sin(found.value), rel=0.1)


def test_intervals_widen_with_confidence_and_stay_in_the_range() -> None:
    x, _, _, release = released("RR", 0.0)
    found = signs.angle(x, release)
    low, high = found.interval(0.999999)
    narrow = found.interval(0.5)
    assert 0 <= low <= narrow.low <= found.value <= narrow.high < high <= math.pi
    assert found.selected_interval(10, 0.9) == pytest.approx(found.interval(0.99), rel=1e-9)
    assert found.interval(0.9, "chebyshev").high > found.interval(0.9).high
    # the angle is 0: half of all estimates are, and the others within four of their errors
    assert found.value < (4 * found.standard_error if SALT else 0.01)
    if found.value < 0.01:
        assert found.standard_error == pytest.approx(found.interval(0.95).high / 1.96, rel=0.3)


def test_an_error_of_the_norm_moves_the_angle_as_plain_flips_say() -> None:
    x, _, _, release = released("RR", 0.8)
    places = x.state() / np.sqrt((x.state().astype(float) ** 2).mean())
    means, longer = (own_side.mean_cells(places * factor, release, None) for factor in (1, 1 + own_side.STEP))
    for angle in (0.3, 0.8, 2.0):
        assert own_side.drift(means, longer, angle) == pytest.approx(math.sin(2 * angle) / 2, rel=0.01)


def test_the_exact_norm_makes_it_a_little_better() -> None:
    x, _, _, release = released("RR", 0.8)
    known, from_cells = signs.angle(x, release, norm_x=SIZE), signs.angle(x, release)
    assert known.value == pytest.approx(from_cells.value, abs=0.05)
    assert known.standard_error < from_cells.standard_error


def test_what_has_no_angle_is_refused() -> None:
    x, y, _, release = released("smooth", 0.8)
    with pytest.raises(ss.InvalidInputError, match=r"two raw sketches with streamsketch\.cosine"):
        signs.angle(x, y)
    with pytest.raises(ss.InvalidInputError, match="the raw sketch is empty"):
        signs.angle(x.projection.sketch(), release, norm_y=SIZE)
    with pytest.raises(ss.InvalidInputError, match="pass norm_x and norm_y"):
        signs.cosine(x, release)
    with pytest.raises(TypeError, match="got a str; one side may be an own Sketch"):
        signs.angle("x", release)  # type: ignore[arg-type]
    with pytest.raises(ss.errors.IncompatibleProjectionsError):
        signs.angle(x.projection.replace(seed=8).sketch(), release, norm_y=SIZE)
    weak = signs.DPSignOPORPRR(epsilon=0.02, neighbours=ONE).release(x)
    assert signs.angle(x, weak).interval() == (0.0, math.pi)
    with pytest.raises(ss.InvalidInputError, match=r"at a right angle is 7\.83, too large"):
        signs.cosine(x, weak)
