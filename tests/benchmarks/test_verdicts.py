"""Verdicts follow from numbers, errors and tolerances alone."""

import math

import pytest

from benchmarks.verdicts import Check, verdict


@pytest.mark.parametrize(
    ("observed", "error", "holds"),
    [
        *((1.0, 0.0, True), (2.0, 0.0, True), (2.1, 0.0, False), (1.5, 0.5, True), (1.9, 0.2, None), (2.3, 0.2, False)),
        *((0.9, 0.2, None), (1.5, 2.0, None), (math.nan, 0.0, None), (1.5, math.nan, None), (math.inf, 0.0, False)),
    ],
)
def test_a_check_holds_if_the_whole_interval_is_within(observed: float, error: float, *, holds: bool | None) -> None:
    assert Check("c", observed, 1.0, 2.0, error=error).holds is holds


def test_one_sided_tolerances() -> None:
    assert Check("c", 1e9, 1.0, math.inf, error=5.0).holds is True
    assert Check("c", math.inf, 1.0, math.inf).holds is True
    assert Check("c", 1e9, -math.inf, 1.0).holds is False


def test_empty_tolerances_and_negative_errors_are_refused() -> None:
    with pytest.raises(ValueError, match=r"low <= high, got 2\.0 and 1\.0: c"):
        Check("c", 1.0, 2.0, 1.0)
    with pytest.raises(ValueError, match=r"got -0\.1: c"):
        Check("c", 1.0, 0.0, 1.0, error=-0.1)


@pytest.mark.parametrize(
    ("holds", "text"),
    [
        ([], "not checked"),
        ([True, True], "agrees"),
        ([True, False], "differs in 1 of 2"),
        ([False, False, None], "differs in 2 of 3, 1 cannot be told"),
        ([None, True], "cannot be told in 1 of 2"),
        ([None], "cannot be told"),
    ],
)
def test_verdicts(holds: list[bool | None], text: str) -> None:
    assert verdict(holds) == text
