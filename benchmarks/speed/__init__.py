"""Speed benchmarks: one module each, with a ``run(effort)`` that returns rows."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.rows import Effort, Row

# A new benchmark is a module in this folder and its name here; modules load only when they run.
NAMES = (
    "update",
    "events",
    "startup",
    "noise",
    "table",
    "pairwise",
    "signs",
    "hadamard",
    "matrices",
    "local",
    "wire",
    "beam",
)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, loaded: its title, from the module's docstring, and what runs it."""

    title: str
    run: Callable[[Effort], list[Row]]


def load(name: str) -> Benchmark:
    """Import the benchmark called ``name``, one of `NAMES`."""
    module = importlib.import_module(f"benchmarks.speed.{name}")
    return Benchmark(title=str(module.__doc__).partition("\n")[0], run=module.run)
