"""Listed laws of release functions: exact chances, largest losses, and what is said of runs that were cut."""

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from streamsketch.auditing import Choices, largest_delta, largest_loss, law_of
from streamsketch.auditing.laws import by_value
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable


def respond(answer: int, choices: Choices) -> int:
    return answer if choices.randbelow(4) else 1 - answer


def geometric(count: int, choices: Choices) -> int:
    """Return a count with noise r of chance (1/3) 2^-|r|, whose runs have no end."""
    if choices.randbelow(3) == 0:
        return count
    noise = 1
    while choices.randbelow(2):
        noise += 1
    return count + noise * choices.choice([-1, 1])


def test_chances_of_all_ways_to_choose_are_exact() -> None:
    ways: dict[str, tuple[Callable[[Choices], Any], dict[Any, Fraction]]] = {
        "below": (lambda choices: choices.randbelow(3), dict.fromkeys(range(3), Fraction(1, 3))),
        "range": (lambda choices: choices.randrange(2, 8, 3), {2: Fraction(1, 2), 5: Fraction(1, 2)}),
        "ends": (lambda choices: choices.randint(-1, 1), dict.fromkeys((-1, 0, 1), Fraction(1, 3))),
        "among": (lambda choices: choices.choice("ab"), {"a": Fraction(1, 2), "b": Fraction(1, 2)}),
        "bits": (lambda choices: choices.getrandbits(2), dict.fromkeys(range(4), Fraction(1, 4))),
        "bytes": (lambda choices: choices.read(1)[0] < 64, {True: Fraction(1, 4), False: Fraction(3, 4)}),
        "coin": (lambda choices: choices.bernoulli(Fraction(2, 7)), {True: Fraction(2, 7), False: Fraction(5, 7)}),
        "sure": (lambda choices: choices.bernoulli(1) and not choices.bernoulli(0.0), {True: Fraction(1)}),
    }
    for name, (choose, law) in ways.items():
        assert law_of(lambda _, choices, choose=choose: choose(choices), None) == (law, 0), name


def test_choices_that_depend_on_earlier_ones_are_followed() -> None:
    def sums(dice: int, choices: Choices) -> int:
        total = choices.randint(1, dice)
        return total + (choices.randint(1, 2) if total == dice else 0)

    assert law_of(sums, 3).chances == {
        1: Fraction(1, 3),
        2: Fraction(1, 3),
        4: Fraction(1, 6),
        5: Fraction(1, 6),
    }


@pytest.mark.parametrize("most", [5, 10, 20])
def test_what_is_cut_is_stated_and_results_hold_whatever_it_is(most: int) -> None:
    law = law_of(geometric, 0, most_choices=most)
    assert sum(law.chances.values()) + law.unresolved == 1
    assert 0 < law.unresolved < Fraction(3, 2 ** (most - 3))
    assert law.chances[1] == law.chances[-1] == Fraction(1, 6)
    loss = largest_loss(geometric, [(0, 1)], most_choices=most)
    assert loss.epsilon <= math.log(2) + 1e-12
    assert loss.unresolved == float(law.unresolved)
    for epsilon in (0.0, 0.5, math.log(2), 1.0):
        # outside 0 and 1 the ratio is 2 or 1/2 exactly
        exact = max(0.0, (1 - math.exp(epsilon) / 2) * 2 / 3)
        delta = largest_delta(geometric, [(0, 1)], epsilon, most_choices=most)
        assert delta.least - 1e-15 <= exact <= delta.most + 1e-15
        assert delta.most - delta.least <= (1 + math.exp(epsilon)) * float(law.unresolved) + 1e-12


def test_what_was_cut_may_be_all_that_tells() -> None:
    def slow(data: int, choices: Choices) -> str:
        if data and choices.randbelow(2):
            choices.getrandbits(1), choices.getrandbits(1)
            return "rare"
        return "usual"

    exact, cut = (largest_delta(slow, [(0, 1)], epsilon=math.log(2), most_choices=most) for most in (3, 2))
    assert exact.least == pytest.approx(0.5)
    assert exact.most == pytest.approx(0.5)
    assert (cut.least, cut.most) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.5))


def test_losses_are_those_of_the_worst_pair_and_way_round() -> None:
    def biased(answer: int, choices: Choices) -> int:
        return answer if choices.randbelow(10) < (9 if answer == 1 else 6) else 1 - answer

    loss = largest_loss(biased, [(0, 0), (0, 1), (1, 1)])
    assert (loss.epsilon, loss.outcome, loss.pair) == (pytest.approx(math.log(6)), 0, (0, 1))
    assert loss.unresolved == 0
    assert largest_loss(biased, [(1, 0)]).pair == (0, 1)
    delta = largest_delta(biased, [(0, 1)], epsilon=math.log(2))
    assert (delta.least, delta.most, delta.pair) == (pytest.approx(0.4), pytest.approx(0.4), (0, 1))


def test_an_outcome_that_a_neighbour_cannot_have_is_an_infinite_loss() -> None:
    def rounded(count: int, choices: Choices) -> int:
        return count + choices.randint(-2, 2)

    loss = largest_loss(rounded, [(0, 1)])
    assert (loss.epsilon, loss.outcome) == (math.inf, -2)
    assert largest_delta(rounded, [(0, 1)], epsilon=3.0).least == pytest.approx(0.2)


@pytest.mark.parametrize(("count", "rate"), [(1, Fraction(3, 4)), (2, Fraction(3, 4)), (3, Fraction(2, 3))])
def test_losses_of_several_answers_add_up(count: int, rate: Fraction) -> None:
    def several(answers: tuple[int, ...], choices: Choices) -> list[int]:
        return [answer if choices.bernoulli(rate) else 1 - answer for answer in answers]

    pairs = itertools.product(itertools.product((0, 1), repeat=count), repeat=2)
    odds = rate / (1 - rate)
    assert largest_loss(several, pairs).epsilon == pytest.approx(count * math.log(odds), rel=1e-14)


def test_a_small_loss_is_not_lost_in_rounding() -> None:
    rate = Fraction(1, 2) + Fraction(1, 10**12)
    loss = largest_loss(lambda answer, choices: answer ^ (not choices.bernoulli(rate)), [(0, 1)])
    assert loss.epsilon == pytest.approx(4e-12, rel=1e-9)


def test_functions_that_cannot_be_listed_are_refused() -> None:
    ways = itertools.count(2)
    with pytest.raises(InvalidInputError, match=r"after the same choices .* among 3 ways, and among 2 before"):
        law_of(lambda _, choices: choices.randbelow(next(ways)), None)
    with pytest.raises(InvalidInputError, match="more than 10 runs"):
        law_of(lambda _, choices: choices.randbelow(11), None, most_runs=10)
    with pytest.raises(InvalidInputError, match=r"a chance is between 0 and 1, got 1\.5"):
        law_of(lambda _, choices: choices.bernoulli(1.5), None)
    with pytest.raises(InvalidInputError, match="compared by value, which a bytearray has not"):
        law_of(lambda _, __: bytearray(b"a"), None)
    with pytest.raises(InvalidInputError, match="epsilon must be between"):
        largest_delta(respond, [(0, 1)], -1.0)
    with pytest.raises(InvalidInputError, match="ways must be"):
        law_of(lambda _, choices: choices.randbelow(0), None)


def test_a_function_cannot_swallow_the_end_of_a_run() -> None:
    def stubborn(_: int, choices: Choices) -> int:
        try:
            while True:
                choices.randbelow(2)
        except Exception:  # noqa: BLE001 - as careless functions do
            return 1

    assert law_of(stubborn, 0, most_choices=3) == ({}, 1)


def test_outcomes_are_equal_if_an_outsider_sees_no_difference() -> None:
    assert by_value(np.array([[1, 2]])) == by_value([[1, 2]]) != by_value([1, 2])
    assert by_value({"a": np.int64(1)}) == by_value({"a": 1}) != by_value({"a": 2})
    assert by_value({"a": 1, "b": 2}) != by_value({"b": 2, "a": 1}), "an order is seen"
    assert by_value({1, 2}) == by_value({2, 1})
    assert by_value(0.0) != by_value(-0.0)
    assert by_value(math.nan) == by_value(math.nan)
