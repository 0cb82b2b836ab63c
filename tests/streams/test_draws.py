"""A window that is drawn again: the same bytes of the same rows, and independent noise of others."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.continual import Tree
from streamsketch.core.numbers import Ints
from streamsketch.once.draws import DrawSecret
from streamsketch.once.names import drawn_numbers
from streamsketch.privacy.bounds import Bounds
from streamsketch.release.ready import ReadyTable
from streamsketch.sketching.exact import ExactSums
from streamsketch.streams import Stream
from streamsketch.streams.state import read_state, write_state
from tests.streams.naive import (
    AGREEMENT,
    KEYS,
    NEIGHBOURS,
    PROJECTION,
    Row,
    batch_of,
    bound_by,
    over_in,
    policy_of,
    windows_of,
)

LOG = [
    Row(second, KEYS[second % 2], "abc"[second % 3], 1 + second % 5, f"c{second % 7}") for second in range(0, 310, 3)
]
OTHER = [*LOG[:50], LOG[50]._replace(item="d"), *LOG[51:]]  # as long, with another item in one row
CHANGED = LOG[50].at // 60
ONE = ss.Agreement(PROJECTION, index="item", value="n", unit="customer", neighbours=ss.L1(50, unit="customer"))
COUNTED = AGREEMENT.replace(counting=ss.privacy.Counting(1, slack=2))
FINE, WEIGHED = PROJECTION.replace(resolution="1/8192"), ss.SketchL2(1, unit="customer", max_keys=2)
EQUAL = COUNTED.replace(
    projection=FINE, neighbours=WEIGHED, clip="equal", counting=ss.privacy.Counting.of(FINE, WEIGHED, delta=1e-6)
)
ROWS = ss.Agreement(PROJECTION, index="item", key="shop", value="n")
HOW: dict[str, tuple[ss.Agreement, dict[str, Any]]] = {
    "scale": (AGREEMENT, {"clip": "scale"}),
    "cut": (AGREEMENT, {"clip": "cut"}),
    "none": (ROWS, {"clip": "none", "neighbours": NEIGHBOURS}),
    "one stream": (ONE, {"public_keys": None}),
    "counted": (COUNTED, {}),
    "equal": (EQUAL, {"delta": 1e-6}),
}
of_units = pytest.mark.parametrize("place", ["counted", "equal"], indirect=True)


class Place:
    """A folder with a state and a ledger, which can be lost and restored."""

    def __init__(self, folder: Path, how: str) -> None:
        self.out, self.state, self.backup = folder / "out", folder / "s.raw-stream", folder / "backup"
        self.agreement, changes = HOW[how]
        self.policy = policy_of(self.out, self.agreement, epsilon=1.0, **changes)
        self.out.mkdir()
        self.ledger = ss.Ledger(folder / "ledger.sqlite")
        self.ledger.dataset("sales", unit="customer", epsilon=1000.0, delta=0.1)
        self.exact: list[tuple[bytes, dict[Any, list[Ints]]]] = []
        """The secret and the exact numbers of each window of the last run: cells, and counts."""

    def stream(self) -> Stream:
        def charge(guarantee: ss.Guarantee, ids: Any, once: str) -> None:
            self.ledger.charge("sales", guarantee, data_ids=ids, once=once)

        return Stream(*self.policy, self.state, charge)

    def begin(self) -> None:
        self.stream().save({})
        shutil.copy(self.state, self.backup)

    def run(self, rows: list[Row], *, at_once: int = 1000) -> dict[str, bytes]:
        """Read a log from the backup on into an empty folder; return what was published."""
        shutil.rmtree(self.out)
        self.out.mkdir()
        shutil.copy(self.backup, self.state)
        stream = self.running = self.stream()
        for at in range(0, len(rows), at_once):
            stream.add(batch_of(rows[at : at + at_once]), at + 1)
            stream.save({})
        return {path.name: path.read_bytes() for path in sorted(self.out.iterdir())}

    def noise(self, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> list[Ints]:
        """Return the noise of each window and key of a run: what is published less the exact sketches."""
        found: list[Ints] = []
        drawn, named = ReadyTable.draw, DrawSecret.draw
        self.exact = []

        def summed(secret: DrawSecret, number: int, publisher: Any, numbers: Any) -> Any:
            self.exact.append((self.running.windows.secret_of(number), numbers))
            return named(secret, number, publisher, numbers)

        def noting(ready: ReadyTable[Any], *how: Any, **ids: Any) -> Any:
            released = drawn(ready, *how, **ids)
            found.extend(row.values - ready[key].exact[0, : row.values.size] for key, row in released.items())
            return released

        with monkeypatch.context() as patch:
            patch.setattr(ReadyTable, "draw", noting)
            patch.setattr(DrawSecret, "draw", summed)
            self.run(rows)
        return found

    @property
    def charges(self) -> int:
        return self.ledger.left("sales").charges


@pytest.fixture(params=HOW)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    found = Place(tmp_path, request.param)
    found.begin()
    return found


def test_a_restored_state_draws_the_same_bytes_for_nothing(place: Place) -> None:
    first = place.run(LOG)
    assert len(first) == place.charges == over_in(LOG)
    assert place.run(LOG, at_once=25) == first
    assert place.charges == over_in(LOG)


def test_other_rows_get_independent_noise_and_are_charged_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = place.noise(LOG, monkeypatch), place.noise(LOG, monkeypatch)
    other = place.noise(OTHER, monkeypatch)
    assert place.charges == over_in(LOG) + 1, "for the one window that differs"
    each = len(first) // over_in(LOG)
    for number, (one, two, three) in enumerate(zip(first, again, other, strict=True)):
        assert np.array_equal(one, two)
        assert np.array_equal(one, three) is (number // each != CHANGED), "all keys of the window that differs"
    changed = slice(each * CHANGED, each * (CHANGED + 1))
    a, b = np.concatenate(first[changed]), np.concatenate(other[changed])
    assert abs(np.corrcoef(a, b)[0, 1]) < 6 / np.sqrt(a.size), "false reject: 1e-6 or less"


def test_other_counts_of_equal_cells_get_independent_noise() -> None:
    """Or the difference of two draws would be that of the counts."""
    bounds = Bounds(NEIGHBOURS, "scale", counted=True)
    publisher = ss.AdditiveNoise(epsilon=1, neighbours=NEIGHBOURS, counting=ss.privacy.Counting(10, 2)).calibrated(
        PROJECTION
    )
    publisher = publisher.with_guarantee(publisher.guarantee.on("enforced"))
    drawn = set()
    for counts in ([5, 7], [6, 7], [5, 8], None):
        sums = ExactSums.of(np.zeros(64, np.int64), None if counts is None else np.array(counts))
        sketch = ss.Sketch.from_state(PROJECTION, sums, 0, bounds=bounds)
        drawn.add(DrawSecret(bytes(32)).draw(0, publisher, {"a": drawn_numbers(sketch, publisher.guarantee)}).id)
    assert len(drawn) == 4


def test_rows_of_other_windows_histories_keys_or_numbers_get_independent_noise() -> None:
    publisher = ss.AdditiveNoise(epsilon=1, neighbours=NEIGHBOURS, schedule=Tree(horizon=9)).calibrated(PROJECTION)
    drawn = {
        DrawSecret(secret).draw_row(number, publisher, history, {key: np.array(row)}).id
        for secret in (bytes(32), b"x" * 32)
        for number in (0, 1)
        for history in (b"a", b"b")
        for key in ("north", "south")
        for row in ([1, 2], [1, 3])
    }
    assert len(drawn) == 32


@of_units
def test_windows_hold_the_cells_and_counts_of_one_machine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.noise(LOG, monkeypatch)
    windows, _ = windows_of(LOG)
    assert len(place.exact) == over_in(LOG)
    for number, (secret, numbers) in enumerate(place.exact):
        expected = bound_by(secret, windows.get(number, []), monkeypatch, place.agreement)
        for key, (cells, counts) in numbers.items():
            told = expected.sketch_of(key)
            assert told.counts is not None
            assert cells.tolist() == told.state().tolist()
            assert counts.tolist() == told.counts.tolist()
    for path in place.out.iterdir():
        for release in ss.PrivateTable.from_bytes(path.read_bytes()).rows:
            assert release.layout.counting == place.agreement.counting
            assert release.clip == ("equal" if place.agreement is EQUAL else None)


@of_units
def test_units_that_cancel_get_other_noise_than_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their cells are those of no data, their counts are not: one noise would show the difference of counts."""
    end = Row(300, "moon", "a", 1, "A")
    with_two = place.noise([Row(1, "north", "a", 1, "A"), Row(2, "north", "a", -1, "B"), end], monkeypatch)
    cells, counts = place.exact[0][1]["north"]
    assert not cells.any()
    assert counts[0] == 2
    without = place.noise([Row(1, "moon", "a", 1, "A"), end], monkeypatch)
    same = [np.array_equal(one, other) for one, other in zip(with_two, without, strict=True)]
    assert same == [False] * len(KEYS) + [True] * (len(same) - len(KEYS)), "in the first window"


def test_no_two_windows_keys_or_streams_share_noise(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = [Row(0, "moon", "a", 1, "A"), Row(300, "moon", "a", 1, "A")]  # equal windows of public keys
    found = place.noise(empty, monkeypatch)
    place.state.unlink()
    place.begin()
    found += place.noise(empty, monkeypatch)
    assert len({one.tobytes() for one in found}) == len(found) > 5


@pytest.mark.parametrize("place", ["scale"], indirect=True)
@pytest.mark.parametrize(("kind", "where"), [(ReadyTable, "draw"), (Stream, "_saved"), (Stream, "_publish")])
def test_a_draw_that_was_cut_off_is_made_again(
    place: Place, kind: type, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> bytes:
        raise Killed

    first = place.run(LOG)
    with monkeypatch.context() as patch:
        patch.setattr(kind, where, killed)
        with pytest.raises(Killed):
            place.run(LOG)
    stream = place.stream()
    if stream.windows.clock.newest is None:  # the state was not written
        stream.add(batch_of(LOG), 1)
    stream.save({})
    assert {path.name: path.read_bytes() for path in place.out.iterdir()} == first
    assert place.charges == over_in(LOG)


@pytest.mark.parametrize("place", ["scale"], indirect=True)
def test_a_state_holds_nothing_of_the_noise_that_was_published(place: Place) -> None:
    """The secret of a later window follows from that of an earlier one, and not the other way."""
    secrets = [place.stream()._draws]
    for _ in range(over_in(LOG)):
        secrets.append(secrets[-1].after())
    place.run(LOG)
    assert read_state(place.state).header["draws"] == secrets[-1].value.hex()
    held = place.state.read_bytes()
    for earlier in secrets[:-1]:
        assert earlier.value not in held
        assert earlier.value.hex().encode() not in held


@pytest.mark.parametrize("place", ["scale"], indirect=True)
def test_releases_of_one_window_are_known_to_be_of_the_same_data(place: Place) -> None:
    (first, second), (other, _) = [
        [ss.load(path) for path in sorted(place.out.iterdir())[CHANGED : CHANGED + 2]]
        for rows in (LOG, OTHER)
        if place.run(rows)
    ]
    with pytest.raises(ss.InvalidInputError, match="are of the same data"):
        ss.compose([first, other], populations="disjoint")
    assert ss.compose([first, second], populations="disjoint").epsilon == 1.0


@pytest.mark.parametrize("name", ["draws", "keys"])
@pytest.mark.parametrize("place", ["scale"], indirect=True)
def test_a_state_that_does_not_say_what_is_drawn_next_is_refused(place: Place, name: str) -> None:
    saved = read_state(place.backup)
    del saved.header[name]
    write_state(saved, place.backup)
    with pytest.raises(ss.InvalidInputError, match="is not the state of a stream"):
        place.run(LOG)
