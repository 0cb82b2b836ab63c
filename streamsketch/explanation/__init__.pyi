from .facts import Explained
from .joint import INDIVIDUAL, JointExplanation, explain_together, places_that_count, sharing_data
from .release import Explanation, explain_release
from .signs import IndividualSignExplanation, SignExplanation, SignsExplained, explain_signs
from .text import rounded_up, said_of

__all__ = [
    "INDIVIDUAL",
    "Explained",
    "Explanation",
    "IndividualSignExplanation",
    "JointExplanation",
    "SignExplanation",
    "SignsExplained",
    "explain_release",
    "explain_signs",
    "explain_together",
    "places_that_count",
    "rounded_up",
    "said_of",
    "sharing_data",
]
