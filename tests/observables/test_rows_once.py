"""Rows of a schedule are drawn once, on every engine that has rows: one charge covers each row once.

An older state is restored and what was published is gone. The same rows then give the same bytes; other rows would be a
second draw under the one charge, which the ledger refuses.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReleasePerKey, SketchPerKey, TumblingWindows
from streamsketch.beam.streams import WriteFilesOnce, configure_stream
from streamsketch.continual import Releaser, Tree
from streamsketch.errors import LedgerError
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release import AdditiveNoise
from streamsketch.streams import FileSink, LedgerCharge, Stream
from tests.observables.test_engines import AGREEMENT, FIRST, KEYS, NEAR, OTHER, PROJECTION, START, Rows, quiet, table_of
from tests.streams.naive import policy_of

TREE = Tree(horizon=4, max_windows=4)
Windows = list[Rows]
SAME: Windows = [FIRST, FIRST]
CHANGED: Windows = [FIRST, OTHER]  # in the second window
EARLIER: Windows = [OTHER, FIRST]  # in the first


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder, self.launches = folder, 0
        self.key, self.claims = folder / "root.key", folder / "claims"
        self.key.touch(mode=0o600)
        self.key.write_bytes(bytes(range(32)))
        self.claims.mkdir()
        self.ledger = ss.Ledger(folder / "ledger.sqlite")
        self.ledger.dataset("shops", unit="customer", epsilon=1.5)
        self.publisher = AdditiveNoise(epsilon=1.0, neighbours=NEAR, schedule=TREE)

    def out(self) -> Path:
        """Return an empty folder: what was published before is gone."""
        self.launches += 1
        (self.folder / f"out {self.launches}").mkdir()
        return self.folder / f"out {self.launches}"


def files_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.rglob("*.sketch"))]


def releaser(place: Place, windows: Windows, *, keyed: bool = True) -> list[bytes]:
    """Continue the state after the first window, which is added once."""

    def bits(key: Any, row: Any) -> KeyedBits:
        return KeyedBits(bytes(32), str(key).encode() + row.astype("<i8").tobytes())

    known: dict[str, Any] = {"public_keys": KEYS, "ledger": place.ledger, "dataset": "shops"}
    known |= {"bits": bits} if keyed else {}
    tables: list[Any] = [ss.bound(table_of(rows), AGREEMENT, public_keys=KEYS) for rows in windows]
    if not hasattr(place, "state"):
        first = Releaser(place.publisher, PROJECTION)
        place.first = first.add(tables[0], **known).to_bytes()  # type: ignore[attr-defined]
        place.state = first.state  # type: ignore[attr-defined]
    again = Releaser.restored(place.publisher, PROJECTION, place.state)  # type: ignore[attr-defined]
    return [place.first, again.add(tables[1], **known).to_bytes()]  # type: ignore[attr-defined]


def stream(place: Place, windows: Windows) -> list[bytes]:
    times = {"window": "1 min", "delay": "10 s", "start": "2026-11-22T13:00Z", "stream": "shops"}
    policy = policy_of(place.folder / "unused", AGREEMENT, epsilon=1.0, public_keys=KEYS, schedule=TREE, **times)
    state, backup, out = place.folder / "s.raw-stream", place.folder / "backup", place.out()
    charge = LedgerCharge(place.ledger, "shops", PROJECTION)
    with FileSink(out) as sink:
        if not backup.exists():
            Stream(*policy, state, charge, sink=sink).save({})
            shutil.copy(state, backup)
        shutil.copy(backup, state)
        running = Stream(*policy, state, charge, sink=sink)
        for minute, rows in enumerate([*windows, [("dora", "east")]]):
            at = pa.array([f"2026-11-22T13:{minute:02}:15Z"] * len(rows))
            running.add(table_of(rows).append_column("at", at).combine_chunks().to_batches()[0], 1)
        running.save({})
    return files_of(out)


def on_beam(place: Place, windows: Windows) -> list[bytes]:
    start, out = START / 10**6, place.out()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        known: dict[str, Any] = {"root_key": place.key, "claims": str(place.claims)}
        configure_stream(pipeline, stream="shops", epoch=None if place.launches == 1 else 1, **known)
        stamped = [
            TimestampedValue(table_of([row]), start + 60 * n + 15) for n, rows in enumerate(windows) for row in rows
        ]
        batches = pipeline | beam.Create(stamped).with_output_types(pa.Table) | TumblingWindows(60)
        release = ReleasePerKey(
            place.publisher,
            public_keys=KEYS,
            public_windows=(start, start + 120),
            ledger=str(place.folder / "ledger.sqlite"),
            dataset="shops",
        )
        bounded = batches | BoundContributions(AGREEMENT, public_keys=KEYS)
        bounded | SketchPerKey(AGREEMENT) | release | WriteFilesOnce(str(out), "shops", epoch=1)
    return files_of(out)


ENGINES: dict[str, Callable[[Place, Windows], list[bytes]]] = {
    "Releaser": releaser,
    "Stream": stream,
    "Beam": on_beam,
}
every_engine = pytest.mark.parametrize("engine", ENGINES)


def drawn(engine: str, place: Place, windows: Windows) -> list[bytes]:
    with quiet():
        try:
            return ENGINES[engine](place, windows)
        except LedgerError as error:
            if "each row once" not in str(error):
                raise
            return files_of(place.folder / f"out {place.launches}") if place.launches else [place.first]  # type: ignore[attr-defined]


@every_engine
def test_a_row_is_drawn_from_one_set_of_rows_under_one_charge(engine: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = drawn(engine, place, SAME)
    assert drawn(engine, place, SAME) == first, "the same rows give the same bytes, and cost nothing more"
    assert place.ledger.left("shops").charges == 1
    other = drawn(engine, place, CHANGED)
    assert set(other) < set(first), "the second row is not drawn again"
    assert len(other) in {1, len(KEYS)}
    assert place.ledger.left("shops").charges == 1
    assert drawn(engine, place, SAME) == first


@pytest.mark.parametrize("engine", ["Stream", "Beam"])
def test_another_first_row_is_not_drawn_under_the_charge(engine: str, tmp_path: Path) -> None:
    """On one machine another first row is another history, which is charged; on Beam the charge is of the epoch."""
    place = Place(tmp_path)
    first = drawn(engine, place, SAME)
    with quiet():
        try:
            other = ENGINES[engine](place, EARLIER)
        except LedgerError:
            other = []
    assert set(other) < set(first)
    assert place.ledger.left("shops").charges == 1
    assert drawn(engine, place, SAME) == first


def test_fresh_noise_is_drawn_once(tmp_path: Path) -> None:
    """Without keyed bits no second draw is the same, so a restored state draws no row that was drawn before."""
    place = Place(tmp_path)
    releaser(place, SAME, keyed=False)
    with pytest.raises(LedgerError, match=r"draw of row 1 .* each row once"):
        releaser(place, SAME, keyed=False)
    assert place.ledger.left("shops").charges == 1


def test_a_call_that_failed_is_repeated_under_its_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    adding = Releaser(place.publisher, PROJECTION)
    table: Any = ss.bound(table_of(FIRST), AGREEMENT, public_keys=KEYS)
    known: dict[str, Any] = {"public_keys": KEYS, "ledger": place.ledger, "dataset": "shops"}
    with monkeypatch.context() as patch:
        patch.setattr(
            "streamsketch.schedules.releaser.PrivateTable.of_one", lambda *_: (_ for _ in ()).throw(MemoryError)
        )
        with pytest.raises(MemoryError):
            adding.add(table, **known)
    assert adding.windows == 0
    adding.add(table, **known)
    assert [entry.body.get("note", "").split(",")[0] for entry in place.ledger.entries()][2:] == ["row 0"]


def test_draws_are_entered_under_a_charge(tmp_path: Path) -> None:
    ledger = Place(tmp_path).ledger
    with pytest.raises(LedgerError, match="no charge has the id 'x'"):
        ledger.draw("x", 0, "a3")
    guarantee = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="customer")).guarantee
    ledger.charge("shops", guarantee, once="x")
    receipt = ledger.draw("x", 0, "a3")
    assert ledger.draw("x", 0, "a3") == receipt
    assert ledger.draw("x", 1, "b4") != receipt
    before = ledger.left("shops")
    with pytest.raises(LedgerError, match="entry 3 is a draw of row 0 from other sums"):
        ledger.draw("x", 0, "b4")
    assert ledger.left("shops") == before
    assert ledger.audit(receipt) == 4
