"""Every rule of clipping at the edges of 64 bits, against rationals: within the bound, exact, and the twin's."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamsketch.projections import Identity
from streamsketch.sketching.bounding.cells import bounded_cells
from streamsketch.sketching.bounding.clip import bounded
from streamsketch.sketching.bounding.clip_kernels import exceeds, exceeds_squared, scale_steps
from streamsketch.sketching.bounding.contributions import Contributions
from tests.oracles import naive, naive_cells
from tests.sketching.bounding.edges import LIMITS, UNITS
from tests.sketching.bounding.test_clip import SECRET, columns, kept

SLOT = ("AA", 0)
WIDTH = max(map(len, UNITS))


def unit_of(number: int) -> bytes:
    return number.to_bytes(16, "little")


def events_of(units: list[list[int]], slots: int = 1) -> list[Any]:
    """Return an event for each index; with two slots every second one is in the other."""
    names = [SLOT, ("UA", 0)][:slots]
    return [
        (unit_of(number), names[index % slots], index, step)
        for number, unit in enumerate(units)
        for index, step in enumerate(unit)
    ]


@pytest.mark.parametrize(
    ("clip", "together", "limit"),
    [
        pytest.param(*rule, limit, marks=[pytest.mark.long] * ((place + turn) % 2))
        for place, rule in enumerate(itertools.product(["scale", "cut"], [False, True]))
        for turn, limit in enumerate(LIMITS)
    ],
)
def test_sums_of_absolute_values(clip: Any, together: bool, limit: int) -> None:  # noqa: FBT001
    found = events_of(UNITS, 2)
    bounds: dict[str, Any] = {"max_keys": 2, "limit": limit, "clip": clip, "together": together}
    cut = bounded(columns(found), secret=SECRET, **bounds)
    assert kept(cut) == Counter(naive.bounded(found, secret=SECRET, **bounds))
    for unit in UNITS:
        own = events_of([unit])
        alone = bounded(columns(own), secret=SECRET, **bounds)
        assert sum(abs(step) for step in alone.steps.tolist()) == min(limit, sum(map(abs, unit)))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
def test_sums_of_squares(limit: int, together: bool) -> None:  # noqa: FBT001
    """Of which each is truncated: trunc(x · √(limit / Σx²))."""
    found = events_of(UNITS, 2)
    cut = bounded(columns(found), max_keys=2, limit=limit, secret=SECRET, together=together, squared=True)
    expected: Counter[Any] = Counter()
    for unit in UNITS:
        for first in [slice(None)] if together else [slice(0, None, 2), slice(1, None, 2)]:
            group = list(enumerate(unit))[first]
            total = sum(step**2 for _, step in group)
            for index, step in group:
                size = abs(step) if total <= limit else math.isqrt(step * step * limit // total)
                size *= 1 if step > 0 else -1
                expected.update([([SLOT, ("UA", 0)][index % 2], index, size)] if size else [])
    assert kept(cut) == expected
    for unit in UNITS:
        alone = bounded(columns(events_of([unit])), max_keys=1, limit=limit, secret=SECRET, squared=True)
        assert sum(step**2 for step in alone.steps.tolist()) <= limit


@pytest.mark.parametrize("limit", LIMITS)
def test_sums_at_a_limit_do_not_exceed_it(limit: int) -> None:
    """Of the limit, one less and one more, beside those of the edges; a unit that is counted as clipped is clipped."""
    root = math.isqrt(limit)
    units = [*UNITS, [limit], [1 - limit], [limit, -1], [root], [-root, *[1] * min(limit - root**2, 3)], [root, 1, 1]]
    ends = np.cumsum([len(unit) for unit in units])
    steps, starts = np.array([step for unit in units for step in unit], dtype=np.int64), np.append(0, ends[:-1])
    assert exceeds(steps, starts, ends, limit).tolist() == [sum(map(abs, unit)) > limit for unit in units]
    squares = [sum(step * step for step in unit) > limit for unit in units]
    assert exceeds_squared(steps, starts, ends, limit).tolist() == squares


TOTALS = [(1 << bits) + offset for bits in (32, 62, 63, 64, 66) for offset in (-2, -1, 0, 1, 12_345)]
"""Of steps of a run: within one word, at its upper bit, and past it."""


def in_steps(total: int) -> list[int]:
    """Return steps of int64, of either sign, whose absolute values sum to a total."""
    largest = (1 << 63) - 1
    rest = [total % largest] if total % largest else []
    return [step * (-1) ** place for place, step in enumerate([*[largest] * (total // largest), *rest])]


@pytest.mark.parametrize("limit", LIMITS)
def test_shares_after_the_largest_remainders(limit: int) -> None:
    """⌊C·limit / N⌋ for C = Σ|step| so far, less that before: where C·limit mod N is near N, and a step is small."""
    runs = []
    for total in (each for each in TOTALS if each > limit):
        for quotient in {1, limit // 3 + 1, limit // 2 + 1, limit}:
            before = (quotient * total - 1) // limit  # the largest C with a share below this quotient
            runs += [
                [*in_steps(before), small, -small, *in_steps(max(total - before - 2 * small, 0))]
                for small in (1, 2, 3, (1 << 32) - 1, 1 << 32)
                if before + small <= total
            ]
    steps = np.array([step for run in runs for step in run], dtype=np.int64)
    ends = np.cumsum([len(run) for run in runs])
    scale_steps(steps, np.append(0, ends[:-1]), ends, limit)
    for run, scaled in zip(runs, np.split(steps, ends[:-1]), strict=True):
        sums = list(itertools.accumulate(map(abs, run), initial=0))
        shares = [sum_ * limit // sums[-1] for sum_ in sums]
        sizes = [after - before for before, after in itertools.pairwise(shares)]
        assert scaled.tolist() == [size if step > 0 else -size for step, size in zip(run, sizes, strict=True)]


def rows_of(units: list[list[int]]) -> Contributions:
    """Return a row of features for each unit, which are counted."""
    none = np.empty(0, dtype=np.int64)
    digests = np.array([np.frombuffer(unit_of(number), "<u8") for number in range(len(units))], dtype=np.uint64)
    table = np.array([[*unit, *[0] * (WIDTH - len(unit)), 1] for unit in units], dtype=np.int64)
    return Contributions(digests, [SLOT], np.zeros(len(units), dtype=np.int64), none, none, table)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "rule", "limit"),
    [
        pytest.param(*how, limit, marks=[pytest.mark.long] * ((place + turn) % 2))
        for place, how in enumerate(itertools.product(["events", "rows"], ["scale", "equal", "average"]))
        for turn, limit in enumerate(each for each in LIMITS if each < 1 << 31)
    ],
)
def test_cells(rule: str, form: str, limit: int) -> None:
    """Unit by unit; averages of one row are that row, and of two rows are halves."""
    projection, known = Identity(dim=WIDTH), {"max_keys": 1, "limit": limit, "secret": SECRET}
    rows = rows_of(UNITS)
    for place, unit in enumerate(UNITS):
        own = rows.rows(np.array([place]))
        if rule != "average":
            own = Contributions(own.units, own.slots, own.codes, own.indices, own.steps, own.features[:, :-1])  # type: ignore[index]
        given = own if form == "rows" else own.one_by_one()
        parts = bounded_cells(given, projection=projection, equal=rule == "equal", averaged=rule == "average", **known)  # type: ignore[arg-type]
        left = np.zeros(WIDTH, dtype=object)
        for part in parts:
            if part.steps.ndim > 1:
                left += part.steps.sum(axis=0).astype(object)
            else:
                for cell, step in zip(part.indices.tolist(), part.steps.tolist(), strict=True):
                    left[cell] += step
        expected = naive_cells.clipped(dict(enumerate(unit)), limit, "equal" if rule == "equal" else "scale")
        assert {cell: step for cell, step in enumerate(left.tolist()) if step} == expected
        assert sum(step**2 for step in left.tolist()) <= limit**2


@pytest.mark.parametrize("rows", [1, 2, 3, 7, (1 << 31) - 1, 1 << 32, (1 << 62) + 1, (1 << 63) - 1])
def test_averages_of_sums(rows: int) -> None:
    """Sums of many rows as a state has them, with their number: the nearest integer, halves away from zero."""
    sums = np.array([unit + [0] * (WIDTH - len(unit)) for unit in UNITS], dtype=np.int64)
    units = [row for row in sums.tolist() if any(row)]
    events = [
        (unit_of(number), SLOT, index, step)
        for number, unit in enumerate(units)
        for index, step in enumerate([*unit, rows])
    ]
    given = columns(events)
    limit = (1 << 31) - 1
    found: Counter[Any] = Counter()
    for place in range(len(units)):
        own = given.rows((given.units == given.units[place * (WIDTH + 1)]).all(axis=1))
        parts = bounded_cells(
            own, projection=Identity(dim=WIDTH), max_keys=1, limit=limit, secret=SECRET, equal=False, averaged=True
        )
        for part in parts:
            found.update(
                {(place, cell): step for cell, step in zip(part.indices.tolist(), part.steps.tolist(), strict=True)}
            )
    expected: Counter[Any] = Counter()
    for place, unit in enumerate(units):
        average = {
            cell: math.floor(abs(Fraction(step, rows)) + Fraction(1, 2)) * (1 if step > 0 else -1)
            for cell, step in enumerate(unit)
        }
        expected.update({(place, cell): step for cell, step in naive_cells.clipped(average, limit).items()})
    assert {place: step for place, step in found.items() if step} == {
        place: step for place, step in expected.items() if step
    }
