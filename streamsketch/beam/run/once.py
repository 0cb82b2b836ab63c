"""Each key published once in each window, whatever the runner repeats."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import PaneInfo

from streamsketch.beam.intake.windows import is_the_one_pane
from streamsketch.beam.run.charges import WindowCharge
from streamsketch.beam.run.ordering import InOrder
from streamsketch.beam.run.repeatable import repeatable_bits
from streamsketch.beam.run.runs import RunSecret, label_in, run_secret
from streamsketch.beam.run.steps import Step
from streamsketch.beam.streams.stable import StableParDo, publishing_step
from streamsketch.privacy import BitSource

LATE = "late"
REFUSED = "refused"


class Draw(Protocol):
    """What is published of all values of a key."""

    @property
    def published(self) -> type[Any]:
        """Type of what is published."""

    @property
    def summed(self) -> type[Any]:
        """Type of the values of a key as one."""

    def is_first(self, values: list[Any]) -> bool:
        """Return whether nothing was published before of the key and window of these values, as far as they tell."""

    def total(self, values: Iterable[Any]) -> Any:
        """Return the values of a key as one."""

    def named(self, total: Any) -> tuple[bytes, ...]:
        """Return what the draw depends on beside key and window, the exact ``total`` included."""

    def draw(self, total: Any, bits: BitSource, key: Any, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        """Yield what is published of it, if anything."""


class PublishOnce(beam.PTransform):
    """Draw what is published of each key once: ``KV[key, value] → (KV[key, published], KV[key, total])``.

    The second collection is what came late: its window was published, and it never is. With ``charge`` a third has the
    keys, in their windows, of which nothing was drawn, as the ledger refused the charge. Bits are a function of the
    run's secret and of all that makes the draw what it is, so a retried bundle publishes the same bytes, and changed
    input gets independent noise. Output is in the order of windows and keys, which does not depend on the data.

    Parameters
    ----------
    draw
        What is drawn.
    use
        Name of the draw's randomness among others of the run.
    shards
        As in `InOrder`, if the number of results is known beforehand.
    secret
        What returns the run's secret for a pipeline, where the draw has to wait for more than that.
    charge
        What charges each window before anything is drawn of it.
    """

    def __init__(
        self,
        draw: Draw,
        use: str,
        *shards: int,
        secret: Callable[[beam.Pipeline], Any] = run_secret,
        charge: WindowCharge | None = None,
    ) -> None:
        super().__init__()
        self._draw, self._use, self._shards, self._secret = draw, use, shards, secret
        self._charge = charge

    def expand(self, keyed: beam.PCollection) -> Any:
        """Apply the transform."""
        draw = _Draw(self._draw, self._use, label_in(keyed.pipeline), self._charge)
        step = publishing_step(keyed, draw, run=self._secret(keyed.pipeline))
        step = step.with_output_types(beam.typehints.KV[Any, self._draw.published])
        add_up = beam.ParDo(_Total(self._draw)).with_output_types(beam.typehints.KV[Any, self._draw.summed])
        outputs = keyed | "One group a key" >> beam.GroupByKey() | "Add up" >> add_up.with_outputs(LATE, main="totals")
        # Sums of bounded data are put in order, and fixed, before the draw: most take less than what is drawn of them.
        # Where a runner keeps the input stable they must be: no window may end after the draw, since results would be
        # late for it where a restore forgets the time.
        totals, is_in_order = outputs.totals, keyed.is_bounded or isinstance(step, StableParDo)
        if is_in_order:
            totals |= "In order" >> InOrder(self._draw.summed, *self._shards)
        if self._charge is None:
            drawn, further = totals | "Draw" >> step, [outputs[LATE]]
        else:
            draws = totals | "Draw" >> step.with_outputs(REFUSED, main="drawn")
            drawn, further = draws.drawn, [outputs[LATE], draws[REFUSED]]
        if not is_in_order:
            drawn |= "Fix what is drawn" >> InOrder(self._draw.published, *self._shards)
        return drawn, *further


class _Total(Step):
    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def process(self, group: tuple[Any, Iterable[Any]], pane: PaneInfo = beam.DoFn.PaneInfoParam) -> Iterator[Any]:
        key, values = group[0], list(group[1])
        total = key, self._draw.total(values)
        in_time = is_the_one_pane(pane) and self._draw.is_first(values)
        yield total if in_time else beam.pvalue.TaggedOutput(LATE, total)


class _Draw(Step):
    def __init__(self, draw: Draw, use: str, label: str, charge: WindowCharge | None) -> None:
        self._draw, self._use, self._label, self._charge = draw, use, label, charge

    def process(
        self, keyed: tuple[Any, Any], window: BoundedWindow = beam.DoFn.WindowParam, *, run: RunSecret
    ) -> Iterator[Any]:
        key, total = keyed
        if self._charge is not None and not self._charge.covers(run, window):
            yield beam.pvalue.TaggedOutput(REFUSED, key)
            return
        bits = repeatable_bits(run.derive(self._use, self._label), key, window, *self._draw.named(total))
        for published in self._draw.draw(total, bits, key, window, run):
            yield key, published
