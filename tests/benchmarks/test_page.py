"""BENCHMARKS.md as it is published: rendered from the kept results, short, and with links that lead somewhere."""

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
