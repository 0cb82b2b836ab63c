"""release --dry-run: what would be published, without a look at the sums."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import streamsketch as ss
from streamsketch.sketching.exact import ExactSums
from streamsketch.storage import load_raw, save_raw
from tests.cli.agreeing import TERMS
from tests.cli.running import Forks

ROWS = pa.table({"shop": ["N", "N", "S", "S"], "item": [1, 2, 2, 3], "who": [1, 1, 2, 3]})
PROJECTION = ss.CountSketch(sketch_dim=64, seed=3, resolution="1/16384")
COLUMNS: dict[str, Any] = {"index": "item", "key": "shop", "unit": "who"}
LIMIT = ss.SketchL2(2, unit="customer", max_keys=1)
AGREEMENT = ss.Agreement(
    PROJECTION,
    **COLUMNS,
    neighbours=LIMIT,
    clip="equal",
    counting=ss.privacy.Counting.of(PROJECTION, LIMIT, delta=1e-6),
)
PRIVACY = ("--epsilon", 1, "--delta", 1e-6)
DRY = ("release", "shops.raw-sketch", "--dry-run", *PRIVACY, "--keys-are-public")


@pytest.fixture
def shops(tmp_path: Path) -> Path:
    save_raw(ss.bound(ROWS, AGREEMENT), tmp_path / "shops.raw-sketch")
    return tmp_path


def shown(text: str) -> str:
    return " ".join(text.split())


def test_it_says_what_the_release_is_then(shops: Path, forks: Forks) -> None:
    said, fields = (forks.succeeded(*DRY, *more, cwd=shops) for more in ((), ("--json",)))
    dry = json.loads(fields)
    forks.succeeded("release", "shops.raw-sketch", "-o", "shops.parquet", *PRIVACY, "--keys-are-public", cwd=shops)
    table = ss.load(shops / "shops.parquet")
    assert isinstance(table, ss.PrivateTable)
    assert dry["guarantee"] == table.guarantee.to_dict() | {"text": str(table.guarantee)}
    assert (dry["sketches"], dry["cells"], dry["columns"]) == (2, 64, table.to_arrow().schema.names)
    assert dry["bytes"] == pytest.approx(sum(len(one.to_bytes()) for one in table.rows), rel=0.1)
    assert dry["noise_deviation"] == pytest.approx(math.sqrt(table.rows[0].noise.k2) * PROJECTION.cell_unit)
    assert dry["count_errors"]["units"] == pytest.approx(table["N"].units.standard_error)
    assert (dry["dry_run"], dry["refused"]) == (True, False)
    for words in (str(table.guarantee), "2 sketches of 64 cells, and a count of customers with each", "in 95 %"):
        assert words in shown(said)
    assert f"fewer than about {math.ceil(dry['least_units'])} customers" in shown(said)


def test_a_sum_of_the_length_stated_is_below_the_floor_in_half_of_all_releases(shops: Path, forks: Forks) -> None:
    dry = json.loads(forks.succeeded(*DRY, "--json", cwd=shops))
    length, sure = dry["length_to_stand_out"].values()
    noise = dry["noise_deviation"]
    rng = np.random.default_rng(1)

    def below(length: float) -> float:
        cells = rng.normal(scale=length / 8, size=(4_000, 64)) + rng.normal(scale=noise, size=(4_000, 64))
        return float(((cells**2).sum(axis=1) - 64 * noise**2 <= 2 * math.sqrt(2 * 64) * noise**2).mean())

    assert below(length) == pytest.approx(0.5, abs=0.03)
    assert below(sure) == pytest.approx(0.05, abs=0.02)
    assert dry["least_units"] == pytest.approx(length / 2)


def test_it_depends_on_no_sum_and_leaves_no_trace(shops: Path, forks: Forks) -> None:
    """With zeros in place of all sums, and other largest units: the same bounds, keys and ids, the same words."""
    forks.succeeded("ledger", "init", "l.sqlite", "--dataset", "d", "--epsilon", 3, "--unit", "customer", cwd=shops)
    asked = (*DRY, "--ledger", "l.sqlite", "--dataset", "d")
    before = (shops / "shops.raw-sketch").read_bytes(), (shops / "l.sqlite").read_bytes()
    said = [forks.run(*asked, *more, cwd=shops) for more in ((), ("--json",))]
    assert ((shops / "shops.raw-sketch").read_bytes(), (shops / "l.sqlite").read_bytes()) == before
    assert {one.name for one in shops.iterdir()} == {"shops.raw-sketch", "l.sqlite", TERMS}
    raw = load_raw(shops / "shops.raw-sketch")
    table = raw.state
    assert isinstance(table, ss.SketchTable)
    for largest, size in ((0, 0), (1 << 40, 7_000)):
        cells = np.full((2, 64), size, dtype=np.int64)
        (shops / "shops.raw-sketch").unlink()
        changed = ss.SketchTable.from_state(
            PROJECTION,
            list(table),
            ExactSums.of(cells, np.full((2, 2), size, dtype=np.int64)),
            np.abs(cells).sum(axis=1),
            agreement=table.agreement,
            ids=table.data_ids,
            bounds=table.bounds,
            largest=largest,
        )
        save_raw(changed, shops / "shops.raw-sketch")
        again = [forks.run(*asked, *more, cwd=shops) for more in ((), ("--json",))]
        assert [(one.stdout, one.stderr, one.returncode) for one in again] == [
            (one.stdout, one.stderr, one.returncode) for one in said
        ]


def test_it_ends_with_1_where_the_release_would_be_refused(shops: Path, forks: Forks) -> None:
    forks.succeeded("ledger", "init", "l.sqlite", "--dataset", "d", "--epsilon", 1.5, "--unit", "customer", cwd=shops)
    charged = ("--ledger", "l.sqlite", "--dataset", "d")
    # a budget without δ has no room for a release that spends some
    refused = forks.run(*DRY, *charged, cwd=shops)
    assert refused.returncode == 1
    assert "would be refused: ε = 1, δ = 1e-06 does not fit into what is left of 'd'" in shown(refused.stdout)
    pure = ("release", "shops.raw-sketch", "--epsilon", 1, "--mechanism", "laplace", "--keys-are-public", *charged)
    fits = forks.succeeded(*pure, "--dry-run", cwd=shops)
    assert "would be charged ε = 1, δ = 0 of d, which has ε = 1.5, δ = 0 left" in shown(fits)
    forks.succeeded(*pure, "-o", "a.parquet", cwd=shops)
    again = forks.run(*DRY, "--json", cwd=shops)
    fields = json.loads(again.stdout)
    assert (again.returncode, fields["refused"], fields["released_before"]) == (1, True, 1)
    assert forks.run(*DRY, "--again", cwd=shops).returncode == 0
    assert "released once before; with this one, ε = 2" in shown(forks.run(*DRY, "--again", cwd=shops).stdout)


def test_one_stream_and_asserted_bounds(tmp_path: Path, forks: Forks) -> None:
    """Of a bound that nothing enforced, no number of units follows."""
    save_raw(ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch(), tmp_path / "a.raw-sketch")
    said = shown(forks.succeeded("release", "a.raw-sketch", "--dry-run", "--epsilon", 1, "--l1", 3, cwd=tmp_path))
    assert "1 sketch of 64 cells; about" in said
    assert "columns" not in said
    assert "too small" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*PRIVACY, "--keys-are-public"), "state where the release is written: --output FILE, or --dry-run for none"),
        (("--epsilon", 1, "--dry-run"), "which keys have data is private"),
        ((*PRIVACY, "--dry-run", "--keys-are-public", "-o", "a.sketch"), "written to a file named *.parquet"),
        ((*PRIVACY, "--dry-run", "--keys-are-public", "--l1", 3), "units are clipped to L1 by"),
        (("--epsilon", 1, "--dry-run", "--keys-are-public"), "delta"),
    ],
)
def test_it_is_refused_as_the_release_is(arguments: tuple[Any, ...], message: str, shops: Path, forks: Forks) -> None:
    assert message in forks.refused("release", "shops.raw-sketch", *arguments, cwd=shops)


@pytest.mark.parametrize("charged", [False, True])
def test_a_ledger_judges_a_dry_run_of_public_keys_as_the_release(
    charged: bool,  # noqa: FBT001
    shops: Path,
    forks: Forks,
) -> None:
    """One key's data were charged to a data set before, so both are charged, of which one has too little left."""
    for dataset, epsilon in (("own", 1.5), ("other", 9)):
        budget = ("--epsilon", epsilon, "--delta", 1e-3, "--unit", "customer")
        forks.succeeded("ledger", "init", "l.sqlite", "--dataset", dataset, *budget, cwd=shops)
    table = load_raw(shops / "shops.raw-sketch").state
    assert isinstance(table, ss.SketchTable)
    if charged:
        known: dict[str, Any] = {"ledger": ss.Ledger(shops / "l.sqlite"), "dataset": "own"}
        table["N"].release(epsilon=1.0, delta=1e-6, neighbours=LIMIT, **known)
    asked = (
        "release",
        "shops.raw-sketch",
        *PRIVACY,
        "--public-key",
        "N,S",
        "--ledger",
        "l.sqlite",
        "--dataset",
        "other",
    )
    dry = forks.run(*asked, "--dry-run", cwd=shops)
    real = forks.run(*asked, "-o", "shops.parquet", cwd=shops)
    assert bool(dry.returncode) == bool(real.returncode) == charged
    assert ("would be refused" in dry.stdout) == charged


AGREED: dict[str, tuple[dict[str, Any], str]] = {
    "listed keys": ({"keys": ["N", "S", "W"]}, "3 sketches of 64 cells, and a count of customers with each;"),
    "public keys": ({"keys": "public"}, "for each key of the rows, a sketch of 64 cells, and a count"),
    "one stream": ({"key": None}, "1 sketch of 64 cells, and a count of customers with each;"),
    "no units": (
        {"unit": None, "clip": None, "counting": None, "neighbours": ss.L1(2, unit="sale"), "keys": ["N"]},
        "1 sketch of 64 cells; about",
    ),
}


@pytest.mark.parametrize("name", AGREED)
def test_of_rows_it_says_as_much_and_no_row_is_read(name: str, tmp_path: Path, forks: Forks) -> None:
    changed, published = AGREED[name]
    fields = {**COLUMNS, "neighbours": LIMIT, "clip": "equal", "counting": AGREEMENT.counting} | changed
    agreement = ss.Agreement(PROJECTION, **fields, terms=ss.Terms(epsilon=1, delta=1e-6))
    agreement.save(tmp_path / "agreement.json")
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    call = ("release", "rows.parquet", "--agreement", "agreement.json")
    said, printed = (forks.succeeded(*call, "--dry-run", *more, cwd=tmp_path) for more in ((), ("--json",)))
    assert published in shown(said)
    assert "no row is read, and nothing is written or charged" in said
    assert "stands out a sum of length" in shown(said)
    assert ("too small a sum of fewer than about" in shown(said)) == (name != "no units")
    output = "out.sketch" if name == "one stream" else "out.parquet"
    forks.succeeded(*call, "-o", output, cwd=tmp_path)
    dry, released = json.loads(printed), ss.load(tmp_path / output)
    assert dry["guarantee"] == released.guarantee.to_dict() | {"text": str(released.guarantee)}
    assert (dry["agreement"], dry["cells"]) == (agreement.fingerprint, 64)
    (tmp_path / "rows.parquet").write_bytes(b"none")
    assert forks.succeeded(*call, "--dry-run", cwd=tmp_path) == said
