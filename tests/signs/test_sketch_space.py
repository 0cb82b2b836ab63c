"""Signs for units that are bounded in sketch space: by the flips that rest on sums over all cells, and no others."""

import itertools
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import streamsketch as ss
from streamsketch import signs
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.privacy.sign_flips import FlipLaw, rate_below
from tests.signs.test_exact_privacy import worst_loss

TWO_CELLS = ss.projections.Identity(dim=2)
REACH = 6


def loss_of(law: FlipLaw, shift: int) -> mpmath.mpf:
    """Return the largest loss of one sign whose cell moves by so many steps, over all cells within `REACH`."""
    pairs = {((cell,), (cell + shift,)) for cell in range(-REACH, REACH + 1)}
    return worst_loss(pairs, lambda cells: law.levels(cells, np.ones(1, dtype=np.int64)), law.rate)


def largest_loss(law: FlipLaw, neighbours: ss.SketchL2) -> mpmath.mpf:
    """Return the largest loss over all that one unit can do to the two cells of each of two keys."""
    most = neighbours.squared_cell_steps(TWO_CELLS)
    reach = neighbours.cell_steps(TWO_CELLS)
    losses = [loss_of(law, shift) for shift in range(reach + 1)]  # a shift down loses what one up does, by symmetry
    within = (d for d in itertools.product(range(reach + 1), repeat=4) if sum(step**2 for step in d) <= most)
    return max(sum(losses[step] for step in moved) for moved in within)


@pytest.mark.parametrize("bound", [1, "3/2", 2, "5/2"])
def test_logistic_flips_hide_all_that_a_unit_does_to_all_its_keys(bound: int | str) -> None:
    neighbours = ss.SketchL2(bound, max_keys=2)
    asked = signs.DPSignLogistic(epsilon=1.5, neighbours=neighbours).law(TWO_CELLS)
    assert largest_loss(asked, neighbours) <= 1.5


def test_flips_by_the_norm_alone_are_caught() -> None:
    neighbours = ss.SketchL2(2, max_keys=2)
    too_few = FlipLaw("linear", rate_below(Fraction(1.5) / neighbours.cell_steps(TWO_CELLS)))
    assert largest_loss(too_few, neighbours) > 1.5
    assert sensitivity_of(TWO_CELLS, neighbours).l1 == 4, "(1, 1, 1, 1) has a norm of 2"


def test_signs_of_it_are_published_and_checked() -> None:
    released = signs.DPSignLogistic(epsilon=1.5, neighbours=ss.SketchL2(2, max_keys=2)).release(TWO_CELLS.sketch())
    explained = released.explain()
    assert explained.check.verdict == "enough"
    assert "changes the exact sketches of all keys together by an L2 norm of at most 2" in explained.who
    assert signs.SignSketch.from_bytes(released.to_bytes()) == released


@pytest.mark.parametrize("mechanism", [
    signs.DPSignRPRRSmooth, signs.DPSignOPORPRR, signs.DPSignOPORPRRSmooth, signs.IDPSignRPRR, signs.IDPSignOPORP,
])  # fmt: skip
def test_other_flips_rest_on_the_data_and_are_refused(mechanism: type[signs.DPSignRPRRSmooth]) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"rests on what a unit changes in the data.*Use DPSignLogistic"):
        mechanism(epsilon=1, neighbours=ss.SketchL2(2, max_keys=1))


@pytest.mark.parametrize(("mechanism", "more"), [
    (signs.DPSignRPRR, {"norm_bound": 5}), (signs.IDPSignRPG, {}), (signs.IDPSignOPORPG, {}),
])  # fmt: skip
def test_so_are_those_with_delta(mechanism: Any, more: dict[str, Any]) -> None:
    with pytest.raises(ss.InvalidInputError, match="rests on what a unit changes in the data"):
        mechanism(epsilon=1, delta=1e-6, neighbours=ss.SketchL2(2, max_keys=1), **more)


def test_a_unit_in_any_number_of_keys_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="pass max_keys"):
        signs.DPSignLogistic(epsilon=1, neighbours=ss.SketchL2(2))
