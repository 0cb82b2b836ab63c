"""Unbounded logs in another dialect of CSV: read as the command ``sketch`` reads the same rows."""

import json
from pathlib import Path

import numpy as np
import pytest

import streamsketch as ss
from tests.cli.running import Forks
from tests.cli.test_unbounded import FILE, PIPE
from tests.streams.naive import AGREEMENT, HEADER, write

WRITTEN_OTHERWISE = {"delimiter": ";", "decimal": ",", "thousands": ".", "null_values": "NA,-"}
PLAIN = {"1.234": "1234", "7,0": "7", "2.000,0": "2000", "-": "", "NA": ""}
CELLS = [("tea", "1.234", "Zoë"), ("jam", "7,0", "Bo"), ("NA", "3", "Bo"), ("tea", "-", "Al"), ("tea", "2.000,0", "Cy")]


@pytest.mark.parametrize("command", [FILE, PIPE])
@pytest.mark.parametrize("by_job", [True, False])
def test_a_log_in_another_dialect_is_read_as_sketch_reads_it(
    *, by_job: bool, command: list[str], tmp_path: Path, forks: Forks
) -> None:
    """Commas, groups of thousands and cells that are missing, by the job or by ``--set``: the sums are the same."""
    agreement = AGREEMENT.replace(neighbours=ss.L1(5000, unit="customer", max_keys=2), missing="drop")
    rows = [(f"2026-11-22T13:00:{9 * n:02}Z", "north", *cells) for n, cells in enumerate(CELLS)]
    last = ("2026-11-22T13:02:00Z", "north", "tea", "1", "Zoë")
    plain = [[PLAIN.get(cell, cell) for cell in row] for row in [*rows, last]]
    tables = []
    for name, lines, dialect in (("plain", plain, {}), ("other", [*rows, last], WRITTEN_OTHERWISE)):
        text = "\n".join(dialect.get("delimiter", ",").join(row) for row in [HEADER.strip().split(","), *lines, ()])
        content = text.encode()
        place = tmp_path / name
        (place / "out").mkdir(parents=True)
        write(place, agreement, epsilon=1_000_000.0)
        (place / "log.csv").write_bytes(content)
        if by_job:
            job = json.loads((place / "job.json").read_text())
            (place / "job.json").write_text(json.dumps(job | dialect))
        settings = [part for field, value in dialect.items() for part in ("--set", f"{field}={value}")]
        done = forks.run(*command, *([] if by_job else settings), cwd=place, stdin=content)
        assert done.returncode == 0, done.stderr
        tables.append(ss.load(place / "out/2026-11-22T1300Z.parquet")["north"].values)
        (place / "rows.csv").write_bytes(content.rsplit(b"\n", 2)[0] + b"\n")
        agreement.save(place / "rows.json")
        how = ["--agreement", "rows.json", *settings, "-o", "rows.raw-sketch"]
        forks.succeeded("sketch", "rows.csv", *(part.replace("null_v", "null-v") for part in how), cwd=place)
        whole = ss.storage.load_raw(place / "rows.raw-sketch").state
        assert isinstance(whole, ss.SketchTable)
        tables.append(whole.sketch_of("north").state())
    assert np.abs(tables[0]).sum() > 0
    assert all(np.array_equal(table, tables[0]) for table in tables)
