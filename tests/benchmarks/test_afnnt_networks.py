"""The two networks: their scores are those of a plain loop, their gradients those of the loss, clipped to length 1."""

import functools
import itertools

import numpy as np
import pytest

from benchmarks.figures.afnnt.clipped import Clipped, Dense, Formed
from benchmarks.figures.afnnt.networks import CODE, TABLE, Network

BOTH = pytest.mark.parametrize("network", [TABLE, CODE], ids=["table", "code"])
SEVERAL = np.random.default_rng(7).integers(0, 256, (3, 28, 28)).astype(np.uint8)
LABELS = np.array([3, 0, 9])


def plain_scores(network: Network, weights: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return one image's scores in float64, position by position."""
    ends = np.cumsum([rows * columns for rows, columns in network.shapes])[:-1]
    layers = [part.reshape(shape) for part, shape in zip(np.split(weights, ends), network.shapes, strict=True)]

    def convolution(cells: np.ndarray, layer: np.ndarray, side: int) -> np.ndarray:
        count = (len(cells) - side) // 2 + 1
        out = np.empty((count, count, len(layer)))
        for row, column in np.ndindex(count, count):
            window = cells[2 * row : 2 * row + side, 2 * column : 2 * column + side]
            out[row, column] = np.tanh(layer[:, :-1] @ window.reshape(-1) + layer[:, -1])
        if network.pooled:
            out = (out[1:, 1:] + out[1:, :-1] + out[:-1, 1:] + out[:-1, :-1]) / 4
        return out

    pixels = np.pad((image / 255 - network.mean) / network.deviation, 2)[:, :, np.newaxis]
    arrived = convolution(convolution(pixels, layers[0], 8), layers[1], 4).reshape(-1)
    hidden = np.tanh(layers[2][:, :-1] @ arrived + layers[2][:, -1])
    scores = layers[3][:, :-1] @ hidden + layers[3][:, -1]
    return np.tanh(scores) if network.bounded else scores


def test_sizes_are_those_of_the_table_and_of_the_published_code() -> None:
    assert TABLE.dim == 16 * 65 + 32 * 257 + 32 * 513 + 10 * 33 == 26_010
    assert CODE.dim == 16 * 65 + 64 * 257 + 32 * 1601 + 10 * 33 == 69_050


@BOTH
def test_scores_are_those_of_a_plain_loop(network: Network) -> None:
    weights = network.start(1)
    found = network.scores(weights, SEVERAL)
    assert np.allclose(found, [plain_scores(network, weights, image) for image in SEVERAL], atol=1e-5)
    assert np.array_equal(network.guess(weights, SEVERAL), found.argmax(axis=1))


@BOTH
def test_weights_start_as_pytorch_starts_them(network: Network) -> None:
    start, again, other = network.start(1), network.start(1), network.start(2)
    assert np.array_equal(start, again)
    assert not np.array_equal(start, other)
    first = start[: 16 * 65]
    assert 0.124 < np.abs(first).max() <= 1 / 8
    assert abs(first.std() * 8 * np.sqrt(3) - 1) < 0.1


@BOTH
def test_gradients_are_finite_differences_of_the_loss(network: Network) -> None:
    rng, weights, image, label = np.random.default_rng(3), network.start(2), SEVERAL[:1], LABELS[:1]

    def loss(at: np.ndarray) -> float:
        scores = plain_scores(network, at, image[0])
        return float(np.log(np.exp(scores).sum()) - scores[label[0]])

    gradient = network.gradients(weights, image, label).total()
    ends = np.cumsum([0] + [rows * columns for rows, columns in network.shapes])
    for start, end in itertools.pairwise(ends):  # layer by layer: along its gradient, and elsewhere
        own = gradient[start:end] / np.linalg.norm(gradient[start:end])
        random = rng.normal(size=end - start)
        for direction in (own, random / np.linalg.norm(random), own * (rng.random(end - start) < 0.5)):
            moved = np.zeros(network.dim)
            moved[start:end] = 1e-5 * direction
            slope = (loss(weights + moved) - loss(weights - moved)) / 2e-5
            assert abs(slope - gradient[start:end] @ direction) < 1e-5 + 1e-4 * abs(slope)


@functools.cache
def batches() -> list[Clipped]:
    """Return batches with longer and shorter gradients: formed, of dense layers, of the networks."""
    rng = np.random.default_rng(5)
    errors, inputs, matrix = (rng.normal(size=(4, size)).astype(np.float32) for size in (3, 6, 9))
    factors = np.array([[3.0], [0.01], [0.2], [0.04]], dtype=np.float32)
    small = Clipped([Dense(errors * factors, inputs), Formed(matrix * factors)])
    return [small, *(network.gradients(network.start(1), SEVERAL, LABELS) for network in (TABLE, CODE))]


@pytest.mark.parametrize("number", range(3), ids=["small", "table", "code"])
def test_lengths_products_and_sums_are_those_of_the_gradients_themselves(number: int) -> None:
    batch = batches()[number]
    rng, n = np.random.default_rng(6), len(batch)
    rows = np.empty((n, batch.dim + 1))
    batch.write(slice(0, n), rows)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)  # completed by the last coordinate
    assert np.allclose(batch.products(), rows @ rows.T, atol=1e-5)
    vector, weights = rng.normal(size=batch.dim + 1), rng.normal(size=n)
    assert np.allclose(batch.along(vector), rows @ vector, atol=1e-4)
    assert np.allclose(batch.weighted(weights), weights @ rows[:, :-1], atol=1e-5)
    assert np.allclose(batch.total(), (1 / batch.scales) @ rows[:, :-1], atol=1e-4)


def test_long_gradients_are_clipped_and_short_ones_left_alone() -> None:
    matrix = np.array([[3.0, 4.0], [0.3, 0.4]], dtype=np.float32)
    rows = np.empty((2, 3))
    Clipped([Formed(matrix)]).write(slice(0, 2), rows)
    assert np.allclose(rows, [[0.6, 0.8, 0.0], [0.3, 0.4, np.sqrt(0.75)]], atol=1e-6)
