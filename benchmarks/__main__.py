"""``python -m benchmarks speed [names…] [--quick] [--out DIR]`` and ``retrieval [--data FILE]``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import report, retrieval, speed
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


@app.command("retrieval")
def measure_retrieval(
    *,
    data: Annotated[Path | None, typer.Option(help="An .npz of images; scikit-learn's digits by default.")] = None,
    sketch_dim: Annotated[list[int] | None, typer.Option(help="k; may be given several times.")] = None,
    queries: Annotated[int, typer.Option(help="How many images to search for.")] = 200,
    collection: Annotated[int, typer.Option(help="How many to search among.")] = 5000,
    out: Annotated[Path, typer.Option(help="Folder for the JSON and Markdown files.")] = Path("out/benchmarks"),
) -> None:
    """Precision@10 and recall@100 of private retrieval against ε, by every method of Li and Li 2023."""
    images = retrieval.read_images(data)
    console = Console()
    with console.status(images.name):
        dims = sketch_dim or images.sketch_dims
        points = retrieval.measure(images, dims, queries=queries, collection=collection)
    console.print(retrieval.write(out, images, points), soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
