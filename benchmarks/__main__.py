"""``python -m benchmarks COMMAND [NAMES…] [--quick] [--data DIR] [--out DIR]``; see --help for commands."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks import paper as article
from benchmarks import rendering, report
from benchmarks.data import Data
from benchmarks.registry import COMMANDS, Entry, entries
from benchmarks.rows import FULL, QUICK, Effort
from tests.clusters.processes import STOPPING

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

_OUT = Path("out/benchmarks")
_HERE = Path(__file__).parent
_INTO = "Folder of BENCHMARKS.md, results/ and pictures/."


@app.callback()
def main() -> None:
    """Measure streamsketch beside its peers, its limits and the papers; see benchmarks/README.md."""


def _command(command: str) -> Callable[..., None]:
    listed = ", ".join(entries(command))

    def measure(
        names: Annotated[list[str] | None, typer.Argument(help=f"Any of: {listed}. All by default.")] = None,
        *,
        quick: Annotated[bool, typer.Option(help="Smaller, for a look; no figure of it is worth quoting.")] = False,
        data: Annotated[
            Path | None, typer.Option(help="Folder of larger data sets, for studies that use them.")
        ] = None,
        out: Annotated[Path, typer.Option(help="Folder for JSON, Markdown and pictures.")] = _OUT,
    ) -> None:
        there = entries(command)
        unknown = [name for name in names or () if name not in there]
        if unknown:
            raise typer.BadParameter(f"{command} has no {', '.join(unknown)}; there are {', '.join(there)}")
        if data is not None and not data.is_dir():
            raise typer.BadParameter(f"--data must be a folder, and {data} is none")
        chosen = [there[name] for name in dict.fromkeys(names or there)]
        failed = run(chosen, QUICK if quick else FULL, Data(data, results=out), out)
        if failed:
            raise SystemExit(f"these failed, see above: {', '.join(failed)}")

    return measure


def run(chosen: list[Entry], effort: Effort, data: Data, out: Path) -> list[str]:
    """Run entries and write what they return into ``out``; return the names of those that raised."""
    console = Console()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    failed = []
    # redrawn once a second only: the thread that draws takes time from what is measured
    with Progress(*columns, console=console, refresh_per_second=1, transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for entry in chosen:
            progress.update(task, description=f"{entry.command} {entry.name}")
            try:
                result = report.measure(entry, effort, data, out)
            except Exception:  # noqa: BLE001 - a long run goes on, and ends with an error
                console.print_exception()
                failed.append(entry.name)
            else:
                report.show(console, result)
            progress.advance(task)
    console.print(f"JSON, Markdown and pictures are in {out}", soft_wrap=True)
    return failed


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_command(_name))


@app.command("keep")
def keep(
    *,
    out: Annotated[Path, typer.Option(help="Folder of one run's JSON files and pictures.")] = _OUT,
    into: Annotated[Path, typer.Option(help=_INTO)] = _HERE,
) -> None:
    """Keep a run's results and pictures, in place of those of earlier runs, and write BENCHMARKS.md."""
    stems = rendering.keep(out, into)
    if not stems:
        raise typer.BadParameter(f"there are no results in {out}; measure first, with --out {out}")
    typer.echo(f"kept {', '.join(stems)}; wrote {rendering.write(into)}")


@app.command("render")
def render(*, into: Annotated[Path, typer.Option(help=_INTO)] = _HERE) -> None:
    """Write BENCHMARKS.md from the results that are kept."""
    typer.echo(f"wrote {rendering.write(into)}")


@app.command("paper")
def paper(
    *,
    into: Annotated[Path, typer.Option(help=_INTO)] = _HERE,
    out: Annotated[Path, typer.Option(help="Folder with template.md.")] = _HERE.parent / "paper",
) -> None:
    """Write paper.md and its figures from the results that are kept."""
    typer.echo(f"wrote {article.write(into, out)}")


@app.command("show")
def show(name: str, *, into: Annotated[Path, typer.Option(help=_INTO)] = _HERE) -> None:
    """Print every figure that is kept of one benchmark or study."""
    try:
        result = rendering.result_of(name, into)
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(f"{result['ran']}, {result['machine']['date']}")
    report.show(Console(), result)


if __name__ == "__main__":
    for number in STOPPING - {signal.SIGINT}:  # what a benchmark has started must end with it
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    app(prog_name="python -m benchmarks")
