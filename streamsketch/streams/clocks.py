"""The event-time clocks of a stream: of its one log, or of each of its sources."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamsketch.errors import InvalidInputError
from streamsketch.intake import Clock


class Clocks:
    """The clocks of a stream's sources, such as the partitions of a topic; each is moved by its own log alone.

    So which rows are late by the clock of their source is a function of that source's log, however the logs are read
    beside each other. Windows that end by the watermark of every source are over.

    Parameters
    ----------
    new
        Makes a clock that nothing has moved.
    """

    def __init__(self, new: Callable[[], Clock]) -> None:
        self._new = new
        self.single = new()
        """The clock of a stream with one log, which has no name."""
        self.sources: dict[str, Clock] = {}
        """The clock of each source by its name."""
        self.idle: set[str] = set()
        """Sources for which no window waits."""

    @property
    def watermark(self) -> int | None:
        """The least of all sources that are not idle; None while one of them has none, or all are idle."""
        if not self.sources:
            return self.single.watermark
        known = [clock.watermark for name, clock in self.sources.items() if name not in self.idle]
        return None if not known or None in known else min(mark for mark in known if mark is not None)

    def of(self, source: str | None) -> Clock:
        """Return the clock of a source, None for the log of a stream that has no other.

        Raises
        ------
        InvalidInputError
            For a source that was not added, or a log without a name beside sources.
        """
        if source is None and not self.sources:
            return self.single
        if source not in self.sources:
            known = ", ".join(sorted(self.sources)) or "none, because it has one log without a name"
            raise InvalidInputError(f"the stream has no source {source}; its sources are {known}")
        return self.sources[source]

    def add(self, names: Iterable[str]) -> list[str]:
        """Add sources, and return the names that are new; raise `InvalidInputError` where one log was read."""
        new = [name for name in dict.fromkeys(names) if name not in self.sources]
        if new and self.single.newest is not None:
            raise InvalidInputError("the stream has read one log without a name and can continue with that log only")
        self.sources |= {name: self._new() for name in new}
        return new

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the newest time of each source, and whether it is idle."""
        return {name: [clock.newest, name in self.idle] for name, clock in self.sources.items()}

    def restore(self, newest: int | None, sources: Mapping[str, Any]) -> None:
        """Take the newest time of a stream's one log, and what `to_dict` had."""
        self.single.newest = newest
        self.add(sources)
        for name, (own, is_idle) in sources.items():
            self.sources[name].newest = own
            self.idle |= {name} if is_idle else set()
