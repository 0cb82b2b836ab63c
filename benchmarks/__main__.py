"""``python -m benchmarks speed [names…] [--quick] [--out DIR]`` and ``federated``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report, speed
from benchmarks.rows import FULL, QUICK

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """Measure streamsketch beside its peers and its limits; see benchmarks/README.md."""


@app.command("speed")
def measure_speed(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"Any of: {', '.join(speed.NAMES)}. All by default.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option(help="A tenth of the size, a third of the rounds.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the JSON and Markdown files.")] = Path("out/benchmarks"),
) -> None:
    """Speed, as ratios within one run."""
    unknown = sorted(set(names or ()) - set(speed.NAMES))
    if unknown:
        raise typer.BadParameter(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(speed.NAMES)}")
    effort = QUICK if quick else FULL
    console = Console()
    for name in names or speed.NAMES:
        benchmark = speed.load(name)
        with console.status(name):
            rows = benchmark.run(effort)
        report.show(console, benchmark.title, rows)
        report.write(out, f"speed-{name}", effort, rows)
    console.print(f"JSON and Markdown are in {out}", soft_wrap=True)


@app.command("federated")
def learn_federated(
    *,
    quick: Annotated[bool, typer.Option(help="Three epochs, twice, at one ε.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the JSON file and the picture.")] = Path("out/benchmarks"),
) -> None:
    """Softmax regression on scanned digits from locally private gradients."""
    from benchmarks import federated  # noqa: PLC0415 - scikit-learn takes its time to load

    console = Console()
    with console.status("federated"):
        if quick:
            rows = federated.run(epsilons=[10.0], epochs=3, repeats=2)
        else:
            rows = federated.run(epsilons=[4.0, 10.0, 16.0], epochs=10, repeats=5)
    federated.write(out, rows)
    table = Table(title="Test accuracy after the last epoch, ± half its 90 % interval", title_justify="left")
    for column in ("mechanism", "ε a report", "bits a report", "accuracy"):
        table.add_column(column)
    for row in rows:
        bits = "" if row["report_bits"] is None else f"{row['report_bits']:,}"
        accuracy = f"{row['accuracy'][-1]:.3f} ± {row['half_width_90'][-1]:.3f}"
        table.add_row(row["mechanism"], f"{row['epsilon']:g}", bits, accuracy)
    console.print(table)
    console.print(f"federated.json and federated.png are in {out}", soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
