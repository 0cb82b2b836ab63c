"""The runbook has each code of a stream's log, once, with a remedy and with whether the same command continues."""

import errno
import re
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.errors import LedgerError, with_reason
from streamsketch.once.counts import ROW_CODES, RowCounts, RowLimits
from streamsketch.once.logs import EVENTS, SECRET_EVENTS
from streamsketch.once.reasons import REASONS, continued, public_text, reason_of

RUNBOOK = Path("docs/how-to/runbook.md")
REASONS_PAGE = Path("docs/reference/reasons.md")  # to which the runbook links
ROW = re.compile(r"^\| `(?P<code>[a-z_]+)` \| (?P<cells>.*) \|$", re.MULTILINE)


def section(page: Path, title: str) -> str:
    """Return a section of a page."""
    return page.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the rows of a table, by code."""
    found = ROW.findall(text)
    assert len({code for code, _ in found}) == len(found)
    return {code: cells.split(" | ") for code, cells in found}


def test_each_reason_is_in_the_runbook_with_its_remedy() -> None:
    assert "(../reference/reasons.md#why-a-stream-ended)" in section(RUNBOOK, "A process ended")
    rows = rows_of(section(REASONS_PAGE, "Why a stream ended"))
    assert rows.keys() == REASONS.keys()
    for code, (what, remedy, continues) in rows.items():
        assert what
        assert remedy
        assert (continues == "yes") == REASONS[code].continues, code


def test_each_code_of_rows_is_in_the_runbook_with_its_limit() -> None:
    assert "(../reference/reasons.md#rows-that-are-lost)" in section(RUNBOOK, "Rows are dropped")
    rows = rows_of(section(REASONS_PAGE, "Rows that are lost"))
    assert rows.keys() == ROW_CODES.keys() == SECRET_EVENTS
    named = {cells[-1].strip("`") for cells in rows.values()} - {"any", "its size"}
    assert len(named) == len(RowLimits())
    lost = RowCounts(100, 50, 50, 50, 50, 50, 50, 100, 50, 50)
    said = " ".join(lost.complaints(RowLimits(), "").values())
    assert all(name in said for name in named - {"min_volume"})


def test_the_runbook_names_what_is_logged_while_a_stream_waits() -> None:
    text = RUNBOOK.read_text()
    assert all(f"`{event}`" in text for event in EVENTS if event.startswith(("sink_", "ledger_")))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LedgerError("a"), "budget"),
        (OSError(errno.ENOSPC, "a"), "disk_full"),
        (PermissionError(), "file"),
        (ss.InvalidInputError("a"), "setting"),
        (with_reason(ss.InvalidInputError("a"), "in_use"), "in_use"),
        (KeyError("a"), "fault"),
    ],
)
def test_every_error_has_a_reason(error: Exception, code: str) -> None:
    assert reason_of(error) == code
    if isinstance(error, ss.StreamsketchError):
        assert ("the same command continues" in continued(error, "s.raw-stream")) == REASONS[code].continues


def test_texts_with_offsets_or_paths_of_the_operator_are_not_public() -> None:
    text = "begins at offset 7,000"
    for code, reason in REASONS.items():
        found = public_text(with_reason(ss.InvalidInputError(text), code))
        assert found == (text if reason.is_public else reason.words)
    assert public_text(KeyError("Ann")) == REASONS["fault"].words
