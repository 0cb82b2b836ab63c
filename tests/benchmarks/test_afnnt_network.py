"""The paper's network: its size, each person's own gradient, and it learns; without torch or MNIST it says so."""

from typing import Any

import numpy as np
import pytest

from benchmarks.data import Data, Images
from benchmarks.figures.afnnt import federated, network
from benchmarks.rows import TINY


def digits() -> Images:
    """Return scikit-learn's digits at MNIST's size: each pixel three by three, and a margin of two."""
    images = Data().digits()
    large = np.kron(images.vectors.reshape(-1, 8, 8), np.ones((1, 3, 3), dtype=np.int64))
    return Images("digits", np.pad(large, ((0, 0), (2, 2), (2, 2))).reshape(len(large), -1), images.labels, 16)


class Large(Data):
    """The digits, enlarged, as MNIST."""

    def mnist(self) -> Images | None:
        return digits()

    def mnist_test(self) -> Images | None:
        return digits()


@pytest.mark.parametrize(
    ("torch", "mnist", "names"), [(False, False, "torch and MNIST are"), (True, False, "MNIST is")]
)
def test_what_is_missing_is_named_with_its_remedy(*, torch: bool, mnist: bool, names: str) -> None:
    study = network.missing(torch=torch, mnist=mnist)
    assert f"**Not run: {names} missing.**" in study.finding
    assert [row[:2] for row in study.tables[0].rows] == [("torch", torch), ("MNIST", mnist)]


def test_without_torch_nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.importlib.util, "find_spec", lambda _: None)
    study = network.run(TINY, Large())
    assert "torch is missing" in study.finding
    assert not study.pictures


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is no dependency")


@pytest.fixture(scope="module")
def problem() -> federated.Problem:
    images = digits()
    return federated.Problem.mnist(images, images, 1_200, 60)


@pytest.mark.usefixtures("torch")
def test_the_network_has_the_sizes_of_the_table(problem: federated.Problem) -> None:
    convolutions = 16 * (8 * 8 + 1) + 32 * (16 * 4 * 4 + 1)
    assert network.network(problem, 0).start.size == convolutions + 32 * (4 * 4 * 32 + 1) + 10 * (32 + 1)


@pytest.mark.usefixtures("torch")
def test_the_seed_makes_the_weights(problem: federated.Problem) -> None:
    first, again, other = (network.network(problem, seed).start for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_each_gradient_is_that_of_its_own_image_at_length_one(problem: federated.Problem, torch: Any) -> None:
    model, nn = network.network(problem, 3), torch.nn
    layers = nn.Sequential(
        *(nn.Conv2d(1, 16, 8, 2, 2), nn.Tanh(), nn.AvgPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh()),
        *(nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10), nn.Tanh()),
    )
    nn.utils.vector_to_parameters(torch.from_numpy(model.start.astype(np.float32)), layers.parameters())
    found = model.gradients(model.start, problem.train[:5], problem.train_labels[:5])
    for row, image, label in zip(found, problem.train[:5, :-1], problem.train_labels[:5], strict=True):
        layers.zero_grad()
        scores = layers(torch.from_numpy(image.astype(np.float32)).view(1, 1, 28, 28))
        nn.functional.cross_entropy(scores, torch.tensor([label])).backward()
        plain = torch.cat([part.grad.flatten() for part in layers.parameters()]).numpy()
        assert np.linalg.norm(plain) > 1  # so that it is clipped
        assert np.allclose(row, plain / np.linalg.norm(plain), atol=1e-5)


@pytest.mark.usefixtures("torch")
def test_short_gradients_are_left_alone(problem: federated.Problem) -> None:
    """Weights of 0 but for the last biases: nothing else has a gradient, and a black image changes nothing."""
    model = network.network(problem, 0)
    weights = np.zeros_like(model.start)
    weights[-10:] = -3.0
    weights[-1] = 3.0
    found = model.gradients(weights, problem.train[:1], np.array([9]))[0]
    # d loss / d bias = (softmax(tanh b) - one-hot) · (1 - tanh² b)
    scores = np.tanh(weights[-10:])
    chances = np.exp(scores) / np.exp(scores).sum()
    chances[9] -= 1
    assert np.allclose(found[-10:], chances * (1 - scores**2), atol=1e-6)
    assert not found[:-10].any()


@pytest.mark.usefixtures("torch")
def test_it_learns(problem: federated.Problem) -> None:
    accuracies = federated.train(problem, None, epochs=10, seed=1, build=network.network)
    assert accuracies[-1] > 0.5


def test_curves_are_compared_at_the_epoch_they_share(problem: federated.Problem) -> None:
    def curve(name: str, *accuracies: float) -> federated.Curve:
        times = np.arange(1, len(accuracies) + 1) / 2
        return federated.Curve("MNIST", name, 10.0, None, times, np.array([accuracies]), 3000)

    curves = [curve(name, 0.4, 0.8) for name in federated.ON_MNIST]
    text = network.finding(problem, [*curves, curve(federated.FREE, 0.4, 0.82, 0.9, 0.91)][1:])
    assert "without noise at 82.0 ± 1.2 %" in text
    assert "After 2 epochs: clipped only 91.0 %." in text


@pytest.mark.usefixtures("torch")
def test_the_study_runs_at_a_tiny_size() -> None:
    study = network.run(TINY, Large())
    assert list(study.pictures) == ["mnist"]
    assert [row[2] for row in study.tables[0].rows] == list(federated.ON_MNIST)
    assert "too few to compare mechanisms" in study.finding
