"""The worked examples of WIRE.md and of the script beside it."""

import subprocess
import sys
from pathlib import Path

import streamsketch
from streamsketch import SJLT
from streamsketch.conformance import column
from tests import naive

ROOT = Path(streamsketch.__file__).parent


def test_the_word_in_the_description_is_right() -> None:
    word = naive.polynomial_at(5, naive.field_elements(7, "example", 4))
    assert f'`word("example", 0, 5)` is {word}.' in (ROOT / "wire" / "WIRE.md").read_text(encoding="utf-8")
    assert naive.product(1 << 63, 2) == 0x1B


def test_the_script_prints_a_column() -> None:
    script = str(Path(column.__file__))
    done = subprocess.run(  # noqa: S603
        [sys.executable, script, "2024", "64", "4", "8", "17"], capture_output=True, text=True, check=True
    )
    dense = SJLT(dim=100, sketch_dim=64, sparsity=4, seed=2024).columns([17])[:, 0]
    assert done.stdout.strip() == str([(int(row), int(dense[row])) for row in dense.nonzero()[0]])
