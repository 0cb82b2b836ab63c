"""viewer: the page is the package's, written whole and over nothing."""

import json
from pathlib import Path

from streamsketch.report import viewer_page
from tests.cli.running import Forks


def test_the_viewer_is_written_and_replaces_nothing(tmp_path: Path, forks: Forks) -> None:
    assert "drop releases" in forks.run("report", "--viewer", "--output", "viewer.html", cwd=tmp_path).stderr
    assert (tmp_path / "viewer.html").read_text("utf-8") == viewer_page()
    assert "already exists" in forks.refused("report", "--viewer", "-o", "viewer.html", cwd=tmp_path)
    assert "named *.html" in forks.refused("report", "--viewer", "-o", "viewer.js", cwd=tmp_path)
    said = json.loads(forks.succeeded("report", "--viewer", "-o", "again.html", "--json", cwd=tmp_path))
    assert said == {"file": "again.html", "bytes": (tmp_path / "again.html").stat().st_size}
