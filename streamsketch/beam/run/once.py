"""Publish each key once in each window, even if the runner repeats steps: a retry draws the same noise and ids."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow

from streamsketch.beam.run.bits import BitsOf, repeatable_bits
from streamsketch.beam.run.charges import WindowCharge
from streamsketch.beam.run.known import with_versions
from streamsketch.beam.run.ordering import InOrder
from streamsketch.beam.run.runs import RunSecret, has_stream, label_in, run_secret
from streamsketch.beam.run.steps import Each, Step
from streamsketch.beam.run.versions import WithVersion
from streamsketch.beam.streams.stable import publishing_step
from streamsketch.core.documents import TableKey
from streamsketch.once.alarms import REFUSED


class Draw(Protocol):
    """How all values of a key become what is published."""

    @property
    def published(self) -> type[Any]:
        """Type of what is published."""

    @property
    def summed(self) -> type[Any]:
        """Type of the values, and of their sum."""

    def opens(self, value: Any) -> bool:
        """Return whether this value lets its key and window be published; without such a value, all came late."""

    def draw(self, total: Any, bits_of: BitsOf, key: TableKey, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        """Yield what is published for the total, if anything.

        ``bits_of`` returns the secret bits for this key and window, a function of the bytes passed to it. Pass
        everything else that the draw depends on, including the exact ``total``. Then changed input gets independent
        noise.
        """


class PublishOnce(beam.PTransform):
    """Draw what is published for each key, once: ``KV[key, value] → (KV[key, published], KV[key, total])``.

    The second collection has the totals of late values: their window was published before, and they never are. With
    ``charge``, a third collection has the keys, in their windows, for which the ledger refused the charge. Nothing is
    drawn for these. The secret bits are a function of the run's secret and of everything that determines the draw. So a
    retried bundle publishes the same bytes, and changed input gets independent noise. Output is in the order of windows
    and keys, which does not depend on the data.

    Parameters
    ----------
    draw
        How the published values are drawn.
    use
        Name that separates this randomness from the run's other randomness.
    shards
        As in `InOrder`, if the number of results is known in advance.
    secret
        Function that returns the run's secret for a pipeline; pass another if the draw must wait for more than that.
    charge
        Charges each window before anything is drawn for it.
    sums
        Transform from all totals of a key to the values that are drawn for each window; by default the totals.
    keys
        The number of keys in each window, if it is known beforehand.

    In a stream, what `versions_of` returns for the first collection has the version of its window with each result, for
    sinks that publish one version of a window.
    """

    def __init__(
        self,
        draw: Draw,
        use: str,
        *,
        shards: int | None = None,
        secret: Callable[[beam.Pipeline], Any] = run_secret,
        charge: WindowCharge | None = None,
        sums: beam.PTransform | None = None,
        keys: int | None = None,
    ) -> None:
        super().__init__()
        self._keys = keys
        self._sums = sums
        self._draw, self._use, self._shards, self._secret = draw, use, shards, secret
        self._charge = charge

    def expand(self, keyed: beam.PCollection) -> Any:
        """Apply the transform."""
        draw = self._draw
        # Sums are sorted, and fixed, before the draw: most are smaller than its results. On a runner that keeps the
        # input stable, this order is required. No window may end after the draw, because a restored job forgets the
        # time, and results would then be late.
        totals, late = keyed | "In order" >> InOrder(draw.summed, self._shards, draw.opens)
        if self._sums is not None:
            totals |= "Sums of windows" >> self._sums
        run, published = self._secret(keyed.pipeline), draw.published
        versioned = has_stream(keyed.pipeline) and hasattr(draw, "name")
        if versioned:
            totals |= "Version" >> WithVersion(cast("Any", draw), run, shards=self._shards, keys=self._keys)
            published = tuple[published, bytes]  # type: ignore[valid-type]
        drawing = _Draw(draw, self._use, label_in(keyed.pipeline), self._charge, versioned=versioned)
        step = publishing_step(totals, drawing, run=run).with_output_types(beam.typehints.KV[Any, published])
        refused: list[beam.PCollection] = []
        if self._charge is None:
            drawn = totals | "Draw" >> step
        else:
            outputs = totals | "Draw" >> step.with_outputs(REFUSED, main="drawn")
            drawn, refused = outputs.drawn, [outputs[REFUSED]]
        if versioned:
            alone = beam.ParDo(Each(_without_version)).with_output_types(beam.typehints.KV[Any, draw.published])
            drawn = with_versions(drawn | "Without versions" >> alone, drawn)
        return drawn, late, *refused


def _without_version(keyed: tuple[Any, tuple[Any, bytes]]) -> Iterator[tuple[Any, Any]]:
    yield keyed[0], keyed[1][0]


class _Draw(Step):
    def __init__(self, draw: Draw, use: str, label: str, charge: WindowCharge | None, *, versioned: bool) -> None:
        self._draw, self._use, self._label, self._charge = draw, use, label, charge
        self._versioned = versioned

    def process(
        self, keyed: tuple[Any, Any], window: BoundedWindow = beam.DoFn.WindowParam, *, run: RunSecret
    ) -> Iterator[Any]:
        key, total = keyed
        total, version = total if self._versioned else (total, None)
        if self._charge is not None and not self._charge.covers(run, window, version):
            yield beam.pvalue.TaggedOutput(REFUSED, key)
            return
        bits_of = functools.partial(repeatable_bits, run.derive(self._use, self._label), key, window)
        for published in self._draw.draw(total, bits_of, key, window, run):
            yield key, (published if version is None else (published, version))
