"""Schedules chosen for ranges of time."""

import itertools
import json
from typing import Any

import pytest

from streamsketch.errors import InvalidInputError
from streamsketch.planning import plan_schedule
from streamsketch.privacy.schedule_kinds import schedule_of
from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree


@pytest.mark.parametrize(
    ("horizon", "ranges", "options", "kind", "worst"),
    [
        (365, ["prefix"], {"delta": 1e-6}, Factorisation, [3.1]),
        (365, [30], {"delta": 1e-6}, Factorisation, [2.6]),
        (365, [7, 30, "prefix"], {"delta": 1e-6}, Factorisation, [2.5, 2.9, 4.0]),
        (365, [1], {"delta": 1e-6}, Separate, [1.0]),
        (365, ["prefix"], {}, Tree, [10.5]),
        (365, [7, 30, "prefix"], {}, Separate, [2.7, 5.5, 19.2]),
        (52, ["prefix"], {"delta": 1e-6, "max_windows": None}, Separate, [52.0]),
        (52, ["prefix"], {"delta": 1e-6, "max_windows": None, "gap": 13}, Factorisation, [8.5]),
        (52, ["prefix"], {"delta": 1e-6, "max_windows": None, "together": True}, Separate, [7.3]),
        (365, ["prefix"], {"delta": 1e-6, "max_windows": 4, "together": True}, Factorisation, [5.7]),
        (1, ["prefix", 1], {"delta": 1e-6}, Separate, [1.0, 1.0]),
    ],
    ids=str,
)
def test_the_schedule_suits_the_ranges(
    horizon: int, ranges: list[Any], options: dict[str, Any], kind: type, worst: list[float]
) -> None:
    plan = plan_schedule(horizon, ranges, **options)
    assert isinstance(plan.chosen.schedule, kind)
    assert all(error <= most for error, most in zip(plan.chosen.errors, worst, strict=True))
    assert plan.is_separate == (kind is Separate)
    assert plan.separate.schedule.most == plan.chosen.schedule.most


def test_errors_are_those_of_the_schedules() -> None:
    plan = plan_schedule(60, [7, "prefix"], delta=1e-6)
    for option in plan.options:
        sliding = max(option.schedule.error(start, start + 7) for start in range(54))
        prefixes = max(option.schedule.error(0, stop) for stop in range(1, 61))
        assert option.errors == pytest.approx((sliding, prefixes))


def test_no_option_keeps_more_sums_than_may_be_kept() -> None:
    free, bound = (plan_schedule(365, delta=1e-6, most_held=most) for most in (None, 10))
    assert max(option.held for option in bound.options) <= 10
    assert free.chosen.errors[0] < bound.chosen.errors[0]


def test_the_first_option_is_within_a_twentieth_of_the_best() -> None:
    plan = plan_schedule(200, [7, 30, "prefix"], delta=1e-6)
    best = [min(errors) for errors in zip(*(option.errors for option in plan.options), strict=True)]
    regrets = [max(a / b for a, b in zip(option.errors, best, strict=True)) for option in plan.options]
    assert regrets[0] <= 1.05 * min(regrets)
    assert all(earlier <= later for earlier, later in itertools.pairwise(regrets[1:]))


def test_a_plan_is_json_that_schedules_are_read_from() -> None:
    fields = json.loads(json.dumps(plan_schedule(30, [7, "prefix"], delta=1e-6).to_dict()))
    assert fields["ranges"] == [7, "prefix"]
    assert [schedule_of(one["schedule"]).horizon for one in fields["options"]] == [30] * len(fields["options"])


@pytest.mark.parametrize(
    ("ranges", "words"),
    [([], "ranges is empty"), (["year"], "'prefix'"), ([0], "range"), ([9], "range"), ([True], "range")],
)
def test_ranges_are_of_the_horizon(ranges: list[Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        plan_schedule(8, ranges)
