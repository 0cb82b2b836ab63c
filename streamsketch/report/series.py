"""Releases that are windows of a stream: their order in time."""

from collections.abc import Iterable

from streamsketch.data.windows import key_and_window, window_time


def series_in(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the windows of each key in time order, each with its name; nothing unless all names are of windows.

    Names are ``KEY WINDOW``, or ``WINDOW`` alone, whose key is ``""``. Keys are in the order of their first names.

    Examples
    --------
    >>> series_in(["north 2024-06", "north 2024-05", "south 2024-05"])
    {'north': {'2024-05': 'north 2024-05', '2024-06': 'north 2024-06'}, 'south': {'2024-05': 'south 2024-05'}}
    >>> series_in(["north 2024-05", "north"])
    {}
    """
    series: dict[str, dict[str, str]] = {}
    for name in names:
        split = key_and_window(name)
        if split is None:
            return {}
        series.setdefault(split[0], {})[split[1]] = name
    return {
        key: dict(sorted(windows.items(), key=lambda item: window_time(item[0]) or 0))
        for key, windows in series.items()
    }


def in_time_order(names: Iterable[str]) -> list[str]:
    """Return names by key and then by window, if all are of windows, or else as they are."""
    names = list(names)
    series = series_in(names)
    return [name for windows in series.values() for name in windows.values()] if series else names
