"""People of several rows: each counts as one row, the average of its own, on every path and in every answer."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import BoundContributions, SketchPerKey, TumblingWindows
from streamsketch.estimation import column_differences, describe, mmd
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.streams.open_windows import Windows
from tests.features.several_rows import TABLES, average
from tests.oracles import naive_cells
from tests.streams.agreed import followed

FEATURES = Features(
    {"age": Number(0, 110), "ward": Category(["A", "B"]), "code": Category(hashed=4), "scan": Embedding(2, waves=2)},
    seed=7,
    joint=2,
)
START = "2026-11-22T13:00:00Z"


def rows_of_people(size: int = 240, people: int = 60, seed: int = 1) -> pa.Table:
    """Return rows of an hour: of most people several, at two sites, and some are the same."""
    rng = np.random.default_rng(seed)
    who = rng.zipf(1.5, size) % people
    return pa.table(
        {
            "at": [f"2026-11-22T13:{minute:02}:00Z" for minute in np.sort(rng.integers(0, 60, size))],
            "site": [("N", "S")[place] for place in rng.integers(0, 2, size)],
            "patient": [f"patient {one}" for one in who],
            "age": np.where(rng.random(size) < 0.1, None, rng.integers(0, 120, size)).tolist(),
            "ward": rng.choice(["A", "B", "C", ""], size).tolist(),
            "code": [f"code {one}" for one in rng.integers(0, 7, size)],
            "scan": [json.dumps(one) for one in rng.integers(-3, 4, (size, 2)).tolist()],
        }
    )


ROWS = rows_of_people()
AGREEMENT = ss.agree(ROWS, features=FEATURES, key="site", unit="patient", max_keys=2)
LIMIT = AGREEMENT.neighbours.cell_steps(AGREEMENT.projection)  # type: ignore[union-attr]


def expected(rows: pa.Table) -> dict[str, tuple[list[int], int]]:
    """Return the sums of people's averages by site, clipped to the bound, and the numbers of people."""
    cells = (FEATURES.transform(rows) * (1 << 15)).astype(int)
    found: dict[str, dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for site, patient, row in zip(rows["site"].to_pylist(), rows["patient"].to_pylist(), cells, strict=True):
        found[patient][site].append(row)
    sums = {site: np.zeros(FEATURES.dim, dtype=int) for site in ("N", "S")}
    people = dict.fromkeys(sums, 0)
    for by_site in found.values():
        own = {site: average(np.sum(of_site, axis=0), len(of_site)) for site, of_site in by_site.items()}
        whole = {(site, cell): step for site, of_site in own.items() for cell, step in enumerate(of_site)}
        for (site, cell), step in naive_cells.clipped(whole, LIMIT).items():
            sums[site][cell] += step
        for site in own:
            people[site] += 1
    return {site: (sums[site].tolist(), people[site]) for site in sums}


def content(table: Any) -> dict[str, tuple[list[int], int]]:
    return {key: (one.state().tolist(), int(one.counts[0])) for key, one in table.items()}


# --- every path ---------------------------------------------------------------------------------------------------


def by_stream(rows: pa.Table) -> Any:
    """Write and read the state between batches, so that parts of people are sums of rows when others come."""
    public: dict[str, Any] = {"public_keys": ["N", "S"], "folder": "out"}
    times: dict[str, Any] = {"time": "at", "window": "1 hour", "start": START, "delay": "10 s"}
    windows = Windows(followed(AGREEMENT, **times, epsilon=1.0, delta=1e-6, **public), bytes(32))
    last = pa.table({name: ["2026-11-22T14:00:20Z" if name == "at" else "x"] for name in rows.column_names})
    for at, batch in enumerate([*rows.to_batches(max_chunksize=50), last.to_batches()[0]]):
        windows.add(batch, 1 + at)
        windows.open = {number: windows.restored(window.content) for number, window in windows.open.items()}
    return windows.closing()[0]


@pytest.mark.parametrize("path", [*TABLES, "stream"])
def test_every_path_averages_the_rows_of_a_person(path: str, tmp_path: Path) -> None:
    as_text = [str(one) if one is not None else "" for one in ROWS["age"].to_pylist()]
    rows = ROWS.set_column(ROWS.column_names.index("age"), "age", pa.array(as_text))
    table = by_stream(rows) if path == "stream" else TABLES[path](rows, AGREEMENT, tmp_path)
    assert content(table) == expected(ROWS)


@pytest.mark.parametrize("windows", [False, True], ids=["batch", "windows"])
def test_beam_averages_the_rows_of_a_person(windows: bool) -> None:  # noqa: FBT001
    times = ROWS["at"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_pylist()
    batches: Any = ROWS.to_batches(max_chunksize=1 if windows else 50)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        if windows:
            given = [TimestampedValue(batch, time) for batch, time in zip(batches, times, strict=True)]
            read = pipeline | beam.Create(given) | TumblingWindows(3600)
        else:
            read = pipeline | beam.Create(batches)
        found = read | BoundContributions(AGREEMENT) | SketchPerKey(AGREEMENT)
        shown = found | beam.MapTuple(lambda key, sketch: (key, sketch.state().tolist()))
        assert_that(shown, equal_to([(site, sums) for site, (sums, _) in expected(ROWS).items()]))


def test_a_person_of_equal_rows_counts_as_one_of_them() -> None:
    once = ROWS.slice(0, 1)
    assert content(ss.bound(pa.concat_tables([once] * 7), AGREEMENT)) == content(ss.bound(once, AGREEMENT))


def test_parts_are_averages_only_if_no_person_is_in_two() -> None:
    """Of a person in two parts there are two averages, so people are not counted, and no averages stated."""
    apart = [
        ROWS.filter(pa.array([(hash_of(one) % 2) == place for one in ROWS["patient"].to_pylist()])) for place in (0, 1)
    ]
    first, second = (ss.bound(rows, AGREEMENT) for rows in apart)
    first.merge(second, disjoint_units=True)
    assert content(first) == expected(ROWS)
    assert first.bounds.clip == "average"
    first, second = (ss.bound(rows, AGREEMENT) for rows in (ROWS.slice(0, 120), ROWS.slice(120)))
    first.merge(second)
    assert first["N"].counts is None
    with pytest.raises(ss.InvalidInputError, match="needs the number of units"):
        describe(first["N"], AGREEMENT)


def hash_of(text: str) -> int:
    return sum(text.encode())


# --- the agreement ------------------------------------------------------------------------------------------------


def test_agreements_of_features_average_and_say_so() -> None:
    assert (AGREEMENT.clip, AGREEMENT.neighbours) == ("average", ss.SketchL2.of_averages("patient", 2))
    assert ss.Agreement.from_json(AGREEMENT.to_json()) == AGREEMENT
    older = ss.agree(ROWS, features=FEATURES, key="site", unit="patient", max_keys=2, clip="equal")
    assert (older.clip, older.neighbours) == ("equal", ss.SketchL2(1, "patient", 2))
    assert older.fingerprint != AGREEMENT.fingerprint
    # what is stated is kept, unless it fits
    known: dict[str, Any] = {"features": FEATURES, "key": "site", "unit": "patient"}
    for neighbours, clip in (
        (ss.SketchL2(2, max_keys=4), "average"),
        (ss.SketchL2(1, max_keys=4), None),
        (ss.L1(9), None),
    ):
        assert ss.agree(ROWS, **known, neighbours=neighbours).clip == clip
    assert ss.agree(ROWS, **known).clip == "equal"  # of people at any number of sites, who are not counted
    with pytest.raises(ss.InvalidInputError, match="has no features"):
        ss.Agreement(
            ss.CountSketch(sketch_dim=16, seed=1),
            index="code",
            unit="patient",
            neighbours=ss.SketchL2(1, max_keys=1),
            clip="average",
        )
    with pytest.raises(ss.InvalidInputError, match="rows of an index"):
        ss.bounding.bound_units(
            [], ss.CountSketch(sketch_dim=16, seed=1), neighbours=ss.SketchL2(1, max_keys=1), clip="average"
        )


def test_a_release_states_that_rows_were_averaged() -> None:
    table = ss.bound(ROWS, AGREEMENT)
    release = table.release(epsilon=1.0, delta=1e-6, neighbours=AGREEMENT.neighbours, public_keys=["N", "S"])["N"]
    again = ss.PrivateSketch.from_bytes(release.to_bytes())
    assert (release.clip, again.clip) == ("average", "average")
    said = " ".join(str(ss.explain(again)).split())
    assert "The rows of each patient, or those that the agreement keeps, were averaged first" in said


# --- answers ------------------------------------------------------------------------------------------------------


def visits(people: int, seed: int) -> pa.Table:
    """Return one to four rows of each person, whose ages and wards differ; those with more are older."""
    rng = np.random.default_rng(seed)
    many = rng.integers(1, 5, people)
    who = np.repeat(np.arange(people), many)
    return pa.table(
        {
            "patient": [f"{seed}-{one}" for one in who],
            "age": np.clip(rng.normal(30 + 10 * many[who], 15), 0, 110),
            "ward": rng.choice(["A", "B", "C"], who.size, p=[0.6, 0.3, 0.1]),
            "code": rng.choice(["E11", "I10", "J45"], who.size, p=[0.5, 0.3, 0.2]),
        }
    )


PLAIN = Features({"age": Number(0, 110), "ward": Category(["A", "B"]), "code": Category(hashed=64)}, seed=7)


def truth(rows: pa.Table) -> dict[tuple[str, str], float]:
    """Return averages over people of the averages of their rows."""
    frame = rows.to_pandas()

    def of_people(values: Any) -> float:
        return float(values.groupby(frame["patient"]).mean().mean())

    mean = of_people(frame["age"])
    found = {("age", "mean"): mean, ("age", "standard deviation"): np.sqrt(of_people(frame["age"] ** 2) - mean**2)}
    found |= {("ward", f"share of {ward}"): of_people(frame["ward"] == ward) for ward in "AB"}
    found |= {("code", f"share of {code}"): of_people(frame["code"] == code) for code in ("E11", "I10")}
    return found | {("ward", "others"): of_people(frame["ward"] == "C")}


@pytest.mark.parametrize("epsilon", [None, 1.0, 20.0], ids=["exact", "1", "20"])
def test_answers_are_about_people(epsilon: float | None) -> None:
    """Each of 7 intervals at confidence 1 - 1e-6 leaves out the truth with at most that probability."""
    rows = visits(3000, 1)
    agreement = ss.agree(rows, features=PLAIN, unit="patient")
    sketch: Any = ss.bound(rows, agreement)
    if epsilon is not None:
        sketch = sketch.release(epsilon=epsilon, delta=1e-6, neighbours=agreement.neighbours)
    found = describe(sketch, agreement, shares={"code": ["E11", "I10"]}, confidence=1 - 1e-6).to_pylist()
    rows_found = {(row["column"], row["measure"]): row for row in found}
    for name, value in truth(rows).items():
        row = rows_found[name]
        assert row["low"] <= value <= row["high"], (name, value, row)
        if epsilon is None and name[0] != "code":
            assert abs(row["estimate"] - value) < 3e-4 * (110 if name[0] == "age" else 1), (name, value, row)
    shares = [row["estimate"] for row in found if row["column"] == "ward"]
    assert abs(sum(shares) - 1) < (1e-3 if epsilon is None else 0.2)


def test_discrepancies_are_about_people() -> None:
    """Two samples in which people differ by their numbers of rows alone are alike, as people are."""
    first = visits(800, 2)
    agreement = ss.agree(first, features=PLAIN, unit="patient")
    frame = first.to_pandas()
    means = PLAIN.transform(first)
    people = np.stack([means[frame["patient"] == one].mean(axis=0) for one in dict.fromkeys(frame["patient"])])
    second = visits(700, 3)
    cells = PLAIN.transform(second)
    names = second["patient"].to_pylist()
    others = np.stack([cells[[one == name for one in names]].mean(axis=0) for name in dict.fromkeys(names)])
    x, y = ss.bound(first, agreement), ss.bound(second, agreement)
    apart = float(((people.mean(axis=0) - others.mean(axis=0)) ** 2).sum())
    assert abs(mmd(x, y, agreement).value - apart) < 1e-6
    twice = pa.concat_tables([second, second, second])
    assert abs(mmd(x, ss.bound(twice, agreement), agreement).value - apart) < 1e-6
    assert column_differences(x, y, agreement).num_rows == 3


@pytest.mark.parametrize("clip", ["equal", "scale", None])
def test_older_rules_withhold_what_would_not_be_about_people(clip: Any) -> None:
    """As files that were written before have them: their agreements and releases say how units were clipped."""
    rows = visits(2000, 4)
    one = rows.to_pandas().drop_duplicates("patient")
    known: dict[str, Any] = {"features": PLAIN, "unit": "patient", "counting": ss.privacy.Counting(4096)}
    agreement = ss.Agreement(**known, neighbours=ss.SketchL2(1, "patient", 1), clip=clip)
    single, several = (ss.bound(given, agreement) for given in (one, rows))
    for x, y in ((single, several), tuple(released(one, agreement) for one in (single, several))):
        assert not np.isnan(describe(x, agreement)["estimate"].to_numpy()).any()
        assert np.isnan(describe(y, agreement)["estimate"].to_numpy()).all()
        mmd(x, x, agreement) if x is single else None
        for ask in (mmd, column_differences):
            with pytest.raises(ss.InvalidInputError, match="some units have several rows"):
                ask(x, y, agreement)
        ss.estimation.mean_distance(x, y)  # of what units contribute


def released(sketch: Any, agreement: ss.Agreement) -> ss.PrivateSketch:
    found: ss.PrivateSketch = sketch.release(epsilon=20.0, delta=1e-6, neighbours=agreement.neighbours)
    return found
