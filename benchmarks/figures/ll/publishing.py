"""The data of Li and Li's experiments and every way to publish it, by the paper's names.

Each vector is published by itself, for one-coordinate neighbours with β = 1 and δ = 1e-6. Pixels are in [0, 1]. Of
texts, which words or trigrams they have is published, as 0 and 1: β = 1 is one of them more or less. The grid has
at least 255 steps in one β: noise on a lattice has three squared steps of variance more than it would need (Theory
3), which on steps of β, as integers have them, would exceed an OPORP's bins at large ε.

Two baselines are the benchmarks' own, in floating point: noise on raw vectors of many dimensions, drawn by symmetry
(`noisy_rows`), and DP-RP-G, whose classical σ gives no (ε, δ) at large ε (Figure 12).

How it misleads: the norm bound of DP-SignRP-RR is the least norm in the data, which a publisher would have to know
without looking; and individual privacy is not differential privacy.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import streamsketch as ss
from benchmarks import sigmas
from benchmarks.data import Data, Images, Texts
from benchmarks.symmetry import noisy_rows, rotated
from streamsketch.privacy.gaussian import gaussian_sigma

DELTA = 1e-6
NOISE, SIGNS, INDIVIDUAL = "noisy vectors", "private signs", "individual privacy only"
GRID = 255
RAW, OPT = "Raw-data-G-OPT", "DP-RP-G-OPT"
MAX_DENSE_DIM = 4096  # of what needs all entries of a row independent, noise on every coordinate, or an enumeration

Release = ss.PrivateSketch | ss.signs.SignSketch | ss.signs.IndividualSignSketch
Published = Sequence[Release] | NDArray[np.float64]
"""Releases, or rows of the benchmarks' own baselines."""

Map = Callable[[int], ss.projections.Projection]
Publish = Callable[[Any, float, int], Published]


@dataclass(frozen=True)
class Vectors:
    """Vectors to publish, one a row.

    Parameters
    ----------
    name
        Of the data.
    rows
        int64, (n, dim): an array, or CSR.
    labels
        (n,).
    unit
        The number that is 1 in the paper's units.
    sketch_dims
        The k of the experiments.
    """

    name: str
    rows: Any
    labels: NDArray[np.int64]
    unit: int
    sketch_dims: tuple[int, ...]

    @property
    def dim(self) -> int:
        """Coordinates of a vector."""
        return int(self.rows.shape[1])

    @property
    def dense(self) -> bool:
        """Whether the methods that need all coordinates can be run."""
        return self.dim <= MAX_DENSE_DIM

    def least_norm(self) -> float:
        """Return the least norm of a row."""
        return float(np.sqrt((self.rows**2).sum(axis=1).min()))

    def sample(self, count: int) -> "Vectors":
        """Return rows in random order, the same each time, at most ``count``."""
        chosen = np.random.default_rng(1).permutation(self.rows.shape[0])[:count]
        return replace(self, rows=self.rows[chosen], labels=self.labels[chosen])


@dataclass(frozen=True)
class Method:
    """A way to publish vectors: ``publish(rows, ε, k)``; its kind is `NOISE`, `SIGNS` or `INDIVIDUAL`."""

    name: str
    kind: str
    publish: Publish


def of_images(images: Images, sketch_dims: tuple[int, ...]) -> Vectors:
    """Return images as vectors to publish."""
    return Vectors(images.name, images.vectors, images.labels, images.white, sketch_dims)


def of_texts(texts: Texts, sketch_dims: tuple[int, ...]) -> Vectors:
    """Return which features texts have; empty ones are left out, as they are near nothing."""
    rows = sparse.csr_array((texts.vectors > 0).astype(np.int64))
    kept = np.diff(rows.indptr) > 0
    return Vectors(texts.name, rows[kept], texts.labels[kept].astype(np.int64), 1, sketch_dims)


def image_sets(data: Data, k: int) -> list[Vectors]:
    """Return the sets of images at hand: scikit-learn's digits, to project to half their 64 pixels, and larger ones."""
    large = [images for images in (data.mnist(), data.fashion()) if images is not None]
    return [of_images(data.digits(), (32,)), *(of_images(images, (k,)) for images in large)]


def text_sets(data: Data, k: int) -> list[Vectors]:
    """Return the sets of texts at hand."""
    return [of_texts(texts, (k,)) for texts in (data.rcv1(), data.spam()) if texts is not None]


def methods(vectors: Vectors) -> list[Method]:
    """Return every method that can publish these vectors."""
    neighbours = ss.OneCoordinate(vectors.unit, unit="coordinate")
    raw, rademacher, gaussian, coarse, oporp = _maps(vectors)

    def noise(name: str, projection: Map) -> Method:
        def publish(rows: Any, epsilon: float, k: int) -> Published:
            how = ss.release.PrivateProjection(
                projection=projection(k), epsilon=epsilon, delta=DELTA, neighbours=neighbours, mechanism="gaussian"
            )
            return how.release(rows)

        return Method(name, NOISE, publish)

    def signs(name: str, projection: Map, mechanism: Any, **more: Any) -> Method:
        def publish(rows: Any, epsilon: float, k: int) -> Published:
            how = mechanism(epsilon=epsilon, neighbours=neighbours, **more)
            released: Published = how.release_rows(projection(k), rows)
            return released

        return Method(name, INDIVIDUAL if name.startswith("iDP") else SIGNS, publish)

    classical = sigmas.classical
    own = [Method("DP-RP-G", NOISE, lambda rows, epsilon, k: noisy_projection(vectors, rows, epsilon, k, classical))]
    library = [
        noise("DP-RP-G-OPT-B", rademacher),
        noise("DP-OPORP", oporp),
        signs("DP-SignRP-RR-smooth", rademacher, ss.signs.DPSignRPRRSmooth),
        signs("DP-SignOPORP-RR", oporp, ss.signs.DPSignOPORPRR),
        signs("DP-SignOPORP-RR-smooth", oporp, ss.signs.DPSignOPORPRRSmooth),
        signs("DP-Sign-logistic, OPORP", oporp, ss.signs.DPSignLogistic),
        signs("iDP-SignOPORP", oporp, ss.signs.IDPSignOPORP),
        signs("iDP-SignRP-RR", rademacher, ss.signs.IDPSignRPRR),
        signs("iDP-SignRP-G", rademacher, ss.signs.IDPSignRPG, delta=DELTA),
        signs("iDP-SignOPORP-G", oporp, ss.signs.IDPSignOPORPG, delta=DELTA),
    ]
    if not vectors.dense:
        return [
            Method(RAW, NOISE, NoisyRaw(vectors).publish),
            *own,
            Method(OPT, NOISE, lambda rows, epsilon, k: noisy_projection(vectors, rows, epsilon, k, gaussian_sigma)),
            *library,
        ]
    bounded = {"delta": DELTA, "norm_bound": vectors.least_norm()}
    return [
        noise(RAW, raw),
        *own,
        noise(OPT, coarse),
        *library[:2],
        signs("DP-SignRP-RR, paper's count", gaussian, ss.signs.DPSignRPRR, counting="paper", **bounded),
        signs("DP-SignRP-RR", gaussian, ss.signs.DPSignRPRR, **bounded),
        *library[2:],
    ]


class NoisyRaw:
    """Rows with Gaussian noise of Δ2 = β on every coordinate, up to one rotation of all; rotated once for every ε."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors
        self._rows: Any = None
        self._rotated = np.empty((0, 0))

    def publish(self, rows: Any, epsilon: float, k: int) -> NDArray[np.float64]:
        """Return the noisy rows, (n, 2n)."""
        del k
        if rows is not self._rows:
            self._rows, self._rotated = rows, rotated((rows @ rows.T).toarray().astype(np.float64))
        sigma = self.vectors.unit * gaussian_sigma(epsilon, DELTA)
        return noisy_rows(self._rotated, self.vectors.dim, sigma, np.random.default_rng(int(1000 * epsilon)))


def noisy_projection(
    vectors: Vectors, rows: Any, epsilon: float, k: int, sigma: Callable[[float, float], float]
) -> NDArray[np.float64]:
    """Return rows times a Gaussian matrix, (n, k), with noise of σ(ε, δ)·Δ2 for the matrix in use.

    Of columns that no row touches only the norms are drawn.
    """
    rng = np.random.default_rng(1)
    used = np.unique(rows.indices) if sparse.issparse(rows) else np.arange(vectors.dim)
    matrix = rng.standard_normal((used.size, k), dtype=np.float32)
    largest = float((matrix**2).sum(axis=1).max())
    if used.size < vectors.dim:
        largest = max(largest, float(rng.chisquare(k, vectors.dim - used.size).max()))
    cells = np.asarray(rows[:, used] @ matrix, dtype=np.float64)
    noise = np.random.default_rng(int(1000 * epsilon)).standard_normal(cells.shape)
    return np.asarray(cells + vectors.unit * math.sqrt(largest) * sigma(epsilon, DELTA) * noise)


def left_out(sets: Sequence[Vectors]) -> str:
    """Return which method is not run on wide sets and why, as a sentence; nothing if there are none."""
    wide = [vectors.name for vectors in sets if not vectors.dense]
    return (
        f"DP-SignRP-RR, which is in none of these figures, is not run on {' and '.join(wide)}: it needs matrices that "
        "are independent in every entry. "
        if wide
        else ""
    )


@dataclass(frozen=True)
class Shares:
    """Shares of cells: an OPORP's bins that are 0, whose signs are coins; Rademacher sums that iDP-SignRP perturbs."""

    empty: float
    near: float


def shares(vectors: Vectors, k: int) -> Shares:
    """Look at the cells of vectors under the maps that publish them."""
    _, rademacher, _, _, oporp = _maps(vectors)
    bins, sums = (projection(k).transform(vectors.rows, exact=True) for projection in (oporp, rademacher))
    steps = vectors.unit * -(-GRID // vectors.unit)
    return Shares(float(np.mean(bins == 0)), float(np.mean(np.abs(sums) <= steps)))


def told_near(near: Mapping[str, float]) -> str:
    """Return a sentence on the sums that iDP-SignRP perturbs on each set."""
    listed = "; ".join(f"{name} {100 * share:.0f} %" for name, share in near.items())
    return f"iDP-SignRP perturbs only sums within β of 0, which short vectors have more of: {listed}. "


def _maps(vectors: Vectors) -> tuple[Map, Map, Map, Map, Map]:
    dim, grid = vectors.dim, Fraction(1, -(-GRID // vectors.unit))
    return (
        lambda _: ss.projections.Identity(dim=dim, resolution=grid),
        lambda k: ss.projections.Rademacher(dim=dim, sketch_dim=k, seed=1, resolution=grid),
        lambda k: ss.projections.GaussianProjection(
            dim=dim, sketch_dim=k, seed=1, resolution=grid, independence=max(4, dim)
        ),
        # coarse, so that noise for ε = 0.1 fits the exact sampler
        lambda k: ss.projections.GaussianProjection(dim=dim, sketch_dim=k, seed=1, resolution=grid, fraction_bits=4),
        lambda k: ss.projections.OPORP(dim=dim, sketch_dim=k, seed=1, resolution=grid),
    )


def features(published: Published) -> NDArray[np.float64]:
    """Return published vectors as numbers: noisy cells, or signs as ±1; float64, (n, k)."""
    if isinstance(published, np.ndarray):
        return published
    rows = [release.values if isinstance(release, ss.PrivateSketch) else release.signs for release in published]
    return np.stack(rows).astype(np.float64)
