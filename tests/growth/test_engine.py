"""An engine of one's own is a loop: group rows by unit, bound each group, merge the tables."""

import zlib
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)


def agreed(bound: int) -> ss.Agreement:
    neighbours = ss.L1(bound, unit="customer", max_keys=3)
    columns = {"index": "item", "key": "shop", "value": "sold", "unit": "customer"}
    return ss.Agreement(PROJECTION, **columns, neighbours=neighbours, missing="drop")


def sales(rows: int) -> pa.Table:
    """Return rows with returns, blanks and outliers: three shops, so that no customer loses one to a secret."""
    chance = np.random.default_rng(3)
    text = {name: chance.integers(0, many, rows).astype(str) for name, many in (("item", 50), ("customer", 40))}
    shops = np.array(["N", "S", ""])[chance.integers(0, 3, rows)]
    return pa.table({**text, "shop": shops, "sold": np.rint(chance.standard_cauchy(rows)).clip(-900, 900)})


def by_unit(batch: pa.RecordBatch, groups: int) -> list[pa.RecordBatch]:
    """Return the rows of a batch in groups, all rows of a unit in one of them: the engine's shuffle."""
    group = np.array([zlib.crc32(unit.encode()) % groups for unit in batch.column("customer").to_pylist()])
    return [batch.filter(pa.array(group == place)) for place in range(groups)]


def run(rows: pa.Table, agreement: ss.Agreement, workers: Executor, groups: int) -> ss.SketchTable:
    """Return the bounded table of rows, made in pieces."""
    shuffled = list(workers.map(lambda batch: by_unit(batch, groups), rows.to_batches(max_chunksize=100)))
    parts = [pa.Table.from_batches([pieces[group] for pieces in shuffled]) for group in range(groups)]
    total = ss.SketchTable(agreement)
    for table in workers.map(lambda part: ss.bound(part, agreement), parts):
        total.merge(table, disjoint_units=True)  # no unit is in two groups
    return total


@pytest.mark.parametrize("bound", [20, 10**6])
@pytest.mark.parametrize("groups", [1, 3, 8])
def test_a_toy_engine_gives_the_bits_and_the_bounds_of_one_process(groups: int, bound: int) -> None:
    rows, agreement = sales(1000), agreed(bound)
    with ThreadPoolExecutor(4) as workers:
        table = run(rows, agreement, workers, groups)
    alone = ss.bound(rows, agreement)
    if bound == 10**6:
        assert table == alone
    else:  # a secret of each call decides which pieces of a clipped unit stay, but not how many
        assert {key: table[key].mass for key in table} == {key: alone[key].mass for key in alone}
    assert table.bounds.neighbours == alone.bounds.neighbours == agreement.neighbours
    release = table.release(epsilon=1.0, neighbours=agreement.neighbours, public_keys=["N", "S"])
    assert release.guarantee.basis == "enforced"
