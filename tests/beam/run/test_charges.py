"""A run of a pipeline is charged once, before anything is drawn."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, SelectKeys
from streamsketch.beam.run.charges import Charge, ChargeOnce
from streamsketch.beam.run.runs import RunSecret
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NEAR = ss.L1(1, unit="flight")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "ledger.sqlite"
    ss.Ledger(found).dataset("flights", unit="flight", epsilon=2.5, delta=1e-6)
    return found


def job(*releases: beam.PTransform) -> Any:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        sketches = pipeline | beam.Create([("AA", 17, 1), ("UA", 18, 2)]) | sketch_rows(PROJECTION)
        outputs = [sketches | f"Release {number}" >> release for number, release in enumerate(releases)]
        return outputs | beam.Flatten()

    return build


def release(epsilon: float, path: Path | None, **how: Any) -> ReleasePerKey:
    place = {} if path is None else {"ledger": path, "dataset": "flights"}
    return ReleasePerKey(AdditiveNoise(epsilon=epsilon, neighbours=NEAR), public_keys=["AA", "UA"], **place, **how)


def charges(path: Path) -> list[float]:
    return [entry.body["epsilon"] for entry in ss.Ledger(path).entries() if entry.body["kind"] == "charge"]


def test_each_run_and_each_release_of_it_is_charged_once_for_all_its_keys(path: Path, tmp_path: Path) -> None:
    found, _ = run(job(release(0.75, path), release(0.25, path)), tmp_path)
    assert len(found) == 4
    assert sorted(charges(path)) == [0.25, 0.75]
    run(job(release(0.75, path)), tmp_path)
    assert sorted(charges(path)) == [0.25, 0.75, 0.75]
    assert ss.Ledger(path).left("flights").epsilon == pytest.approx(0.75)


def test_what_does_not_fit_is_not_drawn(path: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="flights"):
        run(job(release(2.75, path)), tmp_path)
    assert charges(path) == []
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("elements")] == []


def test_signs_and_selected_keys_are_charged_with_all_that_they_spend(path: Path, tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        events = pipeline | beam.Create([(f"unit {number}", "AA", number, 1) for number in range(50)])
        bounded = events | bound_rows(PROJECTION, unit="unit", unit_name="flight", max_keys=1, l1=1)
        keys = bounded | SelectKeys(epsilon=0.5, delta=1e-7)
        release = ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=NEAR), selected_keys=keys, ledger=path, dataset="flights"
        )
        return bounded | sketch_rows(PROJECTION) | release

    run(build, tmp_path)
    assert charges(path) == [1.5]
    mechanism = ss.signs.DPSignLogistic(epsilon=0.5, neighbours=NEAR)
    signs = ReleasePerKey(mechanism, public_keys=["AA"], ledger=path, dataset="flights")
    run(job(signs), tmp_path)
    assert charges(path) == [1.5, 0.5]


def test_a_retry_costs_nothing(path: Path) -> None:
    guarantee = AdditiveNoise(epsilon=1.0, neighbours=NEAR).guarantee(PROJECTION)
    steps = [ChargeOnce(Charge(path, "flights"), guarantee, PROJECTION, label) for label in ("Release", "Another")]
    for secret in (b"1", b"2"):
        drawn = RunSecret(secret * 32, b"", None)
        for _ in range(3):
            assert list(steps[0].process(drawn)) == [(b"", drawn)]
    assert charges(path) == [1.0, 1.0]
    with pytest.raises(ss.errors.LedgerError):
        list(steps[1].process(drawn))


def test_ledgers_are_named_with_their_data_set(path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="go together"):
        ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=NEAR), public_keys=["AA"], ledger=path)
    with pytest.raises(TypeError, match="pass its file or URL"):
        ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=NEAR), public_keys=["AA"], ledger=ss.Ledger(path), dataset="flights"
        )  # type: ignore[arg-type]
