"""Release windows once on any engine: a window that is drawn again has the same bytes, and each slot is filled once."""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamsketch.accounting.ledger import Ledger
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import check_int, short
from streamsketch.data.canonical import canonical_bytes
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError
from streamsketch.once.alarms import Alarm
from streamsketch.once.charges import LedgerCharge, check_together, draw_id
from streamsketch.once.keys import hkdf, ids_from, joined, number_bytes
from streamsketch.once.names import digest_of_draw, drawn_numbers, name_of_draw
from streamsketch.once.publishing import draw_window, in_order, put_window
from streamsketch.once.root_keys import KEY_BYTES, RootKey, fetch_root_key
from streamsketch.once.sinks import Sink
from streamsketch.once.slots import Slot, check_stream, named_key, start_of
from streamsketch.once.versions import Version, version_of, version_slot, version_tag
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.keys_to_release import sketches_to_release
from streamsketch.release.ready import Calibrated
from streamsketch.release.terms_kept import keys_for
from streamsketch.sketching.bounding.contributions import NO_KEY
from streamsketch.sketching.keyed import public_names
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


class Released(NamedTuple):
    """The result of releasing a window.

    Parameters
    ----------
    held
        The releases that the window's slots hold, by key. These are public. Compute everything else that you publish
        from them: a comparison with a refused release would reveal it.
    alarms
        One alarm for each other key. **Secret**.
    """

    held: dict[TableKey, Any]
    alarms: list[Alarm]


class ReleaseOnce:
    """Releases each window of a stream once, with any engine and after any number of retries.

    The release of a key in a window is a function of the secret, the stream's name, the epoch, the window, the key and
    the exact sums. So a window that is released again, by a retried batch, a restarted driver or a second process, gets
    the same bytes, while other sums get independent noise. The sink fills each slot once. A second version of a window,
    with independent noise, is therefore not published: it raises an alarm.

    A release has the guarantee of ``publisher``, for all keys of a window together, if no unit adds more to one window
    than its neighbour relation allows: bound rows before they are sketched (`streamsketch.bound`). All slots of a
    window hold releases of the same sums, in all epochs: before the first is filled, the window is claimed for these
    sums, in a slot of its own. Other sums are then neither charged nor drawn (Theory 4.2).

    Parameters
    ----------
    publisher
        The mechanism that draws a release, such as ``AdditiveNoise(…).calibrated(projection)``.
    secret
        32 bytes from the operating system's CSPRNG that outlive the process, or where to fetch them: a `pathlib.Path`
        to a file of mode 0600 with 32 bytes or 64 hexadecimal digits, the name of an environment variable with 64
        digits, or a function. Anyone who knows them can subtract the noise.
    sink
        The open sink in which releases are published.
    stream
        Name of the stream: 1 to 64 letters, digits, ``_`` and ``-``.
    public_keys
        The keys to release in every window, even without rows; sketches of other keys are left out. None asserts that
        the keys of the sketches are public and do not depend on the data, which is then a condition of the guarantee.
    ledger, dataset
        A ledger, and the data set in it. Each window is charged once, before it is drawn: the same sums cost nothing
        more. Other sums are charged again, unless the window was claimed for those before, or all its slots are
        filled, so that nothing more can be published.
    unit
        The ledger's unit, if the guarantee's unit is one in a window, such as ``"customer in one hour"``. A unit in
        several windows then spends the cost of each.
    epoch
        Number of the launch. The same number continues a stream, from any earlier state. A new number draws independent
        noise for the same sums, for a stream that is read again into *another* sink. Releases of an earlier epoch in
        the same sink stay, and raise alarms; slots that it left empty are filled if the window's sums are the same.

    Raises
    ------
    InvalidInputError
        If a value is out of range, the secret cannot be fetched, or the noise is that of a schedule's rows.

    Examples
    --------
    >>> import secrets
    >>> import streamsketch as ss
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> publisher = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).calibrated(projection)
    >>> folder, secret = getfixture("tmp_path"), secrets.token_bytes(32)
    >>> once = ss.streams.ReleaseOnce(publisher, secret, ss.streams.FileSink(folder), "sales", public_keys=["north"])
    >>> sketch = projection.sketch()
    >>> sketch.update([3, 5], [1, 1])
    >>> held, alarms = once.release(0, {"north": sketch})
    >>> again, _ = once.release(0, {"north": sketch})
    >>> held == again, alarms
    (True, [])
    >>> sketch.update(3, 1)
    >>> held, alarms = once.release(0, {"north": sketch})
    >>> held, [str(one.slot) for one in alarms]
    ({}, ['sales 1970-01-01T00-00-00Z north'])
    """

    def __init__(  # noqa: PLR0913 - what makes a release final
        self,
        publisher: Calibrated[Any],
        secret: bytes | RootKey,
        sink: Sink,
        stream: str,
        *,
        public_keys: Iterable[object] | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        unit: str | None = None,
        epoch: int = 1,
    ) -> None:
        if not isinstance(publisher, Calibrated):
            raise TypeError(
                f"publisher must be calibrated to a projection, as by AdditiveNoise(…).calibrated(projection), got a "
                f"{type(publisher).__name__}"
            )
        publisher.check_single()
        if public_keys is not None:
            publisher.check_public_keys()
        check_stream(stream)
        check_together(ledger, dataset)
        self._key = secret if isinstance(secret, bytes) else fetch_root_key(secret)
        if len(self._key) != KEY_BYTES:
            raise InvalidInputError(f"secret must be {KEY_BYTES} bytes, got {len(self._key)}")
        self._publisher, self._sink, self._stream = publisher, sink, stream
        self._public = None if public_keys is None else public_names(public_keys)
        conditions = conditions_of_keys(keys_are_public=True, in_windows=True)
        self._of_all_keys = publisher.with_guarantee(with_conditions(publisher.guarantee, *conditions))
        self._charge = None if ledger is None else LedgerCharge(ledger, dataset, publisher.projection)
        self._epoch = check_int(epoch, "epoch", 1, (1 << 63) - 1)
        neighbours = publisher.guarantee.neighbours
        neighbours = neighbours if unit is None else dataclasses.replace(neighbours, unit=unit)
        self._spent = dataclasses.replace(publisher.guarantee, neighbours=neighbours)

    def release(self, window: int | dt.datetime, sketches: Mapping[TableKey, Sketch] | SketchTable) -> Released:
        """Release a window: charge it, draw it and publish it, skipping the steps that were already done.

        Parameters
        ----------
        window
            Start of the window: microseconds after 1970-01-01T00:00Z, or a time with its zone.
        sketches
            The exact sketch of each key, with all rows of the window. A stream without keys has the key ``""``. In a
            table, public keys without rows may be missing.

        Returns
        -------
        held, alarms
            The fields of `Released`. If the ledger refuses, nothing is drawn, and all keys have an alarm. A window
            whose slots are all filled is not charged.

        Raises
        ------
        InvalidInputError, IncompatibleProjectionsError
            If a sketch does not fit the publisher, or a public key has no sketch, or a new one though others are
            bounded: `SketchTable.sketch_of` gives that of a key without rows. Nothing is charged or drawn then.
        OSError
            If the ledger or the sink cannot be reached; or another error of its driver. Try again: the same sums cost
            nothing more.
        """
        start, public = start_of(window), self._keys_of(sketches)
        exact = self._exact(sketches, public)
        is_stated = public is not None or exact.keys() == {NO_KEY}
        publisher = self._publisher if is_stated else self._of_all_keys
        ready = publisher.for_data(exact)
        slots = {key: Slot(self._stream, start, *named_key(key)) for key in exact}
        named = {key: self._named(start, key, sketch, publisher.guarantee) for key, sketch in exact.items()}
        ids, version = self._ids(start), self._version(start, ready, named)
        noise = self._secret("noise")

        def contents(releases: Mapping[TableKey, Any]) -> dict[TableKey, tuple[Slot, bytes]]:
            return {key: (slots[key], release.to_bytes()) for key, release in releases.items()}

        drawn = draw_window(
            self._sink,
            list(slots.values()),
            version,
            charge=lambda: self._is_covered(start, named, ids.with_keys(exact)),
            draw=lambda: ready.draw(lambda key: KeyedBits(noise, named[key]), ids=ids),
            contents=contents,
            epoch=self._epoch,
        )
        if drawn.release is None:
            return Released({}, drawn.alarms)
        put = drawn.put or put_window(self._sink, contents(drawn.release), self._epoch, version)
        return Released({key: drawn.release[key] for key in put.held}, put.alarms)

    def _keys_of(self, sketches: Mapping[TableKey, Sketch] | SketchTable) -> list[TableKey] | None:
        """Return the keys to release, as asked for or agreed; None for those that have sketches."""
        held = [sketches] if isinstance(sketches, SketchTable) else list(sketches.values())
        sums = (sketch for sketch in held if isinstance(sketch, Sketch | SketchTable))
        agreements = [sketch.agreement for sketch in sums if sketch.agreement is not None]
        public, agreed = self._public, agreements[:1] if self._public is not None or {*sketches} != {NO_KEY} else []
        for agreement in agreed:
            keys = keys_for(agreement, public, keys_are_public=False, in_windows=True)["public_keys"]
            public = None if keys is None else list(keys)
        return public

    def _exact(
        self, sketches: Mapping[TableKey, Sketch] | SketchTable, public: list[TableKey] | None
    ) -> dict[TableKey, Sketch]:
        """Return the sketches to release in the order in which they are put, which depends on the keys only."""
        if isinstance(sketches, SketchTable):
            exact = sketches_to_release(sketches, public, keys_are_public=public is None)
        else:
            exact = dict(sketches)
            if public is not None:
                if missing := [key for key in public if key not in exact]:
                    raise InvalidInputError(
                        f"there is no sketch of the public key {short(missing[0])}; pass the whole SketchTable, or "
                        "its sketch_of(key) for each key"
                    )
                exact = {key: exact[key] for key in public}
        return {key: exact[key] for key in in_order(exact)}

    def _named(self, start: int, key: TableKey, sketch: Sketch, guarantee: Any) -> bytes:
        """Return a digest of all that determines a release, including its exact numbers."""
        place = (number_bytes(start), canonical_bytes(key))
        numbers = drawn_numbers(sketch, guarantee)
        return digest_of_draw(name_of_draw(guarantee, self._publisher.projection, numbers, *place))

    def _version(self, start: int, ready: Mapping[TableKey, Any], named: Mapping[TableKey, bytes]) -> Version:
        """Return the version of a window with these sums, and with what its releases state, in all epochs."""
        secret = self._secret("version", outlives_epochs=True)
        tags = {
            key: version_tag(secret, [named[key], release.guarantee.to_json().encode()])
            for key, release in ready.items()
        }
        return Version(version_slot(self._stream, start), version_of(tags))

    def _ids(self, start: int) -> DataIds:
        """Return the ids of a window's data, the same in all epochs: its releases are known to share their data."""
        return ids_from(self._secret("data ids", outlives_epochs=True), number_bytes(start))

    def _secret(self, use: str, *, outlives_epochs: bool = False) -> bytes:
        epoch = [] if outlives_epochs else [str(self._epoch)]
        return hkdf(self._key, *(part.encode() for part in ("release once", self._stream, use, *epoch)))

    def _is_covered(self, start: int, named: Mapping[TableKey, bytes], ids: DataIds) -> bool:
        """Charge a window with these sums, unless it was charged; return whether the ledger covers it."""
        if self._charge is None:
            return True
        window = Slot(self._stream, start, "text", "").window
        drawn = draw_id(self._secret("charge"), joined(named.values()))
        note = f"{self._stream} {window}"
        where: dict[str, Any] = {"stream": self._stream, "epoch": self._epoch, "window": window}
        return self._charge.covers(self._spent, ids, f"{note} {drawn}", note, **where)
