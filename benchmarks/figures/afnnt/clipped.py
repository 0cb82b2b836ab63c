"""The clipped gradients of a batch, one for each person, of which most are never formed.

A layer's gradient for one person is a sum of products of what arrives and of the error: of one product for a dense
layer, of one for each position for a convolution. Lengths, inner products and weighted sums of dense layers' gradients
follow from the factors. Those of convolutions, which are smaller, are formed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.jit import kernel

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dense:
    """Gradients of a dense layer: row i's is the product of its errors and of its inputs with a constant 1 behind.

    Parameters
    ----------
    errors
        (n, outputs).
    inputs
        (n, inputs), without the constant.
    """

    errors: Singles
    inputs: Singles

    @property
    def size(self) -> int:
        """How long a gradient is."""
        return int(self.errors.shape[1] * (self.inputs.shape[1] + 1))

    def products(self) -> Singles:
        """Return all inner products: (n, n)."""
        return np.asarray((self.errors @ self.errors.T) * (self.inputs @ self.inputs.T + 1))

    def squares(self) -> Singles:
        """Return the squared lengths: (n,)."""
        inputs = np.einsum("ij,ij->i", self.inputs, self.inputs) + 1
        return np.asarray(np.einsum("ij,ij->i", self.errors, self.errors) * inputs)

    def along(self, vector: Singles) -> Singles:
        """Return the inner product of each gradient with a vector of ``size``: (n,)."""
        matrix = vector.reshape(self.errors.shape[1], -1)
        arrived = self.inputs @ matrix[:, :-1].T + matrix[:, -1]
        return np.asarray(np.einsum("ij,ij->i", arrived, self.errors))

    def weighted(self, weights: Singles) -> Singles:
        """Return the sum of the gradients times ``weights``: (size,)."""
        errors = self.errors * weights[:, np.newaxis]
        return np.column_stack([errors.T @ self.inputs, errors.sum(axis=0)]).reshape(-1)

    def write(self, part: slice, out: Floats) -> None:
        """Write the gradients of some people: (n, size)."""
        _outer(self.errors[part], self.inputs[part], out)


@dataclass(frozen=True)
class Formed:
    """Gradients as rows: (n, size)."""

    matrix: Singles

    @property
    def size(self) -> int:
        """How long a gradient is."""
        return int(self.matrix.shape[1])

    def products(self) -> Singles:
        """Return all inner products: (n, n)."""
        return self.matrix @ self.matrix.T

    def squares(self) -> Singles:
        """Return the squared lengths: (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.matrix, self.matrix))

    def along(self, vector: Singles) -> Singles:
        """Return the inner product of each gradient with a vector: (n,)."""
        return self.matrix @ vector

    def weighted(self, weights: Singles) -> Singles:
        """Return the sum of the gradients times ``weights``: (size,)."""
        return weights @ self.matrix

    def write(self, part: slice, out: Floats) -> None:
        """Write the gradients of some people: (n, size)."""
        out[:] = self.matrix[part]


@kernel
def _outer(errors: Singles, inputs: Singles, out: Floats) -> None:
    """Write the product of each row's errors and of its inputs with a 1 behind."""
    columns = inputs.shape[1] + 1
    for i in range(errors.shape[0]):
        for output in range(errors.shape[1]):
            cells = out[i, output * columns : (output + 1) * columns]
            for j in range(columns - 1):
                cells[j] = errors[i, output] * inputs[i, j]
            cells[columns - 1] = errors[i, output]


class Clipped:
    """A batch's gradients, clipped to length 1 and completed to length 1 by a last coordinate, as ``ball`` does it.

    Parameters
    ----------
    layers
        The unclipped gradients, layer by layer.
    """

    def __init__(self, layers: Sequence[Dense | Formed]) -> None:
        self.layers = layers
        lengths = np.sqrt(sum(layer.squares().astype(np.float64) for layer in layers))
        self.scales: Floats = 1 / np.maximum(1.0, lengths)
        self.rest: Floats = np.sqrt(np.maximum(0.0, 1 - (lengths * self.scales) ** 2))

    def __len__(self) -> int:
        """Return n, how many people there are."""
        return len(self.scales)

    @property
    def dim(self) -> int:
        """d, how long a gradient is."""
        return sum(layer.size for layer in self.layers)

    def products(self) -> Floats:
        """Return the inner products of the completed gradients: (n, n), with 1 on the diagonal."""
        products = sum(layer.products() for layer in self.layers) * np.outer(self.scales, self.scales)
        products += np.outer(self.rest, self.rest)
        np.fill_diagonal(products, 1.0)
        return np.asarray(products)

    def along(self, vector: Floats) -> Floats:
        """Return the inner product of each completed gradient with a vector of length d + 1: (n,)."""
        products, start, singles = np.zeros(len(self), dtype=np.float32), 0, vector.astype(np.float32)
        for layer in self.layers:
            products += layer.along(singles[start : start + layer.size])
            start += layer.size
        return np.asarray(products * self.scales + self.rest * vector[-1])

    def weighted(self, weights: Floats) -> Floats:
        """Return the sum of the gradients times ``weights``, without the last coordinate: (d,)."""
        scaled = (weights * self.scales).astype(np.float32)
        return np.concatenate([layer.weighted(scaled) for layer in self.layers]).astype(np.float64)

    def total(self) -> Floats:
        """Return the sum of the gradients as they are, not clipped: (d,)."""
        ones = np.ones(len(self), dtype=np.float32)
        return np.concatenate([layer.weighted(ones) for layer in self.layers]).astype(np.float64)

    def write(self, part: slice, out: Floats) -> None:
        """Write the completed gradients of some people: (n, d + 1)."""
        start = 0
        for layer in self.layers:
            layer.write(part, out[:, start : start + layer.size])
            start += layer.size
        out[:, start] = self.rest[part]
        out[:, :start] *= self.scales[part, np.newaxis]
