"""The results of the demonstration as a table for people."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import streamsketch as ss
from pipelines.truth import Truth

_SHOWN = 16


class Results(NamedTuple):
    """What the job released and estimated."""

    releases: ss.PrivateTable
    cosines: pa.Table
    distances: pa.Table


def show_results(console: Console, results: Results, truth: Truth, names: Mapping[str, str], output: str) -> None:
    """Print the most similar pairs with their error bars, and how good they are."""
    rows = results.cosines.to_pylist()
    guarantee = results.releases.guarantee
    table = Table(
        title="Which destinations are served alike, by airline, airport and week?\n"
        f"One aircraft, with all its flights of the year, is protected: ε = {guarantee.epsilon:g}, "
        f"δ = {guarantee.delta:g}.",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("most alike", no_wrap=True)
    for name in ("cosine", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("exact*", justify="right", style="dim", no_wrap=True)
    table.add_column("in", justify="center", style="dim", no_wrap=True)
    for row in rows[:_SHOWN]:
        table.add_row(*_cells(row, truth, names))
    console.print()
    console.print(table)
    hidden = sum(row["cosine"] is None or row["low_95"] <= 0 for row in rows)
    console.print(
        f"   … and {len(rows) - _SHOWN} pairs less alike. "
        f"{hidden} of the {len(rows)} pairs cannot be distinguished from 0.\n"
    )
    _show_truth(console, results, truth)
    console.print(
        f"\nWritten to [bold]{escape(output)}/[/]: sketches.parquet, sketches/*.sketch, "
        f"cosines.parquet, distances.parquet, both as .csv, and the picture, cosines.png"
    )


def _cells(row: dict[str, Any], truth: Truth, names: Mapping[str, str]) -> list[str]:
    pair = (row["first"], row["second"])
    cells = [escape(" – ".join(names[key] for key in pair)), "undefined", ""]
    if row["cosine"] is not None:
        cells[1:] = [
            f"{row['cosine']:.2f} ± {row['standard_error']:.2f}",
            f"{row['low_95']:.2f} … {row['high_95']:.2f}",
        ]
    inside = _covers(row, row["cosine"], truth.cosines[pair])
    return [
        *cells,
        f"{truth.cosines[pair]:.2f}",
        "" if inside is None else "yes" if inside else "no",
    ]


def _show_truth(console: Console, results: Results, truth: Truth) -> None:
    lines = []
    for kind, table, column, exact in (
        ("cosine", results.cosines, "cosine", truth.cosines),
        ("distance", results.distances, "squared_distance", truth.squared_distances),
    ):
        rows = table.to_pylist()
        hits = [_covers(row, row[column], exact[row["first"], row["second"]]) for row in rows]
        inside = [hit for hit in hits if hit is not None]
        due = 0.95 * len(inside)
        lines.append(
            f"{sum(inside)} of {len(inside)} intervals contain the exact {kind}; about {due:.0f} are expected."
        )
    console.print(
        f"* Computed from the flights, to check the estimates; a user of the releases has none. {' '.join(lines)} They "
        f"share one projection, so these numbers vary more than those of independent intervals."
    )
    ours = {(row["first"], row["second"]): row["standard_error"] for row in results.cosines.to_pylist()}
    ratios = [raw / ours[pair] for pair, raw in truth.raw_errors.items() if ours[pair] and not np.isnan(raw)]
    lost = sum(np.isnan(error) for error in truth.raw_errors.values())
    console.print(
        f"Without sketches, the same noise would be on each of the {truth.possible_indices:,} cells of the histograms: "
        + (f"the errors would be {np.median(ratios):.1f} times as large (median)" if ratios else "")
        + (f", and {lost} pairs would be below the noise floor." if lost else ".")
    )


def _covers(row: dict[str, Any], value: float | None, exact: float) -> bool | None:
    """Return whether an interval contains the exact value; None without an interval."""
    if value is None or np.isnan(exact):
        return None
    return bool(row["low_95"] <= exact + 1e-12 and exact - 1e-12 <= row["high_95"])
