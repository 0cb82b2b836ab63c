"""Errors of local mechanisms as a picture and as a table for people."""

import io

import pyarrow as pa
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_MARKS = "osv^D*"


def error_curve(errors: pa.Table, title: str) -> bytes:
    """Return a PNG: squared error against ε, measured (marks) and expected (lines), one colour a mechanism."""
    figure = Figure(figsize=(7.5, 5.0), layout="constrained")
    axes = figure.subplots()
    rows = errors.to_pylist()
    for place, kind in enumerate(dict.fromkeys(row["mechanism"] for row in rows)):
        mine = [row for row in rows if row["mechanism"] == kind]
        epsilons = [row["epsilon"] for row in mine]
        colour = f"C{place}"
        axes.plot(epsilons, [row["expected"] for row in mine], color=colour, linewidth=1.2)
        marks = [row["squared_error"] for row in mine]
        axes.plot(epsilons, marks, _MARKS[place % len(_MARKS)], color=colour, label=kind)
    axes.set_xscale("log", base=2)
    ticks = sorted({row["epsilon"] for row in rows})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yscale("log")
    axes.set_xlabel("ε of one report")
    axes.set_ylabel("squared error of a mean")
    axes.set_title(f"{title}\nmarks: measured, lines: expected", fontsize=11, loc="left", parse_math=False)
    axes.grid(visible=True, which="both", linewidth=0.3)
    axes.legend(frameon=False)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()


def show_errors(console: Console, errors: pa.Table, folder: str) -> None:
    """Print measured and expected errors, a line for each mechanism and ε."""
    table = Table(title="Squared error of a key's mean", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("mechanism", no_wrap=True)
    for name in ("ε", "measured", "expected"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in errors.to_pylist():
        numbers = f"{row['epsilon']:g}", f"{row['squared_error']:.3g}", f"{row['expected']:.3g}"
        table.add_row(row["mechanism"], *numbers)
    console.print(table)
    console.print(f"Written to [bold]{escape(folder)}/[/]: means.parquet, errors.png")
