"""Sort results by windows and keys, which are published anyway, so that the order does not depend on the data."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo

from streamsketch.beam.compare.blocks import order
from streamsketch.beam.intake.windows import LATE, is_the_one_pane, windowed_as
from streamsketch.beam.run.steps import Step
from streamsketch.core.documents import TableKey

_KEYS = beam.coders.FastPrimitivesCoder()
_SHARDS = 256  # if the number of results is not known
_MAX_SHARDS = 4096
_SHARD_BYTES = 1 << 26


class InOrder(beam.PTransform):
    """Add up each key's values, in the order of windows and keys: ``KV[key, value] → (KV[key, total], late totals)``.

    Late values arrived after their window ended. Values are gathered in shards by a hash of key and window, and each
    shard is sorted; one shuffle serves for both the sums and the order. Bounded collections are sorted over all
    windows, unbounded ones within each window. If a runner emits groups in the order in which it first met them, as
    FnApiRunner does, it emits the shards in the order of their numbers, because each bundle names all of them first.

    Parameters
    ----------
    kind
        Type of the values and of the totals. ``+`` must return a new object, because Beam may use its inputs again.
    shards
        Number of shards, from `shards_of`; never a function of the data. The default suits any number of keys.
    opens
        Whether a value lets its key and window be published. If none does, all of them came late.
    """

    def __init__(self, kind: Any, shards: int | None = None, opens: Callable[[Any], bool] | None = None) -> None:
        super().__init__()
        self._kind, self._opens = kind, opens
        self._shards = _SHARDS if shards is None else shards

    def expand(self, values: beam.PCollection) -> Any:
        """Apply the transform."""
        windowing = values.windowing
        all_windows = values.is_bounded and not isinstance(windowing.windowfn, GlobalWindows)
        place = beam.ParDo(PlaceKeys(self._shards, each_window=not values.is_bounded)).with_output_types(
            beam.typehints.KV[int, tuple[int, Any, list[self._kind]]]  # type: ignore[name-defined]
        )
        emit = beam.ParDo(_Emit(self._opens, stamp=all_windows)).with_output_types(beam.typehints.KV[Any, self._kind])
        placed = values | "Assign shards" >> place
        if all_windows:
            placed |= "All windows" >> beam.WindowInto(GlobalWindows())
        outputs = placed | "Gather shards" >> beam.GroupByKey() | "Sum and sort" >> emit.with_outputs(LATE, main="sums")
        if not all_windows:
            return outputs.sums, outputs[LATE]
        back = "Back to their windows" >> windowed_as(windowing)
        return outputs.sums | back, outputs[LATE] | "Late, back to their windows" >> windowed_as(windowing)


def shards_of(results: int, nbytes: int) -> int:
    """Return the number of shards for results of ``nbytes`` bytes each: about 64 MiB in a shard, 1 to 4096 shards."""
    return min(_MAX_SHARDS, 1 + (results * nbytes - 1) // _SHARD_BYTES)


class PlaceKeys(Step):
    """Name each result's shard; name every shard first."""

    def __init__(self, shards: int, *, each_window: bool) -> None:
        self._shards, self._each_window = shards, each_window

    def start_bundle(self) -> None:
        """Begin without keys."""
        self._met: set[Any] = set()

    def process(
        self, keyed: tuple[Any, Any], window: BoundedWindow = beam.DoFn.WindowParam
    ) -> Iterator[tuple[int, tuple[int, Any, list[Any]]]]:
        """Yield a key's elements with the place that its window gives them."""
        met = window if self._each_window else None
        if met not in self._met:
            self._met.add(met)
            for shard in range(self._shards):
                yield shard, (0, 0, [])
        key, value = keyed
        time = int(window.max_timestamp().micros)
        yield self._shard(key, time), (time, key, [value])

    def _shard(self, key: TableKey, time: int) -> int:
        named = time.to_bytes(8, "little", signed=True) + _KEYS.encode(key)
        return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "little") % self._shards


class _Emit(Step):
    """Emit the sums of a shard's values, sorted by window and key."""

    def __init__(self, opens: Callable[[Any], bool] | None, *, stamp: bool) -> None:
        self._opens, self._stamp = opens, stamp

    def process(
        self, shard: tuple[int, Iterable[tuple[int, Any, list[Any]]]], pane: PaneInfo = beam.DoFn.PaneInfoParam
    ) -> Iterator[Any]:
        sums: dict[tuple[int, bytes], list[Any]] = {}
        opened = set()
        for time, key, values in shard[1]:
            for value in values:
                place = time, _KEYS.encode(key)  # 1, 1.0 and True are one key of a dictionary
                held = sums.get(place)
                sums[place] = [key, value if held is None else held[1] + value]
                if self._opens is None or self._opens(value):
                    opened.add(place)
        for place in sorted(sums, key=lambda place: (place[0], order(sums[place][0]))):
            key, total = sums[place]
            output = TimestampedValue((key, total), Timestamp(micros=place[0])) if self._stamp else (key, total)
            yield output if is_the_one_pane(pane) and place in opened else beam.pvalue.TaggedOutput(LATE, output)
