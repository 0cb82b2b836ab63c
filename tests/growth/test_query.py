"""A query of one's own is one function: from releases to an `Estimate`, by what estimation offers."""

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy.samplers import KeyedBits

COUNTS = np.array([400, 150, 80, 20, 10, 3, 2, 1])


def frequency(release: ss.PrivateSketch, index: int) -> ss.estimation.Estimate:
    """Return about how often an index occurs: the inner product with the exact sketch of it alone."""
    alone = release.projection.sketch()
    alone.update(index)
    return ss.inner_product(release, alone)


def released(seed: int, monkeypatch: pytest.MonkeyPatch) -> ss.PrivateSketch:
    """Return a release with noise that is the same at each run of the tests."""
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: KeyedBits(bytes(32), str(seed).encode()))
    sketch = ss.SJLT(dim=1000, sketch_dim=256, sparsity=4, seed=seed).sketch()
    sketch.update(np.arange(COUNTS.size), COUNTS)
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1))


def test_a_toy_query_is_unbiased_and_its_intervals_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """By 400 projections and noises, fixed. A right query fails with other seeds once in 10,000 times at most."""
    found = [frequency(released(seed, monkeypatch), 1) for seed in range(400)]
    values = np.array([each.value for each in found])
    assert abs(values.mean() - COUNTS[1]) < 4 * values.std() / 20
    covered = np.mean([low <= COUNTS[1] <= high for low, high in (each.interval(0.95) for each in found)])
    assert covered >= 0.905
    assert np.mean([each.standard_error for each in found]) < 1.5 * values.std()


def test_a_toy_query_refuses_what_estimation_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ss.InvalidInputError, match="1000"):
        frequency(released(1, monkeypatch), 1000)
