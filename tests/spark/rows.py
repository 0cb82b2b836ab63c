"""Rows that users might have, and what one process makes of them."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

import streamsketch as ss
from streamsketch.intake import Intake
from streamsketch.privacy import Neighbours
from streamsketch.sketching.bounding.contributions import concatenated
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import UnitBounds
from streamsketch.sketching.table import SketchTable

SECRET = bytes(range(32))
KEYS: dict[str, list[Any]] = {
    "text": ["N", "S", "E"],
    "integer": [-7, 5, 1 << 40],
    "bytes": [b"\xff", b"s", b"x"],
    "date": [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1)],
}


def sales(count: int = 400, *, keys: str = "text", units: str = "text") -> pa.Table:
    """Return rows with returns, blanks and outliers, of 40 customers and three shops."""
    chance = np.random.default_rng(3)
    customer = pa.array(chance.integers(0, 40, count))
    shop = pa.array([KEYS[keys][place] for place in chance.integers(0, 3, count)])
    sold = pa.array(np.rint(chance.standard_cauchy(count)).clip(-900, 900))
    item = pa.array([None if place == 49 else f"item {place}" for place in chance.integers(0, 50, count).tolist()])
    return pa.table(
        {
            "shop": shop,
            "item": item,
            "sold": sold,
            "customer": customer.cast(pa.string()) if units == "text" else customer,
        }
    )


def agreed(
    neighbours: Neighbours | None = None, *, keys: str = "text", units: str = "text", **options: Any
) -> ss.Agreement:
    """Return an agreement on the columns of `sales`, with units if it has bounds."""
    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution=options.pop("resolution", 1))
    columns: dict[str, Any] = {"index": "item", "key": {"shop": keys}, "value": "sold", "missing": "drop"}
    if neighbours is not None:
        columns |= {"unit": {"customer": units}, "neighbours": neighbours}
    return ss.Agreement(projection, **columns, **options)


def bounded(rows: pa.Table, agreement: ss.Agreement, **options: Any) -> SketchTable:
    """Return what `ss.bound` does under a secret that is known."""
    options = {"clip": agreement.clip_of(options.pop("clip", None))} | options
    assert agreement.neighbours is not None
    bounds = UnitBounds(agreement.projection, agreement.neighbours, **options)
    intake, table, summary = Intake(agreement, on_bad="drop", bounded=True), SketchTable(agreement), BoundingSummary()
    events = [intake.read(batch) for batch in rows.to_batches()]
    found = concatenated([part.one_by_one() for part in bounds.read(events, SECRET, summary)])
    bounds.add_to(table, found, SECRET, summary)
    bounds.mark(table)
    return table
