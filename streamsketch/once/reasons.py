"""Why a stream ended or waits: stable codes for its log, each with a remedy in the runbook."""

import errno
from typing import NamedTuple

from streamsketch.errors import StreamsketchError


class Reason(NamedTuple):
    """A cause that ends a stream.

    Parameters
    ----------
    words
        The cause in words, which hold nothing of the data.
    continues
        Whether the same command continues once the cause is gone.
    is_public
        Whether the texts of such errors are public, so that the log may have them: names, ids, what a ledger says. The
        others have numbers of records.
    """

    words: str
    continues: bool
    is_public: bool = True


REASONS = {
    "retention": Reason("records or lines were removed before they were read", continues=True, is_public=False),
    "truncated": Reason("the end of the log was lost or replaced after it was read", continues=False, is_public=False),
    "other_topic": Reason("the state belongs to another topic or log", continues=False),
    "compacted": Reason("the topic is compacted, so it does not keep all records", continues=True),
    "topic": Reason("the topic cannot be read", continues=True),
    "brokers_unreachable": Reason("no broker answers", continues=True),
    "sink_unreachable": Reason("the sink of the releases cannot be used", continues=True, is_public=False),
    "ledger_unreachable": Reason("the ledger cannot be reached", continues=True),
    "ledger_lost": Reason("entries of the ledger are gone that were there before", continues=True),
    "ledger_damaged": Reason("entries of the ledger were changed", continues=True),
    "budget": Reason("the ledger does not cover a window", continues=True),
    "in_use": Reason("another process uses the state", continues=True),
    "state_version": Reason("the state is of another version of the library", continues=False),
    "state_damaged": Reason("the file is not the state of a stream, or is damaged", continues=False),
    "state_missing": Reason("rows of a schedule are published, and their state is missing", continues=False),
    "checkpoint_lost": Reason("the checkpoint of a query was lost, so its batches have numbers again", continues=False),
    "other_agreement": Reason("the state follows another agreement or another job", continues=False),
    "other_rows": Reason("other rows of the schedule are published", continues=False),
    "disk_full": Reason("a disk is full", continues=True),
    "file": Reason("a file cannot be read or written", continues=True, is_public=False),
    "setting": Reason("a setting, a file or a line is not valid", continues=True, is_public=False),
    "fault": Reason(
        "an error that is not known, which is a fault of the library or of its environment",
        continues=True,
        is_public=False,
    ),
}
"""The codes of what ends a stream; a test compares them with the runbook."""


def reason_of(error: BaseException) -> str:
    """Return the code of an error, one of `REASONS`.

    Examples
    --------
    >>> from streamsketch.errors import LedgerError
    >>> reason_of(LedgerError("ε = 1 does not fit")), reason_of(OSError(28, "No space left on device"))
    ('budget', 'disk_full')
    """
    if isinstance(error, StreamsketchError):
        return error.reason if error.reason in REASONS else "setting"
    if isinstance(error, OSError):
        return "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "file"
    return "fault"


def public_text(error: BaseException) -> str:
    """Return what everyone who may read a log may know of an error: its text only if that is public."""
    reason = REASONS[reason_of(error)]
    return str(error) if reason.is_public and isinstance(error, StreamsketchError) else reason.words


def continued(error: BaseException, state: object) -> str:
    """Return the text of an error for the operator, and that the same command continues if it does.

    Examples
    --------
    >>> from streamsketch.errors import LedgerError, with_reason
    >>> continued(LedgerError("ε = 1 does not fit"), "s.raw-stream")
    'ε = 1 does not fit. s.raw-stream holds what was read before, and the same command continues'
    >>> continued(with_reason(LedgerError("a newer state"), "state_version"), "s.raw-stream")
    'a newer state'
    """
    if not REASONS[reason_of(error)].continues:
        return str(error)
    return f"{str(error).rstrip('.')}. {state} holds what was read before, and the same command continues"
