"""People of several rows as agreements choose: the same sums in every engine, and one person's change is bounded."""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReadColumns, RowsToBatches, SketchPerKey, TumblingWindows
from streamsketch.features import Category, Features, Number
from streamsketch.intake import Intake
from streamsketch.privacy import L2
from streamsketch.sketching.bounding.grouping import GroupedEvents
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import UnitBounds
from streamsketch.streams import Stream
from tests.features.several_rows import TABLES, average
from tests.oracles import naive_cells
from tests.streams.agreed import split

FEATURES = Features({"age": Number(0, 110), "ward": Category(["A", "B"])}, seed=7)
SITES = ["N", "S"]
CHOICES = ["mean", "latest by at", "first by at", "latest by visit:integer", "first by day:date"]


def rows_of_people(size: int = 120, people: int = 20, seed: int = 1) -> pa.Table:
    """Return rows of an hour in no order: of most people several, of which some have the same time."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "at": [f"2026-11-22T13:{minute:02}:00Z" for minute in rng.integers(0, 9, size)],
            "day": [f"2026-11-{day:02}" for day in rng.integers(1, 9, size)],
            "visit": rng.integers(-3, 4, size),
            "site": rng.choice(SITES, size),
            "patient": [f"patient {one}" for one in rng.integers(0, people, size)],
            "age": rng.integers(0, 120, size),
            "ward": rng.choice(["A", "B", "C"], size),
        }
    )


ROWS = rows_of_people()


def agreed(rows: str | None, neighbours: Any = None, clip: Any = None) -> ss.Agreement:
    neighbours = neighbours or ss.SketchL2.of_averages("patient", 2)
    return ss.Agreement(
        features=FEATURES, key="site", unit="patient", neighbours=neighbours, clip=clip, rows_of_unit=rows
    )


def expected(rows: pa.Table, agreement: ss.Agreement) -> dict[str, list[int]]:
    """Return the sums by site of what people contribute by `SketchL2`, or of all their rows if these are few."""
    cells = (FEATURES.transform(rows) * (1 << 15)).astype(int)
    rule, found = agreement.rows_rule, defaultdict[str, Any](lambda: defaultdict(list))
    times = [0] * len(rows) if rule is None or rule.time is None else rows[rule.time.name].to_pylist()
    for site, patient, time, row in zip(
        rows["site"].to_pylist(), rows["patient"].to_pylist(), times, cells, strict=True
    ):
        found[patient][site].append((time, row))
    sums = {site: np.zeros(FEATURES.dim, dtype=int) for site in SITES}
    for by_site in found.values():
        whole = {}
        for site, own in by_site.items():
            ends = [time for time, _ in own]
            end = min(ends) if rule is not None and rule.which == "first" else max(ends)
            left = [row for time, row in own if time == end]
            total = np.sum(left, axis=0)
            steps = average(total, len(left)) if agreement.clip == "average" else total.tolist()
            whole |= {(site, cell): step for cell, step in enumerate(steps)}
        if agreement.neighbours.of_sketches:  # type: ignore[union-attr]
            limit = agreement.neighbours.cell_steps(agreement.projection)  # type: ignore[union-attr]
            whole = naive_cells.clipped(whole, limit, "equal" if agreement.clip == "equal" else "scale")
        for (site, cell), step in whole.items():
            sums[site][cell] += step
    return {site: total.tolist() for site, total in sums.items()}


def content(table: Any) -> dict[str, list[int]]:
    return {key: one.state().tolist() for key, one in table.items()}


# --- every engine -------------------------------------------------------------------------------------------------


def by_beam(rows: pa.Table, agreement: ss.Agreement, _: Path, read: Any = None) -> Any:
    """Return what is expected, once a pipeline has found it."""
    found = expected(rows, agreement)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batches = pipeline | beam.Create(rows.to_batches(max_chunksize=50)) if read is None else pipeline | read
        sketched = batches | BoundContributions(agreement) | SketchPerKey(agreement)
        shown = sketched | beam.MapTuple(lambda key, sketch: (key, sketch.state().tolist()))
        assert_that(shown, equal_to(list(found.items())))
    return found


def by_beam_of_rows(rows: pa.Table, agreement: ss.Agreement, folder: Path) -> Any:
    """Read rows one by one, in a window, which casts them before they are bounded."""
    timed = beam.Create(rows.to_pylist()) | beam.Map(lambda row: TimestampedValue(row, 1)) | TumblingWindows(3600)
    return by_beam(rows, agreement, folder, timed | RowsToBatches(agreement, agreement.names))


def by_beam_of_files(rows: pa.Table, agreement: ss.Agreement, folder: Path) -> Any:
    pa_csv.write_csv(rows, folder / "rows.csv")
    return by_beam(rows, agreement, folder, ReadColumns([str(folder / "rows.csv")], agreement))


PIPELINES: dict[str, Callable[[pa.Table, ss.Agreement, Path], Any]] = {
    "Beam": by_beam, "rows": by_beam_of_rows, "files": by_beam_of_files,
}  # fmt: skip


def made_by(engine: str, rows: pa.Table, agreement: ss.Agreement, folder: Path) -> dict[str, list[int]]:
    if engine in PIPELINES:
        made: dict[str, list[int]] = PIPELINES[engine](rows, agreement, folder)
        return made
    return content(TABLES[engine](rows, agreement, folder))


def by_engines(choices: list[Any]) -> list[Any]:
    """Return each engine with each choice: how rows come to Beam does not go by all of them, but for every night."""
    return [
        pytest.param(engine, choice, marks=[pytest.mark.long] * (engine in ("rows", "files") and place % 3 != 1))
        for engine in (*TABLES, *PIPELINES)
        for place, choice in enumerate(choices)
    ]


MANY: dict[str, Any] = {"unit": "patient", "max_keys": 2}
OF_ROWS = [
    # many steps, so that nothing is clipped by a secret
    (ss.SketchL2(2, **MANY), "scale"), (ss.SketchL2(2, **MANY), "equal"), (ss.L1(10**6, **MANY), "scale"),
    (ss.L1(10**6, **MANY), "cut"), (L2(10**4, **MANY), "scale"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "rows"), by_engines(CHOICES))
def test_every_engine_takes_the_rows_that_count(rows: str, engine: str, tmp_path: Path) -> None:
    agreement = agreed(rows)
    assert made_by(engine, ROWS, agreement, tmp_path) == expected(ROWS, agreement)


@pytest.mark.parametrize(("engine", "how"), by_engines(OF_ROWS))
def test_every_engine_counts_all_rows_up_to_the_bound(engine: str, how: tuple[Any, Any], tmp_path: Path) -> None:
    """As agreements that state no choice do, by the same ways to clip."""
    neighbours, clip = how
    agreement = agreed("all", neighbours, clip)
    found = made_by(engine, ROWS, agreement, tmp_path)
    assert found == expected(ROWS, agreement) == content(ss.bound(ROWS, agreed(None, neighbours, clip)))


@pytest.mark.parametrize("neighbours", [ss.L1(9, **MANY), L2(9, **MANY), ss.SketchL2(1, **MANY), ss.SketchL2(9)])
@pytest.mark.parametrize("rows", CHOICES)
def test_relations_that_do_not_average_are_refused(rows: str, neighbours: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"SketchL2\.of_averages\(unit, max_keys\)"):
        agreed(rows, neighbours)


def test_the_average_has_the_bits_of_agreements_that_do_not_state_it() -> None:
    assert content(ss.bound(ROWS, agreed("mean"))) == content(ss.bound(ROWS, agreed(None, clip="average")))


@pytest.mark.parametrize("rows", CHOICES)
def test_rows_in_any_order_and_of_any_type_give_the_same_bits(rows: str) -> None:
    agreement, rng = agreed(rows), np.random.default_rng(2)
    found = [content(ss.bound(ROWS.take(pa.array(rng.permutation(len(ROWS)))), agreement)) for _ in range(5)]
    typed = ROWS.set_column(0, "at", ROWS["at"].cast(pa.timestamp("ns", "UTC")).cast(pa.timestamp("us", "Europe/Rome")))
    typed = typed.set_column(1, "day", ROWS["day"].cast(pa.date32()))
    found += [content(ss.bound(given, agreement)) for given in (typed, typed.to_pandas())]
    assert found == [found[0]] * 7


@pytest.mark.parametrize("rows", ["latest by at", "first by at"])
def test_rows_without_a_time_are_refused_or_dropped(rows: str) -> None:
    gaps = ROWS.set_column(
        0, "at", pa.array([None if place % 5 == 0 else one for place, one in enumerate(ROWS["at"].to_pylist())])
    )
    with pytest.raises(ss.InvalidInputError, match="the column at is null or blank in row 1"):
        ss.bound(gaps, agreed(rows))
    dropping, summary = agreed(rows).replace(missing="drop"), BoundingSummary()
    left = gaps.filter(pa.compute.is_valid(gaps["at"]))
    assert content(ss.bound(gaps, dropping, summary=summary)) == expected(left, dropping)
    assert (summary.rows_read, summary.rows_blank) == (120, 24)
    wrong = ROWS.set_column(0, "at", pa.array(["yesterday", *ROWS["at"].to_pylist()[1:]]))
    with pytest.raises(ss.InvalidInputError, match="in row 1 a value that is not of the agreed type timestamp"):
        ss.bound(wrong, dropping)


@pytest.mark.parametrize("rows", ["latest by at", "first by at"])
def test_rows_that_are_left_out_do_not_shift_the_times_of_others(rows: str) -> None:
    """Of rows that name nobody, which are dropped where rows are bounded."""
    nobody = ROWS.slice(0, 9).set_column(ROWS.column_names.index("patient"), "patient", pa.array([""] * 9))
    keeping = agreed(rows).replace(missing="keep", text=None)
    given = pa.concat_tables([ROWS.slice(0, 20), nobody, ROWS.slice(20)]).combine_chunks()  # one batch
    assert content(ss.bound(given, keeping)) == expected(ROWS, keeping)


def test_each_window_has_its_own_latest_row() -> None:
    """By the column of the windows: a person's latest row of a day, and of the keys of one release."""
    days = [f"2026-11-{place % 3 + 1:02}T{place % 7:02}:00Z" for place in range(len(ROWS))]
    rows = ROWS.set_column(0, "at", pa.array(days))
    windows = ss.Windows(time="at", every="day", first="2026-11-01", last="2026-11-03")
    agreement = agreed("latest by at").replace(rows_of_unit="latest", windows=windows)
    found = agreement.sketch(rows)
    for day in ("2026-11-01", "2026-11-02", "2026-11-03"):
        own = rows.filter(pa.array([one.startswith(day) for one in days]))
        assert content(found[day]) == expected(own, agreement)


def test_a_stream_on_one_machine_refuses_what_needs_times(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"time": "at", "window": "1 hour", "start": "2026-11-22T13:00:00Z", "delay": "10 s"}
    fields |= {"epsilon": 1.0, "delta": 1e-6, "public_keys": SITES, "folder": str(tmp_path / "out")}
    (tmp_path / "out").mkdir()
    for rows in ("latest by at", "first by visit:integer"):
        with pytest.raises(ss.InvalidInputError, match=r"keeps sums, without times: .*agreement\.release\(rows\)"):
            Stream(*split(agreed(rows), **fields), tmp_path / "s.raw-stream")
    Stream(*split(agreed("mean"), **fields), tmp_path / "s.raw-stream")


# --- privacy ------------------------------------------------------------------------------------------------------

SECRET = bytes(range(32))
few_rows = st.lists(
    st.tuples(
        st.sampled_from(["Ann", "Bob"]), st.sampled_from(SITES), st.integers(0, 2), st.sampled_from([0, 55, 110, 999]),
        st.sampled_from(["A", "B", None]),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip
ONE_ROW = ("mean", "latest by visit:integer", "first by visit:integer")
OF_ALL: list[tuple[Any, Any]] = [
    (ss.SketchL2, "scale"), (ss.SketchL2, "equal"), (ss.L1, "scale"), (ss.L1, "cut"), (L2, "scale"),
]  # fmt: skip
PROTECTED = [
    *((rows, ss.SketchL2.of_averages("patient", most), None) for rows in ONE_ROW for most in (1, 2)),
    *(("all", relation(2, "patient", most), clip) for relation, clip in OF_ALL for most in (1, 2)),
]


def cells_of(rows: list[Any], agreement: ss.Agreement) -> dict[str, np.ndarray]:
    """Return the cells of each site, clipped with one secret, so that equal units are clipped alike."""
    known: dict[str, Any] = {"clip": agreement.clip_of(), "rows": agreement.rows_rule}
    bounds = UnitBounds(agreement.projection, agreement.neighbours, **known)  # type: ignore[arg-type]
    names = ("patient", "site", "visit", "age", "ward")
    types = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
    columns = zip(names, types, zip(*rows, strict=True) if rows else [()] * 5, strict=True)
    batch = pa.record_batch({name: pa.array(list(column), kind) for name, kind, column in columns})
    table, found = ss.SketchTable(agreement), BoundingSummary()
    with GroupedEvents() as events:
        for part in bounds.read([Intake(agreement, bounded=True).read(batch)], SECRET, found):
            events.add(part)
        for group in events.groups():
            bounds.add_to(table, group, SECRET, found)
    none = np.zeros(FEATURES.dim, dtype=np.int64)
    return {site: table[site].state() if site in table else none for site in SITES}


@pytest.mark.parametrize(("rows", "neighbours", "clip"), PROTECTED)
@given(few_rows)
def test_all_rows_of_a_person_change_sums_by_the_bound_at_most(
    rows: str, neighbours: Any, clip: Any, data: Any
) -> None:
    """Whatever the rows hold: exactly, in grid steps, by the norm of the relation, in as many keys as it says."""
    agreement = agreed(rows, neighbours, clip)
    whole, without = (cells_of(some, agreement) for some in (data, [row for row in data if row[0] != "Ann"]))
    moved = {site: [int(step) for step in whole[site] - without[site]] for site in SITES}
    assert sum(any(steps) for steps in moved.values()) <= neighbours.max_keys
    if neighbours.of_sketches:
        assert (
            sum(step**2 for steps in moved.values() for step in steps)
            <= neighbours.cell_steps(agreement.projection) ** 2
        )
        return
    bound = Fraction(neighbours.bound) / agreement.projection.grid
    for steps in moved.values():
        size = sum(map(abs, steps)) if neighbours.norm == "l1" else sum(step**2 for step in steps)
        assert size <= (bound if neighbours.norm == "l1" else bound**2)
