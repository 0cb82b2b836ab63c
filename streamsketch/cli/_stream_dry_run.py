"""What a stream would read and drop, shown to its operator alone: ``dry_run`` of a job."""

from typing import TYPE_CHECKING

from streamsketch.cli._layout import show, show_facts, table_of
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, show_json
from streamsketch.once.counts import RowCounts
from streamsketch.streams.dry_run import DryStream, WindowRows

if TYPE_CHECKING:
    from streamsketch.core.documents import Json

_SHOWN = 20  # windows; JSON has all
_WORDS = {
    "late": "late",
    "ahead": "too far ahead (max_ahead)",
    "malformed": "malformed",
    "blank": "without a value that is needed",
    "early": "before the first window",
    "other_keys": "of keys that are not listed",
}


def show_dry_run(stream: DryStream, counts: RowCounts, name: str, *, as_json: bool) -> None:
    """Print what was found; ``counts`` has all rows, and messages if the log has any."""
    windows, after = stream.rows_of_windows, stream.windows.counts.rows_after_end
    alarms = stream.complaints(counts)
    if as_json:
        fields: Json = {"private": True, "rows": counts._asdict() | {"after_end": after}, "alarms": alarms}
        del fields["rows"]["lost"]
        bounding = stream.windows.counts.bounding.to_dict()
        show_json(fields | {"bounding": bounding, "windows": [window._asdict() for window in windows]})
        return
    facts = {"rows": f"{counts.read:,}"}
    facts |= {words: _share(getattr(counts, kind), counts.read) for kind, words in _WORDS.items()}
    if stream.windows.end is not None:
        facts["after the last window"] = _share(after, counts.read)
    if counts.messages:
        facts["messages"] = f"{counts.messages:,}"
        facts["undecodable messages"] = _share(counts.undecodable, counts.messages)
    facts["windows"] = f"{len(windows):,} with rows, {sum(window.is_over for window in windows):,} of them over"
    show_facts(f"{name}, private: for the operator alone. Nothing was released, written or charged.", facts)
    worst = sorted(windows, key=_dropped, reverse=True)[:_SHOWN]
    if rows := sorted(worst, key=lambda row: row.window):
        left = (
            f"The {_SHOWN} of {len(windows):,} windows that drop most; --json has all"
            if len(windows) > _SHOWN
            else None
        )
        columns = {
            "window": [row.window for row in rows],
            "rows": [f"{row.rows:,}" for row in rows],
            "late": [f"{row.late:,}" for row in rows],
            "blank": [f"{row.blank:,}" for row in rows],
            "other keys": [f"{row.other_keys:,}" for row in rows],
            "over": ["yes" if row.is_over else "no" for row in rows],
        }
        show(table_of(columns, title=left))
    for sentence in alarms.values():
        say(f"warning: {sentence}")
    if not counts.read:
        say(f"{plural(0, 'row')} read: there is nothing in {name}, or nothing that can be read")


def _dropped(window: WindowRows) -> int:
    return window.late + window.blank + window.other_keys


def _share(count: int, of: int) -> str:
    return f"{count:,} ({100 * count / max(of, count, 1):.3g} %)"
