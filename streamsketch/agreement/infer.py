"""Agreements from the schema of a table."""

import dataclasses
import secrets
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.agreement import Agreement, Missing
from streamsketch.agreement.casts import check_numeric
from streamsketch.agreement.columns import columns_of, logical_type
from streamsketch.agreement.grids import fine_enough
from streamsketch.agreement.rows_of_unit import TIME_TYPES, RowsOfUnit
from streamsketch.agreement.terms import Spent, Terms
from streamsketch.agreement.text import TextRule
from streamsketch.agreement.windows import Windows
from streamsketch.core.libraries import pa
from streamsketch.core.numbers import short
from streamsketch.core.text import check_text, warn_outside
from streamsketch.core.wrong import FEATURES, wrong_type
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.columns import is_text_type
from streamsketch.data.tables import schema_of
from streamsketch.errors import InvalidInputError, PlanAssumedWarning
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.neighbours import MOST_KEYS, Clip, Neighbours, check_neighbours
from streamsketch.privacy.schedule import Schedule
from streamsketch.privacy.sketch_l2 import SketchL2
from streamsketch.products import SERVICES
from streamsketch.projections.base import Projection
from streamsketch.projections.sjlt import SJLT, CountSketch

_INFER = "infer"
USUAL_CELLS, USUAL_SPARSITY = 1024, 4
"""Of a map whose size nobody stated and no number of units plans."""
_SMALL_DELTA = (
    1e-6  # Gaussian noise, which bounds on sketches are for, needs one; weights of counts do not depend on it
)


def agree(  # noqa: PLR0913 - the fields of an agreement
    rows: object,
    projection: Projection | None = None,
    *,
    index: object = None,
    key: object = None,
    value: str | None = None,
    unit: object = None,
    neighbours: Neighbours | None = None,
    max_keys: int | None = None,
    missing: Missing = "refuse",
    title: str = "",
    clip: Clip | None = None,
    counting: Counting | None = None,
    features: AgreedFeatures | None = None,
    epsilon: Spent | None = None,
    delta: Spent = 0,
    mechanism: str = "auto",
    keys: object = None,
    windows: Windows | None = None,
    schedule: Schedule | None = None,
    text: TextRule | str | None = "new",
    rows_of_unit: RowsOfUnit | str | None = None,
    units: float | Sequence[float] | Mapping[str, float] | None = None,
    items: float | Sequence[float] | None = None,
    catalogue: float | None = None,
    seed: int | None = None,
) -> Agreement:
    """Return an agreement for columns that are given by name alone: their types are those of a table.

    With a unit column and without ``neighbours``, the agreement protects each unit as a whole, whatever its rows hold,
    and each unit counts the same: ``neighbours=SketchL2(1, unit=…)`` with ``clip="equal"``. Under ``features`` a unit
    counts as one row, the average of its own (``clip="average"``), in each of ``max_keys`` keys. There is no bound to
    choose. Distances and cosines then compare the units' averages (Theory 2.4). Units are counted (`Counting`) if
    there is no key column, or if ``max_keys`` states in how many keys a unit may be.

    Parameters
    ----------
    rows
        A data frame, an Arrow table or schema, a DuckDB relation, or anything else with ``__arrow_c_stream__`` or
        ``__arrow_c_schema__``. Only the schema is read; only the named columns of a data frame are converted.
    projection, index, key, value, unit, neighbours, missing, title, clip, counting, features
        As in `Agreement`: a projection and an index, or features. A column that is given with a type keeps it. With a
        unit, a key column of dates becomes text, such as ``"2026-01-31"``, as bounded keys cannot be dates. Under
        `SketchL2` the projection gets a grid that is fine enough (`agreement.fine_enough`). With an index and without a
        projection, the size is planned by ``units``; where it cannot be, for other neighbours or a schedule, the map is
        an `SJLT` of 1,024 cells with 4 nonzeros in a column, and a `PlanAssumedWarning` says so.
    epsilon, delta, mechanism
        What each release spends, and by which mechanism (`Terms`): all parties then publish alike, by
        ``agreement.release(rows)``. Without ``epsilon`` the agreement leaves it to each release.
    keys
        Which keys are published, as in `Agreement`.
    windows, schedule, text
        As in `Agreement`. A column of dates is of type ``"date"``.
    rows_of_unit
        As in `Agreement`, by default the average: ``"latest by TIME"`` takes the type of the column of times, unless it
        is given (``"latest by TIME:date"``). ``"all"`` needs ``neighbours``, whose bound is how many rows may count.
    units
        In place of ``projection``: about how many units a key has, as a public number or a guess; several numbers or a
        dict for keys of different sizes (2,000 if not stated). The map and its grid are then those with which cosines
        err least (Theory 4), at the ε and δ of the terms; without terms at ε = 1 and δ = 1e-6. `planning.plan_sizes`
        shows the whole plan.
    items, catalogue
        Without ``projection``: how many different items a unit adds to a key (10 if not stated), and how many different
        items there are. Both must be public. What is not stated is assumed, and said in a `PlanAssumedWarning`.
    seed
        Without ``projection``: the public seed of the map, 0 to 2^64 - 1; by default one is drawn now.
    max_keys
        The number of keys that a unit may be in, if ``neighbours`` are left out. A unit in more keys keeps only that
        many. The default is 1 without a key column and any number with one; in the latter case units are not counted.

    Raises
    ------
    TypeError
        If ``rows`` has no schema.
    InvalidInputError
        If a column is missing or occurs twice, or its type must be given explicitly, as for floats; if the value
        column is of a type without numbers; if ``max_keys`` is given together with neighbours, which have their own, or
        without units or keys; if ``units``, ``items`` or ``catalogue`` are given together with a projection, features,
        a schedule or a mechanism of signs, or for other neighbours than `SketchL2`; if a mechanism of signs is agreed
        without a projection; and as in `Agreement`.

    Warns
    -----
    PlanAssumedWarning
        If nobody stated the size, or it is planned without ``units``, ``items`` or ``catalogue``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> sales = pa.table({"item": ["milk"], "week": [7], "sold": [3], "customer": ["Ann"]})
    >>> agree(sales, projection, index=["item", "week"], value="sold").index
    (Column(name='item', type='text'), Column(name='week', type='integer'))
    >>> agreement = agree(sales, projection, index="item", value="sold", unit="customer")
    >>> print(agreement.neighbours)
    one customer of at most 1 in one key (L2 of sketches)
    >>> from streamsketch.features import Features, Number
    >>> agree(sales, features=Features({"sold": Number(0, 20)}, seed=7), unit="customer").projection.sketch_dim
    4
    >>> agreement.clip, agreement.projection.resolution, str(agreement.counting)
    ('equal', Fraction(1, 8192), 'a count of units (weight 4043)')
    >>> agreement = agree(sales, projection, index="item", value="sold", unit="customer", epsilon=1, delta=1e-6)
    >>> print(agreement.terms)
    ε = 1, δ = 1e-06, noise auto
    >>> planned = agree(
    ...     sales, index="item", unit="customer", epsilon=1, delta=1e-6, units=2000, items=10, catalogue=4000, seed=7
    ... )
    >>> planned.projection.sketch_dim
    1024
    """
    terms = _terms(epsilon, delta, mechanism)
    stated = {"units": units, "items": items, "catalogue": catalogue, "seed": seed}
    _check_types(value, neighbours, features, projection)
    by_units = schedule is None and (unit is not None if neighbours is None else neighbours.of_sketches)
    is_sized = projection is not None or features is not None
    if not is_sized or any(value is not None for value in stated.values()):
        projection = _map_of(projection, features, schedule, terms, stated, by_units=by_units)
    columns = {
        name: None if argument is None else columns_of(argument, what, _INFER)
        for name, argument, what in (
            ("index", index, "an index column"),
            ("key", key, "the key column"),
            ("unit", unit, "the unit column"),
        )
    }
    untyped = [column.name for group in columns.values() for column in group or () if column.type == _INFER]
    timed = [windows.time.name] if isinstance(windows, Windows) else []
    rows_of_unit = _typed_rows(rows_of_unit, rows)
    schema = schema_of(rows, [*untyped, *timed, *([] if value is None else [value])])
    if value is not None:
        check_numeric(schema.field(value).type, value)
        _check_not_swapped(schema, value, [column.name for column in columns["unit"] or () if column.type == _INFER])

    def typed(role: str) -> Any:
        group = columns[role]
        types = {
            column.name: logical_type(column.name, schema.field(column.name).type)
            for column in group or ()
            if column.type == _INFER
        }
        if role == "key" and columns["unit"] and "date" in types.values():
            types = dict.fromkeys(types, "text")  # a unit's keys are chosen by their names
        return group and [(column.name, types.get(column.name, column.type)) for column in group]

    if features is not None:
        projection = features.projection
    bounds: dict[str, Any] = {"neighbours": neighbours, "clip": clip, "counting": counting}
    of_features = features is not None
    keyed = key is not None
    bounds = _bounds(bounds, projection, columns["unit"], max_keys, rows_of_unit, keyed=keyed, of_features=of_features)
    agreed = Agreement(
        projection if of_features or projection is None else fine_enough(projection, bounds["neighbours"]),  # type: ignore[arg-type] # `Agreement` checks
        **{role: typed(role) for role in columns},
        value=value,
        missing=missing,
        title=title,
        features=features,
        terms=terms,
        keys=keys,
        windows=_windows_of(windows, schema),
        schedule=schedule,
        text=text,
        rows_of_unit=rows_of_unit,
        **bounds,
    )
    if terms is not None:
        SERVICES.need("agreed publishers", "the agreement says what releases spend")(agreed)
    if is_sized:
        return agreed
    if not by_units:
        warn_of_usual_size(agreed, "Pass a projection, whose errors streamsketch.plan or plan_schedule predicts")
        return agreed
    weighed = counting_of if counting is None else None
    plan = SERVICES.need("planned sizes", "the size of sketches is to be planned")
    planned: Agreement = plan(agreed, units, items, catalogue, weighed)
    return planned


def _bounds(
    stated: dict[str, Any],
    projection: Projection | None,
    unit: Sequence[Any] | None,
    max_keys: int | None,
    rows_of_unit: RowsOfUnit | str | None,
    *,
    keyed: bool,
    of_features: bool,
) -> dict[str, Any]:
    """Return neighbours, clip and counting: as stated, or those that protect each unit as a whole."""
    neighbours, clip = stated["neighbours"], stated["clip"]
    if max_keys is not None and (neighbours is not None or not unit):
        where = "unit=…, too" if neighbours is None else "neighbours, SketchL2(bound, max_keys=…)"
        raise InvalidInputError(f"max_keys, the number of keys that one unit may be in, is set by {where}")
    if not unit or neighbours is not None or projection is None:
        return stated | ({"clip": clip_of_features(neighbours, clip, rows_of_unit)} if of_features else {})
    return whole_unit_bounds(
        projection,
        unit[0].name,
        keyed=keyed,
        max_keys=max_keys,
        clip=clip,
        counting=stated["counting"],
        averaged=of_features,
        rows_of_unit=rows_of_unit,
    )


def _check_not_swapped(schema: "pa.Schema", value: str, units: Iterable[str]) -> None:
    """Raise `InvalidInputError` where values are text and units numbers: the columns of one call are easily swapped."""
    kind = schema.field(value).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    for unit in units:
        other = schema.field(unit).type
        if is_text_type(kind) and (pa.types.is_integer(other) or pa.types.is_floating(other)):
            raise InvalidInputError(
                f"the value column {value} holds text, and the unit column {unit} numbers: are the two swapped? If the "
                f"text of {value} is numbers, cast it before"
            )


def _check_types(value: object, neighbours: object, features: object, projection: object) -> None:
    """Raise an error for arguments of other types, or for a map beside features, before any of them is used."""
    if value is not None:
        check_text("the name of the value column", value)  # type: ignore[arg-type] # it checks
    if neighbours is not None:
        check_neighbours(neighbours)
    if features is None:
        return
    if not isinstance(features, AgreedFeatures):
        raise wrong_type("features must be Features", features, FEATURES)
    if projection not in (None, features.projection):
        raise InvalidInputError("features have a projection of their own: leave out projection")


def warn_of_usual_size(agreed: Agreement, remedy: str) -> None:
    """Warn that an agreement has the map of `usual_map`, as nobody stated a size and no number of units plans one.

    Parameters
    ----------
    agreed
        The agreement with this map.
    remedy
        How its size is stated, in a sentence without a full stop.
    """
    projection = agreed.projection
    warn_outside(
        f"nobody stated the size of a sketch. Assumed: {type(projection).__name__} of k = {projection.sketch_dim:,} "
        f"cells (s = {projection.nonzeros}), whose errors were not predicted. {remedy}",
        PlanAssumedWarning,
    )


def usual_map(seed: int | None = None) -> Projection:
    """Return the map of an agreement whose size nobody stated; without a seed one is drawn now."""
    seed = secrets.randbits(63) if seed is None else seed
    return SJLT(dim=HASHED_DIM, sketch_dim=USUAL_CELLS, sparsity=USUAL_SPARSITY, seed=seed)


def _map_of(
    projection: Projection | None,
    features: AgreedFeatures | None,
    schedule: Schedule | None,
    terms: Terms | None,
    stated: dict[str, Any],
    *,
    by_units: bool,
) -> Projection:
    """Return the map to begin with, which a plan by the number of units replaces.

    Raises
    ------
    InvalidInputError
        If two things say the size of a sketch, or it cannot be planned by what is stated.
    """
    options = ", ".join(name for name, value in stated.items() if value is not None)
    if projection is not None or features is not None:
        what = "the projection" if features is None else "features"
        raise InvalidInputError(
            f"{what} and {options} both say the size of a sketch; pass units, items, catalogue and a seed, or {what} "
            "alone, whose errors streamsketch.planning.plan_sizes and plan_sites show"
        )
    if terms is not None and not terms.is_noise:
        raise InvalidInputError(
            f"units plan additive noise, and {short(terms.mechanism)} publishes signs: pass a projection, and see its "
            "errors by streamsketch.planning.plan_signs"
        )
    seed = stated["seed"]
    if by_units:
        return CountSketch(sketch_dim=USUAL_CELLS, seed=secrets.randbits(63) if seed is None else seed)
    if all(value is None for name, value in stated.items() if name != "seed"):
        return usual_map(seed)
    if schedule is not None:
        raise InvalidInputError(
            "units plan single releases, and a schedule has other noise: pass a projection, and see its errors by "
            "streamsketch.planning.plan_schedule"
        )
    raise InvalidInputError(
        f"{options} plan the size of a sketch for units that are clipped in sketch space, with unit=… or "
        "neighbours=SketchL2(…); for others pass a projection, whose errors streamsketch.plan predicts"
    )


def _windows_of(windows: Windows | None, schema: "pa.Schema") -> Windows | None:
    """Return windows whose column of times has the type in a schema: dates, instants, or text of these."""
    if not isinstance(windows, Windows):
        return windows
    kind = schema.field(windows.time.name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind) or is_text_type(kind)):
        raise InvalidInputError(
            f"the column {windows.time.name} must hold times, dates, or text with times or dates; got {kind}"
        )
    if not pa.types.is_date(kind):
        return windows
    return dataclasses.replace(windows, time=(windows.time.name, "date"))


def _typed_rows(rows_of_unit: RowsOfUnit | str | None, rows: object) -> RowsOfUnit | str | None:
    """Return the rows of a unit, with the type that a column of times has in a schema, if that is not stated."""
    if not isinstance(rows_of_unit, str) or RowsOfUnit.parse(rows_of_unit).time is None:
        return rows_of_unit
    if RowsOfUnit.parse(rows_of_unit, "date") == RowsOfUnit.parse(rows_of_unit):  # the type is stated
        return rows_of_unit
    name = RowsOfUnit.parse(rows_of_unit).time.name
    kind = schema_of(rows, [name]).field(name).type
    logical = logical_type(name, kind)
    return RowsOfUnit.parse(rows_of_unit, logical if logical in TIME_TYPES else None)


def _terms(epsilon: Spent | None, delta: Spent, mechanism: str) -> Terms | None:
    if epsilon is None:
        if delta != 0 or mechanism != "auto":
            raise InvalidInputError(
                f"delta={short(delta)} and mechanism={short(mechanism)} are terms of a release; also pass epsilon"
            )
        return None
    return Terms(epsilon=epsilon, delta=delta, mechanism=mechanism)


def whole_unit_bounds(
    projection: Projection,
    unit: str,
    *,
    keyed: bool,
    max_keys: int | None = None,
    clip: Clip | None = None,
    counting: Counting | None = None,
    averaged: bool = False,
    rows_of_unit: RowsOfUnit | str | None = None,
) -> dict[str, Any]:
    """Return ``neighbours``, ``clip`` and ``counting`` of an agreement that protects units, each counting the same.

    Parameters
    ----------
    projection
        The public map, whose grid may still be too coarse.
    unit
        What a unit is, in a word.
    keyed
        Whether there is a key column.
    max_keys, clip, counting
        As in `agree`.
    averaged
        Whether these are features, whose averages are over units.
    rows_of_unit
        As in `agree`.

    Raises
    ------
    InvalidInputError
        For another ``clip`` than ``"equal"``, or of features ``"average"``; if all rows count, up to no bound.
    """
    if averaged and clip is None and str(rows_of_unit) == "all":
        raise InvalidInputError(
            "with rows_of_unit='all' each row counts, up to a bound: also state it, such as neighbours=SketchL2(3, "
            "max_keys=1) (--sketch-l2 3 --set count=yes) for as much as 3 rows, or clip='equal'"
        )
    if clip not in (None, "equal", *(["average"] if averaged else [])):
        raise InvalidInputError(
            f"clip={clip!r} needs a bound to clip to; also pass neighbours=SketchL2(bound) or L1(bound)"
        )
    if max_keys is None:
        max_keys = MOST_KEYS if keyed else 1
    # of units in any number of keys, which are not counted, there are no averages
    if averaged and clip is None and rows_of_unit is not None and max_keys == MOST_KEYS:
        raise InvalidInputError(
            f"with rows_of_unit={str(rows_of_unit)!r} a unit counts as one row in each key: also pass max_keys, in how "
            "many keys one may be"
        )
    averaged = averaged and clip != "equal" and max_keys != MOST_KEYS
    neighbours = SketchL2.of_averages(unit, max_keys) if averaged else SketchL2(1, unit, max_keys)
    if counting is None and not neighbours.any_keys:
        counting = counting_of(fine_enough(projection, neighbours), neighbours)
    return {"neighbours": neighbours, "clip": "average" if averaged else clip or "equal", "counting": counting}


def clip_of_features(
    neighbours: Neighbours | None, clip: Clip | None, rows_of_unit: RowsOfUnit | str | None = None
) -> Clip | None:
    """Return how units' features are clipped to stated neighbours: averaged, if that fits these and nothing is asked.

    Parameters
    ----------
    neighbours, clip, rows_of_unit
        As in `agree`.
    """
    if rows_of_unit is not None:
        return clip  # which the agreement sets, if a unit counts as one row
    if clip is not None or neighbours is None or "average" not in neighbours.clips:
        return clip
    return "average" if not neighbours.any_keys and Fraction(neighbours.bound) ** 2 >= neighbours.max_keys else None


def counting_of(projection: Projection, neighbours: Neighbours) -> Counting:
    """Return weights of counts that widen by at most 3 % the noise which a bound is made for.

    That is Gaussian noise for bounds on sketches, and Laplace noise for others.

    Parameters
    ----------
    projection
        The public map, on the grid that the agreement has.
    neighbours
        `L1`, or `SketchL2` with ``max_keys``.

    Raises
    ------
    InvalidInputError
        As in `Counting.of`.
    """
    if neighbours.of_sketches:
        return Counting.of(projection, neighbours, delta=_SMALL_DELTA, mechanism="gaussian")
    return Counting.of(projection, neighbours, delta=0.0)
