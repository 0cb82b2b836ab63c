"""Joint estimates of all pairs of n streams: cosines, distances and products from all cells at once (Theory 4.9).

Each pair's own estimate is drawn towards what a model of all cells says of it, by as much as held-out cells justify.
The intervals are those of the pair alone: they hold whatever the other streams are.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import Block
from streamsketch.estimation.cosines import cosines_between, least_norm, profiles_from
from streamsketch.estimation.distances import distances_between, products_among
from streamsketch.estimation.estimate_arrays import Estimates, JointBy
from streamsketch.estimation.joint_estimate import CosineLaw, JointEstimates, JointModel
from streamsketch.estimation.joint_fit import FOLDS, Chosen, choose
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.estimation.vector_matrices import nearest_cosines, nearest_distances, nearest_products

_LEAST_CELLS = 4
_QUIETEST = 1e-4  # of a stream's mean squared cell, which counts as noise if there is less
_SURE_HALF = 1.5  # times the noise floor, above which half of the cells give a norm
_CAUTION = 12.0  # pairs
_PAIR = 2
_PAIRS_A_STREAM = 3
_LEAST_EIGENVALUE = 1e-12
_USUAL = 1.959964  # standard errors of a 95 % interval


class Combined(NamedTuple):
    """Cosines of n streams, as the model and the pairs alone have them, and as both together."""

    cosines: Floats
    """Positive semidefinite, 1 on the diagonal: (n, n)."""
    variance: Floats
    """Their expected squared errors: (n, n); NaN where the pair alone says nothing."""
    alone: Floats
    """The variances of the pairs' own estimates: (n, n); NaN where there is none."""
    weight: float
    """The mean over all pairs of the weight of the model."""


class ModelError(NamedTuple):
    """How much the model's cosines err."""

    bias: float
    """The mean squared error that is neither the map's nor a share of the pair's own noise."""
    common: float
    """Which share of the noise in a pair's own cosine the model's has, too."""


def joint_between(block: Block, by: JointBy, *, in_time: bool) -> JointEstimates:
    """Estimate all pairs of a block's n streams together: (n, n) arrays.

    Parameters
    ----------
    block
        n ≥ 2 sketches with noise on their cells, or none.
    by
        One of `JOINT_BY`.
    in_time
        Whether the order of the streams is that of time. If not, the result is the same in any order.

    Raises
    ------
    InvalidInputError
        For noise before the map, or fewer than 4 cells.
    """
    return estimates_of(block, by, *combined_of(block, in_time=in_time))


def combined_of(block: Block, *, in_time: bool) -> tuple[Combined, JointModel]:
    """Return the cosines that all estimates of a block follow from, and how they were made; see `joint_between`."""
    if not isinstance(block.effect, OutputNoise):
        raise InvalidInputError(
            "estimates of all streams together need noise on the cells of the sketches, here it was added before the "
            "map; use together=False"
        )
    if block.cells.shape[1] < _LEAST_CELLS:
        raise InvalidInputError(
            f"estimates of all streams together need at least {_LEAST_CELLS} cells, these sketches have "
            f"{block.cells.shape[1]}; use together=False"
        )
    order = np.arange(len(block.cells)) if in_time else _canonical(block)
    back = np.argsort(order)
    ordered = _in_order(block, order)
    chosen = choose(in_noises(ordered), in_time=in_time)
    combined = combine(ordered, chosen)
    place = np.ix_(back, back)
    combined = combined._replace(
        cosines=combined.cosines[place], variance=combined.variance[place], alone=combined.alone[place]
    )
    return combined, JointModel(chosen.target, chosen.strength, FOLDS, combined.weight)


def estimates_of(block: Block, by: JointBy, combined: Combined, model: JointModel) -> JointEstimates:
    """Return the estimates of all pairs of a block that follow from their cosines."""
    return _ESTIMATES[by](block, combined, model)


def combine(block: Block, chosen: Chosen) -> Combined:
    """Combine each pair's own cosine with the model's, and project on the cosines that vectors can have."""
    noise, streams = block.k2, len(block.cells)
    own, law = cosines_between(block, block, same=True), law_of(block)
    defined = ~np.isnan(own.value)
    pairs = np.triu_indices(streams, 1)
    borrowed = chosen.whole * _likeness(chosen.whole[pairs])
    value = np.where(defined, np.clip(own.value, -1.0, 1.0), borrowed)
    of_map, of_noise = law.coefficient * (1 - value**2) ** 2, np.maximum(law.level + law.growth * value**2, 0.0)
    bias, common = error = _errors_of_model(block, chosen, value, (of_map, of_noise), defined)
    others = streams > _PAIR  # two streams have no others, whose model could say more of them than they do
    weight = _weights(error, value, of_noise) if others else np.zeros_like(value)
    weight[~defined] = 1.0
    # cut off at 1 only after mixing, as half of the errors of a cosine of 1 would be cut off before
    beyond = 1 + np.sqrt(np.where(defined, of_noise, 0.0))
    whole = np.where(defined, np.clip(own.value, -beyond, beyond), borrowed)
    mixed = np.clip(whole + weight * np.where(defined, chosen.whole - whole, 0.0), -1.0, 1.0)
    ends = own.interval()
    mixed = np.where(defined, np.clip(mixed, ends.low, ends.high), mixed)
    np.fill_diagonal(mixed, 1.0)
    mixed = nearest_cosines(mixed, ~np.diagonal(defined))
    left = (1 - weight * (1 - common)) ** 2 * of_noise + weight**2 * bias
    expected = np.where(defined, of_map + left, np.nan)
    alone = np.where(defined, of_map + of_noise, np.nan)
    for array in (expected, alone):
        np.fill_diagonal(array, 0.0)
    return Combined(mixed, expected, alone, float(weight[pairs].mean()) if noise.any() else 0.0)


def _weights(error: ModelError, value: Floats, of_noise: Floats) -> Floats:
    """Return each pair's weight of the model: (n, n), 0 where there is no noise.

    The map's error is the same in both estimates, and has no part in the weights that are best for two of any size. But
    cosines are cut off at 1. That takes half of the squared error of a pair's own where the cosine is 1, and nothing of
    the model's, which is too small there. So a pair has the weight that is best at 1 as far as a cosine of 1 is as
    probable as its own.
    """
    bias, common = error
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = (1 - common) * of_noise
        some = apart > 0
        best = np.where(some, np.minimum(apart / ((1 - common) * apart + bias), 1.0), 0.0)
        at_one = np.where(some, np.maximum(1 - 2 / np.pi * bias / ((1 - common) * apart), 0.0), 0.0)
        likelihood = np.where(some, np.exp(-((1 - np.abs(value)) ** 2) / (2 * of_noise)), 0.0)
    weights: Floats = best - likelihood * np.maximum(best - at_one, 0.0)
    return weights


def _likeness(cosines: Floats) -> float:
    """Return how far a pair that the noise hides is drawn to the others: less if they differ, 0 if there are none.

    It is the square of their squared mean over their mean square: once as they differ from one another, once as streams
    that the noise hides differ from the rest. And it is as if there were one more pair, with nothing in common.
    """
    alike = cosines.mean() ** 2 / max(float((cosines**2).mean()), _LEAST_EIGENVALUE)
    return float((1 - 1 / cosines.size) * alike**2)


def _errors_of_model(
    block: Block, chosen: Chosen, value: Floats, variances: tuple[Floats, Floats], defined: NDArray[np.bool_]
) -> ModelError:
    """Return how much the model's cosines err.

    The model of each half of the cells is compared with the pairs' own cosines from the other half, as if the map's
    error were the same in both estimates. The model's often is larger, so the error is no less than the model's
    distance from the pairs' own cosines tells.
    """
    halves, sure = _halves(block)
    pairs = np.triu_indices(len(value), 1)
    above = (defined & np.outer(sure, sure))[pairs]
    if not above.any():  # nothing shows how good the model is, so it is taken to be as good as the pairs' own
        total = (variances[0] + variances[1])[pairs][defined[pairs]]
        return ModelError(float(total.mean()) if total.size else 0.0, 0.0)
    of_map, of_noise = (part[pairs][above] for part in variances)
    if not of_noise.any():
        return ModelError(0.0, 0.0)
    first, second = (half[pairs][above] for half in halves)
    model_first, model_second = (half[pairs][above] for half in chosen.halves)
    # each pair counts as much, as in what is to be small: the mean of all squared errors
    error = float(((model_first - second) ** 2 + (model_second - first) ** 2 - (first - second) ** 2).mean()) / 2
    apart = float(((chosen.whole - value)[pairs][above] ** 2).mean())
    map_part, noise_part = float(of_map.mean()), float(of_noise.mean())
    whole = map_part + noise_part
    # errors of pairs depend on one another, so n streams tell about as much as 3n pairs
    number = min(len(of_noise), _PAIRS_A_STREAM * len(value))
    common = min(max((whole + error - apart) / 2 - map_part, 0.0) / noise_part, 1.0)
    excess = (number * max(error - map_part, 0.0) + _CAUTION * whole) / (number + _CAUTION)
    bias = max(excess - common**2 * noise_part, apart - (1 - common) ** 2 * noise_part, 0.0)
    return ModelError(bias, common)


def _halves(block: Block) -> tuple[tuple[Floats, Floats], NDArray[np.bool_]]:
    """Return the pairs' own cosines from each half of the cells, and which streams both halves tell of."""
    count = block.cells.shape[1]
    least = _SURE_HALF * 2**0.5 * least_norm(block.effect, block.k2, block.k4)
    sure, cosines = np.ones(len(block.cells), dtype=bool), []
    for fold in range(FOLDS):
        half = block.values[:, fold::FOLDS]
        share = count / half.shape[1]
        products = share * (half @ half.T)
        norms = np.diagonal(products) - count * block.k2
        above = norms > least
        sure &= above
        lengths = np.sqrt(np.where(above, norms, 1.0))
        cosines.append(np.clip(products / np.outer(lengths, lengths), -1.0, 1.0))
    return (cosines[0], cosines[1]), sure


def law_of(block: Block) -> CosineLaw:
    """Return the law of the pairs' own cosines, by the delta method."""
    effect, k2 = block.effect, block.k2
    defined = block.squared_norms > least_norm(effect, k2, block.k4)
    norms = np.where(defined, block.squared_norms, np.nan)
    shares = k2 / norms
    sums = np.add.outer(shares, shares)
    of_norm = effect.squared_norm_variance(norms, k2, block.k4) / norms**2
    values, lengths = block.values, np.sqrt(norms)
    return CosineLaw(
        np.clip(values @ values.T / np.outer(lengths, lengths), -1.0, 1.0),
        block.variance.norms + max(block.variance.fourth, 0.0) / 2,
        sums + effect.count * np.outer(shares, shares),
        np.add.outer(of_norm, of_norm) / 4 - 2 * sums,
    )


def _canonical(block: Block) -> NDArray[np.intp]:
    """Return an order of the streams that depends on their cells and noises only."""
    names = [
        (float(unit), cells.astype("<i8").tobytes(), float(k2), float(k4))
        for unit, cells, k2, k4 in zip(block.cell_units, block.cells, block.k2, block.k4, strict=True)
    ]
    return np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)


def _in_order(block: Block, order: NDArray[np.intp]) -> Block:
    return block._replace(
        cells=block.cells[order],
        cell_units=block.cell_units[order],
        k2=block.k2[order],
        k4=block.k4[order],
        units=None,
        steps=None if block.steps is None else block.steps[order],
        equal=None if block.equal is None else block.equal.at(order),
    )


def in_noises(block: Block) -> Floats:
    """Return cells in standard deviations of their stream's noise, at least 1 % of the stream's own cells: (k, n)."""
    cells: Floats = (block.values / _noises(block)[:, None]).T
    return np.ascontiguousarray(cells)


def _noises(block: Block) -> Floats:
    """Return standard deviations of the streams' noises, at least 1 % of the streams' own cells, 1 where that is 0."""
    values = block.values
    noise = np.maximum(block.k2, _QUIETEST * np.einsum("ik,ik->i", values, values) / values.shape[1])
    deviations: Floats = np.sqrt(np.where(noise > 0, noise, 1.0))
    return deviations


def _cosines(block: Block, combined: Combined, model: JointModel) -> JointEstimates:
    alone = cosines_between(block, block, same=True)
    estimates = _estimates(combined.cosines, _of_cosines(combined), alone, (-1.0, 1.0), model)
    return dataclasses.replace(estimates, law=_apart(law_of(block)))


def _profiles(block: Block, combined: Combined, model: JointModel) -> JointEstimates:
    alone = profiles_from(cosines_between(block, block, same=True))
    estimates = _estimates(2 - 2 * combined.cosines, 4 * _of_cosines(combined), alone, (0.0, 4.0), model)
    return dataclasses.replace(estimates, law=dataclasses.replace(_apart(law_of(block)), profile=True))


def _of_cosines(combined: Combined) -> Floats:
    """Return variances, where a pair has no cosine of its own those of an interval that is the whole range."""
    return np.where(np.isnan(combined.variance), (1 / _USUAL) ** 2, combined.variance)


def _apart(law: CosineLaw) -> CosineLaw:
    """Return the law with no error on the diagonal."""
    for array, value in ((law.cosine, 1.0), (law.level, 0.0), (law.growth, 0.0)):
        np.fill_diagonal(array, value)
    return law


def _distances(block: Block, combined: Combined, model: JointModel) -> JointEstimates:
    alone = distances_between(block, block, same=True)
    norms, lengths = _lengths(block)
    value = np.maximum(np.add.outer(norms, norms) - 2 * lengths * combined.cosines, 0.0)
    np.fill_diagonal(value, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = 1 - combined.cosines * lengths / norms[:, None]  # of the distance with the squared norm of a row
    estimates = _where_better(block, combined, (value, 2 * lengths, slopes), alone, (0.0, np.inf), model)
    return dataclasses.replace(estimates, value=nearest_distances(estimates.value, _noises(block)))


def _products(block: Block, combined: Combined, model: JointModel) -> JointEstimates:
    alone = products_among(block)
    norms, lengths = _lengths(block)
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = combined.cosines * lengths / (2 * norms[:, None])
    joint = lengths * combined.cosines, lengths, slopes
    estimates = _where_better(block, combined, joint, alone, (-np.inf, np.inf), model)
    return dataclasses.replace(estimates, value=nearest_products(estimates.value, _noises(block)))


def _where_better(
    block: Block,
    combined: Combined,
    joint: tuple[Floats, Floats, Floats],
    alone: Estimates,
    ends: tuple[float, float],
    model: JointModel,
) -> JointEstimates:
    """Return what follows from cosines and norms where its noise is less than that of the pair's own estimate.

    A product of lengths has the errors of both norms, which may exceed what a better cosine gains. ``joint`` has the
    values, by how much they change with a cosine, and by how much with the squared norm of a row.
    """
    value, factor, slopes = joint
    law = law_of(block)
    of_norms = np.maximum(block.effect.squared_norm_variance(block.squared_norms, block.k2, block.k4), 0.0)
    of_rows = slopes**2 * of_norms[:, None]
    left = combined.variance - law.coefficient * (1 - law.cosine**2) ** 2
    with np.errstate(invalid="ignore"):
        better = of_rows + of_rows.T + factor**2 * left < alone.noise_variance
    np.fill_diagonal(better, val=False)
    own = np.clip(alone.value, *ends)
    better &= _follow_the_others(value, own, alone, better)
    np.fill_diagonal(own, np.diagonal(value))
    variance = np.where(better, _reduced(alone, factor, combined), alone.variance)
    return _estimates(np.where(better, value, own), variance, alone, ends, model)


def _follow_the_others(value: Floats, own: Floats, alone: Estimates, better: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pairs of streams of which the model is true: (n, n).

    What is expected of the model's error is a mean over all pairs. Of a stream that is unlike the others the error is
    larger. Half of its pairs or more are then further from their own estimates than one standard deviation of the noise
    in these. A median is used, as one such stream is in a pair of every other.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(better, (value - own) ** 2 / alone.noise_variance, 0.0)
    np.fill_diagonal(apart, np.nan)
    follows = np.nanmedian(apart, axis=1) <= 1
    return np.logical_and.outer(follows, follows)


_ESTIMATES = {"cosine": _cosines, "profile": _profiles, "distance": _distances, "product": _products}


def _lengths(block: Block) -> tuple[Floats, Floats]:
    """Return squared norms, at least 0, and the products of all pairs of norms."""
    norms = np.maximum(block.squared_norms, 0.0)
    return norms, np.sqrt(np.outer(norms, norms))


def _reduced(alone: Estimates, factor: Floats, combined: Combined) -> Floats:
    """Return the pairs' own variances, less what better cosines take off a quantity that is ``factor`` times them."""
    less = factor**2 * (combined.alone - combined.variance)
    variances = np.maximum(alone.variance - less, np.minimum(factor**2 * combined.variance, alone.variance))
    return np.where(np.isnan(variances), alone.variance, variances)


def _estimates(
    value: Floats, variance: Floats, alone: Estimates, ends: tuple[float, float], model: JointModel
) -> JointEstimates:
    """Return joint estimates with these variances, of which the map has the share that it has in the pairs' own."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(alone.projection_variance / alone.variance)
    estimates = JointEstimates(
        value, share * variance, (1 - share) * variance, lowest=ends[0], highest=ends[1], alone=alone, model=model
    )
    return estimates.as_secret() if alone.secret else estimates
