"""Plans for units: which bound, clip, noise and size of a sketch leave the least error."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.numbers import Exact, check_int, exact_fraction, short
from streamsketch.core.text import check_text
from streamsketch.core.wrong import FACTS, wrong_type
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.planning.facts import Goal
from streamsketch.planning.typical import key_sizes
from streamsketch.planning.unit_facts import MOST_SUMS, UnitFacts
from streamsketch.planning.unit_options import (
    QUESTIONS,
    Question,
    UnitGoal,
    UnitOption,
    clipped,
    kinds_of,
    options_of,
    projections_within,
    unit_options,
)
from streamsketch.planning.unit_plans import NEAR_BEST, Outlook, UnitPlan, numbered, preference
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.neighbours import MOST_KEYS

_MOST_KEYS = 1 << 16


def plan_units(  # noqa: PLR0913 - a plan starts from many facts
    facts: UnitFacts,
    *,
    epsilon: float,
    delta: float = 0.0,
    question: Question = "cosine",
    units: float | Sequence[float] | Mapping[str, float] | None = None,
    unit: str = "unit",
    max_keys: int | None = None,
    dim: int = HASHED_DIM,
    bounds: Iterable[Exact] | None = None,
    count: bool = True,
    max_cells: int = 1 << 16,
    max_nonzeros: int = 8,
) -> UnitPlan:
    """Plan how best to protect whole units, such as persons, before any private data are seen.

    It compares kinds of bounds (`L1` and `SketchL2`), ways to clip, kinds of noise and sizes of the sketch. The
    criterion is the predicted root mean square error for the given question: the errors of map and noise (Theory 4),
    and the bias between clipped and unclipped units. The plan recommends the smallest sketch whose error is within 3 %
    of the smallest error, or within 6 % for a typical unit, about which less is known. If a `TypicalUnit` does not
    state how often pieces match, it recommends the sketch of least worst regret over a range: the one whose error,
    wherever in the range the truth is, is the least multiple of the best error there. For cosines, among equally small
    sketches, it recommends the one in which every unit counts the same, because it needs no bound.

    How well a plan predicts depends on what is known. Cosines depend on typical units. The bias of distances, averages
    and points depends on the largest units, which come from a public sample, or from sizes whose frequencies ``shares``
    gives.

    Parameters
    ----------
    facts
        What is known about units: a `TypicalUnit`, or a `UnitSample` of a public table. Both must be public.
    epsilon, delta
        As in `Sketch.release`.
    question
        ``"cosine"`` for the cosine between the sums of two keys; ``"distance"`` for their squared distance; ``"mean"``
        for the squared distance between their averages ‖x/n - y/m‖²; ``"point"`` for the amount of one item in a sum.
    units
        About how many units a key has, as a public number or a guess. Several numbers, or a mapping from names to
        numbers, stand for keys of different sizes. `UnitPlan.keys` shows which of them stand out from the noise; the
        smallest matter most for the error. By default the sizes of the sample. For other sizes, a sample takes their
        mean for its errors. With more than 64 keys, errors are computed for 64 of them, evenly chosen by size.
    unit
        What one unit is called.
    max_keys
        The number of keys that a unit may be in; a unit in more keys keeps only that many. By default the largest
        number in ``facts``. Give more if some units are in more keys than a typical one, because bounds on sketches
        hold for all keys together.
    dim
        Number of possible indices. If they are known and few, noise on the raw histogram is also compared.
    bounds
        Bounds to choose from, in data units; by default 1, 1.5, 2, 3, … up to the known sizes.
    count
        Whether the number of units of each key is published in the same draw. ``"mean"`` requires it.
    max_cells, max_nonzeros
        The largest number of cells of a sketch, and of cells that one update may touch.

    Returns
    -------
    UnitPlan
        The parties agree on `UnitPlan.projection`, `UnitPlan.agreement_arguments` and `UnitPlan.release_arguments`.
        ``print`` shows the whole plan.

    Raises
    ------
    TypeError
        If ``facts`` has another type.
    InvalidInputError
        If ε, δ, a bound or a number of units is out of range, the question is unknown, a sample has one key where two
        are compared, or the limits leave no option.

    Examples
    --------
    >>> from streamsketch.planning import TypicalUnit
    >>> for items in (4, 40):
    ...     plan = plan_units(TypicalUnit(items=items, match=0.004), units=2_000, epsilon=1.0, delta=1e-6)
    ...     print(f"{items}: {plan.neighbours!r}, {plan.clip}, {plan.chosen.mechanism}, k = {plan.chosen.cells}")
    4: L1(4, unit='unit'), scale, laplace, k = 4096
    40: SketchL2(1, unit='unit', max_keys=1), equal, gaussian, k = 16384
    """
    if not isinstance(facts, UnitFacts):
        raise wrong_type("facts must be a TypicalUnit or a UnitSample", facts, FACTS)
    if question not in QUESTIONS:
        raise InvalidInputError(f"question must be one of {', '.join(QUESTIONS)}, got {short(question)}")
    if question == "mean" and not count:
        raise InvalidInputError("question='mean' needs the number of units in each key; pass count=True")
    check_text("the privacy unit", unit)
    check_int(dim, "dim", 1, HASHED_DIM)
    if max_keys is not None:
        check_int(max_keys, "max_keys", 1, MOST_KEYS - 1)
    many, names = _many(facts, units)
    if isinstance(bounds, str):
        raise InvalidInputError(f"bounds must be several numbers, such as [5, 10, 20], got {short(bounds)}")
    if question != "point" and facts.units is not None and len(facts.units) == 1:
        raise InvalidInputError(
            f"question={question!r} compares two keys, but the sample has one; name the column of keys with key="
        )
    wanted = None if bounds is None else [exact_fraction(bound, "a bound") for bound in bounds]
    if wanted == []:
        raise InvalidInputError("bounds is empty; pass at least one bound, or leave the argument out")
    budget = Budget(epsilon, delta).warn_if_weak()
    goal = UnitGoal(
        question, _typical_sizes(many), unit, count, Goal(max_cells=max_cells, max_nonzeros=max_nonzeros), dim, max_keys
    )
    options = unit_options(facts, goal, budget, wanted)
    others = {name: unit_options(other, goal, budget, wanted) for name, other in facts.others().items()}  # in one order
    # with equal weights, what large units lose and small ones gain cancels in sizes only if all units are known
    fair = [
        place
        for place, option in enumerate(options)
        if question == "cosine" or facts.knows_all or option.clip != "equal"
    ]
    place = _least_regret(facts, [options, *others.values()], fair)
    return _plan_of(facts, (many, names, unit, question), budget, options, others, fair, place)


def _least_regret(facts: UnitFacts, outlooks: Sequence[Sequence[UnitOption]], fair: Sequence[int]) -> int:
    """Return the place of the option to recommend, by its errors under facts that fit as well, of which some are fair.

    Its error over the best one is nearly the least, in the worst case of the facts. They are the stated ones alone, if
    it is stated how often pieces match.
    """
    errors = np.array([[options[place].error for place in fair] for options in outlooks])
    errors = errors[: None if "match" in facts.unstated else 1]
    regrets = (errors / errors.min(axis=1, keepdims=True)).max(axis=0)
    enough = NEAR_BEST[facts.knows_all] * regrets.min()
    candidates = (place for place, regret in zip(fair, regrets, strict=True) if regret <= enough)
    return min(candidates, key=lambda place: preference(outlooks[0][place]))


def _plan_of(
    facts: UnitFacts,
    asked: tuple[tuple[float, ...], tuple[str, ...], str, Question],
    budget: Budget,
    options: Sequence[UnitOption],
    others: Mapping[str, Sequence[UnitOption]],
    fair: Sequence[int],
    place: int,
) -> UnitPlan:
    """Return the plan whose option is at a place."""
    outlooks = {
        name: Outlook(choices[place].error, min((choices[index] for index in fair), key=lambda option: option.error))
        for name, choices in others.items()
    }
    ordered = tuple(sorted(options, key=lambda option: (option.cells, option.nonzeros, option.error)))
    return UnitPlan(facts, *asked, budget.epsilon, budget.delta, options[place], ordered, outlooks)


def plan_sizes(
    agreement: Agreement,
    facts: UnitFacts,
    *,
    units: float | Sequence[float] | Mapping[str, float] | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
) -> tuple[UnitPlan, UnitPlan]:
    """Return what cosines to expect under an agreement, and what to expect of the size of a sketch that is best for it.

    Parameters
    ----------
    agreement
        Under `SketchL2`, whose units, bound and way to clip are those of both plans.
    facts, units, epsilon, delta
        As in `plan_units`.

    Returns
    -------
    tuple of UnitPlan
        With the agreed projection, and with the recommended one. `UnitPlan.standing` tells which keys are below the
        noise floor.

    Raises
    ------
    InvalidInputError
        If the agreement has other neighbours, and as in `plan_units`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import CountSketch, agree
    >>> from streamsketch.planning import TypicalUnit
    >>> rows = pa.table({"shop": ["Wien"], "item": ["tea"], "who": ["Ann"]})
    >>> agreement = agree(
    ...     rows, CountSketch(sketch_dim=1024, seed=7), key="shop", index="item", unit="who", max_keys=1
    ... )
    >>> agreed, best = plan_sizes(agreement, TypicalUnit(items=20), units={"Wien": 900, "Graz": 90})
    >>> agreed.chosen.cells, best.chosen.cells
    (1024, 16)
    >>> [key.key for key in agreed.keys if key.below > 0.5]
    ['Graz']
    """
    neighbours, projection = agreement.neighbours, agreement.projection
    if neighbours is None or not neighbours.of_sketches or agreement.features is not None:
        raise InvalidInputError(
            "the size of a sketch is planned for units that are clipped in sketch space: agree on an index and "
            f"SketchL2(…), got {neighbours or 'no neighbours'}{' and features' if agreement.features else ''}"
        )
    many, names = _many(facts, units)
    counted = agreement.layout.is_counted
    goal = UnitGoal("cosine", _typical_sizes(many), neighbours.unit, counted, Goal(max_nonzeros=4), projection.dim)
    budget = Budget(epsilon, delta).warn_if_weak()
    everything, clip = np.ones_like(facts.sizes.pieces), agreement.clip_of()
    kinds = [
        min(kinds_of(option, neighbours, budget, counted=counted), key=lambda kind: kind.noise.cumulants.k2)
        for option in (projection, *projections_within(goal.limits, goal.dim))
    ]

    def sized(facts: UnitFacts) -> list[UnitOption]:
        exact = facts.sums(goal.units, everything, everything)
        left = facts.sums(goal.units, *clipped(facts, neighbours, clip))
        return options_of(kinds, neighbours, clip, "cosine", (exact, left))

    options, others = sized(facts), {name: sized(other) for name, other in facts.others().items()}
    fair = list(range(len(options)))
    asked: Any = (many, names, neighbours.unit, "cosine")
    best = _least_regret(facts, [options, *others.values()], fair)
    agreed, planned = (_plan_of(facts, asked, budget, options, others, fair, place) for place in (0, best))
    return agreed, planned


def _many(
    facts: UnitFacts, units: float | Sequence[float] | Mapping[str, float] | None
) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return how many units each key has, and what it is called."""
    names = facts.key_names
    if isinstance(units, Mapping):
        names, units = tuple(units), list(units.values())
        for name in names:
            check_text("a key", name)
    elif units is not None:
        names = None
    elif facts.units is None:
        raise InvalidInputError("the number of units in a key is missing; pass roughly how many, such as units=5_000")
    many = key_sizes(facts.units if units is None else units, _MOST_KEYS)  # type: ignore[arg-type] # one of them is given
    return many, numbered(len(many)) if names is None else names


def _typical_sizes(many: tuple[float, ...]) -> tuple[float, ...]:
    """Return sizes of keys, or as many of them as are compared in pairs."""
    if len(many) <= MOST_SUMS:
        return many
    places = np.linspace(0, len(many) - 1, MOST_SUMS).round().astype(int)
    return tuple(np.sort(many)[places].tolist())
