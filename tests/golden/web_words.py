"""What this library says in words, with which what the TypeScript package says is compared: ``make generated``."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.agreement import Agreement, Selected, Terms
from streamsketch.explanation.release import explain_release
from streamsketch.features import Features
from streamsketch.privacy import Counting
from tests.golden import make_kit

WEB = Path(__file__).parents[2] / "web/tests"
HEADINGS = ("Guarantee", "Protected", "Only if", "Meaning", "How", "Check")


def made() -> list[dict[str, Any]]:
    """Return what the library says of each release of the kit."""
    found = []
    for case in json.loads((make_kit.KIT / "releases.json").read_text(encoding="utf-8")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = explain_release(ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])))
        sections = {name: sentences for name, sentences in said.sections if name in HEADINGS}
        found.append(
            {"name": case["name"], "verdict": said.check.verdict}
            | sections
            | {"Not protected": said.not_protected, "Warnings": said.warnings}
        )
    return found


def agreements() -> list[dict[str, Any]]:
    """Return agreements of each shape, with their fingerprints."""
    projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=(1 << 64) - 1)
    neighbours = ss.L1(100, unit="customer")
    columns = {"item": "text", "when": "timestamp", "price": "decimal(2)", "new": "boolean"}
    bound = ss.L1("5/2", unit="customer", max_keys=3)
    features = json.loads((make_kit.KIT / "features.json").read_text(encoding="utf-8"))[0]["features"]
    people: dict[str, Any] = {"features": Features.from_json(features), "unit": "patient"}
    people["neighbours"] = ss.SketchL2.of_averages("patient", 1)
    found = [
        Agreement.of(projection, index="item"),
        Agreement(projection=ss.CountSketch(dim=1000, sketch_dim=64, seed=7), index="place", value="x"),
        Agreement(
            projection=projection, index=columns, key={"shop": "date"}, value="amount", unit="customer",
            neighbours=bound, clip="cut", missing="drop", title='Ä shop 🔑 "quoted" \\',
        ),
        Agreement(
            projection=projection, index="item", unit="customer", neighbours=neighbours,
            counting=Counting.of(projection, neighbours, delta=0.0),
        ),
        Agreement(features=Features.from_json(features), key="region"),
        Agreement.of(projection, index="item", neighbours=neighbours).replace(terms=Terms(epsilon=1, delta=1e-6)),
        Agreement(
            projection=projection, index="item", key={"shop": "date"}, neighbours=bound,
            terms=Terms(epsilon="0.25", mechanism="laplace"), keys=["2026-02-01", "2026-01-31"],
        ),
        Agreement(
            projection=projection, index="item", key="shop", unit="customer", neighbours=bound,
            terms=Terms(epsilon=2, delta=1e-9), keys=Selected(epsilon=0.1, delta=1e-10),
        ),
        Agreement(
            projection=projection, index="item", key={"shop": "bytes"}, neighbours=neighbours,
            terms=Terms(epsilon=2, mechanism="DP-Sign-logistic"), keys=[b"\x00\xff", b"a"],
        ),
        Agreement(
            projection=projection, index="item", key={"shop": "integer"}, neighbours=neighbours, keys=[7, -3, 12],
        ),
        Agreement(
            projection=projection, index="item", key="shop", neighbours=neighbours, terms=Terms(epsilon=1),
            keys="public",
        ),
        Agreement(projection=projection, index="item", text="NFKC, trim, fold, drop"),
        Agreement(projection=projection, index="item", text=None),
        *(Agreement(**people, rows_of_unit=rows) for rows in ("mean", "latest by at", "first by visit:integer", "all")),
        Agreement(**people, rows_of_unit="latest", windows=ss.Windows(time=("day", "date"), every="day")),
    ]  # fmt: skip
    return [{"json": one.to_json(), "fingerprint": one.fingerprint} for one in found]


FILES: dict[str, Callable[[], list[dict[str, Any]]]] = {"words.json": made, "agreements.json": agreements}


def text_of(cases: list[dict[str, Any]]) -> str:
    """Return a file's text."""
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in cases)
    return f"[\n{lines}\n]\n"
