from .adapters import Seen, as_mechanism, by_agreement, of_mechanism, seen
from .game import Verdict, play
from .laws import Choices, LargestDelta, LargestLoss, Law, largest_delta, largest_loss, law_of

__all__ = [
    "Choices",
    "LargestDelta",
    "LargestLoss",
    "Law",
    "Seen",
    "Verdict",
    "as_mechanism",
    "by_agreement",
    "largest_delta",
    "largest_loss",
    "law_of",
    "of_mechanism",
    "play",
    "seen",
]
