"""The federated figure: its gradients are gradients, it learns, and privacy costs accuracy in the paper's order."""

import numpy as np
import pytest

from benchmarks.data import Data
from benchmarks.figures.afnnt import federated
from benchmarks.rows import TINY
from streamsketch.local import GaussianMechanism


def loss(weights: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> float:
    scores = inputs @ weights
    return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(labels)), labels]).mean())


def test_gradients_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    inputs, labels, weights = rng.normal(size=(1, 3)) / 9, np.array([7]), rng.normal(size=(3, 10))
    found = federated.gradients(weights, inputs, labels).reshape(3, 10)
    for place in np.ndindex(3, 10):
        moved = np.zeros_like(weights)
        moved[place] = 1e-6
        slope = (loss(weights + moved, inputs, labels) - loss(weights - moved, inputs, labels)) / 2e-6
        assert abs(found[place] - slope) < 1e-6


def test_gradients_are_clipped_to_length_one() -> None:
    inputs = np.array([[30.0, 1.0], [0.01, 0.0]])
    lengths = np.linalg.norm(federated.gradients(np.zeros((2, 10)), inputs, np.array([1, 2])), axis=1)
    assert abs(lengths[0] - 1) < 1e-12
    assert lengths[1] < 0.02


@pytest.mark.usefixtures("fixed_noise")
def test_noise_of_a_batch_has_the_law_of_its_reports() -> None:
    mechanism = GaussianMechanism(dim=400, epsilon=2.0, delta=1e-5, ball=True)
    rows, rng = np.zeros((25, 400)), np.random.default_rng(2)
    server = mechanism.aggregator()
    server.add(mechanism.randomize_many(rows))
    at_once = federated.private_mean(rows, mechanism, rng)
    # F of 400 and 400 degrees of freedom: beyond 0.6 or 1.65 with probability 1e-6
    assert 0.6 < at_once.var() / server.mean().var() < 1.65


@pytest.mark.usefixtures("fixed_noise")
def test_it_learns_and_privacy_costs_accuracy() -> None:
    digits = federated.Problem.digits(Data().digits())
    assert len(digits.test) == 360
    free = federated.train(digits, None, epochs=3, seed=1)
    build = federated.MECHANISMS[federated.PROJECTED]
    assert build is not None
    private = federated.train(digits, build(digits.dim, 16.0), epochs=3, seed=1)
    assert len(free) == 3
    assert free[-1] > 0.75
    assert 0.4 < private[-1] < free[-1] + 0.05


def test_curves_are_apart_beyond_both_intervals() -> None:
    def curve(*ends: float) -> federated.Curve:
        return federated.Curve("digits", "", 1.0, None, np.ones(1), np.array(ends)[:, np.newaxis], 100)

    assert curve(0.90, 0.91, 0.92).apart(curve(0.5, 0.51, 0.52))
    assert not curve(0.5, 0.51, 0.52).apart(curve(0.90, 0.91, 0.92))
    assert not curve(0.90, 0.91, 0.92).apart(curve(0.89, 0.90, 0.91))
    assert abs(curve(0.5).half[-1] - 1.645 * 0.05) < 1e-12  # one run: 100 test images


def test_the_study_says_that_mnist_is_missing() -> None:
    study = federated.run(TINY, Data())
    assert list(study.pictures) == ["digits"]
    assert "MNIST was not given" in study.finding
    assert [row[2] for row in study.tables[0].rows] == list(federated.MECHANISMS)
