"""L2 neighbours: sensitivities against singular values and lattice balls, releases that carry them, and refusals."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch.accounting.book import spending_of
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core.limits import Limits
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import laplace_divergence
from streamsketch.privacy.zcdp import pure_rho
from streamsketch.projections import block_hashed, spectral
from streamsketch.release.checking.release import check_release
from streamsketch.sketching.bounding.clip import bounded
from tests.noise import salted_rng
from tests.sketching.bounding.test_clip import SECRET, UNITS, columns

pytestmark = pytest.mark.rejects(0)


TIGHT = [
    ss.projections.Identity(dim=6),
    ss.projections.OPORP(dim=6, sketch_dim=4, seed=1),
    ss.projections.OPORP(dim=70, sketch_dim=16, seed=2),
    ss.CountSketch(dim=6, sketch_dim=4, seed=3),
    ss.CountSketch(dim=70, sketch_dim=16, seed=4),
]
BETWEEN = ss.SJLT(dim=300, sketch_dim=64, sparsity=4, seed=9)
MAPS = [
    *TIGHT,
    BETWEEN,
    ss.SJLT(dim=300, sketch_dim=60, sparsity=7, seed=10, construction="graph"),
    ss.SJLT(dim=300, sketch_dim=64, sparsity=32, seed=11),
    ss.projections.SRHT(dim=6, sketch_dim=4, seed=5),
    ss.projections.SRHT(dim=70, sketch_dim=16, seed=6),
    ss.SJLT(dim=6, sketch_dim=4, sparsity=2, seed=7),
    ss.SJLT(dim=70, sketch_dim=16, sparsity=4, seed=8),
]
SMALL = [projection for projection in MAPS if projection.dim == 6]


def squared_norm(projection: ss.projections.Projection) -> float:
    matrix = projection.columns(np.arange(projection.dim)).astype(np.float64)
    return float(np.linalg.svd(matrix, compute_uv=False)[0] ** 2)


@pytest.mark.parametrize("projection", MAPS, ids=repr)
def test_the_bound_is_one_on_the_largest_singular_value(projection: ss.projections.Projection) -> None:
    bound = projection.spectral_bound
    assert bound is not None
    assert squared_norm(projection) <= bound * (1 + 1e-9)
    assert bound < projection.dim * projection.l2_sensitivity_squared
    if projection in TIGHT:
        assert bound == pytest.approx(squared_norm(projection))
    if projection.dim == 300:  # by powers, rounded up to an integer
        assert bound <= 1.05 * squared_norm(projection) + 1


def semidefinite(matrix: NDArray[Any]) -> bool:
    """Return whether xᵀMx ≥ 0 for all x, by elimination in rationals."""
    for at, row in enumerate(matrix):
        pivot = row[at]
        if pivot < 0 or (pivot == 0 and row[at:].any()):
            return False
        if pivot:
            matrix[at + 1 :, at:] -= np.outer(matrix[at + 1 :, at] / pivot, row[at:])
    return True


@pytest.mark.parametrize("bits", [50, 12])
@given(st.integers(1, 6), st.integers(1, 40), st.randoms(use_true_random=False))
def test_no_eigenvalue_exceeds_the_bound(bits: int, size: int, wide: int, random: Any) -> None:
    """In rationals, for powers of 20 bits and for such of 5, whose rounding errors are a good part of them."""
    low = np.array([[random.randint(-(1 << wide), 1 << wide) for _ in range(size)] for _ in range(size)])
    matrix = np.tril(low) + np.tril(low, -1).T
    bound = spectral.eigenvalue_bound(matrix.astype(np.float64), bits)
    for sign in (1, -1):
        assert semidefinite((bound * np.eye(size, dtype=np.int64) - sign * matrix).astype(object) * Fraction(1))
    if bits == 50:
        assert bound <= np.abs(np.linalg.eigvalsh(matrix.astype(np.float64))).max() * 1.02 + 2


def test_the_bound_is_the_same_in_whatever_order_machines_add() -> None:
    projection = ss.SJLT(dim=700, sketch_dim=96, sparsity=3, seed=5)
    columns = projection.columns(np.arange(700)).astype(np.float64)
    gram = columns @ columns.T
    order = salted_rng(1).permutation(96)
    found = spectral.eigenvalue_bound(gram)
    for other in (gram[np.ix_(order, order)], np.asfortranarray(gram), gram[::-1, ::-1]):
        assert spectral.eigenvalue_bound(other) == found == projection.spectral_bound


def test_no_sum_of_products_leaves_what_doubles_hold_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled, sums = spectral.scaled_to_integers, []

    def spied(matrix: NDArray[Any], bits: int) -> tuple[NDArray[Any], int]:
        powers, shift = scaled(matrix, bits)
        assert (powers == np.rint(powers)).all()
        sums.append(len(powers) * int(np.abs(powers).max()) ** 2)
        return powers, shift

    monkeypatch.setattr(spectral, "scaled_to_integers", spied)
    for size in (1, 2, 63, 64, 65):
        spectral.eigenvalue_bound(np.full((size, size), 2.0**40 - 1))
    assert 1 << 44 < max(sums) <= 1 << 50


@pytest.mark.parametrize(
    ("projection", "counted", "bound"),
    [
        (ss.SJLT(dim=1024, sketch_dim=128, sparsity=4, seed=1), 176, 56),
        (ss.SJLT(dim=1000, sketch_dim=64, sparsity=5, seed=1, construction="graph"), 510, 123),
        (ss.SJLT(dim=1000, sketch_dim=64, sparsity=32, seed=1), 16832, 768),
        (ss.CountSketch(dim=1000, sketch_dim=64, seed=1), 25, 25),
        (ss.SJLT(dim=64, sketch_dim=4096, sparsity=4, seed=1), 12, 12),
    ],
    ids=repr,
)
def test_bounds_are_as_they_were(projection: ss.projections.Projection, counted: int, bound: int) -> None:
    """So is the noise of a release. CountSketch attains what is counted; 4096 rows are too many for powers."""
    columns = np.abs(projection.columns(np.arange(projection.dim)))
    assert columns.sum(axis=0).max() * columns.sum(axis=1).max() == counted
    assert projection.spectral_bound == bound


@pytest.mark.parametrize(("factor", "verdict"), [(3, "enough"), (1, "enough"), (Fraction(1, 3), "too little")])
def test_releases_with_noise_for_a_larger_bound_have_enough(
    factor: Fraction, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those made before there were powers: a smaller bound takes nothing from what is published."""
    bound = BETWEEN.spectral_bound
    assert bound is not None
    with monkeypatch.context() as patch:
        patch.setattr(block_hashed, "block_bound", lambda *_: int(bound * factor))
        for mechanism in ("gaussian", "laplace"):
            released = release(mechanism=mechanism, of=BETWEEN.replace())
            patch.undo()
            assert check_release(ss.PrivateSketch.from_bytes(released.to_bytes())).verdict == verdict
            patch.setattr(block_hashed, "block_bound", lambda *_: int(bound * factor))


def test_the_work_for_a_bound_is_limited_where_releases_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    released, work = release(of=BETWEEN), BETWEEN.enumerated_entries("spectral bound")
    assert check_release(released, most_entries=work).verdict == "enough"
    assert check_release(released, most_entries=work - 1).verdict == "not checked"
    with ss.limits.reading_limits(max_entries=work - 1):
        assert check_release(released).verdict == "not checked"
        monkeypatch.setattr(block_hashed, "block_bound", lambda *_: pytest.fail("the matrix was read"))
        strange = ss.PrivateSketch.from_bytes(release(of=BETWEEN).to_bytes())
        object.__setattr__(strange, "_projection", BETWEEN.replace())  # nothing of it is known yet
        str(strange.explain())
    large = BETWEEN.replace(sketch_dim=1024, dim=1 << 16)
    works = [one.enumerated_entries("spectral bound") for one in (large, large.replace(sketch_dim=2048))]
    assert works[0] == Limits().max_entries < works[1]


def ball(dim: int, squared: int) -> Iterator[np.ndarray]:
    """Yield all lattice vectors of at most this squared length."""
    reach = math.isqrt(squared)
    for vector in itertools.product(range(-reach, reach + 1), repeat=dim):
        if sum(x * x for x in vector) <= squared:
            yield np.array(vector)


@pytest.mark.parametrize("projection", SMALL, ids=repr)
def test_no_unit_of_the_ball_moves_a_sketch_further_than_stated(projection: ss.projections.Projection) -> None:
    stated = sensitivity_of(projection, ss.L2("2.2"))
    moved = np.stack(list(ball(6, 4))) @ projection.columns(np.arange(6)).T
    assert (moved**2).sum(axis=1).max() <= stated.l2_squared == 4 * projection.spectral_bound
    assert np.abs(moved).sum(axis=1).max() <= stated.l1
    if projection in TIGHT[:2]:  # of three columns that meet, no lattice vector of this length has equal parts
        assert (moved**2).sum(axis=1).max() == stated.l2_squared
    keys = sensitivity_of(projection, ss.L2("2.2", max_keys=3))
    assert (keys.l1, keys.l2_squared) == (3 * stated.l1, 3 * stated.l2_squared)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("projection", SMALL, ids=repr)
def test_releases_are_charged_what_the_farthest_unit_spends(
    projection: ss.projections.Projection, mechanism: str, tmp_path: Path
) -> None:
    """ρ of noise on cells adds up over the cells, of vectors of the ball."""
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("images", unit="image", epsilon=9.0, delta=1e-6)
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6 * (mechanism == "gaussian"), "mechanism": mechanism}
    released = projection.sketch().release(
        neighbours=ss.L2(2, unit="image", max_keys=2), ledger=ledger, dataset="images", **arguments
    )
    assert ledger.left("images").epsilon < 9
    spent = spending_of(released.guarantee, projection).rho
    assert spent <= pure_rho(1.0)
    noise = released.guarantee.mechanism.the_noise.noise
    moved = np.abs(np.stack(list(ball(6, 4))) @ projection.columns(np.arange(6)).T)
    if mechanism == "laplace":
        of_cell = np.array([laplace_divergence(noise.scale, step) for step in range(int(moved.max()) + 1)])
        farthest = of_cell[moved].sum(axis=1).max()
    else:
        farthest = (moved**2).sum(axis=1).max() / (2 * float(noise.sigma_squared))
    assert 2 * farthest <= spent  # two keys


def test_embeddings_take_less_noise_than_by_their_l1_norm() -> None:
    projection = ss.projections.SRHT(dim=1000, sketch_dim=256, seed=1, resolution="1/64")
    by = {
        relation: ss.release.PrivateProjection(projection=projection, epsilon=1, delta=1e-6, neighbours=relation).noise
        for relation in (ss.L2(1), ss.L1(31))
    }
    narrow, wide = by.values()
    assert isinstance(narrow, DiscreteGaussian)
    assert 16 * narrow.cumulants.k2 < wide.cumulants.k2


def release(*, of: ss.projections.Projection | None = None, **changes: Any) -> ss.PrivateSketch:
    sketch = (of or ss.projections.SRHT(dim=100, sketch_dim=16, seed=1)).sketch()
    sketch.update([3, 5], [7, -2])
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbours": ss.L2(8, unit="embedding")}
    return sketch.release(**(arguments | changes))


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_releases_state_and_carry_the_relation(mechanism: str, tmp_path: Path) -> None:
    released = release(mechanism=mechanism)
    again = ss.PrivateSketch.from_bytes(released.to_bytes())
    assert again == released
    assert again.guarantee.neighbours == ss.L2(8, unit="embedding")
    assert "one embedding of at most 8 (L2)" in str(again.guarantee)
    assert check_release(again).verdict == "enough"
    assert "Euclidean norm of at most 8" in " ".join(str(again.explain()).split())
    assert ss.compose([released, release()], populations="overlapping").epsilon == 2
    raw = ss.projections.SRHT(dim=100, sketch_dim=16, seed=1).sketch()
    ss.storage.save_raw(raw, tmp_path / "a.raw-sketch")
    ss.storage.release_raw(tmp_path / "a.raw-sketch", epsilon=1.0, delta=1e-6, neighbours=ss.L2(8))
    assert ss.storage.load_raw(tmp_path / "a.raw-sketch").releases[0].guarantee.neighbours == ss.L2(8)


def test_noise_for_a_smaller_bound_is_too_little() -> None:
    by_l1 = release(neighbours=ss.L1(8))
    with_l2 = release()
    assert with_l2.noise.k2 > by_l1.noise.k2 * 7  # N = 128 instead of k = 16


def test_noise_before_any_map_needs_no_norm_of_it() -> None:
    projection = ss.projections.FJLT(dim=64, sketch_dim=16, seed=1)
    for place, factor in (("input", 1), ("hadamard", 64)):
        released = ss.release.release_vector(
            projection, [1] * 64, epsilon=1, delta=1e-6, neighbours=ss.L2(3), noise_place=place, mechanism="gaussian"
        )
        assert check_release(released).verdict == "enough"
        assert released.guarantee.mechanism.steps[0].noise.amount >= 9 * factor


@pytest.mark.parametrize(
    "projection",
    [
        ss.SJLT(sketch_dim=64, sparsity=4, seed=1),
        ss.projections.OPORP(dim=1 << 40, sketch_dim=64, seed=1),
        ss.projections.Rademacher(dim=100, sketch_dim=64, seed=1),
        ss.projections.GaussianProjection(dim=100, sketch_dim=16, seed=1),
    ],
    ids=repr,
)
def test_maps_without_a_useful_bound_are_refused(projection: ss.projections.Projection) -> None:
    with pytest.raises(ss.InvalidInputError, match="Use SketchL2"):
        projection.sketch().release(epsilon=1.0, delta=1e-6, neighbours=ss.L2(1))


def test_what_rests_on_sums_of_absolute_values_is_refused() -> None:
    projection = ss.projections.Identity(dim=8)
    with pytest.raises(ss.InvalidInputError, match="which is L1"):
        ss.release.PanPrivateSketch(projection, epsilon=1.0, neighbours=ss.L2(1))  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="needs a bound on a sum of absolute values"):
        ss.L2(1).grid_steps(Fraction(1))
    with pytest.raises(ss.InvalidInputError, match="below one grid step"):
        projection.sketch().release(epsilon=1.0, delta=1e-6, neighbours=ss.L2("1/2"))
    with pytest.raises(ss.InvalidInputError, match="for L2 neighbours a whole vector must hold integers"):
        ss.release.release_vector(projection, [0.5] * 8, epsilon=1.0, delta=1e-6, neighbours=ss.L2(1))


large = st.one_of(st.integers(-9, 9), st.integers(-(1 << 62), 1 << 62)).filter(bool)


@given(st.lists(large, min_size=1, max_size=9), st.one_of(st.integers(1, 99), st.integers(1, (1 << 62) - 1)))
def test_vectors_are_clipped_to_the_ball(vector: list[int], limit: int) -> None:
    found = [(UNITS[0], ("AA", 0), index, step) for index, step in enumerate(vector)]
    cut = bounded(columns(found), max_keys=1, limit=limit, secret=SECRET, squared=True)
    total = sum(step * step for step in vector)
    left = dict(zip(cut.indices.tolist(), cut.steps.tolist(), strict=True))
    assert sum(step * step for step in left.values()) <= max(limit, 0)
    for index, step in enumerate(vector):
        if total <= limit:
            assert left[index] == step
        else:
            size = abs(left.get(index, 0))
            assert size**2 * total <= step**2 * limit < (size + 1) ** 2 * total + total
            assert left.get(index, 0) * step >= 0


@pytest.mark.parametrize("how", ["scale", "cut", "squares"])
@pytest.mark.parametrize("limit", [1, 9, 1 << 31, (1 << 32) + 1, (1 << 62) - 1])
def test_no_size_is_small_where_words_wrap_around(limit: int, how: str) -> None:
    """Squares of multiples of 2^32 are 0 modulo 2^64, and |-2^63| is no int64."""
    sizes = sorted({(1 << bit) + more for bit in range(64) for more in (-1, 0, 1)} - {0})
    steps = [step for size in sizes for step in (size, -size) if -(1 << 63) <= step < 1 << 63]
    vectors = [[step] * count for step in steps for count in (1, 2, 4)]
    digests = [place.to_bytes(16, "little") for place in range(len(vectors))]
    found = [
        (digests[unit], (unit, 0), index, step) for unit, row in enumerate(vectors) for index, step in enumerate(row)
    ]
    bounds: Any = {"squared": True} if how == "squares" else {"clip": how}
    cut = bounded(columns(found), max_keys=1, limit=limit, secret=SECRET, **bounds)
    power = 2 if how == "squares" else 1
    norms = [0] * len(vectors)
    for code, step in zip(cut.codes.tolist(), cut.steps.tolist(), strict=True):
        norms[cut.slots[code][0]] += abs(step) ** power
    for vector, norm in zip(vectors, norms, strict=True):
        whole = sum(abs(step) ** power for step in vector)
        assert norm == whole if whole <= limit else norm <= limit


def test_units_of_vectors_are_bounded_on_their_way() -> None:
    projection = ss.projections.Identity(dim=3, resolution="1/100")
    rows = (None, [0, 1, 2, 0], [30.0, 40.0, 0.5, 0.25], ["Ann", "Ann", "Bob", "Bob"])
    summary = ss.bounding.BoundingSummary()
    table = ss.bounding.bound_units([rows], projection, neighbours=ss.L2(5), summary=summary)
    assert table[""].state().tolist() == [300 + 25, 400, 50]
    assert summary.units_over_bound == 1
    with pytest.raises(ss.InvalidInputError, match="clipped to L2 by clip='scale', got 'cut'"):
        ss.bounding.bound_units([rows], projection, neighbours=ss.L2(5), clip="cut")
    with pytest.raises(ss.InvalidInputError, match="below 2\\*\\*31 grid steps"):
        ss.bounding.bound_units([rows], projection, neighbours=ss.L2(1 << 30))
