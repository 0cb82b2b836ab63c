"""From exact sketches to releases, each drawn once whatever the runner retries."""

import dataclasses
import functools
import os
from collections.abc import Iterator
from typing import Any, Self

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import TimestampTypes

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected, keys_text
from streamsketch.beam.intake.keys import Keys, PublicKeys, as_dict
from streamsketch.beam.intake.windows import KeepWindows, WindowRange, require_one_pane
from streamsketch.beam.release.contribute import RoundContribution, RoundDraw
from streamsketch.beam.release.draws import KeyedDraw, RowDraw
from streamsketch.beam.release.rows import ScheduledWindows, guarantee_of_rows, publisher_of_rows
from streamsketch.beam.release.select import selection_of
from streamsketch.beam.run.charges import Charge, WindowCharge, charged_secret, span_of
from streamsketch.beam.run.known import Known, as_one_release, known_of, sources_of, with_known
from streamsketch.beam.run.once import PublishOnce
from streamsketch.beam.run.ordering import shards_of
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.beam.run.runs import has_stream, label_in
from streamsketch.beam.run.steps import Each
from streamsketch.beam.streams.opening import OpenWindows
from streamsketch.beam.streams.secret import clock_of
from streamsketch.core.documents import TableKey
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection
from streamsketch.release.composition import compose
from streamsketch.release.publishers import Publisher, check_for_tables
from streamsketch.release.terms_kept import keys_for
from streamsketch.sketching.sketch import Sketch

CLOCK = "the times by which a stream's windows end do not depend on what one unit contributes"


class ReleasePerKey(beam.PTransform):
    """Publish each key's sketch once: ``PCollection[KV[key, Sketch]] → PCollection[KV[key, published]]``.

    The publisher determines what is published, and with which guarantee: `AdditiveNoise` makes a `PrivateSketch`, the
    mechanisms of `streamsketch.signs` make a `SignSketch`, and `RoundContribution` makes the bytes that a party sends
    to a round. The guarantee holds for the table of releases (Theory 4.2). Its neighbours must follow from what
    `BoundContributions` enforced. If nothing was enforced, they are your assertion of what one unit contributes to all
    keys and windows together.

    The set of keys would reveal data, so it must be public, or chosen privately. With ``public_keys``, each of them is
    released, a key without data as noise or coin flips alone, and data of other keys are dropped. With
    ``selected_keys``, the same holds for the keys that `SelectKeys` chose.

    In `TumblingWindows`, each key is released once in each window, when the watermark passes its end. Which windows
    have data would reveal data as well, so ``public_keys`` need ``public_windows``. Data that arrive later are not
    released.

    With a schedule (``AdditiveNoise(…, schedule=…)``), the releases of a key are rows, as `Releaser` makes them: one
    for each of ``public_windows`` in order, empty or not. `streamsketch.continual.History` reads any range of windows
    from them. There are at most as many rows as the schedule's horizon; ``(start, None)`` ends there as well. One
    guarantee covers all rows of all keys, for one unit in as many windows as the schedule allows: "one aircraft in one
    of 365 windows of 86400 s". It does not cover a unit in more windows, unless `BoundAcrossWindows` drops the others.
    Pass it the schedule's ``max_windows``, and a period of the schedule's horizon that begins with the first window.

    If the agreement has counts and units were counted, as `BoundContributions` does under `L1` and `SketchL2`,
    `AdditiveNoise` publishes their number beside the cells, also for keys without data.

    The noise is idempotent: its bits are SHAKE-256 of a secret that is drawn from the operating system when the job
    runs, and of everything that determines the release, including its exact input. A retried bundle publishes the same
    bytes. Each run of a pipeline draws a new secret, so it is another release, with independent noise, and its ε adds
    up. The secret is not in the job's specification. `configure_run` describes where it is kept, root keys, and runners
    such as Flink that may compute a step again.

    Releases leave in the order of windows and keys, which does not depend on the data, if the runner keeps an order: in
    one group if few public keys are listed, otherwise in shards by a hash of the key. `WriteTable` writes one sorted
    file on any runner. Sinks such as ``WriteToText`` and ``WriteToParquet`` keep the order in which elements arrive.

    Parameters
    ----------
    publisher
        `streamsketch.AdditiveNoise`, a mechanism of `streamsketch.signs`, or a `RoundContribution`. Use the same
        neighbours as for `BoundContributions`. If each window was bounded by itself, releases name the unit
        "aircraft in one window of 3600 s". Mechanisms with conditions on each vector, such as `DPSignRPRR`, guarantee
        nothing for keys without data.
    assert_bounds
        As in `Sketch.release`: your assertion that the data keep to the neighbours although they were bounded
        differently, or passed another step between `BoundContributions`, `SketchPerKey` and this transform. Guarantees
        state that it is asserted.
    public_keys
        The keys to release, chosen without looking at the data: text, bytes or integers in a list; a `pathlib.Path` to
        a text file with one key per line; or a PCollection in the global window. An agreement casts them to its type.
        Without one they must have the data's type: 7 and "7" are different keys, and the one without data is released
        as noise alone.
    selected_keys
        The keys to release, from `SelectKeys`; its ε and δ are added to each guarantee.
    keys_are_public
        Your assertion that the keys in the data are public, and so are the windows in which each has data; a
        condition of the guarantee.
    public_windows
        The pair (start, stop), in seconds since 1970-01-01T00:00Z or as Beam timestamps. Only windows that overlap
        [start, stop) are released. ``(start, None)`` is for a stream without an end, where windows open as time passes.
    projection
        The sketches' projection. Required if they do not come directly from `SketchPerKey`; other projections are
        refused.
    count_private_data
        Count keys without data and keys dropped as Beam metrics (``keys_without_data``, ``keys_dropped``). These
        counts depend on the data and carry no noise, so they are for the operator's eyes only, as is what runners
        count themselves (elements and bytes of every step). ``releases`` is always counted.
    ledger, dataset
        File or URL of a `streamsketch.Ledger`, and the ledger's name for the data set. Each run of the pipeline is
        charged once, for all its releases together, before the first is drawn. A retry costs nothing. If the charge
        does not fit, the job ends. A stream (`configure_stream`) is charged for each window, for each period of
        `BoundAcrossWindows`, or once for all windows of a schedule, and for the unit of the bounds. A window that does
        not fit is left out; see `with_refused`. Workers open the ledger, so more than one machine needs PostgreSQL. Do
        not put a password in the URL.

    Raises
    ------
    TypeError
        If the publisher's guarantee does not hold for tables, as with individual privacy.
    InvalidInputError
        If not exactly one of ``public_keys``, ``selected_keys`` and ``keys_are_public`` is given; if the neighbours do
        not follow from those that were enforced; if the sketches' projection is not known; if windows or triggers could
        publish a key twice; if the runner needs claims (`configure_run`); and as in `streamsketch.Sketch.release`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import RowsToBatches, SketchPerKey
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", value="flights")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1), ("UA", 18, 2)])
    ...         | RowsToBatches(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=L1(1)), public_keys=["AA", "DL", "UA"])
    ...     )
    """

    def __init__(  # noqa: PLR0913 - what to release, and what is known of it
        self,
        publisher: Publisher[Any] | RoundContribution,
        *,
        public_keys: Keys | None = None,
        selected_keys: beam.PCollection | None = None,
        keys_are_public: bool = False,
        public_windows: tuple[TimestampTypes, TimestampTypes | None] | None = None,
        assert_bounds: bool = False,
        projection: Projection | None = None,
        count_private_data: bool = False,
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        super().__init__()
        _check_publisher(publisher, named=public_keys is not None)
        if (public_keys is not None) + (selected_keys is not None) + keys_are_public != 1:
            raise InvalidInputError(
                "which keys have data is private; pass exactly one of public_keys (the keys to release, chosen "
                "without looking at the data), selected_keys (from SelectKeys) and keys_are_public=True"
            )
        if public_windows is not None and public_keys is None:
            raise InvalidInputError(
                "public_windows needs public_keys, because each public key is released in each of the windows; pass "
                "public_keys, or leave out public_windows"
            )
        self._named = self._public_keys = None if public_keys is None else PublicKeys(public_keys)
        self._selected, self._selection = selected_keys, None if selected_keys is None else selection_of(selected_keys)
        if isinstance(publisher, RoundContribution):
            projection = publisher.agreed.projection
        elif projection is not None:
            publisher.calibrated(projection)  # fail before the job runs
        self._windows = None if public_windows is None else WindowRange(*public_windows)
        self._publisher, self._assert_bounds, self._projection = publisher, assert_bounds, projection
        self._count_private_data, self._charge = count_private_data, Charge.of(ledger, dataset)
        self._keys_are_public = keys_are_public
        self._late = self._refused = False

    def display_data(self) -> dict[str, Any]:
        """Show the publisher, but no secret, in the runner's interface."""
        return {"publisher": repr(self._publisher)}

    def with_late_data(self) -> Self:
        """Return two collections, ``(releases, late)``. Late sketches are **secret**, for monitoring only."""
        self._late = True
        return self

    def with_refused(self) -> Self:
        """Return one more collection, ``(…, refused)``, of keys in windows that a stream's ledger refused to cover."""
        self._refused = True
        return self

    def expand(self, sketches: beam.PCollection) -> Any:
        """Apply the transform."""
        refuse_broken_runner(sketches.pipeline)
        require_one_pane(sketches)
        is_stream = has_stream(sketches.pipeline)
        # a stream has the same data in a window, whichever source reads them
        sources = ["stream"] if is_stream else sources_of(sketches)
        if isinstance(self._publisher, RoundContribution):
            self._publisher.enter(sketches, self._named)
        facts = known_of(sketches)
        projection = self._agreed_projection(facts)
        schedule = getattr(self._publisher, "schedule", None)
        of = None if schedule is None else self._scheduled(schedule, sketches)
        publisher = self._publisher_for(facts, of)
        if of is not None:  # rows are summed with the weights that their noise allows
            publisher = publisher.fitted(projection)
            of = of._replace(schedule=publisher.schedule)
        guarantee = self._guarantee(publisher, projection, facts, of)
        in_windows = not isinstance(sketches.windowing.windowfn, GlobalWindows)
        conditions = conditions_of_keys(keys_are_public=self._keys_are_public, in_windows=in_windows)
        guarantee = with_conditions(guarantee, *conditions)
        if self._named is not None:
            self._public_keys = self._named.with_agreement(facts.agreement)
        self._check_keys(facts.agreement)
        if clock_of(sketches.pipeline) == "events":
            guarantee = with_conditions(guarantee, CLOCK)
        secret = functools.partial(charged_secret, charge=self._charge, guarantee=guarantee, projection=projection)
        charge = self._window_charge(sketches, facts, guarantee, projection, of)
        options: dict[str, Any] = {
            "opened": self._windows is not None and self._windows.stop is None,
            "count": self._count_private_data,
        }
        of_all = publisher, projection, guarantee, sources, facts.agreement, facts.bounds
        kind = RoundDraw if isinstance(publisher, RoundContribution) else KeyedDraw
        draw = (
            kind(*of_all, **options)
            if of is None
            else RowDraw(*of_all, **options, of=of, label=label_in(sketches.pipeline))
        )
        releases, late, *refused = self._with_empty_sketches(sketches, projection, of) | "Release" >> PublishOnce(
            draw,
            "noise",
            shards=self._shards(sketches, projection),
            secret=secret,
            charge=charge,
            sums=draw.sums if isinstance(draw, RowDraw) else None,
            keys=self._number_of_keys,
        )
        releases = as_one_release(releases)
        further = [with_known(late, Known(projection, late=True))] if self._late else []
        further += refused if self._refused else []
        return (releases, *further) if further else releases

    def _scheduled(self, schedule: Schedule, sketches: beam.PCollection) -> ScheduledWindows:
        """Return the windows of a schedule."""
        if self._public_keys is None:
            raise InvalidInputError(
                "a schedule publishes a row of each key for each window, with or without data; pass public_keys and "
                "public_windows"
            )
        return ScheduledWindows.of(schedule, self._windows, sketches.windowing)

    def _window_charge(
        self,
        sketches: beam.PCollection,
        facts: Known,
        guarantee: Guarantee,
        projection: Projection,
        of: ScheduledWindows | None,
    ) -> WindowCharge | None:
        is_charged = self._charge is not None and has_stream(sketches.pipeline)
        if self._refused and not is_charged:
            raise InvalidInputError(
                "with_refused needs a stream (configure_stream) with a ledger, because in any other job a refused "
                "charge ends the job; leave it out"
            )
        if self._charge is None or not is_charged:
            return None
        if self._selected is not None:
            raise InvalidInputError(
                "a stream with a ledger cannot use selected_keys, because SelectKeys draws noise in each window "
                "before the charge; pass public_keys"
            )
        unit = guarantee.neighbours.unit
        span = span_of(sketches.windowing, facts.span, unit) if of is None else of.span(facts, unit)
        label = label_in(sketches.pipeline)
        return WindowCharge(self._charge, guarantee, projection, label, span, rows=of is not None)

    @property
    def _number_of_keys(self) -> int | None:
        listed = None if self._public_keys is None else self._public_keys.listed
        return None if listed is None else len(listed)

    def _shards(self, sketches: beam.PCollection, projection: Projection) -> int | None:
        """Return how many shards hold the releases, if their number is known beforehand."""
        listed = None if self._public_keys is None else self._public_keys.listed
        if listed is None:
            return None
        windows = 1 if self._windows is None else self._windows.count(sketches.windowing)
        return shards_of(len(listed) * windows, 8 * projection.sketch_dim)

    def _publisher_for(self, facts: Known, of: ScheduledWindows | None) -> Any:
        """Return the publisher with the relation that holds for these data, if it has the one that was bounded to.

        It publishes counts of units as the agreement states, if units were counted.
        """
        holds = facts.bounds.neighbours
        publisher: Any = self._publisher
        if of is not None:
            return publisher_of_rows(publisher, facts, of)
        if facts.neighbours == publisher.neighbours != holds and facts.bounds.is_enforced:
            publisher = dataclasses.replace(publisher, neighbours=holds)
        return publisher.counted_as(facts.bounds, facts.agreement) if isinstance(publisher, Publisher) else publisher

    def _guarantee(
        self, publisher: Any, projection: Projection, facts: Known, of: ScheduledWindows | None
    ) -> Guarantee:
        guarantee: Guarantee
        if of is not None:
            return guarantee_of_rows(publisher, projection, facts, of, assert_bounds=self._assert_bounds)
        if isinstance(publisher, RoundContribution):
            guarantee = publisher.guarantee_on(facts, assert_bounds=self._assert_bounds)
        else:
            guarantee = publisher.calibrated(projection).guarantee_for(facts, assert_bounds=self._assert_bounds)
        if self._selection is None:
            return guarantee
        if self._selection.neighbours != guarantee.neighbours:
            raise InvalidInputError(
                f"the keys were selected for {self._selection.neighbours!r}, but the release is for "
                f"{guarantee.neighbours!r}; use the same events and neighbours for both"
            )
        # ε and δ add up (Dwork and Roth 2014, Theorem 3.16)
        return compose([guarantee, self._selection], populations="overlapping")

    def _check_keys(self, agreement: Agreement | None) -> None:
        """Raise `IncompatibleAgreementsError` if other keys are released than the agreement publishes."""
        if agreement is None or agreement.keys is None:
            return
        if self._selection is not None:
            if not isinstance(agreement.keys, Selected) or agreement.keys.budget != self._selection.budget:
                raise IncompatibleAgreementsError(
                    f"the agreement publishes {keys_text(agreement.keys)}, and these are selected with "
                    f"{self._selection.budget}: pass the keys that are agreed"
                )
            return
        listed = None if self._public_keys is None else self._public_keys.listed
        if self._public_keys is not None and listed is None and agreement.keys != "public":
            raise IncompatibleAgreementsError(
                f"the agreement publishes {keys_text(agreement.keys)}, which cannot be compared with a file or a "
                "collection before the job runs: pass a list, such as public_keys=agreement.keys"
            )
        if self._public_keys is None or listed is not None:
            keys_for(agreement, listed, keys_are_public=self._keys_are_public, in_windows=True)

    def _agreed_projection(self, facts: Known) -> Projection:
        if facts.projection is not None and self._projection is not None:
            facts.projection.check_same(self._projection)
        projection = facts.projection or self._projection
        if projection is None:
            raise InvalidInputError(
                "the projection of the sketches is not known, because they do not come directly from SketchPerKey; "
                "pass projection=…"
            )
        return projection

    def _with_empty_sketches(
        self, sketches: beam.PCollection, projection: Projection, of: ScheduledWindows | None
    ) -> beam.PCollection:
        """Return the sketches of the keys to release, and an empty sketch for each of these."""
        if self._selected is not None:
            if self._selected.windowing != sketches.windowing:
                raise InvalidInputError(
                    "the selected keys and the sketches are in different windows; apply SelectKeys to the events "
                    "that are sketched"
                )
            selected = as_dict(self._selected)
            kept = sketches | "Keep selected keys" >> beam.Filter(
                lambda keyed, selected: keyed[0] in selected, selected
            )
            keys = self._selected
        elif self._public_keys is not None:
            keys = self._public_keys.collection(sketches.pipeline)
            kept = self._public_keys.keep(sketches, keys, count=self._count_private_data)
            if not isinstance(sketches.windowing.windowfn, GlobalWindows):
                kept, keys = self._in_public_windows(kept, keys, of)
        else:
            return sketches
        empty = beam.ParDo(Each(_empty_sketch, projection))
        empties = keys | "Empty sketches" >> empty.with_output_types(beam.typehints.KV[Any, Sketch])
        return (kept, empties) | "Add keys without data" >> beam.Flatten()

    def _in_public_windows(
        self, kept: beam.PCollection, keys: beam.PCollection, of: ScheduledWindows | None
    ) -> tuple[beam.PCollection, beam.PCollection]:
        if self._windows is None:
            raise InvalidInputError(
                "the windows in which a key has data are private; pass public_windows=(start, stop), in which every "
                "public key is released, or use SelectKeys(…) or keys_are_public=True"
            )
        windows = self._windows if of is None else of.range  # which ends with the schedule
        in_range = beam.ParDo(KeepWindows(windows)).with_output_types(kept.element_type)
        if self._windows.stop is not None:
            return kept | "Keep public windows" >> in_range, self._windows.times(keys, kept.windowing)
        if kept.is_bounded:
            raise InvalidInputError(
                f"public_windows=({self._windows.start}, None) never ends, but the input does; pass a stop as well"
            )
        opened = keys | "Open windows" >> OpenWindows(kept, windows)
        # an empty sketch of data would pass for one that opens the window
        some = (
            kept
            | "Keep public windows" >> in_range
            | "Drop empty sketches" >> beam.Filter(_has_data).with_output_types(kept.element_type)
        )
        return some, opened


def _check_publisher(publisher: Any, *, named: bool) -> None:
    if not isinstance(publisher, RoundContribution):
        check_for_tables(publisher)
    if named and (conditions := getattr(publisher, "conditions", ())):  # as Calibrated.check_public_keys
        raise InvalidInputError(
            f"{type(publisher).__name__} has no guarantee for keys without data: {'; '.join(conditions)}. Use "
            "DPSignRPRRSmooth or DPSignLogistic, which hold for every vector, or keys_are_public=True"
        )


def _has_data(keyed: tuple[Any, Sketch]) -> bool:
    return keyed[1].mass > 0


def _empty_sketch(key: TableKey, projection: Projection) -> Iterator[tuple[Any, Sketch]]:
    yield key, Sketch(projection)
