"""One interleaved timer."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Work:
    """Something to time: a call, and how many items (events, cells, pairs) one call treats."""

    call: Callable[[], object]
    items: int = 1


@dataclass(frozen=True)
class Timings:
    """Seconds per item of each contender, one figure for each round."""

    seconds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """Return the median seconds per item over the rounds."""
        return statistics.median(self.seconds[name])

    def ratios(self, name: str, other: str) -> tuple[float, float, float]:
        """Return the quartiles (lower, median, upper) of the rounds' ratios ``name`` / ``other``."""
        pairs = zip(self.seconds[name], self.seconds[other], strict=True)
        lower, middle, upper = np.quantile([mine / theirs for mine, theirs in pairs], (0.25, 0.5, 0.75))
        return float(lower), float(middle), float(upper)


def interleave(contenders: Mapping[str, Work], rounds: int, *, sample: float = 0.0, warm_up: bool = True) -> Timings:
    """Time contenders in turn, A B C A B C …, so that a busy neighbour or a falling clock hits them all.

    Each is called once unmeasured (compilation, caches, page faults), and then, in every round, as often as it
    takes to fill ``sample`` seconds. Compare medians of the per-round *ratios*; they hold still where absolute
    times drift. What can mislead even so:

    - One process on one machine. Another CPU, compiler or cache size changes the ratios too.
    - Inputs are the same in each round: caches and branch predictors know them. Streams from disk are colder.
    - Each contender runs right after the same other one, so it always finds that one's leavings in the caches.
    - Medians hide the rare slow call, and the garbage collector is off: this is no latency measurement.
    - With other work on the same core, a contender that is limited by memory suffers more than one that is
      limited by arithmetic. The quartiles of the ratio show how quiet the machine was; if they are far apart,
      run again.

    Parameters
    ----------
    contenders
        Name → work, in the order in which they run.
    rounds
        How many times each is sampled.
    sample
        Least seconds a sample lasts, by repeated calls; 0 is one call.
    warm_up
        False where the first call is what is measured.
    """
    repeats = dict.fromkeys(contenders, 1)
    if warm_up:
        for name, work in contenders.items():
            work.call()
            repeats[name] = max(1, math.ceil(sample / _seconds(work, 1))) if sample else 1
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    collecting = gc.isenabled()
    gc.disable()  # as timeit does: a collection is charged to whoever happens to trigger it
    try:
        for _ in range(rounds):
            for name, work in contenders.items():
                seconds[name].append(_seconds(work, repeats[name]) / (repeats[name] * work.items))
    finally:
        if collecting:
            gc.enable()
    return Timings(seconds)


def _seconds(work: Work, repeats: int) -> float:
    call = work.call
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - start
