"""Events of a stream in the log: one JSON object each, without private values."""

import datetime as dt
import json
import logging
from typing import Any

EVENT = "streamsketch_event"
"""Attribute of a log record with the event's fields, for formatters."""


def log_event(logger: logging.Logger, level: int, event: str, **fields: Any) -> None:
    """Log an event as one line of JSON, which workers' logs keep whatever the runner puts before it.

    The object has ``time`` (UTC, ISO 8601), ``level``, ``event`` and the fields that are not None. They are for whoever
    may read the log, so give public values alone: names, windows, keys that are released, and never a digest of what
    was refused.

    Parameters
    ----------
    logger
        Where it is logged.
    level
        As in `logging`.
    event
        What happened, in a word.
    **fields
        What JSON can hold.
    """
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    given = {name: value for name, value in fields.items() if value is not None}
    record = {"time": now, "level": logging.getLevelName(level), "event": event, **given}
    logger.log(level, "%s", json.dumps(record, ensure_ascii=False), extra={EVENT: record}, stacklevel=2)
