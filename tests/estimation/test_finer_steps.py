"""A release says the same in finer steps: no estimate depends on how it is written."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.estimation.counts import total_of, units_of
from tests.golden import make_kit, reader

pytestmark = pytest.mark.filterwarnings("ignore")  # the noise of the kit is made up

RELEASES = {case["name"]: case for case in json.loads((make_kit.KIT / "releases.json").read_text(encoding="utf-8"))}
RANGES = ["a range of a crowd", "a range of a crowd of another town"]
OTHERS = [
    "a range of tree",
    "a sum of ranges of crowds",
    "a multiple",
    "a negative multiple",
    "sjlt-graph, x",
    "very-sparse, x",
]
PAIRS = [
    *((f"{kind}, x", f"{kind}, y") for kind in ("sjlt-block", "count-sketch", "uniform", "fjlt, noise before the map")),
    *(RANGES, RANGES[::-1], ["a multiple", "another multiple"], ["a part, x", "a negative multiple"]),
]
OF_ONE: dict[str, Callable[..., ss.estimation.Estimate]] = {
    "squared norm": ss.squared_norm,
    "norm of an average": ss.estimation.mean_norm,
    "units": units_of,
    "total": total_of,
}
OF_TWO: dict[str, Callable[..., ss.estimation.Estimate]] = {
    "squared distance": ss.squared_distance,
    "inner product": ss.inner_product,
    "cosine": ss.cosine,
    "distance of averages": ss.estimation.mean_distance,
    "product of averages": ss.estimation.mean_product,
    "tested distance": lambda x, y: ss.sameness(x, y).distance,
}


def finer(name: str, times: int) -> ss.PrivateSketch:
    """Return a release in steps 2^-times as large."""
    message = reader.read("PrivateSketch", bytes.fromhex(RELEASES[name]["bytes"]))
    factor = 2**times
    part = {name: message[name] for name in ("guarantee", "multiplier")} | {"count": 1}
    part |= {"multiplier": abs(message["multiplier"]), "noise": message["noise"] | {"place": ""}}
    message |= {
        "parts": message["parts"] or ([] if "history" in message else [part]),
        "values": reader.values_message([factor * cell for cell in reader.cells_of(message)]),
        "noise": message["noise"]
        | {"k2": factor**2 * message["noise"]["k2"], "k4": factor**4 * message["noise"]["k4"]},
        "multiplier": message["multiplier"] * Fraction(1, factor),
    }
    if "counts" in message:
        message["counts"] = reader.values_message([factor * one for one in reader.counts_of(message)])
    return ss.PrivateSketch.from_bytes(reader.write("PrivateSketch", message))


def numbers(estimate: ss.estimation.Estimate) -> list[float]:
    ends = (*estimate.interval(0.95), *estimate.interval(0.6, "chebyshev"))
    return [estimate.value, estimate.projection_variance, estimate.noise_variance, *ends]


def defined(estimator: Callable[..., ss.estimation.Estimate], *releases: ss.PrivateSketch) -> list[float] | None:
    try:
        return numbers(estimator(*releases))
    except ss.StreamsketchError:
        return None


def check(estimator: Callable[..., ss.estimation.Estimate], plain: list[Any], others: list[list[Any]]) -> bool:
    expected = defined(estimator, *plain)
    for other in others:
        found = defined(estimator, *other)
        assert (found is None) == (expected is None)
        assert found is None or found == pytest.approx(expected, rel=1e-9)
    return expected is not None


def test_of_one_release() -> None:
    for what, estimator in OF_ONE.items():
        seen = [
            check(estimator, [finer(name, 0)], [[finer(name, times)] for times in (1, 3)]) for name in RANGES + OTHERS
        ]
        assert sum(seen) >= 2, what


def test_of_two_releases() -> None:
    for what, estimator in OF_TWO.items():
        seen = []
        for x, y in PAIRS:
            others = [[finer(x, i), finer(y, j)] for i, j in ((1, 0), (0, 1), (1, 2))]
            seen.append(check(estimator, [finer(x, 0), finer(y, 0)], others))
        assert sum(seen) >= 1, what


@pytest.mark.parametrize("estimator", ["mean", "median"])
def test_of_frequencies(estimator: Any) -> None:
    for name in (RANGES[0], "a multiple", "sjlt-graph, x"):
        plain, *others = (
            ss.frequency(finer(name, times), [1, 3], estimator=estimator).to_pydict() for times in (0, 1, 3)
        )
        for other in others:
            for column in ("estimate", "error", "low", "high"):
                assert other[column] == pytest.approx(plain[column], rel=1e-9)
