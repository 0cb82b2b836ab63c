"""Whether releases are the copies and sums that their ids claim: ids can be copied, cells and noise cannot."""

import dataclasses
import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.numbers import Numbers
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.assertions import apart_in_tables
from streamsketch.privacy.noise import NoiseMoments

_CLOSE = 1e-9  # relative: of residuals, and of noise that was added up in another order
_MOST_ENTRIES = 1 << 24  # of the system that is solved; more are left unknown
_MOST_FACTOR = 1 << 20  # denominators of the factors that are looked for


class Claim(NamedTuple):
    """The evidence that a published vector is the release, or the sum, that its ids claim."""

    kind: Hashable
    """The map, and where noise was added: equal for vectors that can be copies or sums of each other."""
    cells: Numbers
    """The published numbers, without the multiplier: (k,)."""
    noise: NoiseMoments | None
    """The moments of one noise in the cells; None for kinds of releases that are never added up."""
    counts: Numbers | None = None
    """What was published beside the cells in the same draw; None where nothing was, or it was dropped."""

    @property
    def numbers(self) -> Numbers:
        """All that was published."""
        return self.cells if self.counts is None else np.concatenate([self.cells, self.counts])


_Vector: TypeAlias = tuple[int, Any, Claim]
"""The place of a release, what it guarantees, and a vector in it."""


def check_claims(releases: Sequence[Any]) -> None:
    """Check that vectors with one id are equal, and that sums are the sums of their parts, if all parts are given.

    Raises
    ------
    InvalidInputError
        If two vectors with the same id differ in map, cells, counts, noise or guarantee, or two rows of a history of
        the same window and key; if a vector with several ids is no linear combination of those vectors, or states other
        noise than it. Ranges of windows, which have the id of a row, are not compared.
    """
    single: dict[bytes, _Vector] = {}
    windows: dict[Any, _Vector] = {}
    vectors = [(place, release, row) for place, release in enumerate(releases) for row in getattr(release, "rows", ())]
    for place, release, row in vectors:
        if len(row.summed_ids) > 1 or (row.history is not None and not row.history.is_row):
            continue
        (release_id,) = row.summed_ids
        vector = place, release.guarantee, row.claim
        if row.history is not None and row.data_ids:  # which are the same in all rows of a key
            other = windows.setdefault((row.history, tuple(row.data_ids)), vector)
            _check_row(vector, other, len(releases))
        if release_id in single:
            _check_copy(vector, single[release_id], len(releases))
        if release_id not in single or row.claim.counts is not None:  # a copy may have dropped them
            single[release_id] = vector
    for place, _, row in vectors:
        is_sum = len(row.summed_ids) > 1 and not any(part.history for part in row.parts)
        if is_sum and all(release_id in single for release_id in row.summed_ids):
            _check_sum(place, row.claim, [single[release_id][2] for release_id in row.summed_ids], len(releases))


def _check_copy(vector: _Vector, other: _Vector, count: int) -> None:
    if what := _differences(vector, other):
        raise InvalidInputError(
            f"releases {other[0] + 1} and {vector[0] + 1} of {count} have the same id, but differ: {what}. One was "
            "changed, or is another release under that id; ask who published them, and leave it out"
        )


def _check_row(vector: _Vector, other: _Vector, count: int) -> None:
    if what := _differences(vector, other):
        raise InvalidInputError(
            f"releases {other[0] + 1} and {vector[0] + 1} of {count} are the same row of a history, but differ: "
            f"{what}. One was changed, or the row was published twice; ask who published them, and leave it out"
        )


def _differences(vector: _Vector, other: _Vector) -> str:
    """Return in what two releases differ; an empty text for equal ones."""
    (_, guarantee, claim), (_, other_guarantee, other_claim) = vector, other
    differs = {
        "maps": claim.kind != other_claim.kind,
        "cells": not np.array_equal(claim.cells, other_claim.cells),
        "counts": claim.counts is not None
        and other_claim.counts is not None
        and not np.array_equal(claim.counts, other_claim.counts),
        "noise": claim.noise != other_claim.noise,
        "guarantees": _alone(guarantee) != _alone(other_guarantee),
    }
    return ", ".join(name for name, differ in differs.items() if differ)


def _alone(guarantee: Any) -> Any:
    """Return a guarantee without the condition that a table of several data sets adds to those of its rows."""
    conditions = getattr(guarantee, "conditions", ())
    added = apart_in_tables(guarantee.neighbours.unit) if conditions else ""
    if added not in conditions:
        return guarantee
    return dataclasses.replace(guarantee, conditions=[condition for condition in conditions if condition != added])


def _check_sum(place: int, claim: Claim, parts: Sequence[Claim], count: int) -> None:
    if any(part.kind != claim.kind for part in parts):
        wrong = "map"
    else:
        is_sum, factors = _factors(*(_alike(claim, parts) or (claim.cells, [part.cells for part in parts])))
        if is_sum is None or (is_sum and _is_noise_of(claim, parts, factors)):
            return
        wrong = "noise" if is_sum else "vector"
    raise InvalidInputError(
        f"release {place + 1} of {count} has the ids of {len(parts)} releases that are given too, and its {wrong} is "
        f"not that of a sum of them. It was changed, or is another release under these ids; ask who published it, and "
        f"leave it out"
    )


def is_computed(claim: Claim, others: Sequence[Claim]) -> bool:
    """Return whether a vector, and the counts beside it, are known to be a sum of others, each with a factor."""
    numbers = _alike(claim, others)
    if any(other.kind != claim.kind for other in others) or numbers is None:
        return False
    return _factors(*numbers)[0] is True


def _alike(claim: Claim, parts: Sequence[Claim]) -> tuple[Numbers, list[Numbers]] | None:
    """Return what was published under a claim, and as much of its parts; None if they have fewer counts."""
    numbers = claim.numbers
    addends = [part.cells if claim.counts is None else part.numbers for part in parts]
    return (numbers, addends) if all(part.shape == numbers.shape for part in addends) else None


def _factors(cells: Numbers, parts: Sequence[Numbers]) -> tuple[bool | None, list[Fraction]]:
    """Return whether cells are a sum of parts with factors, None where that is not known, and the factors.

    Of as many parts as cells any vector is such a sum, which then shows nothing, unless all factors are 1.
    """
    if np.array_equal(np.add.reduce(parts), cells):  # modulo 2^64, as sums are
        return True, [Fraction(1)] * len(parts)
    if len(parts) >= cells.size or len(parts) * cells.size > _MOST_ENTRIES:
        return None, []
    columns, wanted = np.array(parts, dtype=np.float64).T, cells.astype(np.float64)
    solved = np.linalg.lstsq(columns, wanted, rcond=None)[0]
    if np.linalg.norm(columns @ solved - wanted) > _CLOSE * np.linalg.norm(wanted):
        return False, []
    factors = [Fraction(value).limit_denominator(_MOST_FACTOR) for value in solved.tolist()]
    common = math.lcm(*(factor.denominator for factor in factors))
    total = sum(int(factor * common) * part.astype(object) for factor, part in zip(factors, parts, strict=True))
    return (True, factors) if np.array_equal(total, common * cells.astype(object)) else (None, [])


def _is_noise_of(claim: Claim, parts: Sequence[Claim], factors: Sequence[Fraction]) -> bool:
    """Return whether the noise of a sum of independent releases is the sum of theirs."""
    if claim.noise is None:
        return True
    total = NoiseMoments()
    for part, factor in zip(parts, factors, strict=True):
        total += (part.noise or NoiseMoments()).scaled(float(factor))
    return math.isclose(claim.noise.k2, total.k2, rel_tol=_CLOSE) and math.isclose(
        claim.noise.k4, total.k4, rel_tol=_CLOSE, abs_tol=_CLOSE * total.k2**2
    )
