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
    found, after = stream.found, stream.windows.counts.rows_after_end
    alarms = stream.complaints(counts)
    if as_json:
        fields: Json = {"private": True, "rows": counts._asdict() | {"after_end": after}, "alarms": alarms}
        del fields["rows"]["lost"]
        bounding = stream.windows.counts.bounding.to_dict()
        show_json(fields | {"bounding": bounding, "windows": [one._asdict() for one in found]})
        return
    facts = {"rows": f"{counts.read:,}"}
    facts |= {words: _share(getattr(counts, kind), counts.read) for kind, words in _WORDS.items()}
    if stream.windows.end is not None:
        facts["after the last window"] = _share(after, counts.read)
    if counts.messages:
        facts["messages"] = f"{counts.messages:,}"
        facts["undecodable messages"] = _share(counts.undecodable, counts.messages)
    facts["windows"] = f"{len(found):,} with rows, {sum(one.is_over for one in found):,} of them over"
    show_facts(f"{name}, private: for the operator alone. Nothing was released, written or charged.", facts)
    worst = sorted(found, key=_dropped, reverse=True)[:_SHOWN]
    if rows := sorted(worst, key=lambda one: one.window):
        left = f"The {_SHOWN} of {len(found):,} windows that drop most; --json has all" if len(found) > _SHOWN else None
        columns = {
            "window": [one.window for one in rows],
            "rows": [f"{one.rows:,}" for one in rows],
            "late": [f"{one.late:,}" for one in rows],
            "blank": [f"{one.blank:,}" for one in rows],
            "other keys": [f"{one.other_keys:,}" for one in rows],
            "over": ["yes" if one.is_over else "no" for one in rows],
        }
        show(table_of(columns, title=left))
    for sentence in alarms.values():
        say(f"warning: {sentence}")
    if not counts.read:
        say(f"{plural(0, 'row')} read: there is nothing in {name}, or nothing that can be read")


def _dropped(one: WindowRows) -> int:
    return one.late + one.blank + one.other_keys


def _share(count: int, of: int) -> str:
    return f"{count:,} ({100 * count / max(of, count, 1):.3g} %)"
