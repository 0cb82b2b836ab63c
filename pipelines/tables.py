"""The results of the demonstration as a table for people."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import streamsketch as ss
from pipelines.truth import Truth
from streamsketch.jobs import FilesJob

_SHOWN = 24


class Results(NamedTuple):
    """What the job released and estimated."""

    releases: ss.PrivateTable
    cosines: pa.Table
    distances: pa.Table
    below_noise: list[str]
    """The keys of streams below the noise floor, which have no cosine with any other, in ascending order."""


def show_results(console: Console, results: Results, truth: Truth, job: FilesJob) -> None:
    """Print the most similar pairs with their error bars, and how good they are."""
    rows = results.cosines.to_pylist()
    table = Table(
        title=f"Cosines between carrier streams, most alike first\n{escape(str(job.guarantee))}"
        f"{', enforced' if job.is_enforced else '; the job does not enforce that bound'}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("pair", no_wrap=True)
    for name in ("cosine", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("exact*", justify="right", style="dim", no_wrap=True)
    table.add_column("in", justify="center", style="dim", no_wrap=True)
    table.add_column("± raw**", justify="right", style="dim", no_wrap=True)
    table.add_column("sizes", justify="right", no_wrap=True)
    for row in rows[:_SHOWN]:
        table.add_row(*_cells(row, results.releases, truth))
    console.print()
    console.print(table)
    if len(rows) > _SHOWN:
        console.print(f"   … and {len(rows) - _SHOWN} pairs less alike\n")
    if results.below_noise:
        console.print(f"Without cosines, as below the noise floor: {escape(', '.join(results.below_noise))}.\n")
    _show_truth(console, results, truth)
    console.print(
        f"\nWritten to [bold]{escape(job.output)}/[/]: sketches.parquet, sketches/*.sketch, "
        f"cosines.parquet, distances.parquet, both as .csv, and cosines.png"
    )


def _cells(row: dict[str, Any], releases: ss.PrivateTable, truth: Truth) -> list[str]:
    pair = (row["first"], row["second"])
    cells = [escape(" – ".join(pair)), "undefined", ""]
    if row["cosine"] is not None:
        cells[1:] = [
            f"{row['cosine']:.2f} ± {row['standard_error']:.2f}",
            f"{row['low_95']:.2f} … {row['high_95']:.2f}",
        ]
    inside, raw = _covers(row, row["cosine"], truth.cosines[pair]), truth.raw_errors[pair]
    return [
        *cells,
        f"{truth.cosines[pair]:.2f}",
        "" if inside is None else "yes" if inside else "no",
        "–" if np.isnan(raw) else f"{raw:.2f}",
        " : ".join(f"{max(ss.squared_norm(releases[name]).value, 0.0) ** 0.5:,.0f}" for name in pair),
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
        lines.append(f"{sum(inside)} of {len(inside)} intervals cover the exact {kind}; {due:.0f} are due on average.")
    console.print(
        f"* From the raw data: this demonstration may look, a user of the releases could not. {' '.join(lines)} They "
        f"share one projection, so these numbers vary more than independent intervals would. Each interval is for its "
        f"pair alone: the greatest of many cosines errs more."
    )
    ours = {(row["first"], row["second"]): row["standard_error"] for row in results.cosines.to_pylist()}
    ratios = [raw / ours[pair] for pair, raw in truth.raw_errors.items() if ours[pair] and not np.isnan(raw)]
    lost = sum(np.isnan(error) for error in truth.raw_errors.values())
    console.print(
        f"** Standard error without a sketch: Laplace noise on each of the {truth.possible_indices:,} cells of "
        f"both raw histograms ({truth.distinct_indices:,} cells are in use)."
        + (f" The median ratio to ours is {np.median(ratios):.1f}." if ratios else "")
        + (f" –: a stream is below the noise floor, in {lost} of {len(truth.raw_errors)} pairs." if lost else "")
    )
    console.print("Sizes are Euclidean norms, estimated from the releases.")


def _covers(row: dict[str, Any], value: float | None, exact: float) -> bool | None:
    """Return whether an interval holds the exact value; None where there is none."""
    if value is None or np.isnan(exact):
        return None
    return bool(row["low_95"] <= exact + 1e-12 and exact - 1e-12 <= row["high_95"])
