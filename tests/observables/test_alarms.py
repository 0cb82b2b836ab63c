"""What an outsider sees of a stream's alarms: which slots have one, and how many, does not depend on one event.

An alarm says that a ledger did not cover a window, or that a slot was offered other bytes than it holds. Both have
reasons that everybody may know: the budget and the order of windows, and another launch. The files of alarms are
for the operator; that they are alike, but for their times, shows that alarms have no other reason.
"""

import json
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, TumblingWindows
from streamsketch.beam.streams import WriteAlarms, WriteFilesOnce, configure_stream, refused_alarm
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import run
from tests.observables import test_beam
from tests.observables.game import Seen, assert_alike, differences, files_in, target
from tests.observables.test_beam import A_KEY_LESS, KEYS, NOISE, PROJECTION, WORLDS, Event
from tests.observables.test_beam import hidden as hidden  # noqa: PLC0414 - which pytest then uses here

STREAMS = [WORLDS[0], *A_KEY_LESS]
A_WINDOW_LESS: list[list[Event]] = [[("B", 1, 1), ("A", 2, 1), ("C", 4, 1)], [("B", 1, 1), ("A", 2, 1)]]
WINDOW, WINDOWS = 20, 3
Build = Callable[[beam.Pipeline, list[Event], Path], tuple[beam.PCollection, beam.PCollection]]


def relaunched(pipeline: beam.Pipeline, events: list[Event], folder: Path) -> tuple[beam.PCollection, beam.PCollection]:
    """Release windows whose slots a first launch has filled, with other noise."""
    stamped = pipeline | beam.Create([TimestampedValue(event, 10 * event[1]) for event in events])
    sketches = stamped | TumblingWindows(WINDOW) | sketch_rows(PROJECTION)
    releases = sketches | ReleasePerKey(NOISE, public_keys=KEYS, public_windows=(0, WINDOW * WINDOWS))
    found: tuple[beam.PCollection, beam.PCollection] = releases | WriteFilesOnce(
        str(folder / "out"), "flights", epoch=1
    )
    return found


def refused(pipeline: beam.Pipeline, events: list[Event], folder: Path) -> tuple[beam.PCollection, beam.PCollection]:
    """Release windows of which a ledger covers two."""
    root_key, ledger = folder / "root key", folder / "ledger.sqlite"
    root_key.write_bytes(bytes(32))
    root_key.chmod(0o600)
    ss.Ledger(ledger).dataset("flights", unit="user", epsilon=WINDOWS - 1)
    configure_stream(pipeline, stream="flights", root_key=root_key, claims=str(folder / "claims"))
    stamped = [TimestampedValue((f"unit {n}", *event), 10 * event[1]) for n, event in enumerate(events)]
    bounded = (
        pipeline
        | beam.Create(stamped)
        | TumblingWindows(WINDOW)
        | bound_rows(PROJECTION, unit="user", max_keys=1, l1=1, public_keys=KEYS)
    )
    releases, left_out = (
        bounded
        | sketch_rows(PROJECTION)
        | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="user")),
            public_keys=KEYS,
            public_windows=(0, WINDOW * WINDOWS),
            ledger=ledger,
            dataset="flights",
        ).with_refused()
    )
    held, _ = releases | WriteFilesOnce(str(folder / "out"), "flights", epoch=1)
    return held, left_out | "As alarms" >> beam.Map(refused_alarm, "flights", 1)


def launch(build: Build, events: list[Event], folder: Path) -> Seen:
    def built(pipeline: beam.Pipeline) -> beam.PCollection:
        held, alarms = build(pipeline, events, folder)
        alarms | WriteAlarms(str(folder / "alarms"))
        return held | "Slots that are held" >> beam.Keys()

    try:
        elements, counters = run(built, folder)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is seen
        return {"end": f"{type(error).__name__}: {error}"}
    alarms = {}
    for name, (mode, _, content) in files_in(folder / "alarms").items():
        fields = json.loads(content)
        assert fields.pop("noticed")
        alarms[name] = mode, fields
    return {"elements": elements, "counters": counters, "alarms": alarms, "end": "done"} | {
        f"out/{name}": found for name, found in files_in(folder / "out").items()
    }


def play(build: Build, events: list[Event], folder: Path, patch: pytest.MonkeyPatch) -> Seen:
    folder.mkdir()
    if build is relaunched:
        first = launch(build, events, folder)
        assert (first["end"], first["alarms"]) == ("done", {})
    with patch.context() as local:
        if build is relaunched:
            local.setattr(test_beam, "target", lambda size: target(size) + 1)
        return launch(build, events, folder)


GAMES: dict[str, tuple[Build, int]] = {"another launch": (relaunched, WINDOWS), "a ledger": (refused, 1)}


@pytest.mark.parametrize("name", GAMES)
def test_alarms_tell_nothing_of_one_event(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, windows = GAMES[name]
    seen = [play(build, events, tmp_path / str(number), monkeypatch) for number, events in enumerate(STREAMS)]
    assert seen[0]["end"] == "done", seen[0]
    assert len(seen[0]["alarms"]) == windows * len(KEYS), "each key of a window has one, with data or without"
    assert {mode for mode, _ in seen[0]["alarms"].values()} == {0o600}
    assert_alike(seen)


# --- faults put back, which the games must find ---------------------------------------------------------------------


def no_keys_without_data(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("streamsketch.beam.release.release._empty_sketch", lambda *_: iter(()))


@pytest.mark.parametrize("name", GAMES)
def test_the_game_finds_alarms_of_keys_with_data_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_keys_without_data(monkeypatch)
    seen = [play(GAMES[name][0], events, tmp_path / str(n), monkeypatch) for n, events in enumerate(A_WINDOW_LESS)]
    assert "alarms" in differences(seen)
