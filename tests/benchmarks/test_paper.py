"""The paper as it is published: its numbers and figures are those of the kept results, its citations resolve."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import paper, rendering
from benchmarks.__main__ import app
from tests.cli.running import ROOT

FOLDER, RESULTS = ROOT / "paper", ROOT / "benchmarks"
TEMPLATE = (FOLDER / "template.md").read_text(encoding="utf-8")
_, HEAD, BODY = (FOLDER / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
ENTRIES = re.findall(
    r"^@(\w+)\{(\w+),\n(.*?)^\}$", (FOLDER / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)
SECTIONS = [
    *("Summary", "Statement of need", "State of the field", "Software design", "Research impact statement", "Limits"),
    *("AI usage disclosure", "Acknowledgements", "References"),
]
"""Those that the Journal of Open Source Software requires, and the limits."""
SETTINGS = {
    *("ε = 0.5", "ε = 1", "ε = 2", "ε = 4", "ε = 8", "95 %", "99 %", "5 %", "500 people"),  # of studies
    *("64-bit", "ℓ1", "ℓ2", "δ = 10⁻⁶"),  # of the library
}
"""Numbers that are written by hand: what was set, not what was measured."""


def copied(tmp_path: Path) -> tuple[Path, Path]:
    """Return copies of the results' folder and of the paper's."""
    shutil.copytree(RESULTS / "results", tmp_path / "results")
    (tmp_path / "paper").mkdir()
    shutil.copy(FOLDER / "template.md", tmp_path / "paper")
    return tmp_path, tmp_path / "paper"


def test_the_command_writes_the_page_from_the_kept_results(tmp_path: Path) -> None:
    into, out = copied(tmp_path)
    done = CliRunner().invoke(app, ["paper", "--into", str(into), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert (out / "paper.md").read_text(encoding="utf-8") == f"---\n{HEAD}---\n{BODY}"
    assert {path.name for path in out.iterdir()} == {path.name for path in FOLDER.iterdir()} - {"paper.bib"}


def test_figures_were_drawn_from_the_kept_results() -> None:
    shown = json.loads(json.dumps(paper.series(paper.Kept(RESULTS))))
    for name, series in shown.items():
        path = FOLDER / f"{name}.png"
        assert paper.drawn_from(path) == series, f"{name} is of other results: python -m benchmarks paper"
        assert path.stat().st_size < 100_000
    assert re.findall(r"!\[[^]]{40,}\\label\{fig:(\w+)\}\]\((\w+)\.png\)", BODY) == [
        (name, name) for name in ("clipping", "together", "speed")
    ]
    assert {path.stem for path in FOLDER.glob("*.png")} == shown.keys()
    assert set(re.findall(r"\\autoref\{fig:(\w+)\}", BODY)) == shown.keys()


def test_each_figure_shows_all_of_its_series() -> None:
    shown = paper.series(paper.Kept(RESULTS))
    figures = paper.figures(shown)
    for name in ("together", "clipping"):
        assert [axes.get_title(loc="left") for axes in figures[name].axes] == list(shown[name])
        for axes, lines in zip(figures[name].axes, shown[name].values(), strict=True):
            drawn = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
            assert drawn == {label: [list(pair) for pair in pairs] for label, pairs in lines.items()}
    assert len(figures["speed"].axes[0].patches) == len(shown["speed"])


def test_another_result_makes_another_page_and_other_series(tmp_path: Path) -> None:
    into, out = copied(tmp_path)
    path = into / "results" / "accuracy-together.json"
    path.write_text(path.read_text(encoding="utf-8").replace("0.08948", "0.18948"), encoding="utf-8")
    changed = paper.fill((out / "template.md").read_text(encoding="utf-8"), paper.numbers(paper.Kept(into)))
    assert "from 0.152 to 0.189;" in changed
    assert "from 0.152 to 0.0895;" in f"{HEAD}{' '.join(BODY.split())}"
    assert paper.series(paper.Kept(into))["together"] != paper.series(paper.Kept(RESULTS))["together"]


@pytest.mark.parametrize("text", ["{{a}}", "{{a}} {{b}} {{c}}"])
def test_a_number_that_one_side_lacks_is_refused(text: str) -> None:
    assert paper.fill("{{a}} {{b}}", {"a": "1", "b": "2"}) == "1 2"
    with pytest.raises(LookupError, match=r"not in both: [bc]"):
        paper.fill(text, {"a": "1", "b": "2"})


def test_what_a_finding_does_not_say_is_refused() -> None:
    with pytest.raises(LookupError, match="accuracy-together has nothing like"):
        paper.Kept(RESULTS).said("accuracy-together", "no such words")


def test_every_number_in_the_text_is_from_a_result_or_a_setting() -> None:
    text = " ".join(TEMPLATE.split("---\n", 2)[2].split())
    for pattern in (r"\{\{\w+\}\}", r"@\w+", r"\]\(\w+\.png\)", r"`[^`]*`", r"nycflights13"):
        text = re.sub(pattern, "", text)
    for setting in SETTINGS:
        assert setting in text, setting
        text = re.sub(rf"(?<![\w.]){re.escape(setting)}(?![\w.]*\d)", "", text)
    assert re.findall(r"\S*[\d⁰-⁹²³]\S*", text) == []


def test_statements_are_counted_over_the_four_papers() -> None:
    results = rendering.results_in(RESULTS / "results")
    sources = {one["source"] for one in results if one.get("source") and one["checks"]}
    own = {source for source in sources if source.startswith(("Kenthapadi", "Stausholm", "Li and Li", "Asi"))}
    others = {source for source in sources - own if "Theory" not in source}
    assert all(source.startswith(("Andersson", "Hillebrand", "Pagh")) for source in others)
    count = sum(len(one["checks"]) for one in results if one.get("source") in own)
    assert f"check {count} statements of the four papers" in " ".join(BODY.split())


def test_it_has_the_sections_and_the_length_that_the_journal_asks_for() -> None:
    assert re.findall(r"^# (.+)$", BODY, re.MULTILINE) == SECTIONS
    assert 750 <= len(BODY.split()) <= 1750
    assert re.search(r"^date: \d{1,2} [A-Z][a-z]+ 20\d\d$", HEAD, re.MULTILINE)
    for field in ("title: ", "tags:\n", "authors:\n", "affiliations:\n", "bibliography: paper.bib\n"):
        assert field in HEAD


def test_every_citation_resolves_and_every_entry_is_used() -> None:
    names = [name for _, name, _ in ENTRIES]
    assert len(names) == len(set(names))
    assert set(re.findall(r"(?<!\w)@(\w+)", BODY)) == set(names)


def test_every_entry_says_who_wrote_what_and_where_it_is() -> None:
    for kind, name, text in ENTRIES:
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", text, re.MULTILINE))
        assert fields.keys() >= {"title", "author"}, name
        where = {"article": "journal", "inproceedings": "booktitle", "misc": "title"}[kind]
        assert where in fields, name
        assert fields.keys() & {"doi", "url", "booktitle"}, name
        assert re.fullmatch(r"10\.\d{4,5}/\S+", fields.get("doi", "10.1000/x")), name
        assert fields.get("url", "https://").startswith("https://"), name


def test_the_papers_that_the_library_cites_are_cited() -> None:
    cited = re.findall(r"^    title: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    titles = {re.sub("[{}]", "", title) for _, _, text in ENTRIES for title in re.findall(r"title = \{(.*)\},", text)}
    assert len(cited) == 4
    assert set(cited) <= titles
