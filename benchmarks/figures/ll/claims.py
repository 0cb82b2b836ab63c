"""What the paper says of its experiments, held against the numbers of a run."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.study import Table

FLAT = "iDP-SignRP is almost flat in ε"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it holds on some data (None: cannot be told), and the numbers that say so."""

    text: str
    data: str
    holds: bool | None
    numbers: str


@dataclass(frozen=True)
class Pair:
    """What two methods reach at an ε, and half a 95 % interval of each."""

    epsilon: float
    ours: tuple[float, float]
    other: tuple[float, float]

    @property
    def above(self) -> bool | None:
        """Whether the first is above the second; None within the error of their difference."""
        gap, error = self.ours[0] - self.other[0], math.hypot(self.ours[1], self.other[1])
        return None if abs(gap) <= error else gap > 0


def above(text: str, data: str, pairs: Sequence[Pair]) -> Claim:
    """Return the claim that the first method is above the second at every ε."""
    verdicts = [pair.above for pair in pairs]
    holds = False if False in verdicts else None if None in verdicts else True
    numbers = ", ".join(f"{p.ours[0]:.2f} against {p.other[0]:.2f} at ε = {p.epsilon:g}" for p in pairs)
    return Claim(text, data, holds, numbers)


def table(claims: Iterable[Claim]) -> Table:
    """Return claims as a table."""
    rows = [(claim.text, claim.data, claim.holds, claim.numbers) for claim in claims]
    return Table("What the paper says", ("claim", "data", "holds", "numbers"), rows)


def told(claims: Iterable[Claim]) -> str:
    """Return a list in Markdown: each claim, and on which data it holds and on which it does not."""
    by_text: dict[str, list[Claim]] = {}
    for claim in claims:
        by_text.setdefault(claim.text, []).append(claim)
    lines = []
    for text, own in by_text.items():
        verdicts = [
            f"{verdict} on " + "; ".join(f"{claim.data} ({claim.numbers})" for claim in own if claim.holds is holds)
            for holds, verdict in ((True, "holds"), (None, "cannot be told"), (False, "does not hold"))
            if any(claim.holds is holds for claim in own)
        ]
        lines.append(f"- {text}: {', '.join(verdicts)}.")
    return "\n".join(lines)
