"""Signed files of the conformance kit, by the public test keys of ``kit_parties.py``."""

import base64
import hashlib
import json

from tests.golden import parquet, party_reader, reader, table_reader
from tests.golden.kit_parties import NAMES, PROJECTION, SECRETS, VISIT
from tests.golden.kit_releases import Message
from tests.golden.parquet import Column
from tests.golden.party_reader import Secret, canonical

NORTH, SOUTH = SECRETS[:2]
COLUMN = {"name": "Länge", "type": "decimal(2)"}
AGREEMENT = canonical(
    {
        "agreement": 1,
        "index": [COLUMN, {"name": "day", "type": "date"}],
        "key": {"name": "shop", "type": "text"},
        "missing": "drop",
        "neighbours": VISIT | {"max_keys": 2},
        "projection": PROJECTION | {"dim": 2**60},
        "title": "Besuche, \U0001f511",
        "unit": {"name": "who", "type": "integer"},
        "value": None,
    }
)
NEVER, PAST = "9999-12-31T23:59:59+00:00", "2001-01-01T00:00:00+01:00"
FORMER = "0" * 64


def statements(made: dict[str, Message], signs: dict[str, Message]) -> list[Message]:
    """Return all cases, those that must be refused last."""
    release = reader.write("PrivateSketch", made["under an agreement"]["message"])
    said = _said("PrivateSketch", "ε = 1", made["under an agreement"]["message"]["agreement"].hex())
    own = hashlib.blake2b(AGREEMENT.encode(), digest_size=16).hexdigest()
    line = _line("a.sketch", release, said)
    others = "\n".join(["no JSON", _line("a.sketch", release, said, SOUTH), "", line])
    more = said | {"receipt": {"number": 3, "digest": "ab" * 32}, "expires": NEVER, "of another version": [1]}
    table = _table(signs)
    cases = [
        _case("a release", "a.sketch", release, line, said),
        _case("with a receipt and an end", "ä.sketch", release, _line("ä.sketch", release, more), more),
        _case("after lines of others", "a.sketch", release, others, said),
        _case("under another name", "b.sketch", release, line, said),
        _case("an agreement", "a.json", AGREEMENT.encode(), *_agreement(own)),
        _case("inside a table", "a.parquet", table, None, _said("SignTable", "ε = 3", None)),
    ]
    changes = [
        ("of other bytes", "the digest is that of the file", line, release[:-1] + bytes([release[-1] ^ 1])),
        ("by somebody else", "the signer is expected", _line("a.sketch", release, said, SOUTH), release),
        ("forged", "the signature is over the payload", _changed(line), release),
        ("expired", "it counts until its end", _line("a.sketch", release, said | {"expires": PAST}), release),
        (
            "an end without an offset",
            "it is a time of nowhere",
            _line("a.sketch", release, _end(said, NEVER[:19])),
            release,
        ),
        (
            "an end on no day",
            "the calendar has no such day",
            _line("a.sketch", release, _end(said, NEVER.replace("12-31", "02-30"))),
            release,
        ),
        ("of another type", "the type is part of what is signed", _of_type(line), release),
        ("of another predicate", "it says something else", _of_predicate(line), release),
        ("signed twice", "there is one signature", _twice(line), release),
        ("of nothing", "there is a line", "", release),
        ("inside a table that was changed", "the rest of the file is as it was", None, table.replace(b"DP-", b"dP-")),
        ("inside a table twice", "the footer names the entry once", None, _named_twice(table)),
    ]
    return cases + [_refused(name, why, data, lines) for name, why, lines, data in changes]


def _said(kind: str, guarantee: str | None, agreement: str | None) -> Message:
    said: Message = {"kind": kind, "guarantee": guarantee, "agreement": agreement, "library": "0.1.0"}
    return said | {"receipt": None, "expires": None}


def _end(said: Message, expires: str) -> Message:
    return said | {"expires": expires}


def _line(name: str, data: bytes, said: Message, key: Secret = NORTH) -> str:
    return party_reader.stated(name, {"sha256": hashlib.sha256(data).hexdigest()}, said, key)


def _agreement(own: str) -> tuple[str, Message]:
    said = _said("Agreement", None, own)
    return _line("a.json", AGREEMENT.encode(), said), said


def _table(signs: dict[str, Message]) -> bytes:
    """Return a table with its signature inside."""
    rows = [reader.write("SignSketch", signs[f"rademacher, linear, {name}"]["message"]) for name in "xy"]
    columns = {"key": Column("text", ["x", "y"]), "signs": Column("bytes", rows)}
    said, entry = _said("SignTable", "ε = 3", None), table_reader.ENTRY.decode()

    def line(digest: str) -> bytes:
        return party_reader.stated("a.parquet", {"sha256WithoutSignature": digest}, said, NORTH).encode()

    blank = parquet.write_table(columns, {entry: b" " * len(line(FORMER))})
    return parquet.write_table(columns, {entry: line(hashlib.sha256(blank).hexdigest())})


def _case(name: str, file: str, data: bytes, bundle: str | None, said: Message) -> Message:
    return _head(name, data, bundle) | {"file_name": file, "states": said}


def _refused(name: str, why: str, data: bytes, bundle: str | None) -> Message:
    return _head(name, data, bundle) | {"file_name": "a.parquet" if bundle is None else "a.sketch", "reason": why}


def _head(name: str, data: bytes, bundle: str | None) -> Message:
    signer = party_reader.text_of_key(NORTH.public, NAMES[0])
    return {"name": name, "signer": signer, "bundle": bundle, "file": data.hex()}


# --- what must be refused -----------------------------------------------------------------------------------------


def _changed(line: str) -> str:
    fields = json.loads(line)
    payload = base64.b64decode(fields["payload"]).replace(b'"receipt":null', b'"receipt":true')
    return canonical(fields | {"payload": base64.b64encode(payload).decode()})


def _of_type(line: str) -> str:
    return party_reader.sealed(base64.b64decode(json.loads(line)["payload"]), party_reader.CONTRIBUTION, NORTH)


def _of_predicate(line: str) -> str:
    payload = base64.b64decode(json.loads(line)["payload"]).replace(b":file:v1", b":file:v2")
    return party_reader.sealed(payload, party_reader.STATEMENT, NORTH)


def _twice(line: str) -> str:
    fields = json.loads(line)
    return canonical(fields | {"signatures": 2 * fields["signatures"]})


def _named_twice(table: bytes) -> bytes:
    """Return a table whose footer names the entry twice: with a second one, of the same length, before it."""
    size = int.from_bytes(table[-8:-4], "little")
    body, footer = table[: -8 - size], parquet.read_footer(table)
    (entry,) = footer[5]
    footer = {1: parquet.I32(footer[1]), **{key: footer[key] for key in (3,)}, 5: [entry, entry]}
    said = parquet.thrift(footer)
    return body + said + len(said).to_bytes(4, "little") + parquet.MAGIC
