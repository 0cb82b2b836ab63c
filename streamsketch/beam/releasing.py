"""From exact sketches to releases, each drawn once whatever the runner retries."""

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.transforms import trigger
from apache_beam.transforms.window import GlobalWindows

from streamsketch.beam.sketching import merged
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import calibration
from streamsketch.privacy.guarantee import Neighbours, check_budget
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.sampling import KeyedBits
from streamsketch.projections.base import Projection
from streamsketch.release import PrivateSketch, add_noise, guarantee_of
from streamsketch.sensitivity import sensitivity_of
from streamsketch.sketch import Sketch

_METRICS = "streamsketch"


class ReleasePerKey(beam.PTransform):
    """Publish each key's sketch once: ``PCollection[KV[key, Sketch]] → PCollection[KV[key, PrivateSketch]]``.

    Every release is (ε, δ)-differentially private for ``neighbours`` as `Sketch.release` is, where one privacy unit
    touches one key. The set of keys would leak, so it must be public: with ``public_keys`` each of them is
    released, a key without data as noise alone, and data of other keys is dropped.

    The noise is idempotent: its bits are SHAKE-256 of a 32-byte secret drawn from the operating system when the
    pipeline is built, and of all that makes the release what it is, its exact input included. A retried
    bundle publishes the same bytes; changed input gets independent noise, and is another release. The secret travels in
    the job's specification: guard that as you guard the data.

    Parameters
    ----------
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`.
    public_keys
        The keys to release, known without looking at the data: text, bytes or integers.
    keys_are_public
        The explicit word that the keys found in the data are public, instead of ``public_keys``.
    projection
        The sketches' projection, which they are held to. Without it, it is read off the data; give it where there may
        be none.
    count_private_data
        Count keys without data and keys dropped as Beam metrics (``keys_without_data``, ``keys_dropped``). These
        counts depend on the data and carry no noise, so they are for the operator's eyes only. ``releases`` is
        always counted.

    Raises
    ------
    InvalidInputError
        For neither or both of ``public_keys`` and ``keys_are_public``, windows or triggers that could publish a
        key twice, and as `Sketch.release`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import SketchPerKey
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("AA", (17, 1)), ("UA", (18, 2))])
    ...         | SketchPerKey(projection)
    ...         | ReleasePerKey(epsilon=1.0, neighbours=L1(1), public_keys=["AA", "DL", "UA"])
    ...     )
    """

    def __init__(
        self,
        *,
        epsilon: float,
        neighbours: Neighbours,
        delta: float = 0.0,
        mechanism: calibration.Mechanism = "auto",
        public_keys: Iterable[Any] | None = None,
        keys_are_public: bool = False,
        projection: Projection | None = None,
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        if (public_keys is None) == (not keys_are_public):
            raise InvalidInputError(
                "the set of keys would leak: give public_keys, the keys to release known without looking at the data, "
                "or say keys_are_public=True (one of the two)"
            )
        if isinstance(public_keys, str | bytes):
            raise InvalidInputError(f"public_keys must be a collection of keys, got one {type(public_keys).__name__}")
        self._public_keys = None if public_keys is None else _plain_keys(public_keys)
        if self._public_keys is not None and not self._public_keys:
            raise InvalidInputError("public_keys is empty, so nothing would be released; give at least one key")
        calibration.choose(calibration.Sensitivity(1, 1, 1), epsilon, delta, mechanism)  # fail before the job runs
        if not isinstance(neighbours, Neighbours):
            raise TypeError(f"neighbours must be L1(bound) or OneCoordinate(bound), got a {type(neighbours).__name__}")
        self._privacy = _Privacy(*check_budget(epsilon, delta), neighbours, mechanism)
        if projection is not None:
            self._privacy.noise(projection)
        self._projection = projection
        self._count_private_data = count_private_data

    def expand(self, sketches: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        _require_one_pane(sketches)
        if self._public_keys is not None:
            kept = sketches | "Keep public keys" >> beam.ParDo(
                _KeepKeys(frozenset(self._public_keys), count=self._count_private_data)
            )
            keys = sketches.pipeline | "Public keys" >> beam.Create(self._public_keys)
            sketches = (kept, self._empty_sketches(keys, sketches)) | "Add keys without data" >> beam.Flatten()
        return (
            sketches
            | "One group a key" >> beam.GroupByKey()
            | "Add noise"
            >> beam.ParDo(
                _Release(self._privacy, secrets.token_bytes(32), self._projection, count=self._count_private_data)
            )
            | "Fix the releases" >> beam.Reshuffle()
        )

    def _empty_sketches(self, keys: beam.PCollection, sketches: beam.PCollection) -> beam.PCollection:
        if self._projection is not None:
            projections = keys.pipeline | "Projection" >> beam.Create([self._projection.to_json()])
        else:
            projections = (
                sketches
                | "Projections" >> beam.Map(lambda keyed: keyed[1].projection.to_json())
                | "Distinct projections" >> beam.Distinct()
            )
        return keys | "Empty sketches" >> beam.Map(_empty_sketch, beam.pvalue.AsList(projections)).with_output_types(
            beam.typehints.KV[Any, Sketch]
        )

    def display_data(self) -> dict[str, Any]:
        """Show the guarantee in the runner's interface; never a secret."""
        return self._privacy.display_data()


def _plain_keys(keys: Iterable[Any]) -> list[Any]:
    """Return distinct public keys; equal keys of other types would be released beside those of the data."""
    plain = [key.item() if isinstance(key, np.generic) else key for key in keys]
    others = sorted({type(key).__name__ for key in plain if type(key) not in (str, bytes, int)})
    if others:
        raise InvalidInputError(f"public_keys must be text, bytes or integers, got {', '.join(others)}; cast them")
    return list(dict.fromkeys(plain))


class _Privacy:
    """What was asked of the releases."""

    def __init__(self, epsilon: float, delta: float, neighbours: Neighbours, mechanism: calibration.Mechanism) -> None:
        self.epsilon, self.delta, self.neighbours, self.mechanism = epsilon, delta, neighbours, mechanism

    def noise(self, projection: Projection) -> Noise:
        return calibration.choose(sensitivity_of(projection, self.neighbours), self.epsilon, self.delta, self.mechanism)

    def display_data(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": repr(self.neighbours),
            "mechanism": self.mechanism,
        }


def _empty_sketch(key: Any, projections: list[str]) -> tuple[Any, Sketch]:
    if len(projections) != 1:
        raise InvalidInputError(
            f"the sketches to release must have one projection, found {len(projections)}. "
            f"Give ReleasePerKey(projection=…) where there may be no data at all"
        )
    return key, Projection.from_json(projections[0]).sketch()


def _require_one_pane(sketches: beam.PCollection) -> None:
    """Refuse windowing under which a key could be published more than once, or never."""
    windowing = sketches.windowing
    if not isinstance(windowing.windowfn, GlobalWindows):
        raise InvalidInputError(
            f"ReleasePerKey publishes each key once, so it needs the global window, got {windowing.windowfn}. "
            f"Apply beam.WindowInto(beam.window.GlobalWindows()) first"
        )
    if not isinstance(windowing.triggerfn, trigger.DefaultTrigger):
        raise InvalidInputError(
            f"ReleasePerKey publishes each key once, but the trigger {windowing.triggerfn} may fire again. "
            f"Use the default trigger"
        )
    if not sketches.is_bounded:
        raise InvalidInputError(
            "ReleasePerKey needs bounded input: an unbounded stream never ends the global window. Sketch and release "
            "a bounded extract"
        )


@beam.typehints.with_output_types(beam.typehints.KV[Any, Sketch])
class _KeepKeys(beam.DoFn):
    """Drop the data of keys that are not public."""

    def __init__(self, keys: frozenset[Any], *, count: bool) -> None:
        self._keys, self._count = keys, count

    def process(self, keyed: tuple[Any, Sketch]) -> Iterator[tuple[Any, Sketch]]:
        if type(keyed[0]) in (str, bytes, int) and keyed[0] in self._keys:
            yield keyed
        elif self._count:
            Metrics.counter(_METRICS, "keys_dropped").inc()


@beam.typehints.with_output_types(beam.typehints.KV[Any, PrivateSketch])
class _Release(beam.DoFn):
    """Add noise that is a function of the secret and the release."""

    def __init__(self, privacy: _Privacy, secret: bytes, projection: Projection | None = None, *, count: bool) -> None:
        self._privacy, self._secret, self._projection, self._count = privacy, secret, projection, count

    def process(self, group: tuple[Any, Iterable[Sketch]]) -> Iterator[tuple[Any, PrivateSketch]]:
        key, sketches = group
        total = merged(sketches)
        if self._projection is not None:
            self._projection.check_same(total.projection)
        noise = self._privacy.noise(total.projection)
        guarantee = guarantee_of(noise, self._privacy.epsilon, self._privacy.delta, self._privacy.neighbours)
        context = _unambiguous(
            beam.coders.FastPrimitivesCoder().encode(key),
            total.projection.to_json().encode(),
            repr(guarantee).encode(),
            total.state.astype("<i8").tobytes(),
        )
        yield key, add_noise(total, noise, guarantee, KeyedBits(self._secret, context))
        Metrics.counter(_METRICS, "releases").inc()
        if self._count and total.mass == 0:
            Metrics.counter(_METRICS, "keys_without_data").inc()

    def display_data(self) -> dict[str, Any]:
        return self._privacy.display_data()


def _unambiguous(*parts: bytes) -> bytes:
    """Join byte strings so that different parts never give the same whole."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)
