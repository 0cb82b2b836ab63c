"""Steps whose input a runner must not change between two attempts."""

from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.runners.pipeline_context import PipelineContext

from streamsketch.beam.run.runner import may_compute_again
from streamsketch.beam.run.runs import has_stream
from streamsketch.errors import InvalidInputError

# Beam keeps at most 100 messages of a bundle's results, and one of up to 1 MB is a message. When they are full, the
# thread that reads them waits for the bundle's end, and the bundle for that thread (Beam 2.62, SdkHarnessClient).
_MOST_ELEMENTS = 64


class StableParDo(beam.ParDo):
    """``beam.ParDo`` whose input is stable: a runner that repeats the step gives it the same elements again.

    Java has an annotation for this, and Python's SDK has none. Runners read the flag in the job's specification. Flink
    keeps the elements until the next checkpoint, so results come up to one checkpoint interval later.

    Examples
    --------
    >>> class Publish(beam.DoFn):
    ...     def process(self, element):
    ...         yield element
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> published = pipeline | beam.Create(["a release"]) | StableParDo(Publish())
    """

    def to_runner_api_parameter(self, context: PipelineContext, **extra: Any) -> Any:
        """Return the step's specification, with the flag."""
        urn, payload = super().to_runner_api_parameter(context, **extra)
        payload.requires_stable_input = True
        context.add_requirement(common_urns.requirements.REQUIRES_STABLE_INPUT.urn)
        return urn, payload


def publishing_step(collection: beam.PCollection, step: beam.DoFn, **side: Any) -> beam.ParDo:
    """Return a ParDo that publishes, with stable input where the collection never ends and the runner may repeat steps.

    Raises
    ------
    InvalidInputError
        If the collection never ends, and the runner makes no checkpoints; if the secrets would change when the job is
        built again; if the watermark could pass results that bundles hold back; or if bundles may be so long that the
        runner waits for its own workers forever.
    """
    if collection.is_bounded or not may_compute_again(collection.pipeline):
        return beam.ParDo(step, **side)
    runner = type(collection.pipeline.runner).__name__
    if not has_stream(collection.pipeline):
        raise InvalidInputError(
            f"a stream on {runner} can be restored by a job that is built again and would then draw other secrets, so "
            "that a unit could contribute twice. Call configure_stream(pipeline, stream=…, root_key=…, claims=…) "
            "first"
        )
    if option(collection.pipeline.options, "checkpointing_interval") < 1:
        raise InvalidInputError(
            f"without checkpoints {runner} may publish a window twice, with different data, because the data may have "
            "changed when it recomputes a step. Pass --checkpointing_interval=MILLISECONDS"
        )
    if not option(collection.pipeline.options, "finish_bundle_before_checkpointing"):
        raise InvalidInputError(
            f"{runner} lets the watermark overtake results of a bundle that a checkpoint ends, and whole windows "
            "would be lost. Pass --finish_bundle_before_checkpointing"
        )
    if not 1 <= option(collection.pipeline.options, "max_bundle_size") <= _MOST_ELEMENTS:
        raise InvalidInputError(
            f"a bundle of many messages can block {runner} forever, because its workers and Beam's wait for each "
            f"other once 100 results are unread. Pass --max_bundle_size=50, and at most {_MOST_ELEMENTS}"
        )
    return StableParDo(step, **side)


def option(options: PipelineOptions, name: str) -> int:
    """Return a runner's own option as a number, 0 if it is not given: only job servers know all of them."""
    value = options.get_all_options(retain_unknown_options=True).get(name)
    value = {"true": 1, "false": 0}.get(str(value).lower(), value)
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0
