"""The retrieval benchmark: it runs on a file or on the digits, and its curves are in the paper's order."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import retrieval
from benchmarks.__main__ import app

pytest.importorskip("sklearn")


def test_curves_are_in_the_papers_order() -> None:
    """On the digits: iDP-SignRP nearly flat and above the rest at small ε, SignOPORP-smooth above SignRP-RR."""
    names = ["DP-SignRP-RR", "DP-SignRP-RR, paper's count", "DP-SignOPORP-RR-smooth", "DP-OPORP", "iDP-SignRP-RR"]
    points = retrieval.measure(
        retrieval.read_images(None), [64], epsilons=[0.5, 3.0], queries=100, collection=1000, names=names
    )
    at = {(point.method, point.epsilon): point.precision_at_10 for point in points}
    chance = retrieval.TRUTH / 1000
    assert at["iDP-SignRP-RR", 0.5] > 0.5
    assert at["iDP-SignRP-RR", 3.0] < 1.3 * at["iDP-SignRP-RR", 0.5]
    assert all(at[name, 0.5] < 3 * chance for name in names[:4])
    assert at["DP-SignOPORP-RR-smooth", 3.0] > 1.5 * max(at[name, 3.0] for name in names[:2])


def test_a_file_of_images_is_read_and_results_are_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "some.npz", x_train=rng.integers(1, 256, (160, 4, 4), dtype=np.uint8))
    command = ["retrieval", "--data", str(tmp_path / "some.npz"), "--sketch-dim", "16", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*command, "--queries", "5", "--collection", "120"])
    assert done.exit_code == 0, done.output
    results = json.loads((tmp_path / "retrieval-some.json").read_text())
    assert len(results["points"]) == len(retrieval.EPSILONS) * 13
    assert all(0 <= point["recall_at_100"] <= 1 for point in results["points"])
    text = (tmp_path / "retrieval-some.md").read_text()
    assert text.count("\n| ") == 15
