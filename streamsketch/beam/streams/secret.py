"""The secret of a stream, which every launch and every restore of a job derives from one root key."""

import hmac
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.value_provider import ValueProvider

from streamsketch.beam.run.claims import create_once, read_claim
from streamsketch.beam.run.runs import RunSecret, has_stream, run_secret, use_secret
from streamsketch.beam.streams.lateness import agree_on_clock
from streamsketch.errors import InvalidInputError
from streamsketch.intake.clock import ClockKind
from streamsketch.once.keys import hkdf
from streamsketch.once.root_keys import RootKey, check_root_key, fetch_root_key, key_fingerprint
from streamsketch.once.slots import check_stream

Epoch: TypeAlias = int | ValueProvider

_OUTLIVES_EPOCHS = frozenset({"bounds", "data ids", "version"})
"""Secrets that stay the same in a new launch: they decide which contributions a unit keeps, and identify its data.
So equal rows have equal sums, which are then one version of their window."""


class StreamSecret(RunSecret):
    """The source from which a worker derives a stream's secrets; the job's specification has only names.

    Parameters
    ----------
    stream
        Name of the stream.
    epoch
        Number of the launch.
    claims
        Folder with the claims of epochs and the key's fingerprint.
    source
        Where workers fetch the root key.
    clock
        What moves the watermark.
    """

    __slots__ = ("_claims", "_epoch", "_place", "_stream", "clock")

    def __init__(self, stream: str, epoch: Epoch, claims: str, source: RootKey, clock: ClockKind = "events") -> None:
        super().__init__(b"", b"", source)
        self._stream, self._epoch, self._claims, self._place = stream, epoch, claims, source
        self.clock: ClockKind = clock

    def derive(self, use: str, label: str) -> bytes:
        """Return 32 secret bytes: HKDF (RFC 5869) of the root key, the stream, the use, the label, and the epoch.

        Secrets that bound contributions do not depend on the epoch: a restored or relaunched job keeps the same
        contributions of each unit.

        Raises
        ------
        InvalidInputError
            If the worker cannot fetch the root key, fetches one that the stream did not begin with, or a later launch
            has taken over.
        """
        epoch, root_key = _opened(self._stream, self._epoch, self._claims, self._place)
        named = [self._stream, use, label, *([] if use in _OUTLIVES_EPOCHS else [str(epoch)])]
        return hkdf(root_key, *(part.encode() for part in named))

    def fingerprint(self) -> bytes:
        """Return 8 bytes that distinguish the root key from others, which are kept with a job's state."""
        return key_fingerprint(_opened(self._stream, self._epoch, self._claims, self._place)[1])

    def __reduce__(self) -> Any:
        secret = pickler.dumps(self._epoch), self._claims, pickler.dumps(self._place)
        return _restored, (self._stream, *secret, self.clock)

    def __repr__(self) -> str:
        return f"StreamSecret({self._stream!r}, …)"


def _restored(stream: str, epoch: bytes, claims: str, source: bytes, clock: ClockKind) -> StreamSecret:
    return StreamSecret(stream, pickler.loads(epoch), claims, pickler.loads(source), clock)


def configure_stream(
    pipeline: beam.Pipeline,
    *,
    stream: str,
    root_key: RootKey,
    claims: str,
    epoch: Epoch | None = None,
    clock: ClockKind = "events",
) -> Epoch:
    """Configure the stream that a pipeline publishes, before the first transform that draws; return its epoch.

    The secrets of a stream are functions of the root key, the stream's name and the epoch. So a job keeps them if it is
    killed, restored from a savepoint, or built again and then restored: a privacy unit stays within its bounds, and a
    recomputed window gets the same bytes. No secret is in the job's specification or in its checkpoints.

    Parameters
    ----------
    pipeline
        The pipeline, without transforms that draw.
    stream
        Name of the stream: 1 to 64 letters, digits, ``_`` and ``-``. The names of releases begin with it.
    root_key
        Where workers fetch the key, as in `configure_run`. All launches of a stream need the same key.
    claims
        A folder that all workers share, as in `configure_run`. It holds a file for each epoch and one with the key's
        fingerprint; none of them is secret.
    epoch
        None for a new launch, which claims the next epoch, with noise that is independent of all others. To restore a
        job from its savepoint, pass the number that its launch claimed. For a template, pass a `ValueProvider`, and
        claim a number for each launch with `claim_epoch`.
    clock
        What moves the watermark. With ``"events"``, records with data do. One unit's records could then make those of
        others late, so each release states the condition that none does. With ``"heartbeats"``, only records without
        key and data do, which the log's writer inserts, and no such condition is needed. Pass the same to
        `ReadGrowingFolder`; for your own sources it is your assertion. A restored job keeps its clock.

    Returns
    -------
    epoch
        The epoch of this launch, int or `ValueProvider`. Keep it, because a restore needs it.

    Raises
    ------
    TypeError
        For a root key itself, or another type.
    InvalidInputError
        If the name is not valid, or the epoch was not claimed or was ended by a later launch, and as in
        `configure_run`. In the workers, if the root key is not the one that the stream began with.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch.beam.streams import configure_stream
    >>> folder = getfixture("tmp_path")
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> configure_stream(pipeline, stream="flights", root_key=folder / "key", claims=str(folder))
    1
    """
    check_root_key(root_key)
    agree_on_clock(pipeline, clock)
    if epoch is None:
        epoch = claim_epoch(claims, stream)
    elif isinstance(epoch, ValueProvider):
        check_stream(stream)
    else:
        _check_epoch(claims, stream, epoch)
    use_secret(pipeline, StreamSecret(stream, epoch, claims, root_key, clock))
    return epoch


def clock_of(pipeline: beam.Pipeline) -> ClockKind | None:
    """Return what moves the watermark of a pipeline's stream, None if it publishes no stream."""
    secret = run_secret(pipeline) if has_stream(pipeline) else None
    return secret.clock if isinstance(secret, StreamSecret) else None


def claim_epoch(claims: str, stream: str) -> int:
    """Claim the next epoch of a stream, which ends the earlier ones, and return it.

    Raises
    ------
    InvalidInputError
        If the name is not valid, or the file system cannot create a file exclusively, as in `configure_run`.

    Examples
    --------
    >>> claims = str(getfixture("tmp_path"))
    >>> claim_epoch(claims, "flights"), claim_epoch(claims, "flights")
    (1, 2)
    """
    epoch = _last_epoch(claims, stream) + 1
    while not create_once(_epoch_path(claims, stream, epoch), b"streamsketch epoch 1\n"):
        epoch += 1
    return epoch


def _epoch_path(claims: str, stream: str, epoch: int) -> str:
    return str(FileSystems.join(claims, f"{stream}.{epoch:08d}.epoch"))


def _last_epoch(claims: str, stream: str) -> int:
    check_stream(stream)
    try:
        (match,) = FileSystems.match([FileSystems.join(claims, f"{stream}.*.epoch")])
    except beam.io.filesystem.BeamIOError:  # there is no such folder yet
        return 0
    numbers = [FileSystems.split(metadata.path)[1].split(".")[1] for metadata in match.metadata_list]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _check_epoch(claims: str, stream: str, epoch: int) -> None:
    last = _last_epoch(claims, stream)
    if type(epoch) is not int or epoch < 1 or epoch > last:
        raise InvalidInputError(
            f"epoch {epoch!r:.40} of the stream {stream} has not been claimed; the last one in {claims} is {last}. "
            "Leave out epoch for a new launch"
        )
    if epoch < last:
        raise InvalidInputError(
            f"epoch {epoch} of the stream {stream} is over, because a later launch claimed epoch {last} in {claims}. "
            "Restore that job, or leave out epoch for a new launch"
        )


_OPENED: dict[tuple[str, int, str], tuple[RootKey, bytes]] = {}
"""Root keys of this process's streams, so that a file or a key service is read once."""


def _opened(stream: str, value: Epoch, claims: str, source: RootKey) -> tuple[int, bytes]:
    """Return the epoch and the root key, both checked once a process."""
    epoch = int(value.get()) if isinstance(value, ValueProvider) else value
    opened = _OPENED.get((stream, epoch, claims))
    if opened is None or opened[0] != source:
        _check_epoch(claims, stream, epoch)
        root_key = fetch_root_key(source)
        _check_fingerprint(claims, stream, root_key)
        opened = _OPENED[stream, epoch, claims] = source, root_key
    return epoch, opened[1]


def _check_fingerprint(claims: str, stream: str, root_key: bytes) -> None:
    path, own = str(FileSystems.join(claims, f"{stream}.key")), key_fingerprint(root_key).hex().encode()
    if not create_once(path, own) and not hmac.compare_digest(read_claim(path), own):
        raise InvalidInputError(
            f"the stream {stream} began with another root key, whose fingerprint is in {path}; pass that root key. "
            "With another one, units would make other contributions in addition to those already made"
        )
