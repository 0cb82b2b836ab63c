"""Sums over the entries of a noisy histogram: ℓ1 norm, number of items, entropy, without the noise's bias.

Hillebrand, Imola, Pagh and Sejer 2026 estimate Σ f(x_j) from x_j + noise by deconvolution of f with the noise's law.
For discrete Laplace noise it is exact, and looks at three neighbouring integers only (Theory 4.8).
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Floats, Ints
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable, mark_secret
from streamsketch.estimation.counts import published_counts
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.noise_law import lattice_of, noise_terms
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.projections.identity import Identity
from streamsketch.release.private_sketch import PrivateSketch

Entry: TypeAlias = Callable[[Floats], Floats]
"""A function of an entry in grid steps."""

_TILE = 1 << 16  # entries at a time
_MOST_LAYERS = 4  # of Laplace noise, whose sum is nearly normal
_ROUNDING = 1e-9
_FEW = 30.0  # entries expected at 0
_LEAST_WIDTH, _SPIKE, _MOST_SPIKE = 2.0, 0.2, 16  # of noise, in steps
_MOST_STEPS = 1 << 22
_LEAST_TOTAL = 2.0  # standard errors


def l1_norm(release: AnySketch, *, nonnegative: bool = False) -> Estimate:
    """Estimate ‖x‖₁ = Σ|x_j| of a histogram with noise, in data units, without the noise's bias.

    The noise makes Σ|x_j + η_j| too large by up to E|η| for each entry. With q = p/(1-p)², P(η) ∝ p^|η|, the estimate
    ``Σ(|v_j| - 2q·[v_j = 0])`` of v = x + η is unbiased, of variance at most ``2q·dim + 4q²·E#{j: v_j = 0}``, in grid
    steps. If entries are known not to be negative, it is their sum ``Σ v_j``, with variance ``dim·K2`` under any noise.

    Parameters
    ----------
    release
        A `PrivateSketch` of an `Identity`, or your own `Sketch`, whose norm is exact and secret.
    nonnegative
        Whether it is public that no entry is negative, as for counts without returns.

    Returns
    -------
    Estimate
        Its error comes from the noise alone. In simulations of 1,000 entries, 95 % intervals covered in 94 to 96 % of
        cases. A mostly empty histogram has standard errors of 0.35·√dim, 1.8·√dim, 10·√dim and 47·√dim steps at ε = 3,
        1, 0.3 and 0.1 for one event of one step; with ``nonnegative`` they are 0.33, 1.4, 4.7 and 14 times √dim. Unless
        ``nonnegative``, the error in data units also grows with the root of 1/resolution, so choose no finer resolution
        than needed.

    Raises
    ------
    InvalidInputError
        If the map is not an `Identity`, because a sketch does not keep the entries. If entries may be negative and the
        noise is Gaussian or a sum of more than four noises, because its bias in |x_j| is then not known.
    TypeError
        If ``release`` is not a sketch.

    Examples
    --------
    >>> from streamsketch.projections import Identity
    >>> x = Identity(dim=1000).sketch()
    >>> x.update([3, 4, 5], [10, -2, 7])
    >>> l1_norm(x).value
    19.0
    """
    block, cells, unit = histogram_of(release)
    if nonnegative:
        value, variance = sum(float(tile.sum()) for tile in _tiles(cells)), cells.size * float(block.k2[0]) / unit**2
    else:
        taken_out = taken_out_of(release, unit, "|x_j|", "nonnegative=True, if no entry is negative")
        (value,), (variance,) = _sums(taken_out, cells, np.abs)
    estimate = Estimate(value * unit, 0.0, variance * unit**2, lowest=0.0)
    return mark_secret(estimate, block)


def distinct(release: AnySketch, *, nonnegative: bool = False) -> Estimate:
    """Estimate how many entries of a histogram with noise are not 0, that is, how many different items occur.

    An entry of one grid step differs from an empty one by less than the noise, so the noise has to be small. With q =
    p/(1-p)², P(η) ∝ p^|η|, the estimate counts ``-2q`` for each noisy entry of 0, ``1 + q`` for each of ±1, and 1 for
    any other. It is unbiased. A mostly empty histogram has standard errors of 0.33·√dim, 1.7·√dim, 10·√dim and 54·√dim
    at ε = 3, 1, 0.3 and 0.1 for one event of one step. So at ε = 1 the estimate is useful from some hundreds of items
    on, and at ε = 0.1 hardly ever, as its error bar shows. A finer ``resolution`` does not help: an event is then more
    steps, and the noise grows alike.

    Parameters
    ----------
    release
        A `PrivateSketch` of an `Identity`, or your own `Sketch`, whose number of items is exact and secret.
    nonnegative
        Whether it is public that no entry is negative. Negative noisy entries then count 0, noisy entries of 0 count
        ``-q``, and those of 1 count ``1 + q``. The variance is about a third.

    Returns
    -------
    Estimate
        Its intervals lie within 0 and dim, but its value may not. Its error comes from the noise alone. In simulations
        of 1,000 entries, 95 % intervals covered in 94 to 96 % of cases, and in up to 98.5 % if the true number is dim.

    Raises
    ------
    InvalidInputError
        If the map is not an `Identity`, or the noise is neither Laplace noise nor a sum of at most four such noises.
    TypeError
        If ``release`` is not a sketch.

    Examples
    --------
    >>> from streamsketch.projections import Identity
    >>> x = Identity(dim=1000).sketch()
    >>> x.update([3, 4, 5], [10, -2, 7])
    >>> distinct(x).value
    3.0
    """
    block, cells, unit = histogram_of(release)
    taken_out = taken_out_of(release, unit, "[x_j ≠ 0]")
    (value,), (variance,) = _sums(taken_out, cells, is_positive if nonnegative else is_not_zero)
    return mark_secret(Estimate(value, 0.0, variance, lowest=0.0, highest=float(cells.size)), block)


def entropy(release: AnySketch, *, nonnegative: bool = False) -> Estimate:
    """Estimate the entropy H = -Σ p_j ln p_j of a histogram with noise, where p_j = |x_j|/‖x‖₁, in nats.

    The estimate is ``Ĥ = ln N̂ - Ŝ/N̂``, from unbiased estimates of N = ‖x‖₁ and S = Σ|x_j| ln|x_j|. Its variance
    follows from the delta method. The bias of the ratio and of the logarithm is removed to second order. With
    ``nonnegative``, the total published beside the cells (`PrivateSketch.total`), if there is one, replaces N̂ if that
    makes the error smaller. Every empty entry adds its noise to N̂ and Ŝ, so the error is small if N is many times the
    noise of dim entries: ± 0.01 nats for 20,000 Zipf distributed events of 1,000 items at ε = 1, ± 0.4 for 800 events
    of 50 items.

    Parameters
    ----------
    release
        A `PrivateSketch` of an `Identity`, or your own `Sketch`, whose entropy is exact and secret.
    nonnegative
        Whether it is public that no entry is negative. The error is then smaller.

    Returns
    -------
    Estimate
        Its intervals lie within 0 and ln dim, but its value may not. Its error comes from the noise alone. In
        simulations of 1,000 entries, 95 % intervals covered in 93.5 to 96 % of cases, and in 92 % if the standard error
        was half a nat.

    Raises
    ------
    InvalidInputError
        As in `distinct`; and if ‖x‖₁ is within two standard errors of 0.
    TypeError
        If ``release`` is not a sketch.

    Examples
    --------
    >>> import math
    >>> from streamsketch.projections import Identity
    >>> x = Identity(dim=1000).sketch()
    >>> x.update([3, 4, 5, 6], [10, 10, 10, 10])
    >>> round(math.exp(entropy(x).value), 6)  # as many equal shares
    4.0
    """
    block, cells, unit = histogram_of(release)
    taken_out = taken_out_of(release, unit, "|x_j| ln|x_j|")
    parts: tuple[Entry, Entry] = (_itself, positive_log) if nonnegative else (np.abs, size_log)
    (total, sizes), (spread, mixed, size_spread) = _sums(taken_out, cells, *parts)
    candidates = [(total, spread, mixed)]
    if nonnegative and isinstance(release, PrivateSketch):
        published = published_counts(release).get("total")
        if published is not None:
            candidates.append((published.value / unit, published.variance / unit**2, 0.0))
    totals = [entry for entry in candidates if entry[0] > _LEAST_TOTAL * math.sqrt(entry[1])]
    if not totals:
        raise InvalidInputError(
            f"{sentences.NO_ENTROPY}. Check l1_norm, and release with a larger epsilon or a smaller domain"
        )
    estimates = [_entropy(*entry, sizes, size_spread) for entry in totals]
    value, variance = min(estimates, key=lambda estimate: estimate[1])
    return mark_secret(Estimate(value, 0.0, variance, lowest=0.0, highest=math.log(cells.size)), block)


def _entropy(total: float, spread: float, mixed: float, sizes: float, size_spread: float) -> tuple[float, float]:
    """Return ln N - S/N and its variance, from N, S and their covariances, without the bias of second order."""
    value = math.log(total) - sizes / total
    value += spread / (2 * total**2) + sizes * spread / total**3 - mixed / total**2
    slope = (1 + sizes / total) / total
    variance = slope**2 * spread - 2 * slope * mixed / total + size_spread / total**2
    return value, max(variance, 0.0)


class _Deconvolved(NamedTuple):
    """A function f of noisy entries v, as deconvolution uses it."""

    here: Floats
    """f(v)."""
    gaps: Floats
    """f(v + step) - f(v), by steps: (steps, n)."""


class _Weights(NamedTuple):
    """What deconvolution makes of a function f: f(v) + Σ weight·(f(v + step) - f(v)), of expectation f(x)."""

    steps: list[int]
    weights: Floats
    law: Floats
    """The probabilities of 0, 1, … steps of the noise, as far as it is wide."""
    spike: int
    """Up to which size noisy entries, if they are few, have variances that are found from the noise's law."""

    @property
    def factor(self) -> float:
        """P(0)/ΣP², so that E Σ factor·P(v_j) is the expected number of entries at 0, if all are empty."""
        return float(self.law[0] / (2 * self.law @ self.law - self.law[0] ** 2))

    def at_zero(self, entries: Floats) -> float:
        """Estimate how many noisy entries are expected at 0, or rather too many."""
        places = np.minimum(np.abs(entries), self.law.size - 1.0).astype(np.int64)
        return self.factor * float(self.law[places].sum())

    def of(self, function: Entry, entries: Floats) -> _Deconvolved:
        """Return what the following methods need of a function at noisy entries."""
        here = function(entries)
        return _Deconvolved(here, np.array([function(entries + step) - here for step in self.steps] or [here * 0]))

    def estimates(self, values: _Deconvolved) -> Floats:
        """Return the estimates of f(x_j)."""
        estimates: Floats = values.here + self.weights @ values.gaps
        return estimates

    def covariances(self, own: _Deconvolved, other: _Deconvolved) -> Floats:
        """Return the covariances of two such estimates, without bias: their products less what estimates f(x)·h(x).

        In differences, as squares of large entries would cost digits.
        """
        products: Floats = (self.weights @ own.gaps) * (self.weights @ other.gaps)
        return products - self.weights @ (own.gaps * other.gaps)


def histogram_of(release: AnySketch) -> tuple[Block, Ints, float]:
    """Return a histogram, its entries in grid steps and one such step in data units, > 0."""
    check_comparable([release])
    if not isinstance(release.projection, Identity):
        raise InvalidInputError(
            "sums over entries need a histogram, released with Identity, but this sketch has "
            f"{type(release.projection).__name__}, which adds several items up in each cell. squared_norm works for "
            "every map"
        )
    block = block_of([release])
    unit = float(block.cell_units[0])
    return block, block.cells[0] if unit > 0 else -block.cells[0], abs(unit)


def taken_out_of(release: AnySketch, unit: float, what: str, or_else: str = "") -> _Weights:
    """Return the weights that take a release's noise out of functions of its entries.

    Laplace noise has the generating function (1-p)²/((1-pz)(1-p/z)), so its inverse is 1 - q(z - 2 + 1/z).
    """
    if not isinstance(release, PrivateSketch):
        return _Weights([], np.zeros(1), np.ones(1), -1)
    weights, layers, terms = {0: 1.0}, 0, noise_terms(release)
    for term in terms:
        step, draws = round(term.step / unit), int(term.draws)
        whole = abs(term.step - step * unit) <= _ROUNDING * unit and draws == term.draws
        layers += draws
        if not isinstance(term.noise, DiscreteLaplace) or not whole or layers > _MOST_LAYERS:
            others = f"; or pass {or_else}" if or_else else ""
            raise InvalidInputError(
                f"there is no unbiased estimate of {what} under this noise ({release.guarantee.mechanism}), only "
                f"under Laplace noise or a sum of at most {_MOST_LAYERS} such noises. Release the histogram once, "
                f"with epsilon and no delta{others}"
            )
        q = term.noise.cumulants.k2 / 2
        for _ in range(draws):
            weights = _with_layer(weights, step, q)
    steps = [step for step in weights if step]
    lattice = lattice_of(terms)
    half, width = lattice.weights.size // 2, math.sqrt(lattice.variance) / unit
    places = np.arange(min(math.ceil(half * lattice.step / unit) + 1, _MOST_STEPS), dtype=np.float64)
    # between the points of a lattice that is coarser than steps, of which a point has the probability of several
    law = np.interp(places * unit / lattice.step, np.arange(half + 1), lattice.weights[half:]) * unit / lattice.step
    spike = -1 if width < _LEAST_WIDTH else min(math.ceil(width * _SPIKE), _MOST_SPIKE)
    return _Weights(steps, np.array([weights[step] for step in steps]), law, spike)


def _with_layer(weights: dict[int, float], step: int, q: float) -> dict[int, float]:
    convolved: dict[int, float] = {}
    for at, weight in weights.items():
        for place, factor in ((at - step, -q), (at, 1 + 2 * q), (at + step, -q)):
            convolved[place] = convolved.get(place, 0.0) + weight * factor
    return convolved


def _sums(taken_out: _Weights, cells: Ints, *functions: Entry) -> tuple[list[float], list[float]]:
    """Return Σ f(x_j) of one or two functions, and their variances and covariance, all without bias.

    The latter in the order of the upper triangle of their matrix.
    """
    pairs = list(itertools.combinations_with_replacement(range(len(functions)), 2))
    values, spreads, spiked = np.zeros(len(functions)), np.zeros(len(pairs)), np.zeros(len(pairs))
    at_zero = 0.0
    for tile in _tiles(cells):
        parts = [taken_out.of(function, tile) for function in functions]
        values += [taken_out.estimates(part).sum() for part in parts]
        is_near, products = (
            np.abs(tile) <= taken_out.spike,
            [taken_out.covariances(parts[i], parts[j]) for i, j in pairs],
        )
        spreads += [product.sum() for product in products]
        spiked += [product[is_near].sum() for product in products]
        at_zero += taken_out.at_zero(tile)
    if taken_out.spike >= 0 and at_zero < _FEW:
        places = np.arange(-taken_out.spike, taken_out.spike + 1.0)
        parts = [taken_out.of(function, places) for function in functions]
        spreads += at_zero * np.array([taken_out.covariances(parts[i], parts[j]).sum() for i, j in pairs]) - spiked
    return values.tolist(), spreads.tolist()


def _tiles(cells: Ints) -> Iterator[Floats]:
    for start in range(0, cells.size, _TILE):
        yield cells[start : start + _TILE].astype(np.float64)


def _itself(entries: Floats) -> Floats:
    return entries


def is_not_zero(entries: Floats) -> Floats:
    """Return 1 for entries that are not 0."""
    return np.where(entries != 0, 1.0, 0.0)


def is_positive(entries: Floats) -> Floats:
    """Return 1 for entries above 0."""
    return np.where(entries > 0, 1.0, 0.0)


def size_log(entries: Floats) -> Floats:
    """Return s ln s of the sizes s of entries."""
    return positive_log(np.abs(entries))


def positive_log(entries: Floats) -> Floats:
    """Return x ln x of entries above 1, and 0 of others."""
    sizes: Floats = np.maximum(entries, 1.0)  # the logarithm is then 0, as 0 ln 0 and 1 ln 1 are
    return sizes * np.log(sizes)
