"""Whether releases may be brought together: noises of their own, added at one place."""

from collections.abc import Collection, Iterable
from typing import Protocol

from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.privacy import NoisePlace


class Noisy(Protocol):
    """A release, as far as its noise goes."""

    @property
    def release_ids(self) -> Collection[bytes]:
        """One id for each release inside."""

    @property
    def noise_place(self) -> NoisePlace:
        """Where the noise was added."""


def check_independent(releases: Iterable[Noisy]) -> None:
    """Raise `DependentNoiseError` if one release's noise is in two of the given sketches."""
    check_disjoint(release.release_ids for release in releases)


def check_disjoint(release_ids: Iterable[Collection[bytes]]) -> None:
    """Raise `DependentNoiseError` if a release's id is in two of the given collections."""
    seen: set[bytes] = set()
    for ids in release_ids:
        if not seen.isdisjoint(ids):
            raise DependentNoiseError(
                "two of these sketches share the noise of a release (the same one twice, or a sum beside one of its "
                "parts), so their errors are not independent. Use separate releases; for one sketch's own size "
                "use squared_norm"
            )
        seen.update(ids)


def check_same_place(releases: Iterable[Noisy]) -> None:
    """Raise `InvalidInputError` if noise was added at different places: no error bar fits both."""
    places = sorted({release.noise_place for release in releases})
    if len(places) > 1:
        raise InvalidInputError(
            f"these releases have their noise at different places: {' and '.join(places)}. Release all of them one way"
        )
