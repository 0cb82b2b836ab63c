"""Federated training from private gradients: one curve of test accuracy from one seed, kept on disk as it ends.

Each training image is one person's, who clips their gradient to length 1 and sends one report in each epoch. The server
averages a batch's reports and takes a step with momentum. After t epochs a person's guarantee is t·ε.
"""

import dataclasses
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Data, Images
from benchmarks.figures.afnnt.clipped import Clipped, Dense, Floats, Singles
from benchmarks.figures.afnnt.networks import CODE, TABLE, Labels
from benchmarks.figures.afnnt.private_steps import Estimate, estimate, gaussian, without_clipping
from streamsketch.local import SQKR, GaussianMechanism, Mechanism, PrivHS, PrivUnitG, ProjUnit

CLASSES, MOMENTUM, DELTA = 10, 0.5, 1e-5
BLOCK = 100  # people whose gradients are held at a time: they stay in a cache
WORKERS = 2
VERSION = 1  # of what curves follow from besides their jobs: kept ones of other versions are not read

OPEN, FREE, OPTIMAL = "neither clipped nor noisy", "clipped only", "PrivUnitG"
PROJECTED, HAAR, TOLD, SIDES = "FastProjUnit-corr", "ProjUnit", "SQKR", "PrivHS"
GAUSSIAN, HALF = "Gaussian, δ = 1e-5", "Gaussian at sensitivity 1, not LDP"

MECHANISMS: dict[str, Callable[[int, float, int], Mechanism]] = {
    OPTIMAL: lambda d, epsilon, _: PrivUnitG(dim=d, epsilon=epsilon, ball=True),
    PROJECTED: lambda d, epsilon, seed: ProjUnit(
        dim=d, epsilon=epsilon, sketch_dim=_sketch_dim(d), shared=True, seed=seed, ball=True
    ),
    HAAR: lambda d, epsilon, _: ProjUnit(dim=d, epsilon=epsilon, sketch_dim=_sketch_dim(d), rotation="haar", ball=True),
    TOLD: lambda d, epsilon, _: SQKR(dim=d, epsilon=epsilon, ball=True),
    SIDES: lambda d, epsilon, _: PrivHS(dim=d, epsilon=epsilon, ball=True),
    GAUSSIAN: lambda d, epsilon, _: GaussianMechanism(dim=d, epsilon=epsilon, delta=DELTA, ball=True),
}
"""Name → (d, ε, public seed) → mechanism; the equivariant ones do without the seed."""


class Model(Protocol):
    """What is trained; weights are one vector."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def dim(self) -> int:
        """d, how many weights there are."""

    @property
    def shuffled(self) -> bool:
        """Whether each epoch has its own batches."""

    def start(self, seed: int) -> Floats:
        """Return the weights before the first step."""

    def gradients(self, weights: Floats, images: Any, labels: Labels) -> Clipped:
        """Return each person's gradient of the logistic loss, clipped to length 1."""

    def guess(self, weights: Floats, images: Any) -> Labels:
        """Return labels."""


@dataclass(frozen=True)
class Softmax:
    """Softmax regression on rows of ``features`` pixels, from zeros."""

    features: int
    name: str = "softmax regression"
    shuffled: bool = True

    @property
    def dim(self) -> int:
        """d, how many weights there are: with a bias for each class."""
        return CLASSES * (self.features + 1)

    def start(self, _seed: int) -> Floats:
        """Return zeros."""
        return np.zeros(self.dim)

    def scores(self, weights: Floats, images: Singles) -> Singles:
        """Return the scores of images: (n, 10)."""
        matrix = weights.astype(np.float32).reshape(CLASSES, -1)
        return np.asarray(images @ matrix[:, :-1].T + matrix[:, -1])

    def gradients(self, weights: Floats, images: Singles, labels: Labels) -> Clipped:
        """Return each person's gradient of the logistic loss, clipped to length 1."""
        scores = self.scores(weights, images)
        errors = np.exp(scores - scores.max(axis=1, keepdims=True))
        errors /= errors.sum(axis=1, keepdims=True)
        errors[np.arange(len(labels)), labels] -= 1
        return Clipped([Dense(errors, images)])

    def guess(self, weights: Floats, images: Singles) -> Labels:
        """Return the digits with the highest scores."""
        return np.asarray(self.scores(weights, images).argmax(axis=1))


@dataclass(frozen=True)
class Problem:
    """A model, images of people and for tests, how many people a step has, and its length."""

    model: Model
    train: NDArray[Any]
    train_labels: Labels
    test: NDArray[Any]
    test_labels: Labels
    batch: int
    step: float

    @property
    def steps(self) -> int:
        """How many steps an epoch has."""
        return len(self.train) // self.batch

    @classmethod
    def digits(cls, images: Images, people: int) -> "Problem":
        """Return softmax regression on four fifths of the digits, up to ``people`` of them; one fifth is for tests."""
        pixels = (images.vectors / images.white).astype(np.float32)
        test = np.arange(len(pixels)) % 5 == 0
        train, labels = pixels[~test][:people], images.labels[~test][:people]
        model = Softmax(pixels.shape[1])
        return cls(model, train, labels, pixels[test], images.labels[test], min(120, len(train)), 0.5)

    @classmethod
    def mnist(cls, model: Model, images: Images, test: Images, people: int) -> "Problem":
        """Return the paper's problem, with the first ``people`` images and the test images there are."""
        square = (-1, 28, 28)
        train, tests = (part.vectors.astype(np.uint8).reshape(square) for part in (images, test))
        train, labels = train[:people], images.labels[:people]
        return cls(model, train, labels, tests, test.labels, min(600, len(train)), 0.1)


@dataclass(frozen=True)
class Job:
    """What a curve follows from.

    Parameters
    ----------
    model
        ``"digits"``, ``"table"`` or ``"code"``.
    mechanism
        A name above.
    epsilon
        ε of a report; 0 without noise.
    seed
        Of the weights, batches and reports.
    epochs, people
        How many.
    """

    model: str
    mechanism: str
    epsilon: float
    seed: int
    epochs: int
    people: int

    @property
    def file(self) -> str:
        """The name of the file that keeps the curve."""
        text = json.dumps([VERSION, dataclasses.asdict(self)], sort_keys=True)
        return f"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.json"


@dataclass(frozen=True)
class Outcome:
    """A job's test accuracy after each epoch, and its seconds of one core."""

    job: Job
    accuracies: Sequence[float]
    seconds: float


def problem_of(job: Job, data: Data) -> Problem:
    """Return a job's problem.

    Raises
    ------
    ValueError
        If it takes MNIST, and ``data`` has none.
    """
    return _problem(job.model, job.people, data)


@functools.cache
def _problem(name: str, people: int, data: Data) -> Problem:
    if name == "digits":
        return Problem.digits(data.digits(), people)
    images, test = data.mnist(), data.mnist_test()
    if images is None or test is None:
        raise ValueError("the networks take MNIST: give a folder that has mnist.npz")
    return Problem.mnist({"table": TABLE, "code": CODE}[name], images, test, people)


def estimate_of(job: Job, dim: int) -> Estimate:
    """Return how a job's server estimates the mean of a batch."""
    if job.mechanism == OPEN:
        return without_clipping
    if job.mechanism == HALF:
        return gaussian(GaussianMechanism(dim=dim, epsilon=job.epsilon, delta=DELTA, ball=True), sensitivity=1.0)
    make = MECHANISMS.get(job.mechanism)
    return estimate(None if make is None else make(dim, job.epsilon, job.seed))


def train(problem: Problem, estimated: Estimate, epochs: int, seed: int) -> list[float]:
    """Return the test accuracy after every epoch."""
    rng, model = np.random.default_rng([seed, 1]), problem.model  # not the numbers that weights start from
    weights = model.start(seed)
    velocity, accuracies, order = np.zeros_like(weights), [], np.arange(len(problem.train))
    for _ in range(epochs):
        if model.shuffled:
            order = rng.permutation(order)
        for step in range(problem.steps):
            people = order[step * problem.batch : (step + 1) * problem.batch]
            mean = estimated(_blocks(problem, weights, people), rng)
            velocity = MOMENTUM * velocity - problem.step * mean
            weights = weights + velocity
        accuracies.append(float((model.guess(weights, problem.test) == problem.test_labels).mean()))
    return accuracies


def _blocks(problem: Problem, weights: Floats, people: NDArray[np.int64]) -> Iterator[Clipped]:
    for start in range(0, len(people), BLOCK):
        part = people[start : start + BLOCK]
        yield problem.model.gradients(weights, problem.train[part], problem.train_labels[part])


def outcome(job: Job, data: Data, kept: Path | None) -> Outcome:
    """Return a job's outcome: the kept one if there is one, else a new one, which is kept."""
    file = None if kept is None else kept / job.file
    if file is not None and file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        return Outcome(job, stored["accuracies"], stored["seconds"])
    problem, start = problem_of(job, data), time.process_time()
    accuracies = train(problem, estimate_of(job, problem.model.dim), job.epochs, job.seed)
    made = Outcome(job, accuracies, time.process_time() - start)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(dataclasses.asdict(made), ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(file)
    return made


def outcomes(jobs: Sequence[Job], data: Data, *, apart: bool) -> list[Outcome]:
    """Return the outcomes of jobs, ``apart`` in two processes of one thread each, or as many as there are cores."""
    kept = None if data.results is None else data.results / "curves"
    run = functools.partial(outcome, data=data, kept=kept)
    if not apart:
        return [run(job) for job in jobs]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read by the new processes as they load NumPy
    try:
        with ProcessPoolExecutor(min(WORKERS, cores), mp_context=get_context("spawn")) as pool:
            return list(pool.map(run, jobs))
    finally:
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before


def _sketch_dim(dim: int) -> int:
    return min(dim // 4, 1000)
