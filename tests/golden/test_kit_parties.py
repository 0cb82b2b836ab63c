"""Rounds, contributions and signed files of the conformance kit, read by the library."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import streamsketch as ss
from streamsketch.errors import SignatureError
from streamsketch.parties import Key, PublicKey, Round, envelope, verify
from streamsketch.parties.contributions import CONTRIBUTION, Contribution, add_masks, encode_contribution
from tests.golden import make_kit, party_reader
from tests.golden.kit_releases import load
from tests.golden.test_kit import PARSERS, integers
from tests.oracles import naive

ROUNDS, FILES = (
    json.loads((make_kit.KIT / f"{name}.json").read_text(encoding="utf-8")) for name in ("contributions", "statements")
)


def cases(found: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", found, ids=lambda case: case["name"])


def contributed(case: dict[str, Any]) -> ss.PrivateSketch:
    """Return the release of a case's round, or of a key's; of a round that nobody signed, the keys are known."""
    texts = [one["bytes"].encode() for one in case["contributions"]]
    fields = json.loads(case["round"])
    known = None if fields["signatures"] else [PublicKey.from_text(line) for line in fields["parties"]]
    agreed = Round.from_json(case["round"], parties=known)
    if case["key"] is not None:
        agreed = agreed.for_key(PARSERS[case["key"]["type"]](case["key"]["items"][0]))
    if "fingerprint" in case:
        assert (agreed.fingerprint, agreed.session.hex()) == (case["fingerprint"], case["session"])
    return agreed.combine(texts)


@cases(ROUNDS)
def test_contributions_add_up(case: dict[str, Any]) -> None:
    if "reason" in case:
        with pytest.raises(ss.StreamsketchError):
            contributed(case)
        return
    found, stated = contributed(case), ss.PrivateSketch.from_bytes(bytes.fromhex(case["release"]))
    for name in ("projection", "guarantee", "release_ids", "data_ids", "multiplier", "agreement"):
        assert getattr(found, name) == getattr(stated, name), name
    assert found.values.tolist() == stated.values.tolist()
    assert (found.counts is None) is (stated.counts is None) is ("counting" not in json.loads(case["round"]))
    assert found.counts is None or found.counts.tolist() == stated.counts.tolist()  # type: ignore[union-attr]
    assert (found.noise.k2, found.noise.k4) == pytest.approx((stated.noise.k2, stated.noise.k4), rel=1e-9)


@cases([case for case in ROUNDS if "secrets" in case])
def test_masks_are_those_of_the_kit(case: dict[str, Any]) -> None:
    parties = [
        Key(
            Ed25519PrivateKey.from_private_bytes(bytes.fromhex(one)),
            X25519PrivateKey.from_private_bytes(bytes.fromhex(other)),
        )
        for one, other in case["secrets"]
    ]
    for place, (key, one) in enumerate(zip(parties, case["contributions"], strict=True)):
        cells = np.array(integers(one["cells"]), dtype=np.int64).view(np.uint64)
        add_masks(cells, bytes.fromhex(case["session"]), key, [each.public for each in parties], place)
        ids = tuple(map(bytes.fromhex, one["data_ids"]))
        payload = encode_contribution(Contribution(bytes.fromhex(case["session"]), place, cells.view(np.int64), ids))
        assert envelope.seal(payload, CONTRIBUTION, key).decode() == one["bytes"]


@pytest.mark.parametrize("form", [1, 2])
def test_the_pure_reader_adds_up_what_was_written_once(form: int) -> None:
    golden = load(f"round_{form}")
    for key, sent, release in ((None, "contributions", "release"), (golden["key"], "of_key", "release_of_key")):
        found = party_reader.read_round(golden["round"], None if key is None else naive.canonical_bytes(key))
        total = party_reader.combined(found, golden[sent])
        assert (total["cells"], total["release_id"].hex()) == tuple(golden[release].values())


@cases(FILES)
def test_statements_are_verified(case: dict[str, Any], tmp_path: Path) -> None:
    path, signer = tmp_path / case["file_name"], PublicKey.from_text(case["signer"])
    path.write_bytes(bytes.fromhex(case["file"]))
    if case["bundle"] is not None:
        (tmp_path / f"{case['file_name']}.intoto.jsonl").write_text(case["bundle"], encoding="utf-8")
    if "reason" in case:
        with pytest.raises(SignatureError):
            verify(path, signer)
        return
    found, said = verify(path, signer), case["states"]
    for name in ("kind", "guarantee", "agreement", "library"):
        assert getattr(found, name) == said[name]
    assert said["receipt"] == (found.receipt and {"number": found.receipt.number, "digest": found.receipt.digest})
    assert said["expires"] == (found.expires and found.expires.isoformat())
    if said["kind"] == "Agreement":
        agreement = ss.Agreement.from_json(found.content)
        assert (agreement.to_json().encode(), agreement.fingerprint) == (found.content, said["agreement"])
