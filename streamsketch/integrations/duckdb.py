"""Questions to releases in SQL: functions for DuckDB over the sketches of a table.

For the way in, `Sketch.update_rows` and `SketchTable.update_rows` take a relation of DuckDB as it is.
"""

import functools
from typing import Any

from streamsketch.estimation import Estimate, cosine, inner_product, squared_distance, squared_norm
from streamsketch.release import PrivateSketch

_ESTIMATE = "STRUCT(value DOUBLE, standard_error DOUBLE, low_95 DOUBLE, high_95 DOUBLE)"
_KEPT = 1024  # releases that stay decoded: a join meets each of them many times


def register(connection: Any) -> None:
    """Give a connection functions over sketches: distances, products, cosines, norms and promises.

    They are ``squared_distance``, ``inner_product``, ``cosine``, ``squared_norm`` and ``promise``. Their arguments are
    sketches in the exchange format: the column ``sketch`` of a table that `PrivateTable.save` wrote, or the content of
    a ``.sketch`` file. An estimate is a struct of ``value``, ``standard_error``, ``low_95`` and ``high_95``; a promise
    is text. A NULL gives NULL; what is no sound sketch ends the query with its error.

    Parameters
    ----------
    connection
        A connection of DuckDB's Python package.

    Notes
    -----
    ``SELECT a.key, b.key, squared_distance(a.sketch, b.sketch).value FROM 'all.parquet' a, 'all.parquet' b
    WHERE a.key < b.key ORDER BY 3``
    """
    for estimator in (squared_distance, inner_product, cosine):
        name = estimator.__name__
        connection.create_function(name, _of_two(estimator), ["BLOB", "BLOB"], _ESTIMATE)
    connection.create_function("squared_norm", _norm, ["BLOB"], _ESTIMATE)
    connection.create_function("promise", _promise, ["BLOB"], "VARCHAR")


def _of_two(estimator: Any) -> Any:
    def estimate(x: bytes, y: bytes) -> dict[str, float]:
        return _fields(estimator(_release(x), _release(y)))

    return estimate


def _norm(x: bytes) -> dict[str, float]:
    return _fields(squared_norm(_release(x)))


def _promise(x: bytes) -> str:
    return str(_release(x).guarantee)


@functools.lru_cache(_KEPT)
def _release(data: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(data)


def _fields(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.interval(0.95)
    return {"value": estimate.value, "standard_error": estimate.standard_error, "low_95": low, "high_95": high}
