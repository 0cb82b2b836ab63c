"""``streamsketch verify``: who made a file, and whether it was changed."""

from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers, public_keys
from streamsketch.cli._showing import Json, show_facts, show_json
from streamsketch.parties import Statement
from streamsketch.parties import verify as verify_file


def verify(
    files: Annotated[list[Path], typer.Argument(help="files with a FILE.intoto.jsonl beside them", metavar="FILE")],
    *,
    signer: Signers = None,
    as_json: Json = False,
) -> None:
    """Say what the signature beside a file states, once it is known to be a signer's and of these very bytes.

    A signature says who made the file. It does not say that what the file states is true, nor that its maker followed
    the agreement.
    """
    signers = public_keys(signer)
    if signers is None:
        raise ss.InvalidInputError(
            "say whose signature is expected: --signer NAME.pub, a public key known from elsewhere"
        )
    said = {str(file): verify_file(file, signers) for file in files}
    if as_json:
        show_json([{"file": file, **_fields(one)} for file, one in said.items()])
        return
    for file, one in said.items():
        show_facts(file, {name.replace("_", " "): str(value) for name, value in _fields(one).items() if value})


def _fields(said: Statement) -> dict[str, Any]:
    receipt = said.receipt
    return {
        "signed_by": str(said.signer),
        "holds": said.kind,
        "guarantee": said.guarantee,
        "agreement": said.agreement,
        "receipt": None if receipt is None else f"{receipt.number}:{receipt.digest}",
        "expires": None if said.expires is None else said.expires.isoformat(),
        "signed_as": said.name,
        "sha256": said.sha256,
        "library": f"streamsketch {said.library}",
    }
