"""Pairs of sketches in `compare` and `nearest`: what they are compared by, and which of them."""

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Annotated, NamedTuple, TypeVar

import numpy as np
import typer

import streamsketch as ss
from streamsketch.cli._reading import naming
from streamsketch.cli._showing import listed, say
from streamsketch.estimation import AnySketch, below_noise_floor, block_of, check_comparable


class By(StrEnum):
    """What sketches are compared by."""

    distance = "distance"
    cosine = "cosine"
    profile = "profile"


_BY = (
    "distance: squared distances, which measure size too; cosine; profile: squared distances of streams scaled to "
    "length 1, so to what they consist of."
)
ByOption = Annotated[By, typer.Option("--by", help=f"What to compare by. {_BY}")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="Take only sketches whose file's or key's name matches this pattern, such as 'north-*'; repeatable.",
        metavar="PATTERN",
        show_default=False,
    ),
]

QUANTITIES = {By.distance: "squared distance", By.cosine: "cosine", By.profile: "profile distance"}

Found = TypeVar("Found")


class Pairs(NamedTuple):
    """All comparisons of some sketches."""

    names: list[str]
    estimates: ss.estimation.Estimates
    by: By

    def nearness(self) -> np.ndarray:
        """Return what ascends from the nearest pair to the farthest: (n, n), infinite where undefined."""
        value = self.estimates.value
        return np.where(np.isnan(value), np.inf, -value if self.by is By.cosine else value)

    def estimate(self, i: int, j: int) -> ss.Estimate | None:
        """Return one comparison, None where undefined."""
        return None if np.isnan(self.estimates.value[i, j]) else self.estimates[i, j]


def compare_all(sketches: Mapping[str, AnySketch], by: By) -> Pairs:
    """Compare all pairs; errors name the two sketches that cannot be compared."""
    try:
        estimates = ss.pairwise(sketches.values(), by=by.value)
    except ss.StreamsketchError:
        for first, second in combinations(sketches, 2):
            with naming(first, second):
                check_comparable([sketches[first], sketches[second]])
        raise
    return Pairs(list(sketches), estimates, by)


def say_what_is_below_noise_floor(sketches: Mapping[str, AnySketch]) -> None:
    """Say which sketches have no cosines, if any."""
    below = below_noise_floor(block_of(list(sketches.values())))
    lost = [name for name, gone in zip(sketches, below, strict=True) if gone]
    if lost:
        say(
            f"Without cosines, as the squared norm is within two standard errors of zero (an empty stream, or one too "
            f"small for its noise): {listed(lost)}."
        )


def chosen(found: dict[str, Found], only: list[str] | None, command: str, *, least: int = 2) -> dict[str, Found]:
    """Return the sketches whose names match one of the patterns; all, if there are none.

    Raises
    ------
    InvalidInputError
        If fewer than ``least`` match.
    """
    if not only:
        return found
    kept = {name: one for name, one in found.items() if any(fnmatchcase(name, pattern) for pattern in only)}
    if len(kept) < least:
        raise ss.InvalidInputError(
            f"--only {' '.join(only)} leaves {listed(list(kept)) or 'no sketch'}, and {command} needs at least "
            f"{least}. There are {listed(list(found))}"
        )
    return kept


def refuse_by(by: By) -> None:
    """Refuse comparisons of published signs that are not by Hamming distance."""
    if by is not By.distance:
        raise ss.InvalidInputError(
            f"--by {by} is for sketches; published signs are compared by how many differ, beside which their cosine "
            f"is shown"
        )


def check_top(top: int | None) -> None:
    """Raise `InvalidInputError` for less than one."""
    if top is not None and top < 1:
        raise ss.InvalidInputError(f"--top must be at least 1, got {top}")
