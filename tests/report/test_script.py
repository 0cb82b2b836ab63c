"""What the page's script and the viewer compute: the same as Python, on the cases of web/tests/page.json.

``make generated`` writes their facts anew, and the releases of cases that are new.
"""

import base64
import html
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.estimation.estimate import format_value
from streamsketch.report import Dictionary, page_of
from streamsketch.report.changes import LEVEL
from tests.report.test_page import Page

CASES = Path(__file__).parents[2] / "web" / "tests" / "page.json"
HERE = Path(ss.__file__).parent / "report"
if TYPE_CHECKING:
    from collections.abc import Callable

LISTED = re.compile(r"<li><strong>(.*?)</strong>: (.*?)</li>")
AGREED = ("by", "names", "ranked", "largest", "quantity", "unit", "factor", "windows")
NUMBER = ("estimate", "error", "low", "high")
NUMBERS = [(0.0, 1.0), (2.5, 1.0), (-0.125, 0.05), (1234567.891, 340.0), (0.1645, 0.036), (1e-7, 1e-8), (12.5, 25.0)]
NUMBERS += [(1e15, 2e14), (5.0, 0.0), (-0.00004, 0.01), (123456789.0, 0.0), (float("inf"), 1.0), (999.95, 0.5)]
NUMBERS += [(999999.7, 0.0), (-1234567.5, 0.0), (99999.96, 0.0), (1e15, 0.0), (1234567.0, 1e-10)]


def facts_of(found: dict[str, ss.PrivateSketch], *, together: bool = False) -> dict[str, Any]:
    """Return what the page of releases says: its facts, its first sentences, and how joint estimates were made."""
    text = page_of(found, title="t", together=together)
    made = re.search(r'<p class="joint">(.*?)</p>', text)
    facts = json.loads(Page(text).scripts[0])
    sentence = re.search(r'<p class="answer">(.*?)</p>\n<p>(.*?)</p>', text)
    assert sentence is not None
    return {name: facts[name] for name in AGREED} | {
        "groups": sorted(facts["groups"]),
        "heights": [size for _, _, size in facts["tree"]],
        "scale": facts["scale"],
        "sizes": facts["sizes"],
        "answer": html.unescape(sentence[1]),
        "detail": html.unescape(sentence[2]),
        "listed": [[html.unescape(part) for part in one] for one in LISTED.findall(text)],
        "pairs": facts["pairs"],
        "made": None if made is None else html.unescape(made[1]),
    }


def differences_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return what separates each pair of a case's releases, and the facts of a page about it."""
    found = read(case)
    pairs = list(itertools.combinations(found.values(), 2))
    expected = [ss.top_differences(x, y, case["dictionary"], 10) for x, y in pairs]
    facts = json.loads(Page(page_of(found, title="t", why=Dictionary(case["dictionary"]))).scripts[0])
    return {
        "pairs": [
            {"rows": one.table.to_pylist(), "candidates": one.candidates, "separated": one.n_separated}
            for one in expected
        ],
        "facts": facts["differing"],
    }


def cases() -> list[dict[str, Any]]:
    return json.loads(CASES.read_text())["cases"]  # type: ignore[no-any-return]


def read(case: dict[str, Any]) -> dict[str, ss.PrivateSketch]:
    return {name: ss.PrivateSketch.from_bytes(base64.b64decode(text)) for name, text in case["releases"].items()}


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_cases_are_what_pages_say(case: dict[str, Any]) -> None:
    for facts, together in (("facts", False), ("joint", True)):
        found, expected = facts_of(read(case), together=together), case[facts]
        for name in (*AGREED, "groups", "answer", "detail", "listed", "made"):
            assert found[name] == expected[name], name
        assert found["heights"] == pytest.approx(expected["heights"], rel=1e-4)


def test_alarms_are_those_of_all_series_of_a_page_together() -> None:
    (case,) = (one for one in cases() if one["name"] == "by chance")
    found = read(case)
    alone = [ss.changes([found[f"{key} 2024-W01"], found[f"{key} 2024-W02"]]).alarms for key in "abcd"]
    assert sum(map(len, alone)) == 1
    assert facts_of(found)["answer"].startswith("No change stands out.")


def changes_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of a case's windows."""
    found = ss.changes(read(case), tolerance=case["tolerance"])
    rows = [{name: row[name] for name in ("p_value", "estimate", "alarm")} for row in found.table.to_pylist()]
    return {"allowed": found.tolerance, "rows": rows}


@pytest.mark.parametrize("case", json.loads(CASES.read_text())["changes"], ids=lambda case: case["name"])
def test_the_changes_of_windows_are_those_of_the_library(case: dict[str, Any]) -> None:
    found = changes_of(case)
    assert found["allowed"] == pytest.approx(case["allowed"])
    assert [row["alarm"] for row in found["rows"]] == [row["alarm"] for row in case["rows"]]
    for name in ("p_value", "estimate"):
        assert [row[name] for row in found["rows"]] == pytest.approx([row[name] for row in case["rows"]], rel=1e-6)


@pytest.mark.parametrize("case", json.loads(CASES.read_text())["differences"], ids=lambda case: case["name"])
def test_the_differences_of_pairs_are_those_of_the_page(case: dict[str, Any]) -> None:
    found = differences_of(case)
    assert found["facts"] == case["facts"]
    for one, expected in zip(found["pairs"], case["pairs"], strict=True):
        assert (one["candidates"], one["separated"]) == (expected["candidates"], expected["separated"])
        for row, other in zip(one["rows"], expected["rows"], strict=True):
            assert row["item"] == other["item"]
            assert [row[name] for name in NUMBER] == pytest.approx([other[name] for name in NUMBER], rel=1e-9)


def test_numbers_have_the_digits_that_the_script_gives_them() -> None:
    shown = json.loads(CASES.read_text())["numbers"]
    assert shown == [[str(value), str(error), format_value(value, error)] for value, error in NUMBERS]


@pytest.mark.parametrize("name", ["page.js", "viewer.html"])
def test_what_is_shipped_makes_no_requests(name: str) -> None:
    text = (HERE / name).read_text("utf-8")
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\(|eval\(|new Function", text)
    assert not re.search(r"(?:src|href)=\"[^#]|url\(|@import", text)
    assert not set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}, "the name of SVG alone"


def test_the_viewer_forbids_requests_and_other_scripts() -> None:
    import hashlib  # noqa: PLC0415 - here only

    page = Page((HERE / "viewer.html").read_text("utf-8"))
    (policy,) = [one["content"] for name, one in page.tags if one.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
    assert policy is not None
    assert policy.split("; ") == [
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


def _streams(
    projection: ss.projections.Projection, counts: dict[str, Any], unit: str = "sale"
) -> dict[str, ss.PrivateSketch]:
    found = {}
    for name, values in counts.items():
        sketch = projection.sketch()
        sketch.update(np.arange(len(values)), np.asarray(values, dtype=np.int64))
        found[name] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit=unit))
    return found


HASHED = {
    "text, by the mean": ss.CountSketch(sketch_dim=256, seed=3),
    "text, by the median": ss.SJLT(sketch_dim=320, sparsity=5, seed=3),
    "integers": ss.SJLT(dim=1 << 20, sketch_dim=96, sparsity=3, seed=3),
}


def _sold(name: str, projection: ss.projections.Projection) -> dict[str, Any]:
    words = ["tea", "jam", "salt", "ale", "rye", "oat", "fig", "<b>", "milk", "honey", "bread", "corn"]
    items: list[Any] = [7 * place for place in range(12)] if name == "integers" else words
    rng = np.random.default_rng(11)
    releases = {}
    for key in ("north", "south", "east"):
        sketch = projection.sketch()
        counts = rng.poisson(400 * rng.dirichlet(np.full(12, 0.5)))
        sketch.update(items, counts)
        found = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
        releases[key] = base64.b64encode(found.to_bytes()).decode()
    return {"name": name, "releases": releases, "dictionary": [*items, items[0]]}


def _by_chance(projection: ss.projections.Projection) -> dict[str, ss.PrivateSketch]:
    """Return windows of four keys that did not change, of which one would have an alarm if it were alone."""
    counts = {f"{key} 2024-W{week:02}": [400, 300, 200] for key in "abcd" for week in (1, 2)}
    while True:
        found = _streams(projection, counts, "customer in one window of 604800 s")
        least = min(ss.sameness(found[f"{key} 2024-W01"], found[f"{key} 2024-W02"]).p_value for key in "abcd")
        if LEVEL / 3 < least < LEVEL / 1.5:
            return found


WEEKLY = {"sums": HASHED["integers"], "typical": HASHED["integers"]}


def _weekly(name: str, projection: ss.projections.Projection) -> dict[str, Any]:
    rng = np.random.default_rng(12)
    usual, other = rng.dirichlet(np.full(50, 0.3), 2)
    weeks = 6 if name == "typical" else 4
    counts = {
        f"2024-W{week:02}": rng.poisson(600 * (usual if week < weeks - 1 else other)) for week in range(1, weeks + 1)
    }
    releases = _streams(projection, counts)
    shown = {key: base64.b64encode(one.to_bytes()).decode() for key, one in releases.items()}
    return {"name": name, "tolerance": "typical" if name == "typical" else 0.0, "releases": shown}


def current_cases() -> str:
    """Return the text of the file of cases, with the facts that Python computes today."""
    rng = np.random.default_rng(8)
    kinds = rng.dirichlet(np.full(200, 0.1), 3)
    grouped = {f"shop {i}": rng.poisson(3000 * (i + 1) * kinds[i % 3]) for i in range(9)} | {"kiosk": [0] * 200}
    weeks = {f"{key} 2024-W{week:02}": rng.poisson(9000 * kinds[0]) for key in "ab" for week in (2, 1, 3)}
    wide = ss.CountSketch(dim=1 << 20, sketch_dim=512, seed=5)
    narrow = ss.SJLT(dim=1 << 20, sketch_dim=64, sparsity=4, seed=5)
    known = {case["name"]: read(case) for case in cases()}
    mixed = {f"town {i}": rng.poisson(4000 * (kinds[0] * (6 - i) + kinds[1] * i + kinds[2])) for i in range(7)}
    made: dict[str, Callable[[], dict[str, ss.PrivateSketch]]] = {
        "groups": lambda: _streams(wide, grouped),
        "windows": lambda: _streams(wide, weeks, "customer in one window of 604800 s"),
        "noise": lambda: _streams(narrow, {key: [1] for key in "abc"}),
        "two": lambda: _streams(narrow, {"north": [900, 30, 2], "south": [40, 700, 900]}),
        "pairs": lambda: _streams(narrow, mixed),
        "by chance": lambda: _by_chance(narrow),
    }
    found = {name: known[name] if name in known else streams() for name, streams in made.items()}
    written = [
        {
            "name": name,
            "releases": {key: base64.b64encode(one.to_bytes()).decode() for key, one in releases.items()},
            "facts": facts_of(releases),
            "joint": facts_of(releases, together=True),
        }
        for name, releases in found.items()
    ]
    numbers = [[str(value), str(error), format_value(value, error)] for value, error in NUMBERS]
    old = {case["name"]: case for case in json.loads(CASES.read_text()).get("differences", ())}
    differences = [old[name] if name in old else _sold(name, projection) for name, projection in HASHED.items()]
    differences = [case | differences_of(case) for case in differences]
    old = {case["name"]: case for case in json.loads(CASES.read_text()).get("changes", ())}
    series = [old[name] if name in old else _weekly(name, projection) for name, projection in WEEKLY.items()]
    changes = [case | changes_of(case) for case in series]
    everything = {"cases": written, "numbers": numbers, "differences": differences, "changes": changes}
    return json.dumps(everything, indent=1, ensure_ascii=False) + "\n"
