"""Windows of five days published by schedules, for tests."""

from typing import Any

import pyarrow as pa

import streamsketch as ss
from streamsketch.continual import Factorisation, Schedule, Tree, release
from streamsketch.privacy import Counting

GRID = ss.SJLT(sketch_dim=16, sparsity=4, seed=7)
UNIT = ss.L1(3, unit="customer")
TREE, ROOT = Tree(horizon=5), Factorisation(horizon=5, bits=4)


def publisher(schedule: Schedule | None = ROOT, **fields: Any) -> ss.AdditiveNoise:
    return ss.AdditiveNoise(**{"epsilon": 1.0, "delta": 1e-6, "neighbours": UNIT, "schedule": schedule, **fields})


def window(day: int) -> ss.Sketch:
    sketch = GRID.sketch()
    sketch.update([day, 40], [1, 2])
    return sketch


def rows_of(schedule: Schedule = ROOT, **fields: Any) -> list[Any]:
    return release([window(day) for day in range(5)], publisher(schedule, **fields))


def counted_tables() -> list[Any]:
    """Return tables of two shops and five days, bounded and counted; nobody is in two days."""
    counting = Counting(40, slack=2)
    agreement = ss.Agreement(GRID, key="shop", index="item", unit="customer", neighbours=UNIT, counting=counting)
    days = []
    for day in range(5):
        people = [f"{day} {number}" for number in range(4 + day)]
        shops = ["north" if number % 2 else "south" for number in range(4 + day)]
        days.append(ss.bound(pa.table({"customer": people, "shop": shops, "item": people}), agreement))
    return days


COUNTED = publisher(counting=Counting(40, slack=2))
KEYS = ["north", "south", "west"]


def published_tables() -> list[Any]:
    return release(counted_tables(), COUNTED, public_keys=KEYS)


def copy_of(published: Any, **changed: Any) -> Any:
    names = ("values", "noise", "guarantee", "multiplier", "release_ids", "data_ids", "counts", "history")
    return ss.PrivateSketch(GRID, **{name: getattr(published, name) for name in names} | changed)
