"""BENCHMARKS.md as it is published: rendered from the kept results, short, and with links that lead somewhere."""

import json
import re
import shutil
from pathlib import Path

from benchmarks import rendering

FOLDER = Path(rendering.__file__).parent
PAGE = (FOLDER / "BENCHMARKS.md").read_text(encoding="utf-8")


def test_it_is_what_the_kept_results_render(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "results", tmp_path / "results")
    assert rendering.write(tmp_path).read_text(encoding="utf-8") == PAGE


def test_it_has_at_most_6000_words() -> None:
    assert len(PAGE.split()) <= 6_000


def test_its_links_lead_to_every_result_and_picture() -> None:
    linked = set(re.findall(r"\]\(((?:pictures|results)/[^)]*)\)", PAGE))
    there = {f"{kind}/{path.name}" for kind in ("pictures", "results") for path in (FOLDER / kind).iterdir()}
    assert linked == there


def test_each_processor_has_its_column(tmp_path: Path) -> None:
    result = json.loads((FOLDER / "results" / "speed-table.json").read_text(encoding="utf-8")) | {"pictures": {}}
    run, into = tmp_path / "run", tmp_path / "into"
    run.mkdir()
    name = next(row for row in result["rows"] if row["target"] is not None)["name"]
    for cpu, ratio in (("Intel", 3.21), ("AMD", 2.34), ("Intel", 3.45), ("ARM", 4.56)):  # the last is this processor's
        machine, rows = result["machine"] | {"cpu": cpu}, [row | {"ratio": ratio} for row in result["rows"]]
        text = json.dumps(result | {"machine": machine, "rows": rows})
        (run / "speed-table.json").write_text(text, encoding="utf-8")
        rendering.keep(run, into)
    page = rendering.write(into).read_text(encoding="utf-8").splitlines()
    (header,) = (line for line in page if "| time ratio |" in line)
    assert "| time ratio | ratio on AMD | ratio on Intel | target |" in header
    (row,) = (line for line in page if f"| {name} |" in line)
    assert "| 4.56 | 2.34 | 3.45 |" in row
