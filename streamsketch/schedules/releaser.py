"""Windows of a stream, one after the other, published by a schedule: a row each, and one guarantee for all."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.accounting.ledger import Ledger
from streamsketch.agreement.same import fingerprint_of
from streamsketch.core.concealed import concealed
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints, short
from streamsketch.data import data_ids
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.samplers import BitSource, SystemBits
from streamsketch.privacy.schedule import Schedule
from streamsketch.products import SERVICES
from streamsketch.projections.base import Projection
from streamsketch.release.additive_noise import AdditiveNoise, CalibratedNoise
from streamsketch.release.history import HISTORY_ID_BYTES, HistoryPart
from streamsketch.release.keys_to_release import sketches_to_release
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.readable import check_readable
from streamsketch.release.ready import Ready, warn_of_exceeded
from streamsketch.release.terms_kept import keys_for, refuse_private_choice
from streamsketch.schedules.rows import RowSums, Window
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

_ID_BYTES = 16

BitsOfRow: TypeAlias = Callable[[Any, Ints], BitSource]
"""A function of a key (None for a stream without keys) and the exact numbers of its row that returns secret bits."""


@concealed
class HistoryState(NamedTuple):
    """The state that a `Releaser` needs to continue after a restart. **Secret**, like raw sketches.

    Parameters
    ----------
    history
        The id of the history, 8 bytes.
    window
        The number of windows that were added.
    guarantee
        The guarantee that every row states.
    agreement
        The fingerprint of the agreement of all windows, if they follow one.
    keys
        The keys of the table, ascending; None for a stream without keys.
    ids
        Published ids of all data and of each key's data: uint8, (1 + keys, 16, 8).
    held
        The exact sums that later rows need: int64, (blocks, numbers of all keys).
    """

    history: bytes
    window: int
    guarantee: Guarantee
    agreement: str | None
    keys: tuple[TableKey, ...] | None
    ids: NDArray[np.uint8]
    held: Ints


class Releaser:
    """Publishes windows by a schedule: takes one window after the other, and returns the row of each, with noise.

    All rows together, and everything computed from them, are (ε, δ)-differentially private for one unit in as many
    windows as the schedule allows, even if later windows depend on published rows (Theory 11.2). A releaser holds exact
    sums of earlier windows, and so is secret.

    Parameters
    ----------
    publisher
        `AdditiveNoise` with a schedule; or its calibrated form with a stated basis of the guarantee.
    projection
        The public map of all windows.
    history
        The id of the history, 8 random bytes that all of its keys share; by default a new one.
    assert_bounds
        As in `Sketch.release`, for all windows.

    Raises
    ------
    InvalidInputError
        If the publisher has no schedule; as `AdditiveNoise.calibrated`.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, AdditiveNoise
    >>> from streamsketch.continual import Releaser, Tree
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> publish = AdditiveNoise(epsilon=1.0, neighbours=L1(1, unit="sale"), schedule=Tree(horizon=365))
    >>> releaser = Releaser(publish, projection)
    >>> for day in range(3):
    ...     sketch = projection.sketch()
    ...     sketch.update([17, 18 + day], [1, 1])
    ...     row = releaser.add(sketch)
    >>> str(row.history), row.guarantee.epsilon
    ('row 2', 1.0)
    """

    def __init__(
        self,
        publisher: AdditiveNoise | CalibratedNoise,
        projection: Projection,
        *,
        history: bytes | None = None,
        assert_bounds: bool = False,
    ) -> None:
        noise = publisher if isinstance(publisher, CalibratedNoise) else publisher.calibrated(projection)
        projection.check_same(noise.projection)
        if noise.schedule is None:
            raise InvalidInputError(
                "the publisher has no schedule: pass AdditiveNoise(…, schedule=…), or release each window by itself"
            )
        self._schedule: Schedule = noise.schedule
        self._noise, self._assert_bounds = noise, assert_bounds
        self._stated = noise.guarantee if noise.guarantee.basis is not None else None  # by whoever bounds the windows
        self._history = SystemBits().read(HISTORY_ID_BYTES) if history is None else history
        HistoryPart(self._history, 0, 1)  # which checks it
        self._of: _Windows | None = None
        self._sums: RowSums | None = None
        self._next = SystemBits().read(_ID_BYTES)  # names the next row's draw in a ledger: another object's is another

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def schedule(self) -> Schedule:
        """The schedule, that is, which sums of windows are published."""
        return self._schedule

    @property
    def history(self) -> bytes:
        """The id of the history, 8 bytes."""
        return self._history

    @property
    def windows(self) -> int:
        """The number of windows that were added."""
        return 0 if self._sums is None else self._sums.windows

    @property
    def state(self) -> HistoryState:
        """The state that `restored` needs. **Secret**.

        Raises
        ------
        InvalidInputError
            Before the first window was added.
        """
        if self._of is None or self._sums is None:
            raise InvalidInputError("no window was added yet, so the history has no state")
        of = self._of
        ids = np.frombuffer(b"".join(b"".join(row) for row in of.ids), np.uint8)
        shape = len(of.ids), -1, data_ids.ID_BYTES
        facts = of.guarantee, of.agreement, of.keys, ids.reshape(shape)
        return HistoryState(self._history, self.windows, *facts, self._sums.held)

    @classmethod
    def restored(
        cls,
        publisher: AdditiveNoise | CalibratedNoise,
        projection: Projection,
        state: HistoryState,
        *,
        assert_bounds: bool = False,
    ) -> Self:
        """Return a releaser that continues from a state.

        If a row was published after the state was taken, do not draw that row again, except with the same ``bits``
        for the same window. Otherwise it would be published twice, with two noises, and charged once. A ledger refuses
        that: it knows which rows were drawn.

        Parameters
        ----------
        publisher, projection, assert_bounds
            As before the restart.
        state
            The earlier value of `state`.

        Raises
        ------
        InvalidInputError
            If the state is of another schedule, guarantee or map.
        """
        releaser = cls(publisher, projection, history=state.history, assert_bounds=assert_bounds)
        planned = releaser._noise.guarantee
        if dataclasses.replace(state.guarantee, basis=planned.basis, conditions=planned.conditions) != planned:
            raise InvalidInputError(
                f"the rows of this state have the guarantee {state.guarantee}, but rows of the publisher would have "
                f"{planned}. Pass the publisher and the projection from before the restart"
            )
        ids = tuple(tuple(data_id.tobytes() for data_id in row) for row in state.ids)
        releaser._of = _Windows(state.guarantee, state.agreement, state.keys, ids)
        if len(ids) != releaser._of.number + 1:
            raise InvalidInputError(
                f"a state of {releaser._of.number} keys must have ids of all data and of each key's, and has "
                f"{len(ids)}; pass the state as it was saved"
            )
        releaser._sums = RowSums.restored(projection, planned, state.window, state.held, releaser._of.number)
        return releaser

    # --- windows --------------------------------------------------------------------------------------------

    def add(
        self,
        window: Sketch | SketchTable,
        *,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
        bits: BitsOfRow | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> PrivateSketch | PrivateTable:
        """Add the next window, and return its row.

        Parameters
        ----------
        window
            The exact sketch or table of the window; all windows are of one kind.
        public_keys, keys_are_public
            For a table, as in `SketchTable.release`. All windows have the keys of the first, so both may be left out
            later.
        bits
            The secret, uniform bits from which the noise of a key's row is drawn. They must be independent for
            different keys, windows and exact numbers, and the same if it is called again. By default they come from the
            operating system's CSPRNG.
        ledger, dataset
            As in `Sketch.release`. The history is charged once for all its windows. Each row's draw is entered beside
            the charge, so that no state draws a row a second time, unless it has the same ``bits``.

        Returns
        -------
        PrivateSketch or PrivateTable
            The row. Do not make estimates from it; `streamsketch.continual.History` reads all rows.

        Raises
        ------
        TypeError
            If ``window`` is not a `Sketch` or `SketchTable`.
        InvalidInputError
            If all windows of the schedule's horizon were added, or the keys, the agreement or the bounds differ from
            before; and for a new sketch or table, if windows with rows are bounded: pass what `streamsketch.bound`
            makes of no rows. What the window holds never causes an error. After any error nothing has changed.
        IncompatibleProjectionsError
            If the window has another projection.
        LedgerError
            If the history exceeds the budget that is left for the data set, the window holds data of another data set
            than the first window, or the row was drawn before.
        """
        ready = self.ready(window, public_keys=public_keys, keys_are_public=keys_are_public)
        self._charge(window, ready, ledger, dataset, bits)
        published = ready.draw(bits)
        self.take(ready)
        return published

    def exact(
        self,
        window: Sketch | SketchTable,
        *,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
    ) -> Mapping[TableKey, Ints]:
        """Return the exact numbers of the row that `add` would publish, without changing anything. **Secret**.

        Parameters
        ----------
        window, public_keys, keys_are_public
            As in `add`, with the same errors.

        Returns
        -------
        dict
            Arrays int64, (n,), by key; the key is None for a stream without keys.
        """
        return self.ready(window, public_keys=public_keys, keys_are_public=keys_are_public).exact

    def ready(
        self,
        window: Sketch | SketchTable,
        *,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
    ) -> "ReadyWindow":
        """Return the row that `add` would publish, past every guard, without changing anything: for engines.

        They charge it, draw it, and let the next window follow by `take`, in this order.

        Parameters
        ----------
        window, public_keys, keys_are_public
            As in `add`, with the same errors.

        Returns
        -------
        ReadyWindow
            The row of each key: **secret**.
        """
        if not isinstance(window, Sketch | SketchTable):
            raise TypeError(f"a window is a Sketch or a SketchTable, got a {type(window).__name__}")
        self._noise.projection.check_same(window.projection)
        asked = self._keys_of(window, public_keys, keys_are_public=keys_are_public)
        sketches = {None: window} if isinstance(window, Sketch) else sketches_to_release(window, **asked)
        for sketch in sketches.values():
            self._noise.check_counted(sketch)
        of = self._read(window, sketches, keys_are_public=asked["keys_are_public"])
        sums = self._sums or RowSums(self._noise.projection, of.guarantee, of.number)
        following = sums.next(sketches.values())
        noise = self._noise.with_guarantee(of.guarantee)
        rows = {
            key: row.ready(noise, self._history, ids, window.bounds, of.agreement)
            for key, row, ids in zip(of.names, following.rows, of.ids[1:], strict=True)
        }
        return ReadyWindow(rows, of, sums, following)

    def take(self, ready: "ReadyWindow") -> None:
        """Let the next window follow, once the row of this one was drawn.

        Raises
        ------
        InvalidInputError
            If it is not the row that `ready` returned for the next window. Nothing has changed then.
        """
        if self._sums not in {None, ready.sums}:
            raise InvalidInputError("another window was taken since this row was made; make its row anew, with ready()")
        ready.sums.take(ready.window)
        self._of, self._sums = ready.of, ready.sums
        self._next = SystemBits().read(_ID_BYTES)

    def _read(
        self, window: Sketch | SketchTable, sketches: Mapping[TableKey, Sketch], *, keys_are_public: bool
    ) -> "_Windows":
        """Return what is known of all windows, once this one passed every guard."""
        before, names = self._of, tuple(sketches)
        held = None if isinstance(window, Sketch) else names
        if before is not None and before.keys != held:
            raise InvalidInputError(
                f"all windows of a history have the keys of the first, {_keys_text(before.keys)}, and window "
                f"{self.windows} has {_keys_text(held)}: pass the same public_keys for all of them"
            )
        agreement = None if window.agreement is None else fingerprint_of(window.agreement)
        if before is not None and before.agreement != agreement:
            raise InvalidInputError(
                f"all windows of a history follow one agreement, {before.agreement or 'or none'}, and window "
                f"{self.windows} follows {agreement or 'none'}"
            )
        guarantee = self._guarantee_of(window, keys_are_public=keys_are_public)
        check_readable(window.projection, guarantee, held, self._noise.row_bytes)
        warn_of_exceeded(window.largest, self._noise.guarantee.neighbours, window.projection)
        if before is not None:
            return before._replace(guarantee=guarantee)
        ids = window.data_ids.published(), *(sketch.data_ids.published() for sketch in sketches.values())
        return _Windows(guarantee, agreement, held, ids)

    def _keys_of(
        self, window: Sketch | SketchTable, public_keys: Iterable[object] | None, *, keys_are_public: bool
    ) -> dict[str, Any]:
        """Return ``public_keys`` and ``keys_are_public`` of a window: those asked for, agreed or of the first one."""
        if isinstance(window, Sketch):
            if public_keys is not None or keys_are_public:
                raise InvalidInputError(
                    "a Sketch has no keys: pass public_keys and keys_are_public only with a SketchTable"
                )
            refuse_private_choice(window.agreement)
            return {"public_keys": None, "keys_are_public": False}
        if public_keys is None and not keys_are_public and self._of is not None and self._of.keys is not None:
            public_keys = self._of.keys
        return keys_for(window.agreement, public_keys, keys_are_public=keys_are_public, in_windows=True)

    def _guarantee_of(self, window: Sketch | SketchTable, *, keys_are_public: bool) -> Guarantee:
        """Return the guarantee of the rows, once this window is known to keep to it."""
        before = None if self._of is None else self._of.guarantee
        asserted = conditions_of_keys(keys_are_public=keys_are_public)
        if before is not None and not {*asserted} <= {*before.conditions}:
            raise InvalidInputError(
                "all rows of a history have one guarantee, and the first window's keys were stated: pass these "
                "public_keys, or none, instead of keys_are_public=True"
            )
        if self._stated is not None:
            stated: Guarantee = self._stated
            return with_conditions(stated, *asserted) if before is None else before
        is_bounded = before is not None and before.basis == "enforced"
        if before is not None and window.bounds.is_empty and not is_bounded:
            return before
        guarantee: Guarantee = self._noise.guarantee_for(
            window, assert_bounds=self._assert_bounds, beside_bounded=is_bounded
        )
        if before is None:
            return with_conditions(guarantee, *asserted)
        added = {*guarantee.conditions} - {*before.conditions}
        if (before.basis == "enforced" and guarantee.basis != "enforced") or added:
            raise InvalidInputError(
                "all rows of a history have one guarantee, which holds for all of its windows. Rows before window "
                f"{self.windows} state {before}, but this window would have {guarantee}. Bound all windows alike"
            )
        return before

    def _charge(
        self,
        window: Sketch | SketchTable,
        ready: "ReadyWindow",
        ledger: Ledger | None,
        dataset: str | None,
        bits: BitsOfRow | None,
    ) -> None:
        """Charge the history, with the data of its first window; enter those of this window, and its draw."""
        if ledger is None:
            if dataset is not None:
                raise InvalidInputError(f"dataset={dataset!r} names a data set of a ledger; pass ledger= as well")
            return
        of, once = ready.of, self.history.hex()
        own = window.data_ids if isinstance(window, Sketch) else window.data_ids.with_keys(of.names)
        ids = own if self._of is None else of.ids[0]
        ledger.charge(dataset, of.guarantee, projection=self._noise.projection, data_ids=ids, once=once)
        ledger.cover(once, own, what=f"window {self.windows}")
        ledger.draw(once, self.windows, (self._next if bits is None else _id_of(bits, ready.exact)).hex())


def _id_of(bits: BitsOfRow, exact: Mapping[TableKey, Ints]) -> bytes:
    """Return an id of a row's draw: equal for equal bits, and without a meaning for whoever does not know them."""
    first = [bits(key, row).read(2 * _ID_BYTES) for key, row in exact.items()]
    return hashlib.blake2b(b"".join(first), digest_size=_ID_BYTES, person=b"streamsketch.row").digest()


@concealed
class _Windows(NamedTuple):
    """What is the same in all windows of a history."""

    guarantee: Guarantee
    agreement: str | None
    keys: tuple[TableKey, ...] | None
    ids: tuple[tuple[bytes, ...], ...]
    """Published ids of the data: of all of them, and of each key, those of the first window."""

    @property
    def names(self) -> tuple[Any, ...]:
        """The keys, or None alone."""
        return (None,) if self.keys is None else self.keys

    @property
    def number(self) -> int:
        """How many keys there are, 1 without."""
        return len(self.names)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ReadyWindow:
    """The row of the next window, past every guard: **secret**. `Releaser.ready` makes it.

    Parameters
    ----------
    rows
        The row of each key, ready to be drawn.
    of, sums, window
        What is the same in all windows; the sums of the history; and the window that follows in them.
    """

    rows: Mapping[TableKey, Ready[PrivateSketch]]
    of: _Windows
    sums: RowSums
    window: Window

    @property
    def exact(self) -> dict[TableKey, Ints]:
        """The exact numbers of the row of each key: int64, (n,). The key is None for a stream without keys."""
        return {key: row.exact[0] for key, row in self.rows.items()}

    def draw(self, bits: BitsOfRow | None = None) -> PrivateSketch | PrivateTable:
        """Return the row with noise, from secret bits as in `Releaser.add`. Nothing changes before `Releaser.take`."""
        drawn = {key: row.draw(None if bits is None else bits(key, row.exact[0])) for key, row in self.rows.items()}
        return drawn[None] if self.of.keys is None else PrivateTable.of_one(drawn)


def _keys_text(keys: tuple[object, ...] | None) -> str:
    return "none" if keys is None else short(list(keys))


SERVICES.enter("rows of a schedule", Releaser)
