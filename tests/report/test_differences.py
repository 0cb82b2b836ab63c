"""The report's section on what differs, and intervals of all its pairs at once."""

import base64
import dataclasses
import json
import math
import re
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.estimation.differences import differences_from_others
from streamsketch.estimation.estimate import format_value, interval_text
from streamsketch.report import Dictionary, page_of, picture_of_differences
from streamsketch.report.differences import bars_of
from tests.cli.running import Forks
from tests.counted import AGREEMENT, shops
from tests.report.test_page import HOSTILE, Page

HASHED = ss.SJLT(sketch_dim=320, sparsity=5, seed=3)
NAMES = ["tea", "jam", "salt"]


def release(tea: int, jam: int) -> ss.PrivateSketch:
    sketch = HASHED.sketch()
    sketch.update(["tea", "jam"], [tea, jam])
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))


def text_of(page: str) -> str:
    return " ".join("".join(Page(page).text).split())


def section_of(page: str) -> str:
    start = page.index("<h2>What differs</h2>")
    return page[start : page.index("<h2", start + 1)]


def test_a_pair_is_compared_once_and_several_each_with_the_others() -> None:
    found = {"north": release(900, 300), "south": release(850, 300), "east": release(100, 4000)}
    assert "<h2>What differs" not in page_of(found, title="t")
    page = page_of(found, title="t", why=Dictionary(NAMES))
    section = section_of(page)
    assert section.count("<svg") == 3
    assert "more in the others" in section
    assert "all 9 differences hold at once" in text_of(page)
    for one in differences_from_others(list(found.values()), NAMES, 5):
        for row in one.table.to_pylist():
            assert f"<td>{format_value(row['estimate'], row['error'])}</td>" in section
    pair = {name: found[name] for name in ("north", "east")}
    section = section_of(page_of(pair, title="t", why=Dictionary(NAMES, pa.array(["drink", "food", "food"]))))
    assert section.count("<svg") == 1
    assert "Categories of a public dictionary that separate the two streams" in section
    assert ">drink<" in section


def test_averages_are_compared_where_all_units_were_counted() -> None:
    found = shops()
    why = Dictionary([1, 2, 3, 4], agreement=AGREEMENT)
    page = page_of(found, title="t", by="mean", why=why)
    assert "by how much what one unit adds on average differ" in text_of(page)
    assert "all 12 differences" in text_of(page), "of the three streams that have an average"
    assert "by how much the sums differ" in text_of(page_of(found, title="t", by="distance", why=why))
    facts = json.loads(Page(page).scripts[0])["differing"]
    pair = ss.top_differences(found["north"], found["east"], [1, 2, 3, 4], by="mean", agreement=AGREEMENT)
    assert (facts["of"], facts["separated"][1], facts["rows"]) == ("averages", pair.n_separated, 4)
    rows = np.frombuffer(zlib.decompress(base64.b64decode(facts["base64"])), np.uint8).reshape(5, 4, -1)
    items, estimates = (rows[place].T.copy().view("<u4" if place == 0 else "<f4")[4:8, 0] for place in (0, 1))
    assert [facts["items"][item] for item in items] == [str(row["item"]) for row in pair.table.to_pylist()]
    assert estimates == pytest.approx(pair.table["estimate"].to_numpy(), rel=1e-6)


def test_a_report_draws_no_more_than_forty_streams_and_no_pairs_of_more() -> None:
    found = {str(place): release(1000 * place, 700) for place in range(1, 43)}
    page = page_of(found, title="t", why=Dictionary(NAMES))
    assert section_of(page).count("<svg") == 40
    assert "Shown are the 40 streams with the most that are separated; 2 others are left out." in text_of(page)
    assert json.loads(Page(page).scripts[0])["differing"] is None


def test_names_of_items_and_streams_are_text() -> None:
    found = dict(zip(HOSTILE, (release(100 * place, 7) for place in range(1, 9)), strict=False))
    page = page_of(found, title="t", why=Dictionary(HOSTILE, pa.array(HOSTILE)))
    section = section_of(page)
    assert "<script" not in section
    assert "\u202e" not in section
    assert "&lt;script&gt;" in section


def test_bars_begin_at_zero_and_stay_in_the_picture() -> None:
    x, y = release(900, 300), release(100, 4000)
    found = ss.top_differences(x, y, NAMES)
    bars = bars_of(found, "x", "y")
    kinds = {row["name"]: row["more"] for row in bars["rows"]}
    assert (kinds["tea"], kinds["jam"]) == ("first", "second")
    for row in bars["rows"]:
        assert bars["zero"] in (pytest.approx(row["x"], abs=0.11), pytest.approx(row["x"] + row["long"], abs=0.11))
        assert bars["left"] <= row["low"] <= row["high"] <= bars["right"]
    assert ("0", bars["zero"]) in bars["ticks"]
    endless = found.table.set_column(4, "high", pa.array([math.inf] * 3))
    assert bars_of(dataclasses.replace(found, table=endless), "x", "y")["rows"][0]["high"] == bars["right"]
    same = found.table.slice(0, 1)
    for name in ("estimate", "low", "high"):
        same = same.set_column(same.column_names.index(name), name, pa.array([0.0]))
    assert bars_of(dataclasses.replace(found, table=same), "x", "y")["rows"][0]["long"] == 0.0


def test_a_picture_of_one_s_own_sketch_says_that_it_is_secret() -> None:
    own = HASHED.sketch()
    own.update(["tea"], [5])
    assert "Secret." in picture_of_differences(ss.top_differences(own, release(9, 9), NAMES), "mine", "theirs")
    assert "Secret." not in picture_of_differences(ss.top_differences(release(1, 2), release(9, 9), NAMES), "a", "b")


def test_a_pair_has_one_interval_on_a_page_and_those_of_all_pairs_hold_at_once() -> None:
    found = {"north": release(900, 300), "south": release(850, 300), "east": release(100, 4000)}
    estimates = ss.pairwise(found.values())
    page = page_of(found, title="t", by="distance")
    text = text_of(page)
    assert "A pair has one interval on this page. The intervals of all pairs hold at once" in text
    assert "All pairs, nearest first; all intervals hold at once" in text
    for level, shown in (("all", True), ("each", False)):
        low, high = estimates.interval(0.95, level=level)  # type: ignore[arg-type]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            ends = interval_text(estimates[i, j], ss.estimation.Interval(low[i, j], high[i, j]))
            times = page.count(f"95\xa0% interval {ends}")
            assert (times == 2) is shown, "in the heat map, on both sides"
            pairs = page[page.index("<h2>All pairs") :]
            assert (f"<td>{ends}</td>" in pairs) is shown
            nearest = page[page.index("<h2>Nearest neighbours") : page.index("<h2>All pairs")]
            assert shown or f"<td>{ends}</td>" not in nearest


def test_the_command_takes_a_dictionary(tmp_path: Path, forks: Forks) -> None:
    found = {"north": release(900, 300), "east": release(100, 4000)}
    ss.PrivateTable(found).save(tmp_path / "all.parquet")
    (tmp_path / "words.csv").write_text("word,kind\ntea,drink\njam,food\nsalt,food\n")
    options = ["--why", "words.csv", "--set", "index=word", "--set", "category=kind"]
    forks.run("report", "all.parquet", "-o", "a.html", *options, cwd=tmp_path)
    page = (tmp_path / "a.html").read_text()
    assert re.search(r"drink: -?[\d,.]+ ± ", section_of(page))
    assert "hold at once" in page
    refused = forks.refused("report", "all.parquet", "-o", "b.html", "--set", "category=kind", cwd=tmp_path)
    assert "give --why DICTIONARY" in refused
    refused = forks.refused("report", "all.parquet", "-o", "b.html", "--why", "words.csv", cwd=tmp_path)
    assert "--set index=COLUMN" in refused
