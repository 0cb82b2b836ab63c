"""What all explanations have in common: their sentences, the layout of 80 columns, and the fields of JSON."""

import decimal
import json
from collections.abc import Sequence
from typing import Any

from streamsketch.core import aligned, filled
from streamsketch.explanation.facts import Explained
from streamsketch.release import Verdict

_LABELS = 11  # columns
_SUMS = 1e-12  # what sums of floats are off
_UP = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)
_VERDICTS: dict[Verdict, str] = {"too little": "WARNING", "not checked": "Not checked"}
_NOT_SHOWN = "No file can show that the noise was drawn so and the bound enforced: for that you trust its maker."


def said_of(told: Explained) -> list[tuple[str, list[str]]]:
    """Return the guarantee as sentences under short headings."""
    conditions = [f"{condition}." for condition in told.guarantee.conditions]
    verdict = _VERDICTS.get(told.check.verdict, told.enough)
    return [
        ("Guarantee", [f"{told.guarantee}."]),
        ("Protected", [f"{told.who}."]),
        *([("Only if", conditions)] if conditions else []),
        ("Meaning", [f"{told.meaning}."]),
        ("How", told.how),
        ("Theorem", [f"{theorem}." for theorem in told.theorems] or ["none is known for a mechanism given as text."]),
        ("Check", [f"{verdict}: {told.check.reason}.", _NOT_SHOWN]),
        ("Noise", told.amount),
        ("Estimates", [f"assume that {told.assumed[0]}", *(f"They assume that {one}" for one in told.assumed[1:])]),
    ]


def text_of(told: Explained, heading: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the sentences, a table under its heading if there is one, and what is not protected."""
    lines = [filled(" ".join(said), first=label.ljust(_LABELS), indent=" " * _LABELS) for label, said in said_of(told)]
    if rows:
        lines.append(heading)
        lines += [f"{' ' * _LABELS}{line}" for line in aligned(rows, left=0).splitlines()]
    lines.append("Not protected")
    lines += [filled(said, first="- ", indent="  ") for said in told.not_protected]
    return "\n".join(lines)


def fields_of(told: Explained) -> dict[str, Any]:
    """Return the common fields of all explanations, except ``not_protected``, which comes last."""
    return {
        "guarantee": told.guarantee.to_dict(),
        "protected": told.who,
        "meaning": told.meaning,
        "how": told.how,
        "theorems": told.theorems,
        "check": {"verdict": told.check.verdict, "reason": told.check.reason},
        "assumed": told.assumed,
        "projection": json.loads(told.projection.to_json()),
    }


def rounded_up(budget: float) -> str:
    """Return an ε or δ with up to six digits, rounded up, so that no guarantee looks better than it is.

    Examples
    --------
    >>> rounded_up(0.1 + 0.2), rounded_up(1.234561)
    ('0.3', '1.23457')
    """
    text = f"{budget:.6g}"
    if float(text) >= budget * (1 - _SUMS):
        return text
    return f"{float(_UP.create_decimal_from_float(budget)):.6g}"
