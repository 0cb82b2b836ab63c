"""Builds the conformance kit, streamsketch/conformance/*.json: ``make generated``.

Nothing here asks the library. Columns, keys' indices and states are those of the golden files, which the twins made;
cells of releases come from the twins of ``tests/oracles/naive_maps.py``, bytes from the writer of ``reader.py``, and
estimates from exact fractions. The same golden files give the same kit.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.golden import (
    averages,
    estimates,
    exact_numbers,
    frequencies,
    interval_ends,
    joint,
    laws,
    reader,
    sameness,
    sign_estimates,
)
from tests.golden.kit_agreements import agreements
from tests.golden.kit_features import features
from tests.golden.kit_local import local
from tests.golden.kit_parties import contributions
from tests.golden.kit_people import people
from tests.golden.kit_refused import refused
from tests.golden.kit_releases import Message, column, load, projection_fields, releases
from tests.golden.kit_signs import NORMS, published
from tests.golden.kit_spellings import spellings
from tests.golden.kit_statements import statements
from tests.golden.kit_tables import refused_tables, tables
from tests.golden.sign_estimates import json_of
from tests.oracles import naive

KIT = Path(__file__).parents[2] / "streamsketch" / "conformance"
STRINGS = {"dim", "seed", "numerator", "denominator"}
"""Integers that may pass 2^53 are decimal strings."""

_ESTIMATORS: dict[str, Callable[..., exact_numbers.Expected]] = {
    "squared_norm": estimates.squared_norm,
    "squared_distance": estimates.squared_distance,
    "inner_product": estimates.inner_product,
    "cosine": estimates.cosine,
    "normalised_inner_product": estimates.normalised_inner_product,
    "mean_norm": averages.mean_norm,
    "mean_product": averages.mean_product,
    "mean_distance": averages.mean_distance,
    "units": averages.units,
    "total": averages.total_of_units,
}
CROWDS = ["a range of a crowd", "a range of a crowd of another town"]
"""Of enough units for averages, in different steps."""
SQUARES = ("squared_norm", "squared_distance", "inner_product")


def kit() -> dict[str, list[Message]]:
    """Return the cases of each file."""
    made = {case["name"]: case for case in releases()}
    signs = {case["name"]: case for case in published()}
    return {
        "projections": [_projection(golden) for golden in load("projections")],
        "streams": [_stream(golden) for golden in load("sketches")],
        "features": features(),
        "people": people(),
        "releases": [_release(case) for case in made.values()],
        "estimates": list(_estimates({name: case["message"] for name, case in made.items()})),
        "frequencies": list(_frequencies({name: case["message"] for name, case in made.items()})),
        "simultaneous": list(_simultaneous({name: case["message"] for name, case in made.items()})),
        "joint": list(_joint({name: case["message"] for name, case in made.items()})),
        "sameness": list(_sameness({name: case["message"] for name, case in made.items()})),
        "signs": [signs_of(case) for case in signs.values()],
        "sign_estimates": [
            sign_estimate_of(names, [signs[one]["message"] for one in names])
            for names in ([name, f"{name[:-1]}y"] for name in signs if name.endswith(", x"))
        ],
        "local": local(),
        "tables": tables(made, signs),
        "agreements": agreements(),
        "contributions": contributions(),
        "spellings": spellings(),
        "statements": statements(made, signs),
        "refused": [*refused(made, signs), *refused_tables(made)],
    }


def text_of(cases: list[Message]) -> str:
    """Return a file's text: a case a line."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, allow_nan=False) for case in cases)
    return f"[\n{lines}\n]\n"


def plain(value: Any, name: str = "") -> Any:
    """Return a message as JSON: hex for bytes, n/d for ratios, decimal strings for integers beyond doubles."""
    if isinstance(value, dict):
        return {key: plain(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one, name) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    return str(value) if name in STRINGS else value


def strings(values: Iterable[int]) -> list[str]:
    """Return integers as decimal strings."""
    return [str(value) for value in values]


# --- maps and streams ---------------------------------------------------------------------------------------------


def _projection(golden: Message) -> Message:
    fields = projection_fields(golden["json"])
    law = laws.law_of(fields)
    return {
        "json": golden["json"],
        "fields": plain(fields),
        "fingerprint": golden["fingerprint"],
        "scale_squared": float(laws.scale_squared(fields)),
        "variance": {name: float(one) for name, one in law._asdict().items()},
        "columns": [{"index": index, "nonzeros": nonzeros} for index, nonzeros in golden["columns"].items()],
    }


def _stream(golden: Message) -> Message:
    resolution = Fraction(json.loads(golden["projection"])["resolution"])
    exact = {"integer": Fraction, "float": Fraction, "decimal": Fraction}[golden["values"]["type"]]
    return {
        "name": golden["name"],
        "projection": golden["projection"],
        "keys": [_column(column) for column in golden["keys"]],
        "indices": strings(golden["indices"]),
        "values": _column(golden["values"]),
        "steps": strings(naive.truncated(exact(value), resolution) for value in golden["values"]["items"]),
        "cells": strings(golden["state"]),
        "mass": str(golden["mass"]),
    }


def _column(column: Message) -> Message:
    integers = column["type"] in ("integer", "nanoseconds")
    return {"type": column["type"], "items": strings(column["items"]) if integers else column["items"]}


# --- releases -----------------------------------------------------------------------------------------------------


def _release(case: Message) -> Message:
    message = case["message"]
    text = {"projection": json_of(message["projection"])}
    if "drawn" in case:
        made: Message = {
            "steps": [strings(event) for event in sorted(case["steps"].items())],
            "drawn": strings(case["drawn"]),
        } | ({"counted": strings(case["counted"])} if "counted" in case else {})
    else:
        made = {how: plain(value) for how, value in case.items() if how in {"scaled", "sum", "range"}}
    rest = {name: plain(value) for name, value in message.items() if name not in ("projection", "values", "counts")}
    cells = {"width": message["values"]["width"], "cells": strings(reader.cells_of(message))}
    if "counts" in message:
        cells["counts"] = strings(reader.counts_of(message))
    return {"name": case["name"]} | made | text | cells | rest | {"bytes": reader.write("PrivateSketch", message).hex()}


def _estimates(made: dict[str, Message]) -> Iterable[Message]:
    cases: list[Message] = [{"estimate": "squared_norm", "of": [name]} for name in made]
    pairs = [(name, f"{name[:-1]}y") for name in made if name.endswith(", x")]
    pairs += [
        ("a multiple", "a part, y"),
        ("a multiple", "another multiple"),
        ("a part, x", "a negative multiple"),
        ("a sum of two alike", "of unknown data"),
    ]
    cases += [{"estimate": kind, "of": [*names]} for names in pairs for kind in ("squared_distance", "inner_product")]
    for kind in ("sjlt-block", "count-sketch", "identity", "uniform", "rotation"):
        cases.append({"estimate": "cosine", "of": [f"{kind}, x", f"{kind}, y"]})
    cases.append({"estimate": "cosine", "of": ["an empty stream", "a part, x"]})
    cases += [{"estimate": "squared_distance", "of": ["a range of tree", "a range of apart"]}]
    counted = [
        name for name in made if any(one in name for one in ("counted units", "clipped in length", " root", "crowd"))
    ]
    cases += [{"estimate": kind, "of": [name]} for kind in ("units", "total", "mean_norm") for name in counted]
    averages = [("of counted units, x", f"of counted units, {name}") for name in "yz"]
    averages += [("of counted units, z", name) for name in ("a sum of counted units", "of few counted units")]
    averages += [("of sketches clipped in length, a", f"of sketches clipped in length, {name}") for name in "bc"]
    averages += [("of counted units, u", "of counted units, v")]
    averages += [(CROWDS[0], CROWDS[1]), (CROWDS[1], "of counted units, z")]
    averages += [(name, "a sum of ranges of crowds") for name in ("of counted units, x", "of few counted units")]
    cases += [{"estimate": kind, "of": [*pair]} for kind in ("mean_distance", "mean_product") for pair in averages]
    cases += [{"estimate": kind, "of": CROWDS} for kind in ("squared_distance", "inner_product", "cosine")]
    alike = [name for name in made if "units of one length" in name]
    cases += [{"estimate": kind, "of": [name]} for kind in ("squared_norm", "mean_norm") for name in alike]
    hashed = [f"of units of one length, hashed{name}" for name in ("", ", other", ", apart")]
    pairs_alike = [(hashed[0], hashed[1]), (hashed[0], hashed[2]), (hashed[0], "of sketches clipped in length, c")]
    pairs_alike += [("of units of one length, rotated, other", "of units of one length, rotated")]
    of_pairs = ("inner_product", "mean_product", "squared_distance", "mean_distance", "cosine")
    cases += [{"estimate": kind, "of": [*pair]} for kind in of_pairs for pair in pairs_alike]
    of = ["count-sketch, x", "count-sketch, y"]
    cases.append({"estimate": "normalised_inner_product", "of": of, "norms": [75.0, 70.0]})
    cases.append({"estimate": "pairwise", "of": ["a part, x", "a part, y", "a part, z", "of unknown data"]})
    return [estimate_of(case, [made[name] for name in case["of"]]) for case in cases]


def estimate_of(case: Message, messages: list[Message]) -> Message:
    """Return a case with the estimate that it names, or marked as undefined."""
    kind, of = case["estimate"], case["of"]
    if kind == "pairwise":
        table = estimates.pairwise(messages)
        return {
            "estimate": kind,
            "of": of,
            "pairs": [[_estimate("squared_distance", [], one) for one in row] for row in table],
        }
    norms = {"norms": case["norms"]} if "norms" in case else {}
    try:
        found = _ESTIMATORS[kind](*messages, *(Fraction(norm) for norm in norms.get("norms", ())))
    except exact_numbers.UndefinedError:
        return {"estimate": kind, "of": of, "undefined": True}
    return _estimate(kind, of, found) | norms


def _estimate(kind: str, names: Iterable[str], found: exact_numbers.Expected) -> Message:
    case: Message = {"estimate": kind, "of": list(names)} | _parts(found)
    case["intervals"] = [
        {"confidence": confidence, "method": method} | _ends(interval_ends.interval(found, confidence, method))
        for confidence, method in ((0.95, "normal"), (0.5, "normal"), (0.9, "chebyshev"))
    ]
    return case


def _parts(found: exact_numbers.Expected) -> Message:
    """Return the value, both variances, the standard error and the range."""
    error, near = exact_numbers.standard_error(found)
    case: Message = {}
    for name, slack in zip(("value", "projection_variance", "noise_variance"), found.tolerances, strict=True):
        case[name] = {"value": float(getattr(found, name)), "within": above(slack)}
    case["standard_error"] = {"value": float(error), "within": above(near)}
    case["range"] = [None if end is None else float(end) for end in (found.lowest, found.highest)]
    return case


# --- frequencies and intervals that hold together -----------------------------------------------------------------


def _frequencies(made: dict[str, Message]) -> Iterable[Message]:
    medians = [
        "sjlt-block, x",
        "sjlt-graph, x",
        "count-sketch, y",
        "oporp, x",
        "an empty stream",
        "a multiple of a sum",
    ]
    means = [
        *("identity, x", "rademacher, x", "uniform, x", "rotation, y", "srht, x", "fjlt, noise before the map, x"),
        *("fjlt, noise behind the Hadamard step, y", "very sparse, noise before the map, x", "of counted units, x"),
    ]
    for name in (*medians, *means, "of zeros alone", "a negative multiple"):
        yield frequency_of({"of": [name], "item": "3", "estimator": "auto"}, made[name])
    for name in (*medians, "wide cells, x"):
        yield frequency_of({"of": [name], "item": "1", "estimator": "mean"}, made[name])
    for name in ("sjlt-graph, y", "a part, x", *means):
        yield frequency_of({"of": [name], "item": "1", "estimator": "median"}, made[name])
    kinds = ("sjlt-block", "sjlt-graph", "rademacher", "very sparse, noise before the map")
    pairs = [[f"{name}, {stream}" for stream in "xy"] for name in kinds]
    for pair in (*pairs, ["a multiple", "another multiple"], ["a multiple", "a part, y"], CROWDS):
        difference = frequencies.difference(*(made[one] for one in pair))
        yield frequency_of({"of": pair, "item": "3", "estimator": "auto"}, difference)
        if pair is CROWDS:
            yield frequency_of({"of": pair, "item": "3", "estimator": "mean"}, difference)
    for name in ("sjlt-block, x", "sjlt-graph, x", "count-sketch, y", "identity, x", "rademacher, x"):
        yield missed_of({"of": [name], "dictionary": ["1", "3", "5", "8"]}, made[name])
    yield missed_of({"of": [means[5]], "dictionary": ["1"]}, made[means[5]])


def frequency_of(given: Message, message: Message) -> Message:
    """Return a case with the estimate of an item, or marked as undefined."""
    columns = column(json_of(message["projection"]), int(given["item"]))
    try:
        point = frequencies.frequency(message, columns, given["estimator"])
    except exact_numbers.UndefinedError:
        return given | {"undefined": True}
    found = point.expected
    case = given | {"chosen": "mean" if point.law is None else "median"} | _parts(found)
    if point.law is not None:
        error = math.sqrt(found.projection_variance + found.noise_variance)
        slack = max(float(frequencies.EDGE) * error, 1e-300)
        case["standard_error"] = {"value": error, "within": above(slack)}
    case["intervals"] = [
        {"confidence": confidence, "method": method} | _ends(frequencies.interval(point, confidence, method))
        for confidence, method in ((0.95, "normal"), (0.6, "normal"), (0.9, "chebyshev"))
    ]
    case["together"] = {"candidates": 5, "confidence": 0.75} | _ends(frequencies.interval(point, 0.75, "normal", 5))
    return case


def missed_of(given: Message, message: Message) -> Message:
    """Return a case with what a dictionary misses, or marked as undefined."""
    text = json_of(message["projection"])
    try:
        found = frequencies.missed(message, [column(text, int(item)) for item in given["dictionary"]])
    except exact_numbers.UndefinedError:
        return given | {"undefined": True}
    ends = interval_ends.interval(found, 0.95, "normal")
    return given | _parts(found) | {"intervals": [{"confidence": 0.95, "method": "normal"} | _ends(ends)]}


def _simultaneous(made: dict[str, Message]) -> Iterable[Message]:
    pairs = [
        *(
            ["sjlt-block, x", "sjlt-block, y"],
            ["sjlt-graph, x", "sjlt-graph, y"],
            ["count-sketch, x", "count-sketch, y"],
        ),
        *(["rotation, x", "rotation, y"], ["identity, x", "identity, y"], ["a part, x", "a part, y"]),
        ["very sparse, noise before the map, x", "very sparse, noise before the map, y"],
    ]
    cases: list[Message] = [
        {"estimate": kind, "of": pair} for pair in pairs for kind in ("squared_distance", "inner_product")
    ]
    cases += [{"estimate": "cosine", "of": pairs[place]} for place in (0, 2, 3, 4)]
    cases.append({"estimate": "normalised_inner_product", "of": pairs[2], "norms": [75.0, 70.0]})
    counted = ["of counted units, x", "of counted units, y"]
    cases += [{"estimate": kind, "of": counted[:1]} for kind in ("squared_norm", "units", "total", "mean_norm")]
    cases += [{"estimate": kind, "of": counted} for kind in ("mean_distance", "mean_product")]
    for case in cases:
        yield simultaneous_of(case | {"candidates": 190, "confidence": 0.95}, [made[name] for name in case["of"]])
    for case in cases[:2]:
        yield simultaneous_of(case | {"candidates": 1, "confidence": 0.9}, [made[name] for name in case["of"]])
    for case in (cases[1], *cases[14:18]):  # 1 minus what each may miss is 1
        far = {"candidates": 10**9, "confidence": 1 - 2.0**-53}
        yield simultaneous_of(case | far, [made[name] for name in case["of"]])


def simultaneous_of(given: Message, messages: list[Message]) -> Message:
    """Return a case with an interval that holds for all candidates."""
    kind = given["estimate"]
    norms = [Fraction(norm) for norm in given.get("norms", ())]
    found = _ESTIMATORS[kind](*messages, *norms)
    return given | {"interval": _ends(frequencies.together(found, given["candidates"], given["confidence"]))}


def _joint(made: dict[str, Message]) -> Iterable[Message]:
    months, unequal, clusters, few = (
        [name for name in made if name.startswith(f"{of}, ")]
        for of in ("months", "months of unequal noise", "clusters", "few months")
    )
    sets: list[tuple[list[str], str, str | None]] = [
        (months, "cosine", "time"),
        (months, "cosine", None),
        (months, "squared_distance", "time"),
        ([*months[:3], "no month", *months[3:]], "cosine", "time"),
        ([*months[:3], "no month", *months[3:]], "inner_product", None),
        (unequal, "cosine", "time"),
        (unequal, "cosine", None),
        (clusters, "cosine", None),
        (clusters, "inner_product", None),
        (few, "cosine", "time"),
        ([few[0], few[2]], "cosine", None),
        ([few[1], few[3]], "squared_distance", None),
        ([*unequal, "a month unlike others"], "squared_distance", None),
        ([*unequal, "a month unlike others"], "inner_product", None),
    ]
    for of, by, order in sets:
        yield joint_of({"of": of, "by": by, "order": order}, [made[name] for name in of])


def joint_of(given: Message, messages: list[Message]) -> Message:
    """Return a case with joint estimates of all pairs, row by row."""
    found = joint.joint(messages, given["by"], in_time=given["order"] == "time")
    pairs = list(itertools.combinations(range(len(messages)), 2))
    case = given | {"target": found.target, "strength": found.strength}
    case["weight"] = {"value": float(f"{found.weight:.7g}"), "within": above(joint.WITHIN)}
    errors = [
        [math.sqrt(a + b) for a, b in zip(*rows, strict=True)]
        for rows in zip(found.projection_variance, found.noise_variance, strict=True)
    ]
    size = 1.0 if given["by"] == "cosine" else max(abs(found.value[i][j]) for i, j in pairs)
    for name, matrix in (("value", found.value), ("standard_error", errors), ("low", found.low), ("high", found.high)):
        numbers = [float(f"{matrix[i][j]:.8g}") for i, j in pairs]
        case[name] = {"value": numbers, "within": above(joint.WITHIN * size)}
    return case


def _sameness(made: dict[str, Message]) -> Iterable[Message]:
    none, calm = "an empty stream", "under conditions"
    asked = [("sjlt-block", 0.0), ("count-sketch", 0.0), ("count-sketch", 7.3), ("identity", 0.0), ("identity", 6.35)]
    asked += [("oporp", 4.8), ("very-sparse", 23.7), ("uniform", 882.2)]
    asked += [("fjlt, noise before the map", 83.4), ("a part", 0.0), ("a part", 3.0)]
    pairs = [([f"{name}, {stream}" for stream in "xy"], tolerance) for name, tolerance in asked]
    pairs += [(["a multiple", "a part, y"], 135.0), ([none, calm], 0.0), (["a sum of two alike", "a part, z"], 268.4)]
    few = [  # tolerances, one of many vectors, and one for noise whose law does not fall
        (1, (0.0, 1.5), 597.5, 8.0),
        (2, (0.0, 1.0, 3.3), 593.5, 3.3),
        (3, (0.0, 0.7, 1.8), 566.5, 2.5),
        (6, (9.0,), 597.5, 9.0),
    ]
    for k, tolerances, far, uneven in few:
        for kind in ("laplace", "gaussian"):
            x, y, z = (f"{k} cells, {kind}, {stream}" for stream in "xyz")
            pairs += [([x, y], tolerance) for tolerance in tolerances]
            pairs += [([f"three times {x}", f"three times {y}"], 5.5)]  # in longer steps
            pairs += [([x, z], far), ([f"three times {x}", f"three times {z}"], 3 * far - 1)]
            pairs += [([x, f"three times {y}"], uneven)]
    for of, tolerance in pairs:
        yield same_of({"of": of, "tolerance": tolerance}, [made[name] for name in of])


def same_of(given: Message, messages: list[Message]) -> Message:
    """Return a case with the p-value of a test of sameness."""
    found = sameness.p_value(messages[0], messages[1], given["tolerance"])
    slack = found * (1e-3 if sameness.is_exact(messages[0], messages[1], given["tolerance"]) else 1e-2)
    return given | {"p_value": {"value": float(f"{found:.5g}"), "within": above(slack)}}


def _ends(ends: interval_ends.Ends) -> Message:
    low, high = (float(end) if end.is_finite() else None for end in (ends.low, ends.high))
    return {"low": low, "high": high, "within": above(ends.within)}


def above(slack: Any) -> float:
    """Return a tolerance as a double that leaves room for the rounding of the expected value."""
    return float(f"{float(slack) * 1.01:.3g}")


# --- signs ----------------------------------------------------------------------------------------


def signs_of(case: Message) -> Message:
    """Return a case of published signs."""
    message = case["message"]
    k = message["projection"]["sketch_dim"]
    signs = "".join("-+"[message["signs"][i // 8] >> i % 8 & 1] for i in range(k))
    rest = {name: plain(value) for name, value in message.items() if name not in ("projection", "signs")}
    head = {"name": case["name"], "kind": case["kind"], "projection": json_of(message["projection"]), "signs": signs}
    return head | rest | {"bytes": reader.write(case["kind"], message).hex()}


def sign_estimate_of(names: list[str], pair: list[Message]) -> Message:
    """Return the estimates of two releases."""
    norms = (NORMS["x"], NORMS["y"])
    case: Message = {"of": names, "norms": list(norms), "hamming": sign_estimates.hamming(*pair)}
    for kind in ("angle", "cosine"):
        try:
            found = getattr(sign_estimates, kind)(*pair, norms)
        except exact_numbers.UndefinedError:
            case[kind] = {"undefined": True}
            continue
        parts = ("value", "projection_variance", "noise_variance")
        case[kind] = {
            part: {"value": float(f"{getattr(found, part):.13g}"), "within": above(slack)}
            for part, slack in zip(parts, found.tolerances, strict=True)
        } | {"range": [found.lowest, found.highest]}
    return case
