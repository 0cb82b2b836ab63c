"""Which releases spend anything: ids say which are copies and sums, and cells, noise and guarantees must agree."""

import dataclasses
import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch import PrivateSketch, PrivateTable
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.redundancy import non_redundant, sharing_data
from streamsketch.sketching.exact import ExactSums

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
OTHER_MAP = PROJECTION.replace(seed=8)
NEAR = ss.L1(1, unit="sale")


def released(epsilon: float = 1.0, projection: ss.projections.Projection = PROJECTION, **how: Any) -> PrivateSketch:
    sketch = projection.sketch()
    sketch.update(["x"] * 100)
    return sketch.release(epsilon=epsilon, neighbours=NEAR, **how)


def dressed(release: PrivateSketch, ids: PrivateSketch, **changes: Any) -> PrivateSketch:
    """Return a release under the ids of another, as a forger writes it."""
    parts = {"values": release.values, "noise": release.noise, "guarantee": release.guarantee} | changes
    return PrivateSketch(
        parts.get("projection", release.projection),
        parts["values"],
        parts["noise"],
        parts["guarantee"],
        noise_place=parts.get("noise_place", release.noise_place),
        release_ids=ids.release_ids,
        data_ids=ids.data_ids,
    )


def spent(*given: Any) -> float:
    """Return the sum of ε, which is the same in any order and by any function."""
    found = set()
    for order in (given, given[::-1]):
        found.add(ss.compose(order, populations="overlapping").epsilon)
        found.add(ss.explain(*order, populations="overlapping").guarantee.epsilon)
    (one,) = found
    return one


FORGERIES: dict[str, Callable[[PrivateSketch], tuple[PrivateSketch, str]]] = {
    "another release": lambda one: (dressed(released(), one), "cells"),
    "another release of more ε": lambda one: (dressed(released(9.0), one), "cells, noise, guarantees"),
    "one cell": lambda one: (dressed(one, one, values=one.values + np.eye(64, dtype=np.int64)[3]), "cells"),
    "no noise": lambda one: (dressed(one, one, noise=NoiseMoments()), "noise"),
    "less ε": lambda one: (dressed(one, one, guarantee=dataclasses.replace(one.guarantee, epsilon=0.1)), "guarantees"),
    "more ε": lambda one: (dressed(one, one, guarantee=dataclasses.replace(one.guarantee, epsilon=9.0)), "guarantees"),
    "more δ": lambda one: (dressed(one, one, guarantee=dataclasses.replace(one.guarantee, delta=0.1)), "guarantees"),
    "more ε for less δ": lambda one: (
        dressed(one, one, guarantee=dataclasses.replace(one.guarantee, epsilon=9.0, delta=0.0)),
        "guarantees",
    ),
    "another map": lambda one: (dressed(one, one, projection=OTHER_MAP), "maps"),
    "another bound": lambda one: (
        dressed(one, one, guarantee=dataclasses.replace(one.guarantee, neighbours=ss.L1(2, unit="sale"))),
        "guarantees",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
@pytest.mark.parametrize("beside", ["alone", "scaled", "a row of a table", "a sum"])
def test_another_release_under_the_same_id_is_refused(name: str, beside: str) -> None:
    one = released(delta=1e-6, mechanism="gaussian") if name == "more ε for less δ" else released()
    forged, differs = FORGERIES[name](one)
    other = released()
    given: list[Any] = {
        "alone": [one, forged],
        "scaled": [one.scaled(Fraction(1, 3)), other, forged.scaled(5)],
        "a row of a table": [PrivateTable({"a": one}), forged],
        "a sum": [one, other, forged, one.combine(other, populations="overlapping")]
        if one.guarantee.neighbours == other.guarantee.neighbours
        else [one, forged],
    }[beside]
    for order in (given, given[::-1]):
        for work in (non_redundant, sharing_data, lambda each: ss.explain(*each)):
            with pytest.raises(ss.InvalidInputError, match=f"have the same id, but differ: {differs}\\."):
                work(order)
        if name != "another bound":
            with pytest.raises(ss.InvalidInputError, match="have the same id"):
                ss.compose(order, populations="overlapping")


SUMS: dict[str, Callable[[list[PrivateSketch]], PrivateSketch]] = {
    "added": lambda given: added(*given),
    "scaled": lambda given: added(*given).scaled(Fraction(-2, 7)),
    "subtracted": lambda given: given[0].subtract(added(*given[1:]), populations="overlapping"),
    "weighted": lambda given: added(*(one.scaled(place + 2) for place, one in enumerate(given))),
    "in thirds and halves": lambda given: added(given[0].scaled(Fraction(1, 3)), *given[1:]).scaled(Fraction(1, 2)),
}


def added(first: PrivateSketch, *others: PrivateSketch) -> PrivateSketch:
    for other in others:
        first = first.combine(other, populations="overlapping")
    return first


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("count", [2, 3, 40])
def test_a_sum_spends_nothing_beside_its_parts_and_a_forged_one_is_refused(name: str, count: int) -> None:
    parts = [released(0.5) for _ in range(count)]
    total = SUMS[name](parts)
    assert spent(*parts, total) == spent(*parts) == 0.5 * count
    assert spent(*parts, PrivateSketch.from_bytes(total.to_bytes())) == 0.5 * count
    for forged, wrong in (
        (dressed(released(), total, guarantee=total.guarantee, noise=total.noise), "vector"),
        (dressed(total, total, values=total.values + np.eye(64, dtype=np.int64)[9]), "vector"),
        (dressed(total, total, noise=total.noise.times(2)), "noise"),
        (dressed(total, total, noise=NoiseMoments(total.noise.k2, 1.5 * total.noise.k4)), "noise"),
        (dressed(total, total, projection=OTHER_MAP), "map"),
    ):
        with pytest.raises(
            ss.InvalidInputError, match=rf"release {count + 1} of {count + 1} has the ids .* its {wrong} "
        ):
            non_redundant([*parts, forged])


@pytest.mark.parametrize("name", SUMS)
def test_what_is_computed_of_other_sums_spends_nothing_and_what_is_not_counts(name: str) -> None:
    parts = [released(epsilon) for epsilon in (1.0, 2.0, 4.0)]
    total = SUMS[name](parts)
    copy = total.scaled(3)
    assert spent(total, copy) == 7
    week = added(*parts[:2])
    month = added(week, parts[2])
    assert spent(week, parts[2], month) == 7
    assert spent(week, month, parts[2]) == 7
    fresh = dressed(released(), total, guarantee=total.guarantee)
    assert spent(total, fresh) == 14, "with the ids of the same parts, and none of them given"
    last = dressed(released(8.0), parts[2])
    assert spent(week, month, last) == 3 + 7 + 8, "which the sums show not to be the part it says"


@pytest.mark.parametrize("cells", [1, 2, 4])
def test_of_as_many_parts_as_cells_only_the_plain_sum_is_known(cells: int) -> None:
    small = ss.CountSketch(sketch_dim=cells, seed=7)
    parts = [released(1.0, small) for _ in range(cells + (cells > 2))]
    if cells > 1:
        assert spent(*parts, added(*parts)) == len(parts)
        assert spent(*parts, SUMS["weighted"](parts)) == 2 * len(parts), "any cells are a sum of so many vectors"
        total = added(*parts)
        assert spent(*parts, dressed(released(1.0, small), total, guarantee=total.guarantee)) == 2 * len(parts)
    with pytest.raises(ss.InvalidInputError, match="have the same id"):
        spent(parts[0], dressed(parts[0], parts[0], values=parts[0].values * 2))


def test_a_difference_below_the_precision_of_floats_is_no_sum() -> None:
    large = PROJECTION.sketch()
    large.update(["x", "y"], [1 << 50, -1 << 49])
    parts = [large.release(epsilon=1.0, neighbours=NEAR) for _ in range(3)]
    total = added(*parts)
    assert spent(*parts, total) == 3
    wrong = dressed(total, total, values=total.values + np.eye(64, dtype=np.int64)[np.argmax(total.values)])
    assert spent(*parts, wrong) == 6, "not shown to be none, so it counts"


def test_a_sum_that_is_said_to_have_less_delta_hides_none() -> None:
    total = added(*(released(delta=1e-3, mechanism="gaussian") for _ in range(2)))
    forged = dressed(total, total, guarantee=dataclasses.replace(total.guarantee, epsilon=2.5, delta=1e-12))
    for order in itertools.permutations([total, forged, total]):
        assert ss.compose(order, populations="overlapping").delta >= total.guarantee.delta


def test_rows_beside_their_tables_and_sums_of_tables() -> None:
    def table(epsilon: float) -> PrivateTable:
        return PROJECTION.table(["a", "b"]).release(epsilon=epsilon, neighbours=NEAR, keys_are_public=True)

    one, two = table(1.0), table(2.0)
    assert spent(one, one["a"], one["b"].scaled(3)) == 1
    total = PrivateTable({key: one[key].combine(two[key], populations="overlapping") for key in one})
    assert spent(one, two, total) == 3
    swapped = PrivateTable({"a": dressed(total["b"], total["a"]), "b": total["b"]})
    with pytest.raises(ss.InvalidInputError, match="has the ids of 2 releases that are given too, and its vector "):
        spent(one, two, swapped)
    with pytest.raises(ss.InvalidInputError, match="have the same id"):
        spent(one, PrivateTable({"a": one["a"], "b": dressed(one["a"], one["b"])}))


def test_signs_under_one_id_are_one_release() -> None:
    def signs(release_id: bytes) -> Any:
        sketch = ss.projections.Rademacher(dim=100, sketch_dim=64, seed=7).sketch()
        found = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=NEAR).release(sketch)
        return ss.signs.SignSketch(
            found.projection, found.packed, found.law, found.guarantee, release_id=release_id, data_ids=found.data_ids
        )

    one, other = signs(b"12345678"), signs(b"87654321")
    assert spent(one, other, one) == 2
    with pytest.raises(ss.InvalidInputError, match="have the same id, but differ: cells"):
        spent(one, signs(b"12345678"))


BASE = [released(2.0**-place) for place in range(4)]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, -1, 2, Fraction(1, 3)])), min_size=1, max_size=4,
                 unique_by=lambda term: term[0]),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_honest_sums_are_never_refused_and_spend_at_least_what_their_span_holds(terms: list[list[Any]]) -> None:
    """Whatever is given, the ε that count cover a set of releases of which all can be computed."""
    made = [added(*(BASE[place].scaled(factor) for place, factor in each)) for each in terms]
    rows = np.zeros((len(terms), 4))
    for number, each in enumerate(terms):
        for place, factor in each:
            rows[number, place] = float(factor)
    counting = non_redundant(made)
    assert np.linalg.matrix_rank(rows[counting]) == np.linalg.matrix_rank(rows)
    for order in itertools.islice(itertools.permutations(range(len(made))), 6):
        again = non_redundant([made[place] for place in order])
        assert np.linalg.matrix_rank(rows[[order[place] for place in again]]) == np.linalg.matrix_rank(rows)


# --- all orders and all subsets of true, bare and forged ----------------------------------------------------------


def of_people() -> PrivateSketch:
    """Return a release with a count of units and slack beside its cells."""
    bounds = Bounds(NEAR, "scale", counted=True)
    data = ss.Sketch.from_state(PROJECTION, ExactSums.of(np.arange(64), np.array([7, 7])), 1 << 20, bounds=bounds)
    return ss.AdditiveNoise(epsilon=1.0, neighbours=NEAR, counting=ss.privacy.Counting(9, slack=1)).release(data)


def with_counts(one: PrivateSketch, counts: Any) -> PrivateSketch:
    return PrivateSketch(
        one.projection,
        one.values,
        one.noise,
        one.guarantee,
        release_ids=one.release_ids,
        data_ids=one.data_ids,
        counts=counts,
    )


COUNTS: dict[str, Callable[[Any], Any]] = {
    "units": lambda counts: counts + np.array([1, 0]),
    "slack": lambda counts: counts - np.array([0, 1]),
    "swapped": lambda counts: counts[::-1].copy(),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_forged_counts_are_refused_in_any_order_among_copies_with_and_without(name: str, size: int) -> None:
    """Two that differ in their counts are one too many, wherever a copy that has none stands between them."""
    true = of_people()
    kinds = {"true": true, "bare": with_counts(true, None), "forged": with_counts(true, COUNTS[name](true.counts))}
    for names in itertools.product(kinds, repeat=size):
        given_here = [kinds[one] for one in names]
        if {"true", "forged"} <= set(names):
            with pytest.raises(ss.InvalidInputError, match=r"have the same id, but differ: counts"):
                ss.compose(given_here, populations="overlapping")
        else:
            assert ss.compose(given_here, populations="overlapping").epsilon == 1.0


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_copies_are_refused_in_any_order_and_number(name: str) -> None:
    true = released()
    forged, _ = FORGERIES[name](true)
    for size in (1, 2, 3):
        for names in itertools.product(("true", "forged"), repeat=size):
            chosen = [true if one == "true" else forged for one in names]
            if len(set(names)) == 2:
                with pytest.raises(ss.InvalidInputError, match=r"have the same id|for one neighbour relation"):
                    ss.compose(chosen, populations="overlapping")
            else:
                assert ss.compose(chosen, populations="overlapping") == chosen[0].guarantee
