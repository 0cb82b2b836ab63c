"""The event-time clocks of a stream: one for its only log, or one for each of its sources."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.intake.clock import Clock


class Clocks:
    """The clocks of a stream's sources, such as the partitions of a topic; only its own log moves each clock.

    So a source's log determines which of its rows are late, in whichever order the logs are read. A window is over when
    the watermark of every source has passed its end.

    Parameters
    ----------
    new
        Function that makes a clock without a time.
    """

    def __init__(self, new: Callable[[], Clock]) -> None:
        self._new = new
        self.single = new()
        """The clock of a stream with one log, which has no name."""
        self.sources: dict[str, Clock] = {}
        """The clock of each source by its name."""
        self.idle: set[str] = set()
        """Sources that no window waits for."""

    @property
    def watermark(self) -> int | None:
        """The least watermark of all sources that are not idle; None while one of them has none, or if all are idle."""
        if not self.sources:
            return self.single.watermark
        marks = [clock.watermark for name, clock in self.sources.items() if name not in self.idle]
        return None if not marks or None in marks else min(mark for mark in marks if mark is not None)

    def of(self, source: str | None) -> Clock:
        """Return the clock of a source; pass None for the only log of a stream.

        Raises
        ------
        InvalidInputError
            If the source was not added, or is None although the stream has sources.
        """
        if source is None and not self.sources:
            return self.single
        if source not in self.sources:
            names = ", ".join(sorted(self.sources)) or "none, because it has one log without a name"
            raise InvalidInputError(f"the stream has no source {source}; its sources are {names}")
        return self.sources[source]

    def add(self, names: Iterable[str]) -> list[str]:
        """Add sources, and return the new names; raise `InvalidInputError` if it has read a log without a name."""
        new = [name for name in dict.fromkeys(names) if name not in self.sources]
        if new and self.single.newest is not None:
            raise InvalidInputError("the stream has read one log without a name and can continue with that log only")
        self.sources |= {name: self._new() for name in new}
        return new

    def follow(self, name: str, parents: Iterable[str]) -> None:
        """Add a source whose log goes on from others, as a shard does from those that were split or merged into it.

        Its clock begins at the least of their times. So the sources together are never ahead of a source that ended,
        and a row is late only if it would have been late in one of them.
        """
        times = [self.sources[parent].newest for parent in parents]
        self.add([name])
        self.sources[name].newest = (
            None if not times or None in times else min(time for time in times if time is not None)
        )

    def remove(self, name: str) -> None:
        """Let windows end without a source whose log has ended, once all sources that go on from it are there."""
        self.sources.pop(name, None)
        self.idle.discard(name)

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return the newest time of each source, and whether it is idle."""
        return {name: [clock.newest, name in self.idle] for name, clock in self.sources.items()}

    def restore(self, newest: int | None, sources: Mapping[str, Any]) -> None:
        """Restore the newest time of a stream's only log, and the sources from `to_dict`."""
        self.single.newest = newest
        self.add(sources)
        for name, (own, is_idle) in sources.items():
            self.sources[name].newest = own
            self.idle |= {name} if is_idle else set()
