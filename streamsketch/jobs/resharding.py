"""A data stream of Kinesis released by an agreement and a job: shards are read before those that go on from them."""

import datetime as dt
import logging
from collections.abc import Mapping
from typing import Any

from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError, with_reason
from streamsketch.jobs.consume import TopicStream
from streamsketch.jobs.partitions import Bounds
from streamsketch.jobs.payloads import Begun, Malformed, Message, Payloads
from streamsketch.jobs.shards import Shard, Shards
from streamsketch.streams.stream import Stream

_SOONEST = 1.0  # seconds between two looks for the shards that go on from others


class ShardStream(TopicStream):
    """Release each window of a data stream once, from all of its shards, as `TopicStream` does from partitions.

    A shard that was split or merged is read to its end before the shards that go on from it are begun. Their clocks
    begin where its clock ended, at the earlier one after a merge, and it holds windows back until all of them are
    there. So the content of a window is a function of the shards' logs, and the rows of one partition key are read in
    order.

    Kinesis does not tell whether records were removed before they were read. So the state holds up to which time each
    shard is known to be read. If that is longer ago than the stream keeps its records, some may be lost.

    Parameters
    ----------
    stream, log, topic, payloads, malformed, **options
        As of `TopicStream`; the topic is an ARN.

    Raises
    ------
    InvalidInputError
        If the state belongs to another log or data stream.
    LostLogError
        If records may be lost and ``accept_loss`` is False.
    TopicError
        If Kinesis does not answer, or refuses.
    """

    def __init__(
        self, stream: Stream, log: Shards, topic: str, payloads: Payloads, malformed: Malformed, **options: Any
    ) -> None:
        self._shards, self._is_assigned, self._turned = log, False, float("-inf")
        self._done = set[int]()  # shards that were read, as long as they are listed or their clocks wait for others
        # in milliseconds: all records of a shard that arrived before are read; and when the last one arrived
        self._until, self._arrived = dict[int, int](), dict[int, int]()
        self._begun = dict[int, int]()  # until which time messages of this step are begun, added or not
        super().__init__(stream, log, topic, payloads, malformed, **options)

    def _restore(self, position: Mapping[str, Any]) -> None:
        super()._restore(position)
        shards = position.get("shards")
        if shards is None or not _are_shards(shards):
            text = "the state has no shards of a data stream, so it belongs to another log; pass its own state"
            raise with_reason(InvalidInputError(text), "other_topic")
        self._done = set(shards["done"])
        self._until = {int(number): at for number, at in shards["until"].items()}
        self._arrived = {int(number): at for number, at in shards["arrived"].items()}

    @property
    def _position(self) -> Json:
        times = {"until": self._until, "arrived": self._arrived}
        fields = {name: {str(number): at for number, at in sorted(each.items())} for name, each in times.items()}
        return super()._position | {"shards": {"done": sorted(self._done), **fields}}

    # --- shards ---------------------------------------------------------------------------------------------

    def _look(self, *, is_new: bool = False) -> bool:
        """List the shards, and go on from those that ended to others."""
        listed = self._shards.shards()
        self._looked = self._clock()
        for number, at in self._shards.tips.items():
            if number in listed and listed[number].is_open:  # so no record of a later shard is older
                self._until[number] = max(self._until.get(number, 0), int(at))
        for number in sorted(self._shards.finished() & self._next.keys()):
            self._end(number)
        for number in sorted(self._next.keys() - listed.keys()):
            self._lose_records(number)
            self._end(number)
        self._begin(listed, is_new=is_new)
        for number in sorted(self._next):
            if self._is_removed(number):
                self._lose_records(number)
        self._retire(listed)
        self._bounds = self._new_bounds()
        return False

    def _end(self, number: int) -> None:
        """Note that a shard was read."""
        self._done.add(number)
        for each in (self._next, self._last, self._arrived, self._marks, self._heard):
            each.pop(number, None)
        self._checking.discard(number)
        self._shards.forget(number)

    def _begin(self, listed: Mapping[int, Shard], *, is_new: bool) -> None:
        """Begin the shards of which all parents were read, or are not listed any more."""
        for number in sorted(listed.keys() - self._next.keys() - self._done):
            parents = [
                parent
                for parent in listed[number].parents
                if parent in listed or parent in self._next or parent in self._done
            ]
            if not self._done.issuperset(parents):
                continue
            times = [self._until.get(parent, -1) for parent in parents]
            if times and min(times) >= 0:
                self._until[number] = min(times)
            clocks = self.stream.windows.clocks
            sources = [self.source(parent) for parent in parents]
            clocks.follow(self.source(number), [source for source in sources if source in clocks.sources])
            self._next[number], self._heard[number] = 0, self._looked
            if self._is_assigned:
                self._shards.begin(number)
            if not is_new:
                text = f"shard {number} goes on from {' and '.join(map(str, parents)) or 'none'}"
                self._tell(logging.INFO, "partition_added", text, partition=number)

    def _retire(self, listed: Mapping[int, Shard]) -> None:
        """Remove the clocks of shards that others go on from, once all of these are begun."""
        for number in sorted(self._done):
            after = {child: each for child, each in listed.items() if number in each.parents}
            is_listed = number in listed
            if after.keys() <= self._next.keys() | self._done and (not is_listed or _cover(after, listed[number])):
                self.stream.windows.clocks.remove(self.source(number))
                self._until.pop(number, None)
                self._done -= set() if is_listed else {number}

    def _new_bounds(self) -> dict[int, Bounds]:
        """Return what is known of the bounds: whether the last record that was read, and a later one, are there."""
        bounds, ends = {}, self._shards.bounds()
        for number, at in self._next.items():
            offset = self._last[number][0] if number in self._last else -1
            is_kept = self._arrived.get(number, 0) >= self._shards.horizon
            end = ends[number].end if number in ends else at
            bounds[number] = Bounds(0 if is_kept else offset + 1, max(at, end))
        return bounds

    def _assign(self) -> None:
        """Read each shard from the last record that was read before, if it is there still, else from its beginning."""
        self._checking = {number for number, (offset, _) in self._last.items() if offset >= self._bounds[number].first}
        self._shards.assign({number: self._last[number][0] if number in self._checking else 0 for number in self._next})
        self._is_assigned = True

    # --- reading --------------------------------------------------------------------------------------------

    def step(self, seconds: float) -> None:
        """Add the messages that arrive within so many seconds, and go on to later shards where one ended."""
        self._begun.clear()  # it is added, or will be read again
        super().step(seconds)
        now = self._clock()
        if self._shards.finished() & self._next.keys() and now - self._turned >= _SOONEST:
            self._turned = now
            self._look_again()

    def _unread(self, number: int, messages: list[Message]) -> list[Message]:
        """Return the messages that were not read before, and note up to which time they are begun."""
        first = self._last[number][0] if number in self._checking else self._next[number]
        messages = [message for message in messages if message.offset >= first]
        if not messages:
            return messages
        if self._is_removed(number):
            self._lose_records(number)
        self._begun[number] = max(self._begun.get(number, 0), messages[-1].timestamp)
        return super()._unread(number, messages)

    def _add(self, number: int, messages: list[Message], begun: Begun) -> None:
        """Add messages; only then is the shard read up to their time, which the state has."""
        super()._add(number, messages, begun)
        if messages:
            self._arrived[number] = messages[-1].timestamp
            self._until[number] = max(self._until.get(number, 0), messages[-1].timestamp)

    def _is_removed(self, number: int) -> bool:
        """Return whether records that were not read may have been removed."""
        return max(self._begun.get(number, 0), self._until.get(number, float("inf"))) < self._shards.horizon

    def _lose_records(self, number: int) -> None:
        until = self._until.pop(number, None)
        since = (
            ""
            if until is None
            else f" after {dt.datetime.fromtimestamp(until / 1000, dt.UTC).isoformat(' ', 'seconds')}"
        )
        why = (
            f"retention may have removed records of shard {number} of {self._topic} before they were read: those that "
            f"arrived{since}"
        )
        self._note_loss(number, why, 1)  # how many there were cannot be known

    # --- what was read --------------------------------------------------------------------------------------

    @property
    def behind(self) -> str:
        """How far the reading was behind, in words."""
        return f"{self._shards.behind:,.0f} s behind"

    @property
    def summary(self) -> Json:
        """What was read and dropped, and up to which record. Secret."""
        summary = super().summary
        missing = summary.pop("offsets_missing")
        return summary | {"losses": missing, "shards_ended": sorted(self._done)}


def _cover(children: Mapping[int, Shard], parent: Shard) -> bool:
    """Return whether shards have all hash keys of one that they go on from."""
    at = parent.first
    for child in sorted(children.values(), key=lambda shard: shard.first):
        if child.first > at:
            return False
        at = max(at, child.last + 1)
    return at > parent.last


def _are_shards(value: Any) -> bool:
    """Return whether this is what `ShardStream` adds to a position."""
    return (
        isinstance(value, dict)
        and isinstance(done := value.get("done"), list)
        and all(type(shard) is int for shard in done)
        and all(
            isinstance(times := value.get(name), dict)
            and all(number.isdecimal() and type(at) is int for number, at in times.items())
            for name in ("until", "arrived")
        )
    )
