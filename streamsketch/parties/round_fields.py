"""What the JSON of a round states, as the arguments of a `Round`."""

import json
from typing import Any

from streamsketch.core.documents import Json
from streamsketch.core.limits import read_json
from streamsketch.core.numbers import short
from streamsketch.core.wrong import check_json_text
from streamsketch.errors import InvalidInputError
from streamsketch.parties.identity import FORMAT, canonical
from streamsketch.parties.keys import PublicKey
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import Projection

_MOST_TEXT = 1 << 21  # characters: of as many parties and signatures


def fields_in(text: str | bytes) -> Json:
    """Return the fields of a round's JSON; only the format and the number of signatures are checked."""
    check_json_text(text, "a round")
    if len(text) > _MOST_TEXT:
        raise InvalidInputError(f"a round is JSON of at most {_MOST_TEXT} characters, got {len(text)}")
    fields: Json = read_json(text)
    if not isinstance(fields, dict):
        raise TypeError(f"it must be one JSON object, got a {type(fields).__name__}")
    if format_of(fields) not in (1, FORMAT):
        raise ValueError(f"its format is {short(fields['format'])}, and this version reads 1 and {FORMAT}")
    if len(fields["signatures"]) > len(fields["parties"]):
        raise ValueError("it has more signatures than parties")
    return fields


def format_of(fields: Json) -> Any:
    """Return the format that a round's fields state."""
    return fields.get("format", 1)


def arguments_of(fields: Json) -> dict[str, Any]:
    """Return the arguments of `Round` for its fields."""
    return {
        "projection": Projection.from_json(json.dumps(fields["projection"])),
        "epsilon": fields["epsilon"],
        "delta": fields["delta"],
        "neighbours": Neighbours.from_dict(fields["neighbours"]),
        "mechanism": fields["mechanism"],
        "counting": Counting.from_dict(fields["counting"]) if "counting" in fields else None,
        "clip": fields.get("clip"),
        "agreement": fields.get("agreement"),
        "parties": [PublicKey.from_text(line) for line in fields["parties"]],
        "honest": fields["honest"],
        "round_id": bytes.fromhex(fields["round"]),
        "signatures": [canonical(signature).encode() for signature in fields["signatures"]],
    }
