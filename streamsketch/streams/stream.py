"""An unbounded stream: read once, released once for each window, and continued after any interruption."""

import dataclasses
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from streamsketch.accounting.store import DamagedLedgerError
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows as Numbers
from streamsketch.core.documents import Json, TableKey
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, LedgerError, WireFormatError, printable, with_reason
from streamsketch.once.alarms import REFUSED, Alarm, keep
from streamsketch.once.charges import Charge
from streamsketch.once.counts import RowCounts
from streamsketch.once.dead_letters import DeadLetters
from streamsketch.once.draws import DrawSecret
from streamsketch.once.keys import StateSecret, hkdf, number_bytes
from streamsketch.once.names import drawn_numbers_of_keys
from streamsketch.once.publishing import draw_window, in_order, put_window
from streamsketch.once.rows import ANEW, NextRow, OtherRowsError, Rows, RowsOf
from streamsketch.once.sinks import Sink, WindowFiles
from streamsketch.once.slots import Slot, named_key
from streamsketch.once.versions import Version, version_of, version_slot, version_tag
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.release.in_windows import spent_in_window
from streamsketch.release.keys_to_release import keys_to_release
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.published import encoded_rows
from streamsketch.sketching.bounding.contributions import NO_KEY
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import SECRET_BYTES
from streamsketch.sketching.table import SketchTable
from streamsketch.streams.ahead import Ahead
from streamsketch.streams.job import Job
from streamsketch.streams.open_windows import ReadRows, Windows
from streamsketch.streams.policy import StreamPolicy
from streamsketch.streams.single import Over, Single
from streamsketch.streams.state import KEYS_VERSION, Saved, read_state, write_state

_ID_BYTES = 16
_MOST_WAITING = 1 << 26  # bytes of releases that are drawn before they are written


class Stream:
    """Sums of a log by window of event time. Each window is released once, for all public keys, when it is over.

    A release is drawn, written into the state together with the position in the log, and only then published, by
    exclusive create. If the process is killed at any point, a restart publishes the same bytes. Existing files are
    never replaced. Windows are released in order, including those without events.

    A stream has one log, or several sources, such as the partitions of a topic (`add_sources`). Each source has its own
    clock, which decides which of its rows are late. A window ends when the last source is past it. So the content of a
    window is a function of the logs; the order in which they are read does not matter.

    All draws are functions of the state's secret, the window and its exact sketches. So a state that is restored from a
    backup draws the same bytes for the same log, which costs nothing more, and independent noise for another log, which
    is charged again. Anyone who has the state can compute the noise of later windows, but not of earlier ones.

    With a schedule, the release of a window is its row, and all rows are charged at once, before the first. Later rows
    need sums that only the state has. So a folder with rows is refused if their state is missing, and a state is
    refused if its rows differ from the published ones. Rows must stay published for that: the one charge does not show
    whether a later row was published before.

    Parameters
    ----------
    agreement
        What is released: terms of noise, windows that are releases from a first one on, and listed keys.
    job
        How it is run: the folder, and the clock of the log.
    path
        Path of the secret state. The caller holds it (`exclusive`) until the stream ends.
    charge
        A function that charges each window before it is published, or all rows of a schedule before the first is drawn.
    sink
        The open sink for releases. Each public key of a window then has its own slot in the job's ``stream``, as
        with a job on a cluster. By default, each window is a file in the job's ``folder``.
    strict
        Whether `add` raises for a row that cannot be added even if heartbeats move the watermark, for callers that then
        add the other rows.
    dead_letters
        Where to keep rows that are late, too far ahead or malformed. By default they are only counted.

    Raises
    ------
    InvalidInputError
        If no stream can follow the agreement, the state is of another stream, or there is no state although rows
        of a schedule are already published.
    OSError
        If the state cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import L1, SJLT, Agreement, Terms, Windows
    >>> from streamsketch.streams.job import Job
    >>> from streamsketch.streams import Stream
    >>> folder = getfixture("tmp_path")
    >>> columns = {"index": "item", "unit": "customer", "neighbours": L1(10, unit="customer")}
    >>> published = {"terms": Terms(epsilon=1), "windows": Windows(time="at", every="1 hour", first="2026-11-22")}
    >>> agreement = Agreement(SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, **published)
    >>> stream = Stream(agreement, Job(folder=str(folder), delay="5 min"), folder / "sales.raw-stream")
    >>> times = ["2026-11-22T00:10:00Z", "2026-11-22T01:10:00Z"]
    >>> rows = {"customer": ["c1", "c2"], "item": ["tea", "jam"], "at": times}
    >>> stream.add(pa.RecordBatch.from_pydict(rows), 1)
    >>> alarms = stream.save({"rows": 2})
    >>> [path.name for path in folder.glob("*.sketch")]
    ['2026-11-22T0000Z.sketch']
    """

    def __init__(
        self,
        agreement: Agreement,
        job: Job,
        path: str | os.PathLike[str],
        charge: Charge | None = None,
        *,
        sink: Sink | None = None,
        strict: bool = False,
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self._strict, self._dead_letters = strict, dead_letters
        policy = self._policy = StreamPolicy(agreement, job)
        self._agreement, self._path, self._charge = agreement, Path(path), charge
        policy.check_one_machine(is_named=sink is not None)
        self._conditions: tuple[str, ...] = ()
        self._calibrate()
        self._sink = sink
        self.sink = sink or WindowFiles(
            job.folder, policy.windows, "sketch" if policy.public_keys is None else "parquet"
        )
        """Where releases are published."""
        self.position: Json | None = None
        """How far the log or each of its sources was read, as the caller passed it to `save`."""
        self.events = self.released = self.bad_lines = 0
        self.newest_released: int | None = None
        """The number of the newest window that this object published, all of it."""
        self._waiting: dict[int, bytes] = {}
        self._versions: dict[int, bytes] = {}
        self._ahead: Ahead[Over] | None = None
        if self._path.exists():
            self._restore(read_state(self._path))
        else:
            self._id, self._secret = secrets.token_bytes(_ID_BYTES), StateSecret(secrets.token_bytes(SECRET_BYTES))
            self._draws = DrawSecret()
            self.windows = Windows(policy, self._secret, strict=strict)
            self._check_new()
            self._rows = Rows(self._rows_of) if policy.by_rows else None
        if dead_letters is not None:
            dead_letters.begin(self._id.hex()[:8], self._dropped)
            self.windows.on_dropped = dead_letters.add

    def _calibrate(self) -> None:
        self._publisher = self._policy.publisher(self._conditions)
        # for a unit in all its windows: the losses of several releases add up, and rows are for all of them together
        self._spent = spent_in_window(self._agreement, self._publisher.guarantee)

    @property
    def policy(self) -> StreamPolicy:
        """The agreement and the job that are followed."""
        return self._policy

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a window's release, or of all rows of a schedule."""
        guarantee: Guarantee = self._publisher.guarantee
        return guarantee

    def require(self, conditions: Iterable[str]) -> None:
        """Let the guarantees of all later releases state conditions on how the log is read, before it is read.

        They stay with the state: what was read under a condition is in later windows.

        Raises
        ------
        InvalidInputError
            If rows of a schedule were released without them: all rows are for one guarantee.
        """
        stated = tuple(sorted({*self._conditions, *conditions}))
        if stated == self._conditions:
            return
        # by what was drawn: a state may hold rows that it has not yet counted as published
        if self._rows is not None and self._rows.windows:
            added = "; ".join(sorted(set(stated) - set(self._conditions)))
            raise InvalidInputError(
                f"rows of a schedule were released without the condition that {added}; read the log as before, or "
                f"{ANEW}"
            )
        self._conditions, self._ahead = stated, None  # what was drawn states the conditions of before
        self._calibrate()
        if self._policy.by_rows:
            self._rows = Rows(self._rows_of)

    def _restore(self, saved: Saved) -> None:
        header, policy = saved.header, self._policy
        if header["agreement"] != self._agreement.fingerprint:
            text = (
                f"{self._path} follows the agreement {printable(header['agreement'], 64)}, but this agreement is "
                f"{self._agreement.fingerprint}; use its own agreement, or {ANEW}"
            )
            raise with_reason(InvalidInputError(text), "other_agreement")
        if changed := policy.job.changed(header["job"]):
            text = f"{self._path} follows a job with another {', '.join(changed)}; {ANEW}"
            raise with_reason(InvalidInputError(text), "other_agreement")
        self._id = bytes.fromhex(header["stream"])
        self._secret = StateSecret(bytes.fromhex(header["secret"]))
        self._conditions = tuple(header.get("conditions", ()))
        self._calibrate()
        self.windows = Windows(policy, self._secret, strict=self._strict)
        self.position = header["place"]
        self.events, self.released, self.bad_lines = header["events"], header["released"], header["bad_lines"]
        self.windows.clocks.restore(header["newest"], header.get("sources", {}))
        self.windows.next = header["next"]
        self._draws = DrawSecret(bytes.fromhex(header["draws"]))
        self.windows.counts.rows_late = header["rows_late"]
        self.windows.counts.rows_before_start = header["rows_before_start"]
        self.windows.counts.rows_after_end = header.get("rows_after_end", 0)
        self.windows.counts.bounding = BoundingSummary(**header["bounding"])
        try:
            self.windows.restore(saved.windows, saved.waiting, saved.units)
            self._rows = self._restored_rows(header.get("first_draw"), saved.held)
        except WireFormatError as error:
            text = f"{self._path} is not the state of a stream: {error}"
            raise with_reason(InvalidInputError(text), "state_damaged") from None
        self._waiting = saved.waiting
        self._versions = {int(number): bytes.fromhex(version) for number, version in header.get("versions", {}).items()}

    @property
    def summary(self) -> Json:
        """What was read and dropped, for the operator only. Secret."""
        counts = self.windows.counts
        late = {"rows_late": counts.rows_late, "rows_before_start": counts.rows_before_start}
        if self.windows.end is not None:
            late["rows_after_end"] = counts.rows_after_end
        return counts.bounding.to_dict() | late | {"bad_lines": self.bad_lines}

    @property
    def row_counts(self) -> RowCounts:
        """How many rows were read and dropped, each kind in its unit. Secret.

        Lines that could not be read (`bad_lines`) count as malformed rows.
        """
        counts = self.windows.counts
        bounding, late, early = counts.bounding, counts.rows_late, counts.rows_before_start
        malformed = bounding.rows_malformed + self.bad_lines
        return RowCounts(
            read=bounding.rows_read + self.bad_lines + late + early + counts.rows_after_end,
            late=late,
            ahead=counts.rows_ahead,
            malformed=malformed - counts.rows_ahead,
            blank=bounding.rows_blank,
            early=early,
            other_keys=bounding.rows_of_other_keys,
            lost=0 if self._dead_letters is None else self._dead_letters.lost,
        )

    @property
    def _dropped(self) -> dict[str, int]:
        """How many rows the state counts where it counts those of each kind; two kinds are counted together."""
        malformed = self.windows.counts.bounding.rows_malformed
        return {"late": self.windows.counts.rows_late, "ahead": malformed, "malformed": malformed}

    # --- sources --------------------------------------------------------------------------------------------

    def add_sources(self, names: Iterable[str]) -> list[str]:
        """Add sources, each a log with its own clock, and return those that are new to the stream.

        Add all of them before the first row. A window ends once the earliest clock is past its end; a source without
        rows has no clock yet. If a source is added later, its rows are late if their window is closed.

        Parameters
        ----------
        names
            Names of the sources, such as ``"sales/0"`` for topic and partition.

        Raises
        ------
        InvalidInputError
            If the stream has read one log without a name.
        """
        return self.windows.clocks.add(names)

    @property
    def watermarks(self) -> dict[str, int | None]:
        """The watermark of each source, in microseconds after 1970; None before its first row."""
        return {name: clock.watermark for name, clock in self.windows.clocks.sources.items()}

    @property
    def idle(self) -> frozenset[str]:
        """The sources that no window waits for."""
        return frozenset(self.windows.clocks.idle)

    def set_idle(self, source: str) -> None:
        """Let windows end without a source until its watermark moves. Its rows in closed windows are then late.

        The content of a window then depends on the logs and on when this was called, which the state records. Call it
        for a source whose log was read to its end and whose watermark has not moved for long. If rows of a unit can
        decide about the call, such as by a backlog, state that by `require` first.
        """
        self.windows.clocks.of(source)
        self.windows.clocks.idle.add(source)

    def add(
        self, batch: pa.RecordBatch, first: int | Numbers, source: str | None = None, read: ReadRows | None = None
    ) -> None:
        """Add rows in the order of their log. After an error nothing has changed.

        Parameters
        ----------
        batch
            The rows, with the columns of the agreement and the time.
        first
            The number of the first row in its log, for error messages, or those of all rows: ascending, (n,).
        source
            The source of the rows, if the stream has several.
        read
            What ``windows.read`` returned for them, in this process or another; by default, they are read here.
        """
        self.events += self.windows.add(batch, first, source, read)

    # --- windows --------------------------------------------------------------------------------------------

    def prepare(self, seconds: float) -> bool:
        """Sum the next window that is over, and draw its release, beside what is added to other windows meanwhile.

        What is drawn is not charged, written or published before `save`, which draws again what later rows changed.

        Parameters
        ----------
        seconds
            How long to wait for it.

        Returns
        -------
        bool
            Whether `save` need not wait for it, or no window is over.
        """
        if not self.windows.is_over or self.windows.over(2):
            return True  # of several windows, as of a backlog, all are for `save`
        number = self.windows.next
        if self._ahead is None or self._ahead.number != number:  # once: rows that go on to come do not delay a window
            self._ahead = Ahead(number, self.windows.size, self._over)
        return self._ahead.wait(seconds)

    def save(self, position: Json) -> list[Alarm]:
        """Write the state with the position in the log, and publish the windows that are over.

        Parameters
        ----------
        position
            How far the log, or each source, was read, as JSON can hold it. After a restart, it is in `position`.

        Returns
        -------
        list of Alarm
            Alarms for slots that hold other bytes, which stay as they are, and for the other slots of their windows.

        Raises
        ------
        OSError
            If something cannot be written.
        LedgerError
            If a release exceeds what is left of the budget. It is not published; those before it are. The alarm is a
            file all the same, if the job names a folder for alarms.
        OtherRowsError
            If another row is already published in the place of a row of this state.
        """
        alarms: list[Alarm] = []
        self.position = position
        if self._dead_letters is not None:
            self._dead_letters.flush()
        try:
            while True:
                try:
                    alarms += self._draw()
                finally:
                    write_state(self._saved(), self._path)
                    if self._dead_letters is not None:
                        self._dead_letters.saved(self._dropped)
                    alarms += self._publish()
                if not self.windows.is_over:
                    return alarms
        except LedgerError as error:
            if not isinstance(error, DamagedLedgerError):  # which refuses no window
                alarms += [Alarm(slot, REFUSED, None) for slot in self._slots(self.windows.next)]
            raise
        finally:
            if self._policy.job.alarms is not None:
                keep(alarms, Path(self._policy.job.alarms))

    def _draw(self) -> list[Alarm]:
        """Draw releases of windows that are over, not too many at once; return alarms of those not to be published."""
        alarms: list[Alarm] = []
        while self.windows.is_over and sum(map(len, self._waiting.values())) < _MOST_WAITING:
            number = self.windows.next
            ahead = None if self._ahead is None else self._ahead.result(number, self.windows.size)
            closed, single = ahead or self._over(draw=False)
            self._ahead = None
            alarms += self._draw_window(number, closed.table, single)
            self.windows.advance(closed)
            self._draws = self._draws.after()
        return alarms

    def _over(self, *, draw: bool = True) -> Over:
        """Return the exact sketches of the next window, and its release unless it is a row of a schedule."""
        number, closed = self.windows.next, self.windows.closing()
        single = None if self._policy.by_rows else self._single(number, closed.table)
        return Over(closed, single._replace(drawn=single.draw()) if single is not None and draw else single)

    def _draw_window(self, number: int, table: SketchTable, single: Single | None) -> list[Alarm]:
        """Draw a window's release, charge it and let it wait; return alarms if another version of it is published."""
        row = None if self._rows is None else self._rows.next(table, number, self._draws, self._charge)
        release = row or single or self._single(number, table)
        version = self._version(number, release)
        drawn = draw_window(
            self.sink,
            self._slots(number),
            version,
            charge=release.charge,
            draw=release.draw,
            contents=lambda data: self._contents(number, data),
            at_once=False,
        )
        if drawn.alarms:
            if row is not None:
                raise self._other_rows(drawn.alarms[0].slot)
            return drawn.alarms
        if self._rows is not None and row is not None:
            self._rows.take(row)
        self._waiting[number] = drawn.release
        if version is not None:
            self._versions[number] = version.digest
        return []

    def _version(self, number: int, release: "NextRow | Single") -> Version | None:
        """Return the version of a window with this release; None if the window is one file."""
        if self._sink is None:
            return None
        slot = version_slot(self._policy.job.stream or "", self._policy.windows.start(number))
        secret = hkdf(self._secret.value, b"stream", b"version", number_bytes(slot.start))
        return Version(slot, version_of({key: version_tag(secret, name) for key, name in release.names}))

    def _version_of_waiting(self, number: int) -> Version | None:
        """Return the version of a window that waits; None if it is one file, or drawn by an earlier version of us."""
        if number not in self._versions:
            return None
        return Version(
            version_slot(self._policy.job.stream or "", self._policy.windows.start(number)), self._versions[number]
        )

    def _publish(self) -> list[Alarm]:
        """Publish what the state on disk holds, in the order of windows; return alarms for slots with other bytes."""
        alarms: list[Alarm] = []
        for number, data in [*self._waiting.items()]:
            contents = self._contents(number, data)
            conflicts = put_window(self.sink, contents, version=self._version_of_waiting(number)).alarms
            if conflicts and self._rows is not None:
                raise self._other_rows(conflicts[0].slot)
            if not conflicts:
                self.released += 1
                self.newest_released = number
                del self._waiting[number]  # once counted: another call goes on where this one fails
                self._versions.pop(number, None)
            alarms += conflicts
        self._waiting, self._versions = {}, {}
        return alarms

    def _other_rows(self, slot: Slot) -> OtherRowsError:
        return OtherRowsError(
            f"{self.sink.name(slot)} is not the row of {self._path}, but a row of another state or of another log. "
            f"Rows of a schedule are read together: restore the newest backup of the state, with the log that it was "
            f"made from, or {ANEW}"
        )

    def _slots(self, number: int) -> list[Slot]:
        """Return the slots of a window."""
        of_keys = self._sink is not None and self.windows.public is not None
        keys = in_order(self.windows.public) if of_keys and self.windows.public is not None else [NO_KEY]
        return [self._slot(number, key) for key in keys]

    def _slot(self, number: int, key: object) -> Slot:
        return Slot(self._policy.job.stream or "", self._policy.windows.start(number), *named_key(key))

    def _contents(self, number: int, data: bytes) -> dict[TableKey, tuple[Slot, bytes]]:
        """Return the content of each slot of a window, from its release as the state holds it."""
        if self._sink is None or self.windows.public is None:
            return {NO_KEY: (self._slot(number, NO_KEY), data)}
        rows = encoded_rows(data, PrivateTable).items()
        return {key: (self._slot(number, key), row) for key, row in rows}

    def _saved(self) -> Saved:
        windows = self.windows
        header: Json = {
            "stream": self._id.hex(),
            "secret": self._secret.value.hex(),
            "draws": self._draws.value.hex(),
            "keys": KEYS_VERSION,
            "agreement": self._agreement.fingerprint,
            "job": self._policy.job.to_dict(),
            "place": self.position,
            "newest": windows.clocks.single.newest,
            "next": windows.next,
            "events": self.events,
            "released": self.released,
            "bad_lines": self.bad_lines,
            "rows_late": windows.counts.rows_late,
            "rows_before_start": windows.counts.rows_before_start,
            "bounding": dataclasses.asdict(windows.counts.bounding),
        }
        if self._conditions:
            header["conditions"] = list(self._conditions)
        if sources := windows.clocks.to_dict():
            header["sources"] = sources
        if self._versions:
            header["versions"] = {str(number): version.hex() for number, version in self._versions.items()}
        if windows.end is not None:
            header["rows_after_end"] = windows.counts.rows_after_end
        held = None
        if self._rows is not None:
            if self._rows.windows != windows.next - self._policy.first:  # an interrupt ended `_draw` between the two
                raise RuntimeError("a window was drawn that is not closed; the state stays as it was")
            if self._rows.first_draw is not None:
                header["first_draw"], held = self._rows.first_draw, self._rows.held
        units = {} if windows.admission is None else windows.admission.windows
        open_windows = {number: window.content for number, window in windows.open.items()}
        return Saved(header, open_windows, dict(self._waiting), held, units)

    # --- rows of a schedule ---------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether all windows that the agreement states were drawn. `save` publishes those that wait."""
        return self.windows.is_finished

    @property
    def _rows_of(self) -> RowsOf:
        public = self._publisher, self._agreement, self.windows.public
        return RowsOf(*public, stream=self._id, secret=self._secret, spent=self._spent)

    def _check_new(self) -> None:
        """Raise `InvalidInputError` if there are rows of a schedule already, and no state."""
        if not self._policy.by_rows:
            return
        taken = next((slot for slot in self._slots(self._policy.first) if self.sink.get(slot) is not None), None)
        taken = taken or self._file_of_a_row()
        if taken is not None:
            text = (
                f"{self.sink.name(taken)} is published, but there is no state {self._path}, whose sums of earlier "
                f"windows are needed for later rows; restore it from a backup, or {ANEW}"
            )
            raise with_reason(InvalidInputError(text), "state_missing")

    def _file_of_a_row(self) -> Slot | None:
        """Return the first slot of a row whose file is in the folder."""
        folder, end = Path(self._policy.job.folder), self.windows.end
        if self._sink is not None or end is None or not folder.is_dir():
            return None
        if not (present := {path.name for path in folder.iterdir()}):
            return None
        numbers = np.arange(self._policy.first, end)
        names = (
            f"{name}.{self.sink.result}".replace(":", "") for name in self._policy.windows.names(numbers).to_pylist()
        )
        taken = (number for number, name in zip(numbers.tolist(), names, strict=True) if name in present)
        return next((self._slot(number, NO_KEY) for number in taken), None)

    def _restored_rows(self, first_draw: str | None, held: bytes | None) -> Rows | None:
        """Return the rows of a state; raise `WireFormatError` if no stream writes such a state."""
        if not self._policy.by_rows:
            if first_draw is not None or held is not None:
                raise WireFormatError("schedule", "is of no policy")
            return None
        return Rows.restored(self._rows_of, self.windows.next - self._policy.first, first_draw, held)

    # --- single releases ------------------------------------------------------------------------------------

    def _ids_of(self, number: int) -> DataIds:
        """Return a window's data ids: the same in each draw, so that its releases are known to share their data."""
        return self._secret.ids("sid", number_bytes(number))

    def _single(self, number: int, table: SketchTable) -> Single:
        """Return a window's release past every guard, which refuses before anything is charged."""
        public = self.windows.public
        keys = [NO_KEY] if public is None else keys_to_release(table, public, keys_are_public=False)
        sums = table.sums_of(keys)
        numbers = drawn_numbers_of_keys(keys, sums, self._publisher.guarantee)
        draw = self._draws.draw(number, self._publisher, numbers)
        ready = self._publisher.for_sums(keys, sums, table)
        once = f"{self._id.hex()} {self._policy.windows.name(number)} {draw.id}"
        of = self._publisher, numbers, ready, self._ids_of(number), draw, self._spent, once, self._charge
        return Single(*of, is_keyed=self.windows.public is not None)
