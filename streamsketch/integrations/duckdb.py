"""SQL functions for DuckDB that estimate from published sketches.

To sketch DuckDB's own data, pass a relation to `Sketch.update_rows` or `SketchTable.update_rows`.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamsketch.agreement import Agreement
from streamsketch.core import short
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.estimation import (
    Block,
    Estimate,
    below_noise_floor,
    block_of,
    check_comparable,
    column_differences,
    cosine,
    describe,
    few_units,
    frequency,
    has_people,
    inner_product,
    mean_distance,
    mean_norm,
    mean_product,
    mmd,
    profile_distance,
    squared_distance,
    squared_norm,
    test_same,
    total_of,
    units_of,
)
from streamsketch.features import Category
from streamsketch.release import PrivateSketch, check_release

_FIELDS = ["value", "standard_error", "low_95", "high_95"]
_ESTIMATE = f"STRUCT({', '.join(f'{name} DOUBLE' for name in _FIELDS)})"
_TEST = f"STRUCT(p_value DOUBLE, distance {_ESTIMATE})"
_ITEM = "UNION(integer BIGINT, text VARCHAR, bytes BLOB, date DATE, time TIMESTAMP)"
_NUMBERS = ", ".join(f"{name} DOUBLE" for name in _FIELDS)
_COLUMNS = f'STRUCT("column" VARCHAR, {_NUMBERS}, differs BOOLEAN)[]'
_MEASURES = f'STRUCT("column" VARCHAR, measure VARCHAR, {_NUMBERS})[]'
_KEPT = 1024  # decoded releases in the cache: a join uses each of them many times


def register(connection: Any, *, agreements: Iterable[Agreement] = ()) -> None:
    """Register SQL functions that estimate from published sketches on a connection.

    Arguments ``x`` and ``y`` are sketches in the exchange format: the column ``sketch`` of a table that
    `PrivateTable.save` wrote, or the content of a ``.sketch`` file. These functions return a struct of ``value``,
    ``standard_error``, ``low_95`` and ``high_95``:

    - ``squared_distance(x, y)``, ``inner_product(x, y)``, ``cosine(x, y)``, ``profile_distance(x, y)`` and
      ``squared_norm(x)``;
    - ``mean_distance(x, y)``, ``mean_product(x, y)``, ``mean_norm(x)``, ``units(x)`` and ``total(x)``, for releases
      that count units;
    - ``frequency(x, item)``, for an item that is an integer, text, bytes, a date or a timestamp.

    Further functions return other types:

    - ``test_same(x, y, tolerance)``: a struct of ``p_value``, as in `streamsketch.test_same`, and ``distance``, the
      squared distance as a struct as above;
    - ``guarantee(x)``: text;
    - ``noise_check(x)``: ``enough``, ``too little`` or ``not checked``: whether the stated noise is enough for
      the guarantee;
    - ``combine(x, y, populations)``: the release of both streams together, as in `PrivateSketch.combine`.

    A function of NULL is NULL. The cosine and profile distance are NULL if a stream is empty or too small for its
    noise, and averages are NULL if a stream has too few units, or features of units of several rows that were not
    averaged (`describe`). An invalid sketch raises an error, which aborts the
    query, and so does an average of a sketch whose units were not counted.

    Five functions are for releases of features whose agreement is in ``agreements``:

    - ``discrepancy(x, y)``: as `mmd`;
    - ``test_populations(x, y)``: tests whether the populations are the same, as ``test_same(…, by="mean",
      samples=True)``;
    - ``column_differences(x, y)``: a row for each column. A column ``differs`` if its interval, which is for the
      populations and holds together with those of the other columns, excludes 0;
    - ``describe_release(x)``: a row for each ``measure`` of a column, as `describe`;
    - ``share(x, column, value)``: the share of a category, also of a hashed one.

    ``column_differences`` and ``describe_release`` can be used as a table, ``FROM describe_release(x)``; in an
    expression, they return a list of structs.

    Parameters
    ----------
    connection
        A connection of DuckDB's Python package.
    agreements
        The agreements of the streams. ``frequency`` needs a stream's agreement to cast items to its type, for an index
        of one column. Functions of features need it to know the meaning of cells.

    Notes
    -----
    ``SELECT a.key, b.key, squared_distance(a.sketch, b.sketch).value FROM 'all.parquet' a, 'all.parquet' b
    WHERE a.key < b.key ORDER BY 3``

    ``SELECT key, item, f.value FROM (SELECT key, item, frequency(sketch, item) f FROM 'all.parquet', words)``

    Examples
    --------
    >>> import duckdb
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch() for _ in range(2))
    >>> x.update([17], [300])
    >>> data = [sketch.release(epsilon=1.0, neighbours=L1(1)).to_bytes() for sketch in (x, y)]
    >>> connection = duckdb.connect()
    >>> register(connection)
    >>> query = connection.execute("SELECT d.value, d.low_95 < d.high_95 FROM (SELECT squared_distance(?, ?) d)", data)
    >>> value, is_interval = query.fetchone()
    >>> is_interval
    True
    """
    known = {agreement.fingerprint: agreement for agreement in agreements}
    frequencies = functools.partial(_frequencies, known)
    types = {"parameters": ["BLOB", _ITEM], "return_type": _ESTIMATE}
    connection.create_function("frequency", frequencies, **types, type="arrow", null_handling="special")
    connection.create_function("test_same", _tested, ["BLOB", "BLOB", "DOUBLE"], _TEST)
    connection.create_function("combine", _combined, ["BLOB", "BLOB", "VARCHAR"], "BLOB")
    for estimator in (squared_distance, inner_product):
        connection.create_function(estimator.__name__, _of_two(estimator), ["BLOB", "BLOB"], _ESTIMATE)
    for estimator, undefined in (
        (cosine, below_noise_floor),
        (profile_distance, below_noise_floor),
        (mean_distance, few_units),
        (mean_product, few_units),
    ):
        function = _or_null(estimator, undefined, 2)
        connection.create_function(estimator.__name__, function, ["BLOB"] * 2, _ESTIMATE, null_handling="special")
    function = _or_null(mean_norm, few_units, 1)
    connection.create_function("mean_norm", function, ["BLOB"], _ESTIMATE, null_handling="special")
    for name, of_one in (("squared_norm", squared_norm), ("units", units_of), ("total", total_of)):
        connection.create_function(name, _of_one(of_one), ["BLOB"], _ESTIMATE)
    connection.create_function("noise_check", _noise_check, ["BLOB"], "VARCHAR")
    connection.create_function("guarantee", _guarantee, ["BLOB"], "VARCHAR")
    for name, function, parameters, result in (
        ("discrepancy", _discrepancy, ["BLOB", "BLOB"], _ESTIMATE),
        ("test_populations", _tested_populations, ["BLOB", "BLOB"], _TEST),
        ("column_differences", _columns, ["BLOB", "BLOB"], _COLUMNS),
        ("describe_release", _described, ["BLOB"], _MEASURES),
        ("share", _share, ["BLOB", "VARCHAR", "VARCHAR"], _ESTIMATE),
    ):
        of_features = _with_agreement(function, known, len(parameters))
        connection.create_function(name, of_features, parameters, result, null_handling="special")
    for name, arguments in (("column_differences", "x, y"), ("describe_release", "x")):
        connection.execute(
            f"CREATE OR REPLACE TEMP MACRO {name}({arguments}) AS TABLE "
            f"SELECT unnest({name}({arguments}), recursive := true)"
        )


def _of_two(estimator: Any) -> Any:
    def estimate(x: bytes, y: bytes) -> dict[str, float]:
        return _fields(estimator(_release(x), _release(y)))

    return estimate


def _or_null(estimator: Any, undefined: Callable[[Block], NDArray[np.bool_]], count: int) -> Any:
    """Return a version of a function of one or two sketches that is NULL if it is not defined for one of them."""

    def estimate(sketches: Sequence[bytes | None]) -> dict[str, float] | None:
        given = [sketch for sketch in sketches if sketch is not None]
        if len(given) < count:
            return None
        releases = [_release(sketch) for sketch in given]
        check_comparable(releases)
        return None if undefined(block_of(releases)).any() else _fields(estimator(*releases))

    def of_one(x: bytes | None) -> dict[str, float] | None:
        return estimate([x])

    def of_two(x: bytes | None, y: bytes | None) -> dict[str, float] | None:
        return estimate([x, y])

    return of_one if count == 1 else of_two


def _of_one(estimator: Any) -> Any:
    def estimate(x: bytes) -> dict[str, float]:
        return _fields(estimator(_release(x)))

    return estimate


def _noise_check(x: bytes) -> str:
    return check_release(_release(x)).verdict


def _frequencies(agreements: dict[str, Agreement], x: pa.ChunkedArray, items: pa.ChunkedArray) -> pa.Array:
    """Return the estimates of items, row by row: all of one release and one type at once."""
    kinds, releases = _one_array(items), _one_array(x).dictionary_encode()
    codes, place = np.asarray(kinds.type_codes), np.asarray(releases.indices.fill_null(-1))
    numbers, missing = np.zeros((len(_FIELDS), len(place))), np.ones(len(place), dtype=np.bool_)
    for code in np.unique(codes):
        column = kinds.field(int(code))
        given = np.asarray(pc.is_valid(column)) & (codes == code)
        for one in np.unique(place[given & (place >= 0)]):
            (rows,) = np.nonzero(given & (place == one))
            release = _release(releases.dictionary[int(one)].as_py())
            found = frequency(release, column.take(pa.array(rows)), agreement=_agreement_of(release, agreements))
            numbers[:, rows] = [found.column(name).to_numpy() for name in ("estimate", "error", "low", "high")]
            missing[rows] = False
    return pa.StructArray.from_arrays([pa.array(one) for one in numbers], _FIELDS, mask=pa.array(missing))


def _agreement_of(release: PrivateSketch, agreements: dict[str, Agreement]) -> Agreement | None:
    if release.agreement is None or release.agreement in agreements:
        return agreements.get(release.agreement or "")
    raise IncompatibleAgreementsError(
        f"a sketch follows the agreement {release.agreement}, which states the types of hashed items; pass "
        "it to register(connection, agreements=[…])"
    )


def _with_agreement(function: Any, agreements: dict[str, Agreement], count: int) -> Any:
    """Return a function of arguments, the first of which is a release of features, that finds their agreement.

    It is NULL where an argument is, units are too few for an average, or a discrepancy would not be one of people.
    """

    def found(*arguments: Any) -> Any:
        if any(one is None for one in arguments):
            return None
        given = [_release(one) if isinstance(one, bytes) else one for one in arguments]
        agreement = _agreement_of(given[0], agreements)
        if agreement is None:
            raise InvalidInputError(
                "a sketch states no agreement, so the meaning of its cells is not known; pass sketches of an "
                "agreement with features"
            )
        releases = [one for one in given if isinstance(one, PrivateSketch)]
        check_comparable(releases)
        if few_units(block_of(releases)).any():
            return None
        if function in _OF_PEOPLE and not all(has_people(release, agreement) for release in releases):
            return None
        return function(*given, agreement)

    def of_one(x: Any) -> Any:
        return found(x)

    def of_two(x: Any, y: Any) -> Any:
        return found(x, y)

    def of_three(x: Any, y: Any, z: Any) -> Any:
        return found(x, y, z)

    return (of_one, of_two, of_three)[count - 1]  # DuckDB counts the parameters


def _discrepancy(x: PrivateSketch, y: PrivateSketch, agreement: Agreement) -> dict[str, float]:
    return _fields(mmd(x, y, agreement))


def _tested_populations(x: PrivateSketch, y: PrivateSketch, agreement: Agreement) -> dict[str, Any]:
    del agreement
    test = test_same(x, y, by="mean", samples=True)
    return {"p_value": test.p_value, "distance": _fields(test.distance)}


def _columns(x: PrivateSketch, y: PrivateSketch, agreement: Agreement) -> list[dict[str, Any]]:
    rows = column_differences(x, y, agreement, samples=True).to_pylist()
    return [{"column": row["column"], **_row_fields(row), "differs": row["low"] > 0} for row in rows]


_OF_PEOPLE = (_discrepancy, _columns)
"""Functions that refuse units of several rows that were not averaged; others have NULL within."""


def _described(x: PrivateSketch, agreement: Agreement) -> list[dict[str, Any]]:
    rows = describe(x, agreement).to_pylist()
    return [{"column": row["column"], "measure": row["measure"], **_row_fields(row)} for row in rows]


def _share(x: PrivateSketch, column: str, value: str, agreement: Agreement) -> dict[str, float | None]:
    kind = None if agreement.features is None else agreement.features.columns.get(column)
    hashed = isinstance(kind, Category) and kind.values is None
    rows = describe(x, agreement, shares={column: [value]} if hashed else None).to_pylist()
    named = [row for row in rows if row["column"] == column and row["measure"] == f"share of {value}"]
    if not named:
        raise InvalidInputError(
            f"the column {short(column)} is not a category with the value {short(value)}; pass a category and one of "
            "its values"
        )
    return _row_fields(named[0])


def _row_fields(row: dict[str, Any]) -> dict[str, float | None]:
    """Return the numbers of a row of a table as those of an estimate; NULL where they are not known."""
    numbers = (row[name] for name in ("estimate", "error", "low", "high"))
    return {name: one if math.isfinite(one) else None for name, one in zip(_FIELDS, numbers, strict=True)}


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _combined(x: bytes, y: bytes, populations: str) -> bytes:
    return _release(x).combine(_release(y), populations=populations).to_bytes()  # type: ignore[arg-type] # checked there


def _tested(x: bytes, y: bytes, tolerance: float) -> dict[str, Any]:
    found = test_same(_release(x), _release(y), tolerance)
    return {"p_value": found.p_value, "distance": _fields(found.distance)}


def _guarantee(x: bytes) -> str:
    return str(_release(x).guarantee)


@functools.lru_cache(_KEPT)
def _release(data: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(data)


def _fields(estimate: Estimate) -> dict[str, float]:
    fields = estimate.with_interval(0.95)
    return fields | {"low_95": fields.pop("low"), "high_95": fields.pop("high")}
