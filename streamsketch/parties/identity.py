"""The name of a round, its parties and its signatures. No two rounds have masks in common.

Names are digests, each kind in a hash domain of its own. A party that signs adds random bytes; masks are
derived from them.
"""

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Sequence

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.data.canonical import canonical_bytes
from streamsketch.errors import InvalidInputError, SignatureError
from streamsketch.parties import envelope
from streamsketch.parties.keys import Key, PublicKey

FORMAT = 2
"""Of new rounds. Those of format 1 are read and combined, and no party contributes to one again (WIRE.md)."""
NAME_BYTES = 32
"""Of a digest that names a round."""
ADDED_BYTES = 32
"""Random bytes that a party adds to a round when it signs."""
_OLD_ID_BYTES = 16
_MOST_PARTIES = 1024
_KINDS = {form: f"application/vnd.streamsketch.round.v{form}+json" for form in (1, FORMAT)}


def canonical(value: object) -> str:
    """Return a value as canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of_agreed(fields: Json, form: int) -> bytes:
    """Return the 32 bytes that name a round: a hash of all that is agreed on, in a domain of its format."""
    return _digest(b"streamsketch.parties.round.%d\n" % form, canonical(fields).encode())


def digest_of_key(fields: Json, key: bytes, form: int) -> bytes:
    """Return 32 bytes that name the round for one key of a table: in a domain that no round as a whole is in.

    In format 1 the key's round was a round with another id, which anyone could propose. Such rounds are only combined.
    """
    agreed = digest_of_agreed(fields, form)
    if form == 1:
        derived = _digest(b"streamsketch.parties.key.1", agreed, key)[:_OLD_ID_BYTES]
        return digest_of_agreed(fields | {"round": derived.hex()}, form)
    return _digest(b"streamsketch.parties.key.2", agreed, key)


def digest_of_session(name: bytes, added: Sequence[bytes]) -> bytes:
    """Return the 32 bytes that masks are derived from.

    Parameters
    ----------
    name
        Of the round, or of the round for a key.
    added
        What each party added when it signed, in the order of the list; nothing for a round without signatures.
    """
    return _digest(b"streamsketch.parties.session.2", name, *added)


def key_bytes(key: object) -> bytes:
    """Return a key of a table as it is hashed; raise `InvalidInputError` for no key."""
    if not isinstance(key, str | bytes | int) or isinstance(key, bool):
        raise InvalidInputError(f"a key is text, bytes or an integer, got a {type(key).__name__}")
    return canonical_bytes(key)


def _digest(domain: bytes, *parts: bytes) -> bytes:
    """Return SHA-256; no domain begins with another, and all parts but the last are 32 bytes long."""
    return hashlib.sha256(b"".join([domain, *parts])).digest()


def check_members(parties: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    """Return the parties of a round; raise `InvalidInputError` unless there are at least two, with different keys."""
    members = tuple(parties)
    if not all(isinstance(member, PublicKey) for member in members):
        raise TypeError("parties are PublicKey objects: key.public of a Key, or PublicKey.from_text")
    if not 2 <= len(members) <= _MOST_PARTIES:
        raise InvalidInputError(f"a round takes 2 to {_MOST_PARTIES} parties, got {len(members)}")
    for half in ("signing", "key_exchange"):
        if len({getattr(member, half) for member in members}) < len(members):
            raise InvalidInputError("a public key is in the list of parties twice; pass a different key for each party")
    return members


def check_honest(honest: int | None, count: int) -> int:
    """Return the number of honest parties, by default all; raise `InvalidInputError` unless it is 2 to ``count``."""
    if honest is None:
        return count
    if type(honest) is not int or not 2 <= honest <= count:
        raise InvalidInputError(
            f"honest must be an integer from 2, as the masks of a single party hide nothing, to the {count} parties, "
            f"got {short(honest)}"
        )
    return honest


def place_of(key: PublicKey, parties: Sequence[PublicKey]) -> int:
    """Return the place of a key in a round's list, whatever its name; raise `InvalidInputError` if it has none."""
    for place, party in enumerate(parties):
        if (party.signing, party.key_exchange) == (key.signing, key.key_exchange):
            return place
    raise InvalidInputError(f"{key} is not a party of this round: {', '.join(map(str, parties))}")


def conditions_of(honest: int, count: int, unit: str, *, is_counted: bool) -> list[str]:
    """Return the conditions of a round's guarantee as sentences; if units are counted, each party counts its own."""
    keeping = sentences.SOME_HONEST.format(honest=honest, parties=count)
    if honest == count:
        keeping = sentences.ALL_HONEST.format(parties=count)
    return [keeping, (sentences.AT_ONE_PARTY if is_counted else sentences.OVER_ALL_PARTIES).format(unit=unit)]


def sign_round(name: bytes, key: Key) -> bytes:
    """Return a party's signature of the round of this name, with random bytes of its own."""
    return envelope.seal(name + secrets.token_bytes(ADDED_BYTES), _KINDS[FORMAT], key)


def read_signatures(
    signatures: Sequence[bytes], name: bytes, form: int, parties: Sequence[PublicKey]
) -> dict[PublicKey, bytes]:
    """Return who signed a round, and what each added, which is nothing in format 1.

    Raises
    ------
    SignatureError
        If a signature is of somebody else or of another round, or a party signed twice.
    """
    additions: dict[PublicKey, bytes] = {}
    for signature in signatures:
        payload, signer = envelope.unseal(signature, _KINDS[form], parties)
        signed, added = payload[:NAME_BYTES], payload[NAME_BYTES:]
        if signed != name:
            raise SignatureError(f"{signer} signed another round, {signed.hex()[:16]}…, not {name.hex()[:16]}…")
        expected = 0 if form == 1 else ADDED_BYTES
        if len(added) != expected:
            raise SignatureError(f"the signature of {signer} adds {len(added)} bytes to the round, not {expected}")
        if signer in additions:
            raise SignatureError(f"{signer} signed twice; each party has one signature")
        additions[signer] = added
    return additions


def check_all_signed(signers: Collection[PublicKey], parties: Sequence[PublicKey]) -> None:
    """Raise `SignatureError` unless all parties signed."""
    missing = [str(party) for party in parties if party not in signers]
    if missing:
        raise SignatureError(
            f"{', '.join(missing)} did not sign this round, so its list of keys may have been changed on the way. "
            "Wait for the signatures, or let every party read the unsigned text with the keys that it knows: "
            "Round.from_json(text, parties=…)"
        )
