"""Names of rounds: no two have masks in common, whoever wrote them and with whatever id."""

import base64
import dataclasses
import hashlib
import hmac
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from streamsketch.errors import InvalidInputError, SignatureError
from streamsketch.parties import Key, Round, envelope, identity
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.samplers import SystemBits
from tests.parties.test_rounds import KEYS, PROJECTION, a_round, again, cells_of, sketches

GOLDEN = Path(__file__).parents[1] / "golden"
KEY = "Berlin"
IDS: dict[str, Callable[[Round], bytes]] = {
    "that of format 1": lambda agreed: _sha(b"streamsketch.parties.key.1", _whole(agreed), _text(KEY))[:16],
    "the name's first half": lambda agreed: bytes.fromhex(agreed.for_key(KEY).fingerprint)[:16],
    "the name's second half": lambda agreed: bytes.fromhex(agreed.for_key(KEY).fingerprint)[16:],
    "the session's first half": lambda agreed: agreed.for_key(KEY).session[:16],
    "what the round of the key says": lambda agreed: agreed.for_key(KEY).round_id,
}


def _sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def _whole(agreed: Round) -> bytes:
    return bytes.fromhex(agreed.fingerprint)


def _text(key: str) -> bytes:
    return identity.key_bytes(key)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteLaplace, "sample_share", lambda _self, _n, size, _bits: np.zeros(size, dtype=np.int64))


def masks(agreed: Round, key: Key) -> Any:
    """Return the masks of a party that knows nothing of other rounds, in whose data and shares there are zeros."""
    return cells_of(agreed.contribute(PROJECTION.sketch(), again(key)))


def have_nothing_in_common(*found: Any) -> bool:
    return all((one != other).all() for one, other in itertools.combinations(found, 2))


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("name", IDS)
def test_a_proposed_round_never_has_the_masks_of_a_key(name: str) -> None:
    agreed = a_round(KEYS[:3])
    proposed = a_round(KEYS[:3], round_id=IDS[name](agreed))
    if proposed == agreed:  # its id is the round's own
        proposed = dataclasses.replace(agreed, epsilon=2.0)
    parts = [agreed, proposed, *(one.for_key(key) for one in (agreed, proposed) for key in (KEY, "Bonn"))]
    assert have_nothing_in_common(*(masks(one, KEYS[0]) for one in parts))


@pytest.mark.usefixtures("silent")
def test_ids_of_one_domain_are_found_to_share_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault put back: a key's round was one with another id, which anybody could propose."""

    def as_before(fields: dict[str, Any], key: bytes, form: int) -> bytes:
        derived = _sha(b"streamsketch.parties.key.1", identity.digest_of_agreed(fields, form), key)[:16]
        return identity.digest_of_agreed(fields | {"round": derived.hex()}, form)

    monkeypatch.setattr("streamsketch.parties.rounds.digest_of_key", as_before)
    agreed = a_round(KEYS[:3])
    proposed = a_round(KEYS[:3], round_id=IDS["that of format 1"](agreed))
    assert (masks(agreed.for_key(KEY), KEYS[0]) == masks(proposed, KEYS[0])).all()


@pytest.mark.usefixtures("silent")
def test_masks_are_new_with_each_party_that_signs_whatever_the_round_says() -> None:
    agreed = a_round(KEYS[:3], round_id=bytes(16))
    once = agreed.signed(KEYS[0]).signed(KEYS[1]).signed(KEYS[2])
    kept = dataclasses.replace(agreed, signatures=list(once.signatures or ())[:2])  # two of the signatures again
    others = [agreed, once, kept.signed(KEYS[2]), agreed.signed(KEYS[2]).signed(KEYS[0]).signed(KEYS[1])]
    assert len({one.fingerprint for one in others}) == 1, "what they agreed on is the same"
    assert have_nothing_in_common(*(masks(one, KEYS[0]) for one in others))
    assert have_nothing_in_common(*(masks(one.for_key(KEY), KEYS[0]) for one in others))


def test_the_order_of_signatures_means_nothing_and_nobody_signs_twice() -> None:
    agreed = a_round(KEYS[:3]).signed(KEYS[2]).signed(KEYS[0])
    assert agreed.signed(KEYS[2]) is agreed
    assert agreed.signed(again(KEYS[0])) is agreed
    whole = agreed.signed(KEYS[1])
    turned = dataclasses.replace(whole, signatures=list(whole.signatures or ())[::-1])
    assert turned.session == whole.session
    assert Round.from_json(whole.to_json()).session == whole.session
    again_signed = a_round(KEYS[:3], round_id=agreed.round_id).signed(KEYS[0])
    both = [*(agreed.signatures or ()), *(again_signed.signatures or ())]
    with pytest.raises(SignatureError, match=r"Mercy \(\w+\) signed twice"):
        dataclasses.replace(agreed, signatures=both).signers()


def test_what_a_party_added_is_nobody_elses_to_change() -> None:
    agreed = a_round(KEYS[:2])
    for added in (b"", bytes(31), bytes(33)):
        mark = envelope.seal(_whole(agreed) + added, "application/vnd.streamsketch.round.v2+json", KEYS[0])
        with pytest.raises(SignatureError, match=f"adds {len(added)} bytes to the round, not 32"):
            dataclasses.replace(agreed, signatures=[mark]).signers()
    fields = json.loads(agreed.signed(KEYS[0]).to_json())
    payload = bytearray(base64.b64decode(fields["signatures"][0]["payload"]))
    payload[-1] ^= 1
    fields["signatures"][0]["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(SignatureError, match="does not match"):
        Round.from_json(json.dumps(fields))


def test_parties_that_know_the_keys_read_the_same_session_or_none() -> None:
    agreed, known = a_round(KEYS[:3]), [key.public for key in KEYS[:3]]
    assert Round.from_json(agreed.to_json(), parties=known).session == agreed.session
    some = agreed.signed(KEYS[0])
    with pytest.raises(SignatureError, match=r"Hope \(\w+\), Grace \(\w+\) did not sign"):
        Round.from_json(some.to_json(), parties=known)
    whole = some.signed(KEYS[1]).signed(KEYS[2])
    assert Round.from_json(whole.to_json(), parties=known).session == whole.session
    sent = [whole.contribute(one, again(key)) for one, key in zip(sketches(3), KEYS[:3], strict=True)]
    with pytest.raises(InvalidInputError, match="or to this one with other signatures"):
        agreed.combine(sent)
    with pytest.raises(SignatureError, match="did not sign"):
        Round.from_json(agreed.to_json()).combine(sent)


def test_the_round_of_a_key_is_derived_and_nothing_else() -> None:
    agreed = a_round(KEYS[:2])
    derived = agreed.for_key(KEY)
    for use in (derived.to_json, lambda: derived.signed(KEYS[0]), lambda: derived.for_key(KEY)):
        with pytest.raises(InvalidInputError, match=r"use the table.s round"):
            use()
    assert derived != agreed
    assert derived == agreed.for_key(KEY)
    assert dataclasses.replace(derived, epsilon=2.0) == dataclasses.replace(agreed, epsilon=2.0)


def test_names_of_all_rounds_and_keys_differ() -> None:
    rounds = [a_round(KEYS[:2], round_id=bytes([number]) * 16) for number in range(3)]
    rounds += [
        a_round(KEYS[:2], round_id=bytes(16), **more) for more in ({"epsilon": 2.0}, {"honest": 2, "delta": 1e-9})
    ]
    rounds += [rounds[0].signed(KEYS[0]).signed(KEYS[1])]
    keys: list[str | bytes | int] = ["AA", b"AA", 7, "7", b"\x07", "", b"", 0, -7, 1 << 70]
    sessions = [one.session for one in rounds] + [one.for_key(key).session for one in rounds for key in keys]
    assert len(set(sessions)) == len(sessions)


# --- files ------------------------------------------------------------------------------------------------------


def fixed_keys() -> list[Key]:
    halves = [(bytes([number]) * 32, bytes([number + 10]) * 32) for number in (1, 2)]
    return [
        Key(Ed25519PrivateKey.from_private_bytes(one), X25519PrivateKey.from_private_bytes(other), name)
        for (one, other), name in zip(halves, ("North", "South"), strict=True)
    ]


@pytest.mark.parametrize("form", [1, 2])
def test_rounds_of_every_format_are_read_and_combined(form: int) -> None:
    """Written by the version that made the format, with other noise each time and so never again."""
    golden = json.loads((GOLDEN / f"round_{form}.json").read_text(encoding="utf-8"))
    agreed = Round.from_json(golden["round"])
    assert agreed.to_json() == golden["round"]
    assert agreed.signers() == tuple(key.public for key in fixed_keys())
    for part, sent, released in [
        (agreed, golden["contributions"], golden["release"]),
        (agreed.for_key(golden["key"]), golden["of_key"], golden["release_of_key"]),
    ]:
        found = part.combine(one.encode() for one in sent)
        assert found.values.tolist() == released["cells"]
        assert [one.hex() for one in found.release_ids] == [released["release_id"]]


def test_nobody_contributes_to_a_round_of_the_first_format() -> None:
    """Its masks are those of another, if the id of a key's round was proposed as well."""
    agreed = Round.from_json((json.loads((GOLDEN / "round_1.json").read_text()))["round"])
    north = fixed_keys()[0]
    for part in (agreed, agreed.for_key("AA")):
        with pytest.raises(InvalidInputError, match="written by an earlier version"):
            part.contribute(part.projection.sketch(), north)
        with pytest.raises(InvalidInputError, match="written by an earlier version"):
            part.contribute_again(part.projection.sketch(), north, SystemBits())
    with pytest.raises(InvalidInputError, match="written by an earlier version"):
        agreed.signed(north)
    renewed = dataclasses.replace(agreed, signatures=None)
    assert json.loads(renewed.to_json())["format"] == 2
    renewed.contribute(renewed.projection.sketch(), north)


@pytest.mark.parametrize("form", [0, 1, 3, -1, True, None, "2", 2.5])
def test_a_format_of_another_version_is_refused(form: Any) -> None:
    fields = json.loads(a_round(KEYS[:2]).to_json())
    with pytest.raises(InvalidInputError, match="not a round that"):
        Round.from_json(json.dumps(fields | {"format": form}))


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\x01", "sha256")


def test_names_and_masks_are_as_the_format_describes_them() -> None:
    """By hashlib, HMAC and ChaCha20 alone: what WIRE.md says."""
    north, south = fixed_keys()
    golden = json.loads((GOLDEN / "round_2.json").read_text(encoding="utf-8"))
    fields = json.loads(golden["round"])
    signatures = [base64.b64decode(one["payload"]) for one in fields.pop("signatures")]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    whole = _sha(b"streamsketch.parties.round.2\n", text)
    assert [one[:32] for one in signatures] == [whole] * 2
    added = [one[32:] for one in signatures]
    name = _sha(b"streamsketch.parties.key.2", whole, _text(golden["key"]))
    agreed = Round.from_json(golden["round"])
    assert (agreed.fingerprint, agreed.for_key(golden["key"]).fingerprint) == (whole.hex(), name.hex())
    for of, sent in ((whole, golden["contributions"]), (name, golden["of_key"])):
        session = _sha(b"streamsketch.parties.session.2", of, *added)
        info = b"streamsketch.parties.mask.1" + north.public.key_exchange + south.public.key_exchange
        stream = Cipher(ChaCha20(hkdf(north.shared_secret(south.public), session, info), bytes(16)), mode=None)
        mask = np.frombuffer(stream.encryptor().update(bytes(64)), dtype="<u8")
        for one, sign in zip(sent, (1, -1), strict=True):
            payload = base64.b64decode(json.loads(one)["payload"])
            assert payload[:32] == session
            cells = np.frombuffer(payload[40:104], dtype="<u8") - mask * np.int64(sign).astype(np.uint64)
            assert np.abs(cells.astype(np.int64)).max() < 1000, "the mask is off"
