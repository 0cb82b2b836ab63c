"""Reads, checks, compares and explains the conformance kit without the libraries that sketches are made with.

Run in a process of its own, which prints how much it read; an error ends it.
"""

import importlib.abc
import json
import math
import sys
import warnings
from importlib.resources import files
from typing import Any

REFUSED = {"apache_beam", "cryptography", "jinja2", "llvmlite", "numba", "pyarrow", "rich", "scipy", "typer"}


class Refuse(importlib.abc.MetaPathFinder):
    """Finds none of the libraries that the reader is installed without."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise `ModuleNotFoundError` for these libraries."""
        del path, target
        if fullname.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


sys.meta_path.insert(0, Refuse())
warnings.simplefilter("ignore")  # some releases of the kit state too little noise

import streamsketch as ss  # noqa: E402
from streamsketch.errors import InvalidInputError, WireFormatError  # noqa: E402
from streamsketch.signs import IndividualSignSketch, SignSketch, SignTable, angle  # noqa: E402
from streamsketch.signs import cosine as sign_cosine  # noqa: E402

ESTIMATES = {
    name: getattr(ss.estimation, name)
    for name in (
        *("cosine", "inner_product", "mean_distance", "mean_norm", "mean_product"),
        *("squared_distance", "squared_norm"),
    )
}


def kit(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file of the kit."""
    cases: list[dict[str, Any]] = json.loads(files("streamsketch.conformance").joinpath(f"{name}.json").read_text())
    return cases


def near(found: float | None, expected: dict[str, Any]) -> bool:
    """Return whether a number is within the kit's tolerance of the right one, None and infinite ends included."""
    if expected["value"] is None:
        return found is None or not math.isfinite(found)
    return found is not None and abs(found - expected["value"]) <= expected["within"]


def check_remedy(error: ModuleNotFoundError) -> None:
    """Raise `AssertionError` unless an error says what to install."""
    assert "install streamsketch" in str(error), error


releases = {case["name"]: ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])) for case in kit("releases")}
counts = {
    "releases": len(releases),
    "estimates": 0,
    "frequencies": 0,
    "tables": 0,
    "signs": 0,
    "refused": 0,
    "explained": 0,
}
takes_kernels = set()
for name, release in releases.items():
    assert ss.PrivateSketch.from_bytes(release.to_bytes()) == release
    try:
        assert "ε" in str(ss.explain(release)), name
        counts["explained"] += 1
    except ModuleNotFoundError as error:
        check_remedy(error)
        takes_kernels.add(name)
for case in kit("estimates"):
    of = [releases[name] for name in case["of"]]
    if case["estimate"] not in ESTIMATES or case.get("undefined") or takes_kernels & set(case["of"]):
        continue
    estimate = ESTIMATES[case["estimate"]](*of)
    assert near(estimate.value, case["value"]), case
    assert near(estimate.standard_error, case["standard_error"]), case
    assert estimate.interval(0.95)[0] <= estimate.interval(0.95)[1], case
    counts["estimates"] += 1
for case in kit("frequencies"):
    if len(case["of"]) > 1 or "dictionary" in case or case.get("undefined"):
        continue
    single = releases[case["of"][0]]
    try:
        estimate = ss.frequency(single, int(case["item"]), estimator=case["estimator"])
    except ModuleNotFoundError as error:
        check_remedy(error)
        continue
    assert near(estimate.value, case["value"]), case
    assert near(estimate.standard_error, case["standard_error"]), case
    counts["frequencies"] += 1
for case in kit("tables"):
    kind = {"PrivateTable": ss.PrivateTable, "SignTable": SignTable}[case["kind"]]
    table = kind.from_bytes(bytes.fromhex(case["bytes"]))
    assert sorted(row.to_bytes().hex() for row in table.rows) == sorted(case["rows"]), case["name"]
    counts["tables"] += 1
signs = {}
for case in kit("signs"):
    kind = {"SignSketch": SignSketch, "IndividualSignSketch": IndividualSignSketch}[case["kind"]]
    signs[case["name"]] = kind.from_bytes(bytes.fromhex(case["bytes"]))
for case in kit("sign_estimates"):
    norms = {} if not case.get("norms") else dict(zip(("norm_x", "norm_y"), case["norms"], strict=True))
    for estimator in (angle, sign_cosine):
        try:
            estimate = estimator(*(signs[name] for name in case["of"]), **norms)
        except InvalidInputError:  # noise of which nothing is known
            continue
        estimate.interval(0.95)
        counts["signs"] += 1
for case in kit("refused"):
    if case["kind"] == "PrivateSketch":
        try:
            ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"]))
        except WireFormatError:
            counts["refused"] += 1
        else:
            raise AssertionError(case["name"])
try:
    ss.SJLT(dim=9, sketch_dim=4, sparsity=1, seed=1).sketch().update([1, 2, 3])
except ModuleNotFoundError as error:
    check_remedy(error)
else:
    raise AssertionError("a sketch was made")
loaded = sorted(REFUSED & set(sys.modules))
assert not loaded, loaded
sys.stdout.write(json.dumps({**counts, "takes kernels": sorted(takes_kernels)}))
