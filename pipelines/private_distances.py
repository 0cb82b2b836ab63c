r"""Private cosines and squared distances between the streams of a data set's keys: an Apache Beam pipeline.

Each key is a party, each row an event. Every party's stream is sketched, each sketch is released once with exact
noise, and all cosines and squared distances between the releases are estimated with error bars. Cosines compare what
streams consist of, whatever their size; distances of counts mostly measure size.

    python -m pipelines.private_distances --input sales.parquet --key shop --index product,day \
        --value amount --l1 500 --unit sale --epsilon 1 --public-key north,south,west --output out

With ``--unit-column``, or an agreement that names one, every unit is clipped to ``--max-keys`` keys and to ``--l1`` in
each before anything is added up, as `streamsketch sketch` does. Without it the job does not clip: what a release
guarantees holds for units that keep to ``--l1`` in one key. Any further option goes to Beam. The runner defaults to
FnApiRunner, Beam's in-process runner.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import streamsketch as ss
from pipelines.agreeing import follow
from pipelines.batches import all_columns, as_text, text_columns, with_unit
from pipelines.picture import heat_map
from pipelines.runs import add_run_options, configure, finish
from pipelines.sinks import WriteComparisons, WriteReleases, clear, read_comparisons, read_releases, write
from pipelines.tables import Results, show_results
from pipelines.truth import look_at_truth
from streamsketch.beam import (
    BoundContributions,
    PairwiseDistances,
    ReadColumns,
    ReleasePerKey,
    SketchPerKey,
    read_batches,
)
from streamsketch.core import names_given
from streamsketch.data import check_delimiter
from streamsketch.estimation import below_noise_floor, block_of
from streamsketch.intake import window_seconds
from streamsketch.release import AdditiveNoise

_RUNNERS_WITH_OPTIONS = ("PortableRunner", "FlinkRunner", "SparkRunner")
"""Their job servers have options of their own, known only once they run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with command-line arguments; return the exit status."""
    parser = _parser()
    known, rest = parser.parse_known_args(arguments)
    _check_options(parser, known)
    console = Console()
    try:
        options = _beam_options(parser, rest)
        projection = known.agreed.projection if known.agreed is not None else _projection(known)
        for pattern in known.input:  # a missing file or column should not need a pipeline to be found
            for batch in islice(read_batches([pattern], **_read(known)), 1):
                if known.agreed is None:
                    as_text(batch, known)
        # finds mistakes before the job runs
        guarantee = str(AdditiveNoise(**_privacy(known)).guarantee(projection))
        pipeline = build(known, projection, options, guarantee)
        clear(known.output)
        with _progress(console) as progress:
            step = progress.add_task("Sketching, releasing and comparing (Apache Beam)", total=1)
            pipeline.run().wait_until_finish()
            progress.advance(step)
            releases = read_releases(known.output)
            sizes = {str(key): ss.squared_norm(release) for key, release in releases.items()}
            results = Results(
                read_comparisons(known.output, "cosine"),
                read_comparisons(known.output, "distance"),
                sizes,
                below_noise(releases),
            )
            if not len(results.distances):
                raise ss.InvalidInputError("the data have no two keys to compare; name at least two in --public-key")
            truth = None
            if known.look_at_truth:
                step = progress.add_task("Looking at the raw data, which a user could not do", total=1)
                truth = look_at_truth(known)
                progress.advance(step)
            step = progress.add_task("Drawing the heat map", total=1)
            what = "cosines" if known.by == "cosine" else "squared distances"
            title = f"Private {what} of {known.key} streams\n{guarantee}"
            write(known.output, f"{known.by}s.png", heat_map(results, title, known.by))
            progress.advance(step)
    except ss.StreamsketchError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 2
    show_results(console, results, truth, known, guarantee)
    return 0


def below_noise(releases: Mapping[Any, ss.PrivateSketch]) -> list[str]:
    """Return the keys of the streams below the noise floor, in ascending order.

    That is a question to each release by itself: a pair without a cosine does not say which of its two is the cause.
    """
    if not releases:
        return []
    lost = below_noise_floor(block_of(list(releases.values())))
    return sorted(str(key) for key, gone in zip(releases, lost, strict=True) if gone)


def _projection(known: argparse.Namespace) -> ss.Projection:
    return ss.SJLT(
        sketch_dim=known.sketch_dim,
        sparsity=known.sparsity,
        seed=known.seed,
        resolution=known.resolution,
    )


def _read(known: argparse.Namespace) -> dict[str, Any]:
    """Return which columns are read, and how."""
    if known.agreed is not None:
        return {"columns": known.agreed, "delimiter": known.delimiter}
    return {"columns": all_columns(known), "text": text_columns(known), "delimiter": known.delimiter}


def _check_options(parser: argparse.ArgumentParser, known: argparse.Namespace) -> None:
    """Read the options that are text, and refuse those that contradict each other."""
    try:
        follow(parser, known, "window", "time", "time_format")
        known.index = names_given(known.index, "--index") if known.agreed is None else known.index
        known.public_keys = known.public_key and names_given(known.public_key, "--public-key")
        if known.public_keys and known.agreed is not None:
            known.public_keys = known.agreed.keys_of(known.public_keys)
        known.delimiter, known.size = check_delimiter(known.delimiter), known.window and window_seconds(known.window)
    except ss.InvalidInputError as error:
        parser.error(str(error))
    if (known.window is None) != (known.time is None) or (known.time_format is not None and known.time is None):
        parser.error("--window, --time and, for text, --time-format go together")
    if known.public_keys is not None and len(known.public_keys) < 2:
        parser.error("--public-key needs at least two keys: there is nothing else to compare")
    if known.max_keys != 1 and known.unit_column is None and known.agreed is None:
        parser.error("--max-keys goes with --unit-column, which says whose keys are counted")
    if known.clip == "none" and known.agreed is None:
        parser.error("--clip none is for the rows of an --agreement; leave out --unit-column, and nothing is clipped")
    if known.clip not in (None, "none") and known.unit_column is None:
        parser.error("--clip goes with --unit-column, or an agreement that names one: whose contributions are clipped")
    if known.look_at_truth and known.unit_column is not None:
        parser.error("--look-at-truth shows distances of whole streams; with --unit-column the job clips them")
    known.unit = known.unit or known.unit_column or "event"
    if known.possible_indices is not None and not (known.look_at_truth and known.possible_indices > 0):
        parser.error("--possible-indices takes a number > 0, beside --look-at-truth")


def build(
    arguments: argparse.Namespace, projection: ss.Projection, options: PipelineOptions, guarantee: str
) -> beam.Pipeline:
    """Return the pipeline: files → columns → sketches → releases → cosines and distances → files."""
    pipeline = beam.Pipeline(options=options)
    configure(pipeline, arguments)
    columns = {"key": arguments.key, "index": arguments.index, "value": arguments.value}
    events = pipeline | "Read" >> ReadColumns(arguments.input, **_read(arguments))
    if arguments.agreed is None:
        events |= "Keys as text" >> beam.Map(as_text, arguments).with_output_types(pa.RecordBatch)
        if arguments.unit_column:
            named = beam.Map(with_unit, arguments.unit_column).with_output_types(pa.RecordBatch)
            events |= "Named units" >> named
    if arguments.unit_column:
        events |= "Bound" >> BoundContributions(
            projection,
            unit=arguments.unit_column,
            unit_name=arguments.unit,
            max_keys=arguments.max_keys,
            l1=arguments.l1,
            clip=arguments.clip or "scale",
            public_keys=arguments.public_keys,
            **columns,
        )
    releases = (
        events
        | "Sketch"
        >> (SketchPerKey(projection, **columns) if arguments.agreed is None else SketchPerKey(arguments.agreed))
        | "Release"
        >> ReleasePerKey(
            AdditiveNoise(**_privacy(arguments)),
            public_keys=arguments.public_keys,
            keys_are_public=arguments.keys_are_public,
            projection=projection,
        )
    )
    tables = releases | "Write releases" >> WriteReleases(arguments.output)
    distances = releases | "Distances" >> PairwiseDistances()
    cosines = releases | "Cosines" >> PairwiseDistances(by="cosine")
    written = (
        distances | "Write distances" >> WriteComparisons(arguments.output, guarantee, "distance"),
        cosines | "Write cosines" >> WriteComparisons(arguments.output, guarantee, "cosine"),
    )
    finish(arguments, tables, written | "Both" >> beam.Flatten())
    return pipeline


def _privacy(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "neighbours": ss.L1(arguments.l1, unit=arguments.unit, max_keys=arguments.max_keys),
        "mechanism": arguments.mechanism,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.private_distances",
        description="Private cosines and squared distances between the streams of a data set's keys.",
        epilog="Any further option goes to Apache Beam, e.g. --runner=FlinkRunner.",
        allow_abbrev=False,
    )
    data = parser.add_argument_group("data")
    data.add_argument("--input", nargs="+", required=True, metavar="FILE", help="Parquet or CSV files, or globs")
    data.add_argument(
        "--agreement", metavar="FILE", help="what all parties sketch by: columns, types, bound, projection"
    )
    data.add_argument("--key", metavar="COLUMN", help="column that names the party")
    data.add_argument(
        "--index",
        action="append",
        metavar="COLUMN[,COLUMN…]",
        help="columns that together index an event, with commas or one by one",
    )
    data.add_argument("--value", metavar="COLUMN", help="column of values; without it each row counts 1")
    data.add_argument("--resolution", metavar="STEP", help="grid step of the values (default 1)")
    data.add_argument("--delimiter", default=",", metavar="CHAR", help="what is between the cells of CSV (default ,)")
    data.add_argument(
        "--window", metavar="TIME", help="one stream for each key and window, such as '1 day' or '15 min'"
    )
    data.add_argument("--time", metavar="COLUMN", help="column of times, for --window")
    data.add_argument("--time-format", metavar="FORMAT", help="how text says times, as of strptime (default ISO 8601)")
    data.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    data.add_argument(
        "--by", default="cosine", choices=["cosine", "distance"], help="what to print and draw (default cosine)"
    )
    privacy = parser.add_argument_group("privacy")
    privacy.add_argument("--epsilon", required=True, type=float, help="privacy loss bound, in nats")
    privacy.add_argument("--delta", default=0.0, type=float, help="its failure probability (default 0)")
    privacy.add_argument(
        "--unit-column", metavar="COLUMN", help="column that names the privacy unit; its contributions are then clipped"
    )
    privacy.add_argument("--unit", help="what is protected, in a word (default: the unit's column, or event)")
    privacy.add_argument("--max-keys", type=int, metavar="N", help="how many keys one unit may touch (default 1)")
    privacy.add_argument(
        "--l1",
        metavar="BOUND",
        help="largest sum of |value| one unit contributes to one key; without --unit-column you assert it (default 1)",
    )
    privacy.add_argument(
        "--clip",
        choices=["scale", "cut", "none"],
        help="beyond the bound: scale a unit's values, cut some off, or, with --agreement, none: they keep to it "
        "(default scale)",
    )
    privacy.add_argument(
        "--mechanism", default="auto", choices=["auto", "laplace", "gaussian", "least-variance"], help="(default auto)"
    )
    keys = privacy.add_mutually_exclusive_group(required=True)
    keys.add_argument(
        "--public-key",
        action="append",
        metavar="KEY[,KEY…]",
        help="keys to release, known without looking at the data: with commas, or one by one; one with a comma stands "
        "in double quotes, as in CSV. With --window, 'KEY DAY'",
    )
    keys.add_argument("--keys-are-public", action="store_true", help="say that the keys in the data are public")
    sketch = parser.add_argument_group("sketch")
    sketch.add_argument("--sketch-dim", type=int, metavar="K", help="cells a sketch (default 1024)")
    sketch.add_argument("--sparsity", type=int, metavar="S", help="cells an event meets (default 4)")
    sketch.add_argument("--seed", type=int, help="public seed of the projection (default 2013)")
    add_run_options(parser)
    demo = parser.add_argument_group("demonstration, on data that are public anyway")
    demo.add_argument("--look-at-truth", action="store_true", help="compute the exact answers too and show them beside")
    demo.add_argument(
        "--possible-indices", type=int, metavar="N", help="size of the raw histogram, for comparison with noising it"
    )
    return parser


def _beam_options(parser: argparse.ArgumentParser, rest: list[str]) -> PipelineOptions:
    """Return Beam's options, with the in-process runner as default; refuse what Beam does not know either."""
    options = PipelineOptions(rest)
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or "FnApiRunner"
    if standard.runner in _RUNNERS_WITH_OPTIONS:
        return options
    known = _beam_option_names()
    for place, argument in enumerate(rest):
        before = rest[place - 1] if place else ""
        if not argument.startswith("-") and (not before.startswith("--") or "=" in before):
            parser.error(f"there is a stray {argument!r}; give several names with commas, without spaces")
        if argument.startswith("-") and argument.split("=")[0] not in known:
            parser.error(f"neither this job nor Beam has an option {argument}")
    return options


def _beam_option_names() -> set[str]:
    """Return all names of Beam's options, as they are typed."""
    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    kinds = [PipelineOptions]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if hasattr(kind, "_add_argparse_args"):
            kind._add_argparse_args(parser)  # noqa: SLF001 - how Beam's options are declared
    return {name for action in parser._actions for name in action.option_strings}  # noqa: SLF001 - no public way


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
    )


if __name__ == "__main__":
    # a worker's exception comes back to main, which makes a sentence of it
    logging.getLogger("apache_beam.runners").setLevel(logging.CRITICAL)
    sys.exit(main())
