"""Releases of Spark are drawn once, on the driver, and charged once, whatever reads them."""

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.privacy import Counting
from streamsketch.release import AdditiveNoise
from streamsketch.signs import DPSignLogistic
from streamsketch.spark import KeyedSketches, release, releases_frame, sketch_per_key
from tests.spark.conftest import FrameOf
from tests.spark.frames import LocalFrame
from tests.spark.rows import agreed, sales

TWENTY = ss.L1(20, unit="customer", max_keys=2)
NOISE = AdditiveNoise(epsilon=1.0, neighbours=TWENTY)
KEYS = ["N", "S", "none"]


def sketches_of(frame_of: FrameOf, **options: Any) -> KeyedSketches:
    return sketch_per_key(frame_of(sales(), 3), agreed(TWENTY, **options), public_keys=["N", "S"])


@pytest.fixture
def ledger(tmp_path: Path) -> ss.Ledger:
    made = ss.Ledger(tmp_path / "ledger.sqlite")
    made.dataset("sales", unit="customer", epsilon=2.5, delta=0.0)
    return made


def charges(ledger: ss.Ledger) -> int:
    return sum(entry.body["kind"] == "charge" for entry in ledger.entries())


def test_a_release_is_drawn_and_charged_once_whatever_reads_it(frame_of: FrameOf, ledger: ss.Ledger) -> None:
    released = release(sketches_of(frame_of), NOISE, public_keys=KEYS, ledger=ledger, dataset="sales")
    assert list(released) == KEYS
    assert (released.guarantee.basis, released.guarantee.epsilon) == ("enforced", 1.0)
    first, second = released.to_arrow(), released.to_arrow()
    assert first.equals(second)
    assert charges(ledger) == 1


def test_a_frame_of_a_release_has_the_bytes_that_were_drawn_in_each_action(spark: Any, ledger: ss.Ledger) -> None:
    frame = spark.createDataFrame(sales()).repartition(3)
    sketches = sketch_per_key(frame, agreed(TWENTY))
    released = release(sketches, NOISE, public_keys=KEYS, ledger=ledger, dataset="sales")
    table = releases_frame(spark, released).repartition(3)
    assert table.count() == len(KEYS)
    first, second = ({row["key"]: bytes(row["sketch"]) for row in table.collect()} for _ in range(2))
    assert first == second == {key: one.to_bytes() for key, one in released.items()}
    assert charges(ledger) == 1


def test_another_release_is_charged_of_the_same_data_which_are_not_read_again(ledger: ss.Ledger) -> None:
    rows, runs = sales(), []
    frame: Any = LocalFrame(lambda: runs.append(1) or [rows], rows.column_names)  # type: ignore[func-returns-value]
    sketches = sketch_per_key(frame, agreed(TWENTY))
    one, other = (release(sketches, NOISE, public_keys=KEYS, ledger=ledger, dataset="sales") for _ in range(2))
    assert one != other
    assert one.data_ids == other.data_ids
    assert (charges(ledger), runs) == (2, [1])
    with pytest.raises(ss.errors.LedgerError):
        release(sketches, NOISE, public_keys=KEYS, ledger=ledger, dataset="sales")
    assert charges(ledger) == 2


@pytest.mark.parametrize(
    ("publisher", "options", "kind", "message"),
    [
        (NOISE, {}, ss.InvalidInputError, "which keys have data is private"),
        (NOISE, {"public_keys": KEYS, "keys_are_public": True}, ss.InvalidInputError, "which keys have data"),
        (dataclasses.replace(NOISE, neighbours=ss.L1(7, unit="customer")), {}, ss.InvalidInputError, "does not imply"),
        (1.0, {}, TypeError, "publisher must be a mechanism"),
        (NOISE, {"dataset": "others"}, ss.errors.LedgerError, "others"),
    ],
)
def test_what_cannot_be_released_is_refused_before_a_job_runs(
    ledger: ss.Ledger, publisher: Any, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    frame: Any = LocalFrame(lambda: pytest.fail("a job ran"), sales(1).column_names)
    if options.get("dataset") or publisher is not NOISE:
        options = {"public_keys": KEYS} | options
    if options.get("dataset"):
        options["ledger"] = ledger
    with pytest.raises(kind, match=message):
        release(sketch_per_key(frame, agreed(TWENTY)), publisher, **options)
    assert charges(ledger) == 0


def test_other_sketches_are_refused() -> None:
    with pytest.raises(TypeError, match="the output of sketch_per_key"):
        release(ss.sketch(sales(), agreed()), NOISE, public_keys=KEYS)  # type: ignore[arg-type]


def test_the_keys_of_the_sketches_are_released_if_no_others_are_named() -> None:
    assert list(release(sketches_of(LocalFrame.of), NOISE)) == ["N", "S"]


def test_units_are_counted_as_agreed() -> None:
    released = release(sketches_of(LocalFrame.of, counting=Counting(units=1)), NOISE)
    assert released.guarantee.mechanism.layout.counting == Counting(units=1)
    assert released["N"].units.standard_error > 0
    assert release(sketches_of(LocalFrame.of), NOISE).guarantee.mechanism.layout.counting is None


def test_signs_are_released_alike() -> None:
    signs = DPSignLogistic(epsilon=1.0, neighbours=TWENTY)
    assert list(release(sketches_of(LocalFrame.of), signs)) == ["N", "S"]


def test_a_job_that_fails_charges_nothing(ledger: ss.Ledger) -> None:
    rows = sales(5).set_column(2, "sold", pa.array(["x"] * 5))
    sketches = sketch_per_key(LocalFrame.of(rows, 1), agreed())
    noise = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="customer"))
    with pytest.raises(ss.InvalidInputError, match="sold"):
        release(sketches, noise, public_keys=KEYS, ledger=ledger, dataset="sales")
    assert charges(ledger) == 0
