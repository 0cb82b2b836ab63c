"""Which Beam runners these transforms must not run on."""

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions

from streamsketch.errors import InvalidInputError


def refuse_broken_runner(pipeline: beam.Pipeline) -> None:
    """Raise `InvalidInputError` for runners that would lose or repeat data without a word."""
    if any(kind.__name__ == "DaskRunner" for kind in type(pipeline.runner).__mro__):
        raise InvalidInputError(
            "DaskRunner silently loses data (what a bundle holds at its end, all but the last branch, windows) and "
            "still says DONE. Use FnApiRunner on one machine, FlinkRunner or DataflowRunner on several"
        )
    if pipeline.options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise InvalidInputError(
            "--direct_running_mode=multi_threading is broken for coders written in Python: elements are cut in the "
            "middle. Use in_memory or multi_processing"
        )
