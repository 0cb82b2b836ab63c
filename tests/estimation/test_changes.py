"""Series of releases in time order: alarms, their lines, and what is missing."""

import datetime as dt
import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.estimation import changes as of_module
from streamsketch.estimation.changes import controlled
from tests.counted import counted
from tests.noise import salted_bits, salted_rng

pytestmark = pytest.mark.rejects(1e-4)


SALE = ss.L1(1, unit="sale")
PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=2, seed=7)


@pytest.fixture(autouse=True)
def _the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = salted_bits(b"changes")
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)


def window(item: int = 1, count: int = 300, epsilon: float = 4.0) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update([item, 2], [count, 50])
    return sketch.release(epsilon=epsilon, neighbours=SALE)


def test_a_change_is_found_where_it_is_and_what_stays_is_compared_with_the_first() -> None:
    days = [dt.date(2024, 3, day) for day in range(1, 7)]
    releases = dict(zip(days, [window(), window(), window(3), window(3), window(3), window()], strict=True))
    found = ss.changes(releases, level=0.001)
    assert found.alarms == [days[2], days[5]]
    assert found.table["before"].to_pylist() == days[:-1]
    assert ss.changes(releases, against="first", level=0.001).alarms == days[2:5]
    for row in found.table.to_pylist():
        assert row["alarm"] == (row["estimate"] >= row["line"])
        assert row["low"] <= max(row["estimate"], 0) <= row["high"]
    assert str(found).count("*") == 2
    assert [row["alarm"] for row in found.to_dict()["windows"]] == [False, True, False, False, True]


def test_joint_estimates_are_beside_what_is_tested_and_marked() -> None:
    releases = {"a": window(), "b": None, "c": window(epsilon=2.0), "d": window(3, epsilon=1.0), "e": window(3)}
    plain, found = (ss.changes(releases, level=0.001, together=together) for together in (False, True))
    assert found.table.drop_columns(["joint", "joint_error"]).equals(plain.table)
    present = [one for one in releases.values() if one is not None]
    expected = ss.pairwise(present, by="distance", together=True, order="time")
    assert found.table["joint"].to_pylist() == [expected.value[i, i - 1] for i in (1, 2, 3)]
    assert found.table["joint_error"].to_pylist() == [expected.standard_error[i, i - 1] for i in (1, 2, 3)]
    made = expected.model  # type: ignore[attr-defined]
    assert found.joint == made
    assert found.to_dict()["joint"] == made.to_dict()
    assert json.loads(found.table.schema.metadata[b"streamsketch.joint"]) == made.to_dict()
    for text in (str(found), repr(found)):
        assert str(made) in text
    for text in (str(plain), repr(plain), str(plain.to_dict()), str(plain.table.schema)):
        assert "joint" not in text
    with pytest.raises(InvalidInputError, match="together=True is for by='distance'"):
        ss.changes(releases, by="mean", together=True)


def test_what_is_missing_is_passed_over_and_noises_may_differ() -> None:
    releases = {"a": window(), "b": None, "c": window(epsilon=2.0), "d": window(3, epsilon=1.0)}
    found = ss.changes(releases, level=0.001)
    assert found.table["before"].to_pylist() == ["a", "c"]
    assert found.alarms == ["d"]
    assert ss.changes([window(), None, window()]).table["window"].to_pylist() == [2]


def test_averages_do_not_change_with_numbers_of_units_and_too_few_have_none() -> None:
    shops = [counted(300, (1, 2)), counted(900, (1, 2)), counted(1, (3,)), counted(800, (1, 2)), counted(800, (3,))]
    found = ss.changes(shops, by="mean", level=0.001)
    assert found.alarms == [4]
    assert found.table["before"].to_pylist() == [0, None, 1, 3]
    assert found.table["p_value"].null_count == found.table["line"].null_count == 1
    assert "no average" in str(found)
    assert ss.changes(shops, level=0.001).alarms != [4]


def month(*counts: int) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update(list(range(1, 1 + len(counts))), counts)
    return sketch.release(epsilon=2.0, neighbours=SALE)


@pytest.mark.rejects(1e-3)
def test_half_a_december_is_no_alarm_where_size_does_not_count() -> None:
    """By both measures of the mix after each other: they rest on the same laws, which are kept."""
    measures: Any = ("profile", "cosine")
    year = {f"2024-{number:02}": month(3000, 400, 800) for number in range(6, 12)} | {"2024-12": month(1500, 200, 400)}
    assert ss.changes(year, level=1e-4).alarms == ["2024-12"]
    for by in measures:
        assert not ss.changes(year, level=1e-4, by=by).alarms
    year |= {"2024-12": month(1500, 300, 400), "2025-01": month(30, 6, 8), "2025-02": month(3000, 400, 800)}
    for by in measures:
        found = ss.changes(year, level=1e-4, by=by)
        assert found.alarms == ["2024-12"]
        for row in found.table.to_pylist():
            if row["estimate"] is not None:
                beyond = row["estimate"] <= row["line"] if by == "cosine" else row["estimate"] >= row["line"]
                assert row["alarm"] == beyond
    for by in measures:
        assert ss.changes(year, level=1e-4, by=by, tolerance=200).alarms == []
    for by in measures:
        assert ss.changes(year, level=1e-4, by=by, tolerance="typical").tolerance < 200


@pytest.mark.rejects(0.05)  # an empty stream is above the noise floor as often
def test_what_is_below_the_noise_floor_has_a_p_value_and_no_estimate() -> None:
    found = ss.changes([month(3000, 400), month(0, 0), month(1500, 200)], by="profile", level=0.001)
    assert found.table["p_value"].null_count == 0
    for name in ("estimate", "error", "low", "high", "line"):
        assert found.table[name].null_count == 2
    assert not found.alarms
    assert str(found).count("no profile distance") == 2
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_is_typical_of_a_series_is_no_alarm() -> None:
    rng = np.random.default_rng(3)  # an order in which no step is far from the usual: in some others one is
    weeks = [window(count=int(count)) for count in 300 + rng.permutation(12) * 5]
    assert len(ss.changes(weeks).alarms) > 3
    found = ss.changes([*weeks, window(count=900)], tolerance="typical")
    assert found.alarms == [12]
    assert 10 < found.tolerance < 120
    with pytest.raises(InvalidInputError, match="at least 5 distances, got 2"):
        ss.changes(weeks[:3], tolerance="typical")


def holm(p_values: list[float], level: float) -> list[bool]:
    alarms = [False] * len(p_values)
    for rank, place in enumerate(np.argsort(p_values)):
        if p_values[place] > level / (len(p_values) - rank):
            break
        alarms[place] = True
    return alarms


def hochberg(p_values: list[float], level: float) -> list[bool]:
    ordered = sorted(p_values)
    most = max((p for rank, p in enumerate(ordered, 1) if p <= level * rank / len(ordered)), default=-1.0)
    return [p <= most for p in p_values]


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_where_the_procedures_would_raise_an_alarm(seed: int) -> None:
    rng = salted_rng(seed)
    p_values = rng.uniform(size=8) ** rng.choice([1, 4, 8], 8)
    for control, procedure in (("any", holm), ("rate", hochberg)):
        line, alarm = controlled(p_values, 0.1, control)  # type: ignore[arg-type]
        assert alarm.tolist() == procedure(p_values.tolist(), 0.1)
        assert (p_values <= line).tolist() == alarm.tolist()
        for place in np.flatnonzero(~alarm):
            lower = np.where(np.arange(8) == place, line * 0.999, p_values)
            assert procedure(lower.tolist(), 0.1)[place]
        more, found = controlled(np.append(p_values, math.nan), 0.1, control)  # type: ignore[arg-type]
        assert (more, found.tolist()) == (line, [*alarm.tolist(), False])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"against": "last"}, "'previous' or 'first'"),
        ({"control": "all"}, "'any' or 'rate'"),
        ({"level": 1.0}, "level must lie in"),
        ({"by": "size"}, "'distance', 'mean', 'profile' or 'cosine'"),
        ({"tolerance": "usual"}, "data units"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        ss.changes([window(), window()], **options)


def test_a_series_has_two_windows_of_independent_noise() -> None:
    one = window()
    with pytest.raises(InvalidInputError, match="at least two"):
        ss.changes([one, None])
    with pytest.raises(DependentNoiseError):
        of_module([one, window(), one])


def holm_one_by_one(p_values: Sequence[float], level: float) -> list[bool]:
    """Return what Holm's rule rejects: the least p-value first, until one is too large; equal ones alike."""
    rejected: set[float] = set()
    left = sorted(p_values)
    while left and left[0] <= level / len(left):
        rejected.add(left.pop(0))
    return [value in rejected for value in p_values]


def benjamini_hochberg(p_values: Sequence[float], level: float) -> list[bool]:
    """Return what is rejected if false alarms may be a share of all: up to the last p-value below its line."""
    ordered = sorted(p_values)
    last = max((value for rank, value in enumerate(ordered, 1) if value <= level * rank / len(ordered)), default=-1.0)
    return [value <= last for value in p_values]


@pytest.mark.parametrize(("control", "twin"), [("any", holm_one_by_one), ("rate", benjamini_hochberg)])
def test_alarms_are_those_of_their_rule_for_all_small_grids_of_p_values(control: Any, twin: Any) -> None:
    """Every choice of up to four p-values around the lines α/4, α/3, α/2 and α: such as .01, .03 and .04."""
    grid = (0.001, 0.01, 0.0126, 0.02, 0.03, 0.04, 0.06)
    for count in (1, 2, 3, 4):
        for p_values in itertools.product(grid, repeat=count):
            _, alarms = controlled(np.array(p_values), 0.05, control)
            assert alarms.tolist() == twin(p_values, 0.05), p_values
