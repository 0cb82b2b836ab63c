"""What an outsider sees of windows that are released once: nothing of one unit, in any life of a job.

Slots, their order, what the ledger has and which slots have alarms are functions of keys, windows and lives. What an
outsider sees of noise is played elsewhere: here it is what hides the sums.
"""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.privacy.samplers import SystemBits
from streamsketch.release import AdditiveNoise
from streamsketch.streams import FileSink, ReleaseOnce, Slot
from tests.observables.game import Seen, assert_alike, differences, files_in, hidden, observed

PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=7)
KEYS = ["east", "north", "south"]
FIVE = ss.L1(5, unit="customer", max_keys=2)
AGREEMENT = ss.Agreement.of(PROJECTION, key="shop", index="item", value="n", unit="customer", neighbours=FIVE)
CROWD = [("north", 5, 1, "Bob"), ("south", 7, 2, "Cy"), ("north", 5, 3, "Cy")]
WORLDS: list[list[tuple[str, int, int, str]]] = [  # Ann is nowhere, beyond her bound, all there is, and that not
    CROWD,
    [*CROWD, ("south", 9, 900, "Ann"), ("north", 1, 5, "Ann"), ("moon", 2, 1, "Ann")],
    [("east", 9, 4, "Ann")],
    [],
]
LIVES = ["again", "killed after a slot", "another version before it", "a small budget"]


class Watched(FileSink):
    """Notes each put, and fails after some."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.puts: list[tuple[Slot, int]] = []
        self.breaks_after = 10**9

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        if len(self.puts) >= self.breaks_after:
            raise OSError("the network is gone")
        self.puts.append((slot, len(content)))
        return super().put(slot, content)


def table_of(rows: list[tuple[str, int, int, str]]) -> ss.SketchTable:
    schema = pa.schema({"shop": pa.string(), "item": pa.int64(), "n": pa.int64(), "customer": pa.string()})
    cells = [dict(zip(schema.names, row, strict=True)) for row in rows]
    found = ss.bound(pa.Table.from_pylist(cells, schema=schema), AGREEMENT, public_keys=KEYS)
    assert isinstance(found, ss.SketchTable)
    return found


def play(rows: list[tuple[str, int, int, str]], life: str, folder: Path, patch: pytest.MonkeyPatch) -> Seen:
    folder.mkdir()
    ledger = ss.Ledger(folder / "ledger.sqlite")
    ledger.dataset("shop", unit="customer", epsilon=1.0 if life == "a small budget" else 10.0)
    publisher = AdditiveNoise(epsilon=1.0, neighbours=FIVE).calibrated(PROJECTION)
    sink = Watched(folder / "public")
    known: dict[str, Any] = {"public_keys": KEYS, "ledger": ledger, "dataset": "shop"}
    once = ReleaseOnce(publisher, bytes(32), sink, "shops", **known)
    tables = [table_of(rows), table_of([])]
    times = 2 if life == "again" else 1
    empty = {key: PROJECTION.sketch() for key in KEYS}
    before = [empty] if life == "another version before it" else []
    exact = [one[key].state() for one in before for key in KEYS]
    # what was claimed for another version is not drawn
    drawn = tables[1:] if before else tables
    exact += [table.sketch_of(key).state() for table in drawn for _ in range(times) for key in KEYS]
    # bits keyed by the exact sums: without the secret as good as fresh ones
    patch.setattr("streamsketch.once.release_once.KeyedBits", lambda *_: SystemBits())
    ends: list[Any] = []
    with observed(patch) as seen, hidden(patch, exact):
        for version in before:
            ReleaseOnce(publisher, bytes(32), sink, "shops", public_keys=KEYS).release(0, version)
        for window, table in enumerate(tables):
            if life == "killed after a slot":
                sink.breaks_after = len(sink.puts) + 1
            for _ in range(times):
                try:
                    held, alarms = once.release(window * 10**6, table)
                    ends.append((list(held), [(one.slot, one.result) for one in alarms]))
                except OSError as error:
                    ends.append(str(error))
    charges = [entry.body.get("note") for entry in ledger.entries()]
    return seen | {
        "logs": re.sub(r'"time": "[^"]*"', "", seen["logs"]),
        "files": files_in(folder / "public"),
        "puts": sink.puts,
        "ends": json.dumps(ends),
        "charges": charges,
    }


@pytest.mark.parametrize("life", LIVES)
def test_a_unit_changes_nothing_but_what_noise_hides(
    life: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds = [play(rows, life, tmp_path / str(n), monkeypatch) for n, rows in enumerate(WORLDS)]
    assert [seen["end"] for seen in worlds] == ["done"] * len(worlds)
    assert_alike(worlds)


def test_keys_that_depend_on_the_data_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is why they are public, or asserted to be."""
    seen = []
    for number, rows in enumerate((CROWD, WORLDS[2])):
        sink = Watched(tmp_path / str(number))
        with observed(monkeypatch) as one:
            publisher = AdditiveNoise(epsilon=1.0, neighbours=FIVE).calibrated(PROJECTION)
            table = table_of(rows)
            ReleaseOnce(publisher, bytes(32), sink, "shops").release(
                0, {key: table[key] for key in table if table[key].mass}
            )
        seen.append(one | {"puts": sink.puts})
    assert differences(seen)
