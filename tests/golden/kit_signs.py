"""Published signs of the conformance kit: signs of twins' cells, flipped by public coins."""

import math
import random
from fractions import Fraction
from typing import Any

from tests.golden.kit_releases import Message, guarantee, ids, projection_fields, projection_of, sketched

STREAMS = {"x": {0: 12, 3: 40, 4: -7, 5: -25, 7: 30, 8: 18}, "y": {0: 10, 3: 38, 4: -9, 5: -20, 7: 4, 9: 11}}
NORMS = {name: math.sqrt(sum(value**2 for value in stream.values())) for name, stream in STREAMS.items()}
STEP = 20
PIXEL = {"kind": "one-coordinate", "bound": Fraction(STEP), "unit": "pixel", "max_keys": 0}


def published() -> list[Message]:
    """Return all published signs of the kit."""
    held = {"conditions": ["no vector has a norm below 30"], "delta": 1e-6}
    event = {"kind": "l1", "bound": Fraction(1), "unit": "event", "max_keys": 0}
    kinds: list[tuple[str, str, Message]] = [
        (
            "rademacher, constant",
            "rademacher",
            _law("constant", 3, "DP-SignRP-RR", held, norm_bound=Fraction(30)),
        ),
        ("rademacher, levels", "rademacher", _law("levels", 1, "DP-SignRP-RR-smooth", {})),
        (
            "rademacher, linear",
            "rademacher",
            _law("linear", Fraction(1, 16), "DP-Sign-logistic", {"neighbours": event}),
        ),
        (
            "rademacher, drowned",
            "rademacher",
            _flips("constant", Fraction(1, 16)) | _by([{"text": "DP-SignRP"}], {"epsilon": 0.1}),
        ),
        ("oporp, constant", "oporp", _law("constant", 2, "DP-SignOPORP-RR", {})),
        ("rademacher, individual", "rademacher", _method("iDP-SignRP-RR")),
        ("rademacher, individual by noise", "rademacher", _method("iDP-SignRP-G", delta=1e-6)),
        ("oporp, individual", "oporp", _method("iDP-SignOPORP")),
        ("oporp, individual by noise", "oporp", _method("iDP-SignOPORP-G", delta=1e-6)),
    ]
    made = [
        _published(f"{name}, {which}", kind, stream, how)
        for name, kind, how in kinds
        for which, stream in STREAMS.items()
    ]
    return [*made, all_minus()]


def _flips(shape: str, rate: Fraction | int) -> Message:
    return {"law": {"shape": shape, "rate": Fraction(rate)}}


def _law(shape: str, rate: Fraction | int, method: str, changes: Message, **more: Fraction) -> Message:
    law = _flips(shape, rate)
    return law | _by([{"flips": {"method": method} | law | more}], changes)


def _by(steps: list[Message], changes: Message) -> Message:
    return {"guarantee": guarantee(steps, **({"epsilon": 3.0, "neighbours": PIXEL} | changes))}


def _method(method: str, delta: float = 0.0) -> Message:
    return {"method": method} | _by([{"text": method}], {"delta": delta})


def all_minus() -> Message:
    """Return signs of which every byte is zero, and so written nevertheless."""
    case = _published("rademacher, all minus", "rademacher", STREAMS["x"], _law("levels", 1, "DP-SignRP-RR-smooth", {}))
    return case | {"message": case["message"] | {"signs": bytes(len(case["message"]["signs"]))}}


def _published(name: str, kind: str, stream: Message, how: Message) -> Message:
    text = projection_of(kind)
    source: Any = random.Random(name)  # noqa: S311 - test data
    bits = 0
    for place, cell in enumerate(sketched(text, stream)):
        rate = float(how["law"]["rate"]) if "law" in how else 3.0 if abs(cell) <= STEP else math.inf
        shape = how.get("law", {"shape": "constant"})["shape"]
        level = {"constant": 1, "levels": -(-abs(cell) // STEP), "linear": abs(cell)}[shape]
        wrong = source.random() < (0.5 if cell == 0 else 1 / (math.exp(min(rate * level, 700)) + 1))
        bits |= int((cell > 0) != wrong) << place
    fields = projection_fields(text)
    message = {"projection": fields, "signs": bits.to_bytes(-(-fields["sketch_dim"] // 8), "little")} | how
    message |= {"release_id": ids(name, 1)[0]}
    if "law" in how:
        message["data_ids"] = ids(f"data of {name}", 16)
    return {"name": name, "kind": "SignSketch" if "law" in how else "IndividualSignSketch", "message": message}
