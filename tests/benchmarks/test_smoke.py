"""Every benchmark runs at a tiny size. No time is asserted: figures are reported, by people who look at them."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import streamsketch as ss
from benchmarks import report, speed
from benchmarks.__main__ import app
from benchmarks.rows import TINY, Row, Target
from benchmarks.speed import startup
from benchmarks.speed.limits import hash_words, scatter_only
from benchmarks.speed.table import update_by_key
from benchmarks.speed.textbook import multiply
from benchmarks.timing import Timings, Work, interleave


@pytest.mark.parametrize("name", speed.NAMES)
def test_benchmark_runs_and_its_json_is_well_formed(name: str, tmp_path: Path) -> None:
    benchmark = speed.load(name)
    assert benchmark.title
    rows = benchmark.run(TINY)
    report.write(tmp_path, name, TINY, rows)
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["effort"] == "tiny"
    assert written["machine"].keys() >= {"cpu", "cores", "python", "versions", "date"}
    assert [row["name"] for row in written["rows"]] == [row.name for row in rows]
    for row in written["rows"]:
        assert row["unit"]
        assert row["ours"] > 0
        assert all(other > 0 for other in row["others"].values())
        assert (row["met"] is None) == (row["target"] is None)
    assert len((tmp_path / f"{name}.md").read_text().splitlines()) == len(rows) + 2


def test_the_import_is_timed_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare process that happens to be slower than one that imports takes nothing off it."""

    def python(_: str, *arguments: str) -> str:
        time.sleep(0.01 if arguments[-1] == "pass" else 0.0)
        return "0.125"

    monkeypatch.setattr(startup, "_python", python)
    assert [row.ours for row in startup.run(TINY) if "alone" in row.name] == [0.125]


def test_every_module_of_the_folder_is_registered_or_a_helper() -> None:
    folder = Path(speed.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "limits", "textbook"}
    assert modules == set(speed.NAMES)


def test_command_writes_results(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["speed", "wire", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "speed-wire.json").read_text())["effort"] == "quick"


def test_command_refuses_unknown_names() -> None:
    done = CliRunner().invoke(app, ["speed", "nonesuch"])
    assert done.exit_code == 2


def test_interleaving_alternates_and_warms_up_once() -> None:
    calls: list[str] = []
    contenders = {"a": Work(lambda: calls.append("a"), items=2), "b": Work(lambda: calls.append("b"))}
    timings = interleave(contenders, rounds=3)
    assert calls == ["a", "b"] * 4
    assert [len(seconds) for seconds in timings.seconds.values()] == [3, 3]


def test_ratio_is_the_median_of_the_rounds() -> None:
    timings = Timings({"a": [1.0, 4.0, 30.0], "b": [1.0, 2.0, 10.0]})
    assert timings.ratios("a", "b") == (1.5, 2.0, 2.5)
    assert timings.median("a") == 4.0


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (None, None),
        (Target("ours", 5.0), True),
        (Target("ours", 4.9), False),
        (Target("ratio", 2.0), True),
        (Target("ratio", 1.9), False),
    ],
)
def test_target_is_reported(target: Target | None, *, met: bool | None) -> None:
    assert Row("", "ns", 5.0, {}, ratio=2.0, target=target).met is met


@pytest.mark.parametrize("sparsity", [1, 4, 8, 16])
def test_scatter_limit_does_the_work_of_an_update(sparsity: int) -> None:
    rng = np.random.default_rng(1)
    indices, values = rng.integers(0, 1 << 60, 2000), rng.integers(-9, 10, 2000)
    projection = ss.SJLT(dim=1 << 60, sketch_dim=256, sparsity=sparsity, seed=7)
    words, slices = hash_words(projection, indices)
    scratch = scatter_only(words, values, slices.rows, slices.width)
    buckets = scratch.shape[1] // 2
    sketch = projection.sketch()
    sketch.update(indices, values)
    assert np.array_equal((scratch[:, :buckets] - scratch[:, buckets:]).ravel(), sketch.state)


def test_groupby_loop_does_the_work_of_a_table() -> None:
    rng = np.random.default_rng(1)
    codes, indices, values = rng.integers(0, 5, 300), rng.integers(0, 1 << 20, 300), rng.integers(-9, 10, 300)
    projection = ss.SJLT(dim=1 << 20, sketch_dim=64, sparsity=4, seed=7)
    table, sketches = projection.table(), [projection.sketch() for _ in range(5)]
    table.update(codes, indices, values)
    update_by_key(sketches, codes, indices, values)
    assert all(table[key] == sketches[key] for key in range(5))


def test_textbook_multiplies_modulo_the_prime() -> None:
    prime = (1 << 61) - 1
    for a, b in [(0, 5), (prime - 1, prime - 1), (1 << 60, 3), (123456789 << 30, 987654321 << 29)]:
        assert int(multiply(np.uint64(a % prime), np.uint64(b % prime))) == a % prime * (b % prime) % prime
