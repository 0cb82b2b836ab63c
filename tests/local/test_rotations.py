"""The random maps of ProjUnit: what they are, back and forth, and that they are isometries."""

import math

import numpy as np
import pytest

from streamsketch.errors import InvalidInputError
from streamsketch.local import ProjUnit
from streamsketch.local.rotations import integer_map, mean_length
from streamsketch.projections import Rotation
from tests.local.directions import directions
from tests.noise import salted_rng
from tests.oracles import naive_local

pytestmark = pytest.mark.rejects(1e-5)


SEEDS = np.array([5, 2**64 - 1, 77], dtype=np.uint64)
SINGULAR = 14993  # in the plane


@pytest.fixture
def rng() -> np.random.Generator:
    return salted_rng(4)


def mechanism(dim: int, k: int, **fields: object) -> ProjUnit:
    return ProjUnit(dim=dim, sketch_dim=k, epsilon=4.0, seed=11, **fields)  # type: ignore[arg-type]


def matrix(of: ProjUnit, seed: np.uint64) -> np.ndarray:
    """Return W by its columns."""
    eye = np.eye(of.dim)
    return of.map.project(eye, np.full(of.dim, seed)).T


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("dim", "k"), [(1, 1), (5, 3), (64, 16), (100, 128)])
def test_the_hadamard_map_is_its_twin(dim: int, k: int, rng: np.random.Generator, *, shared: bool) -> None:
    of = mechanism(dim, k, shared=shared, ball=True)
    vector = rng.normal(size=(1, dim + 1))
    for seed in SEEDS:
        dense = naive_local.hadamard_map(dim + 1, k, 11, int(seed), shared=shared)
        assert of.map.project(vector, np.array([seed]))[0] == pytest.approx(dense @ vector[0], abs=1e-12)


@pytest.mark.parametrize(
    "fields",
    [
        {"rotation": "hadamard"},
        {"rotation": "hadamard", "shared": True},
        {"rotation": "haar"},
        {"rotation": "haar", "shared": True},
        {"rotation": "gaussian"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dim", [16, 13])
def test_the_server_applies_the_transpose(fields: dict[str, object], dim: int, rng: np.random.Generator) -> None:
    of = mechanism(dim, 6, **fields)
    values = rng.normal(size=(3, 6))
    expected = np.stack([value @ matrix(of, seed) for seed, value in zip(SEEDS, values, strict=True)])
    assert of.map.lift(values, SEEDS) == pytest.approx(expected, abs=1e-11)
    total = np.zeros(of.map.state_dim, dtype=np.int64)
    of.map.add_steps(values, SEEDS, total, 2.0**-40, 2.0**50)
    assert of.map.mean_of(total * 2.0**-40)[:dim] == pytest.approx(expected.sum(axis=0), abs=1e-9)


@pytest.mark.parametrize("rotation", ["hadamard", "haar"])
@pytest.mark.parametrize("shared", [False, True])
def test_rotations_have_orthogonal_rows_of_length_root_d_over_k(rotation: str, *, shared: bool) -> None:
    of = mechanism(32, 9, rotation=rotation, shared=shared)
    rows = matrix(of, SEEDS[0])
    assert rows @ rows.T == pytest.approx(np.eye(9) * 32 / 9, abs=2e-3)  # 12 bits a Haar entry; Hadamard: exact


@pytest.mark.parametrize("shared", [False, True])
def test_a_seed_without_a_rotation_stands_for_the_next(*, shared: bool) -> None:
    """In the plane the Gaussian rows of one seed in some 10^5 are dependent, and people draw theirs without looking."""
    with pytest.raises(InvalidInputError, match="another seed"):
        Rotation(dim=2, sketch_dim=2, seed=SINGULAR, fraction_bits=12)
    fields = {"dim": 2, "sketch_dim": 2, "epsilon": 4.0, "rotation": "haar", "shared": shared}
    seeds = np.full(2, SINGULAR, dtype=np.uint64)
    maps = ProjUnit(seed=SINGULAR, **fields).map, ProjUnit(seed=SINGULAR + shared, **fields).map  # type: ignore[arg-type]
    one, other = (found.project(np.eye(2), seeds + np.uint64(step)) for step, found in enumerate(maps))
    if shared:  # a report's seed picks rows alone
        assert maps[0].mean_of(np.ones(2)).tolist() == maps[1].mean_of(np.ones(2)).tolist()
    else:
        assert one.tolist() == other.tolist()


def test_eight_seeds_are_tried_and_no_more() -> None:
    """As WIRE.md says, from 2^64 - 3 on to 4."""
    tried: list[int] = []

    def refusing(**fields: int) -> Rotation:
        tried.append(fields["seed"])
        raise InvalidInputError("another seed")

    with pytest.raises(InvalidInputError, match="another seed"):
        integer_map(refusing, 2, 2, 2**64 - 3)  # type: ignore[arg-type]
    assert tried == [2**64 - 3, 2**64 - 2, 2**64 - 1, 0, 1, 2, 3, 4]


def test_a_shared_rotation_turns_the_mean_back_in_one_order(rng: np.random.Generator) -> None:
    """The bits of a mean are not those of a BLAS: row after row."""
    shared = mechanism(48, 6, rotation="haar", shared=True).map
    total = rng.normal(size=48)
    expected = np.zeros(48)
    for value, row in zip(total, shared._rotation, strict=True):  # type: ignore[attr-defined]
        expected += value * row
    assert shared.mean_of(total).tolist() == (expected * math.sqrt(48 / 6)).tolist()


def test_mean_lengths_are_those_of_samples(rng: np.random.Generator) -> None:
    """Within 5 standard errors: rows of a rotation, and of a Gaussian matrix."""
    for dim, size in ((16, 5), (None, 5)):
        cells = rng.normal(size=(40000, 16 if dim else 5))
        lengths = np.linalg.norm(cells[:, :5], axis=1) * (math.sqrt(16 / 5) if dim else 1 / math.sqrt(5))
        lengths = lengths / np.linalg.norm(cells, axis=1) if dim else lengths
        assert abs(lengths.mean() - mean_length(dim, size)) < 5 * lengths.std() / 200
    assert mean_length(1 << 15, 1 << 15) == pytest.approx(1)
    assert mean_length(1 << 15, 1000) == pytest.approx(1 - 1 / 4000, abs=2e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_projections_of_length_zero_get_a_public_direction(*, shared: bool) -> None:
    """One row of e_0 - e_63 is 0 for half of the rows."""
    of = mechanism(64, 1, shared=shared)
    seeds = np.arange(100, dtype=np.uint64)
    directions_found, lengths = of.map.directions(np.tile(directions(64)["two"], (100, 1)), seeds)
    assert 20 < (lengths == 0).sum() < 80
    assert np.abs(directions_found) == pytest.approx(np.ones((100, 1)))
    signs = directions_found[lengths == 0]
    assert 0.2 < (signs > 0).mean() < 0.8


def test_completed_vectors_have_length_one_and_keep_their_proportions() -> None:
    of = mechanism(64, 16, unbiased=True, shared=True)
    vector = directions(64)["gaussian"]
    found = of.unit_inputs(vector[np.newaxis], SEEDS[:1])[0]
    assert np.linalg.norm(found) == pytest.approx(1)
    assert found[:-1] * of.factor == pytest.approx(of.map.project(vector[np.newaxis], SEEDS[:1])[0])


def test_longer_projections_than_the_bound_are_normalised() -> None:
    of = mechanism(4096, 64, unbiased=True)
    heavy = of.map.lift(np.ones((1, 64)), SEEDS[:1])  # all of it in the 64 rows
    found = of.unit_inputs(heavy / np.linalg.norm(heavy), SEEDS[:1])[0]
    assert of.norm_bound < 4096 / 64
    assert found[-1] == pytest.approx(0, abs=1e-7)
    assert np.linalg.norm(found) == pytest.approx(1)
