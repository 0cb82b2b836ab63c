"""Signatures beside files: whose they are, of which bytes, and until when."""

import base64
import datetime as dt
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import streamsketch as ss
from streamsketch import local
from streamsketch.errors import InvalidInputError, SignatureError
from streamsketch.local import MeanAggregator
from streamsketch.parties import Key, PublicKey, Round, envelope, sign, signing, statements, verify

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
ONE = ss.L1(1, unit="visit")
NORTH, SOUTH, WEST = (Key.generate(name) for name in ("North", "South", "West"))
AGREEMENT = ss.Agreement(PROJECTION, index={"item": "text"}, neighbours=ONE)


def a_release(folder: Path, name: str = "a.sketch") -> Path:
    path = folder / name
    AGREEMENT.projection.sketch().release(epsilon=1.0, neighbours=ONE).with_agreement(AGREEMENT.fingerprint).save(path)
    return path


def everything(folder: Path) -> dict[str, Path]:
    """Write a file of each kind that is signed."""
    table = PROJECTION.table()
    table.update(["a", "b"], ["x", "y"])
    agreed = Round(PROJECTION, epsilon=1.0, neighbours=ONE, parties=[NORTH.public, SOUTH.public])
    server = MeanAggregator(local.PrivHS(dim=4, epsilon=2.0, seed=1))
    server.add(server.mechanism.randomize_many(np.eye(4)))
    signs = ss.signs.DPSignLogistic(epsilon=1, neighbours=ONE)
    written = {
        "PrivateSketch": a_release(folder).read_bytes(),
        "PrivateTable": table.release(epsilon=1.0, neighbours=ONE, keys_are_public=True).to_bytes(),
        "SignSketch": signs.release(table["a"]).to_bytes(),
        "SignTable": ss.signs.SignTable({"a": signs.release(table["a"])}).to_bytes(),
        "MeanAggregator": server.to_bytes(),
        "Agreement": AGREEMENT.to_json().encode(),
        "Round": agreed.to_json().encode(),
        "Contribution": agreed.contribute(PROJECTION.sketch(), NORTH),
    }
    for kind, data in written.items():
        (folder / kind).write_bytes(data)
    return {kind: folder / kind for kind in written}


def with_a_field_twice(text: str, name: str) -> str:
    """Return JSON in which a field of the outermost object is there once more, before it, with another value."""
    return "{" + json.dumps({name: 7})[1:-1] + "," + text[1:]


def test_a_field_that_is_there_twice_is_refused_wherever_parties_read_json(tmp_path: Path) -> None:
    """Of two values people see the first, and programs take either."""
    files = {kind: path.read_text() for kind, path in everything(tmp_path).items() if path.read_bytes()[:1] == b"{"}
    assert set(files) == {"Agreement", "Round", "Contribution"}
    for kind, text in files.items():
        for name in json.loads(text):
            (tmp_path / kind).write_text(with_a_field_twice(text, name))
            with pytest.raises(InvalidInputError):
                sign(tmp_path / kind, NORTH)
    for name in json.loads(files["Round"]):
        with pytest.raises(InvalidInputError, match="a field appears twice"):
            Round.from_json(with_a_field_twice(files["Round"], name))
    inner = files["Round"].replace('"bound":', '"bound":"7","bound":')
    with pytest.raises(InvalidInputError, match="a field appears twice"):
        Round.from_json(inner)
    bundle = sign(a_release(tmp_path, "signed.sketch"), NORTH)
    line = bundle.read_text()
    for name in json.loads(line):
        bundle.write_text(with_a_field_twice(line, name))
        with pytest.raises(SignatureError):
            verify(tmp_path / "signed.sketch", NORTH.public)
    stated = base64.b64decode(json.loads(line)["payload"]).decode()
    bundle.write_bytes(envelope.seal(with_a_field_twice(stated, "subject").encode(), statements.MEDIA_TYPE, NORTH))
    with pytest.raises(SignatureError, match="not a valid statement"):
        verify(tmp_path / "signed.sketch", NORTH.public)


def test_every_kind_of_file_is_signed_and_says_what_it_is(tmp_path: Path) -> None:
    for kind, path in everything(tmp_path).items():
        before = path.read_bytes()
        assert sign(path, NORTH) == tmp_path / f"{kind}.intoto.jsonl"
        said = verify(path, NORTH.public)
        assert (said.kind, said.name, said.content, said.signer) == (kind, kind, before, NORTH.public)
        assert path.read_bytes() == before
    assert said.library == ss.__version__
    said = verify(tmp_path / "PrivateSketch", NORTH.public)
    assert said.guarantee == str(ss.load(tmp_path / "PrivateSketch").guarantee)
    assert said.agreement == verify(tmp_path / "Agreement", NORTH.public).agreement == AGREEMENT.fingerprint
    assert "all 2 parties follow" in str(verify(tmp_path / "Round", NORTH.public).guarantee)


def test_others_read_it_by_the_standards_alone(tmp_path: Path) -> None:
    path = a_release(tmp_path)
    sign(path, NORTH)
    (line,) = (tmp_path / "a.sketch.intoto.jsonl").read_text().splitlines()
    fields = json.loads(line)
    payload = base64.b64decode(fields["payload"])
    kind = b"application/vnd.in-toto+json"
    assert fields["payloadType"] == kind.decode()
    message = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    mark = base64.b64decode(fields["signatures"][0]["sig"])
    Ed25519PublicKey.from_public_bytes(NORTH.public.signing).verify(mark, message)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    (subject,) = statement["subject"]
    assert subject == {"name": "a.sketch", "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}


def test_a_receipt_shows_the_charge_and_no_data_set(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("secret plans", unit="visit", epsilon=4.0)
    path = a_release(tmp_path)
    receipt = ledger.charge("secret plans", ss.load(path).guarantee)
    bundle = sign(path, NORTH, receipt=receipt)
    said = verify(path, NORTH.public).receipt
    assert said is not None
    assert (said.number, said.digest) == (receipt.number, receipt.digest)
    assert ledger.audit(said) == 2
    assert b"secret plans" not in base64.b64decode(json.loads(bundle.read_text())["payload"])


def test_several_sign_and_each_line_is_the_latest_of_its_key(tmp_path: Path) -> None:
    path = a_release(tmp_path)
    for key in (NORTH, SOUTH, NORTH):
        bundle = sign(path, key)
    assert len(bundle.read_text().splitlines()) == 2
    assert verify(path, SOUTH.public).signer == SOUTH.public
    assert verify(path, [WEST.public, NORTH.public]).signer == NORTH.public
    lines = bundle.read_bytes()
    bundle.write_bytes(b"{}\nnot json\n\n" + lines + b"\xff\n")  # those of others are passed over
    assert verify(path, SOUTH.public).signer == SOUTH.public
    sign(path, WEST)
    assert b"not json" in bundle.read_bytes()
    path.rename(tmp_path / "b.sketch")
    bundle.rename(tmp_path / "b.sketch.intoto.jsonl")
    assert verify(tmp_path / "b.sketch", WEST.public).name == "a.sketch"


def refused(path: Path, signer: PublicKey | list[PublicKey]) -> str:
    with pytest.raises(SignatureError) as caught:
        verify(path, signer)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_mistake_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = a_release(tmp_path), a_release(tmp_path, "other.sketch")
    assert "a.sketch is not signed, because there is no" in refused(path, NORTH.public)
    bundle = sign(path, NORTH)
    sound, data = bundle.read_bytes(), path.read_bytes()
    assert "not by South (" in refused(path, SOUTH.public)
    assert " or West (" in refused(path, [SOUTH.public, WEST.public])

    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "was changed after North (" in refused(path, NORTH.public)
    path.write_bytes(data)

    bundle.write_bytes(sign(other, NORTH).read_bytes())
    assert "is of another file, other.sketch" in refused(path, NORTH.public)

    fields = json.loads(sound)
    for signature in ("A" * 86 + "==", base64.b64encode(SOUTH.sign(b"x")).decode()):
        fields["signatures"][0]["sig"] = signature
        bundle.write_text(json.dumps(fields))
        assert "is not by North (" in refused(path, NORTH.public)

    bundle.write_bytes(envelope.seal(b"{}", signing.MEDIA_TYPE, NORTH))
    assert "is not a valid statement about it" in refused(path, NORTH.public)
    bundle.write_bytes(envelope.seal(json.loads(sound)["payload"].encode(), "text/plain", NORTH))
    assert "'text/plain', not a statement" in refused(path, NORTH.public)
    for nothing, said in (
        (b"", "is empty"),
        (b"hello\n", "holds no signature"),
        (b"x" * (1 << 20 | 1), "is longer"),
        (b"x\n" * 2000, "2000 lines"),
    ):
        bundle.write_bytes(nothing)
        assert said in refused(path, NORTH.public)

    bundle.unlink()
    sign(path, NORTH, expires=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    assert verify(path, NORTH.public).expires is not None

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> "Later":
            return super().now(tz) + dt.timedelta(hours=2)

    monkeypatch.setattr(signing.dt, "datetime", Later)
    assert "expired at" in refused(path, NORTH.public)


def test_what_should_not_be_sent_is_not_signed(tmp_path: Path) -> None:
    ss.storage.save_raw(PROJECTION.sketch(), tmp_path / "raw")
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----")
    (tmp_path / "text").write_text("{}")
    (tmp_path / "deep").write_text('{"a":' * 100_000)
    (tmp_path / "empty").touch()
    (tmp_path / "envelope").write_bytes(envelope.seal(b"{}", "text/plain", NORTH))
    report = local.PrivHS(dim=4, epsilon=2.0, seed=1).randomize([1.0, 0.0, 0.0, 0.0])
    (tmp_path / "report").write_bytes(report.to_bytes())
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InvalidInputError, match="and other files cannot be signed"):
            sign(path, NORTH)
    assert not list(tmp_path.glob("*.jsonl"))
    path = a_release(tmp_path)
    with pytest.raises(TypeError, match="is signed by a Key, got a PublicKey"):
        sign(path, NORTH.public)  # type: ignore[arg-type]
    for expires in (dt.datetime(2099, 1, 1), dt.date(2020, 1, 1)):  # noqa: DTZ001
        with pytest.raises(InvalidInputError, match="expires must"):
            sign(path, NORTH, expires=expires)
    with pytest.raises(TypeError, match="signer must be PublicKey"):
        verify(path, NORTH)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="signer is empty"):
        verify(path, [])
