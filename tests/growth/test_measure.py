"""What streams are compared by is a line of one table: a toy measure appears wherever streams are compared."""

from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import comparison_schema
from streamsketch.cli._pairs import SketchPairs
from streamsketch.estimation import Estimates
from streamsketch.estimation.distances import distances_between
from streamsketch.estimation.measures import MEASURES, By, Measure
from streamsketch.report import page_of


def halved(rows: Any, columns: Any, same: bool) -> Estimates:  # noqa: FBT001 - as `Measure.between` is called
    found = distances_between(rows, columns, same=same)
    return Estimates(found.value / 2, found.projection_variance / 4, found.noise_variance / 4, lowest=0.0)


@pytest.fixture
def releases() -> dict[str, ss.PrivateSketch]:
    projection = ss.CountSketch(sketch_dim=64, seed=1)
    found = {}
    for name, count in (("a", 500), ("b", 900), ("c", 100)):
        sketch = projection.sketch()
        sketch.update([str(i) for i in range(count)], 1)
        found[name] = sketch.release(epsilon=1.0, neighbours=ss.L1(1))
    return found


def test_measures_have_the_names_that_are_typed() -> None:
    assert get_args(By) == tuple(MEASURES)


def test_a_further_measure_is_a_line_and_appears_everywhere(
    releases: dict[str, ss.PrivateSketch], monkeypatch: pytest.MonkeyPatch
) -> None:
    half: Any = "half"
    with pytest.raises(ss.InvalidInputError, match=r"by must be .* or .*, got 'half'"):
        ss.pairwise(releases.values(), by=half)
    monkeypatch.setitem(MEASURES, half, Measure("half distance", halved))
    found = ss.pairwise(releases.values(), by=half)
    assert np.allclose(found.value, ss.pairwise(releases.values()).value / 2)
    assert comparison_schema(pa.string(), by=half).names[2] == "half_distance"
    assert "half_distance" in SketchPairs(releases, half).fields((0, 1), 0.95)
    assert "Half distance" in page_of(releases, title="Toys", by=half)
