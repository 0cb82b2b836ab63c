"""Every benchmark runs at a tiny size. No time is asserted: figures are reported, by people who look at them."""

import contextlib
import functools
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from benchmarks import beam, rendering, report, speed
from benchmarks.beam import marginal, memory, processes
from benchmarks.data import Data
from benchmarks.figures import afnnt, kkmm, ll, stausholm
from benchmarks.registry import COMMANDS, Entry, entries
from benchmarks.rows import TINY, Row, Target
from benchmarks.speed import files, growth, signs, startup, wire
from benchmarks.speed.limits import additions_only, given_cells
from benchmarks.speed.table import update_by_key
from benchmarks.speed.textbook import multiply
from benchmarks.speed.update import c_update
from benchmarks.streams import backlog, closing, consume, soak
from benchmarks.timing import Timings, Work, interleave
from tests.cli.running import Forks
from tests.docs.pages import run_module
from tests.patience import PATIENCE

ALL = [entry for command in COMMANDS if command != "streams" for entry in entries(command).values()]
LONG = {
    *("update", "startup", "commands", "growth", "files", "delimited", "hadamard", "matrices", "local", "parties"),
    *("signs", "points", "coverage-all"),
    *("ingest", "marginal", "processes", "bounding", "features", "pairwise"),
    *(
        "standard-error",
        "crossover",
        "comparison",
        "coverage",
        "coverage-units",
        "clipped-sums",
        "coverage-points",
        "coverage-why",
        "same",
        "populations",
        "people",
    ),
    *("coverage-own", "own-signs", "histogram-sums"),
    *("st-lemma8", "st-map", "ll-retrieval", "ll-svm", "ll-fig7", "ll-fig8", "ll-fig11", "ll-fig12"),
    *("afnnt-fig1", "afnnt-fig3", "afnnt-fig4-5", "afnnt-table1"),
}
"""Entries that take a quarter of a second and more; every command, and each paper of ``figures``, has quicker ones."""
SOAK = {
    "rate": 1000,
    "windows": 3,
    "p50_seconds": 0.5,
    "p99_seconds": 1.5,
    "p99_intervals": 1.5,
    "delays": [0.5, 0.4, 1.5],
    "samples": [
        {
            "minutes": minute,
            "events": 60_000 * minute,
            "windows": 6 * minute,
            "checkpoint_kb": size,
            "memory_mb": {"task manager": 500.0, "Python": 300.0 + minute},
        }
        for minute, size in ((1, None), (2, 10.0), (3, 11.0))
    ],
    "trends": {
        "memory": {"mean": 800.0, "slope": 10.0, "low": 5.0, "high": 15.0, "verdict": "flat"},
        "checkpoint": {"mean": 10.5, "slope": 60.0, "low": 50.0, "high": 70.0, "verdict": "grows"},
        "short": {
            "mean": float("nan"),
            "slope": float("nan"),
            "low": float("nan"),
            "high": float("nan"),
            "verdict": "?",
        },
    },
}


def test_long_entries_are_a_part() -> None:
    assert {entry.name for entry in ALL} > LONG
    families = {entry.module.rpartition(".")[0] for entry in ALL}
    assert {entry.module.rpartition(".")[0] for entry in ALL if entry.name not in LONG} == families


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=f"{entry.command}-{entry.name}", marks=[pytest.mark.long] * (entry.name in LONG))
        for entry in ALL
    ],
)
def test_entry_runs_and_its_json_is_well_formed(
    entry: Entry, forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare_time(monkeypatch, forks, tmp_path)
    result = report.measure(entry, TINY, Data(), tmp_path)
    stem = f"{entry.command}-{entry.name}"
    written = json.loads((tmp_path / f"{stem}.json").read_text(), parse_constant=pytest.fail)
    assert written == result
    assert (written["command"], written["name"], written["effort"]) == (entry.command, entry.name, "tiny")
    assert written["title"]
    assert written["machine"].keys() >= {"cpu", "cores", "python", "versions", "date"}
    check_rows(written["rows"]) if "rows" in written else check_study(written)
    for file in written["pictures"].values():
        content = (tmp_path / file).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 100_000
    text = (tmp_path / f"{stem}.md").read_text()
    assert text.startswith(f"# {written['title']}\n")
    assert all(f"({file})" in text for file in written["pictures"].values())
    monkeypatch.setattr(report, "png", lambda _: b"")  # the overview of all targets, which another test draws
    assert rendering.keep(tmp_path, tmp_path / "rendered") == [stem]
    document = rendering.write(tmp_path / "rendered").read_text()
    assert f"[{entry.name}](results/{stem}.json)" in document


def spare_time(monkeypatch: pytest.MonkeyPatch, forks: Forks, folder: Path) -> None:
    """Run once what is run twice, and here or in a fork what starts Python anew: nobody looks at the figures here."""

    def forked(script: str, *arguments: str) -> str:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with forks.started(list(arguments), folder, script, **pipes) as running:
            said, wrong = running.stdout.read().decode(), running.stderr.read().decode()
            assert running.wait(PATIENCE) == 0, wrong
        return said

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        _, option, script, *arguments = command
        if option == "-m":
            return SimpleNamespace(stdout=run_module(script, *arguments))
        assert option == "-c"
        return SimpleNamespace(stdout=forked(f"{script}\nraise SystemExit", *arguments))

    def started(_: str, *arguments: str) -> str:
        if arguments[:2] == ("-m", "streamsketch"):
            return forked("", *arguments[2:])
        script = arguments[1] if arguments[0] == "-c" else f"import runpy; runpy.run_path({arguments[0]!r})"
        return forked(f"{script}\nraise SystemExit")

    def counted(path: Path, times: int, *, bounded: bool) -> float:
        return seconds(path, times, bounded=bounded) + times if times > 1 else 1.0

    seconds, kernels = marginal.processor_seconds, signs.blas_kernels()
    monkeypatch.setattr(interleave, "__kwdefaults__", interleave.__kwdefaults__ | {"warm_up": False})
    for module in (files, memory, signs):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(files, "sketched", functools.cache(files.sketched))
    monkeypatch.setattr(startup, "run_python", started)
    monkeypatch.setattr(signs, "blas_kernels", lambda: kernels[:1])
    monkeypatch.setattr(marginal, "processor_seconds", counted)
    monkeypatch.setattr(processes, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))


def check_rows(rows: list[dict[str, Any]]) -> None:
    assert rows
    for row in rows:
        assert row["name"]
        assert row["unit"]
        assert row["ours"] > 0
        assert all(other > 0 for other in row["others"].values())
        assert (row["met"] is None) == (row["target"] is None)


def check_study(study: dict[str, Any]) -> None:
    assert study["tables"] or study["pictures"]
    assert study["finding"].strip()
    for table in study["tables"]:
        assert table["title"]
        assert table["rows"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_a_soak_is_told_with_its_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "soak", lambda *_, **__: SOAK)
    written = report.measure(entries("streams")["soak"], TINY, Data(), tmp_path)
    check_study(written)
    assert [one["holds"] for one in written["checks"]] == [True, True, False, None]
    rendering.keep(tmp_path, tmp_path / "rendered")
    rendered = rendering.write(tmp_path / "rendered").read_text()
    assert "## Streams" in rendered
    assert "1.50 checkpoint intervals" in rendered


def test_a_backlog_is_told_beside_counting_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {False: 500_000, True: 2_000_000}
    monkeypatch.setattr(backlog, "backlog", lambda *_, count_alone, **__: {"events_a_second": rates[count_alone]})
    written = report.measure(entries("streams")["backlog"], TINY, Data(), tmp_path)
    check_rows(written["rows"])
    assert [(row["ours"], row["ratio"], row["met"]) for row in written["rows"]] == [(2000, 4, False), (2000, 4, True)]


def test_consuming_is_reported_beside_counting_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0, 0.0003, 0, 0.0001] * 2)
    writer = contextlib.nullcontext(SimpleNamespace(write=lambda *_: None))
    kafka = contextlib.nullcontext(SimpleNamespace(create=lambda *_: None, writer=lambda _: writer))
    monkeypatch.setattr(consume, "Kafka", lambda *_: kafka)
    monkeypatch.setattr(consume, "consume_topic", lambda *_: None)
    monkeypatch.setattr(consume, "count_topic", lambda *_: None)
    monkeypatch.setattr(consume, "time", SimpleNamespace(process_time=lambda: next(times)))
    written = report.measure(entries("streams")["consume"], TINY, Data(), tmp_path)
    check_rows(written["rows"])
    assert [round(row["ratio"], 3) for row in written["rows"]] == [3, 3]


def test_closing_a_window_is_reported_beside_its_noise(tmp_path: Path) -> None:
    written = report.measure(entries("streams")["closing"], TINY, Data(), tmp_path)
    check_rows(written["rows"])
    assert {row["target"]["ours"] for row in written["rows"]} == {closing.GOAL}


def test_the_import_is_timed_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare process that happens to be slower than one that imports takes nothing off it."""

    def python(_: str, *arguments: str) -> str:
        time.sleep(0.01 if arguments[-1] == "pass" else 0.0)
        return "0.125"

    monkeypatch.setattr(startup, "run_python", python)
    assert [row.ours for row in startup.run(TINY) if "alone" in row.name] == [0.125]


def test_names_are_distinct_and_every_module_is_registered_or_a_helper() -> None:
    helpers = {"compiler", "limits", "textbook"}
    for package, names in ((speed, speed.NAMES), (beam, beam.NAMES)):
        modules = {path.stem for path in Path(str(package.__file__)).parent.glob("*.py")} - {"__init__"} - helpers
        assert modules == set(names.values())
    figures = [name for paper in (kkmm, stausholm, ll, afnnt) for name in paper.NAMES]
    assert len(figures) == len(set(figures))


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
def test_the_additions_alone_do_the_work_of_an_update(sparsity: int) -> None:
    rng = np.random.default_rng(1)
    indices, values = rng.integers(0, 1 << 60, 2000), rng.integers(-9, 10, 2000)
    projection = ss.SJLT(dim=1 << 60, sketch_dim=256, sparsity=sparsity, seed=7)
    cells, size = given_cells(projection, indices)
    scratch = additions_only(cells, values, size).reshape(sparsity, -1)
    buckets = scratch.shape[1] // 2
    sketch = projection.sketch()
    sketch.update(indices, values)
    assert np.array_equal((scratch[:, :buckets] - scratch[:, buckets:]).ravel(), sketch.state())


@pytest.mark.parametrize(("sparsity", "sketch_dim", "bits"), [(8, 1024, 32), (8, 1024, 60), (24, 3072, 20)])
def test_c_update_has_the_same_bits(sparsity: int, sketch_dim: int, bits: int) -> None:
    rng = np.random.default_rng(1)
    projection = ss.SJLT(dim=1 << bits, sketch_dim=sketch_dim, sparsity=sparsity, independence=6, seed=7)
    sketch, state, mass = projection.sketch(), np.zeros(sketch_dim, dtype=np.int64), 0
    in_c = c_update(projection)
    if in_c is None:
        pytest.skip("no C compiler")
    for n in (3000, 1, 512):  # with a rest behind the last whole block, and without
        indices, values = rng.integers(0, 1 << bits, n), rng.integers(-(1 << 40), 1 << 40, n)
        sketch.update(indices, values)
        largest, added = in_c(indices, values, state)
        assert largest == indices.max()
        mass += added
    assert np.array_equal(sketch.state(), state)
    assert sketch.mass == mass


def test_protobuf_peer_reads_what_it_writes() -> None:
    cells = np.array([0, -1, 1 << 60, -(1 << 62)])
    for packed in (True, False):
        message = wire.message(packed=packed)
        assert np.array_equal(wire.decoded(message, wire.encoded(message, cells)), cells)


def test_slopes_are_those_of_power_laws() -> None:
    times = {1 << i: 3.0 * 2 ** (0.7 * i) for i in range(5)}
    fitted = growth.Fitted(growth.Line("", "", 1, "", {}), times)
    assert abs(fitted.slope - 0.7) < 1e-12
    assert abs(fitted.spread - 2**2.8) < 1e-9


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
