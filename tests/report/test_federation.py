"""The report of a federation: its answer in a sentence, what the page shows, and what it says is absent."""

import base64
import itertools
import json
import math
import re
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.estimation import changes as changes_of_series
from streamsketch.estimation import mean_distance, sites
from streamsketch.features import Category, Features, Number
from streamsketch.report import federation_of, page_of_federation
from streamsketch.report.federation_page import parts_of_table
from streamsketch.report.script import script, script_digest
from tests.cli.running import Forks
from tests.report.test_page import HOSTILE, Page

FEATURES = Features({"age": Number(0, 100), "ward": Category(["A", "B"]), "code": Category(hashed=4)}, seed=7, joint=4)
SCHEMA = pa.schema({"patient_id": pa.int64(), "age": pa.float64(), "ward": pa.string(), "code": pa.string()})
AGREEMENT = ss.agree(SCHEMA, features=FEATURES, unit="patient_id")
RANDOM = np.random.default_rng(36)


def site(people: int, age: float = 40.0, wards: str = "AB") -> ss.PrivateSketch:
    columns = [RANDOM.integers(1 << 60, size=people), RANDOM.normal(age, 10, people)]
    letters = [RANDOM.choice(list(wards), people), ["E11"] * people]
    sums: Any = ss.bound(pa.table([*columns, *letters], schema=SCHEMA), AGREEMENT)
    released: ss.PrivateSketch = sums.release(epsilon=2.0, delta=1e-6, neighbours=AGREEMENT.neighbours)
    return released


ALIKE = {name: site(3000) for name in ("north", "south", "west")}
OLD = site(2000, 60)
TINY = next(one for one in iter(lambda: site(2), None) if one.units.value < 5)  # noise may show enough people
WINDOWS = {
    **{f"north 2024-0{month}": site(2000) for month in (1, 2)},
    **{f"south 2024-0{month}": site(2000, age) for month, age in enumerate((40, 40, 55, 55), 1)},
}


def roughly(a: Any, b: Any, tolerance: float, *, by: str, samples: bool) -> Any:
    """Return about what `streamsketch.sameness` does, in a thousandth of the time."""
    assert (by, samples) == ("mean", True)
    apart = mean_distance(a, b)
    usual = apart.standard_error + 1 / a.units.value + 1 / b.units.value
    p_value = max(1e-9, math.exp(-max(apart.value - tolerance**2, 0.0) / usual))
    return SimpleNamespace(p_value=p_value, distance=apart, line=lambda level: -usual * math.log(level))


def rough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests of sites and of windows be those rough ones."""
    for module in (sites, __import__(changes_of_series.__module__, fromlist=["sameness"])):
        monkeypatch.setattr(module, "sameness", roughly)


@pytest.fixture(autouse=True)
def _rough_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    rough(monkeypatch)


def page(releases: dict[str, ss.PrivateSketch], **options: Any) -> str:
    return page_of_federation(federation_of(releases, AGREEMENT, **options), title="Hospitals")


def headings(text: str) -> list[str]:
    return re.findall("<h2[^>]*>(.*?)</h2>", text)


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        ({}, "None of 3 sites stands out: no difference between them is shown."),
        ({"old": OLD}, "1 of 4 sites stands out: old. It differs in age."),
        (
            {"old": OLD, "A": site(2000, wards="AAAB")},
            "2 of 5 sites stand out: old and A. They differ in age (old); ward (A).",
        ),
        (
            {"old": OLD, "tiny": TINY},
            "1 of 4 sites stands out: old. It differs in age. tiny is left out: too few for their noise.",
        ),
        (
            {f"old {place}": site(1000, 65 + place) for place in range(1, 6)}
            | {f"alike {n}": site(3000) for n in "ab"},
            "5 of 10 sites stand out: old 1, old 2, old 3, old 4 and old 5. Most often they differ in age (5 of 5).",
        ),
    ],
    ids=["none", "one", "two", "too few", "many"],
)
def test_the_answer_comes_first(more: dict[str, ss.PrivateSketch], answer: str) -> None:
    found = federation_of(more | ALIKE, AGREEMENT)
    assert found.answer == answer
    body = page_of_federation(found, title="Hospitals").split("<body>")[1]
    assert "".join(Page(body.split("</p>")[0] + "</p></main>").text).split() == f"Hospitals {answer}".split()


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ("", [(0, 0)]),
        ("aab", [(0, 3)]),
        ("aaaabbb", [(0, 4), (4, 7)]),
        ("abbbbbbbbbbbbbc", [(0, 1), (1, 7), (7, 13), (13, 15)]),
        ("aaaaaaaaaaaa", [(0, 6), (6, 12)]),
    ],
)
def test_a_wide_table_is_cut_into_parts_that_fit_a_page(columns: str, parts: list[tuple[int, int]]) -> None:
    assert parts_of_table(list(columns)) == parts


def test_bounds_that_were_enforced_are_not_said_to_be_asserted() -> None:
    text = page(ALIKE)
    assert 'class="asserted"' not in text
    assert "Whether the data of one patient are in a release or not changes" in text


def test_who_stands_out_follows_from_the_table_below() -> None:
    found = federation_of({"old": OLD, "far": site(2000, 80), **ALIKE}, AGREEMENT)
    text = page_of_federation(found, title="Hospitals")
    numbers = text[text.index("Squared distance from the others") : text.index("p is adjusted for all sites")]
    rows = re.findall(r'class="name">(\w+)</th>(?:<td>[^<]*</td>){3}<td>([^<]*)</td>', numbers)
    assert len(rows) == 5
    out = [name for name, p_value in rows if p_value != "surely above" and float(p_value) <= 0.05]
    assert found.answer.startswith(f"{len(out)} of 5 sites stand out: ")
    assert set(re.findall(r"\w+", found.answer.partition(":")[2].partition(".")[0])) - {"and"} == set(out)
    strip = text[text.index('class="strip"') : text.index("A site stands out if")]
    verdicts = re.findall(
        r'rowheader">(\w+) *</span>.*?<span class="verdict" role="cell">(.*?)</span>', strip, re.DOTALL
    )
    assert [name for name, verdict in verdicts if "stands out" in verdict] == [name for name, _ in rows][: len(out)]


def test_two_sites_are_compared_with_each_other() -> None:
    found = federation_of({"north": ALIKE["north"], "old": OLD}, AGREEMENT)
    assert found.answer == "The two sites differ: north and old. They differ in age."
    assert "Map" in found.absent


def test_the_page_has_the_facts_in_order_and_loads_nothing() -> None:
    found = federation_of({"old": OLD, "tiny": TINY, **ALIKE}, AGREEMENT, shares={"code": ["E11"]})
    text = page_of_federation(found, title="Hospitals")
    parsed = Page(text)
    assert headings(text) == [
        "Who stands out",
        "What differs",
        "Map of the sites",
        "All pairs",
        "How many patients",
        "What the patients are like",
        "What is not on this page",
        "What is guaranteed",
    ]
    assert (parsed.count("script"), parsed.count("link")) == (2, 0)
    still = text.replace(parsed.scripts[1], "")
    assert not re.search(r"(?:src|href)=|url\(|http-equiv=\"refresh|@import", still)
    assert "default-src 'none'" in text
    policies = [one["content"] for name, one in parsed.tags if one.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [f"default-src 'none'; style-src 'unsafe-inline'; script-src {script_digest()}"]
    drawn = text[text.index("Map of the sites") : text.index("<h2>All pairs")]
    assert all(name in drawn for name in ("old", *ALIKE))
    assert "tiny" not in drawn
    assert "Left out above:</strong> tiny" in text
    differs = text[text.index("<h3>old: age</h3>") : text.index("in which no difference is shown")]
    (here, there) = re.findall(r"<td>([\d.]+) ± [\d.]+</td>", differs)[:2]
    assert abs(float(here) - 60) < 1
    assert abs(float(there) - 40) < 1
    assert re.search(r"<strong>(59|60)\.\d+ ± ", text)  # where the site differs
    assert re.search(r"(?:99|100)\.\d+\s% ± ", text[text.index("E11") :])


@pytest.mark.parametrize(
    ("releases", "section", "reason"),
    [
        (ALIKE, "What differs", "No site stands out."),
        (ALIKE, "Since when", "not of windows"),
        (ALIKE, "Shares", "--share code=VALUE"),
        ({f"north {n}": ALIKE["north"] if n == 1 else OLD for n in (1, 2)}, "Map", "Two sites"),
        ({"north 2024-01": ALIKE["north"], "south 2024-01": OLD}, "Since when", "one window only"),
        ({"north 2024-01": ALIKE["north"], "north 2024-02": OLD}, "Who stands out", "one site"),
    ],
)
def test_what_was_not_computed_is_absent_with_a_reason(
    releases: dict[str, ss.PrivateSketch], section: str, reason: str
) -> None:
    text = page(releases)
    assert section not in headings(text)
    assert reason in re.search(rf"<dt>{section}</dt><dd>(.*?)</dd>", text)[1]  # type: ignore[index]


def test_windows_say_since_when_a_site_differs() -> None:
    found = federation_of(WINDOWS, AGREEMENT)
    assert found.windows == {"north": "2024-02", "south": "2024-04"}
    assert found.sites["south"] is WINDOWS["south 2024-04"]
    assert "Changed: south since 2024-03." in found.answer
    assert found.drifts["south"].columns[0] == "age"
    assert found.drifts["south"].changes.level == 0.05 / 2
    assert found.drifts["north"].since is None
    text = page_of_federation(found, title="Hospitals")
    assert "Since when" in headings(text)
    assert text.count('class="curve"') == 2


def test_a_change_that_has_passed_is_no_change_now() -> None:
    south = {name: one for name, one in WINDOWS.items() if name.startswith("south")}
    found = federation_of({**south, "south 2024-05": site(2000)}, AGREEMENT)
    assert found.comparison is None
    assert found.answer == "It does not differ now from its first window (south differed for a time)."
    assert found.drifts["south"].changes.alarms == ["2024-03", "2024-04"]


def test_a_last_window_of_too_few_people_gives_way_to_the_one_before() -> None:
    found = federation_of({**WINDOWS, "south 2024-05": TINY}, AGREEMENT)
    assert found.windows["south"] == "2024-04"
    lost = federation_of({"south 2024-01": OLD, "south 2024-02": TINY}, AGREEMENT)
    assert "Since when" in lost.absent


@pytest.mark.parametrize(
    ("number", "pairs"), [(22, "231 pairs"), pytest.param(60, "1,770 pairs", marks=pytest.mark.long)]
)
def test_many_sites_are_all_there(number: int, pairs: str) -> None:
    many = {f"site {place:02}": site(800) for place in range(number)}
    found = federation_of(many, AGREEMENT)
    text = page_of_federation(found, title="Hospitals")
    assert len(text) < 400_000
    strip = text[text.index("<h2>Who stands out") : text.index("<h2>Map")]
    assert all(name in strip for name in many)
    assert pairs in found.absent["Pairs"]
    assert f"<summary>{number} sites</summary>" in text


def test_names_cannot_change_the_page() -> None:
    names = dict(zip(HOSTILE, [site(1000) for _ in HOSTILE], strict=True))
    text = page_of_federation(federation_of(names, AGREEMENT), title=HOSTILE[0])
    assert Page(text).scripts[1] == script()
    assert Page(text).count("script") == len(Page(text).scripts) == 2


def test_the_script_has_the_sites_in_the_order_of_the_map_with_the_numbers_of_the_table() -> None:
    found = federation_of({"old": OLD, "tiny": TINY, **ALIKE}, AGREEMENT)
    text = page_of_federation(found, title="Hospitals")
    facts = json.loads(Page(text).scripts[0])
    names = facts["names"]
    assert names[0] == "old", "it stands out, and is labelled first"
    assert re.findall(r'<circle data-stream="\d+" class="point.*?<title>(.*?)</title>', text) == names
    values = np.frombuffer(zlib.decompress(base64.b64decode(facts["pairs"]["base64"])), np.uint8).reshape(4, 8, -1)
    estimates = values[0].T.copy().view("<f8")[:, 0]
    assert found.comparison is not None
    rows = {frozenset((row["first"], row["second"])): row for row in found.comparison.pairs.to_pylist()}
    expected = [rows[frozenset(pair)]["estimate"] for pair in itertools.combinations(names, 2)]
    assert estimates == pytest.approx(expected)
    assert facts["size"] == "number of patients"
    assert [size for size, _ in facts["sizes"]] == [found.sites[name].units.value for name in names]
    assert Page(page({"old": OLD, "north": ALIKE["north"]})).count("script") == 0, "two sites have one pair"


def test_machines_get_all_numbers() -> None:
    found = json.loads(json.dumps(federation_of(WINDOWS, AGREEMENT).to_dict(), allow_nan=False))
    assert found["windows"] == {"north": "2024-02", "south": "2024-04"}
    assert found["changes"]["south"]["since"] == "2024-03"
    assert {one["site"]: one["units"] for one in found["comparison"]["sites"]} == {
        name: pytest.approx(2000, abs=100) for name in ("north", "south")
    }
    assert set(found["guarantees"]) == set(WINDOWS)
    assert found["guarantees"]["north 2024-01"]["epsilon"] == 2.0


def test_what_is_no_federation_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="2 to 400 releases, got 1"):
        federation_of({"north": OLD}, AGREEMENT)
    items = ss.agree(SCHEMA, ss.SJLT(sketch_dim=64, sparsity=4, seed=1), index="ward", unit="patient_id", max_keys=1)
    with pytest.raises(ss.InvalidInputError, match="has no features"):
        federation_of(ALIKE, items)
    with pytest.raises(ss.errors.DependentNoiseError):
        federation_of({"north": OLD, "south": OLD}, AGREEMENT)


def test_the_command_reports_a_folder_by_its_agreement(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "sites").mkdir()
    for name, release in {"old": OLD, **ALIKE}.items():
        release.save(tmp_path / "sites" / f"{name}.sketch")
    AGREEMENT.save(tmp_path / "a.json")
    options = ["--agreement", "a.json"]
    done = forks.run("report", "sites", "-o", "page.html", *options, "--share", "code=E11", cwd=tmp_path)
    assert done.stdout == "1 of 4 sites stands out: old. It differs in age.\n"
    assert "page.html: 4 releases." in done.stderr
    assert "Sites in sites" in (tmp_path / "page.html").read_text()
    forks.run("report", "sites/old.sketch", "sites/north.sketch", "-o", "two.html", *options, cwd=tmp_path)
    assert "Sites compared" in (tmp_path / "two.html").read_text()
    done = forks.run("report", "sites", "-o", "b.html", *options, "--set", "tolerance=1", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["file"] == "b.html"
    assert found["stand_out"] == []
    assert found["comparison"]["tolerance"] == 1.0
    for arguments, said in {
        ("--agreement", "a.json", "--by", "mean"): "--by is not for the report of a federation",
        ("--agreement", "a.json", "--share", "age=4"): "hashed",
        ("--share", "code=E11"): "name their --agreement",
        ("--set", "tolerance=1"): "name their --agreement",
    }.items():
        assert said in forks.refused("report", "sites", "-o", "c.html", *arguments, cwd=tmp_path)
    assert not (tmp_path / "c.html").exists()
