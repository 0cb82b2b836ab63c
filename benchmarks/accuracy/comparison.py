"""Stausholm 2021, Section 7: SJLT, three private FJLTs and KKMM's Gaussian map, by variance and by time.

The variance of a squared distance over many maps and noises, beside its prediction, for a δ above e^(-s) and one
below. KKMM's own noise is drawn in floating point, as the paper has it: with the σ of its Theorem 1 at the exact
sensitivity of the matrix, and with that of Theorem 2, which trusts the sensitivity to be at most 2. Then the time to
sketch one vector, dense or sparse, and to find the sensitivity, by dim.

How it misleads: times are those of this library's code for one vector, where calls cost as much as sums do; KKMM's
map is a dense BLAS product, on BLAS' threads, with a matrix that is in memory already. Values are on a grid of 1/16, so
that the lattice adds nothing to Gaussian noise.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks import palette, sigmas, trials
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.timing import Work, interleave
from benchmarks.verdicts import Check
from streamsketch.estimation.noise_effect import effect_of, noise_unit
from streamsketch.privacy.mechanism import NoisePlace

DIM, CELLS, SPARSITY, EPSILON = 256, 64, 8, 1.0
DELTAS = (1e-2, 1e-9)
_TIMED_CELLS, _NONZEROS = 256, 20
_KKMM1, _KKMM2 = "KKMM, Theorem 1's σ", "KKMM, Theorem 2's σ"

Floats = NDArray[np.float64]
Draw = Callable[[int], tuple[float, float]]
"""From a seed, an estimate and the variance predicted for it."""


@dataclass(frozen=True)
class Method(trials.Errors):
    """One of the methods compared, and its errors."""

    name: str
    delta: float
    truth: float
    values: Floats
    predicted: float

    @property
    def bias(self) -> float:
        """The mean error, in its standard errors."""
        return float((self.values.mean() - self.truth) / (self.values.std() or math.inf)) * math.sqrt(self.values.size)


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Measure variances and times."""
    methods = _variances(effort)
    first = methods[0].predicted
    times = _times(effort)
    return Study(
        [
            Table(
                f"Standard error of a squared distance of {methods[0].truth:,.0f}: d = {DIM}, k = {CELLS}, "
                f"s = {SPARSITY}, ε = {EPSILON:g}",
                (
                    "method",
                    "δ",
                    "predicted",
                    "observed",
                    "observed / predicted",
                    "± (rel.)",
                    "predicted over SJLT, Laplace",
                ),
                [
                    (
                        *(
                            method.name,
                            method.delta or None,
                            method.predicted,
                            method.observed,
                            method.observed / method.predicted,
                        ),
                        *(method.uncertainty, method.predicted / first),
                    )
                    for method in methods
                ],
            ),
            Table(
                f"µs to sketch one vector, without noise, k = {_TIMED_CELLS}, s = {SPARSITY}; to find the sensitivity",
                ("dim", "map", "dense", f"{_NONZEROS} nonzeros", "sensitivity"),
                [(dim, name, *(1e6 * value for value in row)) for (dim, name), row in times.items()],
            ),
        ],
        _finding(methods, times),
        {"errors": _error_picture(methods), "times": _time_picture(times)},
        source="Stausholm 2021, Section 7, at one size",
        checks=_checks(methods, times),
    )


# --- variance ---------------------------------------------------------------------------------------------------


def _variances(effort: Effort) -> list[Method]:
    pair = trials.pair_of("dense", DIM, 3.0)
    z = (pair[0] - pair[1]).astype(np.float64)
    shape: dict[str, Any] = {"dim": DIM, "sketch_dim": CELLS, "resolution": "1/16"}
    sjlt = functools.partial(ss.SJLT, sparsity=SPARSITY, **shape)
    fjlt, gaussian = (
        functools.partial(ss.projections.FJLT, **shape),
        functools.partial(ss.projections.GaussianProjection, **shape),
    )
    draws: list[tuple[str, float, Draw]] = [
        ("SJLT, Laplace", 0.0, functools.partial(library_estimate, sjlt, pair, ("laplace", 0.0, "output")))
    ]
    places: dict[str, tuple[Callable[..., ss.projections.Projection], NoisePlace]] = {
        "SJLT, Gaussian": (sjlt, "output"),
        "FJLT, noise on the output": (fjlt, "output"),
        "FJLT, noise on the input": (fjlt, "input"),
        "FJLT, after the Hadamard": (fjlt, "hadamard"),
        "iid Gaussian, exact σ": (gaussian, "output"),
    }
    for delta in DELTAS:
        for name, (build, place) in places.items():
            draws.append((name, delta, functools.partial(library_estimate, build, pair, ("gaussian", delta, place))))
        draws.append((_KKMM1, delta, functools.partial(kkmm_estimate, z, (EPSILON, delta), exact=True)))
        draws.append((_KKMM2, delta, functools.partial(kkmm_estimate, z, (EPSILON, delta), exact=False)))
    count = effort.size(1000, 3)
    methods = []
    for name, delta, draw in draws[: effort.size(150, 4)]:
        pairs = np.array([draw(seed) for seed in range(count)])
        methods.append(Method(name, delta, float(z @ z), pairs[:, 0], math.sqrt(pairs[:, 1].mean())))
    return methods


def library_estimate(
    build: Callable[..., ss.projections.Projection],
    pair: tuple[trials.Ints, trials.Ints],
    how: tuple[str, float, NoisePlace],
    seed: int,
) -> tuple[float, float]:
    """Return the squared distance of a pair's releases at `EPSILON` and `trials.NEIGHBOURS`, and its exact variance.

    Parameters
    ----------
    build
        A map from its seed.
    pair
        The vectors: int64, (dim,).
    how
        Mechanism, δ and place of the noise.
    """
    mechanism, delta, place = how
    projection, z = build(seed=seed), pair[0] - pair[1]
    x, y = (
        ss.release.release_vector(
            *(projection, vector),
            epsilon=EPSILON,
            delta=delta,
            neighbours=trials.NEIGHBOURS,
            mechanism=mechanism,
            noise_place=place,
        )
        for vector in pair
    )
    both = x.noise.scaled(noise_unit(projection, place)).times(2)
    norm = float(z @ z)
    noise = effect_of(projection, place).squared_norm_variance(norm, both.k2, both.k4)
    own = projection.variance.of_squared_norm(norm, float((z**4).sum()))
    return ss.squared_distance(x, y).value, own + noise


def kkmm_estimate(z: Floats, budget: tuple[float, float], seed: int, *, exact: bool) -> tuple[float, float]:
    """Return KKMM's estimate of ‖z‖² with a matrix and noise of its own, and the variance of its Theorem 2.

    ‖Pz + η - μ‖² - 2kσ², with entries of P of variance 1/k; 2/k·‖z‖⁴ + 8σ²‖z‖² + 8kσ⁴.

    Parameters
    ----------
    z
        The difference of the vectors: float64, (dim,).
    budget
        ε and δ.
    exact
        Whether σ is Theorem 1's times the matrix's ℓ2 sensitivity, or that of Theorem 2, whatever the matrix.
    """
    rng = np.random.default_rng(seed)
    matrix = rng.normal(0, 1 / math.sqrt(CELLS), (CELLS, z.size))
    sensitivity = float(np.linalg.norm(matrix, axis=0).max())
    sigma = sensitivity * sigmas.kkmm(*budget) if exact else sigmas.kkmm_any_matrix(*budget)
    cells = matrix @ z + rng.normal(0, sigma, CELLS) - rng.normal(0, sigma, CELLS)
    norm = float(z @ z)
    variance = 2 / CELLS * norm**2 + 8 * sigma**2 * norm + 8 * CELLS * sigma**4
    return float(cells @ cells) - 2 * CELLS * sigma**2, variance


# --- time -------------------------------------------------------------------------------------------------------

Times = dict[tuple[int, str], tuple[float, float, float]]


def _times(effort: Effort) -> Times:
    times: Times = {}
    for dim in (1 << 10, 1 << 12, 1 << 14)[: effort.size(30, 1)]:
        rng = np.random.default_rng(dim)
        vector, places = rng.integers(-9, 10, dim), rng.choice(dim, _NONZEROS, replace=False)
        shape: dict[str, Any] = {"dim": dim, "sketch_dim": _TIMED_CELLS}
        builds: dict[str, Callable[..., ss.projections.Projection]] = {
            f"SJLT, s = {SPARSITY}": functools.partial(ss.SJLT, sparsity=SPARSITY, **shape),
            "FJLT": functools.partial(ss.projections.FJLT, **shape),
            "iid Gaussian": functools.partial(ss.projections.GaussianProjection, **shape),
        }
        matrix, floats = rng.normal(size=(_TIMED_CELLS, dim)), vector.astype(np.float64)
        works: tuple[dict[str, Work], ...] = ({}, {}, {})
        for name, build in builds.items():
            projection, seeds = build(seed=1), itertools.count(2)
            works[0][name] = Work(functools.partial(projection.transform, vector[np.newaxis], exact=True))
            works[1][name] = Work(functools.partial(_update, projection, places, vector[places]))
            works[2][name] = Work(functools.partial(_sensitivity, build, seeds))
        # just before the slowest: BLAS' threads spin for a while after their work
        dense = {"KKMM": Work(functools.partial(np.matmul, matrix, floats))}
        works[0].update(dense | {"iid Gaussian": works[0].pop("iid Gaussian")})
        works[1]["KKMM"] = Work(functools.partial(_some_columns, matrix, places, floats[places]))
        works[2]["KKMM"] = Work(functools.partial(np.linalg.norm, matrix, axis=0))
        timings = [interleave(contenders, min(effort.rounds, 9), sample=effort.sample / 4) for contenders in works]
        for name in (*builds, "KKMM"):
            times[dim, name] = (timings[0].median(name), timings[1].median(name), timings[2].median(name))
    return times


def _some_columns(matrix: Floats, places: trials.Ints, values: Floats) -> Floats:
    cells: Floats = matrix[:, places] @ values
    return cells


def _update(projection: ss.projections.Projection, places: trials.Ints, values: trials.Ints) -> None:
    projection.sketch().update(places, values)


def _sensitivity(build: Callable[..., ss.projections.Projection], seeds: "itertools.count[int]") -> int:
    return build(seed=next(seeds)).l2_sensitivity_squared


# --- what was found ---------------------------------------------------------------------------------------------


def _checks(methods: Sequence[Method], times: Times) -> list[Check]:
    by = {(method.name, method.delta): method for method in methods}
    sjlt, above, below = f"SJLT, s = {SPARSITY}", *DELTAS
    checks = [
        trials.as_predicted(
            "Theorem 2, Lemmas 3 and 8: the estimators are unbiased", [method.bias for method in methods]
        ),
        trials.as_predicted("Theorem 2, Lemmas 3 and 8: their variances", [method.deviation for method in methods]),
    ]
    if (_KKMM1, below) in by:
        laplace = methods[0]
        checks += [
            _variances_compared(
                f"Section 7: below δ = e^(-{SPARSITY}), Laplace noise on the SJLT has less variance than KKMM",
                *(by[_KKMM1, below], laplace, 1.0, math.inf),
            ),
            _variances_compared(
                f"Section 1.2: above δ = e^(-{SPARSITY}), it need not have",
                *(by[_KKMM1, above], laplace, 0.0, 1.0),
            ),
        ]
        checks += [
            Check(
                "Section 6.2.3: with Gaussian noise the SJLT has the same variance as KKMM, to 10 %; predicted ratio",
                (by["SJLT, Gaussian", delta].predicted / by["iid Gaussian, exact σ", delta].predicted) ** 2,
                *(0.9, 1.1),
                data=f"δ = {delta:g}",
            )
            for delta in DELTAS
        ]
    dims = sorted({dim for dim, _ in times})
    last = dims[-1]
    checks += [
        Check(
            "Section 7: the FJLT is faster than the SJLT on dense vectors for some d; ratio of times",
            min(times[dim, "FJLT"][0] / times[dim, sjlt][0] for dim in dims),
            *(0.0, 1.0),
            data=f"d = {dims[0]:,} to {last:,}",
        ),
        Check(
            "Section 1.2: the SJLT saves the O(dk) that KKMM take to find the sensitivity; ratio of times",
            times[last, sjlt][2] / times[last, "KKMM"][2],
            *(0.0, 0.1),
            data=f"d = {last:,}",
        ),
    ]
    return checks


def _variances_compared(claim: str, first: Method, second: Method, low: float, high: float) -> Check:
    """Return the check of the first variance over the second, both as observed."""
    ratio = (first.observed / second.observed) ** 2
    error = 1.96 * 2 * ratio * math.hypot(first.uncertainty, second.uncertainty)
    delta = first.delta or second.delta
    return Check(f"{claim}; ratio of variances", ratio, low, high, error=error, data=f"δ = {delta:g}")


def _finding(methods: Sequence[Method], times: Times) -> str:
    ratios = [method.observed / method.predicted for method in methods]
    parts = [
        f"Observed over predicted errors are {min(ratios):.3f} to {max(ratios):.3f} over {len(methods)} settings.",
        "What follows compares predictions.",
    ]
    by = {(method.name, method.delta): method.predicted for method in methods}
    base = methods[0].predicted
    full = len(methods) == 1 + 7 * len(DELTAS)
    if full:
        parts += [_claim(by, base, delta) for delta in DELTAS]
        low = DELTAS[1]
        forms = [by[name, low] for name in ("FJLT, noise on the input", "FJLT, after the Hadamard")]
        output, exact = by["FJLT, noise on the output", low], by["iid Gaussian, exact σ", low]
        parts.append(
            f"At δ = {low:g} the FJLT's noise on the input costs {forms[0] / output:.1f} times the error of noise on "
            f"the output, and after the Hadamard step {forms[1] / output:.1f} times: the factor d of Lemma 8. KKMM's "
            f"Theorem 2 trusts any matrix and pays {by[_KKMM2, low] / exact:.1f} times the error of exact calibration, "
            f"its Theorem 1 {by[_KKMM1, low] / exact:.1f} times. A Gaussian "
            "matrix's sensitivity is above the SJLT's 1, so with Gaussian noise the two differ."
        )
    dims = sorted({dim for dim, _ in times})
    faster = [dim for dim in dims if times[dim, "FJLT"][0] < times[dim, f"SJLT, s = {SPARSITY}"][0]]
    last = dims[-1]
    sjlt, fjlt, iid = (times[last, name] for name in (f"SJLT, s = {SPARSITY}", "FJLT", "iid Gaussian"))
    micro = [[1e6 * value for value in row] for row in (sjlt, fjlt, iid)]
    place = f"at d = {', '.join(map(str, faster))}" if faster else f"at no d from {dims[0]} to {last}"
    speed = (
        "The paper finds its FJLT faster than the SJLT on dense vectors for d between ln²(1/β)/α and β^(-1/α). Here it "
        f"is so {place}; at d = {last:,} the SJLT takes {micro[0][0]:,.0f} µs and the FJLT {micro[1][0]:,.0f} µs. On "
        f"{_NONZEROS} nonzeros it is {micro[0][1]:,.0f} against {micro[1][1]:,.0f} µs. The sensitivity, known for an "
        f"SJLT, takes {micro[1][2] / 1e3:,.0f} ms for the FJLT and {micro[2][2] / 1e3:,.0f} ms for iid Gaussian "
        "entries that are rebuilt from a seed."
    )
    return f"{' '.join(parts)}\n\n{speed}"


def _claim(by: dict[tuple[str, float], float], base: float, delta: float) -> str:
    """Return what the paper says of this δ, and the errors there."""
    best = min((value, name) for (name, at), value in by.items() if at in (delta, 0.0))
    side, says = ("below", "Laplace on the SJLT") if delta < math.exp(-SPARSITY) else ("above", "KKMM")
    return (
        f"At δ = {delta:g}, {side} e^(-{SPARSITY}), where the paper has {says} as the better one, KKMM's error with "
        f"Theorem 1's σ is {by[_KKMM1, delta] / base:.2f} times that of Laplace noise on the SJLT; with Gaussian noise "
        f"the SJLT's is {by['SJLT, Gaussian', delta] / base:.2f} times, and the least is that of {best[1]}."
    )


def _error_picture(methods: Sequence[Method]) -> Figure:
    names = list(dict.fromkeys(method.name for method in methods))
    figure, ((panel,),) = palette.panels(1, 1, width=8.6, height=4.6)
    allowed = trials.simultaneous_z(len(methods))
    for place, delta in enumerate((0.0, *DELTAS)):
        own = [method for method in methods if method.delta == delta]
        rows = np.array([names.index(method.name) + 0.16 * (place - 1.5) for method in own])
        label = f"δ = {delta:g}" if delta else "δ = 0"
        errors = [allowed * method.observed * method.uncertainty for method in own]
        panel.errorbar([method.observed for method in own], rows, xerr=errors, **palette.points(place), label=label)
        panel.plot([method.predicted for method in own], rows, "|", color=palette.BLACK, ms=14)
    panel.plot([], [], "|", color=palette.BLACK, ms=12, label="predicted")
    panel.set_yticks(range(len(names)), names)
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.set_xlabel(f"standard error of a squared distance of {methods[0].truth:,.0f}")
    panel.set_title(
        f"Stausholm 2021, Section 7: d = {DIM}, k = {CELLS}, s = {SPARSITY}, ε = {EPSILON:g}", loc="left", fontsize=10
    )
    palette.legend_below(figure, panel)
    return figure


def _time_picture(times: Times) -> Figure:
    dims, names = sorted({dim for dim, _ in times}), list(dict.fromkeys(name for _, name in times))
    titles = ("a dense vector", f"{_NONZEROS} nonzeros", "to find the sensitivity")
    figure, axes = palette.panels(1, len(titles), width=4.4, height=3.8)
    for what, (panel, title) in enumerate(zip(axes[0], titles, strict=True)):
        for place, name in enumerate(names):
            line = [1e6 * times[dim, name][what] for dim in dims]
            panel.plot(dims, line, color=palette.COLOURS[place], marker=palette.MARKERS[place], label=name)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel("d")
        panel.set_ylabel("µs")
        panel.set_title(title, loc="left", fontsize=10)
    palette.legend_below(figure, axes[0][0])
    figure.suptitle(f"Time for one sketch without noise, k = {_TIMED_CELLS}", fontsize=11)
    return figure
