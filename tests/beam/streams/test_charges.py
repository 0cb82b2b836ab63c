"""A stream's windows are charged once each, before anything of them is drawn; what does not fit is not released."""

import json
import logging
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import IntervalWindow, TimestampedValue

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, TumblingWindows
from streamsketch.beam.run.charges import Charge, WindowCharge
from streamsketch.beam.run.known import Span
from streamsketch.beam.streams import configure_stream
from streamsketch.beam.streams.secret import StreamSecret, claim_epoch
from streamsketch.data.windows import Tumbling
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.streams.prism import BASE, MINUTE

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NEAR = ss.L1(10, unit="aircraft in one window of 60 s", max_keys=1)
KEYS = ["AA", "UA"]
ROWS = [("AA", "JFK-LAX", "N1", 5), ("UA", "EWR-SFO", "N2", 61), ("AA", "JFK-SFO", "N3", 125)]
SPAN = Span("aircraft", Tumbling(MINUTE * 10**6))


def ledger_of(folder: Path, epsilon: float) -> Path:
    """Return a ledger with a budget for the data set flights."""
    path = folder / "ledger.sqlite"
    ss.Ledger(path).dataset("flights", unit="aircraft", epsilon=epsilon)
    return path


def charges(path: Path) -> list[float]:
    return [entry.body["epsilon"] for entry in ss.Ledger(path).entries() if entry.body["kind"] == "charge"]


def charge_of(path: Path, span: Span = SPAN) -> WindowCharge:
    guarantee = AdditiveNoise(epsilon=1.0, neighbours=NEAR).guarantee(PROJECTION)
    return WindowCharge(Charge(path, "flights"), guarantee, PROJECTION, "Release", span)


def window(minute: int) -> IntervalWindow:
    return IntervalWindow(BASE + MINUTE * minute, BASE + MINUTE * (minute + 1))


def test_a_window_is_charged_once_however_often_it_is_tried_and_by_whom(root_key: Path, tmp_path: Path) -> None:
    path, claims = ledger_of(tmp_path, 3.0), str(tmp_path / "claims")
    for epoch in (1, 2):
        claim_epoch(claims, "flights")
        for worker in (charge_of(path), charge_of(path)):  # two workers, or one that was restored
            secret = StreamSecret("flights", epoch, claims, root_key)
            assert [worker.covers(secret, window(0)) for _ in range(3)] == [True] * 3
        assert charges(path) == [1.0] * epoch, "another launch draws other noise, and pays for it"
    assert charge_of(path).covers(secret, window(1))
    assert not charge_of(path).covers(secret, window(2))
    assert charges(path) == [1.0] * 3


def test_windows_of_a_period_that_units_are_bounded_in_are_one_charge(root_key: Path, tmp_path: Path) -> None:
    path, claims = ledger_of(tmp_path, 2.0), str(tmp_path / "claims")
    secret = StreamSecret("flights", claim_epoch(claims, "flights"), claims, root_key)
    charge = charge_of(path, Span("aircraft", Tumbling(3 * MINUTE * 10**6)))
    assert [charge.covers(secret, window(minute)) for minute in range(7)] == [True] * 6 + [False]
    assert charges(path) == [1.0, 1.0]


def test_what_a_ledger_refuses_is_said_once_a_worker_without_a_private_value(
    root_key: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, claims = ledger_of(tmp_path, 0.5), str(tmp_path / "claims")
    secret = StreamSecret("flights", claim_epoch(claims, "flights"), claims, root_key)
    charge = charge_of(path)
    with caplog.at_level(logging.ERROR):
        assert [charge.covers(secret, window(0)) for _ in range(3)] == [False] * 3
    (event,) = [json.loads(record.message) for record in caplog.records]
    assert (event["event"], event["dataset"]) == ("refused", "flights")
    assert event["text"].startswith("nothing is released")


def test_a_bundle_that_is_tried_again_is_charged_once_for_all_keys(root_key: Path, tmp_path: Path) -> None:
    path = ledger_of(tmp_path, 2.0)
    rows = [TimestampedValue((unit, key, 7, 1), BASE + at) for key, _, unit, at in ROWS]
    with beam.Pipeline(runner="FnApiRunner", options=repeating()) as pipeline:
        configure_stream(pipeline, stream="flights", root_key=root_key, claims=str(tmp_path / "claims"))
        releases, refused = (
            pipeline
            | beam.Create(rows)
            | TumblingWindows(MINUTE)
            | bound_rows(PROJECTION, unit="aircraft", max_keys=1, l1=10, public_keys=KEYS)
            | sketch_rows(PROJECTION)
            | ReleasePerKey(
                AdditiveNoise(epsilon=1.0, neighbours=ss.L1(10, unit="aircraft")),
                public_keys=KEYS,
                public_windows=(BASE, BASE + 3 * MINUTE),
                ledger=path,
                dataset="flights",
            ).with_refused()
        )
        for name, found in (("released", releases | beam.Keys()), ("refused", refused)):
            found | f"Note {name}" >> beam.ParDo(Note(str(tmp_path / name)))
    assert charges(path) == [1.0, 1.0]
    noted = {name: set((tmp_path / name).read_text().split("\n")) for name in ("released", "refused")}
    windows = {name: {line.split()[0] for line in lines if line} for name, lines in noted.items()}
    assert (len(windows["released"]), len(windows["refused"])) == (2, 1)
    assert not windows["released"] & windows["refused"], "no window is released in part"
    assert {line.split()[1] for lines in noted.values() for line in lines if line} == set(KEYS)


def repeating() -> Any:
    return beam.options.pipeline_options.PipelineOptions(["--direct_runner_bundle_repeat=2"])


class Note(beam.DoFn):  # type: ignore[misc]
    """Write window and key to a file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, key: str, window: IntervalWindow = beam.DoFn.WindowParam) -> None:
        with Path(self._path).open("a") as file:
            file.write(f"{int(window.start)} {key}\n")


def test_refused_windows_are_of_streams_with_a_ledger_alone(tmp_path: Path) -> None:
    release = ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["AA"]).with_refused()
    pipeline = beam.Pipeline(runner="FnApiRunner")
    sketches = pipeline | beam.Create([("AA", 17, 1)]) | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="needs a stream"):
        sketches | release
    assert list(tmp_path.iterdir()) == []
