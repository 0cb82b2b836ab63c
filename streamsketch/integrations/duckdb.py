"""SQL functions for DuckDB that estimate from published sketches.

To sketch DuckDB's own data, pass a relation to `Sketch.update_rows` or `SketchTable.update_rows`.
"""

import functools
from typing import Any

from streamsketch.estimation import (
    Estimate,
    below_noise_floor,
    block_of,
    check_comparable,
    cosine,
    inner_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from streamsketch.release import PrivateSketch

_ESTIMATE = "STRUCT(value DOUBLE, standard_error DOUBLE, low_95 DOUBLE, high_95 DOUBLE)"
_KEPT = 1024  # decoded releases in the cache: a join uses each of them many times


def register(connection: Any) -> None:
    """Register SQL functions of published sketches on a connection.

    The functions ``squared_distance(x, y)``, ``inner_product(x, y)``, ``cosine(x, y)``, ``profile_distance(x, y)`` and
    ``squared_norm(x)`` return a struct of ``value``, ``standard_error``, ``low_95`` and ``high_95``; ``guarantee(x)``
    returns text. Arguments are sketches in the exchange format: the column ``sketch`` of a table written by
    `PrivateTable.save`, or the content of a ``.sketch`` file. NULL gives NULL; so do the cosine and the profile
    distance of a stream that is empty or too small for its noise, where they are undefined. An invalid sketch raises
    an error, which aborts the query.

    Parameters
    ----------
    connection
        A connection of DuckDB's Python package.

    Notes
    -----
    ``SELECT a.key, b.key, squared_distance(a.sketch, b.sketch).value FROM 'all.parquet' a, 'all.parquet' b
    WHERE a.key < b.key ORDER BY 3``
    """
    for estimator in (squared_distance, inner_product, cosine, profile_distance):
        name = estimator.__name__
        if estimator in (cosine, profile_distance):
            connection.create_function(name, _or_null(estimator), ["BLOB", "BLOB"], _ESTIMATE, null_handling="special")
        else:
            connection.create_function(name, _of_two(estimator), ["BLOB", "BLOB"], _ESTIMATE)
    connection.create_function("squared_norm", _norm, ["BLOB"], _ESTIMATE)
    connection.create_function("guarantee", _guarantee, ["BLOB"], "VARCHAR")


def _of_two(estimator: Any) -> Any:
    def estimate(x: bytes, y: bytes) -> dict[str, float]:
        return _fields(estimator(_release(x), _release(y)))

    return estimate


def _or_null(estimator: Any) -> Any:
    """Return such a function that is NULL where a stream is below the noise floor."""

    def estimate(x: bytes | None, y: bytes | None) -> dict[str, float] | None:
        if x is None or y is None:
            return None
        pair = [_release(x), _release(y)]
        check_comparable(pair)
        return None if below_noise_floor(block_of(pair)).any() else _fields(estimator(*pair))

    return estimate


def _norm(x: bytes) -> dict[str, float]:
    return _fields(squared_norm(_release(x)))


def _guarantee(x: bytes) -> str:
    return str(_release(x).guarantee)


@functools.lru_cache(_KEPT)
def _release(data: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(data)


def _fields(estimate: Estimate) -> dict[str, float]:
    fields = estimate.with_interval(0.95)
    return fields | {"low_95": fields.pop("low"), "high_95": fields.pop("high")}
