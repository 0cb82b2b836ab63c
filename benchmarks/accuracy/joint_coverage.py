"""Coverage and errors of joint estimates of all pairs, on keys that the model fits and on keys that it does not.

Keys have invented streams of one length. Each trial draws a map and noise, estimates all cosines together, and asks
which 95 % intervals hold the exact cosines. The settings are a design in which any two levels of two factors meet: how
the streams are alike, the number of keys, cells, ε, map, and noise. The lag is always offered as an order of time.

The worst pair of a setting is chosen by one half of the trials and judged on the other, each way; the least of many
shares would be too small by chance. Intervals are counted before they are extended to the joint estimate, so that those
that are published hold no less often. Errors are of the first trials only, as the model takes longest to fit;
those of distances and inner products are of all keys.

Keys in a dense map with Laplace noise have √k/2 times as many people, as that noise is as much larger.

How it misleads: hidden pairs, below the noise floor, have the interval [-1, 1] and count as 0 alone. Cosines of 1
lie on the limit of their range, so that an interval can miss them on one side only.
"""

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.data import Data
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.trials import Budget, simultaneous_z
from benchmarks.verdicts import Check
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.estimation.blocks import Block
from streamsketch.estimation.cosines import cosines_between
from streamsketch.estimation.joint import Combined, combined_of, estimates_of, law_of
from streamsketch.estimation.joint_estimate import JointEstimates, JointModel
from streamsketch.estimation.noise_effect import effect_of
from streamsketch.privacy import calibration
from streamsketch.projections import Rademacher

if TYPE_CHECKING:
    from streamsketch.estimation.estimate_arrays import JointBy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DIM, LENGTH, BOUND, DELTA = 1024, 2000.0, 25, 1e-6
KINDS = (
    *("drifting", "random order", "clusters", "one outlier", "all equal", "none alike"),
    *("one of 100 times the size", "duplicates", "empty keys", "keys chosen after a look", "order chosen after a look"),
)
KEYS = (2, 6, 24, 100)
CELLS = (16, 128, 1024, 4096)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MAPS = ("hashed", "dense")
NOISES = ("Laplace", "Gaussian", "sum of 4 Laplace", "Gaussian, threefold for every second key")
_LEAST, _MOST, _LEAST_OF_A_PAIR, _WORST_RATIO = 0.935, 0.965, 0.92, 1.05
_FEW_HIDDEN = 0.5  # of pairs
_AT_THE_LIMIT = ("all equal", "duplicates", "drifting", "random order")  # with many pairs of cosines near 1


class Setting(NamedTuple):
    """How streams are alike, and how they are published."""

    kind: str
    keys: int
    cells: int
    epsilon: float
    map: str
    noise: str


class Case(NamedTuple):
    """What a setting's trials show."""

    kind: str
    keys: int
    cells: int
    epsilon: float
    map: str
    noise: str
    trials: int
    hidden: float
    """Share of pairs without a cosine of their own."""
    covered: float
    """By 95 % intervals, on average over pairs and trials."""
    covered_error: float
    """Its standard error."""
    worst: float
    """The same of the pair that the other half of the trials has as the worst."""
    worst_error: float
    """Its standard error, if it is 92 %."""
    fits: int
    """Trials with joint estimates."""
    alone: float
    """Root mean square error of the pairs' own cosines."""
    together: float
    ratio: float
    ratio_error: float
    distances: float
    """The same ratio of squared distances."""
    distances_error: float
    products: float
    """The same ratio of inner products."""
    products_error: float


def run(effort: Effort, data: Data) -> Study:  # noqa: ARG001 - one shape for all studies
    """Try all settings, and say where intervals hold less often than they should or joint estimates err more."""
    settings = design()[:: 1 if effort.shrink < 1000 else 29]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        cases = list(pool.map(_measure, range(len(settings)), settings, repeat(effort)))
    z = simultaneous_z(len(cases))
    short = max((_LEAST - case.covered) / max(case.covered_error, 1e-3) for case in cases)
    below = max((_LEAST_OF_A_PAIR - case.worst) / case.worst_error for case in cases)
    above = max(
        (case.ratio - _WORST_RATIO) / max(case.ratio_error, 1e-3) for case in cases if case.hidden <= _FEW_HIDDEN
    )
    farther, more = (
        max((getattr(case, of) - _WORST_RATIO) / max(getattr(case, f"{of}_error"), 1e-3) for case in cases)
        for of in ("distances", "products")
    )
    errors = "standard errors"
    return Study(
        [
            Table("By kind of streams", _SUMMARY, _by(cases, "kind", KINDS)),
            Table("By how they are published", _SUMMARY, _others(cases)),
            Table("All settings", Case._fields, cases),
        ],
        _finding(cases),
        checks=[
            Check("95 % intervals cover 93.5 % over pairs or more, in each setting", short, -math.inf, z, unit=errors),
            Check(
                "95 % intervals of the worst pair cover 92 % or more, in each setting", below, -math.inf, z, unit=errors
            ),
            Check(
                "together errs at most 5 % more than each pair alone, in each setting", above, -math.inf, z, unit=errors
            ),
            Check("squared distances err at most 5 % more, in each setting", farther, -math.inf, z, unit=errors),
            Check("inner products err at most 5 % more, in each setting", more, -math.inf, z, unit=errors),
        ],
    )


def design() -> list[Setting]:
    """Return settings in which any two levels of two factors meet."""
    return [
        Setting(
            kind,
            KEYS[a],
            CELLS[b],
            EPSILONS[(place + a + 2 * b + (a * b) % 3) % 6],
            MAPS[(place + a + b // 2) % 2],
            NOISES[(place + a + b) % 4],
        )
        for place, kind in enumerate(KINDS)
        for a in range(len(KEYS))
        for b in range(len(CELLS))
    ]


def streams(kind: str, keys: int) -> Ints:
    """Return the streams of a kind: (keys, DIM)."""
    rng = np.random.default_rng(11)
    tastes = rng.dirichlet(np.full(DIM, 0.05), 3)
    when = np.linspace(0, 1, keys)[:, None]
    drifting = tastes[0] * (1.2 - when) + tastes[1] * (0.3 + when) + tastes[2] * np.sin(4 * when) ** 2
    drifting = _scaled(drifting + 0.3 * rng.dirichlet(np.full(DIM, 0.5), keys))
    apart = _scaled(rng.dirichlet(np.full(DIM, 0.05), keys))
    places = np.arange(keys)
    few = drifting.copy()
    if kind == "one outlier":
        few[keys // 2] = apart[0]
    elif kind == "one of 100 times the size":
        few[keys // 2] *= 100
    elif kind == "empty keys" and keys > 2:
        few[places % 3 == 1] = 0
    elif kind in {"random order", "order chosen after a look"}:
        few = few[rng.permutation(keys)]
    elif kind == "clusters":
        few = _scaled(apart[places % 3 if keys > 3 else places] + 0.3 * apart)
    elif kind == "all equal":
        few = np.repeat(few[:1], keys, axis=0)
    elif kind == "none alike":
        few = _scaled(np.kron(np.eye(keys), np.ones(DIM // keys + 1))[:, :DIM] * rng.dirichlet(np.full(DIM, 0.3), keys))
    elif kind == "duplicates":
        few = few[places // 2]
    return np.rint(few).astype(np.int64)


def _scaled(rows: Floats) -> Floats:
    scaled: Floats = LENGTH * rows / np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-9)
    return scaled


def drawn(setting: Setting, values: Ints, seed: int) -> Block:
    """Return streams in a map of this seed, with noise."""
    make: Callable[..., ss.projections.Projection] = Rademacher if setting.map == "dense" else ss.SJLT
    options = {} if setting.map == "dense" else {"sparsity": 4}
    projection = make(dim=DIM, sketch_dim=setting.cells, seed=seed, **options)
    return released(projection, values, setting.epsilon, setting.noise, seed)


def released(projection: ss.projections.Projection, values: Ints, epsilon: float, noise_law: str, seed: int) -> Block:
    """Return streams in a map, with noise of a law of `NOISES`."""
    laplace = "Laplace" in noise_law
    budget = Budget(epsilon, 0.0 if laplace else DELTA, "laplace" if laplace else "gaussian")
    law = calibration.choose(sensitivity_of(projection, ss.L1(BOUND)), budget.spent, budget.mechanism)
    unit, parts = projection.cell_unit, 4 if noise_law.startswith("sum") else 1
    moments = law.cumulants.scaled(unit)
    keys, rng = np.arange(len(values)), np.random.default_rng(seed)
    size = np.where(keys % 2 * ("threefold" in noise_law), 3.0, 1.0)
    state = projection.transform(values, exact=True)
    noise = np.zeros(state.shape)
    for _ in range(parts):
        noise += rng.laplace(0, 0.5**0.5, state.shape) if laplace else rng.normal(0, 1, state.shape)
    cells = np.asarray(state + np.rint(noise * (size * moments.k2**0.5 / unit)[:, None]), dtype=np.int64)
    steps = np.full(len(values), unit)
    effect = effect_of(projection, "output")
    return Block(
        cells,
        steps,
        parts * moments.k2 * size**2,
        parts * moments.k4 * size**4,
        projection.variance,
        effect,
        steps=steps,
    )


def _own_cosines(block: Block) -> Floats:
    """Return cosines as somebody who looks at the cells has them, also of hidden keys."""
    products = block.values @ block.values.T
    lengths = np.sqrt(np.maximum(np.diagonal(products) - block.cells.shape[1] * block.k2, 0.01 * np.diagonal(products)))
    cosines: Floats = products / np.maximum(np.outer(lengths, lengths), 1e-9)
    return cosines


def _looked(setting: Setting, block: Block) -> Ints:
    """Return the keys in the order in which they are compared, which somebody may choose after looking at the cells."""
    if setting.kind == "order chosen after a look":
        return np.argsort(-_own_cosines(block)[0])
    if setting.kind == "keys chosen after a look":  # the half that looks most alike
        half = max(setting.keys // 2, 2)
        return np.argsort(-np.sort(_own_cosines(block), axis=1)[:, -half:].sum(axis=1))[:half]
    return np.arange(setting.keys)


def _ordered(block: Block, places: Ints) -> Block:
    parts = {name: getattr(block, name)[places] for name in ("cells", "cell_units", "k2", "k4", "steps")}
    return block._replace(**parts)


def _unextended(block: Block) -> JointEstimates:
    """Return the pairs' own cosines with the intervals of joint estimates, which is much faster than to fit a model."""
    alone = cosines_between(block, block, same=True)
    value = np.clip(np.where(np.isnan(alone.value), 0.0, alone.value), -1.0, 1.0)
    none = np.zeros_like(value)
    model = JointModel("common", 0, 2, 0.0)
    return JointEstimates(value, none, none, lowest=-1, highest=1, alone=alone, model=model, law=law_of(block))


def _measure(place: int, setting: Setting, effort: Effort) -> Case:
    many = setting.keys == KEYS[-1]
    slow = many or (setting.map == "dense" and setting.cells == CELLS[-1])
    trials, fits = effort.size(200 if slow else 400, 4), effort.size(6 if many else 16 if setting.keys > 6 else 32, 2)
    values = streams(setting.kind, setting.keys)
    if setting.map == "dense" and "Laplace" in setting.noise:  # which is as much larger than on a hashed map
        values *= round(setting.cells**0.5 / 2)
    products = (values @ values.T).astype(np.float64)
    lengths = np.sqrt(np.maximum(np.diagonal(products), 1.0))
    exact = products / np.outer(lengths, lengths)
    some = np.diagonal(products) > 0
    distinct = setting.keys * (setting.keys - 1) // 2
    chosen = setting.kind == "keys chosen after a look"
    # of a pair, by trial: whether the interval holds, and whether the pair is among the chosen
    held, seen = (np.zeros((trials, setting.keys, setting.keys)) for _ in range(2))
    hidden, squares, others = [], [], []
    for trial in range(trials):
        block = drawn(setting, values, 1000 * place + trial)
        places = _looked(setting, block)
        block, truth = _ordered(block, places), exact[np.ix_(places, places)]
        shown = np.triu(np.logical_and.outer(some[places], some[places]), 1)
        plain = _unextended(block)
        low, high = plain.selected_interval(distinct) if chosen else plain.interval()
        inside = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
        rows, columns = np.sort(np.stack([places[i] for i in np.nonzero(shown)]), axis=0)
        held[trial, rows, columns], seen[trial, rows, columns] = inside[shown], 1
        hidden.append(np.isnan(plain.alone.value[shown]).mean())
        if trial < fits:
            combined = combined_of(block, in_time=True)
            squares.append(
                [float(((estimate - truth)[shown] ** 2).mean()) for estimate in (plain.value, combined[0].cosines)]
            )
            others.append(others_of(block, combined, products[np.ix_(places, places)]))
    each: Floats = held.sum(axis=(1, 2)) / seen.sum(axis=(1, 2))
    worst, number = _worst(held, seen)
    alone, together = np.mean(squares, axis=0) ** 0.5
    ratios = [ratio_of(np.array(some)) for some in (squares, *np.moveaxis(np.array(others), 1, 0))]
    (ratio, ratio_error), (distances, distances_error), (ratio_of_products, products_error) = ratios
    return Case(
        *setting,
        trials=trials,
        hidden=float(np.mean(hidden)),
        covered=float(each.mean()),
        covered_error=float(each.std() / trials**0.5),
        worst=worst,
        worst_error=(_LEAST_OF_A_PAIR * (1 - _LEAST_OF_A_PAIR) / number) ** 0.5,
        fits=fits,
        alone=float(alone),
        together=float(together),
        ratio=ratio,
        ratio_error=ratio_error,
        distances=distances,
        distances_error=distances_error,
        products=ratio_of_products,
        products_error=products_error,
    )


def others_of(block: Block, combined: tuple[Combined, JointModel], products: Floats) -> list[list[float]]:
    """Return mean squared errors alone and together of squared distances, and of inner products."""
    norms, pairs = np.diagonal(products), np.triu_indices(len(products), 1)
    exact: dict[JointBy, Floats] = {"distance": np.add.outer(norms, norms) - 2 * products, "product": products}
    squares = []
    for by, truth in exact.items():
        joint = estimates_of(block, by, *combined)
        own = np.clip(joint.alone.value, joint.lowest, joint.highest)
        squares.append([float(((estimate - truth)[pairs] ** 2).mean()) for estimate in (own, joint.value)])
    return squares


def _worst(held: Floats, seen: Floats) -> tuple[float, float]:
    """Return the coverage of the worst pairs of each half on the other half, and the number of trials that show it."""
    halves = [(held[half::2].sum(axis=0), seen[half::2].sum(axis=0)) for half in (0, 1)]
    hits, number = 0.0, 0.0
    for (first, among), (second, others) in ((halves[0], halves[1]), (halves[1], halves[0])):
        often = (among >= among.max() / 2) & (others > 0)  # pairs that are rarely chosen tell little
        share = np.where(often, first / np.maximum(among, 1), np.inf)
        least = np.unravel_index(np.argmin(share), share.shape)
        hits, number = hits + second[least], number + others[least]
    return float(hits / number), float(number)


def ratio_of(squares: Floats) -> tuple[float, float]:
    """Return the ratio of the root mean square errors together and alone, and its standard error: (trials, 2)."""
    alone, together = squares.mean(axis=0)
    if alone <= 0:
        return 1.0, 0.0
    ratio = together / alone
    spread = (squares[:, 1] - ratio * squares[:, 0]).std() / len(squares) ** 0.5 / alone
    return float(ratio**0.5), float(spread / (2 * max(ratio, 1e-12) ** 0.5))


_SUMMARY = (
    *("", "settings", "covered, least", "mean", "largest", "worst pair, least", "median"),
    *("error together / alone, least", "median", "largest", "of distances, largest", "of products, largest"),
)


def _summary(name: str, some: list[Case]) -> tuple[str | float, ...]:
    covered, worst, ratio = ([getattr(case, field) for case in some] for field in ("covered", "worst", "ratio"))
    return (
        *(name, len(some), min(covered), float(np.mean(covered)), max(covered), min(worst), float(np.median(worst))),
        *(min(ratio), float(np.median(ratio)), max(ratio)),
        *(max(case.distances for case in some), max(case.products for case in some)),
    )


def _by(
    cases: list[Case], field: str, levels: Iterable[str | float], prefix: str = ""
) -> list[tuple[str | float, ...]]:
    groups = {level: [case for case in cases if getattr(case, field) == level] for level in levels}
    return [_summary(f"{prefix}{level}", some) for level, some in groups.items() if some]


def _others(cases: list[Case]) -> list[tuple[str | float, ...]]:
    return [
        *_by(cases, "keys", KEYS, "keys: "),
        *_by(cases, "cells", CELLS, "cells: "),
        *_by(cases, "epsilon", EPSILONS, "ε = "),
        *_by(cases, "map", MAPS),
        *_by(cases, "noise", NOISES),
    ]


def _finding(cases: list[Case]) -> str:
    seen = [case for case in cases if case.hidden <= _FEW_HIDDEN]
    least, most = min(case.covered for case in cases), max(case.covered for case in cases)
    wide = [case for case in cases if case.covered > _MOST]
    unseen = sum(case.hidden > 1 - _MOST for case in wide)
    alike = sum(case.kind in _AT_THE_LIMIT for case in wide if case.hidden <= 1 - _MOST)
    looked = sum(case.kind.startswith("keys chosen") for case in wide if case.hidden <= 1 - _MOST)
    worst = min(cases, key=lambda case: case.worst)
    ratio = max(seen, key=lambda case: case.ratio - case.ratio_error)
    farthest = max(cases, key=lambda case: case.distances - case.distances_error)
    most_of_products = max(cases, key=lambda case: case.products - case.products_error)
    half = float(np.median([case.ratio for case in seen if case.epsilon <= 1]))
    counts, errors = [case.trials for case in cases], [case.worst_error for case in cases]
    return (
        f"95 % intervals of a pair cover {100 * least:.1f} to {100 * most:.1f} % on average over pairs in {len(cases)} "
        f"settings of {min(counts)} or {max(counts)} trials, {sum(counts):,} in "
        f"all, and the worst pair {100 * worst.worst:.1f} % or more, with a standard error of "
        f"{100 * min(errors):.1f} or {100 * max(errors):.1f} %; "
        f"the median is {100 * float(np.median([case.worst for case in cases])):.1f} %. They cover more than "
        f"{100 * _MOST:.1f} % in {len(wide)} settings: where the noise hides pairs ({unseen}), where cosines are 1 and "
        f"can be missed on one side only ({alike}), and where keys were chosen after a look, as intervals then hold "
        f"for all pairs that might have been ({looked}). Where at most half of the pairs are hidden, joint ones err "
        f"{ratio.ratio:.2f} ± {ratio.ratio_error:.2f} times as much as each pair alone at worst ({ratio.kind}, "
        f"{ratio.keys} keys, {ratio.cells:,} cells, ε = {ratio.epsilon:g}), and {half:.2f} times in the median setting "
        f"of ε ≤ 1. Hidden pairs count as 0 alone, which is right where streams have nothing in common, so no ratio is "
        f"judged where most pairs are hidden. Squared distances err {farthest.distances:.2f} ± "
        f"{farthest.distances_error:.2f} times as much at worst, and inner products {most_of_products.products:.2f} ± "
        f"{most_of_products.products_error:.2f} times."
    )
