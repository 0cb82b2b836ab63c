from .alone import TableExplanation
from .joint import JointExplanation, explain
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
