"""From windows to the rows of a history, on any engine: their order, their exact sums, and what a row is made of."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

import numpy as np

from streamsketch.core.concealed import concealed
from streamsketch.core.numbers import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.projections.base import Projection
from streamsketch.release.additive_noise import CalibratedNoise, numbers_of
from streamsketch.release.history import HistoryPart
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.ready import Ready
from streamsketch.schedules.progress import Progress
from streamsketch.sketching.sketch import Sketch


@concealed
class Row(NamedTuple):
    """One key's row before its noise: **secret**.

    Parameters
    ----------
    place
        Its number in the history, counted from 0: that of the newest window in it.
    exact
        Its exact numbers in the order of the layout: int64, (n,).
    """

    place: int
    exact: Ints

    def ready(
        self, noise: CalibratedNoise, history: bytes, ids: Iterable[bytes], bounds: Bounds, agreement: str | None
    ) -> Ready[PrivateSketch]:
        """Return the row, ready to be drawn.

        Parameters
        ----------
        noise
            The noise of all rows, with the guarantee that all of them state.
        history
            The id of the history.
        ids
            Published ids of the key's data in the first window, which are those of all rows.
        bounds, agreement
            As in `CalibratedNoise.for_row`, with the same errors.
        """
        part = HistoryPart(history, self.place, self.place + 1, is_row=True)
        return noise.for_row(self.exact, ids, part, bounds, agreement)


@concealed
class Window(NamedTuple):
    """The next window of a history, and the rows that it completes: **secret**.

    Parameters
    ----------
    numbers
        The window's own exact numbers: int64, (keys · n,).
    rows
        The row of each key.
    """

    numbers: Ints
    rows: list[Row]

    @property
    def place(self) -> int:
        """The number of the window."""
        return self.rows[0].place


class RowSums:
    """The exact sums from which the rows of one key or several are made, window by window: **secret**.

    Every engine makes rows by this class. A row is read (`next`) before its window is taken (`take`), so that a row
    that may not be drawn leaves the sums as they were.

    Parameters
    ----------
    projection
        The map of all windows.
    guarantee
        Of the rows: it states the schedule, and what is counted.
    keys
        How many keys each window has.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, AdditiveNoise
    >>> from streamsketch.continual import Tree
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> publish = AdditiveNoise(epsilon=1.0, neighbours=L1(1, unit="sale"), schedule=Tree(horizon=365))
    >>> sums = RowSums(projection, publish.guarantee(projection))
    >>> for window in range(3):
    ...     sums.take(sums.next([projection.sketch()]))
    >>> sums.windows
    3
    """

    def __init__(self, projection: Projection, guarantee: Guarantee, keys: int = 1) -> None:
        layout = guarantee.mechanism.layout
        if layout.schedule is None:
            raise InvalidInputError(f"rows need the guarantee of a schedule, got {guarantee}")
        self._projection, self._neighbours, self._layout = projection, guarantee.neighbours, layout
        self._progress = Progress(layout.schedule, keys * layout.width(projection.sketch_dim))
        self.keys = keys

    @classmethod
    def restored(
        cls, projection: Projection, guarantee: Guarantee, windows: int, held: Ints, keys: int | None = None
    ) -> Self:
        """Return the sums of which `held` was read after so many windows.

        Parameters
        ----------
        projection, guarantee
            As before.
        windows, held
            Earlier values of `windows` and `held`.
        keys
            As before; by default as many as the sums are long for.

        Raises
        ------
        InvalidInputError
            If the sums are of another number of keys, or of blocks.
        """
        width = guarantee.mechanism.layout.width(projection.sketch_dim)
        size = held.shape[1] if held.ndim == 2 else 0
        keys = size // width if keys is None else keys
        if size != width * keys or not keys:
            raise InvalidInputError(
                f"sums of {keys} keys have {width * keys} numbers, and these are of shape {held.shape}; pass the "
                "state as it was saved"
            )
        restored = cls(projection, guarantee, keys)
        restored._progress = Progress.restored(restored._progress.schedule, windows, held)
        return restored

    @property
    def windows(self) -> int:
        """How many windows were taken."""
        return self._progress.window

    @property
    def held(self) -> Ints:
        """The sums that later rows need: int64, (blocks, keys · n). With `windows`, all that a restart needs."""
        return self._progress.held

    def next(self, window: Iterable[Sketch]) -> Window:
        """Return the next window and its rows, and change nothing.

        Parameters
        ----------
        window
            The exact sketch of each key, in the same order for all windows. Whoever holds the bounds of the data has
            checked that units were counted, if the guarantee states counts.

        Raises
        ------
        IncompatibleProjectionsError
            If they are of another projection.
        InvalidInputError
            If all windows of the schedule's horizon were taken.
        """
        numbers = np.concatenate([self._numbers(sketch) for sketch in window])
        rows = self._progress.row(numbers).reshape(self.keys, -1)
        return Window(numbers, [Row(self._progress.window, row) for row in rows])

    def take(self, window: Window) -> None:
        """Let the next window follow; raise `InvalidInputError` unless this one, from `next`, is the one that comes."""
        if window.place != self.windows:
            raise InvalidInputError(
                f"the window that comes next is window {self.windows}, and this is window {window.place}; each window "
                "is taken once, in their order"
            )
        self._progress.hold(window.numbers)

    def in_turn(self, waiting: dict[int, Sketch]) -> Iterator[tuple[Row, Sketch]]:
        """Take the windows of one key that come next without a gap; yield the row of each, and its sketch.

        Parameters
        ----------
        waiting
            Windows by number. Those that are taken are removed. So are those that were taken before, which an engine
            repeated; those after a gap stay.
        """
        for place in [place for place in waiting if place < self.windows]:
            del waiting[place]
        while self.windows in waiting:
            sketch = waiting.pop(self.windows)
            window = self.next([sketch])
            self.take(window)
            yield window.rows[0], sketch

    def _numbers(self, sketch: Sketch) -> Ints:
        self._projection.check_same(sketch.projection)
        return numbers_of(sketch, self._neighbours, self._layout)
