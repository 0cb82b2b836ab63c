"""The secret of a run: drawn when a job runs, never when it is built, and shared by all transforms of a pipeline."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.options.value_provider import ValueProvider

from streamsketch.beam.run import claims as claiming
from streamsketch.beam.run.runner import may_compute_again, refuse_broken_runner
from streamsketch.beam.run.steps import Each, Step
from streamsketch.errors import InvalidInputError
from streamsketch.streams import RootKey, check_root_key, fetch_root_key, key_fingerprint

_LAUNCH_BYTES = 16
_MOST_KEYS = 16


class RunSecret:
    """What a worker derives all secrets of one run from; a side input of every step that draws.

    Parameters
    ----------
    nonce
        32 bytes, drawn when the job runs. The secret itself where there is no root key.
    root_key
        Fingerprint of the root key, or nothing.
    source
        Where workers fetch the root key.
    """

    __slots__ = ("_nonce", "_root_key", "_source")

    def __init__(self, nonce: bytes, root_key: bytes, source: RootKey | None) -> None:
        self._nonce, self._root_key, self._source = nonce, root_key, source

    def derive(self, use: str, label: str) -> bytes:
        """Return 32 secret bytes for one use in one transform: the same in all retries of a run, new in each run.

        Parameters
        ----------
        use
            What they are for.
        label
            Full label of the transform, which is unique in its pipeline.

        Raises
        ------
        InvalidInputError
            If the worker cannot fetch the root key, or fetches another than the run began with.
        """
        named = len(use.encode()).to_bytes(8, "little") + use.encode() + label.encode()
        return hashlib.blake2b(named, digest_size=32, key=self._key(), person=b"streamsketch.use").digest()

    def _key(self) -> bytes:
        if self._source is None:
            return self._nonce
        known = _KEYS.get((self._nonce, self._root_key))
        if known is None:
            root_key = fetch_root_key(self._source)
            if key_fingerprint(root_key) != self._root_key:
                raise InvalidInputError(
                    "a worker fetched another root key than the run began with; give all workers one"
                )
            known = hashlib.blake2b(self._nonce, digest_size=32, key=root_key, person=b"streamsketch.run").digest()
            if len(_KEYS) >= _MOST_KEYS:
                _KEYS.clear()
            _KEYS[self._nonce, self._root_key] = known
        return known

    def __reduce__(self) -> Any:
        # Beam's pickler takes the functions that pickle refuses
        return _restored, (self._nonce, self._root_key, pickler.dumps(self._source))

    def __repr__(self) -> str:
        return "RunSecret(…)"


def _restored(nonce: bytes, root_key: bytes, source: bytes) -> RunSecret:
    return RunSecret(nonce, root_key, pickler.loads(source))


_KEYS: dict[tuple[bytes, bytes], bytes] = {}
"""Keys of the last runs of this process, so that a file or a key service is asked once a run."""


def configure_run(
    pipeline: beam.Pipeline,
    *,
    root_key: RootKey | None = None,
    claims: str | None = None,
    run_id: str | ValueProvider | None = None,
) -> None:
    """Say where a pipeline's secret randomness comes from, before the first transform that draws.

    Every run of a pipeline draws a nonce from the operating system when it runs, and all noise, choices of keys and
    clipping of `ReleasePerKey`, `SelectKeys` and `BoundContributions` are functions of it. So a
    retried step repeats what it drew, and another run of the same pipeline, or another launch of a template, is an
    independent release whose ε adds up.

    Without this call the nonce is kept by the runner alone, between two steps, where the raw sketches are too. That is
    enough on FnApiRunner, Prism and Dataflow, which never compute again what is upstream of a shuffle. Other runners,
    such as Flink and Spark, do so after a failure, and need ``claims``.

    Parameters
    ----------
    pipeline
        The pipeline, without transforms that draw.
    root_key
        A secret that workers fetch for themselves: a `pathlib.Path` to a file of mode 0600 on each of them with 32
        bytes or 64 hexadecimal digits, the name of an environment variable with 64 digits, or a function that returns
        32 bytes. All secrets are then derived from it and the nonce, so what the runner stores does not suffice to
        subtract the noise. Neither the key nor the nonce is in the job's specification.
    claims
        A folder that all workers share, on a local or mounted file system, gs:// or s3://. The nonce is written there
        once, to a file that is created only if it does not exist; a step computed again reads it. Without a root key
        that file is as secret as the data: only its owner may read it. `FinishRun` takes the nonce out of it.
    run_id
        Name of the claim; a new random one by default. The same launch finds its claim again. Another one under that id
        is refused in the workers: one that was submitted anew always, one of the same template if `FinishRun` ended the
        first. Before that, a second launch of a template under one id counts as a retry, which it is for the same input
        alone. So give a template a `ValueProvider`, and each launch an id of its own.

    Raises
    ------
    TypeError
        For a root key itself, or another type.
    InvalidInputError
        If the pipeline has transforms that draw or was configured before, for a run id without claims, and for an id
        that is not a file name.

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
            "configure_run comes once, before the first transform that draws: the pipeline has a secret already"
        )
    if claims is None and run_id is not None:
        raise InvalidInputError("run_id names a claim; give claims, the folder for it, as well")
    if claims is not None:
        run_id = secrets.token_hex(16) if run_id is None else run_id
        if not isinstance(run_id, ValueProvider):
            claiming.claim_path(claims, run_id)  # fail before the job runs
    place = None if claims is None or run_id is None else _Place(claims, run_id)
    drawn = pipeline | "Secret of the run" >> _DrawSecret(root_key, place)
    pipeline.streamsketch_secret = _Run(drawn, place)


def use_secret(pipeline: beam.Pipeline, secret: RunSecret) -> None:
    """Give a pipeline a secret that workers know beforehand, before the first transform that draws."""
    if secret_of(pipeline) is not None:
        raise InvalidInputError(
            "a pipeline is configured once, before the first transform that draws: it has a secret already"
        )
    pipeline.streamsketch_secret = secret


def has_stream(pipeline: beam.Pipeline) -> bool:
    """Return whether a pipeline's secrets outlive it."""
    return isinstance(secret_of(pipeline), RunSecret)


def run_id_of(pipeline: beam.Pipeline) -> str | ValueProvider | None:
    """Return under which id a pipeline's run is claimed, if it is."""
    run = secret_of(pipeline)
    return run.place.run_id if isinstance(run, _Run) and run.place is not None else None


def run_secret(pipeline: beam.Pipeline) -> beam.pvalue.AsSingleton | RunSecret:
    """Return the secret of a pipeline's run, for steps of your own that draw: a side input, or the secret itself.

    The step gets an object whose ``derive(use, label)`` returns 32 secret bytes, the same in all retries of a run and
    new in each run.

    Raises
    ------
    InvalidInputError
        If the runner may compute a step again that others have seen, and `configure_run` gave no claims.
    """
    refuse_broken_runner(pipeline)
    if secret_of(pipeline) is None:
        configure_run(pipeline)
    run: Any = secret_of(pipeline)
    if isinstance(run, RunSecret):
        return run
    if run.place is None and may_compute_again(pipeline):
        raise InvalidInputError(
            f"{type(pipeline.runner).__name__} may compute again what is upstream of a shuffle, and would publish "
            f"a key twice with different noise. Call configure_run(pipeline, claims=FOLDER) first, with a folder that "
            f"all workers share"
        )
    return beam.pvalue.AsSingleton(run.drawn)


def label_in(pipeline: beam.Pipeline) -> str:
    """Return the full label of the transform that is being applied, which is unique in its pipeline."""
    return str(pipeline._current_transform().full_label)  # noqa: SLF001 - no public way


class FinishRun(beam.PTransform):
    """End a run that has a claim, once all its results are written: ``(PCollection, …) → PCollection``.

    The nonce is taken out of the claim, and a launch of the same template under the same run id is refused from then
    on. Input is a tuple of what the sinks return; the output has one element when all of them are done.

    Raises
    ------
    InvalidInputError
        If `configure_run` gave the pipeline no claims.
    """

    def expand(self, written: Any) -> beam.PCollection:
        """Apply the transform."""
        pipeline = written[0].pipeline
        run = secret_of(pipeline)
        if not isinstance(run, _Run) or run.place is None:
            raise InvalidInputError("there is no claim to end: give configure_run(pipeline, claims=…) a folder for it")
        done = [beam.pvalue.AsIter(one | f"Count {number}" >> _Nothing()) for number, one in enumerate(written)]
        start = pipeline | "Claim" >> beam.Create([None])
        return start | "End the run" >> beam.Map(_finish, run.place, *done)


class _Place(NamedTuple):
    """Where a claim is."""

    folder: str
    run_id: str | ValueProvider

    def path(self) -> str:
        run_id = self.run_id.get() if isinstance(self.run_id, ValueProvider) else self.run_id
        return claiming.claim_path(self.folder, run_id)


class _Run(NamedTuple):
    """What is known of a pipeline's run."""

    drawn: beam.PCollection
    place: _Place | None


def secret_of(pipeline: beam.Pipeline) -> "_Run | RunSecret | None":
    """Return where a pipeline's secret comes from, None before that is said."""
    found: _Run | RunSecret | None = getattr(pipeline, "streamsketch_secret", None)
    return found


class Fixed(beam.PTransform):
    """Have a step make a secret, once as far as the runner can tell: ``PCollection → PCollection[RunSecret]``.

    Parameters
    ----------
    step
        Yields ``(b"", secret)``. What it does is not done again after the shuffle; Beam's own would be four steps more.
    """

    def __init__(self, step: beam.DoFn) -> None:
        super().__init__()
        self._step = step

    def expand(self, given: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        made = given | "Make" >> beam.ParDo(self._step).with_output_types(beam.typehints.KV[bytes, RunSecret])
        return made | "Gather" >> beam.GroupByKey() | "Take" >> beam.ParDo(Each(_values)).with_output_types(RunSecret)


def _values(group: tuple[bytes, Iterable[RunSecret]]) -> Iterable[RunSecret]:
    return group[1]


class _DrawSecret(beam.PTransform):
    """Draw a run's nonce while the job runs, once as far as the runner or a claim can tell."""

    def __init__(self, root_key: RootKey | None, place: _Place | None) -> None:
        super().__init__()
        self._root_key, self._place = root_key, place

    def expand(self, start: Any) -> beam.PCollection:
        return start | "Run" >> beam.Impulse() | "Fix the secret" >> Fixed(_Draw(self._root_key, self._place))


class _Draw(Step):
    def __init__(self, root_key: RootKey | None, place: _Place | None) -> None:
        self._root_key, self._place = root_key, place
        self._launch = b""

    def __getstate__(self) -> dict[str, Any]:
        # a step is pickled when its job is submitted, so each submission has a token of its own, and keeps it when
        # workers pickle the step once more
        new = b"" if self._place is None else secrets.token_bytes(_LAUNCH_BYTES)
        return self.__dict__ | {"_launch": self._launch or new}

    def process(self, _: bytes) -> Iterator[tuple[bytes, RunSecret]]:
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


def _finish(_: None, place: _Place, *done: Any) -> str:
    del done  # side inputs, which are there only once they are complete
    claiming.finish(place.path())
    return place.path()
