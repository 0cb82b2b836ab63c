"""Contributions to a round of several parties in the exchange format: a message without a frame, for an envelope."""

from typing import NamedTuple

import numpy as np

from streamsketch.core import Ints
from streamsketch.data import data_ids
from streamsketch.errors import WireFormatError
from streamsketch.wire import wire_pb2
from streamsketch.wire.parsing import parse
from streamsketch.wire.ratios import at

_DIGEST_BYTES = 32


class Contribution(NamedTuple):
    """What one party sends: int64 cells, (k,), modulo 2^64, uniform to all who do not know its masks."""

    round_digest: bytes
    party: int
    cells: Ints
    data_ids: tuple[bytes, ...]


def encode_contribution(contribution: Contribution) -> bytes:
    """Return a contribution as bytes; equal ones give equal bytes."""
    return _message(contribution).SerializeToString(deterministic=True)


def decode_contribution(data: bytes, *, cells: int) -> Contribution:
    """Return the contribution of so many cells in ``data``; raise `WireFormatError` if it is none."""
    message = wire_pb2.Contribution()
    parse(message, data)
    if len(message.round) != _DIGEST_BYTES:
        raise WireFormatError("round", f"is {len(message.round)} bytes, not the {_DIGEST_BYTES} of a fingerprint")
    if len(message.cells) != 8 * cells:
        raise WireFormatError("cells", f"are {len(message.cells)} bytes, not the {8 * cells} of {cells} cells")
    at("data_ids", lambda: data_ids.check(message.data_ids))
    values = np.frombuffer(message.cells, dtype="<i8").astype(np.int64)
    found = Contribution(message.round, message.party, values, tuple(message.data_ids))
    if encode_contribution(found) != data:
        raise WireFormatError("contribution", "is not in the one form that equal contributions have")
    return found


def _message(contribution: Contribution) -> wire_pb2.Contribution:
    return wire_pb2.Contribution(
        round=contribution.round_digest,
        party=contribution.party,
        cells=contribution.cells.astype("<i8").tobytes(),
        data_ids=contribution.data_ids,
    )
