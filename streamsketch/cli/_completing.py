"""What ``agree`` starts from besides options: an agreement or a raw sketch that is completed, or columns of a CSV."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.agreement.grids import fine_enough
from streamsketch.agreement.infer import counting_of
from streamsketch.cli._headers import columns_in
from streamsketch.cli._options import given_options
from streamsketch.cli._reading import load_raw_file
from streamsketch.storage.first_bytes import is_raw
from streamsketch.storage.raw_files import read_header


def base_of(sample: Path) -> ss.Agreement | ss.projections.Projection | None:
    """Return what a sample already agrees on: the agreement in it, or that of a raw sketch, or its map; else None.

    A raw sketch whose rows were bounded is agreed on with the bound that holds for it now.
    """
    if sample.suffix == ".json":
        return ss.Agreement.load(sample)
    if not sample.is_file() or not is_raw(sample):
        return None
    header = load_raw_file(sample, read_header)
    if header.agreement is None:
        projection: ss.projections.Projection = header.projection
        return projection
    own: ss.Agreement = header.agreement
    if not header.bounds.is_enforced or header.neighbours is None:
        return own if own.counting is None else own.replace(counting=None)
    counting = own.counting if header.bounds.counts_for(header.neighbours) else None
    return own.replace(neighbours=header.neighbours, counting=counting)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Completion:
    """The fields that options state, each None where an option is left out.

    Parameters
    ----------
    columns
        Index, key, unit and value, as `Agreement` takes them; an empty index if none is stated.
    neighbours, unit, max_keys
        A bound; or another word for its unit, or another number of keys.
    count
        Whether units are counted.
    others
        Other fields by the name of the argument of `Agreement`.
    """

    columns: Mapping[str, Any]
    neighbours: Any
    unit: str | None
    max_keys: int | None
    count: bool | None
    others: Mapping[str, Any]

    def of(self, base: ss.Agreement | ss.projections.Projection) -> ss.Agreement:
        """Return the agreement that adds these fields to one, or that has them for a map."""
        columns = {name: column for name, column in self.columns.items() if column not in (None, [])}
        others = {name: value for name, value in self.others.items() if value is not None}
        if not isinstance(base, ss.Agreement):
            if "index" not in columns:
                raise ss.InvalidInputError(
                    "the raw sketch follows no agreement, so state its columns: --index NAME:TYPE for each, in order"
                )
            neighbours = self._bound(None)
            projection = fine_enough(base, neighbours)
            base.check_same(projection)
            agreed = ss.Agreement(base, **columns, neighbours=neighbours, **{"missing": "keep"} | others)
            return self._counted(agreed)
        neighbours = self._bound(base.neighbours)
        bounds = {} if neighbours == base.neighbours else {"neighbours": neighbours, "counting": None}
        return self._counted(base.replace(**columns, **bounds, **others))

    def _bound(self, before: Any) -> Any:
        if self.neighbours is not None or (self.unit is None and self.max_keys is None):
            return before if self.neighbours is None else self.neighbours
        if before is None:
            raise ss.InvalidInputError("--unit and --max-keys belong to a bound: also give --l1 BOUND")
        unit = {} if self.unit is None else {"unit": self.unit}
        return dataclasses.replace(before, **unit, **({} if self.max_keys is None else {"max_keys": self.max_keys}))

    def _counted(self, agreed: ss.Agreement) -> ss.Agreement:
        if self.count is None:
            return agreed
        if self.count and agreed.neighbours is None:
            raise ss.InvalidInputError("--set count=yes belongs to a bound: also give --l1 BOUND")
        counting = counting_of(agreed.projection, agreed.neighbours) if self.count and agreed.neighbours else None
        return agreed.replace(counting=counting)


def refuse_to_change_the_map(sample: Path, options: Mapping[str, object]) -> None:
    """Raise `InvalidInputError` for options that state a map, or what is sketched, which a sample has already."""
    if names := given_options(options):
        raise ss.InvalidInputError(f"{sample} says what is sketched, and by which map: leave out {names}")


def check_header(sample: Path, columns: Mapping[str, Any]) -> None:
    """Raise `InvalidInputError` unless the header line of a CSV file names these columns; nothing else is read.

    No column of the file that was not named is shown: names may be private.
    """
    names = columns_in(sample)
    stated = [columns["key"], columns["unit"], columns["value"], *columns["index"]]
    for column in stated:
        name = column if column is None or isinstance(column, str) else column[0]
        if name is None or name in names:
            continue
        alike = [other for other in names if other.strip().lower() == name.strip().lower()]
        hint = "; a column's name differs from it in case or in blanks" if alike else ""
        one_column = (
            "; it has one column only: if its delimiter is no comma, leave the file out and state types, as --index "
            "item:text; release and check read it with --set delimiter"
        )
        also = one_column if len(names) == 1 and not alike else ""
        raise ss.InvalidInputError(f"{sample} has no column {name}{hint}{also}")
