"""The secret of a stream: what every launch and every restore of one endless job derives from one root key."""

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
from streamsketch.intake import ClockKind
from streamsketch.streams import RootKey, check_root_key, check_stream, fetch_root_key, hkdf, key_fingerprint

Epoch: TypeAlias = int | ValueProvider

_OUTLIVES_EPOCHS = frozenset({"bounds", "data ids"})
"""What must not change when a job is launched anew: which contributions a unit keeps, and whose data they are."""


class StreamSecret(RunSecret):
    """What a worker derives a stream's secrets from; the job's specification has names alone.

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

        What bounds contributions has no epoch in it: a restored or relaunched job keeps the same of each unit.

        Raises
        ------
        InvalidInputError
            If the worker cannot fetch the root key, fetches another than the stream began with, or a later launch
            has taken over.
        """
        epoch, root_key = _opened(self._stream, self._epoch, self._claims, self._place)
        named = [self._stream, use, label, *([] if use in _OUTLIVES_EPOCHS else [str(epoch)])]
        return hkdf(root_key, *(part.encode() for part in named))

    def fingerprint(self) -> bytes:
        """Return 8 bytes that tell the root key from another, for keeping them with a job's state."""
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
    """Say which stream an endless pipeline publishes, before the first transform that draws; return its epoch.

    The secrets of a stream are functions of the root key, the stream's name and the epoch, so a job that is killed,
    restored from a savepoint, or built again and then restored keeps them: a privacy unit keeps to its bounds, and a
    window that is computed again gets the bytes that it had. None of them is in the job's specification or in its
    checkpoints.

    Parameters
    ----------
    pipeline
        The pipeline, without transforms that draw.
    stream
        Name of the stream: 1 to 64 letters, digits, ``_`` and ``-``. Releases are named by it.
    root_key
        Where workers fetch the key, as in `configure_run`. A stream keeps its key.
    claims
        A folder that all workers share, as in `configure_run`. It gets a file for each epoch and one with the key's
        fingerprint, none of them secret.
    epoch
        None for a new launch: it claims the next epoch, whose noise is independent of all others. The number that a
        launch claimed, to restore that job from its savepoint. A `ValueProvider` for templates: claim a number for
        each launch by `claim_epoch`.
    clock
        What moves the watermark. ``"events"``: records with data. One unit's could then make those of others late, so
        each release states as a condition that none does. ``"heartbeats"``: records alone that carry nobody's data,
        which the log's writer puts in, and there is no such condition. `ReadGrowingFolder` has to be given the same;
        of sources of your own it is your assertion. A restored job keeps its clock.

    Returns
    -------
    epoch
        Keep it: a restore needs it.

    Raises
    ------
    TypeError
        For a root key itself, or another type.
    InvalidInputError
        For another name, an epoch that nobody claimed or that a later launch has ended, and as `configure_run`. In the
        workers, for another root key than the stream began with.

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
    """Claim the next epoch of a stream and return it; from then on the epochs before are over.

    Raises
    ------
    InvalidInputError
        For a name that is none, and as `configure_run`, on file systems that cannot create a file exclusively.
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
        (found,) = FileSystems.match([FileSystems.join(claims, f"{stream}.*.epoch")])
    except beam.io.filesystem.BeamIOError:  # there is no such folder yet
        return 0
    numbers = [FileSystems.split(metadata.path)[1].split(".")[1] for metadata in found.metadata_list]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _check_epoch(claims: str, stream: str, epoch: int) -> None:
    last = _last_epoch(claims, stream)
    if type(epoch) is not int or epoch < 1 or epoch > last:
        raise InvalidInputError(
            f"nobody claimed epoch {epoch!r:.40} of the stream {stream}: the last one in {claims} is {last}. Leave "
            f"epoch out for a new launch"
        )
    if epoch < last:
        raise InvalidInputError(
            f"epoch {epoch} of the stream {stream} is over: a later launch claimed epoch {last} in {claims}. Restore "
            f"that job, or leave epoch out for a new launch"
        )


_OPENED: dict[tuple[str, int, str], tuple[RootKey, bytes]] = {}
"""Root keys of this process's streams, so that a file or a key service is asked once."""


def _opened(stream: str, given: Epoch, claims: str, source: RootKey) -> tuple[int, bytes]:
    """Return the epoch and the root key, both checked once a process."""
    epoch = int(given.get()) if isinstance(given, ValueProvider) else given
    known = _OPENED.get((stream, epoch, claims))
    if known is None or known[0] != source:
        _check_epoch(claims, stream, epoch)
        root_key = fetch_root_key(source)
        _check_fingerprint(claims, stream, root_key)
        known = _OPENED[stream, epoch, claims] = source, root_key
    return epoch, known[1]


def _check_fingerprint(claims: str, stream: str, root_key: bytes) -> None:
    path, own = str(FileSystems.join(claims, f"{stream}.key")), key_fingerprint(root_key).hex().encode()
    if not create_once(path, own) and not hmac.compare_digest(read_claim(path), own):
        raise InvalidInputError(
            f"the stream {stream} began with another root key, whose fingerprint is in {path}. A stream keeps its key: "
            f"with another one, units would keep other contributions beside those that they have made"
        )
