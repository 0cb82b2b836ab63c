"""What an outsider sees of releases made in Python: nothing but the noise depends on one event."""

import itertools
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation
from streamsketch.core.numbers import Ints
from streamsketch.data import data_ids
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.projections.base import MAX_MASS
from streamsketch.release import ready
from streamsketch.schedules.progress import Progress
from tests.observables.game import Seen, assert_alike, differences, files_in, hidden, observed, target

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
SIGNED = ss.projections.Rademacher(dim=1000, sketch_dim=64, seed=7)
LAPLACE: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1)}
GAUSSIAN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbours": ss.L1(1), "mechanism": "gaussian"}
SIGNS = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1))

Event = tuple[str, int, int]
LARGE = (1 << 63) - 4
ORDERS: list[list[Event]] = [  # one event more or less, at the brink where a sum of all leaves 63 bits; another order
    [("B", 1, 1), ("A", 2, 1), ("B", 3, 1), ("C", 4, LARGE), ("C", 5, 1)],
    [("A", 2, 1), ("B", 3, 1), ("C", 4, LARGE), ("C", 5, 1)],
    [("B", 1, 1), ("A", 2, 1), ("B", 3, 1), ("C", 4, LARGE)],
    [("C", 5, 1), ("C", 4, LARGE), ("B", 3, 1), ("A", 2, 1), ("B", 1, 1)],
]
KEYS = ["A", "B", "C"]


def sketch_of(events: Iterable[Event], projection: ss.projections.Projection = PROJECTION) -> ss.Sketch:
    sketch = projection.sketch()
    for _, index, value in events:
        sketch.update(index, value)
    return sketch


def table_of(events: Iterable[Event], projection: ss.projections.Projection = PROJECTION) -> ss.SketchTable:
    table = projection.table()
    for key, index, value in events:
        table.update([key], [index], [value])
    return table


def exact(events: Iterable[Event], projection: ss.projections.Projection = PROJECTION, key: str | None = None) -> Ints:
    """Return the cells of all events, or of one key's, modulo 2^64, by Python's integers."""
    sums = [0] * projection.sketch_dim
    for other, index, value in events:
        if key in (None, other):
            sums = [
                cell + value * int(entry) for cell, entry in zip(sums, projection.columns([index])[:, 0], strict=True)
            ]
    return np.array([(cell + (1 << 63)) % (1 << 64) - (1 << 63) for cell in sums], dtype=np.int64)


def play(game: Callable[..., Iterator[Any]], events: list[Event], folder: Path, patch: pytest.MonkeyPatch) -> Seen:
    """Run one world: the first thing a game yields is what its noise hides, the others are seen."""
    folder.mkdir()
    with observed(patch) as seen:
        steps = game(events, folder)
        with hidden(patch, next(steps)):
            seen["shown"] = list(steps)
    return seen | {"files": files_in(folder)}


def worlds(
    game: Callable[..., Iterator[Any]],
    folder: Path,
    patch: pytest.MonkeyPatch,
    streams: Sequence[list[Event]] = ORDERS,
) -> list[Seen]:
    play(game, streams[0], folder / "before", patch)  # modules are loaded, and kernels compiled, on first use
    return [play(game, events, folder / str(number), patch) for number, events in enumerate(streams)]


# --- the games ------------------------------------------------------------------------------------------------


def one_sketch(events: list[Event], folder: Path) -> Iterator[Any]:
    sketch = sketch_of(events)
    yield [exact(events)] * 2
    for number, options in enumerate((LAPLACE, GAUSSIAN)):
        released = sketch.release(**options)
        released.save(folder / f"{number}.sketch")
        yield released.to_bytes(), repr(released), str(released.explain())


def table(events: list[Event], folder: Path) -> Iterator[Any]:
    secret = table_of(events)
    yield [exact(events, key=key) for key in KEYS]
    released = secret.release(**LAPLACE, keys_are_public=True)
    released.save(folder / "all.parquet")
    yield repr(released), released.data_ids, str(released.explain())
    yield list(released), ss.pairwise(released.values()).to_arrow(released).to_pylist()


def public_keys(events: list[Event], folder: Path) -> Iterator[Any]:
    secret = table_of(events)
    keys = ["D", *KEYS]
    yield [exact(events, key=key) for key in sorted(keys)]
    secret.release(**LAPLACE, public_keys=keys).save(folder / "all.parquet")


def signs(events: list[Event], folder: Path) -> Iterator[Any]:
    secret = table_of(events, SIGNED)
    yield [exact(events, SIGNED, key) for key in [*KEYS, "A"]]
    released = SIGNS.release_table(secret, keys_are_public=True)
    released.save(folder / "all.parquet")
    SIGNS.release(secret["A"]).save(folder / "A.signs")
    yield list(released), [str(one.explain()) for one in released.values()]


def pan_private(events: list[Event], folder: Path) -> Iterator[Any]:
    looked_at = exact(events[:2])
    yield [looked_at, target(64) - looked_at + exact(events)]
    counter = ss.release.PanPrivateSketch(PROJECTION, **LAPLACE)
    for _, index, value in events[:2]:
        counter.update(index, value)
    yield counter.state().tolist()
    for _, index, value in events[2:]:
        counter.update(index, value)
    counter.release().save(folder / "a.sketch")


def matrix(events: list[Event], folder: Path) -> Iterator[Any]:
    rows = np.zeros((2, 1000), dtype=np.int64)
    for _, index, value in events:
        rows[1, index] += value
    yield [np.concatenate([exact([]), exact(events)])]
    for number, released in enumerate(ss.release.PrivateProjection(projection=PROJECTION, **LAPLACE).release(rows)):
        released.save(folder / f"{number}.sketch")


FJLT = ss.projections.FJLT(dim=8, sketch_dim=8, seed=3)


def vector(events: list[Event], folder: Path, place: NoisePlace) -> Iterator[Any]:
    steps = np.zeros(8, dtype=np.int64)
    for _, index, value in events:
        steps[index] += value
    if place == "output":
        yield [exact(events, FJLT)]
    elif place == "input":
        yield [steps]
    else:
        (rotated,) = FJLT.rotated(steps.reshape(1, -1))
        assert np.unique(FJLT.sparse_matrix.indices).size == 8, "every place has noise"
        yield [rotated]
    ss.release.release_vector(FJLT, steps, noise_place=place, **LAPLACE).save(folder / "a.sketch")


def places() -> dict[str, Callable[..., Iterator[Any]]]:
    def at(place: NoisePlace) -> Callable[..., Iterator[Any]]:
        return lambda events, folder: vector(events, folder, place)

    return {f"vector, {place}": at(place) for place in ("output", "input", "hadamard")}


def history(events: list[Event], folder: Path) -> Iterator[Any]:
    """Publish three windows by a schedule, with a restart, where the one event is in the first window."""
    schedule = Factorisation(horizon=3, bits=2)
    publish = ss.AdditiveNoise(**GAUSSIAN, schedule=schedule)
    with np.errstate(over="ignore"):
        yield [int(factor) * exact(events, key=key) for factor in schedule.matrix()[:, 0] for key in KEYS]
    releaser = ss.continual.Releaser(publish, PROJECTION)
    for number, window in enumerate((table_of(events), PROJECTION.table(), PROJECTION.table())):
        row: Any = releaser.add(window, public_keys=KEYS)
        row.save(folder / f"{number}.parquet")
        yield repr(row), row.data_ids, str(row.explain())
        releaser = ss.continual.Releaser.restored(publish, PROJECTION, releaser.state)


GAMES: dict[str, Callable[..., Iterator[Any]]] = {
    "one sketch": one_sketch,
    "table": table,
    "public keys": public_keys,
    "signs": signs,
    "pan-private": pan_private,
    "matrix": matrix,
    "history": history,
    **places(),
}


@pytest.mark.parametrize("name", GAMES)
def test_nothing_but_the_noise_tells_one_event(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = worlds(GAMES[name], tmp_path, monkeypatch)
    assert seen[0]["end"] == "done", seen[0]["end"]
    assert seen[0]["files"]
    assert_alike(seen)


# --- faults put back, which the game must find -------------------------------------------------------------------


def in_order_of_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ss.SketchTable, "__iter__", lambda secret: iter(secret._slots))
    patch.setattr("streamsketch.release.published_table.pc.sort_indices", lambda keys: pa.array(range(len(keys))))
    patch.setattr("streamsketch.release.published_table.sorted_keys", list)


def refusing_sums(patch: pytest.MonkeyPatch) -> None:
    update = ss.Sketch.update

    def refusing(sketch: ss.Sketch, indices: Any, values: Any = 1) -> None:
        if sketch.mass + abs(values) > MAX_MASS:
            raise ss.errors.SketchOverflowError("the sum leaves 63 bits")
        update(sketch, indices, values)

    patch.setattr(ss.Sketch, "update", refusing)


def refusing_rows(patch: pytest.MonkeyPatch) -> None:
    read = ready.transform_read

    def refusing(projection: ss.projections.Projection, given: Any, *, exact: bool) -> Any:
        if max(sum(map(abs, row)) for row in given.tolist()) >= 1 << 63:
            raise ss.errors.SketchOverflowError("a row leaves 63 bits")
        return read(projection, given, exact=exact)

    patch.setattr("streamsketch.release.ready.transform_read", refusing)


def refusing_windows(patch: pytest.MonkeyPatch) -> None:
    hold = Progress.hold

    def refusing(progress: Progress, window: Ints) -> None:
        if np.count_nonzero(window) > 18:
            raise ss.errors.SketchOverflowError("a window moves more than 18 cells")
        hold(progress, window)

    patch.setattr(Progress, "hold", refusing)


def only_keys_with_data_have_ids(patch: pytest.MonkeyPatch) -> None:
    def sketch_of_key(secret: ss.SketchTable, key: Any) -> ss.Sketch:
        return secret[key] if key in secret else secret.projection.sketch()

    patch.setattr(ss.SketchTable, "sketch_of", sketch_of_key)


def ids_of_parts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        data_ids.DataIds, "published", lambda ids: tuple(sorted(one[: data_ids.ID_BYTES] for one in ids.parts))
    )


def fresh_fillers(patch: pytest.MonkeyPatch) -> None:
    def published(ids: data_ids.DataIds) -> tuple[bytes, ...]:
        fillers = [os.urandom(data_ids.ID_BYTES) for _ in range(data_ids.PUBLISHED - len(ids.parts))]
        return tuple(sorted([*(one[: data_ids.ID_BYTES] for one in ids.parts), *fillers]))

    patch.setattr(data_ids.DataIds, "published", published)


FAULTS: list[tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = [
    ("table", in_order_of_events, "shown"),
    ("signs", in_order_of_events, "shown"),
    ("one sketch", refusing_sums, "end"),
    ("matrix", refusing_rows, "end"),
    ("history", refusing_windows, "end"),
]


@pytest.mark.parametrize(
    ("name", "fault", "tells"), FAULTS, ids=[f"{name}, {fault.__name__}" for name, fault, _ in FAULTS]
)
def test_the_game_finds_faults_put_back(
    name: str, fault: Callable[[pytest.MonkeyPatch], None], tells: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert tells in differences(worlds(GAMES[name], tmp_path, monkeypatch))


def one_sketch_a_person(events: list[Event], folder: Path) -> Iterator[Any]:
    """Merge a sketch for each event, as a program may whose number of parts is private."""
    parts = [sketch_of([event]) for event in events]
    total = PROJECTION.sketch()
    for part in parts:
        total.merge(part)
    yield [exact(events)] * 2
    released, again = total.release(**LAPLACE), total.release(**LAPLACE)
    released.save(folder / "a.sketch")
    yield len(released.data_ids), (folder / "a.sketch").stat().st_size
    yield len(set(released.data_ids) & set(again.data_ids))


@pytest.mark.parametrize("fault", [ids_of_parts, fresh_fillers])
def test_how_many_sketches_were_merged_is_not_shown(
    fault: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = worlds(one_sketch_a_person, tmp_path, monkeypatch)
    assert seen[0]["end"] == "done"
    assert len({str(one["shown"]) for one in seen}) == 1
    fault(monkeypatch)
    (tmp_path / "again").mkdir()
    seen = worlds(one_sketch_a_person, tmp_path / "again", monkeypatch)
    assert seen[0]["end"] == "done"
    assert len({str(one["shown"]) for one in seen}) > 1


def twice(events: list[Event], folder: Path) -> Iterator[Any]:
    """Release a public key twice: whether both have ids in common must not depend on its data."""
    secret = table_of(events)
    yield [exact(events, key="C")] * 2
    one, other = (secret.sketch_of("C").release(**LAPLACE) for _ in range(2))
    one.save(folder / "a.sketch")
    yield bool(set(one.data_ids) & set(other.data_ids))


def test_ids_do_not_tell_which_public_keys_have_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [[("A", 1, 1)], [("A", 1, 1), ("C", 1, 1)]]
    seen = [play(twice, events, tmp_path / str(number), monkeypatch) for number, events in enumerate(streams)]
    assert_alike(seen)
    only_keys_with_data_have_ids(monkeypatch)
    seen = [play(twice, events, tmp_path / f"again {number}", monkeypatch) for number, events in enumerate(streams)]
    assert "shown" in differences(seen)


def test_a_world_that_compiles_reads_as_much_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba names files of its cache by UUIDs, and processes that compile at once must not name the same."""
    names = []
    for _ in range(2):
        with observed(monkeypatch) as seen:
            names.append(uuid.uuid4())
        assert seen["random reads"] == 0
    assert names[0] != names[1]


def test_every_order_differs_from_the_others() -> None:
    """The worlds are neighbours in data, and different."""
    assert all(one != other for one, other in itertools.combinations(ORDERS, 2))
