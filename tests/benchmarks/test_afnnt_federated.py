"""The federated figure: it learns, privacy costs accuracy, curves are kept, and its verdicts follow from the curves."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import Data, Images
from benchmarks.figures.afnnt import federated, training
from benchmarks.figures.afnnt.curves import Curve, Spread, of_model, spread_of
from benchmarks.figures.afnnt.private_steps import without_noise
from benchmarks.figures.afnnt.training import FREE, GAUSSIAN, HAAR, HALF, OPEN, OPTIMAL, PROJECTED, SIDES, Job, Softmax
from benchmarks.rows import FULL, QUICK, TINY


class Large(Data):
    """Scikit-learn's digits at MNIST's size, as MNIST: each pixel three by three, and a margin of two."""

    def mnist(self) -> Images | None:
        images = Data().digits()
        large = np.kron(images.vectors.reshape(-1, 8, 8), np.ones((1, 3, 3), dtype=np.int64)) * 255 // 16
        return Images("MNIST", np.pad(large, ((0, 0), (2, 2), (2, 2))).reshape(len(large), -1), images.labels, 255)

    def mnist_test(self) -> Images | None:
        images = self.mnist()
        assert images is not None
        return dataclasses.replace(images, vectors=images.vectors[-200:], labels=images.labels[-200:])


def loss(weights: np.ndarray, image: np.ndarray, label: int) -> float:
    matrix = weights.reshape(10, -1)
    scores = matrix[:, :-1] @ image + matrix[:, -1]
    return float(np.log(np.exp(scores).sum()) - scores[label])


def test_gradients_of_softmax_regression_are_those_of_the_loss() -> None:
    rng, model = np.random.default_rng(1), Softmax(3)
    image, weights = rng.normal(size=3), rng.normal(size=model.dim)
    found = model.gradients(weights, image[np.newaxis].astype(np.float32), np.array([7])).total()
    for place in range(model.dim):
        moved = np.zeros_like(weights)
        moved[place] = 1e-6
        slope = (loss(weights + moved, image, 7) - loss(weights - moved, image, 7)) / 2e-6
        assert abs(found[place] - slope) < 1e-5


def end(mechanism: str, epsilon: float, epochs: int = 3) -> float:
    return training.outcome(Job("digits", mechanism, epsilon, 1, epochs, 1 << 30), Data(), None).accuracies[-1]


def test_softmax_regression_learns_and_privacy_costs_accuracy() -> None:
    free = end(FREE, 0.0)
    assert free > 0.75
    for mechanism in (OPTIMAL, PROJECTED, HAAR):
        assert 0.4 < end(mechanism, 16.0) < free + 0.05
    assert end(GAUSSIAN, 4.0) < end(OPTIMAL, 4.0)
    assert end(GAUSSIAN, 16.0) < end(HALF, 16.0) + 0.05


@pytest.mark.long
@pytest.mark.parametrize("model", ["table", "code"])
def test_networks_learn(model: str) -> None:
    assert training.outcome(Job(model, OPEN, 0.0, 1, 15, 1500), Large(), None).accuracies[-1] > 0.5


def test_a_seed_makes_a_curve() -> None:
    jobs = [Job("digits", mechanism, 10.0, seed, 1, 240) for mechanism in (OPTIMAL, PROJECTED) for seed in (1, 1, 2)]
    found = [one.accuracies for one in training.outcomes(jobs, Data(), apart=False)]
    assert found[0] == found[1] != found[2]
    assert found[3] == found[4] != found[5]


def test_batches_are_shuffled_as_the_model_says() -> None:
    problem = training.problem_of(Job("digits", FREE, 0.0, 0, 1, 240), Data())
    fixed = dataclasses.replace(problem, model=dataclasses.replace(problem.model, shuffled=False))
    several = [training.train(each, without_noise, 1, seed) for each in (problem, fixed) for seed in (1, 2)]
    assert several[0] != several[1]
    assert several[2] == several[3]


def test_finished_curves_are_kept_by_what_they_follow_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, job = Data(results=tmp_path), Job("digits", FREE, 0.0, 0, 1, 240)
    (made,) = training.outcomes([job], data, apart=False)
    monkeypatch.setattr(training, "train", lambda *_: pytest.fail("trained again"))
    assert training.outcomes([job], data, apart=False) == [made]
    with pytest.raises(pytest.fail.Exception):
        training.outcomes([dataclasses.replace(job, seed=1)], data, apart=False)
    monkeypatch.setattr(training, "VERSION", training.VERSION + 1)
    with pytest.raises(pytest.fail.Exception):
        training.outcomes([job], data, apart=False)


def test_networks_without_mnist_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mnist\.npz"):
        training.problem_of(Job("table", FREE, 0.0, 0, 1, 240), Data())


def test_plans_have_every_curve_once_before_any_again() -> None:
    jobs = federated.plan("table", 10, 60_000, FULL)
    assert len(set(jobs)) == len(jobs)
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
    first = {(job.mechanism, job.epsilon) for job in jobs if job.seed == 0}
    assert first == {(job.mechanism, job.epsilon) for job in jobs}
    assert {job.epsilon for job in federated.plan("table", 1, 6000, QUICK)} == {0.0, 10.0}


def curve(mechanism: str, epsilon: float, *ends: float) -> Curve:
    return Curve("the network", mechanism, epsilon, None, np.array(ends)[:, np.newaxis], 3000, 100.0)


def test_spread_is_pooled_over_curves() -> None:
    spread = spread_of([curve("a", 1.0, 0.8, 0.82), curve("b", 1.0, 0.5, 0.52, 0.54), curve("c", 1.0, 0.1)])
    assert spread.degrees == 3
    assert spread.deviation == pytest.approx(math.sqrt((0.0002 + 0.0008) / 3))
    assert spread.half(4, 0.95) == pytest.approx(3.182 * spread.deviation / 2, rel=1e-3)  # t of 3 degrees of freedom
    assert Spread(math.nan, 0).half(1, 0.95) == math.inf


def test_checks_follow_from_the_curves() -> None:
    several = {name: curve(name, 10.0, 0.9, 0.902) for name in (OPTIMAL, PROJECTED, HAAR, GAUSSIAN, SIDES, HALF)}
    several[SIDES] = curve(SIDES, 10.0, 0.7, 0.701)
    several[OPEN], several[FREE] = curve(OPEN, 0.0, 0.98), curve(FREE, 0.0, 0.83, 0.832)
    checks = federated.checks_of({(each.mechanism, each.epsilon): each for each in several.values()})
    held = {(check.claim.split()[0], check.data.removesuffix(", the network")): check.holds for check in checks}
    assert held["the", OPEN] is True
    assert held["even", FREE] is False
    assert held["our", f"{PROJECTED} less {OPTIMAL}"] is True
    assert held["and", f"{HAAR} less {SIDES}"] is True
    assert held["and", f"{PROJECTED} less {GAUSSIAN}"] is None


def test_what_is_shortened_is_named_with_its_cost() -> None:
    several = [curve(OPTIMAL, 10.0, *[0.9] * 5), curve(SIDES, 4.0, 0.8), curve(HALF, 10.0, 0.8), curve(FREE, 0.0, 0.8)]
    text = federated.shortened({"table": {(each.mechanism, each.epsilon): each for each in several}})
    assert f": {SIDES} 1 at ε = 4; {FREE} 1 at ε = 0." in text
    assert "took 0.2 hours of one core; the rest takes 0.2" in text  # eight curves of 100 seconds, and eight
    assert not federated.shortened({"table": {(OPTIMAL, 10.0): several[0]}})


def test_the_study_without_mnist_is_on_the_digits() -> None:
    study = federated.run(TINY, Data())
    assert list(study.pictures) == ["digits"]
    assert "MNIST was not given" in study.shortened
    assert not study.checks
    assert {row[2] for row in study.tables[0].rows} == {*federated.PLANNED, *federated.PLANNED_FREE}


def test_the_study_with_mnist_has_both_networks() -> None:
    study = federated.run(TINY, Large())
    assert list(study.pictures) == ["mnist"]
    models = {row[0] for row in study.tables[0].rows}
    assert models == {"the published code's network", "Table 2's network"}
    assert "Table 2's** has 26,010 weights" in study.finding
    assert len(study.tables[1].rows) == 14
    found = of_model(training.outcomes([Job("table", FREE, 0.0, 0, 1, 300)], Large(), apart=False), Large())
    assert list(found["table"]) == [(FREE, 0.0)]
