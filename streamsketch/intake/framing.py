"""Who may make a row: what is one row of a text, and the promises of its writer on which that depends.

The library protects what is in a unit's rows. Where rows are text, a unit's text must stay within its own rows,
whatever it holds. In Arrow, Avro and Parquet it does. A line of valid JSON has no line break within its text. In CSV a
newline ends a row, so a cell that holds one is an error in a whole file; a log cannot stop there, so its writer must
not write such cells (`ONE_LINE`). Files whose cells may hold line breaks need a writer that quotes them (`QUOTED`).
"""

import json
import re
from collections.abc import Sequence

from streamsketch.core.libraries import pa

QUOTED = "the writer of the CSV quotes each cell with a line break, a quote or a delimiter, and doubles quotes in it"
"""Condition of guarantees if cells of whole files may hold line breaks."""

ONE_LINE = "the writer of the CSV log keeps each row on one line, without line breaks in its cells"
"""Condition of guarantees for logs of CSV."""


def idle_after(seconds: float) -> str:
    """Return the condition of guarantees if windows end without partitions whose clock stood still for so long."""
    return (
        f"no unit decides when a partition is read to its end, or when its clock moves after a pause of {seconds:g} s "
        f"of the reader's time: windows then end without it"
    )


_TIME = ("us", "UTC")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def is_heartbeat(key: bytes | str | None, content: bytes | str | None) -> bool:
    """Return whether a message is a heartbeat: it has neither a key nor content, and so no one's data.

    A message with a key and without content deletes what the key names, so it is a person's: it has no rows, and moves
    no clock. Content is missing if it is null or has no bytes; a key is missing if it is null.

    Examples
    --------
    >>> is_heartbeat(None, None), is_heartbeat(None, b""), is_heartbeat(b"customer 17", None), is_heartbeat(None, b" ")
    (True, True, False, False)
    """
    return key is None and not content


def heartbeat(names: list[str], time: str, millis: int) -> "pa.RecordBatch":
    """Return a row that has a time, in milliseconds since 1970, and nothing else."""
    at = pa.array([millis * 1000], pa.int64()).cast(pa.timestamp(*_TIME))
    return pa.RecordBatch.from_pydict({name: at if name == time else pa.nulls(1, pa.string()) for name in names})


def json_rows(content: bytes) -> list[bytes]:
    r"""Return the rows of a JSON message, each in a line: one object, or one object per line; empty if it is blank.

    An object may be printed over several lines. No line of it is then a row, not even if the object is too deep or its
    numbers are too long to be read.

    Examples
    --------
    >>> json_rows(b'{"item": "tea"}\n{"item": "jam"}\n'), json_rows(b'{"item":\n "tea"}'), json_rows(b" ")
    ([b'{"item": "tea"}', b'{"item": "jam"}'], [b'{"item":  "tea"}'], [])
    """
    if b"\n" not in content and b"\r" not in content:
        return [content] if content.strip() else []
    if _is_one_value(content):
        return [content.replace(b"\n", b" ").replace(b"\r", b" ")]  # line breaks are between values only
    return [line for line in content.split(b"\n") if line.strip()]


def are_rows(contents: Sequence[bytes]) -> bool:
    r"""Return whether each of some JSON messages is certainly one row, as it is: it has no line break, and is no blank.

    Examples
    --------
    >>> are_rows([b'{"item": "tea"}', b"{}"]), are_rows([b"{}", b'{"item":\n "tea"}']), are_rows([b"{}", b" "])
    (True, False, False)
    """
    joined = b"\n".join(contents)
    is_in_lines = joined.count(b"\n") == len(contents) - 1 and b"\r" not in joined
    return is_in_lines and all(map(bytes.strip, contents))


def _is_one_value(content: bytes) -> bool:
    try:
        # text that is no number: Python reads no long ones
        json.loads(content.decode("utf-8-sig", errors="replace"), parse_int=str, parse_float=str)
    except RecursionError:
        # by its first line: a row in JSON lines closes all that it opens
        first = _STRINGS.sub(b"", content.lstrip().partition(b"\n")[0])
        return first.count(b"{") + first.count(b"[") != first.count(b"}") + first.count(b"]")
    except ValueError:
        return False
    return True
