"""PrivateSketch: what leaves the party, exactly and with nothing private in it."""

import copy
import os
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.privacy import Mechanism
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.published import check_independent
from streamsketch.sketching.sketch import Sketch

SECRET = bytes(range(32))
PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=7)
GUARANTEE = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("noise of a test"))
MARKER = 987_654_321_012_345  # a private value that must never be seen in any text

Values = list[int]


def sketch_of(*indices: int, projection: ss.projections.Projection = PROJECTION) -> Sketch:
    sketch = projection.sketch()
    sketch.update(list(indices), 3)
    return sketch


def release_of(*indices: int, epsilon: float = 1.0) -> PrivateSketch:
    return sketch_of(*indices).release(epsilon=epsilon, neighbours=ss.L1(1))


def published(
    values: Values,
    name: bytes = b"release1",
    multiplier: Fraction = Fraction(1),
    projection: ss.projections.Projection = PROJECTION,
) -> PrivateSketch:
    cells = np.resize(np.array(values, dtype=np.int64), projection.sketch_dim)
    return PrivateSketch(
        projection, cells, NoiseMoments(2.0, 5.0), GUARANTEE, multiplier=multiplier, release_ids=[name]
    )


def exact_cells(release: PrivateSketch) -> list[Fraction]:
    return [release.multiplier * value for value in release.values.tolist()]


# --- making one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(4)), DiscreteGaussian(Fraction(50))], ids=str)
def test_a_release_is_the_state_plus_noise_from_the_given_bits(noise: DiscreteLaplace | DiscreteGaussian) -> None:
    sketch = sketch_of(1, 2, 3)
    released = CalibratedNoise(sketch.projection, GUARANTEE, noise).for_data(sketch).draw(KeyedBits(SECRET, b"release"))
    expected = noise.sample(16, KeyedBits(SECRET, b"release"))
    assert np.array_equal(released.values, sketch.state() + expected)
    assert released.noise == noise.cumulants
    assert released.guarantee == GUARANTEE.on("asserted")
    assert released.projection == PROJECTION
    assert released.multiplier == 1
    assert released.cell_unit == PROJECTION.cell_unit == 0.5


def test_a_release_takes_all_its_randomness_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    bits, sketch = KeyedBits(SECRET, b"os"), sketch_of(1, 2)
    sketch.release(epsilon=1.0, neighbours=ss.L1(1))  # kernels compiled on first use name their files by random bytes
    monkeypatch.setattr(os, "urandom", bits.read)
    released = sketch.release(epsilon=1.0, neighbours=ss.L1(1))
    again = (
        CalibratedNoise(sketch.projection, released.guarantee, DiscreteLaplace(Fraction(4)))
        .for_data(sketch)
        .draw(KeyedBits(SECRET, b"os"))
    )
    assert released == again


def test_every_release_has_fresh_noise_and_leaves_the_sketch_as_it_was() -> None:
    sketch = sketch_of(1, 2, 3)
    before = sketch.copy()
    releases = [sketch.release(epsilon=0.1, neighbours=ss.L1(1)) for _ in range(20)]
    assert sketch == before
    assert len({release.values.tobytes() for release in releases}) == 20
    assert len({release.release_ids for release in releases}) == 20
    assert len({release.values[0] - sketch.state()[0] for release in releases}) > 1


def test_a_release_says_what_was_guaranteed() -> None:
    sketch = sketch_of(1)
    laplace = sketch.release(epsilon=0.5, delta=1e-9, neighbours=ss.L1(2, unit="sale"))
    assert laplace.guarantee == ss.Guarantee(
        0.5, 0.0, ss.L1(2, unit="sale"), Mechanism.of_noise(DiscreteLaplace(Fraction(16))), basis="asserted"
    )
    gaussian = sketch.release(epsilon=0.5, delta=1e-9, neighbours=ss.OneCoordinate(1), mechanism="gaussian")
    assert gaussian.guarantee.epsilon == 0.5
    assert gaussian.guarantee.delta == 1e-9
    assert gaussian.guarantee.neighbours == ss.OneCoordinate(1)
    assert str(gaussian.guarantee.mechanism).startswith("discrete Gaussian, variance ")


def test_a_state_at_the_edge_of_63_bits_wraps_around_rather_than_leaking_an_error() -> None:
    """Whether noise would overflow depends on private cells, so nothing observable may."""
    largest = (1 << 63) - 1
    state = np.full(16, largest, dtype=np.int64)
    sketch = Sketch.from_state(PROJECTION, state, largest)
    noise = DiscreteLaplace(Fraction(1 << 20))
    released = CalibratedNoise(sketch.projection, GUARANTEE, noise).for_data(sketch).draw(KeyedBits(SECRET, b"edge"))
    drawn = noise.sample(16, KeyedBits(SECRET, b"edge"))
    assert (drawn > 0).any()
    unwrapped = (released.values.astype(object) - largest - drawn.astype(object)) % (1 << 64)
    assert not unwrapped.any()


@pytest.mark.parametrize(
    "values",
    [np.zeros(15, dtype=np.int64), np.zeros((16, 1), dtype=np.int64), np.zeros(16), np.zeros(16, dtype=np.int32)],
    ids=["length", "shape", "float", "int32"],
)
def test_values_of_another_shape_or_type_are_refused(values: np.ndarray) -> None:  # type: ignore[type-arg]
    with pytest.raises(ss.InvalidInputError, match=r"int64 of shape \(16,\), got"):
        PrivateSketch(PROJECTION, values, NoiseMoments(), GUARANTEE, release_ids=[b"release1"])


@pytest.mark.parametrize("ids", [[], [b"short"], [b"too long a name"], [b"release1", b"release1"]])
def test_release_ids_must_be_distinct_and_of_eight_bytes(ids: list[bytes]) -> None:
    with pytest.raises(ss.InvalidInputError, match="release ids must be distinct"):
        PrivateSketch(PROJECTION, np.zeros(16, dtype=np.int64), NoiseMoments(), GUARANTEE, release_ids=ids)


@pytest.mark.parametrize("cumulants", [(float("nan"), 0.0), (1.0, float("inf")), (-1.0, 0.0)])
def test_noise_that_no_distribution_has_is_refused(cumulants: tuple[float, float]) -> None:
    with pytest.raises(ss.InvalidInputError, match="cumulants must be finite"):
        NoiseMoments(*cumulants)


# --- it cannot be changed -------------------------------------------------------------------------------------


def test_a_release_cannot_be_changed() -> None:
    released = release_of(1, 2)
    with pytest.raises(ValueError, match="read-only"):
        released.values[0] = 0
    for name in ("values", "noise", "guarantee", "projection", "multiplier", "release_ids", "unit"):
        with pytest.raises(AttributeError):
            setattr(released, name, getattr(released, name))
    with pytest.raises(AttributeError):
        released.note = "hello"  # type: ignore[attr-defined]


def test_a_release_keeps_its_own_copy_of_the_cells() -> None:
    cells = np.arange(16)
    released = PrivateSketch(PROJECTION, cells, NoiseMoments(), GUARANTEE, release_ids=[b"release1"])
    cells[0] = 99
    assert released.values[0] == 0
    assert cells.flags.writeable


def _through_pickle(release: PrivateSketch) -> PrivateSketch:
    twin: PrivateSketch = pickle.loads(pickle.dumps(release))  # noqa: S301 - our own bytes
    return twin


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, _through_pickle], ids=["copy", "deep", "pickle"])
def test_copies_and_pickles_are_equal_and_unchangeable_too(
    duplicate: Callable[[PrivateSketch], PrivateSketch],
) -> None:
    released = release_of(1, 2).scaled("2/3")
    twin = duplicate(released)
    assert twin == released
    assert hash(twin) == hash(released)
    assert twin.multiplier == Fraction(2, 3)
    assert not twin.values.flags.writeable


def test_releases_are_equal_when_all_they_say_is_equal() -> None:
    one = published([1, 2, 3])
    assert one == published([1, 2, 3])
    assert hash(one) == hash(published([1, 2, 3]))
    assert one != published([1, 2, 4])
    assert one != published([1, 2, 3], name=b"release2")
    assert one != published([1, 2, 3], multiplier=Fraction(2))
    assert one != published([1, 2, 3], projection=PROJECTION.replace(seed=8))
    assert one != one.values.tolist()
    assert len({one, published([1, 2, 3])}) == 1


# --- arithmetic -----------------------------------------------------------------------------------------------

multipliers = st.fractions(min_value=-50, max_value=50, max_denominator=60).filter(bool)
cells = st.lists(st.integers(-(10**12), 10**12), min_size=16, max_size=16)


@given(cells, cells, multipliers, multipliers)
def test_sums_and_differences_are_exact_for_any_multipliers(
    mine: Values, theirs: Values, factor: Fraction, other_factor: Fraction
) -> None:
    one = published(mine).scaled(factor)
    other = published(theirs, b"release2", other_factor)
    for combined, sign in (
        (one.combine(other, populations="disjoint"), 1),
        (one.subtract(other, populations="disjoint"), -1),
    ):
        assert exact_cells(combined) == [
            factor * a + sign * other_factor * b for a, b in zip(mine, theirs, strict=True)
        ]
        in_data_units = combined.noise.scaled(float(combined.multiplier))
        assert in_data_units.k2 == pytest.approx(2.0 * float(factor**2 + other_factor**2), rel=1e-12)
        assert in_data_units.k4 == pytest.approx(5.0 * float(factor**4 + other_factor**4), rel=1e-12)
        assert combined.release_ids == (b"release1", b"release2")


@given(cells, multipliers, multipliers)
def test_multiples_are_exact_and_multiply(mine: Values, factor: Fraction, other: Fraction) -> None:
    one = published(mine)
    assert exact_cells(one.scaled(factor).scaled(other)) == [factor * other * a for a in mine]
    assert one.scaled(factor).scaled(1 / factor) == one
    assert one.scaled(factor).cell_unit == pytest.approx(float(factor) * PROJECTION.cell_unit, rel=1e-15)


def test_a_mean_of_three_is_exact() -> None:
    parts = [published([n, -n, 7 * n], name) for n, name in ((1, b"release1"), (2, b"release2"), (4, b"release3"))]
    total = parts[0].combine(parts[1], populations="disjoint").combine(parts[2], populations="disjoint")
    mean = total.scaled(Fraction(1, 3))
    assert exact_cells(mean)[:3] == [Fraction(7, 3), Fraction(-7, 3), Fraction(49, 3)]
    assert mean.noise == NoiseMoments(6.0, 15.0)
    assert mean.noise.scaled(float(mean.multiplier)).k2 == pytest.approx(2 / 3)


def test_disjoint_merges_keep_the_worst_guarantee_and_overlapping_ones_add() -> None:
    one, other = release_of(1, epsilon=1.0), release_of(2, epsilon=0.5)
    assert one.combine(other, populations="disjoint").guarantee.epsilon == 1.0
    assert one.combine(other, populations="overlapping").guarantee.epsilon == 1.5
    assert one.subtract(other, populations="overlapping").guarantee.epsilon == 1.5
    assert str(one.combine(other, populations="disjoint").guarantee.mechanism) == (
        "discrete Laplace, scale 4; discrete Laplace, scale 8"
    )
    assert one.scaled(1000).guarantee == one.guarantee


def test_whether_populations_overlap_must_be_said() -> None:
    one, other = release_of(1), release_of(2)
    for combine in (one.combine, one.subtract):
        with pytest.raises(TypeError, match="populations"):
            combine(other)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            combine(other, "disjoint")  # type: ignore[call-arg, misc]
        with pytest.raises(ss.InvalidInputError, match=r"'disjoint' .* or 'overlapping', got 'some'"):
            combine(other, populations="some")  # type: ignore[arg-type]


def test_plus_and_minus_name_the_method_that_asks_about_populations() -> None:
    one, other = release_of(1), release_of(2)
    with pytest.raises(TypeError, match=r"a\.combine\(b, populations="):
        one + other
    with pytest.raises(TypeError, match=r"a\.subtract\(b, populations="):
        one - other
    with pytest.raises(TypeError, match="combine"):
        sum([one, other], one)


def test_releases_for_different_neighbours_do_not_merge() -> None:
    one = release_of(1)
    other = sketch_of(2).release(epsilon=1.0, neighbours=ss.L1(2))
    with pytest.raises(ss.InvalidInputError, match="one neighbour relation"):
        one.combine(other, populations="disjoint")


def test_releases_of_different_projections_do_not_merge_and_the_fields_are_named() -> None:
    other = sketch_of(1, projection=PROJECTION.replace(seed=8, resolution="1/2")).release(
        epsilon=1.0, neighbours=ss.L1(1)
    )
    with pytest.raises(
        ss.errors.IncompatibleProjectionsError, match=r"resolution .*1 here, 1/2 there.*seed .*7 here, 8 there"
    ):
        release_of(1).combine(other, populations="disjoint")


@pytest.mark.parametrize("factor", [0, "0", 0.0, float("nan"), float("inf"), None, "x", True])
def test_a_factor_of_zero_or_no_number_is_refused(factor: float) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"factor|multiplier"):
        release_of(1).scaled(factor)


# --- shared noise ---------------------------------------------------------------------------------------------


def test_a_release_is_not_combined_with_itself_or_with_what_it_went_into() -> None:
    one, other, third = release_of(1), release_of(2), release_of(3)
    both = one.combine(other, populations="disjoint")
    for first, second in ((one, one), (one, one.scaled(2)), (both, one), (other, both), (both, both)):
        for combine in (first.combine, first.subtract):
            with pytest.raises(ss.errors.DependentNoiseError, match="share the noise of a release"):
                combine(second, populations="overlapping")
        for estimate in (ss.squared_distance, ss.inner_product, ss.cosine):
            with pytest.raises(ss.errors.DependentNoiseError, match="share the noise"):
                estimate(first, second)
        with pytest.raises(ss.errors.DependentNoiseError, match="share the noise"):
            ss.pairwise([third, first, second])
    assert len(both.combine(third, populations="disjoint").release_ids) == 3


def test_separate_releases_of_one_stream_are_independent() -> None:
    sketch = sketch_of(1)
    first, second = (sketch.release(epsilon=1.0, neighbours=ss.L1(1)) for _ in range(2))
    check_independent([first, second])
    assert first.combine(second, populations="overlapping").guarantee.epsilon == 2.0


# --- overflow -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "sign"),
    [
        (1 << 62, 1 << 62, 1),
        (-(1 << 62), -(1 << 62), 1),
        ((1 << 63) - 1, 1, 1),
        (-(1 << 63), 1, -1),
        (1 << 62, -(1 << 62), -1),
    ],
)
def test_a_sum_that_could_leave_63_bits_is_refused_and_nothing_changes(mine: int, theirs: int, sign: int) -> None:
    one, other = published([mine, 0]), published([theirs, 0], b"release2")
    combine = one.combine if sign > 0 else one.subtract
    with pytest.raises(ss.errors.SketchOverflowError, match="nothing was changed"):
        combine(other, populations="disjoint")
    assert one == published([mine, 0])
    assert other == published([theirs, 0], b"release2")


def test_multipliers_without_a_common_step_may_overflow_too() -> None:
    one = published([1 << 40]).scaled(Fraction(1, (1 << 20) - 1))
    other = published([1 << 40], b"release2", Fraction(1, (1 << 20) + 1))
    fine = one.combine(other, populations="disjoint")
    assert exact_cells(fine)[0] == Fraction(1 << 40, (1 << 20) - 1) + Fraction(1 << 40, (1 << 20) + 1)
    with pytest.raises(ss.errors.SketchOverflowError, match="larger common step"):
        one.combine(published([1 << 40], b"release2", Fraction(1, 10**9 + 7)), populations="disjoint")


def test_the_largest_sums_that_fit_are_exact() -> None:
    half = 1 << 62
    total = published([half - 1, 1 - half]).combine(published([half, -half], b"release2"), populations="disjoint")
    assert total.values[:2].tolist() == [(1 << 63) - 1, 1 - (1 << 63)]


# --- nothing private in it ------------------------------------------------------------------------------------


def test_a_sketch_is_not_taken_for_a_release() -> None:
    released, raw = release_of(1), sketch_of(2)
    for combine in (released.combine, released.subtract):
        with pytest.raises(TypeError, match=r"got a Sketch\. Call release\(\) on a Sketch first"):
            combine(raw, populations="disjoint")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="only a Sketch"):
        raw.merge(released)  # type: ignore[arg-type]
    for other in (None, 1, released.values):
        with pytest.raises(TypeError, match="only a PrivateSketch can be combined"):
            released.combine(other, populations="disjoint")  # type: ignore[arg-type]


def test_no_text_shows_private_values() -> None:
    sketch = PROJECTION.sketch()
    sketch.update(17, MARKER)
    released = sketch.release(epsilon=1.0, neighbours=ss.L1(1))
    other = PROJECTION.replace(seed=8).sketch()
    texts = [repr(sketch), str(sketch), f"{sketch}", repr(released), str(released), str(released.guarantee)]
    failures: list[Callable[[], object]] = [
        lambda: released + released,
        lambda: released.combine(sketch, populations="disjoint"),  # type: ignore[arg-type]
        lambda: released.combine(released, populations="disjoint"),
        lambda: sketch.merge(released),  # type: ignore[arg-type]
        lambda: sketch.merge(other),
        lambda: sketch.update(10**6, MARKER),
        lambda: sketch.update(17, 1 << 80),
        lambda: sketch.update([17, 18], [MARKER]),
        lambda: sketch.update([17, 18], [MARKER, float("nan")]),
        lambda: sketch.release(epsilon=-1.0, neighbours=ss.L1(1)),
        lambda: sketch.release(epsilon=1e-300, neighbours=ss.L1(1)),
        lambda: ss.squared_distance(sketch, "sketch"),  # type: ignore[arg-type]
        lambda: ss.cosine(sketch, PROJECTION.sketch()),
        lambda: Sketch.from_state(PROJECTION, sketch.state(), 1),
    ]
    for fail in failures:
        with pytest.raises((TypeError, ss.StreamsketchError)) as refused:
            fail()
        texts.append(str(refused.value))
    seen = {str(abs(value)) for value in [*sketch.state().tolist(), *released.values.tolist()] if abs(value) > 999}
    assert str(MARKER) in seen
    for text in texts:
        assert not any(value in text for value in seen), text


def test_a_release_holds_nothing_of_the_sketch_but_noisy_cells() -> None:
    sketch = PROJECTION.sketch()
    sketch.update(17, MARKER)
    released = sketch.release(epsilon=1e-6, neighbours=ss.L1(1))  # so much noise that none is as likely as 10^-6
    held = {name: getattr(released, name) for name in PrivateSketch.__slots__}
    assert set(held) == {
        "_agreement",
        "_clip",
        "_counts",
        "_data_ids",
        "_guarantee",
        "_history",
        "_multiplier",
        "_noise",
        "_noise_place",
        "_parts",
        "_projection",
        "_release_ids",
        "_values",
    }
    assert not hasattr(released, "__dict__")
    assert (released.values != sketch.state()).mean() > 0.9
    assert isinstance(held["_values"].base, bytes), "the cells' own copy, which nobody can make writeable"
    assert MARKER.to_bytes(8, "little") not in released.to_bytes()
    assert MARKER.to_bytes(8, "little") not in pickle.dumps(released)


def test_any_real_number_is_an_epsilon() -> None:
    for epsilon in (1, np.int64(1), np.float32(1), Fraction(1)):
        assert PROJECTION.sketch().release(epsilon=epsilon, neighbours=ss.L1(1)).guarantee.epsilon == 1.0


def test_multipliers_too_far_apart_overflow_even_on_empty_cells() -> None:
    one, other = (
        PrivateSketch(
            PROJECTION,
            np.zeros(PROJECTION.sketch_dim, dtype=np.int64),
            NoiseMoments(),
            ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("m")),
            release_ids=[bytes([number]) * 8],
        )
        for number in range(2)
    )
    with pytest.raises(ss.errors.SketchOverflowError):
        one.scaled((1 << 63) - 1).combine(other.scaled(Fraction(1, (1 << 63) - 25)), populations="disjoint")


def test_a_bound_that_no_file_could_carry_is_refused_before_noise_is_drawn() -> None:
    with pytest.raises(ss.InvalidInputError, match="63-bit"):
        PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.OneCoordinate(Fraction(1, 1 << 63)))
