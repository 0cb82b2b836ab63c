"""Agreements with windows of the conformance kit, written by hand from WIRE.md."""

import hashlib
from typing import Any

from tests.golden.kit_parties import PROJECTION, VISIT
from tests.golden.kit_releases import Message
from tests.golden.party_reader import canonical

_FIELDS: Message = {
    "agreement": 1,
    "index": [{"name": "item", "type": "text"}],
    "key": None,
    "missing": "drop",
    "neighbours": VISIT | {"max_keys": 1},
    "projection": PROJECTION | {"dim": 2**60},
    "release": {"delta": "0.000001", "epsilon": "1", "noise": "auto"},
    "title": "",
    "unit": {"name": "who", "type": "integer"},
    "value": None,
}
_AT: Message = {"name": "at", "type": "timestamp"}
_DAY: Message = {"name": "Tag", "type": "date"}
_HOURS: Message = {"time": _AT, "every": "1 h", "are": "releases"}
_DAYS: Message = {"time": _AT, "every": "day", "are": "keys", "first": "2026-11-22", "last": "2026-12-31"}
_TREE: Message = {"kind": "tree", "horizon": 31, "max_windows": 2, "gap": 3, "depth": 4}
_BANDS: Message = {"kind": "factorisation", "horizon": 9, "max_windows": 1, "gap": 1, "blocks": 4, "bits": 5}
_SHOP: Message = {"name": "shop", "type": "text"}


def agreements() -> list[Message]:
    """Return all cases, those that must be refused last."""
    cases = [
        _case("of one length", _HOURS, "1 h by at:timestamp, each a release"),
        _case(
            "from a first window to a last",
            _HOURS | {"every": "15 min", "first": "2026-11-22T13:00Z", "last": "2026-11-22T15:45Z"},
            "15 min by at:timestamp, from 2026-11-22T13:00Z to 2026-11-22T15:45Z, each a release",
        ),
        _case(
            "for a unit in two windows of each week",
            _HOURS | {"every": "1 day", "period": "7 days", "max_windows": 2},
            "1 day by at:timestamp, a unit in 2 of each 7 days, each a release",
        ),
        _case(
            "for a unit in one window of each day",
            _HOURS | {"period": "1 day"},
            "1 h by at:timestamp, a unit in 1 of each 1 day, each a release",
        ),
        _case(
            "days of the calendar as keys",
            _DAYS | {"zone": "Europe/Berlin"},
            "day (Europe/Berlin) by at:timestamp, from 2026-11-22 to 2026-12-31, each a key",
        ),
        _case(
            "months of dates as keys, behind public keys",
            {"time": _DAY, "every": "month", "are": "keys", "first": "2026-02"},
            "month by Tag:date, from 2026-02, each a key",
            key=_SHOP,
            keys={"public": True},
        ),
        _case(
            "times in text",
            _HOURS | {"time": _AT | {"format": "%d.%m.%Y %H:%M"}},
            "1 h by at:timestamp, each a release",
        ),
        _case(
            "under a tree of sums",
            {"time": _DAY, "every": "week", "are": "releases", "first": "2026-11-23"},
            "week by Tag:date, from 2026-11-23, each a release",
            schedule=_TREE,
        ),
        _case(
            "under a factorisation, of listed keys",
            _HOURS | {"first": "2026-11-22T00:00Z"},
            "1 h by at:timestamp, from 2026-11-22T00:00Z, each a release",
            schedule=_BANDS | {"band": None},
            key=_SHOP,
            keys={"listed": ["north", "south"]},
        ),
    ]
    refused = [
        ("a zone of windows of one length", "only the calendar has zones", _HOURS | {"zone": "Europe/Berlin"}, {}),
        ("a length that is none", "a length is a number and a unit", _HOURS | {"every": "1 fortnight"}, {}),
        ("a last window without a first", "windows are counted from the first", _HOURS | {"last": "2026-11-22"}, {}),
        ("a period of keys", "keys share one release", _DAYS | {"every": "1 day", "period": "7 days"}, {}),
        ("a period of the calendar", "a period has windows of one length", _DAYS | {"period": "1 week"}, {}),
        ("windows of a unit without a period", "they are counted in a period", _HOURS | {"max_windows": 2}, {}),
        ("a zone that is null", "what is not stated is left out", _HOURS | {"zone": None}, {}),
        ("keys that nobody lists", "which windows have data is private", _DAYS | {"last": None}, {}),
        ("a schedule of keys", "sums are of windows that are releases", _DAYS, {"schedule": _TREE}),
        ("a schedule without a first window", "its windows are counted", _HOURS, {"schedule": _TREE}),
    ]
    return cases + [_refused(name, why, windows, more) for name, why, windows, more in refused]


def _text(windows: Message, more: Message) -> str:
    return canonical(_FIELDS | {"windows": windows} | more)


def _case(name: str, windows: Message, words: str, **more: Any) -> Message:
    text = _text(windows, more)
    optional = dict.fromkeys(("zone", "first", "last", "period", "max_windows")) | windows
    return {
        "name": name,
        "json": text,
        "fingerprint": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        "windows": optional | {"time": {"format": None} | windows["time"]},
        "words": words,
    }


def _refused(name: str, why: str, windows: Message, more: Message) -> Message:
    return {
        "name": name,
        "json": _text({key: one for key, one in windows.items() if key != "last" or one}, more),
        "reason": why,
    }
