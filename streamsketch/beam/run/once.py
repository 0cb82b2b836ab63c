"""Each key published once in each window, whatever the runner repeats: a retried step draws the same noise and ids."""

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow

from streamsketch.beam.run.charges import WindowCharge
from streamsketch.beam.run.ordering import InOrder
from streamsketch.beam.run.runs import RunSecret, label_in, run_secret
from streamsketch.beam.run.steps import Step
from streamsketch.beam.streams.stable import publishing_step
from streamsketch.data import SECRET_BYTES
from streamsketch.privacy import KeyedBits
from streamsketch.streams import REFUSED

BitsOf: TypeAlias = Callable[..., KeyedBits]
_KEYS = beam.coders.FastPrimitivesCoder()


class Draw(Protocol):
    """What is published of all values of a key."""

    @property
    def published(self) -> type[Any]:
        """Type of what is published."""

    @property
    def summed(self) -> type[Any]:
        """Type of the values, and of their sum."""

    def opens(self, value: Any) -> bool:
        """Return whether values of a key and window may be published that this one is among; others came late."""

    def draw(self, total: Any, bits_of: BitsOf, key: Any, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        """Yield what is published of it, if anything.

        ``bits_of`` returns the secret bits for this key and window, a function of the bytes that it is given. Give it
        everything else that the draw depends on, the exact ``total`` included: changed input gets independent noise.
        """


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
    sums
        What makes of all totals of a key what is drawn of each window; by default it is drawn of the totals.
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
    ) -> None:
        super().__init__()
        self._sums = sums
        self._draw, self._use, self._shards, self._secret = draw, use, shards, secret
        self._charge = charge

    def expand(self, keyed: beam.PCollection) -> Any:
        """Apply the transform."""
        draw = self._draw
        # Sums are put in order, and fixed, before the draw: most take less than what is drawn of them. Where a runner
        # keeps the input stable they must be: no window may end after the draw, since results would be late for it
        # where a restore forgets the time.
        totals, late = keyed | "In order" >> InOrder(draw.summed, self._shards, draw.opens)
        if self._sums is not None:
            totals |= "Sums of windows" >> self._sums
        step = publishing_step(
            totals, _Draw(draw, self._use, label_in(keyed.pipeline), self._charge), run=self._secret(keyed.pipeline)
        ).with_output_types(beam.typehints.KV[Any, draw.published])
        if self._charge is None:
            return totals | "Draw" >> step, late
        draws = totals | "Draw" >> step.with_outputs(REFUSED, main="drawn")
        return draws.drawn, late, draws[REFUSED]


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
        bits_of = functools.partial(repeatable_bits, run.derive(self._use, self._label), key, window)
        for published in self._draw.draw(total, bits_of, key, window, run):
            yield key, published


def repeatable_bits(secret: bytes, key: Any, window: BoundedWindow, *parts: bytes) -> KeyedBits:
    """Return the bits for one key in one window.

    Parameters
    ----------
    secret
        32 bytes of one run and transform. Two runs with one secret would show where their inputs were equal.
    key
        Text, bytes or an integer.
    window
        The key's window.
    parts
        All else that makes this draw different from another, its exact input included: changed input gets independent
        noise.
    """
    return KeyedBits(secret, _named(key, window, *parts))


def data_id(secret: bytes, source: str, key: Any, window: BoundedWindow) -> bytes:
    """Return the id of one key's data in one window: 16 secret bytes, a function of names and the run, not of the data.

    Parameters
    ----------
    secret
        32 bytes of the run, the same for all transforms of a pipeline.
    source
        Full label of the step that the data came from.
    key
        Text, bytes or an integer.
    window
        The key's window.
    """
    named = _named(key, window, source.encode())
    return hashlib.blake2b(named, digest_size=SECRET_BYTES, key=secret, person=b"streamsketch.did").digest()


def _named(key: Any, window: BoundedWindow, *parts: bytes) -> bytes:
    time = int(window.max_timestamp().micros)
    named = (_KEYS.encode(key), time.to_bytes(8, "little", signed=True), *parts)
    # with their lengths, so that different parts never give the same whole
    return b"".join(len(part).to_bytes(8, "little") + part for part in named)
