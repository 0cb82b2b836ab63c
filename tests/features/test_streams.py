"""Features of rows in windows of time: the sums of each window, wherever windows are made and however they close."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import BoundContributions, SketchPerKey, TumblingWindows
from streamsketch.data.calendar import Calendar
from streamsketch.data.windows import Tumbling
from streamsketch.intake import Intake
from streamsketch.streams.open_windows import Windows
from tests.cli.running import Forks
from tests.features.test_paths import AGREEMENT, FEATURES
from tests.streams.agreed import followed, split

SITES = ["N", "S"]
HOURS = ["2026-11-22T13", "2026-11-22T14", "2026-11-23T14"]
LOG = pa.table(
    {
        "at": [f"{HOURS[hour]}:{minute:02}:00Z" for hour, minute in ((0, 1), (0, 2), (0, 50), (1, 0), (1, 30), (2, 1))],
        "site": ["N", "S", "N", "N", "S", "N"],
        "patient": ["Ann", "Bob", "Cid", "Ann", "Dee", "Eve"],
        "age": ["47.5", "110", "", "-3", "many", "20"],
        "ward": ["A", "", "", "C", "B", "A"],
        "code": ["E11", "I10", "", "é", "", "E11"],
    }
)
POLICY: dict[str, Any] = {
    "time": "at",
    "window": "1 hour",
    "start": f"{HOURS[0]}:00Z",
    "delay": "10 s",
    "epsilon": 1.0,
    "delta": 1e-6,
    "public_keys": SITES,
}


def of_hours(*hours: str) -> dict[str, list[int]]:
    """Return the sums of features by site of the rows of some hours."""
    rows = LOG.filter(pa.array([at.as_py()[: len(hours[0])] in hours for at in LOG["at"]]))
    cells, sites = (FEATURES.transform(rows) * (1 << 15)).astype(int), np.array(rows["site"])
    return {site: cells[sites == site].sum(axis=0).tolist() for site in SITES}


@pytest.mark.parametrize("clip", [None, "none"], ids=["bounded", "asserted"])
@pytest.mark.parametrize("clock", ["events", "heartbeats"])
def test_windows_of_a_stream_hold_the_sums_of_their_rows(clip: Any, clock: Any) -> None:
    """What is missing in a feature does not make a row blank, and a state gives the same windows."""
    windows = Windows(followed(AGREEMENT, **POLICY, folder="out", clip=clip, clock=clock), bytes(32))
    beats = pa.table({name: [HOURS[2] + ":00:20Z" if name == "at" else ""] for name in LOG.column_names})
    for at, (batch,) in enumerate(rows.to_batches() for rows in (LOG.slice(0, 2), LOG.slice(2, 3), beats)):
        windows.add(batch, 1 + at)
        windows.open = {number: windows.restored(window.content) for number, window in windows.open.items()}
    found = windows.counts.bounding
    assert (found.rows_read, found.rows_blank, found.rows_malformed) == (5, 0, 0)
    for hour in HOURS[:2]:
        assert windows.is_over
        closed = windows.closing()
        assert {site: closed.table.sketch_of(site).state().tolist() for site in SITES} == of_hours(hour)
        windows.advance(closed)


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")
@pytest.mark.usefixtures("silent_noise")
@pytest.mark.parametrize("clip", [None, "none"], ids=["bounded", "asserted"])
def test_command_releases_each_window_of_features_once(clip: str | None, tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "out").mkdir()
    agreement, job = split(AGREEMENT, **POLICY, folder="out", clip=clip)
    agreement.save(tmp_path / "agreement.json")
    job.save(tmp_path / "job.json")
    pa_csv.write_csv(LOG, tmp_path / "log.csv", pa_csv.WriteOptions(quoting_style="none"))
    command = [
        "stream",
        "file",
        "log.csv",
        "--agreement",
        "agreement.json",
        "--job",
        "job.json",
        "--set",
        "state=s.raw-stream",
    ]
    forks.succeeded(*command, cwd=tmp_path)
    paths = sorted((tmp_path / "out").iterdir())
    assert len(paths) == 25, "of a day and an hour; the last window is not over"
    for path, hour in ((paths[0], HOURS[0]), (paths[1], HOURS[1]), (paths[2], "none")):
        table = ss.load(path)
        assert table["N"].agreement == agreement.fingerprint
        assert {site: table[site].values.tolist() for site in SITES} == of_hours(hour)


@pytest.mark.parametrize("windows", [Tumbling(3600 * 10**6, 0), Calendar("day")], ids=["hours", "days"])
def test_rows_with_times_have_features_and_windows(windows: Any) -> None:
    events = Intake(AGREEMENT, time="at", windows=windows, bounded=True).read(LOG.to_batches()[0])
    assert events.features is not None
    assert events.window is not None
    assert (events.features == FEATURES.transform(LOG) * (1 << 15)).all()
    length = 13 if isinstance(windows, Tumbling) else 10
    starts = [name[:length] for name in windows.names(events.window).to_pylist()]
    assert starts == [at.as_py()[:length] for at in LOG["at"]]
    one_by_one = events.one_by_one()
    assert one_by_one.window is not None
    assert one_by_one.window.tolist() == np.repeat(events.window, (events.features != 0).sum(axis=1)).tolist()


def test_beam_bounds_features_in_each_window() -> None:
    times = LOG["at"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_pylist()
    rows = [TimestampedValue(batch, times[at]) for at, batch in enumerate(LOG.to_batches(max_chunksize=1))]
    expected = [
        ((site, hour), sums)
        for hour in {hour[:13] for hour in HOURS}
        for site, sums in of_hours(hour).items()
        if any(sums)
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        bounded = pipeline | beam.Create(rows) | TumblingWindows(3600) | BoundContributions(AGREEMENT)
        found = (
            bounded
            | SketchPerKey(AGREEMENT)
            | beam.Map(
                lambda keyed, window=beam.DoFn.WindowParam: (
                    (keyed[0], window.start.to_rfc3339()[:13]),
                    keyed[1].state().tolist(),
                )
            )
        )
        assert_that(found, equal_to(expected))
