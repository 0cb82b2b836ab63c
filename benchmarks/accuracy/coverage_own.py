"""One's own sketch beside a release: bias, variance and coverage of every estimate, by map, noise and clip.

Each trial draws a projection and noise, and compares a stream's own raw sketch with the release of another stream, and
both releases with each other. Clipped streams are sums of units that were brought to one length, or shortened, in
sketch space, with counts of units: the truth is that of exact lengths.

How it misleads: the error that own data save is the noise's. Where the map's error dominates, little is saved. Cosines
of a setting are left out where one in twenty is refused, as a release is below the noise floor.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

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
from streamsketch.bounding import bound_units
from streamsketch.release import AdditiveNoise

DIM, CELLS, SIZE = 512, 256, 3.0
UNITS, BOUND = 400, 4.0
ESTIMATORS: dict[str, Callable[..., ss.estimation.Estimate]] = {
    "squared distance": ss.squared_distance,
    "inner product": ss.inner_product,
    "cosine": ss.cosine,
    "profile distance": ss.profile_distance,
}
OF_MEANS: dict[str, Callable[..., ss.estimation.Estimate]] = {
    "distance of averages": ss.estimation.mean_distance,
    "product of averages": ss.estimation.mean_product,
}
NOISES = (trials.Budget(1.0, 0.0, "laplace"), trials.Budget(1.0, 1e-6, "gaussian"))
_MOST_REFUSED = 0.05
_FEW_CELLS = 0.02  # by which 95 % intervals of few cells or sparse maps may cover less

Floats = NDArray[np.float64]
Clip = Literal["equal", "scale"]
Draw = Callable[[int], tuple[ss.Sketch, ss.PrivateSketch, ss.PrivateSketch]]
"""A trial's own sketch, its release, and the other stream's release."""


class Case(NamedTuple):
    """One quantity of one setting."""

    map: str
    data: str
    noise: str
    quantity: str
    bias: float
    """In its standard errors."""
    error: float
    """The root mean square error, over the truth's size."""
    stated: float
    """The root mean square of standard errors, over the root mean square error."""
    covered: tuple[float, ...]
    """By `intervals.CONFIDENCES`."""
    saved: float
    """The mean square error as a share of that of two releases."""
    noise_saved: float
    """The stated variance of the noise as a share of that of two releases."""


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Simulate every map under both noises; then sums of clipped units."""
    count, cases = effort.size(1000, 3), []
    names = list(trials.MAPS)[: effort.size(80, 1)]
    x, y = trials.pair_of("dense", DIM, SIZE)
    truths = _truths(x.astype(np.float64), y.astype(np.float64))
    for name in names:
        for budget in NOISES:
            draw = functools.partial(_plain, name, budget, (x, y))
            cases += _trials((name, "dense", str(budget)), draw, ESTIMATORS, truths, count)
    clips: tuple[Clip, ...] = ("equal", "scale")
    for clip in clips:
        rows, sums, numbers = _units(clip)
        means = _truths(*(total / number for total, number in zip(sums, numbers, strict=True)))
        of_means = {name: means[other] for name, other in zip(OF_MEANS, list(ESTIMATORS)[:2], strict=True)}
        draw = functools.partial(_clipped, rows, clip)
        setting = "SJLT, s = 4", f"units, {clip}", "gaussian, ε = 1, δ = 1e-06"
        cases += _trials(setting, draw, ESTIMATORS | OF_MEANS, _truths(*sums) | of_means, count)
    return Study(
        [
            Table(
                f"A raw sketch beside a release, k = {CELLS}, {count} projections and noises each",
                (
                    *("map", "data", "noise", "quantity", "bias in its standard errors"),
                    *("root mean square error / truth", "stated / observed error"),
                    *intervals.COLUMNS,
                    *("mean square error / that of two releases", "noise variance / that of two releases"),
                ),
                [(*case[:7], *case.covered, *case[8:]) for case in cases],
            )
        ],
        _finding(cases),
        {"saved": _picture(cases)},
        checks=_checks(cases, count),
    )


def _plain(
    name: str, budget: trials.Budget, vectors: tuple[Any, Any], seed: int
) -> tuple[ss.Sketch, ss.PrivateSketch, ss.PrivateSketch]:
    projection = trials.MAPS[name](dim=DIM, sketch_dim=DIM if name == "Identity" else CELLS, seed=seed)
    both = np.stack(vectors)
    states = projection.transform(both, exact=True)
    own, other = (
        ss.Sketch.from_state(projection, state, int(np.abs(vector).sum() / projection.grid))
        for state, vector in zip(states, both, strict=True)
    )
    publisher = budget.publisher(projection)
    bits = trials.keyed(f"own {projection} {budget} {seed}".encode())
    return own, publisher.for_data(own).draw(bits), publisher.for_data(other).draw(bits)


def _units(clip: Clip) -> tuple[tuple[Any, ...], tuple[Floats, Floats], tuple[int, int]]:
    """Return rows of units of two keys, the sums of exactly clipped units, and the numbers of units."""
    rng = np.random.default_rng(20220518)
    popular = 1.0 / (np.arange(DIM) + 3.0)
    rows, sums = [], np.zeros((2, DIM))
    for key in range(2):
        shares = popular * np.exp(rng.standard_normal(DIM))
        for unit in range(UNITS):
            bought = np.unique(rng.choice(DIM, rng.integers(1, 60), p=shares / shares.sum()))
            sums[key, bought] += trials.clip_weights(np.sqrt([bought.size]), BOUND, clip)
            rows.append((np.full(bought.size, key), bought, np.full(bought.size, key * UNITS + unit)))
    keys, items, units = (np.concatenate([row[place] for row in rows]) for place in range(3))
    return (keys, items, np.ones_like(items), units), (sums[0], sums[1]), (UNITS, UNITS)


def _clipped(rows: tuple[Any, ...], clip: Clip, seed: int) -> tuple[ss.Sketch, ss.PrivateSketch, ss.PrivateSketch]:
    neighbours = ss.SketchL2(BOUND, unit="customer", max_keys=1)
    projection = ss.SJLT(dim=DIM, sketch_dim=CELLS, sparsity=4, seed=seed, resolution="1/4096")
    table = bound_units([rows], projection, neighbours=neighbours, clip=clip)
    counting = ss.privacy.Counting.of(projection, neighbours, delta=1e-6)
    publisher = AdditiveNoise(epsilon=1.0, delta=1e-6, neighbours=neighbours, counting=counting).calibrated(projection)
    bits = trials.keyed(f"own {projection} {clip} {seed}".encode())
    return table[0], publisher.for_data(table[0]).draw(bits), publisher.for_data(table[1]).draw(bits)


def _truths(x: Floats, y: Floats) -> dict[str, float]:
    inner, cosine = float(x @ y), float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    return dict(zip(ESTIMATORS, (float((x - y) @ (x - y)), inner, cosine, 2 - 2 * cosine), strict=True))


def _trials(
    setting: tuple[str, str, str],
    draw: Draw,
    estimators: dict[str, Callable[..., ss.estimation.Estimate]],
    truths: dict[str, float],
    count: int,
) -> list[Case]:
    own: dict[str, list[ss.estimation.Estimate]] = {name: [] for name in estimators}
    public: dict[str, list[ss.estimation.Estimate]] = {name: [] for name in estimators}
    for seed in range(count):
        raw, mine, theirs = draw(seed)
        for name, estimator in estimators.items():
            for estimates, side in ((own[name], raw), (public[name], mine)):
                try:
                    estimates.append(estimator(side, theirs))
                except ss.InvalidInputError:  # a stream below the noise floor
                    continue
    least = (1 - _MOST_REFUSED) * count  # of estimates: those that pass by chance are no sample
    return [
        _case((*setting, name), own[name], public[name], truths[name])
        for name in estimators
        if min(len(own[name]), len(public[name])) > least
    ]


def _case(
    setting: tuple[str, str, str, str],
    own: list[ss.estimation.Estimate],
    public: list[ss.estimation.Estimate],
    truth: float,
) -> Case:
    summary, of_two = (intervals.of_values(side, truth) for side in (own, public))
    noise, noise_of_two = (float(np.mean([each.noise_variance for each in side])) for side in (own, public))
    return Case(
        *setting,
        summary.bias,
        summary.error / abs(truth),
        summary.stated / summary.error if summary.error else 1.0,
        summary.covered,
        (summary.error / of_two.error) ** 2 if of_two.error else 1.0,
        noise / noise_of_two if noise_of_two else 1.0,
    )


def _checks(cases: list[Case], count: int) -> list[Check]:
    ratio = ("cosine", "profile distance")
    unbiased = [case for case in cases if case.quantity not in ratio and case.data == "dense"]
    most = max((case.noise_saved for case in cases if case.quantity == "squared distance"), default=0.5)
    return [
        Check(
            "estimates are unbiased; the largest bias in standard errors",
            max(abs(case.bias) for case in unbiased),
            0.0,
            trials.simultaneous_z(len(unbiased)),
        ),
        Check("of a distance's noise at most half is left", most, 0.0, 0.51),
        intervals.least("95 % intervals cover; the least share", cases, 0.95 - _FEW_CELLS, count),
    ]


def _finding(cases: list[Case]) -> str:
    saved = {
        quantity: [case for case in cases if case.quantity == quantity]
        for quantity in dict.fromkeys(case.quantity for case in cases)
    }
    said = "; ".join(
        f"{quantity}: {min(case.saved for case in own):.2f} to {max(case.saved for case in own):.2f}, of the noise's "
        f"stated variance {min(case.noise_saved for case in own):.2f} to {max(case.noise_saved for case in own):.2f}"
        for quantity, own in saved.items()
    )
    return (
        f"With one's own raw sketch on one side, the mean square error is so much of that of two releases: {said}. "
        f"Intervals cover: {intervals.ranges(cases)}."
    )


def _picture(cases: list[Case]) -> Figure:
    quantities = list(dict.fromkeys(case.quantity for case in cases))
    settings = list(dict.fromkeys(f"{case.map}; {case.data}; {case.noise}" for case in cases))
    figure, axes = palette.panels(1, 2, width=5.2, height=0.6 + 0.22 * len(settings), sharey=True)
    titles = "mean square error / that of two releases", "share of 95 % intervals that hold the truth"
    for side, (panel, title) in enumerate(zip(axes[0], titles, strict=True)):
        for place, quantity in enumerate(quantities):
            own = [case for case in cases if case.quantity == quantity]
            panel.plot(
                [case.covered[2] if side else case.saved for case in own],
                [settings.index(f"{case.map}; {case.data}; {case.noise}") for case in own],
                linestyle="",
                marker=palette.MARKERS[place],
                markersize=5,
                color=palette.COLOURS[place],
                label=quantity,
            )
        panel.set_yticks(range(len(settings)), settings)
        panel.set_xlabel(title)
    axes[0][0].invert_yaxis()
    palette.legend_below(figure, axes[0][0])
    return figure
