"""Sums of a batch's reports, drawn at once, have the distribution of the sums of the library's own reports."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from benchmarks.figures.afnnt import private_steps
from benchmarks.figures.afnnt.clipped import Clipped, Formed
from streamsketch.local import (
    SQKR,
    CompPrivUnitG,
    GaussianMechanism,
    Mechanism,
    PrivHS,
    PrivUnitG,
    ProjUnit,
    RePrivHS,
)
from streamsketch.privacy.samplers import KeyedBits

DIM = 11
MECHANISMS = [
    PrivUnitG(dim=DIM, epsilon=4.0, ball=True),
    CompPrivUnitG(dim=DIM, epsilon=3.0, ball=True),
    ProjUnit(dim=DIM, epsilon=4.0, sketch_dim=3, rotation="haar", ball=True),
    ProjUnit(dim=DIM, epsilon=4.0, sketch_dim=3, shared=True, ball=True),
    PrivHS(dim=DIM, epsilon=2.0, ball=True),
    RePrivHS(dim=DIM, epsilon=5.0, repetitions=3, ball=True),
    SQKR(dim=DIM, epsilon=3.0, ball=True),
    GaussianMechanism(dim=DIM, epsilon=3.0, delta=1e-5, ball=True),
]

EQUIVARIANT = ("PrivUnitG", "CompPrivUnitG", "ProjUnit-haar", "PrivHS", "RePrivHS", "SQKR")


def name(mechanism: Mechanism) -> str:
    return type(mechanism).__name__ + (f"-{mechanism.rotation}" if isinstance(mechanism, ProjUnit) else "")


def batch() -> Clipped:
    """Return five gradients, two of them close to each other, and two shorter than 1."""
    rows = np.random.default_rng(1).normal(size=(5, DIM))
    rows[1] = rows[0] + 0.1 * rows[1]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) / np.array([[1.0], [4.0], [2.0], [0.5], [0.1]])
    return Clipped([Formed(rows.astype(np.float32))])


def statistics_of(means: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return numbers that tell means apart: along the gradients, elsewhere, their lengths, and products of parts."""
    towards = rows.sum(axis=0) / np.linalg.norm(rows.sum(axis=0))
    along, beside, apart = means @ towards, means @ (rows[0] - rows[1]), means[:, 0] * means[:, 1]
    across = np.linalg.norm(means - along[:, np.newaxis] * towards, axis=1)
    return np.array([along, beside, apart, means[:, 3], np.linalg.norm(means, axis=1), across, along * across])


def library_means(mechanism: Mechanism, rows: np.ndarray, trials: int) -> np.ndarray:
    bits = KeyedBits(b"7" * 32, bytes.fromhex(mechanism.fingerprint))
    reports = mechanism.randomize_many(np.tile(rows, (trials, 1)), bits=bits)
    if isinstance(mechanism, ProjUnit) and mechanism.shared:
        found = mechanism.map.lift(reports.values.astype(np.float64), reports.seeds)
    else:
        found = mechanism.contributions(reports.seeds, reports.values)
    return np.asarray(found.reshape(trials, len(rows), -1).mean(axis=1)[:, : mechanism.dim])


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_lengths_of_sums_are_those_of_summed_directions(dim: int) -> None:
    rng, lengths = np.random.default_rng(8), np.array([0.5, 1.0, 2.0, 1.0])
    vectors = rng.normal(size=(20_000, 4, dim))
    vectors *= (lengths / np.linalg.norm(vectors, axis=2))[:, :, np.newaxis]
    drawn = private_steps.length_of_sum(np.tile(lengths, (20_000, 1)), dim, rng)
    assert stats.ks_2samp(drawn, np.linalg.norm(vectors.sum(axis=1), axis=1)).pvalue > 1e-4


@pytest.mark.parametrize("mechanism", [each for each in MECHANISMS if name(each) in EQUIVARIANT], ids=name)
def test_heights_and_radii_are_those_of_the_library_s_reports(mechanism: Mechanism) -> None:
    small = dataclasses.replace(mechanism, dim=3) if mechanism.kind != "proj-unit" else MECHANISMS[2]
    people = 1500 if small is MECHANISMS[2] else 20_000
    unit = np.arange(1.0, small.sphere_dim + 1)
    unit /= np.linalg.norm(unit)
    bits = KeyedBits(b"8" * 32, bytes.fromhex(small.fingerprint))
    reports = small.randomize_many(np.tile(unit[:-1], (people, 1)), bits=bits)
    found = small.contributions(reports.seeds, reports.values)
    along = found @ unit
    heights, radii = private_steps.parts(small, people, np.random.default_rng(9))
    assert stats.ks_2samp(heights, along).pvalue > 1e-4
    assert stats.ks_2samp(radii, np.linalg.norm(found - np.outer(along, unit), axis=1)).pvalue > 1e-4
    assert stats.ks_2samp(heights * radii, along * np.linalg.norm(found - np.outer(along, unit), axis=1)).pvalue > 1e-4


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name)
def test_means_have_the_distribution_of_the_library_s(mechanism: Mechanism) -> None:
    block, rng = batch(), np.random.default_rng(2)
    rows = np.empty((len(block), DIM + 1))
    block.write(slice(0, len(block)), rows)
    clipped = rows[:, :-1] / (1 + 1e-7)  # float32 lengths
    slow = isinstance(mechanism, ProjUnit) and mechanism.rotation == "haar"
    trials = 300 if slow else 500  # distributions that are 0.2 apart somewhere are told apart
    estimated = private_steps.estimate(mechanism)
    ours = np.array([estimated([block], rng) for _ in range(trials)])
    theirs = library_means(mechanism, clipped, trials)
    for mine, other in zip(statistics_of(ours, clipped), statistics_of(theirs, clipped), strict=True):
        assert stats.ks_2samp(mine, other).pvalue > 1e-4
    if mechanism.limiting_squared_error == 0:
        error = ((ours - clipped.mean(axis=0)) ** 2).sum(axis=1)
        expected = ((theirs - clipped.mean(axis=0)) ** 2).sum(axis=1)
        spread = np.sqrt((error.var() + expected.var()) / trials)
        assert abs(error.mean() - expected.mean()) < 4.5 * spread
        deviations = ours.std(axis=0) / np.sqrt(trials)
        assert (np.abs(ours.mean(axis=0) - clipped.mean(axis=0)) < 4.5 * deviations).all()


def test_blocks_are_averaged_by_their_people() -> None:
    block, rng = batch(), np.random.default_rng(3)
    mechanism = PrivHS(dim=DIM, epsilon=2.0, ball=True)
    one = [private_steps.estimate(mechanism)([block], rng) for _ in range(1000)]
    two = [private_steps.estimate(mechanism)([block, block], rng) for _ in range(1000)]
    ratio = np.var(one, axis=0).sum() / np.var(two, axis=0).sum()
    assert 1.8 < ratio < 2.2


def test_without_noise_the_mean_is_that_of_the_clipped_gradients() -> None:
    block, rng = batch(), np.random.default_rng(4)
    rows = np.empty((len(block), DIM + 1))
    block.write(slice(0, len(block)), rows)
    assert np.allclose(private_steps.estimate(None)([block, block], rng), rows[:, :-1].mean(axis=0), atol=1e-6)
    longer = private_steps.without_clipping([block], rng)
    assert np.allclose(longer, (rows[:, :-1] / block.scales[:, np.newaxis]).mean(axis=0), atol=1e-6)


def test_sensitivity_one_takes_half_the_noise() -> None:
    block, mechanism = batch(), GaussianMechanism(dim=DIM, epsilon=3.0, delta=1e-5, ball=True)
    exact = private_steps.without_noise([block], np.random.default_rng())
    right, half = (
        private_steps.gaussian(mechanism, sensitivity)([block], np.random.default_rng(5)) - exact
        for sensitivity in (2.0, 1.0)
    )
    assert np.allclose(right, 2 * half)


def test_other_mechanisms_and_too_large_blocks_are_refused() -> None:
    block, rng = batch(), np.random.default_rng(6)
    unknown = [
        SQKR(dim=DIM, epsilon=3.0, rotation="hadamard", ball=True),
        ProjUnit(dim=DIM, epsilon=4.0, sketch_dim=3, ball=True),
        ProjUnit(dim=DIM, epsilon=4.0, sketch_dim=3, rotation="haar", unbiased=True, ball=True),
    ]
    for mechanism in unknown:
        with pytest.raises(TypeError, match="no heights and radii"):
            private_steps.estimate(mechanism)([block], rng)
    large = Clipped([Formed(np.eye(4, dtype=np.float32)), Formed(np.zeros((4, 0), dtype=np.float32))])
    with pytest.raises(ValueError, match="take blocks of at most 3"):
        private_steps.equivariant_sum(large, np.ones(4), np.ones(4), rng)
