"""The sum of all parties' contributions, in which masks cancel."""

from collections.abc import Iterable, Sequence

import numpy as np

from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.parties import envelope
from streamsketch.parties.contributions import (
    CONTRIBUTION,
    Contribution,
    contribution_bytes,
    decode_contribution,
    ids_of_all,
)
from streamsketch.parties.keys import PublicKey

_ENVELOPE_BYTES = 4096  # more than is around a payload


def sum_of(
    contributions: Iterable[bytes], session: bytes, parties: Sequence[PublicKey], *, cells: int
) -> tuple[Ints, set[bytes]]:
    """Return the sum of all parties' cells, (cells,), modulo 2^64, and the ids of all their data.

    Raises
    ------
    SignatureError
        If a contribution is signed by no party, or was changed.
    WireFormatError
        If it is none of so many cells.
    InvalidInputError
        If it is of another session, or a party contributed twice, not at all, or the same data as another.
    """
    found: dict[int, Contribution] = {}
    most = 2 * contribution_bytes(cells) + _ENVELOPE_BYTES  # base64 takes a third more
    for data in contributions:
        payload, signer = envelope.opened(data, CONTRIBUTION, parties, max_bytes=most)
        one, place = decode_contribution(payload, cells=cells), parties.index(signer)
        if one.session != session:
            raise InvalidInputError(
                f"the contribution of {signer} is to another round, or to this one with other signatures: its session "
                f"is {one.session.hex()[:16]}…, not {session.hex()[:16]}…. Take the text that all signed"
            )
        if one.party != place:
            raise InvalidInputError(f"the contribution of {signer} states the place of another party, {one.party}")
        if place in found:
            raise InvalidInputError(f"{signer} contributed twice; take one of the two")
        found[place] = one
    missing = [str(one) for place, one in enumerate(parties) if place not in found]
    if missing:
        raise InvalidInputError(
            f"no contribution of {', '.join(missing)}: the masks cancel only in the sum of all. Wait for it, or make a "
            f"new round without, which is another release of the others' data"
        )
    total: Ints = np.zeros(cells, dtype=np.int64)
    for one in found.values():
        total += one.cells
    return total, ids_of_all(found, parties)
