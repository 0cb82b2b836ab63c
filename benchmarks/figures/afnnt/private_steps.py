"""What a server estimates from a batch's reports, drawn for the batch instead of report by report.

A mechanism is equivariant if it treats all directions alike: its report of a unit vector u is h·u + r·ω with a height h
and a radius r whose distribution is the same for every u, and ω uniform among the unit vectors at right angles to u.
PrivUnitG, CompPrivUnitG, ProjUnit with Haar rotations, PrivHS, RePrivHS and SQKR with uniform directions are (`parts`).
`equivariant_sum` has exactly the distribution of the sum of such reports, from n² + d normal numbers instead of n·d.
Everything is over real numbers: the rounding of reports to float32 is left out.

FastProjUnit-corr is not equivariant. Its maps are the library's; only its normal numbers are NumPy's.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy import linalg

from benchmarks.figures.afnnt.clipped import Clipped, Floats
from streamsketch.local import SQKR, CompPrivUnitG, GaussianMechanism, Mechanism, PrivHS, PrivUnitG, ProjUnit
from streamsketch.local.baselines.frames import GaussianFrame
from streamsketch.local.parameters import GaussianCap
from streamsketch.local.priv_unit_g import cap_heights
from streamsketch.local.randomized_response import share

Estimate = Callable[[Iterable[Clipped], np.random.Generator], Floats]
"""(a batch in blocks, randomness) → the mean gradient as the server estimates it: (d,)."""

_JITTER = 1e-5  # of squared length, so that nearly equal gradients are independent
_AT_ONCE = 8  # gradients that are formed


def estimate(mechanism: Mechanism | None) -> Estimate:
    """Return how the mean is estimated; without a mechanism, it is that of the clipped gradients."""
    if mechanism is None:
        return without_noise
    if isinstance(mechanism, GaussianMechanism):
        return gaussian(mechanism)
    if isinstance(mechanism, ProjUnit) and mechanism.shared:
        return lambda blocks, rng: _projected(mechanism, blocks, rng)

    def estimated(blocks: Iterable[Clipped], rng: np.random.Generator) -> Floats:
        people, total = 0, np.zeros(mechanism.dim)
        for block in blocks:
            heights, radii = parts(mechanism, len(block), rng)
            total += equivariant_sum(block, heights, radii, rng)
            people += len(block)
        return total / people

    return estimated


def without_noise(blocks: Iterable[Clipped], _rng: np.random.Generator) -> Floats:
    """Return the mean of the clipped gradients."""
    sums = [(block.weighted(np.ones(len(block))), len(block)) for block in blocks]
    return np.asarray(sum(total for total, _ in sums) / sum(people for _, people in sums))


def without_clipping(blocks: Iterable[Clipped], _rng: np.random.Generator) -> Floats:
    """Return the mean of the gradients as they are."""
    sums = [(block.total(), len(block)) for block in blocks]
    return np.asarray(sum(total for total, _ in sums) / sum(people for _, people in sums))


def gaussian(mechanism: GaussianMechanism, sensitivity: float = 2.0) -> Estimate:
    """Return the mean plus one Gaussian of the reports' variance over their number.

    That is the sum of discrete Gaussians but for rounding. Any two vectors of length 1 are up to 2 apart: noise for
    another ``sensitivity`` is not (ε, δ)-LDP.
    """
    deviation = math.sqrt(mechanism.squared_error / mechanism.sphere_dim) * sensitivity / 2

    def estimated(blocks: Iterable[Clipped], rng: np.random.Generator) -> Floats:
        people, total = 0, np.zeros(mechanism.dim)
        for block in blocks:
            total += block.weighted(np.ones(len(block)))
            people += len(block)
        return total / people + rng.normal(0.0, deviation / math.sqrt(people), mechanism.dim)

    return estimated


def parts(mechanism: Mechanism, people: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the heights and radii of reports of an equivariant mechanism, (people,) each.

    CompPrivUnitG reports a candidate that is uniform among those in the cap with probability p, else among the others:
    it has the distribution of PrivUnitG with its cap, at ε(1 - 2^-12), up to the finite number of seeds.

    Raises
    ------
    TypeError
        If the mechanism is not equivariant.
    """
    d = mechanism.sphere_dim
    if isinstance(mechanism, PrivUnitG | CompPrivUnitG):
        scale = mechanism.cap.scale
        return scale * _along(mechanism.cap, people, rng), scale * np.sqrt(rng.chisquare(d - 1, people))
    if isinstance(mechanism, ProjUnit) and mechanism.rotation == "haar" and not mechanism.shared:
        return _haar(mechanism, people, rng)
    if isinstance(mechanism, PrivHS):
        signs = np.where(rng.random((people, mechanism.directions)) < share(mechanism.flipping), -1.0, 1.0)
        return _directions(signs, mechanism.radius / mechanism.directions, d, rng)
    if isinstance(mechanism, SQKR) and isinstance(mechanism.frame, GaussianFrame):
        coins = np.where(rng.random((people, mechanism.bits_told)) < 0.5, -1.0, 1.0)
        told = rng.random(people) < share(mechanism.telling)
        size = mechanism.amplification * mechanism.frame.scale / mechanism.bits_told
        return _directions(np.where(told[:, np.newaxis], 1.0, coins), size, d, rng)
    raise TypeError(f"no heights and radii are known for {mechanism}")


def _along(cap: GaussianCap, people: int, rng: np.random.Generator) -> Floats:
    return cap_heights(1 - rng.random(people), 1 - rng.random(people), cap)


def _directions(signs: Floats, size: float, dim: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the parts of Σ ±``size``·g of each row, g uniform and + on the side of u where ``signs`` is 1."""
    along = np.abs(heights(dim, signs.shape, rng))
    return size * (signs * along).sum(axis=1), size * length_of_sum(np.sqrt(1 - along**2), dim - 1, rng)


def _haar(mechanism: ProjUnit, people: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the parts of √(d/k)·τ·(a·w + z), where w is the direction of u's projection to a uniform k-space.

    With ℓ the length of the projection, w = ℓ·u + √(1-ℓ²)·ω. z, k - 1 normal numbers in the k-space at right angles to
    w, is so at right angles to u and ω.
    """
    if mechanism.unbiased or mechanism.compressed:
        raise TypeError(f"no heights and radii are known for {mechanism}")
    d, k, cap = mechanism.sphere_dim, mechanism.sketch_dim, mechanism.cap
    along, squares = _along(cap, people, rng), rng.beta(k / 2, (d - k) / 2, people)
    radii = np.sqrt(along**2 * (1 - squares) + rng.chisquare(k - 1, people))
    scale = math.sqrt(d / k) * cap.scale
    return scale * along * np.sqrt(squares), scale * radii


def heights(dim: int, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return ⟨ω, u⟩ for uniform directions ω of R^dim, dim ≥ 2."""
    along = rng.standard_normal(shape)
    return np.asarray(along / np.sqrt(along**2 + rng.chisquare(dim - 1, shape)))


def length_of_sum(lengths: Floats, dim: int, rng: np.random.Generator) -> Floats:
    """Return ‖Σ_j ℓ_ij ω_ij‖ of each row for independent uniform directions ω of R^dim: exactly, one after another."""
    along, total = heights(dim, lengths.shape, rng), np.zeros(lengths.shape[0])
    for column in range(lengths.shape[1]):
        length = lengths[:, column]
        total = np.sqrt(np.maximum(0.0, total**2 + length**2 + 2 * total * length * along[:, column]))
    return total


def equivariant_sum(block: Clipped, heights_: Floats, radii: Floats, rng: np.random.Generator) -> Floats:
    """Return Σ h_i u_i + r_i ω_i without the last coordinate, (d,), for a block's completed gradients u_i.

    ω_i is x/‖x‖ for x = g - ⟨g, u_i⟩u_i and a normal g. Let P project to the span of the block's n gradients. Px is
    drawn in n coordinates, in which the gradients are the rows of L with LLᵀ = UUᵀ. x - Px = g - Pg is independent of
    Px: its length is χ with d + 1 - n degrees of freedom, its direction uniform in the complement of the span. So the
    sum of these rests has a uniform direction there, that of G - PG for a normal G, and the length of `length_of_sum`.

    Raises
    ------
    ValueError
        If there are as many people as dimensions.
    """
    n, d = len(block), block.dim + 1
    if d - n < 2:
        raise ValueError(f"{n} people span all but {d - n} of {d} dimensions; take blocks of at most {d - 2}")
    products = block.products()
    products[np.diag_indices(n)] += _JITTER
    lower = linalg.cholesky(products / (1 + _JITTER), lower=True)
    inside, outside = rng.standard_normal((n, n)), np.sqrt(rng.chisquare(d - n, n))
    inside -= np.einsum("ij,ij->i", inside, lower)[:, np.newaxis] * lower
    factors = radii / np.sqrt(np.einsum("ij,ij->i", inside, inside) + outside**2)
    noise = rng.standard_normal(d)
    along = linalg.solve_triangular(lower, block.along(noise), lower=True)
    scale = length_of_sum((factors * outside)[np.newaxis], d - n, rng)[0] / math.sqrt(noise @ noise - along @ along)
    shares = linalg.solve_triangular(lower, factors @ inside - scale * along, lower=True, trans="T")
    return np.asarray(block.weighted(heights_ + shares) + scale * noise[:-1])


def _projected(mechanism: ProjUnit, blocks: Iterable[Clipped], rng: np.random.Generator) -> Floats:
    """Return what the server makes of reports, by the library's maps and normal numbers of NumPy."""
    people, total = 0, np.zeros(mechanism.state_dim, dtype=np.int64)
    step = mechanism.cell_size * 2.0**-22  # as `MeanAggregator` rounds, but for a power of two
    units, k = np.empty((_AT_ONCE, mechanism.sphere_dim)), mechanism.sketch_dim
    for block in blocks:
        for start in range(0, len(block), _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, len(block)))
            count = part.stop - part.start
            block.write(part, units[:count])
            seeds = rng.integers(0, 1 << 64, count, dtype=np.uint64)
            directions, _ = mechanism.map.directions(units[:count], seeds)
            values = rng.standard_normal((count, k))
            along = _along(mechanism.cap, count, rng) - np.einsum("ij,ij->i", values, directions)
            values = mechanism.cap.scale * (values + along[:, np.newaxis] * directions)
            mechanism.map.add_steps(values, seeds, total, step, 2.0**32)
        people += len(block)
    return mechanism.mean_of(np.asarray(total * (step / people), dtype=np.float64))[: mechanism.dim]
