"""Games on release functions: right ones are rejected as seldom as stated, and known mistakes are seen."""

import itertools
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import streamsketch as ss
from streamsketch.auditing import as_mechanism, by_agreement, of_mechanism, play, seen
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.laplace import DiscreteLaplace
from tests.noise import salted_bits, salted_rng

pytestmark = pytest.mark.rejects(1e-5)

RUNS = 4000


def laplace(scale: int, context: bytes = b"game") -> Callable[[Any], Any]:
    """Return a release of integers by exact Laplace noise: ε is the ℓ1 distance / scale."""
    noise, bits = DiscreteLaplace(scale), salted_bits(context)
    return lambda data: np.asarray(data) + noise.sample(np.size(data), bits)


def textbook(seed: int) -> Callable[[float], float]:
    """Return a release by Laplace noise of scale 1 in floating point."""
    rng = salted_rng(seed)

    def release(count: float) -> float:
        u = rng.random() - 0.5
        return count - math.copysign(math.log(1 - 2 * abs(u)), u)

    return release


# what is wrong → a release, two neighbours, and the ε that it states
WRONG: dict[str, tuple[Callable[[], Callable[[Any], Any]], Any, Any, float]] = {
    "half the noise": (lambda: laplace(1), [0], [1], 0.5),
    "noise for one cell of four": (lambda: laplace(1), [0, 0, 0, 0], [1, 1, 1, 1], 1.0),
    "floats whose last bits tell": (lambda: textbook(1), 0.0, 1 / 3, 1 / 3),
    "no noise on what is empty": (lambda: lambda data: laplace(3)(data) if data else 0, 0, 1, 1.0),
    "a length that tells": (lambda: laplace(50), [0] * 30, [0] * 31, 1.0),
    "noise that is drawn once": (lambda: lambda data: np.asarray(data) + 3, [0], [1], 1.0),
    "a key that appears": (lambda: lambda data: dict.fromkeys(data, 1), ["a"], ["a", "b"], 1.0),
    "minus zero": (lambda: lambda data: data * 0.0, 1, -1, 1.0),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_known_mistake_is_seen(name: str) -> None:
    made, first, second, epsilon = WRONG[name]
    verdict = play(made(), first, second, epsilon=epsilon, runs=RUNS)
    assert not verdict.holds, str(verdict)
    assert f"ε = {epsilon:.6g} is wrong: ε is at least" in str(verdict)
    assert not play(made(), second, first, epsilon=epsilon, runs=RUNS).holds, "both ways round"


bits = salted_bits(b"outcomes")
RIGHT: dict[str, tuple[Callable[[], Callable[[Any], Any]], Any, Any, float]] = {
    "one number": (lambda: laplace(2), [0], [1], 0.5),
    "a number": (lambda: laplace(1), 0, 1, 1.0),
    "four cells": (lambda: laplace(4), [0, 0, 0, 0], [1, 1, 1, 1], 1.0),
    "nothing to see": (lambda: laplace(1), [5, 5], [5, 5], 0.0),
    "many outcomes, all as likely": (lambda: lambda _: bits.read(2), 0, 1, 0.0),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_is_not_rejected_and_some_of_its_loss_is_seen(name: str) -> None:
    made, first, second, epsilon = RIGHT[name]
    verdict = play(made(), first, second, epsilon=epsilon, runs=RUNS)
    assert verdict.holds, str(verdict)
    assert verdict.loss >= epsilon / 40
    assert f"ε = {epsilon:g} is not contradicted" in str(verdict)


def test_right_functions_are_rejected_as_seldom_as_stated() -> None:
    """Of 100 games at a rate of 0.2, which allows for all that is judged at once: at most 20 on average."""
    release, data = laplace(9), [0] * 6
    rejected = sum(not play(release, data, data, epsilon=0.0, runs=200, false_rejects=0.2).holds for _ in range(100))
    assert rejected <= stats.binom.ppf(1 - 1e-6, 100, 0.2)


def test_delta_allows_for_what_it_states() -> None:
    def release(data: int) -> int:  # tells in one of ten runs
        return data if rng.random() < 0.1 else -1

    rng = salted_rng(3)
    assert play(release, 0, 1, epsilon=0.0, delta=0.1, runs=RUNS).holds
    verdict = play(release, 0, 1, epsilon=0.0, delta=0.05, runs=RUNS)
    assert not verdict.holds
    assert "ε = 0, δ = 0.05 is wrong" in str(verdict)


def test_a_view_limits_what_is_looked_at() -> None:
    def release(data: int) -> dict[str, int]:
        return {"noisy": laplace_of_one(data).item(), "exact": data}

    laplace_of_one = laplace(1)
    assert not play(release, 0, 1, epsilon=1.0, runs=RUNS).holds
    assert play(release, 0, 1, epsilon=1.0, runs=RUNS, view=lambda shown: shown["noisy"]).holds


@pytest.fixture(scope="module")
def agreement() -> ss.Agreement:
    schema = pa.schema({"who": pa.string(), "item": pa.string()})
    return ss.agree(
        schema,
        ss.CountSketch(sketch_dim=4, seed=1),
        index="item",
        unit="who",
        neighbours=ss.SketchL2(2, unit="who"),
        epsilon=4.0,
        delta=1e-3,
    )


def test_releases_under_an_agreement_keep_what_they_state(agreement: ss.Agreement) -> None:
    rows = pa.table({"who": ["ann"] * 3, "item": ["tea", "jam", "tea"]})
    release, empty = by_agreement(agreement), rows.slice(0, 0)
    assert play(release, rows, empty, epsilon=4.0, delta=1e-3, runs=100).holds
    verdict = play(release, rows, empty, epsilon=0.1, delta=1e-3, runs=400, false_rejects=1e-3)
    assert not verdict.holds, "the game can see this loss"


# --- what else an outsider sees -----------------------------------------------------------------------------------


def prints(data: list[str], _: Path) -> None:
    print(len(data))  # noqa: T201 - what is tested


def logs(data: list[str], _: Path) -> None:
    logging.getLogger("job").debug("%s rows", len(data))


def warns(data: list[str], _: Path) -> None:
    if "ann" in data:
        warnings.warn("a value was clipped", stacklevel=1)


def grows(data: list[str], folder: Path) -> None:
    (folder / "state").write_bytes(bytes(8 * len(data)))


def opens(data: list[str], folder: Path) -> None:
    (folder / "state").touch(0o600 if "ann" in data else 0o640)


def fails(data: list[str], folder: Path) -> None:
    if "ann" in data:
        (folder / "none").read_text()


def nothing(_: list[str], folder: Path) -> None:
    (folder / "state").write_bytes(bytes(8))
    print("done")  # noqa: T201 - what is tested


@pytest.mark.parametrize("job", [prints, logs, warns, grows, opens, fails])
def test_all_that_depends_on_the_data_is_seen(job: Callable[[list[str], Path], None]) -> None:
    assert not play(seen(job), ["ben"], ["ben", "ann"], epsilon=1.0, runs=200).holds


def test_what_does_not_depend_on_the_data_is_no_loss() -> None:
    assert play(seen(nothing), ["ben"], ["ben", "ann"], epsilon=0.0, runs=200).holds
    shown = seen(nothing)(["ben"])
    assert (shown.printed, shown.logged, shown.error) == ("done\n", (), "")
    assert [(name, size) for name, _, size in shown.files] == [("state", 8)]


# --- other libraries ------------------------------------------------------------------------------------------------


def test_measurements_of_opendp_are_played_as_they_are() -> None:
    """OpenDP's noise is new at each run: 1e-6 of the runs reject it."""
    import opendp.prelude as dp  # noqa: PLC0415 - seconds to import

    dp.enable_features("contrib")
    space = dp.atom_domain(T="i32"), dp.absolute_distance(T="i32")
    measurement = dp.m.make_laplace(*space, scale=1.0)
    assert play(measurement, 0, 1, epsilon=1.0, runs=1000).holds
    assert not play(measurement, 0, 3, epsilon=1.0, runs=1000).holds


def test_mechanisms_that_return_samples_are_translated_both_ways() -> None:
    mechanism = as_mechanism(laplace(1))
    assert mechanism([0, 0], 7).shape == (7, 2)
    drawn: Iterator[int] = itertools.count()
    asked: list[int] = []

    def batches(data: str, number: int) -> list[str]:
        asked.append(number)
        return [f"{data}{next(drawn)}" for _ in range(number)]

    first, second = "a", "b"
    release = of_mechanism(batches, batch=3)
    outcomes = [release(data) for _ in range(4) for data in (first, second)]
    assert all(outcome.startswith(data) for outcome, data in zip(outcomes, itertools.cycle("ab"), strict=False))
    assert len(set(outcomes)) == 8, "no sample is used twice"
    assert asked == [3] * 4
    assert not play(of_mechanism(as_mechanism(laplace(1))), [0], [2], epsilon=1.0, runs=RUNS).holds


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": -1.0}, "epsilon must be at least 0 and delta in"),
        ({"delta": 1.0}, "epsilon must be at least 0 and delta in"),
        ({"runs": 99}, "runs must be"),
        ({"false_rejects": 0.0}, "false_rejects must be between 0 and 1, got 0"),
    ],
)
def test_parameters_out_of_range_are_refused_before_anything_runs(wrong: dict[str, Any], message: str) -> None:
    def never(_: Any) -> None:
        raise AssertionError

    with pytest.raises(InvalidInputError, match=message):
        play(never, 0, 1, **({"epsilon": 1.0} | wrong))
