"""Logs of a job on standard error: lines of JSON without private values, or text."""

import contextlib
import datetime as dt
import json
import logging
import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from streamsketch.core.documents import Json
from streamsketch.once.logs import EVENT, OPERATOR, SECRET_EVENTS

LogForm: TypeAlias = Literal["json", "text"]

_OURS = "streamsketch"
# only these names may describe a failure, because other words may be data
_CAUSES = frozenset(
    {
        "AuthorizationException",
        "CheckpointException",
        "ConnectException",
        "ConnectionError",
        "ConnectionRefusedError",
        "FileNotFoundError",
        "InvalidInputError",
        "IntegrityError",
        "JobException",
        "LedgerError",
        "MemoryError",
        "OffsetOutOfRangeException",
        "OperationalError",
        "OutOfMemoryError",
        "PermissionError",
        "RecordTooLargeException",
        "SaslAuthenticationException",
        "SslAuthenticationException",
        "StateMigrationException",
        "TimeoutException",
        "TimeoutError",
        "TopicAuthorizationException",
        "TopicError",
        "UnknownTopicOrPartitionException",
        "WireFormatError",
    }
)
_NAMED = re.compile(r"^(?:Caused by: |E +)?(?:[\w.$]+[.$])?(\w+(?:Error|Exception))\b", re.MULTILINE)
_FIRST = ("time", "level", "event", "text")


@contextlib.contextmanager
def logs(form: LogForm, **always: Any) -> Iterator[dict[str, Any]]:
    """Write logs of the block to standard error, with the given fields; yield the fields, to add more.

    ``"json"`` writes one object per line. For messages of other libraries, it has only time and place, because the
    texts and tracebacks of Beam and Arrow may hold data. Of events, it has what `streamsketch.once.logs.EVENTS` lists.
    ``"text"`` has everything and is for the operator only.
    """
    handler, root, ours = logging.StreamHandler(), logging.getLogger(), logging.getLogger(_OURS)
    handler.setFormatter(_Json(always) if form == "json" else _Text(always))
    if form == "json":
        handler.addFilter(lambda record: getattr(record, EVENT, {}).get("event") not in SECRET_EVENTS)
    handlers, levels = root.handlers, (root.level, ours.level)
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO)
    logging.captureWarnings(form == "json")
    try:
        yield always
    finally:
        logging.captureWarnings(capture=False)
        root.handlers = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])


def causes_of(error: BaseException) -> list[str]:
    """Return the names of the errors of a failed job, outermost first, without their texts, which may hold data.

    The names are those of the error and its causes, including errors of workers and of Java, whose tracebacks Beam
    passes on as text. From such text, only names on a fixed list are taken.
    """
    names: list[str] = []
    at: BaseException | None = error
    seen = set[int]()
    while at is not None and id(at) not in seen:  # an error may be its own cause
        seen.add(id(at))
        names.append(type(at).__name__)
        names += [name for name in _NAMED.findall(str(at)) if name in _CAUSES]
        at = at.__cause__ or at.__context__
    return list(dict.fromkeys(names))


def _fields(record: logging.LogRecord) -> Json:
    """Return a record's fields, with its text only if the message is streamsketch's own."""
    event: dict[str, Any] | None = getattr(record, EVENT, None)
    if event is not None:
        return event
    time = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
    where = {"logger": record.name, "line": record.lineno}
    text = {"text": record.getMessage()} if record.name.split(".")[0] == _OURS else {}
    return {"time": time, "level": record.levelname, "event": "message", **text, **where}


class _Json(logging.Formatter):
    def __init__(self, always: dict[str, Any]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        first = {name: fields[name] for name in _FIRST if name in fields}
        return json.dumps({**first, **self._always, **fields}, ensure_ascii=False)


class _Text(logging.Formatter):
    def __init__(self, always: dict[str, Any]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        if getattr(record, EVENT, None) is None:
            return super().format(record)
        fields = {**self._always, **_fields(record), **getattr(record, OPERATOR, {})}
        time, level, event, text = (fields.pop(name, None) for name in _FIRST)
        named = "".join(f" {name}={value}" for name, value in fields.items())
        return f"{time} {level} {event}{named}" + (f": {text}" if text else "")
