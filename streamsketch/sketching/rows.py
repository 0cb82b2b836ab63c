"""A sketch of whole tables under an agreement."""

from typing import Any

from streamsketch.agreement import Agreement
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


def sketch(rows: Any, agreement: Agreement) -> Sketch | SketchTable:
    """Return the exact, secret sketch of a table's rows, cast to the agreed types: one a key, if the agreement has one.

    What a unit contributes is not clipped: it must be within the agreed bound already.

    Parameters
    ----------
    rows
        A data frame of pandas or polars, an Arrow table, a relation of DuckDB, or any other with Arrow's C stream.
    agreement
        The columns, their types and order.

    Raises
    ------
    TypeError, InvalidInputError
        As `streamsketch.intake.Intake.batches`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT, Agreement
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement(projection, index={"item": "integer"}, key="shop", value="sold")
    >>> table = sketch(pa.table({"shop": ["N", "S"], "item": ["007", "8"], "sold": [3, 2]}), agreement)
    >>> table == sketch(pa.table({"shop": ["N", "S"], "item": [7, 8], "sold": [3.0, 2.0]}), agreement)
    True
    """
    if not isinstance(agreement, Agreement):
        raise TypeError(f"rows are sketched under an Agreement, got a {type(agreement).__name__}")
    started: Sketch | SketchTable = Sketch(agreement) if agreement.key is None else SketchTable(agreement)
    started.update_rows(rows)
    return started
