"""A backlog from Kafka to released windows on Flink, one slot, ns per event; 1,000 ns are a million events a second.

A topic is filled, then `streamsketch stream beam` starts with one slot and works it off: ten keys, 100,000 units
bounded to two keys each, 10,000 indices as text, windows of ten seconds. The time is that between the first window's
release and the last one's. *Counted by key alone* reads and decodes the same topic and counts its events by key and
window, without bounds and sketches. Python, Flink and Kafka share this machine's processors. Each runs once.
"""

from rich.console import Console

from benchmarks.rows import Effort, Row, Target
from benchmarks.streams import JARS
from tests.clusters.load import backlog

_TARGETS = {"arrow": Target("ours", 1000), "json": Target("ours", 25_000)}
_EVENTS = {"arrow": 10_000_000, "json": 2_000_000}
_NAMES = {"arrow": "Arrow batches of 20,000 rows", "json": "rows of JSON, one a message"}


def run(effort: Effort) -> list[Row]:
    """Measure Arrow batches and rows of JSON, each beside counting alone: some five minutes."""
    return [_row(effort, form) for form in _NAMES]


def _row(effort: Effort, form: str) -> Row:
    events = effort.size(_EVENTS[form])
    ours, alone = (
        1e9 / backlog(JARS, Console(quiet=True), events=events, form=form, count_alone=count)["events_a_second"]
        for count in (False, True)
    )
    others = {"counted by key alone": alone}
    return Row(f"{events:,} events, {_NAMES[form]}", "ns", ours, others, ours / alone, target=_TARGETS[form])
