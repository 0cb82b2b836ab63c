"""Whether thousands of runs of a release function tell two neighbours apart better than it states.

Half of the runs choose events, by what they look like; the other half judge those alone, by exact binomial bounds. So
the stated chance of rejecting a right function holds whatever the outcomes are.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from streamsketch.auditing.laws import by_value
from streamsketch.core.libraries import scipy_special
from streamsketch.core.numbers import Floats, check_int
from streamsketch.errors import InvalidInputError

Bools: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Computed = TypeVar("Computed")

_JUDGED = 16
"""Events that are judged, each way round: more cost confidence."""
_TAILS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)
_BINS = 64
_CELLS = 8
"""Numbers of an outcome that are looked at alone."""


class Event(NamedTuple):
    """A set of outcomes."""

    name: str
    holds: Callable[[Sequence[Any]], Bools]
    """Which of several outcomes are in it: (n,), bool."""


class Verdict(NamedTuple):
    """What a game showed."""

    epsilon: float
    """The ε that was stated, in nats."""
    delta: float
    """The δ that was stated."""
    loss: float
    """With this δ, ε is at least so large, but for a chance of `false_rejects`; 0 if nothing was seen."""
    event: str
    """The outcomes that tell most."""
    wins: tuple[int, int]
    """How many of the judged runs had such an outcome, with the data that make it likelier and with the other."""
    runs: int
    """How many runs of each data set were judged."""
    false_rejects: float
    """The largest chance with which a right function is rejected."""

    @property
    def holds(self) -> bool:
        """Whether the runs do not contradict (ε, δ). It proves nothing: other data or more runs may."""
        return self.loss <= self.epsilon

    def __str__(self) -> str:
        stated = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")
        shown = f"at least {self.loss:.3g}: {self.event} in {self.wins[0]:,} and {self.wins[1]:,} of {self.runs:,} runs"
        return f"{stated} is {'not contradicted' if self.holds else 'wrong'}: ε is {shown}"


def play(
    release: Callable[[Any], Any],
    first: object,
    second: object,
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 20_000,
    false_rejects: float = 1e-6,
    view: Callable[[Any], Any] | None = None,
) -> Verdict:
    """Run a release function on two neighbouring data sets, and look for an event that is likelier than (ε, δ) allows.

    Parameters
    ----------
    release
        Called with one of the data sets; draws its own randomness.
    first, second
        Data that differ by one unit, at its most extreme: the game sees no other difference.
    epsilon, delta
        What the function states.
    runs
        How often it runs on each data set. A loss much larger than ln(runs) cannot be seen.
    false_rejects
        The largest chance with which a right function is rejected.
    view
        What is looked at of each outcome; all of it by default. Numbers and arrays of one shape are also compared by
        size, by sums, by the direction in which both data sets differ, and by the last bits of floats.

    Returns
    -------
    Verdict

    Raises
    ------
    InvalidInputError
        If a parameter is out of range, or outcomes cannot be compared by value.

    Notes
    -----
    If P(event | one) > δ + e^ε P(event | other), the function is not (ε, δ)-private. Both chances have
    Clopper-Pearson bounds that hold together for all judged events.

    Examples
    --------
    A histogram that adds no noise to empty cells:

    >>> import secrets
    >>> def leaky(people):
    ...     return people + secrets.randbelow(9) - 4 if people else 0
    >>> verdict = play(leaky, 0, 1, epsilon=1.0, runs=500)
    >>> verdict.holds
    False
    """
    if not (epsilon >= 0 and 0 <= delta < 1):
        raise InvalidInputError(f"epsilon must be at least 0 and delta in [0, 1), got {epsilon} and {delta}")
    if not 0 < false_rejects < 1:
        raise InvalidInputError(f"false_rejects must be between 0 and 1, got {false_rejects}")
    half = check_int(runs, "runs", 100, 1 << 40) // 2
    outcomes: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(2 * half):  # by turns, so that nothing that drifts tells them apart
        for data, side in ((first, outcomes[0]), (second, outcomes[1])):
            outcome = release(data)
            side.append(outcome if view is None else view(outcome))
    looked, judged = [side[:half] for side in outcomes], [side[half:] for side in outcomes]
    candidates = []
    for event in _events(looked):
        wins = [int(event.holds(side).sum()) for side in looked]
        for i, j in ((0, 1), (1, 0)):  # by the loss that it promises
            candidates.append((_loss(wins[i], wins[j], half, delta, 1e-4), (i, j), event))
    candidates.sort(key=lambda candidate: -candidate[0])
    chosen = candidates[: 2 * _JUDGED]
    doubt = false_rejects / max(2 * len(chosen), 1)
    best = Verdict(epsilon, delta, 0.0, "no event", (0, 0), half, false_rejects)
    for _, (i, j), event in chosen:
        seen = int(event.holds(judged[i]).sum()), int(event.holds(judged[j]).sum())
        loss = _loss(*seen, half, delta, doubt)
        if loss > best.loss or best.event == "no event":
            best = best._replace(loss=max(loss, 0.0), event=event.name, wins=seen)
    return best


def _loss(wins: int, of_other: int, runs: int, delta: float, doubt: float) -> float:
    """Return a lower bound of ln((P - δ) / Q) that fails with a chance of at most 2 ``doubt``."""
    low = float(scipy_special.betaincinv(wins, runs - wins + 1, doubt)) if wins else 0.0
    high = 1 - float(scipy_special.betaincinv(runs - of_other, of_other + 1, doubt)) if of_other < runs else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf


def _events(looked: Sequence[Sequence[object]]) -> Iterator[Event]:
    """Yield the events by which both data sets may differ."""
    yield from _sets("the outcome", looked, by_value)
    yield from _sets("the length", looked, _length)
    arrays = [_numbers(side) for side in looked]
    if arrays[0] is None or arrays[1] is None or arrays[0].shape[1:] != arrays[1].shape[1:]:
        return
    width = arrays[0].shape[1]
    for name, score in _scores(arrays[0], arrays[1]):
        yield from _thresholds(name, looked, _Once(functools.partial(_scored, score, width)))


class _Once(Generic[Computed]):
    """What is computed of several runs' outcomes, once for each list of them: every event asks for it again."""

    def __init__(self, compute: Callable[[Sequence[Any]], Computed]) -> None:
        self._compute = compute
        self._sides: dict[int, tuple[Sequence[Any], Computed]] = {}

    def __call__(self, side: Sequence[object]) -> Computed:
        if id(side) not in self._sides:
            self._sides[id(side)] = side, self._compute(side)
        return self._sides[id(side)][1]


def _scored(score: Callable[[Floats], Floats], width: int, side: Sequence[object]) -> Floats:
    """Return the scores of several runs' outcomes: not a number where an outcome has another shape."""
    numbers = _numbers(side, width)
    return np.full(len(side), np.nan) if numbers is None else score(numbers)


def _length(outcome: object) -> Hashable:
    return outcome.shape if isinstance(outcome, np.ndarray) else len(outcome) if hasattr(outcome, "__len__") else None


def _sets(name: str, looked: Sequence[Sequence[object]], key: Callable[[Any], Hashable]) -> Iterator[Event]:
    """Yield sets of outcomes that one data set has more often, by several factors."""
    keys = _Once(lambda side: [key(outcome) for outcome in side])
    counts = [Counter(keys(side)) for side in looked]
    for i, j in ((0, 1), (1, 0)):
        for factor in (1.0, 2.0, 4.0, 16.0):
            most = Counter({outcome: factor * count for outcome, count in counts[j].items()})
            held = {outcome for outcome, count in counts[i].items() if count > max(1, most[outcome])}
            if held:

                def holds(side: Sequence[object], held: set[Hashable] = held) -> Bools:
                    return np.fromiter((each in held for each in keys(side)), np.bool_, len(side))

                likeliest = max(held, key=lambda outcome: counts[i][outcome])
                others = f" or one of {len(held) - 1} others" if len(held) > 1 else ""
                yield Event(f"{name} is {likeliest!r:.60}{others}", holds)


def _scores(first: Floats, second: Floats) -> Iterator[tuple[str, Callable[[Floats], Floats]]]:
    """Yield functions of arrays of numbers (n, width) to (n,), by which they may differ."""
    width = first.shape[1]
    for cell in range(min(width, _CELLS)):
        name = f"number {cell}" if width > 1 else "the number"
        yield name, lambda side, cell=cell: side[:, cell]  # type: ignore[misc]
        if not (first[:, cell] % 1 == 0).all():
            yield f"the last bit of {name}", lambda side, cell=cell: _last_bit(side[:, cell])  # type: ignore[misc]
    if width > 1:
        apart = second.mean(axis=0) - first.mean(axis=0)
        spread = first.var(axis=0) + second.var(axis=0)
        weights = np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
        yield "the sum with weights by which both differ", lambda side: side @ weights
        yield "the sum", lambda side: side.sum(axis=1)
        yield "the largest size", lambda side: np.abs(side).max(axis=1)
        yield "the sum of squares", lambda side: (side**2).sum(axis=1)


def _thresholds(
    name: str, looked: Sequence[Sequence[object]], score: Callable[[Sequence[Any]], Floats]
) -> Iterator[Event]:
    """Yield tails of a score, and unions of its bins."""
    scores = [score(side) for side in looked]
    both = np.concatenate(scores)
    both = both[np.isfinite(both)]
    if not both.size:
        return
    for low, high in np.quantile(both, [[share, 1 - share] for share in _TAILS]):
        yield Event(f"{name} ≤ {low:.6g}", lambda side, low=low: score(side) <= low)  # type: ignore[misc]
        yield Event(f"{name} ≥ {high:.6g}", lambda side, high=high: score(side) >= high)  # type: ignore[misc]
    edges = np.unique(np.quantile(both, np.linspace(0, 1, _BINS + 1)))

    bins = _Once(lambda side: np.searchsorted(edges, score(side)))
    counts = [np.bincount(bins(side), minlength=len(edges) + 1) for side in looked]
    for i, j in ((0, 1), (1, 0)):
        for factor in (1.0, 2.0):
            held = counts[i] > factor * counts[j]

            def holds(side: Sequence[object], held: Bools = held) -> Bools:
                chosen: Bools = held[bins(side)]
                return chosen

            yield Event(f"{name} in {held.sum()} of {len(edges) + 1} bins", holds)


def _last_bit(numbers: Floats) -> Floats:
    """Return the exponent of the last bit of each float that is set; of 0 and what is not finite, -1,100."""
    mantissa, exponent = np.frexp(numbers)
    whole = np.abs(np.where(np.isfinite(mantissa), mantissa, 0.0) * 2.0**53).astype(np.int64)
    last = np.log2((whole & -whole).astype(np.float64), where=whole > 0, out=np.zeros(whole.shape))
    exponents: Floats = np.where(whole > 0, last + exponent - 53, -1100.0)
    return exponents


def _numbers(outcomes: Sequence[Any], width: int | None = None) -> Floats | None:
    """Return outcomes as floats (n, width); None if they are not numbers, or of several shapes."""
    try:
        numbers = np.asarray([np.ravel(outcome) for outcome in outcomes], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if numbers.ndim != 2 or not numbers.shape[1] or width not in (None, numbers.shape[1]):
        return None
    return numbers
