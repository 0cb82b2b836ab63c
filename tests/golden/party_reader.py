"""Envelopes, rounds, contributions and statements, written from WIRE.md alone: no library. A part of ``reader.py``."""

import base64
import binascii
import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tests.golden import curves
from tests.golden.mechanisms import check_budget, need
from tests.golden.reader import Refused, check_guarantee, text_of

CONTRIBUTION = "application/vnd.streamsketch.contribution.v1"
ROUNDS = {form: f"application/vnd.streamsketch.round.v{form}+json" for form in (1, 2)}
STATEMENT = "application/vnd.in-toto+json"
KEY_PREFIX = "streamsketch-key-1"
PREDICATE = "urn:streamsketch:file:v1"
CLIPS = ("scale", "equal", "average")
Fields = dict[str, Any]


class Key(NamedTuple):
    """A public key: its two halves."""

    signing: bytes
    agreement: bytes

    @property
    def id(self) -> str:
        """The fingerprint."""
        return hashlib.sha256(self.signing + self.agreement).hexdigest()


class Secret(NamedTuple):
    """A private key: its two halves."""

    signing: bytes
    agreement: bytes

    @property
    def public(self) -> Key:
        """The public key."""
        return Key(curves.public_of(self.signing), curves.agreement_of(self.agreement))


# --- envelopes ----------------------------------------------------------------------------------------------------


def canonical(fields: Any, *, ascii_alone: bool = True) -> str:
    """Return canonical JSON."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_alone)


def authenticated(payload: bytes, kind: str) -> bytes:
    """Return what is signed."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def sealed(payload: bytes, kind: str, key: Secret) -> str:
    """Return an envelope."""
    mark = {
        "keyid": key.public.id,
        "sig": base64.b64encode(curves.sign(key.signing, authenticated(payload, kind))).decode(),
    }
    return canonical({"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": [mark]})


def opened(text: str | bytes, kind: str, keys: Mapping[str, Key]) -> tuple[bytes, Key]:
    """Return an envelope's payload, and which of the keys signed it."""
    try:
        fields = json.loads(text)
    except ValueError:
        raise Refused("no JSON") from None
    need(isinstance(fields, dict) and set(fields) == {"payload", "payloadType", "signatures"}, "no envelope")
    need(len(fields["signatures"]) == 1 and set(fields["signatures"][0]) == {"keyid", "sig"}, "not one signature")
    payload, mark = unpacked(fields["payload"]), fields["signatures"][0]
    need(fields["payloadType"] == kind, "an envelope of another type")
    need(mark["keyid"] in keys, "signed by somebody else")
    key = keys[mark["keyid"]]
    need(
        curves.is_signed(key.signing, unpacked(mark["sig"]), authenticated(payload, kind)), "the signature does not fit"
    )
    return payload, key


def unpacked(text: str) -> bytes:
    """Return what base64 stands for, which is written in one way."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refused("no base64") from None
    need(base64.b64encode(data).decode() == text, "base64 in another way")
    return data


def key_of(text: str) -> Key:
    """Return the public key in a line of text."""
    prefix, _, rest = text.partition(" ")
    both = unpacked(rest.partition(" ")[0])
    need(prefix == KEY_PREFIX and len(both) == 64, "no public key")
    return Key(both[:32], both[32:])


def text_of_key(key: Key, name: str) -> str:
    """Return a public key as a line of text."""
    return f"{KEY_PREFIX} {base64.b64encode(key.signing + key.agreement).decode()} {name}".rstrip()


# --- rounds -------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """A round, or the round for a key: its fields, names, members, and what was added by signatures."""

    fields: Fields
    whole: bytes
    name: bytes
    session: bytes
    parties: list[Key]


def read_round(text: str, key: bytes | None = None) -> Round:
    """Return a round that all have signed, or that nobody has; for a key of a table as it is hashed."""
    fields = json.loads(text)
    signatures = fields.pop("signatures")
    form = fields.get("format", 1)
    need(form in ROUNDS and (form == 1) == ("format" not in fields), "a round of another format")
    parties = [key_of(line) for line in fields["parties"]]
    for halves in zip(*parties, strict=True):
        need(len(set(halves)) == len(parties) > 1, "fewer than two parties, or a key twice")
    need(2 <= fields["honest"] <= len(parties) <= 1024, "another number of honest parties")
    check_stated(fields, len(parties))
    need(form == 2 or not fields.keys() & {"counting", "clip", "agreement"}, "a field that its format does not have")
    whole = name = name_of(fields, form)
    by_id, added = {party.id: party for party in parties}, {}
    for one in signatures:
        payload, signer = opened(json.dumps(one), ROUNDS[form], by_id)
        need(payload[:32] == whole and len(payload) == 32 * form, "a signature of another round")
        need(signer not in added, "signed twice")
        added[signer] = payload[32:]
    need(len(added) in (0, len(parties)), "signed by some alone")
    if form == 1:
        if key is not None:
            name = name_of(fields | {"round": digest("key.1", whole, key)[:16].hex()}, form)
        return Round(fields, whole, name, name, parties)
    name = whole if key is None else digest("key.2", whole, key)
    session = digest("session.2", name, *(added[party] for party in parties if added))
    return Round(fields, whole, name, session, parties)


def name_of(fields: Fields, form: int) -> bytes:
    """Return the name of a round of these fields."""
    return digest(f"round.{form}\n", canonical(fields, ascii_alone=False).encode())


def digest(domain: str, *parts: bytes) -> bytes:
    """Return SHA-256 in a domain of the parties."""
    return hashlib.sha256(b"streamsketch.parties." + domain.encode() + b"".join(parts)).digest()


def size_of(found: Round) -> int:
    """Return how many numbers a party sends: cells, and behind them counts."""
    weights, cells = found.fields.get("counting"), found.fields["projection"]["sketch_dim"]
    return int(cells) + (0 if weights is None else 2 if weights["slack"] else 1)


def masks(found: Round, own: int, secret: Secret) -> list[int]:
    """Return what a party adds to its numbers."""
    k = size_of(found)
    total = [0] * k
    for place, other in enumerate(found.parties):
        if place == own:
            continue
        first, second = sorted((own, place))
        info = b"streamsketch.parties.mask.1" + found.parties[first].agreement + found.parties[second].agreement
        derived = curves.hkdf(curves.shared(secret.agreement, other.agreement), found.session, info)
        stream = curves.chacha20(derived, 8 * k)
        sign = 1 if own < place else -1
        total = [cell + sign * int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i, cell in enumerate(total)]
    return total


def contributed(found: Round, secret: Secret, cells: list[int], data_ids: list[bytes]) -> str:
    """Return a party's contribution of cells with its share of the noise."""
    place = found.parties.index(secret.public)
    masked = [(cell + mask) % 2**64 for cell, mask in zip(cells, masks(found, place, secret), strict=True)]
    words = b"".join(cell.to_bytes(8, "little") for cell in masked)
    head = found.session + place.to_bytes(4, "little") + len(cells).to_bytes(4, "little")
    return sealed(head + words + b"".join(data_ids), CONTRIBUTION, secret)


class Contribution(NamedTuple):
    """A contribution: whose, its masked cells, and its data ids."""

    place: int
    cells: list[int]
    data_ids: list[bytes]


def read_contribution(found: Round, text: str) -> Contribution:
    """Return a party's contribution to a round."""
    payload, signer = opened(text, CONTRIBUTION, {party.id: party for party in found.parties})
    k = size_of(found)
    need(len(payload) == 40 + 8 * k + 128, "another length")
    need(payload[:32] == found.session, "a contribution to another round")
    place, size = int.from_bytes(payload[32:36], "little"), int.from_bytes(payload[36:40], "little")
    need(size == k and found.parties[place : place + 1] == [signer], "another place, or another number of cells")
    words, rest = payload[40 : 40 + 8 * k], payload[40 + 8 * k :]
    ids = [rest[at : at + 8] for at in range(0, 128, 8)]
    need(ids == sorted(set(ids)), "ids repeated or out of order")
    return Contribution(place, [int.from_bytes(words[at : at + 8], "little") for at in range(0, 8 * k, 8)], ids)


def combined(found: Round, texts: list[str]) -> Fields:
    """Return the cells, the counts, the id and the data ids of the release of all contributions."""
    read = [read_contribution(found, text) for text in texts]
    need(sorted(one.place for one in read) == list(range(len(found.parties))), "not one contribution of each party")
    ids = [one for each in read for one in each.data_ids]
    need(len(set(ids)) == len(ids), "two parties with the same data")
    cells = [(sum(column) + 2**63) % 2**64 - 2**63 for column in zip(*(one.cells for one in read), strict=True)]
    words = b"".join(cell.to_bytes(8, "little", signed=True) for cell in cells)
    k, release_id = found.fields["projection"]["sketch_dim"], digest("release", found.session, words)[:8]
    return {"cells": cells[:k], "counts": cells[k:], "release_id": release_id, "data_ids": sorted(ids)}


def check_stated(fields: Fields, count: int) -> None:
    """Refuse a round that states what no release of its parties can."""
    check_budget({name: fields[name] for name in ("epsilon", "delta")})
    need(fields["mechanism"] in ("auto", fields["noise"]["kind"]), "another noise than was asked for")
    is_clipped = fields["neighbours"]["relation"] == "sketch-l2" and "counting" in fields
    need("clip" not in fields or (fields["clip"] in CLIPS and is_clipped), "units clipped alike, but not counted")
    named = fields.get("agreement", "0" * 32)
    need(len(named) == 32 and not set(named) - set("0123456789abcdef"), "a fingerprint of other than 16 bytes")
    guarantee = _guarantee(fields, count)
    check_guarantee(guarantee | {"mechanism": text_of(guarantee["steps"])})


def guarantee_of(found: Round) -> Fields:
    """Return what the release of a round guarantees, as a message; its mechanism's text is left out."""
    return _guarantee(found.fields, len(found.parties))


def _guarantee(fields: Fields, count: int) -> Fields:
    relation = fields["neighbours"]
    most = relation["max_keys"]
    who = f"all {count} parties" if fields["honest"] == count else f"at least {fields['honest']} of the {count} parties"
    together = "keeps to the bound over all parties together, as with data at two parties it counts twice"
    if "counting" in fields:
        together = "has data at one party alone, as each party bounds and counts it by itself"
    conditions = [f"{who} follow the round and keep their keys and shares secret", f"one {relation['unit']} {together}"]
    amount, shares = Fraction(fields["noise"]["amount"]), {"parties": count, "honest": fields["honest"]}
    noise = {"kind": fields["noise"]["kind"], "amount": amount, "layers": 0, "place": "", "shares": shares}
    noise |= {"counting": fields["counting"]} if "counting" in fields else {}
    return {
        "epsilon": fields["epsilon"],
        "delta": 0.0 if noise["kind"] == "laplace" else fields["delta"],
        "neighbours": {
            "kind": relation["relation"],
            "bound": Fraction(relation["bound"]),
            "unit": relation["unit"],
            "max_keys": 0 if most == 1 else most,
        },
        "conditions": sorted(conditions),
        "basis": "asserted",
        "steps": [{"noise": noise}],
    }


# --- statements ---------------------------------------------------------------------------------------------------


def stated(name: str, digests: Mapping[str, str], said: Fields, key: Secret) -> str:
    """Return a line of signatures."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": dict(digests)}],
        "predicateType": PREDICATE,
        "predicate": said,
    }
    return sealed(canonical(statement).encode(), STATEMENT, key)


def read_statement(line: str | bytes, digest_of_file: str, keys: Mapping[str, Key], *, inside: bool = False) -> Fields:
    """Return the predicate of a line of signatures, of a file with this digest, by one of the keys."""
    payload, _ = opened(line, STATEMENT, keys)
    fields = json.loads(payload)
    need(fields.get("_type") == "https://in-toto.io/Statement/v1", "no statement")
    need(fields.get("predicateType") == PREDICATE, "a statement of something else")
    (subject,) = fields["subject"]
    name = "sha256WithoutSignature" if inside else "sha256"
    need(subject["digest"].get(name) == digest_of_file, "a signature of other bytes")
    said: Fields = fields["predicate"]
    if said["expires"] is not None:
        ends = _time_of(said["expires"])
        need(ends.tzinfo is not None and ends > dt.datetime.now(dt.UTC), "expired")
    return said


def _time_of(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise Refused("an end that is no time") from None


def read_bundle(text: str, digest_of_file: str, keys: Mapping[str, Key]) -> Fields:
    """Return the predicate of the first line of signatures that holds."""
    for line in text.splitlines():
        try:
            return read_statement(line, digest_of_file, keys)
        except Refused:
            continue
    raise Refused("no signature of any of the keys")
