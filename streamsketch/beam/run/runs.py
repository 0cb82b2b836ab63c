"""The secret of a run: drawn when a job runs, never when it is built, and shared by all transforms of a pipeline."""

import operator
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.options.value_provider import ValueProvider

from streamsketch.beam.run import claims as claiming
from streamsketch.beam.run.runner import may_compute_again, refuse_broken_runner
from streamsketch.beam.run.steps import Each, Step
from streamsketch.errors import InvalidInputError
from streamsketch.once.keys import hkdf
from streamsketch.once.root_keys import RootKey, check_root_key, fetch_root_key, key_fingerprint

_LAUNCH_BYTES = 16
_MOST_KEYS = 16
_KEYS_VERSION = 2  # how secrets follow from a nonce: by HKDF


class RunSecret:
    """The secret from which a worker derives all secrets of one run; a side input of every step that draws.

    Parameters
    ----------
    nonce
        32 bytes, drawn when the job runs. Without a root key, they are the secret itself.
    root_key
        Fingerprint of the root key; empty without one.
    source
        Where workers fetch the root key.
    """

    __slots__ = ("_nonce", "_root_key", "_source")

    def __init__(self, nonce: bytes, root_key: bytes, source: RootKey | None) -> None:
        self._nonce, self._root_key, self._source = nonce, root_key, source

    def derive(self, use: str, label: str) -> bytes:
        """Return 32 secret bytes for one use in one transform: the same in all retries of a run, new in each run.

        They are HKDF (RFC 5869) of the nonce, or of the root key and the nonce, and of the names.

        Parameters
        ----------
        use
            Name of the bytes' purpose.
        label
            Full label of the transform, which is unique in its pipeline.

        Raises
        ------
        InvalidInputError
            If the worker cannot fetch the root key, or fetches one with which the run did not begin.
        """
        return hkdf(self._key(), b"run", use.encode(), label.encode())

    def _key(self) -> bytes:
        if self._source is None:
            return self._nonce
        key = _KEYS.get((self._nonce, self._root_key))
        if key is None:
            root_key = fetch_root_key(self._source)
            if key_fingerprint(root_key) != self._root_key:
                raise InvalidInputError(
                    "a worker fetched a root key other than the one that the run began with; install the same root "
                    "key on all workers"
                )
            key = hkdf(root_key, b"run", self._nonce)
            if len(_KEYS) >= _MOST_KEYS:
                _KEYS.clear()
            _KEYS[self._nonce, self._root_key] = key
        return key

    def __reduce__(self) -> Any:
        # Beam's pickler takes the functions that pickle refuses
        return _restored, (self._nonce, self._root_key, pickler.dumps(self._source), _KEYS_VERSION)

    def __repr__(self) -> str:
        return "RunSecret(…)"


def _restored(nonce: bytes, root_key: bytes, source: bytes, keys: int = 1) -> RunSecret:
    if keys != _KEYS_VERSION:
        raise InvalidInputError(
            "the run was begun by an earlier version, whose secrets follow from its nonce in another way; restart the "
            "job as a new run"
        )
    return RunSecret(nonce, root_key, pickler.loads(source))


_KEYS: dict[tuple[bytes, bytes], bytes] = {}
"""Keys of this process's last runs, so that a file or a key service is read once per run."""


def configure_run(
    pipeline: beam.Pipeline,
    *,
    root_key: RootKey | None = None,
    claims: str | None = None,
    run_id: str | ValueProvider | None = None,
) -> None:
    """Configure where a pipeline's secret randomness comes from, before the first transform that draws.

    Every run of a pipeline draws a nonce from the operating system when it starts. All noise, choices of keys and
    clipping of `ReleasePerKey`, `SelectKeys` and `BoundContributions` are functions of it. So a retried step draws the
    same again, and another run of the same pipeline, or another launch of a template, is an independent release whose ε
    adds up.

    Without this call, only the runner stores the nonce, between two steps, as it stores the raw sketches. That is
    enough on FnApiRunner, Prism and Dataflow, which never recompute steps upstream of a shuffle. Other runners, such as
    Flink and Spark, recompute them after a failure and need ``claims``.

    Parameters
    ----------
    pipeline
        The pipeline, without transforms that draw.
    root_key
        A secret that workers fetch themselves: a `pathlib.Path` to a file of mode 0600 on each worker with 32 bytes or
        64 hexadecimal digits, the name of an environment variable with 64 hexadecimal digits, or a function that
        returns 32 bytes. All secrets are then derived from it and the nonce, so what the runner stores is not enough to
        subtract the noise. Neither the key nor the nonce is in the job's specification.
    claims
        A folder that all workers share, on a local or mounted file system, gs:// or s3://. The nonce is written there
        once, to a file that is created only if it does not exist; a recomputed step reads it. Without a root key, that
        file is as secret as the data, and only its owner may read it. `FinishRun` removes the nonce from it.
    run_id
        Name of the claim; by default a new random one. The same launch finds its claim again. The workers refuse
        another launch under that id: always if it was submitted again, and for a template once `FinishRun` has ended
        the first launch. Before that, a second launch of a template under one id counts as a retry, which is correct
        only for the same input. So pass a `ValueProvider` in a template, and choose a new id for each launch.

    Raises
    ------
    TypeError
        If ``root_key`` is a key itself or has another type.
    InvalidInputError
        If the pipeline has transforms that draw, or was configured before; if ``run_id`` is passed without ``claims``,
        or is not a file name.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import FinishRun, ReleasePerKey, RowsToBatches, SketchPerKey, WriteTable, configure_run
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", value="flights")
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=L1(1))
    >>> folder = getfixture("tmp_path")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     configure_run(pipeline, claims=str(folder), run_id="2024-05-01")
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1)])
    ...         | RowsToBatches(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(noise, public_keys=["AA", "UA"])
    ...     )
    ...     written = releases | WriteTable(str(folder / "table.parquet"))
    ...     done = (written,) | FinishRun()
    """
    if root_key is not None:
        check_root_key(root_key)
    if secret_of(pipeline) is not None:
        raise InvalidInputError(
            "the pipeline already has a secret; call configure_run once, before the first transform that draws"
        )
    if claims is None and run_id is not None:
        raise InvalidInputError("run_id names a claim, but there is no folder for it; pass claims as well")
    if claims is not None:
        run_id = secrets.token_hex(16) if run_id is None else run_id
        if not isinstance(run_id, ValueProvider):
            claiming.claim_path(claims, run_id)  # fail before the job runs
    place = None if claims is None or run_id is None else PlaceRuns(claims, run_id)
    drawn = pipeline | "Secret of the run" >> _DrawSecret(root_key, place)
    pipeline.streamsketch_secret = _Run(drawn, place)


def use_secret(pipeline: beam.Pipeline, secret: RunSecret) -> None:
    """Set a secret that workers know in advance, before the pipeline's first transform that draws."""
    if secret_of(pipeline) is not None:
        raise InvalidInputError(
            "the pipeline already has a secret; configure it once, before the first transform that draws"
        )
    pipeline.streamsketch_secret = secret


def has_stream(pipeline: beam.Pipeline) -> bool:
    """Return whether a pipeline's secret outlives the job, as that of a stream does."""
    return isinstance(secret_of(pipeline), RunSecret)


def run_id_of(pipeline: beam.Pipeline) -> str | ValueProvider | None:
    """Return the id of the claim of a pipeline's run, None without one."""
    run = secret_of(pipeline)
    return run.place.run_id if isinstance(run, _Run) and run.place is not None else None


def run_secret(pipeline: beam.Pipeline) -> beam.pvalue.AsSingleton | RunSecret:
    """Return the secret of a pipeline's run for your own steps that draw: a side input, or the secret itself.

    The step receives an object whose ``derive(use, label)`` returns 32 secret bytes, the same in all retries of a run
    and different in each run.

    Raises
    ------
    InvalidInputError
        If the runner may recompute a step whose output was already used, and `configure_run` set no claims.

    Examples
    --------
    >>> import apache_beam as beam
    >>> def draw(key, run):
    ...     return key, run.derive("coins", key)  # 32 bytes, the same in each retry
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> drawn = pipeline | beam.Create(["north", "south"]) | beam.Map(draw, run=run_secret(pipeline))
    """
    refuse_broken_runner(pipeline)
    if secret_of(pipeline) is None:
        configure_run(pipeline)
    run: Any = secret_of(pipeline)
    if isinstance(run, RunSecret):
        return run
    if run.place is None and may_compute_again(pipeline):
        raise InvalidInputError(
            f"{type(pipeline.runner).__name__} may recompute steps upstream of a shuffle, and would then publish a "
            "key twice with different noise. Call configure_run(pipeline, claims=FOLDER) first, with a folder that "
            "all workers share"
        )
    return beam.pvalue.AsSingleton(run.drawn)


def label_in(pipeline: beam.Pipeline) -> str:
    """Return the full label of the transform that is being applied, which is unique in its pipeline."""
    return str(pipeline._current_transform().full_label)  # noqa: SLF001 - no public way


class FinishRun(beam.PTransform):
    """End a run that has a claim, once all its results are written: ``(PCollection, …) → PCollection``.

    The nonce is removed from the claim, and a later launch of the same template under the same run id is refused. The
    input is a tuple of the sinks' outputs; the output has one element once all of them are done.

    Raises
    ------
    InvalidInputError
        If `configure_run` set no claims for the pipeline.

    Examples
    --------
    `configure_run` shows it after a release.

    >>> import apache_beam as beam
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> configure_run(pipeline, claims=str(getfixture("tmp_path")), run_id="2024-05-01")
    >>> written = pipeline | beam.Create(["the name of a file"])
    >>> done = (written,) | FinishRun()
    """

    def expand(self, written: Any) -> beam.PCollection:
        """Apply the transform."""
        pipeline = written[0].pipeline
        run = secret_of(pipeline)
        if not isinstance(run, _Run) or run.place is None:
            raise InvalidInputError(
                "the pipeline's run has no claim to end; call configure_run(pipeline, claims=FOLDER) first"
            )
        done = [beam.pvalue.AsIter(output | f"Count {number}" >> _Nothing()) for number, output in enumerate(written)]
        start = pipeline | "Claim" >> beam.Create([None])
        return start | "End the run" >> beam.Map(_finish, run.place, *done)


class PlaceRuns(NamedTuple):
    """Where a claim is."""

    folder: str
    run_id: str | ValueProvider

    def path(self) -> str:
        """Return the file in which the run is claimed."""
        run_id = self.run_id.get() if isinstance(self.run_id, ValueProvider) else self.run_id
        return claiming.claim_path(self.folder, run_id)


class _Run(NamedTuple):
    """What a pipeline knows about its run."""

    drawn: beam.PCollection
    place: PlaceRuns | None


def secret_of(pipeline: beam.Pipeline) -> "_Run | RunSecret | None":
    """Return where a pipeline's secret comes from, None if it is not configured yet."""
    secret: _Run | RunSecret | None = getattr(pipeline, "streamsketch_secret", None)
    return secret


class Fixed(beam.PTransform):
    """Make a secret by a step, and fix it by a shuffle: ``PCollection → PCollection[RunSecret]``.

    Parameters
    ----------
    step
        Yields ``(b"", secret)``. A runner that never recomputes steps upstream of a shuffle runs it once. Beam's
        ``Reshuffle`` would add four steps.
    """

    def __init__(self, step: beam.DoFn) -> None:
        super().__init__()
        self._step = step

    def expand(self, source: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        made = source | "Make" >> beam.ParDo(self._step).with_output_types(beam.typehints.KV[bytes, RunSecret])
        take = beam.ParDo(Each(operator.itemgetter(1))).with_output_types(RunSecret)
        return made | "Gather" >> beam.GroupByKey() | "Take" >> take


class _DrawSecret(beam.PTransform):
    """Draw a run's nonce once, while the job runs; the shuffle or a claim keeps it."""

    def __init__(self, root_key: RootKey | None, place: PlaceRuns | None) -> None:
        super().__init__()
        self._root_key, self._place = root_key, place

    def expand(self, start: Any) -> beam.PCollection:
        return start | "Run" >> beam.Impulse() | "Fix the secret" >> Fixed(DrawRuns(self._root_key, self._place))


class DrawRuns(Step):
    """Draw a run's secret, or take the one that was drawn."""

    def __init__(self, root_key: RootKey | None, place: PlaceRuns | None) -> None:
        self._root_key, self._place = root_key, place
        self._launch = b""

    def __getstate__(self) -> dict[str, Any]:
        # a step is pickled when its job is submitted, so each submission has a token of its own, and keeps it when
        # workers pickle the step once more
        new = b"" if self._place is None else secrets.token_bytes(_LAUNCH_BYTES)
        return self.__dict__ | {"_launch": self._launch or new}

    def process(self, _: bytes) -> Iterator[tuple[bytes, RunSecret]]:
        """Yield the run's secret with the nonce that claimed it."""
        root_key = b"" if self._root_key is None else key_fingerprint(fetch_root_key(self._root_key))
        if self._place is None:
            nonce = secrets.token_bytes(claiming.NONCE_BYTES)
        else:
            nonce = claiming.claimed_nonce(self._place.path(), self._launch, root_key)
        yield b"", RunSecret(nonce, root_key, self._root_key)


class _Nothing(beam.PTransform):
    """Turn a collection into an empty one in the global window, which is ready when the collection is complete."""

    def expand(self, written: beam.PCollection) -> beam.PCollection:
        return (
            written
            | "Drop" >> beam.FlatMap(lambda _: ()).with_output_types(bool)
            | "Global" >> beam.WindowInto(beam.window.GlobalWindows())
        )


def _finish(_: None, place: PlaceRuns, *done: Any) -> str:
    del done  # side inputs, which arrive only when they are complete
    claiming.finish(place.path())
    return place.path()
