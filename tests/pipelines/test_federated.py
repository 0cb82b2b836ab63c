"""What the examples of federated learning share, without a framework."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import streamsketch as ss
from pipelines.data.make_sites import SITES, sites
from pipelines.federated import hospitals, updates
from streamsketch.parties import Key

ROWS = sites(20_000)


def rows_of(name: str, most: int = 20_000) -> object:
    return ROWS.filter(pc.equal(ROWS["site"], name)).slice(0, most)


def released(name: str, most: int = 20_000) -> ss.PrivateSketch:
    sums = ss.bound(rows_of(name, most), hospitals.agreement())
    return sums.release(epsilon=hospitals.EPSILON, delta=hospitals.DELTA, neighbours=hospitals.NEIGHBOURS)


def test_hospitals_that_are_alike_are_admitted() -> None:
    """And others are refused, like one with too few patients to know; each by 3 standard errors or more."""
    found = hospitals.admission({name: released(name) for name in SITES} | {"tiny": released("south", 200)})
    assert found.central == "north"
    assert set(found.admitted) == {"north", "south", "harbour"}
    assert found.verdicts["east"].columns[:1] == ["glucose"]
    assert {"age", "diagnosis"} <= set(found.verdicts["west"].columns)
    assert "REFUSED" in str(found)


def test_a_hospital_sends_the_same_release_again(tmp_path: Path) -> None:
    key, rows = Key.generate("north"), rows_of("north", 500)
    sent = hospitals.publish(rows, key, tmp_path)
    assert hospitals.publish(rows, key, tmp_path) == sent
    assert (
        hospitals.received(sent, "north", key.public, tmp_path / "server").guarantee.neighbours == hospitals.NEIGHBOURS
    )


def test_what_another_signed_or_changed_is_refused(tmp_path: Path) -> None:
    key = Key.generate("north")
    sent = hospitals.publish(rows_of("north", 500), key, tmp_path)
    with pytest.raises(ss.StreamsketchError, match="signed by"):
        hospitals.received(sent, "north", Key.generate("north").public, tmp_path / "server")
    changed = sent._replace(release=sent.release[:-1] + bytes([sent.release[-1] ^ 1]))
    with pytest.raises(ss.StreamsketchError):
        hospitals.received(changed, "north", key.public, tmp_path / "server")


def test_a_release_of_another_agreement_is_refused(tmp_path: Path) -> None:
    key, other = Key.generate("north"), ss.CountSketch(sketch_dim=64, seed=1).sketch()
    path = tmp_path / "features.sketch"
    other.release(epsilon=1.0, neighbours=ss.L1(1)).save(path)
    ss.parties.sign(path, key)
    with pytest.raises(ss.errors.WireFormatError):
        hospitals.received(hospitals.publish(rows_of("north", 5), key, tmp_path), "north", key.public, tmp_path / "s")


def test_the_model_learns() -> None:
    inputs, labels = hospitals.examples(rows_of("north"))
    zero = np.zeros(hospitals.PARAMETERS)
    weights = hospitals.trained(zero, inputs, labels, steps=100)
    assert hospitals.log_loss(weights, inputs, labels) < 0.15 < hospitals.log_loss(zero, inputs, labels)


def test_private_updates_move_the_model_as_plain_ones_do() -> None:
    agreed = updates.updates_of(epsilon=256.0)  # hardly any noise
    assert updates.accounted(agreed, 3).endswith("ε = 768, δ = 0")
    agreed = dataclasses.replace(agreed, clip=4.0)
    inputs, labels = hospitals.examples(rows_of("north", 400))
    zero = np.zeros(hospitals.PARAMETERS)
    steps = [hospitals.trained(zero, inputs[place::20], labels[place::20]) for place in range(20)]
    private = np.mean([agreed.estimate(agreed.report(step))[0] for step in steps for _ in range(10)], axis=0)
    expected = 16 * agreed.mechanism.expected_squared_error(200)
    assert ((private - np.mean(steps, axis=0)) ** 2).sum() < 5 * expected < 1
