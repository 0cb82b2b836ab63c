"""Reads every case of the conformance kit without the library, and without what its builder knew.

Each function takes a case, looks at what somebody is given, and returns all the rest of the case as it follows by
WIRE.md. A fault in the kit, or a case that no reader of ours can read, shows as a difference.
"""

import datetime as dt
import hashlib
import json
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.golden import (
    frequencies,
    kit_features,
    kit_people,
    kit_releases,
    laws,
    local_reader,
    make_kit,
    party_reader,
    reader,
    rotations,
    sameness,
)
from tests.golden.kit_releases import Message, projection_fields
from tests.golden.kit_tables import keys_of
from tests.golden.make_kit import plain, strings
from tests.golden.mechanisms import Refused
from tests.golden.party_reader import canonical
from tests.golden.table_reader import read_table, signature_inside
from tests.oracles import naive, naive_maps, naive_spelling

Case = dict[str, Any]
Kit = dict[str, list[Case]]
ITEMS: dict[str, Callable[[Any], Any]] = {
    "integer": int,
    "nanoseconds": int,
    "text": str,
    "bytes": bytes.fromhex,
    "date": dt.date.fromisoformat,
    "time": dt.datetime.fromisoformat,
    "float": float,
    "decimal": Decimal,
}


def column(given: Case) -> list[Any]:
    """Return a column's items."""
    return [ITEMS[given["type"]](item) for item in given["items"]]


def named(kit: Kit, file: str, name: str) -> Message:
    """Return the message of a case."""
    (found,) = (one for one in kit[file] if one["name"] == name)
    return reader.read(found.get("kind", "PrivateSketch"), bytes.fromhex(found["bytes"]))


# --- maps and streams ---------------------------------------------------------------------------------------------


def projection(case: Case, _: Kit) -> Case:
    """Read a projection's JSON."""
    fields = projection_fields(case["json"])
    reader.check_projection(fields)
    indices = [one["index"] for one in case["columns"]]
    columns = [{"index": one, "nonzeros": nonzeros_of(case["json"], int(one))} for one in indices]
    return {
        "fields": plain(fields),
        "fingerprint": hashlib.blake2b(case["json"].encode(), digest_size=16).hexdigest(),
        "scale_squared": float(laws.scale_squared(fields)),
        "variance": {name: float(one) for name, one in laws.law_of(fields)._asdict().items()},
        "columns": columns,
    }


def nonzeros_of(text: str, index: int) -> list[list[int]]:
    """Return what is not zero in a column of A."""
    if '"rotation"' not in text:
        return naive_maps.nonzeros(text, index)
    return [[row, entry] for row, entry in enumerate(rotations.columns(text)[index]) if entry]


def stream(case: Case, _: Kit) -> Case:
    """Read keys and values."""
    fields = json.loads(case["projection"])
    rows = list(zip(*(fingerprints(one, len(case["keys"]), fields) for one in case["keys"]), strict=True))
    indices = [row[0] if len(row) == 1 else naive.tuple_index(row, fields["seed"]) for row in rows]
    resolution = Fraction(fields["resolution"])
    steps = [naive.truncated(Fraction(value), resolution) for value in column(case["values"])]
    cells = [0] * fields["sketch_dim"]
    for index, count in zip(indices, steps, strict=True):
        cells = [
            cell + count * entry
            for cell, entry in zip(cells, kit_releases.column(case["projection"], index), strict=True)
        ]
    found = {"indices": indices, "steps": steps, "cells": cells}
    return {name: strings(numbers) for name, numbers in found.items()} | {"mass": str(sum(map(abs, steps)))}


def features(case: Case, _: Kit) -> Case:
    """Read rows of columns."""
    return {"cells": kit_features.cells_of(case["features"], case["rows"])}


def people(case: Case, _: Kit) -> Case:
    """Read rows of units."""
    return {"cells": kit_people.sums_of(case)}


def fingerprints(given: Case, count: int, fields: Case) -> list[int]:
    """Return what one column contributes to the indices; one column of integers holds them."""
    if given["type"] == "nanoseconds":
        canonical = [naive.canonical_nanoseconds(item) for item in column(given)]
        return [naive.fingerprint_of(one, fields["seed"]) for one in canonical]
    if given["type"] == "integer" and count == 1:
        return column(given)
    return [naive.fingerprint(item, fields["seed"]) for item in column(given)]


# --- releases -----------------------------------------------------------------------------------------------------


def release(case: Case, kit: Kit) -> Case:
    """Read a release's bytes, and make its cells or its sum again."""
    message = reader.read("PrivateSketch", bytes.fromhex(case["bytes"]))
    found = plain({name: one for name, one in message.items() if name not in ("projection", "values", "counts")})
    found |= {"projection": make_kit.json_of(message["projection"]), "width": message["values"]["width"]}
    found["cells"] = strings(reader.cells_of(message))
    if "counts" in message:
        found["counts"] = strings(reader.counts_of(message))
    assert reader.write("PrivateSketch", message).hex() == case["bytes"]
    if "drawn" in case:
        steps = {int(index): int(count) for index, count in case["steps"]}
        noise = list(map(int, case["drawn"]))
        cells = kit_releases.with_noise(case["projection"], steps, noise, message["noise"]["place"])
        assert strings(cells) == case["cells"]
        given = {name: case[name] for name in ("steps", "drawn", "counted") if name in case}
        if "counted" in case:
            counts = kit_releases.with_noise_on_counts(message, list(map(int, case["counted"])), noise)
            assert strings(counts) == case["counts"]
        return found | given
    if "scaled" in case:
        name, factor = case["scaled"]
        made = kit_releases.scaled("", {"name": name, "message": named(kit, "releases", name)}, Fraction(factor))
    elif "sum" in case:
        *names, sign, populations = case["sum"]
        parts = [{"name": name, "message": named(kit, "releases", name)} for name in names]
        made = kit_releases.summed("", *parts, sign, populations)
    elif "range" in case:
        rows = [{"name": name, "message": named(kit, "releases", name)} for name in case["range"]]
        made = kit_releases.ranged("", rows, message["history"])
    else:
        return found
    assert reader.write("PrivateSketch", made["message"]).hex() == case["bytes"]
    ways = ("scaled", "sum", "range")
    return found | {how: plain(made[how]) if how == "scaled" else made[how] for how in ways if how in made}


def estimate(case: Case, kit: Kit) -> Case:
    """Compute an estimate from the releases' bytes."""
    return make_kit.estimate_of(case, [named(kit, "releases", name) for name in case["of"]])


def frequency(case: Case, kit: Kit) -> Case:
    """Compute how often an item occurs, or what a dictionary misses."""
    given = {name: case[name] for name in GIVEN["frequencies"] if name in case}
    messages = [named(kit, "releases", name) for name in case["of"]]
    if "dictionary" in case:
        return make_kit.missed_of(given, messages[0])
    return make_kit.frequency_of(given, messages[0] if len(messages) == 1 else frequencies.difference(*messages))


def simultaneous(case: Case, kit: Kit) -> Case:
    """Compute an interval that holds together with others."""
    given = {name: case[name] for name in GIVEN["simultaneous"] if name in case}
    return make_kit.simultaneous_of(given, [named(kit, "releases", name) for name in case["of"]])


def joint(case: Case, kit: Kit) -> Case:
    """Compute joint estimates from the releases' bytes."""
    given = {name: case[name] for name in GIVEN["joint"]}
    return make_kit.joint_of(given, [named(kit, "releases", name) for name in case["of"]])


def same(case: Case, kit: Kit) -> Case:
    """Compute the p-value of a test of sameness."""
    pair = (named(kit, "releases", name) for name in case["of"])
    return {"p_value": sameness.p_value(*pair, case["tolerance"])}


def signs(case: Case, _: Kit) -> Case:
    """Read published signs."""
    message = reader.read(case["kind"], bytes.fromhex(case["bytes"]))
    assert reader.write(case["kind"], message).hex() == case["bytes"]
    return make_kit.signs_of({"name": case["name"], "kind": case["kind"], "message": message})


def sign_estimate(case: Case, kit: Kit) -> Case:
    """Compute angles and cosines from the signs' bytes."""
    return make_kit.sign_estimate_of(case["of"], [named(kit, "signs", name) for name in case["of"]])


# --- local reports, tables ------------------------------------------------------------------------------------------


def local(case: Case, _: Kit) -> Case:
    """Read reports, add them up, and read the mean."""
    fields = json.loads(case["mechanism"])
    local_reader.check_mechanism(fields)
    reports = [bytes.fromhex(one["bytes"]) for one in case["reports"]]
    read = [local_reader.read_report(data, fields) for data in reports]
    added = [local_reader.steps_of(seed, values, fields) for seed, values in read]
    totals = [sum(cells) for cells in zip(*added, strict=True)]
    assert local_reader.read_mean(bytes.fromhex(case["mean"]["bytes"])) == (fields, len(reports), totals)
    payloads = [reader.parsed("LocalReport", data[17:-16]) for data in reports]
    return {
        "squared_error": local_reader.squared_error(fields),
        "reports": [
            {"seed": str(seed), "values": payload["values"].hex()}
            for (seed, _), payload in zip(read, payloads, strict=True)
        ],
        "mean": {
            "count": len(reports),
            "step_exponent": local_reader.step_exponent(fields),
            "totals": strings(totals),
            "value": local_reader.mean_of(fields, len(reports), totals),
        },
    }


def table(case: Case, _: Kit) -> Case:
    """Read a Parquet file."""
    found = read_table(bytes.fromhex(case["bytes"]))
    return {
        "kind": found.kind,
        "column": found.column,
        "keys": keys_of(found.keys),
        "rows": [row.hex() for row in found.rows],
    }


# --- rounds and statements ------------------------------------------------------------------------------------------


def contributions(case: Case, _: Kit) -> Case:
    """Read a round and its contributions: as their parties, who know their masks, and as the combiner."""
    key = None if case["key"] is None else naive.canonical_bytes(column(case["key"])[0])
    found = party_reader.read_round(case["round"], key)
    texts = [one["bytes"] for one in case["contributions"]]
    total, said = party_reader.combined(found, texts), party_reader.guarantee_of(found)
    message = reader.read("PrivateSketch", bytes.fromhex(case["release"]))
    assert reader.cells_of(message) == total["cells"]
    assert (message["release_ids"], message["data_ids"]) == ([total["release_id"]], total["data_ids"])
    assert message["guarantee"] == said | {"mechanism": reader.text_of(said["steps"])}
    sent = []
    for place, text in enumerate(texts):
        one = party_reader.read_contribution(found, text)
        cells = {}
        if "secrets" in case:
            secret = party_reader.Secret(*map(bytes.fromhex, case["secrets"][place]))
            pairs = zip(one.cells, party_reader.masks(found, one.place, secret), strict=True)
            cells = {"cells": [str(kit_releases.wrapped(cell - mask)) for cell, mask in pairs]}
        sent.append(cells | {"data_ids": [each.hex() for each in one.data_ids]})
    return {"fingerprint": found.name.hex(), "session": found.session.hex(), "contributions": sent}


def statement(case: Case, _: Kit) -> Case:
    """Read a signed file."""
    signer, data = party_reader.key_of(case["signer"]), bytes.fromhex(case["file"])
    if case["bundle"] is not None:
        digest = hashlib.sha256(data).hexdigest()
        return {"states": party_reader.read_bundle(case["bundle"], digest, {signer.id: signer})}
    line, digest = signature_inside(data)
    return {"states": party_reader.read_statement(line, digest, {signer.id: signer}, inside=True)}


def refused(case: Case, _: Kit) -> Case:
    """Read bytes that must be refused."""
    data = bytes.fromhex(case["bytes"])
    if case["kind"] == "LocalReport":
        local_reader.read_report(data, json.loads(case["mechanism"]))
    elif case["kind"] == "LocalMean":
        local_reader.read_mean(data)
    elif case["kind"] in ("PrivateTable", "SignTable"):
        read_table(data)
    else:
        reader.read(case["kind"], data)
    return {}


def spelling(case: Case, _: Kit) -> Case:
    """Return how a text is spelt under a rule."""
    return {
        "spelt": naive_spelling.spelt(
            case["text"], **{step: case["rule"][step] for step in case["rule"] if step != "unicode"}
        )
    }


def agreement(case: Case, _: Kit) -> Case:
    """Return an agreement's fingerprint, and its windows as fields and in words."""
    fields = json.loads(case["json"])
    if canonical(fields) != case["json"]:
        raise Refused("not canonical")
    windows = fields["windows"]
    _check_windows(fields, windows)
    stated = dict.fromkeys(("zone", "first", "last", "period", "max_windows")) | windows
    time = {"format": None} | windows["time"]
    parts = [windows["every"], f" ({stated['zone']})" if stated["zone"] else "", f" by {time['name']}:{time['type']}"]
    parts += [f", from {stated['first']}" if stated["first"] else "", f" to {stated['last']}" if stated["last"] else ""]
    parts += [f", a unit in {stated['max_windows'] or 1} of each {stated['period']}" if stated["period"] else ""]
    parts += [", each a key" if windows["are"] == "keys" else ", each a release"]
    fingerprint = hashlib.blake2b(case["json"].encode(), digest_size=16).hexdigest()
    return {"fingerprint": fingerprint, "windows": stated | {"time": time}, "words": "".join(parts)}


def _check_windows(fields: Case, windows: Case) -> None:
    """Raise `Refused` if windows are none that WIRE.md describes."""
    units = "s|sec|second|min|minute|h|hour|d|day|w|week"
    is_length = re.fullmatch(rf"[\d.]+ ?(?:{units})s?", windows["every"]) is not None
    is_calendar = re.fullmatch(r"(?:1 )?(?:day|week|month)", windows["every"]) is not None
    are_keys = windows["are"] == "keys"
    are_listed = "last" in windows or ("keys" in fields and "listed" not in fields["keys"])
    wrong = (
        None in windows.values()
        or not (is_length or is_calendar)
        or ("zone" in windows and not is_calendar)
        or ("last" in windows and "first" not in windows)
        or ("period" in windows and (are_keys or not is_length))
        or ("max_windows" in windows and "period" not in windows)
        or (are_keys and not are_listed)
        or ("schedule" in fields and (are_keys or "first" not in windows or "period" in windows))
    )
    if wrong:
        raise Refused(f"windows that are none: {windows}")


READS: dict[str, Callable[[Case, Kit], Case]] = {
    "projections": projection,
    "streams": stream,
    "features": features,
    "people": people,
    "releases": release,
    "estimates": estimate,
    "frequencies": frequency,
    "simultaneous": simultaneous,
    "joint": joint,
    "sameness": same,
    "signs": signs,
    "sign_estimates": sign_estimate,
    "local": local,
    "tables": table,
    "agreements": agreement,
    "contributions": contributions,
    "spellings": spelling,
    "statements": statement,
    "refused": refused,
}
GIVEN = {
    "projections": {"json"},
    "streams": {"name", "projection", "keys", "values"},
    "features": {"name", "features", "rows"},
    "people": {"name", "agreement", "units", "times", "rows"},
    "releases": {"name", "bytes"},
    "estimates": {"estimate", "of", "norms"},
    "frequencies": {"of", "item", "estimator", "dictionary"},
    "joint": {"of", "by", "order"},
    "sameness": {"of", "tolerance"},
    "simultaneous": {"estimate", "of", "norms", "candidates", "confidence"},
    "signs": {"name", "kind", "bytes"},
    "sign_estimates": {"of", "norms"},
    "local": {"name", "mechanism"},
    "tables": {"name", "bytes"},
    "agreements": {"name", "json"},
    "contributions": {"name", "round", "key", "secrets", "release"},
    "spellings": {"name", "text", "rule"},
    "statements": {"name", "file", "file_name", "bundle", "signer"},
    "refused": {"name", "kind", "mechanism", "bytes"},
}
"""What somebody is given of a case; all else is read."""


def difference(found: Any, stated: Any) -> str:
    """Return how what was read differs from what a case states; nothing if it does not."""
    if isinstance(stated, dict) and "within" in stated and isinstance(found, float | int | list):
        near = found if isinstance(found, list) else [found]
        values = stated["value"] if isinstance(found, list) else [stated["value"]]
        off = max(abs(one - other) for one, other in zip(near, values, strict=True))
        return "" if off <= stated["within"] else f"off by {off}"
    if isinstance(stated, dict) and isinstance(found, dict):
        said = {name: one for name, one in stated.items() if name not in ("bytes", "within")}
        if set(found) - {"bytes", "within"} != set(said):
            return f"fields {set(found) ^ set(said)}"
        return next((f"{name}: {text}" for name, one in said.items() if (text := difference(found[name], one))), "")
    if isinstance(stated, list) and isinstance(found, list):
        if len(found) != len(stated):
            return f"{len(found)} entries, not {len(stated)}"
        return next((text for one, other in zip(found, stated, strict=True) if (text := difference(one, other))), "")
    return "" if found == stated else f"{found!r:.80} is not {stated!r:.80}"


def check(file: str, case: Case, kit: Kit) -> str:
    """Return how a case differs from what is read of it; nothing if it does not."""
    if "reason" in case:
        try:
            READS[file](case, kit)
        except Refused:
            return ""
        return "was not refused"
    found = READS[file](case, kit)
    stated = {name: one for name, one in case.items() if name not in GIVEN[file]}
    return difference({name: one for name, one in found.items() if name not in GIVEN[file]}, stated)
