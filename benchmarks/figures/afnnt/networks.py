"""Two convolutional networks in NumPy, with each person's gradient: that of Asi et al. 2023, Table 2, and their code's.

Both have two convolutions and two dense layers with tanh. Table 2's pools after each convolution, and has a tanh behind
the scores too, which are so within ±1. The published code normalises pixels, does not pool, and has 64 filters instead
of 32 in the second convolution. Neither text says how weights start: PyTorch's default is taken, U(±1/√inputs).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures.afnnt.clipped import Clipped, Dense, Formed, Singles
from streamsketch.core.jit import kernel

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

SIDE, WHITE, CLASSES, HIDDEN = 28, 255, 10, 32
KERNEL_1, PADDING, STRIDE, FILTERS_1 = 8, 2, 2, 16
KERNEL_2 = 4
OUT_1 = (SIDE + 2 * PADDING - KERNEL_1) // STRIDE + 1
CHUNK = 500  # images whose scores are computed at a time


@dataclass(frozen=True)
class Network:
    """What sets the two networks apart.

    Parameters
    ----------
    name
        Of the figure's panel.
    filters
        Of the second convolution.
    pooled
        Whether each convolution's tanh is followed by the averages of 2 by 2 neighbours, at stride 1.
    bounded
        Whether there is a tanh behind the scores.
    mean, deviation
        What pixels from 0 to 1 are shifted and divided by.
    shuffled
        Whether each epoch has its own batches.
    """

    name: str
    filters: int
    pooled: bool
    bounded: bool
    mean: float
    deviation: float
    shuffled: bool

    @property
    def sides(self) -> tuple[int, int, int]:
        """The sides of what the second convolution reads, of what it writes, and of what the dense layers read."""
        read = OUT_1 - self.pooled
        written = (read - KERNEL_2) // STRIDE + 1
        return read, written, written - self.pooled

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs + 1) of each layer: a bias stands behind its weights."""
        dense = self.sides[2] ** 2 * self.filters
        return (
            (FILTERS_1, KERNEL_1**2 + 1),
            (self.filters, KERNEL_2**2 * FILTERS_1 + 1),
            (HIDDEN, dense + 1),
            (CLASSES, HIDDEN + 1),
        )

    @property
    def dim(self) -> int:
        """d, how many weights there are."""
        return sum(rows * columns for rows, columns in self.shapes)

    def start(self, seed: int) -> NDArray[np.float64]:
        """Return PyTorch's default weights, drawn from a seed."""
        rng = np.random.default_rng(seed)
        drawn = [rng.uniform(-1, 1, shape).reshape(-1) / math.sqrt(shape[1] - 1) for shape in self.shapes]
        return np.concatenate(drawn)

    def layers(self, weights: NDArray[np.float64]) -> list[Singles]:
        """Return the layers' matrices: float32, of `shapes`."""
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])[:-1]
        parts = np.split(weights.astype(np.float32), ends)
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def scores(self, weights: NDArray[np.float64], images: Pixels) -> Singles:
        """Return the scores of images, (n, 28, 28): (n, 10)."""
        return np.asarray(_Pass(self, self.layers(weights), images).scores)

    def guess(self, weights: NDArray[np.float64], images: Pixels) -> Labels:
        """Return the digits with the highest scores."""
        parts = [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]
        return np.concatenate([self.scores(weights, part).argmax(axis=1) for part in parts])

    def gradients(self, weights: NDArray[np.float64], images: Pixels, labels: Labels) -> Clipped:
        """Return each person's gradient of the logistic loss, clipped to length 1."""
        return _Pass(self, self.layers(weights), images).gradients(labels)


TABLE = Network("Table 2's network", 32, pooled=True, bounded=True, mean=0.0, deviation=1.0, shuffled=True)
CODE = Network(
    "the published code's network", 64, pooled=False, bounded=False, mean=0.1307, deviation=0.3081, shuffled=False
)


class _Pass:
    """One pass forward, with what the pass backward needs; images have their channels last."""

    def __init__(self, network: Network, layers: list[Singles], images: Pixels) -> None:
        self.network, self.layers = network, layers
        n, (read, written, _) = len(images), network.sides
        first, second, third, last = layers
        self.patches = np.empty((n, OUT_1**2, first.shape[1]), dtype=np.float32)
        _patches_of_images(images, network.mean * WHITE, 1 / (network.deviation * WHITE), self.patches)
        self.after = np.tanh(self.patches.reshape(-1, first.shape[1]) @ first.T).reshape(n, OUT_1, OUT_1, FILTERS_1)
        arrived = _pool(self.after) if network.pooled else self.after
        self.windows = np.empty((n, written**2, second.shape[1]), dtype=np.float32)
        _windows_of(arrived, self.windows)
        above = self.windows.reshape(-1, second.shape[1]) @ second.T
        self.above = np.tanh(above, out=above).reshape(n, written, written, network.filters)
        pooled = _pool(self.above) if network.pooled else self.above
        self.flat = pooled.reshape(n, -1)
        self.hidden = np.tanh(self.flat @ third[:, :-1].T + third[:, -1])
        self.scores = self.hidden @ last[:, :-1].T + last[:, -1]
        if network.bounded:
            self.scores = np.tanh(self.scores)
        self.read = read

    def gradients(self, labels: Labels) -> Clipped:
        """Return the gradients of all layers."""
        n, network = len(labels), self.network
        first, second, third, last = self.layers
        errors = np.exp(self.scores - self.scores.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(n), labels] -= 1
        if network.bounded:
            errors *= 1 - self.scores**2
        hidden = (errors @ last[:, :-1]) * (1 - self.hidden**2)
        above = (hidden @ third[:, :-1]).reshape(n, *[network.sides[2]] * 2, network.filters)
        if network.pooled:
            above = _unpool(above)
        above = (above * (1 - self.above**2)).reshape(n, -1, network.filters)
        after = np.zeros((n, self.read, self.read, FILTERS_1), dtype=np.float32)
        _add_windows((above.reshape(-1, network.filters) @ second[:, :-1]).reshape(n, above.shape[1], -1), after)
        if network.pooled:
            after = _unpool(after)
        after = (after * (1 - self.after**2)).reshape(n, -1, FILTERS_1)
        formed = np.empty((n, first.size + second.size), dtype=np.float32)
        np.matmul(after.transpose(0, 2, 1), self.patches, out=formed[:, : first.size].reshape(n, *first.shape))
        np.matmul(above.transpose(0, 2, 1), self.windows, out=formed[:, first.size :].reshape(n, *second.shape))
        return Clipped([Formed(formed), Dense(hidden, self.flat), Dense(errors, self.hidden)])


@kernel
def _pool(cells: Singles) -> Singles:
    """Return the averages of 2 by 2 neighbours, at stride 1."""
    n, side, _, channels = cells.shape
    out = np.empty((n, side - 1, side - 1, channels), dtype=np.float32)
    for i in range(n):
        for row in range(side - 1):
            upper, lower, target = cells[i, row].ravel(), cells[i, row + 1].ravel(), out[i, row].ravel()
            for j in range(target.size):
                target[j] = (upper[j] + lower[j] + upper[j + channels] + lower[j + channels]) * np.float32(0.25)
    return out


@kernel
def _unpool(errors: Singles) -> Singles:
    """Return a quarter of each average's error for each of its four cells, summed."""
    n, side, _, channels = errors.shape
    out = np.zeros((n, side + 1, side + 1, channels), dtype=np.float32)
    for i in range(n):
        for row in range(side):
            upper, lower, source = out[i, row].ravel(), out[i, row + 1].ravel(), errors[i, row].ravel()
            for j in range(source.size):
                quarter = source[j] * np.float32(0.25)
                upper[j] += quarter
                lower[j] += quarter
            for j in range(source.size):
                quarter = source[j] * np.float32(0.25)
                upper[j + channels] += quarter
                lower[j + channels] += quarter
    return out


@kernel
def _patches_of_images(images: Pixels, mean: float, factor: float, out: Singles) -> None:
    """Write the normalised pixels under each position of the first kernel, 0 outside the image, and a 1."""
    for i in range(images.shape[0]):
        for position in range(OUT_1 * OUT_1):
            top = (position // OUT_1) * STRIDE - PADDING
            left = (position % OUT_1) * STRIDE - PADDING
            cells = out[i, position]
            for row in range(KERNEL_1):
                for column in range(KERNEL_1):
                    y, x = top + row, left + column
                    inside = 0 <= y < SIDE and 0 <= x < SIDE
                    cells[row * KERNEL_1 + column] = (
                        np.float32((images[i, y, x] - mean) * factor) if inside else np.float32(0)
                    )
            cells[KERNEL_1 * KERNEL_1] = 1.0


@kernel
def _windows_of(cells: Singles, out: Singles) -> None:
    """Write the cells under each position of the second kernel, and a 1."""
    side, run = (cells.shape[1] - KERNEL_2) // STRIDE + 1, KERNEL_2 * FILTERS_1
    for i in range(cells.shape[0]):
        for row in range(side):
            for column in range(side):
                window = out[i, row * side + column]
                for y in range(KERNEL_2):
                    source = cells[i, row * STRIDE + y, column * STRIDE : column * STRIDE + KERNEL_2].reshape(run)
                    window[y * run : (y + 1) * run] = source
                window[KERNEL_2 * run] = 1.0


@kernel
def _add_windows(windows: Singles, out: Singles) -> None:
    """Add each window to the cells that it was read from."""
    side, run = (out.shape[1] - KERNEL_2) // STRIDE + 1, KERNEL_2 * FILTERS_1
    for i in range(out.shape[0]):
        for row in range(side):
            for column in range(side):
                for y in range(KERNEL_2):
                    target = out[i, row * STRIDE + y, column * STRIDE : column * STRIDE + KERNEL_2].reshape(run)
                    source = windows[i, row * side + column, y * run : (y + 1) * run]
                    for j in range(run):
                        target[j] += source[j]
