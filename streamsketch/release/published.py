"""What leaves the party: bytes in the exchange format, and a guarantee that explains itself."""

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from streamsketch.agreement.same import check_fingerprint
from streamsketch.core.documents import TableKey
from streamsketch.core.files import write_whole

if TYPE_CHECKING:
    from streamsketch.agreement.agreement import Agreement
    from streamsketch.projections.base import Projection
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from streamsketch.core.wrong import check_path
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.products import Registry
from streamsketch.release.history import HistoryPart, check_streams

ReleaseT = TypeVar("ReleaseT", bound=Any)


class Noisy(Protocol):
    """A release, as `check_independent` sees it."""

    @property
    def release_ids(self) -> Collection[bytes]:
        """One id for each release inside."""

    @property
    def noise_place(self) -> NoisePlace:
        """Where the noise was added."""

    @property
    def history(self) -> HistoryPart | None:
        """Which part of a history it is."""


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
                "parts, or two ranges of one history), so their errors are not independent. Use separate releases; "
                "for ranges of one history use its squared_distance, for one sketch's own size squared_norm"
            )
        seen.update(ids)


def check_same_place(releases: Iterable[Noisy]) -> None:
    """Raise `InvalidInputError` if noise was added at different places, which no error bar fits, or to rows."""
    releases = list(releases)
    check_streams(releases)
    places = sorted({release.noise_place for release in releases})
    if len(places) > 1:
        raise InvalidInputError(
            f"these releases have their noise at different places: {' and '.join(places)}. Release all of them with "
            "noise at the same place"
        )


class OtherFile(NamedTuple):
    """A kind of file that is no release, which readers of releases tell from damaged ones."""

    holds: Callable[[str | os.PathLike[str]], bool]
    """Whether a file is one, by its first bytes."""
    read_by: str
    """What it is, and how it is read."""


OTHER_FILES: Registry[OtherFile] = Registry("other file")


class Encoded:
    """An object that has bytes in the exchange format (WIRE.md)."""

    __slots__ = ()

    magic: ClassVar[bytes]
    """The first bytes, which tell its kind."""

    def to_bytes(self) -> bytes:
        """Return the object in the exchange format (WIRE.md): the same bytes for equal objects."""
        data: bytes = _wire().encode(self)
        return data

    @staticmethod
    def any_from_bytes(data: bytes) -> Any:
        """Return what `to_bytes` of any class wrote, except for reports, which need their mechanism to be read.

        Raises
        ------
        WireFormatError
            As in ``from_bytes`` of that class.
        """
        return _wire().decode_any(data)

    @classmethod
    def _decoded(cls, data: bytes, **agreed: Any) -> Self:
        """Return the object in ``data``, which must be of this class."""
        value: Self = _wire().decode(data, cls, **agreed)
        return value


class Published(Encoded, ABC):
    """A release: immutable, with one guarantee, and safe to share."""

    __slots__ = ()

    @property
    @abstractmethod
    def projection(self) -> "Projection":
        """The public map."""

    @property
    @abstractmethod
    def guarantee(self) -> Any:
        """What is guaranteed to the people in the data."""

    @property
    @abstractmethod
    def agreement(self) -> str | None:
        """The fingerprint of the agreement that the data followed, in hexadecimal, if it is known."""

    @property
    def history(self) -> HistoryPart | None:
        """The part of a history that this is, if it is published by a schedule; None for others."""
        return None

    @property
    def rows(self) -> Sequence["Published"]:
        """The single releases inside, which are the rows of a table, or else the release itself."""
        return (self,)

    @classmethod
    def from_bytes(
        cls, data: bytes, *, expect: "Projection | Agreement | str | None" = None, max_bytes: int | None = None
    ) -> Self:
        """Return the release that `to_bytes` wrote. It is safe to call it on untrusted bytes.

        Parameters
        ----------
        data
            The bytes.
        expect
            The agreed projection; or the agreement that the data must follow, or its fingerprint.
        max_bytes
            Longer input is refused before it is parsed. The default is `Limits.max_bytes`, and for a table
            `Limits.max_table_bytes`.

        Raises
        ------
        WireFormatError
            If the bytes are too long, truncated, changed, inconsistent, or of another version, kind, projection or
            agreement than expected. Its ``where`` names the place.
        """
        return cls._decoded(data, expect=expect, max_bytes=max_bytes)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write `to_bytes` to a file atomically. `streamsketch.load` reads it.

        Names usually end in ``.sketch``, ``.signs`` or, for a table, ``.parquet``.

        Parameters
        ----------
        path
            The destination.
        overwrite
            Whether a file that holds anything else is replaced. The same release may be saved again.

        Raises
        ------
        InvalidInputError
            If the file holds another release, or anything else, and ``overwrite`` is False: a release cannot be drawn
            again without spending ε again.
        OSError
            If the file cannot be written.
        """
        check_path(path, "a release is saved by the path of its file")
        data, target = self.to_bytes(), Path(path)
        if not overwrite and target.is_file():
            if _holds(target, data):
                return
            raise InvalidInputError(
                f"{path} already exists and is not this release: a release that is lost can only be replaced by "
                "another one, which spends ε again. Save under another name, or pass overwrite=True"
            )
        write_whole(target, data)

    def explain(self) -> Any:
        """Return an explanation: who is protected, by which theorem, with how much noise, and what is not protected."""
        from streamsketch.explanation.alone import explain_alone  # noqa: PLC0415 - which knows releases, not the reverse

        return explain_alone(self)

    def __reduce__(self) -> Any:
        return type(self).from_bytes, (self.to_bytes(),)


@functools.cache
def _wire() -> ModuleType:
    from streamsketch.wire import registry  # noqa: PLC0415 - the wire knows what is published, not the reverse

    return registry


def load_published(path: str | os.PathLike[str], **checked: Any) -> Any:
    """Return what is published in a file: ``streamsketch.load``."""
    return _wire().load(path, **checked)


def encoded_rows(data: bytes, kind: type[Published]) -> dict[TableKey, bytes]:
    """Return `to_bytes` of each row by key, ascending, from `to_bytes` of a table of this kind.

    The rows are not read: pass only bytes that this process or its state wrote.
    """
    rows: dict[TableKey, bytes] = _wire().encoded_rows(data, kind)
    return rows


def _holds(path: Path, data: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(data) + 1) == data


def with_agreement(release: ReleaseT, agreement: str | None) -> ReleaseT:
    """Return a single release with the fingerprint of an agreement, or none."""
    if agreement == release.agreement:
        return release
    if agreement is not None:
        check_fingerprint(agreement)
    return copy_with(release, _agreement=agreement)


def copy_with(release: ReleaseT, **changed: Any) -> ReleaseT:
    """Return a copy of a release with other values in some slots, which nothing else depends on."""
    kind: Any = type(release)
    copy: ReleaseT = kind.__new__(kind)
    for name in _slots_of(kind):
        setattr(copy, name, changed[name] if name in changed else getattr(release, name))
    return copy


@functools.cache
def _slots_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(name for base in kind.__mro__ for name in getattr(base, "__slots__", ()))
