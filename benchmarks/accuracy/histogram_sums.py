"""Sums over the entries of noisy histograms: bias, error and coverage of ℓ1 norm, number of items and entropy.

Each trial adds Laplace noise to a histogram of 1,000 entries, released by `Identity`. Beside each estimate stands the
plug-in one, which takes noisy entries, or those of at least one half and more, for the true ones.

How it misleads: errors grow with the root of the number of entries, empty ones too. That of a larger domain is larger.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette, trials
from benchmarks.accuracy import intervals
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check

DIM = 1000
EPSILONS = (3.0, 1.0, 0.3, 0.1)
ESTIMATORS = {"ℓ1 norm": ss.estimation.l1_norm, "distinct": ss.estimation.distinct, "entropy": ss.estimation.entropy}
_MOST_REFUSED = 0.05

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Case(NamedTuple):
    """One quantity of one histogram."""

    histogram: str
    epsilon: float
    quantity: str
    entries: str
    truth: float
    bias: float
    """In its standard errors."""
    error: float
    """Root mean square."""
    stated: float
    covered: tuple[float, ...]
    """By `intervals.CONFIDENCES`."""
    plain_bias: float
    """Of the plug-in estimate, in the unit of the quantity."""
    refused: int


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate three histograms under four strengths of noise."""
    count = effort.size(1000, 3)
    cases = [
        case for name, x in _histograms().items() for epsilon in EPSILONS for case in _trials(name, x, epsilon, count)
    ]
    return Study(
        [
            Table(
                f"Sums over {DIM:,} entries, one event of 1, Laplace noise, {count} draws each",
                (
                    *("histogram", "ε", "quantity", "entries", "truth", "bias in its standard errors"),
                    *("root mean square error", "stated", *intervals.COLUMNS),
                    *("bias of the plug-in estimate", "refused"),
                ),
                [(*case[:8], *case.covered, *case[9:]) for case in cases],
            )
        ],
        _finding(cases, count),
        {"errors": _picture(cases)},
        checks=_checks(cases, count),
        source="Hillebrand, Imola, Pagh and Sejer 2026",
    )


def _histograms() -> dict[str, Ints]:
    rng = np.random.default_rng(2026)
    weights = np.arange(1, DIM + 1) ** -1.1
    sparse = np.zeros(DIM, dtype=np.int64)
    sparse[rng.choice(DIM, 50, replace=False)] = np.minimum(rng.zipf(1.6, 50), 500)
    return {
        "Zipf, 20,000 events": np.rint(20_000 * weights / weights.sum()).astype(np.int64),
        "50 items": sparse,
        "Poisson, mean 1": rng.poisson(1.0, DIM),
    }


def _exactly(entries: Floats) -> dict[str, float]:
    sizes = np.abs(entries)
    total = float(sizes.sum())
    shares = sizes[sizes > 0] / total
    return {
        "ℓ1 norm": total,
        "distinct": float((sizes >= 0.5).sum()),
        "entropy": -float((shares * np.log(shares)).sum()),
    }


def _trials(name: str, x: Ints, epsilon: float, count: int) -> list[Case]:
    projection = ss.projections.Identity(dim=DIM)
    sketch = projection.sketch()
    sketch.update(np.arange(DIM), x)
    publisher = ss.AdditiveNoise(epsilon=epsilon, neighbours=ss.L1(1)).calibrated(projection)
    releases = [
        publisher.for_data(sketch).draw(trials.keyed(f"sums {name} {epsilon} {seed}".encode())) for seed in range(count)
    ]
    truths, cases = _exactly(x.astype(np.float64)), []
    plain = [_exactly(release.values.astype(np.float64)) for release in releases]
    for quantity, estimator in ESTIMATORS.items():
        for nonnegative in (False, True):
            estimates = []
            for release in releases:
                try:
                    estimates.append(estimator(release, nonnegative=nonnegative))
                except ss.InvalidInputError:  # the total is within its noise
                    continue
            entries = "not negative" if nonnegative else "any"
            own = [sums[quantity] for sums in plain]
            if len(estimates) > (1 - _MOST_REFUSED) * count:
                cases.append(_case((name, epsilon, quantity, entries), estimates, truths[quantity], own))
    return cases


def _case(
    setting: tuple[str, float, str, str], estimates: list[ss.estimation.Estimate], truth: float, plain: list[float]
) -> Case:
    summary = intervals.of_values(estimates, truth)
    return Case(*setting, truth, *summary[:4], float(np.mean(plain)) - truth, len(plain) - len(estimates))


def _checks(cases: list[Case], count: int) -> list[Check]:
    sums = [case for case in cases if case.quantity != "entropy"]
    inner = [case for case in cases if case.truth < DIM or case.quantity != "distinct"]  # else cut off at the domain
    return [
        Check(
            "norms and numbers are unbiased; the largest bias in standard errors",
            max(abs(case.bias) for case in sums),
            0.0,
            trials.simultaneous_z(len(sums)),
        ),
        Check("stated errors are the observed ones", max(abs(case.stated / case.error - 1) for case in sums), 0.0, 0.1),
        intervals.least("95 % intervals cover; the least share", inner, 0.93, count),
    ]


def _finding(cases: list[Case], count: int) -> str:
    said = []
    for quantity in ESTIMATORS:
        own = [case for case in cases if case.quantity == quantity]
        shares = [case.covered[2] for case in own]
        errors = "; ".join(
            f"{epsilon:g}: {min(same):.3g} to {max(same):.3g}"
            for epsilon in EPSILONS
            if (same := [case.error for case in own if case.epsilon == epsilon])
        )
        worst = max(own, key=lambda case: abs(case.plain_bias))
        said.append(
            f"**{quantity}**: root mean square errors by ε {errors}. 95 % intervals cover in {min(shares):.1%} to "
            f"{max(shares):.1%} of {count} draws. The plug-in estimate has a bias of up to {worst.plain_bias:+.3g} "
            f"({worst.histogram}, ε = {worst.epsilon:g})."
        )
    return " ".join(said)


def _picture(cases: list[Case]) -> Figure:
    names = list(dict.fromkeys(case.histogram for case in cases))
    figure, axes = palette.panels(1, len(ESTIMATORS), width=4.2, height=3.6)
    for panel, quantity in zip(axes[0], ESTIMATORS, strict=True):
        for place, name in enumerate(names):
            for entries, style in (("any", "-"), ("not negative", ":")):
                own = [
                    case for case in cases if (case.histogram, case.quantity, case.entries) == (name, quantity, entries)
                ]
                panel.plot(
                    [case.epsilon for case in own],
                    [case.error / case.truth for case in own],
                    linestyle=style,
                    marker=palette.MARKERS[place],
                    color=palette.COLOURS[place],
                    label=f"{name}, {entries}",
                )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("ε")
        panel.set_title(quantity, loc="left", fontsize=10)
    axes[0][0].set_ylabel("root mean square error / truth")
    palette.legend_below(figure, axes[0][0])
    return figure
