"""What the figures share: mechanisms and their colours, the paper's vectors, measured errors, words for verdicts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray
from scipy import stats

from benchmarks import palette
from streamsketch.local import (
    SQKR,
    CompPrivUnitG,
    MeanAggregator,
    Mechanism,
    PrivHS,
    PrivUnit,
    PrivUnitG,
    ProjUnit,
    RePrivHS,
)
from streamsketch.privacy.samplers import KeyedBits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """A mechanism as a line of a picture, the same colour and marker in every figure.

    Parameters
    ----------
    name
        The paper's.
    build
        (d, ε, k) → mechanism; most have no k.
    colour, marker
        Okabe and Ito's palette, which the colour-blind tell apart, a brown for its yellow; markers do it in grey.
    """

    name: str
    build: Callable[[int, float, int], Mechanism]
    colour: str
    marker: str


PRIV_UNIT = Line("PrivUnit", lambda d, epsilon, _: PrivUnit(dim=d, epsilon=epsilon), palette.BLACK, "*")
PRIV_UNIT_G = Line("PrivUnitG", lambda d, epsilon, _: PrivUnitG(dim=d, epsilon=epsilon), palette.BLACK, "o")
PROJ_UNIT = Line(
    "ProjUnit",
    lambda d, epsilon, k: ProjUnit(dim=d, epsilon=epsilon, sketch_dim=k, rotation="haar"),
    palette.ORANGE,
    "s",
)
PROJ_UNIT_CORR = Line("ProjUnit-corr", PROJ_UNIT.build, "#7F6000", "D")  # its rotation is shared by `haar`
FAST = Line("FastProjUnit", lambda d, epsilon, k: ProjUnit(dim=d, epsilon=epsilon, sketch_dim=k), palette.BLUE, "^")
FAST_CORR = Line(
    "FastProjUnit-corr",
    lambda d, epsilon, k: ProjUnit(dim=d, epsilon=epsilon, sketch_dim=k, shared=True),
    palette.SKY,
    "v",
)
FAST_COMP = Line(
    "FastProjUnit-corr, compressed",
    lambda d, epsilon, k: ProjUnit(dim=d, epsilon=epsilon, sketch_dim=k, shared=True, compressed=True),
    "#999999",
    "h",
)
COMP = Line("CompPrivUnitG", lambda d, epsilon, _: CompPrivUnitG(dim=d, epsilon=epsilon), "#999999", "P")
SQKR_LINE = Line("SQKR", lambda d, epsilon, _: SQKR(dim=d, epsilon=epsilon, rotation="hadamard"), palette.GREEN, "X")
RE_PRIV_HS = Line("RePrivHS", lambda d, epsilon, _: RePrivHS(dim=d, epsilon=epsilon), palette.PURPLE, "<")
PRIV_HS = Line("PrivHS", lambda d, epsilon, _: PrivHS(dim=d, epsilon=epsilon), palette.RED, ">")


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, and what theory expects of it.

    Parameters
    ----------
    mean
        Over the runs.
    half
        Half of its 90 % interval, by Student's t.
    runs
        How many.
    expected
        What theory says.
    """

    mean: float
    half: float
    runs: int
    expected: float

    @classmethod
    def of(cls, values: Floats, expected: float) -> "Estimate":
        """Return the estimate from two runs or more."""
        half = float(stats.t.ppf(0.95, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
        return cls(float(values.mean()), half, values.size, expected)

    @property
    def half_95(self) -> float:
        """Half of the 95 % interval."""
        return self.half * float(stats.t.ppf(0.975, self.runs - 1) / stats.t.ppf(0.95, self.runs - 1))

    @property
    def covers(self) -> bool:
        """Whether the 90 % interval holds what theory expects."""
        return abs(self.mean - self.expected) <= self.half

    @property
    def chance(self) -> float:
        """How likely a deviation as large is, by Student's t."""
        degrees = self.runs - 1
        error = self.half / float(stats.t.ppf(0.95, degrees))
        return 2 * float(stats.t.sf(abs(self.mean - self.expected) / error, degrees))


def power_of_two(size: int) -> int:
    """Return the largest power of two that is at most ``size``."""
    return 1 << (size.bit_length() - 1)


def synthetic(people: int, dim: int, rng: np.random.Generator) -> Floats:
    """Return the paper's vectors, (people, dim): N(μ, I/d) at length 1, μ a random unit vector."""
    centre = rng.normal(size=dim)
    vectors = centre / np.linalg.norm(centre) + rng.normal(size=(people, dim)) / np.sqrt(dim)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def squared_errors(mechanism: Mechanism, people: int, runs: int, seed: int) -> Floats:
    """Return ‖mean of the reports - mean of the vectors‖² of each run, with fresh vectors and fresh reports: (runs,).

    A function of its arguments: secret bits come from the seed too, which only a benchmark may do.
    """
    rng = np.random.default_rng(seed)
    bits = KeyedBits(seed.to_bytes(32, "little"), bytes.fromhex(mechanism.fingerprint))
    errors = np.empty(runs)
    for run in range(runs):
        vectors = synthetic(people, mechanism.dim, rng)
        server = MeanAggregator(mechanism)
        server.add(mechanism.randomize_many(vectors, bits=bits))
        errors[run] = ((server.mean() - vectors.mean(axis=0)) ** 2).sum()
    return errors


def against_theory(estimates: Sequence[Estimate]) -> str:
    """Return a sentence on how far measured means are from what theory expects."""
    inside = sum(estimate.covers for estimate in estimates)
    furthest = max(abs(estimate.mean / estimate.expected - 1) for estimate in estimates)
    text = (
        f"{inside} of {len(estimates)} measured means have the closed form of `expected_squared_error` in their 90 % "
        f"interval; the furthest is {100 * furthest:.1f} % off"
    )
    rare = [estimate for estimate in estimates if estimate.chance * len(estimates) < 1e-3]
    if not rare:
        return f"{text}, all as chance has it."
    off = max(abs(estimate.mean / estimate.expected - 1) for estimate in rare)
    reason = (
        "a few runs of a law as skewed as PrivHS's have too short an interval"
        if off < 0.005
        else "which is more than chance explains"
    )
    return (
        f"{text}. {len(rare)} are beyond what Student's t allows, by at most {100 * off:.2g} % of the error: {reason}."
    )


def listed(names: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent b of values ≈ a·size^b, by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def plain_ticks(axis: Axis, *, thin: bool = False) -> None:
    """Label a log axis with 1, 2, 5, 10, … or, ``thin``, with powers of ten alone."""
    axis.set_major_locator(LogLocator(subs=(1.0,) if thin else (1.0, 2.0, 5.0), numticks=99))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
