"""Li and Li 2023, Figures 5, 13, 14 and 16: retrieval from private vectors, precision@10 and recall@100 against ε.

Every vector of a collection and every query is published by itself (`publishing`); the truth is each query's 50 nearest
by exact cosine. Precision@10: how many of the first ten found are among those 50. Recall@100: how many of the 50 are
among the first hundred. Signs are ranked by Hamming distance, noisy vectors by their cosine. Digits always; MNIST for
Figures 5, 13 and 16; Fashion-MNIST where Figure 14 has CIFAR; mails' trigrams besides.

How it misleads: truth and ranking are the cosine's, which suits signs; for the rest see `publishing`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import sparse

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.figures.ll.claims import FLAT, Claim, Pair, above, table, told
from benchmarks.figures.ll.drawing import legend_below, legend_under, look, panels
from benchmarks.figures.ll.publishing import (
    INDIVIDUAL,
    NOISE,
    SIGNS,
    Release,
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

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CELLS = (8, 16, 32, 64, 128, 256, 512)
COMPARED = ("DP-OPORP", "DP-SignRP-RR-smooth", "DP-SignOPORP-RR-smooth", "iDP-SignRP-RR")
TRUTH, FIRST, HUNDRED = 50, 10, 100

Scores = NDArray[Any]


@dataclass(frozen=True)
class Point:
    """One point of a curve; ``half_width`` is that of a 95 % interval of precision@10, for the queries' spread."""

    data: str
    method: str
    kind: str
    sketch_dim: int
    epsilon: float
    precision_at_10: float
    half_width: float
    recall_at_100: float


def run(effort: Effort, data: Data) -> Study:
    """Publish, search and compare, on every set at hand; then with other numbers of cells, on the images."""
    queries, collection = effort.size(200, 40), effort.size(3000, 300)
    epsilons = {"full": EPSILONS, "quick": (1.0, 5.0, 10.0, 50.0)}.get(effort.name, (1.0, 5.0, 50.0))
    k = effort.size(256, 64)
    images = image_sets(data, k)
    sets = [*images, *(texts for texts in text_sets(data, k) if texts.name != "RCV1")]
    points = [point for vectors in sets for point in measure(vectors, queries, collection, epsilons)]
    most = effort.size(512, 64)
    others = [replace(v, sketch_dims=tuple(k for k in CELLS if k <= min(v.dim, most))) for v in images]
    by_cells = [point for v in others for point in measure(v, queries, collection, [5.0], COMPARED)]
    names = list(dict.fromkeys(point.data for point in points))
    claims = [claim for name in names for claim in held_against(name, points)]
    pictures = {name.lower(): _picture([point for point in points if point.data == name]) for name in names}
    pictures["cells"] = _picture_of_cells(by_cells)
    sizes = f"{queries} queries among up to {collection:,} vectors"
    cells = {vectors.name: shares(vectors.sample(200), vectors.sketch_dims[0]) for vectors in sets}
    near = {name: share.near for name, share in cells.items()}
    flat = [claim.data for claim in claims if claim.text == FLAT and claim.holds]
    finding = (
        f"What the paper says, against precision@10 of {sizes}, δ = 1e-6, β = 1:\n\n{told(claims)}\n\n"
        f"{left_out(sets)}{told_near(near, flat)}{_finding(points, by_cells, cells)}"
    )
    tables = [table(claims), _table(sizes, points), _table(f"{sizes}, by the number of cells", by_cells)]
    return Study(tables, finding, pictures)


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
                releases = method.publish(drawn.rows, epsilon, k)
                found = _first(far(releases[:queries], releases[queries:]), HUNDRED)
                hits = np.array([np.isin(row, wanted) for row, wanted in zip(found, truth, strict=True)])
                precisions = hits[:, :FIRST].mean(axis=1)
                half = 1.96 * float(precisions.std()) / math.sqrt(queries)
                recall = float(hits.sum(axis=1).mean()) / truth.shape[1]
                points.append(
                    Point(vectors.name, method.name, method.kind, k, epsilon, float(precisions.mean()), half, recall)
                )
    return points


def far(queries: Sequence[Release], collection: Sequence[Release]) -> Scores:
    """Return how unlike published vectors are: minus the cosine of noisy cells, or the Hamming distance of signs."""
    if isinstance(queries[0], ss.PrivateSketch):
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


def held_against(name: str, points: Sequence[Point]) -> list[Claim]:
    """Hold what the paper says of precision@10 against one set's points."""
    own = [point for point in points if point.data == name]
    epsilons = sorted({point.epsilon for point in own})
    at = {(point.method, point.epsilon): point.precision_at_10 for point in own}
    half = {(point.method, point.epsilon): point.half_width for point in own}
    individual = {epsilon: at["iDP-SignRP-RR", epsilon] for epsilon in epsilons}
    small = [epsilon for epsilon in epsilons if epsilon <= 1]
    low, high, least = min(individual.values()), max(individual.values()), min(individual[e] for e in small)
    best = max(p.precision_at_10 for p in own if p.kind in (NOISE, SIGNS) and p.epsilon in small)
    apart = max(abs(at["DP-RP-G-OPT-B", epsilon] - at["DP-OPORP", epsilon]) for epsilon in epsilons)
    middle = [epsilon for epsilon in epsilons if epsilon in (5.0, 10.0)]

    def over(first: str, second: str, where: Sequence[float], text: str) -> Claim:
        pairs = [Pair(e, (at[first, e], half[first, e]), (at[second, e], half[second, e])) for e in where]
        return above(text, name, pairs)

    claims = [
        Claim(FLAT, name, low > 0.9 * high, f"{low:.2f} to {high:.2f}"),
        Claim(
            "iDP-SignRP is far above all private methods for ε ≤ 1", name, least > 2 * best, f"{least:.2f}, {best:.2f}"
        ),
        Claim("DP-RP-G-OPT-B and DP-OPORP perform equally", name, apart < 0.1, f"at most {apart:.2f} apart"),
    ]
    signs = "DP-SignOPORP-RR-smooth"
    claims += [over(signs, "DP-OPORP", [e], f"{signs} is above DP-OPORP at ε = {e:g}") for e in middle]
    claims.append(over(signs, "DP-SignRP-RR-smooth", middle, f"{signs} is above DP-SignRP-RR-smooth at ε = 5 to 10"))
    if any(point.method == "Raw-data-G-OPT" for point in own):
        text = "DP-OPORP is above noise on the raw data at ε = 5 to 10"
        claims.append(over("DP-OPORP", "Raw-data-G-OPT", middle, text))
    return claims


def _finding(points: Sequence[Point], by_cells: Sequence[Point], cells: Mapping[str, Shares]) -> str:
    signs, last = "DP-SignOPORP-RR-smooth", max(point.epsilon for point in points)
    at = {(p.data, p.method): p.precision_at_10 for p in points if p.epsilon == last}
    limits = "; ".join(
        f"{name} {at[name, signs]:.2f}, {at[name, 'iDP-SignRP-RR']:.2f} and {at[name, 'DP-OPORP']:.2f} "
        f"({100 * share.empty:.0f} % of bins are 0)"
        for name, share in cells.items()
    )
    lower = all(at[name, signs] < min(at[name, "iDP-SignRP-RR"], at[name, "DP-OPORP"]) for name in cells)
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
        "hold against our numbers; it has CIFAR where we have Fashion-MNIST."
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
