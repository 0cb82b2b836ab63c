from .joint import JointExplanation, TableExplanation, explain
from .release import Explanation
from .signs import IndividualSignExplanation, SignExplanation

__all__ = [
    "Explanation",
    "IndividualSignExplanation",
    "JointExplanation",
    "SignExplanation",
    "TableExplanation",
    "explain",
]
