from .base import BaseExplanation, budget_text, format_rounded_up
from .joint import (
    INDIVIDUAL,
    JointExplanation,
    TableExplanation,
    explain,
    explain_jointly,
    heading_of,
    one_release,
)
from .release import Explanation, explain_release
from .signs import BaseSignExplanation, IndividualSignExplanation, SignExplanation, explain_signs

__all__ = [
    "INDIVIDUAL",
    "BaseExplanation",
    "BaseSignExplanation",
    "Explanation",
    "IndividualSignExplanation",
    "JointExplanation",
    "SignExplanation",
    "TableExplanation",
    "budget_text",
    "explain",
    "explain_jointly",
    "explain_release",
    "explain_signs",
    "format_rounded_up",
    "heading_of",
    "one_release",
]
