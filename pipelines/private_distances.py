"""Which of sixteen airlines fly alike? Private cosines between their flights, beside the exact ones.

    python -m pipelines.private_distances --output out [-- BEAM OPTION …]

Each airline is a party, each flight an event, whose index is its route and hour. The job of `streamsketch job files`
sketches every airline's flights, releases each sketch once with ε = 1 for one flight, and compares the releases. This
demonstration may also look at the flights, which a user of the releases could not, and shows how good the answers are.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import streamsketch as ss
from pipelines.picture import heat_map
from pipelines.tables import Results, show_results
from pipelines.truth import look_at_truth
from streamsketch.estimation import below_noise_floor, block_of
from streamsketch.jobs import FilesJob, RunSecrets, comparisons, write

FLIGHTS = Path(__file__).parent / "data" / "flights.parquet"
CARRIERS = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=1024, sparsity=1, seed=2013),
    index=["route", "scheduled_hour"],
    key="carrier",
    neighbours=ss.L1(1, unit="flight"),
    missing="keep",
)
POSSIBLE_INDICES = 1_962_240  # 224 routes in 8,760 hours: the cells of a histogram


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return its exit status."""
    known = _parser().parse_args(arguments)
    console = Console()
    try:
        job = job_of(known)
        with Progress(
            SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
        ) as progress:
            step = progress.add_task("Sketching, releasing and comparing (Apache Beam)", total=1)
            results = results_of(job, known.beam)
            progress.advance(step)
            step = progress.add_task("Looking at the raw data, which a user could not do", total=1)
            truth = look_at_truth(job, POSSIBLE_INDICES)
            progress.advance(step)
            step = progress.add_task("Drawing the heat map", total=1)
            title = f"Private cosines of carrier streams\n{job.guarantee}"
            write(job.output, "cosines.png", heat_map(results, title))
            progress.advance(step)
    except ss.StreamsketchError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 2
    show_results(console, results, truth, job)
    return 0


def job_of(known: argparse.Namespace) -> FilesJob:
    """Return the job."""
    return FilesJob(
        patterns=[str(FLIGHTS)],
        agreement=AGREEMENT,
        epsilon=1.0,
        public_keys=CARRIERS,
        output=known.output,
        secrets=RunSecrets(known.claims),
    )


def results_of(job: FilesJob, options: Sequence[str] = ()) -> Results:
    """Run the job and return what it estimates."""
    releases = job.run(options)
    # a question to each release by itself: a pair without a cosine does not say which of its two is the cause
    lost = below_noise_floor(block_of(list(releases.values())))
    below = sorted(str(key) for key, gone in zip(releases, lost, strict=True) if gone)
    return Results(releases, comparisons(releases, "cosine"), comparisons(releases, "distance"), below)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.private_distances", description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--output", default="out", metavar="DIR", help="folder for the results (default out)")
    parser.add_argument("--claims", metavar="DIR", help="folder that all workers share; needed on Flink and Spark")
    parser.add_argument("beam", nargs="*", metavar="-- BEAM OPTION", help="options of Apache Beam, after --")
    return parser


if __name__ == "__main__":
    # a worker's exception comes back to main, which makes a sentence of it
    logging.getLogger("apache_beam.runners").setLevel(logging.CRITICAL)
    sys.exit(main())
