"""Options of earlier versions, each with the sentence that says where it went."""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

_AGREE = "An agreement says that: `streamsketch agree`, or `plan`, then --agreement FILE"
_TERMS = (
    "An agreement says that: `streamsketch agree … --epsilon EPSILON -o terms.json`, also of a raw sketch "
    "(`streamsketch agree FILE.raw-sketch …`), then --agreement terms.json"
)
_ENVIRONMENT = "Set the environment variable STREAMSKETCH_PASSPHRASE_FILE to the name of the file"
_STREAMED = "Windows of a log are released by `streamsketch stream file`, or `stream pipe`"

_OF_AGREEMENTS = dict.fromkeys(
    (
        *(
            "index",
            "key",
            "value",
            "unit-column",
            "unit",
            "max-keys",
            "l1",
            "l2",
            "sketch-l2",
            "one-coordinate",
            "norm",
        ),
        *("projection", "write-projection", "sketch-dim", "sparsity", "seed", "dim", "resolution", "window", "zone"),
        *("time", "time-format"),
    ),
    _AGREE,
)
_OF_TERMS = dict.fromkeys(
    ("epsilon", "delta", "unit", "l1", "l2", "sketch-l2", "one-coordinate", "max-keys", "mechanism", "public-key"),
    _TERMS,
)
_WENT: dict[str, Mapping[str, str]] = {
    "release": _OF_TERMS | {"keys-are-public": _TERMS, "no-multiline": "Write --set multiline=no"},
    "sketch": _OF_AGREEMENTS
    | dict.fromkeys(("job", "policy", "follow", "messages", "accept-loss", "dead-letters"), _STREAMED)
    | {
        "clip": "The agreement says how units are clipped: `agree --set clip=…`; --assert-bounds clips nothing",
        "no-multiline": "Write --set multiline=no",
    },
    "choose-bound": _OF_AGREEMENTS,
    "report": {"together": "Intervals hold for all streams together: leave it out"},
    "changes": {"no-samples": "Write --set samples=no"},
    "merge": {"disjoint-units": "Write --populations disjoint"},
    "plan streams": {"write-agreement": "Write -o FILE"},
    "plan units": {"keys": "Write --units FILE"},
    "plan sites": {"numbers": "Write --features NUMBER"},
    "ledger charge": {name: f"Write --bound {name}=NUMBER" for name in ("l1", "l2", "sketch-l2", "one-coordinate")},
    "party round new": dict.fromkeys(("epsilon", "delta", "mechanism"), _TERMS),
    "stream pipe": {"messages": "Write --set format=messages"},
    "stream beam": {"folder": "Write --set incoming=DIR"},
    "stream watch": {"every": "Write --set check_every=SECONDS", "job-id": "Write --set flink_job=ID"},
    "stream publish": {"every": "Write --set check_every=SECONDS", "topic": "Write --set releases_topic=TOPIC"},
}
_WITH_PASSPHRASES = ("party sign", "party key new", "party key show", "party round sign", "party round contribute")
_TABLES = {  # of what --set states, by command: the file and the name there
    "agree": ("_fields", "FIELDS"),
    "release": ("release", "FIELDS"),
    "sketch": ("sketch", "FIELDS"),
    "check": ("check", "FIELDS"),
    "choose-bound": ("choose_bound", "FIELDS"),
    "compare": ("compare", "FIELDS"),
    "report": ("report", "FIELDS"),
    "frequency": ("frequency", "FIELDS"),
    "changes": ("changes", "FIELDS"),
    "history": ("history", "FIELDS"),
    "plan streams": ("_planning", "STREAMS"),
    "plan units": ("_planning", "UNITS"),
    "plan sites": ("_planning", "SITES"),
    "plan windows": ("_planning", "WINDOWS"),
    "plan signs": ("_planning", "SIGNS"),
}


def where_it_went(path: str, option: str) -> str:
    """Return a sentence on an option that a command of an earlier version had; nothing for others.

    Parameters
    ----------
    path
        The command, such as "plan units".
    option
        The option as it was typed, such as "--keys".
    """
    name = option.lstrip("-")
    answer = _WENT.get(path, {}).get(name, "")
    if path in _WITH_PASSPHRASES and name == "passphrase-file":
        answer = _ENVIRONMENT
    if not answer and path.startswith("stream "):
        answer = _of_job(name)
    if not answer and path in _TABLES:
        file, table = _TABLES[path]
        entries: Mapping[str, Any] = getattr(import_module(f"streamsketch.cli.{file}"), table)
        answer = f"Write --set {name}={entries[name].takes}" if name in entries else ""
    return f"No such option: {option}. {answer}" if answer else ""


def _of_job(name: str) -> str:
    from streamsketch.streams.job import Job  # noqa: PLC0415 - for such an option alone

    field = {"output": "state", "o": "state"}.get(name, name.replace("-", "_"))
    return f"The job says that: --set {field}=VALUE" if field in {each.name for each in fields(Job)} else ""
