"""Queries on published signs: Hamming distances bit by bit, angles unbiased with the variance of the theory."""

import bisect
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import streamsketch as ss
from streamsketch import signs
from streamsketch.privacy import Mechanism
from streamsketch.release.ready import ReadyRows
from streamsketch.signs import hamming
from streamsketch.signs.angles import expected
from streamsketch.signs.publishers import SignMechanism
from streamsketch.signs.sign_changes import FlipLaw
from streamsketch.signs.sketch import Signs, pack_signs
from tests.noise import salted_bits, salted_rng
from tests.oracles import naive_signs

pytestmark = pytest.mark.rejects(1e-6)


K = 2048
GAUSSIAN = ss.projections.GaussianProjection(dim=4, sketch_dim=K, seed=1, independence=4)
ANGLES = [0.05, 0.4, math.pi / 3, math.pi / 2, 2.5, 3.1]
FALSE_REJECTS = 1e-7


def release_of(packed: bytes, k: int, release_id: int = 0) -> signs.SignSketch:
    projection = ss.projections.Rademacher(dim=99, sketch_dim=k, seed=1)
    guarantee = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("m"))
    law = FlipLaw("constant", Fraction(1))
    return signs.SignSketch(projection, packed, law, guarantee, release_id=release_id.to_bytes(8, "little"))


@given(st.data(), st.integers(1, 300), st.integers(1, 4), st.integers(1, 4))
def test_hamming_distances_are_those_of_the_twin(data: st.DataObject, k: int, n: int, m: int) -> None:
    some = st.binary(min_size=-(-k // 8), max_size=-(-k // 8))
    bits = some.map(lambda row: pack_signs(np.unpackbits(np.frombuffer(row, dtype=np.uint8))[:k].astype(bool)))
    rows = [release_of(data.draw(bits), k, i) for i in range(n)]
    columns = [release_of(data.draw(bits), k, 100 + i) for i in range(m)]
    wanted = [[naive_signs.hamming(x.packed, y.packed) for y in columns] for x in rows]
    assert signs.hamming_distances(rows, columns).tolist() == wanted
    assert signs.hamming_distance(rows[0], columns[0]) == wanted[0][0]
    own = signs.hamming_distances(rows)
    assert own.dtype == np.int16
    assert np.array_equal(own, own.T)
    assert not own.diagonal().any()


def test_hamming_distances_of_many_rows_cross_every_chunk() -> None:
    rng = salted_rng(1)
    words = rng.integers(0, 1 << 63, (1100, 5), dtype=np.int64).view(np.uint64)
    wanted = np.bitwise_count(words[:7, None] ^ words).sum(axis=2)
    assert np.array_equal(hamming.distances_between(words[:7], words), wanted)


@pytest.mark.parametrize(("n", "m", "words"), [(31, 33, 1), (64, 96, 2), (101, 70, 17), (65, 130, 511), (40, 65, 513)])
def test_hamming_distances_of_tiles_and_their_edges(n: int, m: int, words: int) -> None:
    """Rows compared with themselves are counted once, in tiles of 16 or 32 rows, and written twice."""
    x, y = (salted_rng(i).integers(-(1 << 63), 1 << 63, (i, words)).view(np.uint64) for i in (n, m))
    for rows, columns in ((x, y), (y, x), (x, x), (y, y)):
        wanted = [[naive_signs.hamming(row.tobytes(), column.tobytes()) for column in columns] for row in rows]
        found = hamming.distances_between(rows, columns)
        assert found.tolist() == wanted
        assert found.dtype == (np.int16 if words * 64 <= 32767 else np.int32)


def test_the_largest_hamming_distances_fit() -> None:
    for words in (511, 512):  # 32,704 and 32,768 bits
        rows = np.array([[0] * words, [2**64 - 1] * words], dtype=np.uint64)
        assert hamming.distances_between(rows, rows).tolist() == [[0, 64 * words], [64 * words, 0]]


def test_hamming_distances_of_very_many_rows_are_shared_among_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    words = salted_rng(1).integers(0, 1 << 63, (301, 3), dtype=np.int64).view(np.uint64)
    alone = hamming.distances_between(words, words)
    monkeypatch.setattr(hamming.os, "cpu_count", lambda: 4)
    assert np.array_equal(hamming.distances_between(words, words, many=1), alone)


# --- angles ---------------------------------------------------------------------------------------------------


def drawn(
    mechanism: SignMechanism, theta: float, norms: tuple[float, float], repeats: int, seed: int
) -> tuple[list[signs.SignSketch], list[signs.SignSketch]]:
    """Publish cells of two vectors at an angle: normal, as a Gaussian projection makes them, fresh ones each time."""
    rng = salted_rng(seed)
    deviations = [norm / (GAUSSIAN.cell_unit * math.sqrt(K)) for norm in norms]
    one, other = rng.standard_normal((2, repeats, K))
    cells = [one * deviations[0], (math.cos(theta) * one + math.sin(theta) * other) * deviations[1]]
    found = [
        ReadyRows(mechanism.calibrated(GAUSSIAN), np.rint(part).astype(np.int64)).draw(
            salted_bits(bytes([seed, place]))
        )
        for place, part in enumerate(cells)
    ]
    return found[0], found[1]


def moments(
    pairs: tuple[Sequence[Signs], Sequence[Signs]], norms: tuple[float, float] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the estimates and their standard errors."""
    known = {} if norms is None else {"norm_x": norms[0], "norm_y": norms[1]}
    found = [signs.angle(x, y, **known) for x, y in zip(*pairs, strict=True)]
    return np.array([one.value for one in found]), np.array([one.standard_error for one in found])


@pytest.mark.parametrize("theta", ANGLES)
def test_theorem_4_5(theta: float) -> None:
    """θ̂ is unbiased, with the theorem's variance: z and χ² tests at 1e-7 each, 300 releases."""
    repeats, norms = 300, (50.0, 900.0)
    asked = signs.DPSignRPRR(epsilon=60, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=40)
    a = math.exp(asked.law(GAUSSIAN).rate)
    assert 2 < a < 50
    variance = theta * (math.pi - theta) + 2 * math.pi**2 * a / (a - 1) ** 2 + 4 * math.pi**2 * a**2 / (a - 1) ** 4
    values, errors = moments(drawn(asked, theta, norms, repeats, 1), None)
    assert abs(values.mean() - theta) < -stats.norm.ppf(FALSE_REJECTS / 2) * math.sqrt(variance / K / repeats)
    scaled = repeats * values.var() / (variance / K)
    assert FALSE_REJECTS / 2 < stats.chi2(repeats - 1).cdf(scaled) < 1 - FALSE_REJECTS / 2
    assert np.median(errors) == pytest.approx(math.sqrt(variance / K), rel=0.05)


SIZED: list[tuple[SignMechanism, tuple[float, float]]] = [
    (signs.DPSignRPRRSmooth(epsilon=2000, neighbours=ss.L1(1)), (20.0, 35.0)),
    (signs.DPSignRPRRSmooth(epsilon=2000, neighbours=ss.L1(1)), (2.0, 5.0)),
    (signs.DPSignLogistic(epsilon=900, neighbours=ss.L1(1)), (20.0, 20.0)),
    (signs.DPSignLogistic(epsilon=900, neighbours=ss.L1(1)), (300.0, 20.0)),
]


SOME = {(0, 0.3), (0, 1.2), (1, 2.6), (2, 1.2), (3, 0.3), (3, 2.6)}  # every law and every angle twice or so


@pytest.mark.parametrize(
    ("mechanism", "norms", "theta"),
    [
        pytest.param(*case, theta, marks=[] if (place, theta) in SOME else pytest.mark.long)
        for place, case in enumerate(SIZED)
        for theta in (0.3, 1.2, 2.6)
    ],
)
def test_laws_that_depend_on_the_cells(mechanism: SignMechanism, norms: tuple[float, float], theta: float) -> None:
    """Unbiased to 0.5 % of π beyond z at 1e-7, with the variance of the delta method: χ² at 1e-7, 150 releases."""
    repeats = 150
    values, errors = moments(drawn(mechanism, theta, norms, repeats, 2), norms)
    typical = float(np.median(errors))
    assert typical < 0.3
    slack = 0.005 * math.pi - stats.norm.ppf(FALSE_REJECTS / 2) * typical / math.sqrt(repeats)
    assert abs(values.mean() - theta) < slack
    low, high = stats.chi2(repeats - 1).ppf([FALSE_REJECTS / 2, 1 - FALSE_REJECTS / 2])
    assert 0.9 * low < repeats * values.var() / typical**2 < 1.1 * high


def test_other_laws_tend_to_plain_signs_and_to_constant_flips() -> None:
    """With a wide step every cell has level 1: the smooth law is then the constant one, whose estimate is exact."""
    law = FlipLaw("levels", Fraction(3, 2))
    same = FlipLaw("constant", Fraction(3, 2))
    guarantee = ss.Guarantee(1.0, 0.0, ss.L1(10**6), Mechanism.stated("m"))
    rng = salted_rng(3)
    packed = [pack_signs(rng.random(K) < 0.5) for _ in range(2)]

    def pair(used: FlipLaw) -> list[signs.SignSketch]:
        return [
            signs.SignSketch(GAUSSIAN, bits, used, guarantee, release_id=bytes([i] * 8))
            for i, bits in enumerate(packed)
        ]

    by_curve = signs.angle(*pair(law), norm_x=1, norm_y=1)
    by_formula = signs.angle(*pair(same))
    assert by_curve.value == pytest.approx(by_formula.value, abs=2e-3)
    assert by_curve.standard_error == pytest.approx(by_formula.standard_error, rel=0.02)


INDIVIDUAL = [
    signs.IDPSignRPRR(epsilon=5.0, neighbours=ss.OneCoordinate(1)),
    signs.IDPSignRPG(epsilon=5.0, delta=1e-6, neighbours=ss.OneCoordinate(1)),
]


@pytest.mark.parametrize("mechanism", INDIVIDUAL)
def test_angles_of_individual_signs(mechanism: signs.IDPSignRPRR | signs.IDPSignRPG) -> None:
    """Unbiased to 1 % of π beyond z at 1e-7: 60 pairs of vectors, through a real map with a row of its own for each."""
    theta, repeats, norm = 1.0, 60, 12.0
    rng = salted_rng(4)
    values = []
    for repeat in range(repeats):
        projection = ss.projections.Rademacher(dim=256, sketch_dim=512, seed=repeat)
        one, other = np.linalg.qr(rng.standard_normal((256, 2)))[0].T
        fine = projection.replace(resolution="1/1000")
        vectors = norm * np.stack([one, math.cos(theta) * one + math.sin(theta) * other])
        x, y = (mechanism.release(sketch_of(fine, vector)) for vector in vectors)
        values.append(signs.angle(x, y, norm_x=norm, norm_y=norm).value)
    error = np.std(values) / math.sqrt(repeats)
    assert abs(np.mean(values) - theta) < 0.01 * math.pi - stats.norm.ppf(FALSE_REJECTS / 2) * error


def sketch_of(projection: ss.projections.Projection, vector: NDArray[np.float64]) -> ss.Sketch:
    sketch = projection.sketch()
    sketch.update(np.arange(vector.size), vector)
    return sketch


@pytest.mark.parametrize("theta", [0.05, 1.0, math.pi / 2, 2.8])
def test_cosines_are_nearly_unbiased(theta: float) -> None:
    """A z test at 1e-7 of 300 releases."""
    asked = signs.DPSignRPRR(epsilon=45, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=40)
    pairs = drawn(asked, theta, (50.0, 50.0), 300, 5)
    found = [signs.cosine(x, y) for x, y in zip(*pairs, strict=True)]
    values, errors = np.array([one.value for one in found]), np.array([one.standard_error for one in found])
    assert 0.05 < np.median(errors) < 0.5
    reach = -stats.norm.ppf(FALSE_REJECTS / 2) * values.std() / math.sqrt(len(found))
    assert abs(values.mean() - math.cos(theta)) < reach
    # near 0 and π the slope of the cosine at θ̂ is steeper than at θ, so error bars are too wide there
    widest = 1.25 if 0.5 < theta < 2.6 else 2.5
    assert 0.8 * values.std() < np.sqrt((errors**2).mean()) < widest * values.std()
    assert found[0].interval().low >= -1


@pytest.mark.parametrize(
    ("mechanism", "norm", "theta"),
    [
        *((SIZED[0][0], 20.0, theta) for theta in (0.0, 0.3, math.pi / 2, 3.0, math.pi)),
        *((SIZED[2][0], 4.0, theta) for theta in (0.0, math.pi / 2)),
        *((SIZED[2][0], 300.0, theta) for theta in (0.3, math.pi)),
        *(pytest.param(SIZED[2][0], 4.0, theta, marks=pytest.mark.long) for theta in (0.3, 3.0, math.pi)),
        *(pytest.param(SIZED[2][0], 300.0, theta, marks=pytest.mark.long) for theta in (0.0, math.pi / 2, 3.0)),
    ],
)
def test_cosines_by_laws_that_depend_on_the_cells(mechanism: SignMechanism, norm: float, theta: float) -> None:
    """Unbiased to 0.3 % beyond z at 1e-7 of 100 releases, also at 0 and π; error bars are not short, by χ² at 1e-7."""
    repeats = 100
    pairs = drawn(mechanism, theta, (norm, norm), repeats, 7)
    found = [signs.cosine(x, y, norm_x=norm, norm_y=norm) for x, y in zip(*pairs, strict=True)]
    values, errors = (np.array([getattr(one, name) for one in found]) for name in ("value", "standard_error"))
    reach = -stats.norm.ppf(FALSE_REJECTS / 2) * values.std() / math.sqrt(repeats)
    assert abs(values.mean() - math.cos(theta)) < reach + 0.003
    low, high = stats.chi2(repeats - 1).ppf([FALSE_REJECTS / 2, 1 - FALSE_REJECTS / 2])
    # where nearly all signs agree, as if half a pair at least did not: up to 1.6 times too wide
    assert 0.4 * low < repeats * values.var() / (errors**2).mean() < 1.15 * high


def test_intervals_of_cosines_cover_where_few_signs_differ() -> None:
    """Two of K are to differ: 85 % are covered, 60 % by half of both sides' reach; 77 % is beyond 1e-4 of either."""
    asked, theta, norm = signs.DPSignLogistic(epsilon=60_000, neighbours=ss.L1(1)), 2 * math.pi / K, 300.0
    inside = 0
    for x, y in zip(*drawn(asked, theta, (norm, norm), 300, 11), strict=True):
        low, high = signs.cosine(x, y, norm_x=norm, norm_y=norm).interval(0.95)
        inside += low <= math.cos(theta) <= high
    assert inside / 300 > 0.77


def test_identical_vectors_in_much_noise_have_a_cosine_around_one_and_an_angle_with_an_error() -> None:
    """A z test at 1e-7 of 200 releases: half of them agree more often than signs of equal vectors do."""
    asked, norms = signs.DPSignLogistic(epsilon=300, neighbours=ss.L1(1)), (4.0, 4.0)
    pairs = drawn(asked, 0.0, norms, 200, 8)
    cosines = np.array([signs.cosine(x, y, norm_x=4, norm_y=4).value for x, y in zip(*pairs, strict=True)])
    assert cosines.max() > 1.2
    assert abs(cosines.mean() - 1) < -stats.norm.ppf(FALSE_REJECTS / 2) * cosines.std() / math.sqrt(200)
    angles, errors = moments(pairs, norms)
    assert (angles == 0).any()
    assert errors.max() <= math.pi / 2
    assert 0.8 * angles.std() < math.sqrt((errors**2).mean()) < 3 * angles.std()


def test_an_angle_that_nothing_is_known_of_has_an_error_of_a_quarter_turn() -> None:
    asked = signs.DPSignLogistic(epsilon=0.01, neighbours=ss.L1(1))
    x, y = (asked.release(GAUSSIAN.sketch()) for _ in range(2))
    found = signs.angle(x, y, norm_x=1, norm_y=1)
    assert 0 <= found.value <= math.pi
    assert found.standard_error == pytest.approx(math.pi / 2)
    for first, second in ((x, y), (GAUSSIAN.sketch(), GAUSSIAN.sketch())):
        weak = [first, second] if isinstance(first, Signs) else [asked.release(one) for one in (first, second)]  # type: ignore[arg-type]
        with pytest.raises(ss.InvalidInputError, match="too large to estimate the cosine"):
            signs.cosine(*weak, norm_x=1, norm_y=1)


def test_an_interval_covers_as_often_as_it_says() -> None:
    """Binomial, 1e-7, 300 releases of each angle."""
    asked = signs.DPSignRPRR(epsilon=30, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=40)
    inside = total = 0
    for theta in (0.5, 1.5):
        for x, y in zip(*drawn(asked, theta, (50.0, 50.0), 300, 6), strict=True):
            low, high = signs.angle(x, y).interval(0.95)
            inside, total = inside + (low <= theta <= high), total + 1
    assert stats.binomtest(inside, total, 0.95).pvalue > FALSE_REJECTS


# --- what to expect --------------------------------------------------------------------------------------------


def agreeing(like: SignMechanism, differing: int) -> list[signs.SignSketch]:
    """Return two releases of which as many signs differ."""
    law, guarantee = like.law(GAUSSIAN), like.guarantee(GAUSSIAN)
    rows = np.zeros((2, K), dtype=np.bool_)
    rows[1, :differing] = True
    return [
        signs.SignSketch(GAUSSIAN, pack_signs(row), law, guarantee, release_id=bytes([i] * 8))
        for i, row in enumerate(rows)
    ]


@pytest.mark.parametrize("theta", [0.4, math.pi / 3, math.pi / 2, 2.5])
@pytest.mark.parametrize(
    ("mechanism", "norm"),
    [
        (signs.DPSignRPRR(epsilon=60, delta=1e-6, neighbours=ss.OneCoordinate(1), norm_bound=40), None),
        (SIZED[0][0], 20.0),
        (SIZED[2][0], 300.0),
    ],
)
def test_what_is_expected_is_what_is_estimated_where_as_many_signs_agree(
    mechanism: SignMechanism, norm: float | None, theta: float
) -> None:
    law, guarantee = mechanism.law(GAUSSIAN), mechanism.guarantee(GAUSSIAN)
    told = expected(theta, GAUSSIAN, law, guarantee, norm=norm)
    assert told.angle.value == pytest.approx(theta, abs=2e-3)

    def found(differing: int) -> ss.estimation.Estimate:
        return signs.angle(*agreeing(mechanism, differing), norm_x=norm, norm_y=norm)

    nearest = bisect.bisect_left(range(K + 1), theta, key=lambda differing: found(differing).value)
    assert found(nearest).value == pytest.approx(theta, abs=0.02)
    assert told.angle.standard_error == pytest.approx(found(nearest).standard_error, rel=0.05)
    assert told.angle.noise_variance == pytest.approx(found(nearest).noise_variance, rel=0.1)
    assert told.cosine is not None
    cosine = signs.cosine(*agreeing(mechanism, nearest), norm_x=norm, norm_y=norm)
    assert told.cosine.value == pytest.approx(cosine.value, abs=0.05)
    assert told.cosine.standard_error == pytest.approx(cosine.standard_error, rel=0.1)


def test_nothing_is_expected_of_a_cosine_that_would_be_refused() -> None:
    weak = signs.DPSignLogistic(epsilon=0.01, neighbours=ss.L1(1))
    told = expected(1.0, GAUSSIAN, weak.law(GAUSSIAN), weak.guarantee(GAUSSIAN), norm=1.0)
    assert told.cosine is None
    assert told.angle.standard_error == pytest.approx(math.pi / 2)
    for theta in (-0.1, 3.2, math.nan):
        with pytest.raises(ss.InvalidInputError, match=r"an angle lies in \[0, π\] radians"):
            expected(theta, GAUSSIAN, weak.law(GAUSSIAN), weak.guarantee(GAUSSIAN), norm=1.0)
    with pytest.raises(ss.InvalidInputError, match="norm_x and norm_y"):
        expected(1.0, GAUSSIAN, weak.law(GAUSSIAN), weak.guarantee(GAUSSIAN))


# --- refusals ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_compared_is_refused() -> None:
    k, packed = 64, bytes(8)
    one, other = release_of(packed, k, 1), release_of(packed, k, 2)
    for query in (signs.hamming_distance, signs.angle, signs.cosine):
        with pytest.raises(ss.errors.DependentNoiseError, match="the same release"):
            query(one, one)
        with pytest.raises(ss.errors.IncompatibleProjectionsError, match="sketch_dim"):
            query(one, release_of(packed + b"\0", 72, 3))
        for wrong in ((one, "signs"), ("signs", one)):
            with pytest.raises(TypeError, match="need published signs, got a str"):
                query(*wrong)  # type: ignore[arg-type]
    law = FlipLaw("constant", Fraction(1, 1 << 10))
    weak = [signs.SignSketch(x.projection, x.packed, law, x.guarantee, release_id=x.release_id) for x in (one, other)]
    with pytest.raises(ss.InvalidInputError, match="too large to estimate the cosine"):
        signs.cosine(*weak)
    with pytest.raises(ss.InvalidInputError, match="no published signs"):
        signs.hamming_distances([])


@pytest.mark.parametrize(
    ("norm", "message"),
    [
        (None, "pass norm_x and norm_y"),
        (0, "positive"),
        (math.nan, "positive"),
        (10**400, "positive, finite number below 1e.300, got an integer of 1329 bits"),
        (1e299, "steps of the projection's grid of 1, outside"),
        (1e-300, "steps of the projection's grid of 1, outside"),
    ],
)
def test_norms_are_asked_for_where_they_matter(norm: float | None, message: str) -> None:
    asked = signs.DPSignLogistic(epsilon=1, neighbours=ss.L1(1))
    x, y = (asked.release(GAUSSIAN.sketch()) for _ in range(2))
    with pytest.raises(ss.InvalidInputError, match=message):
        signs.angle(x, y, norm_x=norm, norm_y=1)


# --- nearest ----------------------------------------------------------------------------------------------------


def test_nearest_by_hamming_distance_with_ties_in_order() -> None:
    collection = [release_of(bytes([byte]), 8, i) for i, byte in enumerate([0b111, 0b1, 0b11, 0b1, 0])]
    queries = [release_of(bytes([byte]), 8, 10 + i) for i, byte in enumerate([0, 0b1111])]
    found = signs.nearest(queries, collection, 3)
    assert found.places.tolist() == [[4, 1, 3], [0, 2, 1]]
    assert found.distances.tolist() == [[0, 1, 1], [1, 2, 3]]


def test_nearest_of_many_queries_is_the_full_sort() -> None:
    rng = salted_rng(2)
    releases = [release_of(rng.bytes(16), 128, i) for i in range(700)]
    found = signs.nearest(releases[:300], releases[300:], 5)
    whole = signs.hamming_distances(releases[:300], releases[300:])
    assert np.array_equal(found.places, np.argsort(whole, axis=1, kind="stable")[:, :5])
    assert np.array_equal(found.distances, np.sort(whole, axis=1)[:, :5])


@pytest.mark.parametrize(
    "projection",
    [
        ss.projections.Identity(dim=64),
        ss.projections.Rademacher(dim=64, sketch_dim=32, seed=1),
        ss.projections.OPORP(dim=64, sketch_dim=32, seed=1),
    ],
)
def test_private_sketches_are_searched_for_comparison(projection: ss.projections.Projection) -> None:
    """Raw data with noise, DP-RP and DP-OPORP: far apart, so that the nearest is sure."""
    publish = ss.release.PrivateProjection(projection=projection, epsilon=5, delta=1e-6, neighbours=ss.OneCoordinate(1))
    people = np.eye(6, 64, dtype=int) * 10_000
    found = signs.nearest(publish.release(people), publish.release(people), 2)
    assert found.places[:, 0].tolist() == list(range(6))
    assert (found.distances[:, 0] < found.distances[:, 1]).all()


def test_searches_out_of_range_are_refused() -> None:
    one, other = release_of(bytes(1), 8, 1), release_of(bytes(1), 8, 2)
    private = ss.CountSketch(dim=9, sketch_dim=8, seed=1).sketch().release(epsilon=1, neighbours=ss.L1(1))
    for top in (0, 2, 1.0, True):
        with pytest.raises(ss.InvalidInputError, match="top must be"):
            signs.nearest([one], [other], top)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="got 0 and 1"):
        signs.nearest([], [one], 1)
    with pytest.raises(ss.InvalidInputError, match="of one kind"):
        signs.nearest([one], [private], 1)
    with pytest.raises(ss.errors.DependentNoiseError):
        signs.nearest([one], [one, other], 1)


def test_signs_that_all_agree_still_have_an_error() -> None:
    for law in (FlipLaw("constant", Fraction(60)), FlipLaw("linear", Fraction(60))):
        x, y = (
            signs.SignSketch(
                GAUSSIAN,
                bytes(K // 8),
                law,
                ss.Guarantee(1, 0, ss.L1(1), Mechanism.stated("m")),
                release_id=bytes([i] * 8),
            )
            for i in range(2)
        )
        found = signs.angle(x, y, norm_x=9, norm_y=9)
        assert found.value == pytest.approx(0, abs=0.01)
        assert found.standard_error > 1 / K


@pytest.mark.parametrize("k", [8, 64, 1024])
def test_packed_signs_are_rows_of_a_binary_index_as_they_are(k: int) -> None:
    """FAISS's layout: uint8 (n, k / 8), C order, and distances by counting bits, whatever their order in a byte."""
    packed = np.random.default_rng(k).integers(0, 256, (40, k // 8), dtype=np.uint8)
    releases = [release_of(row.tobytes(), k, place) for place, row in enumerate(packed)]
    rows = np.frombuffer(b"".join(one.packed for one in releases), dtype=np.uint8).reshape(len(releases), -1)
    assert rows.flags.c_contiguous
    assert (rows == packed).all()
    expected = signs.hamming_distances(releases[:5], releases)
    assert (np.unpackbits(rows[:5, None] ^ rows, axis=2).sum(axis=2) == expected).all()
    faiss = pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    index = faiss.IndexBinaryFlat(k)
    index.add(rows)
    distances, places = index.search(rows[:5], 3)
    assert (distances == np.sort(expected, axis=1)[:, :3]).all()
    assert (np.take_along_axis(expected, places, axis=1) == distances).all()
