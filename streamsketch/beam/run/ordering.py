"""Results in an order that is a function of what is published anyway: of keys and windows, never of the data."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.compare.blocks import order
from streamsketch.beam.intake.windows import windowed_as
from streamsketch.beam.run.steps import Step

_KEYS = beam.coders.FastPrimitivesCoder()
_SHARDS = 256  # where nobody knows how many results there will be
_MAX_SHARDS = 4096
_SHARD_BYTES = 1 << 26


class InOrder(beam.PTransform):
    """Put results in the order of their windows and keys: ``KV[key, value] → KV[key, value]``.

    Results are gathered in shards by a hash of key and window, and each shard is sorted. Bounded collections are sorted
    over all windows; where they never end, each window is. A runner that emits groups in the order in which it first
    met them, as FnApiRunner does, emits the shards in the order of their numbers, as each bundle names all of them
    first. The shuffle fixes the values too, as `beam.Reshuffle` would.

    Parameters
    ----------
    published
        Type of the values.
    shards
        How many, from `shards_of` or a constant: never a function of the data.
    """

    def __init__(self, published: Any, shards: int = _SHARDS) -> None:
        super().__init__()
        self._published, self._shards = published, shards

    def expand(self, results: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        windowing = results.windowing
        all_windows = results.is_bounded and not isinstance(windowing.windowfn, GlobalWindows)
        place = beam.ParDo(_Place(self._shards, each_window=not results.is_bounded)).with_output_types(
            beam.typehints.KV[int, tuple[int, Any, list[self._published]]]  # type: ignore[name-defined]
        )
        emit = beam.ParDo(_Emit(stamp=all_windows)).with_output_types(beam.typehints.KV[Any, self._published])
        placed = results | "Assign shards" >> place
        if all_windows:
            placed |= "All windows" >> beam.WindowInto(GlobalWindows())
        ordered = placed | "Gather shards" >> beam.GroupByKey() | "Sort" >> emit
        return ordered | "Back to their windows" >> windowed_as(windowing) if all_windows else ordered


def shards_of(results: int, nbytes: int) -> int:
    """Return how many shards hold so many results of ``nbytes`` each in about 64 MiB: 1 for few."""
    return min(_MAX_SHARDS, 1 + (results * nbytes - 1) // _SHARD_BYTES)


class _Place(Step):
    """Name each result's shard; name every shard first."""

    def __init__(self, shards: int, *, each_window: bool) -> None:
        self._shards, self._each_window = shards, each_window

    def start_bundle(self) -> None:
        self._met: set[Any] = set()

    def process(
        self, keyed: tuple[Any, Any], window: BoundedWindow = beam.DoFn.WindowParam
    ) -> Iterator[tuple[int, tuple[int, Any, list[Any]]]]:
        met = window if self._each_window else None
        if met not in self._met:
            self._met.add(met)
            for shard in range(self._shards):
                yield shard, (0, 0, [])
        key, value = keyed
        moment = int(window.max_timestamp().micros)
        yield self._shard(key, moment), (moment, key, [value])

    def _shard(self, key: Any, moment: int) -> int:
        named = moment.to_bytes(8, "little", signed=True) + _KEYS.encode(key)
        return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "little") % self._shards


class _Emit(Step):
    """Emit a shard's results, sorted by window and key."""

    def __init__(self, *, stamp: bool) -> None:
        self._stamp = stamp

    def process(self, shard: tuple[int, Iterable[tuple[int, Any, list[Any]]]]) -> Iterator[Any]:
        results = [(moment, key, values[0]) for moment, key, values in shard[1] if values]
        for moment, key, value in sorted(results, key=lambda result: (result[0], order(result[1]))):
            yield TimestampedValue((key, value), Timestamp(micros=moment)) if self._stamp else (key, value)
