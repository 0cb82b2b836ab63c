"""Explanations name the better noise where the rule of ``mechanism="auto"`` is not the best, and nothing elsewhere."""

import math
import re

import pytest

import streamsketch as ss
from streamsketch.privacy import Mechanism


def projection_of(sparsity: int) -> ss.SJLT:
    return ss.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=sparsity, seed=1)


def release_of(sparsity: int, epsilon: float, delta: float, mechanism: str = "auto") -> ss.PrivateSketch:
    sketch = projection_of(sparsity).sketch()
    return sketch.release(epsilon=epsilon, delta=delta, neighbours=ss.L1(1), mechanism=mechanism)


def errors_of(sparsity: int, epsilon: float, delta: float) -> dict[str, float]:
    """Return the noise's part of the standard error between close streams, by mechanism."""
    found = ss.accounting.mechanisms(projection_of(sparsity), epsilon=epsilon, delta=delta, neighbours=ss.L1(1))
    return {one.mechanism: math.sqrt(one.variance) for one in found}


# sparsity, ε, δ asked for, and δ at which a release that states none is compared
SETTINGS = [
    *((s, epsilon, delta) for s in (1, 2, 4, 8, 16, 32) for epsilon in (0.5, 3.0) for delta in (0.0, 1e-8, 1e-6, 0.2)),
    (16, 1.0, 1e-7),
]


@pytest.mark.parametrize(("sparsity", "epsilon", "delta"), SETTINGS)
@pytest.mark.parametrize("mechanism", ["auto", "least-variance"])
def test_the_better_noise_is_named_with_its_factor(sparsity: int, epsilon: float, delta: float, mechanism: str) -> None:
    told = release_of(sparsity, epsilon, delta, mechanism).explain()
    used = "laplace" if "Laplace" in str(told.guarantee) else "gaussian"
    compared = told.guarantee.delta or min(1e-6, 10.0 ** (math.ceil(-sparsity / math.log(10)) - 1))
    errors = errors_of(sparsity, epsilon, compared)
    best = min(errors, key=lambda name: errors[name])
    better = told.better_noise
    shown = " ".join(str(told).split())
    if errors[best] > 0.98 * errors[used]:
        assert better is None or errors[best] < errors[used]
        assert better is not None or "times smaller" not in shown
        return
    assert better is not None
    assert (better.mechanism, better.power) == (best, sparsity)
    assert better.delta == pytest.approx(compared)
    assert better.factor == pytest.approx(errors[used] / errors[best])
    assert f"mechanism={best!r}" in shown
    assert f"{better.factor:.2g} times smaller" in shown
    assert told.to_dict()["noise"]["better"]["mechanism"] == best


def test_both_kinds_are_named_somewhere() -> None:
    better = [release_of(s, epsilon, delta).explain().better_noise for s, epsilon, delta in SETTINGS]
    assert {one.mechanism for one in better if one is not None} == {"laplace", "gaussian"}
    assert None in better


def test_nothing_is_said_of_what_is_not_known() -> None:
    one, other = release_of(8, 1.0, 0.0), release_of(8, 1.0, 0.0)
    assert one.explain().better_noise is not None
    assert one.combine(other, populations="disjoint").explain().better_noise is None
    stated = ss.Guarantee(1.0, 0.0, ss.L1(1), Mechanism.stated("by hand"))
    text = ss.PrivateSketch(one.projection, one.values, one.noise, stated, release_ids=one.release_ids)
    assert text.explain().better_noise is None
    assert text.explain().to_dict()["noise"]["better"] is None


def test_the_documentation_of_release_has_the_factors() -> None:
    said = " ".join((ss.Sketch.release.__doc__ or "").split())
    start, first, second = re.search(
        r"from δ = (\S+) on: by a factor of (\S+) at δ = 1e-6 and of (\S+) at 3e-4", said
    ).groups()  # type: ignore[union-attr]
    for delta, factor in ((1e-6, first), (3e-4, second)):
        errors = errors_of(8, 1.0, delta)
        assert f"{errors['laplace'] / errors['gaussian']:.2g}" == factor
    assert errors_of(8, 1.0, 0.9 * float(start))["gaussian"] > errors_of(8, 1.0, 0.0)["laplace"]
    assert errors_of(8, 1.0, 1.1 * float(start))["gaussian"] < errors_of(8, 1.0, 0.0)["laplace"]


@pytest.mark.parametrize("delta", [1e-6, 1e-8])
def test_a_plan_takes_the_noise_with_the_least_error(delta: float) -> None:
    streams, limits = ss.planning.StreamFacts(dim=1 << 40, squared_distances=4000), ss.planning.Goal(max_cells=1024)
    found = ss.plan(streams, epsilon=0.5, delta=delta, neighbours=ss.L1(1), goal=limits)
    same = [
        one
        for one in found.options
        if one.projection.replace(resolution=1) == found.projection(0).replace(resolution=1)
    ]
    assert len(same) == 2
    assert found.chosen.error == min(one.error for one in same)
    assert found.chosen.error <= 1.05 * min(one.error for one in found.options)
