"""What names a round: digests in domains of their own, so that no two rounds have masks in common."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from streamsketch.data import canonical_bytes
from streamsketch.errors import InvalidInputError

FORMAT = 2
"""Of new rounds. Those of format 1 are read and combined, and no party contributes to one again (WIRE.md)."""
NAME_BYTES = 32
"""Of a digest that names a round."""
ADDED_BYTES = 32
"""Random bytes that a party adds to a round when it signs."""
_OLD_ID_BYTES = 16


def canonical(value: Any) -> str:
    """Return JSON of which there is one form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of_agreed(fields: dict[str, Any], form: int) -> bytes:
    """Return 32 bytes that name a round: of all that is agreed on, in a domain of its format."""
    return _digest(b"streamsketch.parties.round.%d\n" % form, canonical(fields).encode())


def digest_of_key(fields: dict[str, Any], key: bytes, form: int) -> bytes:
    """Return 32 bytes that name the round for one key of a table: in a domain that no round as a whole is in.

    In format 1 the key's round was one with another id, as anybody could propose it; such rounds are only combined.
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
