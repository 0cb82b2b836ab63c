"""What a server makes of a report, against readers written from WIRE.md."""

import math

import numpy as np
import pytest

from streamsketch.local import SQKR, CompPrivUnitG, PrivHS, ProjUnit, Report, RePrivHS
from streamsketch.local.baselines.frames import HadamardFrame
from tests.local.directions import bits, directions
from tests.oracles import naive_local

pytestmark = pytest.mark.rejects(0)


DIM = 9
UNIT = directions(DIM)["gaussian"]
SEEDS = [0, 77, 2**64 - 1]


def contribution(report: Report) -> np.ndarray:
    seeds = np.array([report.seed], dtype=np.uint64)
    return np.asarray(report.mechanism.contributions(seeds, report.values[np.newaxis])[0])


@pytest.mark.parametrize("mechanism", [PrivHS(dim=DIM, epsilon=2.0, seed=5), RePrivHS(dim=DIM, epsilon=9.0, seed=5)])
@pytest.mark.parametrize("seed", SEEDS)
def test_directions_and_their_sides_are_the_twins(mechanism: PrivHS, seed: int) -> None:
    drawn = naive_local.hs_directions(mechanism.kind, 5, seed, mechanism.directions, DIM)
    kept = [seed] + [2**64 - 1] * mechanism.directions  # words that flip nothing
    report = mechanism.randomize(UNIT, bits=naive_local.Words(kept))
    assert report.values.tolist() == [int(one @ UNIT >= 0) for one in drawn]
    signs = [1 if bit else -1 for bit in report.values]
    expected = mechanism.radius * np.mean([side * one for side, one in zip(signs, drawn, strict=True)], axis=0)
    assert contribution(report) == pytest.approx(expected, abs=1e-12)
    reach = math.sqrt(math.pi) * math.gamma((DIM + 1) / 2) / math.gamma(DIM / 2)
    share = mechanism.epsilon / mechanism.directions
    assert mechanism.radius == pytest.approx(reach / math.tanh(share / 2))


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_are_the_twins(seed: int) -> None:
    plain = CompPrivUnitG(dim=DIM, epsilon=2.0, seed=5)
    report = Report(plain, 0, np.array([seed], dtype=np.uint64))
    drawn = naive_local.vector(seed, naive_local.salt(5, "comp-priv-unit-g/candidates"), DIM)
    assert contribution(report) == pytest.approx(plain.cap.scale * drawn, abs=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_compressed_projections_are_the_twins(seed: int, *, shared: bool, unbiased: bool) -> None:
    of = ProjUnit(dim=DIM, sketch_dim=4, epsilon=2.0, seed=5, shared=shared, unbiased=unbiased, compressed=True)
    report = Report(of, seed, np.array([99], dtype=np.uint64))
    drawn = naive_local.vector(99, naive_local.salt(5, "proj-unit/candidates"), of.inner_dim)[:4]
    back = naive_local.hadamard_map(DIM, 4, 5, seed, shared=shared).T
    assert contribution(report) == pytest.approx(of.factor * of.cap.scale * back @ drawn, abs=1e-12)


def test_the_last_candidate_of_the_kind_that_the_coin_says_is_reported() -> None:
    mechanism = CompPrivUnitG(dim=DIM, epsilon=2.0, seed=5)
    salted, trials = naive_local.salt(5, "comp-priv-unit-g/candidates"), mechanism.compression.trials
    kinds = set()
    for trial in range(60):
        words = np.frombuffer(bits(("candidates", trial)).read(8 * (trials + 1)), dtype=np.uint64).tolist()
        found = int(mechanism.randomize(UNIT, bits=naive_local.Words(words)).values[0])
        coin, seeds = words[0], words[1:]
        inside = [naive_local.vector(seed, salted, DIM) @ UNIT >= mechanism.cap.threshold for seed in seeds]
        wanted = inside[0] if len(set(inside)) == 1 else coin < mechanism.compression.insiders
        assert found == [seed for seed, kind in zip(seeds, inside, strict=True) if kind == wanted][-1]
        kinds.add((len(set(inside)), wanted))
    assert {(1, False), (2, True)} <= kinds


@pytest.mark.parametrize("seed", SEEDS)
def test_sqkr_sends_the_twins_coefficients(seed: int) -> None:
    mechanism = SQKR(dim=DIM, epsilon=4.0, seed=5, rotation="hadamard")
    assert isinstance(mechanism.frame, HadamardFrame)
    frame = naive_local.kashin_vectors(5, DIM)
    coefficients = mechanism.frame.kashin.spread(UNIT[np.newaxis])[0]
    assert coefficients @ frame == pytest.approx(UNIT, abs=1e-12)
    rows = naive_local.rows(naive_local.start(seed, naive_local.salt(5, "sqkr/rows")), len(frame), 4)
    halves = [2**63] * 4  # a coin of one half: a coefficient is rounded up if it is positive
    report = mechanism.randomize(UNIT, bits=naive_local.Words([seed, *halves, 0, 0, 0, 0, 0]))
    assert report.values.tolist() == [int(coefficients[row] > 0) for row in rows]
    size = mechanism.amplification * 1.75 * math.sqrt(len(frame)) / 4
    expected = sum((1 if bit else -1) * size * frame[row] for bit, row in zip(report.values, rows, strict=True))
    assert mechanism.mean_of(contribution(report)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_sqkr_tells_the_sides_of_the_twins_directions(seed: int) -> None:
    mechanism = SQKR(dim=DIM, epsilon=4.0, seed=5)
    drawn = naive_local.hs_directions("sqkr", 5, seed, 4, DIM)
    report = mechanism.randomize(UNIT, bits=naive_local.Words([seed, *[2**64 - 1, 0] * 2, 0, 0, 0, 0, 0]))
    assert report.values.tolist() == [int(one @ UNIT >= 0) for one in drawn]  # whatever the coins of the rounding
    reach = math.sqrt(math.pi) * math.gamma((DIM + 1) / 2) / math.gamma(DIM / 2)
    telling = math.floor(2**64 * math.expm1(4) / (math.expm1(4) + 16))
    signs = [1 if bit else -1 for bit in report.values]
    expected = sum(sign * one for sign, one in zip(signs, drawn, strict=True)) * reach / 4 / (telling / 2**64)
    assert contribution(report) == pytest.approx(expected, abs=1e-9)
