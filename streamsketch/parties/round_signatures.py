"""Signatures of a round: each party agrees with it, and adds random bytes that its masks are a function of."""

import secrets
from collections.abc import Collection, Sequence

from streamsketch.errors import SignatureError
from streamsketch.parties import envelope
from streamsketch.parties.identity import ADDED_BYTES, FORMAT, NAME_BYTES
from streamsketch.parties.keys import Key, PublicKey

_KINDS = {form: f"application/vnd.streamsketch.round.v{form}+json" for form in (1, FORMAT)}


def signature_of(name: bytes, key: Key) -> bytes:
    """Return a party's signature of the round of this name, with random bytes of its own."""
    return envelope.sealed(name + secrets.token_bytes(ADDED_BYTES), _KINDS[FORMAT], key)


def added_by(
    signatures: Sequence[bytes], name: bytes, form: int, parties: Sequence[PublicKey]
) -> dict[PublicKey, bytes]:
    """Return who signed a round, and what each added, which is nothing in format 1.

    Raises
    ------
    SignatureError
        If a signature is of somebody else or of another round, or a party signed twice.
    """
    found: dict[PublicKey, bytes] = {}
    for one in signatures:
        payload, signer = envelope.opened(one, _KINDS[form], parties)
        signed, added = payload[:NAME_BYTES], payload[NAME_BYTES:]
        if signed != name:
            raise SignatureError(f"{signer} signed another round, {signed.hex()[:16]}…, not {name.hex()[:16]}…")
        expected = 0 if form == 1 else ADDED_BYTES
        if len(added) != expected:
            raise SignatureError(f"the signature of {signer} adds {len(added)} bytes to the round, not {expected}")
        if signer in found:
            raise SignatureError(f"{signer} signed twice; each party has one signature")
        found[signer] = added
    return found


def check_all_signed(signers: Collection[PublicKey], parties: Sequence[PublicKey]) -> None:
    """Raise `SignatureError` unless all parties signed."""
    missing = [str(one) for one in parties if one not in signers]
    if missing:
        raise SignatureError(
            f"{', '.join(missing)} did not sign this round, so its list of keys may have been changed on the way. Wait "
            f"for the signatures; or all read the text without any, each with the parties' keys that it knows: "
            f"Round.from_json(text, parties=…)"
        )
