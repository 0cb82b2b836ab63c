"""Streams by a schedule: any range is its windows, each row is drawn once, and units are in few windows."""

import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation, History, Schedule, Separate, Tree
from streamsketch.streams import Stream
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.state import read_state, write_state
from tests.streams.naive import AGREEMENT, KEYS, PEOPLE, PROJECTION, Row, batch_of, beat, policy_of, windows_of
from tests.streams.test_stream import Killed, fail_at

LOG = [Row(at - (7 if at % 5 else 0), KEYS[at % 2], "abc"[at % 3], 1, f"c{at % 7}") for at in range(0, 400, 3)]
WINDOWS = 6  # over at its end
ONE = ss.Agreement(PROJECTION, index="item", value="n", unit="customer", neighbours=ss.L1(50, unit="customer"))
COUNTED = PEOPLE.replace(
    neighbours=ss.SketchL2(9, unit="customer", max_keys=2), clip="scale", counting=ss.privacy.Counting(9)
)
ROWS = ss.Agreement(PROJECTION, index="item", key="shop", value="n")
LARGE = {"epsilon": 1e6}  # noise of 0 in all but one draw of 10^70; of some steps of 1/8192 for people
HOW: dict[str, tuple[Schedule, Any, dict[str, Any]]] = {
    "tree": (Tree(horizon=8), AGREEMENT, LARGE),
    "root, 3 windows": (Factorisation(horizon=8, bits=2, max_windows=3, gap=2), AGREEMENT, LARGE),
    "one stream": (Separate(horizon=8, max_windows=4), ONE, LARGE | {"public_keys": None}),
    "people": (Tree(horizon=8, max_windows=2), COUNTED, LARGE | {"mechanism": "laplace"}),
    "asserted": (Tree(horizon=8), ROWS, LARGE | {"clip": "none", "neighbours": AGREEMENT.neighbours}),
}


class Place:
    """A folder with a stream by a schedule, its state, and a backup of it from before the first row."""

    def __init__(self, folder: Path, how: str, **changes: Any) -> None:
        schedule, self.agreement, own = HOW[how]
        self.out, self.state, self.backup = folder / "out", folder / "s.raw-stream", folder / "backup"
        self.policy = policy_of(self.out, self.agreement, schedule=schedule, **own | changes)
        self.charges: list[tuple[ss.Guarantee, str]] = []
        self.charge: Any = lambda guarantee, _, once: self.charges.append((guarantee, once))
        self.out.mkdir()
        self.stream().save({})
        shutil.copy(self.state, self.backup)

    def stream(self) -> Stream:
        return Stream(*self.policy, self.state, self.charge)

    def run(self, rows: list[Row] = LOG, *, at_once: int = 1000) -> dict[str, bytes]:
        """Read a log from the backup on into an empty folder, with a restart after each save."""
        shutil.rmtree(self.out)
        self.out.mkdir()
        shutil.copy(self.backup, self.state)
        for at in range(0, len(rows), at_once):
            stream = self.stream()
            stream.add(batch_of(rows[at : at + at_once]), at + 1)
            stream.save({})
        return self.published

    @property
    def published(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.out.iterdir())}

    def history(self, key: Any) -> History:
        return History([ss.load(path) for path in sorted(self.out.iterdir())], key)


@pytest.fixture(params=HOW)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


tree = pytest.mark.parametrize("place", ["tree"], indirect=True)


def exact_of(rows: list[Row], place: Place) -> dict[int, dict[Any, Any]]:
    """Return the sums of each window and key, of units in the windows that a schedule leaves them; none is clipped."""
    schedule: Any = place.policy.agreement.schedule
    windows, _ = windows_of(rows)
    admitted: dict[str, list[int]] = defaultdict(list)
    found: dict[int, dict[Any, Any]] = {}
    for number in range(8):
        table = place.agreement.projection.table()
        customers = {row.customer for row in windows.get(number, []) if row.shop in KEYS}
        for customer in customers if place.policy.is_enforced else ():
            own = admitted[customer]
            if len(own) < schedule.most and (not own or number - own[-1] >= schedule.gap):
                own.append(number)
        for row in windows.get(number, []):
            if not place.policy.is_enforced or number in admitted[row.customer]:
                table.update([row.shop if place.agreement.key else ""], [row.item], [row.n])
        keys = KEYS if place.agreement.key else [None]
        found[number] = {key: table.sketch_of(key or "").state() for key in keys}
    return found


def test_any_range_is_the_sum_of_its_windows_however_often_the_stream_is_restarted(place: Place) -> None:
    published = place.run()
    assert list(published) == [
        f"2026-11-22T130{n}Z{'.parquet' if place.agreement.key else '.sketch'}" for n in range(WINDOWS)
    ]
    exact, grid = exact_of(LOG, place), float(place.agreement.projection.grid)
    for key in exact[0]:
        history = place.history(key)
        assert history.guarantee.basis == ("enforced" if place.policy.is_enforced else "asserted")
        assert history.guarantee.mechanism.layout.schedule == place.policy.agreement.schedule
        for start, stop in ((0, 6), (2, 5), (5, 6)):
            release = history.range(start, stop)
            sums = sum(exact[number][key] for number in range(start, stop))
            assert np.abs(release.values * float(release.multiplier) - sums).max() < 0.05 / grid
    summary = place.stream().summary
    assert (summary["units_over_windows"] > 0) is place.policy.is_enforced, "every unit is in most of the windows"
    assert place.run(at_once=30) == published
    assert place.stream().summary == summary
    assert len({once for _, once in place.charges}) == 1
    assert {guarantee.neighbours.unit for guarantee, _ in place.charges} == {"customer"}
    assert {guarantee.epsilon for guarantee, _ in place.charges} == {place.policy.noise.epsilon}


@pytest.mark.parametrize("place", ["root, 3 windows"], indirect=True)
@pytest.mark.parametrize(
    ("name", "after"), [("write_state", False), ("write_state", True), ("write_new", False), ("write_new", True)]
)
def test_killed_around_a_row_it_is_drawn_once(
    name: str,
    after: bool,  # noqa: FBT001
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = place.run()
    place.run(LOG[:60])
    for cut in (100, len(LOG)):
        stream = place.stream()
        stream.add(batch_of(LOG[stream.position["row"] if stream.position else 60 : cut]), 1)
        with monkeypatch.context() as patch:
            fail_at(patch, name, after=after)
            with pytest.raises(Killed):
                stream.save({"row": cut})
        again = place.stream()
        if (name, after) == ("write_state", False):
            again.add(batch_of(LOG[again.position["row"] if again.position else 60 : cut]), 1)
        again.save({"row": cut})
    assert place.published == expected
    assert len({once for _, once in place.charges}) == 1


@tree
def test_a_window_that_was_drawn_and_not_closed_is_in_no_state(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    expected = place.run()
    shutil.copy(place.backup, place.state)
    stream = place.stream()
    stream.add(batch_of(LOG), 1)
    with monkeypatch.context() as patch:
        patch.setattr(type(stream.windows), "advance", killed)
        with pytest.raises(RuntimeError, match="the state stays as it was"):
            stream.save({})
    assert place.state.read_bytes() == place.backup.read_bytes()
    assert place.run() == expected


@tree
def test_rows_of_a_state_that_was_lost_are_refused(place: Place) -> None:
    """Their windows are in sums that nobody has."""
    before = place.run()
    place.state.unlink()
    with pytest.raises(
        ss.InvalidInputError, match=r"2026-11-22T1300Z\.parquet is published, but there is no state .*s\.raw-str"
    ):
        place.stream()
    (place.out / min(before)).unlink()
    with pytest.raises(ss.InvalidInputError, match=r"2026-11-22T1301Z\.parquet is published"):
        place.stream()
    shutil.rmtree(place.out)
    place.stream().save({})
    (place.out).mkdir()
    (place.out / "notes.txt").write_text("mine")
    place.state.unlink()
    place.stream().save({})


@tree
def test_a_backup_goes_on_with_its_own_log_alone(place: Place) -> None:
    before = place.run()
    stream_of_backup = read_state(place.backup)
    shutil.copy(place.backup, place.state)
    stream = place.stream()
    stream.add(batch_of(LOG), 1)
    assert stream.save({}) == [], "the same bytes are there"
    assert place.published == before
    write_state(stream_of_backup, place.state)
    stream = place.stream()
    stream.add(batch_of([LOG[0]._replace(item="z"), *LOG[1:]]), 1)
    charged = {once for _, once in place.charges}
    with pytest.raises(ss.InvalidInputError, match="but a row of another state or of another log"):
        stream.save({})
    assert {once for _, once in place.charges} == charged, "what is not published is not charged"
    with pytest.raises(ss.InvalidInputError, match="is not the row of"):
        place.stream().save({})
    assert place.published == before


def test_all_rows_are_charged_once_and_none_is_drawn_that_does_not_fit(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("small", unit="customer", epsilon=0.5)
    ledger.dataset("large", unit="customer", epsilon=3.0)
    place = Place(tmp_path, "tree", epsilon=1.0)

    def charges(name: str) -> None:
        place.charge = lambda guarantee, ids, once: ledger.charge(name, guarantee, data_ids=ids, once=once)

    charges("small")
    with pytest.raises(ss.errors.LedgerError, match="does not fit"):
        place.run()
    assert place.published == {}
    charges("large")
    place.stream().save({})
    place.run(at_once=20)
    assert len(place.published) == WINDOWS
    assert (ledger.left("large").epsilon, ledger.left("large").charges) == (2.0, 1)
    place.run([LOG[0]._replace(item="z"), *LOG[1:]])
    assert ledger.left("large").epsilon == 1.0, "rows of another log are charged by themselves"


@tree
def test_after_the_horizon_nothing_is_released(place: Place) -> None:
    late = [*LOG, *(Row(at, "north", "a", 1, f"d{at}") for at in range(400, 700, 9))]
    published = place.run(late, at_once=60)
    assert len(published) == 8
    stream = place.stream()
    assert stream.is_finished
    assert stream.windows.open == {}
    assert stream.summary["rows_after_end"] == sum(row.at >= 480 for row in late)
    assert stream.summary["rows_late"] == windows_of(LOG)[1]
    stream.add(batch_of([Row(9000, "north", "a", 1, "Ann")]), 1)
    stream.save({})
    assert place.published == published
    assert place.history("north").range(4, 8).values.any()


CHANGES: list[Callable[[Any], Any]] = [
    lambda saved: setattr(saved, "held", None),
    lambda saved: saved.units.popitem(),
    lambda saved: setattr(saved, "held", saved.held[:-8]),
    lambda saved: setattr(saved, "held", saved.held * 2),
    lambda saved: saved.units.update({7: b""}),
    lambda saved: saved.header.pop("first_draw"),
    lambda saved: saved.header.update(first_draw="a"),
    lambda saved: saved.header.update(rows_after_end=-1),
    lambda saved: saved.header.update(next=saved.header["next"] - 2),
    lambda saved: saved.header.update(next=saved.header["next"] + 20),
]


@tree
def test_a_state_that_no_schedule_writes_is_refused(place: Place) -> None:
    place.run(LOG[:80])
    place.stream()
    data = place.state.read_bytes()
    for change in CHANGES:
        place.state.write_bytes(data)
        change(saved := read_state(place.state))
        write_state(saved, place.state)
        with pytest.raises(ss.InvalidInputError, match="is not the state of a stream"):
            place.stream()


@tree
def test_a_state_goes_on_under_its_own_schedule(place: Place) -> None:
    place.run()
    agreement, job = place.policy
    for schedule in (Tree(horizon=9), None):
        place.policy = StreamPolicy(agreement.replace(schedule=schedule), job)
        with pytest.raises(ss.InvalidInputError, match=r"follows the agreement .*; use its own agreement"):
            place.stream()


def test_heartbeats_need_no_condition_and_release_windows_without_rows(tmp_path: Path) -> None:
    place = Place(tmp_path, "tree", clock="heartbeats")
    place.run([Row(1, "north", "a", 2, "Ann"), beat(500)])
    history = place.history("north")
    assert history.guarantee.conditions == ()
    assert history.windows == 8
    assert not history.range(1, 8).values.any()
