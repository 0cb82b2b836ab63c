"""A plan of bounds: shares that are true, noise that is the release's, a picture that shows bias and noise."""

import json
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.report import picture_of

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=256, sparsity=4, seed=7, resolution="1/2")
TOTALS = np.random.default_rng(2).pareto(1.5, 5000) * 10
FAR, UNIT = 4e7, PROJECTION.cell_unit
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "squared_distance": FAR}
BOUNDS = [2, 5, 10, 20, 50, 100, 200, 500, 1000, 100_000_000]


def test_shares_and_noise_are_those_of_the_bound() -> None:
    found = ss.bounding.plan_bounds(TOTALS, BOUNDS, PROJECTION, unit="customer", max_keys=2, **PRIVACY)
    for option in found.options:
        release = ss.L1(option.bound, "customer", max_keys=2)
        table = PROJECTION.table(["a"])
        noise = table.release(
            epsilon=1.0, delta=1e-6, neighbours=release, mechanism=option.mechanism, keys_are_public=True
        )["a"].noise
        assert option.cell_noise == pytest.approx(np.sqrt(noise.k2) * PROJECTION.cell_unit)
        assert option.units_over == pytest.approx((float(option.bound) < TOTALS).mean())
        assert 1 - option.lost == pytest.approx(np.minimum(TOTALS, float(option.bound)).sum() / TOTALS.sum())
        left = FAR * (1 - option.lost) ** 2
        assert option.bias == pytest.approx(FAR - left)
        variance = 8 * noise.k2 * left * UNIT**2 + 2 * 256 * (noise.k4 + 4 * noise.k2**2) * UNIT**4
        assert option.noise**2 == pytest.approx(variance)
        assert option.error == pytest.approx(np.hypot(option.bias, option.noise))
    assert found.options[-1].bias == 0
    assert BOUNDS[0] < found.least.bound < BOUNDS[-1]


def test_it_is_told_as_a_table_as_json_and_as_a_picture() -> None:
    found = ss.bounding.plan_bounds(TOTALS, BOUNDS, PROJECTION, unit="<customer>", **PRIVACY)
    lines = str(found).splitlines()
    assert next(line for line in lines if line.startswith(">")).split()[1] == str(found.least.bound)
    assert "Secret: computed from the totals of 5,000" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["options"][0]["bound"] == "2"
    picture = ET.fromstring(picture_of(found))  # noqa: S314 - our own
    assert picture.tag.endswith("svg")
    assert len(picture.findall(".//{*}circle")) == 3 * len(BOUNDS)
    assert "<customer>" in str(picture.findtext("{*}title"))


def test_one_bound_makes_a_picture_too() -> None:
    ET.fromstring(picture_of(ss.bounding.plan_bounds([1.0], [2], PROJECTION, **PRIVACY)))  # noqa: S314 - our own


@pytest.mark.parametrize(
    ("totals", "bounds", "message"),
    [
        ([], [1], "totals must be"),
        ([-1.0], [1], "totals must be"),
        ([0.0], [1], "totals must be"),
        ([1.0], [], "bounds is empty"),
        ([1.0], "125", "bounds must be several numbers"),
        ([1.0], ["1/8"], "below one grid step"),
    ],
)
def test_mistakes_are_refused(totals: list[float], bounds: list[float] | str, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.bounding.plan_bounds(totals, bounds, PROJECTION, **PRIVACY)
    with pytest.raises(ss.InvalidInputError, match="squared_distance must be"):
        ss.bounding.plan_bounds([1.0], [1], PROJECTION, epsilon=1.0, squared_distance=0)
