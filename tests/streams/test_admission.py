"""Units in few windows of a schedule: which of their windows count, and that rows then keep to their sensitivity."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.continual import Factorisation, Schedule, Separate, Tree
from streamsketch.errors import WireFormatError
from streamsketch.privacy.layout import Layout
from streamsketch.sketching.bounding.admission import Admission
from tests.streams.naive import AGREEMENT, PEOPLE, policy_of

KINDS: list[Schedule] = [
    Tree(horizon=6),
    Tree(horizon=6, max_windows=2),
    Separate(horizon=6, max_windows=None, gap=2),
    Factorisation(horizon=6, max_windows=2, gap=3),
    Tree(horizon=6, max_windows=3, gap=2),
    Separate(horizon=6, max_windows=5),
]
EACH = pytest.mark.parametrize("schedule", KINDS, ids=lambda schedule: f"{schedule.most} of 6, {schedule.gap} apart")
SUBSETS = [chosen for size in range(7) for chosen in itertools.combinations(range(6), size)]


def greedy(windows: Any, schedule: Schedule) -> list[int]:
    """Return the windows of one unit that count, of those in which it has rows."""
    found: list[int] = []
    for window in windows:
        if len(found) < schedule.most and (not found or window - found[-1] >= schedule.gap):
            found.append(window)
    return found


def is_allowed(windows: Any, schedule: Schedule) -> bool:
    return len(windows) <= schedule.most and all(b - a >= schedule.gap for a, b in itertools.pairwise(windows))


def digest(number: int) -> tuple[int, int]:
    """Return the digest of a unit: with bytes of 0 at its ends, and a first word that all of them share."""
    return 0x00FF << 40, number << 8


@EACH
def test_which_windows_of_a_unit_count_depends_on_its_own_alone(schedule: Schedule) -> None:
    """All sets of windows at once, a unit each, also where the state goes to a file after each window."""
    admission, found = Admission(schedule), dict[int, list[int]]()
    for window in range(6):
        units = [unit for unit, own in enumerate(SUBSETS) if window in own]
        rows = np.array([digest(unit) for unit in units for _ in range(unit % 3 + 1)], dtype=np.uint64)
        before = admission.rows.tobytes()
        flags, left_out, after = admission.admit(window, rows)
        assert admission.rows.tobytes() == before, "nothing has changed"
        admitted = {int(unit) >> 8 for unit in rows[flags][:, 1]}
        assert admitted.isdisjoint({int(unit) >> 8 for unit in rows[~flags][:, 1]})
        assert left_out == len(units) - len(admitted)
        for unit in admitted:
            found.setdefault(unit, []).append(window)
        admission = Admission(schedule).restored(after.windows, window + 1) if window % 2 else after
    for unit, own in enumerate(SUBSETS):
        assert found.get(unit, []) == greedy(own, schedule)
        assert is_allowed(found.get(unit, []), schedule)
    assert admission.rows.size == 0, "after the horizon nothing is held"


def test_what_is_held_is_of_units_that_may_be_left_out() -> None:
    """Of a gap alone, those of the last windows; of a count, all until it can be reached no more."""
    apart, few = Separate(horizon=50, max_windows=None, gap=3), Separate(horizon=50, max_windows=2)
    for schedule, most in ((apart, 2), (few, 48)):
        admission, held = Admission(schedule), []
        for window in range(50):
            _, _, admission = admission.admit(window, np.array([digest(window)], dtype=np.uint64))
            held.append(admission.rows.size)
        assert max(held) == most
        assert held[-1] == 0


@pytest.mark.parametrize("most", range(1, 7))
def test_units_are_kept_to_windows_unless_they_may_be_in_all(most: int) -> None:
    layout = Layout(schedule=Tree(horizon=6, max_windows=most))
    assert layout.limits_windows == (most < 6)
    assert (Admission.of(layout) is None) == (most == 6)
    assert Admission.of(Layout()) is None


def test_an_empty_window_admits_all_of_none() -> None:
    admission = Admission(Tree(horizon=6))
    flags, left_out, after = admission.admit(0, np.empty((0, 2), dtype=np.uint64))
    assert (flags.size, left_out, after.rows.size) == (0, 0, 0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda windows: {0: windows[0]},
        lambda windows: windows | {2: b""},
        lambda windows: windows | {1: windows[1][:-1]},
        lambda windows: windows | {1: windows[1] * 2},
        lambda windows: windows | {1: windows[1][16:] + windows[1][:16]},
        lambda windows: windows | {1: None},
        lambda windows: windows | {1: windows[0]},
    ],
)
def test_what_no_stream_writes_is_refused(damage: Any) -> None:
    admission = Admission(Tree(horizon=6))
    for first in (1, 3):
        units = np.array([digest(first), digest(first + 1)], dtype=np.uint64)
        _, _, admission = admission.admit(first // 2, units)
    assert Admission(KINDS[0]).restored(admission.windows, 2).rows.size == 4
    with pytest.raises(WireFormatError):
        Admission(KINDS[0]).restored(damage(admission.windows), 2)


def worst(schedule: Schedule, limit: int) -> int:
    """Return how far one unit moves all rows, squared, if it moves each of its allowed windows by ``limit`` alike."""
    matrix = schedule.matrix()
    moved = [matrix[:, list(own)].sum(axis=1) for own in SUBSETS if is_allowed(own, schedule)]
    return max(int(rows @ rows) for rows in moved) * limit**2


@EACH
@pytest.mark.parametrize("agreement", [AGREEMENT, PEOPLE], ids=["l1", "sketches"])
def test_rows_are_published_with_noise_for_all_windows_of_a_unit(agreement: Any, schedule: Schedule) -> None:
    """By enumeration of what one unit may do; a bound on sketches is one in each window, √m of it in all together."""
    policy = policy_of(Path("out"), agreement, schedule=schedule, delta=1e-6, epsilon=1.0)
    noise, projection = policy.noise, agreement.projection
    each: Any = agreement.neighbours
    l2_squared = sensitivity_of(projection, noise.neighbours, Layout(schedule=schedule)).l2_squared
    if agreement is PEOPLE:
        limit = each.cell_steps(projection)
        assert l2_squared >= worst(schedule, limit)
        assert noise.neighbours.max_keys == each.max_keys
        one = sensitivity_of(projection, each, Layout(schedule=schedule)).l2_squared
        assert (one < worst(schedule, limit)) is (schedule.most > 1), "the bound of one window is too little for m > 1"
        return
    steps = each.grid_steps(projection.grid)  # all on one index, in each of two keys
    assert l2_squared >= worst(schedule, steps) * projection.l2_sensitivity_squared * each.max_keys
    everywhere = schedule.matrix().sum(axis=1)
    assert int(everywhere @ everywhere) > schedule.norms.l2_squared, "a unit that is in all windows is not covered"


def test_the_guarantee_says_in_how_many_windows_a_unit_is() -> None:
    policy = policy_of(Path("out"), schedule={"kind": "tree", "horizon": 30, "max_windows": 3, "gap": 7}, epsilon=1.0)
    assert str(policy.publisher().guarantee).startswith(
        "ε = 1, δ = 0 for one customer in at most 3 of 30 windows of 60 s, 7 apart"
    )
    month = policy_of(Path("out"), schedule=Tree(horizon=12), window="month", zone="Europe/Berlin", start="2026-11")
    assert month.publisher().guarantee.neighbours.unit == ("customer in one of 12 windows of one month (Europe/Berlin)")
    bound = policy_of(Path("out"), PEOPLE, schedule=Tree(horizon=30, max_windows=4), epsilon=1.0, delta=1e-6)
    assert bound.publisher().guarantee.neighbours.bound == 2
    assert isinstance(bound.publisher().guarantee.neighbours, ss.SketchL2)
