"""A data stream of kinesalite, an emulator, which splits and merges shards as Amazon does (`make test-kinesis`)."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.jobs.kinesis import client
from tests.jobs.topic import BASE, MINUTE, NeverStop, as_json, reader, released, rows

pytest.importorskip("boto3")

from streamsketch.jobs import Shards, ShardStream
from streamsketch.jobs.shards import HEARTBEAT

PROGRAM = os.environ.get("STREAMSKETCH_KINESALITE")
REGION, NAME = "us-east-1", "sales"
ARN = f"arn:aws:kinesis:{REGION}:000000000000:stream/{NAME}"

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="make test-kinesis fetches the emulator")


@pytest.fixture
def kinesis() -> Iterator[tuple[Any, str]]:
    """Yield a client of an emulator, and its address."""
    given = ["--port", "0", *(part for what in ("create", "update", "delete") for part in (f"--{what}StreamMs", "5"))]
    with subprocess.Popen(["node", str(PROGRAM), *given], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603, S607
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            assert found is not None
            address = f"http://127.0.0.1:{found[1]}"
            yield client(address, REGION), address
        finally:
            process.kill()


def active(ours: Any) -> dict[str, Any]:
    """Return the open shards, once the stream was changed."""
    while ours.describe_stream_summary(StreamName=NAME)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
        time.sleep(0.02)
    listed = ours.list_shards(StreamName=NAME)["Shards"]
    return {one["ShardId"]: one for one in listed if "EndingSequenceNumber" not in one["SequenceNumberRange"]}


def write(ours: Any, minute: int) -> int:
    """Write rows of a minute and a heartbeat to each open shard; return how many rows."""
    live = active(ours)
    for seed, shard in enumerate(live.values()):
        at = shard["HashKeyRange"]["StartingHashKey"]
        for content in as_json(rows(minute, 8, seed=seed)):
            ours.put_record(StreamName=NAME, Data=content, PartitionKey="somebody", ExplicitHashKey=at)
        ours.put_record(StreamName=NAME, Data=b"", PartitionKey=HEARTBEAT, ExplicitHashKey=at)
    return 8 * len(live)


def test_splits_and_merges_give_the_same_bytes_through_stops(tmp_path: Path, kinesis: tuple[Any, str]) -> None:
    ours, address = kinesis
    ours.create_stream(StreamName=NAME, ShardCount=2)
    active(ours)
    minute = (int(time.time()) - BASE) // MINUTE  # heartbeats have the time when they arrive
    start = f"{np.datetime64(BASE + MINUTE * (minute - 2), 's')}Z"
    options: dict[str, Any] = {"kind": ShardStream, "name": ARN, "policy": {"start": start, "delay": 5 * MINUTE}}

    def reading(folder: Path) -> tuple[ShardStream, Shards]:
        log = Shards(ARN, lambda region: client(address, region), every=0.05)
        found = reader(log, folder, **options)
        assert isinstance(found, ShardStream)
        return found, log

    (tmp_path / "begun").mkdir()
    reading(tmp_path / "begun")[1].close()
    written = write(ours, minute)
    first, second = active(ours)
    ours.split_shard(StreamName=NAME, ShardToSplit=first, NewStartingHashKey=str(1 << 126))
    written += write(ours, minute)
    _, right = sorted(active(ours).keys() - {second})
    ours.merge_shards(StreamName=NAME, ShardToMerge=right, AdjacentShardToMerge=second)
    written += write(ours, minute)
    # the last word is the clock's: rows of which the time ends all windows before them
    for shard in active(ours).values():
        last = as_json(rows(minute + 20, 1))[0]
        ours.put_record(
            StreamName=NAME, Data=last, PartitionKey="x", ExplicitHashKey=shard["HashKeyRange"]["StartingHashKey"]
        )
    found = []
    for stops in (0, 3, 6):
        folder = shutil.copytree(tmp_path / "begun", tmp_path / str(stops))
        for _ in range(stops):
            read, log = reading(folder)
            read.step(0.0)
            read.step(0.1)
            read.save()
            log.close()
        read, log = reading(folder)
        read.run(NeverStop(), every=1e9, once=True)
        log.close()
        assert (read.row_counts.late, read.summary["losses"]) == (0, 0)
        assert read.row_counts.read == written + 2
        assert read.summary["shards_ended"] == [0, 1, 3]
        assert read.offsets.keys() == {2, 4}
        found.append(released(folder))
    assert len(found[0]) > 10
    assert found[0] == found[1] == found[2]
