"""Beam's options of a job, and where the secret of its noise is kept."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions

from streamsketch.beam.run.claims import claim_path
from streamsketch.beam.run.runs import FinishRun, configure_run
from streamsketch.errors import InvalidInputError

_LOG = logging.getLogger(__name__)
_RETAIN = ("--externalized_checkpoints_enabled", "--retain_externalized_checkpoints_on_cancellation")


@dataclasses.dataclass(frozen=True)
class RunSecrets:
    """Where the secret of a bounded run's noise is kept; parameters as in `streamsketch.beam.configure_run`.

    Raises
    ------
    InvalidInputError
        If there is a ``run_id`` without ``claims``.

    Examples
    --------
    >>> import apache_beam as beam
    >>> secrets = RunSecrets(claims=str(getfixture("tmp_path")), run_id="2024-05-01")
    >>> secrets.configure(beam.Pipeline(runner="FnApiRunner"))
    """

    claims: str | None = None
    run_id: str | None = None
    root_key: Path | None = None

    def __post_init__(self) -> None:
        if self.run_id is not None and self.claims is None:
            raise InvalidInputError(f"run_id={self.run_id} needs a folder of claims; pass claims as well")

    def configure(self, pipeline: beam.Pipeline) -> None:
        """Configure a pipeline's run; raise `InvalidInputError` if its run id was used before."""
        # the workers would refuse it too, but only after earlier results are cleared
        if self.claims and self.run_id and FileSystems.exists(claim_path(self.claims, self.run_id)):
            raise InvalidInputError(f"the run id {self.run_id} was used before; pass another run_id")
        configure_run(pipeline, root_key=self.root_key, claims=self.claims, run_id=self.run_id)

    def finish(self, *written: beam.PCollection) -> None:
        """Remove the secret from the run's claim, if there is one, once all results are written."""
        if self.claims is not None:
            written | FinishRun()


def beam_options(arguments: Sequence[str], *, streaming: bool = False) -> PipelineOptions:
    """Return Beam's options, with FnApiRunner, Beam's in-process runner, as the default.

    Parameters
    ----------
    arguments
        Options as on a command line, such as ``["--runner=FlinkRunner", "--parallelism=8"]``.
    streaming
        Whether the job never ends. Its checkpoints, if any, are then kept when it is cancelled; by default Flink
        deletes them, and they are needed to restore the job.

    Raises
    ------
    InvalidInputError
        If a stream on Flink would not recover from a failure with these options.

    Examples
    --------
    >>> from apache_beam.options.pipeline_options import StandardOptions
    >>> beam_options([]).view_as(StandardOptions).runner
    'FnApiRunner'
    """
    options = PipelineOptions([*arguments, *(["--streaming", *_retained(arguments)] if streaming else [])])
    if streaming:
        _check_recovery(options)
    standard = options.view_as(StandardOptions)
    standard.runner = standard.runner or "FnApiRunner"
    return options


def _retained(arguments: Sequence[str]) -> list[str]:
    """Return the options by which Flink keeps checkpoints, unless they are given, if there are checkpoints."""
    names = {argument.partition("=")[0] for argument in arguments}
    return [option for option in _RETAIN if option not in names] if "--checkpointing_interval" in names else []


def _check_recovery(options: PipelineOptions) -> None:
    """Refuse options that keep dead workers, or let Flink delete the checkpoints of a job that is cancelled."""
    if cached := int(options.view_as(PortableOptions).environment_cache_millis):
        raise InvalidInputError(
            f"--environment_cache_millis={cached} keeps Python workers that were killed: a job that Flink restarts "
            f"within {cached} ms gets the dead workers back, until Flink gives up. Leave the option out; a stream's "
            "workers run all the time anyway"
        )
    values = options.get_all_options(retain_unknown_options=True)
    for name in (option.removeprefix("--") for option in _RETAIN):
        if str(values.get(name, True)).lower() == "false":
            raise InvalidInputError(
                f"--{name}={values[name]} lets Flink delete the checkpoints of a job that is cancelled or fails, but "
                "only they can restore it. Leave the option out"
            )
    # operators are named by what they are chained with, and one slot chains more of them than two
    is_one = int(values.get("parallelism") or 1) <= 1 and "operator_chaining" not in values  # -1: the default
    if is_one and "checkpointing_interval" in values:
        _LOG.warning(
            "with --parallelism=1, often the default, the state of this job can only be restored with one slot. To "
            "rescale the job later, pass --parallelism=2 or more now, or --operator_chaining, which turns chaining "
            "off"
        )
