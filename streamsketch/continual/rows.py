"""What publishes windows by a schedule, as users find it."""

from streamsketch.release import HistoryPart, HistoryState, Releaser

__all__ = ["HistoryPart", "HistoryState", "Releaser"]
