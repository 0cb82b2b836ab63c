"""Features of rows in what is made of sketches: files appended to and merged, rounds, ledgers, signatures."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.parties import Key, Round, sign, verify
from streamsketch.storage import load_raw
from tests.cli.running import Forks
from tests.features.test_paths import AGREEMENT, FEATURES, ROWS, expected, states

QUIET = pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")
ONE_STREAM = AGREEMENT.replace(key=None, counting=ss.privacy.Counting(1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("first", ROWS.slice(0, 2)), ("second", ROWS.slice(2))):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    AGREEMENT.save(tmp_path / "agreement.json")
    return tmp_path


def sketch(name: str, output: str, *more: str) -> list[str]:
    return ["sketch", f"{name}.parquet", "--agreement", "agreement.json", "-o", output, *more]


def test_files_of_features_are_appended_to_and_merged(folder: Path, forks: Forks) -> None:
    forks.succeeded(*sketch("first", "a.raw-sketch"), cwd=folder)
    forks.succeeded(*sketch("second", "b.raw-sketch"), cwd=folder)
    forks.succeeded("merge", "a.raw-sketch", "b.raw-sketch", "-o", "sum.raw-sketch", cwd=folder)
    forks.succeeded(*sketch("second", "a.raw-sketch", "--append"), cwd=folder)
    for name in ("a", "sum"):
        raw = load_raw(folder / f"{name}.raw-sketch")
        assert states(raw.state) == expected(ROWS), name
        assert (raw.agreement, raw.events) == (AGREEMENT, len(ROWS)), name


@QUIET
@pytest.mark.usefixtures("silent_noise")
def test_a_release_of_features_is_charged_signed_and_names_its_agreement(folder: Path, forks: Forks) -> None:
    ledger = ss.Ledger(folder / "ledger.sqlite")
    ledger.dataset("ward", unit="patient", epsilon=3, delta=1e-5)
    forks.succeeded(*sketch("first", "a.raw-sketch"), cwd=folder)
    charge = ["--ledger", "ledger.sqlite", "--dataset", "ward", "--public-key", "N,S"]
    forks.succeeded(
        *("release", "a.raw-sketch", "--epsilon", 2, "--delta", 1e-6, *charge, "-o", "a.parquet"), cwd=folder
    )
    assert ledger.left("ward").epsilon == 1
    table = ss.load(folder / "a.parquet")
    assert {site: one.values.tolist() for site, one in table.items()} == expected(ROWS.slice(0, 2))
    terms = AGREEMENT.replace(terms=ss.Terms(epsilon=2, delta="1e-06"), keys=["N", "S"])
    assert {one.agreement for one in table.values()} == {terms.fingerprint}
    assert str(table["N"].guarantee.neighbours) == str(ss.SketchL2(1, unit="patient", max_keys=1))
    key = Key.generate("North")
    sign(folder / "a.parquet", key)
    assert verify(folder / "a.parquet", key.public)


@QUIET
@pytest.mark.usefixtures("silent_noise")
def test_a_round_sums_features_of_parties() -> None:
    keys = [Key.generate(name) for name in ("North", "South")]
    people = {"neighbours": ONE_STREAM.neighbours, "counting": ONE_STREAM.counting, "clip": ONE_STREAM.clip}
    parties = [key.public for key in keys]
    agreed = Round(FEATURES.projection, epsilon=1, delta=1e-6, parties=parties, **people)  # type: ignore[arg-type]
    parts = [ROWS.slice(0, 2), ROWS.slice(2)]
    sketches: list[Any] = [ss.bound(rows, ONE_STREAM) for rows in parts]
    sent = [agreed.contribute(one, key) for one, key in zip(sketches, keys, strict=True)]
    released = agreed.combine(sent)
    assert released.values.tolist() == np.sum(list(expected(ROWS).values()), axis=0).tolist()
    assert released.units.value == len(ROWS)
    described = ss.estimation.describe(released.with_agreement(ONE_STREAM.fingerprint), ONE_STREAM)
    assert set(described["column"].to_pylist()) == set(FEATURES.columns)
