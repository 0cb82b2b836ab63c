"""Populations compared by features, as `compare --agreement` shows them."""

import functools
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np

import streamsketch as ss
from streamsketch.cli._features import load_agreement
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._pairs import Pair, select_names
from streamsketch.cli._reading import load_sketches, name_in_errors
from streamsketch.cli._saying import say
from streamsketch.cli._showing import (
    estimate_columns,
    interval_name,
    join_names,
    plural,
    progress_bar,
    selected_fields,
    show_json,
)
from streamsketch.core.documents import Json
from streamsketch.estimation.blocks import AnySketch, block_of, is_secret
from streamsketch.estimation.estimate import estimate_cells
from streamsketch.estimation.intervals import Interval
from streamsketch.estimation.means import few_units
from streamsketch.features.features import JOINT

_NAME = "discrepancy"


def show_populations(  # noqa: PLR0913 - the options of a command
    files: list[Path],
    agreement: Path,
    *,
    top: int | None,
    only: list[str] | None,
    confidence: float,
    together: bool,
    signer: list[Path] | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print how far apart populations are, whether they differ significantly, and the columns of the farthest pair.

    Raises
    ------
    InvalidInputError
        For an agreement without features, units that were not counted, and as `load_sketches` and `select_names`.
    IncompatibleProjectionsError, IncompatibleAgreementsError, DependentNoiseError, SignatureError
        As `load_sketches` and `load_agreement`.
    """
    sketches = load_sketches(files, least=2, command="compare", raw=raw, signer=signer)
    populations = Populations(select_names(sketches, only, "compare"), agreement)
    pairs = populations.nearest_pairs()
    shown = pairs[:top]
    # adjusted ones depend on all
    p_values = populations.p_values(pairs if together else shown)
    if together:
        p_values = _adjusted(p_values)
    candidates = len(pairs) if together else None
    if as_json:
        show_json([populations.fields(pair, p_values[pair], confidence, candidates) for pair in shown])
    else:
        populations.show(shown, p_values, confidence, candidates)
        farthest = next((pair for pair in reversed(pairs) if populations.is_defined(pair)), None)
        if farthest is not None:
            populations.show_columns(farthest, confidence, of=len(pairs))
    populations.say_notes()


class Populations:
    """Pairs of populations by name.

    Parameters
    ----------
    sketches
        By name.
    agreement
        The file of the agreement that they follow, which has features.
    """

    def __init__(self, sketches: Mapping[str, AnySketch], agreement: Path) -> None:
        self.names = list(sketches)
        self._sketches = list(sketches.values())
        self._agreed, _ = load_agreement(agreement, sketches)
        block = block_of(self._sketches)
        if block.units is None or np.isnan(block.units.number).any():
            raise ss.InvalidInputError(
                "units were not counted, so there are no averages to compare: bound the rows, with no other rows "
                "added, under an agreement that counts units"
            )
        self._few = few_units(block)

    def is_defined(self, pair: Pair) -> bool:
        """Return whether both populations have an average."""
        return not self._few[list(pair)].any()

    @functools.cached_property
    def _distances(self) -> dict[Pair, ss.estimation.Estimate | None]:
        distances: dict[Pair, ss.estimation.Estimate | None] = {}
        for pair in combinations(range(len(self.names)), 2):
            with self._naming(pair):
                distances[pair] = ss.estimation.mmd(*self._both(pair), self._agreed) if self.is_defined(pair) else None
        return distances

    def _both(self, pair: Pair) -> tuple[AnySketch, AnySketch]:
        first, second = pair
        return self._sketches[first], self._sketches[second]

    def _naming(self, pair: Pair) -> Any:
        return name_in_errors(*(self.names[place] for place in pair))

    def nearest_pairs(self) -> list[Pair]:
        """Return all pairs, nearest first; pairs without averages come last."""
        return sorted(
            self._distances,
            key=lambda pair: math.inf if (distance := self._distances[pair]) is None else distance.value,
        )

    def p_values(self, pairs: Sequence[Pair]) -> dict[Pair, float | None]:
        """Return the p-values of the hypothesis that two populations are the same; None without averages."""
        p_values: dict[Pair, float | None] = {}
        with progress_bar("tests") as progress:
            task = progress.add_task("testing", total=len(pairs), events=0)
            for place, pair in enumerate(pairs, 1):
                with self._naming(pair):
                    defined = self.is_defined(pair)
                    p_values[pair] = (
                        ss.sameness(*self._both(pair), by="mean", samples=True).p_value if defined else None
                    )
                progress.update(task, completed=place, events=place)
        return p_values

    def columns(self, pair: Pair, confidence: float) -> list[Json]:
        """Return how far apart two populations are in each column; see `columns_apart`."""
        with self._naming(pair):
            return columns_apart(*self._both(pair), self._agreed, confidence=confidence)

    def fields(self, pair: Pair, p_value: float | None, confidence: float, candidates: int | None) -> Json:
        """Return all results of a pair as JSON."""
        first, second = (self.names[place] for place in pair)
        distance, columns = self._distances[pair], None
        if distance is None:
            shown: Json = {_NAME: None}
        else:
            shown = selected_fields(distance, confidence, candidates, _NAME)
            columns = column_fields(self.columns(pair, confidence))
        return {"first": first, "second": second, **shown, "p_value": p_value, "columns": columns}

    def show(
        self, pairs: Sequence[Pair], p_values: Mapping[Pair, float | None], confidence: float, candidates: int | None
    ) -> None:
        """Print pairs for people."""
        names = {"pair": [" – ".join(self.names[place] for place in pair) for pair in pairs]}
        estimates = estimate_columns(
            [self._distances[pair] for pair in pairs], confidence, _NAME, candidates=candidates
        )
        tests = {"p": ["" if (p := p_values[pair]) is None else f"{p:.2g}" for pair in pairs]}
        show(table_of(names | estimates | tests))
        alone = (
            " Each is for its pair alone: --together allows for all."
            if not candidates and len(self._distances) > 1
            else ""
        )
        say(f"p: probability of a discrepancy as large as this if both are samples of one population.{alone}")

    def show_columns(self, pair: Pair, confidence: float, *, of: int) -> None:
        """Print in which columns a pair differs."""
        rows = self.columns(pair, confidence)
        cells = [apart_cells(row) for row in rows]
        columns = {"column": [row["column"] for row in rows]}
        columns |= {head: [cell[place] for cell in cells] for place, head in enumerate(apart_heads(confidence))}
        columns[""] = ["differs" if row["differs"] else "" for row in rows]
        first, second = (self.names[place] for place in pair)
        show(table_of(columns, title=f"{first} – {second}, column by column"))
        differing = sum(row["differs"] for row in rows)
        joint = f" {JOINT} is all numbers together." if JOINT in columns["column"] else ""
        say(
            f"{first} and {second} are shown to differ in {differing} of {plural(len(rows), 'row')}. These intervals "
            f"are of populations, and hold for all rows at once.{joint}"
        )
        if of > 1:
            say(f"Of {plural(of, 'pair')} this is the one farthest apart; --only names another.")

    def say_notes(self) -> None:
        """Print which populations have no average, and whether anything is secret."""
        few = [name for name, is_few in zip(self.names, self._few, strict=True) if is_few]
        if few:
            say(
                f"Without averages, as the number of units is within two standard errors of zero (an empty site, or "
                f"one too small for its noise): {join_names(few)}."
            )
        if is_secret(self._sketches):
            say("warning: raw sketches took part: what is printed here is as secret as they are.")


def columns_apart(
    x: AnySketch, y: AnySketch, agreed: ss.Agreement, *, confidence: float = 0.95, samples: bool = True
) -> list[Json]:
    """Return how far apart two populations are in each column: columns that differ, clearest first, then the others."""
    table = ss.estimation.column_differences(x, y, agreed, confidence=confidence, samples=samples).to_pylist()
    rows = [row | {"differs": row["low"] > 0} for row in table]
    # the order of those that do not is noise, so they come as the agreement has them
    features = cast("ss.features.Features | None", agreed.features)
    order = {} if features is None else {block.name: at for at, block in enumerate(features.blocks)}
    return sorted(rows, key=lambda row: -1 if row["differs"] else order[row["column"]])


def apart_heads(confidence: float = 0.95) -> tuple[str, str, str]:
    """Return the heads of the columns of `apart_cells`."""
    return _NAME, "± s.e.", interval_name(confidence)


def apart_cells(row: Json) -> tuple[str, str, str]:
    """Return how far apart a column is as the cells of a table, whose heads are `apart_heads`."""
    ends = Interval(row["low"], row["high"])
    return estimate_cells(ss.estimation.Estimate(row["estimate"], 0.0, row["error"] ** 2), ends)


def column_fields(rows: list[Json]) -> list[Json]:
    """Return the same as JSON."""
    return [{{"error": "standard_error"}.get(name, name): value for name, value in row.items()} for row in rows]


def _adjusted(p_values: Mapping[Pair, float | None]) -> dict[Pair, float | None]:
    """Return p-values that are adjusted for their number (Holm 1979)."""
    ranked = sorted((p, pair) for pair, p in p_values.items() if p is not None)
    adjusted = np.maximum.accumulate([min((len(ranked) - rank) * p, 1.0) for rank, (p, _) in enumerate(ranked)])
    values = {pair: float(p) for p, (_, pair) in zip(adjusted, ranked, strict=True)}
    return {pair: values.get(pair) for pair in p_values}
