"""The report: what it says, that it is safe and readable, and how a browser shows it."""

import base64
import hashlib
import html
import json
import re
import shutil
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.estimation.estimate import format_value
from streamsketch.planning import Plan, TypicalUnit, plan_units
from streamsketch.report.page import page_of
from streamsketch.report.pictures import colour, luminance, readable_on
from streamsketch.report.script import script
from tests.cli.running import Forks
from tests.tampering import tampered

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
HOSTILE = ['<script>alert("x")</script>', "a'\"&b", "turn\u202eback", "nul\0", "x" * 500, "üñ–日本", "</table>"]


def release(count: int, epsilon: float = 1.0) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update([count % 7, 2], [count, 700])
    return sketch.release(epsilon=epsilon, neighbours=ss.L1(1, unit="sale"))


def releases(names: list[str]) -> dict[str, ss.PrivateSketch]:
    return {name: release(300 * place) for place, name in enumerate(names, 1)}


def static(text: str) -> str:
    """Return a page without its script and facts."""
    return re.sub("<script.*?</script>", "", text, flags=re.DOTALL)


class Page(HTMLParser):
    """Collects what a browser would find, and fails on tags that do not match."""

    VOID = frozenset({"meta", "input", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self._open[-1:] == ["script"] else self.text).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


# --- what it says -----------------------------------------------------------------------------------------------------


def test_every_pair_is_there_with_its_error() -> None:
    found = releases(["north", "south", "east"])
    text = " ".join(Page(page_of(found, title="Shops")).text)
    for first, second in combinations(found, 2):
        estimate = ss.squared_distance(found[first], found[second])
        assert f"{estimate}, 95\xa0% interval" in text
    assert "Shops" in text
    assert PROJECTION.fingerprint in text


def test_windows_are_in_time_order() -> None:
    names = ["north 2024-10", "south 2024-09", "north 2024-09", "south 2025-01"]
    shown = page_of(releases(names), title="Shops")
    headings = re.findall(r'<th scope="col"><span>(.*?)</span>', shown)
    assert headings == ["north 2024-09", "north 2024-10", "south 2024-09", "south 2025-01"]
    assert "Windows are in time order" in shown
    assert "Windows are in time order" not in page_of(releases([*names, "east"]), title="Shops")


def test_the_guarantee_is_said_for_each_and_for_all_together() -> None:
    found = {"a": release(1), "b": release(2, 0.5), "c": release(3)}
    text = " ".join("".join(Page(page_of(found, title="t")).text).split())
    assert "a, c: ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 4." in text
    assert "b: ε = 0.5, δ = 0 for one sale of at most 1 (L1), asserted, by discrete Laplace, scale 8." in text
    assert "ε = 1, δ = 0 if no sale is in two of the streams, and ε = 2.5" in text
    for told in (found["a"].explain(), found["b"].explain()):
        for said in (told.who, told.meaning, told.check.reason, *told.mechanism, *told.theorems, *told.not_protected):
            assert said in text


def test_what_epsilon_means_and_what_is_only_asserted_is_said_above_the_guarantee() -> None:
    text = page_of({"a": release(1), "b": release(2, 0.5), "c": release(3)}, title="t")
    first, top = (
        " ".join("".join(Page(f"<main>{static(text[text.index('<h1>') : text.index(end)])}</main>").text).split())
        for end in ("<h2>", '<p class="rule">')
    )
    assert "the data of one sale are in a release or not changes the probability of anything on this page" in top
    assert "by a factor of at most 2.8 (ε = 1). For one sale in several releases the factors multiply." in top
    assert "Asserted, not checked: one sale adds at most 1. The guarantee depends on it." in first
    large = page_of({"a": release(1, 12.0), "b": release(2, 12.0)}, title="t")
    assert "by a factor of at most e^ε, which hides next to nothing (ε" in large


def test_a_map_of_part_of_the_differences_says_what_that_means() -> None:
    corners = {}
    for place in range(6):
        sketch = PROJECTION.sketch()
        sketch.update([place], [1e6])
        corners[f"corner {place}"] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    text = page_of(corners, title="t")
    said = r"[34]\d\xa0% of the differences between the streams, so near points may be far apart\."
    assert re.search(said, html.unescape(text))
    assert "so near points" not in page_of(releases(["a", "b", "c"]), title="t")  # a plane has three points


def test_no_guarantee_together_looks_better_than_it_is() -> None:
    """A finer ε is rounded up, and what the guarantees rest on is said where they are added up."""
    for count in range(2, 9):
        found = {
            str(i): PROJECTION.sketch().release(epsilon=1, delta=1e-6, neighbours=ss.L1(1), mechanism="gaussian")
            for i in range(count)
        }
        finer = ss.explain(*found.values(), populations="overlapping").finer
        assert finer is not None
        shown = re.search(r"with tighter accounting ε\u00a0=\u00a0([0-9.]+)", page_of(found, title="t"))
        assert shown is not None
        assert finer.epsilon <= float(shown[1]) <= finer.epsilon + 1e-3
    found = {"a": release(1, 0.7000001), "b": release(1, 0.3)}
    shown = page_of(found, title="t").replace("\u00a0", " ")
    assert "ε = 0.700001, δ = 0 if no sale is in two of the streams, and ε = 1.00001, δ = 0 if one may be" in shown
    found = {name: tampered(release(1), conditions=[f"{name} holds"]) for name in ("a", "b")}
    assert "if one may be in all. Only if: a holds; b holds." in page_of(found, title="t")
    assert "Only if:" not in page_of(releases(["a", "b"]), title="t")


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")
def test_a_release_with_too_little_noise_is_marked() -> None:
    page = Page(page_of({"a": tampered(release(1), epsilon=0.25), "b": release(2)}, title="t"))
    marked = [attributes for name, attributes in page.tags if attributes.get("class") == "warning"]
    assert len(marked) == 2, "above the result, and with the guarantee"
    text = " ".join("".join(page.text).split())
    assert "WARNING" in text
    assert "Warning: 1 of the releases state too little noise for their guarantee." in text
    assert "if one may be in all. Too little noise is stated, so this does not hold." in text
    assert "The noise that the others state is enough for their guarantee." in text
    assert "this does not hold" not in page_of(releases(["a", "b"]), title="t")


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")
def test_what_was_not_checked_is_never_said_to_hold() -> None:
    sound, unread = release(1), tampered(release(2), mechanism="a mechanism that no check knows")
    short = tampered(release(3), epsilon=0.25)
    for found, opening, together in (
        ([sound, release(2)], "The noise that each release states is enough for its guarantee.", ""),
        ([sound, unread], "Whether 1 of the releases have enough noise for their guarantee was not", "it is enough"),
        (
            [unread, tampered(release(4), mechanism="?")],
            "Whether any of the releases have enough noise",
            "it is enough",
        ),
        ([short, unread], "Warning: 1 of the releases state too little noise", "this does not hold"),
    ):
        text = " ".join("".join(Page(page_of(dict(zip("ab", found, strict=True)), title="t")).text).split())
        beginning = text[text.index("What is guaranteed") :]
        assert beginning.removeprefix("What is guaranteed").lstrip().startswith(opening)
        assert ("does not depend on what a reader" in text) == (sound in found), "said of those that were checked alone"
        assert together in text
        assert ("this holds only if" in text) == (together == "it is enough")


def test_the_intervals_of_neighbours_are_those_of_all_pairs() -> None:
    found = releases([str(place) for place in range(12)])
    text = page_of(found, title="t", by="distance")
    nearest = text[text.index("<h2>Nearest neighbours") : text.index("<h2>All pairs and sizes")]
    distances = ss.pairwise(found.values())
    others = [(float(distances.value[0, j]), j) for j in range(1, 12)]
    first = distances[0, min(others)[1]]
    low, high = (format_value(end, first.standard_error) for end in first.selected_interval(66))
    assert f"<td>{low} … {high}</td>" in nearest


def test_releases_of_the_same_data_are_named() -> None:
    sketch = PROJECTION.sketch()
    sketch.update(3, 500)
    twice = {name: sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale")) for name in ("north", "south")}
    text = " ".join("".join(Page(page_of({"east": release(5)} | twice, title="t")).text).split())
    assert "Together: north and south share data, so populations are not disjoint: ε = 3" in text


def test_without_a_plan_the_page_says_what_the_sketches_can_tell_apart() -> None:
    found = releases(["a", "b"])
    text = "".join(Page(page_of(found, title="t")).text)
    assert "Errors to expect" in text
    for estimate in found["a"].explain().distances:
        assert format_value(estimate.standard_error, estimate.standard_error) in text


def test_with_its_plan_the_errors_planned_stand_beside_those_of_the_releases() -> None:
    plan = shop_plan()
    sketch = plan.projection(seed=3).sketch()
    sketch.update(5, 70)
    found = {name: sketch.release(**plan.release_arguments) for name in "ab"}
    text = "".join(Page(page_of(found, title="t", plan=plan.to_dict())).text)
    (predicted,) = plan.chosen.estimates
    error = format_value(predicted.standard_error, predicted.standard_error)
    assert f"4,000{error}{error}" in text, "as planned"
    assert "The goal was ± 30\xa0% at 95\xa0%, which it reaches." in text
    assert "chosen" in text
    looser = {name: sketch.release(**(plan.release_arguments | {"epsilon": 0.1})) for name in "ab"}
    text = "".join(Page(page_of(looser, title="t", plan=plan.to_dict())).text)
    now = looser["a"].explain().at_distance(4000.0).standard_error
    assert f"4,000{error}{format_value(now, now)}" in text


def test_a_plan_of_another_sketch_is_refused() -> None:
    plan = shop_plan().to_dict()
    with pytest.raises(ss.InvalidInputError, match="plan is for another sketch: its dim is 5000, the releases' is"):
        page_of(releases(["a", "b"]), title="t", plan=plan)
    del plan["chosen"]
    plan["projection"] = json.loads(PROJECTION.to_json())
    for broken in ({}, {"projection": 1}, plan):
        with pytest.raises(ss.InvalidInputError, match="not what `plan --json` prints"):
            page_of(releases(["a", "b"]), title="t", plan=broken)
    with pytest.raises(ss.InvalidInputError, match="the plan is for published signs"):
        page_of(releases(["a", "b"]), title="t", plan={"question": "neighbours"})
    with pytest.raises(ss.InvalidInputError, match="the plan is for features of people"):
        page_of(releases(["a", "b"]), title="t", plan={"question": "sites"})


@pytest.mark.parametrize("question", ["cosine", "mean"])
def test_a_plan_of_keys_stands_beside_what_became_of_them(question: Any) -> None:
    """A key of many customers stands out, and one of none does not."""
    customers = {"large": 4_000, "small": 1, "absent": 60}
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "customer", "max_cells": 64, "max_nonzeros": 1}
    plan = plan_units(TypicalUnit(items=5), units=customers, question=question, bounds=[1], **asked)
    agreement = ss.Agreement(plan.projection(3), index="item", key="town", unit="who", **plan.agreement_arguments)
    rows = pa.table({"town": ["large"] * 4_000, "who": range(4_000), "item": [7, 8] * 2_000})
    sketched = ss.bound(rows, agreement)
    assert isinstance(sketched, ss.SketchTable)
    table = sketched.release(**plan.release_arguments, public_keys=["large", "small"])
    text = "".join(Page(page_of(dict(table), title="t", plan=plan.to_dict(), by="distance")).text)
    for key, became in (("large", "stands out"), ("absent", "not released")):
        found = next(one for one in plan.keys if one.key == key)
        error = f"± {format_value(found.cosine_error, found.cosine_error)}"
        shown = f"{key}{found.units:,.6g}{found.length:,.3g}{100 * found.below:.0f}\u00a0%{error}{became}"
        assert shown in text
    assert plan.to_dict()["notes"][0] in text
    broken = plan.to_dict() | {"keys": [{}]}
    with pytest.raises(ss.InvalidInputError, match="not what `plan --json` prints"):
        page_of(dict(table), title="t", plan=broken)


def shop_plan() -> Plan:
    streams, goal = (
        ss.planning.StreamFacts(dim=5000, squared_distances=4000),
        ss.planning.Goal(relative_error=0.3, max_cells=512),
    )
    return ss.plan(streams, epsilon=1.0, neighbours=ss.L1(1, unit="sale"), goal=goal)


def test_relations_that_do_not_add_up_are_said_so() -> None:
    other = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="user"))
    assert "different neighbour relations, so their ε do not add up" in page_of(
        {"a": release(1), "b": other}, title="t"
    )


def test_guarantees_that_add_up_to_nothing_are_said_so() -> None:
    loose = {"epsilon": 1.0, "delta": 0.6, "mechanism": "gaussian", "neighbours": ss.L1(1, unit="sale")}
    found = {name: PROJECTION.sketch().release(**loose) for name in "ab"}  # type: ignore[arg-type]
    text = page_of(found, title="t")
    assert "No joint guarantee can be stated" in text
    assert "different neighbours" not in text


def test_two_releases_are_enough_and_one_is_not() -> None:
    Page(page_of(releases(["a", "b"]), title="t"))
    with pytest.raises(ss.InvalidInputError, match="at least two"):
        page_of(releases(["a"]), title="t")
    with pytest.raises(ss.InvalidInputError, match="at most 1,000 releases, got 1,001"):
        page_of(dict.fromkeys(map(str, range(1001)), release(1)), title="t")


# --- that it is safe and readable -------------------------------------------------------------------------------------


def test_hostile_names_are_text() -> None:
    page = Page(page_of(releases(HOSTILE), title=HOSTILE[0]))
    assert {"img", "iframe", "object", "link"}.isdisjoint(name for name, _ in page.tags)
    assert [attributes for name, attributes in page.tags if name == "script"] == [
        {"type": "application/json", "id": "page-data"},
        {},
    ]
    facts, program = page.scripts
    assert not set("<>&") & set(facts), "no text of a name reads as HTML"
    assert json.loads(facts)["names"][0] == HOSTILE[0]
    assert program == script()
    assert [attributes["href"] for name, attributes in page.tags if name == "a"] == ["#guarantee"]
    assert not any(attribute.startswith("on") for _, attributes in page.tags for attribute in attributes)
    text = "".join(page.text)
    assert HOSTILE[0] in text
    assert "\0" not in text
    assert "\u202e" not in text
    assert r"turn\u202eback" in text
    assert "x" * 100 not in text, "long names are cut"


def test_the_page_asks_nothing_of_the_network() -> None:
    text = page_of(releases(["a", "b"]), title="t")
    assert "default-src 'none'" in text
    digest = base64.b64encode(hashlib.sha256(Page(text).scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(text), "no other script runs"
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(", text)
    text = static(text)
    assert not re.search(r"https?://|url\(|@import|src=|href=\"[^#]", text)


def test_tables_have_captions_and_headers_and_regions_a_name_and_a_tab_stop() -> None:
    text = page_of(releases(["a", "b", "c"]), title="t")
    page = Page(text)
    assert page.count("table") == page.count("caption") == 6
    assert all("scope" in attributes for name, attributes in page.tags if name == "th")
    regions = [attributes for _, attributes in page.tags if attributes.get("role") == "region"]
    assert len(regions) == 7
    assert all(region["tabindex"] == "0" and region["aria-label"] for region in regions)
    assert ("html", {"lang": "en"}) in page.tags
    assert page.count("h1") == page.count("main") == 1


def test_the_map_is_sound_svg_with_a_title() -> None:
    (picture,) = re.findall(r"<svg.*</svg>", page_of(releases(HOSTILE), title="t"), re.DOTALL)
    tree = ET.fromstring(picture)  # noqa: S314 - our own page
    assert tree.find("title") is not None
    assert len(tree.findall("circle")) == len(tree.findall("ellipse")) == len(HOSTILE)
    assert all(np.isfinite(float(circle.get("cx", "nan"))) for circle in tree.findall("circle"))


def test_error_bars_are_reached_by_keyboard_and_the_key_has_the_unit_of_the_cells() -> None:
    text = page_of(releases(["a", "b", "c"]), title="t", by="distance")
    assert text.count('<td tabindex="0"') == 6
    assert "Squared distances, in thousands" in text or "Squared distances, in millions" in text
    keys = [float(one.replace(",", "")) for one in re.findall(r"</i>(?:≤ )?([\d.,]+(?:e[+-]\d+)?)</li>", text)]
    shown = [float(one.replace(",", "")) for one in re.findall(r'<span class="number">([-\d.,]+)<', text)]
    assert keys[-1] == pytest.approx(max(shown), rel=0.3), "the darkest colour is the farthest pair's"
    assert page_of(releases([str(i) for i in range(9)]), title="t").count('tabindex="-1"') == 9 * 8


def test_numbers_are_readable_on_every_colour() -> None:
    for place in np.linspace(0.0, 1.0, 500):
        filling = colour(float(place))
        ink = 1.0 if readable_on(filling) == "#fff" else 0.0
        bright, dark = sorted([luminance(filling), ink], reverse=True)
        assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_text_is_readable_in_light_and_dark() -> None:
    style = (Path(ss.__file__).parent / "report" / "templates" / "page.css").read_text()
    for scheme in re.findall(r":root \{(.*?)\}", style, re.DOTALL):
        colours = {
            name: luminance((int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)))
            for name, code in re.findall(r"--(\w+): #(\w{6})", scheme)
        }
        for ink in ("ink", "soft", "accent"):
            for paper in ("paper", "band"):
                bright, dark = sorted([colours[ink], colours[paper]], reverse=True)
                assert (bright + 0.05) / (dark + 0.05) >= 4.5, (ink, paper)


def test_the_facts_of_the_script_are_the_numbers_of_the_page() -> None:
    found = releases(["north", "south", "east"])
    facts = json.loads(Page(page_of(found, title="Shops", by="distance")).scripts[0])
    assert facts["title"] == "Shops"
    packed = zlib.decompress(base64.b64decode(facts["pairs"]["base64"]))
    planes = np.frombuffer(packed, np.uint8).reshape(4, 8, 3)
    value, error, low, high = np.ascontiguousarray(planes.transpose(0, 2, 1)).view("<f8")[..., 0]
    for place, (first, second) in enumerate(combinations(facts["names"], 2)):
        estimate = ss.squared_distance(found[first], found[second])
        assert (value[place], error[place]) == (pytest.approx(estimate.value), pytest.approx(estimate.standard_error))
        assert (low[place], high[place]) == pytest.approx(estimate.selected_interval(3))
    assert sorted(facts["similar"]) == [0, 1, 2]
    assert len(facts["tree"]) == 2
    assert facts["windows"] is None


def test_the_facts_of_windows_have_their_keys_in_time_order() -> None:
    names = ["north 2024-W10", "south 2024-W09", "north 2024-W09"]
    facts = json.loads(Page(page_of(releases(names), title="t")).scripts[0])
    assert facts["names"] == ["north 2024-W09", "north 2024-W10", "south 2024-W09"]
    assert facts["windows"] == {
        "keys": ["north", "south"],
        "names": ["2024-W09", "2024-W10"],
        "of": [[0, 0], [0, 1], [1, 0]],
    }


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "all").mkdir()
    ss.PrivateTable(releases(HOSTILE)).save(tmp_path / "all" / "table.parquet")
    release(7).save(tmp_path / "all" / "north.sketch")
    (tmp_path / "all" / "mine.raw-sketch").write_bytes(b"secret")
    pq.write_table(pa.table({"first": ["a"], "squared_distance": [1.0]}), tmp_path / "all" / "distances.parquet")
    return tmp_path


def test_the_command_writes_a_page_of_a_folder(folder: Path, forks: Forks) -> None:
    forks.succeeded("report", "all", "-o", "report.html", "--set", "title=Shops & more", cwd=folder)
    text = (folder / "report.html").read_text()
    assert "<h1>Shops &amp; more</h1>" in text
    assert "8 private sketches of 64 cells" in text
    assert "mine" not in text


@pytest.mark.parametrize(
    ("names", "heading"),
    [("north south", "north.sketch and south.sketch"), ("north south west", "north.sketch and 2 more")],
)
def test_the_default_heading_names_all_files(names: str, heading: str, folder: Path, forks: Forks) -> None:
    for name, found in releases(names.split()).items():
        found.save(folder / f"{name}.sketch")
    files = [f"{name}.sketch" for name in names.split()]
    forks.succeeded("report", *files, "-o", "report.html", cwd=folder)
    assert f"<h1>Private sketches in {heading}</h1>" in (folder / "report.html").read_text()
    said = "report needs at least two sketches (each key of a table is one), got 1"
    assert said in forks.refused("report", files[0], "-o", "one.html", cwd=folder)


def test_report_refuses_what_it_cannot_show(folder: Path, forks: Forks) -> None:
    (folder / "empty").mkdir()
    (folder / "there.html").touch()
    (folder / "twice").mkdir()
    for name in ("a", "b"):
        shutil.copy(folder / "all" / "north.sketch", folder / "twice" / f"{name}.sketch")
    (folder / "notes.json").write_text("no plan")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "bad").mkdir()
    (folder / "bad" / "a.sketch").write_bytes(b"no sketch")
    for arguments, message in [
        (["nowhere", "-o", "r.html"], "nowhere does not exist"),
        (["empty", "-o", "r.html"], "needs at least two sketches (each key of a table is one), got 0"),
        (["all", "-o", "there.html"], "already exists and is not replaced"),
        (["all/mine.raw-sketch", "all", "-o", "r.html"], "is a raw sketch, which is secret"),
        (["all", "-o", "r.pdf"], "named *.html, got r.pdf"),
        (["twice", "-o", "r.html"], "a and b: two of these sketches share the noise"),
        (["bad", "-o", "r.html"], "a.sketch is not a valid private sketch"),
        (["all", "-o", "r.html", "--set", "plan=notes.json"], "notes.json is not a plan"),
        (["all", "-o", "r.html", "--set", "plan=deep.json"], "deep.json is not a plan"),
        (["all"], "Missing option '--output'"),
    ]:
        assert message in forks.refused("report", *arguments, cwd=folder)
