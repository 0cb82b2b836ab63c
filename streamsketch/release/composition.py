"""What several releases guarantee together."""

from collections.abc import Iterable
from typing import Any

from streamsketch.core.wrong import GUARANTEE, listed, wrong_type
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.assertions import apart_in_streams, with_conditions
from streamsketch.privacy.bounds import Basis
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee, Populations
from streamsketch.privacy.mechanism import Mechanism
from streamsketch.release.redundancy import Release, non_redundant, sharing_data


def compose(guarantees: Iterable[Guarantee | Release], *, populations: Populations) -> Guarantee:
    """Return the guarantee of publishing several releases together, under the conditions of all of them.

    Parameters
    ----------
    guarantees
        Releases and tables, or their guarantees, at least one, all for the same neighbour relation. A table is one
        release. Give releases rather than guarantees if you can: only releases show that one can be computed from
        others and spends nothing more (a copy, a row and its table, a sum and all of its parts), or that populations
        called disjoint share data. Their ids claim it and their cells must confirm it; a release whose claim is not
        confirmed counts in full.
    populations
        ``"disjoint"`` if no privacy unit is in two of the streams: the worst guarantee then holds for all (parallel
        composition), under the condition that this is so. ``"overlapping"`` if units may be in several: ε and δ then
        add up (Dwork and Roth 2014, Theorem 3.16).

    Raises
    ------
    TypeError
        If an argument has no `Guarantee`; individual differential privacy does not compose.
    InvalidInputError
        If there is no guarantee, ``populations`` is unknown, neighbour relations differ, or there are more than 64
        conditions; if ``populations`` is ``"disjoint"`` although releases share data; if releases with one id differ,
        or a sum is not the sum of its parts.

    Examples
    --------
    >>> from streamsketch.privacy import L1
    >>> parts = [Guarantee(1.0, 0.0, L1(1), Mechanism.stated("a mechanism"))] * 3
    >>> compose(parts, populations="overlapping").epsilon
    3.0
    >>> print(compose(parts, populations="disjoint"))
    ε = 1, δ = 0 for one event of at most 1 (L1), by a mechanism, only if: no event is in two of the streams
    """
    items = listed(guarantees, "guarantees compose from a list of them", GUARANTEE)
    parts: list[Any] = [getattr(part, "guarantee", part) for part in items]
    if populations not in ("disjoint", "overlapping"):
        raise InvalidInputError(
            f"populations must be 'disjoint' (no privacy unit is in two streams) or 'overlapping', got {populations!r}"
        )
    if not parts:
        raise InvalidInputError("there is no guarantee to compose; pass at least one")
    neighbours = _for_one_relation(parts).neighbours
    if populations == "disjoint" and (sharing := sharing_data(items)):
        first, second = sharing[0]
        raise InvalidInputError(
            f"releases {first + 1} and {second + 1} of {len(items)} are of the same data (one sketch released twice, a "
            f"copy of it, or a sum and one of its parts), so their populations are not disjoint. Use "
            f"populations='overlapping'"
        )
    parts = [parts[place] for place in non_redundant(items)]
    mechanism = Mechanism.together(part.mechanism for part in parts)
    combined = Budget.largest if populations == "disjoint" else Budget.total
    budget = combined([part.budget for part in parts])
    conditions = [condition for part in parts for condition in part.conditions]
    guarantee = Guarantee.of(budget, neighbours, mechanism, conditions, _weakest(part.basis for part in parts))
    if populations == "disjoint" and len(parts) > 1:
        return with_conditions(guarantee, apart_in_streams(neighbours.unit))
    return guarantee


def _weakest(bases: Iterable[Basis | None]) -> Basis | None:
    """Return on what all rest: enforced if all are, unknown if one is and no other is asserted."""
    kinds = set(bases)
    return "asserted" if "asserted" in kinds else None if None in kinds else "enforced"


def _for_one_relation(parts: list[Any]) -> Guarantee:
    """Return the first of the guarantees, once all are known to be ones for the same neighbours."""
    for part in parts:
        if not isinstance(part, Guarantee):
            raise wrong_type("only Guarantee objects compose", part, GUARANTEE)
        if part.neighbours != parts[0].neighbours:
            raise InvalidInputError(
                f"guarantees compose only for one neighbour relation, got {parts[0].neighbours!r} and "
                f"{part.neighbours!r}. Release all streams for the same neighbours"
            )
    first: Guarantee = parts[0]
    return first
