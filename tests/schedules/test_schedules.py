"""Schedules: matrices, norms, errors and rows, each against a slow twin over dense matrices."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.errors import InvalidInputError
from streamsketch.privacy.schedule import Schedule
from streamsketch.privacy.schedule_kinds import schedule_from_json, schedule_of
from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.progress import Progress, decoded
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree

SMALL = [
    Separate(horizon=6),
    *(Tree(horizon=horizon, depth=depth) for horizon in (1, 2, 7, 13) for depth in (1, 2, 3)),
    *(Factorisation(horizon=horizon, blocks=blocks) for horizon in (1, 3, 14) for blocks in (2, 3, 20)),
    *(Factorisation(horizon=9, band=band, bits=5) for band in (1, 4, 9)),
]
LONG = [Separate(horizon=300), Tree(horizon=300), Factorisation(horizon=300), Factorisation(horizon=300, band=30)]


def dense(schedule: Schedule) -> Any:
    """Return C as the docstrings of the three kinds have it, in plain Python."""
    horizon = schedule.horizon
    found = np.zeros((horizon, horizon), dtype=np.int64)
    for t in range(horizon):
        found[t, t] = schedule.scale
    if isinstance(schedule, Tree):
        for t, start in enumerate(schedule.nodes()[0].tolist()):
            found[t, start : t + 1] = 1
    if isinstance(schedule, Factorisation):
        weight = [math.comb(2 * n, n) / 4**n for n in range(horizon)]
        held: list[tuple[int, int]] = []
        for t in range(horizon):
            held.append((t, t + 1))
            size = 1
            while len(same := [one for one in held if one[1] - one[0] == size]) > schedule.blocks:
                if schedule.band is not None:
                    break
                place = held.index(same[0])
                held[place : place + 2] = [(held[place][0], held[place + 1][1])]
                size *= 2
            for start, stop in held[-schedule.band :] if schedule.band else held:
                mean = sum(weight[t - j] for j in range(start, stop)) / (stop - start)
                found[t, start:stop] = round(mean * schedule.scale)
    return found


@pytest.mark.parametrize("schedule", [*SMALL, *LONG[1:]], ids=str)
def test_rows_are_those_of_the_matrix(schedule: Schedule) -> None:
    assert np.array_equal(schedule.matrix(), dense(schedule))


@pytest.mark.parametrize("schedule", SMALL, ids=str)
def test_blocks_of_a_row_go_on_those_of_the_row_before(schedule: Schedule) -> None:
    """So that sums of windows are never split."""
    before: set[int] = set()
    for window in range(schedule.horizon):
        starts, factors = schedule.row_blocks.of_row(window)
        assert starts[-1] == window
        assert list(starts) == sorted(set(starts))
        assert set(starts.tolist()) <= before | {window}
        assert factors.min() >= 0
        before = set(starts.tolist())


@pytest.mark.parametrize("schedule", SMALL, ids=str)
def test_progress_makes_the_rows_and_readers_get_the_windows_back(schedule: Schedule) -> None:
    windows = np.random.default_rng(1).integers(-(10**6), 10**6, (schedule.horizon, 3))
    progress, rows = Progress(schedule, 3), []
    for window in windows:
        if progress.window % 3 == 2:  # as after a restart
            progress = Progress.restored(schedule, progress.window, progress.held)
        rows.append(progress.step(window))
    assert np.array_equal(rows, schedule.matrix() @ windows)
    prefixes = np.concatenate([np.zeros((1, 3)), np.cumsum(windows, axis=0)])
    assert np.allclose(decoded(schedule, np.array(rows)), prefixes, rtol=1e-12, atol=1e-4)


def test_progress_holds_few_sums() -> None:
    for schedule, most in zip(LONG, (0, 6, 41, 29), strict=True):
        progress, held = Progress(schedule, 1), 0
        for _ in range(schedule.horizon):
            progress.step(np.ones(1, dtype=np.int64))
            held = max(held, len(progress.held))
        assert held <= most, schedule
        assert len(progress.held) == 0


def test_rows_of_large_sums_wrap_around_as_all_sums_of_cells() -> None:
    schedule = Tree(horizon=13)
    windows = np.random.default_rng(2).integers(-(1 << 62), 1 << 62, (13, 2))
    progress = Progress(schedule, 2)
    found = decoded(schedule, np.array([progress.step(window) for window in windows]))
    assert np.array_equal(np.diff(found, axis=0), windows)


def test_a_refused_step_leaves_the_sums() -> None:
    progress = Progress(Tree(horizon=3, depth=2), 2)
    progress.step(np.array([1, 2]))
    held = progress.held
    with pytest.raises(InvalidInputError, match="2 int64 numbers"):
        progress.step(np.array([1, 2, 3]))
    assert progress.window == 1
    assert np.array_equal(progress.held, held)
    progress.step(np.array([1, 2]))
    progress.step(np.array([1, 2]))
    with pytest.raises(InvalidInputError, match="all 3 windows"):
        progress.step(np.array([1, 2]))
    with pytest.raises(InvalidInputError, match="holds 0 sums after 3 windows, got 1"):
        Progress.restored(Tree(horizon=3, depth=2), 3, np.ones((1, 2), dtype=np.int64))


@pytest.mark.parametrize("schedule", SMALL, ids=str)
def test_weights_and_errors_are_those_of_the_inverse_matrix(schedule: Schedule) -> None:
    matrix = schedule.matrix()
    inverse = np.linalg.inv(matrix)
    for start, stop in itertools.combinations(range(schedule.horizon + 1), 2):
        wanted = inverse[start:stop].sum(axis=0)
        weights = schedule.weights(start, stop)
        assert np.allclose(weights, wanted[:stop])
        assert np.allclose(wanted[stop:], 0)
        assert math.isclose(
            schedule.error(start, stop),
            math.sqrt((matrix**2).sum(axis=0).max()) * np.linalg.norm(wanted),
            rel_tol=1e-9,
        )
        assert math.isclose(
            schedule.error(start, stop, laplace=True),
            matrix.sum(axis=0).max() * np.linalg.norm(wanted),
            rel_tol=1e-9,
        )


def allowed_sets(schedule: Schedule) -> Any:
    for count in range(1, schedule.most + 1):
        for chosen in itertools.combinations(range(schedule.horizon), count):
            if all(later - earlier >= schedule.gap for earlier, later in itertools.pairwise(chosen)):
                yield list(chosen)


@pytest.mark.parametrize(("most", "gap"), [(1, 1), (2, 1), (3, 1), (2, 3), (None, 4), (None, 1)])
@pytest.mark.parametrize(
    "kind",
    [
        {"kind": "separate"},
        {"kind": "tree", "depth": 2},
        {"kind": "tree", "depth": 4},
        {"kind": "factorisation", "blocks": 2},
        {"kind": "factorisation", "blocks": 9},
        {"kind": "factorisation", "band": 4},
    ],
    ids=str,
)
def test_norms_hold_for_all_sets_of_windows_that_a_unit_may_be_in(
    kind: dict[str, Any], most: int | None, gap: int
) -> None:
    """Exactly for one window, separate windows, full square roots and bands; else at most 1.6 times as much."""
    schedule = schedule_of({**kind, "horizon": 9, "max_windows": most, "gap": gap})
    matrix = schedule.matrix()
    products = matrix.T @ matrix
    grams = [products[np.ix_(chosen, chosen)] for chosen in allowed_sets(schedule)]
    l1 = max(int(matrix[:, chosen].sum()) for chosen in allowed_sets(schedule))
    squared = max(int(gram.sum()) for gram in grams)
    together = max(float(np.linalg.eigvalsh(gram)[-1]) for gram in grams)
    norms = schedule.norms
    assert l1 <= norms.l1
    assert squared <= norms.l2_squared
    assert together <= norms.together + 1e-6
    assert norms.l2_squared <= 1.6 * squared
    assert norms.together <= 2 * together
    if schedule.most == 1 or kind["kind"] == "separate":
        assert (norms.l1, norms.l2_squared) == (l1, squared)
    if kind.get("blocks") == 9 or "band" in kind:
        assert norms.l2_squared == squared


def test_a_unit_in_all_windows_gains_nothing() -> None:
    for schedule in (Tree(horizon=52, max_windows=None), Factorisation(horizon=52, max_windows=None)):
        plain = Separate(horizon=52, max_windows=None)
        assert schedule.worst_error() > plain.worst_error()
        assert math.sqrt(schedule.norms.together) > 3 * math.sqrt(plain.norms.together)


def test_a_unit_in_many_windows_is_bounded_without_all_products() -> None:
    many = Factorisation(horizon=6000, blocks=2, max_windows=5900)
    few = Factorisation(horizon=6000, blocks=2, max_windows=5500)
    assert few.norms.together < many.norms.together < 3 * few.norms.together


@pytest.mark.parametrize(
    ("horizon", "root", "tree"), [(30, 2.3, 4.9), (52, 2.5, 6), (365, 3.1, 9), (8760, 4.3, 8)], ids=str
)
def test_prefixes_have_little_noise(horizon: int, root: float, tree: float) -> None:
    assert Factorisation(horizon=horizon).worst_error() <= root
    assert Tree(horizon=horizon).worst_error() <= tree
    assert math.isclose(Separate(horizon=horizon).worst_error(), math.sqrt(horizon))


def test_a_band_suits_sliding_sums() -> None:
    assert Factorisation(horizon=365, band=30).worst_error(30) <= 2.6


@pytest.mark.parametrize("horizon", [1, 2, 5, 6, 7, 100, 8760])
def test_no_window_and_no_prefix_is_in_many_sums_of_a_tree(horizon: int) -> None:
    for depth in (1, 2, 3, 7):
        tree = Tree(horizon=horizon, depth=depth)
        terms = next(count for count in itertools.count(1) if math.comb(depth + count, count) > horizon)
        assert tree.norms.l1 <= depth
        for stop in {1, horizon // 2 or 1, horizon - 1 or 1, horizon}:
            weights = tree.weights(0, stop)
            assert set(weights) <= {0.0, 1.0}
            assert weights.sum() <= terms


@given(
    st.sampled_from(["separate", "tree", "factorisation"]),
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(1, 50),
)
def test_text_is_read_back(kind: str, horizon: int, most: int, gap: int) -> None:
    fields = {"kind": kind, "horizon": horizon, "gap": gap, "max_windows": min(most, -(-horizon // gap))}
    schedule = schedule_of(fields)
    assert schedule_from_json(schedule.to_json()) == schedule
    assert schedule_from_json(schedule.to_json()).fingerprint == schedule.fingerprint


def test_bytes_of_schedules_do_not_change() -> None:
    found = [one.fingerprint for one in (Separate(horizon=7), Tree(horizon=365), Factorisation(horizon=365))]
    assert found == GOLDEN
    assert Factorisation(horizon=365).row_blocks.coefficients.sum() == 497932
    assert Tree(horizon=8760).row_blocks.starts.sum() == 148237258


GOLDEN = [
    "c8482ea07cf6164a9f296d2dc88fae8f",
    "0de66dc1e0f731b1c94e790bd0157724",
    "de08354746bffb2b924863dc70fe326c",
]


@pytest.mark.parametrize(
    ("fields", "text", "is_unit"),
    [
        ({}, "sale in one of 52 windows", True),
        ({}, "sale in one of 52 windows of 1 week", True),
        ({}, "sale", False),
        ({}, "sale in one of 252 windows", False),
        ({}, "sale in at most 2 of 52 windows", False),
        ({}, "sale in one of 52 windows, 7 apart", False),
        ({"max_windows": 3}, "sale in at most 3 of 52 windows of 1 week", True),
        ({"max_windows": 3}, "sale in at most 30 of 52 windows", False),
        ({"max_windows": 3}, "sale in at most 3 of 52 windows of 1 week, 7 apart", False),
        ({"max_windows": 3, "gap": 7}, "sale in at most 3 of 52 windows of 1 week, 7 apart", True),
        ({"max_windows": 3, "gap": 7}, "sale in at most 3 of 52 windows, 7 apart", True),
        ({"max_windows": 3, "gap": 7}, "sale in at most 3 of 52 windows, 17 apart", False),
        ({"max_windows": 3, "gap": 7}, "sale in at most 3 of 52 windows", False),
        ({"max_windows": None}, "sale", True),
    ],
    ids=str,
)
def test_a_unit_is_that_of_a_schedule_in_its_own_words_alone(fields: Any, text: str, is_unit: bool) -> None:  # noqa: FBT001
    schedule = Tree(horizon=52, **fields)
    assert schedule.is_unit(text) == is_unit
    assert schedule.is_unit(schedule.unit_text("sale in one month", "1 day"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "tree"}, "needs a horizon"),
        ({"kind": "tree", "horizon": 0}, "horizon"),
        ({"kind": "tree", "horizon": 100_001}, "horizon"),
        ({"kind": "tree", "horizon": True}, "horizon"),
        ({"kind": "tree", "horizon": 9, "depth": 0}, "depth"),
        ({"kind": "tree", "horizon": 9, "bits": 4}, "a tree has no 'bits'"),
        ({"kind": "separate", "horizon": 9, "max_windows": 4, "gap": 3}, "at most 3 that are 3 apart"),
        ({"kind": "factorisation", "horizon": 9, "blocks": 1}, "blocks"),
        ({"kind": "factorisation", "horizon": 9, "bits": 13}, "bits"),
        ({"kind": "factorisation", "horizon": 9, "band": 10}, "band"),
        ({"kind": "other", "horizon": 9}, "kind out of separate, tree, factorisation"),
        ([], "kind out of separate"),
    ],
    ids=str,
)
def test_what_is_no_schedule_is_refused(fields: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        schedule_of(fields)


@pytest.mark.parametrize("text", ["", "{", "1", "[" * 100_000])
def test_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        schedule_from_json(text)


def test_ranges_are_of_windows() -> None:
    for start, stop in ((0, 0), (3, 2), (0, 8), (-1, 2)):
        with pytest.raises(InvalidInputError):
            Tree(horizon=7).error(start, stop)
