"""A fifth neighbour relation, in this file alone, with a field that no other has."""

import dataclasses
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Guarantee, Neighbours
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.neighbours import NEIGHBOURS, register_relation
from streamsketch.release.composition import compose
from streamsketch.schedules.tree import Tree

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)


@dataclasses.dataclass(frozen=True, repr=False)
class FewItems(Neighbours):
    """Streams that differ by one unit, which changes up to ``items`` coordinates, each by at most ``bound``."""

    items: int = 1

    kind = "few-items"
    label = "each of a few items"

    def grid_steps(self, resolution: Fraction) -> int:
        return self.items * (Fraction(self.bound) // resolution)

    @property
    def change(self) -> str:
        return f"it changes at most {self.items} coordinates, each by at most {self.bound}"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_relation(FewItems)
    yield
    del NEIGHBOURS["few-items"]


def test_its_own_field_is_in_its_text_and_its_json() -> None:
    one, fifty = FewItems(2, unit="sale", items=1), FewItems(2, unit="sale", items=50)
    assert str(one) == "one sale of at most 2 (each of a few items, items 1)"
    assert repr(fifty) == "FewItems(2, unit='sale', items=50)"
    assert len({str(one), str(fifty)}) == len({repr(one), repr(fifty)}) == 2
    for relation in (one, fifty):
        assert Neighbours.from_dict(relation.to_dict()) == relation
    assert fifty.to_dict() == {"relation": "few-items", "bound": "2", "unit": "sale", "max_keys": 1, "items": 50}
    with pytest.raises(InvalidInputError, match="bound, items, max_keys, relation, unit"):
        Neighbours.from_dict({"relation": "few-items", "bound": "2", "unit": "sale", "max_keys": 1})


def test_relations_with_other_fields_do_not_imply_each_other() -> None:
    one, fifty = FewItems(2, items=1), FewItems(2, items=50)
    assert one.implies(FewItems(3, items=1))
    assert not one.implies(fifty)
    assert not fifty.implies(one)
    merged = Bounds(one, "cut").merged(Bounds(fifty, "cut"), keyed=False)
    assert merged.ended == f"data were added that were bounded to {fifty}"


def test_it_says_how_far_a_unit_moves_a_sketch_alone_and_over_time() -> None:
    few = FewItems(2, max_keys=3, items=5)
    moved = sensitivity_of(PROJECTION, few)
    assert moved.l1 == 3 * PROJECTION.l1_sensitivity * 10
    assert moved.l2_squared == 3 * PROJECTION.l2_sensitivity_squared * 100
    rows = sensitivity_of(PROJECTION, few, Layout(schedule=Tree(horizon=4)))
    assert rows.l1 == Tree(horizon=4).norms.l1 * moved.l1
    assert few.over_rows(4) is few


def test_a_release_for_it_states_and_explains_it_and_no_other() -> None:
    few = FewItems(2, unit="sale", items=5)
    sketch = PROJECTION.sketch()
    sketch.update(np.arange(10), np.ones(10, dtype=np.int64))
    released = sketch.release(epsilon=1.0, neighbours=few)
    assert "one sale of at most 2 (each of a few items, items 5)" in str(released.guarantee)
    assert "it changes at most 5 coordinates, each by at most 2" in str(released.explain())
    assert Guarantee.from_dict(released.guarantee.to_dict()) == released.guarantee
    other = dataclasses.replace(released.guarantee, neighbours=FewItems(2, unit="sale"))
    with pytest.raises(InvalidInputError, match="compose only for one neighbour relation"):
        compose([released.guarantee, other], populations="overlapping")


def test_the_exchange_format_refuses_a_field_that_it_cannot_carry() -> None:
    sketch = PROJECTION.sketch()
    sketch.update(3, 1)
    released = sketch.release(epsilon=1.0, neighbours=FewItems(2, items=5))
    with pytest.raises(InvalidInputError, match="no number for items of FewItems"):
        released.to_bytes()


def test_what_is_not_proven_for_it_is_refused() -> None:
    few = FewItems(2, unit="sale", items=5)
    rows = pa.table({"sale": [1], "item": [2]})
    with pytest.raises(InvalidInputError, match="units are clipped to L1"):
        ss.bound(rows, ss.agree(rows, PROJECTION, index="item", unit="sale", neighbours=few))
    with pytest.raises(InvalidInputError, match="units are counted under L1"):
        ss.privacy.Counting(2).check_for(few)


def test_a_relation_that_is_not_registered_is_refused() -> None:
    del NEIGHBOURS["few-items"]
    try:
        with pytest.raises(TypeError, match=r"neighbours must be L1\(bound\) or L2"):
            PROJECTION.sketch().release(epsilon=1.0, neighbours=FewItems(2))
    finally:
        register_relation(FewItems)
