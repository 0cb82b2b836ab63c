"""Pan-private sketches: their memory is private too, for machines that may be seized in the middle of a stream."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamsketch.accounting.ledger import Ledger, charge_for
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core.numbers import Ints
from streamsketch.data import data_ids
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.l1 import L1
from streamsketch.privacy.noise import Sensitivity
from streamsketch.projections.base import Projection
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.ready import Ready, Stated
from streamsketch.sketching.encoding import encode_batch


class PanPrivateSketch:
    """A sketch that holds noise from the start, so that even a look at its memory is private.

    The guarantee covers one intrusion (a look at the whole state at any time) together with the one published release:
    (ε, δ)-differential privacy for `L1` neighbours, where a unit's updates over the whole stream have absolute values
    that sum to at most the bound (Stausholm 2021, Section 3.4; Theory 4.2). The release carries fresh noise on top,
    because the difference of the two would otherwise show the stream in between exactly. So its noise variance is twice
    that of `Sketch.release`. An update costs O(sparsity) per event.

    There is at most one release and one look, even with threads and processes: calls lock each other out, and a forked
    process cannot use its copy of the sketch.

    Parameters
    ----------
    projection
        The public map.
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`; ``neighbours`` must be `L1`.
    ledger, dataset
        As in `Sketch.release`. The guarantee is charged now, before there are data, because the intrusion may come at
        any time.

    Raises
    ------
    InvalidInputError
        As in `Sketch.release`, and for neighbours other than `L1`.
    LedgerError
        If the guarantee exceeds the budget that is left for the data set. Nothing is charged then.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
    >>> counter = PanPrivateSketch(projection, epsilon=1.0, neighbours=L1(1))
    >>> counter.update(17)
    >>> counter.release().noise.k2 > 60
    True
    """

    __slots__ = ("_ids", "_lock", "_looked", "_noisy", "_process", "_released", "_state")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        projection: Projection,
        *,
        epsilon: float,
        neighbours: L1,
        delta: float = 0.0,
        mechanism: str = "auto",
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        if not isinstance(neighbours, L1):
            raise InvalidInputError(
                f"pan-privacy bounds a unit's updates over the whole stream, which is L1(bound); got {neighbours!r}"
            )
        publisher = AdditiveNoise(epsilon=epsilon, delta=delta, neighbours=neighbours, mechanism=mechanism)
        noisy = publisher.calibrated_to(projection, _both_views(sensitivity_of(projection, neighbours)))
        self._noisy = noisy.with_guarantee(noisy.guarantee.on("asserted"))  # nothing is kept by which to clip
        charge_for(ledger, dataset, self.guarantee, projection)
        self._ids = data_ids.new()
        # what an intruder sees is a release, of nothing yet
        self._state = self._ready(np.zeros(projection.sketch_dim, dtype=np.int64)).draw().values.copy()
        self._released = self._looked = False
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._noisy.projection

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for one intrusion and the release together."""
        guarantee: Guarantee = self._noisy.guarantee
        return guarantee

    def update(self, indices: object, values: object = 1) -> None:
        """Add one event or a batch of events, at once: nothing waits in a buffer. See `Sketch.update`.

        Raises
        ------
        InvalidInputError
            As in `Sketch.update`, after the release, and in a forked process.
        """
        encoded, quantised = encode_batch(self.projection, indices, values, warn=False)  # an intruder would see it
        with self._held():
            # no mass Σ|q| is kept: an intruder would see it
            self.projection.add_to(self._state, encoded, quantised)

    def state(self) -> Ints:
        """Return what an intruder would see: the cells with their noise.

        This call is the one intrusion that the guarantee allows for.

        Returns
        -------
        ndarray
            int64, (sketch_dim,), in grid steps.

        Raises
        ------
        InvalidInputError
            At a second call, and in a forked process.
        """
        with self._held(even_released=True):
            if self._looked:
                raise InvalidInputError(
                    "the state of this pan-private sketch was already looked at, and its guarantee covers one look. "
                    "Use the result of the first call"
                )
            self._looked = True
            return self._state.copy()

    def release(self) -> PrivateSketch:
        """Return the only release, with fresh noise on top. The sketch is then closed.

        Raises
        ------
        InvalidInputError
            At a second call, because a second release would spend ε again; and in a forked process.
        """
        with self._held():
            released = self._ready(self._state).draw()
            self._released = True
        return released

    def _ready(self, cells: Ints) -> Ready[PrivateSketch]:
        return Ready(self._noisy, cells.reshape(1, -1), Stated(self._ids))

    @contextlib.contextmanager
    def _held(self, *, even_released: bool = False) -> Iterator[None]:
        """Exclude other threads; refuse forked processes, and a closed sketch."""
        if os.getpid() != self._process:  # before the lock, which another thread may have held at the fork
            raise InvalidInputError(
                f"this pan-private sketch belongs to process {self._process}; a forked process could release it a "
                "second time. Use it there, or start a new one here"
            )
        with self._lock:
            if self._released and not even_released:
                raise InvalidInputError(
                    "this pan-private sketch has been released and is closed; a second release would spend ε again. "
                    "Start a new one"
                )
            yield

    def __reduce__(self) -> Any:
        raise TypeError("a pan-private sketch is released once, so it cannot be copied or pickled; start a new one")

    def __repr__(self) -> str:
        return f"<PanPrivateSketch of {self.projection!r}, {self.guarantee}>"


def _both_views(sensitivity: Sensitivity) -> Sensitivity:
    """Return the sensitivity of the view inside and the release together, one vector of 2k cells.

    A unit's change splits into a part v before the intrusion and a part w after; with |v| + |w| ≤ Δ̃ the two
    noises together see an ℓ1 change of Δ1·(|v| + |w|) and a squared ℓ2 change of Δ2²·(|v|² + |w|²): no more
    than one view does.
    """
    return dataclasses.replace(sensitivity, layers=2)
