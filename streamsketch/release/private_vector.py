"""One whole vector, released with noise at any of the three places Stausholm 2021 puts it."""

import dataclasses

import numpy as np

from streamsketch.accounting.ledger import Ledger
from streamsketch.accounting.sensitivity import check_steps, check_whole_steps
from streamsketch.core.numbers import Ints
from streamsketch.data.columns import value_column
from streamsketch.data.grid import quantise
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.samplers import BitSource
from streamsketch.projections.base import MAX_MASS, Projection
from streamsketch.projections.fjlt import FJLT
from streamsketch.release.additive_noise import AdditiveNoise, CalibratedNoise
from streamsketch.release.private_sketch import PrivateSketch, noisy_coordinates
from streamsketch.release.ready import Calibrated, Ready, Stated
from streamsketch.sketching.sketch import Sketch

MAX_NOISY_COORDINATES = 1 << 26


def release_vector(  # noqa: PLR0913 - a release is asked for by keyword
    projection: Projection,
    vector: object,
    *,
    epsilon: float,
    neighbours: Neighbours,
    delta: float = 0.0,
    mechanism: str = "auto",
    noise_place: NoisePlace = "output",
    ledger: Ledger | None = None,
    dataset: str | None = None,
) -> PrivateSketch:
    """Return the private sketch of a whole vector, with exact discrete noise at the given place.

    These are the three private forms of the FJLT (Stausholm 2021, Section 5.2). The first two work for every map.

    - ``"output"``: noise on the cells, as `Sketch.release` (Corollary 1, with the sensitivity of the matrix in use).
    - ``"input"``: noise on every coordinate of the vector, and then the map (Lemma 8). The map's sensitivity is not
      needed, so a map with random columns is never enumerated. In exchange, the error grows with dim.
    - ``"hadamard"``: noise between the Hadamard and the sparse matrix of an FJLT (Note 7), for the columns that the
      sparse matrix reads. With Gaussian noise it has the distribution of ``"input"``, at dim = a power of two.

    The result is (ε, δ)-differentially private for ``neighbours`` as in `Sketch.release`: before the map, the noise
    protects the vector itself, with ℓ1 and ℓ2 sensitivity Δ̃ (after H·D: N Δ̃ and √N Δ̃), and the map is
    post-processing (Dwork and Roth 2014, Proposition 2.1). Estimators know the place.

    Parameters
    ----------
    projection
        The public map; for ``"hadamard"``, an `FJLT`. For noise before the map, dim is at most 2^26.
    vector
        Integers, floats or decimals, (dim,), in data units. `L1` neighbours need integers, and a resolution of 1 or
        1/n: fractions of several units' contributions would be truncated together.
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`.
    noise_place
        Where the noise is added.
    ledger, dataset
        Charge the release to a data set first, as in `Sketch.release`.

    Raises
    ------
    InvalidInputError
        For a vector of another length, fractions under `L1`, or a place that the map does not have, and as in
        `Sketch.release`. Large sums cause no error: they are taken modulo 2^64, as in a sketch.
    LedgerError
        If the release exceeds the budget that is left for the data set. Nothing is charged then.

    Examples
    --------
    >>> from streamsketch import L1, squared_norm
    >>> from streamsketch.projections import FJLT
    >>> projection = FJLT(dim=256, sketch_dim=64, seed=1)
    >>> released = release_vector(
    ...     projection, [100] * 256, epsilon=1, delta=1e-6, neighbours=L1(1), noise_place="hadamard"
    ... )
    >>> squared_norm(released).standard_error > 0
    True
    """
    size = noisy_coordinates(projection, noise_place)
    if noise_place != "output" and projection.dim > MAX_NOISY_COORDINATES:
        raise InvalidInputError(
            f"noise before the map is added to every coordinate, so dim may be at most {MAX_NOISY_COORDINATES}, got "
            f"dim={projection.dim}. Use noise_place='output'"
        )
    check_steps(projection, neighbours)
    check_whole_steps(projection, neighbours, value_column(vector).dtype)
    steps = quantise(vector, projection.grid)
    if steps.size != projection.dim:
        raise InvalidInputError(f"the vector must have dim={projection.dim} numbers, got {steps.size}")
    publisher = AdditiveNoise(epsilon=epsilon, delta=delta, neighbours=neighbours, mechanism=mechanism)
    if noise_place == "output":
        sketch = Sketch.from_state(projection, _mapped(projection, steps), MAX_MASS)
        return publisher.release(sketch, ledger=ledger, dataset=dataset)
    columns = 1 if noise_place == "input" else size
    sensitivity = neighbours.sensitivity_before_map(columns, size, projection.grid)
    noise = publisher.calibrated_to(projection, sensitivity, noise_place=noise_place)
    before = _NoiseBeforeMap(projection, noise.guarantee.on("asserted"), noise.noise, noise_place, noise.layers)
    ready = Ready(before, steps.reshape(1, -1), Stated())
    ready.charge(ledger, dataset)
    return ready.draw()


@dataclasses.dataclass(frozen=True)
class _NoiseBeforeMap(CalibratedNoise):
    """Noise on the coordinates of vectors, or between the two matrices of an FJLT."""

    def _draw(self, exact: Ints, bits: BitSource, stated: Stated) -> list[PrivateSketch]:
        return [self.published(self._cells(steps, bits), bits, stated) for steps in exact]

    _draw_each = Calibrated._draw_each  # noqa: SLF001 - by `_draw`: what it replaces adds noise behind the map

    def _cells(self, steps: Ints, bits: BitSource) -> Ints:
        """Return A(x̃ + noise), or P(H·D x̃ + noise)."""
        if not (isinstance(self.projection, FJLT) and self.noise_place == "hadamard"):
            return _mapped(self.projection, steps + self.noise.sample(steps.size, bits))
        (rotated,) = self.projection.rotated(steps.reshape(1, -1))
        read = np.unique(self.projection.sparse_matrix.indices)
        rotated[read] += self.noise.sample(read.size, bits)
        cells: Ints = self.projection.sparse_matrix @ rotated
        return cells


def _mapped(projection: Projection, steps: Ints) -> Ints:
    out = np.zeros((1, projection.sketch_dim), dtype=np.int64)
    projection.project_dense(steps.reshape(1, -1), out)
    cells: Ints = out[0]
    return cells
