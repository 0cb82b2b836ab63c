"""``python -m benchmarks speed [names…] [--quick] [--out DIR]``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
