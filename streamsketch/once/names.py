"""The name of a draw: all that determines a release, on any engine."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints
from streamsketch.data.canonical import canonical_bytes
from streamsketch.once.keys import joined
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.projections.base import Projection
from streamsketch.release.ready import Calibrated
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch


def drawn_numbers(sketch: Sketch, guarantee: Guarantee) -> list[Ints]:
    """Return all exact numbers of a sketch that a release shows behind noise: its cells, and its counts if counted."""
    (numbers,) = drawn_numbers_of_keys([None], sketch.sums(), guarantee).values()
    return numbers


def drawn_numbers_of_keys(
    keys: Sequence[TableKey], sums: ExactSums, guarantee: Guarantee
) -> dict[TableKey, list[Ints]]:
    """Return `drawn_numbers` of each of the keys whose sums these are: views of them."""
    if not guarantee.mechanism.layout.is_counted:
        return {key: [cells] for key, cells in zip(keys, sums.cells, strict=True)}
    return {key: [cells, counts] for key, cells, counts in zip(keys, sums.cells, sums.counts, strict=True)}


def name_of_draw(
    guarantee: Guarantee, projection: Projection, numbers: Iterable[Ints], *place: bytes
) -> tuple[bytes, ...]:
    """Return all that determines one key's release, besides a secret: different draws never have the same name.

    Every engine names its draws by this function. Noise, charges and versions are functions of a secret and such names.

    Parameters
    ----------
    guarantee, projection
        What is published about the release.
    numbers
        All its exact numbers, as from `drawn_numbers`: int64.
    place
        Where the release is published, unless its engine states that elsewhere: key, window, history and row, session.

    Returns
    -------
    tuple of bytes
        Parts of the name, each of which is to be hashed with its length (`joined`): **secret**, as the numbers are.
    """
    return _name(_published(guarantee, projection), numbers, place)


def names_of_keys(
    publisher: Calibrated[Any], numbers: Mapping[TableKey, Iterable[Ints]], *place: bytes
) -> Iterator[tuple[TableKey, tuple[bytes, ...]]]:
    """Yield each key and the name of its draw (`name_of_draw`) in one window: **secret**, and as long as all cells."""
    published = _published(publisher.guarantee, publisher.projection)  # once: as JSON it costs more than a key's noise
    for key, exact in numbers.items():
        yield key, _name(published, exact, (*place, canonical_bytes(key)))


def _published(guarantee: Guarantee, projection: Projection) -> tuple[bytes, bytes]:
    return projection.to_json().encode(), guarantee.to_json().encode()


def _name(published: tuple[bytes, bytes], numbers: Iterable[Ints], place: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return *published, *place, *(array.astype("<i8").tobytes() for array in numbers)


def digest_of_draw(name: Iterable[bytes]) -> bytes:
    """Return 64 bytes in place of a name, which is as long as the cells: **secret**, as the name is."""
    digest = hashlib.sha512()
    for part in name:
        digest.update(joined([part]))
    return digest.digest()
