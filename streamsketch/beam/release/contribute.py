"""A party's contributions to a round, one for each key of its table."""

import functools
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow, GlobalWindows

from streamsketch.beam.intake.keys import Keys
from streamsketch.beam.release.release import ReleaseOnce
from streamsketch.beam.run.charges import Charge
from streamsketch.beam.run.draws import KeyedDraw
from streamsketch.beam.run.runs import RunSecret, run_id_of
from streamsketch.errors import InvalidInputError
from streamsketch.parties import Key, Round
from streamsketch.privacy import BitSource, Guarantee, Neighbours
from streamsketch.projections import Projection
from streamsketch.sketching import Sketch

_CONTRIBUTING: "weakref.WeakSet[beam.Pipeline]" = weakref.WeakSet()
"""Pipelines that contribute to the round that they are the run of."""


class ContributePerKey(ReleaseOnce):
    """Contribute each key's sketch to a round, once: ``PCollection[KV[key, Sketch]] → PCollection[KV[key, bytes]]``.

    In the place of `ReleasePerKey`, where several parties publish the sums of their tables with one noise for all:
    ``round.for_key(key).combine(contributions)`` of all parties' bytes for a key is its release. The table of releases
    has the round's guarantee, and its neighbours are those that `BoundContributions` enforced, or your assertion.

    A party contributes **once** to a round, so the pipeline's run is a claim of it: call
    ``configure_run(pipeline, claims=FOLDER, run_id=round.fingerprint)`` first. Retries within the run give the same
    bytes; another launch is refused, and takes a new round. A pipeline has one such transform. The key remembers in the
    file ``KEY.rounds`` beside its own what it sent for each key of the table, and refuses to send anything else.

    Parameters
    ----------
    agreed
        The round, signed by all or with parties that you know.
    key
        The party's private key: a file that `Key.save` wrote on every worker, in a folder that can be written, or a
        function that returns the key there (``Key.load(path, record=…)`` for a folder that cannot). It is in no
        specification.
    public_keys
        As in `ReleasePerKey`, and the same for all parties: each contributes to every key, with data or without.
    count_private_data, ledger, dataset
        As in `ReleasePerKey`.

    Raises
    ------
    InvalidInputError
        If the pipeline's run is not a claim of the round, it contributes to the round already, sketches are in windows,
        or they are bounded otherwise than agreed; in the workers, if the claim is another launch's, or the key no
        party's, or one that contributed before.
    SignatureError
        If not all parties signed the round.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import ContributePerKey, SketchPerKey, configure_run
    >>> from streamsketch.parties import Key, Round
    >>> keys = [Key.generate(name) for name in ("North", "South")]
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreed = Round(projection, epsilon=1.0, neighbours=L1(1), parties=[key.public for key in keys])
    >>> folder = getfixture("tmp_path")
    >>> keys[0].save(folder / "north.pem")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     configure_run(pipeline, claims=str(folder), run_id=agreed.fingerprint)
    ...     contributions = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1), ("UA", 18, 2)])
    ...         | SketchPerKey(projection)
    ...         | ContributePerKey(agreed, folder / "north.pem", public_keys=["AA", "DL", "UA"])
    ...     )
    """

    published = bytes

    def __init__(
        self,
        agreed: Round,
        key: str | os.PathLike[str] | Callable[[], Key],
        *,
        public_keys: Keys,
        count_private_data: bool = False,
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        if not isinstance(agreed, Round):
            raise TypeError(f"ContributePerKey needs a Round, got a {type(agreed).__name__}")
        if isinstance(key, Key):
            raise TypeError("a private key would be in the job's specification; give its file, or a function")
        agreed.check_ready()
        agreed.for_key(b"")  # fail before the job runs
        self._round, self._key = agreed, key if callable(key) else Path(key)
        super().__init__(
            neighbours=agreed.neighbours,
            public_keys=public_keys,
            selected_keys=None,
            keys_are_public=False,
            public_windows=None,
            projection=agreed.projection,
            count_private_data=count_private_data,
            charge=Charge.of(ledger, dataset),
        )

    def expand(self, sketches: beam.PCollection) -> Any:
        """Apply the transform."""
        if not isinstance(sketches.windowing.windowfn, GlobalWindows):
            raise InvalidInputError("a round is for one table: contribute outside of windows")
        if run_id_of(sketches.pipeline) != self._round.fingerprint:
            raise InvalidInputError(
                "a party contributes once to a round, as the difference of two contributions is in the clear. Call "
                "configure_run(pipeline, claims=FOLDER, run_id=round.fingerprint) first: it refuses a second launch"
            )
        if sketches.pipeline in _CONTRIBUTING:
            raise InvalidInputError(
                "the pipeline contributes to this round already, and the difference of two contributions is in the "
                "clear. Give one ContributePerKey all sketches and all public_keys, or make a new round"
            )
        contributions = super().expand(sketches)
        _CONTRIBUTING.add(sketches.pipeline)
        return contributions

    def display_data(self) -> dict[str, Any]:
        """Show the round in the runner's interface; never a secret."""
        return {"round": self._round.fingerprint, "guarantee": str(self._round.guarantee)}

    def _publisher(self, _: Neighbours) -> Any:
        return _Agreed(self._round.guarantee)

    def _drawing(
        self,
        publisher: Any,  # noqa: ARG002 - the round is
        projection: Projection,
        guarantee: Guarantee,
        sources: Sequence[str],
        agreement: str | None,  # noqa: ARG002 - rounds carry none
        *,
        opened: bool,  # noqa: ARG002 - there are no windows
    ) -> "_Contribution":
        return _Contribution(self._round, self._key, projection, guarantee, sources, count=self._count_private_data)


class _Agreed:
    """Stands for what calibrates: the round's noise is agreed on."""

    def __init__(self, guarantee: Guarantee) -> None:
        self.guarantee = guarantee

    def calibrated(self, _: Projection) -> "_Agreed":
        return self


class _Contribution(KeyedDraw):
    published = bytes

    def __init__(
        self,
        agreed: Round,
        key: Path | Callable[[], Key],
        projection: Projection,
        guarantee: Guarantee,
        sources: Sequence[str],
        *,
        count: bool,
    ) -> None:
        super().__init__(projection, guarantee, sources, count=count)
        self._round, self._file = agreed, key

    def named(self, total: Sketch) -> tuple[bytes, ...]:
        return (*super().named(total), self._round.session)

    def draw(self, total: Sketch, bits: BitSource, key: Any, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        yield self._round.for_key(key).contribute_again(self._with_ids(total, key, window, run), self._key, bits)
        self._note(total)

    @functools.cached_property
    def _key(self) -> Key:
        return self._file() if callable(self._file) else Key.load(self._file)
