"""A job that follows an agreement instead of options."""

import argparse

import streamsketch as ss

_DEFAULTS = {"l1": "1", "max_keys": 1, "resolution": "1", "sketch_dim": 1024, "sparsity": 4, "seed": 2013}
_SAID = ("key", "index", "value", "unit_column", "unit", "window", "time", "time_format", *_DEFAULTS)


def follow(parser: argparse.ArgumentParser, known: argparse.Namespace) -> None:
    """Put what an agreement says in the place of options, or see that they are there."""
    known.agreed = None
    if known.agreement is None:
        missing = [f"--{name}" for name in ("key", "index") if not getattr(known, name)]
        if missing:
            parser.error(f"the following arguments are required: {', '.join(missing)}, or --agreement")
        for name, default in _DEFAULTS.items():
            setattr(known, name, default if getattr(known, name) is None else getattr(known, name))
        return
    if given := [f"--{name.replace('_', '-')}" for name in _SAID if getattr(known, name) not in (None, [])]:
        parser.error(f"{known.agreement} says which columns are sketched, and how; leave out {', '.join(given)}")
    if known.look_at_truth:
        parser.error("--look-at-truth reads columns as text, and --agreement as their types")
    agreed = known.agreed = ss.Agreement.load(known.agreement)
    if agreed.key is None or not isinstance(agreed.neighbours, ss.L1):
        parser.error(f"{known.agreement} must have a key, and L1 neighbours: what one unit contributes to each key")
    known.key, known.value = agreed.key.name, agreed.value
    known.index = [column.name for column in agreed.index]
    known.unit_column = None if agreed.unit is None or known.clip == "none" else agreed.unit.name
    known.l1, known.unit, known.max_keys = agreed.neighbours.bound, agreed.neighbours.unit, agreed.neighbours.max_keys
