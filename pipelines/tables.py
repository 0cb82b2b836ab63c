"""The job's results as a table for people."""

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.truth import Truth

_SHOWN = 24


def show_distances(
    console: Console, distances: pa.Table, truth: Truth | None, arguments: argparse.Namespace, guarantee: str
) -> None:
    """Print the nearest pairs with their error bars and, where the truth was looked at, how good they are."""
    rows = distances.to_pylist()
    console.print()
    console.print(_table(rows[:_SHOWN], truth, arguments, guarantee))
    if len(rows) > _SHOWN:
        console.print(f"   … and {len(rows) - _SHOWN} pairs further apart\n")
    if rows[0]["squared_distance"] < 0:
        console.print("An estimate may be negative where noise dominates; the interval is clipped at zero.\n")
    if truth is not None:
        _show_truth(console, rows, truth, arguments)
    console.print(
        f"\nWritten to [bold]{escape(arguments.output)}/[/]: sketches.parquet, sketches/*.sketch, "
        f"distances.parquet, distances.csv, distances.png"
    )


def _table(rows: list[dict[str, Any]], truth: Truth | None, arguments: argparse.Namespace, guarantee: str) -> Table:
    table = Table(
        title=f"Squared distances between {escape(arguments.key)} streams, nearest first\n"
        f"{escape(guarantee)}"
        f"{', enforced' if arguments.unit_column else '; the job does not enforce that bound'}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("pair", no_wrap=True)
    for name in ("estimate", "± s.e.", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    if truth is not None:
        table.add_column("exact*", justify="right", style="dim", no_wrap=True)
        table.add_column("inside", justify="center", style="dim", no_wrap=True)
        if truth.raw_standard_errors is not None:
            table.add_column("± raw**", justify="right", style="dim", no_wrap=True)
    for row in rows:
        pair = (str(row["first"]), str(row["second"]))
        cells = [
            escape(" – ".join(pair)),
            f"{row['squared_distance']:,.0f}",
            f"{row['standard_error']:,.0f}",
            f"{row['low_95']:,.0f} … {row['high_95']:,.0f}",
        ]
        if truth is not None:
            cells += [f"{truth.squared_distances[pair]:,.0f}", "yes" if _covers(row, truth) else "no"]
            if truth.raw_standard_errors is not None:
                cells.append(f"{truth.raw_standard_errors[pair]:,.0f}")
        table.add_row(*cells)
    return table


def _show_truth(console: Console, rows: list[dict[str, Any]], truth: Truth, arguments: argparse.Namespace) -> None:
    covered = sum(_covers(row, truth) for row in rows)
    console.print(
        f"* From the raw data: this demonstration may look, a user of the releases could not. {covered} of {len(rows)} "
        f"intervals cover the exact distance; {0.95 * len(rows):.0f} are due on average. They share one projection, so "
        f"that number varies more than independent intervals would."
    )
    if truth.raw_standard_errors is not None:
        ratios = [
            truth.raw_standard_errors[str(row["first"]), str(row["second"])] / row["standard_error"] for row in rows
        ]
        console.print(
            f"** Standard error without a sketch: Laplace noise on each of the {arguments.possible_indices:,} cells of "
            f"both raw histograms ({truth.distinct_indices:,} cells are in use). The median ratio to ours is "
            f"{np.median(ratios):.1f}."
        )


def _covers(row: dict[str, Any], truth: Truth) -> bool:
    exact = truth.squared_distances[str(row["first"]), str(row["second"])]
    return bool(row["low_95"] <= exact <= row["high_95"])
