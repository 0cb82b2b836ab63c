"""Releases without noise, which show exact sums."""

import numpy as np
import pytest

from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.noise import Noise


@pytest.fixture
def silent_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteGaussian, "sample", lambda _, size, __: np.zeros(size, dtype=np.int64))
    monkeypatch.setattr(DiscreteGaussian, "sample_each", Noise.sample_each)  # by `sample`
    monkeypatch.setattr(DiscreteGaussian, "sample_share", lambda _, __, size, ___: np.zeros(size, dtype=np.int64))
