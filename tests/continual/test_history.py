"""Histories: ranges of windows solved from rows, with the right noise, by numbers and by names."""

import functools
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation, History, Schedule, Separate, Tree
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.estimation.noise_law import terms_between, weights_of_ranges
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import PrivateSketch, PrivateTable
from streamsketch.schedules.releaser import Releaser

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=3)
SALE = ss.L1(1, unit="sale")
KINDS: list[tuple[Any, float, float]] = [
    (Separate(horizon=12), 1.0, 0.0),
    (Tree(horizon=12, depth=2), 1.0, 0.0),
    (Tree(horizon=12, depth=3), 1.0, 1e-6),
    (Factorisation(horizon=12, blocks=2), 1.0, 1e-6),
    (Factorisation(horizon=12, band=4, bits=5), 1.0, 1e-6),
]
EACH = pytest.mark.parametrize(("schedule", "epsilon", "delta"), KINDS, ids=str)


@functools.cache
def calibrated(schedule: Schedule, epsilon: float, delta: float) -> Any:
    mechanism = "gaussian" if delta else "laplace"
    noise = ss.AdditiveNoise(epsilon=epsilon, delta=delta, neighbours=SALE, mechanism=mechanism, schedule=schedule)
    return noise.calibrated(PROJECTION)


@functools.cache
def window(extra: int, times: int = 1) -> ss.Sketch:
    """Return a window that holds one sale each of ten things, and more of one, all of them several times."""
    sketch = PROJECTION.sketch()
    sketch.update(np.arange(10), times)
    for _ in range(extra):
        sketch.update(7, times)
    return sketch


def rows_of(
    schedule: Schedule,
    epsilon: float,
    delta: float,
    *,
    windows: int = 12,
    seed: bytes = b"history",
    change: int = 99,
    times: int = 1,
) -> list[PrivateSketch]:
    """Return the rows of windows, with 9 more sales of one thing from window ``change`` on, all of them ``times``."""
    secret, history = KeyedBits(bytes(32), seed), seed.ljust(8, b"-")[:8]
    releaser = Releaser(calibrated(schedule, epsilon, delta), PROJECTION, history=history)
    sketches = [window(9 if place >= change else 0, times) for place in range(windows)]
    return [releaser.add(sketch, bits=lambda *_: secret) for sketch in sketches]  # type: ignore[misc]


@EACH
def test_ranges_are_the_streams_of_their_windows(schedule: Schedule, epsilon: float, delta: float) -> None:
    """But for noise, whatever the order in which rows are given."""
    rows = rows_of(schedule, 1000 * epsilon, delta)
    history = History(reversed(rows))
    for start, stop in itertools.combinations(range(13), 2):
        release = history.range(start, stop)
        off = release.values * float(release.multiplier) - (stop - start) * window(0).state()
        assert np.abs(off).max() <= 8 * math.sqrt(release.noise.k2) * float(release.multiplier) + 1e-6
        assert release.guarantee == history.guarantee == rows[0].guarantee


@EACH
def test_the_noise_of_a_range_is_that_of_the_schedule(schedule: Schedule, epsilon: float, delta: float) -> None:
    history = History(rows_of(schedule, epsilon, delta))
    mechanism = "gaussian" if delta else "laplace"
    alone = ss.AdditiveNoise(epsilon=epsilon, delta=delta, neighbours=SALE, mechanism=mechanism).calibrated(PROJECTION)
    for start, stop in ((0, 1), (0, 12), (3, 4), (5, 11)):
        release = history.range(start, stop)
        deviation = math.sqrt(release.noise.k2) * float(release.multiplier)
        expected = schedule.error(start, stop, laplace=not delta) * math.sqrt(alone.noise.cumulants.k2)
        assert deviation == pytest.approx(expected, rel=0.08)  # rounding to a lattice widens the noise of one window


@pytest.mark.parametrize(
    ("schedule", "epsilon", "delta"),
    [(Tree(horizon=12, depth=2), 1.0, 0.0), (Factorisation(horizon=12), 1.0, 1e-6)],
    ids=str,
)
def test_ranges_that_share_rows_are_compared_with_the_noise_they_share(
    schedule: Schedule, epsilon: float, delta: float
) -> None:
    """One map, 60 noises: the mean is that of exact cells, the deviation that stated, within 4 standard errors."""
    found = []
    for draw in range(60):
        history = History(rows_of(schedule, epsilon, delta, seed=b"%d" % draw, change=6))
        found.append(history.squared_distance((6, 12), (0, 6)))
    values, stated = np.array([one.value for one in found]), np.mean([one.noise_variance for one in found])
    cells = 6 * (window(9).state() - window(0).state()) * PROJECTION.cell_unit
    assert abs(values.mean() - float(cells @ cells)) <= 4 * values.std() / math.sqrt(values.size)
    assert values.std() == pytest.approx(math.sqrt(stated), rel=4 / math.sqrt(2 * values.size))


def test_estimates_of_two_ranges_say_how_to_compare_them() -> None:
    history = History(rows_of(Tree(horizon=12, depth=2), 1.0, 0.0))
    with pytest.raises(DependentNoiseError):
        ss.squared_distance(history.range(0, 6), history.range(6, 12))
    other = History(rows_of(Tree(horizon=12, depth=2), 1.0, 0.0, seed=b"other"))
    assert ss.squared_distance(history.range(0, 6), other.range(0, 6)).standard_error > 0


@EACH
def test_changes_between_ranges_are_found(schedule: Schedule, epsilon: float, delta: float) -> None:
    history = History(rows_of(schedule, 20 * epsilon, delta, change=8))
    assert history.sameness((0, 4), (4, 8)).p_value > 0.01
    assert history.sameness((4, 8), (8, 12)).p_value < 1e-6
    found = history.changes(4)
    assert found.alarms == ["8"]
    assert found.table["before"].to_pylist() == ["0", "4"]


def test_changes_are_found_against_the_first_range_and_beyond_a_tolerance() -> None:
    history = History(rows_of(Tree(horizon=12, depth=2), 20.0, 0.0, change=8))
    assert history.changes(2, against="first").alarms == ["8", "10"]
    assert history.changes(1, tolerance="typical", level=1e-3).tolerance >= 0
    assert history.sameness((4, 8), (8, 12), tolerance=1000).p_value > 0.1
    for options in ({"against": "last"}, {"level": 0}, {"control": "none"}, {"tolerance": -1}):
        with pytest.raises(InvalidInputError):
            history.changes(2, **options)
    for length, every in ((0, 1), (13, 1), (2, 0), (12, None)):
        with pytest.raises(InvalidInputError):
            history.changes(length, every)
    with pytest.raises(InvalidInputError, match="what must be"):
        history.series(2, what="size")  # type: ignore[arg-type]


@pytest.mark.parametrize("draws", [40, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("schedule", "delta"), [(Tree(horizon=6, depth=2), 0.0), (Factorisation(horizon=6, blocks=2), 1e-6)], ids=str
)
def test_false_alarms_of_ranges_are_as_stated(schedule: Schedule, delta: float, draws: int) -> None:
    """Without changes, a test at 5 % has an alarm in 5 % of histories, within 4 standard errors."""
    found = [
        History(rows_of(schedule, 1.0, delta, windows=6, seed=b"%d" % draw)).sameness((0, 3), (3, 6)).p_value
        for draw in range(draws)
    ]
    assert abs(np.mean(np.array(found) <= 0.05) - 0.05) <= 4 * math.sqrt(0.05 * 0.95 / draws)


@pytest.mark.parametrize(
    ("schedule", "epsilon", "delta", "times"), [*((*kind, 40) for kind in KINDS), (*KINDS[1], 1)], ids=str
)
def test_the_mix_of_ranges_of_unlike_lengths_is_compared(
    schedule: Schedule, epsilon: float, delta: float, times: int
) -> None:
    """Noise is as large beside the data, in many steps and in few, whose laws take longer.

    Both measures of the mix come after each other: they rest on the same laws, which are kept.
    """
    history = History(rows_of(schedule, 20 * epsilon / times, delta, change=8, times=times))
    by: Any
    for first, second, is_same in (((0, 3), (3, 8), True), ((0, 6), (2, 8), True), ((0, 8), (8, 12), False)):
        for by in ("profile", "cosine"):
            p_value = history.sameness(first, second, by=by).p_value
            assert p_value > 0.01 if is_same else p_value < 1e-3
    if not delta:
        assert history.sameness((0, 3), (3, 8)).p_value < 0.05, "they differ in length"
    for by in ("profile", "cosine"):
        found = history.changes(4, by=by)
        assert (found.alarms, found.by) == (["8"], by)
    if times > 1 and schedule in (KINDS[1][0], KINDS[4][0]):  # a tree, and a factorisation
        for by in ("profile", "cosine"):
            assert history.changes(2, by=by, tolerance="typical").tolerance >= 0
    for first, second, words in (((0, 4), (0, 4), "subtracted from itself"), ((0, 4), (4, 99), "A range is written")):
        for by in ("profile", "cosine"):
            with pytest.raises(InvalidInputError, match=words):
                history.sameness(first, second, by=by)
    with pytest.raises(InvalidInputError, match="got by='mean'"):
        history.sameness((0, 4), (4, 8), by="mean")  # type: ignore[arg-type]


@EACH
def test_multiples_of_ranges_have_the_noise_that_is_left(schedule: Schedule, epsilon: float, delta: float) -> None:
    """Against the rows: the noise that two ranges share is in a difference once, with what is left of its factor."""
    history = History(rows_of(schedule, epsilon, delta))
    first, second = history.range(0, 8), history.range(4, 12)
    own, other = weights_of_ranges(first, second)
    unit = PROJECTION.cell_unit * math.sqrt(history._rows[0].noise.k2)

    def variance(s: float, t: float) -> float:
        return unit**2 * float(((s * own - t * other) ** 2).sum())

    for s, t in ((1, 0.5), (0.25, 1), (1, 1), (1, 0)):
        assert sum(term.moments.k2 for term in terms_between(first, second, s, t)) == pytest.approx(variance(s, t))
    mean, _ = history.sameness((0, 8), (4, 12), by="profile").law.of_noise
    factors = np.arange(2**8 + 1) / 2**8
    nodes = [PROJECTION.sketch_dim * variance(*pair) for one in factors for pair in ((1, one), (one, 1))]
    assert min(abs(mean / node - 1) for node in nodes) < 1e-6


@pytest.mark.parametrize("ranges", [((0, 2), (2, 6)), ((0, 4), (2, 6))], ids=str)
@pytest.mark.parametrize(
    ("schedule", "delta"), [(Tree(horizon=6, depth=2), 0.0), (Factorisation(horizon=6, blocks=2), 1e-6)], ids=str
)
def test_profiles_of_ranges_have_the_false_alarms_and_errors_that_are_stated(
    schedule: Schedule, delta: float, ranges: Any
) -> None:
    """With the noise that ranges share: false alarms to 4 standard errors, and errors of cosines are not too small."""
    draws, level = 60, 0.1
    histories = [
        History(rows_of(schedule, 50.0, delta, windows=6, change=3, seed=b"%d" % draw)) for draw in range(draws)
    ]
    same = [History(rows_of(schedule, 1.0, delta, windows=6, seed=b"s%d" % draw)) for draw in range(draws)]
    alarms = sum(history.sameness(*ranges, by="profile").p_value <= level for history in same)
    assert alarms <= draws * level + 4 * math.sqrt(draws * level * (1 - level))
    tests = [history.sameness(*ranges, by="cosine").distance for history in histories]
    spread = np.var([one.value for one in tests])
    stated = np.mean([one.noise_variance for one in tests])
    assert stated / 4 < spread < 1.7 * stated


def counted_rows(schedule: Schedule) -> tuple[list[PrivateTable], ss.Agreement]:
    near = ss.L1(3, unit="customer", max_keys=2)
    agreement = ss.Agreement(PROJECTION, index="item", key="shop", unit="customer", neighbours=near)
    publish = ss.AdditiveNoise(
        epsilon=50.0,
        delta=1e-6,
        neighbours=near,
        counting=ss.privacy.Counting(2),
        schedule=schedule,
        mechanism="gaussian",
    )
    releaser, rows = Releaser(publish, PROJECTION), []
    for count in range(40, 100, 10):
        people = [f"c{one}" for one in range(count)] * 2
        shops = ["n"] * count + ["s"] * count
        table = ss.bound(pa.table({"customer": people, "item": ["tea"] * 2 * count, "shop": shops}), agreement)
        rows.append(releaser.add(table, public_keys=["n", "s"]))
    return rows, agreement  # type: ignore[return-value]


@pytest.mark.parametrize("schedule", [Tree(horizon=6, depth=2), Factorisation(horizon=6, blocks=2)], ids=str)
def test_units_of_a_range_are_counted(schedule: Schedule) -> None:
    rows, agreement = counted_rows(schedule)
    north, south = (History(rows, key=key) for key in ("n", "s"))
    for history in (north, south):
        units = history.range(1, 4).units
        assert units.value == pytest.approx(50 + 60 + 70, abs=6 * units.standard_error)
        assert units.standard_error < 20
        apart = history.difference((3, 6), (0, 3))
        assert apart.counts is None, "a difference is of no number of units"
    assert north.range(1, 4).agreement == agreement.fingerprint
    assert ss.squared_distance(north.range(0, 6), south.range(0, 6)).standard_error > 0
    curve = north.series(2, every=2, what="units")
    assert curve["start"].to_pylist() == [0, 2, 4]
    assert (curve["high"].to_numpy() > curve["low"].to_numpy()).all()
    with pytest.raises(InvalidInputError, match="tables of 2 keys: pass one"):
        History(rows)
    with pytest.raises(InvalidInputError, match="no key 'x'"):
        History(rows, key="x")


def test_ranges_are_named_by_the_calendar() -> None:
    names = [f"2013-{month:02}-{day:02}" for month, days in ((1, 31), (2, 28), (3, 5)) for day in range(1, days + 1)]
    history = History(rows_of(Tree(horizon=64), 1.0, 0.0, windows=64), names=names)
    assert history.numbers("2013-01") == (0, 31)
    assert history.numbers("2013-02") == (31, 59)
    assert history.numbers("2013-02-03") == (33, 34)
    assert history.numbers(("2013-01-30", "2013-03-01")) == (29, 59)
    assert history.numbers(("2013-03-01", "2013-03-06")) == (59, 64)
    assert history.range("2013-01").history == history.range(0, 31).history
    assert history.range("2013-01-02", "2013-01-09") == history.range(1, 8)
    for wanted in ("2013", "2013-03", "2012-12", ("2013-03-01", "2013-03-07"), "May", ("2013-02-30", "2013-03-01")):
        with pytest.raises(InvalidInputError):
            history.numbers(wanted)
    with pytest.raises(InvalidInputError, match="numbers only"):
        History(rows_of(Tree(horizon=12), 1.0, 0.0)).range("2013-01")


def test_a_history_needs_all_its_rows() -> None:
    rows = rows_of(Tree(horizon=12), 1.0, 0.0)
    others = rows_of(Tree(horizon=12), 1.0, 0.0, seed=b"other")
    assert len(History(rows[:7])) == 7
    run = [*rows_of(Tree(horizon=12), 1.0, 0.0)[:3], *[_of_other_data(row) for row in rows[3:]]]
    for given, words in (
        ([], "at least one row"),
        (rows[1:], "rows of 1 windows are missing, first the row of window 0"),
        ([*rows[:3], *rows[5:]], "2 windows are missing, first the row of window 3"),
        ([*rows[:3], *others[3:]], "different histories"),
        (run, "different histories, streams or keys"),
        ([History(rows).range(0, 2)], "a history is made of rows"),
        ([PROJECTION.sketch().release(epsilon=1, neighbours=SALE)], "is no part of a history"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            History(given)
    with pytest.raises(TypeError):
        History([PROJECTION.sketch()])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError):
        History(rows).range(0, 13)
    history = History(rows)
    for compare in (history.sameness, history.squared_distance, history.difference):
        with pytest.raises(InvalidInputError, match="subtracted from itself"):
            compare((2, 3), (2, 3))
    for names in ([0.5] * 12, ["one"] * 12):
        with pytest.raises(InvalidInputError, match="is not a time, or not after"):
            History(rows, names=names)  # type: ignore[arg-type]
    named = History(rows, names=[f"2013-01-{day:02}" for day in range(1, 13)])
    for period in ("9999", "9999-12", "9999-12-31", "0000", "2013-13"):
        with pytest.raises(InvalidInputError, match="there are no dates from"):
            named.range(period)
    with pytest.raises(InvalidInputError, match="leave out key"):
        History(rows, key="north")


def _of_other_data(row: PrivateSketch) -> PrivateSketch:
    """Return a row of another stream, published under the same id."""
    names = ("noise", "guarantee", "release_ids", "history")
    return PrivateSketch(PROJECTION, row.values, data_ids=[bytes(8)], **{name: getattr(row, name) for name in names})


def test_a_range_is_a_release_that_is_written_and_read() -> None:
    history = History(rows_of(Factorisation(horizon=12, blocks=2), 1.0, 1e-6))
    for release in (history.range(2, 9), history.difference((0, 3), (3, 6))):
        assert PrivateSketch.from_bytes(release.to_bytes()) == release
