"""What a server takes for honest: every honest report but one in 10^9, and none of another length.

Rates of false alarms are tested at 6 standard errors, with fixed bits.
"""

import json
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.local import (
    GaussianMechanism,
    MeanAggregator,
    Mechanism,
    PrivHS,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
    Report,
    Reports,
    plausible_lengths,
)
from streamsketch.local.plausible_lengths import Lengths
from streamsketch.wire import wire_pb2
from streamsketch.wire.local_reports import MEANS
from streamsketch.wire.releases import frame, values_message
from tests.local.directions import bits, directions, repeated
from tests.local.zoo import DIM, zoo
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-6)


MEASURED = [name for name, mechanism in zoo().items() if mechanism.layout.stored.kind in "fi"]


def plausible(reports: Reports) -> np.ndarray:
    return plausible_lengths.lengths_fit(reports.mechanism, reports.values)


def with_values(report: Report, values: Any) -> Report:
    return Report(report.mechanism, report.seed, np.asarray(values, dtype=report.mechanism.layout.stored))


# --- honest reports pass ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ball"),
    [
        pytest.param(name, ball, marks=[pytest.mark.long] * ((place + ball) % 2))
        for place, name in enumerate(zoo())
        for ball in (False, True)
    ],
)
def test_no_honest_report_is_refused(name: str, *, ball: bool) -> None:
    """300 reports of each kind: one is refused with probability 3·10^-7, in all of this test 10^-5."""
    mechanism = zoo(ball=ball)[name]
    vectors = np.concatenate([repeated(vector, 60) for vector in directions(DIM).values()])
    reports = mechanism.randomize_many(vectors * (0.5 if ball else 1.0), bits=bits(name))
    assert plausible(reports).all()
    server = MeanAggregator(mechanism)
    server.add(reports)
    for report in list(reports)[:5]:
        assert Report.from_bytes(report.to_bytes(), mechanism) == report
        server.add(report)
    assert server.count == 305


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 0.06), (2, 16.0), (3, 256.0), (64, 1.0), (5000, 0.5), (50000, 8.0)])
def test_rounded_reports_of_any_size_pass(dim: int, epsilon: float, precision: str) -> None:
    people = max(3, 20000 // dim)
    vectors = salted_rng(dim).normal(size=(people, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for family in (PrivUnit, PrivUnitG):
        mechanism = family(dim=dim, epsilon=epsilon, precision=precision)
        assert plausible(mechanism.randomize_many(vectors, bits=bits((dim, epsilon)))).all()


def refusal_rate(mechanism: Mechanism, vector: np.ndarray, people: int = 20000) -> float:
    reports = mechanism.randomize_many(repeated(vector, people), bits=bits("rate"))
    return float(1 - plausible(reports).mean())


@pytest.mark.parametrize("rate", [0.04, 0.4])
@pytest.mark.parametrize(
    "build",
    [
        lambda: PrivUnitG(dim=DIM, epsilon=1.0),
        lambda: PrivUnitG(dim=2, epsilon=4.0),
        lambda: ProjUnit(dim=DIM, sketch_dim=1, epsilon=4.0, seed=1),
        lambda: ProjUnit(dim=DIM, sketch_dim=6, epsilon=4.0, seed=1, shared=True),
        lambda: ProjUnit(dim=DIM, sketch_dim=2, epsilon=4.0, seed=1, unbiased=True),
        lambda: GaussianMechanism(dim=DIM, epsilon=4.0, delta=1e-6),
    ],
)
def test_false_alarms_are_no_more_than_stated(build: Any, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At rates that can be seen; nearly as many are refused, but where the bounds are no quantiles."""
    monkeypatch.setattr(plausible_lengths, "FALSE_ALARM", rate)
    for vector in list(directions(build().dim if build().dim > 2 else 3).values())[:2]:
        given = vector if build().dim > 2 else np.array([1.0, 0.0])
        found = refusal_rate(build(), given)
        assert found <= rate + 6 * math.sqrt(rate / 20000)


def test_lengths_that_are_too_narrow_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check of rates is worth: bounds for too few degrees of freedom refuse more than stated."""
    monkeypatch.setattr(plausible_lengths, "FALSE_ALARM", 0.04)
    mechanism, vector = PrivUnitG(dim=DIM, epsilon=1.0), directions(DIM)["ones"]
    narrow = plausible_lengths.gaussian_lengths(mechanism.cap, DIM - 1, 2)
    object.__setattr__(mechanism, "honest_lengths", narrow)
    assert refusal_rate(mechanism, vector) > 0.04 + 6 * math.sqrt(0.04 / 20000)


@pytest.mark.parametrize(
    ("dim", "epsilon"), [(2, 1.0), (12, 4.0), (1000, 8.0), pytest.param(1000, 64.0, marks=pytest.mark.long)]
)
def test_the_rate_of_false_alarms_of_gaussian_heights_is_below_one_in_a_billion(dim: int, epsilon: float) -> None:
    """By integrating over the height: χ² beyond what it leaves of the bounds."""
    cap = PrivUnitG(dim=dim, epsilon=epsilon).cap
    least, most = (length / cap.scale for length in plausible_lengths.gaussian_lengths(cap, dim - 1, dim - 1))

    def refused(a: float) -> float:
        weight = cap.inside / cap.mass if a >= cap.threshold else (1 - cap.inside) / (1 - cap.mass)
        free = stats.chi2(dim - 1)
        beyond = free.sf(most**2 - a * a) + free.cdf(least**2 - a * a)
        return float(weight * stats.norm.pdf(a) * beyond)

    ends = [-30.0, -most, -5.0, -1.0, 0.0, 1.0, cap.threshold, cap.threshold + 1, cap.threshold + 5, most, 60.0]
    total = sum(
        integrate.quad(refused, low, high, epsabs=1e-14, limit=200)[0]
        for low, high in zip(sorted(ends), sorted(ends)[1:], strict=False)
        if high > low
    )
    assert total <= 1.01e-9
    assert total >= 1e-12 or dim == 2  # and the bounds are not idle


# --- others do not -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [8095.0, 2001.0, 12.0, 11.0, 0.0])
def test_a_false_report_of_priv_unit_is_refused_wherever_it_arrives(length: float) -> None:
    """Honest reports have one length, here 11.5; one of 8,095 was taken, and moved the mean with it."""
    mechanism = PrivUnit(dim=200, epsilon=2.0)
    vector = directions(200)["gaussian"]
    expected = 1 / mechanism.cap.mean
    assert mechanism.honest_lengths == pytest.approx((expected, expected), rel=3e-6)
    good = mechanism.randomize(vector)
    false = with_values(good, good.values * (length / expected))
    server = MeanAggregator(mechanism)
    server.add(good)
    before = server.copy()
    mixed = Reports(mechanism, np.zeros(2, dtype=np.uint64), np.stack([good.values, false.values]))
    for wrong in (false, mixed):
        with pytest.raises(InvalidInputError, match=r"dishonest.*add_plausible"):
            server.add(wrong)
        assert server == before
    with pytest.raises(WireFormatError, match="dishonest"):
        Report.from_bytes(false.to_bytes(), mechanism)
    assert plausible(mixed).tolist() == [True, False]
    assert server.add_plausible(false) == 1
    assert server == before
    assert server.add_plausible(mixed) == 1
    assert server.count == 2


@pytest.mark.parametrize("name", MEASURED)
def test_reports_of_other_lengths_are_left_out_and_counted(name: str) -> None:
    mechanism = zoo()[name]
    reports = mechanism.randomize_many(repeated(directions(DIM)["ones"], 50), bits=bits(name))
    poisoned = reports.values.copy()
    poisoned[::5] *= poisoned.dtype.type(100)
    mixed = Reports(mechanism, reports.seeds, poisoned)
    server, expected = MeanAggregator(mechanism), MeanAggregator(mechanism)
    with pytest.raises(InvalidInputError, match="dishonest"):
        server.add(mixed)
    assert server.count == 0
    assert server.add_plausible(mixed) == 10
    kept = np.arange(50) % 5 != 0
    expected.add(Reports(mechanism, reports.seeds[kept], reports.values[kept]))
    assert server == expected


def test_one_false_report_among_many_moves_the_mean_no_more_than_an_honest_one() -> None:
    """One of length 2,001 among 1,000 moved the error from 0.26 to 4.1."""
    mechanism, vector = PrivUnit(dim=200, epsilon=8.0), directions(200)["ones"]
    reports = mechanism.randomize_many(repeated(vector, 1000), bits=bits("poison"))
    values = reports.values.copy()
    values[0] = 2001 / math.sqrt(200)
    server = MeanAggregator(mechanism)
    assert server.add_plausible(Reports(mechanism, reports.seeds, values)) == 1
    assert ((server.mean() - vector) ** 2).sum() < 2 * mechanism.expected_squared_error(999)


def test_values_in_one_cell_that_leave_the_state_are_left_out() -> None:
    """Of an honest length, but all in one coordinate, in more steps than a server adds: chance never does that."""
    mechanism = PrivUnit(dim=1 << 21, epsilon=1.0)
    values = np.zeros((3, mechanism.dim), dtype=np.float32)
    values[:, 7] = 1 / mechanism.cap.mean
    values[1] = 1 / mechanism.cap.mean / math.sqrt(mechanism.dim)
    reports = Reports(mechanism, np.zeros(3, dtype=np.uint64), values)
    server = MeanAggregator(mechanism)
    with pytest.raises(InvalidInputError, match="dishonest"):
        server.add(reports)
    assert server.add_plausible(reports) == 2
    assert server.count == 1


def test_add_plausible_refuses_what_add_does() -> None:
    server = MeanAggregator(zoo()["PrivUnit"])
    with pytest.raises(InvalidInputError, match="different mechanisms"):
        server.add_plausible(zoo()["PrivUnitG"].randomize(directions(DIM)["ones"]))
    with pytest.raises(TypeError):
        server.add_plausible(b"")  # type: ignore[arg-type]
    assert server.add_plausible(zoo()["PrivUnit"].randomize_many(np.empty((0, DIM)))) == 0


def test_bounds_are_widened_by_what_rounding_moves() -> None:
    exact = Lengths(10.0, 10.0)
    for precision, relative in (("float32", 2.0**-24), ("float16", 2.0**-11)):
        layout = PrivUnit(dim=100, epsilon=4.0, precision=precision).layout
        least, most = exact.rounded(layout)
        assert 10 * (1 - relative - 2.0**-19) < least < 10 * (1 - relative)
        assert 10 * (1 + relative) < most < 10 * (1 + relative + 2.0**-19)


# --- and totals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo())
def test_totals_are_at_most_as_long_as_honest_reports_make_them(name: str) -> None:
    """One report over and over is the longest sum there is; a sum twice the limit is refused."""
    mechanism = zoo()[name]
    vectors = np.concatenate([repeated(vector, 8) for vector in directions(DIM).values()])
    reports = mechanism.randomize_many(vectors, bits=bits(name))
    longest = 0.0
    for report in reports:
        one = MeanAggregator(mechanism)
        one.add(report)
        again = MeanAggregator.from_parts(mechanism, 1000, 1000 * one.totals)
        assert MeanAggregator.from_bytes(again.to_bytes()) == again
        longest = max(longest, float(np.linalg.norm(one.totals * one.step)))
    if math.isinf(mechanism.longest_contribution):
        return
    assert longest <= mechanism.longest_contribution * (1 + 1e-5)
    assert mechanism.longest_contribution < 40 * longest  # and the limit is not idle
    steps = round(2.1 * mechanism.longest_contribution / one.step / math.sqrt(one.totals.size))
    with pytest.raises(InvalidInputError, match="honest reports"):
        MeanAggregator.from_parts(mechanism, 2, np.full(one.totals.size, steps))


def test_a_false_sum_is_refused_from_bytes() -> None:
    """A sum of one report that is 100 times as long as any: within 2^32 steps, so it was taken."""
    mechanism = zoo()["PrivUnit"]
    server = MeanAggregator(mechanism)
    server.add(mechanism.randomize(directions(DIM)["ones"]))
    message = wire_pb2.LocalMean()
    message.ParseFromString(server.to_bytes()[17:-16])
    message.totals.CopyFrom(values_message(100 * server.totals))
    with pytest.raises(WireFormatError, match="dishonest"):
        MeanAggregator.from_bytes(frame(MEANS.magic, message.SerializeToString(deterministic=True)))


def test_a_small_message_that_announces_many_cells_is_refused_before_they_are_made() -> None:
    message = wire_pb2.LocalMean(
        mechanism=wire_pb2.LocalMechanism(**PrivHS(dim=1 << 24, epsilon=1.0).agreed_fields()),
        totals=values_message(np.zeros(1, dtype=np.int64)),
    )
    tracemalloc.start()
    try:
        with pytest.raises(WireFormatError, match="16777216 cells"):
            MeanAggregator.from_bytes(frame(MEANS.magic, message.SerializeToString(deterministic=True)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("place", ["kind", "dim", "epsilon", "seed"])
def test_nested_json_is_refused_with_a_sentence(place: str) -> None:
    fields = json.loads(PrivHS(dim=3, epsilon=1.0).to_json())
    for depth in (1, 300, 990, 100_000):
        text = json.dumps(fields | {place: "here"}).replace('"here"', "[" * depth + "]" * depth)
        with pytest.raises(InvalidInputError, match=r"cannot hold lists or objects|nested too deep|JSON of at most"):
            Mechanism.from_json(text)
