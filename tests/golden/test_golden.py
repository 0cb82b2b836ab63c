"""What may never change: the matrices, and the state that given events lead to.

Parties that never meet agree on these numbers, so they are pinned by value, inputs included. ``projections.json``
holds projections as their canonical JSON, their fingerprints, and a few columns of their matrices as [row, entry].
``sketches.json`` holds events (columns of keys and a column of values), the indices they are encoded to, and the
exact cells and mass of their sketch.

Both were computed once by the twins of ``tests/oracles/naive_maps.py`` and hashlib alone, never by the library, over
inputs typed by hand; but for the rotation's columns, whose witnesses are ``rotations.py`` and Gram-Schmidt in
test_maps.py. No script makes them again, and ``append_pin.py`` only adds to them: a change that does not reproduce
them breaks every agreement made before it, and needs new kinds of projection (new entries) instead of new numbers.
"""

import datetime as dt
import hashlib
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamsketch.conformance import column as script
from streamsketch.projections import Projection
from tests.golden import kit_reader
from tests.oracles import naive, naive_maps

FOLDER = Path(__file__).parent
PROJECTIONS: list[dict[str, Any]] = json.loads((FOLDER / "projections.json").read_text(encoding="utf-8"))
SKETCHES: list[dict[str, Any]] = json.loads((FOLDER / "sketches.json").read_text(encoding="utf-8"))

each_projection = pytest.mark.parametrize("golden", PROJECTIONS, ids=lambda golden: golden["fingerprint"][:8])
each_sketch = pytest.mark.parametrize("golden", SKETCHES, ids=lambda golden: golden["name"])

PARSERS = {
    "integer": int,
    "text": str,
    "bytes": bytes.fromhex,
    "date": dt.date.fromisoformat,
    "time": dt.datetime.fromisoformat,
    "nanoseconds": int,
    "float": float,
    "decimal": Decimal,
}


def parsed(column: dict[str, Any]) -> list[Any]:
    return [PARSERS[column["type"]](item) for item in column["items"]]


# --- matrices -----------------------------------------------------------------------------------------------


@each_projection
def test_json_and_fingerprint_are_as_they_were(golden: dict[str, Any]) -> None:
    projection = Projection.from_json(golden["json"])
    assert projection.to_json() == golden["json"]
    assert projection.fingerprint == golden["fingerprint"]
    assert hashlib.blake2b(golden["json"].encode(), digest_size=16).hexdigest() == golden["fingerprint"]


@each_projection
def test_columns_are_as_they_were(golden: dict[str, Any]) -> None:
    indices = [int(index) for index in golden["columns"]]
    dense = Projection.from_json(golden["json"]).columns(indices)
    for column, nonzeros in zip(dense.T, golden["columns"].values(), strict=True):
        assert [[int(row), int(column[row])] for row in np.flatnonzero(column)] == nonzeros


@each_projection
def test_the_twin_makes_the_same_columns(golden: dict[str, Any]) -> None:
    for index, nonzeros in golden["columns"].items():
        assert kit_reader.nonzeros_of(golden["json"], int(index)) == nonzeros


@pytest.mark.parametrize(
    "golden",
    [golden for golden in PROJECTIONS if json.loads(golden["json"])["kind"] == "sjlt-block"],
    ids=lambda golden: golden["fingerprint"][:8],
)
def test_the_script_of_ten_lines_makes_the_same_columns(golden: dict[str, Any]) -> None:
    fields = json.loads(golden["json"])
    for index, nonzeros in golden["columns"].items():
        numbers = (fields[name] for name in ("seed", "sketch_dim", "sparsity", "independence"))
        made = script.column(*numbers, int(index))
        assert sorted(map(list, made)) == nonzeros


# --- states -------------------------------------------------------------------------------------------------


def column_of(column: dict[str, Any]) -> Any:
    return pa.array(parsed(column), pa.timestamp("ns")) if column["type"] == "nanoseconds" else parsed(column)


def indices_of(golden: dict[str, Any], projection: Projection) -> Any:
    columns = [column_of(column) for column in golden["keys"]]
    return columns[0] if len(columns) == 1 else projection.indices_of(*columns)


@each_sketch
def test_keys_are_encoded_as_they_were(golden: dict[str, Any]) -> None:
    projection = Projection.from_json(golden["projection"])
    assert projection.indices_of(indices_of(golden, projection)).tolist() == golden["indices"]


@each_sketch
def test_a_batch_leads_to_the_state_it_did(golden: dict[str, Any]) -> None:
    projection = Projection.from_json(golden["projection"])
    sketch = projection.sketch()
    sketch.update(indices_of(golden, projection), parsed(golden["values"]))
    assert sketch.state().tolist() == golden["state"]
    assert sketch.mass == golden["mass"]


@each_sketch
def test_single_events_and_tables_lead_there_too(golden: dict[str, Any]) -> None:
    projection = Projection.from_json(golden["projection"])
    sketch, table = projection.sketch(), projection.table()
    for index, value in zip(golden["indices"], parsed(golden["values"]), strict=True):
        sketch.update(index, value)
    table.update(["key"] * len(golden["indices"]), indices_of(golden, projection), parsed(golden["values"]))
    assert sketch.state().tolist() == table["key"].state().tolist() == golden["state"]
    assert sketch.mass == table["key"].mass == golden["mass"]


@each_sketch
def test_the_twin_leads_to_the_same_indices_state_and_mass(golden: dict[str, Any]) -> None:
    fields = json.loads(golden["projection"])
    columns = []
    for column in golden["keys"]:
        items = parsed(column)
        if column["type"] == "nanoseconds":
            columns.append([naive.fingerprint_of(naive.canonical_nanoseconds(item), fields["seed"]) for item in items])
        elif column["type"] == "integer" and len(golden["keys"]) == 1:
            columns.append(items)
        else:
            columns.append([naive.fingerprint(item, fields["seed"]) for item in items])
    rows = list(zip(*columns, strict=True))
    indices = [row[0] if len(row) == 1 else naive.tuple_index(row, fields["seed"]) for row in rows]
    values = parsed(golden["values"])
    assert indices == golden["indices"]
    assert naive_maps.sketch(golden["projection"], zip(indices, values, strict=True)) == golden["state"]
    steps = [naive.truncated(value, Fraction(fields["resolution"])) for value in values]
    assert sum(map(abs, steps)) == golden["mass"]
