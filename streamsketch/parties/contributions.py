"""What the parties of a round send: cells under masks that cancel in the sum of all (WIRE.md)."""

import dataclasses
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from streamsketch.core.numbers import Ints
from streamsketch.data import data_ids
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.parties import envelope
from streamsketch.parties.keys import Key, PublicKey
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.samplers import BitSource
from streamsketch.release.ready import Calibrated, Stated

CONTRIBUTION = "application/vnd.streamsketch.contribution.v1"
"""The media type of a contribution's envelope."""
_HEAD = struct.Struct("<32sII")  # the round's session, the party's place, the number of cells
_CELL_BYTES = 8
_LABEL = b"streamsketch.parties.mask.1"
_WORD_BYTES = 8
_ENVELOPE_BYTES = 4096  # more than is around a payload


class Contribution(NamedTuple):
    """What one party sends: int64 cells, (k,), modulo 2^64, uniform to all who do not know its masks."""

    session: bytes
    party: int
    cells: Ints
    data_ids: tuple[bytes, ...]


def contribution_bytes(cells: int) -> int:
    """Return how long a contribution of so many cells is."""
    return _HEAD.size + _CELL_BYTES * cells + data_ids.PUBLISHED * data_ids.ID_BYTES


def encode_contribution(contribution: Contribution) -> bytes:
    """Return a contribution as bytes; equal ones give equal bytes."""
    head = _HEAD.pack(contribution.session, contribution.party, contribution.cells.size)
    return b"".join([head, contribution.cells.astype("<i8").tobytes(), *contribution.data_ids])


def decode_contribution(data: bytes, *, cells: int) -> Contribution:
    """Return the contribution of so many cells in ``data``; raise `WireFormatError` if it is none."""
    if len(data) < _HEAD.size:
        raise WireFormatError("contribution", f"is {len(data)} bytes, less than its head of {_HEAD.size}")
    digest, party, size = _HEAD.unpack_from(data)
    if size != cells:
        raise WireFormatError("cells", f"are {size}, and the round has {cells}")
    end = _HEAD.size + _CELL_BYTES * cells
    rest = data[end:]
    ids = tuple(rest[at : at + data_ids.ID_BYTES] for at in range(0, len(rest), data_ids.ID_BYTES))
    if len(data) < end or len(ids) != data_ids.PUBLISHED:
        raise WireFormatError("contribution", f"is {len(data)} bytes, not {contribution_bytes(cells)}")
    try:
        data_ids.check(ids)
    except InvalidInputError as error:
        raise WireFormatError("data_ids", str(error)) from None
    values = np.frombuffer(data, dtype="<i8", count=cells, offset=_HEAD.size).astype(np.int64)
    return Contribution(digest, party, values, ids)


def join_ids(contributions: Mapping[int, Contribution], parties: Sequence[object]) -> set[bytes]:
    """Return the ids of all parties' data; raise `InvalidInputError` if two contributed some of the same."""
    owners: dict[bytes, int] = {}
    for place, contribution in contributions.items():
        for data_id in contribution.data_ids:
            if data_id in owners:
                raise InvalidInputError(
                    f"{parties[owners[data_id]]} and {parties[place]} contributed the same data, which would count "
                    "twice"
                )
            owners[data_id] = place
    return set(owners)


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
        info = _LABEL + first.key_exchange + second.key_exchange
        secret = HKDF(SHA256(), 32, salt=session, info=info).derive(key.shared_secret(other))
        stream = Cipher(ChaCha20(secret, bytes(16)), mode=None).encryptor().update(bytes(_WORD_BYTES * cells.size))
        mask = np.frombuffer(stream, dtype="<u8")
        if own < place:
            cells += mask
        else:
            cells -= mask


def sum_contributions(
    contributions: Iterable[bytes], session: bytes, parties: Sequence[PublicKey], *, cells: int
) -> tuple[Ints, set[bytes]]:
    """Return the sum of all parties' cells, (cells,), modulo 2^64, and the ids of all their data.

    Raises
    ------
    SignatureError
        If a contribution is signed by no party, or was changed.
    WireFormatError
        If it has another number of cells, or is no contribution.
    InvalidInputError
        If it is of another session, or a party contributed twice, not at all, or the same data as another.
    """
    by_place: dict[int, Contribution] = {}
    most = 2 * contribution_bytes(cells) + _ENVELOPE_BYTES  # base64 takes a third more
    for data in contributions:
        payload, signer = envelope.unseal(data, CONTRIBUTION, parties, max_bytes=most)
        contribution, place = decode_contribution(payload, cells=cells), parties.index(signer)
        if contribution.session != session:
            raise InvalidInputError(
                f"the contribution of {signer} is to another round, or to this one with other signatures: its session "
                f"is {contribution.session.hex()[:16]}…, not {session.hex()[:16]}…. Use the round's text "
                "that all parties signed"
            )
        if contribution.party != place:
            raise InvalidInputError(
                f"the contribution of {signer} states the place of another party, {contribution.party}"
            )
        if place in by_place:
            raise InvalidInputError(f"{signer} contributed twice; pass one of the two contributions")
        by_place[place] = contribution
    missing = [str(party) for place, party in enumerate(parties) if place not in by_place]
    if missing:
        raise InvalidInputError(
            f"no contribution of {', '.join(missing)}: the masks cancel only in the sum of all contributions. Wait "
            "for it, or make a new round without that party, which is another release of the others' data"
        )
    total: Ints = np.zeros(cells, dtype=np.int64)
    for contribution in by_place.values():
        total += contribution.cells
    return total, join_ids(by_place, parties)


@dataclasses.dataclass(frozen=True)
class Share(Calibrated[Ints]):
    """One party's share of the noise, so that the shares of all honest parties are the noise of the round."""

    noise: Noise
    honest: int

    def _draw(self, exact: Ints, bits: BitSource, stated: Stated) -> list[Ints]:
        del stated  # a contribution states nothing by itself
        return [np.add(row, self.noise.sample_share(self.honest, row.size, bits)) for row in exact]
