"""A batch of a stream is released once: again it gives the same bytes, and with other rows an alarm."""

import contextlib
import dataclasses
import functools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.release import AdditiveNoise
from streamsketch.spark import ReleaseBatches
from streamsketch.streams import Alarm, DatabaseSink, FileSink, ReleaseOnce
from tests.spark.frames import LocalFrame
from tests.spark.rows import SECRET, agreed, sales

TWENTY = ss.L1(20, unit="customer", max_keys=2)
LARGE = ss.L1(10**6, unit="customer", max_keys=3)
KEYS = ["N", "S"]
ROWS = sales()


def publishing(folder: Path, neighbours: Any = TWENTY, **options: Any) -> ReleaseBatches:
    known: dict[str, Any] = {"sink": FileSink(folder), "public_keys": KEYS} | options
    noise = AdditiveNoise(epsilon=1.0, neighbours=neighbours)
    return ReleaseBatches(agreed(neighbours), noise, SECRET, known.pop("sink"), "sales", **known)


def published(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.sketch")}


def batch(rows: Any = ROWS, partitions: int = 2) -> Any:
    return LocalFrame.of(rows, partitions)


def test_a_batch_that_is_tried_again_has_the_same_bytes(tmp_path: Path) -> None:
    """In another process, in other partitions, and where units are clipped by a secret."""
    publishing(tmp_path / "one")(batch(), 17)
    for _ in range(2):
        publishing(tmp_path / "other")(batch(partitions=5), 17)
    found = published(tmp_path / "one")
    assert set(found) == {f"sales/1970-01-01T00-00-17Z/{key}.sketch" for key in KEYS}
    assert found == published(tmp_path / "other")


def test_a_batch_has_the_bytes_that_release_once_gives_its_rows_in_one_process(tmp_path: Path) -> None:
    publish = publishing(tmp_path / "spark", LARGE)
    publish(batch(), 3)
    bounded: Any = ss.bound(ROWS, agreed(LARGE))
    of_batch = dataclasses.replace(LARGE, unit="customer in one batch")
    known: dict[str, Any] = {"agreement": bounded.agreement, "largest": bounded.largest}
    known["bounds"] = dataclasses.replace(bounded.bounds, neighbours=of_batch)
    table = ss.SketchTable.from_state(bounded.projection, list(bounded), bounded.sums(), bounded.masses, **known)
    noise = (
        AdditiveNoise(epsilon=1.0, neighbours=of_batch).calibrated(table.projection).with_guarantee(publish.guarantee)
    )
    once = ReleaseOnce(noise, SECRET, FileSink(tmp_path / "here"), "sales", public_keys=KEYS)
    once.release(3_000_000, table)
    assert published(tmp_path / "here") == published(tmp_path / "spark")


def test_a_batch_with_other_rows_raises_an_alarm_and_publishes_nothing(tmp_path: Path) -> None:
    alarms: list[list[Alarm]] = []
    publish = publishing(tmp_path, alarmed=alarms.append)
    publish(batch(), 0)
    before = published(tmp_path)
    publish(batch(), 0)
    assert not alarms
    publish(batch(ROWS[:-200]), 0)
    assert published(tmp_path) == before
    ((first, *others),) = alarms
    assert (first.slot.key, first.result, [one.result for one in others]) == ("N", "sketch", ["withheld"])


def test_batches_are_windows_and_other_secrets_other_noise(tmp_path: Path) -> None:
    for epoch, name in ((1, "one"), (2, "two")):
        publish = publishing(tmp_path / name, epoch=epoch, window=lambda number: 3_600_000_000 * number)
        publish(batch(), 1)
        publish(batch(), 2)
    one, two = published(tmp_path / "one"), published(tmp_path / "two")
    assert set(one) == {f"sales/1970-01-01T0{hour}-00-00Z/{key}.sketch" for hour in (1, 2) for key in KEYS}
    assert len({*one.values(), *two.values()}) == 8


def test_each_batch_is_charged_once_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    alarms: list[list[Alarm]] = []
    ledger.dataset("sales", unit="customer", epsilon=2.0, delta=0.0)
    known: dict[str, Any] = {"ledger": ledger, "dataset": "sales", "alarmed": alarms.append}
    for number in (0, 0, 1, 2):
        publishing(tmp_path / "out", **known)(batch(), number)
    assert len(published(tmp_path / "out")) == 4
    assert sum(entry.body["kind"] == "charge" for entry in ledger.entries()) == 2
    assert [[one.result for one in found] for found in alarms] == [["refused", "refused"]]


def test_the_guarantee_is_for_a_unit_in_a_batch(tmp_path: Path) -> None:
    publish = publishing(tmp_path)
    assert publish.guarantee.neighbours == ss.L1(20, unit="customer in one batch", max_keys=2)
    assert publish.guarantee.basis == "enforced"
    (condition,) = publish.guarantee.conditions
    assert condition.startswith("the rows of one customer do not decide in which batch those of others are")
    publish(batch(), 0)
    release = ss.load(next(tmp_path.rglob("N.sketch")))
    assert release.guarantee == publish.guarantee


def test_rows_without_units_are_released_for_the_asserted_neighbours(tmp_path: Path) -> None:
    noise = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(20, unit="sale"))
    publish = ReleaseBatches(agreed(), noise, SECRET, FileSink(tmp_path), "sales", public_keys=KEYS)
    publish(batch(), 0)
    assert (publish.guarantee.basis, publish.guarantee.neighbours.unit) == ("asserted", "sale")
    assert len(published(tmp_path)) == 2


def test_databases_are_opened_by_the_thread_that_puts(tmp_path: Path) -> None:
    sink = DatabaseSink(functools.partial(sqlite3.connect, tmp_path / "out.sqlite"))
    publish = publishing(tmp_path, sink=sink)
    publish(batch(), 0)
    publish(batch(), 1)
    with contextlib.closing(sqlite3.connect(tmp_path / "out.sqlite")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM releases").fetchone() == (4,)


def test_a_sink_that_breaks_is_tried_again_and_completes_the_batch(tmp_path: Path) -> None:
    class Breaks(FileSink):
        def put(self, slot: Any, content: bytes) -> bytes | None:
            if slot.key == "S":
                raise OSError("the network is gone")
            return super().put(slot, content)

    with pytest.raises(OSError, match="the network is gone"):
        publishing(tmp_path / "out", sink=Breaks(tmp_path / "out"))(batch(), 0)
    assert len(published(tmp_path / "out")) == 1
    publishing(tmp_path / "out")(batch(), 0)
    publishing(tmp_path / "whole")(batch(), 0)
    assert published(tmp_path / "out") == published(tmp_path / "whole")


def test_equal_rows_are_bounded_alike_in_all_epochs_and_differently_in_each_window(tmp_path: Path) -> None:
    """So they are one version of their window; one secret for all batches would choose the same keys of a unit."""
    seen = {}
    for epoch in (1, 2):
        for number in (17, 18):
            folder = tmp_path / f"{epoch} {number}"
            noise = AdditiveNoise(epsilon=1e6, neighbours=ss.L1(900, unit="customer", max_keys=1))
            agreement = agreed(noise.neighbours)
            sink = FileSink(folder)
            ReleaseBatches(agreement, noise, SECRET, sink, "sales", public_keys=KEYS, epoch=epoch)(batch(), number)
            values = [ss.load(path).values.tolist() for path in sorted(folder.rglob("*.sketch"))]
            seen[epoch, number] = str(values)
    assert seen[1, 17] == seen[2, 17]
    assert seen[1, 18] == seen[2, 18]
    assert seen[1, 17] != seen[1, 18], "of which a window's rows are kept is drawn anew"
