"""What an outsider sees of bounded tables and of a bound chosen privately: nothing of one unit, whatever its rows hold.

The noise hides the cells that a plain bounder in Python's fractions computes, and in neighbouring worlds these are no
further apart than the guarantee states: what else differs, a missing clip for one, is not hidden.
"""

import dataclasses
import itertools
import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core.numbers import Ints
from streamsketch.errors import ReleasedAgainWarning
from streamsketch.privacy import Budget, Counting, Neighbours, bound_choice
from streamsketch.privacy.bound_choice import ChosenBound, choose_bound, counts_by_size, exponents_of
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.layout import Layout
from streamsketch.release import AdditiveNoise
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.sketching.bounding import clip, units
from streamsketch.sketching.exact import ExactSums
from tests.cli.agreeing import FILE, TERMS
from tests.observables.game import Seen, assert_alike, differences, files_in, hidden, observed
from tests.observables.steps import Tape, steps_of
from tests.observables.test_commands import run
from tests.observables.test_releases import PROJECTION, exact, in_order_of_events
from tests.oracles import naive_cells
from tests.privacy.test_choosing import chances

Row = tuple[str | None, str, int, int | None]
KEYS = ["A", "B", "C"]
PUBLIC = ["D", *KEYS]

CROWD: list[Row] = [("Eve", "A", 9, 1), ("Eve", "B", 9, 1), ("Fay", "C", 9, 1), ("Bob", "C", 9, 1)]
ANN: list[Row] = [("Ann", "B", 1, 80_995), ("Ann", "B", 1, -80_995), ("Ann", "B", 2, 5)]
BOB: list[Row] = [("Bob", "B", 3, 30), ("Bob", "B", 4, -40)]
LARGER: list[Row] = [("Bob", "B", 3, 100), ("Bob", "B", 4, -400), ("Bob", "B", 3, 200)]
DAN: list[Row] = [("Dan", "C", 7, 1 << 62), ("Dan", "A", 8, None), (None, "A", 8, 1)]
MANY: list[Row] = [("Gus", "A", index, 100) for index in range(14)]
WORLDS: list[list[Row]] = [  # one unit less, more, changed; another order; rows of nobody and of nothing
    [*CROWD, *ANN, *BOB],
    [*CROWD, *BOB],
    [row for row in [*CROWD, *ANN] if row[0] != "Bob"],
    [*CROWD, *ANN, *LARGER],
    [*CROWD, *ANN, *BOB, *DAN],
    [*CROWD, *ANN, *BOB, *MANY],
    [*BOB[::-1], *ANN[::-1], *CROWD[::-1]],
]


FINE = PROJECTION.replace(resolution="1/8192")


class Mode(NamedTuple):
    """How units are bounded."""

    neighbours: Neighbours
    clip: Any = "scale"
    max_keys: int | None = None
    counting: Counting | None = None

    @property
    def together(self) -> bool:
        return self.max_keys is not None

    @property
    def in_cells(self) -> bool:
        return self.neighbours.kind == "sketch-l2"

    @property
    def projection(self) -> ss.projections.Projection:
        return FINE if self.in_cells else PROJECTION

    @property
    def agreement(self) -> ss.Agreement:
        columns: dict[str, Any] = {"key": "shop", "index": {"item": "integer"}, "value": "paid", "unit": "customer"}
        how: dict[str, Any] = {"clip": self.clip, "counting": self.counting, "missing": "drop"}
        return ss.Agreement(self.projection, **columns, neighbours=self.neighbours, **how)

    @property
    def publisher(self) -> AdditiveNoise:
        delta = 1e-6 if self.in_cells else 0.0
        return AdditiveNoise(epsilon=1.0, delta=delta, neighbours=self.neighbours, counting=self.counting)


MODES = {
    "scale": Mode(ss.L1(14, unit="customer", max_keys=2)),
    "cut": Mode(ss.L1(14, unit="customer", max_keys=2), "cut"),
    "together": Mode(ss.L1(14, unit="customer"), max_keys=2),
    "euclidean": Mode(ss.L2(10, unit="customer", max_keys=2)),
    "in sketch space": Mode(ss.SketchL2(10, unit="customer")),
    "equal": Mode(ss.SketchL2(1, unit="customer", max_keys=2), "equal", counting=Counting(4000)),
    "counted": Mode(ss.L1(14, unit="customer", max_keys=2), counting=Counting(3, slack=2)),
}


def rows_of(world: list[Row], mode: Mode) -> list[Row]:
    """Return rows that a plain bounder clips without rounding and without coins; cells are rounded without coins."""
    if mode.in_cells:
        return world
    if mode.clip == "cut":
        return [row for row in world if row[2] != 4 and row[0] != "Gus"]
    if mode.together:  # each unit over the bound in one key
        return [row for row in world if row != ("Bob", "C", 9, 1)]
    return [row for row in world if mode.neighbours.kind == "l1" or row[0] != "Gus"]


def plainly_bounded(world: list[Row], mode: Mode) -> list[tuple[str, int, int]]:
    """Return the events that are left, (key, index, value): netted, and scaled where a group exceeds the bound."""
    nets: dict[str, dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
    for unit, key, index, value in world:
        if unit is not None and value is not None:
            nets[unit if mode.together else f"{unit}/{key}"][key, index] += value
    left = []
    for net in nets.values():
        power = 1 if mode.neighbours.kind == "l1" else 2
        size = sum(abs(value) ** power for value in net.values())
        limit = Fraction(mode.neighbours.bound) ** power
        factor = Fraction(1) if size <= limit else limit / size
        for (key, index), value in net.items():
            square = (value**2) * factor**2 if power == 1 else value**2 * factor
            scaled = math.isqrt(int(square))
            assert scaled**2 == square, "a plain bounder does not round"
            left.append((key, index, scaled if value > 0 else -scaled))
    return left


def exactly_bounded(world: list[Row], mode: Mode) -> Callable[[str], Ints]:
    """Return the exact numbers that are published of a key, by a plain bounder: its cells, and counts behind them."""
    counting, steps = mode.counting, int(mode.neighbours.bound)
    if counting is None:
        return exact_cells(world, mode)

    def numbers(key: str) -> Ints:
        left = [exact_cells(own, mode)(key) for own in by_unit(world)]
        events = [] if mode.in_cells else itertools.chain(*(plainly_bounded(own, mode) for own in by_unit(world)))
        total = sum(abs(value) for other, _, value in events if other == key)
        counts = np.array([[sum(cells.any() for cells in left), total]])
        return np.append(exact_cells(world, mode)(key), counting.weighted(counts, steps))

    return numbers


def by_unit(world: list[Row]) -> list[list[Row]]:
    return [[row for row in world if row[0] == unit] for unit in {row[0] for row in world} - {None}]


def exact_cells(world: list[Row], mode: Mode) -> Callable[[str], Ints]:
    """Return the exact cells of each key, by a plain bounder."""
    if not mode.in_cells:
        events = plainly_bounded(world, mode)
        return lambda key: exact(events, key=key)
    steps = int(1 / FINE.grid)
    events = [
        (unit.encode(), (key, 0), index, min(value * steps, (1 << 62) - 1))
        for unit, key, index, value in world
        if unit is not None and value is not None
    ]
    limit = mode.neighbours.cell_steps(FINE)  # type: ignore[attr-defined]
    sums, _ = naive_cells.bounded(
        events, lambda index: FINE.columns([index])[:, 0].tolist(), limit=limit, clip=mode.clip
    )
    cells = range(FINE.sketch_dim)
    return lambda key: np.array([sums.get(((key, 0), cell), 0) for cell in cells], dtype=np.int64)


def columns_of(world: list[Row]) -> tuple[Any, Any, Any, Any]:
    owners, keys, indices, values = (list(column) for column in zip(*world, strict=True))
    return keys, pa.array(indices, pa.int64()), pa.array(values, pa.int64()), pa.array(owners, pa.string())


def bounded(world: list[Row], mode: Mode, **options: Any) -> ss.SketchTable:
    neighbours, clip, max_keys, _ = mode
    return ss.bounding.bound_units(
        [columns_of(world)], mode.projection, neighbours=neighbours, clip=clip, max_keys=max_keys, **options
    )


Game = Callable[[list[Row], Mode, Path], Iterator[Any]]


def with_public_keys(world: list[Row], mode: Mode, folder: Path) -> Iterator[Any]:
    table = bounded(world, mode, public_keys=PUBLIC)
    yield list(map(exactly_bounded(world, mode), sorted(PUBLIC)))
    released = mode.publisher.release_table(table, public_keys=PUBLIC)
    released.save(folder / "all.parquet")
    yield repr(released), released.data_ids, str(released.explain()), list(released)


def keys_are_public(world: list[Row], mode: Mode, folder: Path) -> Iterator[Any]:
    table = bounded(world, mode)
    yield list(map(exactly_bounded(world, mode), KEYS))
    released = mode.publisher.release_table(table, keys_are_public=True)
    released.save(folder / "all.parquet")
    yield list(released)


def agreed(world: list[Row], mode: Mode, folder: Path) -> Iterator[Any]:
    keys, indices, values, owners = columns_of(world)
    table = ss.bound(pa.table({"shop": keys, "item": indices, "paid": values, "customer": owners}), mode.agreement)
    yield list(map(exactly_bounded(world, mode), sorted(PUBLIC)))
    how: dict[str, Any] = {"epsilon": 1.0, "delta": mode.publisher.delta, "neighbours": mode.neighbours}
    released = table.release(**how, public_keys=PUBLIC)  # type: ignore[union-attr]
    released.save(folder / "all.parquet")
    yield list(released), [one.counts is None for one in released.values()]


def play(game: Game, world: list[Row], mode: Mode, folder: Path, patch: pytest.MonkeyPatch) -> Seen:
    folder.mkdir(parents=True)
    with observed(patch) as seen, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ReleasedAgainWarning)  # the worlds have the same ids, in one process
        steps = game(rows_of(world, mode), mode, folder)
        with hidden(patch, next(steps)):
            seen["shown"] = list(steps)
    return seen | {"files": files_in(folder), "warnings": [str(one.message) for one in caught]}


def played(game: Game, mode: Mode, folder: Path, patch: pytest.MonkeyPatch) -> list[Seen]:
    play(game, WORLDS[0], mode, folder / "before", patch)
    return [play(game, world, mode, folder / str(number), patch) for number, world in enumerate(WORLDS)]


@pytest.mark.parametrize("game", [with_public_keys, keys_are_public])
@pytest.mark.parametrize("name", MODES)
def test_a_bounded_table_shows_nothing_of_one_unit(
    name: str, game: Game, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = played(game, MODES[name], tmp_path, monkeypatch)
    assert seen[0]["end"] == "done", seen[0]["end"]
    assert seen[0]["files"]
    assert seen[0]["warnings"] == []
    assert_alike(seen)


@pytest.mark.parametrize("name", ["equal", "counted"])
def test_what_is_agreed_on_shows_nothing_of_one_unit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = played(agreed, MODES[name], tmp_path, monkeypatch)
    assert (seen[0]["end"], seen[0]["shown"][0][1]) == ("done", [False] * len(PUBLIC)), seen[0]["end"]
    assert_alike(seen)


@pytest.mark.parametrize("name", MODES)
def test_the_noise_may_hide_what_it_hides(name: str) -> None:
    """What the plain bounder leaves of neighbouring worlds differs by no more than the guarantee is for."""
    mode = MODES[name]
    stated = sensitivity_of(mode.projection, mode.neighbours, Layout(mode.counting))
    tables = [list(map(exactly_bounded(rows_of(world, mode), mode), PUBLIC)) for world in WORLDS]
    gaps = [[one - other for one, other in zip(tables[0], table, strict=True)] for table in tables[1:]]
    changed = [1, 1, 2, 1, 1, 0]
    for units_changed, gap in zip(changed, gaps, strict=True):
        length = math.sqrt(sum(int((cells**2).sum()) for cells in gap))
        assert length <= units_changed * math.sqrt(stated.l2_squared)
        assert sum(int(np.abs(cells).sum()) for cells in gap) <= units_changed * stated.l1
    assert any(np.any(cells) for cells in gaps[0])


# --- faults put back, which the game must find -------------------------------------------------------------------


def nothing_clipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(units, "bounded", lambda events, **bounds: clip.bounded(events, **bounds | {"limit": clip.MAX_LIMIT}))


def cells_not_clipped(patch: pytest.MonkeyPatch) -> None:
    bounded_cells, no_bound = units.bounded_cells, {"limit": (1 << 31) - 1, "equal": False}
    patch.setattr(units, "bounded_cells", lambda events, **bounds: bounded_cells(events, **bounds | no_bound))


def rows_counted_as_units(patch: pytest.MonkeyPatch) -> None:
    def counts(left: Any) -> Ints:
        rows = np.bincount(left.codes, minlength=len(left.slots))
        return np.stack([rows, np.zeros_like(rows)], axis=1)

    patch.setattr(clip.Bounded, "counts", property(counts))


def no_count_of_few(patch: pytest.MonkeyPatch) -> None:
    exact_numbers = CalibratedNoise.numbers_of_keys

    def without(publisher: CalibratedNoise, sums: ExactSums, bounds: Bounds) -> Ints:
        if bounds.has_counts and (sums.counts[:, 0] < 2).any():
            raise ss.InvalidInputError("there are too few units to count")
        return exact_numbers(publisher, sums, bounds)

    patch.setattr(CalibratedNoise, "numbers_of_keys", without)


def refusing_long_units(patch: pytest.MonkeyPatch) -> None:
    bounded_cells = units.bounded_cells

    def refusing(events: Any, **bounds: Any) -> Iterator[Any]:
        for left in bounded_cells(events, **bounds):
            if left.tally.units_over_bound > 2:
                raise ss.InvalidInputError("units have to be shortened")
            yield left

    patch.setattr(units, "bounded_cells", refusing)


def not_netted(patch: pytest.MonkeyPatch) -> None:
    summed = clip.summed

    def row_by_row(events: Any, *given: Any, **options: Any) -> Any:
        found = summed(dataclasses.replace(events, indices=np.arange(len(events))), *given, **options)
        return dataclasses.replace(found, indices=events.indices[found.indices])

    patch.setattr(clip, "summed", row_by_row)


def refusing_what_is_over(patch: pytest.MonkeyPatch) -> None:
    def refusing(events: Any, **bounds: Any) -> Any:
        left = clip.bounded(events, **bounds)
        if left.tally.units_over_bound > 1:
            raise ss.InvalidInputError("units exceed the bound")
        return left

    patch.setattr(units, "bounded", refusing)


def refusing_blanks(patch: pytest.MonkeyPatch) -> None:
    def refusing(*given: Any) -> Any:
        yield from read(*given)
        if given[-1].rows_blank:
            raise ss.InvalidInputError("there are rows of nobody")

    read = units.UnitBounds.read
    patch.setattr(units.UnitBounds, "read", refusing)


def reading_for_each_unit(patch: pytest.MonkeyPatch) -> None:
    def drawing(events: Any, **bounds: Any) -> Any:
        left = clip.bounded(events, **bounds)
        for _ in range(left.tally.units):
            units.os.urandom(8)
        return left

    patch.setattr(units, "bounded", drawing)


@pytest.mark.parametrize(
    ("game", "name", "fault", "tells"),
    [
        (with_public_keys, "scale", nothing_clipped, {"files", "warnings"}),
        (with_public_keys, "scale", not_netted, {"files"}),
        (with_public_keys, "scale", refusing_what_is_over, {"end", "files"}),
        (with_public_keys, "scale", refusing_blanks, {"end", "files"}),
        (with_public_keys, "scale", reading_for_each_unit, {"random reads"}),
        (keys_are_public, "scale", in_order_of_events, {"shown", "files"}),
        (with_public_keys, "in sketch space", cells_not_clipped, {"files"}),
        (with_public_keys, "equal", refusing_long_units, {"end", "files"}),
        (with_public_keys, "equal", rows_counted_as_units, {"files"}),
        (keys_are_public, "counted", no_count_of_few, {"end", "files"}),
    ],
)
def test_the_game_finds_faults_put_back(
    game: Game,
    name: str,
    fault: Callable[[pytest.MonkeyPatch], None],
    tells: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    assert tells <= set(differences(played(game, MODES[name], tmp_path, monkeypatch)))


# --- the command, and the operator's summary ----------------------------------------------------------------------

BOUNDS = {
    "scale": ["--l1", "14", "--max-keys", "2"],
    "in sketch space": ["--sketch-l2", "10"],
    "equal": ["--sketch-l2", "1", "--max-keys", "2"],
}
COLUMNS = ["--key", "shop", "--index", "item", "--value", "paid", "--unit-column", "customer"]


def csv_of(world: list[Row]) -> str:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in world]
    return "\n".join(["customer,shop,item,paid", *lines, ""])


def sketched_and_released(
    world: list[Row], name: str, folder: Path, patch: pytest.MonkeyPatch, *, agreed: bool
) -> tuple[Seen, Path]:
    """Let a party bound and sketch a file in secret, then publish; return what is seen, and where its secrets are."""
    mode, bounds = MODES[name], [] if agreed else BOUNDS[name]
    secret, public = folder / "secret", folder / "public"
    for place in (secret, public):
        place.mkdir(parents=True)
    patch.chdir(public)
    by, how = ("--agreement", []) if agreed else ("--projection", [*COLUMNS, *bounds, "--clip", mode.clip])
    (secret / "agreed.json").write_text((mode.agreement if agreed else mode.projection).to_json())
    (secret / "rows.csv").write_text(csv_of(world))
    made = [by, "../secret/agreed.json", *how, "-o", "../secret/a.raw-sketch", "--summary", "../secret/told.json"]
    with observed(patch):  # the operator's: it counts rows and keys
        assert run("sketch", "../secret/rows.csv", *made) == 0
    Path(FILE).unlink(missing_ok=True)  # the agreement of what the call states is public
    hide = list(map((exactly_bounded if agreed else exact_cells)(world, mode), sorted(PUBLIC)))
    privacy = ["--epsilon", "1", "--delta", str(mode.publisher.delta), *bounds, "--public-key", ",".join(PUBLIC)]
    privacy += [] if agreed else ["--unit", "customer"]
    with observed(patch) as seen, hidden(patch, hide):
        seen["exit code"] = run("release", "../secret/a.raw-sketch", "-o", "all.parquet", *privacy)
        run("explain", "all.parquet")
        run("explain", "all.parquet")
    return seen | {"files": files_in(public)}, secret


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # the noise is no noise
@pytest.mark.parametrize(("name", "agreed"), [*((name, False) for name in BOUNDS), ("equal", True), ("counted", True)])
def test_commands_show_nothing_of_one_unit_and_publish_no_summary(
    name: str,
    agreed: bool,  # noqa: FBT001 - of the table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        sketched_and_released(world, name, tmp_path / str(at), monkeypatch, agreed=agreed)
        for at, world in enumerate(WORLDS)
    ]
    seen = [one for one, _ in found]
    assert seen[0]["end"] == "done", seen[0]
    assert seen[0]["exit code"] == 0, seen[0]["stderr"]
    assert list(seen[0]["files"]) == ["all.parquet", TERMS], "the release, and the agreement that it follows"
    assert_alike(seen)
    secrets = [files_in(secret)["told.json"] for _, secret in found]
    assert {mode for mode, _, _ in secrets} == {0o600}
    told = [json.loads(content) for _, _, content in secrets]
    assert all(one["secret"] is True for one in told)
    assert len({str(one) for one in told}) > 3, "it tells worlds apart, so it must not be published"


# --- a bound chosen privately -------------------------------------------------------------------------------------

GRID = [Fraction(bound) for bound in (1, 5, 50, 1000)]
SHARE, EPSILON = Fraction(3, 4), 0.5


def totals_of(world: list[Row]) -> Any:
    return ss.bounding.unit_totals([columns_of(world)], PROJECTION)


def loss(one: list[Row], other: list[Row]) -> float:
    """Return the largest |log P/P'| over all bounds that may be chosen."""
    found = [chances(exponents_of(totals_of(world), GRID, Fraction(EPSILON), SHARE)) for world in (one, other)]
    return max(abs(math.log(p / q)) for p, q in zip(*found, strict=True))


NEIGHBOURS: list[tuple[list[Row], list[Row]]] = [
    (WORLDS[0], WORLDS[number]) for number in (1, 2, 4, 5)
]  # one unit more or less


def test_a_chosen_bound_tells_of_one_unit_no_more_than_epsilon() -> None:
    losses = [loss(one, other) for one, other in NEIGHBOURS]
    assert max(losses) <= EPSILON * (1 + 1e-12)
    assert max(losses) > EPSILON / 4


def test_the_game_finds_totals_of_rows_in_place_of_units(monkeypatch: pytest.MonkeyPatch) -> None:
    def each_its_own(events: Any) -> Any:
        owners = np.stack([np.arange(len(events), dtype=np.uint64)] * 2, axis=1)
        return clip.summed(dataclasses.replace(events, units=owners))

    monkeypatch.setattr(units, "summed", each_its_own)
    assert max(loss(one, other) for one, other in NEIGHBOURS) > 2 * EPSILON


class Whatever:
    """A criterion to which all bounds are the same, so that what is seen is how units are counted."""

    def errors(self, bounds: Sequence[Fraction], counts: Sequence[int], deviation: float) -> list[float]:
        del counts, deviation
        return [0.0 for _ in bounds]


def differing_steps(**by: Any) -> int:
    """Return in how many ways choosing works, at the worst of some tapes, over worlds of one size and of others."""
    by = by or {"share": SHARE}
    streams: Sequence[Any] = [[], [1.0], [1.0] * 9, [2000.0] * 9, [float(at) for at in range(9)]]
    streams = [*streams, *(totals_of(world) for world in WORLDS)]
    choose_bound([1.0], GRID, epsilon=EPSILON, **by)
    worst = 0
    for seed in range(5):
        found = [
            steps_of(
                lambda tape, totals=totals: choose_bound(totals, GRID, epsilon=EPSILON, bits=tape, **by),  # type: ignore[misc]
                Tape([], seed),
                __file__,
            )
            for totals in streams
        ]
        assert found[0].reads
        worst = max(worst, 1 + sum(one != other for one, other in itertools.pairwise(found)))
    return worst


def test_choosing_takes_the_same_steps_and_bits_whatever_the_totals() -> None:
    assert differing_steps() == 1
    assert differing_steps(accuracy=Whatever()) == 1


def test_the_game_finds_a_choice_that_stops_at_the_first_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(exponents: Sequence[Fraction], drawn: Sequence[tuple[int, Fraction]]) -> int:
        order: list[int] = []
        for place, (at, _) in enumerate(drawn):
            order.insert(at, place)
        for place in order:
            if drawn[place][1] >= exponents[place]:
                return place
        raise AssertionError

    monkeypatch.setattr(bound_choice, "_first_to_succeed", first)
    assert differing_steps() > 1


def test_the_game_finds_noise_that_is_drawn_for_sizes_that_occur_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def where_some_are(totals: Any, grid: Sequence[Fraction], budget: Budget, accuracy: Any, bits: Any) -> ChosenBound:
        counts = counts_by_size(totals, grid)
        some = np.flatnonzero(counts)
        counts[some] += DiscreteLaplace(Fraction(2)).sample(some.size + 1, bits)[1:]
        return ChosenBound(
            grid[0], budget, None, len(grid), tuple(counts.tolist()), tuple(accuracy.errors(grid, [], 0))
        )

    monkeypatch.setattr(bound_choice, "_most_accurate", where_some_are)
    assert differing_steps(accuracy=Whatever()) > 1


def bound_chosen_by_command(world: list[Row], folder: Path, patch: pytest.MonkeyPatch) -> Seen:
    """Choose with coins and noise that hide what differs: one candidate comes out in every world."""
    folder.mkdir()
    (folder / "agreed.json").write_text(PROJECTION.to_json())
    (folder / "rows.csv").write_text(csv_of(world))
    patch.chdir(folder)
    columns = ["--unit-column", "customer", "--index", "item", "--key", "shop", "--value", "paid"]
    asked = ["--projection", "agreed.json", "--candidates", "1,5,50,1000", "--epsilon", "0.5"]
    with patch.context() as fixed, observed(patch) as seen:
        fixed.setattr(bound_choice, "_first_to_succeed", lambda *_: 1)
        seen["exit code"] = run("choose-bound", "rows.csv", *columns, *asked)
        run("choose-bound", "rows.csv", *columns, *asked, "--json")
        run("choose-bound", "rows.csv", *columns, *asked, "--set", "squared-distance=9", "--set", "trade-off=told.json")
        edges = [-1, 1, 5, 50, 1000, math.inf]
        totals = totals_of(world)
        counts = np.array([((totals > low) & (totals <= high)).sum() for low, high in itertools.pairwise(edges)])
        with hidden(patch, [np.zeros(5, dtype=np.int64), counts]):  # the first of no units, to find mistakes early
            seen["by accuracy"] = run("choose-bound", "rows.csv", *columns, *asked, "--question", "cosine", "--json")
    mode, _, told = files_in(folder)["told.json"]
    return seen | {"mode": mode, "told": told}


def test_the_command_that_chooses_shows_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [bound_chosen_by_command(world, tmp_path / str(at), monkeypatch) for at, world in enumerate(WORLDS)]
    assert (seen[0]["end"], seen[0]["exit code"], seen[0]["mode"]) == ("done", 0, 0o600), seen[0]
    assert seen[0]["by accuracy"] == 0
    assert "5, of 4 candidates" in seen[0]["stdout"]
    assert differences(seen) == ["told"], "the trade-off is secret, and in a file of the owner's alone"
