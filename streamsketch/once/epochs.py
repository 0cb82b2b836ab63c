"""Epochs: numbers of the launches of a stream, each of which is claimed once."""

from streamsketch.once.sinks import Sink
from streamsketch.once.slots import Slot, check_stream

_CONTENT = b"streamsketch epoch 1\n"


def claim_epoch(claims: Sink, stream: str) -> int:
    """Claim the next epoch of a stream and return it, a number that no other launch gets.

    A launch that reads a stream again into a sink of its own claims an epoch, so that its noise is independent of that
    of other launches. A launch that continues a stream, after it was killed or from an earlier state, keeps its number.

    Parameters
    ----------
    claims
        An open sink for claims only: ``FileSink(folder, "epoch")``. Claims are not secret.
    stream
        Name of the stream.

    Raises
    ------
    InvalidInputError
        If the name is not valid for a stream.

    Examples
    --------
    >>> from streamsketch.streams import FileSink, claim_epoch
    >>> claims = FileSink(getfixture("tmp_path"), "epoch")
    >>> [claim_epoch(claims, "sales") for _ in range(3)]
    [1, 2, 3]
    """
    check_stream(stream)
    low, high = 0, 1  # the former is claimed, the latter may be
    while claims.get(_slot(stream, high)) is not None:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if claims.get(_slot(stream, middle)) is None else (middle, high)
    while claims.put(_slot(stream, high), _CONTENT) is not None:  # as others claim at the same time
        high += 1
    return high


def _slot(stream: str, epoch: int) -> Slot:
    return Slot(stream, 0, "integer", str(epoch))
