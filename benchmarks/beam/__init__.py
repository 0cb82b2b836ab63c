"""Benchmarks of the Beam transforms: one module each, with a ``run(effort)`` that returns rows."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {"ingest": "ingest", "marginal": "marginal", "processes": "processes", "memory": "memory"}
