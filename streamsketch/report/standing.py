"""The first sentences of a report: which groups of streams stand out from the noise, if any."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import sentences
from streamsketch.core.numbers import Floats
from streamsketch.estimation.estimate import format_value
from streamsketch.estimation.measures import MEASURES
from streamsketch.report.choice import Chosen
from streamsketch.report.series import series_in

_MOST_NAMED = 6
_MOST_PAIRS = 5
_WIDE = 1.2  # of the median width of intervals; a stream of wider ones may be left out


class Groups(NamedTuple):
    """Groups of streams that stand out, and streams that noise hides."""

    groups: list[list[int]]
    """Places of streams, by the tree's branches: any two streams of a group are nearer to each other than either is to
    any stream outside it, except the hidden ones."""
    hidden: list[int]
    """Streams that were left out of the comparison and may belong to one of the groups."""
    alike: bool
    """Whether no stream is shown to be nearer to one than to another."""


def groups_in(chosen: Chosen, merges: Floats) -> Groups:
    """Return the largest groups that stand out, with a confidence of 95 % for all of them at once.

    A group is a branch of the tree of the streams, but not the whole tree. It stands out if each of its streams is
    nearer to all others of the group than to every stream outside: the simultaneous intervals of the distances within
    the group end below the intervals of the distances to the outside.

    Two kinds of streams are left out of the comparison. For the first kind, no stream is shown to be nearer than
    another. The second kind has the widest intervals; the number left out is the one that puts most streams in groups.
    Simultaneous intervals hold for any choice of streams.

    Parameters
    ----------
    chosen
        How the streams are compared.
    merges
        Their tree, (n - 1, 4), as `streamsketch.estimation.tree_of` returns it.
    """
    lows, highs = _nearness(chosen)
    distinguishable = chosen.tells_apart
    widths = np.median(highs - lows, axis=1)
    wide = [int(place) for place in np.argsort(-widths, kind="stable") if widths[place] > _WIDE * np.median(widths)]
    best: list[list[int]] = []
    compared = distinguishable
    for left_out in sorted({min(count, len(wide)) for count in _trials(len(lows))}):
        some = distinguishable.copy()
        some[wide[:left_out]] = False
        groups = _groups_of(some, merges, lows, highs)
        if sum(map(len, groups)) > sum(map(len, best)):
            best, compared = groups, some
    hidden = [
        int(place)
        for place in np.flatnonzero(~compared)
        if not all(_apart(group, [int(place)], lows, highs) for group in best)
    ]
    return Groups(best, hidden, not distinguishable.any())


def _trials(n: int) -> list[int]:
    """Return the numbers of streams to leave out, to be tried in turn. Streams with the widest intervals go first."""
    return [n * share // 20 for share in range(13)]


def _groups_of(compared: NDArray[np.bool_], merges: Floats, lows: Floats, highs: Floats) -> list[list[int]]:
    """Return the largest branches that stand out among the streams that are compared."""
    n = len(compared)
    members: list[list[int]] = [[place] if compared[place] else [] for place in range(n)]
    parts: list[tuple[int, int]] = [(-1, -1)] * n
    for first, second in merges[:, :2].astype(int).tolist():
        members.append(sorted(members[first] + members[second]))
        parts.append((first, second))
    groups: list[list[int]] = []
    unseen = [len(members) - 1]
    while unseen:
        branch = unseen.pop()
        if len(members[branch]) < 2:
            continue
        if _stands_out(members[branch], compared, lows, highs):
            groups.append(members[branch])
        else:
            unseen += reversed(parts[branch])
    return groups


def _stands_out(group: Sequence[int], compared: NDArray[np.bool_], lows: Floats, highs: Floats) -> bool:
    outside = compared.copy()
    outside[group] = False
    return bool(outside.any()) and _apart(group, np.flatnonzero(outside).tolist(), lows, highs)


def _apart(group: Sequence[int], others: Sequence[int], lows: Floats, highs: Floats) -> bool:
    """Return whether each stream of a group is nearer to all others of the group than to any of the others."""
    within = highs[group][:, group]
    np.fill_diagonal(within, -np.inf)
    return bool((within.max(axis=1) < lows[group][:, others].min(axis=1)).all())


def _nearness(chosen: Chosen) -> tuple[Floats, Floats]:
    """Return the ends of simultaneous intervals as distances: the nearest and the farthest that each may be."""
    low, high = chosen.pairs.low, chosen.pairs.high
    return (low, high) if MEASURES[chosen.by].sign > 0 else (-high, -low)


class Answer(NamedTuple):
    """The first sentences of a report."""

    short: str
    detail: str
    listed: list[tuple[str, str]]
    """The number of streams in each group and their names; without groups, pairs with their estimates."""


def answer(
    names: Sequence[str], chosen: Chosen, groups: Groups, *, drawn: bool, alarms: Sequence[str] | None = None
) -> Answer:
    """Return what the comparison found: when a stream changed, or which streams are alike.

    Parameters
    ----------
    names
        Names of the streams that are compared.
    chosen, found
        The comparison, and the groups in it.
    drawn
        False if fewer than two streams stand out from their noise.
    alarms
        Windows in which a stream changed, if the releases are windows.
    """
    compared = _of_streams(names, chosen, groups, drawn=drawn)
    if not alarms:
        unchanged = sentences.NO_CHANGE.format(compared=compared.short)
        return compared if alarms is None else compared._replace(short=unchanged)
    detail = f"{compared.short} {compared.detail}"
    if len(alarms) == 1:
        return Answer(sentences.ONE_CHANGE.format(window=alarms[0]), detail, compared.listed)
    windows = sentences.CHANGES_IN.format(windows=_named(alarms))
    return Answer(sentences.CHANGES.format(count=len(alarms)), f"{windows} {detail}", compared.listed)


def _of_streams(names: Sequence[str], chosen: Chosen, groups: Groups, *, drawn: bool) -> Answer:
    title = MEASURES[chosen.by].title
    if not drawn:
        lost = f"{len(chosen.below_noise_floor)} of the {len(names)} streams"
        return Answer(sentences.NOTHING_STANDS_OUT, sentences.NOT_RANKED.format(streams=lost), [])
    if len(names) == 2:
        value, shown, interval = chosen.pairs.cells(0, 1)
        unclear = sentences.SO_UNCLEAR if chosen.pairs.unclear[0, 1] else ""
        first, second = names
        return Answer(
            sentences.PAIR.format(first=first, second=second, quantity=chosen.quantity, value=value, error=shown),
            sentences.PAIR_INTERVAL.format(interval=interval, unclear=unclear),
            [],
        )
    nearer = sentences.NEARER if MEASURES[chosen.by].in_common is None else sentences.MORE_ALIKE
    if groups.groups:
        count = len(groups.groups)
        return Answer(
            sentences.ONE_GROUP if count == 1 else sentences.GROUPS.format(count=count),
            " ".join([sentences.OF_GROUPS.format(nearer=nearer), *_hidden(len(groups.hidden))]),
            [(_streams(len(group)), _members(names, group)) for group in groups.groups],
        )
    if groups.alike:
        places = np.triu_indices(len(names), 1)
        numbers = chosen.pairs
        error = float(np.median(numbers.error[places]))
        ends = float(numbers.low[places].min()), float(numbers.high[places].max())
        least, most = (format_value(end, error) for end in ends)
        return Answer(sentences.NO_DIFFERENCE, sentences.ALL_WITHIN.format(title=title, least=least, most=most), [])
    return _of_pairs(names, chosen)


def _of_pairs(names: Sequence[str], chosen: Chosen) -> Answer:
    """Return which pairs are shown to be alike or to differ, where no group stands out.

    The intervals of all pairs hold at once, with 95 %, so any pairs may be selected by their intervals. A pair is said
    to be the nearest only if its interval ends below those of all others.
    """
    numbers = chosen.pairs
    first, second = np.triu_indices(len(names), 1)
    low, high, value = (part[first, second] for part in (numbers.low, numbers.high, numbers.value))
    measure = MEASURES[chosen.by]
    alike = measure.in_common is not None
    if measure.in_common is not None:
        surest = high if measure.sign > 0 else -low
        shown = surest < measure.sign * measure.in_common
    else:
        shown, surest = low > 0, value
    count, pairs = int(shown.sum()), len(low)
    order = [int(place) for place in np.argsort(surest, kind="stable") if shown[place]]
    title, listed = measure.title, []
    for place in order[:_MOST_PAIRS]:
        i, j = int(first[place]), int(second[place])
        cells = numbers.cells(i, j)
        listed.append((f"{names[i]} and {names[j]}", f"{chosen.quantity} {cells[0]} ± {cells[1]}, in {cells[2]}"))
    if not count:
        nothing = sentences.NO_PAIR_IN_COMMON if alike else sentences.NO_PAIR_DIFFERS
        return Answer(nothing, sentences.NO_GROUP, listed)
    some = sentences.SOME_PAIRS.format(count=f"{count:,}", pairs=f"{pairs:,}")
    if count == pairs:
        some = sentences.ALL_PAIRS.format(count=f"{pairs:,}")
    is_single = count == 1 < pairs
    if alike:
        short = (sentences.HAS_IN_COMMON if is_single else sentences.HAVE_IN_COMMON).format(
            pairs=some, pair=listed[0][0]
        )
    else:
        place = int(np.argmin(value))
        is_nearest = pairs > 1 and shown[place] and high[place] < np.delete(low, place).min()
        nearest = sentences.NEAREST_ARE.format(pair=listed[0][0]) if is_nearest else ""
        short = (sentences.DIFFERS if is_single else sentences.DIFFER).format(pairs=some, nearest=nearest)
    side, common = "above" if measure.sign < 0 or not alike else "below", measure.in_common or 0
    common_text = f", the value for {sentences.NOTHING_IN_COMMON}" if common else ""
    each = sentences.EACH_PAIR.format(title=title, where=f"{side} {common:g}{common_text}")
    return Answer(short, f"{each} {sentences.NO_GROUP}", listed)


def _streams(count: int) -> str:
    return sentences.ONE_STREAM if count == 1 else sentences.STREAMS.format(count=count)


def _hidden(count: int) -> list[str]:
    """Return in a sentence how many streams may belong to a group."""
    if not count:
        return []
    return [sentences.NOISE_HIDES_ONE if count == 1 else sentences.NOISE_HIDES.format(count=count)]


def _members(names: Sequence[str], group: Sequence[int]) -> str:
    """Return the names of a group. For consecutive windows of one key, these are the first and the last name."""
    members = [names[place] for place in group]
    windows = series_in(members)
    if len(windows) == 1 and len(members) > 2 and group[-1] - group[0] == len(group) - 1:
        key, dates = next(iter(windows.items()))
        return f"{key} {next(iter(dates))} … {list(dates)[-1]}".strip()
    return _named(members)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return sentences.MORE_NAMES.format(names=shown, count=more) if more > 0 else shown
