"""How a browser shows the page: at three sizes, with its script and without, and by the rules of axe for everybody."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.report import page_of
from tests.chromium import BROWSER, Chromium
from tests.noise import drawn_once
from tests.report import test_federation
from tests.report.test_page import HOSTILE, Page, releases

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
SIZES = [(1200, 1000), (800, 1000), (400, 1000)]
PROJECTION = ss.CountSketch(dim=1 << 20, sketch_dim=512, seed=5)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the PATH to show the report in")

FACTS = """
const top = (one) => Math.round(document.querySelector(one).getBoundingClientRect().top);
const found = {
  alive: document.documentElement.classList.contains("alive"),
  wider: document.documentElement.scrollWidth - window.innerWidth,
  result: top(".answer"), heat: top("#live"), guarantee: top("#guarantee"),
  static: getComputedStyle(document.querySelector(".static")).display,
};
"""


@drawn_once
def shops(n: int) -> str:
    """Return the page of n shops of four kinds, and of an empty one."""
    rng = np.random.default_rng(8)
    kinds = rng.dirichlet(np.full(200, 0.1), 4)
    found = {}
    for place in range(n + 1):
        sketch = PROJECTION.sketch()
        sketch.update(np.arange(200), rng.poisson(3000 * (place < n) * kinds[place % 4]))
        found[f"shop {place:02}"] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    return page_of(found, title="Shops & more")


@drawn_once
def weeks() -> str:
    rng = np.random.default_rng(9)
    kinds = rng.dirichlet(np.full(200, 0.1), 2)
    found = {}
    for key in ("north", "south"):
        for week in range(1, 9):
            sketch = PROJECTION.sketch()
            sketch.update(np.arange(200), rng.poisson(4000 * kinds[week // 6]))
            found[f"{key} 2024-W{week:02}"] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale"))
    return page_of(found, title="Weeks")


def hospitals() -> str:
    """Return the page of a federation, with tests that take no time."""
    with pytest.MonkeyPatch.context() as patch:
        test_federation.rough(patch)
        return test_federation.page({"old": test_federation.OLD, **test_federation.ALIKE})


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


READY = "document.documentElement.classList.contains('alive')"  # of a page with a script, once that has run
DRAWN = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"


def run(tab: Chromium, page: str, script: str, size: tuple[int, int] = SIZES[0]) -> tuple[Any, np.ndarray]:
    """Run a script in a page that is shown in a window of a size; return what it returns, and a screenshot."""
    path = tab.folder / "page.html"
    path.write_text(page, encoding="utf-8")
    tab.show(path.as_uri(), size)
    if "<script>" in page:
        tab.until(READY)
    tab.run(DRAWN)
    if "axe." in script:
        tab.run(AXE.read_text("utf-8"))
    found = tab.run(script)
    from matplotlib.image import imread  # noqa: PLC0415 - only here

    return found, imread(io.BytesIO(tab.picture()))


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_page_fits_each_screen_and_begins_with_the_result(size: tuple[int, int], tab: Chromium) -> None:
    found, picture = run(tab, shops(16), FACTS + "return found;", size)
    assert found["alive"]
    assert found["static"] == "none", "the heat map of the script is in its place"
    assert found["wider"] <= 0, "nothing is cut off on the right"
    assert found["result"] < found["heat"] < size[1] < found["guarantee"]
    assert picture.shape[:2] == size[::-1]
    coloured = np.ptp(picture[..., :3], axis=2) > 0.3
    assert coloured.mean() > 0.02, "the heat map is on the first screen, in colour"


def test_the_browser_has_nothing_to_mend(tab: Chromium) -> None:
    page = page_of(releases(HOSTILE), title="t")
    written = Page(page)
    tags = ("table", "tr", "td", "th", "svg", "ellipse", "text", "details")
    script = "return Object.fromEntries(%s.map((tag) => [tag, document.querySelectorAll(tag).length]));"
    still = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    found, _ = run(tab, still, script % json.dumps(tags))
    assert found == {tag: written.count(tag) for tag in tags}
    assert all(found.values())


def test_without_the_script_everything_is_there(tab: Chromium) -> None:
    page = re.sub(r"<script>.*?</script>", "", shops(16), flags=re.DOTALL)
    found, picture = run(tab, page, FACTS + "return found;")
    assert not found["alive"]
    assert found["static"] == "block"
    assert (np.ptp(picture[..., :3], axis=2) > 0.3).mean() > 0.02


def test_keys_move_over_the_heat_map_and_select_a_pair(tab: Chromium) -> None:
    script = """
    const box = document.querySelector(".hm-box");
    const press = (key) => box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    box.focus();
    ["Home", "ArrowRight", "ArrowRight"].forEach(press);
    const readout = document.querySelector(".hm-readout").textContent;
    press("Enter");
    const pair = document.querySelector(".panel h3").textContent;
    const marked = document.querySelectorAll("svg.map circle.selected").length;
    press("s");
    const one = document.querySelector(".panel h3").textContent;
    const others = document.querySelectorAll(".panel .dots li").length;
    press("Escape");
    const search = document.querySelector("input[type=search]");
    search.value = "shop 07";
    search.dispatchEvent(new Event("input"));
    return { readout, pair, marked, one, others, searched: document.querySelector(".panel h3").textContent };
    """
    page = shops(16)
    found, _ = run(tab, page, script)
    facts = json.loads(Page(page).scripts[0])
    first, second = (facts["names"][facts["similar"][place]] for place in (0, 2))
    assert found["pair"] == f"{first} – {second}"
    shown = re.search(rf"(?:{first} – {second}|{second} – {first}): (.*? ± .*?), 95\xa0% interval (.*?)<", page)
    assert shown is not None
    assert found["readout"].startswith(f"{first} – {second}: {shown[1]}, 95\xa0% interval {shown[2]}"), (
        "as in the table"
    )
    assert (found["marked"], found["one"], found["others"]) == (2, first, 15)
    assert found["searched"] == "shop 07"


def test_a_slider_chooses_a_window_and_the_table_of_pairs_follows(tab: Chromium) -> None:
    script = """
    const box = document.querySelector(".vt-box");
    const rows = () => [...box.querySelectorAll("tbody tr:not(.space)")].map((row) => row.children);
    const texts = () => rows().map((row) => [row[0].textContent, row[1].textContent]);
    const table = box.querySelector("table");
    const press = (key) => table.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const [byName, byValue, byError] = box.querySelectorAll("thead button");
    const all = table.getAttribute("aria-rowcount");
    byName.click();
    const named = texts()[0];
    byError.click();
    const errors = rows().map((row) => Number(row[3].textContent));
    byValue.click();
    press("End");
    const active = document.getElementById(table.getAttribute("aria-activedescendant")).children[2].textContent;
    const drawn = rows().length;
    press("Home");
    press("Enter");
    const first = texts()[0];
    const panel = document.querySelector(".panel h3").textContent;
    const search = document.querySelector(".vt input");
    search.value = "north 2024-W03, south";
    search.dispatchEvent(new Event("input"));
    const searched = texts().length;
    search.value = "";
    search.dispatchEvent(new Event("input"));
    const range = document.querySelector("input[type=range]");
    range.value = "3";
    range.dispatchEvent(new Event("input"));
    return { all, named, errors, active, drawn, first, panel, searched, window: texts(),
             shown: document.querySelector(".windows output").textContent,
             away: document.querySelectorAll("svg.map circle.away").length };
    """
    found, _ = run(tab, weeks(), script)
    shown = [row[2][0] for row in page_pairs(weeks())]
    assert (found["shown"], found["away"], found["all"]) == ("2024-W03", 14, "121")
    assert found["window"] == [["north 2024-W03", "south 2024-W03"]]
    assert found["named"] == ["north 2024-W01", "north 2024-W02"]
    assert found["errors"] == sorted(found["errors"])
    assert found["active"] == shown[-1], "the last row of the table without a script"
    assert max(len(found["errors"]), found["drawn"]) < 60, "those in view alone"
    assert found["panel"] == " – ".join(found["first"])
    assert found["searched"] == 8


def page_pairs(page: str) -> list[tuple[str, str, list[str]]]:
    """Return the rows of the table of all pairs of a page."""
    table = page[page.index("<caption>All pairs") :]
    rows = re.findall(r'<th scope="row" class="name">(.*?)</th><td class="name">(.*?)</td>(.*?)</tr>', table)
    return [(first, second, re.findall(r"<td>(.*?)</td>", rest)) for first, second, rest in rows]


def test_a_federation_links_its_map_to_the_pairs(tab: Chromium) -> None:
    script = """
    const table = document.querySelector(".vt table");
    document.querySelectorAll(".vt thead button")[1].click(); // the farthest first
    table.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    const selected = [...document.querySelectorAll("svg.map circle.selected title")].map((one) => one.textContent);
    const orange = [...document.querySelectorAll("svg.map circle.out title")].map((one) => one.textContent);
    return { selected, orange, panel: document.querySelector(".panel h3").textContent,
             size: document.querySelector(".panel .picks li").textContent };
    """
    found, _ = run(tab, hospitals(), script)
    assert found["orange"] == ["old"]
    assert "old" in found["selected"]
    assert found["panel"] in (" – ".join(found["selected"]), " – ".join(found["selected"][::-1]))
    assert ": number of patients " in found["size"]


def test_hostile_names_do_nothing_in_the_live_page(tab: Chromium) -> None:
    script = """
    document.querySelector(".hm-box").dispatchEvent(new KeyboardEvent("keydown", { key: "s", bubbles: true }));
    return { scripts: document.scripts.length, panel: document.querySelector(".panel h3").textContent };
    """
    page = page_of(releases(HOSTILE), title=HOSTILE[0])
    found, _ = run(tab, page, script)
    assert found["scripts"] == Page(page).count("script")
    assert found["panel"] in json.loads(Page(page).scripts[0])["names"]


PAGES = {"weeks": weeks, "sites": hospitals}


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core in web/node_modules: `make test-web` installs it")
@pytest.mark.parametrize("which", ["16", "60", "weeks", "sites"])
@pytest.mark.parametrize("size", [SIZES[0], SIZES[2]], ids=str)
def test_axe_finds_no_fault(which: str, size: tuple[int, int], tab: Chromium) -> None:
    script = """
    const pick = document.querySelector(".panel .pick");
    if (pick !== null) pick.click();
    const found = await axe.run(document, { resultTypes: ["violations"] });
    return found.violations.map((one) => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)]);
    """
    found, _ = run(tab, PAGES[which]() if which in PAGES else shops(int(which)), script, size)
    assert found == []
