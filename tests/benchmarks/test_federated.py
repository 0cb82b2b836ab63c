"""The federated example: its gradients are gradients, it learns, and privacy costs accuracy in the papers' order."""

import numpy as np

from benchmarks import federated


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


def test_it_learns_and_privacy_costs_accuracy() -> None:
    digits = federated.Digits.load()
    assert len(digits.test) == 360
    free = federated.train(digits, None, epochs=3, seed=1)
    build = federated.MECHANISMS["ProjUnit"]
    assert build is not None
    private = federated.train(digits, build(650, 16.0), epochs=3, seed=1)
    assert free[-1] > 0.75
    assert 0.4 < private[-1] < free[-1] + 0.05
