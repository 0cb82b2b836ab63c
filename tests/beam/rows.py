"""Rows of tuples into transforms that take batches, by an agreement of a few words."""

from typing import Any

import apache_beam as beam

import streamsketch as ss
from streamsketch.beam import BoundContributions, RowsToBatches, SketchPerKey
from streamsketch.beam.run.known import known_of
from streamsketch.privacy import Neighbours


def agreement_of(projection: ss.projections.Projection, **columns: Any) -> ss.Agreement:
    """Return the agreement of columns `key`, `index` and `value`, all text and numbers, unless they are said."""
    return ss.Agreement(projection, **{"key": "key", "index": "index", "value": "value", "missing": "keep"} | columns)


class _Bound(beam.PTransform):  # type: ignore[misc]
    def __init__(self, agreement: ss.Agreement, **options: Any) -> None:
        super().__init__()
        self._rows = RowsToBatches(
            agreement,
            [agreement.unit.name, "key", "index", "value"],
            count_private_data=options.get("count_private_data", False),
        )
        self._bound = BoundContributions(agreement, **options)

    def with_late_data(self) -> "_Bound":
        self._bound.with_late_data()
        return self

    def expand(self, rows: beam.PCollection) -> Any:
        # events that were bounded go to the transform that refuses them
        batches = rows | self._rows if known_of(rows).bounds.neighbours is None else rows
        return batches | self._bound


def bound_rows(
    projection: ss.projections.Projection,
    *,
    unit: str = "unit",
    unit_name: str | None = None,
    max_keys: int = 1,
    l1: Any = 1,
    neighbours: Neighbours | None = None,
    columns: dict[str, Any] | None = None,
    **options: Any,
) -> _Bound:
    """Return `BoundContributions` of rows (unit, key, index, value), or of batches with these columns."""
    near = (
        ss.L1(l1, unit=unit if unit_name is None else unit_name, max_keys=max_keys)
        if neighbours is None
        else neighbours
    )
    return _Bound(agreement_of(projection, **{"unit": unit, "neighbours": near} | (columns or {})), **options)


class _Sketched(beam.PTransform):  # type: ignore[misc]
    def __init__(self, agreement: ss.Agreement) -> None:
        super().__init__()
        self._agreement = agreement

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        known = known_of(events)
        is_bounded = known.late or known.bounds.neighbours is not None
        rows = events if is_bounded else events | "Flat" >> beam.Map(_flat).with_output_types(Any)
        batches = events if is_bounded else rows | RowsToBatches(self._agreement)
        return batches | SketchPerKey(self._agreement)


def _flat(row: Any) -> Any:
    return (row[0], *row[1]) if isinstance(row, tuple) and len(row) == 2 else row


def sketch_rows(projection: ss.projections.Projection, **columns: Any) -> beam.PTransform:
    """Return `SketchPerKey` of rows (key, index, value), flat or not, of batches, or of what was bounded."""
    return _Sketched(agreement_of(projection, **columns))
