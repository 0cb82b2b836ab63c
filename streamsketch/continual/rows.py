"""What publishes windows by a schedule, as users find it."""

from streamsketch.release.history import HistoryPart
from streamsketch.schedules.releaser import HistoryState, Releaser

__all__ = ["HistoryPart", "HistoryState", "Releaser"]
