"""Signed bytes: DSSE, the Dead Simple Signing Envelope, version 1, with Ed25519."""

import json
from collections.abc import Sequence
from typing import NamedTuple

try:
    import pybase64 as base64
except ImportError:
    raise ModuleNotFoundError("signed envelopes need pybase64 (the extra `parties` of streamsketch)") from None

from streamsketch.core.limits import check_length, current_limits, read_json
from streamsketch.errors import SignatureError
from streamsketch.parties.keys import Key, PublicKey

_FIELDS = {"payload", "payloadType", "signatures"}


class Envelope(NamedTuple):
    """The parts of an envelope."""

    payload: bytes
    kind: str
    """The payload's media type."""
    claimed: str
    """The fingerprint of the key that is claimed to have signed."""
    signature_bytes: bytes

    def signer_among(self, keys: Sequence[PublicKey]) -> PublicKey | None:
        """Return which of ``keys`` is claimed to have signed."""
        return next((key for key in keys if key.fingerprint == self.claimed), None)

    def is_signed_by(self, key: PublicKey) -> bool:
        """Return whether the signature is that of a key's owner over this payload and its type."""
        return key.verifies(self.signature_bytes, _encoded(self.payload, self.kind))


def seal(payload: bytes, kind: str, key: Key) -> bytes:
    """Return an envelope: JSON with the payload, its type, and a signature over both.

    Parameters
    ----------
    payload
        What is signed.
    kind
        Its media type.
    key
        Of the signer.
    """
    fields = {
        "payload": base64.b64encode(payload).decode("ascii"),
        "payloadType": kind,
        "signatures": [
            {
                "keyid": key.public.fingerprint,
                "sig": base64.b64encode(key.sign(_encoded(payload, kind))).decode("ascii"),
            }
        ],
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode("ascii")


def parse(data: bytes, *, max_bytes: int | None = None) -> Envelope:
    """Return the parts of an envelope, whose signature is not verified yet; raise `SignatureError` if it is none."""
    check_length(len(data), max_bytes or current_limits().max_bytes, "max_bytes")
    try:
        fields = read_json(data)
        payload = _bytes(fields["payload"])
        (signature,) = fields["signatures"]
        claimed, signature_bytes = _text(signature["keyid"]), _bytes(signature["sig"])
        kind = _text(fields["payloadType"])
        is_envelope = set(fields) == _FIELDS and set(signature) == {"keyid", "sig"} and kind.isascii()
    except (ValueError, TypeError, KeyError, RecursionError):
        is_envelope = False
    if not is_envelope:
        raise SignatureError("this is not a signed envelope (DSSE in JSON with one signature)")
    return Envelope(payload, kind, claimed, signature_bytes)


def unseal(
    data: bytes, kind: str, signers: Sequence[PublicKey], *, max_bytes: int | None = None
) -> tuple[bytes, PublicKey]:
    """Return an envelope's payload, and who of ``signers`` signed it.

    Raises
    ------
    SignatureError
        If it is no envelope of this type, is signed by none of them, or was changed.
    """
    envelope = parse(data, max_bytes=max_bytes)
    if envelope.kind != kind:
        raise SignatureError(f"the envelope holds {envelope.kind!r:.80}, not {kind!r}")
    signer = envelope.signer_among(signers)
    if signer is None:
        expected = ", ".join(map(str, signers)) or "none"
        raise SignatureError(
            f"the envelope is signed by {envelope.claimed[:16]!a}, which is none of the expected keys: {expected}"
        )
    if not envelope.is_signed_by(signer):
        raise SignatureError(
            f"the signature of {signer} does not match, so the content was changed; ask for the original"
        )
    return envelope.payload, signer


def _encoded(payload: bytes, kind: str) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding."""
    name = kind.encode("ascii")
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def _bytes(value: object) -> bytes:
    """Return the bytes of base64 in its one canonical form."""
    text = _text(value)
    last = text[-4:]  # the one place where bits may be left over
    if base64.b64encode(base64.b64decode(last, validate=True)).decode("ascii") != last:
        raise ValueError
    return base64.b64decode(text, validate=True)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
