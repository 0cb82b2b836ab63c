"""Published signs in pipelines, released once for each key."""

import os
from typing import Any

from apache_beam.utils.timestamp import TimestampTypes

from streamsketch.beam.intake.keys import Keys
from streamsketch.beam.release.release import ReleaseOnce
from streamsketch.beam.release.select import SelectedKeys
from streamsketch.beam.run.charges import Charge
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Neighbours
from streamsketch.projections import Projection
from streamsketch.signs import DPSignRPRR, SignMechanism, SignSketch


class ReleaseSignsPerKey(ReleaseOnce):
    """Publish the signs of each key's sketch once: ``KV[key, Sketch] → KV[key, SignSketch]``.

    The table of releases has the mechanism's guarantee. Keys, windows, bounds and retries are as in `ReleasePerKey`:
    the set of keys must be public or chosen privately, a public key without data is published as fair coins, each key
    is released once in each window, and the flips are a function of a secret drawn when the job runs and of all that
    makes the release what it is. Signs leave in the order of windows and keys.

    Parameters
    ----------
    mechanism
        A differentially private mechanism of `streamsketch.signs` but `DPSignRPRR`, which guarantees nothing for keys
        without data: their norm is 0. Its neighbours must be those that `BoundContributions` enforced.
    neighbours
        The mechanism's, once more, where the sketches do not come from `BoundContributions` through `SketchPerKey`
        alone: your assertion that they hold for the data.
    public_keys, selected_keys, keys_are_public, public_windows, projection, count_private_data, ledger, dataset
        As in `ReleasePerKey`.

    Raises
    ------
    TypeError
        If the mechanism is none of these; individual privacy has no place in a table.
    InvalidInputError
        For `DPSignRPRR`, else as `ReleasePerKey`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, signs
    >>> from streamsketch.beam import SketchPerKey
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> publish = signs.DPSignLogistic(epsilon=1.0, neighbours=L1(1))
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = (
    ...         pipeline
    ...         | beam.Create([("AA", 17, 1), ("UA", 18, 2)])
    ...         | SketchPerKey(projection)
    ...         | ReleaseSignsPerKey(publish, neighbours=L1(1), public_keys=["AA", "DL", "UA"])
    ...     )
    """

    published = SignSketch

    def __init__(  # noqa: PLR0913 - each of them is part of what is guaranteed
        self,
        mechanism: SignMechanism,
        *,
        neighbours: Neighbours | None = None,
        public_keys: Keys | None = None,
        selected_keys: SelectedKeys | None = None,
        keys_are_public: bool = False,
        public_windows: tuple[TimestampTypes, TimestampTypes | None] | None = None,
        projection: Projection | None = None,
        count_private_data: bool = False,
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        if not isinstance(mechanism, SignMechanism):
            raise TypeError(
                f"ReleaseSignsPerKey needs a differentially private mechanism of streamsketch.signs, got a "
                f"{type(mechanism).__name__}"
            )
        if isinstance(mechanism, DPSignRPRR):
            raise InvalidInputError(
                "DP-SignRP-RR holds for vectors whose norms have a public lower bound, and a key may have no data at "
                "all. DPSignRPRRSmooth and DPSignLogistic hold for every vector"
            )
        self._mechanism = mechanism
        super().__init__(
            neighbours=neighbours,
            public_keys=public_keys,
            selected_keys=selected_keys,
            keys_are_public=keys_are_public,
            public_windows=public_windows,
            projection=projection,
            count_private_data=count_private_data,
            charge=Charge.of(ledger, dataset),
        )
        if projection is not None:
            mechanism.calibrated(projection)  # fail before the job runs

    def display_data(self) -> dict[str, Any]:
        """Show the guarantee in the runner's interface; never a secret."""
        mechanism = self._mechanism
        return {
            "epsilon": mechanism.epsilon,
            "neighbours": repr(mechanism.neighbours),
            "mechanism": mechanism.name,
        }

    def _publisher(self, neighbours: Neighbours) -> SignMechanism:
        if neighbours != self._mechanism.neighbours:
            raise InvalidInputError(
                f"the mechanism is for neighbours={self._mechanism.neighbours} but the events were bounded to "
                f"{neighbours}; give the mechanism these"
            )
        return self._mechanism
