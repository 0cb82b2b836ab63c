"""What was released in this process: a second release of the same data is warned of, as the command refuses it."""

import dataclasses
import threading
from collections import OrderedDict
from typing import Any

from streamsketch.core.text import warn_outside
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import ReleasedAgainWarning
from streamsketch.privacy.budget import Budget

_MOST_IDS = 1 << 16  # that are kept, of the newest releases


@dataclasses.dataclass(frozen=True, eq=False)
class _Past:
    """A release of this process."""

    budget: Budget
    unit: str


class _Memory:
    """The releases of this process by the secret ids of their data, which stay in its memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_data: OrderedDict[bytes, list[_Past]] = OrderedDict()
        self._of_related: OrderedDict[bytes, list[_Past]] = OrderedDict()
        self._warned: OrderedDict[bytes, None] = OrderedDict()

    def earlier(self, ids: DataIds) -> list[_Past]:
        """Return the releases of some of these data, or of a table that they are a key of, oldest first."""
        with self._lock:
            releases: dict[_Past, None] = {}
            for name in ids.parts:
                releases |= dict.fromkeys([*self._of_data.get(name, ()), *self._of_related.get(name, ())])
            for name in ids.related:
                releases |= dict.fromkeys(self._of_data.get(name, ()))
            return list(releases)

    def is_first(self, own: bytes) -> bool:
        """Return whether nobody was warned of these data yet."""
        with self._lock:
            return own not in self._warned

    def note_warned(self, own: bytes) -> None:
        """Remember that somebody was warned of these data."""
        with self._lock:
            self._warned[own] = None
            _shorten(self._warned)

    def add(self, ids: DataIds, past: _Past) -> None:
        with self._lock:
            for releases, names in ((self._of_data, ids.parts), (self._of_related, ids.related)):
                for name in names:
                    releases[name] = [*releases.pop(name, ()), past]
                _shorten(releases)


def _shorten(releases: OrderedDict[bytes, Any]) -> None:
    while len(releases) > _MOST_IDS:
        releases.popitem(last=False)


_MEMORY = _Memory()


def warn_of_another(ids: DataIds, guarantee: Any, *, again: bool) -> None:
    """Warn, once for the same data, if some of them were released in this process: privacy losses add up.

    Call it before the release is charged and drawn, so that a warning that is an error spends nothing.
    """
    if again or not (before := _MEMORY.earlier(ids)) or not _MEMORY.is_first(ids.own):
        return
    unit = guarantee.neighbours.unit
    total = Budget.total([guarantee.budget, *(past.budget for past in before)])
    others = sorted({past.unit for past in before} - {unit})
    of_others = f" (some are for one {' or '.join(others)})" if others else ""
    warn_outside(
        f"these data were released before in this process, and privacy losses add up: {len(before) + 1} releases with "
        f"{total} together for one {unit}{of_others}, if no more follow. Use the first release; or pass again=True if "
        f"the same people are to be shown once more",
        ReleasedAgainWarning,
    )
    _MEMORY.note_warned(ids.own)  # not where the warning is an error: it is one at every call


def note_release(ids: DataIds, guarantee: Any) -> None:
    """Remember a release that was drawn."""
    _MEMORY.add(ids, _Past(guarantee.budget, guarantee.neighbours.unit))
