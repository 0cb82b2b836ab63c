"""From exact sketches to releases, each drawn once whatever the runner retries."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import BoundedWindow, GlobalWindows
from apache_beam.utils.timestamp import TimestampTypes
from apache_beam.utils.windowed_value import PaneInfo

from streamsketch.beam.bounding import LATE
from streamsketch.beam.keys import METRICS, Keys, PublicKeys, as_dict
from streamsketch.beam.ordering import InOrder, shards_of
from streamsketch.beam.repeatable import data_id, repeatable_bits
from streamsketch.beam.runners import refuse_broken_runner
from streamsketch.beam.runs import RunSecret, label_in, run_secret
from streamsketch.beam.selection import SelectKeys, selection_of
from streamsketch.beam.sketching import merged
from streamsketch.beam.upstream import AppliedBounds, bounds_above, bounds_of, projection_of, sources_of
from streamsketch.beam.windows import KeepWindows, WindowRange, is_the_one_pane, require_one_pane
from streamsketch.data import from_list
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import BitSource, Guarantee, Neighbours, calibration, check_budget
from streamsketch.projections import Projection
from streamsketch.release import PrivateSketch, add_noise, guarantee_of, sensitivity_of
from streamsketch.sketching import Sketch


class ReleaseOnce(beam.PTransform, ABC):
    """What all transforms share that publish each key's sketch once: keys, windows, bounds and idempotent draws.

    Parameters are described in `ReleasePerKey`; a subclass says in `_rule` what is drawn.
    """

    late_tag = LATE
    _neighbours_are_a_word = True
    """Whether neighbours are given for this release alone, not with a mechanism that serves others too."""

    def __init__(
        self,
        *,
        neighbours: Neighbours | None,
        public_keys: Keys | None,
        selected_keys: beam.PCollection | None,
        keys_are_public: bool,
        public_windows: tuple[TimestampTypes, TimestampTypes] | None,
        projection: Projection | None,
        count_private_data: bool,
    ) -> None:
        super().__init__()
        if (public_keys is not None) + (selected_keys is not None) + keys_are_public != 1:
            raise InvalidInputError(
                "the set of keys would leak: give public_keys, the keys to release known without looking at the data, "
                "or selected_keys from SelectKeys, or say keys_are_public=True (one of the three)"
            )
        if public_windows is not None and public_keys is None:
            raise InvalidInputError("public_windows stands beside public_keys: each key is released in each window")
        self._public_keys = None if public_keys is None else PublicKeys(public_keys)
        self._selected = selected_keys
        self._selection = None if selected_keys is None else selection_of(selected_keys)
        self._windows = None if public_windows is None else WindowRange(*public_windows)
        if not isinstance(neighbours, Neighbours | None):
            raise TypeError(f"neighbours must be L1(bound) or OneCoordinate(bound), got a {type(neighbours).__name__}")
        self._neighbours = neighbours
        self._projection = projection
        if projection is not None and neighbours is not None:
            self._rule(neighbours).plan(projection)  # fail before the job runs
        self._count_private_data = count_private_data
        self._late = False

    @abstractmethod
    def _rule(self, neighbours: Neighbours) -> "Rule":
        """Return what to publish of each sketch, once the neighbour relation is known."""

    def with_late_data(self) -> Self:
        """Return two collections, ``(releases, late)``: late sketches are **secret**, for monitoring only."""
        self._late = True
        return self

    def expand(self, sketches: beam.PCollection) -> Any:
        """Apply the transform."""
        refuse_broken_runner(sketches.pipeline)
        require_one_pane(sketches)
        bounds = bounds_of(sketches)
        moved = bounds is None and bounds_above(sketches)
        rule = self._rule(self._agreed_neighbours(bounds, moved=moved))
        projection = self._agreed_projection(sketches)
        rule.plan(projection)  # fail before the job runs
        run = run_secret(sketches.pipeline)
        label = label_in(sketches.pipeline)
        release = _Release(rule, projection, label, sources_of(sketches), count=self._count_private_data)
        outputs = (
            self._with_empty_sketches(sketches, projection)
            | "One group a key" >> beam.GroupByKey()
            | "Add noise"
            >> beam.ParDo(release, run=run)
            .with_output_types(beam.typehints.KV[Any, rule.published])
            .with_outputs(LATE, main="releases")
        )
        shards = self._shards(sketches, projection)
        releases = outputs.releases | "Fix the releases" >> InOrder(rule.published, *shards)
        return (releases, outputs[LATE]) if self._late else releases

    def _shards(self, sketches: beam.PCollection, projection: Projection) -> list[int]:
        """Return how many shards hold the releases, if their number is known beforehand."""
        listed = None if self._public_keys is None else self._public_keys.listed
        if listed is None:
            return []
        windows = 1 if self._windows is None else self._windows.count(sketches.windowing)
        return [shards_of(len(listed) * windows, 8 * projection.sketch_dim)]

    def _agreed_neighbours(self, bounds: AppliedBounds | None, *, moved: bool) -> Neighbours:
        agreed = self._neighbours_of(bounds, moved=moved)
        if self._selection is not None and self._selection.neighbours != agreed:
            raise InvalidInputError(
                f"the keys were selected for {self._selection.neighbours} but the release is for {agreed}; use the "
                f"same events and neighbours for both"
            )
        return agreed

    def _neighbours_of(self, bounds: AppliedBounds | None, *, moved: bool) -> Neighbours:
        if bounds is None:
            if moved and (self._neighbours is None or not self._neighbours_are_a_word):
                raise InvalidInputError(
                    "between BoundContributions and the release stands a step that is not SketchPerKey: it may move "
                    "events to other keys or windows, or double them, and the bounds would not hold. Take that step "
                    "before BoundContributions, or after the release"
                    f"{', or give neighbours, your word for what holds' if self._neighbours_are_a_word else ''}"
                )
            if self._neighbours is None:
                raise InvalidInputError(
                    "nothing says how far one privacy unit reaches: apply BoundContributions to the events, which "
                    "enforces it, or give neighbours, which is your word for it"
                )
            return self._neighbours
        if self._neighbours not in (None, bounds.neighbours):
            raise InvalidInputError(
                f"neighbours={self._neighbours} but the events were bounded to {bounds.neighbours}; leave neighbours "
                f"out, or give these"
            )
        return bounds.neighbours

    def _agreed_projection(self, sketches: beam.PCollection) -> Projection:
        known = projection_of(sketches)
        if known is None and self._projection is None:
            raise InvalidInputError(
                "the release needs projection=…, that of the sketches: they do not come straight from SketchPerKey, "
                "and whether there are any to read it off depends on the data"
            )
        if known is not None and self._projection is not None:
            known.check_same(self._projection)
        return known or self._projection  # type: ignore[return-value] # one is known

    def _with_empty_sketches(self, sketches: beam.PCollection, projection: Projection) -> beam.PCollection:
        """Return the sketches of the keys to release, and an empty sketch for each of these."""
        if self._selected is not None:
            if self._selected.windowing != sketches.windowing:
                raise InvalidInputError(
                    "the keys were selected in other windows than the sketches are in; apply SelectKeys to the events "
                    "that are sketched"
                )
            known = as_dict(self._selected)
            kept = sketches | "Keep selected keys" >> beam.Filter(lambda keyed, known: keyed[0] in known, known)
            keys = self._selected
        elif self._public_keys is not None:
            keys = self._public_keys.collection(sketches.pipeline)
            kept = self._public_keys.keep(sketches, keys, count=self._count_private_data)
            if not isinstance(sketches.windowing.windowfn, GlobalWindows):
                kept, keys = self._in_public_windows(kept, keys)
        else:
            return sketches
        empty = beam.Map(_empty_sketch, projection.to_json())
        empties = keys | "Empty sketches" >> empty.with_output_types(beam.typehints.KV[Any, Sketch])
        return (kept, empties) | "Add keys without data" >> beam.Flatten()

    def _in_public_windows(
        self, kept: beam.PCollection, keys: beam.PCollection
    ) -> tuple[beam.PCollection, beam.PCollection]:
        if self._windows is None:
            raise InvalidInputError(
                "which windows a key has data in would leak: give public_windows=(start, stop), in which every public "
                "key is released, or SelectKeys(…), or say keys_are_public=True"
            )
        return (
            kept | "Keep public windows" >> beam.ParDo(KeepWindows(self._windows)).with_output_types(kept.element_type),
            self._windows.times(keys, kept.windowing),
        )


class ReleasePerKey(ReleaseOnce):
    """Publish each key's sketch once: ``PCollection[KV[key, Sketch]] → PCollection[KV[key, PrivateSketch]]``.

    The table of releases is (ε, δ)-differentially private for the neighbour relation that `BoundContributions` enforced
    upstream (THEORY.md 4.2), or for ``neighbours``, on your word. The set of keys would leak, so it must be public,
    or chosen privately: with ``public_keys`` each of them is released, a key without data as noise alone, and
    data of other keys is dropped; with ``selected_keys`` that holds for the keys that `SelectKeys` chose.

    In `TumblingWindows` each key is released once in each window, when the watermark passes its end. Which windows have
    data would leak as well, so with ``public_keys`` they are named too, by ``public_windows``. Data that come
    later are never released.

    The noise is idempotent: its bits are SHAKE-256 of a secret that is drawn from the operating system when the job
    runs, and of all that makes the release what it is, its exact input included. A retried bundle publishes the same
    bytes. Each run of a pipeline draws a new secret, so it is another release, with independent noise, and its ε adds
    up. The secret is not in the job's specification; see `configure_run` for where it is kept, for root keys, and for
    runners such as Flink that may compute a step again.

    Releases leave in the order of windows and keys, which does not depend on the data, as far as the runner keeps an
    order: in one group where few public keys are listed, else in shards by a hash of the key. `WriteTable` writes one
    sorted file on any runner. Sinks such as ``WriteToText`` and ``WriteToParquet`` keep the order in which elements
    arrive.

    Parameters
    ----------
    epsilon, delta, mechanism
        As in `Sketch.release`.
    neighbours
        As in `Sketch.release`, where the sketches do not come straight from `BoundContributions`; how far one unit
        reaches, in all keys and windows together, is then your word.
    public_keys
        The keys to release, known without looking at the data: text, bytes or integers in a list; a `pathlib.Path` to a
        text file with one key a line; or a PCollection in the global window.
    selected_keys
        The keys to release, from `SelectKeys`; its ε and δ are added to each guarantee.
    keys_are_public
        The explicit word that the keys found in the data are public, and the windows each has data in.
    public_windows
        (start, stop), in seconds since 1970-01-01T00:00Z or Beam timestamps: the windows that overlap [start, stop)
        are released, and no others.
    projection
        The sketches' projection, which they are held to. Needed where they do not come straight from `SketchPerKey`.
    count_private_data
        Count keys without data and keys dropped as Beam metrics (``keys_without_data``, ``keys_dropped``). These
        counts depend on the data and carry no noise, so they are for the operator's eyes only, as is what runners
        count themselves (elements and bytes of every step). ``releases`` is always counted.

    Raises
    ------
    InvalidInputError
        Unless exactly one of ``public_keys``, ``selected_keys`` and ``keys_are_public`` is given; for neighbours that
        nobody named, or others than were enforced; for sketches of unknown projection; for windows or triggers that
        could publish a key twice; for runners that need claims (`configure_run`); and as `Sketch.release`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import SketchPerKey
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1), ("UA", 18, 2)])
    ...         | SketchPerKey(projection)
    ...         | ReleasePerKey(epsilon=1.0, neighbours=L1(1), public_keys=["AA", "DL", "UA"])
    ...     )
    """

    def __init__(  # noqa: PLR0913 - each of them is part of what is promised
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        neighbours: Neighbours | None = None,
        mechanism: calibration.Mechanism = "auto",
        public_keys: Keys | None = None,
        selected_keys: beam.PCollection | None = None,
        keys_are_public: bool = False,
        public_windows: tuple[TimestampTypes, TimestampTypes] | None = None,
        projection: Projection | None = None,
        count_private_data: bool = False,
    ) -> None:
        calibration.choose(calibration.Sensitivity(1, 1, 1), epsilon, delta, mechanism)  # fail before the job runs
        self._budget, self._mechanism = check_budget(epsilon, delta), mechanism
        super().__init__(
            neighbours=neighbours,
            public_keys=public_keys,
            selected_keys=selected_keys,
            keys_are_public=keys_are_public,
            public_windows=public_windows,
            projection=projection,
            count_private_data=count_private_data,
        )

    def display_data(self) -> dict[str, Any]:
        """Show the guarantee in the runner's interface; never a secret."""
        return {
            "epsilon": self._budget[0],
            "delta": self._budget[1],
            "neighbours": "as bounded" if self._neighbours is None else repr(self._neighbours),
            "mechanism": self._mechanism,
        }

    def _rule(self, neighbours: Neighbours) -> "Rule":
        return _NoiseRule(*self._budget, neighbours, self._mechanism, self._selection)


class Plan(NamedTuple):
    """What is promised for sketches of one projection, and how one is drawn."""

    guarantee: Guarantee
    draw: Callable[[Sketch, BitSource], Any]
    """A function of a sketch and random bits."""


class Rule(Protocol):
    """What to publish of a sketch."""

    @property
    def published(self) -> type[Any]:
        """The type of what is published."""

    def plan(self, projection: Projection) -> Plan:
        """Return what is promised and drawn for a projection; raise `InvalidInputError` where nothing can be."""


@dataclasses.dataclass(frozen=True)
class _NoiseRule:
    """Publish the cells with noise."""

    epsilon: float
    delta: float
    neighbours: Neighbours
    mechanism: calibration.Mechanism
    selection: SelectKeys | None

    published = PrivateSketch

    def plan(self, projection: Projection) -> Plan:
        sensitivity = sensitivity_of(projection, self.neighbours)
        noise = calibration.choose(sensitivity, self.epsilon, self.delta, self.mechanism)
        promised = guarantee_of(noise, self.epsilon, self.delta, self.neighbours)
        guarantee = promised if self.selection is None else self.selection.added_to(promised)
        return Plan(guarantee, lambda sketch, bits: add_noise(sketch, noise, guarantee, bits))


def _empty_sketch(key: Any, projection: str) -> tuple[Any, Sketch]:
    return key, Projection.from_json(projection).sketch()


class _Release(beam.DoFn):
    """Draw what is published as a function of the run's secret and the release."""

    def __init__(self, rule: Rule, projection: Projection, label: str, sources: Sequence[str], *, count: bool) -> None:
        self._rule, self._projection, self._label, self._sources = rule, projection, label, sources
        self._count = count

    def process(
        self,
        group: tuple[Any, Iterable[Sketch]],
        window: BoundedWindow = beam.DoFn.WindowParam,
        pane: PaneInfo = beam.DoFn.PaneInfoParam,
        *,
        run: RunSecret,
    ) -> Iterator[Any]:
        key, sketches = group
        total = merged(sketches)
        self._projection.check_same(total.projection)
        if not is_the_one_pane(pane):
            yield beam.pvalue.TaggedOutput(LATE, (key, total))
            return
        plan = self._rule.plan(total.projection)
        bits = repeatable_bits(
            run.derive("noise", self._label),
            key,
            window,
            total.projection.to_json().encode(),
            repr(plan.guarantee).encode(),
            total.state.astype("<i8").tobytes(),
        )
        id_key = run.derive("data ids", "")  # of all transforms, so that they give the same data the same ids
        ids = from_list(data_id(id_key, source, key, window) for source in self._sources)
        total = Sketch.from_state(total.projection, total.state, total.mass, ids=ids)
        yield key, plan.draw(total, bits)
        Metrics.counter(METRICS, "releases").inc()
        if self._count and total.mass == 0:
            Metrics.counter(METRICS, "keys_without_data").inc()
