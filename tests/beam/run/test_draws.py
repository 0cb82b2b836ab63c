"""What a retried step draws: the same of the same, and something independent of anything else.

Published bytes differ wherever the data do, so they show nothing. What is compared here is the noise.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

import streamsketch as ss
from streamsketch.beam.release.contribute import RoundContribution, RoundDraw
from streamsketch.beam.release.draws import KeyedDraw
from streamsketch.beam.release.select import KeepSelected
from streamsketch.beam.run.bits import repeatable_bits
from streamsketch.beam.run.runs import RunSecret
from streamsketch.parties import Key, Round
from streamsketch.privacy import Budget
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import AdditiveNoise
from streamsketch.signs import DPSignLogistic
from streamsketch.sketching.exact import ExactSums

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NEAR = ss.L1(1, unit="visit")
HOW: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbours": NEAR}
RUN = RunSecret(b"1" * 32, b"", None)
WINDOW = beam.transforms.window.GlobalWindow()
LATER = beam.transforms.window.IntervalWindow(0, 3600)


def release(mechanism: str = "laplace", **how: Any) -> KeyedDraw:
    publisher = AdditiveNoise(**HOW | {"mechanism": mechanism} | how)
    guarantee = publisher.guarantee(PROJECTION).on("asserted")
    return KeyedDraw(publisher, PROJECTION, guarantee, ["source"])


def signs() -> KeyedDraw:
    publisher = DPSignLogistic(epsilon=1.0, neighbours=NEAR)
    guarantee = publisher.guarantee(PROJECTION).on("asserted")
    return KeyedDraw(publisher, PROJECTION, guarantee, ["source"])


def contribution() -> KeyedDraw:
    keys = [Key.generate(), Key.generate()]
    agreed = Round(PROJECTION, epsilon=1.0, neighbours=NEAR, parties=[key.public for key in keys])
    return RoundDraw(RoundContribution(agreed, lambda: keys[0]), PROJECTION, agreed.guarantee, ["source"])


DRAWS: dict[str, Callable[[], KeyedDraw]] = {
    "laplace": release,
    "gaussian": lambda: release("gaussian"),
    "signs": signs,
    "a contribution": contribution,
}


def sketch_of(*indices: int) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update(list(indices), 1)
    return sketch


def secret_bytes(draw: Any, total: Any, key: str = "AA", window: Any = WINDOW, secret: RunSecret = RUN) -> bytes:
    """Return the first bits that a step draws from."""
    found = []

    def bits_of(*parts: bytes) -> KeyedBits:
        found.append(repeatable_bits(secret.derive("noise", "label"), key, window, *parts).read(32))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        list(draw.draw(total, bits_of, key, window, secret))
    (first,) = found
    return first


@pytest.mark.parametrize("name", DRAWS)
def test_one_event_more_in_the_data_means_independent_bits(name: str) -> None:
    draw = DRAWS[name]()
    total = sketch_of(1, 2, 3)
    first = secret_bytes(draw, total)
    assert secret_bytes(draw, sketch_of(3, 2, 1)) == first, "a retry sums in another order"
    others = {
        "data": secret_bytes(draw, sketch_of(1, 2, 3, 4)),
        "no data": secret_bytes(draw, PROJECTION.sketch()),
        "key": secret_bytes(draw, total, "UA"),
        "window": secret_bytes(draw, total, window=LATER),
        "run": secret_bytes(draw, total, secret=RunSecret(b"2" * 32, b"", None)),
    }
    assert len({first, *others.values()}) == 6, others


def test_another_count_of_units_means_independent_bits_where_it_is_published() -> None:
    """Two totals may have equal cells and other counts, as of units whose cells cancel: one noise would show both."""
    neighbours = ss.L1(9, unit="visit")
    exact = sketch_of(1, 2)
    counted = release(neighbours=neighbours, counting=ss.privacy.Counting(1, slack=1))
    found = {
        secret_bytes(draw, ss.Sketch.from_state(PROJECTION, ExactSums.of(exact.state(), np.array(counts)), exact.mass))
        for draw in (counted, release(neighbours=neighbours))
        for counts in ([2, 2], [3, 2], [2, 4])
    }
    assert len(found) == 4


def test_another_guarantee_or_projection_means_independent_bits() -> None:
    total, draw = sketch_of(1), release()
    guarantee = draw._guarantee
    found = {secret_bytes(draw, total)}
    for other in (
        guarantee.on("enforced"),
        guarantee.on("asserted", ["a condition"]),
        dataclasses.replace(guarantee, epsilon=2.0),
        dataclasses.replace(guarantee, neighbours=ss.L1(1, unit="visit", max_keys=2)),
    ):
        changed = release()
        changed._guarantee = other
        found.add(secret_bytes(changed, total))
    found.add(secret_bytes(draw, PROJECTION.replace(seed=12).sketch()))
    assert len(found) == 6


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_noise_itself_is_another_where_one_event_differs(mechanism: str) -> None:
    def noise_of(total: ss.Sketch) -> Any:
        draw = release(mechanism)
        bits_of = functools.partial(repeatable_bits, RUN.derive("noise", "label"), "AA", WINDOW)
        (published,) = draw.draw(total, bits_of, "AA", WINDOW, RUN)
        return published.values - total.state()

    one, other = sketch_of(1, 2), sketch_of(1, 2, 3)
    assert np.array_equal(noise_of(one), noise_of(one.copy()))
    assert not np.array_equal(noise_of(one), noise_of(other))


def test_counts_of_units_have_noise_of_their_own() -> None:
    keep = KeepSelected(key_threshold(Budget(1.0, 1e-6), 1))
    assert len({secret_bytes(keep, count) for count in (0, 1, 2, 1 << 40)}) == 4


def test_a_template_restored_by_a_later_version_draws_the_same_noise() -> None:
    """Pinned: a field that is added to a guarantee must not change the noise of a run that goes on."""
    assert release()._guarantee.to_json() == (
        '{"basis":"asserted","bound":"1","conditions":[],"delta":0.0,"epsilon":1.0,"max_keys":1,'
        '"mechanism":"discrete Laplace, scale 4","relation":"l1","unit":"visit"}'
    )
    pinned = "d0a98ea5d6cfb6382d14854b7027205e0af5cb942bf6f3d38d62175e232e4cc9"
    assert secret_bytes(release(), sketch_of(1, 2, 3)).hex() == pinned
