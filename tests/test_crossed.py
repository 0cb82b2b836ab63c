"""Combinations of parameters of which each two meet."""

import itertools

import pytest

from tests.crossed import covering, crossed

SIZES = [[1], [3], [2, 5], [3, 8, 3], [9, 5, 4], [2, 2, 2, 2], [4, 1, 3]]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_each_two_values_meet_in_few_cases(sizes: list[int]) -> None:
    cases = covering(sizes)
    for first, second in itertools.combinations(range(len(sizes)), 2):
        together = {(case[first], case[second]) for case in cases}
        assert together == set(itertools.product(range(sizes[first]), range(sizes[second])))
    least = max((a * b for a, b in itertools.combinations(sizes, 2)), default=sizes[0])
    assert least <= len(cases) <= 2 * least


def test_all_others_are_marked_long() -> None:
    mark = crossed(a="xyz", b=[1, 2, 3], c=[True, False, None]).mark
    names, cases = mark.args
    assert names == ("a", "b", "c")
    assert {case.values for case in cases} == set(itertools.product("xyz", [1, 2, 3], [True, False, None]))
    short = [case.values for case in cases if not case.marks]
    assert 9 <= len(short) <= 12
    assert all([mark.name for mark in case.marks] == ["long"] for case in cases if case.values not in short)
