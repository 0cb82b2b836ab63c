"""Li and Li 2023, Figures 5, 13, 14 and 16: retrieval from private vectors, precision@10 and recall@100 against ε.

Every vector of a collection and every query is published by itself (`publishing`); the truth is each query's 50 nearest
by exact cosine. Precision@10: how many of the first ten found are among those 50. Recall@100: how many of the 50 are
among the first hundred. Signs are ranked by Hamming distance, noisy vectors by their cosine. Digits always; MNIST for
Figures 5, 13 and 16; Fashion-MNIST where Figure 14 has CIFAR; mails' trigrams besides.

How it misleads: truth and ranking are the cosine's, which suits signs; for the rest see `publishing`.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import sparse

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.figures.ll.claims import BINS, RAW_SIGNS, SMOOTH, checks
from benchmarks.figures.ll.drawing import legend_below, legend_under, look, panels
from benchmarks.figures.ll.publishing import (
    INDIVIDUAL,
    NOISE,
    SIGNS,
    Published,
    Shares,
    Vectors,
    features,
    image_sets,
    left_out,
    methods,
    shares,
    text_sets,
    told_near,
)
from benchmarks.rows import Effort
from benchmarks.study import Study, Table

EPSILONS = (0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CELLS = (8, 16, 32, 64, 128, 256, 512)
COMPARED = ("DP-OPORP", "DP-SignRP-RR-smooth", "DP-SignOPORP-RR-smooth", "iDP-SignRP-RR")
PAPERS = {"MNIST": "MNIST", "Fashion-MNIST": "Fashion-MNIST for CIFAR"}
"""The sets that the paper's figures are held against, and what they stand for."""
TRUTH, FIRST, HUNDRED = 50, 10, 100

Scores = NDArray[Any]


@dataclass(frozen=True)
class Point:
    """One point of a curve; ``scores`` is each query's precision@10."""

    data: str
    method: str
    kind: str
    sketch_dim: int
    epsilon: float
    scores: NDArray[np.float64]
    recall_at_100: float

    @property
    def precision_at_10(self) -> float:
        """The mean over the queries."""
        return float(self.scores.mean())

    @property
    def half_width(self) -> float:
        """Half of a 95 % interval of precision@10, for the queries' spread."""
        return 1.96 * float(self.scores.std()) / math.sqrt(self.scores.size)


def run(effort: Effort, data: Data) -> Study:
    """Publish, search and compare, on every set at hand; then with other numbers of cells, on the images."""
    queries, collection = effort.size(200, 40), effort.size(3000, 300)
    epsilons = {"full": EPSILONS, "quick": (0.02, 5.0, 50.0)}.get(effort.name, (1.0, 5.0, 50.0))
    k = effort.size(256, 64)
    images = image_sets(data, k)
    texts = text_sets(data, k) if effort.name == "full" else []
    sets = [*images, *(text for text in texts if text.name != "RCV1")]
    points: list[Point] = []
    seconds = {}
    for vectors in sets:
        start = time.process_time()
        points += measure(vectors, queries, collection, epsilons)
        seconds[vectors.name] = time.process_time() - start
    most = effort.size(512, 64)
    others = [replace(v, sketch_dims=tuple(k for k in CELLS if k <= min(v.dim, most))) for v in images]
    by_cells = [point for v in others for point in measure(v, queries, collection, [5.0], COMPARED)]
    names = [vectors.name for vectors in sets]
    of = {name: [point for point in points if point.data == name] for name in names}
    pictures = {name.lower(): _picture(of[name]) for name in names}
    pictures["cells"] = _picture_of_cells(by_cells)
    sizes = f"{queries} queries among up to {collection:,} vectors"
    cells = {vectors.name: shares(vectors.sample(200), vectors.sketch_dims[0]) for vectors in sets}
    near = {name: share.near for name, share in cells.items()}
    finding = (
        f"Precision@10 of {sizes}, δ = 1e-6, β = 1. {left_out(sets)}{told_near(near)}"
        f"{_finding(points, by_cells, cells)}"
    )
    return Study(
        [_table(sizes, points), _table(f"{sizes}, by the number of cells", by_cells)],
        finding,
        pictures,
        source="Li and Li 2023, Figures 5, 13, 14 and 16",
        checks=[
            check
            for name in ([name for name in PAPERS if name in names] or names)
            for check in checks(of[name], PAPERS.get(name, name), 1.0)
        ],
        shortened=_shortened(sets, seconds, queries + collection),
    )


def _shortened(sets: Sequence[Vectors], seconds: Mapping[str, float], drawn: int) -> str:
    """Return what was not run, and what it would cost."""
    parts = []
    for vectors in sets:
        count = vectors.rows.shape[0]
        if vectors.name in PAPERS and count > drawn:
            hours = seconds[vectors.name] * (count / drawn - 1) / 3600
            parts.append(
                f"{drawn:,} of {count:,} vectors of {vectors.name}, as each is published once for every method and ε: "
                f"the rest would take {hours:.1f} hours of one core."
            )
    if any(vectors.name in PAPERS for vectors in sets):
        parts.append("CIFAR is not at hand; 900 images of Fashion-MNIST stand for it.")
    else:
        parts.append("The paper's MNIST is not at hand; scikit-learn's digits stand for it.")
    return " ".join(parts)


def _table(title: str, points: Sequence[Point]) -> Table:
    rows = [
        (p.data, p.method, p.sketch_dim, p.epsilon, p.precision_at_10, p.half_width, p.recall_at_100) for p in points
    ]
    return Table(title, ("data", "method", "k", "ε", "precision@10", "± at 95 %", "recall@100"), rows)


def measure(
    vectors: Vectors, queries: int, collection: int, epsilons: Sequence[float], names: Sequence[str] | None = None
) -> list[Point]:
    """Publish, search and compare with the truth: one point for each method, sketch_dim and ε."""
    drawn = vectors.sample(queries + collection)
    cosines = cosine_similarity(drawn.rows[:queries], drawn.rows[queries:])
    truth = _first(-cosines, TRUTH)
    points = []
    for method in methods(vectors):
        if names is not None and method.name not in names:
            continue
        for k in vectors.sketch_dims:
            for epsilon in epsilons:
                published = method.publish(drawn.rows, epsilon, k)
                nearest = _first(far(published[:queries], published[queries:]), HUNDRED)
                hits = np.array([np.isin(row, wanted) for row, wanted in zip(nearest, truth, strict=True)])
                precisions = hits[:, :FIRST].mean(axis=1)
                recall = float(hits.sum(axis=1).mean()) / truth.shape[1]
                points.append(Point(vectors.name, method.name, method.kind, k, epsilon, precisions, recall))
    return points


def far(queries: Published, collection: Published) -> Scores:
    """Return how unlike published vectors are: minus the cosine of noisy cells, or the Hamming distance of signs."""
    if isinstance(queries, np.ndarray) or isinstance(queries[0], ss.PrivateSketch):
        return -cosine_similarity(features(queries), features(collection))
    asked, searched = ([r for r in part if not isinstance(r, ss.PrivateSketch)] for part in (queries, collection))
    return ss.signs.hamming_distances(asked, searched)


def cosine_similarity(queries: Any, collection: Any) -> Scores:
    """Return the cosine of each row with each other, of arrays or CSR; 0 for a row of zeros."""
    parts = []
    for rows in (queries, collection):
        numbers = rows.astype(np.float64)
        lengths = np.maximum(np.sqrt(np.asarray((numbers**2).sum(axis=1))), 1e-12)
        parts.append(sparse.diags_array(1 / lengths) @ numbers)
    scores = parts[0] @ parts[1].T
    return np.asarray(scores.toarray() if sparse.issparse(scores) else scores)


def _finding(points: Sequence[Point], by_cells: Sequence[Point], cells: Mapping[str, Shares]) -> str:
    signs, last = SMOOTH, max(point.epsilon for point in points)
    at = {(p.data, p.method): p.precision_at_10 for p in points if p.epsilon == last}
    limits = "; ".join(
        f"{name} {at[name, signs]:.2f}, {at[name, RAW_SIGNS]:.2f} and {at[name, BINS]:.2f} "
        f"({100 * share.empty:.0f} % of bins are 0)"
        for name, share in cells.items()
    )
    lower = all(at[name, signs] < min(at[name, RAW_SIGNS], at[name, BINS]) for name in cells)
    best_cells = []
    for name in dict.fromkeys(point.data for point in by_cells):
        own = [point for point in by_cells if (point.data, point.method) == (name, signs)]
        best, most = max(own, key=lambda point: point.precision_at_10), own[-1]
        high, far_out = best.precision_at_10, most.precision_at_10
        best_cells.append(f"{name} k = {best.sketch_dim} ({high:.2f}; {far_out:.2f} at {most.sketch_dim})")
    cause = (
        "So signs of small bins say less than the bins do, and less than signs of long sums, without any flip: that is "
        "the method on these data, not its noise and not the code. "
        if lower
        else ""
    )
    return (
        f"At ε = {last:g}, where next to no sign is flipped but of bins that are 0, precision@10 of {signs}, "
        f"iDP-SignRP-RR and DP-OPORP is: {limits}. {cause}The k at which {signs} does best at ε = 5 is, for "
        f"{', for '.join(best_cells)}. The paper's plots are not in the text we have, so its sentences are what we "
        "hold against our numbers; what it says of DP-SignOPORP at ε = 5 and 10 is in its abstract (arXiv 2306.01751)."
    )


def _picture(points: Sequence[Point]) -> Figure:
    name, k = points[0].data, points[0].sketch_dim
    kinds = (NOISE, SIGNS, INDIVIDUAL)
    figure, axes = panels(f"Retrieval on {name}, k = {k}, β = 1, δ = 1e-6", [*kinds, "", "", ""], rows=2, below=0.6)
    for column, kind in enumerate(kinds):
        own = [point for point in points if point.kind == kind and point.sketch_dim == k]
        for place, method in enumerate(dict.fromkeys(point.method for point in own)):
            curve = [point for point in own if point.method == method]
            epsilons = [point.epsilon for point in curve]
            axes[column].plot(epsilons, [point.precision_at_10 for point in curve], label=method, **look(place))
            axes[column + 3].plot(epsilons, [point.recall_at_100 for point in curve], label=method, **look(place))
        axes[column + 3].set_xlabel("ε")
        legend_under(axes[column + 3])
    for panel in axes:
        panel.set_xscale("log")
        panel.set_ylim(0, 1)
    axes[0].set_ylabel("precision@10")
    axes[3].set_ylabel("recall@100")
    return figure


def _picture_of_cells(points: Sequence[Point]) -> Figure:
    names = list(dict.fromkeys(point.data for point in points))
    figure, axes = panels("Retrieval against the number of cells k, ε = 5", names)
    for panel, name in zip(axes, names, strict=True):
        for place, method in enumerate(COMPARED):
            curve = [point for point in points if (point.data, point.method) == (name, method)]
            cells = [point.sketch_dim for point in curve]
            panel.plot(cells, [point.precision_at_10 for point in curve], label=method, **look(place))
        panel.set_xscale("log", base=2)
        panel.set_ylim(0, 1)
        panel.set_xlabel("cells k")
    axes[0].set_ylabel("precision@10")
    legend_below(figure, axes[0], 4)
    return figure


def _first(scores: Scores, count: int) -> NDArray[np.intp]:
    return np.argsort(scores, axis=1, kind="stable")[:, :count]
