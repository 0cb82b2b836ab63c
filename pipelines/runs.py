"""Options that say where a run keeps its secret."""

import argparse
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

import streamsketch as ss
from streamsketch.beam import FinishRun, configure_run
from streamsketch.beam.run.claims import claim_path


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--claims``, ``--run-id`` and ``--root-key``."""
    run = parser.add_argument_group("run", "where the secret of the noise is kept; see docs/how-to/flink.md")
    run.add_argument(
        "--claims",
        metavar="DIR",
        help="folder that all workers share, for the secret of each run; needed on Flink and Spark. Keep it private",
    )
    run.add_argument("--run-id", metavar="ID", help="name of this run in --claims (default: a random one)")
    run.add_argument(
        "--root-key", type=Path, metavar="FILE", help="file on every worker that holds a key of 32 bytes, mode 0600"
    )


def configure(pipeline: beam.Pipeline, arguments: argparse.Namespace) -> None:
    """Configure a pipeline's run by its options."""
    if arguments.run_id is not None and arguments.claims is None:
        raise ss.InvalidInputError("--run-id names a run in --claims; give that folder as well")
    if arguments.run_id is not None and FileSystems.exists(claim_path(arguments.claims, arguments.run_id)):
        # the workers would refuse it too, but only after earlier results are cleared
        raise ss.InvalidInputError(f"--run-id {arguments.run_id} names a run that was; give this run another name")
    configure_run(pipeline, root_key=arguments.root_key, claims=arguments.claims, run_id=arguments.run_id)


def finish(arguments: argparse.Namespace, *written: beam.PCollection) -> None:
    """Take the run's secret out of its claim, if it has one, when all results are written."""
    if arguments.claims is not None:
        written | FinishRun()
