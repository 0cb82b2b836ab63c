"""SQL functions for DuckDB that estimate from published sketches.

To sketch DuckDB's own data, pass a relation to `Sketch.update_rows` or `SketchTable.update_rows`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.estimation import (
    Block,
    Estimate,
    below_noise_floor,
    block_of,
    check_comparable,
    cosine,
    few_units,
    inner_product,
    mean_distance,
    mean_norm,
    mean_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from streamsketch.release import PrivateSketch

_ESTIMATE = "STRUCT(value DOUBLE, standard_error DOUBLE, low_95 DOUBLE, high_95 DOUBLE)"
_KEPT = 1024  # decoded releases in the cache: a join uses each of them many times


def register(connection: Any) -> None:
    """Register SQL functions of published sketches on a connection.

    The functions ``squared_distance(x, y)``, ``inner_product(x, y)``, ``cosine(x, y)``, ``profile_distance(x, y)``,
    ``mean_distance(x, y)``, ``mean_product(x, y)``, ``squared_norm(x)`` and ``mean_norm(x)`` return a struct of
    ``value``, ``standard_error``, ``low_95`` and ``high_95``; ``guarantee(x)`` returns text. Arguments are sketches in
    the exchange format: the column ``sketch`` of a table written by `PrivateTable.save`, or the content of a
    ``.sketch`` file. NULL gives NULL; so do the cosine and the profile distance of a stream that is empty or too small
    for its noise, and averages of a stream of too few units, where they are undefined. An invalid sketch raises an
    error, which aborts the query, and so does an average of one whose units were not counted.

    Parameters
    ----------
    connection
        A connection of DuckDB's Python package.

    Notes
    -----
    ``SELECT a.key, b.key, squared_distance(a.sketch, b.sketch).value FROM 'all.parquet' a, 'all.parquet' b
    WHERE a.key < b.key ORDER BY 3``
    """
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
    connection.create_function("squared_norm", _norm, ["BLOB"], _ESTIMATE)
    connection.create_function("guarantee", _guarantee, ["BLOB"], "VARCHAR")


def _of_two(estimator: Any) -> Any:
    def estimate(x: bytes, y: bytes) -> dict[str, float]:
        return _fields(estimator(_release(x), _release(y)))

    return estimate


def _or_null(estimator: Any, undefined: Callable[[Block], NDArray[np.bool_]], count: int) -> Any:
    """Return such a function of one or two sketches that is NULL where it is not defined for one of them."""

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
