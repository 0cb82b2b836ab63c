"""Events of a stream in the log: one JSON object each, without private values."""

import datetime as dt
import json
import logging
from typing import Any

EVENT = "streamsketch_event"
"""Attribute of a log record with the event's fields, for formatters."""


def log_event(logger: logging.Logger, level: int, event: str, **fields: Any) -> None:
    """Log an event as one line of JSON, which stays readable behind any prefix that the runner writes.

    The object has ``time`` (UTC, ISO 8601), ``level``, ``event`` and the fields that are not None. Everyone who may
    read the log sees them, so pass public values only: names, windows and keys that are released. Never pass a digest
    of a release that was refused.

    Parameters
    ----------
    logger
        The logger that gets the event.
    level
        The level, as in `logging`.
    event
        What happened, in a word.
    **fields
        Fields of the event, which JSON can hold.

    Examples
    --------
    >>> import json, logging
    >>> caplog = getfixture("caplog")
    >>> log_event(logging.getLogger("streamsketch"), logging.WARNING, "silent", partition=3)
    >>> event = json.loads(caplog.messages[0])
    >>> event["event"], event["partition"]
    ('silent', 3)
    """
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    given = {name: value for name, value in fields.items() if value is not None}
    record = {"time": now, "level": logging.getLevelName(level), "event": event, **given}
    logger.log(level, "%s", json.dumps(record, ensure_ascii=False), extra={EVENT: record}, stacklevel=2)
