"""The walks of a datum: which calls are on a spine."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.walks import LEAST, WALKS, Walk, carries, traced


@pytest.mark.parametrize("name", sorted(WALKS.keys() - {"beam"}))
def test_a_spine_is_part_of_the_calls(name: str) -> None:
    walk = traced(name)
    assert walk.spine
    assert set(walk.spine) <= set(walk.calls)
    assert len(walk.spine) <= len(walk.carriers) < len(walk.functions)
    assert len(walk.calls) < walk.functions.total()


def test_an_update_passes_through_the_projection() -> None:
    assert traced("update").spine == [
        "sketching.sketch.Sketch.update",
        "projections.block_hashed.BlockHashed.add_to",
    ]


def test_the_datum_is_known_by_its_size() -> None:
    assert carries({"rows": (np.ones(LEAST),)})
    assert not carries([np.ones(LEAST - 1), np.zeros(LEAST), np.ones(LEAST, dtype=bool), "text", None])


def test_a_walk_counts_what_the_spine_leaves_out() -> None:
    """Helpers, properties and special methods, too."""
    walk = traced("update")
    names = {code.co_qualname for code in walk.carriers}
    assert {name.rpartition(".")[0].rpartition(".")[2] + "." + name.rpartition(".")[2] for name in walk.spine} <= names
    assert any(code.co_qualname.rpartition(".")[2].startswith("_") for code in walk.functions)


def test_files_that_call_each_other_are_named(tmp_path: Path) -> None:
    """Two files that call back and forth are a pair; a file that is only called is none."""
    sources = {
        "first": (
            "from {0} import second\ndef start(n): return second.on(n)\ndef back(n): return start(n - 1) if n else 0\n"
        ),
        "second": "from {0} import first, third\ndef on(n): return third.leaf(first.back(n))\n",
        "third": "def leaf(n): return n\n",
    }
    package = tmp_path / "walked"
    package.mkdir()
    for name, text in sources.items():
        (package / f"{name}.py").write_text(text.format("walked"))
    walk = Walk(f"{package}/")
    sys.path.insert(0, str(tmp_path))
    try:
        first = importlib.import_module("walked.first")
        with walk.traced():
            first.start(2)
    finally:
        sys.path.remove(str(tmp_path))
        for name in [name for name in sys.modules if name.partition(".")[0] == "walked"]:
            del sys.modules[name]
    assert walk.pairs == [("first", "second")]
    assert walk.functions.total() == 4 * 3
