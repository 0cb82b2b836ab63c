"""Noise at each of its places: the sensitivity it is calibrated to, what carries it, what is refused."""

from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy import calibration
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.projections.explicit import RandomNorms
from streamsketch.release.ready import Ready

FJLT = ss.projections.FJLT(dim=20, sketch_dim=4, seed=3, density="1/16")
VECTOR = np.arange(20) - 7
BUDGET: Any = {"epsilon": 1.0, "delta": 1e-6, "neighbours": ss.L1(3)}


@pytest.fixture
def sensitivities(monkeypatch: pytest.MonkeyPatch) -> list[Sensitivity]:
    seen: list[Sensitivity] = []
    original = calibration.choose

    def choose(sensitivity: Sensitivity, *rest: Any) -> Any:
        seen.append(sensitivity)
        return original(sensitivity, *rest)

    monkeypatch.setattr(calibration, "choose", choose)
    return seen


def test_input_noise_hides_the_vector_itself(sensitivities: list[Sensitivity]) -> None:
    released = ss.release.release_vector(FJLT, VECTOR, noise_place="input", **BUDGET)
    assert sensitivities == [Sensitivity(3, 9, 20)]
    assert released.noise_place == "input"
    assert str(released.guarantee).endswith(", on the input")


def test_hadamard_noise_hides_what_the_step_returns(sensitivities: list[Sensitivity]) -> None:
    ss.release.release_vector(FJLT, VECTOR, noise_place="hadamard", **BUDGET)
    moved = FJLT.rotated(3 * np.eye(20, dtype=np.int64))  # every way a unit can move x̃ by Δ̃ = 3 in one coordinate
    assert sensitivities == [Sensitivity(3 * 32, 9 * 32, 32)]
    assert (np.abs(moved).sum(axis=1) == sensitivities[0].l1).all()
    assert ((moved**2).sum(axis=1) == sensitivities[0].l2_squared).all()


def test_output_noise_is_a_sketchs_release(sensitivities: list[Sensitivity]) -> None:
    released = ss.release.release_vector(FJLT, VECTOR, **BUDGET)
    assert sensitivities[0].l1 == 3 * FJLT.l1_sensitivity
    assert released.noise_place == "output"


def test_without_noise_the_cells_are_the_sketchs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        DiscreteLaplace, "sample", lambda _, size, _bits: asked.append(size) or np.zeros(size, np.int64)
    )
    sketch = FJLT.sketch()
    sketch.update(np.arange(20), VECTOR)
    for place in ("output", "input", "hadamard"):
        released = ss.release.release_vector(FJLT, VECTOR, noise_place=place, **BUDGET, mechanism="laplace")
        assert (released.values == sketch.state()).all()
    read = np.unique(FJLT.sparse_matrix.indices).size
    assert read < 32
    assert asked == [4, 20, read]  # no noise where the sparse matrix never looks


@pytest.mark.parametrize("place", ["output", "input", "hadamard"])
def test_no_sum_of_a_vector_is_refused(place: NoisePlace) -> None:
    """One person's value would decide whether there is a release; sums count modulo 2^64 (Theory 4.2)."""
    for largest in (2**62, -(2**62)):
        vector = np.full(FJLT.dim, largest, dtype=np.int64)
        released = ss.release.release_vector(FJLT, vector, noise_place=place, **BUDGET)
        assert released.values.shape == (FJLT.sketch_dim,)


def test_input_noise_needs_no_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(RandomNorms, "column_norms", looks.append)
    projection = ss.projections.VerySparse(dim=1 << 12, sketch_dim=8, sparsity=100, seed=987654)
    released = ss.release.release_vector(projection, np.ones(1 << 12, dtype=int), noise_place="input", **BUDGET)
    assert released.values.shape == (8,)
    assert not looks


@pytest.mark.parametrize("place", ["input", "hadamard"])
def test_releases_travel_and_merge_with_their_place(place: Any) -> None:
    one, other = (ss.release.release_vector(FJLT, VECTOR, noise_place=place, **BUDGET) for _ in range(2))
    assert ss.PrivateSketch.from_bytes(one.to_bytes()) == one
    both = one.combine(other, populations="disjoint").scaled("1/2")
    assert both.noise_place == place
    assert both.noise.k2 == 2 * one.noise.k2
    assert abs(ss.squared_norm(both).value - VECTOR @ VECTOR) < 6 * ss.squared_norm(both).standard_error + 1e6


def test_places_do_not_mix() -> None:
    one = ss.release.release_vector(FJLT, VECTOR, noise_place="input", **BUDGET)
    other = ss.release.release_vector(FJLT, VECTOR, noise_place="hadamard", **BUDGET)
    for combine in (ss.squared_distance, ss.inner_product, lambda a, b: ss.pairwise([a, b])):
        with pytest.raises(ss.InvalidInputError, match="different places: hadamard and input"):
            combine(one, other)
    with pytest.raises(ss.InvalidInputError, match="different places"):
        one.combine(other, populations="disjoint")
    with pytest.raises(ss.InvalidInputError, match="no standard error for noise added before the map"):
        ss.cosine(one, ss.release.release_vector(FJLT, VECTOR, noise_place="input", **BUDGET))


def test_a_raw_sketch_compares_with_noise_at_any_place() -> None:
    sketch = FJLT.sketch()
    for place in ("output", "input", "hadamard"):
        released = ss.release.release_vector(FJLT, VECTOR, noise_place=place, **BUDGET)
        assert ss.squared_distance(sketch, released) == ss.squared_distance(released, sketch)
        assert ss.pairwise([sketch, released])[0, 1].value == pytest.approx(ss.squared_distance(sketch, released).value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vector": VECTOR[:-1]}, "dim=20 numbers, got 19"),
        ({"noise_place": "middle"}, "got 'middle' for FJLT"),
        (
            {"projection": ss.projections.SRHT(dim=20, sketch_dim=4, seed=1), "noise_place": "hadamard"},
            "got 'hadamard' for SRHT",
        ),
        ({"projection": ss.CountSketch(dim=1 << 27, sketch_dim=4, seed=1), "noise_place": "input"}, "dim=134217728"),
        ({"vector": np.full(20, np.nan), "neighbours": ss.OneCoordinate(1)}, "NaN"),
        ({"vector": np.full(20, 0.5)}, "L1 neighbours a whole vector must hold integers.*got float64 on 1:"),
        ({"projection": FJLT.replace(resolution="2/3")}, "got int64 on 2/3"),
        ({"epsilon": 0}, "epsilon must be"),
    ],
    ids=["length", "place", "map", "wide", "nan", "fractions", "grid", "epsilon"],
)
def test_what_cannot_be_released_is_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"projection": FJLT, "vector": VECTOR, "noise_place": "input"} | BUDGET | change
    projection, vector = arguments.pop("projection"), arguments.pop("vector")
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.release.release_vector(projection, vector, **arguments)


@pytest.mark.parametrize("place", ["input", "hadamard"])
def test_noise_before_the_map_is_for_whole_vectors_alone(place: NoisePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes them ready refuses sketches, tables and rows; and several are drawn as one is, behind the map."""
    ready: list[Ready[ss.PrivateSketch]] = []
    monkeypatch.setattr(Ready, "charge", lambda self, *_: ready.append(self))
    ss.release.release_vector(FJLT, VECTOR, noise_place=place, **BUDGET)
    noise: Any = ready[0].calibrated
    table = ss.SketchTable(FJLT)
    table.update(["a", "b"], [1, 2])
    for data in (table["a"], table, {"a": table["a"]}):
        with pytest.raises(ss.InvalidInputError, match=f"noise_place='{place}' is before the map"):
            noise.for_data(data, public_keys=["a"] if data is table else None, assert_bounds=True)
    with pytest.raises(ss.InvalidInputError, match=f"noise_place='{place}' is before the map"):
        noise.for_rows(VECTOR.reshape(1, -1))
    with pytest.raises(ss.InvalidInputError, match=f"noise_place='{place}' is before the map"):
        noise.for_sums(["a"], table.sums_of(["a"]), table)
    bits = [[KeyedBits(bytes(32), b"%d" % row) for row in range(2)] for _ in range(2)]
    vectors, stated, ids = np.stack([VECTOR, 2 * VECTOR]), ready[0].stated, [(bytes(8),), (bytes(8),)]
    drawn = noise._draw_each(vectors, bits[0], stated, ids)
    for row, released in enumerate(drawn):
        (alone,) = noise._draw(vectors[row : row + 1], bits[1][row], stated._replace(ids=ids[row]))
        assert (released.values == alone.values).all()


def test_noise_comes_from_the_operating_system() -> None:
    one, other = (ss.release.release_vector(FJLT, VECTOR, noise_place="input", **BUDGET) for _ in range(2))
    assert (one.values != other.values).any()
    assert one.release_ids != other.release_ids


@pytest.mark.parametrize("place", ["output", "input", "hadamard"])
def test_a_unit_in_several_keys_takes_more_noise_wherever_it_goes(place: Any) -> None:
    noise = [
        ss.release.release_vector(
            FJLT, VECTOR, **BUDGET | {"neighbours": ss.L1(9, max_keys=keys), "mechanism": "gaussian"}, noise_place=place
        ).noise
        for keys in (1, 4)
    ]
    assert noise[1].k2 / noise[0].k2 == pytest.approx(4, rel=0.1)  # σ grows with √keys
