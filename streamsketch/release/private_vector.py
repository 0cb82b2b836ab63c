"""One whole vector, released with noise at any of the three places Stausholm 2021 puts it."""

import dataclasses
from typing import Any

import numpy as np

from streamsketch.core import Ints
from streamsketch.data import data_ids, quantise, value_column
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import BitSource, Neighbours, Noise, SystemBits, calibration
from streamsketch.projections import FJLT, MAX_MASS, Projection
from streamsketch.release.noise_effect import NoisePlace, effect_of
from streamsketch.release.private_sketch import RELEASE_ID_BYTES, PrivateSketch
from streamsketch.release.publish import release_sketch
from streamsketch.release.sensitivity import check_whole_steps, grid_steps, guarantee_of
from streamsketch.sketching import Sketch

MAX_NOISY_COORDINATES = 1 << 26


def release_vector(
    projection: Projection,
    vector: Any,
    *,
    epsilon: float,
    neighbours: Neighbours,
    delta: float = 0.0,
    mechanism: calibration.Mechanism = "auto",
    noise_place: NoisePlace = "output",
) -> PrivateSketch:
    """Return the private sketch of a whole vector, with exact discrete noise at the place asked for.

    The three private forms of the FJLT (Stausholm 2021, Section 5.2); the first two serve every map.

    - ``"output"``: noise on the cells, as `Sketch.release` (Corollary 1, with the sensitivity of the matrix in use).
    - ``"input"``: noise on every coordinate of the vector, and then the map (Lemma 8). The map's sensitivity is not
      needed, so a map with random columns is never enumerated; the price is an error that grows with dim.
    - ``"hadamard"``: noise between the Hadamard and the sparse matrix of an FJLT (Note 7), for the columns that the
      sparse matrix reads. With Gaussian noise it has the law of ``"input"``, at dim = a power of two.

    The result is (ε, δ)-differentially private for ``neighbours`` as in `Sketch.release`: before the map, the noise
    protects the vector itself, with ℓ1 and ℓ2 sensitivity Δ̃ (after H·D: N Δ̃ and √N Δ̃), and the map is
    post-processing (Dwork and Roth 2014, Proposition 2.1). Estimators know the place.

    Parameters
    ----------
    projection
        The public map; for ``"hadamard"``, an `FJLT`. For noise before the map, dim is at most 2^26.
    vector
        (dim,): integers, floats or decimals, in data units. For `L1` neighbours integers, on a resolution of 1 or 1/n:
        fractions of several units' contributions would be truncated together.
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`.
    noise_place
        Where the noise goes.

    Raises
    ------
    InvalidInputError
        For a vector of another length, fractions under `L1`, a place the map does not have, or as `Sketch.release`.
        Never for its sums, which count modulo 2^64, as those of a sketch.

    Examples
    --------
    >>> from streamsketch import FJLT, L1, squared_norm
    >>> projection = FJLT(dim=256, sketch_dim=64, seed=1)
    >>> released = release_vector(
    ...     projection, [100] * 256, epsilon=1, delta=1e-6, neighbours=L1(1), noise_place="hadamard"
    ... )
    >>> squared_norm(released).standard_error > 0
    True
    """
    effect_of(projection, noise_place)
    if noise_place != "output" and projection.dim > MAX_NOISY_COORDINATES:
        raise InvalidInputError(
            f"noise before the map goes on every coordinate, at most {MAX_NOISY_COORDINATES} of them, but "
            f"dim={projection.dim}. Use noise_place='output'"
        )
    grid_steps(projection, neighbours)
    check_whole_steps(projection, neighbours, value_column(vector).dtype)
    steps = quantise(vector, projection.grid)
    if steps.size != projection.dim:
        raise InvalidInputError(f"the vector must have dim={projection.dim} numbers, got {steps.size}")
    if noise_place == "output":
        sketch = Sketch.from_state(projection, _mapped(projection, steps), MAX_MASS)
        return release_sketch(sketch, epsilon, delta, neighbours, mechanism)
    bits = SystemBits()
    delta_steps = grid_steps(projection, neighbours)
    if noise_place == "input":
        sensitivity = calibration.Sensitivity(delta_steps, delta_steps**2, projection.dim)
        noise = calibration.choose(sensitivity.over_keys(neighbours.max_keys), epsilon, delta, mechanism)
        cells = _mapped(projection, steps + noise.sample(projection.dim, bits))
    else:
        noise, cells = _after_hadamard(projection, steps, neighbours, (epsilon, delta, mechanism), bits)
    guarantee = guarantee_of(noise, epsilon, delta, neighbours)
    place = "the input" if noise_place == "input" else "what the Hadamard step returns"
    return PrivateSketch(
        projection,
        cells,
        noise.cumulants,
        dataclasses.replace(guarantee, mechanism=f"{guarantee.mechanism}, on {place}"),
        noise_place=noise_place,
        release_ids=[bits.read(RELEASE_ID_BYTES)],
        data_ids=data_ids.new().published(),
    )


def _after_hadamard(
    projection: Projection,
    steps: Ints,
    neighbours: Neighbours,
    budget: tuple[float, float, calibration.Mechanism],
    bits: BitSource,
) -> tuple[Noise, Ints]:
    """Return the noise, and P(H·D x̃ + noise) of an FJLT."""
    if not isinstance(projection, FJLT):
        raise InvalidInputError(f"only an FJLT has a Hadamard step to add noise after, not {projection.kind}")
    size, delta_steps = projection.padded_dim, grid_steps(projection, neighbours)
    sensitivity = calibration.Sensitivity(size * delta_steps, size * delta_steps**2, size)
    noise = calibration.choose(sensitivity.over_keys(neighbours.max_keys), *budget)
    (rotated,) = projection.rotated(steps.reshape(1, -1))
    read = np.unique(projection.sparse_matrix.indices)
    rotated[read] += noise.sample(read.size, bits)
    cells: Ints = projection.sparse_matrix @ rotated
    return noise, cells


def _mapped(projection: Projection, steps: Ints) -> Ints:
    out = np.zeros((1, projection.sketch_dim), dtype=np.int64)
    projection.project_dense(steps.reshape(1, -1), out)
    cells: Ints = out[0]
    return cells
