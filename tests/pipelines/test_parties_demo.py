"""The demonstration of a round: five processes, and the error beside that of merged releases."""

import datetime as dt
import json
import math
import multiprocessing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import streamsketch as ss
from pipelines import parties_demo
from tests import loaded

HOURS = [dt.datetime(2013, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=hour) for hour in range(40)]
FLIGHTS = pa.table(
    {"route": [f"{airport}-IAH" for airport in ("LGA", "JFK", "EWR") for _ in HOURS], "scheduled_hour": HOURS * 3}
)


def test_five_processes_publish_one_sum_with_one_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = multiprocessing.get_context("forkserver")  # one import for all five, which still share nothing else
    server.set_forkserver_preload([parties_demo.__name__, loaded.__name__])
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: server)
    pq.write_table(FLIGHTS, tmp_path / "flights.parquet")
    agreement = ss.Agreement(
        ss.SJLT(sketch_dim=4096, sparsity=4, seed=1),
        index={"route": "text", "scheduled_hour": "timestamp"},
        neighbours=parties_demo.NEIGHBOURS,
    )
    agreed, sent = parties_demo.play(tmp_path / "flights.parquet", agreement, 1.0)
    assert [one.airports for one in sent] == ["EWR", "EWR, JFK", "JFK", "JFK, LGA", "LGA"]
    assert [one.flights for one in sent] == [24] * 5
    released = agreed.combine(one.contribution for one in sent)
    whole = parties_demo.sketch_of(FLIGHTS, agreement).state()
    merged = sum((ss.PrivateSketch.from_bytes(one.release).values for one in sent), np.zeros(4096, np.int64))
    noise = released.noise
    assert (
        noise
        == parties_demo.sketch_of(FLIGHTS, agreement).release(epsilon=1.0, neighbours=ss.L1(1, unit="flight")).noise
    )
    for values, times in ((released.values, 1), (merged, 5)):  # wrong once in 10^9
        error = ((values - whole).astype(float) ** 2).mean()
        spread = math.sqrt((times * noise.k4 + 2 * (times * noise.k2) ** 2) / 4096)
        assert abs(error - times * noise.k2) < 6.2 * spread
    assert len({json.loads(one.contribution)["signatures"][0]["keyid"] for one in sent}) == 5


def test_what_is_printed_fits_and_mistakes_are_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=1)
    release = projection.sketch().release(epsilon=1.0, neighbours=parties_demo.NEIGHBOURS)
    sent = [parties_demo.Sent("JFK, LGA", 67_355, b"", bytes(700_000), 0.05)] * 5
    console = Console(width=80)
    parties_demo.show_parties(console, sent)
    names = ("five releases, merged", "one party with all")
    parties_demo.show_errors(console, dict.fromkeys(names, release), projection.sketch())
    shown = capsys.readouterr().out
    assert "700 kB" in shown
    assert all(name in shown for name in names)
    assert parties_demo.main(["--input", str(tmp_path / "none.parquet")]) == 2
    pq.write_table(FLIGHTS, tmp_path / "flights.parquet")
    assert parties_demo.main(["--input", str(tmp_path / "flights.parquet"), "--epsilon", "-1"]) == 2
    told = capsys.readouterr().err
    assert told.count("error:") == 2
    assert "Traceback" not in told
