"""Exact discrete noise on the cells of sketches, the usual mechanism of releases."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, Self, cast, get_args

import numpy as np

from streamsketch.accounting.sensitivity import check_mechanism, guarantee_of, sensitivity_of
from streamsketch.agreement.agreement import Agreement
from streamsketch.core.numbers import Ints
from streamsketch.data import data_ids
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, NoiseTooWideError
from streamsketch.privacy import calibration
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import Noise, NoiseMoments, Sensitivity
from streamsketch.privacy.samplers import BitSource
from streamsketch.privacy.schedule import Schedule
from streamsketch.projections.base import Projection
from streamsketch.release.history import HistoryPart
from streamsketch.release.private_sketch import RELEASE_ID_BYTES, PrivateSketch, SketchClip, immutable
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.published import copy_with
from streamsketch.release.publishers import Publisher
from streamsketch.release.ready import Calibrated, Ready, ReadyRows, Stated
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch


def numbers_of(sketch: Sketch, neighbours: Neighbours, layout: Layout) -> Ints:
    """Return the exact numbers that noise is added to: the cells of a sketch, and its weighted counts behind them.

    Parameters
    ----------
    sketch
        Exact. Whoever holds its bounds has checked that it has what the layout states (`Layout.is_known`).
    neighbours, layout
        Of the release.

    Returns
    -------
    ndarray
        int64, (`Layout.width`,).
    """
    if not layout.is_counted:
        return sketch.state()
    numbers: Ints = layout.weighted(sketch.sums().rows(), neighbours, sketch.projection.grid)[0]
    return numbers


@dataclasses.dataclass(frozen=True)
class CalibratedNoise(Calibrated[PrivateSketch]):
    """Noise for the sketches of one projection.

    Parameters
    ----------
    projection, guarantee
        As in `Calibrated`.
    noise
        Distribution of each noise, in grid steps of its place.
    noise_place
        As in `PrivateSketch`. Anywhere but at the output, `published` takes what was drawn before the map.
    layers
        How many noises each published cell holds.
    """

    noise: Noise
    noise_place: NoisePlace = "output"
    layers: int = 1

    @property
    def layout(self) -> Layout:
        """What is published of each key."""
        layout: Layout = self.guarantee.mechanism.layout
        return layout

    @property
    def schedule(self) -> Schedule | None:
        """The schedule for whose rows the noise is; None for single releases."""
        return self.layout.schedule

    @property
    def holds_together(self) -> bool:
        """True, because noise on all cells of all keys hides a change of all of them together."""
        return True

    def check_single(self) -> None:
        """Raise `InvalidInputError` if this is the noise of a schedule's rows, or noise before the map."""
        if self.noise_place != "output":
            raise InvalidInputError(
                f"noise_place={self.noise_place!r} is before the map, and sketches hold what is behind it: release the "
                "whole vector with release_vector, or sketches with noise_place='output'"
            )
        if self.schedule is not None:
            raise InvalidInputError(
                f"{self.schedule} publishes rows, which are weighted sums of windows, not a single sketch or table: "
                "add each window to streamsketch.continual.Releaser(publisher, projection), or pass all windows to "
                "streamsketch.continual.release"
            )

    def for_row(
        self, exact: Ints, ids: Iterable[bytes], history: HistoryPart, bounds: Bounds, agreement: str | None
    ) -> Ready[PrivateSketch]:
        """Return a row of a schedule, ready to be drawn: a sum of windows that each passed `guarantee_for`.

        Parameters
        ----------
        exact
            Its numbers, in the order of the layout: int64, (n,).
        ids
            Published ids of the data.
        history
            Which row it is.
        bounds
            Of its data.
        agreement
            The fingerprint of the agreement of the data, if any.

        Raises
        ------
        InvalidInputError
            If the guarantee does not state the basis of its bound yet; or as `check_readable`.
        """
        if not self.layout.by_rows or self.guarantee.basis is None:
            raise InvalidInputError(
                "a row needs the guarantee of a schedule with the basis of its bound, which guarantee_for(window) "
                f"states; got {self.guarantee}"
            )
        self.layout.check_width(exact, self.projection.sketch_dim)
        return Ready(self, exact.reshape(1, -1), Stated(ids, bounds, agreement, history))

    def for_rows(self, matrix: object) -> ReadyRows[PrivateSketch]:
        """Return the rows of a matrix, ready to be drawn; see `Publisher.release_rows`."""
        if self.layout.is_counted:
            raise InvalidInputError("counting is not supported for rows of a matrix; release them without counting")
        return super().for_rows(matrix)

    def published(self, noisy: Ints, bits: BitSource, stated: Stated | None = None) -> PrivateSketch:
        """Return a release of numbers that already contain their noise.

        Parameters
        ----------
        noisy
            The numbers of a key in the order of the layout, as `numbers_of` returns exact ones: int64, (n,). Of noise
            before the map, the cells.
        bits
            For the id of the release.
        stated
            What it states of the data; by default they are new.

        Raises
        ------
        InvalidInputError
            If there are more or fewer numbers.
        """
        stated = stated or Stated()
        cells, counts = self.layout.split(noisy, self.projection.sketch_dim)
        ids = stated.ids or data_ids.new()
        return PrivateSketch(
            self.projection,
            cells,
            self._moments,
            self.guarantee,
            noise_place=self.noise_place,
            release_ids=[bits.read(RELEASE_ID_BYTES)],
            data_ids=ids.published() if isinstance(ids, DataIds) else ids,
            counts=counts,
            history=stated.history,
            agreement=stated.agreement,
            clip=self._clip_of(stated.bounds),
        )

    @functools.cached_property
    def _moments(self) -> NoiseMoments:
        return self.noise.cumulants.times(self.layers)

    @property
    def row_bytes(self) -> int:
        """Of cells and counts."""
        return 8 * self.width

    @property
    def width(self) -> int:
        """How many numbers are published of a key."""
        return self.layout.width(self.projection.sketch_dim)

    def _check_facts(self, bounds: Bounds) -> None:
        if not self.layout.is_known(bounds, self.guarantee.neighbours):
            raise InvalidInputError(
                f"there is no count of the {self.guarantee.neighbours.units} in these data. streamsketch.bound counts "
                f"units while it bounds them, to neighbours of the same kind and each key by itself; rows added later "
                f"drop the count. Bound all rows in this way, or release without counting"
            )

    def _judged_by(
        self, bounds: Bounds, agreed: Neighbours | None, *, over_windows: bool
    ) -> tuple[Bounds, Neighbours | None]:
        schedule = self.schedule
        if schedule is None:
            return bounds, agreed
        unit = self.guarantee.neighbours.unit
        if bounds.neighbours is not None and not over_windows:
            bounds = dataclasses.replace(bounds, neighbours=bounds.neighbours.over_windows(schedule, unit))
        return bounds, None if agreed is None else agreed.over_windows(schedule, unit)

    def numbers(self, sketch: Sketch) -> Ints:
        """Return the numbers of a sketch in the order of the layout; see `Calibrated.numbers`."""
        self.check_counted(sketch)
        return numbers_of(sketch, self.guarantee.neighbours, self.layout)

    def numbers_of_keys(self, sums: ExactSums, bounds: Bounds) -> Ints:
        """Return the numbers of keys in the order of the layout; see `Calibrated.numbers_of_keys`."""
        if not self.layout.is_counted:
            return sums.cells
        if not bounds.has_counts:
            raise InvalidInputError("the table has no count of units, although its guarantee states one")
        return self.layout.weighted(sums.rows(), self.guarantee.neighbours, self.projection.grid)

    def check_counted(self, sketch: Sketch) -> None:
        """Raise `InvalidInputError` if the guarantee states counts, and the sketch has none."""
        if self.layout.is_counted and sketch.counts is None:
            raise InvalidInputError("the sketch has no count of units, although its guarantee states one")

    def _clip_of(self, bounds: Bounds) -> SketchClip | None:
        """Return how each unit's sketch was clipped, where the bounds of the data show that it was, once."""
        stated, enforced = self.guarantee.neighbours, bounds.neighbours
        is_known = self.guarantee.basis == "enforced" and bounds.counted  # no unit was added twice
        is_length = stated.of_sketches and enforced is not None and stated.bound == enforced.bound
        if is_known and is_length and bounds.clip in get_args(SketchClip):
            return cast("SketchClip", bounds.clip)
        return None

    def _draw(self, exact: Ints, bits: BitSource, stated: Stated) -> list[PrivateSketch]:
        drawn = self.noise.sample(exact.size, bits).reshape(exact.shape)
        # modulo 2^64, as all sums of cells: that costs accuracy past 2^63, and no privacy (Theory 4.2)
        noisy: Ints = np.add(exact, drawn)
        return [self.published(row, bits, stated) for row in noisy]

    def _draw_each(
        self, exact: Ints, sources: Sequence[BitSource], stated: Stated, ids: Sequence[tuple[bytes, ...]]
    ) -> list[PrivateSketch]:
        noisy = self.noise.sample_each(exact.shape[1], sources)
        noisy += exact  # modulo 2^64, as in `_draw`
        first = self.published(noisy[0], sources[0], stated._replace(ids=ids[0]))
        cells, counts = self.layout.split(noisy[1:], self.projection.sketch_dim)
        releases = [first]
        for place, (row, bits, its_ids) in enumerate(zip(cells, sources[1:], ids[1:], strict=True)):
            own = {
                "_values": immutable(row),
                "_counts": None if counts is None else immutable(counts[place]),
                "_release_ids": (bits.read(RELEASE_ID_BYTES),),
                "_data_ids": tuple(data_ids.check(its_ids)),
            }
            releases.append(copy_with(first, **own))
        return releases


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdditiveNoise(Publisher[PrivateSketch]):
    """A mechanism that adds exact discrete noise to each cell; `Sketch.release` uses it.

    The release is (ε, δ)-differentially private for ``neighbours``; sources as in `Sketch.release`.

    Parameters
    ----------
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`.
    counting
        The weights of a count of units, and of slack, which are published beside the cells in the same draw. The data's
        units must be bounded to neighbours of this kind. By default nothing is counted.
    schedule
        The schedule of windows of time, if readers are to read any range of them. The noise is that of the schedule's
        rows. The guarantee covers all rows together, for one unit in as many windows as the schedule allows.
        ``neighbours`` bound what a unit adds to each window, or, for `SketchL2`, to all of them together.
        `streamsketch.continual.Releaser` makes the rows.

    Raises
    ------
    InvalidInputError, TypeError
        As in `Sketch.release`, except that `calibrated` reports noise too wide to sample; and for counting under
        neighbours for which it is not proven (`Counting`).

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
    >>> publish = AdditiveNoise(epsilon=1.0, neighbours=L1(1, unit="sale"))
    >>> print(publish.guarantee(projection))
    ε = 1, δ = 0 for one sale of at most 1 (L1), by discrete Laplace, scale 4
    >>> publish.release(projection.sketch()).values.shape
    (64,)
    """

    published = PrivateSketch
    keyed = PrivateTable

    epsilon: float
    neighbours: Neighbours
    delta: float = 0.0
    mechanism: str = "auto"
    counting: Counting | None = None
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        check_mechanism(self.neighbours, self.budget.warn_if_weak(), self.mechanism)
        if not isinstance(self.counting, Counting | None):
            raise TypeError(f"counting must be a streamsketch.privacy.Counting, got a {type(self.counting).__name__}")
        self.layout.check_for(self.neighbours)
        if not isinstance(self.schedule, Schedule | None):
            raise TypeError(f"schedule must be a streamsketch.continual.Schedule, got a {type(self.schedule).__name__}")

    @functools.cached_property
    def budget(self) -> Budget:
        """ε and δ together."""
        return Budget(self.epsilon, self.delta)

    @classmethod
    def of_layout(cls, layout: Layout, **parameters: Any) -> Self:
        """Return the publisher of a layout; ``parameters`` are the other fields."""
        return cls(counting=layout.counting, schedule=layout.schedule, **parameters)

    @functools.cached_property
    def layout(self) -> Layout:
        """What is published of each key: `counting` and `schedule` together."""
        return Layout(self.counting, self.schedule)

    def counted_as(self, bounds: Bounds, agreement: Agreement | None) -> Self:
        """Return the publisher with the counts that the agreement of the data states, if units were counted.

        A publisher that counts already, and data without an agreement, leave it as it is.
        """
        if self.counting is not None or agreement is None or not bounds.counts_for(self.neighbours):
            return self
        return dataclasses.replace(self, counting=agreement.layout.counting)

    def calibrated(self, projection: Projection) -> CalibratedNoise:
        """Return the noise for a projection's sketches; raise `InvalidInputError` if it is too wide to sample.

        The weights of a schedule are as fine as its noise allows (`fitted`).
        """
        return self._fitted(projection)[1]

    def fitted(self, projection: Projection) -> Self:
        """Return the publisher with a schedule whose noise can be drawn: its own, or one with coarser weights.

        Raises
        ------
        InvalidInputError
            As in `calibrated`.
        """
        return self._fitted(projection)[0]

    def _fitted(self, projection: Projection) -> tuple[Self, CalibratedNoise]:
        sensitivity = sensitivity_of(projection, self.neighbours, self.layout)
        try:
            return self, self.calibrated_to(projection, sensitivity)
        except NoiseTooWideError as refusal:
            coarser = None if self.schedule is None else self.schedule.coarser()
            if coarser is not None:
                return dataclasses.replace(self, schedule=coarser)._fitted(projection)  # noqa: SLF001 - of this class
            if self.schedule is None or self.schedule.scale == 1:
                raise
            raise NoiseTooWideError(
                f"{refusal}. {self.schedule} was tried with weights down to multiples of 1/{self.schedule.scale}; a "
                "Tree has no weights, and moves cells by less"
            ) from None

    def calibrated_to(
        self, projection: Projection, sensitivity: Sensitivity, *, noise_place: NoisePlace = "output"
    ) -> CalibratedNoise:
        """Return the noise for a given sensitivity, which need not be that of cells and counts."""
        layers, stated = sensitivity.layers, self.neighbours
        noise = calibration.choose(sensitivity, self.budget, self.mechanism)
        if self.schedule is not None:
            stated = dataclasses.replace(stated, unit=self.schedule.unit_over_windows(stated.unit))
        guarantee = guarantee_of(noise, self.budget, stated, layers=layers, place=noise_place, layout=self.layout)
        return CalibratedNoise(projection, guarantee, noise, noise_place, layers)
