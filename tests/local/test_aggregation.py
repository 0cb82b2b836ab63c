"""The server's sum: exact, whatever the splits and the order; and what it refuses."""

import copy
import functools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsketch.errors import InvalidInputError, SketchOverflowError
from streamsketch.local import MeanAggregator, Mechanism, ProjUnit, Report, Reports, proj_unit
from streamsketch.local.aggregation import MAX_COUNT
from streamsketch.local.random_words import round_to_steps, squared_lengths
from tests.local.directions import bits, directions, repeated
from tests.local.zoo import DIM, zoo
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(0)


each = pytest.mark.parametrize("name", zoo())
PEOPLE = 12
MECHANISMS = zoo()
VECTORS = np.stack([vector for vector in directions(DIM).values() for _ in range(3)])[:PEOPLE]


@functools.cache
def reports_of(name: str) -> list[Report]:
    return list(MECHANISMS[name].randomize_many(VECTORS, bits=bits(name)))


def summed(mechanism: Mechanism, reports: list[Any]) -> MeanAggregator:
    server = MeanAggregator(mechanism)
    for report in reports:
        server.add(report)
    return server


@each
@settings(max_examples=8)
@given(data=st.data())
def test_splits_order_and_batches_do_not_change_a_bit(name: str, data: st.DataObject) -> None:
    mechanism, reports = MECHANISMS[name], reports_of(name)
    whole = MeanAggregator(mechanism)
    seeds = np.array([report.seed for report in reports], dtype=np.uint64)
    whole.add(Reports(mechanism, seeds, np.stack([report.values for report in reports])))
    order = data.draw(st.permutations(range(PEOPLE)))
    owners = data.draw(st.lists(st.integers(0, 3), min_size=PEOPLE, max_size=PEOPLE))
    parts = [summed(mechanism, [reports[i] for i in order if owners[i] == part]) for part in range(4)]
    merged = MeanAggregator(mechanism)
    for part in data.draw(st.permutations(parts)):
        merged.merge(part)
    assert merged == whole
    assert merged.mean().tobytes() == whole.mean().tobytes()
    kept = parts[0].copy()
    assert parts[0] + parts[1] + parts[2] + parts[3] == whole
    assert parts[0] == kept, "a sum is a new aggregator"


@each
def test_the_sum_is_that_of_the_contributions_but_for_the_stated_rounding(name: str) -> None:
    mechanism = MECHANISMS[name]
    server = summed(mechanism, reports_of(name))
    seeds = np.array([report.seed for report in reports_of(name)], dtype=np.uint64)
    exact = mechanism.contributions(seeds, np.stack([report.values for report in reports_of(name)])).mean(axis=0)
    assert server.step <= mechanism.cell_size * 2.0**-22
    if exact.size == server.totals.size and not hasattr(mechanism, "map"):
        assert np.abs(server.totals * server.step / PEOPLE - exact).max() <= server.step / 2
        exact = mechanism.mean_of(exact)
    assert np.abs(server.mean() - exact[:DIM]).max() <= 4 * server.step * np.sqrt(mechanism.state_dim)


def test_a_server_is_copied_pickled_and_compared() -> None:
    server = summed(MECHANISMS["SQKR"], reports_of("SQKR"))
    for again in (server.copy(), copy.deepcopy(server), pickle.loads(pickle.dumps(server))):  # noqa: S301
        assert again == server
        again.add(reports_of("SQKR")[0])
        assert again != server
    assert server != MeanAggregator(MECHANISMS["SQKR"])
    assert server != "server"
    assert repr(server).endswith("12 reports)")
    with pytest.raises(TypeError, match="unhashable"):
        hash(server)


def test_reports_of_another_mechanism_are_refused_by_the_field_that_differs() -> None:
    server = MeanAggregator(MECHANISMS["PrivHS"])
    with pytest.raises(InvalidInputError, match="repetitions is None here, 9 there"):
        server.add(reports_of("RePrivHS of nine")[0])
    with pytest.raises(InvalidInputError, match="kind is 'priv-hs' here, 'sqkr' there"):
        server.merge(MeanAggregator(MECHANISMS["SQKR"]))
    for wrong in (None, b"", reports_of("PrivHS")[0].values):
        with pytest.raises(TypeError):
            server.add(wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            server.merge(wrong)  # type: ignore[arg-type]
    assert server.count == 0


@pytest.mark.parametrize("name", ["PrivUnitG", "ProjUnit, Hadamard", "ProjUnit, Haar", "ProjUnit, Alg. 6"])
def test_values_no_honest_report_holds_are_refused_and_nothing_is_added(name: str) -> None:
    mechanism = MECHANISMS[name]
    server = summed(mechanism, reports_of(name))
    before = server.copy()
    values = np.stack([report.values for report in reports_of(name)]).astype(np.float32)
    values[-1] = 1e30
    with pytest.raises(InvalidInputError, match="dishonest"):
        server.add(Reports(mechanism, np.zeros(PEOPLE, dtype=np.uint64), values))
    assert server == before


def test_a_full_server_takes_no_more() -> None:
    mechanism = MECHANISMS["PrivHS"]
    full = MeanAggregator.from_parts(mechanism, MAX_COUNT, np.full(mechanism.state_dim, 1 << 52))
    for more in (
        lambda: full.add(reports_of("PrivHS")[0]),
        lambda: full.merge(summed(mechanism, reports_of("PrivHS"))),
    ):
        with pytest.raises(SketchOverflowError, match="at most 2147483647 reports"):
            more()
    assert full.count == MAX_COUNT
    full.merge(MeanAggregator(mechanism))


@pytest.mark.parametrize(
    ("count", "totals", "problem"),
    [
        (-1, np.zeros(DIM, dtype=np.int64), "0 to"),
        (MAX_COUNT + 1, np.zeros(DIM, dtype=np.int64), "0 to"),
        (1, np.zeros(DIM + 1, dtype=np.int64), "shape"),
        (1, np.zeros(DIM), "int64"),
        (1, np.full(DIM, (1 << 32) + 1), "but 1 reports add up to at most"),
        (0, np.ones(DIM, dtype=np.int64), "but 0 reports add up to at most"),
        (1, np.full(DIM, -(1 << 63)), "but 1 reports add up to at most"),
        (1.5, np.zeros(DIM, dtype=np.int64), "0 to"),
        (True, np.zeros(DIM, dtype=np.int64), "0 to"),
        ("1", np.zeros(DIM, dtype=np.int64), "0 to"),
        (1, [0] * DIM, "a NumPy array"),
    ],
)
def test_states_no_reports_add_up_to_are_refused(count: Any, totals: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        MeanAggregator.from_parts(MECHANISMS["PrivHS"], count, totals)


def test_an_empty_server_has_no_mean() -> None:
    server = MeanAggregator(MECHANISMS["PrivHS"])
    for ask in (server.mean, server.standard_error):
        with pytest.raises(InvalidInputError, match="no report"):
            ask()


def test_totals_are_a_copy() -> None:
    server = summed(MECHANISMS["PrivHS"], reports_of("PrivHS"))
    server.totals[:] = 0
    assert server.totals.any()


def test_standard_errors_are_those_of_the_mean() -> None:
    """N ‖mean - v‖² / dim over the squared standard error: χ² with 12 degrees a server, 100 servers; 6 deviations."""
    mechanism, vector = MECHANISMS["PrivUnitG"], directions(DIM)["ones"]
    ratios = []
    for trial in range(100):
        server = MeanAggregator(mechanism)
        server.add(mechanism.randomize_many(repeated(vector, 40), bits=bits(trial)))
        ratios.append(((server.mean() - vector) ** 2).mean() / server.standard_error() ** 2)
    assert abs(np.mean(ratios) - 1) < 6 * np.sqrt(2 / 1200)


def test_reports_added_in_chunks_are_added_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = ProjUnit(dim=40, sketch_dim=8, epsilon=4.0, shared=True, compressed=True, seed=3)
    vectors = np.eye(40)[:20]
    reports = mechanism.randomize_many(vectors)
    whole = MeanAggregator(mechanism)
    whole.add(reports)
    monkeypatch.setattr(proj_unit, "CHUNK_CELLS", 24)
    parts = MeanAggregator(mechanism)
    parts.add(reports)
    assert parts == whole


def test_standard_errors_hold_along_the_vector_where_bias_stays() -> None:
    """A coordinate that is the vector: its error, once noise has averaged out, is not a share of the bias."""
    mechanism = ProjUnit(dim=64, sketch_dim=1, epsilon=20.0, rotation="haar", shared=True, seed=1)
    server = MeanAggregator.from_parts(mechanism, MAX_COUNT, np.zeros(64, dtype=np.int64))
    bias = 1 - mechanism.map.mean_length
    assert server.standard_error() > bias
    assert server.standard_error() == pytest.approx(np.sqrt(mechanism.limiting_squared_error), rel=1e-3)


def test_one_number_a_report_leaves_no_more_bias_than_its_signs() -> None:
    """At k = 1 the mean is sign(w)/root N for the rotated vector w/root N: 2 - 2 E|w| of it, not 25/16."""
    mechanism = ProjUnit(dim=1024, sketch_dim=1, epsilon=4.0, shared=True, seed=1)
    assert mechanism.limiting_squared_error == pytest.approx(2 - 2 * np.sqrt(2 / np.pi), rel=2e-3)
    assert mechanism.expected_squared_error(1) == pytest.approx(mechanism.squared_error)


def test_what_is_no_array_of_reports_is_refused_with_a_sentence() -> None:
    mechanism = MECHANISMS["PrivHS"]
    values = reports_of("PrivHS")[0].values
    seeds = np.zeros(1, dtype=np.uint64)
    for pair in (([0], values[np.newaxis]), (None, None), (seeds, None), (seeds, np.array(1, dtype=np.uint8))):
        with pytest.raises(InvalidInputError):
            Reports(mechanism, *pair)  # type: ignore[arg-type]
    for wrong in (None, [1], 1):
        with pytest.raises(InvalidInputError):
            Report(mechanism, 0, wrong)  # type: ignore[arg-type]
    for ragged in ([1, [2]], [[1, 2], [3]]):
        with pytest.raises(InvalidInputError, match="different lengths"):
            mechanism.randomize(ragged)


def test_totals_in_other_steps_are_not_merged() -> None:
    server, other = (summed(MECHANISMS["PrivHS"], reports_of("PrivHS")) for _ in range(2))
    other._step_exponent += 1
    before = server.totals
    with pytest.raises(InvalidInputError, match=r"in steps of 2\^"):
        server.merge(other)
    assert server.totals.tolist() == before.tolist()
    assert server != other


def test_totals_in_other_steps_keep_their_meaning_in_a_copy() -> None:
    """A server that was pickled where the step came out otherwise: its copy took the step of here."""
    other = summed(MECHANISMS["PrivHS"], reports_of("PrivHS"))
    other._step_exponent += 1
    assert other.copy() == other
    assert other.copy().mean().tolist() == other.mean().tolist()


def test_steps_are_rounded_as_numpy_rounds() -> None:
    values = np.concatenate([salted_rng(1).normal(size=1001), [0.5, 1.5, -2.5, -0.0, 1e9 + 0.5]])
    steps = np.empty(values.size, dtype=np.int64)
    assert round_to_steps(values, 0.25, 2.0**32, steps)
    assert steps.tolist() == np.rint(values / 0.25).tolist()
    assert round_to_steps(np.array([-8.0, 8.0]), 1.0, 8.0, np.empty(2, dtype=np.int64))
    for wrong in (8.6, -8.6, np.inf, -np.inf, np.nan):
        assert not round_to_steps(np.array([0.0, wrong, 0.0]), 1.0, 8.0, np.empty(3, dtype=np.int64))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_squared_lengths_are_sums_of_squares(size: int) -> None:
    rows = salted_rng(size).normal(size=(3, size))
    assert squared_lengths(rows) == pytest.approx((rows**2).sum(axis=1), rel=1e-14)
    if size:
        rows[1, -1] = np.nan
        assert np.isnan(squared_lengths(rows)).tolist() == [False, True, False]


BOUNDED = [name for name in zoo() if math.isfinite(MECHANISMS[name].longest_contribution)]


@pytest.mark.parametrize("name", BOUNDED)
def test_totals_that_no_honest_reports_add_up_to_are_refused(name: str) -> None:
    """Each cell may be as large as that of a report, but not all of them at once."""
    mechanism = MECHANISMS[name]
    whole = summed(mechanism, reports_of(name))
    MeanAggregator.from_parts(mechanism, whole.count, whole.totals)
    longest = mechanism.longest_contribution + whole.step * math.sqrt(whole.totals.size) / 2
    cell = math.ceil(1.01 * longest / (whole.step * math.sqrt(whole.totals.size)))
    for sign in (1, -1):
        long = np.full(whole.totals.size, sign * cell * whole.count, dtype=np.int64)
        with pytest.raises(InvalidInputError, match="honest reports"):
            MeanAggregator.from_parts(mechanism, whole.count, long)
