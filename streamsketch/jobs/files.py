"""A job on files that releases a sketch of every key and all cosines and squared distances between keys."""

import dataclasses
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.compare.tables import WriteTable
from streamsketch.beam.intake.bound import BoundContributions
from streamsketch.beam.intake.read import ReadColumns, read_batches
from streamsketch.beam.intake.sketch import SketchPerKey
from streamsketch.beam.release.release import ReleasePerKey
from streamsketch.data.calendar import EventWindows, check_times_of_day, event_windows
from streamsketch.data.formats import check_format
from streamsketch.data.windows import times_in
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import numbers_of
from streamsketch.jobs.results import SKETCHES, clear, read_releases, write_results
from streamsketch.jobs.run import RunSecrets, beam_options
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.layout import CELLS
from streamsketch.privacy.neighbours import Clip
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.private_table import PrivateTable


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesJob:
    """Sketch files by an agreement, release each key once, and compare all releases: a bounded Apache Beam job.

    It writes ``sketches.parquet``, ``sketches/KEY.sketch``, and ``cosines`` and ``distances`` as Parquet and CSV. The
    table of releases is (ε, δ)-differentially private for the agreement's neighbours. The bound is enforced if the
    agreement has a unit column and ``clip`` is not ``"none"``; otherwise you assert it. If it is enforced, units are
    counted as agreed, and ``means`` has the distances of their averages.

    Parameters
    ----------
    patterns
        Files or globs, as in `streamsketch.beam.ReadColumns`.
    agreement
        The agreement that rows are cast by. It needs a key column and neighbours.
    epsilon, delta, mechanism
        As in `Sketch.release`. ε and δ are for all keys together.
    output
        Folder for the results, on any file system that Beam knows. Results of an earlier run there are removed.
    public_keys
        The keys to release, chosen without looking at the data; None asserts that the keys in the data are public.
    clip
        As in `bound`; by default as agreed, else ``"scale"``. ``"none"`` asserts that rows keep to the bound.
    delimiter, encoding, decimal, thousands, null_values
        Delimiter of CSV files, encoding of files of text, decimal point and mark of thousands of numbers in CSV, and
        cells of CSV that are missing values, as in `beam.ReadColumns`.
    window, time, time_format
        Release each key in each window by itself, under the key ``KEY 2024-05-31``. Length of a window, such as ``"1
        day"``, or ``"month"``, ``"week"`` or ``"day"`` of the calendar; column of times; format of times in text, as
        for ``strptime``.
    zone
        Time zone of the calendar, such as ``"Europe/Berlin"``; by default UTC.
    secrets
        Where the secret of the noise is kept.

    Raises
    ------
    InvalidInputError
        If a job on files cannot follow the agreement, there are fewer than two public keys, or options contradict each
        other.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, Agreement
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="shop", index="item", value="sold", neighbours=L1(1, unit="sale"))
    >>> job = FilesJob(
    ...     patterns=["sales-*.csv"],
    ...     agreement=agreement,
    ...     epsilon=1.0,
    ...     output="results",
    ...     public_keys=["north", "south"],
    ... )
    >>> print(job.guarantee)
    ε = 1, δ = 0 for one sale of at most 1 (L1), by discrete Laplace, scale 4

    ``job.run()`` then reads the files, writes the results, and returns the table of releases.
    """

    patterns: Sequence[str]
    agreement: Agreement
    epsilon: float
    output: str
    delta: float = 0.0
    mechanism: str = "auto"
    public_keys: Sequence[Any] | None = None
    clip: Clip | Literal["none"] | None = None
    delimiter: str = ","
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    null_values: Sequence[str] = ()
    window: str | None = None
    time: str | None = None
    time_format: str | None = None
    zone: str | None = None
    secrets: RunSecrets = dataclasses.field(default_factory=RunSecrets)

    def __post_init__(self) -> None:
        agreed = self.agreement
        _check_agreement(agreed)
        if agreed.unit is None and self.clip not in (None, "none"):
            raise InvalidInputError(
                f"clip={self.clip!r} needs an agreement with a unit column; make one, or leave out clip"
            )
        if self.clip != "none":
            agreed.clip_of(self.clip)
        if (self.window is None) != (self.time is None) or (self.time_format is not None and self.time is None):
            raise InvalidInputError("window and time go together, and time_format needs both; pass them together")
        check_format(self.time_format)
        if self.window is None and self.zone is not None:
            raise InvalidInputError(
                f"zone={self.zone!r} needs a window such as 'month'; pass window, or leave out zone"
            )
        if self.window is not None:
            event_windows(self.window, self.zone)
            if agreed.key.type != "text":
                raise InvalidInputError(
                    f"with a window, keys become text, but the key column {agreed.key.name} is of type "
                    f"{agreed.key.type}; make an agreement with type 'text' for it"
                )
        if self.public_keys is not None:
            # with windows, keys become text
            keys = list(self.public_keys) if self.window is not None else agreed.keys_of(self.public_keys)
            if len(keys) < 2:
                raise InvalidInputError(
                    f"a job compares keys, so it needs at least two public keys, got {keys}; pass at least two"
                )
            object.__setattr__(self, "public_keys", keys)
        neighbours: Any = agreed.neighbours
        neighbours.check_delta(self.delta, self.mechanism)
        self.publisher.guarantee(agreed.projection)  # finds mistakes before the job runs

    @property
    def is_enforced(self) -> bool:
        """Whether the job clips what units contribute."""
        return self.agreement.unit is not None and self.clip != "none"

    @property
    def publisher(self) -> AdditiveNoise:
        """The publisher, which draws the noise."""
        neighbours: Any = self.agreement.neighbours
        budget: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "mechanism": self.mechanism}
        layout = self.agreement.layout.of_one_window if self.is_enforced else CELLS
        return AdditiveNoise.of_layout(layout, **budget, neighbours=neighbours)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the table of releases."""
        stated: Guarantee = self.publisher.guarantee(self.agreement.projection)
        return with_conditions(stated, *conditions_of_keys(keys_are_public=self.public_keys is None))

    def run(self, options: Sequence[str] = ()) -> PrivateTable:
        """Run the job, with options of Beam such as ``--runner=FlinkRunner``; return the releases.

        Raises
        ------
        InvalidInputError
            If files do not follow the agreement or one is named twice, there are fewer than two keys, or the run id
            was used before.
        """
        _check_named_once(self.patterns)
        for pattern in self.patterns:  # find a missing file or column before a pipeline runs
            for _ in islice(read_batches([pattern], self.agreement, **self._reading), 1):
                pass
        pipeline = self.build(options)
        clear(self.output)
        pipeline.run().wait_until_finish()
        releases = read_releases(self.output)
        if len(releases) < 2:
            raise InvalidInputError("the data have fewer than two keys to compare; pass at least two public keys")
        write_results(releases, self.output)
        return releases

    def build(self, options: Sequence[str] = ()) -> beam.Pipeline:
        """Return the pipeline: files → columns → sketches → releases → a table."""
        pipeline = beam.Pipeline(options=beam_options(options))
        self.secrets.configure(pipeline)
        events = pipeline | "Read" >> ReadColumns(self.patterns, self.agreement, **self._reading)
        if self.window is not None:
            windows = event_windows(self.window, self.zone)
            named = beam.Map(_by_window, self.agreement, windows, self.time, self.time_format, bounded=self.is_enforced)
            events |= "Keys by window" >> named.with_output_types(pa.RecordBatch)
        if self.is_enforced:
            clip: Any = self.clip
            events |= "Bound" >> BoundContributions(self.agreement, clip=clip, public_keys=self.public_keys)
        written = (
            events
            | "Sketch" >> SketchPerKey(self.agreement)
            | "Release"
            >> ReleasePerKey(
                self.publisher,
                public_keys=self.public_keys,
                keys_are_public=self.public_keys is None,
                projection=self.agreement.projection,
            )
            | "Write" >> WriteTable(FileSystems.join(self.output, SKETCHES))
        )
        self.secrets.finish(written)
        return pipeline

    @property
    def _reading(self) -> dict[str, Any]:
        written = {"delimiter": self.delimiter, "encoding": self.encoding, "decimal": self.decimal}
        return {"time": self.time, "thousands": self.thousands, "null_values": self.null_values, **written}


def _check_named_once(patterns: Sequence[str]) -> None:
    """Raise `InvalidInputError` if two patterns, or links, name one file: its rows would count twice."""
    named: dict[str, str] = {}
    for pattern in patterns:
        for match in FileSystems.match([pattern]):
            for metadata in match.metadata_list:
                path = metadata.path
                first = named.setdefault(os.path.realpath(path) if os.path.exists(path) else path, path)  # noqa: PTH110
                if first is not path:
                    names = path if first == path else f"{first} and {path}, one file,"
                    raise InvalidInputError(f"{names} named twice; its rows would count twice")


def _by_window(
    batch: pa.RecordBatch,
    agreement: Agreement,
    windows: EventWindows,
    time: str,
    time_format: str | None,
    *,
    bounded: bool,
) -> pa.RecordBatch:
    """Return rows whose keys are followed by the name of their window.

    A row whose time is missing or cannot be read ends the job, unless units are bounded: then it is left out, since one
    unit must not end a job on many.
    """
    if bounded:
        timed, numbers = numbers_of(batch.column(time), time, time_format, windows)
        batch, numbers = batch.filter(pa.array(timed)), numbers[timed]
    else:
        check_times_of_day(windows, batch.column(time), time, time_format)
        times = times_in(batch.column(time), time, time_format).cast(pa.int64()).to_numpy(zero_copy_only=False)
        numbers = windows.number(times)
    names = windows.names(numbers).cast(pa.string())
    place = batch.schema.get_field_index(agreement.key.name)
    keys = pc.binary_join_element_wise(batch.column(place).cast(pa.string()), names, " ")
    return batch.set_column(place, batch.schema.field(place).with_type(pa.string()), keys)


def _check_agreement(agreed: Agreement) -> None:
    """Raise `InvalidInputError` if no job of files follows an agreement."""
    if agreed.key is None or agreed.neighbours is None:
        raise InvalidInputError("a job needs an agreement with a key column and neighbours; make one with both")
    if agreed.windows is not None:
        raise InvalidInputError(
            f"a job of files releases all rows of a key together, and the agreement has windows of {agreed.windows}: "
            "use `streamsketch.beam.Release` in a pipeline, or agreement.release(rows) in one process"
        )
