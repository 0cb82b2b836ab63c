"""Guarantees that hardly protect anybody: whoever asks for one is warned, through every door, and is not refused."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, SelectKeys
from streamsketch.errors import WeakGuaranteeWarning
from streamsketch.local import PrivUnitG
from streamsketch.parties import Key, Round
from streamsketch.release import AdditiveNoise
from tests.cli.running import Forks
from tests.streams.agreed import followed

PROJECTION = ss.SJLT(sketch_dim=16, sparsity=2, seed=7)
SALE = ss.L1(1, unit="sale")


def a_stream(epsilon: float, delta: float) -> Any:
    agreement = ss.Agreement(PROJECTION, index="item", unit="who", neighbours=SALE)
    times = {"time": "at", "window": "1 hour", "start": "2026-11-22", "delay": "5 min", "folder": "out"}
    return followed(agreement, **times, epsilon=epsilon, delta=delta).publisher()


def a_round(epsilon: float, delta: float) -> Round:
    parties = [Key.generate(name).public for name in ("North", "South")]
    return Round(PROJECTION, epsilon=epsilon, delta=delta, neighbours=SALE, parties=parties)


DOORS: dict[str, Callable[[float, float], Any]] = {
    "a release": lambda e, d: PROJECTION.sketch().release(epsilon=e, delta=d, neighbours=SALE),
    "a table": lambda e, d: PROJECTION.table().release(epsilon=e, delta=d, neighbours=SALE, public_keys=["a"]),
    "noise": lambda e, d: AdditiveNoise(epsilon=e, delta=d, neighbours=SALE),
    "a pan-private sketch": lambda e, d: ss.release.PanPrivateSketch(PROJECTION, epsilon=e, delta=d, neighbours=SALE),
    "a stream": a_stream,
    "a round": a_round,
    "a plan": lambda e, d: ss.plan(
        ss.planning.StreamFacts(squared_distances=[100]), epsilon=e, delta=d, neighbours=SALE
    ),
    "keys": lambda e, d: SelectKeys(epsilon=e, delta=d or 1e-9),
}
WITHOUT_DELTA: dict[str, Callable[[float], Any]] = {
    "signs": lambda e: ss.signs.DPSignLogistic(epsilon=e, neighbours=SALE),
    "a bound": lambda e: ss.bounding.choose_bound([1.0], [1, 2], epsilon=e),
    "a report": lambda e: PrivUnitG(dim=100, epsilon=e),
}


@pytest.mark.parametrize("door", [*DOORS, *WITHOUT_DELTA])
def test_an_epsilon_above_20_is_remarked_on(door: str) -> None:
    make = WITHOUT_DELTA.get(door) or (lambda epsilon: DOORS[door](epsilon, 0.0))
    with pytest.warns(WeakGuaranteeWarning, match="ε = 20.5 hardly protects anybody") as caught:
        make(20.5)
    assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize("door", DOORS)
def test_a_delta_of_a_thousandth_is_remarked_on(door: str) -> None:
    with pytest.warns(WeakGuaranteeWarning, match="reveals one unit in 1,000 outright"):
        DOORS[door](1.0, 1e-3)


@pytest.mark.filterwarnings("error::streamsketch.errors.WeakGuaranteeWarning")
@pytest.mark.parametrize("door", [*DOORS, *WITHOUT_DELTA])
def test_what_is_usual_is_not(door: str) -> None:
    make = WITHOUT_DELTA.get(door) or (lambda epsilon: DOORS[door](epsilon, 1e-6))
    make(20.0)


def test_noise_on_beam_is_remarked_on() -> None:
    with pytest.warns(WeakGuaranteeWarning):
        ReleasePerKey(AdditiveNoise(epsilon=50.0, neighbours=SALE), public_keys=["a"])


@pytest.mark.filterwarnings("error::streamsketch.errors.WeakGuaranteeWarning")
def test_what_others_released_and_a_sum_of_many_are_not() -> None:
    one = PROJECTION.sketch().release(epsilon=1.0, neighbours=SALE).guarantee
    assert ss.compose([one] * 30, populations="overlapping").epsilon == 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)
        weak = PROJECTION.sketch().release(epsilon=30.0, neighbours=SALE)
    assert ss.PrivateSketch.from_bytes(weak.to_bytes()) == weak
    assert "ε = 30" in str(ss.explain(weak))


def test_the_shell_remarks_on_it_too(tmp_path: Path, forks: Forks) -> None:
    ss.storage.save_raw(PROJECTION.sketch(), tmp_path / "a.raw-sketch")
    release = ["release", "a.raw-sketch", "--epsilon", "25", "--delta", "0.01", "--l1", "1", "-o", "a.sketch"]
    done = forks.run(*release, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in ("warning: ε = 25 hardly protects", "warning: δ = 0.01 permits a release that reveals one unit in 100"):
        assert done.stderr.count(said) == 1
    assert "warning" not in done.stdout
