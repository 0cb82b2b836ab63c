"""Asi et al. 2023, Figure 4: the paper's convolutional network on MNIST, from locally private gradients.

Section 4.2 as it stands, with its network (Table 2), batches of 600, step and momentum, but one or two epochs of its
ten. It takes torch and MNIST, and says so where one is missing: torch is no dependency of this project. `federated` has
what surrounds the network, and softmax regression, which takes neither.
"""

import dataclasses
import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.data import Data
from benchmarks.figures.afnnt import federated, parts
from benchmarks.figures.afnnt.federated import FREE, PROJECTED, Curve, Labels, Model, Problem
from benchmarks.figures.afnnt.parts import Floats
from benchmarks.rows import Effort
from benchmarks.study import Study, Table

SIDE = 28  # pixels
EPSILON = 10.0
LONGER = (FREE, PROJECTED)  # two epochs; the others take too long
SCORES = 4096  # images whose scores are computed at a time


def run(effort: Effort, data: Data) -> Study:
    """Train and draw, or say what is missing."""
    images, test = data.mnist(), data.mnist_test()
    torch = importlib.util.find_spec("torch") is not None
    if images is None or test is None or not torch:
        return missing(torch=torch, mnist=images is not None and test is not None)
    full = effort.name == "full"
    people, batch = (60_000, 600) if full else (effort.size(9_000, 120), effort.size(600, 60))
    problem = Problem.mnist(images, test, people, batch)
    curves = [
        federated.learn(problem, name, EPSILON, epochs=2 if full and name in LONGER else 1, repeats=1, build=network)
        for name in federated.ON_MNIST
    ]
    return Study([federated.table(curves)], finding(problem, curves), {"mnist": federated.picture(curves)})


def missing(*, torch: bool, mnist: bool) -> Study:
    """Return the study that says what it takes."""
    rows = [
        ("torch", torch, "pip install torch, of 2.0 or later; its build without CUDA is enough"),
        ("MNIST", mnist, "--data DIR, a folder with mnist.npz: x_train, y_train, x_test, y_test, as Keras has it"),
    ]
    names = parts.listed([name for name, there, _ in rows if not there])
    text = (
        f"**Not run: {names} {'is' if torch or mnist else 'are'} missing.** The paper's network takes both torch, for "
        "each person's gradient, and MNIST; neither comes with this project. The table says how to get them. "
        "`afnnt-fig4-5` has softmax regression on scikit-learn's digits, which takes neither."
    )
    return Study([Table("What the study takes", ("what", "there", "how to get it"), rows)], text)


def network(_problem: Problem, seed: int) -> Model:
    """Return Table 2's network with torch's usual weights drawn from a seed; its weights are one vector.

    The last layer has a tanh too, as the table says: scores are within ±1.
    """
    import torch  # noqa: PLC0415 - large, and no dependency
    from torch import nn  # noqa: PLC0415 - as above
    from torch.func import functional_call, grad, vmap  # noqa: PLC0415 - as above

    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = nn.Sequential(
            *(nn.Conv2d(1, 16, 8, stride=2, padding=2), nn.Tanh(), nn.AvgPool2d(2, stride=1)),
            *(nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.AvgPool2d(2, stride=1), nn.Flatten()),
            *(nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10), nn.Tanh()),
        )
    shapes = {name: part.shape for name, part in layers.named_parameters()}
    start = torch.cat([part.detach().flatten() for part in layers.parameters()])

    def scores(weights: Any, images: Any) -> Any:
        split = weights.split([shape.numel() for shape in shapes.values()])
        named = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), split, strict=True)}
        return functional_call(layers, named, (images,))

    def loss(weights: Any, image: Any, label: Any) -> Any:
        return nn.functional.cross_entropy(scores(weights, image[None]), label[None])

    def as_images(inputs: Floats) -> Any:
        pixels = inputs[:, :-1].reshape(-1, 1, SIDE, SIDE)  # without the constant behind them
        return torch.from_numpy(pixels.astype(np.float32))

    def as_weights(weights: Floats) -> Any:
        return torch.from_numpy(weights.astype(np.float32))

    one_by_one = vmap(grad(loss), in_dims=(None, 0, 0))

    def gradients(weights: Floats, inputs: Floats, labels: Labels) -> Floats:
        rows = one_by_one(as_weights(weights), as_images(inputs), torch.from_numpy(labels))
        rows /= rows.norm(dim=1, keepdim=True).clamp(min=1)
        return np.asarray(rows.double().numpy())

    def guess(weights: Floats, inputs: Floats) -> Labels:
        with torch.no_grad():
            found = [scores(as_weights(weights), part).argmax(dim=1) for part in as_images(inputs).split(SCORES)]
        return np.asarray(torch.cat(found).numpy())

    return Model(start.numpy().astype(np.float64), gradients, guess)


def finding(problem: Problem, curves: Sequence[Curve]) -> str:
    """Return what the figure shows after the epoch that all curves have, and where it parts from the paper's."""
    epochs = min(float(curve.epochs[-1]) for curve in curves)
    by_name = {curve.mechanism: until(curve, epochs) for curve in curves}
    free, steps = by_name[FREE], round(epochs * problem.steps)
    if free.mean[-1] < 0.5:
        text = (
            f"After {steps} steps without noise accuracy is {100 * free.mean[-1]:.1f} %: too few to compare mechanisms."
        )
    else:
        text = federated.compared(by_name)
    later = [curve for curve in curves if curve.epochs[-1] > epochs]
    if later:
        ends = parts.listed([f"{curve.mechanism} {100 * curve.mean[-1]:.1f} %" for curve in later])
        text += f" After {later[0].epochs[-1]:g} epochs: {ends}."
    return (
        f"{text} The network is the paper's (Table 2), and so are clipping, step and momentum. All mechanisms take "
        f"{steps} steps, {len(problem.train)} people in batches of {problem.batch}; every epoch costs a person "
        f"another ε = {EPSILON:g}. After ten epochs the paper has some 91 %, with noise or without. The table's last "
        f"tanh keeps scores within ±1, and so the loss above {math.log(1 + 9 * math.exp(-2)):.2f}; the paper does not "
        "say how weights start: torch's usual ones are taken, the same for all. Each curve is one run: its interval is "
        "what the test images leave open, not what another run's noise would change. SQKR, which the paper leaves out "
        "too, and RePrivHS are left out for their time."
    )


def until(curve: Curve, epochs: float) -> Curve:
    """Return the curve up to an epoch."""
    kept = curve.epochs <= epochs
    return dataclasses.replace(curve, epochs=curve.epochs[kept], accuracies=curve.accuracies[:, kept])
