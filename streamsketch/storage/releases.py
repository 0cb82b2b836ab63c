"""Releases of raw files: each is recorded in the file before it is returned, and counts for copies of the file."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from streamsketch.accounting.ledger import Ledger
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.windows import Windows
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.publishers import Publisher
from streamsketch.sketching.sketch import Sketch
from streamsketch.storage.first_bytes import is_raw
from streamsketch.storage.raw_files import RawTransaction, read_header, transaction
from streamsketch.storage.sketches import PastRelease, RawHeader, RawSketch, State, distinct_releases

ReleasedT = TypeVar("ReleasedT")


def release_raw(  # noqa: PLR0913 - a release is asked for by keyword
    path: str | os.PathLike[str],
    *,
    epsilon: float,
    neighbours: Neighbours,
    delta: float = 0.0,
    mechanism: str = "auto",
    public_keys: Iterable[object] | None = None,
    keys_are_public: bool = False,
    again: bool = False,
    assert_bounds: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> PrivateSketch | PrivateTable:
    """Release the raw sketch in a file, and record the release in that file.

    Every release costs the same people privacy. The release is recorded before it is returned, so a failure between the
    two costs a release, but no guarantee. Other files in the folder that hold some of the same data (copies, merges,
    parts) are found, and their recorded releases count too. A `streamsketch.Ledger` also counts releases in other
    folders, if each was charged to it.

    Parameters
    ----------
    path
        A file that `save_raw` or the command ``streamsketch sketch`` wrote.
    epsilon, neighbours, delta, mechanism
        As in `Sketch.release`.
    public_keys, keys_are_public
        For a file with many keys, as in `SketchTable.release`.
    again
        Whether to release again data that were released before. The ε of both releases add up.
    assert_bounds
        As in `Sketch.release`. The file holds the bounds that were enforced on its data.
    ledger, dataset
        Charge the release to a data set first, as in `Sketch.release`.

    Raises
    ------
    InvalidInputError
        If the file or some of its data was released before and ``again`` is False; and as in `Sketch.release` or
        `SketchTable.release`.
    WireFormatError, OSError
        As in `load_raw`, and if the record cannot be written. Nothing is released then.
    LedgerError
        If the release exceeds the budget that is left for the data set. Nothing is charged then.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.storage import load_raw, save_raw
    >>> path = getfixture("tmp_path") / "north.raw-sketch"
    >>> save_raw(SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch(), path)
    >>> released = release_raw(path, epsilon=1.0, neighbours=L1(1, unit="sale"))
    >>> [str(past.guarantee) for past in load_raw(path).releases] == [str(released.guarantee)]
    True
    """
    publisher = AdditiveNoise(epsilon=epsilon, delta=delta, neighbours=neighbours, mechanism=mechanism)
    with transaction(path) as file:
        return release_loaded(
            file.load(),
            file,
            path,
            publisher,
            again=again,
            public_keys=public_keys,
            keys_are_public=keys_are_public,
            assert_bounds=assert_bounds,
            ledger=ledger,
            dataset=dataset,
        )


class ReleasedBeforeError(InvalidInputError):
    """Raised if some of the data of a raw file were released before, and ``again=True`` was not passed.

    Parameters
    ----------
    data
        The phrase that names the data, from `released_before`.
    releases
        The earlier releases.
    """

    def __init__(self, data: str, releases: tuple[PastRelease, ...]) -> None:
        before = "; ".join(str(past.guarantee) for past in releases)
        super().__init__(
            f"{data} released before: {before}. Use that release, or pass again=True to release again, which costs "
            "the same people privacy a second time"
        )
        self.data, self.releases = data, releases


def release_loaded(  # noqa: PLR0913 - a release is asked for by keyword
    raw: RawSketch,
    file: RawTransaction,
    path: str | os.PathLike[str],
    publisher: Publisher[Any],
    *,
    agreed: Agreement | None = None,
    again: bool = False,
    public_keys: Iterable[object] | None = None,
    keys_are_public: bool = False,
    assert_bounds: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> PrivateSketch | PrivateTable:
    """Release the loaded contents of a file; the release is in the file's record once the transaction ends.

    Parameters
    ----------
    raw, file, path
        The contents, their transaction, and where the file is.
    publisher
        The noise. Counts are published where the agreement says so and units were counted.
    agreed
        The agreement that the release follows, if not the data's own; see `check_adds_terms`.
    again, public_keys, keys_are_public, assert_bounds, ledger, dataset
        As in `release_raw`.

    Raises
    ------
    ReleasedBeforeError
        If the data were released before, unless ``again`` is set. Other errors are those of `release_raw`.
    """
    _refuse_again(raw, path, again=again)
    data = raw.state if agreed is None else _state_following(raw, agreed)
    publisher = publisher.counted_as(data.bounds, data.agreement)
    if isinstance(data, Sketch):
        if public_keys is not None or keys_are_public:
            raise InvalidInputError("the file holds a single stream, so it takes no public keys")
        released: PrivateSketch = publisher.release(
            data, assert_bounds=assert_bounds, again=again, ledger=ledger, dataset=dataset
        )
        return _recorded(released, data, file)
    table: PrivateTable = publisher.release_table(
        data,
        public_keys=public_keys,
        keys_are_public=keys_are_public,
        assert_bounds=assert_bounds,
        again=again,
        ledger=ledger,
        dataset=dataset,
    )
    return _recorded(table, data, file)


def release_loaded_as_agreed(
    raw: RawSketch,
    file: RawTransaction,
    path: str | os.PathLike[str],
    agreed: Agreement,
    *,
    again: bool = False,
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> Any:
    """Release the loaded contents of a file as an agreement says (`Agreement.release`); as `release_loaded`."""
    _refuse_again(raw, path, again=again)
    data = _state_following(raw, agreed)
    return _recorded(agreed.release(data, again=again, ledger=ledger, dataset=dataset), data, file)


def _refuse_again(raw: RawSketch, path: str | os.PathLike[str], *, again: bool) -> None:
    data, releases = released_before(raw, path)
    if releases and not again:
        raise ReleasedBeforeError(data, releases)


def _recorded(released: ReleasedT, data: State, file: RawTransaction) -> ReleasedT:
    """Record a release of these data in their file, and return it."""
    first: Any = getattr(released, "rows", (released,))[0]
    ids = getattr(first, "release_ids", None) or [first.release_id]
    file.record(PastRelease.of(first.guarantee, ids[0].hex(), data.data_ids))
    return released


def _state_following(raw: RawSketch, agreed: Agreement) -> State:
    """Return the raw data under an agreement that says what their release spends, as `check_adds_terms` allows."""
    state = raw.state
    if state.agreement == agreed:
        return state
    return state.with_facts(ids=state.data_ids, agreement=agreed, bounds=state.bounds)


def check_adds_terms(own: Agreement | None, agreed: Agreement, header: RawHeader) -> None:
    """Raise unless raw data may be released by an agreement: it says all that their own does, and what is spent.

    Terms, keys, the title, and the bound with its counts may be others: what was enforced on the data decides whether
    the bound holds. So may the first and the last window, and all windows if the data's own agreement has none.

    Raises
    ------
    IncompatibleProjectionsError, IncompatibleAgreementsError
        If the map, columns or another field differ.
    InvalidInputError
        If one is of keys and the other is not.
    """
    agreed.projection.check_same(header.projection)
    if (agreed.key is not None or agreed.windows_are_keys) != (header.keys is not None):
        held = "holds one stream" if header.keys is None else "holds a sketch for each key"
        remedy = "leave out the key column" if header.keys is None else "agree with the key column, or windows as keys"
        raise InvalidInputError(f"the raw file {held}, and the agreement is of the other kind: {remedy}")
    if own is None:
        return
    free = ["title", "terms", "keys", "neighbours", "counting", "schedule"]
    free += ["clip"] * (own.clip is None) + ["windows"] * _are_of_one_kind(own.windows, agreed.windows)
    if header.bounds.is_enforced and agreed.clip not in (None, header.bounds.clip):
        raise InvalidInputError(
            f"units were clipped by clip={header.bounds.clip!r}, and the agreement says {agreed.clip!r}: leave it out"
        )
    own.replace(**{name: getattr(agreed, name) for name in free}).check_same(agreed)


def _are_of_one_kind(own: Windows | None, agreed: Windows | None) -> bool:
    """Return whether windows are those of the data: of no data's own, or the same apart from the first and the last."""
    if own is None or agreed is None:
        return own is None
    same = (own.time, own.format, own.are) == (agreed.time, agreed.format, agreed.are)
    return same and own.of_times == agreed.of_times


def released_before(raw: RawSketch, path: str | os.PathLike[str]) -> tuple[str, tuple[PastRelease, ...]]:
    """Return a phrase that names the data of a raw file ("… was" or "… were"), and the known releases of these data.

    The files in its folder, and in that of the file it links to, are compared by their data ids. Only headers are read.
    Files that are not raw ones, or cannot be read, are skipped.
    """
    beside = _releases_beside(raw, Path(path))
    releases = distinct_releases([raw.releases, *beside.values()])
    if len(releases) == len(raw.releases):
        return f"{os.fspath(path)} was", releases
    hold = "holds" if len(beside) == 1 else "hold"
    return f"data in {os.fspath(path)}, which {' and '.join(sorted(beside))} {hold} too, were", releases


def _releases_beside(raw: RawSketch, path: Path) -> dict[str, Sequence[PastRelease]]:
    """Return the releases of some of the same data that other raw files record, by the names of the files.

    A sum records the releases of all its parts; those of other parts are not of these data.
    """
    own, ids = path.resolve(), raw.state.data_ids
    by_name: dict[str, Sequence[PastRelease]] = {}
    for other in _files_beside(path):
        if other.resolve() == own:
            continue
        with contextlib.suppress(OSError, WireFormatError):
            if not is_raw(other):  # only the start of such a file is read
                continue
            header = read_header(other)
            releases = [past for past in header.releases if past.may_cover(ids)]
            if releases and not ids.parts.isdisjoint(header.ids.parts):
                by_name[other.name] = releases
    return by_name


def _files_beside(path: Path) -> Iterator[Path]:
    for folder in dict.fromkeys([path.absolute().parent, path.resolve().parent]):
        yield from sorted(other for other in folder.iterdir() if other.is_file())
