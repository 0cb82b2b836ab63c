"""The walks of a datum: which calls are on a spine."""

import numpy as np
import pytest

from benchmarks.walks import LEAST, WALKS, carries, traced


@pytest.mark.parametrize("name", sorted(WALKS.keys() - {"beam"}))
def test_a_spine_is_part_of_the_calls(name: str) -> None:
    walk = traced(name)
    assert walk.spine
    assert set(walk.spine) <= set(walk.calls)
    assert len(walk.spine) < len(set(walk.calls))


def test_an_update_passes_through_the_projection() -> None:
    assert traced("update").spine == [
        "sketching.sketch.Sketch.update",
        "projections.sjlt.SJLT.add_to",
        "projections.block_hashed.BlockHashed.add_to",
    ]


def test_the_datum_is_known_by_its_size() -> None:
    assert carries({"rows": (np.ones(LEAST),)})
    assert not carries([np.ones(LEAST - 1), np.zeros(LEAST), np.ones(LEAST, dtype=bool), "text", None])
