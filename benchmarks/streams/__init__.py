"""Benchmarks of endless jobs on a Flink cluster of this machine: one module each, with a ``run(effort)``."""

import os
from pathlib import Path

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {"backlog": "backlog", "closing": "closing", "consume": "consume", "soak": "soak"}

JARS = Path(os.environ.get("STREAMSKETCH_FLINK_JARS", ".flink/lib"))
"""Where ``make flink`` puts what these benchmarks need."""
