"""Federated learning with locally private gradients, after Asi et al. 2023, Section 4.2.

Softmax regression on scikit-learn's scanned digits: each training image is one person's, who clips their gradient to
length 1 and sends one report in each epoch; the server averages a batch's reports and takes a step with momentum.
Epochs compose: after t of them a person's guarantee is t·ε. The paper trains a convolutional network on MNIST instead,
in batches of 600 of 60,000.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from streamsketch.local import SQKR, GaussianMechanism, Mechanism, PrivHS, PrivUnitG, ProjUnit, RePrivHS

Floats = NDArray[np.float64]

CLASSES = 10
BATCH = 120
STEP, MOMENTUM = 0.5, 0.5
MECHANISMS: dict[str, Callable[[int, float], Mechanism] | None] = {
    "clipped only": None,
    "PrivUnitG": lambda dim, epsilon: PrivUnitG(dim=dim, epsilon=epsilon, ball=True),
    "ProjUnit": lambda dim, epsilon: ProjUnit(dim=dim, epsilon=epsilon, sketch_dim=dim // 4, shared=True, ball=True),
    "SQKR": lambda dim, epsilon: SQKR(dim=dim, epsilon=epsilon, ball=True),
    "RePrivHS": lambda dim, epsilon: RePrivHS(dim=dim, epsilon=epsilon, ball=True),
    "PrivHS": lambda dim, epsilon: PrivHS(dim=dim, epsilon=epsilon, ball=True),
    "Gaussian, δ = 1e-5": lambda dim, epsilon: GaussianMechanism(dim=dim, epsilon=epsilon, delta=1e-5, ball=True),
}


@dataclass(frozen=True)
class Digits:
    """Images with a constant 1 behind them, and their labels."""

    train: Floats
    train_labels: NDArray[np.int64]
    test: Floats
    test_labels: NDArray[np.int64]

    @classmethod
    def load(cls) -> "Digits":
        """Return four fifths of scikit-learn's digits to train on, and one to test."""
        images, labels = load_digits(return_X_y=True)
        inputs = np.column_stack([images / 16, np.ones(len(images))])
        test = np.arange(len(images)) % 5 == 0
        return cls(inputs[~test], labels[~test], inputs[test], labels[test])


def gradients(weights: Floats, inputs: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return each person's gradient of the logistic loss, clipped to length 1: (n, features · classes)."""
    scores = inputs @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1
    rows = (inputs[:, :, np.newaxis] * chances[:, np.newaxis, :]).reshape(len(labels), -1)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(1.0, lengths))


def train(digits: Digits, mechanism: Mechanism | None, epochs: int, seed: int) -> list[float]:
    """Return the test accuracy after each epoch; without a mechanism, of clipped gradients as they are."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((digits.train.shape[1], CLASSES))
    velocity, accuracies = np.zeros_like(weights), []
    for _ in range(epochs):
        order = rng.permutation(len(digits.train))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            people = order[start : start + BATCH]
            clipped = gradients(weights, digits.train[people], digits.train_labels[people])
            if mechanism is None:
                mean = clipped.mean(axis=0)
            else:
                server = mechanism.aggregator()
                server.add(mechanism.randomize_many(clipped))
                mean = server.mean()
            velocity = MOMENTUM * velocity - STEP * mean.reshape(weights.shape)
            weights = weights + velocity
        accuracies.append(float(((digits.test @ weights).argmax(axis=1) == digits.test_labels).mean()))
    return accuracies


def run(*, epsilons: list[float], epochs: int, repeats: int) -> list[dict[str, Any]]:
    """Return the mean test accuracy after each epoch with its 90 % interval, for each mechanism and ε."""
    digits = Digits.load()
    dim = digits.train.shape[1] * CLASSES
    rows = []
    for epsilon in epsilons:
        for name, build in MECHANISMS.items():
            mechanism = None if build is None else build(dim, epsilon)
            curves = np.array([train(digits, mechanism, epochs, seed) for seed in range(repeats)])
            half = 1.645 * curves.std(axis=0, ddof=1) / np.sqrt(repeats) if repeats > 1 else np.zeros(epochs)
            rows.append(
                {
                    "mechanism": name,
                    "epsilon": epsilon,
                    "report_bits": None if mechanism is None else mechanism.layout.bits,
                    "accuracy": curves.mean(axis=0).tolist(),
                    "half_width_90": half.tolist(),
                }
            )
    return rows


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write ``federated.json`` and ``federated.png``, a panel for each ε."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "federated.json").write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "federated.png").write_bytes(picture(rows))


def picture(rows: list[dict[str, Any]]) -> bytes:
    """Return a PNG of test accuracy by epoch."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, for this picture only

    epsilons = sorted({row["epsilon"] for row in rows})
    figure = Figure(figsize=(4.2 * len(epsilons), 3.8), layout="constrained")
    panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
    for panel, epsilon in zip(panels, epsilons, strict=True):
        for place, row in enumerate(row for row in rows if row["epsilon"] == epsilon):
            accuracy, half = np.array(row["accuracy"]), np.array(row["half_width_90"])
            epochs = np.arange(1, len(accuracy) + 1)
            panel.plot(epochs, accuracy, color=f"C{place}", label=row["mechanism"])
            panel.fill_between(epochs, accuracy - half, accuracy + half, color=f"C{place}", alpha=0.2, linewidth=0)
        panel.set_title(f"ε = {epsilon:g} a report", fontsize=11, loc="left")
        panel.set_xlabel("epoch")
        panel.grid(visible=True, linewidth=0.3)
    panels[0].set_ylabel("test accuracy")
    panels[-1].legend(frameon=False, fontsize=8)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()
