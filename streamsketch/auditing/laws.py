"""Every outcome of a release function with its exact chance, and the largest loss between neighbours.

A function is run once for each list of its random choices. Choices without an end, as of a sampler that rejects, are
cut; the chance of all runs that were cut is stated, and every result holds whatever their outcomes are.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from streamsketch.core.numbers import check_int
from streamsketch.errors import InvalidInputError


class _Cut(BaseException):
    """A run made more choices than are followed. No release function may catch it."""


class Choices:
    """Random choices, of which every outcome is tried: in place of a release function's random numbers.

    It has the methods of `random.Random` that return integers, those of `secrets`, and ``read`` of this library's
    bits. There are no floats: a function that draws them has no law that can be listed. One choice has 65,536 ways at
    most.
    """

    def __init__(self, prefix: Sequence[tuple[int, int]], most: int) -> None:
        self._prefix, self._most = prefix, most
        self._made: list[tuple[int, int]] = []
        self._ways: list[Fraction] = []

    def randbelow(self, ways: int) -> int:
        """Return one of 0, …, ways - 1, each with the same chance."""
        return self._choose([Fraction(1, check_int(ways, "ways", 1, 1 << 16))] * ways)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return one of ``range(start, stop, step)``, each with the same chance."""
        among = range(start) if stop is None else range(start, stop, step)
        return among[self.randbelow(len(among))]

    def randint(self, low: int, high: int) -> int:
        """Return one of low, …, high, each with the same chance."""
        return self.randrange(low, high + 1)

    def choice(self, among: Sequence[object]) -> Any:
        """Return one of a sequence, each with the same chance."""
        return among[self.randbelow(len(among))]

    def getrandbits(self, count: int) -> int:
        """Return an integer of ``count`` fair bits."""
        return self.randbelow(1 << count)

    randbits = getrandbits

    def read(self, size: int) -> bytes:
        """Return ``size`` uniform bytes: 256 ways each."""
        return bytes(self.randbelow(256) for _ in range(size))

    randbytes = token_bytes = read

    def bernoulli(self, chance: Fraction | float) -> bool:
        """Return True with this chance, which is taken exactly."""
        exact = Fraction(chance)
        if not 0 <= exact <= 1:
            raise InvalidInputError(f"a chance is between 0 and 1, got {chance}")
        return exact == 1 or (exact > 0 and self._choose([1 - exact, exact]) == 1)

    def _choose(self, chances: Sequence[Fraction]) -> int:
        place, ways = len(self._made), len(chances)
        if ways == 1:
            return 0
        if place == self._most:
            raise _Cut
        made, ways_before = self._prefix[place] if place < len(self._prefix) else (0, ways)
        if ways_before != ways:
            raise InvalidInputError(
                f"after the same choices the function chose among {ways} ways, and among {ways_before} before: it has "
                "other randomness, or keeps a state. Let it take all its random choices from its last argument"
            )
        self._made.append((made, ways))
        self._ways.append(chances[made])
        return made

    def _chance(self) -> Fraction:
        return math.prod(self._ways, start=Fraction(1))

    def _following(self) -> list[tuple[int, int]] | None:
        """Return the first choices of the next run; None after the last one."""
        made = list(self._made)
        while made:
            last, ways = made.pop()
            if last + 1 < ways:
                return [*made, (last + 1, ways)]
        return None


class Law(NamedTuple):
    """The outcomes of a release function for one data set."""

    chances: Mapping[Hashable, Fraction]
    """The exact chance of each outcome, of the runs that ended."""
    unresolved: Fraction
    """The chance of the runs that were cut: outcomes may have so much more, all of them together."""


def law_of(
    release: Callable[[Any, Choices], Any], data: object, *, most_choices: int = 64, most_runs: int = 1 << 20
) -> Law:
    """List the outcomes of a release function for one data set.

    Parameters
    ----------
    release
        Called as ``release(data, choices)``: all its randomness has to come from the `Choices`. What it returns is
        compared by value: numbers, texts, arrays, lists, dicts.
    data
        What it releases.
    most_choices
        After so many choices a run is cut.
    most_runs
        After so many runs the call fails.

    Returns
    -------
    Law
        Chances that add up to 1 with what is unresolved.

    Raises
    ------
    InvalidInputError
        If there are more runs, or the function has other randomness.

    Examples
    --------
    Randomised response tells the truth with chance 3/4:

    >>> def respond(answer, choices):
    ...     return answer if choices.randbelow(4) else 1 - answer
    >>> law_of(respond, 1).chances
    {0: Fraction(1, 4), 1: Fraction(3, 4)}
    """
    chances: defaultdict[Hashable, Fraction] = defaultdict(Fraction)
    unresolved, prefix = Fraction(0), list[tuple[int, int]]()
    for _ in range(check_int(most_runs, "most_runs", 1, 1 << 40)):
        choices = Choices(prefix, check_int(most_choices, "most_choices", 1, 1 << 20))
        try:
            outcome = by_value(release(data, choices))
        except _Cut:
            unresolved += choices._chance()  # noqa: SLF001 - a function sees the choices, not their chance
        else:
            chances[outcome] += choices._chance()  # noqa: SLF001
        following = choices._following()  # noqa: SLF001
        if following is None:
            return Law(dict(chances), unresolved)
        prefix = following
    raise InvalidInputError(
        f"the function has more than {most_runs:,} runs; use smaller data or less noise, fewer most_choices, or "
        "a larger most_runs"
    )


def by_value(outcome: object) -> Hashable:
    """Return an outcome as what is equal if, and only if, its values are."""
    if isinstance(outcome, np.ndarray | np.generic):
        outcome = outcome.tolist()
    if isinstance(outcome, float) and (math.isnan(outcome) or (outcome == 0 and math.copysign(1, outcome) < 0)):
        return str(outcome)  # -0.0 is seen, and no nan equals another
    if isinstance(outcome, Mapping):  # in its order, which is seen
        outcome = tuple(outcome.items())
    if isinstance(outcome, list | tuple):
        return tuple(by_value(part) for part in outcome)
    if isinstance(outcome, set | frozenset):
        return frozenset(by_value(part) for part in outcome)
    if not isinstance(outcome, Hashable):
        raise InvalidInputError(
            f"outcomes are compared by value, which a {type(outcome).__name__} has not: return numbers, text, arrays, "
            "lists or dicts"
        )
    return outcome


class LargestLoss(NamedTuple):
    """The largest loss that neighbours certainly have."""

    epsilon: float
    """In nats; infinite if an outcome of one data set is impossible for its neighbour."""
    outcome: Hashable
    """Where it is."""
    pair: tuple[Any, Any] | None
    """The neighbours, the likelier first; None if no pair has a loss."""
    unresolved: float
    """The largest chance of runs that were cut. If it is 0, no loss is larger."""


def largest_loss(
    release: Callable[[Any, Choices], Any], pairs: Iterable[tuple[object, object]], **limits: int
) -> LargestLoss:
    """Return the largest privacy loss between neighbours, ln P(outcome | one) / P(outcome | other), both ways round.

    Parameters
    ----------
    release
        As for `law_of`.
    pairs
        Neighbouring data sets.
    **limits
        As for `law_of`.

    Returns
    -------
    LargestLoss
        Exact if nothing was cut; else a loss that is certain.

    Examples
    --------
    >>> def respond(answer, choices):
    ...     return answer if choices.randbelow(4) else 1 - answer
    >>> loss = largest_loss(respond, [(0, 1)])
    >>> f"{loss.epsilon:.4f}"  # ln 3
    '1.0986'
    """
    largest = LargestLoss(0.0, None, None, 0.0)
    for pair in pairs:
        laws = [law_of(release, data, **limits) for data in pair]
        unresolved = max(largest.unresolved, *(float(law.unresolved) for law in laws))
        largest = largest._replace(unresolved=unresolved)
        for (first, second), (law, of_other) in ((pair, laws), (pair[::-1], laws[::-1])):
            for outcome, chance in law.chances.items():
                most = of_other.chances.get(outcome, Fraction(0)) + of_other.unresolved
                loss = _log(chance / most) if most else math.inf
                if loss > largest.epsilon:
                    largest = largest._replace(epsilon=loss, outcome=outcome, pair=(first, second))
    return largest


class LargestDelta(NamedTuple):
    """Bounds of the least δ with which neighbours are (ε, δ)-indistinguishable."""

    least: float
    """δ is certainly no less."""
    most: float
    """δ is certainly no more."""
    pair: tuple[Any, Any] | None
    """The neighbours with the largest `least`, the likelier first; None if there is none."""


def largest_delta(
    release: Callable[[Any, Choices], Any], pairs: Iterable[tuple[object, object]], epsilon: float, **limits: int
) -> LargestDelta:
    """Return the least δ of an ε: the largest sum of P(outcome | one) - e^ε P(outcome | other), both ways round.

    Parameters
    ----------
    release, pairs
        As for `largest_loss`.
    epsilon
        In nats.
    **limits
        As for `law_of`.

    Returns
    -------
    LargestDelta
        `least` and `most` differ by runs that were cut and by the rounding of e^ε.

    Examples
    --------
    >>> def respond(answer, choices):
    ...     return answer if choices.randbelow(4) else 1 - answer
    >>> delta = largest_delta(respond, [(0, 1)], epsilon=0.0)  # 3/4 - 1/4
    >>> delta.least, delta.most
    (0.5, 0.5)
    """
    if not 0 <= epsilon <= _MOST_EPSILON:
        raise InvalidInputError(f"epsilon must be between 0 and {_MOST_EPSILON}, got {epsilon}")
    low, high = _exp_bounds(epsilon)
    bounds = LargestDelta(0.0, 0.0, None)
    for pair in pairs:
        laws = [law_of(release, data, **limits) for data in pair]
        for ordered, (law, other) in ((pair, laws), (pair[::-1], laws[::-1])):
            least = _excess(law, other, high) - high * other.unresolved
            bounds = bounds._replace(most=max(bounds.most, float(_excess(law, other, low) + law.unresolved)))
            if float(least) > bounds.least:
                bounds = bounds._replace(least=float(least), pair=(ordered[0], ordered[1]))
    return bounds


_MOST_EPSILON = 700.0  # e^ε is a float


def _excess(law: Law, other: Law, factor: Fraction) -> Fraction:
    none = Fraction(0)
    return sum((max(p - factor * other.chances.get(outcome, none), none) for outcome, p in law.chances.items()), none)


def _exp_bounds(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return rationals below and above e^ε: libraries round it to within one unit of the last place."""
    if epsilon == 0:
        return Fraction(1), Fraction(1)
    rounded, unit = Fraction(math.exp(epsilon)), Fraction(math.ulp(math.exp(epsilon)))
    return rounded - 2 * unit, rounded + 2 * unit


def _log(ratio: Fraction) -> float:
    """Return the natural logarithm of a positive rational, whose parts may be too large for floats."""
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    return math.log(ratio.numerator) - math.log(ratio.denominator)
