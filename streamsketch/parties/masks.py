"""Masks that two parties agree on: what one adds, the other subtracts, and nobody else can tell from random words."""

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from streamsketch.parties.keys import Key, PublicKey

_LABEL = b"streamsketch.parties.mask.1"
_WORD_BYTES = 8


def add_masks(cells: NDArray[np.uint64], session: bytes, key: Key, parties: Sequence[PublicKey], own: int) -> None:
    """Add the masks of one party with every other to its cells, modulo 2^64, in place.

    The party that comes first in the list adds a pair's mask, the other subtracts it, so the sum over all parties is
    that of the cells. A pair's mask is ChaCha20 under HKDF-SHA256 of their X25519 secret, with the round's session as
    salt and both public keys, in the order of the list, as info: another round has masks that have nothing to do with
    it.

    Parameters
    ----------
    cells
        (k,), changed.
    session
        Of the round: 32 bytes.
    key
        Of the party.
    parties
        All of them, in the order of the round.
    own
        The party's place among them.
    """
    for place, other in enumerate(parties):
        if place == own:
            continue
        first, second = (key.public, other) if own < place else (other, key.public)
        info = _LABEL + first.agreement + second.agreement
        secret = HKDF(SHA256(), 32, salt=session, info=info).derive(key.shared_with(other))
        stream = Cipher(ChaCha20(secret, bytes(16)), mode=None).encryptor().update(bytes(_WORD_BYTES * cells.size))
        mask = np.frombuffer(stream, dtype="<u8")
        if own < place:
            cells += mask
        else:
            cells -= mask
