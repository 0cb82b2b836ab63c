"""What the paper says of its experiments, held against the numbers of a run."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.study import Table

FLAT = "iDP-SignRP is almost flat in ε"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it holds on some data, and the numbers that say so."""

    text: str
    data: str
    holds: bool
    numbers: str


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
            for holds, verdict in ((True, "holds"), (False, "does not hold"))
            if any(claim.holds is holds for claim in own)
        ]
        lines.append(f"- {text}: {', '.join(verdicts)}.")
    return "\n".join(lines)
