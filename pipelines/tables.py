"""The job's results as a table for people."""

import argparse
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import streamsketch as ss
from pipelines.truth import Truth

By = Literal["cosine", "distance"]

_SHOWN = 24


class Results(NamedTuple):
    """What the job estimated."""

    cosines: pa.Table
    distances: pa.Table
    sizes: dict[str, ss.Estimate]
    """The squared norm of each key's stream."""
    below_noise: list[str]
    """The keys of streams below the noise floor, which have no cosine with any other, in ascending order."""

    def shown(self, by: By) -> pa.Table:
        """Return the comparisons of one kind."""
        return self.cosines if by == "cosine" else self.distances


def show_results(
    console: Console, results: Results, truth: Truth | None, arguments: argparse.Namespace, guarantee: str
) -> None:
    """Print the nearest pairs with their error bars and, where the truth was looked at, how good they are."""
    by: By = arguments.by
    rows = results.shown(by).to_pylist()
    console.print()
    console.print(_table(rows[:_SHOWN], results.sizes, truth, arguments, guarantee))
    if len(rows) > _SHOWN:
        console.print(f"   … and {len(rows) - _SHOWN} pairs {'less alike' if by == 'cosine' else 'further apart'}\n")
    if by == "cosine":
        if results.below_noise:
            console.print(f"Without cosines, as below the noise floor: {escape(', '.join(results.below_noise))}.\n")
    elif rows[0]["squared_distance"] < 0:
        console.print("An estimate may be negative where noise dominates; the interval is clipped at zero.\n")
    if truth is not None:
        _show_truth(console, results, truth, arguments)
    console.print(
        f"\nWritten to [bold]{escape(arguments.output)}/[/]: sketches.parquet, sketches/*.sketch, "
        f"cosines.parquet, distances.parquet, both as .csv, and {by}s.png"
    )


def _table(
    rows: list[dict[str, Any]],
    sizes: dict[str, ss.Estimate],
    truth: Truth | None,
    arguments: argparse.Namespace,
    guarantee: str,
) -> Table:
    by: By = arguments.by
    what, order = ("Cosines", "most alike first") if by == "cosine" else ("Squared distances", "nearest first")
    table = Table(
        title=f"{what} between {escape(arguments.key)} streams, {order}\n"
        f"{escape(guarantee)}"
        f"{', enforced' if arguments.unit_column else '; the job does not enforce that bound'}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("pair", no_wrap=True)
    for name in ("cosine", "95 % interval") if by == "cosine" else ("estimate", "± s.e.", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    if truth is not None:
        table.add_column("exact*", justify="right", style="dim", no_wrap=True)
        table.add_column("in" if by == "cosine" else "inside", justify="center", style="dim", no_wrap=True)
        if truth.raw_standard_errors is not None:
            table.add_column("± raw**", justify="right", style="dim", no_wrap=True)
    if by == "cosine":
        table.add_column("sizes", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, sizes, truth, by))
    return table


def _cells(row: dict[str, Any], sizes: dict[str, ss.Estimate], truth: Truth | None, by: By) -> list[str]:
    pair = (str(row["first"]), str(row["second"]))
    form = ",.2f" if by == "cosine" else ",.0f"
    cells = [escape(" – ".join(pair))]
    if (value := _value(row, by)) is None:
        cells += ["undefined", ""]
    else:
        estimate = [f"{value:{form}}", f"{row['standard_error']:{form}}"]
        cells += [" ± ".join(estimate)] if by == "cosine" else estimate
        cells.append(f"{row['low_95']:{form}} … {row['high_95']:{form}}")
    if truth is not None:
        exact, raw = _exact(truth, by)
        inside = _covers(row, truth, by)
        cells += [f"{exact[pair]:{form}}", "" if inside is None else "yes" if inside else "no"]
        if raw is not None:
            cells.append("–" if np.isnan(raw[pair]) else f"{raw[pair]:{form}}")
    if by == "cosine":
        cells.append(" : ".join(f"{max(sizes[name].value, 0.0) ** 0.5:,.0f}" for name in pair))
    return cells


def _show_truth(console: Console, results: Results, truth: Truth, arguments: argparse.Namespace) -> None:
    by: By = arguments.by
    kinds: tuple[By, By] = ("cosine", "distance") if by == "cosine" else ("distance", "cosine")
    said = []
    for kind in kinds:
        inside = [hit for row in results.shown(kind).to_pylist() if (hit := _covers(row, truth, kind)) is not None]
        due = 0.95 * len(inside)
        said.append(f"{sum(inside)} of {len(inside)} intervals cover the exact {kind}; {due:.0f} are due on average.")
    console.print(
        f"* From the raw data: this demonstration may look, a user of the releases could not. {' '.join(said)} They "
        f"share one projection, so these numbers vary more than independent intervals would. Each interval is for its "
        f"pair alone: {'the greatest of many cosines' if by == 'cosine' else 'the least of many distances'} errs more."
    )
    _, raw = _exact(truth, by)
    if raw is not None:
        ours = {
            (str(row["first"]), str(row["second"])): row["standard_error"]
            for row in results.shown(by).to_pylist()
            if row["standard_error"]
        }
        ratios = [raw[pair] / error for pair, error in ours.items() if not np.isnan(raw[pair])]
        lost = sum(np.isnan(error) for error in raw.values())
        console.print(
            f"** Standard error without a sketch: Laplace noise on each of the {arguments.possible_indices:,} cells of "
            f"both raw histograms ({truth.distinct_indices:,} cells are in use)."
            + (f" The median ratio to ours is {np.median(ratios):.1f}." if ratios else "")
            + (f" –: a stream is below the noise floor, in {lost} of {len(raw)} pairs." if lost else "")
        )
    if by == "cosine":
        console.print("Sizes are Euclidean norms, estimated from the releases.")


def _value(row: dict[str, Any], by: By) -> float | None:
    value: float | None = row["cosine" if by == "cosine" else "squared_distance"]
    return value


def _exact(truth: Truth, by: By) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float] | None]:
    if by == "cosine":
        return truth.cosines, truth.raw_cosine_errors
    return truth.squared_distances, truth.raw_standard_errors


def _covers(row: dict[str, Any], truth: Truth, by: By) -> bool | None:
    """Return whether an interval holds the exact value; None where there is none."""
    exact = _exact(truth, by)[0][str(row["first"]), str(row["second"])]
    if _value(row, by) is None or np.isnan(exact):
        return None
    return bool(row["low_95"] <= exact + 1e-12 and exact - 1e-12 <= row["high_95"])
