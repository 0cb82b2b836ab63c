"""``mechanism="auto"`` is one law of sensitivity and budget: noise that cannot be drawn is refused, not exchanged."""

import functools
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import apache_beam as beam
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.beam import ReleasePerKey
from streamsketch.beam.run.known import Known, known_of, with_known
from streamsketch.continual import Factorisation, Releaser, Separate, Tree
from streamsketch.errors import InvalidInputError, NoiseTooWideError
from streamsketch.parties import Key, Round
from streamsketch.privacy import Budget, Neighbours, calibration
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import Sensitivity
from streamsketch.release import AdditiveNoise, PanPrivateSketch, PrivateProjection, release_vector
from tests.streams.agreed import followed

UNIT = "person"
RELATIONS: list[Neighbours] = [
    ss.L1(1, unit=UNIT),
    ss.L1(20, unit=UNIT, max_keys=5),
    ss.SketchL2(1, unit=UNIT, max_keys=1),
    ss.SketchL2(3, unit=UNIT, max_keys=4),
    ss.OneCoordinate(2, unit=UNIT),
]
RESOLUTIONS = [1, 1 << 10, 1 << 14, 1 << 20, 1 << 30, 1 << 40]
BUDGETS = [(1.0, 1e-6), (0.1, 1e-9), (0.01, 1e-4), (3.0, 1e-300)]


def suited(sensitivity: Sensitivity, epsilon: float, delta: float) -> str:
    """Return the noise that the rule names: Stausholm 2021, Note 5, written again."""
    return "gaussian" if DiscreteGaussian.suits(sensitivity, Budget(epsilon, delta)) else "laplace"


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the text of its refusal."""
    try:
        return call()
    except InvalidInputError as refusal:
        return str(refusal)


# --- the law ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-9, 1e-3])
def test_no_noise_takes_the_place_of_another(epsilon: float, delta: float) -> None:
    outcomes = set()
    for power, cells, ratio in itertools.product(range(0, 60, 4), (1, 64, 1 << 16), (1, 8, 1 << 12)):
        sensitivity = Sensitivity(ratio << power, (ratio << 2 * power), cells)
        asked = suited(sensitivity, epsilon, delta)
        kind: Any = DiscreteGaussian if asked == "gaussian" else DiscreteLaplace
        budget = Budget(epsilon, delta)
        try:
            expected = kind.calibrated(sensitivity, budget)
        except InvalidInputError as refusal:
            with pytest.raises(type(refusal), match="No other noise is taken instead"):
                calibration.choose(sensitivity, budget, "auto")
            outcomes.add("refused")
            continue
        assert calibration.choose(sensitivity, budget, "auto") == expected
        outcomes.add(asked)
    assert outcomes >= {"laplace"} if delta < 1e-100 else {"gaussian"}


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_the_least_variance_is_that_of_all_or_it_is_refused(epsilon: float) -> None:
    """A law that is too wide to be drawn has more variance than the widest that can be."""
    refused = 0
    for power, ratio in itertools.product(range(32), (1, 4, 64, 1 << 14)):
        sensitivity, budget = Sensitivity(ratio << power, ratio << 2 * power, 64), Budget(epsilon, 1e-6)
        variances = {}
        for kind in (DiscreteLaplace, DiscreteGaussian):
            try:
                variances[kind.name] = kind.calibrated(sensitivity, budget).cumulants.k2
            except InvalidInputError:
                variances[kind.name] = float("inf")
        try:
            found = calibration.choose(sensitivity, budget, "least-variance")
        except NoiseTooWideError:
            refused += 1
            assert variances["gaussian"] == float("inf")
            assert variances["laplace"] > DiscreteGaussian.widest
            continue
        assert found.cumulants.k2 <= 2 * min(variances.values()), "by the variance of a distance, with κ4"
        assert found.cumulants.k2 < float("inf")
    assert refused


def test_a_plan_says_which_noise_is_automatic() -> None:
    fine = Sensitivity(1 << 30, 1 << 50, 1 << 12)
    (left,) = calibration.candidates(fine, Budget(1.0, 1e-6))
    assert (left.mechanism, left.is_automatic) == ("laplace", False)
    coarse = calibration.candidates(Sensitivity(64, 64, 64), Budget(1.0, 1e-6))
    assert [(one.mechanism, one.is_automatic) for one in coarse] == [("gaussian", True), ("laplace", False)]


# --- through every door -------------------------------------------------------------------------------------------


def agreed_on(relation: Neighbours, resolution: int, **more: Any) -> ss.Agreement:
    grid = Fraction(1, resolution)
    projection: Any = ss.projections.Rademacher(dim=256, sketch_dim=64, seed=7, resolution=grid)
    if relation.max_keys > 1:
        projection = ss.CountSketch(dim=256, sketch_dim=64, seed=7, resolution=grid)
    key = "shop" if relation.max_keys > 1 else None
    return ss.Agreement(projection, index="item", key=key, unit=UNIT, neighbours=relation, **more)


def released(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    counting, relation = agreement.counting, agreement.neighbours
    found: ss.Guarantee = AdditiveNoise(**how, neighbours=relation, counting=counting).guarantee(agreement.projection)  # type: ignore[arg-type]
    return found


def in_a_round(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    parties = [Key.generate(name).public for name in ("North", "South")]
    return Round(
        agreement.projection, parties=parties, neighbours=agreement.neighbours, counting=agreement.counting, **how
    ).guarantee


def of_vectors(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    relation: Any = agreement.neighbours
    found: ss.Guarantee = (
        PrivateProjection(projection=agreement.projection, neighbours=relation, **how).release([[1] * 256])[0].guarantee
    )
    return found


def of_a_vector(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    relation: Any = agreement.neighbours
    return release_vector(agreement.projection, [1] * 256, neighbours=relation, **how).guarantee


def in_memory(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    relation: Any = agreement.neighbours
    return PanPrivateSketch(agreement.projection, neighbours=relation, **how).guarantee


def by_stream(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    keys = None if agreement.key is None else ["x"]
    times: dict[str, Any] = {"time": "at", "window": "1 day", "start": "2026-11-22", "delay": "5 min"}
    return followed(agreement, **times, folder="out", public_keys=keys, **how).publisher().guarantee


def by_beam(agreement: ss.Agreement, how: dict[str, Any]) -> ss.Guarantee:
    relation: Any = agreement.neighbours
    known = Known(agreement.projection, Bounds(relation, "scale", counted=True), relation, agreement=agreement)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    sketches = with_known(pipeline | beam.Create([]), known)
    assert known_of(sketches) == known
    publisher = AdditiveNoise(**how, neighbours=relation)
    transform = ReleasePerKey(publisher, public_keys=["x"])
    found: ss.Guarantee = transform._guarantee(transform._publisher_for(known, None), agreement.projection, known, None)
    return found


DOORS: dict[str, Callable[[ss.Agreement, dict[str, Any]], ss.Guarantee]] = {
    "release": released,
    "a round": in_a_round,
    "vectors": of_vectors,
    "a vector": of_a_vector,
    "memory": in_memory,
    "a stream": by_stream,
    "Beam": by_beam,
}
FOR_VECTORS = "vectors", "a vector", "memory"


def settings(door: str) -> Iterator[tuple[Neighbours, int, tuple[float, float], bool]]:
    for relation, resolution, budget in itertools.product(RELATIONS, RESOLUTIONS, BUDGETS):
        if door in FOR_VECTORS and not (isinstance(relation, ss.L1) and relation.max_keys == 1):
            continue
        if isinstance(relation, ss.SketchL2) and not 1 << 14 <= resolution <= 1 << 20:  # which is refused
            continue
        yield relation, resolution, budget, False
        if isinstance(relation, ss.L1 | ss.SketchL2) and door not in FOR_VECTORS:
            yield relation, resolution, budget, True


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_noise_that_suits_or_a_remedy(door: str) -> None:
    outcomes: list[str] = []
    for relation, resolution, (epsilon, delta), is_counted in settings(door):
        more = {"counting": ss.privacy.Counting(1)} if is_counted else {}
        agreement = agreed_on(relation, resolution, **more)
        sensitivity = sensitivity_of(agreement.projection, relation, Layout(agreement.counting))
        asked = suited(sensitivity, epsilon, delta)
        guarantee = outcome(functools.partial(DOORS[door], agreement, {"epsilon": epsilon, "delta": delta}))
        if isinstance(guarantee, str):
            assert any(remedy in guarantee for remedy in ("coarser resolution", "mechanism='laplace'")), guarantee
            outcomes.append("refused")
            continue
        added = guarantee.mechanism.noises[0].noise
        assert (added.name, guarantee.delta) == (asked, delta if asked == "gaussian" else 0.0)
        outcomes.append(asked)
    assert {"refused", "gaussian", "laplace"} <= set(outcomes)


# --- schedules ----------------------------------------------------------------------------------------------------

SCHEDULES = [Factorisation(horizon=365), Factorisation(horizon=30, band=7), Tree(horizon=365), Separate(horizon=7)]


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_an_inferred_agreement_under_a_schedule_has_noise_of_the_right_size(
    schedule: Any, epsilon: float, delta: float
) -> None:
    """The row of a history is as much wider than a release alone as the schedule says, in steps of its weights."""
    rows = {"item": ["tea"] * 60, UNIT: [f"u{number}" for number in range(60)]}
    import pandas as pd  # noqa: PLC0415 - as users give rows

    agreement = ss.agree(pd.DataFrame(rows), ss.CountSketch(sketch_dim=256, seed=7), index="item", unit=UNIT)
    how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbours": agreement.neighbours}
    alone = AdditiveNoise(**how).calibrated(agreement.projection)
    noise = outcome(lambda: AdditiveNoise(**how, schedule=schedule).calibrated(agreement.projection))
    if isinstance(noise, str):
        assert epsilon < 1, noise
        assert "coarser resolution" in noise
        return
    assert (noise.noise.name, noise.guarantee.delta) == ("gaussian", delta)
    wider = (noise.noise.cumulants.k2 / alone.noise.cumulants.k2) ** 0.5
    assert wider == pytest.approx(noise.schedule.norms.l2_squared**0.5, rel=1e-3)  # type: ignore[union-attr]
    assert noise.schedule.worst_error() <= 1.1 * schedule.worst_error()  # type: ignore[union-attr]
    row = Releaser(AdditiveNoise(**how, schedule=schedule), agreement.projection).add(
        ss.bound(pd.DataFrame(rows), agreement)
    )
    assert row.guarantee.mechanism.layout.schedule == noise.schedule


def test_weights_are_as_fine_as_noise_allows_and_no_finer() -> None:
    found = {}
    agreement = agreed_on(ss.SketchL2(1, unit=UNIT, max_keys=2), 1 << 14)
    for power in range(-6, 4):
        how: dict[str, Any] = {"epsilon": 2.0**power, "delta": 1e-6, "neighbours": agreement.neighbours}
        publisher = AdditiveNoise(**how, schedule=Factorisation(horizon=365))
        calibrated = outcome(functools.partial(publisher.calibrated, agreement.projection))
        if isinstance(calibrated, str):
            assert "a Tree has no weights" in calibrated
            finest = AdditiveNoise(**how, schedule=Factorisation(horizon=365, bits=4))
            with pytest.raises(NoiseTooWideError):
                finest.calibrated(agreement.projection)
            continue
        bits = found[power] = calibrated.schedule.bits
        assert publisher.fitted(agreement.projection).schedule == Factorisation(horizon=365, bits=bits)
        if bits < 8:
            finer = AdditiveNoise(**how, schedule=Factorisation(horizon=365, bits=bits + 1))
            assert finer.calibrated(agreement.projection).schedule.bits == bits  # type: ignore[union-attr]
    assert set(found.values()) == {4, 5, 6, 7, 8}
    assert list(found.values()) == sorted(found.values())
