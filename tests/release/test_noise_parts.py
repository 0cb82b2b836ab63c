"""Sums of releases keep what each part stated of its noise."""

from fractions import Fraction

import pytest

import streamsketch as ss
from streamsketch.release.noise_parts import NoisePart, merge_parts

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)


def release(epsilon: float = 1.0) -> ss.PrivateSketch:
    return PROJECTION.sketch().release(epsilon=epsilon, neighbours=ss.L1(1))


def test_a_single_release_has_no_parts_and_stands_for_itself() -> None:
    one = release()
    assert one.parts == ()
    assert one.as_parts() == (NoisePart(one.noise, one.guarantee),)


def test_a_sum_has_the_parts_of_all_with_equal_ones_counted() -> None:
    total = release().combine(release(), populations="disjoint").combine(release(0.5), populations="disjoint")
    strong, weak = release(0.5), release()
    assert set(total.parts) == {
        NoisePart(strong.noise, strong.guarantee),
        NoisePart(weak.noise, weak.guarantee, count=2),
    }
    again = release(0.5).combine(release().combine(release(), populations="disjoint"), populations="disjoint")
    assert again.parts == total.parts, "in whatever order they were added"


def test_multipliers_go_with_the_parts() -> None:
    total = release().scaled(-2).subtract(release().scaled("1/3"), populations="overlapping").scaled(Fraction(1, 2))
    assert sorted(part.multiplier for part in total.parts) == [Fraction(1, 6), 1]
    steps = sum(part.count * float(part.multiplier) ** 2 * part.noise.k2 for part in total.parts)
    assert steps == pytest.approx(float(total.multiplier) ** 2 * total.noise.k2, rel=1e-12)


def test_parts_are_written_and_read() -> None:
    total = (
        release().scaled(3).combine(release(0.5), populations="overlapping").combine(release(), populations="disjoint")
    )
    again = ss.PrivateSketch.from_bytes(total.to_bytes())
    assert again == total
    assert again.parts == total.parts
    assert again.to_bytes() == total.to_bytes()


def test_a_sum_with_an_unstated_part_states_none() -> None:
    total = release().combine(release(), populations="disjoint")
    old = ss.PrivateSketch(PROJECTION, total.values, total.noise, total.guarantee, release_ids=total.release_ids)
    assert old.combine(release(), populations="disjoint").parts == ()


def test_as_many_parts_as_releases() -> None:
    one = release()
    with pytest.raises(ss.InvalidInputError, match="a sum of 1 releases needs 1 parts, got 2"):
        ss.PrivateSketch(
            PROJECTION,
            one.values,
            one.noise,
            one.guarantee,
            release_ids=one.release_ids,
            parts=[NoisePart(one.noise, one.guarantee, count=2)],
        )


@pytest.mark.parametrize(("multiplier", "count"), [(0, 1), (-1, 1), (1, 0), (1, 1 << 32), (1, True)])
def test_invalid_parts_are_refused(multiplier: int, count: int) -> None:
    one = release()
    with pytest.raises(ss.InvalidInputError, match="a positive multiplier and a count"):
        NoisePart(one.noise, one.guarantee, multiplier, count)


def test_united_counts_alike_parts() -> None:
    part = NoisePart(release().noise, release().guarantee)
    assert merge_parts([part, part, part.scaled(Fraction(-2))]) == merge_parts([part.scaled(Fraction(2)), part, part])
