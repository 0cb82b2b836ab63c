"""Sales of two shops, in files of each format, and the sketches they make."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=3, resolution="1/4")
ROWS = [("north", "ä,b", 7, "0.5"), ("north", 'c"d', 7, "2"), ("south", "e\nf", -1, "-1.25"), ("north", "ä,b", 7, "1")]
EVENTS = ["--key", "shop", "--index", "item", "--index", "aisle", "--value", "amount"]


def expected() -> ss.SketchTable:
    shops, items, aisles, amounts = zip(*ROWS, strict=True)
    table = PROJECTION.table()
    table.update(
        list(shops), PROJECTION.indices_of(list(items), [str(aisle) for aisle in aisles]), [float(x) for x in amounts]
    )
    return table


def write_sales(folder: Path) -> None:
    """Write the sales as CSV, JSON lines and Parquet, and the projection that was agreed on."""
    (folder / "agreed.json").write_text(PROJECTION.to_json())
    quoted = [f'{shop},"{item.replace(chr(34), chr(34) * 2)}",{aisle},{amount}' for shop, item, aisle, amount in ROWS]
    (folder / "sales.csv").write_text("\n".join(["shop,item,aisle,amount", *quoted, ""]))
    lines = [
        json.dumps({"shop": shop, "item": item, "aisle": aisle})[:-1] + f', "amount": {amount}, "more": [null]}}\n'
        for shop, item, aisle, amount in ROWS
    ]
    (folder / "sales.jsonl").write_text("".join(lines))
    shops, items, aisles, amounts = zip(*ROWS, strict=True)
    columns = {"shop": shops, "item": items, "aisle": aisles, "amount": [float(x) for x in amounts]}
    pq.write_table(pa.table(columns), folder / "sales.parquet")
