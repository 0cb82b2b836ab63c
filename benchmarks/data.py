"""The data sets that studies run on: scikit-learn's digits always, larger ones from a folder where it is given."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True)
class Images:
    """Labelled images as rows of integers, and the number that is white."""

    name: str
    vectors: NDArray[np.int64]
    labels: NDArray[np.int64]
    white: int


@dataclass(frozen=True)
class Texts:
    """Texts as sparse rows of features, in one of two classes."""

    name: str
    vectors: sparse.csr_matrix
    labels: NDArray[np.bool_]


@dataclass(frozen=True)
class Data:
    """Data sets by name; a set whose file is not in the folder is None.

    Parameters
    ----------
    folder
        Where ``mnist.npz``, ``fashion_mnist_sprite900.npz``, ``rcv1_small_csr.npz`` and
        ``spamassassin_trigrams_csr.npz`` lie, any of them; None is no folder.
    results
        Where long studies keep what they have finished, so that a run that was interrupted continues; None is nowhere.
    """

    folder: Path | None = None
    results: Path | None = None

    def digits(self) -> Images:
        """Return scikit-learn's 1797 digits of 8 by 8 pixels."""
        from sklearn.datasets import load_digits  # noqa: PLC0415 - takes its time to load

        digits = load_digits()
        return Images("digits", digits.data.astype(np.int64), digits.target.astype(np.int64), 16)

    def mnist(self) -> Images | None:
        """Return the 60,000 training images of MNIST."""
        return self._images("MNIST", "mnist.npz", "x_train", "y_train")

    def mnist_test(self) -> Images | None:
        """Return the test images of MNIST that the file holds."""
        return self._images("MNIST test", "mnist.npz", "x_test", "y_test")

    def fashion(self) -> Images | None:
        """Return the images of Fashion-MNIST that the file holds."""
        return self._images("Fashion-MNIST", "fashion_mnist_sprite900.npz", "x", "y")

    def rcv1(self) -> Texts | None:
        """Return a thousand news texts of RCV1, rows of length 1 in 47,237 dimensions."""
        path = self._path("rcv1_small_csr.npz")
        if path is None:
            return None
        with np.load(path) as arrays:
            parts = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
            return Texts("RCV1", sparse.csr_matrix(parts, shape=tuple(arrays["shape"])), arrays["label"] > 0)

    def spam(self) -> Texts | None:
        """Return counts of byte trigrams in 6294 mails, in 2^24 dimensions."""
        path = self._path("spamassassin_trigrams_csr.npz")
        if path is None:
            return None
        with np.load(path) as arrays:
            starts, summed = arrays["indptr"], np.cumsum(arrays["delta_indices"], dtype=np.int64)
            before = np.concatenate([[0], summed])[starts[:-1]]
            parts = (arrays["counts"].astype(np.int64), summed - np.repeat(before, np.diff(starts)), starts)
            return Texts("SpamAssassin", sparse.csr_matrix(parts, shape=tuple(arrays["shape"])), arrays["label"] > 0)

    def _images(self, name: str, file: str, vectors: str, labels: str) -> Images | None:
        path = self._path(file)
        if path is None:
            return None
        with np.load(path) as arrays:
            pixels = arrays[vectors]
            return Images(name, pixels.reshape(len(pixels), -1).astype(np.int64), arrays[labels].astype(np.int64), 255)

    def _path(self, name: str) -> Path | None:
        path = None if self.folder is None else self.folder / name
        return path if path is not None and path.exists() else None
