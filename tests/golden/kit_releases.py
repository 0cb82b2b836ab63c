"""Releases of the conformance kit: streams, written-down noise, and what follows by the twins and the pure writer."""

import functools
import json
import math
import random
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.golden import histories, laws, reader, rotations, schemas
from tests.oracles import naive, naive_maps

FOLDER = Path(__file__).parent
Message = dict[str, Any]
MOST_TEXT = 200
"""Characters of a mechanism's text."""
BASES = ("asserted", "", "enforced")
"""On what a bound rests, of a sum the first that one of its parts has."""


def load(name: str) -> Any:
    """Return a golden file."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def projection_of(kind: str, **changes: Any) -> str:
    """Return a projection's JSON: the first golden one of its kind with few cells, changed."""
    golden = (json.loads(one["json"]) for one in load("projections"))
    fields = next(one for one in golden if one["kind"] == kind and one["sketch_dim"] <= 100)
    return json.dumps(fields | changes, sort_keys=True, separators=(",", ":"))


def projection_fields(text: str) -> Message:
    """Return a projection as the message it is written as."""
    fields = json.loads(text)
    ratios = {name for name, of, _ in schemas.SCHEMAS["Projection"].values() if of == "Ratio"}
    return {name: Fraction(value) if name in ratios else value for name, value in fields.items()}


@functools.cache
def column(text: str, index: int) -> list[int]:
    """Return a column of A, of a map of few cells."""
    return rotations.columns(text)[index] if '"rotation"' in text else naive_maps.column(text, index)


def wrapped(cell: int) -> int:
    """Return an integer modulo 2^64, in two's complement."""
    return (cell + 2**63) % 2**64 - 2**63


def sketched(text: str, steps: dict[int, int]) -> list[int]:
    """Return A x̃."""
    cells = [0] * json.loads(text)["sketch_dim"]
    for index, value in steps.items():
        cells = [cell + entry * value for cell, entry in zip(cells, column(text, index), strict=True)]
    return cells


def with_noise(text: str, steps: dict[int, int], noise: list[int], place: str) -> list[int]:
    """Return the cells of a stream with noise at its place."""
    if place == "":
        cells = sketched(text, steps)
        return [wrapped(cell + one) for cell, one in zip(cells, noise[: len(cells)], strict=True)]
    if place == "input":
        return sketched(text, {j: steps.get(j, 0) + one for j, one in enumerate(noise)})
    rows = naive_maps.fjlt_matrix(text)
    added = [sum(entry * noise[at] for at, entry in row) for row in rows]
    return [cell + one for cell, one in zip(sketched(text, steps), added, strict=True)]


# --- noise --------------------------------------------------------------------------------------------------------


def laplace(scale: int | Fraction) -> Message:
    """Return a discrete Laplace noise's cumulants, to twelve digits: the same on every machine."""
    ratio = math.exp(-1 / scale)
    variance = 2 * ratio / (1 - ratio) ** 2
    return {"k2": float(f"{variance:.12g}"), "k4": float(f"{variance + 3 * variance**2:.12g}"), "place": ""}


def gaussian(variance: Fraction) -> Message:
    """Return a discrete Gaussian noise's cumulants, to twelve digits."""
    weights = {n: math.exp(-n * n / float(2 * variance)) for n in range(-99, 100)}
    second, fourth = (math.fsum(n**m * p for n, p in weights.items()) / math.fsum(weights.values()) for m in (2, 4))
    return {"k2": float(f"{second:.12g}"), "k4": float(f"{fourth - 3 * second**2:.12g}"), "place": ""}


def drawn(scale: int, count: int, name: str) -> list[int]:
    """Return noise for a release of this name; no secret, as the kit is public."""
    source = random.Random(name)  # noqa: S311 - test data
    return [math.floor(source.expovariate(1 / scale)) - math.floor(source.expovariate(1 / scale)) for _ in range(count)]


def ids(name: str, count: int) -> list[bytes]:
    """Return distinct ids, ascending."""
    source = random.Random(f"ids of {name}")  # noqa: S311 - test data
    return sorted(source.randbytes(8) for _ in range(count))


# --- releases -----------------------------------------------------------------------------------------------------


def mechanism(steps: list[Message]) -> Message:
    """Return the fields of a guarantee that say how: text, and steps unless text is all."""
    text = {"mechanism": reader.text_of(steps)}
    return text if all("text" in step for step in steps) else text | {"steps": steps}


def guarantee(steps: list[Message], **changes: Any) -> Message:
    """Return a guarantee for L1(1)."""
    neighbours = {"kind": "l1", "bound": Fraction(1), "unit": "event", "max_keys": 0} | changes.pop("neighbours", {})
    made = {"epsilon": 1.0, "delta": 0.0, "neighbours": neighbours, "conditions": [], "basis": ""}
    return made | mechanism(steps) | changes


def released(name: str, text: str, events: list[tuple[int, Any]], place: str = "", **changes: Any) -> Message:
    """Return a case: a stream, its noise, and the release."""
    fields = projection_fields(text)
    steps: dict[int, int] = {}
    for index, value in events:
        steps[index] = steps.get(index, 0) + naive.truncated(value, fields["resolution"])
    size = math.floor(1 / fields["resolution"]) if fields["resolution"] <= 1 else 1
    neighbours = changes.pop("neighbours", {}) | ({} if fields["resolution"] <= 1 else {"bound": fields["resolution"]})
    count = {"": fields["sketch_dim"], "input": fields["dim"], "hadamard": laws.padded(fields)}[place]
    weights, counted = changes.pop("weights", None), changes.pop("counted", None)
    count += 0 if weights is None else 2 if weights["slack"] else 1
    moved = {"": laws.most_moved(fields), "input": 1, "hadamard": laws.padded(fields)}[place]
    scale = changes.pop("scale", moved * size * neighbours.get("max_keys", 1))
    noise = changes.pop("drawn", drawn(scale, count, name))
    cells = with_noise(text, steps, noise, place)
    stated = {"kind": "laplace", "amount": Fraction(scale), "layers": 0}
    if weights is not None:
        stated["counting"] = weights
    if (schedule := changes.pop("schedule", None)) is not None:
        stated["schedule"] = schedule
    message = {
        "projection": fields,
        "values": reader.values_message(cells),
        "noise": laplace(scale) | {"place": place},
        "guarantee": guarantee([{"noise": stated | {"place": place}}], neighbours=neighbours),
        "multiplier": Fraction(1),
        "release_ids": ids(name, 1),
        "data_ids": ids(f"data of {name}", 16),
        "parts": [],
    }
    said = changes.pop("guarantee", {})
    if "mechanism" in said:
        message["guarantee"].pop("steps")
    message["guarantee"] |= said
    case = {"name": name, "steps": steps, "drawn": noise, "message": message | changes}
    if counted is None:
        return case
    case["message"]["counts"] = reader.values_message(with_noise_on_counts(case["message"], counted, noise))
    return case | {"counted": counted}


def with_noise_on_counts(message: Message, counted: list[int], noise: list[int]) -> list[int]:
    """Return the counts of so many units and their total, with the noise behind that of the cells."""
    weights, fields = reader.weights_of(message), message["projection"]
    units, total = counted
    exact = [weights["units"] * units]
    if weights["slack"]:
        bound = message["guarantee"]["neighbours"]["bound"] // fields["resolution"]
        exact.append(weights["slack"] * (bound * units - total))
    return [wrapped(one + drawn) for one, drawn in zip(exact, noise[fields["sketch_dim"] :], strict=True)]


def scaled(name: str, part: Message, factor: Fraction) -> Message:
    """Return a multiple of a release."""
    message = part["message"]
    parts = [one | {"multiplier": one["multiplier"] * abs(factor)} for one in message["parts"]]
    message = message | {"multiplier": message["multiplier"] * factor, "parts": ordered(parts)}
    if factor != 1:
        message.pop("counts", None)
    return {"name": name, "scaled": [part["name"], factor], "message": message}


def summed(name: str, first: Message, second: Message, sign: int, populations: str) -> Message:
    """Return the sum of two releases, or their difference."""
    x, y = first["message"], second["message"]
    m = [x["multiplier"], sign * y["multiplier"]]
    common = math.lcm(m[0].denominator, m[1].denominator)
    step = Fraction(math.gcd(int(m[0] * common), int(m[1] * common)), common)
    a, b = (int(one / step) for one in m)
    cells = [a * one + b * other for one, other in zip(reader.cells_of(x), reader.cells_of(y), strict=True)]
    guarantees = x["guarantee"], y["guarantee"]
    together = max if populations == "disjoint" else sum
    asserted = [f"no {guarantees[0]['neighbours']['unit']} is in two of the streams"] * (populations == "disjoint")
    stated = all(one["parts"] or len(one["release_ids"]) == 1 for one in (x, y))
    message = x | {
        "values": reader.values_message(cells),
        "noise": x["noise"]
        | {"k2": a**2 * x["noise"]["k2"] + b**2 * y["noise"]["k2"]}
        | {"k4": a**4 * x["noise"]["k4"] + b**4 * y["noise"]["k4"]},
        "guarantee": {name: said for name, said in guarantees[0].items() if name != "steps"}
        | {one: together([guarantee[one] for guarantee in guarantees]) for one in ("epsilon", "delta")}
        | composed(guarantees)
        | {"conditions": sorted({*guarantees[0]["conditions"], *guarantees[1]["conditions"], *asserted})}
        | {"basis": next(basis for basis in BASES if basis in [guarantee["basis"] for guarantee in guarantees])},
        "multiplier": step,
        "release_ids": sorted([*x["release_ids"], *y["release_ids"]]),
        "data_ids": sorted({*x["data_ids"], *y["data_ids"]}),
        "parts": ordered([*as_parts(x), *as_parts(y)]) if stated else [],
    }
    message.pop("counts", None)
    message.pop("history", None)
    alike = "counts" in x and "counts" in y and reader.weights_of(x) == reader.weights_of(y)
    if alike and sign > 0 and populations == "disjoint":
        pairs = zip(reader.counts_of(x), reader.counts_of(y), strict=True)
        message["counts"] = reader.values_message([a * one + b * other for one, other in pairs])
    if populations != "disjoint" or x.get("clip") != y.get("clip"):
        message.pop("clip", None)
    return {"name": name, "sum": [first["name"], second["name"], sign, populations], "message": message}


def ranged(name: str, rows: list[Message], history: Message) -> Message:
    """Return a range of windows of the history that these are the first rows of."""
    first = rows[0]["message"]
    schedule = reader.schedule_stated(first["guarantee"]["steps"])
    halvings = schedule.get("bits", 0)
    found = histories.weights(schedule, history)
    assert not any(found[len(rows) :])

    def solved(numbers: list[list[int]]) -> Message:
        columns = zip(*numbers, strict=True)
        sums = [sum(w * one for w, one in zip(found, column, strict=False)) for column in columns]
        return reader.values_message([round(2**halvings * one) for one in sums])

    message = first | {
        "values": solved([reader.cells_of(row["message"]) for row in rows]),
        "noise": first["noise"]
        | {"k2": float(Fraction(first["noise"]["k2"]) * 4**halvings * sum(w**2 for w in found))}
        | {"k4": float(Fraction(first["noise"]["k4"]) * 16**halvings * sum(w**4 for w in found))},
        "multiplier": Fraction(1, 2**halvings),
        "history": first["history"] | {"row": False} | history,
    }
    if "counts" in message:
        message["counts"] = solved([reader.counts_of(row["message"]) for row in rows])
    if history["minus_stop"]:
        message.pop("counts", None)
    return {"name": name, "range": [row["name"] for row in rows], "message": message}


def composed(guarantees: Iterable[Message]) -> Message:
    """Return the mechanism of several guarantees: the steps of each, once if all of them are alike."""
    given = [guarantee.get("steps") or [{"text": guarantee["mechanism"]}] for guarantee in guarantees]
    said = mechanism([step for place, steps in enumerate(given) if steps not in given[:place] for step in steps])
    return said if len(said["mechanism"]) <= MOST_TEXT else {"mechanism": "several mechanisms"}


def as_parts(message: Message) -> list[Message]:
    """Return a release's parts, itself if it is a single one."""
    one = {"guarantee": message["guarantee"], "multiplier": abs(message["multiplier"]), "count": 1}
    one |= {"history": message["history"]} if "history" in message else {}
    return message["parts"] or [{"noise": message["noise"] | {"place": ""}} | one]


def ordered(parts: list[Message]) -> list[Message]:
    """Return parts with alike ones counted together, ascending by their bytes."""
    counts: dict[bytes, Message] = {}
    for part in parts:
        key = reader.encoded("NoisePart", part | {"count": 0})
        counts[key] = part | {"count": part["count"] + counts.get(key, {"count": 0})["count"]}
    return sorted(counts.values(), key=lambda part: reader.encoded("NoisePart", part))


def releases() -> list[Message]:
    """Return all releases of the kit."""
    made: dict[str, Message] = {}

    def add(case: Message) -> Message:
        made[case["name"]] = case
        return case

    for golden in laws.KINDS:
        text = projection_of(golden)
        d = json.loads(text)["dim"]
        own = [0, d - 1] if golden == "rotation" else [0, 3, 5, 7, d - 1]
        large = laws.most_moved(projection_fields(text))  # beside the noise
        grid = Fraction(json.loads(text)["resolution"])
        for stream, factors in (("x", (40, -25, 10, 3, 60)), ("y", (38, -20, 4, 9, 55))):
            values = [factor * (1 + large // 50) + grid / 3 for factor in factors]
            add(released(f"{golden}, {stream}", text, list(zip(own, values, strict=False))))
    fjlt, sparse = projection_of("fjlt"), projection_of("very-sparse", dim=50)
    for name, text, place in (
        ("fjlt, noise before the map", fjlt, "input"),
        ("fjlt, noise behind the Hadamard step", fjlt, "hadamard"),
        ("very sparse, noise before the map", sparse, "input"),
    ):
        add(released(f"{name}, x", text, [(0, 900), (7, -350), (49, 20)], place))
        add(released(f"{name}, y", text, [(0, 850), (7, -300), (9, 45)], place))
    _special(add, made)
    return list(made.values())


def _mechanisms() -> list[tuple[str, list[Message]]]:
    noise = {"kind": "laplace", "amount": Fraction(1), "layers": 0, "place": ""}
    keys = {"keys": {"epsilon": 0.25, "delta": 1e-9}}
    wide = {"kind": "gaussian", "amount": Fraction(2**49 - 1, 256)}
    return [
        ("by noise inside and on release", [{"noise": noise | {"layers": 2}}]),
        ("by noise and a choice of keys", [{"noise": noise}, keys]),
        ("by much", [{"noise": noise | wide | {"place": "input"}}, {"text": "zwei; drei"}, keys, {"text": "m"}]),
        ("by text alone", [{"text": "discrete Laplace, scale 1"}]),
    ]


def _shares() -> list[tuple[str, list[Message], float]]:
    noise = {"kind": "laplace", "amount": Fraction(100), "layers": 0, "place": ""}
    return [
        ("by noise in shares", [{"noise": noise | {"shares": {"parties": 3, "honest": 3}}}], 1.0),
        ("by noise in shares, not all honest", [{"noise": noise | {"shares": {"parties": 5, "honest": 4}}}], 1.25),
    ]


def _special(add: Any, made: dict[str, Message]) -> None:
    """Add wide and wrapped cells, odd texts, multiples and sums."""
    counts, signs = projection_of("count-sketch"), projection_of("sjlt-block", dim=2**60, resolution="1/1")
    for stream, extra in (("x", 0), ("y", 41)):
        add(released(f"wide cells, {stream}", signs, [(1, 2**60 + extra), (2, 1 - 2**59), (3, 700)]))
    (sign,) = {entry for entry in column(counts, 5) if entry}
    full = sign * (2**63 - 1)
    noise = [sign * 5 if entry else 0 for entry in column(counts, 5)]
    add(released("a sum wrapped modulo 2^64", counts, [(5, 2**63 - 1)], drawn=noise, scale=1))
    assert wrapped(full + sign * 5) * sign < 0
    table = {"neighbours": {"bound": Fraction(1), "unit": "Gerät", "max_keys": 300}}
    for name in ("a", "b"):
        add(released(f"a table of keys, {name}", counts, [(1, 100_000), (2, 50_000 if name == "a" else 7)], **table))
    add(
        released(
            "under conditions", counts, [(1, 3), (999, 8)], guarantee={"conditions": ["no vector is zero", "ε ≤ 日"]}
        )
    )
    for basis in ("enforced", "asserted"):
        add(released(f"a bound that is {basis}", counts, [(1, 3)], guarantee={"basis": basis}))
    also = add(released("another bound that is enforced", counts, [(2, 3)], guarantee={"basis": "enforced"}))
    enforced, asserted = (made[f"a bound that is {basis}"] for basis in ("enforced", "asserted"))
    add(summed("a sum of bounds that are enforced", enforced, also, 1, "disjoint"))
    add(summed("a sum of bounds, one asserted", enforced, asserted, 1, "overlapping"))
    for kind, keys in (("l2", 0), ("one-coordinate", 0), ("sketch-l2", 0), ("sketch-l2", 13), ("sketch-l2", 2**32 - 1)):
        of_kind = {"kind": kind, "bound": Fraction(3), "unit": "customer", "max_keys": keys}
        add(released(f"for {kind} neighbours, max_keys {keys or 1}", counts, [(1, 3)], neighbours=of_kind, scale=100))
    add(released("an empty stream", counts, []))
    for name, steps in _mechanisms():
        add(released(name, counts, [(1, 40)], guarantee=mechanism(steps)))
    for name, steps, draws in _shares():
        noise = {"k2": draws * laplace(100)["k2"], "k4": draws * laplace(100)["k4"], "place": ""}
        add(released(name, counts, [(1, 40)], guarantee=mechanism(steps), noise=noise))
    _few_cells(add)
    _counted(add)
    _histories(add)
    _together(add)
    zeros = [-cell for cell in sketched(counts, {1: 3})]
    add(released("of zeros alone", counts, [(1, 3)], drawn=zeros))
    add(released("of unknown data", counts, [(4, 400)], data_ids=[]))
    add(released("under an agreement", counts, [(4, 40), (5, -2)], agreement=bytes(range(240, 256))))
    x, y, z = (add(released(f"a part, {name}", counts, [(1, 300 + i), (2, 7 * i)])) for i, name in enumerate("xyz"))
    half = add(scaled("a multiple", x, Fraction(1, 2)))
    add(scaled("another multiple", z, Fraction(1, 2)))
    add(scaled("a negative multiple", y, Fraction(-2, 3)))
    both = add(summed("a sum of two alike", x, y, 1, "disjoint"))
    add(summed("a sum of three alike", both, z, 1, "overlapping"))
    mixed = add(summed("a difference of multiples", half, made["a negative multiple"], -1, "disjoint"))
    add(scaled("a multiple of a sum", mixed, Fraction(-3, 7)))
    add(summed("a sum with other noise", both, made["under conditions"], 1, "overlapping"))
    add(summed("a sum with a bound on unknown ground", x, enforced, 1, "disjoint"))
    add(summed("a sum with unknown data", x, made["of unknown data"], 1, "overlapping"))
    unsaid = {name: said for name, said in both["message"]["guarantee"].items() if name != "steps"}
    bare = both["message"] | {"parts": [], "data_ids": [], "guarantee": unsaid | {"conditions": []}}
    old = {"name": "a sum of before parts were written", "message": bare}
    add(old)
    add(summed("a sum with unstated parts", old, z, 1, "disjoint"))


def _few_cells(add: Any) -> None:
    """Add histograms of few cells under noise of a step or two, some in other steps."""
    half, wide = Fraction(1, 2), Fraction(3, 2)
    streams = {"x": (9, -4, 2, 0, 5, 5), "y": (6, -2, 3, -7, 3, 9), "z": (608, -9, 0, 7, 7, 7)}
    for k in (1, 2, 3, 6):
        text = projection_of("identity", dim=k, sketch_dim=k)
        for kind, amount, noise in (("laplace", half, laplace(half)), ("gaussian", wide, gaussian(wide))):
            stated = mechanism([{"noise": {"kind": kind, "amount": amount, "layers": 0, "place": ""}}])
            for stream, cells in streams.items():
                name = f"{k} cells, {kind}, {stream}"
                events = list(enumerate(cells[:k]))
                case = add(released(name, text, events, guarantee=stated, noise=noise, drawn=drawn(1, k, name)))
                add(scaled(f"three times {name}", case, Fraction(3)))


def _together(add: Any) -> None:
    """Add streams of a few maps, for estimates of all pairs together: a name is the set's, and the stream's number."""
    hashed = projection_of("sjlt-block", dim=1000, sketch_dim=32, sparsity=2, resolution="1/1")
    dense = projection_of("rademacher", dim=1000, sketch_dim=16)
    source = random.Random("streams of the kit")  # noqa: S311 - test data
    tastes = [[math.floor(source.expovariate(0.02)) for _ in range(24)] for _ in range(3)]

    def months(t: int) -> list[tuple[int, int]]:
        return [(i, (a * (8 - t) + b * t) // 8) for i, (a, b) in enumerate(zip(*tastes[:2], strict=True))]

    for t in range(6):
        add(released(f"months, {t}", hashed, months(t), scale=20 if t % 2 else 26))
        add(released(f"months of unequal noise, {t}", hashed, months(t), scale=40 if t % 2 else 8))
        if t < 4:
            add(released(f"few months, {t}", dense, months(2 * t), scale=9))
    add(released("no month", hashed, [], scale=20))
    for place in range(6):
        events = [(100 * (place % 3) + i, 2 * x) for i, x in enumerate(tastes[place % 3])]
        events += [(1 + place + 7 * i, 30) for i in range(4)]
        stated = mechanism([{"noise": {"kind": "gaussian", "amount": Fraction(144), "layers": 0, "place": ""}}])
        noise = [round(source.gauss(0, 12)) for _ in range(16)]
        more: Message = {"guarantee": stated, "noise": gaussian(Fraction(144)), "drawn": noise}
        add(released(f"clusters, {place}", dense, events, **more))
    add(released("a month unlike others", hashed, [(500 + i, x) for i, x in enumerate(tastes[2])], scale=40))


def _histories(add: Any) -> None:
    """Add rows of histories, ranges of windows that follow from them, and sums of ranges."""
    block, people = projection_of("sjlt-block", resolution="1/2"), {"kind": "l1", "bound": Fraction(100), "max_keys": 0}
    span = {"max_windows": 1, "gap": 1}
    kinds: list[tuple[str, Message, Message | None]] = [
        ("apart", {"kind": "separate", "horizon": 4} | span, None),
        ("tree", {"kind": "tree", "horizon": 4, "depth": 2} | span, None),
        ("root", {"kind": "factorisation", "horizon": 4, "blocks": 2, "bits": 4} | span, {"units": 24, "slack": 1}),
        (
            "band",
            {"kind": "factorisation", "horizon": 4, "blocks": 8, "band": 2, "bits": 3, "max_windows": 2, "gap": 3},
            None,
        ),
        *(
            (name, {"kind": "factorisation", "horizon": 4, "blocks": 2, "bits": bits} | span, {"units": 24, "slack": 2})
            for name, bits in (("a crowd", 4), ("a crowd of another town", 5))
        ),
    ]
    made: dict[str, list[Message]] = {}
    for name, schedule, weights in kinds:
        c = histories.matrix(schedule)
        largest = max(map(sum, zip(*c, strict=True))) * schedule["max_windows"]
        within = "one" if schedule["max_windows"] == 1 else f"at most {schedule['max_windows']}"
        apart = f", {schedule['gap']} apart" if schedule["gap"] > 1 else ""
        unit = f"customer in {within} of {schedule['horizon']} windows{apart}"
        made[name] = []
        many = 500 + len(name) if "crowd" in name else 1  # averages are defined: ν is far above 2τ
        for t in range(3):
            events = [(index, sum(c[t][j] * (1000 + 300 * j) * index * many for j in range(t + 1))) for index in (1, 5)]
            changes: Message = {"neighbours": people | {"unit": unit}, "schedule": schedule, "scale": 840 * largest}
            if weights is not None:
                counted = [sum(c[t][j] * (70 + 10 * j) * part * many for j in range(t + 1)) for part in (1, 60)]
                changes |= {"weights": weights, "counted": counted}
            part = {"id": ids(f"history of {name}", 1)[0], "start": t, "stop": t + 1, "row": True}
            changes |= {"history": part | {"minus_start": 0, "minus_stop": 0}, "data_ids": ids(f"days of {name}", 16)}
            made[name].append(add(released(f"row {t} of {name}", block, events, **changes)))
    ranges = (("apart", 1, 3), ("tree", 1, 3), ("root", 1, 3), ("band", 0, 2))
    for name, start, stop in (*ranges, ("a crowd", 1, 3), ("a crowd of another town", 0, 2)):
        part = {"start": start, "stop": stop, "minus_start": 0, "minus_stop": 0}
        made[name].append(add(ranged(f"a range of {name}", made[name][:3], part)))
    less = {"start": 2, "stop": 3, "minus_start": 0, "minus_stop": 2}
    add(ranged("a difference of ranges", made["root"][:3], less))
    add(scaled("a multiple of a range", made["root"][3], Fraction(-3, 2)))
    add(summed("a sum of ranges", made["tree"][3], made["apart"][3], 1, "disjoint"))
    add(summed("a sum of ranges of crowds", made["a crowd"][3], made["a crowd of another town"][3], 1, "disjoint"))


def _of_one_length(add: Any) -> None:
    """Add releases of units of one length that are more or less alike, as their norms and numbers show."""
    made = {}
    neighbours = {"kind": "sketch-l2", "bound": Fraction(2), "unit": "patient", "max_keys": 0}
    for name, kind, share, counted in (
        ("hashed", "sjlt-block", 0.97, 4000),
        ("hashed, other", "sjlt-block", 0.85, 6000),
        ("hashed, apart", "sjlt-block", 0.4, 5000),
        ("hashed, in several keys", "sjlt-block", 0.97, 4000),
        ("hashed, or less", "sjlt-block", 0.97, 4000),
        ("rotated", "rotation", 0.9, 4000),
        ("rotated, other", "rotation", 0.8, 5000),
        ("coarse", "count-sketch", 0.9, 4000),
        ("very sparse", "very-sparse", 0.9, 4000),
    ):
        text = projection_of(kind, resolution="1/2" if name == "coarse" else "1/4096")
        events = [(1, round(1.6 * share * counted)), (2, round(1.2 * share * counted))]
        keys = {"max_keys": 3 if name.endswith("keys") else 0}
        changes = {"neighbours": neighbours | keys, "clip": "scale" if name.endswith("less") else "equal"}
        changes |= {"scale": 3 if name == "coarse" else 20_000 * max(keys["max_keys"], 1)}
        changes |= {"counted": [counted, 0], "weights": {"units": 1 if name == "coarse" else 900, "slack": 0}}
        changes |= {"guarantee": {"basis": "enforced"}}
        made[name] = add(released(f"of units of one length, {name}", text, events, **changes))
    add(summed("a sum of units of one length", made["hashed"], made["hashed, other"], 1, "disjoint"))
    add(scaled("a multiple of units of one length", made["hashed"], Fraction(3, 2)))


def _counted(add: Any) -> None:
    """Add releases with counts, their sums and multiples."""
    block = projection_of("sjlt-block", resolution="1/2")
    people = {"kind": "l1", "bound": Fraction(100), "unit": "customer", "max_keys": 0}
    both, units = {"units": 24, "slack": 1}, {"units": 24, "slack": 0}
    made = {}
    for name, weights, counted in (("x", both, [900, 41_000]), ("y", both, [700, 35_000]), ("z", units, [800, 9])):
        events = [(1, 30_000 + counted[0]), (2, -9000), (5, 12_345)]
        changes = {"neighbours": people, "weights": weights, "counted": counted, "scale": 840}
        made[name] = add(released(f"of counted units, {name}", block, events, **changes))
    sparse = projection_of("very-sparse", resolution="1/2")  # whose fourth powers count
    for name, counted in (("u", [9000, 410_000]), ("v", [7500, 350_000])):
        changes = {"neighbours": people, "weights": both, "counted": counted, "scale": 8400}
        events = [(1, 30_000 + counted[0]), (2, -9000), (5, 12_345)]
        add(released(f"of counted units, {name}", sparse, events, **changes))
    few = {"neighbours": people, "weights": both, "counted": [3, 90], "scale": 840}
    add(released("of few counted units", block, [(1, 60)], **few))
    x, y, z = made.values()
    add(summed("a sum of counted units", x, y, 1, "disjoint"))
    add(summed("a sum of units that may be in both", x, y, 1, "overlapping"))
    add(summed("a difference of counted units", x, y, -1, "disjoint"))
    add(summed("a sum of units with other weights", x, z, 1, "disjoint"))
    add(scaled("a multiple of counted units", x, Fraction(3, 2)))
    fine = projection_of("sjlt-block", resolution="1/4096")
    sketches = {"kind": "sketch-l2", "bound": Fraction(2), "unit": "patient", "max_keys": 3}
    clipped = {"neighbours": sketches, "scale": 70_000, "weights": {"units": 900, "slack": 0}}
    parts = []
    for name, clip, counted in (("a", "equal", 4000), ("b", "equal", 2000), ("c", "scale", 3000)):
        events = [(1, 1000 + counted), (2, -500)]
        changes = clipped | {"counted": [counted, 0], "clip": clip, "guarantee": {"basis": "enforced"}}
        parts.append(add(released(f"of sketches clipped in length, {name}", fine, events, **changes)))
    add(summed("a sum of sketches of one length", parts[0], parts[1], 1, "disjoint"))
    add(summed("a sum of sketches clipped in two ways", parts[0], parts[2], 1, "disjoint"))
    add(summed("a sum of sketches of one length, with people in both", parts[0], parts[1], 1, "overlapping"))
    _of_one_length(add)
    plain = {"neighbours": sketches | {"max_keys": 2**32 - 1}, "scale": 70_000}
    add(released("of sketches with people in any number of keys", fine, [(1, 2000)], **plain))
