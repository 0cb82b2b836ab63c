"""Events of a stream in the log: one JSON object each, without private values.

What may be logged is listed here, and nowhere else: `EVENTS`. All else that `log_event` is given is for the operator's
own eyes, and only a job with ``log`` text writes it.
"""

import datetime as dt
import json
import logging
from typing import Any

from streamsketch.once.counts import ROW_CODES

EVENT = "streamsketch_event"
"""Attribute of a log record with the event's public fields, for formatters."""

OPERATOR = "streamsketch_operator"
"""Attribute of a log record with the event's other fields, for formatters of logs that the operator alone may read."""

EVENTS: dict[str, frozenset[str]] = {
    "launched": frozenset({"runner", "restored"}),
    "submitted": frozenset({"job"}),
    "ended": frozenset({"state"}),
    "failed": frozenset({"reason", "error", "cause", "text"}),  # a text only if `REASONS` says that it is public
    "released": frozenset({"windows", "newest"}),
    "alarm": frozenset({"stream", "epoch", "window", "key", "result", "text"}),
    "refused": frozenset({"stream", "epoch", "window", "dataset", "text"}),  # by the ledger, which holds no data
    "partition_added": frozenset({"partition", "text"}),
    "lost": frozenset({"partition"}),  # its text has offsets, which count messages
    "silent": frozenset({"partition", "reason", "text"}),
    "idle": frozenset({"partition", "text"}),
    "unreachable": frozenset(),  # its text is the broker's
    "reached": frozenset({"text"}),
    "reader_ended": frozenset({"text"}),
    "standby": frozenset({"text"}),
    "took_over": frozenset({"text"}),
    "sink_unreachable": frozenset({"error"}),  # its text is the driver's
    "sink_reached": frozenset({"text"}),
    "ledger_unreachable": frozenset({"error"}),
    "ledger_reached": frozenset({"text"}),
}
"""Events by name, and the fields that everyone who may read the log may see. A text is listed only if it is made of
public values: names, windows and keys that are released, the agreement and the job, and what the ledger says."""

SECRET_EVENTS = frozenset(ROW_CODES)
"""Events of which one unit's rows decide whether they occur: for the operator alone, with all of their fields."""


def log_event(logger: logging.Logger, level: int, event: str, **fields: Any) -> None:
    """Log an event as one line of JSON, which stays readable behind any prefix that the runner writes.

    The object has ``time`` (UTC, ISO 8601), ``level``, ``event`` and those fields of `EVENTS` that are not None.
    Everyone who may read the log sees them. Never list a digest of a release that was refused. Other fields are in the
    record's attribute `OPERATOR` alone, which a job with ``log`` text writes.

    Parameters
    ----------
    logger
        The logger that gets the event.
    level
        The level, as in `logging`.
    event
        What happened, in a word: one of `EVENTS`, or of `SECRET_EVENTS`, which a job with ``log`` json leaves out.
    **fields
        Fields of the event, which JSON can hold.

    Raises
    ------
    ValueError
        For an event that is not listed.

    Examples
    --------
    >>> import json, logging
    >>> caplog = getfixture("caplog")
    >>> log_event(logging.getLogger("streamsketch"), logging.WARNING, "silent", partition=3)
    >>> event = json.loads(caplog.messages[0])
    >>> event["event"], event["partition"]
    ('silent', 3)
    """
    if event not in EVENTS and event not in SECRET_EVENTS:
        raise ValueError(f"{event!r} is not among the events that may be logged; list it with its public fields")
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    fields = {name: value for name, value in fields.items() if value is not None}
    secret = event in SECRET_EVENTS
    public = {name: value for name, value in fields.items() if secret or name in EVENTS[event]}
    rest = {name: value for name, value in fields.items() if name not in public}
    record = {"time": now, "level": logging.getLevelName(level), "event": event, **public}
    extra = {EVENT: record, OPERATOR: rest}
    logger.log(level, "%s", json.dumps(record, ensure_ascii=False), extra=extra, stacklevel=2)
