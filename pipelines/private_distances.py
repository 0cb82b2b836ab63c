"""Which of sixteen destinations are served alike? Private cosines of their flights, beside the exact ones.

    python -m pipelines.private_distances --output out [-- BEAM OPTION …]

Each destination is a party, each flight to it an event, whose index is its airline, airport of departure and week. The
job of `streamsketch release` gives each aircraft one vote, which its flights share, sketches every destination,
releases each sketch once with ε = 1 for one aircraft with all its flights of a year, and compares the releases. This
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
from streamsketch.core.kernel_cache import announce_compiling
from streamsketch.jobs import FilesJob, RunSecrets
from streamsketch.jobs.results import comparisons, write

FLIGHTS = Path(__file__).parent / "data" / "flights.parquet"
CITIES = {
    "ATL": "Atlanta",
    "BOS": "Boston",
    "CLT": "Charlotte",
    "DCA": "Washington",
    "DEN": "Denver",
    "DFW": "Dallas",
    "DTW": "Detroit",
    "FLL": "Ft Lauderdale",
    "IAH": "Houston",
    "LAX": "Los Angeles",
    "MCO": "Orlando",
    "MIA": "Miami",
    "ORD": "Chicago",
    "RDU": "Raleigh",
    "SFO": "San Francisco",
    "TPA": "Tampa",
}
PROJECTION = ss.CountSketch(sketch_dim=256, seed=2013, resolution="1/16384")
PROTECTED = ss.SketchL2(1, unit="aircraft", max_keys=len(CITIES))
AGREEMENT = ss.Agreement(
    PROJECTION,
    index={"carrier": "text", "origin": "text", "week": "integer"},
    key="destination",
    unit="tailnum",
    neighbours=PROTECTED,
    clip="equal",
    missing="drop",
    counting=ss.privacy.Counting.of(PROJECTION, PROTECTED, delta=1e-6),
)
POSSIBLE_INDICES = 16 * 3 * 53  # airlines, airports, weeks: the cells of a histogram


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return its exit status."""
    options = _parser().parse_args(arguments)
    console = Console()
    try:
        job = job_of(options)
        with Progress(
            SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
        ) as progress:
            step = progress.add_task("Sketching, releasing and comparing (Apache Beam)", total=1)
            with announce_compiling(lambda sentence: sys.stderr.write(f"{sentence}\n")):
                results = results_of(job, options.beam)
            progress.advance(step)
            step = progress.add_task("Looking at the raw data, which a user could not do", total=1)
            truth = look_at_truth(FLIGHTS, AGREEMENT, results.releases, POSSIBLE_INDICES)
            progress.advance(step)
            step = progress.add_task("Drawing the heat map", total=1)
            write(job.output, "cosines.png", heat_map(results, CITIES))
            progress.advance(step)
    except ss.StreamsketchError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 2
    show_results(console, results, truth, CITIES, job.output)
    return 0


def job_of(options: argparse.Namespace) -> FilesJob:
    """Return the job."""
    return FilesJob(
        patterns=[str(FLIGHTS)],
        agreement=AGREEMENT,
        epsilon=1.0,
        delta=1e-6,
        public_keys=list(CITIES),
        output=options.output,
        secrets=RunSecrets(options.claims),
    )


def results_of(job: FilesJob, options: Sequence[str] = ()) -> Results:
    """Run the job and return what it estimates."""
    releases = job.run(options)
    return Results(releases, comparisons(releases, "cosine"), comparisons(releases, "distance"))


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
