"""Which modules are a product's, an engine's or for people; and the core's journey with some of them blocked.

What is not in `PARTS` is the core, which works without any of them. ``python -m tests.removal signs local,once`` blocks
one, and then two others, and makes the journey of a release each time. As a plugin of pytest (``-p tests.removal``) it
blocks what ``BLOCKED`` names.
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

PRODUCTS: dict[str, tuple[str, ...]] = {
    "signs": ("signs", "wire.signs", "wire.sign_tables", "explanation.signs", "planning.sign_plans"),
    "local": ("local", "wire.local_reports"),
    "rounds": ("parties",),
    "ranges": ("continual", "schedules", "planning.schedules"),
    "sites": (
        "features",
        "estimation.populations",
        "estimation.sites",
        "planning.site_facts",
        "planning.site_plans",
        "planning.site_power",
    ),
}
ENGINES: dict[str, tuple[str, ...]] = {
    "once": ("once",),
    "machine": ("storage", "streams", "jobs"),
    "beam": ("beam",),
    "spark": ("spark",),
}
PEOPLE: dict[str, tuple[str, ...]] = {
    "people": ("planning", "report", "cli", "integrations", "conformance", "bounding", "auditing", "__main__"),
}
PARTS = {**PRODUCTS, **ENGINES, **PEOPLE}
OWNERS = {module: part for part, modules in PARTS.items() for module in modules}
_BLOCKED = "BLOCKED"  # an environment variable
LOADED = ("numba", "pandas", "pyarrow.parquet")
"""Libraries of others that a journey needs, loaded once for all forks."""


def part_of(module: str) -> str:
    """Return which part a module, named below the package, belongs to; ``"core"`` for all others."""
    while module:
        if module in OWNERS:
            return OWNERS[module]
        module = module.rpartition(".")[0]
    return "core"


class _Blocker(importlib.abc.MetaPathFinder):
    """A finder that finds no module of some parts."""

    def __init__(self, parts: Collection[str]) -> None:
        self._parts = parts

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Raise `ModuleNotFoundError` for what is blocked; leave others to the next finder."""
        package, _, module = fullname.partition(".")
        if package == "streamsketch" and part_of(module) in self._parts:
            raise ModuleNotFoundError(f"{fullname} is blocked", name=fullname)
        return None


def block(*parts: str) -> None:
    """Let no module of some parts be imported from now on."""
    loaded = [name.removeprefix("streamsketch.") for name in sys.modules if name.startswith("streamsketch.")]
    assert not [name for name in loaded if part_of(name) in parts], "imported before it was blocked"
    assert set(parts) <= set(PARTS), parts
    sys.meta_path.insert(0, _Blocker(parts))


def journey(folder: Path) -> None:
    """Agree, read rows, bound, release, charge, save, load, compare, explain, and the same for a table."""
    import pyarrow as pa  # noqa: PLC0415 - nothing is imported before a part is blocked

    import streamsketch as ss  # noqa: PLC0415

    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
    north, south = projection.sketch(), projection.sketch()
    north.update(["tea"] * 900 + ["milk"] * 300)
    south.update(["tea"] * 400 + ["milk"] * 700)
    x, y = (each.release(epsilon=8.0, neighbours=ss.L1(1, unit="sale")) for each in (north, south))
    assert ss.cosine(x, y).standard_error > 0

    shops, people, items = ["a", "b", "a", "c"], ["ann", "ann", "bob", "cid"], ["tea", "tea", "milk", "rum"]
    sales = pa.table({"shop": shops, "who": people, "item": items})
    agreement = ss.agree(
        sales,
        projection,
        index="item",
        key="shop",
        unit="who",
        neighbours=ss.L1(2, unit="person", max_keys=2),
        epsilon=20,
        keys=["a", "b", "c"],
    )
    assert ss.Agreement.from_json(agreement.to_json()) == agreement
    ledger = ss.Ledger(folder / "ledger")
    ledger.dataset("sales", epsilon=20.0, delta=0.0, unit="person")
    released = agreement.release(ss.bound(sales, agreement), ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 0
    for name, one in {"single.sketch": x, "table.parquet": released}.items():
        one.save(folder / name)
        assert ss.load(folder / name) == one
        assert type(one).from_bytes(one.to_bytes()) == one
        assert str(one.explain()) == str(ss.explain(ss.load(folder / name)))
    assert len(ss.pairwise(list(released.values()), by="distance").value) == 3
    assert ss.explain(released, released["a"]).counted == 1
    assert ss.compose([released, released["a"]], populations="overlapping") == released.guarantee
    folder.joinpath("damaged").write_bytes(b"no release")
    try:
        ss.load(folder / "damaged")
    except ss.errors.WireFormatError:
        pass
    else:
        raise AssertionError("a damaged file was read")


def asked_for(part: str, folder: Path) -> None:
    """Ask the core for what only a product has; a product that is not there is named by a `MissingProductError`."""
    import streamsketch as ss  # noqa: PLC0415
    from streamsketch.privacy.schedule_kinds import schedule_of  # noqa: PLC0415

    path = folder / "single.sketch"
    agreement = ss.Agreement(ss.CountSketch(sketch_dim=64, seed=7), index="item").to_dict()
    ask: dict[str, Callable[[], Any]] = {
        "signs": lambda: ss.PrivateSketch.any_from_bytes(b"\x89SSG\r\n\x1a\n"),
        "local": lambda: ss.PrivateSketch.any_from_bytes(b"\x89SSM\r\n\x1a\n"),
        "rounds": lambda: ss.load(path, signer=[]),
        "ranges": lambda: schedule_of({"kind": "tree", "horizon": 4}),
        "sites": lambda: ss.Agreement.from_json(json.dumps(agreement | {"features": {}})),
    }
    if part not in ask:
        return
    try:
        ask[part]()
    except ss.errors.MissingProductError as error:
        missing = str(error)
    else:
        missing = "nothing"
    assert any(f"streamsketch.{module}" in missing for module in PRODUCTS[part]), missing


def remove(*parts: str) -> None:
    """Block parts, make the journey of a release, and ask for what is missing."""
    block(*parts)
    with tempfile.TemporaryDirectory() as folder:
        journey(Path(folder))
        for part in parts:
            asked_for(part, Path(folder))


def remove_in_fork(*parts: str) -> str:
    """Call `remove` in a fork; return the last line of its error, or "" for a whole journey."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        try:
            remove(*parts)
        except BaseException:  # noqa: BLE001 - whatever it is, the fork must end here
            os.write(writing, traceback.format_exc().encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    return "" if status == 0 else (lines or [f"status {status}"])[-1]


def main(groups: Sequence[str]) -> dict[str, str]:
    """Return how the journey ends without each group of parts, which are separated by commas."""
    for library in LOADED:
        importlib.import_module(library)
    return {group: remove_in_fork(*group.split(",")) for group in groups}


if os.environ.get(_BLOCKED):
    block(*os.environ[_BLOCKED].split())

if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])))
