"""How large a release is to its readers: one that they would refuse is not made."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streamsketch.core.documents import TableKey
from streamsketch.core.limits import current_limits
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from streamsketch.projections.base import Projection

_FRAME_BYTES = 1024  # of a release, around what is measured: ids of data and release, lengths, the checksum
_ID_BYTES = 120  # of a release id in memory: the bytes object, and its places
_OBJECT_BYTES = 1536  # of the other objects of a release in memory


def check_readable(projection: "Projection", guarantee: Any, keys: Iterable[TableKey] | None, row_bytes: int) -> None:
    """Raise `InvalidInputError` for a release that readers with the limits in force here would refuse.

    It takes what a release may be at most, so that the answer does not depend on the data.

    Parameters
    ----------
    projection, guarantee
        Of the release.
    keys
        The keys of a table; None for a single release.
    row_bytes
        How many bytes the numbers of a key take at most.
    """
    limits = current_limits()
    stated = json.dumps(guarantee.to_dict())  # no shorter than its fields in a release
    encoded = _FRAME_BYTES + len(projection.to_json()) + 2 * len(stated) + row_bytes
    if keys is None:
        _check_limit(encoded, limits.max_bytes, "max_bytes", "a release")
        return
    names = list(keys)
    kept = row_memory("", guarantee, row_bytes)
    whole = len(names) * max(encoded, kept) + sum(map(sys.getsizeof, names))
    if len(names) > limits.max_keys:
        raise InvalidInputError(
            f"a table of {len(names):,} keys is over the limit of {limits.max_keys:,} at which readers stop: release "
            "fewer keys at a time, or raise max_keys (streamsketch.limits.reading_limits, or STREAMSKETCH_LIMITS) here "
            "and for everyone who reads it"
        )
    _check_limit(whole, limits.max_table_bytes, "max_table_bytes", f"a table of {len(names):,} keys")


def row_memory(key: TableKey, guarantee: Any, row_bytes: int, releases: int = 1) -> int:
    """Return how much memory a row of a table takes, roughly: key, cells or signs, ids and text.

    Parameters
    ----------
    key, guarantee
        Of the row.
    row_bytes
        How many bytes its numbers take.
    releases
        How many releases were summed up in it.
    """
    texts = [str(guarantee.mechanism), guarantee.neighbours.unit, *guarantee.conditions]
    return sys.getsizeof(key) + row_bytes + _ID_BYTES * releases + sum(map(sys.getsizeof, texts)) + _OBJECT_BYTES


def _check_limit(size: int, most: int, name: str, what: str) -> None:
    if size > most:
        raise InvalidInputError(
            f"{what} of this size may take {size:,} bytes, over the limit of {most:,} at which readers stop: release "
            f"fewer keys at a time or fewer cells, or raise {name} (streamsketch.limits.reading_limits, or "
            "STREAMSKETCH_LIMITS) here and for everyone who reads it"
        )
