"""From exact sketches to releases, each drawn once whatever the runner retries."""

import dataclasses
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow, GlobalWindows
from apache_beam.utils.timestamp import TimestampTypes

from streamsketch.agreement import Agreement
from streamsketch.beam.intake.keys import Keys, PublicKeys, as_dict
from streamsketch.beam.intake.windows import KeepWindows, WindowRange, require_one_pane
from streamsketch.beam.release.select import SelectedKeys
from streamsketch.beam.run.charges import Charge, WindowCharge, charged_secret, span_of
from streamsketch.beam.run.draws import KeyedDraw
from streamsketch.beam.run.marked import SecretCollection, sources_of
from streamsketch.beam.run.once import Draw, PublishOnce
from streamsketch.beam.run.ordering import shards_of
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.beam.run.runs import RunSecret, has_stream, label_in
from streamsketch.beam.run.steps import Each
from streamsketch.beam.streams.opening import OpenWindows
from streamsketch.beam.streams.secret import clock_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Basis, BitSource, Budget, Guarantee, Neighbours, Sensitivity, calibration
from streamsketch.projections import Projection
from streamsketch.release import AdditiveNoise, Calibrated, PrivateSketch, Publisher
from streamsketch.sketching import Sketch

CLOCK = "the times by which a stream's windows end do not depend on what one unit contributes"


class ReleaseOnce(beam.PTransform, ABC):
    """Publish each key's sketch once; what is published of one, a subclass says in `_publisher`.

    Parameters
    ----------
    neighbours
        Your assertion of what one privacy unit contributes, where the sketches carry no bounds.
    public_keys, selected_keys, keys_are_public, public_windows, projection, count_private_data
        As in `ReleasePerKey`.
    charge
        What each run is charged to, if anything.
    """

    published: ClassVar[type[Any]]
    """Type of what is published."""

    def __init__(
        self,
        *,
        neighbours: Neighbours | None,
        public_keys: Keys | None,
        selected_keys: SelectedKeys | None,
        keys_are_public: bool,
        public_windows: tuple[TimestampTypes, TimestampTypes | None] | None,
        projection: Projection | None,
        count_private_data: bool,
        charge: Charge | None,
    ) -> None:
        super().__init__()
        if (public_keys is not None) + (selected_keys is not None) + keys_are_public != 1:
            raise InvalidInputError(
                "the set of keys would leak: give public_keys, the keys to release known without looking at the data, "
                "or selected_keys from SelectKeys, or say keys_are_public=True (one of the three)"
            )
        if public_windows is not None and public_keys is None:
            raise InvalidInputError("public_windows stands beside public_keys: each key is released in each window")
        if not isinstance(selected_keys, SelectedKeys | None):
            raise InvalidInputError(
                "selected_keys must be what SelectKeys returns, so that its share of epsilon and delta is known; keys "
                "known beforehand are public_keys"
            )
        self._named = self._public_keys = None if public_keys is None else PublicKeys(public_keys)
        self._selected = selected_keys
        self._windows = None if public_windows is None else WindowRange(*public_windows)
        if not isinstance(neighbours, Neighbours | None):
            raise TypeError(f"neighbours must be L1(bound) or OneCoordinate(bound), got a {type(neighbours).__name__}")
        self._neighbours = neighbours
        self._projection = projection
        if projection is not None and neighbours is not None:
            self._publisher(neighbours).calibrated(projection)  # fail before the job runs
        self._count_private_data, self._charge = count_private_data, charge
        self._late = self._refused = False

    @abstractmethod
    def _publisher(self, neighbours: Neighbours) -> Publisher[Any]:
        """Return what publishes a sketch, once the neighbour relation is known."""

    def with_late_data(self) -> Self:
        """Return two collections, ``(releases, late)``: late sketches are **secret**, for monitoring only."""
        self._late = True
        return self

    def with_refused(self) -> Self:
        """Return one more collection, ``(…, refused)``: keys, in windows that a stream's ledger refused to cover."""
        self._refused = True
        return self

    def expand(self, sketches: beam.PCollection) -> Any:
        """Apply the transform."""
        refuse_broken_runner(sketches.pipeline)
        require_one_pane(sketches)
        is_stream = has_stream(sketches.pipeline)
        # whatever reads it, a stream's data in a window are the same
        sources = ["stream"] if is_stream else sources_of(sketches)
        neighbours, basis = self._agreed_neighbours(sketches)
        publisher = self._publisher(neighbours)
        projection = self._agreed_projection(sketches)
        guarantee = publisher.calibrated(projection).guarantee.on(basis)  # fail before the job runs
        if self._selected is not None:
            guarantee = self._selected.added_to(guarantee)
        agreement = _agreement_of(sketches)
        if self._named is not None:
            self._public_keys = self._named.under(agreement)
        followed = None if agreement is None else agreement.fingerprint
        opened = self._windows is not None and self._windows.stop is None
        if clock_of(sketches.pipeline) == "events":
            guarantee = dataclasses.replace(guarantee, conditions=[*guarantee.conditions, CLOCK])
        draw = self._drawing(publisher, projection, guarantee, sources, followed, opened=opened)
        secret = functools.partial(charged_secret, charge=self._charge, guarantee=guarantee, projection=projection)
        charge = self._window_charge(sketches, guarantee, projection)
        releases, late, *refused = self._with_empty_sketches(sketches, projection) | "Release" >> PublishOnce(
            draw, "noise", *self._shards(sketches, projection), secret=secret, charge=charge
        )
        further = [SecretCollection(late, projection, late=True)] if self._late else []
        further += refused if self._refused else []
        return (releases, *further) if further else releases

    def _window_charge(
        self, sketches: beam.PCollection, guarantee: Guarantee, projection: Projection
    ) -> WindowCharge | None:
        is_charged = self._charge is not None and has_stream(sketches.pipeline)
        if self._refused and not is_charged:
            raise InvalidInputError("only a stream with a ledger has refused windows: a ledger ends any other job")
        if self._charge is None or not is_charged:
            return None
        if self._selected is not None:
            raise InvalidInputError(
                "SelectKeys draws in each window before the ledger is asked; charge a stream with public_keys"
            )
        known = sketches.span if isinstance(sketches, SecretCollection) else None
        span = span_of(sketches.windowing, known, guarantee.neighbours.unit)
        return WindowCharge(self._charge, guarantee, projection, label_in(sketches.pipeline), span)

    def _drawing(
        self,
        publisher: Publisher[Any],
        projection: Projection,
        guarantee: Guarantee,
        sources: Sequence[str],
        agreement: str | None,
        *,
        opened: bool,
    ) -> Draw:
        """Return what is drawn of each key."""
        how = {"opened": opened, "count": self._count_private_data}
        return _Release(publisher, self.published, agreement, projection, guarantee, sources, **how)

    def _shards(self, sketches: beam.PCollection, projection: Projection) -> list[int]:
        """Return how many shards hold the releases, if their number is known beforehand."""
        listed = None if self._public_keys is None else self._public_keys.listed
        if listed is None:
            return []
        windows = 1 if self._windows is None else self._windows.count(sketches.windowing)
        return [shards_of(len(listed) * windows, 8 * projection.sketch_dim)]

    def _agreed_neighbours(self, sketches: beam.PCollection) -> tuple[Neighbours, Basis]:
        """Return the relation of the release, and whether it was enforced on these sketches or is asserted of them."""
        bounded = sketches.neighbours if isinstance(sketches, SecretCollection) else None
        agreed = bounded or self._neighbours
        if agreed is None:
            raise InvalidInputError(
                "nothing says how much one privacy unit contributes. Any step that is not SketchPerKey may move events "
                "to other keys or windows, or double them, so bounds are known of what comes straight from it alone: "
                "apply BoundContributions to the events, SketchPerKey to what it returns, and the release to that; or "
                "give neighbours, your assertion of what holds"
            )
        if self._neighbours not in (None, agreed):
            raise InvalidInputError(
                f"neighbours={self._neighbours!r} but the events were bounded to {agreed!r}; leave neighbours out, or "
                f"give these"
            )
        if self._selected is not None and self._selected.guarantee.neighbours != agreed:
            raise InvalidInputError(
                f"the keys were selected for {self._selected.guarantee.neighbours!r} but the release is for "
                f"{agreed!r}; use the same events and neighbours for both"
            )
        if bounded is not None and isinstance(sketches, SecretCollection) and sketches.enforced:
            return agreed, "enforced"
        agreement, span = _agreement_of(sketches), getattr(sketches, "span", None)
        whole = agreed if span is None else dataclasses.replace(agreed, unit=span.unit)  # implies its part in a window
        known = None if agreement is None else agreement.neighbours
        if known is not None and not known.implies(whole):
            raise InvalidInputError(
                f"these data were sketched under an agreement for {known}, which does not imply {whole}. Release them "
                f"for neighbours={known!r}, bound the events by BoundContributions, or sketch them by the projection "
                f"alone: the bound is then your assertion, and releases carry no agreement"
            )
        return agreed, "asserted"

    def _agreed_projection(self, sketches: beam.PCollection) -> Projection:
        known = sketches.projection if isinstance(sketches, SecretCollection) else None
        if known is not None and self._projection is not None:
            known.check_same(self._projection)
        found = known or self._projection
        if found is None:
            raise InvalidInputError(
                "the release needs projection=…, that of the sketches: they do not come straight from SketchPerKey, "
                "and whether there are any to read it off depends on the data"
            )
        return found

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
        empty = beam.ParDo(Each(_empty_sketch, projection))
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
        in_range = beam.ParDo(KeepWindows(self._windows)).with_output_types(kept.element_type)
        if self._windows.stop is not None:
            return kept | "Keep public windows" >> in_range, self._windows.times(keys, kept.windowing)
        if kept.is_bounded:
            raise InvalidInputError(
                f"public_windows=({self._windows.start}, None) never ends, but the input does; give the stop as well"
            )
        opened = keys | "Open windows" >> OpenWindows(kept, self._windows)
        # what adds nothing would pass for what opened the window
        some = (
            kept
            | "Keep public windows" >> in_range
            | "Drop empty sketches" >> beam.Filter(_has_data).with_output_types(kept.element_type)
        )
        return some, opened


class ReleasePerKey(ReleaseOnce):
    """Publish each key's sketch once: ``PCollection[KV[key, Sketch]] → PCollection[KV[key, PrivateSketch]]``.

    The table of releases is (ε, δ)-differentially private for the neighbour relation that `BoundContributions` enforced
    (THEORY.md 4.2), or for ``neighbours``, which you assert. The set of keys would leak, so it must be public,
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
        As in `Sketch.release`, where the sketches do not come from `BoundContributions` through `SketchPerKey` alone:
        your assertion of how much one unit contributes, to all keys and windows together.
    public_keys
        The keys to release, known without looking at the data: text, bytes or integers in a list; a `pathlib.Path` to a
        text file with one key a line; or a PCollection in the global window. An agreement casts them to its type;
        without one they must be of the data's: 7 and "7" are two keys, and the one without data is noise alone.
    selected_keys
        The keys to release, from `SelectKeys`; its ε and δ are added to each guarantee.
    keys_are_public
        Your assertion that the keys found in the data are public, and the windows each has data in.
    public_windows
        (start, stop), in seconds since 1970-01-01T00:00Z or Beam timestamps: the windows that overlap [start, stop)
        are released, and no others. ``(start, None)`` for a stream that never ends: windows open as time goes on.
    projection
        The sketches' projection, which they are held to. Needed where they do not come straight from `SketchPerKey`.
    count_private_data
        Count keys without data and keys dropped as Beam metrics (``keys_without_data``, ``keys_dropped``). These
        counts depend on the data and carry no noise, so they are for the operator's eyes only, as is what runners
        count themselves (elements and bytes of every step). ``releases`` is always counted.
    ledger, dataset
        A `streamsketch.Ledger`, by its file or URL, and what it calls the data set. Each run of the pipeline is charged
        once, for all its releases together, before the first is drawn; a retry costs nothing, and what does not fit
        ends the job. A stream (`configure_stream`) is charged once for each window, or for each period of
        `BoundAcrossWindows`, and for the unit that the bounds name; a window that does not fit is left out, see
        `with_refused`. Workers open the ledger: more than one machine needs PostgreSQL. No password belongs in the URL.

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

    published = PrivateSketch

    def __init__(  # noqa: PLR0913 - each of them is part of what is guaranteed
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        neighbours: Neighbours | None = None,
        mechanism: str = "auto",
        public_keys: Keys | None = None,
        selected_keys: SelectedKeys | None = None,
        keys_are_public: bool = False,
        public_windows: tuple[TimestampTypes, TimestampTypes | None] | None = None,
        projection: Projection | None = None,
        count_private_data: bool = False,
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        self._budget, self._mechanism = Budget(epsilon, delta), mechanism
        calibration.choose(Sensitivity(1, 1, 1), self._budget, mechanism)  # fail before the job runs
        super().__init__(
            neighbours=neighbours,
            public_keys=public_keys,
            selected_keys=selected_keys,
            keys_are_public=keys_are_public,
            public_windows=public_windows,
            projection=projection,
            count_private_data=count_private_data,
            charge=Charge.of(ledger, dataset),
        )

    def display_data(self) -> dict[str, Any]:
        """Show the guarantee in the runner's interface; never a secret."""
        return {
            **self._budget.to_dict(),
            "neighbours": "as bounded" if self._neighbours is None else repr(self._neighbours),
            "mechanism": self._mechanism,
        }

    def _publisher(self, neighbours: Neighbours) -> AdditiveNoise:
        return AdditiveNoise(**self._budget.to_dict(), neighbours=neighbours, mechanism=self._mechanism)


def _agreement_of(sketches: beam.PCollection) -> Agreement | None:
    return sketches.agreement if isinstance(sketches, SecretCollection) else None


def _has_data(keyed: tuple[Any, Sketch]) -> bool:
    return keyed[1].mass > 0


def _empty_sketch(key: Any, projection: Projection) -> Iterator[tuple[Any, Sketch]]:
    yield key, projection.sketch()


class _Release(KeyedDraw):
    def __init__(
        self,
        publisher: Publisher[Any],
        published: type[Any],
        agreement: str | None,
        *common: Any,
        opened: bool,
        count: bool,
    ) -> None:
        super().__init__(*common, count=count)
        self.published, self._opened = published, opened
        self._publisher, self._agreement = publisher, agreement

    def is_first(self, values: list[Sketch]) -> bool:
        """Return whether the window was opened for these values: it ends again where a restore forgets the time."""
        return not self._opened or any(sketch.mass == 0 for sketch in values)

    def draw(self, total: Sketch, bits: BitSource, key: Any, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        released = self._calibrated.release(self._with_ids(total, key, window, run), bits)
        yield released if self._agreement is None else released.under(self._agreement)
        self._note(total)

    @functools.cached_property
    def _calibrated(self) -> Calibrated[Any]:
        return self._publisher.calibrated(self._projection).with_guarantee(self._guarantee)
