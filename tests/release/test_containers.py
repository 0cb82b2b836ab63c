"""Wherever the same data are, they are not of disjoint populations: every container, under every operation."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.continual import History, Releaser, Tree
from streamsketch.errors import InvalidInputError
from streamsketch.release import AdditiveNoise

GRID = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=7)
SALE = ss.L1(1, unit="sale", max_keys=4)  # so that no table of these is refused for a unit in too many rows
HOW: dict[str, Any] = {"epsilon": 1.0, "neighbours": SALE, "again": True}


def table_of(*keys: str) -> ss.SketchTable:
    table = GRID.table()
    table.update(list(keys), list(range(len(keys))))
    return table


def fresh() -> ss.PrivateSketch:
    return GRID.sketch().release(**HOW)


# --- one release of a key's data, and every place where these data are again ---------------------------------------


def again(data: ss.SketchTable) -> Any:
    return data.sketch_of("x").release(**HOW)


def in_a_sum(data: ss.SketchTable) -> Any:
    return fresh().combine(again(data), populations="overlapping")


def in_a_difference(data: ss.SketchTable) -> Any:
    return fresh().subtract(again(data), populations="overlapping")


def scaled(data: ss.SketchTable) -> Any:
    return again(data).scaled(3)


def merged(data: ss.SketchTable) -> Any:
    total = GRID.sketch()
    total.merge(data.sketch_of("x"))
    return total.release(**HOW)


def read(data: ss.SketchTable) -> Any:
    return ss.PrivateSketch.from_bytes(again(data).to_bytes())


def as_a_row_of_a_table(data: ss.SketchTable) -> Any:
    return data.release(**HOW, public_keys=["x", "y"])["x"]


SINGLE: dict[str, Callable[[ss.SketchTable], Any]] = {
    "another release": again,
    "a sum": in_a_sum,
    "a difference": in_a_difference,
    "a multiple": scaled,
    "a merge": merged,
    "its bytes": read,
    "a row": as_a_row_of_a_table,
}


def under_another_key(data: ss.SketchTable) -> Any:
    return ss.PrivateTable({"x": fresh(), "y": again(data)})


def under_its_key(data: ss.SketchTable) -> Any:
    return data.release(**HOW, public_keys=["x", "y"])


def in_a_sum_under_another_key(data: ss.SketchTable) -> Any:
    halves = {key: fresh() for key in "xy"} | {"y": again(data)}
    return ss.PrivateTable({key: one.combine(fresh(), populations="disjoint") for key, one in halves.items()})


TABLES: dict[str, Callable[[ss.SketchTable], Any]] = {
    "under its key": under_its_key,
    "under another key": under_another_key,
    "in a sum under another key": in_a_sum_under_another_key,
}


def a_row_of_a_history(data: ss.SketchTable) -> Any:
    publisher = AdditiveNoise(epsilon=1.0, neighbours=SALE, schedule=Tree(horizon=2, max_windows=2))
    return Releaser(publisher, GRID).add(data.sketch_of("x"))


def a_range_of_a_history(data: ss.SketchTable) -> Any:
    return History([a_row_of_a_history(data)]).range(0, 1)


HISTORIES: dict[str, Callable[[ss.SketchTable], Any]] = {
    "a row of a history": a_row_of_a_history,
    "a range of a history": a_range_of_a_history,
}

TOGETHER: dict[str, Callable[[Any, Any, Any], Any]] = {
    "compose": lambda one, other, populations: ss.compose([one, other], populations=populations),
    "explain": lambda one, other, populations: ss.explain(one, other, populations=populations).guarantee,
}
ADDED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "combine": lambda one, other, populations: one.combine(other, populations=populations).guarantee,
    "subtract": lambda one, other, populations: one.subtract(other, populations=populations).guarantee,
}


def refused_as_disjoint(operation: Callable[[Any, Any, Any], Any], one: Any, other: Any) -> None:
    for first, second in ((one, other), (other, one)):
        with pytest.raises(InvalidInputError, match="populations are not disjoint"):
            operation(first, second, "disjoint")
        assert operation(first, second, "overlapping").epsilon > 1.0


@pytest.mark.parametrize("place", [*SINGLE, *TABLES, *HISTORIES])
@pytest.mark.parametrize("operation", TOGETHER)
def test_data_are_found_wherever_they_are(operation: str, place: str) -> None:
    data = table_of("x", "y")
    there = (SINGLE | TABLES | HISTORIES)[place](data)
    refused_as_disjoint(TOGETHER[operation], again(data), there)
    for other in (under_its_key(data), under_another_key(data), in_a_sum(data)):
        refused_as_disjoint(TOGETHER[operation], other, there)


@pytest.mark.parametrize("place", SINGLE)
@pytest.mark.parametrize("operation", ADDED)
def test_no_sum_of_two_that_share_data_is_one_of_disjoint_populations(operation: str, place: str) -> None:
    data = table_of("x", "y")
    refused_as_disjoint(ADDED[operation], again(data), SINGLE[place](data))


@pytest.mark.parametrize("place", TABLES)
@pytest.mark.parametrize("other", TABLES)
def test_tables_that_share_data_under_any_keys_are_no_disjoint_ones(other: str, place: str) -> None:
    """Key by key they may share nothing: the rows of "x" here are those of "y" there."""
    data = table_of("x", "y")
    one, two = TABLES[other](data), TABLES[place](data)
    refused_as_disjoint(ADDED["combine"], one, two)


def test_tables_with_their_keys_exchanged_are_no_disjoint_ones() -> None:
    data = table_of("x", "y")
    one = under_its_key(data)
    other = ss.PrivateTable({"x": data.sketch_of("y").release(**HOW), "y": fresh()})
    assert not set(one["x"].data_ids) & set(other["x"].data_ids)
    refused_as_disjoint(ADDED["combine"], one, other)


@pytest.mark.parametrize("operation", [*TOGETHER, *ADDED])
def test_other_data_are_disjoint_where_they_are_said_to_be(operation: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (TOGETHER | ADDED)[operation](fresh(), fresh(), "disjoint").epsilon == 1.0
        if operation in TOGETHER:
            tables = under_its_key(table_of("x", "y")), under_another_key(table_of("x", "y"))
            assert TOGETHER[operation](*tables, "disjoint").epsilon == 1.0
