"""What is compared between windows, and with which test."""

from typing import Any

import pytest

import streamsketch as ss
from streamsketch.beam.streams import ChangesBetweenWindows
from tests.counted import shops


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("by", "share"), [("distance", 0.0), ("distance", 1.0), ("mean", 0.0)])
def test_the_p_value_is_that_of_a_test_with_the_tolerance(by: Any, share: float) -> None:
    found = shops()
    x, y = found["north"], found["south"]
    tolerance = share * ss.squared_distance(x, y).value ** 0.5
    change = ChangesBetweenWindows(by=by, tolerance=tolerance)._test.change(x, y)
    assert change.p_value == ss.test_same(x, y, tolerance, by=by).p_value
    assert not share or 0.01 < change.p_value < 0.99
    assert change.estimate.value == ss.pairwise([x, y], by=by).value[0, 1]


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize(("by", "other"), [("mean", "kiosk"), ("cosine", "south"), ("profile", "south")])
def test_what_has_no_test_has_no_p_value(by: Any, other: str) -> None:
    found = shops()
    change = ChangesBetweenWindows(by=by)._test.change(found["north"], found[other])
    assert change.p_value is None
    assert (change.estimate.value != change.estimate.value) == (by == "mean"), "too few units have no average"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"by": "size"}, "by must be"),
        ({"tolerance": -1.0}, "tolerance must be finite"),
        ({"by": "cosine", "tolerance": 1.0}, "by must be 'distance' or 'mean'"),
        ({"samples": True}, "compared by their averages"),
    ],
)
def test_mistakes_are_known_before_the_job(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=what):
        ChangesBetweenWindows(**options)
