"""A whole matrix, released row by row: the PrivateProjection of Kenthapadi, Korolova, Mironov and Mishra 2013."""

from dataclasses import dataclass

from streamsketch.accounting.ledger import Ledger
from streamsketch.accounting.sensitivity import check_steps
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import Noise
from streamsketch.projections.base import Projection
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.private_sketch import PrivateSketch


@dataclass(frozen=True, kw_only=True)
class PrivateProjection:
    """Publishes the projection of an n by dim matrix with noise, Z = XP + Δ (Kenthapadi et al. 2013, Algorithm 1).

    Row i is one person's vector. Z as a whole is (ε, δ)-differentially private for matrices in which one row changes as
    ``neighbours`` states, because that row changes no other row of Z (Theorem 1, with the exact ℓ2 sensitivity of the
    matrix P in use instead of a bound, and the analytic calibration instead of its tail bound). The paper uses
    `GaussianProjection`. Any other projection also works, most with less noise. `Identity` gives the raw-data baseline.

    Parameters
    ----------
    projection
        The public map.
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`.

    Raises
    ------
    InvalidInputError, TypeError
        As in `Sketch.release`, except that `noise` and `release` report noise too wide to sample.

    Examples
    --------
    >>> import numpy as np
    >>> from streamsketch import L1, pairwise
    >>> from streamsketch.projections import GaussianProjection
    >>> projection = GaussianProjection(dim=100, sketch_dim=32, seed=1)
    >>> publish = PrivateProjection(projection=projection, epsilon=1, delta=1e-6, neighbours=L1(1, unit="rating"))
    >>> rows = publish.release(np.ones((3, 100), dtype=int))
    >>> pairwise(rows).value.shape
    (3, 3)
    """

    projection: Projection
    epsilon: float
    neighbours: Neighbours
    delta: float = 0.0
    mechanism: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.projection, Projection):
            raise TypeError(f"projection must be a streamsketch projection, got a {type(self.projection).__name__}")
        check_steps(self.projection, self.neighbours)
        self._publisher()

    @property
    def noise(self) -> Noise:
        """The noise on each cell of Z, in grid steps."""
        return self._publisher().calibrated(self.projection).noise

    def release(
        self, matrix: object, *, ledger: Ledger | None = None, dataset: str | None = None
    ) -> list[PrivateSketch]:
        """Return Z as one `PrivateSketch` per row.

        Parameters
        ----------
        matrix
            A matrix (n, dim) in a form that `Projection.transform` accepts. `L1` and `L2` neighbours need integers, and
            a resolution of 1 or 1/n: fractions of several contributions would be truncated together.
        ledger, dataset
            As in `Sketch.release`; Z is charged as one release.

        Raises
        ------
        InvalidInputError
            As in `Projection.transform`, and for fractions under `L1`. Large sums cause no error: they are taken modulo
            2^64.
        LedgerError
            If the release exceeds the budget that is left for the data set. Nothing is charged then.
        """
        return self._publisher().release_rows(self.projection, matrix, ledger=ledger, dataset=dataset)

    def _publisher(self) -> AdditiveNoise:
        return AdditiveNoise(
            epsilon=self.epsilon, delta=self.delta, neighbours=self.neighbours, mechanism=self.mechanism
        )
