"""A party's contributions to a round, one for each key of its table."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from streamsketch.beam.intake.keys import PublicKeys
from streamsketch.beam.release.draws import KeyedDraw
from streamsketch.beam.run.known import Known
from streamsketch.beam.run.runs import run_id_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.samplers import BitSource
from streamsketch.sketching.sketch import Sketch

if TYPE_CHECKING:
    from streamsketch.parties.keys import Key
    from streamsketch.parties.rounds import Round


class RoundContribution:
    """A party's contribution to a round, for `ReleasePerKey`: the bytes of `Round.contribute` for each key's sketch.

    Several parties use it to publish the sums of their tables with one noise for all of them. The release of a key is
    ``round.for_key(key).combine(contributions)``, with the bytes of all parties for this key. The table of releases has
    the round's guarantee, for the round's neighbours. All parties pass the same ``public_keys``, and each contributes
    to every key, even without data.

    A party contributes **once** to a round, so the pipeline's run must claim it: call ``configure_run(pipeline,
    claims=FOLDER, run_id=round.fingerprint)`` first. Retries within the run produce the same bytes. Another launch is
    refused and needs a new round. A pipeline contributes in one transform. The file ``KEY.rounds`` beside the key
    records what was sent for each key of the table, and anything else is refused.

    Parameters
    ----------
    agreed
        The round, signed by all parties, or with parties that you know.
    key
        The party's private key: a file that `Key.save` wrote, on every worker, in a folder that can be written; or a
        function that returns the key there (``Key.load(path, record=…)`` if the folder cannot be written). The key is
        not in the job's specification.

    Raises
    ------
    InvalidInputError
        Here and from `ReleasePerKey`: if the pipeline's run does not claim the round, if the pipeline already
        contributes to a round, if sketches are in windows, or if keys are not public. In the workers: if another launch
        has the claim, or if the key belongs to no party or has contributed before.
    SignatureError
        If not all parties signed the round.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import ReleasePerKey, RoundContribution, RowsToBatches, SketchPerKey, configure_run
    >>> from streamsketch.parties import Key, Round
    >>> keys = [Key.generate(name) for name in ("North", "South")]
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", value="flights")
    >>> agreed = Round(projection, epsilon=1.0, neighbours=L1(1), parties=[key.public for key in keys])
    >>> folder = getfixture("tmp_path")
    >>> keys[0].save(folder / "north.pem")
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     configure_run(pipeline, claims=str(folder), run_id=agreed.fingerprint)
    ...     contributions = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1), ("UA", 18, 2)])
    ...         | RowsToBatches(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(RoundContribution(agreed, folder / "north.pem"), public_keys=["AA", "DL", "UA"])
    ...     )
    """

    published = bytes

    def __init__(self, agreed: "Round", key: str | os.PathLike[str] | Callable[[], "Key"]) -> None:
        from streamsketch.parties.keys import Key  # noqa: PLC0415 - optional, and other releases do without it
        from streamsketch.parties.rounds import Round  # noqa: PLC0415 - optional, and other releases do without it

        if not isinstance(agreed, Round):
            raise TypeError(f"agreed must be a Round, got a {type(agreed).__name__}")
        if isinstance(key, Key):
            raise TypeError(
                "a private key would be in the job's specification; pass the path of its file, or a function that "
                "returns it"
            )
        agreed.check_ready()
        agreed.for_key(b"")  # fail before the job runs
        self.agreed, self.neighbours = agreed, agreed.neighbours
        self.key = key if callable(key) else Path(key)

    def __repr__(self) -> str:
        return f"RoundContribution({self.agreed.fingerprint}, {self.agreed.guarantee})"

    def guarantee_on(self, facts: Known, *, assert_bounds: bool) -> Guarantee:
        """Return the round's guarantee with the basis of its bound. Errors are those of `Calibrated.guarantee_for`."""
        agreed = None if facts.agreement is None else facts.agreement.neighbours
        basis = facts.bounds.basis_for(self.neighbours, agreed, assert_bounds=assert_bounds)
        self.agreed.check_counted(facts.bounds)
        return self.agreed.guarantee.on(basis, facts.bounds.conditions if basis == "enforced" else ())

    def enter(self, sketches: beam.PCollection, keys: PublicKeys | None) -> None:
        """Raise `InvalidInputError` unless sketches may contribute; the pipeline cannot contribute a second time."""
        if keys is None:
            raise InvalidInputError("all parties of a round contribute to the same keys; pass public_keys")
        if not isinstance(sketches.windowing.windowfn, GlobalWindows):
            raise InvalidInputError(
                "a round is for one table, but the sketches are in windows; put them in the global window "
                "(beam.window.GlobalWindows())"
            )
        if run_id_of(sketches.pipeline) != self.agreed.fingerprint:
            raise InvalidInputError(
                "a party contributes once to a round, because the difference of two contributions would reveal its "
                "data. Call configure_run(pipeline, claims=FOLDER, run_id=round.fingerprint) first; it refuses a "
                "second launch"
            )
        if hasattr(sketches.pipeline, "streamsketch_contributes"):
            raise InvalidInputError(
                "the pipeline already contributes to a round, and the difference of two contributions would reveal "
                "its data. Pass all sketches and all public_keys to one ReleasePerKey, or make a new round"
            )
        sketches.pipeline.streamsketch_contributes = True


class RoundDraw(KeyedDraw):
    """Draws a party's contribution for a key's sketch."""

    _publisher: Any  # a RoundContribution

    @property
    def _context(self) -> tuple[bytes, ...]:
        return (self._publisher.agreed.session,)

    def _drawn(self, sketch: Sketch, bits: BitSource, key: Any) -> bytes:
        contribution: bytes = self._publisher.agreed.for_key(key).contribute_again(sketch, self._key, bits)
        return contribution

    @functools.cached_property
    def _key(self) -> "Key":
        from streamsketch.parties.keys import Key  # noqa: PLC0415

        file = self._publisher.key
        return file() if callable(file) else Key.load(file)
