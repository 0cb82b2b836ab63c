"""What one party sends in a round, as bytes: the payload of a signed envelope (WIRE.md)."""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamsketch.core import Ints
from streamsketch.data import data_ids
from streamsketch.errors import InvalidInputError, WireFormatError

CONTRIBUTION = "application/vnd.streamsketch.contribution.v1"
"""The media type of a contribution's envelope."""
_HEAD = struct.Struct("<32sII")  # the round's session, the party's place, the number of cells
_CELL_BYTES = 8


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


def ids_of_all(found: Mapping[int, Contribution], parties: Sequence[object]) -> set[bytes]:
    """Return the ids of all parties' data; raise `InvalidInputError` if two contributed some of the same."""
    owners: dict[bytes, int] = {}
    for place, one in found.items():
        for each in one.data_ids:
            if each in owners:
                raise InvalidInputError(
                    f"{parties[owners[each]]} and {parties[place]} contributed the same data, or copies of it, which "
                    f"would count twice"
                )
            owners[each] = place
    return set(owners)
