"""Retrieval from private vectors: precision@10 and recall@100 against ε, the experiment of Li and Li 2023, Section 5.

Every vector of a collection and every query is published by itself, for one-coordinate neighbours with β = 1 on pixels
in [0, 1] and δ = 1e-6; the truth is each query's 50 nearest by exact cosine. Precision@10: how many of the first ten
found are among those 50. Recall@100: how many of the 50 are among the first hundred. Signs are ranked by Hamming
distance, noisy vectors by their cosine.

How it misleads: truth and ranking are the cosine's, which suits signs; the norm bound of DP-SignRP-RR is the least norm
in the data, which a publisher would have to know without looking; and individual privacy is not differential privacy.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import machine
from streamsketch.signs.hamming import distances_between, words_of

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
TRUTH, FIRST, HUNDRED = 50, 10, 100

Matrix = NDArray[np.int64]
Scores = NDArray[Any]
Search = Callable[[Matrix, Matrix, float, int], Scores]


@dataclass(frozen=True)
class Images:
    """Integer vectors, and the number that is 1 in the paper's units."""

    name: str
    vectors: Matrix
    white: int
    sketch_dims: tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """One point of a curve."""

    method: str
    sketch_dim: int
    epsilon: float
    precision_at_10: float
    recall_at_100: float


def read_images(path: Path | None) -> Images:
    """Return the images of an ``.npz`` file (its ``x_train`` or ``x``, bytes), or scikit-learn's digits without one."""
    if path is None:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - an optional dependency

        return Images("digits", load_digits().data.astype(np.int64), 16, (64, 128))
    with np.load(path) as arrays:
        images = arrays["x_train" if "x_train" in arrays else "x"]
    return Images(path.stem, images.reshape(len(images), -1).astype(np.int64), 255, (256, 512, 1024))


def methods(images: Images) -> dict[str, Search]:
    """Return what publishes and scores, by the paper's names; scores fall with likeness."""
    neighbours = ss.OneCoordinate(images.white, unit="pixel")
    least = float(np.sqrt((images.vectors**2).sum(axis=1).min()))
    dim = images.vectors.shape[1]
    maps: dict[str, Callable[[int], ss.Projection]] = {
        "raw": lambda _: ss.Identity(dim=dim),
        "rademacher": lambda k: ss.Rademacher(dim=dim, sketch_dim=k, seed=1),
        "gaussian": lambda k: ss.Gaussian(dim=dim, sketch_dim=k, seed=1, independence=max(4, dim)),
        # coarse, so that noise for ε = 0.1 fits the exact sampler
        "coarse gaussian": lambda k: ss.Gaussian(dim=dim, sketch_dim=k, seed=1, fraction_bits=4),
        "oporp": lambda k: ss.OPORP(dim=max(dim, k), sketch_dim=k, seed=1),
    }

    def noise(name: str) -> Search:
        return _by_noise(maps[name], neighbours)

    def signs(name: str, kind: Any, **more: Any) -> Search:
        return _by_signs(maps[name], lambda epsilon: kind(epsilon=epsilon, neighbours=neighbours, **more))

    bounded = {"delta": DELTA, "norm_bound": least}
    return {
        "Raw-data-G-OPT": noise("raw"),
        "DP-RP-G-OPT": noise("coarse gaussian"),
        "DP-RP-G-OPT-B": noise("rademacher"),
        "DP-OPORP": noise("oporp"),
        "DP-SignRP-RR, paper's count": signs("gaussian", ss.signs.DPSignRPRR, counting="paper", **bounded),
        "DP-SignRP-RR": signs("gaussian", ss.signs.DPSignRPRR, **bounded),
        "DP-SignRP-RR-smooth": signs("rademacher", ss.signs.DPSignRPRRSmooth),
        "DP-SignOPORP-RR": signs("oporp", ss.signs.DPSignOPORPRR),
        "DP-SignOPORP-RR-smooth": signs("oporp", ss.signs.DPSignOPORPRRSmooth),
        "DP-Sign-logistic, OPORP": signs("oporp", ss.signs.DPSignLogistic),
        "iDP-SignOPORP": signs("oporp", ss.signs.IDPSignOPORP),
        "iDP-SignRP-RR": signs("rademacher", ss.signs.IDPSignRPRR),
        "iDP-SignRP-G": signs("rademacher", ss.signs.IDPSignRPG, delta=DELTA),
    }


def _by_noise(projection: Callable[[int], ss.Projection], neighbours: ss.Neighbours) -> Search:
    def search(queries: Matrix, collection: Matrix, epsilon: float, k: int) -> Scores:
        chosen = projection(k)
        publish = ss.PrivateProjection(
            projection=chosen, epsilon=epsilon, delta=DELTA, neighbours=neighbours, mechanism="gaussian"
        )
        noisy = [_cells(publish.release(_padded(rows, chosen))) for rows in (queries, collection)]
        return _far_by_cosine(*noisy)

    return search


def _by_signs(projection: Callable[[int], ss.Projection], mechanism: Callable[[float], Any]) -> Search:
    def search(queries: Matrix, collection: Matrix, epsilon: float, k: int) -> Scores:
        chosen, publish = projection(k), mechanism(epsilon)
        words = [words_of(publish.release_rows(chosen, _padded(rows, chosen))) for rows in (queries, collection)]
        return distances_between(*words)

    return search


def measure(
    images: Images,
    sketch_dims: Sequence[int],
    *,
    epsilons: Sequence[float] = EPSILONS,
    queries: int = 200,
    collection: int = 5000,
    names: Sequence[str] | None = None,
) -> list[Point]:
    """Publish, search and compare with the truth: one point for each method, sketch_dim and ε."""
    chosen = np.random.default_rng(1).permutation(len(images.vectors))[: queries + collection]
    asked, searched = images.vectors[chosen[:queries]], images.vectors[chosen[queries:]]
    truth = _first(_far_by_cosine(asked.astype(np.float64), searched.astype(np.float64)), TRUTH)
    points = []
    for name, search in methods(images).items():
        if names is not None and name not in names:
            continue
        for k in sketch_dims:
            for epsilon in epsilons:
                found = _first(search(asked, searched, epsilon, k), HUNDRED)
                hits = np.array([np.isin(row, wanted) for row, wanted in zip(found, truth, strict=True)])
                precision, recall = hits[:, :FIRST].mean(), hits.sum(axis=1).mean() / truth.shape[1]
                points.append(Point(name, k, epsilon, float(precision), float(recall)))
    return points


def write(folder: Path, images: Images, points: Sequence[Point]) -> str:
    """Write ``retrieval-<data>.json`` and ``.md``, a table a sketch_dim; return the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {"data": images.name, "machine": machine.card(), "points": [point.__dict__ for point in points]}
    (folder / f"retrieval-{images.name}.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    lines = []
    for k in dict.fromkeys(point.sketch_dim for point in points):
        own = [point for point in points if point.sketch_dim == k]
        epsilons = list(dict.fromkeys(point.epsilon for point in own))
        lines += [f"{images.name}, k = {k}: precision@10 / recall@100 in %, against ε", ""]
        lines += [
            "| | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |",
            "| --- " * (len(epsilons) + 1) + "|",
        ]
        for method in dict.fromkeys(point.method for point in own):
            cells = [
                f"{100 * point.precision_at_10:.1f} / {100 * point.recall_at_100:.1f}"
                for point in own
                if point.method == method
            ]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
        lines.append("")
    text = "\n".join(lines)
    (folder / f"retrieval-{images.name}.md").write_text(text, encoding="utf-8")
    return text


def _padded(rows: Matrix, projection: ss.Projection) -> Matrix:
    return np.pad(rows, ((0, 0), (0, projection.dim - rows.shape[1])))


def _cells(releases: Sequence[ss.PrivateSketch]) -> NDArray[np.float64]:
    return np.stack([release.values for release in releases]).astype(np.float64)


def _far_by_cosine(queries: NDArray[np.float64], collection: NDArray[np.float64]) -> Scores:
    lengths = [np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (queries, collection)]
    scores: Scores = -(queries / lengths[0]) @ (collection / lengths[1]).T
    return scores


def _first(scores: Scores, count: int) -> NDArray[np.intp]:
    return np.argsort(scores, axis=1, kind="stable")[:, :count]
