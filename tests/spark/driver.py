"""A driver that releases a stream of files and kills itself after so many puts: ``python -m tests.spark.driver …``."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import streamsketch as ss
from streamsketch.once.slots import VERSION
from streamsketch.release import AdditiveNoise
from streamsketch.spark import ReleaseBatches
from streamsketch.streams import FileSink
from tests.spark.cluster import session
from tests.spark.rows import SECRET, agreed

TWENTY = ss.L1(20, unit="customer", max_keys=2)
KEYS = ["N", "S"]


class Dying(FileSink):
    """Files, of which so many releases are put before the process is gone; 0 for any number."""

    left = 0

    def put(self, slot: Any, content: bytes) -> bytes | None:
        held = super().put(slot, content)
        if slot.kind == VERSION:
            return held
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return held


def publishing(sink: FileSink, **options: Any) -> ReleaseBatches:
    noise = AdditiveNoise(epsilon=1.0, neighbours=TWENTY)
    return ReleaseBatches(agreed(TWENTY), noise, SECRET, sink, "sales", public_keys=KEYS, **options)


def main(folder: Path, puts: int, master: str) -> None:
    """Release each file of ``folder/in`` as a batch; note alarms in ``folder/alarms``."""
    spark = session(master)
    sink = Dying(folder / "out")
    sink.left = puts
    ledger = ss.Ledger(folder / "ledger.sqlite")

    def note(alarms: list[Any]) -> None:
        with (folder / "alarms").open("a") as file:
            file.writelines(f"{one.slot.window} {one.slot.key} {one.result}\n" for one in alarms)

    rows = spark.createDataFrame(pq.read_table(folder / "schema.parquet"))
    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    writer = stream.writeStream.foreachBatch(publishing(sink, ledger=ledger, dataset="sales", alarmed=note))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
