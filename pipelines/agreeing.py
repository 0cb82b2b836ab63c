"""A job that follows an agreement instead of options."""

import argparse

import streamsketch as ss

_DEFAULTS = {"l1": "1", "max_keys": 1, "resolution": "1", "sketch_dim": 1024, "sparsity": 4, "seed": 2013}
_SAID = ("key", "index", "value", "unit_column", "unit", *_DEFAULTS)


def follow(parser: argparse.ArgumentParser, known: argparse.Namespace, *further: str) -> None:
    """Put what an agreement says in the place of options, or see that they are there.

    An agreement stands beside none of the options that it says, and of those named here.
    """
    known.agreed = None
    if known.agreement is None:
        missing = [f"--{name}" for name in ("key", "index") if not getattr(known, name)]
        if missing:
            parser.error(f"the following arguments are required: {', '.join(missing)}, or --agreement")
        for name, default in _DEFAULTS.items():
            setattr(known, name, default if getattr(known, name) is None else getattr(known, name))
        return
    if given := [
        f"--{name.replace('_', '-')}" for name in (*_SAID, *further) if getattr(known, name) not in (None, [])
    ]:
        parser.error(f"{known.agreement} says which columns are sketched, and how; leave out {', '.join(given)}")
    if getattr(known, "look_at_truth", False):
        parser.error("--look-at-truth reads columns as text, and --agreement as their types")
    agreed = known.agreed = ss.Agreement.load(known.agreement)
    if agreed.key is None or not isinstance(agreed.neighbours, ss.L1):
        parser.error(f"{known.agreement} must have a key, and L1 neighbours: what one unit contributes to each key")
    known.key, known.value = agreed.key.name, agreed.value
    known.index = [column.name for column in agreed.index]
    known.unit_column = None if agreed.unit is None or getattr(known, "clip", None) == "none" else agreed.unit.name
    known.l1, known.unit, known.max_keys = agreed.neighbours.bound, agreed.neighbours.unit, agreed.neighbours.max_keys
