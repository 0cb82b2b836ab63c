"""The command: what it runs, writes, draws, lists and refuses, with made-up studies."""

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.main import get_command
from typer.testing import CliRunner

from benchmarks import accuracy, markdown, rendering, report
from benchmarks.__main__ import app
from benchmarks.data import Data
from benchmarks.registry import COMMANDS, entries
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check

REGISTERED = {command: list(entries(command)) for command in COMMANDS}
"""Before any is made up."""


def run_study(effort: Effort, data: Data) -> Study:
    figure = Figure()
    figure.subplots().plot([0, 1], [1, 0])
    cells = Table("some cells", ("what", "how many", "a | b"), [("x", np.int64(3), float("nan")), ("y", 0.5, np.inf)])
    found = f"run at {effort.name}, digits {data.digits().vectors.shape}, folder {data.folder is not None}"
    return Study([cells], found, {"line": figure})


def run_paper(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    checks = [
        Check("a halves", 0.52, 0.45, 0.55, error=0.02, unit="µs", data="digits"),
        Check("b | c grows", 3.0, 4.0, math.inf),
        Check("b | c grows", 1.0, 4.0, math.inf, data="MNIST"),
        Check("d is 2", 2.0, 2.0, 2.0),
        Check("e is small", math.nan, -math.inf, 1.0),
    ]
    return Study([], "found", source="Some et al. 2020, Figure 7", checks=checks, shortened="2 of 9 runs.")


def fail(effort: Effort, data: Data) -> Study:
    raise ArithmeticError(f"no result at {effort.name} {data}")


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register three studies that are nowhere on disk."""
    for name, run in (("fine", run_study), ("broken", fail), ("paper", run_paper)):
        module = ModuleType(f"benchmarks.accuracy.{name}", f"The {name} study.\n\nMore.")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(accuracy.NAMES, name, name)
    return


def invoke(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_a_study_is_written_as_json_markdown_and_a_picture(tmp_path: Path) -> None:
    code, output = invoke("accuracy", "fine", "--quick", "--data", tmp_path, "--out", tmp_path / "out")
    assert code == 0, output
    assert "More." not in output
    assert "some cells" in output
    finding = "run at quick, digits (1797, 64), folder True"
    assert finding in output
    written = json.loads((tmp_path / "out" / "accuracy-fine.json").read_text())
    assert written["title"] == "The fine study"
    assert written["effort"] == "quick"
    assert written["seconds"] >= 0
    assert written["tables"] == [
        {"title": "some cells", "columns": ["what", "how many", "a | b"], "rows": [["x", 3, None], ["y", 0.5, "∞"]]}
    ]
    assert written["pictures"] == {"line": "accuracy-fine-line.png"}
    assert (tmp_path / "out" / "accuracy-fine-line.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "accuracy-fine.md").read_text() == (
        f"# The fine study\n\n{finding}\n\n![The fine study: line](accuracy-fine-line.png)\n\n**some cells**\n\n"
        "| what | how many | a \\| b |\n| --- | --- | --- |\n| x | 3 |  |\n| y | 0.5 | ∞ |\n"
    )


def test_one_that_raises_does_not_stop_the_others_and_fails_the_run(tmp_path: Path) -> None:
    code, output = invoke("accuracy", "broken", "fine", "--quick", "--out", tmp_path)
    assert code == 1
    assert "ArithmeticError: no result at quick" in output
    assert "these failed, see above: broken" in output
    assert {path.stem for path in tmp_path.glob("*.json")} == {"accuracy-fine"}


def test_unknown_names_are_refused_with_the_list(tmp_path: Path) -> None:
    for command in COMMANDS:
        code, output = invoke(command, "nonesuch", "--out", tmp_path)
        assert code == 2
        assert f"{command} has no nonesuch; there are" in output
    assert "fine, broken, paper" in " ".join(invoke("accuracy", "nonesuch")[1].split())
    assert not list(tmp_path.iterdir())


def test_a_data_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    code, output = invoke("accuracy", "fine", "--data", tmp_path / "missing")
    assert code == 2
    assert "must be a folder" in output


def test_help_lists_the_names() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert set(commands) == {*COMMANDS, "keep", "paper", "render", "show"}
    for command in COMMANDS:
        assert set(REGISTERED[command]) <= set(re.split(r"[ ,.:]+", commands[command].params[0].help))


def test_speed_writes_ratios_with_a_picture(tmp_path: Path) -> None:
    code, output = invoke("speed", "wire", "--quick", "--out", tmp_path)
    assert code == 0, output
    written = json.loads((tmp_path / "speed-wire.json").read_text())
    assert written["effort"] == "quick"
    assert written["pictures"] == {"ratios": "speed-wire-ratios.png"}


def test_keep_writes_one_page_from_the_results_of_several_runs(tmp_path: Path) -> None:
    first, second, into = tmp_path / "first", tmp_path / "second", tmp_path / "into"
    assert invoke("accuracy", "fine", "--quick", "--out", first)[0] == 0
    assert invoke("speed", "events", "wire", "--quick", "--out", second)[0] == 0
    (second / "other.json").write_text("[]")
    for run in (first, second):
        code, output = invoke("keep", "--out", run, "--into", into)
        assert code == 0, output
    text = (into / "BENCHMARKS.md").read_text()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Benchmarks", "## Targets", "## Speed", "## Accuracy", "### The fine study"]
    pictures = {path.name for path in (into / "pictures").iterdir()}
    assert pictures == {"targets.png", "speed-events-ratios.png", "speed-wire-ratios.png", "accuracy-fine-line.png"}
    results = {path.name for path in (into / "results").iterdir()}
    assert results == {"accuracy-fine.json", "speed-events.json", "speed-wire.json"}
    assert set(re.findall(r"\((?:pictures|results)/([^)]*)\)", text)) == pictures | results
    assert invoke("render", "--into", into)[0] == 0
    assert (into / "BENCHMARKS.md").read_text() == text


def test_a_result_that_is_kept_is_the_runs_own_with_machine_date_and_command(tmp_path: Path) -> None:
    run, into = tmp_path / "run", tmp_path / "into"
    assert invoke("accuracy", "fine", "--quick", "--data", tmp_path, "--out", run)[0] == 0
    assert invoke("keep", "--out", run, "--into", into)[0] == 0
    kept = (into / "results" / "accuracy-fine.json").read_bytes()
    assert kept == (run / "accuracy-fine.json").read_bytes()
    result = json.loads(kept)
    assert result["ran"] == "python -m benchmarks accuracy fine --quick --data DIR"
    assert {"cpu", "cores", "python", "versions", "date"} <= set(result["machine"])
    for name in ("fine", "accuracy-fine"):
        code, output = invoke("show", name, "--into", into)
        assert code == 0
        assert "some cells" in output
        assert "∞" in output


def test_a_later_run_replaces_the_pictures_of_an_earlier_one(tmp_path: Path) -> None:
    run, into = tmp_path / "run", tmp_path / "into"
    assert invoke("accuracy", "fine", "paper", "--quick", "--out", run)[0] == 0
    rendering.keep(run, into)
    before = rendering.write(into).read_text()
    written = json.loads((run / "accuracy-fine.json").read_text()) | {"pictures": {}, "finding": "another run"}
    (run / "accuracy-fine.json").write_text(json.dumps(written))
    (run / "accuracy-paper.json").unlink()
    assert rendering.keep(run, into) == ["accuracy-fine"]
    assert not list((into / "pictures").iterdir())
    text = rendering.write(into).read_text()
    assert "another run" in text
    paper = "### The paper study"
    assert text[text.index(paper) :] == before[before.index(paper) :]


def test_the_page_begins_a_finding_and_leaves_the_rest_to_json() -> None:
    assert markdown.lead("A is 0.5 of b. It holds. So does c.\n\nMore.") == "A is 0.5 of b. It holds. So does c."
    assert markdown.lead("One. Two. Three. Four.") == "One. Two. Three."
    assert markdown.lead(f"One. A{' word' * 60}. Three.") == "One."


def test_checks_are_shown_with_tolerances_and_the_verdict_is_computed(tmp_path: Path) -> None:
    assert invoke("accuracy", "paper", "--quick", "--out", tmp_path)[0] == 0
    written = json.loads((tmp_path / "accuracy-paper.json").read_text())
    assert written["verdict"] == "differs in 2 of 5, 1 cannot be told"
    assert [check["holds"] for check in written["checks"]] == [True, False, False, True, None]
    text = (tmp_path / "accuracy-paper.md").read_text()
    assert text == (
        "# The paper study\n\nfound\n\n**Some et al. 2020, Figure 7: differs in 2 of 5, 1 cannot be told.** "
        "A quick run, not the paper's size.\n\n"
        "| claim | data | tolerance | this run | holds |\n| --- | --- | --- | --- | --- |\n"
        "| a halves | digits | 0.45 to 0.55 µs | 0.52 ± 0.02 µs | yes |\n"
        "| b \\| c grows |  | ≥ 4 | 3 | no |\n| b \\| c grows | MNIST | ≥ 4 | 1 | no |\n"
        "| d is 2 |  | 2 | 2 | yes |\n"
        "| e is small |  | ≤ 1 |  | cannot be told |\n"
    )
    assert markdown.size(written | {"effort": "full"}) == "Shortened: 2 of 9 runs."
    assert markdown.size(written | {"effort": "full", "shortened": ""}) == "Full size."


def test_the_page_says_in_what_a_study_differs_from_its_paper(tmp_path: Path) -> None:
    assert invoke("accuracy", "paper", "--out", tmp_path / "run")[0] == 0
    rendering.keep(tmp_path / "run", tmp_path)
    text = rendering.write(tmp_path).read_text()
    assert (
        "**Some et al. 2020, Figure 7: differs in 2 of 5, 1 cannot be told.** Differs in: b | c grows. Shortened."
        in text
    )


def test_keep_refuses_a_folder_without_results(tmp_path: Path) -> None:
    code, output = invoke("keep", "--out", tmp_path, "--into", tmp_path)
    assert code == 2
    assert "there are no results" in output


def test_long_tables_are_folded() -> None:
    rows = [[i] for i in range(30)]
    result = {"title": "T", "pictures": {}, "finding": "F", "tables": [{"title": "A", "columns": ["a"], "rows": rows}]}
    folded = markdown.section(result)
    assert "<details><summary>A: 30 rows</summary>" in folded
    assert "| 29 |" in folded


def test_what_json_has_no_name_for_is_translated() -> None:
    given = {"a": (np.float64(0.5), np.float64(1) > 0), 1: [float("-inf"), float("nan"), None, "x"]}
    assert report.plain(given) == {"a": [0.5, True], "1": ["-∞", None, None, "x"]}
