"""Joint estimates of all pairs: their laws, and how they are marked.

Their errors are in ``statistical/test_joint.py``.
"""

import json
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.core.numbers import Floats
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.estimate_arrays import JOINT_BY, JointBy
from streamsketch.estimation.joint import in_noises
from streamsketch.estimation.joint_estimate import JointEstimate, JointEstimates
from streamsketch.estimation.joint_fit import choose
from streamsketch.estimation.vector_matrices import nearest_cosines, nearest_distances, nearest_products
from streamsketch.projections import FJLT, OPORP
from streamsketch.report.page import page_of, page_with_facts
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(2e-4)


CELLS = 32
MAPS: dict[str, ss.projections.Projection] = {
    "hashed": ss.SJLT(dim=500, sketch_dim=CELLS, sparsity=4, seed=7),
    "one cell": ss.CountSketch(dim=500, sketch_dim=CELLS, seed=7),
    "permuted": OPORP(dim=512, sketch_dim=CELLS, seed=7),
    "dense": FJLT(dim=500, sketch_dim=CELLS, seed=7, density="1/2"),
}


def sketches_of(
    projection: ss.projections.Projection, sizes: tuple[int, ...] = (5, 9, 0, 40, 40, 7)
) -> list[ss.Sketch]:
    """Return sketches of streams that share most items; the third is empty, and two are alike."""
    found = []
    for size in sizes:
        sketch = projection.sketch()
        sketch.update(np.arange(60), np.full(60, size))
        sketch.update(np.arange(100, 100 + size), np.full(size, 20))
        found.append(sketch)
    return found


def releases_of(projection: ss.projections.Projection, epsilon: float = 1.0, **options: Any) -> list[ss.PrivateSketch]:
    return [sketch.release(epsilon=epsilon, neighbours=ss.L1(5), **options) for sketch in sketches_of(projection)]


RELEASES = {name: releases_of(projection) for name, projection in sorted(MAPS.items())}


def mixed(kind: str) -> list[ss.PrivateSketch | ss.Sketch]:
    """Return releases of one map whose noises differ."""
    projection = MAPS["hashed"]
    plain = RELEASES["hashed"]
    if kind == "unequal noise":
        return [*plain[:3], *releases_of(projection, 0.25)[3:]]
    if kind == "gaussian":
        return [*releases_of(projection, delta=1e-6, mechanism="gaussian")]
    if kind == "sums":
        return [
            *plain[:3],
            *(
                a.combine(b, populations="overlapping")
                for a, b in zip(releases_of(projection)[3:], plain[3:], strict=True)
            ),
        ]
    if kind == "own":
        return [*plain[:4], *sketches_of(projection)[4:]]
    if kind == "coarse":
        return [*releases_of(projection, 8.0)]
    return [*sketches_of(projection)]  # no noise


KINDS = ("coarse", "exact", "gaussian", "own", "sums", "unequal noise")
SETS: dict[str, Any] = {**RELEASES, **{kind: mixed(kind) for kind in KINDS}}


def test_measures_have_the_names_that_are_typed() -> None:
    assert get_args(JointBy) == JOINT_BY


@pytest.mark.parametrize("order", [None, "time"])
@pytest.mark.parametrize("name", sorted(SETS))
def test_joint_estimates_are_of_vectors_and_never_undefined(name: str, order: Any) -> None:
    found = {by: ss.pairwise(SETS[name], by=by, together=True, order=order) for by in JOINT_BY}
    for by, estimates in found.items():
        assert isinstance(estimates, JointEstimates)
        low, high = estimates.interval()
        everywhere = estimates.interval(level="all")
        for array in (estimates.value, estimates.standard_error, low, everywhere.low):
            assert array.shape == (6, 6)
            assert not np.isnan(array).any(), by
            assert np.allclose(array, array.T)
        assert not np.isnan(high).any()
        assert not np.isnan(everywhere.high).any()
        assert (estimates.value >= estimates.lowest).all()
        assert (estimates.value <= estimates.highest).all()
        assert (low <= estimates.value).all()
        assert (estimates.value <= high).all()
        assert (everywhere.low <= low + 1e-9 * np.abs(low)).all()
    cosines, products, distances = (found[by].value for by in ("cosine", "product", "distance"))
    assert (np.diagonal(cosines) == 1).all()
    assert np.linalg.eigvalsh(cosines)[0] > -1e-9
    assert np.linalg.eigvalsh(products)[0] > -1e-9 * np.trace(products)
    assert (np.diagonal(distances) == 0).all()
    centre = np.eye(len(distances)) - 1 / len(distances)
    assert np.linalg.eigvalsh(centre @ distances @ centre)[-1] < 1e-9 * distances.max()  # of points in a space
    assert np.allclose(found["profile"].value, 2 - 2 * cosines)


@pytest.mark.parametrize("name", sorted(SETS))
@pytest.mark.parametrize("by", ["cosine", "distance", "product"])
def test_the_result_is_the_same_in_any_order(name: str, by: JointBy) -> None:
    releases = SETS[name]
    once = ss.pairwise(releases, by=by, together=True)
    order = salted_rng(1).permutation(len(releases))
    again = ss.pairwise([releases[place] for place in order], by=by, together=True)
    assert again.model == once.model  # type: ignore[attr-defined]
    for field in ("value", "standard_error"):
        first, second = getattr(once, field)[np.ix_(order, order)], getattr(again, field)
        assert np.allclose(first, second, rtol=1e-12, atol=1e-12 * np.abs(first).max())


def test_time_reversed_gives_the_same() -> None:
    once, again = (
        ss.pairwise(releases, by="cosine", together=True, order="time").value
        for releases in (RELEASES["hashed"], RELEASES["hashed"][::-1])
    )
    assert np.allclose(once, again[::-1, ::-1], atol=1e-6)


def test_exact_sketches_keep_their_own_estimates() -> None:
    """Without noise there is nothing to gain, and cosines of cells are those of vectors already."""
    sketches = [sketch for sketch in sketches_of(MAPS["hashed"]) if sketch.state().any()]
    for by in JOINT_BY:
        together, alone = (ss.pairwise(sketches, by=by, together=each) for each in (True, False))
        assert np.allclose(together.value, alone.value, atol=1e-9 * np.abs(alone.value).max())
        assert together.secret


def test_tables_mappings_and_lists_are_alike() -> None:
    table = MAPS["hashed"].table()
    table.update(["b", "b", "a", "c"], [1, 2, 3, 1], [90, 50, 70, 80])
    released = table.release(epsilon=1.0, neighbours=ss.L1(1, max_keys=3), keys_are_public=True)
    wanted = ss.pairwise(list(released.values()), by="cosine", together=True).value
    assert (ss.pairwise(released, by="cosine", together=True).value == wanted).all()
    assert (ss.pairwise(dict(released), by="cosine", together=True).value == wanted).all()
    assert (ss.pairwise(released).value == ss.pairwise(list(released.values())).value).all()


def test_a_joint_estimate_is_marked_wherever_it_is_shown() -> None:
    found = ss.pairwise(RELEASES["hashed"], by="cosine", together=True, order="time")
    assert isinstance(found, JointEstimates)
    one = found[0, 1]
    assert isinstance(one, JointEstimate)
    for text in map(str, (found, one)):
        assert text.endswith(f"({found.model})")
    for text in map(repr, (found, one)):
        assert "joint estimate: " in text
    assert one.with_interval()["joint"] == one.to_dict()["joint"] == found.model.to_dict()
    json.dumps(one.with_interval())
    metadata = found.to_arrow(list("abcdef")).schema.metadata
    assert json.loads(metadata[b"streamsketch.joint"]) == found.model.to_dict()
    assert found.model.folds == 2
    assert 0 <= found.model.weight <= 1
    assert one.scaled(2.0).interval() == pytest.approx([2 * end for end in one.interval()])
    assert one.interval() == pytest.approx([end[0, 1] for end in found.interval()])
    assert one.selected_interval(15) == pytest.approx([end[0, 1] for end in found.interval(level="all")])


SHOWN: dict[str, Callable[[dict[str, ss.PrivateSketch], bool], str]] = {
    "estimates, repr": lambda found, together: repr(ss.pairwise(found, by="cosine", together=together)),
    "estimates, text": lambda found, together: str(ss.pairwise(found, by="cosine", together=together)),
    "estimates, HTML": lambda found, together: ss.pairwise(found, by="cosine", together=together)._repr_html_(),
    "estimates, Arrow": lambda found, together: str(
        ss.pairwise(found, by="cosine", together=together).to_arrow().schema.to_string(show_schema_metadata=True)
    ),
    "one, repr": lambda found, together: repr(ss.pairwise(found, by="distance", together=together)[0, 1]),
    "one, text": lambda found, together: str(ss.pairwise(found, by="product", together=together)[0, 1]),
    "one, HTML": lambda found, together: ss.pairwise(found, by="profile", together=together)[0, 1]._repr_html_(),
    "one, JSON": lambda found, together: json.dumps(ss.pairwise(found, together=together)[0, 1].to_dict()),
    "one, JSON with interval": lambda found, together: json.dumps(
        ss.pairwise(found, together=together)[0, 1].with_interval()
    ),
    "one, scaled": lambda found, together: repr(ss.pairwise(found, together=together)[0, 1].scaled(2.0)),
    "groups": lambda found, together: repr(ss.linkage(found, together=together, draws=0)),
    "changes, repr": lambda found, together: repr(ss.changes(found, together=together)),
    "changes, text": lambda found, together: str(ss.changes(found, together=together)),
    "changes, JSON": lambda found, together: json.dumps(ss.changes(found, together=together).to_dict()),
    "changes, Arrow": lambda found, together: ss.changes(found, together=together).table.schema.to_string(
        show_schema_metadata=True
    ),
    "page": lambda found, together: page_of(found, title="t", together=together).split('<p class="joint">')[-1],
    "page, facts": lambda found, together: str(page_with_facts(found, title="t", together=together)[1]["joint"]),
    "page, quantity": lambda found, together: page_with_facts(found, title="t", together=together)[1]["quantity"],
}
"""Wherever joint estimates are shown: commands are in ``tests/cli``, the viewer in ``web/tests``."""


@pytest.mark.parametrize("name", SHOWN)
def test_joint_estimates_are_marked_in_all_that_shows_them(name: str) -> None:
    found = {f"{place + 1}": release for place, release in enumerate(RELEASES["hashed"]) if place != 2}
    joint, alone = (SHOWN[name](found, together) for together in (True, False))
    mark = "target" if name == "page, facts" else "joint"
    assert mark in joint
    if name != "page":
        assert mark not in alone


def test_a_joint_estimate_with_an_own_sketch_is_secret() -> None:
    found = ss.pairwise(SETS["own"], by="distance", together=True)
    assert found.secret
    assert found[0, 1].secret
    assert "joint estimate" in repr(found[0, 1])
    assert "secret: from a raw sketch" in repr(found[0, 1])
    assert found[0, 1].to_dict()["secret"]
    assert not ss.pairwise(RELEASES["hashed"], together=True).secret


def test_products_have_norms_on_the_diagonal() -> None:
    releases = RELEASES["hashed"]
    alone = ss.pairwise(releases, by="product")
    assert alone.value[0, 1] == pytest.approx(ss.inner_product(releases[0], releases[1]).value)
    norms = [ss.squared_norm(release) for release in releases]
    assert np.diagonal(alone.value) == pytest.approx([norm.value for norm in norms])
    assert np.diagonal(alone.standard_error) == pytest.approx([norm.standard_error for norm in norms])
    together = ss.pairwise(releases, by="product", together=True)
    moved = np.diagonal(together.value) - [max(norm.value, 0.0) for norm in norms]
    assert (np.abs(moved) < 3 * np.diagonal(alone.standard_error)).all()  # by the projection


def _noisy(matrix: Floats, noises: Floats, rng: np.random.Generator) -> Floats:
    noise = np.triu(rng.normal(size=matrix.shape)) * np.outer(noises, noises)
    noisy: Floats = matrix + noise + np.triu(noise, 1).T
    return noisy


@pytest.mark.parametrize("loud", [1.0, 10.0])
@pytest.mark.parametrize("streams", [2, 5, 40])
def test_matrices_that_vectors_have_are_nearer_to_the_truth(streams: int, loud: float) -> None:
    """In the norm of the projection no error grows; what vectors can have stays as it is."""
    rng = salted_rng(11)
    vectors = rng.normal(size=(streams, 3))
    products = vectors @ vectors.T
    norms = np.diagonal(products)
    distances = np.maximum(np.add.outer(norms, norms) - 2 * products, 0.0)
    np.fill_diagonal(distances, 0.0)
    noises = np.where(np.arange(streams) % 2, loud, 1.0)
    sizes, order = np.outer(noises, noises), rng.permutation(streams)
    place = np.ix_(order, order)
    for truth, nearest in ((products, nearest_products), (distances, nearest_distances)):
        assert np.allclose(nearest(truth, noises), truth, atol=1e-9)
        noisy = _noisy(truth, noises, rng)
        if nearest is nearest_distances:
            noisy = np.maximum(noisy, 0.0)
            np.fill_diagonal(noisy, 0.0)
        found = nearest(noisy, noises)
        before, after = (np.linalg.norm((one - truth) / sizes) for one in (noisy, found))
        assert after <= before * (1 + 1e-9)
        assert np.array_equal(found, found.T)
        assert np.allclose(nearest(found, noises), found, atol=1e-9 * np.abs(found).max())
        again = nearest(noisy[place], noises[order])
        assert np.allclose(again, found[place], rtol=1e-9, atol=1e-9 * np.abs(found).max())


def test_quiet_streams_are_hardly_moved_by_loud_ones() -> None:
    rng = salted_rng(12)
    vectors = rng.normal(size=(6, 2))
    noises = np.array([1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0])
    products = vectors @ vectors.T
    norms = np.diagonal(products)
    distances = np.add.outer(norms, norms) - 2 * products
    for truth, nearest in ((products, nearest_products), (distances, nearest_distances)):
        noisy = truth.copy()
        noisy[3:, 3:] += _noisy(np.zeros((3, 3)), np.full(3, 3.0), rng)
        if nearest is nearest_distances:
            noisy = np.maximum(noisy, 0.0)
            np.fill_diagonal(noisy, 0.0)
        found = nearest(noisy, noises)
        assert np.abs(found - noisy)[3:, 3:].max() > 0.1
        moved, unscaled = (np.abs(one - truth)[:3, :3].max() for one in (found, nearest(noisy, np.ones_like(noises))))
        assert moved < 0.1 * unscaled


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "mean", "together": True}, "compares by 'cosine', 'profile', 'distance', 'product', got 'mean'"),
        ({"by": "angle", "together": True}, "by must be"),
        ({"order": "space", "together": True}, "order must be None or 'time', got 'space'"),
        ({"order": "time"}, "needs together=True"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.pairwise(RELEASES["hashed"], **options)


def test_noise_before_the_map_and_too_few_cells_are_refused() -> None:
    projection = ss.SJLT(dim=64, sketch_dim=16, sparsity=4, seed=7)
    options: Any = {"epsilon": 1.0, "neighbours": ss.L1(1), "noise_place": "input"}
    before = [ss.release.release_vector(projection, np.arange(64), **options) for _ in range(2)]
    with pytest.raises(ss.InvalidInputError, match="noise on the cells"):
        ss.pairwise(before, together=True)
    few = [ss.CountSketch(dim=64, sketch_dim=2, seed=7).sketch() for _ in range(2)]
    with pytest.raises(ss.InvalidInputError, match="at least 4 cells, these sketches have 2"):
        ss.pairwise(few, together=True)


def test_where_noise_is_small_a_wrong_model_does_no_harm() -> None:
    """Popular items have other cosines than rare ones, which the model of one shape denies."""
    projection, releases = ss.SJLT(dim=4000, sketch_dim=256, sparsity=4, seed=7), []
    for place in range(5):
        sketch = projection.sketch()
        sketch.update(np.arange(20), np.full(20, 3000))
        sketch.update(np.arange(300) + 300 * (place + 1), np.full(300, 300))
        releases.append(sketch.release(epsilon=2.0, neighbours=ss.L1(5)))
    found = ss.pairwise(releases, by="cosine", together=True)
    assert isinstance(found, JointEstimates)
    own = ss.pairwise(releases, by="cosine").value
    model = choose(in_noises(block_of(releases)), in_time=False).whole
    assert np.abs(model - own).max() > 0.025
    assert np.abs(found.value - own).max() < 0.01


def test_what_is_said_of_hidden_streams_does_not_move_the_others() -> None:
    """Cosines of streams with an estimate are projected as if the hidden ones were not there."""
    rng = salted_rng(5)
    cells = rng.normal(size=(6, 3))
    cosines = cells @ cells.T
    cosines /= np.sqrt(np.outer(np.diagonal(cosines), np.diagonal(cosines)))
    cosines = np.clip(cosines + 0.05 * np.triu(rng.normal(size=(6, 6)), 1), -1, 1)
    cosines = np.triu(cosines, 1) + np.triu(cosines, 1).T + np.eye(6)
    cosines[4:, :4] = cosines[:4, 4:].T
    cosines[4, :4] = cosines[:4, 4] = [0.95, 0.95, -0.95, -0.95]  # no vectors have these
    found = nearest_cosines(cosines, np.arange(6) >= 4)
    alone = nearest_cosines(cosines[:4, :4])
    moved = nearest_cosines(cosines)[:4, :4] - alone
    assert np.linalg.eigvalsh(found)[0] > -1e-9
    assert np.abs(found[:4, :4] - alone).max() < 0.2 * np.abs(moved).max()


def test_groups_by_joint_estimates_have_every_stream() -> None:
    """An empty stream has no cosine of its own, so that it cannot be in a tree of these."""
    releases = RELEASES["hashed"]
    joint = ss.pairwise(releases, by="profile", together=True)
    tree = ss.linkage(releases, by="cosine", together=True, draws=3)
    again = ss.linkage(releases, by="cosine", together=True, draws=3)
    assert tree.joint
    assert "by joint estimates" in repr(tree)
    assert (tree.stability == again.stability).all()
    nearest = joint.value[np.triu_indices(6, 1)].min()
    assert tree.matrix[0, 2] == pytest.approx(nearest**0.5, abs=1e-9)
    assert not ss.linkage(releases, draws=0).joint
    with pytest.raises(ss.InvalidInputError, match="order='time' needs together=True"):
        ss.linkage(releases, order="time")
    with pytest.raises(ss.InvalidInputError, match="together=True compares by"):
        ss.linkage(releases, by="mean", together=True)


def test_intervals_of_all_pairs_at_once_are_those_of_pairs_alone() -> None:
    """What cuts an interval that holds by itself is too uncertain in its tails for many at once."""
    found = ss.pairwise(SETS["coarse"], by="cosine", together=True)
    assert isinstance(found, JointEstimates)
    for ends, alone in (
        (found.interval(level="all"), found.alone.interval(level="all")),
        (found.selected_interval(9), found.alone.selected_interval(9)),
    ):
        known = ~np.isnan(alone.low)
        assert (ends.low == np.fmin(alone.low, found.value))[known].all()
        assert (ends.high == np.fmax(alone.high, found.value))[known].all()
