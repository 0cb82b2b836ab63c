"""Running times by mechanism and dimension, measured in turn, with a cut-off like the paper's."""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.figures.afnnt import parts
from benchmarks.rows import Effort
from benchmarks.timing import Work, interleave
from streamsketch.local import MeanAggregator, Mechanism, Reports

LAST = 3
"""Exponents are those of so many largest dimensions: in small ones fixed costs hide the growth."""

PARTS = ("client", "add", "finish")

_ROUNDS = 7
_MOST_VALUES = 1 << 21  # of the reports added at a time
_SLOW, _SLOW_ROUNDS = 0.1, 2  # seconds; they need no more
_SLOWEST = 2.0  # seconds; one round
_COMPRESSED = (parts.COMP.name, parts.FAST_COMP.name)


@dataclass(frozen=True)
class Cost:
    """Seconds: of a person to make a report, of the server to add one, and of the server's last step."""

    client: float
    add: float
    finish: float

    @property
    def total(self) -> float:
        """Of one person and the server for their report."""
        return self.client + self.add + self.finish


Costs = dict[tuple[str, int], Cost]


def sweep(
    lines: Sequence[parts.Line],
    dims: Sequence[int],
    epsilon: float,
    k: int,
    effort: Effort,
    *,
    people: int,
    limit: float,
    adding: float = 0.0,
) -> Costs:
    """Return costs by (name, d), d ascending.

    All dimensions run in turn too, so that a busy spell tilts no slope. A cost is that of the fastest round, as other
    work only adds to a time; the mean of all rounds where the number of tries is random. A mechanism ends before the
    dimension where a report takes more than ``limit`` seconds, or would by growing like d. Slow ones are timed by
    themselves, in two rounds, the slowest in one. Adding is timed on a new server that gets ``people`` reports; with
    ``adding``, on one that has some already and gets so many copies of them that it takes about ``adding`` seconds.
    """
    quick: dict[str, Work] = {}
    slow: dict[str, Work] = {}
    slowest: dict[str, Work] = {}
    timed: list[tuple[parts.Line, int]] = []
    going, before = list(lines), dict.fromkeys((line.name for line in lines), 0.0)
    rng = np.random.default_rng(3)
    for place, dim in enumerate(dims):
        growth = dim / dims[place - 1]  # the first compares with nothing: before is 0
        vectors = parts.synthetic(people, dim, rng)
        for line in list(going):
            mechanism = line.build(dim, epsilon, k)
            seconds = tried(mechanism, vectors, limit) if before[line.name] * growth <= limit else limit
            if seconds >= limit:
                going.remove(line)
                continue
            before[line.name] = seconds
            timed.append((line, dim))
            works = slowest if seconds > _SLOWEST else slow if seconds > _SLOW else quick
            works |= {f"{line.name}, {dim}, {part}": work for part, work in _works(mechanism, vectors, adding).items()}
    timings = dict(interleave(quick, min(effort.rounds, _ROUNDS), sample=effort.sample).seconds)
    timings |= interleave(slow, _SLOW_ROUNDS, warm_up=False).seconds
    timings |= interleave(slowest, 1, warm_up=False).seconds
    return {
        (line.name, dim): Cost(*(_typical(timings[f"{line.name}, {dim}, {part}"], line, part) for part in PARTS))
        for line, dim in timed
    }


def tried(mechanism: Mechanism, vectors: parts.Floats, limit: float) -> float:
    """Return the seconds of one report and its mean; of a second one where the first, not yet warm, took long."""
    fastest = math.inf
    for _ in range(2):
        start = time.perf_counter()
        server = MeanAggregator(mechanism)
        server.add(mechanism.randomize_many(vectors[:1]))
        server.mean()
        fastest = min(fastest, time.perf_counter() - start)
        if fastest < min(_SLOW, limit / 8):
            break
    return fastest


def _works(mechanism: Mechanism, vectors: parts.Floats, adding: float) -> dict[str, Work]:
    people = len(vectors)
    reports = mechanism.randomize_many(vectors)
    full = MeanAggregator(mechanism)
    start = time.perf_counter()
    full.add(reports)
    copies = int(np.clip(adding / (time.perf_counter() - start), 1, max(1, _MOST_VALUES // reports.values.size)))
    many = Reports(mechanism, np.tile(reports.seeds, copies), np.tile(reports.values, (copies, 1)))

    def add() -> None:
        server = full if adding else MeanAggregator(mechanism)
        server.add(many)

    return {
        "client": Work(lambda: mechanism.randomize_many(vectors), people),
        "add": Work(add, people * copies),
        "finish": Work(full.mean),
    }


def _typical(seconds: list[float], line: parts.Line, part: str) -> float:
    random = part == "client" and line.name in _COMPRESSED
    return statistics.fmean(seconds) if random else min(seconds)


def dims_of(costs: Costs, name: str) -> list[int]:
    """Return the dimensions in which a mechanism was timed."""
    return sorted(dim for mechanism, dim in costs if mechanism == name)


def exponent(costs: Costs, name: str, part: str) -> float | None:
    """Return the exponent of ``part`` in d, fitted to the three largest dimensions; None from fewer."""
    dims = dims_of(costs, name)[-LAST:]
    if len(dims) < LAST:
        return None
    return parts.slope(dims, [getattr(costs[name, dim], part) for dim in dims])
