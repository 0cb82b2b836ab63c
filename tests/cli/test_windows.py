"""Windows of rows under an agreement: each is a key, and what bounds a unit holds for all windows together."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.features import Embedding, Features, Number
from streamsketch.storage import load_raw
from tests.cli.running import Forks

TIMES = ["2026-03-01T00:30Z", "2026-03-31T22:30Z", "2026-04-02T12:00Z", "2026-04-02T23:59Z", "2026-05-01T00:00Z"]
ROWS = pa.table(
    {
        "at": [*TIMES, TIMES[0], TIMES[0]],
        "shop": ["N", "N", "N", "S", "N", "N", None],
        "item": ["tea", "jam", "tea", "tea", "egg", "tea", "jam"],
        "sold": [2, 3, -9, 1, 4, 1, 7],
        "age": ["50", "x", "30", "", "110", "7", "9"],
        "taste": ["[1, 0]", "[1, 2]", "", "[0, 1]", "[3, 3]", "[1]", "[1, 1]"],
        "buyer": ["Ann", "Bob", "Cid", "Dee", "Eve", "Ann", "Fay"],
    }
)
MONTHS: dict[str | None, list[str]] = {
    None: ["2026-03", "2026-03", "2026-04", "2026-04", "2026-05", "2026-03", "2026-03"]
}
MONTHS["Europe/Berlin"] = ["2026-03", "2026-04", "2026-04", "2026-04", "2026-05", "2026-03", "2026-03"]
DAYS = [at[:10] for at in ROWS["at"].to_pylist()]
COUNTS = ss.Agreement(
    ss.SJLT(sketch_dim=64, sparsity=4, seed=7),
    key="shop",
    index="item",
    value="sold",
    unit="buyer",
    neighbours=ss.L1(5, unit="buyer", max_keys=2),
    missing="drop",
)
PEOPLE = ss.Agreement(
    features=Features({"age": Number(0, 110), "taste": Embedding(2, waves=2)}, seed=3),
    unit="buyer",
    neighbours=ss.SketchL2(1, unit="buyer", max_keys=1),
    clip="equal",
    missing="drop",
)
CASES: list[tuple[list[str], list[str]]] = [
    (["--window", "month"], MONTHS[None]),
    (["--window", "month", "--zone", "Europe/Berlin"], MONTHS["Europe/Berlin"]),
    (["--window", "1 day"], DAYS),
]


def by_window(agreement: ss.Agreement, names: list[str]) -> tuple[pa.Table, ss.Agreement]:
    """Return rows with a column of keys and windows, and the agreement that has it as its key."""
    keys = pa.array(names) if agreement.key is None else pc.binary_join_element_wise(ROWS["shop"], pa.array(names), " ")
    return ROWS.append_column("slot", keys), agreement.replace(key="slot")


@pytest.mark.parametrize(("options", "names"), CASES, ids=["months", "of Berlin", "days"])
@pytest.mark.parametrize("agreement", [COUNTS, PEOPLE], ids=["counts", "features"])
@pytest.mark.parametrize("clip", [[], ["--assert-bounds"]], ids=["bounded", "asserted"])
def test_each_window_of_a_key_is_a_key(
    agreement: ss.Agreement, options: list[str], names: list[str], clip: list[str], tmp_path: Path, forks: Forks
) -> None:
    agreement.save(tmp_path / "agreed.json")
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    command = ["sketch", "rows.parquet", "--agreement", "agreed.json", "--time", "at", *options, *clip]
    forks.succeeded(*command, "-o", "out.raw-sketch", cwd=tmp_path)
    found: Any = load_raw(tmp_path / "out.raw-sketch").state
    rows, keyed = by_window(agreement, names)
    expected: Any = ss.sketch(rows, keyed) if clip else ss.bound(rows, keyed)
    assert {key: found[key].state().tolist() for key in found} == {
        key: expected[key].state().tolist() for key in expected
    }
    assert found.bounds == expected.bounds
    assert found.agreement.replace(windows=None) == agreement
    assert clip or (found.counts == expected.counts).all()


@pytest.mark.parametrize("most", [1, 2])
def test_a_person_of_many_windows_is_in_as_many_as_the_bound_says(most: int, tmp_path: Path, forks: Forks) -> None:
    agreement = COUNTS.replace(neighbours=ss.L1(5, unit="buyer", max_keys=most))
    agreement.save(tmp_path / "agreed.json")
    days = [f"2026-03-{day:02}" for day in range(1, 21)]
    given = [(day, shop, "egg", 1000, "Ann") for day, shop in itertools.product(days, "NS")]
    given += [(days[0], "N", "tea", 1, f"b{number}") for number in range(3)]
    columns = zip(*given, strict=True)
    rows = pa.table(dict(zip(["at", "shop", "item", "sold", "buyer"], map(list, columns), strict=True)))
    pq.write_table(rows, tmp_path / "rows.parquet")
    pq.write_table(rows.filter(pc.not_equal(rows["buyer"], "Ann")), tmp_path / "others.parquet")
    for name in ("rows", "others"):
        command = ["sketch", f"{name}.parquet", "--agreement", "agreed.json", "--window", "1 day", "--time", "at"]
        forks.succeeded(*command, "-o", f"{name}.raw-sketch", cwd=tmp_path)
    states: list[Any] = [load_raw(tmp_path / f"{name}.raw-sketch").state for name in ("rows", "others")]
    whole, others = states
    bound = agreement.projection.sketch()
    bound.update(["egg"], [5])
    added = [whole[key].state() - others.sketch_of(key).state() for key in whole]
    assert [cells.tolist() for cells in added if cells.any()] == [bound.state().tolist()] * most
    assert int(np.sum(whole.counts[:, 0])) == 3 + most


def test_the_guarantee_is_that_of_all_windows_together(tmp_path: Path, forks: Forks) -> None:
    PEOPLE.save(tmp_path / "agreed.json")
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    made = ["rows.parquet", "--agreement", "agreed.json", "--window", "month", "--time", "at", "-o", "out.raw-sketch"]
    forks.succeeded("sketch", *made, cwd=tmp_path)
    ends = ["--window", "month", "--time", "at", "--first", "2026-03", "--set", "last=2026-06", "--set", "windows=keys"]
    spend = ["--epsilon", 1, "--delta", 1e-6, "-o", "terms.json"]
    forks.succeeded("agree", "out.raw-sketch", *ends, *spend, cwd=tmp_path)
    release = ["release", "out.raw-sketch", "--agreement", "terms.json", "-o"]
    forks.succeeded(*release, "out.parquet", cwd=tmp_path)
    table = ss.load(tmp_path / "out.parquet")
    assert list(table) == ["2026-03", "2026-04", "2026-05", "2026-06"], "a month without rows, too"
    one: Any = PEOPLE.neighbours
    alone = ss.bound(ROWS, PEOPLE).release(epsilon=1, delta=1e-6, neighbours=one)
    assert {str(table[key].guarantee) for key in table} == {str(alone.guarantee)}
    assert "one buyer of at most 1 in one key" in str(table["2026-03"].guarantee)
    agreement = ss.Agreement.load(tmp_path / "terms.json")
    assert table["2026-03"].agreement == agreement.fingerprint
    assert agreement.release(ROWS).guarantee == table.guarantee, "of the same rows at once"
    assert "released once before" in forks.refused(*release, "b.parquet", cwd=tmp_path)


def test_rows_without_a_time_are_refused_by_their_number(tmp_path: Path, forks: Forks) -> None:
    PEOPLE.save(tmp_path / "agreed.json")
    (tmp_path / "rows.csv").write_text("at,age,taste,buyer\n2026-03-01,5,,Ann\nsoon,7,,Bob\n")
    made = ["rows.csv", "--agreement", "agreed.json", "--window", "month", "--time", "at", "-o", "out.raw-sketch"]
    refused = forks.refused("sketch", *made, cwd=tmp_path)
    assert "the column at holds text, and in row 3 a text that is not a time" in refused
    assert "soon" not in refused
    assert not (tmp_path / "out.raw-sketch").exists()
