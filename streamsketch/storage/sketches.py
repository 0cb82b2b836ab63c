"""Raw sketches and their headers, and how a part of a file holds one."""

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from streamsketch.accounting.sensitivity import check_carried
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.same import check_agreed
from streamsketch.core.concealed import concealed
from streamsketch.core.documents import Json, TableKey
from streamsketch.core.limits import Limits
from streamsketch.core.numbers import Ints
from streamsketch.data import data_ids
from streamsketch.data.canonical import canonical_bytes
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import IncompatibleProjectionsError, InvalidInputError, WireFormatError
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.layout import COUNTS
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import MAX_MASS, Projection, check_entries
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable
from streamsketch.storage.database import Database, Row

State: TypeAlias = Sketch | SketchTable

_MAX_BYTES = Limits().max_raw_bytes
_ONE_STREAM = b"1"  # the key of the row of a single stream; no key of a table is like it
_RELEASE_ID = re.compile(rf"[0-9a-f]{{{2 * RELEASE_ID_BYTES}}}")
_FIELDS = {
    "projection": (str, "text"),
    "agreement": (str | None, "text or null"),
    "largest": (int, "an integer from 0 to 2^63"),
    "bounds": (dict | None, "an object or null"),
    "keyed": (bool, "true or false"),
    "events": (int, "an integer from 0 to 2^63 - 1"),
    "data_ids": (list, "a list"),
    "releases": (list, "a list"),
}


class PastRelease(NamedTuple):
    """One release of a raw sketch, as recorded in its file."""

    guarantee: Guarantee
    release_id: str
    """The id of the release, in hex; for a table, the id of its first release."""
    parts: frozenset[bytes] | None = None
    """The secret ids of the data that were released; None if they are many or were not recorded."""

    @classmethod
    def of(cls, guarantee: Guarantee, release_id: str, ids: DataIds) -> Self:
        """Return the record of a release of some data; of a sum of many parts it does not name them, to stay short."""
        return cls(guarantee, release_id, ids.parts if len(ids.parts) <= data_ids.PUBLISHED else None)

    def __repr__(self) -> str:
        return f"PastRelease({self.guarantee!r}, {self.release_id!r})"  # not the ids, which are secret

    def may_cover(self, ids: DataIds) -> bool:
        """Return whether some of these data were released by it, as far as is known."""
        return self.parts is None or not self.parts.isdisjoint(ids.parts)

    def to_fields(self) -> Json:
        """Return the release as a dictionary that JSON can hold."""
        parts = {} if self.parts is None else {"data_ids": [data_id.hex() for data_id in sorted(self.parts)]}
        return self.guarantee.to_dict() | {"release_id": self.release_id} | parts


@dataclasses.dataclass(frozen=True)
class RawSketch:
    """The contents of a raw file. All of it is secret except the projection and the releases.

    Parameters
    ----------
    state
        The sketch of one stream, or the table of many keys'.
    events
        How many events were added.
    releases
        What was released from this data before, or from a part of it.
    """

    state: State
    events: int = 0
    releases: tuple[PastRelease, ...] = ()

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self.state.projection

    @property
    def agreement(self) -> Agreement | None:
        """The agreement that all rows in it followed, if any."""
        return self.state.agreement

    @property
    def neighbours(self) -> Neighbours | None:
        """The relation that was enforced on the data, or else the one that their agreement names."""
        return _neighbours(self.state.bounds, self.agreement)

    def __repr__(self) -> str:
        return f"<RawSketch, secret, of {self.projection!r}>"


@concealed
@dataclasses.dataclass(frozen=True)
class RawHeader:
    """What is known of a raw sketch without its cells.

    Parameters
    ----------
    projection, agreement, ids, bounds, largest
        Of the data, as in `Sketch.from_state`.
    keys
        The number of keys of a table; None for one stream.
    events, releases
        As in `RawSketch`.
    """

    projection: Projection
    agreement: Agreement | None
    ids: DataIds
    bounds: Bounds
    largest: int
    keys: int | None
    events: int
    releases: tuple[PastRelease, ...]

    @classmethod
    def of(cls, raw: RawSketch) -> Self:
        """Return the header of a raw sketch."""
        state, keys = raw.state, len(raw.state) if isinstance(raw.state, SketchTable) else None
        facts = (state.projection, state.agreement, state.data_ids, state.bounds, state.largest)
        return cls(*facts, keys, raw.events, raw.releases)

    @property
    def neighbours(self) -> Neighbours | None:
        """As in `RawSketch`."""
        return _neighbours(self.bounds, self.agreement)

    def empty(self, bounds: Bounds = NO_DATA) -> State:
        """Return an empty sketch or table of this projection, agreement and data: what is added counts as these data.

        Parameters
        ----------
        bounds
            Bounds of the rows to come; by default, those with which the rows are added. If they are not clipped, pass
            `UNKNOWN`: the bounds of the sum must not show whether any rows came.
        """
        rows = 1 if self.keys is None else 0
        sums, masses = ExactSums(rows, self.projection.sketch_dim), np.zeros(rows, np.int64)
        return dataclasses.replace(self, bounds=bounds, largest=0).state([], sums, masses)

    def state(self, keys: Sequence[TableKey], sums: ExactSums, masses: Ints) -> State:
        """Return the sketch or table with these sums; `WireFormatError` if they do not belong together."""
        agreement, ids, bounds, most = self.agreement, self.ids, self.bounds, self.largest
        try:
            if self.keys is None:
                return Sketch.from_state(
                    self.projection, sums, int(masses[0]), agreement=agreement, ids=ids, bounds=bounds, largest=most
                )
            return SketchTable.from_state(
                self.projection, keys, sums, masses, agreement=agreement, ids=ids, bounds=bounds, largest=most
            )
        except (InvalidInputError, OverflowError):  # never their values
            raise WireFormatError("cells", "do not belong together with the masses, keys and projection") from None

    def merged(self, other: "RawHeader") -> "RawHeader":
        """Return the header of the sum of both, except for the number of keys; errors as `append_raw`."""
        if (self.keys is None) != (other.keys is None):
            raise InvalidInputError("one holds one stream, the other one for each key")
        self.projection.check_same(other.projection)
        return dataclasses.replace(
            self,
            agreement=check_agreed(self.agreement, other.agreement),
            ids=self.ids.merged(other.ids),
            bounds=self.bounds.merged(other.bounds, keyed=self.keys is not None),
            largest=max(self.largest, other.largest),
            events=self.events + other.events,
        ).with_releases(other.releases)

    def with_releases(self, releases: Iterable[PastRelease]) -> "RawHeader":
        """Return the header with more releases in its record, each once."""
        return dataclasses.replace(self, releases=distinct_releases([self.releases, releases]))

    def to_fields(self) -> Json:
        """Return the header as a dictionary that JSON can hold."""
        return {
            "projection": self.projection.to_json(),
            "agreement": None if self.agreement is None else self.agreement.to_json(),
            "largest": self.largest,
            "bounds": self.bounds.to_dict(),
            "keyed": self.keys is not None,
            "events": self.events,
            "data_ids": [data_id.hex() for data_id in (self.ids.own, *sorted(self.ids.parts - {self.ids.own}))],
            "releases": [past.to_fields() for past in self.releases],
        }

    @classmethod
    def from_fields(cls, fields: Any, rows: int) -> Self:
        """Return the header that `to_fields` wrote, of ``rows`` sketches; `WireFormatError` if it is not valid."""
        if not isinstance(fields, dict) or fields.keys() != _FIELDS.keys():
            raise WireFormatError("header", f"must have the fields {', '.join(_FIELDS)} and no others")
        for name, (kind, described) in _FIELDS.items():
            value = fields[name]
            in_range = not isinstance(value, int) or 0 <= value <= MAX_MASS + (name == "largest")
            if isinstance(value, bool) != (kind is bool) or not isinstance(value, kind) or not in_range:
                raise WireFormatError(f"header.{name}", f"must be {described}")  # never the value: events are secret
        try:
            projection = Projection.from_json(fields["projection"])
            check_entries(projection, "largest entry", raw=True)
            agreement = None if fields["agreement"] is None else Agreement.from_json(fields["agreement"])
            if agreement is not None:
                projection.check_same(agreement.projection)
            ids = data_ids.from_list(map(bytes.fromhex, fields["data_ids"]))
            bounds = UNKNOWN if fields["bounds"] is None else Bounds.from_dict(fields["bounds"])
            releases = tuple(map(_past_release, fields["releases"]))
        except (InvalidInputError, IncompatibleProjectionsError, KeyError, TypeError, ValueError) as error:
            raise WireFormatError("header", f"is not valid: {error}") from None
        keys = rows if fields["keyed"] else None
        return cls(projection, agreement, ids, bounds, fields["largest"], keys, fields["events"], releases)


def _past_release(fields: Json) -> PastRelease:
    release_id = fields["release_id"]
    if not isinstance(release_id, str) or not _RELEASE_ID.fullmatch(release_id):
        raise InvalidInputError(f"a release id must be {RELEASE_ID_BYTES} bytes in hex")
    listed = fields.get("data_ids")
    parts = None if listed is None else data_ids.from_list(map(bytes.fromhex, listed)).parts
    own = ("release_id", "data_ids")
    guarantee = Guarantee.from_dict({name: value for name, value in fields.items() if name not in own})
    check_carried(guarantee.neighbours)  # refuses a record that could not be written again
    return PastRelease(guarantee, release_id, parts)


def distinct_releases(records: Iterable[Iterable[PastRelease]]) -> tuple[PastRelease, ...]:
    """Return all releases of several records, each once."""
    return tuple({past.release_id: past for record in records for past in record}.values())


def check_size(projection: Projection, keys: int, most: int = _MAX_BYTES) -> None:
    """Raise `InvalidInputError` if the sketches of so many keys are too large for a file."""
    if (size := 8 * keys * (projection.sketch_dim + 1)) > most:
        raise InvalidInputError(
            f"{keys:,} sketches of {projection.sketch_dim:,} cells take {size:,} bytes, and a raw file holds at most "
            f"{most:,}: use fewer cells, split the events by key into several files, or sketch them by Beam "
            f"(SketchPerKey)"
        )


# --- parts of a file ----------------------------------------------------------------------------------------------


def write_sketch(database: Database, part: str, raw: RawSketch) -> str:
    """Write a raw sketch into a file, and return its digest; a table's cells are copied in blocks."""
    header = RawHeader.of(raw)
    check_size(header.projection, header.keys or 1)
    return database.write(part, header.to_fields(), _rows(raw.state))


def read_header_of(database: Database, part: str) -> RawHeader:
    """Return what is known of the raw sketch in a file without its cells."""
    fields, rows, _ = database.header(part)
    return RawHeader.from_fields(fields, rows)


def add_to_sketch(database: Database, part: str, raw: RawSketch) -> RawHeader:
    """Add a raw sketch to the one in a file, without reading the cells of other keys; errors as `append_raw`."""
    merged = read_header_of(database, part).merged(RawHeader.of(raw))
    add = _summed(merged.projection.sketch_dim, counted=merged.bounds.counted)
    database.change(part, merged.to_fields(), _rows(raw.state), add)
    return read_header_of(database, part)


def read_sketch(database: Database, part: str) -> RawSketch:
    """Return the raw sketch in a file; `WireFormatError` if it is damaged."""
    header = read_header_of(database, part)
    rows, dim = (1 if header.keys is None else header.keys), header.projection.sketch_dim
    if 8 * rows * dim > database.size:
        raise WireFormatError("header", f"states {rows} sketches of {dim} cells, more than the file holds")
    sums, masses, keys = ExactSums(rows, dim), np.zeros(rows, np.int64), []
    for place, row in enumerate(database.rows(part)):
        if place < rows:  # one too many is an error after the last
            numbers = numbers_of(row.data, dim)
            sums.cells[place], sums.counts[place] = numbers[:dim], numbers[dim:] if numbers.size > dim else 0
            masses[place] = row.number
            keys.append(row.key)
    if header.keys is None and keys != [_ONE_STREAM]:
        raise WireFormatError("rows", "are not those of one stream")
    names = [] if header.keys is None else [key_of(key, place) for place, key in enumerate(keys)]
    state = header.state(names, sums, masses)
    return RawSketch(state, header.events, header.releases)


def _rows(state: State) -> Iterator[Row]:
    dim = state.projection.sketch_dim
    width = dim + (COUNTS if state.bounds.has_counts else 0)
    if isinstance(state, Sketch):
        keys, masses, rows = [_ONE_STREAM], [state.mass], iter([state.sums().row(0)])
    else:
        keys, masses, rows = list(map(canonical_bytes, state)), state.masses.tolist(), state.numbers()
    for key, mass, row in zip(keys, masses, rows, strict=True):
        yield Row(key, mass, row[:width].astype("<i8", copy=False))


def _summed(dim: int, *, counted: bool) -> Callable[[Row, Row], Row]:
    """Return a function that adds two rows of numbers, each with or without counts at its end."""

    def add(old: Row, new: Row) -> Row:
        total = np.zeros(dim + (COUNTS if counted else 0), dtype=np.int64)
        for numbers in (numbers_of(row.data, dim)[: total.size] for row in (old, new)):
            total[: numbers.size] += numbers
        return Row(old.key, min(old.number + new.number, MAX_MASS), total)  # 2^63 - 1 stands for that and more

    return add


def numbers_of(data: Any, dim: int) -> Ints:
    """Return the numbers of a row: its cells, and the counts behind them, if there are any."""
    numbers = np.frombuffer(data[: len(data) // 8 * 8], dtype="<i8") if isinstance(data, bytes) else data
    if numbers.size not in (dim, dim + COUNTS) or numbers.nbytes != memoryview(data).nbytes:
        raise WireFormatError("cells", f"are {len(data)} bytes, not {8 * dim}")
    return numbers


def key_of(data: bytes, place: int) -> Any:
    """Return the key that `canonical_bytes` wrote."""
    tag, text = data[:1], data[1:]
    try:
        if tag == b"s":
            return text.decode()
        if tag == b"b":
            return text
        if tag == b"i":
            return int(text)
        if tag == b"d":
            return dt.date(1970, 1, 1) + dt.timedelta(days=int(text))
    except (ValueError, OverflowError):
        pass
    raise WireFormatError(f"key {place}", "is neither text, bytes, an integer nor a date")


def _neighbours(bounds: Bounds, agreement: Agreement | None) -> Neighbours | None:
    if bounds.is_enforced:
        return bounds.neighbours
    return None if agreement is None else agreement.neighbours
