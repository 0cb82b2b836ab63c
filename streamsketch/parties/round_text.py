"""Rounds as text: the JSON that parties sign and pass on (WIRE.md)."""

import json
from typing import TYPE_CHECKING, Any

from streamsketch.core import short
from streamsketch.errors import InvalidInputError
from streamsketch.parties.identity import FORMAT, canonical
from streamsketch.parties.keys import PublicKey
from streamsketch.privacy import Neighbours
from streamsketch.projections import Projection

if TYPE_CHECKING:
    from streamsketch.parties.rounds import Round

_MOST_TEXT = 1 << 21  # characters: of as many parties and signatures


def fields_in(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a round's JSON, of which nothing is checked but the format and the number of signatures."""
    if len(text) > _MOST_TEXT:
        raise InvalidInputError(f"a round is JSON of at most {_MOST_TEXT} characters, got {len(text)}")
    fields: dict[str, Any] = json.loads(text)
    if format_of(fields) not in (1, FORMAT):
        raise ValueError(f"its format is {short(fields['format'])}, and this version reads 1 and {FORMAT}")
    if len(fields["signatures"]) > len(fields["parties"]):
        raise ValueError("it has more signatures than parties")
    return fields


def fields_of(agreed: "Round", form: int) -> dict[str, Any]:
    """Return what a round agrees on, in a format."""
    said = {
        "projection": json.loads(agreed.projection.to_json()),
        "epsilon": agreed.epsilon,
        "delta": agreed.delta,
        "neighbours": agreed.neighbours.to_dict(),
        "mechanism": agreed.mechanism,
        "noise": {"kind": agreed.noise.name, "amount": str(agreed.noise.amount)},
        "parties": [one.to_text() for one in agreed.parties],
        "honest": agreed.honest,
        "round": agreed.round_id.hex(),
    }
    return said if form == 1 else said | {"format": form}


def format_of(fields: dict[str, Any]) -> Any:
    """Return the format that a round's fields say."""
    return fields.get("format", 1)


def arguments_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Round` for its fields."""
    return {
        "projection": Projection.from_json(json.dumps(fields["projection"])),
        "epsilon": fields["epsilon"],
        "delta": fields["delta"],
        "neighbours": Neighbours.from_dict(fields["neighbours"]),
        "mechanism": fields["mechanism"],
        "parties": [PublicKey.from_text(line) for line in fields["parties"]],
        "honest": fields["honest"],
        "round_id": bytes.fromhex(fields["round"]),
        "signatures": [canonical(one).encode() for one in fields["signatures"]],
    }
