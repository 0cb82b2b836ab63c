"""All rows of a history have one guarantee: what each window after the first may be, and what is refused."""

import itertools
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.continual import Releaser, Tree
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds
from streamsketch.release import AdditiveNoise
from tests.crossed import crossed

GRID = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=7)
SALE = ss.L1(3, unit="sale")
PUBLISH = AdditiveNoise(epsilon=1.0, neighbours=SALE, schedule=Tree(horizon=9))
ONE, OTHER = "no sale is in two files", "no sale is in two shops"

# What a window's data are known to keep to; "wider" is enforced, but not to the bound of the rows.
WINDOWS: dict[str, Bounds] = {
    "enforced": Bounds(SALE, "scale"),
    "enforced to less": Bounds(ss.L1(1, unit="sale"), "scale"),
    "enforced if": Bounds(SALE, "scale", conditions=(ONE,)),
    "enforced if other": Bounds(SALE, "scale", conditions=(OTHER,)),
    "unknown": UNKNOWN,
    "new": NO_DATA,
    "ended": Bounds(SALE, "scale").updated(),
    "wider": Bounds(ss.L1(4, unit="sale"), "scale"),
}
ALONE = {"ended": "no bound on one unit is known", "wider": "does not imply"}
STATED = {  # by the first window
    "enforced": ("enforced", ()),
    "enforced to less": ("enforced", ()),
    "enforced if": ("enforced", (ONE,)),
    "enforced if other": ("enforced", (OTHER,)),
    "unknown": ("asserted", ()),
    "new": ("asserted", ()),
}


def expected(first: str, later: str) -> str:
    """Return what the refusal of a later window says; an empty text for a row with the guarantee of the first."""
    basis, conditions = STATED[first]
    if later in ALONE:
        return ALONE[later]
    if later == "new":
        return "states no bound" if basis == "enforced" else ""
    if later == "unknown":
        return "one guarantee" if basis == "enforced" else ""
    return "one guarantee" if set(WINDOWS[later].conditions) - set(conditions) else ""


def window(kind: str, *, keyed: bool, at: int = 0) -> Any:
    cells = np.arange(at, at + 16)
    if keyed:
        return ss.SketchTable.from_state(GRID, ["x"], cells.reshape(1, -1), np.array([1 << 20]), bounds=WINDOWS[kind])
    return ss.Sketch.from_state(GRID, cells, 1 << 20, bounds=WINDOWS[kind])


def added(releaser: Releaser, kind: str, *, keyed: bool, at: int = 0) -> Any:
    return releaser.add(window(kind, keyed=keyed, at=at), **({"public_keys": ["x"]} if keyed else {}))


@crossed(first=STATED, later=WINDOWS, restored=[False, True], keyed=[False, True])
def test_a_later_window_keeps_the_guarantee_of_the_first_or_is_refused(
    first: str,
    later: str,
    *,
    restored: bool,
    keyed: bool,
) -> None:
    releaser = Releaser(PUBLISH, GRID)
    row = added(releaser, first, keyed=keyed)
    assert (row.guarantee.basis, tuple(row.guarantee.conditions)) == STATED[first]
    if restored:
        releaser = Releaser.restored(PUBLISH, GRID, releaser.state)
    before = releaser.state
    if refusal := expected(first, later):
        with pytest.raises(InvalidInputError, match=refusal):
            added(releaser, later, keyed=keyed, at=5)
        after = releaser.state
        assert (after.window, after.held.tolist()) == (before.window, before.held.tolist()), "nothing has changed"
        assert added(releaser, first, keyed=keyed).guarantee == row.guarantee if first != "new" else True
        return
    assert added(releaser, later, keyed=keyed, at=5).guarantee == row.guarantee


@pytest.mark.parametrize("kind", ALONE)
def test_a_first_window_that_keeps_to_no_such_bound_is_refused(kind: str) -> None:
    releaser = Releaser(PUBLISH, GRID)
    with pytest.raises(InvalidInputError, match=ALONE[kind]):
        added(releaser, kind, keyed=False)
    assert releaser.windows == 0


@pytest.mark.parametrize("kinds", list(itertools.permutations(WINDOWS, 2)), ids=" then ".join)
def test_who_asserts_the_bound_may_add_any_window(kinds: tuple[str, str]) -> None:
    releaser = Releaser(PUBLISH, GRID, assert_bounds=True)
    rows = [added(releaser, kind, keyed=False) for kind in kinds]
    assert {(row.guarantee.basis, tuple(row.guarantee.conditions)) for row in rows} == {("asserted", ())}
