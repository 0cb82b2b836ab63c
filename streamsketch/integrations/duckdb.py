"""SQL functions for DuckDB that estimate from published sketches.

To sketch DuckDB's own data, pass a relation to `Sketch.update_rows` or `SketchTable.update_rows`.
"""

import functools
import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.numbers import short
from streamsketch.errors import DependentNoiseError, IncompatibleAgreementsError, InvalidInputError
from streamsketch.estimation.counts import total_of, units_of
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.estimators import cosine, inner_product, profile_distance, squared_distance, squared_norm
from streamsketch.estimation.means import mean_distance, mean_norm, mean_product
from streamsketch.estimation.points import frequency
from streamsketch.estimation.populations import column_differences, describe, mmd
from streamsketch.estimation.same import SameTest, check_tolerance, sameness
from streamsketch.features.columns import Category
from streamsketch.privacy.guarantee import Populations
from streamsketch.release.checking.release import check_release
from streamsketch.release.private_sketch import PrivateSketch

_FIELDS = ["value", "standard_error", "low_95", "high_95"]
_ESTIMATE = f"STRUCT({', '.join(f'{name} DOUBLE' for name in _FIELDS)})"
_TEST = f"STRUCT(p_value DOUBLE, distance {_ESTIMATE})"
_ITEM = "UNION(integer BIGINT, text VARCHAR, bytes BLOB, date DATE, time TIMESTAMP)"
_NUMBERS = ", ".join(f"{name} DOUBLE" for name in _FIELDS)
_COLUMNS = f'STRUCT("column" VARCHAR, {_NUMBERS}, differs BOOLEAN)[]'
_MEASURES = f'STRUCT("column" VARCHAR, measure VARCHAR, {_NUMBERS})[]'
_NAME = "streamsketch_registration"
_REGISTERED: dict[str, dict[str, Agreement]] = {}  # of each database, by what its function of that name returns
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

    - ``sameness(x, y, tolerance)``: a struct of ``p_value``, as in `streamsketch.sameness`, and ``distance``, the
      squared distance as a struct as above;
    - ``guarantee(x)``: text;
    - ``warnings(x)``: text, one sentence a line; empty if there is nothing to be warned of;
    - ``noise_check(x)``: ``enough``, ``too little`` or ``not checked``: whether the stated noise is enough for
      the guarantee;
    - ``combine(x, y, populations)``: the release of both streams together, as in `PrivateSketch.combine`;
    - ``why_null(x, y, name)``: why the function of this name is NULL for one sketch or for two, as text; NULL where it
      is not. ``y`` is ignored by a function of one sketch.

    A function is NULL where an argument is NULL, and where sound sketches do not say what it needs: if two share noise,
    as a sketch and itself do, if a cosine is below the noise floor, units were not counted or are too few, features are
    of units of several rows that were not averaged (`describe`), or a sketch is a row of a schedule. SQL evaluates
    conditions in any order, so none could guard such a pair. What is no sketch raises an error, which aborts the query,
    and so do sketches of different projections or agreements.

    Five functions are for releases of features whose agreement is in ``agreements``:

    - ``discrepancy(x, y)``: as `mmd`;
    - ``test_populations(x, y)``: tests whether the populations are the same, as ``sameness(…, by="mean",
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
        of one column. Functions of features need it to know the meaning of cells. Where functions are registered
        already, on this connection or on another one of the same database, these agreements are added.

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
    registered = _agreements_of(connection)
    registered |= {agreement.fingerprint: agreement for agreement in agreements}
    for name, arguments in (("column_differences", "x, y"), ("describe_release", "x")):
        connection.execute(
            f"CREATE OR REPLACE TEMP MACRO {name}({arguments}) AS TABLE "
            f"SELECT unnest({name}({arguments}), recursive := true)"
        )


def _agreements_of(connection: Any) -> dict[str, Agreement]:
    """Return the agreements that the functions of a connection's database know, once the functions are there."""
    asked = "SELECT count(*) FROM duckdb_functions() WHERE function_name = ?"
    if connection.execute(asked, [_NAME]).fetchall() != [(0,)]:
        ((name,),) = connection.execute(f"SELECT {_NAME}()").fetchall()
        return _REGISTERED[name]
    agreements: dict[str, Agreement] = {}
    name, made = uuid.uuid4().hex, list[str]()
    try:
        for function in _functions(agreements, name):
            special = {"null_handling": "special"} | ({"type": "arrow"} if function.is_arrow else {})
            connection.create_function(function.name, function.body, function.parameters, function.result, **special)
            made.append(function.name)
    except Exception:  # of a function of this name that is not ours: none is left behind
        for function_name in made:
            connection.remove_function(function_name)
        raise
    return _REGISTERED.setdefault(name, agreements)


class _Function(NamedTuple):
    name: str
    body: Callable[..., Any]
    parameters: list[str]
    result: str
    is_arrow: bool = False


def _functions(agreements: dict[str, Agreement], name: str) -> Iterator[_Function]:
    """Yield all functions, the last one that by which a second registration finds the first."""
    estimators = _of_releases(agreements)
    for estimator, (body, count, result) in estimators.items():
        yield _Function(estimator, _on_sketches(body, count), ["BLOB"] * count, result)
    frequencies = functools.partial(_frequencies, agreements)
    yield _Function("frequency", frequencies, ["BLOB", _ITEM], _ESTIMATE, is_arrow=True)
    yield _Function("sameness", _tested, ["BLOB", "BLOB", "DOUBLE"], _TEST)
    yield _Function("combine", _combined, ["BLOB", "BLOB", "VARCHAR"], "BLOB")
    yield _Function("share", functools.partial(_share, agreements), ["BLOB", "VARCHAR", "VARCHAR"], _ESTIMATE)
    yield _Function("why_null", functools.partial(_why_null, estimators), ["BLOB", "BLOB", "VARCHAR"], "VARCHAR")
    for label, text in (("noise_check", _noise_check), ("guarantee", _guarantee), ("warnings", _warnings)):
        yield _Function(label, _on_sketches(text, 1), ["BLOB"], "VARCHAR")
    yield _Function(_NAME, lambda: name, [], "VARCHAR")


def _of_releases(agreements: dict[str, Agreement]) -> dict[str, tuple[Callable[..., Any], int, str]]:
    """Return the functions of one release or two alone: what computes them, of how many, and the type in SQL."""
    functions: dict[str, tuple[Callable[..., Any], int, str]] = {}
    for name, estimator, count in (
        ("squared_distance", squared_distance, 2), ("inner_product", inner_product, 2), ("cosine", cosine, 2),
        ("profile_distance", profile_distance, 2), ("mean_distance", mean_distance, 2),
        ("mean_product", mean_product, 2), ("squared_norm", squared_norm, 1), ("mean_norm", mean_norm, 1),
        ("units", units_of, 1), ("total", total_of, 1),
    ):  # fmt: skip
        functions[name] = _fields_of(estimator), count, _ESTIMATE
    for name, function, count, result in (
        ("discrepancy", _discrepancy, 2, _ESTIMATE),
        ("test_populations", _tested_populations, 2, _TEST),
        ("column_differences", _columns, 2, _COLUMNS),
        ("describe_release", _described, 1, _MEASURES),
    ):
        functions[name] = _with_agreement(function, agreements), count, result
    return functions


class _Stated(NamedTuple):
    """What a function comes to, or why sound releases do not say it."""

    result: Any
    reason: str | None = None


def _stated(function: Callable[..., Any], *releases: PrivateSketch) -> _Stated:
    """Return what a function of releases comes to; what is no fault of the query is a reason, and else an error."""
    try:
        return _Stated(function(*releases))
    except (DependentNoiseError, InvalidInputError) as error:
        return _Stated(None, str(error))


def _on_sketches(function: Callable[..., Any], count: int) -> Any:
    """Return a version of a function of releases that takes one sketch or two; NULL gives NULL."""

    def evaluate(*sketches: bytes | None) -> Any:
        present = [sketch for sketch in sketches if sketch is not None]
        return None if len(present) < count else _stated(function, *map(_release, present)).result

    def of_one(x: bytes | None) -> Any:
        return evaluate(x)

    def of_two(x: bytes | None, y: bytes | None) -> Any:
        return evaluate(x, y)

    return of_one if count == 1 else of_two  # DuckDB counts the parameters


def _fields_of(estimator: Callable[..., Estimate]) -> Callable[..., dict[str, float]]:
    return lambda *releases: _fields(estimator(*releases))


def _noise_check(x: PrivateSketch) -> str:
    return check_release(x).verdict


def _warnings(x: PrivateSketch) -> str:
    return "\n".join(x.explain().warnings)


def _frequencies(agreements: dict[str, Agreement], x: pa.ChunkedArray, items: pa.ChunkedArray) -> pa.Array:
    """Return the estimates of items, row by row: all of one release and one type at once."""
    kinds, releases = _one_array(items), _one_array(x).dictionary_encode()
    codes, place = np.asarray(kinds.type_codes), np.asarray(releases.indices.fill_null(-1))
    numbers, missing = np.zeros((len(_FIELDS), len(place))), np.ones(len(place), dtype=np.bool_)
    for code in np.unique(codes):
        column = kinds.field(int(code))
        valid = np.asarray(pc.is_valid(column)) & (codes == code)
        for release_place in np.unique(place[valid & (place >= 0)]):
            (rows,) = np.nonzero(valid & (place == release_place))
            release = _release(releases.dictionary[int(release_place)].as_py())
            if release.history is not None and release.history.is_row:
                continue  # no estimate is made of it
            estimates = frequency(release, column.take(pa.array(rows)), agreement=_agreement_of(release, agreements))
            numbers[:, rows] = [estimates.column(name).to_numpy() for name in ("estimate", "error", "low", "high")]
            missing[rows] = False
    return pa.StructArray.from_arrays([pa.array(values) for values in numbers], _FIELDS, mask=pa.array(missing))


def _agreement_of(release: PrivateSketch, agreements: dict[str, Agreement]) -> Agreement | None:
    if release.agreement is None or release.agreement in agreements:
        return agreements.get(release.agreement or "")
    raise IncompatibleAgreementsError(
        f"a sketch follows the agreement {release.agreement}, which states the types of hashed items; pass "
        "it to register(connection, agreements=[…])"
    )


def _agreement_with_features(release: PrivateSketch, agreements: dict[str, Agreement]) -> Agreement:
    agreement = _agreement_of(release, agreements)
    if agreement is None:
        raise IncompatibleAgreementsError(
            "a sketch states no agreement, so the meaning of its cells is not known; pass sketches of an "
            "agreement with features"
        )
    return agreement


def _with_agreement(function: Callable[..., Any], agreements: dict[str, Agreement]) -> Callable[..., Any]:
    """Return a version of a function of releases of features that finds the agreement of the first."""

    def averaged(*releases: PrivateSketch) -> Any:
        agreement = _agreement_with_features(releases[0], agreements)
        _check_averages(*releases)
        return function(*releases, agreement)

    return averaged


def _check_averages(*releases: PrivateSketch) -> None:
    """Raise `InvalidInputError` where a release has no average: tables of columns would have rows without numbers."""
    for release in releases:
        mean_norm(release)


def _discrepancy(x: PrivateSketch, y: PrivateSketch, agreement: Agreement) -> dict[str, float]:
    return _fields(mmd(x, y, agreement))


def _tested_populations(x: PrivateSketch, y: PrivateSketch, agreement: Agreement) -> dict[str, Any]:
    del agreement
    return _test_fields(sameness(x, y, by="mean", samples=True))


def _test_fields(test: SameTest) -> dict[str, Any]:
    return {"p_value": test.p_value, "distance": _fields(test.distance)}


def _columns(x: PrivateSketch, y: PrivateSketch, agreement: Agreement) -> list[dict[str, Any]]:
    rows = column_differences(x, y, agreement, samples=True).to_pylist()
    return [{"column": row["column"], **_row_fields(row), "differs": row["low"] > 0} for row in rows]


def _described(x: PrivateSketch, agreement: Agreement) -> list[dict[str, Any]]:
    rows = describe(x, agreement).to_pylist()
    return [{"column": row["column"], "measure": row["measure"], **_row_fields(row)} for row in rows]


def _shares_of(agreement: Agreement, column: str, value: str) -> dict[str, list[str]] | None:
    """Return the shares to describe besides those of listed values. Raises `IncompatibleAgreementsError` for others."""
    kind = None if agreement.features is None else agreement.features.columns.get(column)
    if not isinstance(kind, Category) or (kind.values is not None and value not in kind.values):
        raise IncompatibleAgreementsError(
            f"the column {short(column)} is not a category with the value {short(value)}; pass a category and one of "
            "its values"
        )
    return {column: [value]} if kind.values is None else None


def _share(agreements: dict[str, Agreement], x: bytes | None, column: str | None, value: str | None) -> Any:
    if x is None or column is None or value is None:
        return None
    release = _release(x)
    agreement = _agreement_with_features(release, agreements)
    shares = _shares_of(agreement, column, value)

    def share(sketch: PrivateSketch) -> dict[str, float | None]:
        _check_averages(sketch)
        rows = describe(sketch, agreement, shares=shares).to_pylist()
        (row,) = (row for row in rows if row["column"] == column and row["measure"] == f"share of {value}")
        return _row_fields(row)

    return _stated(share, release).result


def _row_fields(row: dict[str, Any]) -> dict[str, float | None]:
    """Return the numbers of a row of a table as those of an estimate; NULL where they are not known."""
    numbers = (row[name] for name in ("estimate", "error", "low", "high"))
    return {name: number if math.isfinite(number) else None for name, number in zip(_FIELDS, numbers, strict=True)}


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _combined(x: bytes | None, y: bytes | None, populations: Any) -> Any:
    if x is None or y is None or populations is None:
        return None
    if populations not in get_args(Populations):
        raise InvalidInputError(
            f"populations must be one of {', '.join(get_args(Populations))}, got {short(populations)}"
        )
    return _stated(lambda a, b: a.combine(b, populations=populations).to_bytes(), _release(x), _release(y)).result


def _tested(x: bytes | None, y: bytes | None, tolerance: float | None) -> Any:
    if x is None or y is None or tolerance is None:
        return None
    check_tolerance(tolerance)
    return _stated(lambda a, b: _test_fields(sameness(a, b, tolerance)), _release(x), _release(y)).result


def _why_null(estimators: dict[str, Any], x: bytes | None, y: bytes | None, function: str | None) -> str | None:
    if function is None:
        return None
    if function not in estimators:
        raise InvalidInputError(f"there is a reason for {', '.join(estimators)}, and not for {short(function)}")
    body, count, _ = estimators[function]
    present = [sketch for sketch in (x, y)[:count] if sketch is not None]
    return "a sketch is NULL" if len(present) < count else _stated(body, *map(_release, present)).reason


def _guarantee(x: PrivateSketch) -> str:
    return str(x.guarantee)


@functools.lru_cache(_KEPT)
def _release(data: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(data)


def _fields(estimate: Estimate) -> dict[str, float]:
    fields = estimate.with_interval(0.95)
    return fields | {"low_95": fields.pop("low"), "high_95": fields.pop("high")}
