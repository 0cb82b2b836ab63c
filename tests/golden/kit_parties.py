"""Rounds of the conformance kit: public test keys, written-down shares, and contributions by the pure reader."""

import base64
import hashlib
import json
import math
import random
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tests.golden import party_reader, reader
from tests.golden.kit_releases import Message, ids, laplace, load, projection_fields, sketched, wrapped
from tests.golden.kit_tables import keys_of
from tests.golden.parquet import Column
from tests.golden.party_reader import Round, Secret, canonical
from tests.oracles import naive

PROJECTION = {
    "dim": 1000,
    "independence": 4,
    "kind": "count-sketch",
    "resolution": "1/1",
    "seed": 7,
    "sketch_dim": 8,
}
NAMES = ("North", "Süd", "", "西 \U0001f511")
AGREEMENT = bytes(range(224, 240)).hex()
VISIT = {"relation": "l1", "bound": "1", "unit": "visité", "max_keys": 1}


def secret(name: str) -> Secret:
    """Return a private key; no secret, as the kit is public."""
    return Secret(*(hashlib.sha256(f"{half} of {name}".encode()).digest() for half in ("signing", "agreement")))


SECRETS = [secret(name) for name in NAMES]


def rounded(scale: Fraction) -> Fraction:
    """Return a scale as this library rounds it up."""
    if max(scale.numerator.bit_length(), scale.denominator.bit_length()) <= 48:
        return scale
    whole = math.floor(scale).bit_length()
    parts = 1 << (max(0, 24 - whole) if whole else 47)
    return Fraction(math.ceil(scale * parts), parts)


def agreed(name: str, count: int, **changes: Any) -> Message:
    """Return what parties agree on."""
    fields: Message = {"format": 2, "projection": PROJECTION, "epsilon": 0.5, "delta": 0.0, "neighbours": VISIT}
    fields |= {"mechanism": "auto", "honest": count} | changes
    relation = fields["neighbours"]
    steps = math.floor(Fraction(relation["bound"]) / Fraction(PROJECTION["resolution"])) * relation["max_keys"]
    counts = fields["counting"]["units"] * relation["max_keys"] if "counting" in fields else 0  # Δ1 is 1
    scale = (steps + counts) / Fraction(fields["epsilon"])
    fields["noise"] = {"kind": "laplace", "amount": str(rounded(scale))}
    members = zip(SECRETS[:count], NAMES, strict=False)
    fields["parties"] = [party_reader.text_of_key(one.public, called) for one, called in members]
    return fields | {"round": random.Random(name).randbytes(16).hex()}  # noqa: S311 - test data


def signed(fields: Message, signers: Iterable[Secret]) -> str:
    """Return a round's text with signatures."""
    whole, kind = party_reader.name_of(fields, 2), party_reader.ROUNDS[2]
    signatures = [
        json.loads(party_reader.sealed(whole + hashlib.sha256(one.signing + whole).digest(), kind, one))
        for one in signers
    ]
    return canonical(fields | {"signatures": signatures}, ascii_alone=False)


def contributions() -> list[Message]:
    """Return all cases, those that must be refused last."""
    three = signed(agreed("three", 3), SECRETS[:3])
    four = signed(agreed("four", 4, honest=2, neighbours=VISIT | {"bound": "7/2", "max_keys": 3}), SECRETS[3::-1])
    small = agreed("small", 2, epsilon=1e-05, delta=1e-06, mechanism="laplace", neighbours=VISIT | {"max_keys": 2})
    many = VISIT | {"bound": "9", "max_keys": 2}
    counted, units = (
        signed(agreed(name, 2, neighbours=many, counting={"units": 3, "slack": slack}), SECRETS[:2])
        for name, slack in (("counted", 1), ("units", 0))
    )
    cases = [
        _case("three parties", three),
        _case("with counts of units and slack", counted),
        _case("with counts of units alone", units),
        _case("two of four are honest", four),
        _case("signed by nobody, with small numbers", signed(small, [])),
        _case("cells that wrap around", three, offset=2**63 - 5),
        _case("of a key, text", four, Column("text", ["Ä"])),
        _case("of a key, bytes", four, Column("bytes", [b"\xff\0"])),
        _case("of a key, an integer", four, Column("integer", [-7])),
        _case("of an agreement", signed(agreed("follows", 2, agreement=AGREEMENT), SECRETS[:2])),
    ]
    written = [one for form in (1, 2) for one in _golden(form)]
    return [*cases, *written, *_refused(cases[0], three), *_overstated()]


def _golden(form: int) -> list[Message]:
    """Return the rounds of a format that this library wrote once; of their parties' keys nobody knows."""
    golden = load(f"round_{form}")
    key = Column("text", [golden["key"]])
    parts = (("", None, golden["contributions"]), (", of a key", key, golden["of_key"]))
    return [
        _read(f"as this library wrote it in format {form}{of}", golden["round"], one, made) for of, one, made in parts
    ]


def _read(name: str, text: str, key: Column | None, made: list[str]) -> Message:
    found = party_reader.read_round(text, hashed(key))
    read = [party_reader.read_contribution(found, one) for one in made]
    sent = zip(read, made, strict=True)
    return _head(name, text, key, found) | {
        "contributions": [{"data_ids": [i.hex() for i in one.data_ids], "bytes": envelope} for one, envelope in sent],
        "release": reader.write("PrivateSketch", message_of(found, made)).hex(),
    }


def _head(name: str, text: str, key: Column | None, found: Round) -> Message:
    shown = None if key is None else keys_of(key)
    names = {"fingerprint": found.name.hex(), "session": found.session.hex()}
    return {"name": name, "round": text, "key": shown} | names


def hashed(key: Column | None) -> bytes | None:
    """Return a key as it is hashed."""
    return None if key is None else naive.canonical_bytes(key.values[0])


def _case(name: str, text: str, key: Column | None = None, offset: int = 0) -> Message:
    found = party_reader.read_round(text, hashed(key))
    places = range(len(found.parties))
    counts = party_reader.size_of(found) - found.fields["projection"]["sketch_dim"]
    sent = [[*_cells(f"{name} {place}", offset), *range(5 + place, 5 + place + counts)] for place in places]
    data = [ids(f"data of {name} {place}", 16) for place in places]
    made = [party_reader.contributed(found, SECRETS[place], sent[place], data[place]) for place in places]
    return _head(name, text, key, found) | {
        "secrets": [[half.hex() for half in SECRETS[place]] for place in places],
        "contributions": [
            {"cells": [str(cell) for cell in cells], "data_ids": [one.hex() for one in each], "bytes": envelope}
            for cells, each, envelope in zip(sent, data, made, strict=True)
        ],
        "release": reader.write("PrivateSketch", message_of(found, made)).hex(),
    }


def _cells(name: str, offset: int) -> list[int]:
    """Return exact cells of a few events, with a share of the noise."""
    source = random.Random(name)  # noqa: S311 - test data
    exact = sketched(json.dumps(PROJECTION), {source.randrange(1000): source.randrange(-9, 10) for _ in range(5)})
    return [wrapped(cell + source.randrange(-3, 4) + offset) for cell in exact]


def message_of(found: Round, made: list[str]) -> Message:
    """Return the release of a round."""
    total, guarantee = party_reader.combined(found, made), party_reader.guarantee_of(found)
    noise = guarantee["steps"][0]["noise"]
    one, draws = laplace(noise["amount"]), len(found.parties) / found.fields["honest"]
    counts = {"counts": reader.values_message(total["counts"])} if total["counts"] else {}
    named = {"agreement": bytes.fromhex(found.fields["agreement"])} if "agreement" in found.fields else {}
    return counts | {
        "projection": projection_fields(json.dumps(found.fields["projection"])),
        "values": reader.values_message(total["cells"]),
        "noise": {"k2": draws * one["k2"], "k4": draws * one["k4"], "place": ""},
        "guarantee": guarantee | {"mechanism": reader.text_of(guarantee["steps"])},
        "multiplier": Fraction(1),
        "release_ids": [total["release_id"]],
        "data_ids": total["data_ids"],
        "parts": [],
        **named,
    }


# --- what must be refused -----------------------------------------------------------------------------------------


def _refused(case: Message, text: str) -> list[Message]:
    made = [one["bytes"] for one in case["contributions"]]
    payload = base64.b64decode(json.loads(made[1])["payload"])
    fields = json.loads(text)
    partly = fields | {"signatures": fields["signatures"][:2]}
    twice = fields | {"parties": [fields["parties"][0], *fields["parties"][:2]], "signatures": []}
    other = agreed("another", 3)
    foreign = json.loads(signed(other, SECRETS[:3]))["signatures"]
    stale = party_reader.read_round(signed(agreed("three", 3), []))
    ahead = payload[:32] + b"\2" + payload[33:]
    short = payload[:36] + b"\7" + payload[37:]

    def second(data: bytes, key: Secret = SECRETS[1], kind: str = party_reader.CONTRIBUTION) -> list[str]:
        return [made[0], party_reader.sealed(data, kind, key), made[2]]

    forged = made[1].replace('"sig":"', '"sig":"A', 1).replace('=="}', '="}', 1)
    loose = _spare_bits(made[1])
    first = base64.b64decode(json.loads(made[0])["payload"])
    changes: list[tuple[str, str, str, list[str]]] = [
        ("a party is missing", "the masks cancel in the sum of all alone", text, made[:2]),
        ("a party twice", "each party contributes once", text, [*made, made[1]]),
        ("of another session", "the signatures are part of the session", text, second(stale.session + payload[32:])),
        ("another place", "the place is the signer's", text, second(ahead)),
        ("seven cells", "there are k cells", text, second(short)),
        ("a byte more", "the length follows from k", text, second(payload + b"\0")),
        ("the data of another", "no two parties contribute the same data", text, second(payload[:-128] + first[-128:])),
        ("signed by another", "the signer is a party", text, second(payload, SECRETS[3])),
        ("of another type", "the type is part of what is signed", text, second(payload, kind="text/plain")),
        ("a signature that does not fit", "it was changed", text, [made[0], forged, made[2]]),
        ("base64 with spare bits", "there is one way to write it", text, [made[0], loose, made[2]]),
        ("a round that some signed", "all have signed, or nobody", _text(partly), made),
        ("a key twice in a round", "each party has keys of its own", _text(twice), made),
        ("signatures of another round", "they are over its name", _text(fields | {"signatures": foreign}), made),
    ]
    return [_unread(*change) for change in changes]


def _unread(name: str, why: str, text: str, sent: list[str]) -> Message:
    """Return a case that must be refused."""
    return {"name": name, "reason": why, "round": text, "key": None, "contributions": [{"bytes": one} for one in sent]}


def _overstated() -> list[Message]:
    """Return rounds that all have signed and contributed to, and that state what no release can."""
    fields = agreed("overstated", 2)
    changes: list[tuple[str, str, Message]] = [
        ("a delta below 0", "it is 0 or more, also where it is not used", {"delta": -1.0}),
        ("a relation that is not known", "there are four", {"neighbours": VISIT | {"relation": "l3"}}),
        ("a noise that was not asked for", "what was asked for is its kind, or auto", {"mechanism": "gaussian"}),
        ("an agreement of 15 bytes", "a fingerprint has 16", {"agreement": AGREEMENT[2:]}),
        ("clipped alike without counts", "only counted units are", {"clip": "scale"}),
    ]
    found = []
    for name, why, change in changes:
        text = signed(fields | change, SECRETS[:2])
        members = [one.public for one in SECRETS[:2]]
        whole = party_reader.name_of(fields | change, 2)
        added = [hashlib.sha256(one.signing + whole).digest() for one in SECRETS[:2]]
        session = party_reader.digest("session.2", whole, *added)
        sent = Round(fields | change, whole, whole, session, members)
        made = [party_reader.contributed(sent, SECRETS[at], [0] * 8, ids(f"data of {name} {at}", 16)) for at in (0, 1)]
        found.append(_unread(name, why, text, made))
    return found


def _spare_bits(envelope: str) -> str:
    """Return an envelope with a bit set behind the last byte of its signature."""
    fields = json.loads(envelope)
    mark = fields["signatures"][0]["sig"]
    assert mark.endswith("==")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    changed = mark[:-3] + alphabet[alphabet.index(mark[-3]) ^ 1] + "=="
    return canonical(fields | {"signatures": [fields["signatures"][0] | {"sig": changed}]})


def _text(fields: Message) -> str:
    return canonical(fields, ascii_alone=False)
