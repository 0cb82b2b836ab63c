"""What the TypeScript package makes of histograms and of agreements is compared with a file of this library's results.

``make generated`` writes the file again, with the releases it has.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import StreamsketchError
from streamsketch.privacy import Counting
from streamsketch.projections import Identity

FILE = Path(__file__).parents[2] / "web/tests/sums.json"
ESTIMATES = {"l1Norm": ss.estimation.l1_norm, "distinct": ss.estimation.distinct, "entropy": ss.estimation.entropy}
AGREEMENT = "00112233445566778899aabbccddeeff"


def facts_of(release: ss.PrivateSketch) -> dict[str, Any]:
    """Return estimates of a release, null where there is none, and its bytes under another agreement."""
    found: dict[str, Any] = {"agreed": release.with_agreement(AGREEMENT).to_bytes().hex()}
    for name, estimate in ESTIMATES.items():
        for nonnegative in (False, True):
            try:
                one = estimate(release, nonnegative=nonnegative)
            except StreamsketchError:
                found[f"{name} {nonnegative}"] = None
                continue
            low, high = one.interval()
            found[f"{name} {nonnegative}"] = [one.value, one.variance, low, high]
    return found


def released() -> dict[str, ss.PrivateSketch]:
    """Return histograms under narrow, wide and several noises, of a finer grid, and with a published total."""
    rng = np.random.default_rng(36)

    def one(entries: Any, epsilon: float, projection: Any = None, **options: Any) -> ss.PrivateSketch:
        sketch = (projection or Identity(dim=len(entries))).sketch()
        sketch.update(np.arange(len(entries)), np.asarray(entries))
        return sketch.release(epsilon=epsilon, neighbours=ss.L1(50, unit="sale"), **options)

    many = np.concatenate([rng.integers(-900, 900, 40), np.zeros(160, dtype=np.int64)])
    found = {
        "narrow": one(many, 150.0),
        "one step": one(many, 50.0),
        "wide": one(many, 5.0),
        "wide, hardly any at zero": one(rng.integers(500, 9000, 30), 1.0),
        "gaussian": one(many, 1.0, delta=1e-6, mechanism="gaussian"),
        "finer": one(many, 150.0, Identity(dim=200, resolution="1/4")),
    }
    found["two"] = found["narrow"].combine(one(many, 100.0), populations="disjoint")
    found["negative"] = found["two"].scaled("-3/2")
    projection = Identity(dim=12)
    neighbours = ss.L1(40, unit="customer")
    agreement = ss.Agreement(
        projection, index="item", value="sold", unit="customer", neighbours=neighbours, clip="cut",
        counting=Counting.of(projection, neighbours, delta=0.0),
    )  # fmt: skip
    rows = {name: rng.integers(1, 12, 400) for name in ("item", "sold")}
    sums: Any = ss.bound(pa.table({**rows, "customer": rng.integers(0, 90, 400)}), agreement)
    return found | {"counted": sums.release(epsilon=1.0, neighbours=neighbours)}


def cases() -> list[dict[str, Any]]:
    return json.loads(FILE.read_text("utf-8")) if FILE.exists() else []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_file_has_what_the_library_computes(case: dict[str, Any]) -> None:
    found = facts_of(ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])))
    assert found["agreed"] == case["agreed"]
    for name in set(found) - {"agreed"}:
        if case[name] is None:
            assert found[name] is None
        else:
            assert found[name] == pytest.approx(case[name], rel=1e-9, nan_ok=True)


def current_text() -> str:
    """Return the text of the file, with what the library computes of its releases today."""
    known = {case["name"]: ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])) for case in cases()}
    made = [
        {"name": name, "bytes": (one := known.get(name, release)).to_bytes().hex()} | facts_of(one)
        for name, release in released().items()
    ]
    return json.dumps(made, indent=1) + "\n"
