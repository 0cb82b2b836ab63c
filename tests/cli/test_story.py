"""The examples of --help, run in one folder: what one writes, a later one reads, so that a copied example works."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.continual import Factorisation
from streamsketch.release import PrivateSketch
from streamsketch.schedules.releaser import Releaser
from tests.cli.running import Forks
from tests.cli.test_help import COMMANDS, help_at

# Examples, by command, and calls that no example has: what another party does, or an earlier day.
STORY = """
example demo
example guide
example plan streams
example plan units
example plan sites
agree --set sketch-dim=1024 --index item:text --unit-column customer:text --l1 5 --missing drop -o columns.json
example plan windows
example plan signs
agree --set sketch-dim=1024 --index item:text --unit-column customer:text --l1 5 --missing drop -o people.json
example check
example choose-bound
example agree
example sketch
agree north.raw-sketch --epsilon 1 --delta 1e-6 --keys-are-public -o north.json
sketch sales.csv --agreement agreement.json -o south.raw-sketch
agree south.raw-sketch --epsilon 1 --delta 1e-6 --keys-are-public -o south.json
release south.raw-sketch --agreement south.json -o south.parquet
agree --set sketch-dim=1024 --index item --key shop --unit-column customer --epsilon 1 --delta 1e-6 --keys-are-public \
-o shops.json
example release
example explain
example compare
example nearest
example frequency
example report
example party key new
example party key show
example party sign
example party verify
party key new south.pem --name South
agree --set sketch-dim=1024 --index item:text --unit-column customer:text --epsilon 1 --delta 1e-6 -o total.json
sketch sales.csv --agreement total.json -o total.raw-sketch
sketch sales.csv --agreement total.json -o second.raw-sketch
example party round new
example party round show
example party round sign
party round sign round.json --key south.pem --party north.pub
example party round contribute
party round contribute round.json second.raw-sketch --key south.pem -o south.contribution
example party round combine
sketch sales.csv --agreement total.json -o north.2.raw-sketch
release north.2.raw-sketch -o north.sketch
sketch sales.csv --agreement total.json -o south.2.raw-sketch
release south.2.raw-sketch -o south.sketch
example merge
agree --features features.json --unit-column customer:text --epsilon 1 --delta 1e-6 -o sites.json
release people.csv --agreement sites.json -o clinic.sketch
example describe
agree --set sketch-dim=1024 --index item:text --l1 1 --unit sale --window day --time day --set windows=keys \
--first 2024-05-01 --set last=2024-05-11 --epsilon 1 -o days.json
release dated.csv --agreement days.json -o windows.parquet
example changes
example history
example ledger init
example ledger show
example ledger charge
example ledger audit
example ledger export
"""
# They need a Kafka broker, a cluster or a minute, and are tested with stand-ins of these elsewhere.
ELSEWHERE = {
    "stream file",
    "stream pipe",
    "stream kafka",
    "stream beam",
    "stream watch",
    "stream publish",
    "stream replay",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the data of the examples."""
    things = ("tea", "jam", "oil", "rice")
    sales = [
        {"item": things[(n * n + n % 3 * place) % 4], "shop": shop, "customer": f"{shop} {n % 100}"}
        for place, shop in enumerate(("east", "west"))
        for n in range(600)
    ]
    pq.write_table(pa.Table.from_pylist(sales), _made(tmp_path / "sales") / "one.parquet")
    tables: dict[str, list[dict[str, object]]] = {
        "sales": [*sales],
        "people": [{"customer": f"c{n}", "age": 20 + n % 50} for n in range(400)],
        "dated": [{"item": things[n % 4], "day": f"2024-05-{1 + n // 100:02}"} for n in range(1_000)],
    }
    for name, rows in tables.items():
        with (tmp_path / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    columns = [{"name": "age", "kind": "number", "low": 0, "high": 110}]
    (tmp_path / "features.json").write_text(json.dumps({"columns": columns, "seed": 7, "joint": 8}))
    publish = ss.AdditiveNoise(epsilon=5.0, delta=1e-6, neighbours=ss.L1(1), schedule=Factorisation(horizon=31))
    projection = ss.SJLT(sketch_dim=32, sparsity=4, seed=3)
    releaser, releases = Releaser(publish, projection, history=b"8 bytes."), _made(tmp_path / "releases")
    for day in range(1, 32):
        released = releaser.add(projection.sketch())
        assert isinstance(released, PrivateSketch)
        released.save(releases / f"2024-05-{day:02}.sketch")
    signed = ss.signs.DPSignOPORPRR(epsilon=4, neighbours=ss.OneCoordinate(1))
    vectors = ss.projections.OPORP(dim=64, sketch_dim=64, seed=3)
    answers = {}
    for name in "abc":
        sketch = vectors.sketch()
        sketch.update(np.arange(64), np.arange(64) + ord(name))
        answers[name] = signed.release(sketch)
    ss.signs.SignTable(answers).save(tmp_path / "answers.parquet")
    return tmp_path


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_the_story_has_every_command_that_needs_no_other_server() -> None:
    told = {line.removeprefix("example ") for line in STORY.splitlines() if line.startswith("example ")}
    assert told | ELSEWHERE == set(COMMANDS)
    assert not told & ELSEWHERE


@pytest.mark.tools
def test_examples_work_when_they_are_copied_one_after_another(folder: Path, forks: Forks) -> None:
    for line in STORY.strip().splitlines():
        command = line.removeprefix("example ")
        calls = [command] if command == line else [call[len("streamsketch ") :] for call in help_at(command).examples]
        for call in calls:
            done = forks.run(*shlex.split(call), cwd=folder)
            assert done.returncode == 0, f"{call}: {done.stderr}"
            assert "warning" not in done.stderr, call
            assert not any(line != line.rstrip() for line in done.stdout.splitlines()), call
