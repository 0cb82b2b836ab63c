"""What this library makes of CSV under agreements with known secret bits, which the TypeScript package must equal."""

import csv
import hashlib
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import streamsketch as ss
from streamsketch.agreement import Agreement, Terms
from streamsketch.data.data_ids import DataIds
from streamsketch.data.readers import delimited
from streamsketch.data.tables import batches_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake.checking import Finding, RowCheck
from streamsketch.intake.rows import Intake
from streamsketch.privacy import Counting
from streamsketch.projections import OPORP, CountSketch, Identity
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.sketching.bounding.contributions import NO_KEY, concatenated
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import SECRET_BYTES, UnitBounds
from streamsketch.sketching.table import SketchTable

FILE = Path(__file__).parents[2] / "web/tests/rows.json"
KNOWN_BLOCKS = 4096


class KnownBits:
    """The bits of `knownBits` in web/tests/written.ts."""

    def __init__(self, seed: int) -> None:
        blocks = (hashlib.blake2b(i.to_bytes(8, "little"), key=seed.to_bytes(8, "little")) for i in range(KNOWN_BLOCKS))
        self._bits, self._at = b"".join(one.digest() for one in blocks), 0

    def read(self, size: int) -> bytes:
        self._at += size
        assert self._at <= len(self._bits)
        return self._bits[self._at - size : self._at]


def released(agreement: Agreement, text: str, bits: KnownBits) -> dict[str, Any]:
    """Return the releases by key of the rows that can be read, with bits for the bounds, the ids and the noise."""
    secret, own = bits.read(SECRET_BYTES), bits.read(16)
    table = SketchTable(agreement)
    listed = agreement.keys if isinstance(agreement.keys, tuple) else None
    intake = Intake(agreement, on_bad="drop", bounded=agreement.unit is not None)
    batches = intake.numbered(batches_of(columns_of(text), intake.names))
    if agreement.unit is None or agreement.neighbours is None:
        for batch in batches:
            keys = [NO_KEY] if batch.keys is None else batch.keys.to_pylist()
            table.add_steps(list(dict.fromkeys(keys)), _codes(keys, len(batch)), batch.indices, batch.steps)
    else:
        public = None if listed is None else agreement.keys_of(listed)
        bounds, summary = (
            UnitBounds(agreement.projection, agreement.neighbours, clip=agreement.clip_of(None), public_keys=public),
            BoundingSummary(),
        )
        bounds.add_to(table, concatenated(list(bounds.read(batches, secret, summary))), secret, summary)
        bounds.mark(table)
    ids = DataIds(own, frozenset([own]))
    calibrated = publisher_of(agreement).calibrated(agreement.projection)
    if agreement.key is None:
        return {"": calibrated.for_data(table.sketch_of(NO_KEY)).draw(bits, ids=ids)}
    ready: Any = calibrated.for_data(table, public_keys=listed, keys_are_public=listed is None)
    drawn: dict[str, Any] = ready.draw(lambda _: bits, ids=ids)
    return drawn


def _codes(keys: list[Any], rows: int) -> Any:
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([places[key] for key in keys] if len(keys) == rows else [0] * rows, dtype=np.int64)


def _sales(rows: int = 240, *, integers: bool = False) -> str:
    """Return order lines with what real ones have: returns, blanks, spellings, huge numbers."""
    lines = ["shop,item,sold,customer,day,size"]
    for row in range(rows):
        shop = ["north", "south", "ea st", "Süd"][row // 2 % 4]
        item = (
            str(row * 7 % 23)
            if integers
            else ["tea", "Coffee", "jam", "Cafe\u0301", "Café", " tea ", "coffee", "n/a", "–"][row * 5 % 9]
        )
        sold = ["1", "2.5", "-3", "40", "0", "7.25"][row * 11 % 6]
        lines.append(
            f"{shop},{item},{sold},{row * row % 37},2026-0{1 + row % 9}-1{row % 10},{'TRUE' if row % 3 else '0'}"
        )
    lines[20] = f"north,{'5' if integers else chr(34) + 'a quoted, name' + chr(34)},99999999999999,5,2026-01-01,1"
    lines[21] = f"south,{3 if integers else 'tea'},-99999999999999,5,2026-01-01,1"
    lines[22] = f"south,{3 if integers else ''},3,6,2026-01-01,1"
    lines[23] = f"south,{3 if integers else 'tea'},many,6,2026-01-01,1"
    lines[24] = f"south,{99999 if integers else 'tea'},1,,2026-01-01,1"
    lines[25] = f"west,{4 if integers else 'tea'},1,9,2026-02-30,1"
    return "\n".join(lines) + "\n"


def agreements() -> dict[str, tuple[Agreement, str]]:
    """Return an agreement of each shape that TypeScript knows, with the rows to which it is applied."""
    sjlt = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
    count = CountSketch(sketch_dim=32, seed=9)
    fine = ss.SJLT(sketch_dim=32, sparsity=4, seed=3, resolution="1/10000")
    finest = ss.SJLT(sketch_dim=32, sparsity=4, seed=3, resolution="1/50000000")
    columns: dict[str, Any] = {"index": "item", "value": "sold", "unit": "customer", "missing": "drop"}
    one, three = ss.L1(5, unit="customer"), ss.L1("7/2", unit="customer", max_keys=2)
    norm, norms = ss.SketchL2(4, unit="customer"), ss.SketchL2(3, unit="customer", max_keys=2)
    shops = ("Süd", "north", "empty")
    gaussian = Terms(epsilon=1, delta="0.000001")
    found = {
        "l1, laplace": Agreement(sjlt, **columns, neighbours=one, terms=Terms(epsilon="0.7")),
        "l1, cut": Agreement(sjlt, **columns, neighbours=one, clip="cut", terms=Terms(epsilon=2)),
        "l1, keys, two of them": Agreement(
            sjlt, **columns, key="shop", neighbours=three, keys=shops, terms=Terms(epsilon=3)
        ),
        "l1, counted": Agreement(
            sjlt,
            **columns,
            key="shop",
            neighbours=three,
            keys="public",
            counting=Counting(20, 2),
            terms=Terms(epsilon=3),
        ),
        "l1, gaussian": Agreement(
            count, **columns, neighbours=one, terms=Terms(epsilon=1, delta="0.1", mechanism="gaussian")
        ),
        "l1, least variance": Agreement(
            sjlt, **columns, neighbours=one, terms=Terms(epsilon=1, delta="0.001", mechanism="least-variance")
        ),
        "sketch-l2": Agreement(fine, **columns, neighbours=norm, terms=gaussian),
        "sketch-l2, equal, keys": Agreement(
            fine, **columns, key="shop", neighbours=norm, clip="equal", keys="public", terms=gaussian
        ),
        "sketch-l2, two keys, counted": Agreement(
            fine,
            **columns,
            key="shop",
            neighbours=norms,
            clip="equal",
            keys=shops,
            counting=Counting(3000),
            terms=Terms(epsilon="0.3", delta="0.00001"),
        ),
        "sketch-l2, laplace": Agreement(
            fine,
            **columns,
            neighbours=ss.SketchL2(3, unit="customer", max_keys=1),
            terms=Terms(epsilon=5, mechanism="laplace"),
        ),
        "sketch-l2, equal, of units below the bound": Agreement(
            fine, **columns, neighbours=ss.SketchL2(40, unit="customer"), clip="equal", terms=gaussian
        ),
        "sketch-l2, equal, on a fine grid": Agreement(
            finest, **columns, neighbours=norm, clip="equal", terms=Terms(epsilon=5000, delta="0.01")
        ),
        "laplace, which takes no δ": Agreement(
            sjlt, **columns, neighbours=one, terms=Terms(epsilon=1, delta="0.000001", mechanism="laplace")
        ),
        "text as it is": Agreement(count, **columns, neighbours=one, terms=Terms(epsilon=2)),
        "text folded": Agreement(
            count,
            **columns,
            key="shop",
            neighbours=three,
            keys=shops,
            terms=Terms(epsilon=2),
            text="NFKC, collapse, fold, drop",
        ),
        "tuples": Agreement(
            count,
            **(
                columns
                | {"index": {"item": "text", "day": "date", "size": "boolean", "sold": "decimal(2)"}, "value": None}
            ),
            neighbours=one,
            terms=Terms(epsilon=2),
        ),
        "no units": Agreement(
            count,
            index="item",
            key="shop",
            value="sold",
            missing="drop",
            neighbours=three,
            keys=shops,
            terms=Terms(epsilon=1),
        ),
    }
    text = {name: (agreement, _sales()) for name, agreement in found.items()}
    whole: dict[str, Any] = columns | {"index": {"item": "integer"}, "unit": {"customer": "integer"}}
    integers = {
        "integers": Agreement(OPORP(dim=100, sketch_dim=16, seed=4), **whole, neighbours=one, terms=Terms(epsilon=1)),
        "histogram": Agreement(Identity(dim=25), **whole, neighbours=one, terms=Terms(epsilon=1)),
        "days as keys are text": Agreement(
            CountSketch(dim=100, sketch_dim=16, seed=4),
            **whole,
            key="day",
            neighbours=three,
            keys=("2026-01-10",),
            terms=Terms(epsilon=1),
        ),
    }
    text |= {name: (agreement, _sales(integers=True)) for name, agreement in integers.items()}
    others = {
        "l1, least variance, and Laplace noise is too wide": Agreement(
            sjlt,
            **columns,
            neighbours=ss.L1(50, unit="customer"),
            terms=Terms(epsilon="0.000001", delta="0.1", mechanism="least-variance"),
        ),
        "l1, least variance, and Gaussian noise is too wide": Agreement(
            count,
            **columns,
            neighbours=ss.L1(5_000_000, unit="customer"),
            terms=Terms(epsilon=1, delta="0.000000000000001", mechanism="least-variance"),
        ),
        "l1, a bound for two keys without a column of keys": Agreement(
            count, **columns, neighbours=three, terms=Terms(epsilon=1)
        ),
    }
    return text | {name: (agreement, _sales()) for name, agreement in others.items()}


CSV = [
    "item,sold\ntea,1\n",
    "item,sold\r\ntea,1\r\n\r\njam,2",
    "\ufeffitem,sold\ntea,1\n",
    "\n\nitem,sold\ntea,1\n",
    'item,sold\n"te,a",1\n',
    'item,sold\n"te""a","1"\n',
    'item,sold\n"tea\nx",1\n',
    'item,sold\n"tea"x,1\n',
    'item,sold\nte"a,1\n',
    'item,sold\n"tea,1\n',
    "item,sold\ntea\r,1\n",
    "item,sold\ntea,1,2\n",
    "item,sold\ntea\n",
    "item,sold\ntea,+1.5\njam,.5\nmilk,5.\n",
    "item,sold\ntea,1e3\n",
    "item,sold\ntea,1.0000000000000\njam,1.0000000000001\n",
    "item,sold\ntea,11111111111111111111111111\njam,111111111111111111111111111\n",
    "item,sold\ntea, 1\njam,\nmilk,nan\n",
    "sold,x,item\n1,,tea\n",
    "item;sold\ntea;1\n",
    "",
    "item,sold\n",
]
"""Texts that readers of CSV read alike, or refuse alike."""


READING = Agreement(
    CountSketch(sketch_dim=16, seed=9), index="item", value="sold", missing="drop", neighbours=ss.L1(1, unit="sale"),
    terms=Terms(epsilon=1_000_000),
)  # fmt: skip
"""Whose noise is 0, so that its releases show what was read."""


def read(text: str) -> list[int] | None:
    """Return the sketch of CSV; None where it is refused."""
    columns = ["item", "sold"]
    exact = SketchTable(READING)
    try:
        for batch in delimited.batches(io.BytesIO(text.encode()), "rows.csv", columns, columns):
            events = Intake(READING, on_bad="drop").read(batch)
            exact.add_steps([NO_KEY], np.zeros(len(events), dtype=np.int64), events.indices, events.steps)
    except InvalidInputError:
        return None
    cells: list[int] = exact.sketch_of(NO_KEY).state().tolist()
    return cells


SAID = {"not in NFC", "blanks", "looks missing", "several spellings", "rows of units", "swapped"}
"""What a check says of names and units; the rows that are left out are counted otherwise."""


def findings_of(agreement: Agreement, text: str) -> list[Finding]:
    """Return what the operator is told of rows."""
    check = RowCheck(agreement)
    check.add(columns_of(text).to_batches()[0])
    return check.findings()


def columns_of(text: str) -> pa.Table:
    """Return CSV as columns of text."""
    header, *rows = csv.reader(io.StringIO(text))
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(header)})


def cases() -> list[dict[str, Any]]:
    """Return agreements, rows, the seed of the bits, and the releases that follow."""
    found = []
    for seed, (name, (agreement, text)) in enumerate(agreements().items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            releases = released(agreement, text, KnownBits(seed))
        shown = {str(key): release.to_bytes().hex() for key, release in releases.items()}
        findings = sorted([one.column, one.kind, one.rows] for one in findings_of(agreement, text) if one.kind in SAID)
        case = {"name": name, "agreement": agreement.to_json(), "csv": text, "seed": seed}
        found.append(case | {"releases": shown, "findings": findings})
    return found


def current_text() -> str:
    """Return the file's text."""
    texts = [{"csv": text, "cells": read(text)} for text in CSV]
    return (
        json.dumps({"releases": cases(), "agreement": READING.to_json(), "texts": texts}, indent=1, ensure_ascii=False)
        + "\n"
    )
