"""How tests report what they checked to the audit: over how many cases, and how close it came to failing."""

from typing import NamedTuple


class Judged(NamedTuple):
    """What one test has checked."""

    cases: int
    margin: float | None
    """The least; None if nothing was measured."""


_judged: list[Judged] = []


def judged(margin: float | None = None, cases: int = 1) -> None:
    """Report a check within a test.

    Parameters
    ----------
    margin
        How far it was from failing, in the unit that the claim's row names: 0 is the last value that passes.
    cases
        Over how many cases the margin is the least.
    """
    _judged.append(Judged(cases, None if margin is None else float(margin)))


def taken() -> Judged | None:
    """Return what was reported since the last call; None if nothing was."""
    found, margins = list(_judged), [one.margin for one in _judged if one.margin is not None]
    _judged.clear()
    return Judged(sum(one.cases for one in found), min(margins, default=None)) if found else None
