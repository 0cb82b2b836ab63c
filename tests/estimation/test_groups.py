"""Trees of streams: SciPy's format, debiased distances, and branches that noise cannot turn are stable."""

import math

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

import streamsketch as ss
from streamsketch.core.numbers import Floats
from streamsketch.estimation import Linkage
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.groups import Method, Redrawn, Source, similarity_order, tree_of
from streamsketch.estimation.measures import By, compare_blocks
from tests.counted import counted
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-4)


PROJECTION = ss.SJLT(dim=400, sketch_dim=256, sparsity=4, seed=3)


def squares(points: Floats) -> Floats:
    found: Floats = ((points[:, None] - points) ** 2).sum(axis=2)
    return found


def streams(scale: int, *, apart: int = 10) -> list[ss.Sketch]:
    """Return six streams in three pairs; two of the pairs are nearer to each other."""
    rng = salted_rng(8)
    base = rng.normal(size=(3, 400)) * [[1], [1], [2]]
    found = []
    for place in range(6):
        values = scale * (base[place % 3] + rng.normal(size=400) / apart)
        sketch = PROJECTION.sketch()
        sketch.update(np.arange(400), np.rint(values).astype(int))
        found.append(sketch)
    return found


def groups_of(tree: Linkage) -> set[tuple[int, ...]]:
    return {tuple(tree.members(row)) for row in range(len(tree.matrix))}


@pytest.mark.parametrize("method", ["average", "complete", "single", "weighted"])
def test_a_tree_is_scipys_of_squared_distances(method: Method) -> None:
    distances = squares(salted_rng(1).normal(size=(9, 3)))
    expected = hierarchy.linkage(squareform(distances, checks=False), method)
    expected[:, 2] **= 0.5
    assert tree_of(distances, method) == pytest.approx(expected)


def test_negative_distances_count_as_what_they_are() -> None:
    """0 and 1 are nearer than 2 and 3, by averages below 0; heights end at 0."""
    distances = np.array([[0.0, -5, 3, 9], [-5, 0, 5, 9], [3, 5, 0, -2], [9, 9, -2, 0]])
    tree = tree_of(distances)
    assert tree[:, :2].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert tree[:, 2] == pytest.approx([0, 0, 6.5**0.5])
    assert hierarchy.is_valid_linkage(tree)


def test_branches_that_noise_cannot_turn_are_stable_and_others_are_not() -> None:
    clear = ss.linkage([one.release(epsilon=1, neighbours=ss.L1(1)) for one in streams(1000)], draws=30)
    assert groups_of(clear) == {(0, 3), (1, 4), (2, 5), (0, 1, 3, 4), (0, 1, 2, 3, 4, 5)}
    assert clear.stability.tolist() == [1.0] * 5
    assert hierarchy.dendrogram(clear.matrix, no_plot=True)["ivl"]
    assert np.asarray(clear).shape == (5, 4)
    noisy = ss.linkage([one.release(epsilon=0.05, neighbours=ss.L1(1)) for one in streams(4)], draws=60)
    assert noisy.stability[:-1].min() < 0.5
    assert noisy.stability[-1] == 1.0


def test_streams_without_any_difference_have_no_stable_branch() -> None:
    alike = [streams(1000)[0].release(epsilon=0.1, neighbours=ss.L1(1)) for _ in range(6)]
    assert ss.linkage(alike, draws=60).stability[:-1].max() < 0.9


@pytest.mark.parametrize("by", ["distance", "cosine", "profile"])
def test_the_same_seed_gives_the_same_stability(by: By) -> None:
    releases = [one.release(epsilon=1, neighbours=ss.L1(1)) for one in streams(30)]
    first, again = (ss.linkage(releases, by=by, draws=10, seed=4) for _ in range(2))
    assert first.stability.tolist() == again.stability.tolist()
    assert np.isnan(ss.linkage(releases, by=by, draws=0).stability).all()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_draws_have_the_estimates_and_their_errors(noise: str) -> None:
    """Over 200 draws, means within 4.5 of their standard errors, and variances within half of those stated."""
    delta = 0.0 if noise == "laplace" else 1e-6
    releases = [one.release(epsilon=0.5, delta=delta, neighbours=ss.L1(1)) for one in streams(40)]
    block = block_of(releases)
    stated = compare_blocks(block, block, "distance", same=True)
    redrawn, source = Redrawn(block), Source(6)
    found = []
    for _ in range(200):
        again = redrawn.draw(source)
        found.append(compare_blocks(again, again, "distance", same=True).value)
    apart = np.triu_indices(6, 1)
    off = (np.mean(found, axis=0) - stated.value)[apart] / stated.standard_error[apart]
    assert np.abs(off).max() < 4.5 / math.sqrt(200)
    assert (np.var(found, axis=0)[apart] / stated.variance[apart]) == pytest.approx(1.0, abs=0.5)


def test_draws_have_the_noise_of_the_numbers_of_units() -> None:
    """Over 400 draws, means within 5 of their standard errors, and variances within 40 % of those stated."""
    block = block_of([counted(count, (1, 2)) for count in (50, 80, 200)])
    assert block.units is not None
    redrawn, source, found = Redrawn(block), Source(7), []
    for _ in range(400):
        units = redrawn.draw(source).units
        assert units is not None
        found.append(units.number)
    assert (np.abs(np.mean(found, axis=0) - block.units.number) <= 5 * np.sqrt(block.units.variance / 400)).all()
    assert np.var(found, axis=0) == pytest.approx(block.units.variance, rel=0.4)


def test_what_cannot_be_clustered_is_refused() -> None:
    some = streams(30)
    with pytest.raises(ss.InvalidInputError, match="at least two sketches, got 1"):
        ss.linkage(some[:1])
    with pytest.raises(ss.InvalidInputError, match="by must be"):
        ss.linkage(some, by="size")  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match=r"method must be .* got 'ward'"):
        ss.linkage(some, method="ward")  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="draws"):
        ss.linkage(some, draws=-1)
    releases = [one.release(epsilon=1, neighbours=ss.L1(1)) for one in [*some, PROJECTION.sketch()]]
    with pytest.raises(ss.InvalidInputError, match=r"1 of 7 streams cannot be compared by cosine.*places 6,"):
        ss.linkage(releases, by="cosine")
    assert len(ss.linkage(releases, draws=2).matrix) == 6


def test_near_streams_stand_side_by_side() -> None:
    order = similarity_order(squares(np.array([[0.0], [10.0], [0.1], [10.1]])))
    assert {frozenset(order[:2]), frozenset(order[2:])} == {frozenset({0, 2}), frozenset({1, 3})}
    assert similarity_order(np.zeros((2, 2))) == [0, 1]


@pytest.mark.parametrize(
    "projection",
    [
        ss.projections.Identity(dim=24),
        ss.projections.OPORP(dim=24, sketch_dim=12, seed=3),
        ss.projections.OPORP(dim=24, sketch_dim=24, seed=3),
        ss.projections.SRHT(dim=30, sketch_dim=16, seed=3),
        ss.CountSketch(dim=24, sketch_dim=16, seed=3),
    ],
    ids=lambda one: f"{type(one).__name__} {one.sketch_dim}",
)
def test_redrawn_products_have_the_moments_of_their_map(projection: ss.projections.Projection) -> None:
    """Means of the Gram matrix, and variances of its diagonal, over 3,000 draws: fails in one of 10⁵."""
    sketches = [projection.sketch() for _ in range(3)]
    for one, values in zip(sketches, ([5, 1, 0, 3], [4, -2, 6, 0], [0, 3, 3, -7]), strict=True):
        one.update(range(4), values)
    block, draws = block_of(sketches), 3000
    redrawn, source = Redrawn(block), Source(5)
    found = np.empty((draws, 3, 3))
    for place in range(draws):
        values = redrawn.draw(source).values
        found[place] = values @ values.T
    products = block.values @ block.values.T
    norms = np.diagonal(products)
    scale = np.sqrt(np.outer(norms, norms))
    spread = min(block.variance.norms + block.variance.inner, 2 / projection.sketch_dim)
    assert (
        np.abs(found.mean(axis=0) - products).max() <= (5 * math.sqrt(max(spread, 1e-20) / draws) + 1e-9) * scale.max()
    )
    variances = np.diagonal(found.var(axis=0)) / norms**2
    assert variances == pytest.approx(np.full(3, spread), rel=0.25, abs=1e-9)
