"""A plan for signs: how many of a vector's true neighbours are found in a published collection."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import betainc

from streamsketch.core import Floats, aligned, check_int, filled, short
from streamsketch.errors import InvalidInputError
from streamsketch.planning.typical import either
from streamsketch.privacy import FlipLaw
from streamsketch.projections import Projection
from streamsketch.signs import (
    Method,
    SignMechanism,
    SignProducts,
    SignPublisher,
    expected,
    plain_products,
    sign_products,
)

Cosines: TypeAlias = float | Sequence[float]

_MOST_COSINES = 64
_MOST_MEMBERS = 1 << 40
_EPSILONS = 0.01, 20.0
_ENOUGH = 0.9  # of the true neighbours
_STEPS = 12  # of bisections
_TAIL = 8.0  # standard deviations of a number of equal signs
# Gauss-Hermite and Gauss-Legendre: over what a query's members have in common, and over ties
_SHARED, _SHARED_CHANCES = np.polynomial.hermite_e.hermegauss(15)
_TIES, _TIES_CHANCES = np.polynomial.legendre.leggauss(3)
_TINY, _LEAST = 1e-12, 1e-6


class _Way(NamedTuple):
    """A number of signs and an ε."""

    projection: Projection
    flipped: FlipLaw | Method
    guarantee: Any


class SignOption(NamedTuple):
    """What to expect of one number of signs at one ε."""

    signs: int
    """k, the number of signs of a vector."""
    epsilon: float
    """Of each release."""
    recall: float
    """The expected share of the true neighbours among those that are looked at."""
    angle_error: float
    """The standard error of the angle to a neighbour, in radians; of the farthest, if several cosines are given."""
    recall_exact: float
    """The recall if no sign were flipped: what the projection alone leaves."""


@dataclasses.dataclass(frozen=True)
class SignPlan:
    """Which recall of true neighbours to expect of published signs; made by `plan_signs`.

    Parameters
    ----------
    publish, projection
        How signs are published, for the first option.
    members, nearest, top, cosine, rest, norm, exact_query
        The arguments of `plan_signs`.
    options
        An option for each number of signs and ε.
    """

    publish: SignPublisher[Any]
    projection: Projection
    members: int
    nearest: int
    top: int
    cosine: tuple[float, ...]
    rest: tuple[float, ...]
    norm: float | None
    exact_query: bool
    options: tuple[SignOption, ...] = ()

    @functools.cached_property
    def enough(self) -> float | None:
        """The least ε, to two digits, at which nine in ten neighbours are found with the most of the numbers of signs.

        None where ε = 20 is not enough.
        """
        most = max(option.signs for option in self.options)

        def found(epsilon: float) -> bool:
            return _recall_of(self, self._at(most, epsilon)) >= _ENOUGH

        if not found(_EPSILONS[1]):
            return None
        low, high = _EPSILONS
        for _ in range(_STEPS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if found(middle) else (middle, high)
        digits = 1 - math.floor(math.log10(high))
        return float(math.ceil(high * 10.0**digits) / 10.0**digits)

    def _at(self, signs: int, epsilon: float) -> _Way:
        publish = dataclasses.replace(self.publish, epsilon=epsilon)
        projection = self.projection.replace(sketch_dim=signs)
        flipped: Any = publish.law(projection) if isinstance(publish, SignMechanism) else publish.name
        return _Way(projection, flipped, publish.guarantee(projection))

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a dict of values that JSON can represent."""
        asked = {name: getattr(self, name) for name in ("members", "nearest", "top", "cosine", "rest", "exact_query")}
        return {
            "question": "neighbours",
            "mechanism": self.publish.name,
            "neighbours": self.publish.neighbours.to_dict(),
            **asked,
            "options": [option._asdict() for option in self.options],
            "enough": self.enough,
            "notes": list(_notes(self)),
        }

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("signs", "bytes", "epsilon", "recall", "without flips", "angle")]
        rows += [
            (
                f"{one.signs:,}",
                f"{-(-one.signs // 8):,}",
                f"{one.epsilon:g}",
                f"{100 * one.recall:.3g} %",
                f"{100 * one.recall_exact:.3g} %",
                f"± {math.degrees(one.angle_error):.2g}°" if one.angle_error < math.pi / 2 else "unknown",
            )
            for one in self.options
        ]
        true = f"{self.nearest:,} true neighbour{'s' * (self.nearest > 1)}"
        heading = (
            f"Plan: {self.publish.name}. Expected share of a vector's {true} among the {self.top:,} of "
            f"{self.members:,} members whose signs differ least from its own:"
        )
        notes = "\n".join(filled(note, first="- ", indent="  ") for note in _notes(self))
        return f"{filled(heading)}\n\n{aligned(rows, left=0)}\n\n{notes}"


def plan_signs(  # noqa: PLR0913 - a plan starts from many facts
    publish: SignPublisher[Any],
    projection: Projection,
    *,
    members: int,
    nearest: int = 10,
    top: int | None = None,
    cosine: Cosines = 0.9,
    rest: Cosines = 0.0,
    signs: int | Iterable[int] | None = None,
    epsilons: float | Iterable[float] | None = None,
    norm: float | None = None,
    exact_query: bool = False,
) -> SignPlan:
    """Return which share of a vector's true neighbours to expect among the nearest of a published collection.

    Each member publishes the signs of its projected vector, and the members whose signs differ least from those of a
    query are looked at (`streamsketch.signs.SignIndex.nearest`). The numbers of signs that agree are taken to be
    binomial about the law of products of signs (THEORY.md 6.6), given what one query's cells and flips make of all of
    them; equal distances come in random order. In 12 simulated settings, 10 neighbours among 2,000 members at 64 to
    1,024 signs, with constant, smooth, logistic and individual flips, the mean recall of 30 to 250 queries was 0.04 off
    at most, and within 2.5 of its standard errors.

    Parameters
    ----------
    publish
        How signs are published: a mechanism of `streamsketch.signs`.
    projection
        Of all vectors.
    members
        How many vectors there are in the collection.
    nearest
        How many true neighbours are wanted.
    top
        How many members are looked at, the nearest by Hamming distance; by default as many as are wanted.
    cosine
        Of a vector and its true neighbours; of several numbers, each is that of as many neighbours. Public, or guessed.
    rest
        Likewise of the other members: the closest of them matter most.
    signs
        Numbers of signs to compare; by default that of the projection.
    epsilons
        Values of ε to compare; by default that of ``publish``.
    norm
        ‖x‖₂ of all vectors in data units. Needed only where flips depend on the cells.
    exact_query
        Whether the query's signs are its own exact ones, as those of a member who searches. By default it is published
        as the members are.

    Returns
    -------
    SignPlan
        Its `SignPlan.options` say what to expect; ``print`` shows them.

    Raises
    ------
    TypeError
        If ``publish`` is no mechanism of signs.
    InvalidInputError
        For numbers out of range, a missing norm, and as the mechanism's ``law``.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> from streamsketch.signs import DPSignOPORPRR
    >>> plan = plan_signs(
    ...     DPSignOPORPRR(epsilon=1.0, neighbours=OneCoordinate(1)),
    ...     OPORP(dim=10_000, sketch_dim=256, seed=1),
    ...     members=100_000,
    ...     signs=[256, 1024],
    ... )
    >>> [f"{option.signs}: {100 * option.recall:.0f} %" for option in plan.options]
    ['256: 9 %', '1024: 79 %']
    """
    if not isinstance(publish, SignPublisher):
        raise TypeError(f"publish must be a mechanism of streamsketch.signs, got a {type(publish).__name__}")
    check_int(members, "members", 2, _MOST_MEMBERS)
    check_int(nearest, "nearest", 1, members - 1)
    top = nearest if top is None else check_int(top, "top", 1, members)
    law = publish.law(projection) if isinstance(publish, SignMechanism) else None
    if norm is None and (law is None or law.shape != "constant"):
        raise InvalidInputError(
            f"flips of {publish.name} depend on how large cells are: give norm, the vectors' Euclidean norm"
        )
    closest, far = _cosines(cosine, "cosine"), _cosines(rest, "rest")
    if min(closest) <= max(far):
        raise InvalidInputError(
            f"true neighbours are closer than the rest, got cosines from {min(closest):g} of neighbours and up to "
            f"{max(far):g} of the rest"
        )
    sizes = _several(signs, projection.sketch_dim, "signs")
    budgets = _several(epsilons, publish.epsilon, "epsilons")
    plan = SignPlan(
        dataclasses.replace(publish, epsilon=budgets[0]),
        projection.replace(sketch_dim=sizes[0]),
        *(members, nearest, top, closest, far, norm, exact_query),
    )
    options = []
    for size in sizes:
        plain = expected_recall(size, [plain_products(math.acos(one)) for one in (*closest, *far)], plan)
        for epsilon in budgets:
            way = plan._at(size, epsilon)  # noqa: SLF001 - ours
            angle = expected(math.acos(min(closest)), *way, norm=norm).angle
            options.append(SignOption(size, epsilon, _recall_of(plan, way), angle.standard_error, plain))
    return dataclasses.replace(plan, options=tuple(options))


def expected_recall(signs: int, products: Sequence[SignProducts], plan: SignPlan) -> float:
    """Return the expected share of the true neighbours among the members looked at.

    Parameters
    ----------
    signs
        k, their number.
    products
        Of the neighbours' cosines and of the rest's, in this order.
    plan
        How many there are of each, and how many are looked at.
    """
    closest, far = len(plan.cosine), len(plan.rest)
    counts = np.repeat([plan.nearest / closest, (plan.members - plan.nearest) / far], [closest, far])
    means, shared = (np.array([getattr(one, name) for one in products]) for name in ("mean", "shared"))
    variances = signs * np.maximum(1 - means**2 - shared, _TINY) / 4
    recall = 0.0
    for place, chance in zip(_SHARED, _SHARED_CHANCES / _SHARED_CHANCES.sum(), strict=True):
        agree = signs * (1 + means) / 2 + place * np.sqrt(signs * shared) / 2
        agree = np.clip(agree, _LEAST, signs - _LEAST)
        laws = [
            _Binomial.of(*both) for both in zip(agree, np.minimum(variances, agree * (1 - agree / signs)), strict=True)
        ]
        recall += float(chance * np.mean([_found(laws, counts, one, signs, plan.top) for one in range(closest)]))
    return recall


def _recall_of(plan: SignPlan, way: _Way) -> float:
    products = [
        sign_products(math.acos(cosine), *way, norm=plan.norm, exact_query=plan.exact_query)
        for cosine in (*plan.cosine, *plan.rest)
    ]
    return expected_recall(way.projection.sketch_dim, products, plan)


class _Binomial(NamedTuple):
    """The binomial law of a mean and a variance, with a number of trials that need not be whole."""

    trials: Any
    chance: Any

    @classmethod
    def of(cls, mean: Any, variance: Any) -> "_Binomial":
        chance = np.clip(1 - variance / mean, _TINY, 1 - _TINY)
        return cls(mean / chance, chance)

    def up_to(self, number: Any) -> Floats:
        """Return P(N ≤ number)."""
        left = self.trials - number
        inside = betainc(np.maximum(left, _TINY), np.maximum(number + 1.0, _TINY), 1 - self.chance)
        return np.asarray(np.where(np.less(number, 0), 0.0, np.where(left <= 0, 1.0, inside)))


def _found(laws: Sequence[_Binomial], counts: Floats, own: int, signs: int, top: int) -> float:
    """Return the probability that a neighbour of one class is among those looked at.

    ``laws`` are those of how many signs agree, of each class of members.
    """
    law = laws[own]
    mean, reach = law.trials * law.chance, _TAIL * math.sqrt(law.trials * law.chance * (1 - law.chance)) + 1
    agree = np.arange(max(0, math.floor(mean - reach)), min(signs, math.ceil(mean + reach)) + 1.0)
    chances = law.up_to(agree) - law.up_to(agree - 1)
    others = np.maximum(counts - (np.arange(counts.size) == own), 0.0)
    found = np.zeros(agree.size)
    for tie, weight in zip((_TIES + 1) / 2, _TIES_CHANCES / 2, strict=True):
        before = np.array([1 - tie * one.up_to(agree) - (1 - tie) * one.up_to(agree - 1) for one in laws])
        ahead, spread = others @ before, others @ (before * (1 - before))
        found += weight * _Binomial.of(np.maximum(ahead, _TINY), np.minimum(spread, ahead)).up_to(top - 1.0)
    return float(chances @ found / chances.sum())


def _cosines(given: Cosines, what: str) -> tuple[float, ...]:
    found = np.atleast_1d(np.asarray(given))
    if found.dtype.kind not in "if" or found.ndim != 1 or not 1 <= found.size <= _MOST_COSINES:
        raise InvalidInputError(f"{what} must be a number, or up to {_MOST_COSINES} of them, got {short(given)}")
    if not ((found >= -1) & (found < 1)).all():
        raise InvalidInputError(f"{what} must lie in [-1, 1), got {short(given)}")
    return tuple(found.astype(float).tolist())


def _several(given: Any, default: Any, what: str) -> list[Any]:
    found = [default] if given is None else list(given) if isinstance(given, Iterable) else [given]
    if isinstance(given, str) or not 1 <= len(found) <= _MOST_COSINES:
        raise InvalidInputError(f"{what} must be a number, or up to {_MOST_COSINES} of them, got {short(given)}")
    return found


def _notes(plan: SignPlan) -> Iterator[str]:
    cosines = f"{either(plan.cosine)} with each true neighbour and of {either(plan.rest)} with the others"
    query = "exact signs of its own" if plan.exact_query else "published signs, too"
    yield f"Assumed: a vector has a cosine of {cosines}, and searches with {query}."
    first = plan.options[0]
    guarantee = plan._at(first.signs, first.epsilon).guarantee  # noqa: SLF001 - ours
    yield f"Each release, with {first.signs:,} signs and ε = {first.epsilon:g}: {guarantee}."
    most = max(plan.options, key=lambda one: one.signs)
    if most.recall_exact < _ENOUGH:
        yield (
            f"Even without flips, {most.signs:,} signs find {100 * most.recall_exact:.0f} % of the neighbours: take "
            f"more signs, or look at more than {plan.top:,} members."
        )
    elif plan.enough is None:
        yield f"No ε up to {_EPSILONS[1]:g} finds nine in ten neighbours with {most.signs:,} signs."
    else:
        yield f"With {most.signs:,} signs, nine in ten neighbours are found from ε = {plan.enough:g} on."
