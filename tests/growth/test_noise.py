"""A third noise, in this file alone: everything that the library does with noise, it does with this one."""

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.accounting.book import spending_of
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError, NoiseMismatchWarning
from streamsketch.privacy import Budget, Mechanism
from streamsketch.privacy.noise import NOISES, Loss, Noise, NoiseMoments, Sensitivity, register
from streamsketch.privacy.samplers import BitSource
from streamsketch.privacy.zcdp import pure_rho
from streamsketch.wire.releases import known_guarantee
from tests.tampering import tampered

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
SALE = ss.L1(1, unit="sale")
BUDGET = {"epsilon": 1e-6, "delta": 0.25}


@dataclasses.dataclass(frozen=True)
class DiscreteUniform(Noise):
    """Uniform on the integers of [-w, w]: D1 / (2w + 1) of its mass is apart after a shift by D1, and δ that much."""

    width: Fraction

    name = "uniform"
    label = "discrete uniform, width"
    theorem = "the mass outside of a shifted interval, over all cells"
    needs_delta = True
    gains_by_finer_grid = True  # its width is rounded up to whole steps

    def __post_init__(self) -> None:
        if not (self.width.denominator == 1 and 0 < self.width < 1 << 30):
            raise InvalidInputError(f"a uniform noise has a whole width from 1 to 2^30 - 1, got {self.width}")

    @classmethod
    def calibrated(cls, sensitivity: Sensitivity, budget: Budget) -> "DiscreteUniform":
        cls.check_budget(budget)
        return cls(Fraction(math.ceil((sensitivity.l1 / Fraction(budget.delta) - 1) / 2)))

    @property
    def cumulants(self) -> NoiseMoments:
        count = 2 * float(self.width) + 1
        return NoiseMoments((count**2 - 1) / 12, -(count**4 - 1) / 120)

    def sample(self, size: int, bits: BitSource) -> Ints:
        count, drawn = 2 * int(self.width) + 1, np.empty(size, dtype=np.int64)
        for place in range(size):
            value = count
            while value >= count:  # by rejection, so exactly
                value = int.from_bytes(bits.read(4), "little") % (1 << count.bit_length())
            drawn[place] = value - int(self.width)
        return drawn

    def loss(self, sensitivity: Sensitivity, budget: Budget) -> Loss:
        delta = sensitivity.l1 / (2 * self.width + 1)
        said = f"width {self.width} at ℓ1 sensitivity {sensitivity.l1} gives δ = {float(delta):.4g} at any ε"
        return Loss(budget.epsilon if delta <= budget.delta else math.inf, said)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(DiscreteUniform)
    yield
    del NOISES["uniform"]


def released(**how: object) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update([1, 2], [3, 1])
    arguments = BUDGET | {"neighbours": SALE, "mechanism": "uniform"} | how
    return sketch.release(**arguments)  # type: ignore[arg-type]


def test_a_ledger_charges_the_rho_that_it_states(monkeypatch: pytest.MonkeyPatch) -> None:
    guarantee = released().guarantee
    assert spending_of(guarantee, PROJECTION).rho == pure_rho(guarantee.epsilon), "it states none"
    monkeypatch.setattr(DiscreteUniform, "rho", lambda *_: 0.25)
    assert (spending_of(guarantee, PROJECTION).rho, spending_of(guarantee, PROJECTION).rho_delta) == (0.25, 0.0)


def test_it_is_released_and_drawn_exactly() -> None:
    release = released()
    assert str(release.guarantee) == (
        "ε = 1e-06, δ = 0.25 for one sale of at most 1 (L1), asserted, by discrete uniform, width 8"
    )
    exact = PROJECTION.sketch()
    exact.update([1, 2], [3, 1])
    assert np.abs(release.values - exact.state()).max() <= 8
    assert release.noise == DiscreteUniform(Fraction(8)).cumulants
    with pytest.raises(InvalidInputError, match="Uniform noise never gives delta = 0"):
        released(delta=0.0)


def test_it_is_explained_and_checked() -> None:
    told = released().explain()
    assert (told.check.verdict, told.check.reason) == (
        "enough",
        "width 8 at ℓ1 sensitivity 4 gives δ = 0.2353 at any ε, within the stated ε = 1e-06",
    )
    assert told.theorems == [DiscreteUniform.theorem]
    assert "discrete uniform, width 8" in " ".join(str(told).split())
    assert tampered(released(), delta=0.2).explain().check.verdict == "too little"
    thin = tampered(released(), noise=NoiseMoments(1.0))
    assert thin.explain().check.verdict == "too little"
    with pytest.warns(NoiseMismatchWarning, match="another noise than the discrete uniform, width 8"):
        ss.squared_norm(thin)


def test_it_is_exchanged() -> None:
    release = released()
    again = ss.PrivateSketch.from_bytes(release.to_bytes())
    assert again == release
    assert again.guarantee.mechanism == Mechanism.of_noise(DiscreteUniform(Fraction(8)))
    data = release.to_bytes()
    del NOISES["uniform"]
    known_guarantee.cache_clear()  # as in a process that never knew this noise
    with pytest.raises(ss.errors.WireFormatError, match="must be one of laplace, gaussian, got 'uniform'"):
        ss.PrivateSketch.from_bytes(data)
    register(DiscreteUniform)


def test_it_is_composed_and_merged() -> None:
    one, other = released(), released(mechanism="laplace", epsilon=1.0)
    joint = ss.explain(one, released(), other)
    assert (joint.guarantee.delta, joint.verdicts["enough"]) == (0.5, 3)
    merged = one.combine(other, populations="overlapping")
    assert str(merged.guarantee.mechanism) == "discrete uniform, width 8; discrete Laplace, scale 4"
    assert merged.explain().check.verdict == "enough"


def test_it_is_inside_from_the_start_and_before_the_map() -> None:
    counter = ss.release.PanPrivateSketch(PROJECTION, **BUDGET, neighbours=SALE, mechanism="uniform")
    assert counter.release().explain().check.verdict == "enough"
    fjlt = ss.projections.FJLT(dim=20, sketch_dim=4, seed=1)
    for place in ("input", "hadamard"):
        release = ss.release.release_vector(
            fjlt,
            [5] * 20,
            noise_place=place,
            **BUDGET,
            neighbours=SALE,
            mechanism="uniform",  # type: ignore[arg-type]
        )
        assert release.explain().check.verdict == "enough"
        assert ss.PrivateSketch.from_bytes(release.to_bytes()) == release


def test_it_is_offered_and_planned_with() -> None:
    counts = ss.CountSketch(dim=1 << 40, sketch_dim=64, seed=7)
    options = ss.accounting.mechanisms(counts, **BUDGET, neighbours=SALE)
    assert [option.mechanism for option in options] == ["laplace", "gaussian", "uniform"]
    assert min(options, key=lambda option: option.variance).mechanism == "uniform"
    least = counts.sketch().release(**BUDGET, neighbours=SALE, mechanism="least-variance")
    assert str(least.guarantee.mechanism) == "discrete uniform, width 2"
    automatic = counts.sketch().release(**BUDGET, neighbours=SALE)
    assert automatic.guarantee.delta == 0, "the rule of thumb knows nothing of it"
    streams = ss.planning.StreamFacts(dim=1 << 40, squared_distances=4000)
    found = ss.plan(streams, **BUDGET, neighbours=SALE)
    assert found.chosen.mechanism == "uniform"
    assert "Uniform noise is better" in " ".join(str(found).split())
    assert found.guarantee.delta == 0.25
    assert "rounding the Uniform noise to its grid adds less" in " ".join(str(found).split())
    release = found.projection(seed=1).sketch().release(**found.release_arguments)
    assert release.guarantee == found.guarantee.on("asserted")
    assert release.explain().check.verdict == "enough"
