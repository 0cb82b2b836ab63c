"""Agreement: a projection, and which columns of which types enter it, under which bound."""

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.casts import cast_keys
from streamsketch.agreement.checks import (
    check_bound,
    check_columns,
    check_counting,
    check_features,
    check_index,
    check_schedule,
    check_terms,
    check_types,
    check_windows,
    clip_among,
    listed_keys,
    spelling_of,
)
from streamsketch.agreement.columns import Column, column_of, columns_of
from streamsketch.agreement.fields import NESTED, arguments_of, fields_of
from streamsketch.agreement.grids import fine_enough
from streamsketch.agreement.publishing import publishing
from streamsketch.agreement.rows_of_unit import RowsOfUnit, rows_of_unit_in
from streamsketch.agreement.shown import line_of, table_of, value_text
from streamsketch.agreement.terms import PublishedKeys, Selected, Terms
from streamsketch.agreement.text import TextRule
from streamsketch.agreement.windows import Windows
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.core.libraries import pa
from streamsketch.core.limits import current_limits, json_fields, read_bounded
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text
from streamsketch.core.wrong import PROJECTION, check_path, wrong_type
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.columns import arrow_column
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError, WireFormatError
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection

if TYPE_CHECKING:
    from streamsketch.accounting.ledger import Ledger
    from streamsketch.agreement.same import Signer
    from streamsketch.sketching.bounding.summary import BoundingSummary

Missing: TypeAlias = Literal["refuse", "drop", "keep"]

_FINGERPRINT_BYTES = 16
_WINDOW_KEY = Column("key and window", "text")


class _Load:
    """Reads agreements from the class, and releases under it from an agreement."""

    @overload
    def __get__(self, agreement: None, kind: object) -> "Callable[[str | os.PathLike[str]], Agreement]": ...

    @overload
    def __get__(self, agreement: "Agreement", kind: object) -> "Callable[..., Any]": ...

    def __get__(self, agreement: "Agreement | None", kind: object) -> Any:
        return load_agreement if agreement is None else agreement.load_release


def load_agreement(path: str | os.PathLike[str]) -> "Agreement":
    """Return the agreement in a file.

    Raises
    ------
    InvalidInputError
        As in `Agreement.from_json`; the message names the file.
    OSError
        If the file cannot be read.
    """
    most = current_limits().max_json_bytes
    try:
        text = read_bounded(path, most, "max_json_bytes")
    except WireFormatError:
        raise InvalidInputError(
            f"{Path(path)} is not an agreement, a JSON file that `streamsketch agree` writes: it is longer than "
            f"{most:,} bytes (max_json_bytes)"
        ) from None
    try:
        return Agreement.from_json(text)
    except (InvalidInputError, WireFormatError) as error:
        raise InvalidInputError(f"{Path(path)} is not an agreement: {error}") from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Agreement:
    """All that parties must agree on, so that equal data give equal sketches and bounds mean the same.

    A projection alone does not fix which columns are sketched, in which order, as which types, and what a blank cell
    means. Under one agreement, equal tables give equal sketches, whether they come from CSV, Parquet, JSON lines,
    pandas, polars, DuckDB or Arrow. The exception are units that exceed the bound: `bound_units` draws a secret to clip
    them. An agreement is public, like the projection.

    Parameters
    ----------
    projection
        The public map; its ``resolution`` is that of the values. May be given as the first positional argument. Leave
        it out with ``features``, whose sums are kept without a sketch (`projections.Identity`), on a grid of their own.
    index
        Columns that describe what happened, in order: a name, or a dict of names to types. `Column` lists the types. A
        name alone means ``"text"``, or ``"integer"`` if the projection's dim is not 2^60.
    features
        A public map of columns of numbers, categories and embeddings, instead of an index and values. Sums over rows
        are compared. The map itself handles what is missing in these columns; ``missing`` does not apply to them.
    key
        Column of keys (text, integers, bytes or dates), for one sketch per key. None for a single stream.
    value
        Column of numbers to add up: integers, decimals or floats. None if each row counts 1.
    unit
        Column that names the privacy unit of a row, if there is one.
    neighbours
        How much one unit may contribute, in the values' units. Its ``max_keys`` counts keys; where rows are sketched by
        windows, each window of a key is a key, and without a key column each window.
    missing
        How to treat rows in which one of the columns is null, NaN or blank text: ``"refuse"`` them with an error, or
        ``"drop"`` them. ``"keep"`` takes rows as `Sketch.update` and `bound_units` do: blank text is text, a float has
        its exact binary value, and times in a column of text stay times. A null is then refused, or dropped if units
        are bounded. With ``"keep"``, file formats that differ in these points give different sketches.
    title
        What the agreement is about, in one line, for people.
    clip
        How all parties clip units to the bound of ``neighbours``. ``"scale"`` shrinks a unit's whole contribution.
        ``"cut"`` drops part of it (`L1`). ``"equal"`` brings every unit to the bound, shorter ones too, so that each
        counts the same (`SketchL2`). ``"average"`` divides the features of a unit in each key by the number of its rows
        there, so that each unit counts as one row (`SketchL2`, with ``features``). None lets each party choose, by
        default ``"scale"``.
    counting
        How the number of units in each key is published beside its cells (`Counting`). None if it is not published.
    terms
        What a release spends, and by which mechanism (`Terms`); ``"release"`` in JSON. All parties then publish with
        one ε and δ, and `release` needs nothing else. None leaves them to each release.
    keys
        Which keys are published, if there is a key column: a list of keys, chosen without looking at the data;
        ``"public"``, if which keys have data is no secret (a condition of the guarantee); or `Selected`, a private
        choice at a share of the budget. Needed with ``terms``.
    windows
        Windows of time (`Windows`): each is a release of its own, or a key of one release. None for rows without times.
    text
        The spelling in which text is compared, a `TextRule` or its steps, ``"NFC, trim, fold"``: of the index, of keys,
        and of units, as far as `TextRule.of_units` goes. Text that differs in nothing else is the same name, and public
        keys and dictionaries are spelt alike. ``"new"`` is ``"NFC, collapse"``: normal form NFC, blanks at the ends
        dropped and runs of them one space; under ``missing="keep"``, None. With None, as in agreements that do not
        state it, text stays as it is. It is also None if no column holds text.
    schedule
        Which sums of windows are published, so that any range of time has little noise (`streamsketch.continual`);
        with windows that are releases, from the first on. ε and δ are then for all of them together, for a unit in as
        many as the schedule allows.
    rows_of_unit
        What a unit of several rows contributes to ``features``, in each key: ``"mean"``, the average of its rows;
        ``"latest by TIME"`` or ``"first by TIME"``, that of the latest or first time in this column; or ``"all"``, each
        row (`RowsOfUnit`). All but the last need and set ``clip="average"``. None, as in agreements that do not state
        it, is ``"mean"`` with ``clip="average"``, and else ``"all"``.

    Raises
    ------
    InvalidInputError
        For an unknown type or a repeated column; if an index must be hashed, but the projection's dim is not 2^60; if
        the bound is below one grid step (for `SketchL2`, below 2^12 steps); if units are to be counted without a unit
        column, or under neighbours that `Counting` does not support; if terms lack a bound, a δ that the bound needs,
        or the keys of a key column; for windows that no release could publish, and schedules without windows.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement(projection, index={"item": "text", "week": "integer"}, value="quantity")
    >>> agreement.index
    (Column(name='item', type='text'), Column(name='week', type='integer'))
    >>> Agreement.from_json(agreement.to_json()) == agreement
    True
    """

    projection: Projection = dataclasses.field(default=None, kw_only=False)  # type: ignore[assignment]
    index: Any = None
    key: Any = None
    value: str | None = None
    unit: Any = None
    neighbours: Neighbours | None = None
    missing: Missing = "refuse"
    title: str = ""
    clip: Clip | None = None
    counting: Counting | None = None
    features: AgreedFeatures | None = None
    terms: Terms | None = None
    keys: Any = None
    windows: Windows | None = None
    schedule: Schedule | None = None
    text: TextRule | str | None = "new"
    rows_of_unit: RowsOfUnit | str | None = None

    def __post_init__(self) -> None:
        if self.features is not None:
            check_features(self.features, self.projection, index=self.index, value=self.value)
            self._set("projection", self.features.projection)
            self._set("index", ())
        if not isinstance(self.projection, Projection):
            raise wrong_type("an agreement needs a Projection or Features", self.projection, PROJECTION)
        rows, clip = rows_of_unit_in(
            self.rows_of_unit, features=self.features, unit=self.unit, windows=self.windows, clip=self.clip
        )
        self._set("rows_of_unit", rows)
        self._set("clip", clip)
        self._take_columns()
        check_types(self.columns, self.value)
        self._set("text", spelling_of(self.text, self.missing, self.columns, self.features))
        check_bound(self.neighbours, self.clip, self.projection, self.features)
        check_counting(self.counting, self.unit, self.neighbours, self.projection)
        check_windows(self.windows, self.key)
        if self.keys is not None:
            self._set("keys", listed_keys(self.keys, self.key, None if self.key is None else self.rule_of(self.key)))
        check_terms(
            self.terms,
            neighbours=self.neighbours,
            unit=self.unit,
            key=self.key,
            keys=self.keys,
            windows_alone=self.terms is not None and self.windows_are_keys and self.published_keys is None,
        )
        check_schedule(self.schedule, windows=self.windows, terms=self.terms, key=self.key, keys=self.keys)
        if self.missing not in (choices := get_args(Missing)):
            raise InvalidInputError(
                f"missing must be one of {', '.join(map(repr, choices))}, got {short(self.missing)}"
            )
        if self.title != "":
            check_text("the title of an agreement", self.title)

    def _take_columns(self) -> None:
        hashed = self.projection.dim == HASHED_DIM
        if self.features is None:
            self._set("index", columns_of(self.index, "an index column", "text" if hashed else "integer"))
            check_index(self.index, self.projection)
        for name in ("key", "unit"):
            if (named := getattr(self, name)) is not None:
                self._set(name, column_of(named, name))
        check_columns(self.columns, features=self.features, key=self.key, value=self.value)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @functools.cached_property
    def layout(self) -> Layout:
        """What a release has of each key: `counting` and `schedule` together."""
        return Layout(self.counting, self.schedule)

    @staticmethod
    def of(
        projection: Projection,
        *,
        index: str | Sequence[str],
        key: str | None = None,
        value: str | None = None,
        unit: str | None = None,
        neighbours: Neighbours | None = None,
        clip: Clip | None = None,
        counting: Counting | None = None,
    ) -> "Agreement":
        """Return an agreement from the names of columns alone.

        Columns are of type ``"text"``, so integers and dates are hashed as their text. An index is of type
        ``"integer"`` if the projection's dim is not 2^60. Nothing else is cast: ``missing`` is ``"keep"``. Under
        `SketchL2` the projection gets a grid that is fine enough (`agreement.fine_enough`).

        Parameters
        ----------
        projection, index, key, value, unit, neighbours, clip, counting
            As in `Agreement`.

        Raises
        ------
        InvalidInputError
            As in `Agreement`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from streamsketch import SJLT, sketch
        >>> agreement = Agreement.of(SJLT(sketch_dim=64, sparsity=4, seed=7), index="item")
        >>> sketch(pa.table({"item": [7, 8]}), agreement) == sketch(pa.table({"item": ["7", "8"]}), agreement)
        True
        """
        columns: dict[str, Any] = {"index": index, "key": key, "value": value, "unit": unit}
        bounds: dict[str, Any] = {"neighbours": neighbours, "clip": clip, "counting": counting}
        return Agreement(fine_enough(projection, neighbours), **columns, **bounds, missing="keep")

    def clip_of(self, clip: Clip | None = None) -> Clip:
        """Return how units are clipped: the agreed way, else ``clip``, else the first that the neighbours allow.

        Raises
        ------
        InvalidInputError
            If ``clip`` differs from the agreed way, the neighbours do not allow it, or rows of other things than
            features are to be averaged.
        """
        if self.clip is not None and clip not in (None, self.clip):
            raise InvalidInputError(
                f"the agreement has clip={self.clip!r}, got {short(clip)}. Leave clip out: all parties clip alike"
            )
        return clip_among(self.clip or clip, self.features, self.neighbours)

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[Column]:
        """The columns that are cast to a type: key, index, unit and the times of `rows_of_unit`, if they exist."""
        time = None if self.rows_rule is None else self.rows_rule.time
        return [*([] if self.key is None else [self.key]), *self.index, *filter(None, (self.unit, time))]

    @property
    def names(self) -> list[str]:
        """The names of all columns that are read, each once."""
        names = [column.name for column in self.columns]
        names += [] if self.features is None else list(self.features.columns)
        return list(dict.fromkeys([*names, *([] if self.value is None else [self.value])]))

    def keys_of(self, names: Iterable[object], what: str = "public_keys") -> list[Any]:
        """Return keys, such as public keys, cast to the agreed type.

        Raises
        ------
        InvalidInputError
            For keys that do not fit the agreed type; for a single text instead of a collection (the message calls the
            keys ``what``); and if the agreement has no key column.
        """
        column = _WINDOW_KEY if self.windows_are_keys else self.key
        if column is None:
            raise InvalidInputError("the agreement has no key column, so there is a single stream; leave out keys")
        rule = None if self.key is None else self.rule_of(self.key)
        if rule is None or not self.windows_are_keys:
            return cast_keys(names, what, column, rule)
        keys = (text.rpartition(" ") for text in cast_keys(names, what, column, None))  # names of windows have none
        return [f"{rule.apply(key)}{blank}{window}" for key, blank, window in keys]

    @property
    def rule(self) -> TextRule | None:
        """The spelling in which text is compared; ``text``, with the type that it has once an agreement is made."""
        return self.text  # type: ignore[return-value]

    @property
    def rows_rule(self) -> RowsOfUnit | None:
        """What a unit of several rows contributes; ``rows_of_unit``, with the type that it has in an agreement."""
        return self.rows_of_unit  # type: ignore[return-value]

    def rule_of(self, column: Column) -> TextRule | None:
        """Return the rule for the text of a column: None for other types, and of units what `TextRule.of_units` says.

        A column of units that is also the index or the key has one spelling, that of units.
        """
        if self.rule is None or column.type != "text":
            return None
        return self.rule.of_units if self.unit is not None and column.name == self.unit.name else self.rule

    def spelt(self, array: "pa.Array", column: Column) -> "pa.Array":
        """Return an Arrow array of a column in the agreed spelling (`TextRule.apply_to`)."""
        rule = self.rule_of(column)
        return array if rule is None else rule.apply_to(array)

    @property
    def windows_are_keys(self) -> bool:
        """Whether windows, or pairs of key and window, are keys of one release."""
        return self.windows is not None and self.windows.are == "keys"

    @property
    def windows_are_releases(self) -> bool:
        """Whether each window is a release of its own."""
        return self.windows is not None and self.windows.are == "releases"

    @functools.cached_property
    def published_keys(self) -> PublishedKeys | None:
        """The keys that a release has: ``keys``; where windows are keys, each key in each window.

        None if nobody says so: without a key column, or if windows that are keys have no first and last one.
        """
        keys: PublishedKeys | None = self.keys
        if self.windows is None or not self.windows_are_keys or keys == "public" or isinstance(keys, Selected):
            return keys
        names = self.windows.names
        if names is None or (keys is None and self.key is not None):
            return None
        if keys is None:
            return tuple(sorted(names))
        texts = arrow_column(list(keys), "key").cast(pa.string()).to_pylist()
        return tuple(sorted(f"{text} {name}" for text in texts for name in names))

    # --- publishing -----------------------------------------------------------------------------------------

    def sketch(
        self, rows: object, *, summary: "BoundingSummary | None" = None, folder: str | os.PathLike[str] | None = None
    ) -> "Any":
        """Return the exact, **secret** sketch of rows, with each unit clipped as agreed.

        Sketches of several parts of the data add up: keep them to accumulate, and release the sum with `release`.

        Parameters
        ----------
        rows
            A data frame, an Arrow table, a DuckDB relation, or anything else with ``__arrow_c_stream__``.
        summary, folder
            As in `streamsketch.bound`; only if the agreement has a unit column.

        Returns
        -------
        SketchTable, Sketch or dict
            By key if there is a key column. Of listed keys alone, if the agreement lists them and has a unit column.
            With windows that are releases, a dict of these by the names of all windows, in order.

        Raises
        ------
        TypeError, InvalidInputError
            As in `streamsketch.bound`, or `streamsketch.sketch` without a unit column.
        """
        return publishing().sketch_agreed(self, rows, summary=summary, folder=folder)

    def release(
        self,
        data: object,
        *,
        ledger: "Ledger | None" = None,
        dataset: str | None = None,
        again: bool = False,
        summary: "BoundingSummary | None" = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Return a private release of rows: bounded, sketched and drawn as agreed. Nothing secret is left behind.

        The release is (ε, δ)-differentially private for ``neighbours``, with the ε and δ of ``terms``; a private choice
        of keys is part of them (`Selected`). Its guarantee says whether the bound was enforced: it is, if the agreement
        has a unit column. Theorems are those of `Sketch.release`, and of the mechanisms of `streamsketch.signs`.

        Parameters
        ----------
        data
            Rows, as in `sketch`; or what `sketch` returned, such as a sum of several parts.
        ledger, dataset
            As in `Sketch.release`: charged before anything is drawn.
        again
            Whether a further release of the same sketch is meant (`Sketch.release`). Rows are not recognised.
        summary, folder
            As in `sketch`, for rows.

        Returns
        -------
        PrivateSketch, PrivateTable, SignSketch, SignTable or dict
            A table if there is a key column, or if windows are keys. With windows that are releases, a dict of these by
            the names of all windows, in order: each states the guarantee of a window in a stream. With a schedule they
            are its rows, which `streamsketch.continual.History` reads.

        Raises
        ------
        InvalidInputError
            If the agreement has no terms; for sketches that were not bounded although it has a unit column; if no key
            is chosen, which is part of what is published; as in `sketch`. What sums hold never causes an error.
        IncompatibleAgreementsError, IncompatibleProjectionsError
            For sketches of another agreement.
        LedgerError
            If the release exceeds the budget that is left for the data set. Nothing is charged then.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import streamsketch as ss
        >>> rows = pa.table({"item": ["tea", "jam"], "customer": ["Ann", "Bob"]})
        >>> projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
        >>> agreement = ss.agree(rows, projection, index="item", unit="customer", epsilon=1, delta=1e-6)
        >>> print(agreement.release(rows).guarantee.budget)
        ε = 1, δ = 1e-06
        """
        charged: dict[str, Any] = {"ledger": ledger, "dataset": dataset}
        return publishing().release_agreed(self, data, **charged, again=again, summary=summary, folder=folder)

    def load_release(self, path: str | os.PathLike[str], *, signer: "Signer | Iterable[Signer] | None" = None) -> Any:
        """Return the release in a file that follows this agreement; ``agreement.load`` is this method.

        Parameters
        ----------
        path, signer
            As in `streamsketch.load`.

        Raises
        ------
        WireFormatError, SignatureError, OSError
            As in `streamsketch.load`; also if the release follows another agreement.
        """
        return publishing().load_agreed(self, path, signer=signer)

    # --- agreeing -------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return the agreement as a dict that JSON can hold."""
        return fields_of(_values(self))

    def to_json(self) -> str:
        """Return the agreement as canonical JSON: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def from_json(text: str | bytes) -> "Agreement":
        """Return the agreement that `to_json` wrote.

        Raises
        ------
        InvalidInputError
            If the text is not JSON, is longer than `Limits.max_json_bytes`, or lacks, repeats or adds a field.
        """
        fields = json_fields(text, "an agreement", NESTED)
        agreement = Agreement(**arguments_of(fields, {field.name for field in dataclasses.fields(Agreement)}))
        if "text" in fields and agreement.text is None:
            raise InvalidInputError("the agreement has a rule for text, and no column of text: leave out text")
        if fields.get("clip") != agreement.clip:
            raise InvalidInputError("rows of a unit that count as one are averaged: state the clip, average")
        return agreement

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_json` to a file atomically: all of it or nothing."""
        check_path(path, "an agreement is saved by the path of its file")
        write_whole(path, self.to_json().encode() + b"\n")

    load = _Load()
    """``Agreement.load(path)`` reads an agreement; ``agreement.load(path)`` reads a release that follows it."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """128 bits of the BLAKE2b hash of `to_json`, in hexadecimal. Raw files and releases carry it."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=_FINGERPRINT_BYTES).hexdigest()

    def check_same(self, other: "Agreement") -> None:
        """Raise an error that lists the fields that differ, unless ``other`` is equal.

        Raises
        ------
        IncompatibleProjectionsError
            If the projections differ.
        IncompatibleAgreementsError
            If any other field differs.
        """
        self.projection.check_same(other.projection)
        differing = [
            f"{name} ({value_text(own)} here, {value_text(others)} there)"
            for (name, own), others in zip(_values(self).items(), _values(other).values(), strict=True)
            if own != others
        ]
        if differing:
            raise IncompatibleAgreementsError(
                f"the agreements differ: {', '.join(differing)}. Sketch both streams under one agreement: share its "
                f"file"
            )

    def replace(self, **changes: Any) -> "Agreement":
        """Return an agreement with some fields changed (`dataclasses.replace`).

        Raises
        ------
        InvalidInputError
            If the bound changes but ``counting`` is not given, because the weight of a count depends on the bound; and
            as in `Agreement`.
        """
        if self.counting is not None and "neighbours" in changes and "counting" not in changes:
            raise InvalidInputError(
                f"units are counted by weights that fit {self.neighbours!r}; with other neighbours, also pass "
                "counting, such as Counting.of(projection, neighbours, delta=…), or counting=None"
            )
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        return line_of(_values(self), self.fingerprint)

    def _repr_html_(self) -> str:
        return table_of(_values(self), self.fingerprint)


def _values(agreement: Agreement) -> dict[str, Any]:
    return {field.name: getattr(agreement, field.name) for field in dataclasses.fields(agreement)}
