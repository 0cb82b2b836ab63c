"""A bound chosen privately: exact ε by enumeration, exact chances of the sampler, and steps that tell nothing."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy import Budget, bound_choice
from streamsketch.privacy.bound_choice import ChosenBound, choose_bound, counts_by_size, exponents_of
from streamsketch.privacy.laplace import DiscreteLaplace
from tests.audit.record import judged

GRID = [Fraction(bound) for bound in (1, 2, 4, 8)]
EPSILON = Fraction(1, 2)


def chances(exponents: Sequence[Fraction]) -> list[float]:
    """Return the probability of each candidate under permute-and-flip: over all orders, the first success."""
    out = [0.0] * len(exponents)
    orders = list(itertools.permutations(range(len(exponents))))
    successes = [math.exp(-float(exponent)) for exponent in exponents]
    for order in orders:
        before = 1.0
        for place in order:
            out[place] += before * successes[place] / len(orders)
            before *= 1 - successes[place]
    return out


def neighbours(candidates: int, sizes: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield all multisets of so many totals on the grid, and each with one unit more; totals beyond it too."""
    cells = [*(int(bound) for bound in GRID[:candidates]), 9]
    for units in sizes:
        for totals in itertools.combinations_with_replacement(cells, units):
            for one in cells:
                yield list(totals), [*totals, one]


@functools.cache
def chances_of(totals: tuple[int, ...], candidates: int, share: Fraction, shrink: int) -> list[float]:
    exponents = exponents_of(totals, GRID[:candidates], EPSILON, share)
    return chances([shrink * exponent for exponent in exponents])


def worst_loss(share: Fraction, shrink: int = 1, sizes: Sequence[int] = range(7)) -> float:
    """Return the largest |log P/P'| over all outputs and neighbours, with the sensitivity divided by ``shrink``."""
    worst = 0.0
    for candidates in (2, 3, 4) if max(sizes) < 10 else (2, 3):
        for less, more in neighbours(candidates, sizes):
            one, other = (chances_of(tuple(sorted(totals)), candidates, share, shrink) for totals in (less, more))
            worst = max(worst, *(abs(math.log(p / q)) for p, q in zip(one, other, strict=True)))
    return worst


@pytest.mark.parametrize(
    ("share", "sizes"),
    [
        (Fraction(1, 4), range(7)),  # where one unit more moves the score furthest, not one less
        (Fraction(1, 2), range(7)),
        (Fraction(3, 4), range(7)),
        pytest.param(Fraction(19, 20), [0, 1, 19, 20, 39], marks=pytest.mark.long),
    ],
)
def test_no_output_tells_of_a_unit_more_than_epsilon(share: Fraction, sizes: Sequence[int]) -> None:
    loss = worst_loss(share, sizes=sizes)
    judged(1 - loss / EPSILON, len(sizes))
    assert loss <= EPSILON * (1 + 1e-12)
    assert loss > 0.8 * EPSILON


def test_half_of_the_sensitivity_is_caught() -> None:
    assert worst_loss(Fraction(3, 4), shrink=2) > 1.5 * EPSILON


class Written:
    """Bytes of a generator, in place of the system's; counts the reads."""

    def __init__(self, seed: int) -> None:
        self._rng, self.reads = np.random.default_rng(seed), 0

    def read(self, size: int) -> bytes:
        self.reads += 1
        return self._rng.bytes(size)


def test_candidates_come_with_the_chances_of_permute_and_flip() -> None:
    """2,000 draws among four: χ² with 3 degrees of freedom is above 21.1 with probability 1e-4."""
    totals, share = [1, 1, 2, 5, 8, 9, 9], Fraction(3, 4)
    expected = chances(exponents_of(totals, GRID, Fraction(2), share))
    source = Written(5)
    drawn = Counter(choose_bound(totals, GRID, epsilon=2, share=share, bits=source).bound for _ in range(2000))
    terms = [
        (drawn[bound] - 2000 * chance) ** 2 / (2000 * chance) for bound, chance in zip(GRID, expected, strict=True)
    ]
    assert sum(terms) < 21.1


def test_heights_are_exponential() -> None:
    """5,000 of them: the largest distance from the distribution exceeds 0.0325 with probability 1e-4."""
    source = Written(6)
    heights = np.sort([float(bound_choice.height_of(source)) for _ in range(5000)])
    steps = np.arange(1, 5001) / 5000
    assert np.abs(1 - np.exp(-heights) - steps).max() < 0.0325


@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_does_not_depend_on_the_totals(seed: int) -> None:
    reads = set()
    for totals in ([], [1.0], [1.0] * 100, [9.0] * 100, [*range(100)]):
        source = Written(seed)
        choose_bound(totals, GRID, epsilon=3.0, bits=source)
        reads.add(source.reads)
    assert len(reads) == 1


def test_a_generous_budget_finds_the_quantile_and_says_what_it_spent() -> None:
    totals = np.concatenate([np.full(950, 3.0), np.full(50, 100.0)])
    chosen = choose_bound(totals, [1, 2, 5, 1000], epsilon=10.0)
    assert (chosen.bound, chosen.budget, chosen.share) == (Fraction(5), Budget(10.0), Fraction(19, 20))
    relation = ss.L1(chosen.bound, unit="customer")
    sketch = ss.SJLT(dim=100, sketch_dim=16, sparsity=4, seed=1).sketch()
    release = sketch.release(epsilon=1.0, neighbours=relation)
    assert (chosen.budget + release.guarantee.budget).epsilon == 11
    both = ss.compose([chosen.guarantee(relation), release], populations="overlapping")
    assert both.epsilon == 11
    assert "permute-and-flip choice of the bound" in str(both)


def test_the_rank_error_holds() -> None:
    totals = np.arange(1000.0)
    chosen = ChosenBound(Fraction(1), Budget(0.5), Fraction(9, 10), 20)
    worst = 0
    for seed in range(40):
        found = choose_bound(totals, np.arange(50, 1001, 50), epsilon=0.5, share="0.9", bits=Written(seed))
        worst = max(worst, abs(int(found.bound) + 1 - 900))
    assert 0 < worst <= chosen.rank_error(0.999)


class Least:
    """A criterion that wants the first bound beyond which fewer than ten units are."""

    def errors(self, bounds: Sequence[Fraction], counts: Sequence[int], deviation: float) -> list[float]:
        assert len(counts) == len(bounds) + 1
        assert deviation == pytest.approx(math.sqrt(2) * 2, rel=0.05)
        return [sum(counts[place + 1 :]) >= 10 for place in range(len(bounds))]


def test_counts_by_size_say_how_many_units_are_between_bounds() -> None:
    assert counts_by_size([0.5, 1, 1.5, 2, 3, 9, 9], GRID).tolist() == [2, 2, 1, 0, 2]
    chosen = choose_bound([1.0] * 500 + [3.0] * 500, GRID, epsilon=0.5, accuracy=Least(), bits=Written(3))
    assert (chosen.bound, chosen.share, chosen.errors) == (Fraction(4), None, (1.0, 1.0, 0.0, 0.0))
    assert np.abs(np.array(chosen.counts) - [500, 0, 500, 0, 0]).max() < 40
    assert "noisy counts of units by size" in str(chosen.guarantee(ss.L1(4)))
    with pytest.raises(ss.InvalidInputError, match="chosen for accuracy"):
        chosen.rank_error()


def changes(count: Callable[[Any, Any], Any]) -> set[int]:
    """Return by how much, in all, one unit moves the counts."""
    return {
        int(np.abs(np.subtract(count(more, GRID), count(less, GRID))).sum())
        for less, more in neighbours(len(GRID), range(4))
    }


def test_one_unit_moves_one_count_by_one_and_the_noise_is_for_that() -> None:
    """So Laplace noise of scale 1/ε hides it: a pmf that falls by e^-ε a step."""
    assert changes(counts_by_size) == {1}
    noise = set()
    for totals in ([], [1.0] * 9, [9.0] * 50):
        found = choose_bound(totals, GRID, epsilon=0.25, accuracy=Drawn(), bits=Written(8))
        noise.add(tuple(np.array(found.counts) - counts_by_size(totals, GRID)))
    assert len(noise) == 1
    wanted = DiscreteLaplace(Fraction(4)).sample(len(GRID) + 1, Written(8))
    assert noise == {tuple(wanted.tolist())}


class Drawn:
    """A criterion to which all bounds are the same."""

    def errors(self, bounds: Sequence[Fraction], counts: Sequence[int], deviation: float) -> list[float]:
        assert deviation == math.sqrt(DiscreteLaplace(Fraction(4)).cumulants.k2)
        return [0.0 for _ in bounds[: len(counts)]]


def test_counts_of_all_units_within_each_bound_are_caught() -> None:
    """A unit would be in several of them."""
    assert max(changes(lambda totals, grid: np.cumsum(counts_by_size(totals, grid)))) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"accuracy": Least(), "share": 0.9}, "for a share of units or for accuracy"),
        ({"accuracy": Drawn(), "totals": [-1.0]}, "finite and at least 0"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"share": 1}, "share must lie in"),
        ({"share": Fraction(1, 3**20)}, "share must lie in"),
        ({"candidates": [1]}, "candidates must be 2 to"),
        ({"candidates": "125"}, "must be several numbers, such as .5, 10, 20., got '125'"),
        ({"candidates": [1, 1]}, "different positive"),
        ({"candidates": [0, 1]}, "different positive"),
        ({"totals": [-1.0]}, "finite and at least 0"),
        ({"totals": [math.nan]}, "finite and at least 0"),
        ({"totals": ["a"]}, "totals must be numbers"),
        ({"totals": [[1.0]]}, "totals must be numbers"),
    ],
)
def test_mistakes_are_refused(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"totals": [1.0, 2.0], "candidates": [1, 2], "epsilon": 1.0} | arguments
    with pytest.raises(ss.InvalidInputError, match=message):
        choose_bound(given.pop("totals"), given.pop("candidates"), **given)
    with pytest.raises(ss.InvalidInputError, match="confidence"):
        ChosenBound(Fraction(1), Budget(1.0), Fraction(1, 2), 2).rank_error(1.0)
