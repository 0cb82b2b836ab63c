"""What the paper says of retrieval and classification, as checks of methods on the same queries or test rows."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures.ll.publishing import INDIVIDUAL, NOISE, OPT, RAW, SIGNS
from benchmarks.verdicts import Check

RAW_SIGNS, RAW_BINS = "iDP-SignRP-RR", "iDP-SignOPORP"
SMOOTH, BINS, DENSE = "DP-SignOPORP-RR-smooth", "DP-OPORP", "DP-RP-G-OPT-B"
_EQUAL = 0.05  # of precision or accuracy: what a plot from 0 to 1 shows as one curve
_LEVEL = 0.02  # of a mean over ε
_HIGH = 0.85  # of what is reached without privacy
_SMALL, _MIDDLE = 0.1, (5.0, 10.0)


class Point(Protocol):
    """What a method reached at an ε, on each query or test row."""

    @property
    def method(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def epsilon(self) -> float: ...  # noqa: D102
    @property
    def scores(self) -> NDArray[np.float64]: ...  # noqa: D102


@dataclass(frozen=True)
class Gap:
    """How far one method is above another, on average over the same queries, and its 95 % half-width."""

    mean: float
    error: float

    @classmethod
    def of(cls, scores: NDArray[np.float64], others: NDArray[np.float64]) -> "Gap":
        """Return the gap of paired scores."""
        gaps = scores - others
        return cls(float(gaps.mean()), 1.96 * float(gaps.std(ddof=1)) / math.sqrt(gaps.size))


def checks(points: Iterable[Point], data: str, public: float) -> list[Check]:
    """Return the paper's statements about one data set's points; ``public`` is reached without privacy."""
    at: Mapping[tuple[str, float], Point] = {(point.method, point.epsilon): point for point in points}
    epsilons = sorted({epsilon for _, epsilon in at})
    kinds = {method: point.kind for (method, _), point in at.items()}

    def gap(method: str, other: str, epsilon: float) -> Gap:
        return Gap.of(at[method, epsilon].scores, at[other, epsilon].scores)

    def mean(method: str, other: str) -> Gap:
        ours, others = (np.mean([at[name, epsilon].scores for epsilon in epsilons], axis=0) for name in (method, other))
        return Gap.of(ours, others)

    def check(claim: str, measured: Gap, low: float, high: float, where: str = "over ε") -> Check:
        return Check(claim, measured.mean, low, high, measured.error, data=f"{data}, {where}")

    curve = [at[RAW_SIGNS, epsilon].scores for epsilon in epsilons]
    span = Gap.of(max(curve, key=np.mean), min(curve, key=np.mean))
    result = [check(f"{RAW_SIGNS} is almost flat in ε (A.4): highest less lowest", span, -math.inf, _EQUAL)]
    low = [epsilon for epsilon in epsilons if epsilon < _SMALL]
    if low:
        first = at[RAW_SIGNS, low[0]].scores / public
        reached = Gap.of(first, np.zeros_like(first))
        claim = f"{RAW_SIGNS} has very high utility even at ε < 0.1 (A.4): share of that without privacy"
        result.append(check(claim, reached, _HIGH, math.inf, f"ε = {low[0]:g}"))
    worse = [method for method, kind in kinds.items() if kind == INDIVIDUAL and method.startswith(RAW_BINS)]
    for method in worse:
        other = RAW_SIGNS if method == RAW_BINS else "iDP-SignRP-G"
        claim = f"{method} is considerably worse than {other} (A.3): mean difference"
        result.append(check(claim, mean(other, method), _EQUAL, math.inf))
    claim = f"{DENSE} and {BINS} perform equally (D): mean difference"
    result.append(check(claim, mean(DENSE, BINS), -_EQUAL, _EQUAL))
    for other in (OPT, "DP-RP-G"):
        claim = f"{BINS} is the best of the DP-RP family (D): mean difference to {other}"
        result.append(check(claim, mean(BINS, other), -_LEVEL, math.inf))
    most = max((gap(BINS, RAW, epsilon) for epsilon in epsilons), key=lambda difference: difference.mean)
    claim = f"{BINS} is significantly better than {RAW} (D): largest difference"
    result.append(check(claim, most, _EQUAL, math.inf))
    for epsilon in (epsilon for epsilon in _MIDDLE if epsilon in epsilons):
        for family, kind in (("SignRP", SIGNS), ("RP", NOISE)):
            others = [
                method
                for method, own in kinds.items()
                if own == kind and "OPORP" not in method.replace(BINS, "") and method != RAW
            ]
            best = max(others, key=lambda method: at[method, epsilon].scores.mean())
            claim = f"{SMOOTH} outperforms DP variants based on {family} at ε = {epsilon:g} (abstract): less {best}"
            result.append(check(claim, gap(SMOOTH, best, epsilon), 0, math.inf, f"ε = {epsilon:g}"))
    return result
