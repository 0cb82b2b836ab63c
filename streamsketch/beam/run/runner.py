"""Which Beam runners these transforms must not run on, and which may recompute a step."""

import apache_beam as beam
from apache_beam.options.pipeline_options import DebugOptions, DirectOptions

from streamsketch.errors import InvalidInputError

_KEEP_SHUFFLES = frozenset(
    {"BundleBasedDirectRunner", "DataflowRunner", "FnApiRunner", "PrismRunner", "SwitchingDirectRunner"}
)
"""Runners that never recompute steps upstream of a shuffle that was read."""


def refuse_broken_runner(pipeline: beam.Pipeline) -> None:
    """Raise `InvalidInputError` for runners that would silently lose or repeat data."""
    if any(kind.__name__ == "DaskRunner" for kind in type(pipeline.runner).__mro__):
        raise InvalidInputError(
            "DaskRunner silently loses data (elements that a bundle emits at its end, all branches but the last, "
            "windows) and still reports DONE. Use FnApiRunner on one machine, FlinkRunner or DataflowRunner on "
            "several"
        )
    if pipeline.options.view_as(DirectOptions).direct_running_mode == "multi_threading":
        raise InvalidInputError(
            "--direct_running_mode=multi_threading is broken for coders written in Python: it cuts elements in the "
            "middle. Use in_memory or multi_processing"
        )


def refuse_lost_state(pipeline: beam.Pipeline) -> None:
    """Raise `InvalidInputError` on Prism without the option that keeps it from losing state.

    Prism 2.77 splits a slow bundle between two elements of one key and runs both halves at once, so one of them
    overwrites the other's state: a unit would get a second budget.
    """
    is_prism = any(kind.__name__ == "PrismRunner" for kind in type(pipeline.runner).__mro__)
    experiments = pipeline.options.view_as(DebugOptions).experiments or ()
    if is_prism and "prism_disable_sdf_split" not in experiments:
        raise InvalidInputError(
            "Prism splits bundles between elements of one key, and then loses the key's state. Pass "
            "--experiments=prism_disable_sdf_split"
        )


def may_compute_again(pipeline: beam.Pipeline) -> bool:
    """Return whether a pipeline's runner may recompute steps upstream of a shuffle, as Flink does in batches."""
    return not any(kind.__name__ in _KEEP_SHUFFLES for kind in type(pipeline.runner).__mro__)
