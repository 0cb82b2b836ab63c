from .facts import Explained
from .joint import INDIVIDUAL, JointExplanation, explain, explain_jointly
from .release import Explanation, explain_release
from .signs import IndividualSignExplanation, SignExplanation, SignsExplained, explain_signs
from .table import ONE_RELEASE, TableExplanation, heading_of
from .text import rounded_up, said_of

__all__ = [
    "INDIVIDUAL",
    "ONE_RELEASE",
    "Explained",
    "Explanation",
    "IndividualSignExplanation",
    "JointExplanation",
    "SignExplanation",
    "SignsExplained",
    "TableExplanation",
    "explain",
    "explain_jointly",
    "explain_release",
    "explain_signs",
    "heading_of",
    "rounded_up",
    "said_of",
]
