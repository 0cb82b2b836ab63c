"""Asi et al. 2023, Figures 4 and 5: federated learning from locally private gradients, test accuracy by epoch.

Softmax regression after Section 4.2: each training image is one person's, who clips their gradient to length 1 and
sends one report in each epoch; the server averages a batch's reports and takes a step with momentum. Epochs compose:
after t of them a person's guarantee is t·ε. Scikit-learn's digits stand for Figure 5's three ε, and MNIST, where it is
given, for Figure 4: with the paper's batches of 600 of 60,000, step and momentum, but two epochs of its ten. The
paper's own network is in `network`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from benchmarks.data import Data, Images
from benchmarks.figures.afnnt import parts
from benchmarks.figures.afnnt.parts import Floats
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from streamsketch.local import SQKR, GaussianMechanism, Mechanism, PrivHS, PrivUnitG, ProjUnit, RePrivHS

CLASSES = 10
MOMENTUM = 0.5
DELTA = 1e-5

FREE, OPTIMAL, PROJECTED, GAUSSIAN = "clipped only", "PrivUnitG", "FastProjUnit-corr", "Gaussian, δ = 1e-5"
Labels = NDArray[np.int64]
Build = Callable[[int, float], Mechanism]
MECHANISMS: dict[str, Build | None] = {
    FREE: None,
    OPTIMAL: lambda d, epsilon: PrivUnitG(dim=d, epsilon=epsilon, ball=True),
    PROJECTED: lambda d, epsilon: ProjUnit(
        dim=d, epsilon=epsilon, sketch_dim=min(d // 4, 1000), shared=True, ball=True
    ),
    "SQKR": lambda d, epsilon: SQKR(dim=d, epsilon=epsilon, rotation="hadamard", ball=True),
    "RePrivHS": lambda d, epsilon: RePrivHS(dim=d, epsilon=epsilon, ball=True),
    "PrivHS": lambda d, epsilon: PrivHS(dim=d, epsilon=epsilon, ball=True),
    GAUSSIAN: lambda d, epsilon: GaussianMechanism(dim=d, epsilon=epsilon, delta=DELTA, ball=True),
}
COLOURS = {
    FREE: "#999999",
    OPTIMAL: parts.PRIV_UNIT_G.colour,
    PROJECTED: parts.FAST_CORR.colour,
    "SQKR": parts.SQKR_LINE.colour,
    "RePrivHS": parts.RE_PRIV_HS.colour,
    "PrivHS": parts.PRIV_HS.colour,
    GAUSSIAN: "#7F6000",
}
STYLES = {FREE: ":", PROJECTED: "--", GAUSSIAN: "-."}
ON_MNIST = (FREE, OPTIMAL, PROJECTED, "PrivHS", GAUSSIAN)  # what a minute allows; the paper leaves SQKR out too


@dataclass(frozen=True)
class Problem:
    """What is learnt, and in which steps.

    Parameters
    ----------
    name
        Of the images.
    train, train_labels, test, test_labels
        Images with pixels from 0 to 1 and a constant 1 behind them, and their digits.
    batch
        How many people a step.
    step
        Its length.
    every
        Accuracy is looked at after so many steps.
    """

    name: str
    train: Floats
    train_labels: Labels
    test: Floats
    test_labels: Labels
    batch: int
    step: float
    every: int

    @classmethod
    def digits(cls, images: Images, people: int = 1 << 30) -> "Problem":
        """Return four fifths of the digits to train on, up to ``people`` of them, and one to test."""
        inputs, test = _inputs(images, len(images.vectors)), np.arange(len(images.vectors)) % 5 == 0
        train, labels = inputs[~test][:people], images.labels[~test][:people]
        batch = min(120, len(train))
        return cls(images.name, train, labels, inputs[test], images.labels[test], batch, 0.5, len(train) // batch)

    @classmethod
    def mnist(cls, images: Images, test: Images, people: int, batch: int = 600) -> "Problem":
        """Return the paper's problem, with the first ``people`` images and the test images there are."""
        train, labels, tests = _inputs(images, people), images.labels[:people], _inputs(test, len(test.vectors))
        every = max(1, min(10, len(train) // batch // 5))
        return cls(images.name, train, labels, tests, test.labels, batch, 0.1, every)

    @property
    def steps(self) -> int:
        """How many steps an epoch has."""
        return len(self.train) // self.batch

    @property
    def dim(self) -> int:
        """How long a gradient is."""
        return int(self.train.shape[1]) * CLASSES


@dataclass(frozen=True)
class Model:
    """What is trained.

    Parameters
    ----------
    start
        The weights before the first step.
    gradients
        (weights, inputs, labels) → each person's gradient of the logistic loss, clipped to length 1: (n, start.size).
    guess
        (weights, inputs) → labels.
    """

    start: Floats
    gradients: Callable[[Floats, Floats, Labels], Floats]
    guess: Callable[[Floats, Floats], Labels]


@dataclass(frozen=True)
class Curve:
    """Test accuracy over the epochs: one row of ``accuracies`` for each repeat."""

    problem: str
    mechanism: str
    epsilon: float
    bits: int | None
    epochs: Floats
    accuracies: Floats
    test_images: int

    @property
    def mean(self) -> Floats:
        """Over the repeats."""
        return np.asarray(self.accuracies.mean(axis=0))

    @property
    def half(self) -> Floats:
        """Half the 90 % interval: Student's over repeats; of one run, what its test images leave open."""
        repeats = len(self.accuracies)
        if repeats == 1:
            return np.asarray(1.645 * np.sqrt(self.mean * (1 - self.mean) / self.test_images))
        spread = self.accuracies.std(axis=0, ddof=1) / np.sqrt(repeats)
        return np.asarray(stats.t.ppf(0.95, repeats - 1) * spread)

    def apart(self, other: "Curve") -> bool:
        """Whether this one ends above the other by more than both intervals."""
        return bool(self.mean[-1] - other.mean[-1] > self.half[-1] + other.half[-1])


def run(effort: Effort, data: Data) -> Study:
    """Train and draw."""
    tiny, full = effort.name == "tiny", effort.name == "full"
    digits = Problem.digits(data.digits(), 240 if tiny else 1 << 30)
    curves = [
        learn(digits, name, epsilon, epochs=effort.size(10, 1 if tiny else 3), repeats=1 if tiny else 3)
        for epsilon in ((4.0, 10.0, 16.0) if full else (10.0,))
        for name in MECHANISMS
    ]
    images, test = data.mnist(), data.mnist_test()
    on_mnist: list[Curve] = []
    if images is not None and test is not None:
        mnist = Problem.mnist(images, test, effort.size(60_000, 1_200))
        on_mnist = [learn(mnist, name, 10.0, epochs=2 if full else 1, repeats=1) for name in ON_MNIST]
    pictures = {"digits": picture(curves)} | ({"mnist": picture(on_mnist)} if on_mnist else {})
    return Study([table(curves + on_mnist)], finding(curves, on_mnist), pictures)


def _inputs(images: Images, first: int) -> Floats:
    pixels = images.vectors[:first] / images.white
    return np.column_stack([pixels, np.ones(len(pixels))])


def gradients(weights: Floats, inputs: Floats, labels: Labels) -> Floats:
    """Return each person's gradient of the logistic loss, clipped to length 1: (n, features · classes)."""
    scores = inputs @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    lengths = np.linalg.norm(inputs, axis=1) * np.linalg.norm(chances, axis=1)  # of the products of both
    chances /= np.maximum(1.0, lengths)[:, np.newaxis]
    return np.asarray((inputs[:, :, np.newaxis] * chances[:, np.newaxis, :]).reshape(len(labels), -1))


def softmax(problem: Problem, _seed: int) -> Model:
    """Return softmax regression, which starts from zeros whatever the seed."""
    start = np.zeros((problem.train.shape[1], CLASSES))
    return Model(start, gradients, lambda weights, inputs: (inputs @ weights).argmax(axis=1))


def private_mean(rows: Floats, mechanism: Mechanism | None, rng: np.random.Generator) -> Floats:
    """Return the mean that the server estimates; without a mechanism, the mean.

    The Gaussian mechanism's noise is drawn for the batch at once, as one Gaussian of the reports' variance over their
    number: what the sum of discrete ones is but for rounding, and a hundred times as fast. It is a baseline here.
    """
    if mechanism is None:
        return np.asarray(rows.mean(axis=0))
    if isinstance(mechanism, GaussianMechanism):
        deviation = np.sqrt(mechanism.squared_error / mechanism.sphere_dim / len(rows))
        return np.asarray(rows.mean(axis=0) + rng.normal(0.0, deviation, rows.shape[1]))
    server = mechanism.aggregator()
    server.add(mechanism.randomize_many(rows))
    return server.mean()


def train(
    problem: Problem,
    mechanism: Mechanism | None,
    epochs: int,
    seed: int,
    build: Callable[[Problem, int], Model] = softmax,
) -> list[float]:
    """Return the test accuracy after every ``problem.every`` steps."""
    rng, model = np.random.default_rng(seed), build(problem, seed)
    weights, velocity, accuracies = model.start, np.zeros_like(model.start), []
    for step in range(epochs * problem.steps):
        place = step % problem.steps
        if place == 0:
            order = rng.permutation(len(problem.train))
        people = order[place * problem.batch : (place + 1) * problem.batch]
        clipped = model.gradients(weights, problem.train[people], problem.train_labels[people])
        mean = private_mean(clipped, mechanism, rng)
        velocity = MOMENTUM * velocity - problem.step * mean.reshape(weights.shape)
        weights = weights + velocity
        if (step + 1) % problem.every == 0:
            accuracies.append(float((model.guess(weights, problem.test) == problem.test_labels).mean()))
    return accuracies


def learn(
    problem: Problem,
    name: str,
    epsilon: float,
    *,
    epochs: int,
    repeats: int,
    build: Callable[[Problem, int], Model] = softmax,
) -> Curve:
    """Return a mechanism's curve."""
    make = MECHANISMS[name]
    mechanism = None if make is None else make(build(problem, 0).start.size, epsilon)
    accuracies = np.array([train(problem, mechanism, epochs, seed, build) for seed in range(repeats)])
    times = np.arange(1, accuracies.shape[1] + 1) * problem.every / problem.steps
    bits = None if mechanism is None else mechanism.layout.bits
    return Curve(problem.name, name, epsilon, bits, times, accuracies, len(problem.test))


def table(curves: Sequence[Curve]) -> Table:
    """Return where each curve ends."""
    rows = [
        (
            curve.problem,
            curve.epsilon,
            curve.mechanism,
            curve.bits,
            float(curve.epochs[-1]),
            len(curve.accuracies),
            float(curve.mean[-1]),
            float(curve.half[-1]),
        )
        for curve in curves
    ]
    columns = ("images", "ε a report", "mechanism", "bits a report", "epochs", "repeats", "test accuracy", "± (90 %)")
    return Table("Test accuracy at the end", columns, rows)


def finding(curves: Sequence[Curve], on_mnist: Sequence[Curve]) -> str:
    """Return what the figures show, and how they compare."""
    texts = [
        compared({curve.mechanism: curve for curve in curves if curve.epsilon == epsilon})
        for epsilon in sorted({curve.epsilon for curve in curves})
    ]
    if on_mnist:
        texts.append(compared({curve.mechanism: curve for curve in on_mnist}))
    else:
        texts.append("MNIST was not given, so Figure 4 is not drawn.")
    texts.append(
        "The paper trains a convolutional network for ten epochs, where mechanisms without noise and with reach some "
        "91 %; `afnnt-cnn` trains it, where torch is installed. Softmax regression has other gradients, in fewer "
        "coordinates, and here fewer people or epochs, so that accuracies compare between mechanisms and not with the "
        "paper's: the model and the data are the cause. The digits' 1437 people in batches of 120 give noisier steps "
        "than the paper's 60,000 in batches of 600. Every epoch costs a person another ε."
    )
    return " ".join(texts)


def compared(by_name: dict[str, Curve]) -> str:
    """Return the paper's three statements as they come out: equal ones, worse ones, and the price."""
    optimal, projected, free = by_name[OPTIMAL], by_name[PROJECTED], by_name[FREE]
    equal = not optimal.apart(projected) and not projected.apart(optimal)
    others = [curve for name, curve in by_name.items() if name not in {FREE, OPTIMAL, PROJECTED}]
    beaten = [curve.mechanism for curve in others if projected.apart(curve)]
    ahead = [curve.mechanism for curve in others if curve.apart(projected)]
    level = [curve.mechanism for curve in others if curve.mechanism not in {*beaten, *ahead}]
    percent = {name: f"{100 * curve.mean[-1]:.1f} ± {100 * curve.half[-1]:.1f}" for name, curve in by_name.items()}
    verdict = "Agrees" if equal and not (ahead or level) else "Agrees in part" if equal and not ahead else "Differs"
    text = (
        f"**{optimal.problem}, ε = {optimal.epsilon:g}: {verdict.lower()}.** PrivUnitG ends at {percent[OPTIMAL]} % "
        f"and {PROJECTED} at {percent[PROJECTED]} %"
        + (", no further apart than their intervals" if equal else ", further apart than their intervals")
        + f"; clipped gradients without noise at {percent[FREE]} %. "
    )
    for names, words in ((beaten, "ends below them"), (level, "cannot be told from them"), (ahead, "ends above them")):
        if names:
            listed = parts.listed([f"{name} ({percent[name]} %)" for name in names])
            text += f"{words[0].upper()}{words[1:]}: {listed}. "
    if free.apart(optimal):
        text += "Privacy costs accuracy here beyond what clipping does"
        text += ", where the paper finds nearly no such cost." if optimal.epsilon == 10 else "."
    return text.rstrip()


def picture(curves: Sequence[Curve]) -> Figure:
    """Return test accuracy by epoch, a panel for each ε."""
    epsilons = sorted({curve.epsilon for curve in curves})
    figure = Figure(figsize=(3.6 * len(epsilons) + 2.2, 3.8), layout="constrained")
    panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
    for panel, epsilon in zip(panels, epsilons, strict=True):
        for curve in curves:
            if curve.epsilon == epsilon:
                colour, style = COLOURS[curve.mechanism], STYLES.get(curve.mechanism, "-")
                mark = "." if len(curve.epochs) == 1 else None
                panel.plot(curve.epochs, curve.mean, color=colour, linestyle=style, marker=mark, label=curve.mechanism)
                low, high = curve.mean - curve.half, curve.mean + curve.half
                panel.fill_between(curve.epochs, low, high, color=colour, alpha=0.15, linewidth=0)
        panel.set_title(f"{curves[0].problem}, ε = {epsilon:g} a report", fontsize=10, loc="left")
        panel.set_xlabel("epoch")
        panel.grid(visible=True, linewidth=0.3)
    panels[0].set_ylabel("test accuracy")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=8, loc="outside right center")
    return figure
