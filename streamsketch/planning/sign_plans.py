"""A plan for signs: the share of a vector's true neighbours that is found in a published collection."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.documents import Json
from streamsketch.core.libraries import scipy_special
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.numbers import Floats, check_int, short
from streamsketch.core.text import aligned
from streamsketch.errors import InvalidInputError
from streamsketch.planning.plan_text import plan_text
from streamsketch.planning.typical import either
from streamsketch.privacy.sign_flips import FlipLaw
from streamsketch.projections.base import Projection
from streamsketch.signs.angles import expected
from streamsketch.signs.publishers import SignMechanism, SignPublisher
from streamsketch.signs.sign_products import SignProducts, plain_products, shared_covariance, sign_products
from streamsketch.signs.sketch import Method

Cosines: TypeAlias = float | Sequence[float]

_MOST_COSINES = 64
_MOST_MEMBERS, _MOST_SIGNS = 1 << 32, 1 << 14
_EPSILONS = 0.01, 20.0
_ENOUGH = 0.9  # of the true neighbours
_STEPS = 12  # of bisections
# Gauss-Hermite and Gauss-Legendre: over what a query's members have in common, and over ties
_SHARED, _SHARED_CHANCES = np.polynomial.hermite_e.hermegauss(5)
_TIES, _TIES_CHANCES = np.polynomial.legendre.leggauss(3)
_TINY, _UNSEEN, _ROUNDING = 1e-12, 1e-10, 1e-14
_COINS = 128  # different chances of equal signs, at most
_NEWTON, _MOST_TILT = 4, 600.0


class _Way(NamedTuple):
    """A number of signs and an ε."""

    projection: Projection
    flipped: FlipLaw | Method
    guarantee: Any


class SignOption(NamedTuple):
    """What to expect from one number of signs at one ε."""

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
class SignPlan(ShownAsText):
    """The recall of true neighbours to expect from published signs; `plan_signs` makes it.

    Parameters
    ----------
    publish, projection
        How signs are published, for the first option.
    members, nearest, top, cosine, rest, norm, exact_query
        The arguments of `plan_signs`.
    options
        One option for each number of signs and each ε.
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
        """The smallest ε, to two digits, at which the largest number of signs finds nine in ten neighbours.

        None if ε = 20 is not enough.
        """
        most = max(option.signs for option in self.options)

        def is_enough(epsilon: float) -> bool:
            return _recall_of(self, self._at(most, epsilon)) >= _ENOUGH

        if not is_enough(_EPSILONS[1]):
            return None
        low, high = _EPSILONS
        for _ in range(_STEPS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        digits = 1 - math.floor(math.log10(high))
        return float(math.ceil(high * 10.0**digits) / 10.0**digits)

    def _at(self, signs: int, epsilon: float) -> _Way:
        publish = dataclasses.replace(self.publish, epsilon=epsilon)
        projection = self.projection.replace(sketch_dim=signs)
        flipped: Any = publish.law(projection) if isinstance(publish, SignMechanism) else publish.name
        return _Way(projection, flipped, publish.guarantee(projection))

    def to_dict(self) -> Json:
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
                f"{option.signs:,}",
                f"{-(-option.signs // 8):,}",
                f"{option.epsilon:g}",
                f"{100 * option.recall:.3g} %",
                f"{100 * option.recall_exact:.3g} %",
                f"± {math.degrees(option.angle_error):.2g}°" if option.angle_error < math.pi / 2 else "unknown",
            )
            for option in self.options
        ]
        true = f"{self.nearest:,} true neighbour{'s' * (self.nearest > 1)}"
        expected = (
            f"Expected share of a vector's {true} among the {self.top:,} of "
            f"{self.members:,} members whose signs differ least from its own:"
        )
        return plan_text(self.publish.name, expected, tables=[aligned(rows, left=0)], notes=_notes(self))


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
    """Plan which share of a vector's true neighbours a search of a published collection finds.

    Each member publishes the signs of its projected vector, and a search returns the members whose signs differ least
    from those of a query (`streamsketch.signs.SignIndex.nearest`). The expected share follows from the distribution of
    products of signs, and from the effect of one query's cells and flips on all of them together (Theory 6.6). Equal
    distances come in random order. Cells are assumed to be sums of many coordinates. In 12 simulated settings (10
    neighbours among 2,000 members, 64 to 1,024 signs, constant, smooth, logistic and individual flips), the mean recall
    of 30 to 250 queries differed from the plan by at most 0.04, and by at most 2.5 standard errors.

    Parameters
    ----------
    publish
        How signs are published: a mechanism of `streamsketch.signs`.
    projection
        The projection of all vectors.
    members
        Number of vectors in the collection.
    nearest
        Number of true neighbours that are wanted.
    top
        Number of members that a search returns, the nearest by Hamming distance; by default ``nearest``.
    cosine
        Cosine of a vector and its true neighbours, public or guessed. If there are several numbers, each is for an
        equal share of the neighbours.
    rest
        The same for the other members, of whom the closest matter most.
    signs
        Numbers of signs to compare, up to 16,384. By default the projection's.
    epsilons
        Values of ε to compare; by default that of ``publish``.
    norm
        ‖x‖₂ of all vectors in data units. Needed only if flips depend on the cells.
    exact_query
        Whether the query's signs are exact, as for a member who searches with their own vector. By default the query is
        published as the members are.

    Returns
    -------
    SignPlan
        `SignPlan.options` give the expected recalls; ``print`` shows them.

    Raises
    ------
    TypeError
        If ``publish`` is not a mechanism of `streamsketch.signs`.
    InvalidInputError
        If a number is out of range or the norm is missing, and as in the mechanism's ``law``.

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
            f"the flips of {publish.name} depend on the size of cells; pass norm, the Euclidean norm of the vectors"
        )
    closest, far = _cosines(cosine, "cosine"), _cosines(rest, "rest")
    if min(closest) <= max(far):
        raise InvalidInputError(
            f"the cosines of true neighbours must exceed those of the rest, got {min(closest):g} for a neighbour and "
            f"{max(far):g} for the rest"
        )
    sizes = _several(signs, projection.sketch_dim, "signs")
    for size in sizes:
        check_int(size, "signs", 1, _MOST_SIGNS)
    budgets = _several(epsilons, publish.epsilon, "epsilons")
    plan = SignPlan(
        dataclasses.replace(publish, epsilon=budgets[0]),
        projection.replace(sketch_dim=sizes[0]),
        *(members, nearest, top, closest, far, norm, exact_query),
    )
    options = []
    for size in sizes:
        plain = expected_recall(size, [plain_products(math.acos(value)) for value in (*closest, *far)], plan)
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
    shifts, chances = _shifts(shared_covariance(products))
    laws = [_equal_signs(signs, product) for product in products]
    recall = 0.0
    for shift, chance in zip(shifts, chances, strict=True):
        moved = [_tilted(law, math.sqrt(signs) * move / 2) for law, move in zip(laws, shift.tolist(), strict=True)]
        recall += float(chance * np.mean([_chance_of_recall(moved, counts, own, plan.top) for own in range(closest)]))
    return recall


def _equal_signs(signs: int, product: SignProducts) -> Floats:
    """Return the distribution of the number of a member's signs that agree with an average query's: (signs + 1,).

    A sum of coins, of which the chances are those of a query's cells, taken at even quantiles.
    """
    agree, frequent = product.chances()
    levels = (np.cumsum(frequent) - frequent / 2) / frequent.sum()
    values = np.interp((np.arange(signs) + 0.5) / signs, levels, agree)
    turns = np.exp(-2j * np.pi * np.arange((signs + 1) // 2 + 1) / (signs + 1))
    logarithm = np.zeros(turns.size, dtype=np.complex128)
    for part in np.array_split(values, min(signs, _COINS)):
        chance = float(np.clip(part.mean(), _TINY, 1 - _TINY))
        logarithm += part.size * np.log(1 - chance + chance * turns)
    law = np.fft.irfft(np.exp(logarithm), signs + 1)
    return np.where(law > _ROUNDING * law.max(), law, 0.0)  # of what rounding leaves, a tilt would make much


def _tilted(law: Floats, move: float) -> Floats:
    """Return a law with another mean: probabilities grow or fall exponentially, so that numbers keep their range."""
    numbers = np.arange(law.size, dtype=np.float64)
    tilted: Floats = law / law.sum()
    mean, rate = float(tilted @ numbers), 0.0
    wanted = mean + move
    for _ in range(_NEWTON):
        now = float(tilted @ numbers)
        rate += (wanted - now) / max(float(tilted @ (numbers - now) ** 2), _TINY)
        tilted = law * np.exp(np.clip(rate * (numbers - mean), -_MOST_TILT, _MOST_TILT))
        tilted /= tilted.sum()
    return tilted


def _shifts(covariance: Floats) -> tuple[Floats, Floats]:
    """Return what one query adds to the products of n classes of members, and how likely: (m, n), (m,).

    Along two directions at most; what is left of more classes counts as if it were not shared.
    """
    sizes, directions = np.linalg.eigh(covariance)
    loadings = (directions * np.sqrt(np.maximum(sizes, 0.0)))[:, -2:]
    places = np.array(list(itertools.product(_SHARED, repeat=2)))
    chances = np.array([math.prod(each) for each in itertools.product(_SHARED_CHANCES, repeat=2)])
    return places @ loadings.T, chances / chances.sum()


def _recall_of(plan: SignPlan, way: _Way) -> float:
    products = [
        sign_products(math.acos(cosine), *way, norm=plan.norm, exact_query=plan.exact_query)
        for cosine in (*plan.cosine, *plan.rest)
    ]
    return expected_recall(way.projection.sketch_dim, products, plan)


def _chance_of_recall(laws: Sequence[Floats], counts: Floats, own: int, top: int) -> float:
    """Return the probability that a neighbour of one class is among those looked at.

    ``laws`` are those of how many signs agree, of each class of members.
    """
    seen = np.flatnonzero(laws[own] > _UNSEEN)
    least, chances = np.array([1 - np.cumsum(law)[seen] for law in laws]), np.array([law[seen] for law in laws])
    others = np.maximum(counts - (np.arange(counts.size) == own), 0.0)
    probabilities = np.zeros(seen.size)
    for tie, weight in zip((_TIES + 1) / 2, _TIES_CHANCES / 2, strict=True):
        before = np.clip(least + tie * chances, 0.0, 1.0)
        probabilities += weight * _at_most(top - 1.0, others @ before, others @ (before * (1 - before)))
    return float(chances[own] @ probabilities / chances[own].sum())


def _at_most(number: float, mean: Floats, variance: Floats) -> Floats:
    """Return P(N ≤ number) for the binomial law of a mean and a variance, whose trials need not be whole."""
    mean = np.maximum(mean, _TINY)
    chance = np.clip(1 - variance / mean, _TINY, 1 - _TINY)
    left = mean / chance - number
    return np.asarray(np.where(left <= 0, 1.0, scipy_special.betainc(np.maximum(left, _TINY), number + 1, 1 - chance)))


def _cosines(value: Cosines, what: str) -> tuple[float, ...]:
    cosines = np.atleast_1d(np.asarray(value))
    if cosines.dtype.kind not in "if" or cosines.ndim != 1 or not 1 <= cosines.size <= _MOST_COSINES:
        raise InvalidInputError(f"{what} must be a number, or up to {_MOST_COSINES} of them, got {short(value)}")
    if not ((cosines >= -1) & (cosines < 1)).all():
        raise InvalidInputError(f"{what} must lie in [-1, 1), got {short(value)}")
    return tuple(cosines.astype(float).tolist())


def _several(value: object, default: object, what: str) -> list[Any]:
    values = [default] if value is None else list(value) if isinstance(value, Iterable) else [value]
    if isinstance(value, str) or not 1 <= len(values) <= _MOST_COSINES:
        raise InvalidInputError(f"{what} must be a number, or up to {_MOST_COSINES} of them, got {short(value)}")
    return values


def _notes(plan: SignPlan) -> Iterator[str]:
    cosines = f"{either(plan.cosine)} with each true neighbour and of {either(plan.rest)} with the others"
    query = "is the vector's exact signs" if plan.exact_query else "is the vector's published signs"
    yield f"Assumed: a vector has a cosine of {cosines}. The query {query}."
    first = plan.options[0]
    guarantee = plan._at(first.signs, first.epsilon).guarantee  # noqa: SLF001 - ours
    yield f"Each release, with {first.signs:,} signs and ε = {first.epsilon:g}: {guarantee}."
    most = max(plan.options, key=lambda option: option.signs)
    if most.recall_exact < _ENOUGH:
        yield (
            f"Even without flips, {most.signs:,} signs find {100 * most.recall_exact:.0f} % of the neighbours: take "
            f"more signs, or look at more than {plan.top:,} members."
        )
    elif plan.enough is None:
        yield f"No ε up to {_EPSILONS[1]:g} finds nine in ten neighbours with {most.signs:,} signs."
    else:
        yield f"With {most.signs:,} signs, ε = {plan.enough:g} or more finds nine in ten neighbours."
