"""``streamsketch verify``: who made a file, and whether it was changed."""

from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers, public_keys
from streamsketch.cli._layout import show_facts
from streamsketch.cli._releasing import receipt_text
from streamsketch.cli._saying import kind_of, say_error
from streamsketch.cli._showing import Json, show_json
from streamsketch.errors import SignatureError
from streamsketch.parties.signing import verify as verify_file
from streamsketch.parties.statements import Statement


def verify(
    files: Annotated[list[Path], typer.Argument(help="Files with a FILE.intoto.jsonl next to them.", metavar="FILE")],
    *,
    signer: Signers = None,
    as_json: Json = False,
) -> None:
    """Check the signature of a file, and show what it states.

    A signature shows who made the file. It does not show that the statements in the file are true, or that its maker
    followed the agreement. The exit status is 1 if a signature is missing, or is not valid.

    $ streamsketch verify north.parquet --signer north.pub
    """
    signers = public_keys(signer)
    if signers is None:
        raise ss.InvalidInputError(
            "state whose signature is expected: --signer NAME.pub, a public key known from elsewhere"
        )
    found: dict[str, Statement | SignatureError] = {}
    for path in files:
        try:
            found[str(path)] = verify_file(path, signers)
        except SignatureError as error:
            found[str(path)] = error
    if as_json:
        show_json([{"file": file, **_fields(one)} for file, one in found.items()])
    for file, one in found.items():
        if isinstance(one, SignatureError):
            say_error(str(one), kind_of(one))
        elif not as_json:
            facts = {name.replace("_", " "): str(value) for name, value in _fields(one).items() if value}
            show_facts(file, {name: fact for name, fact in facts.items() if name != "valid"})
    if any(isinstance(one, SignatureError) for one in found.values()):
        raise typer.Exit(1)


def _fields(statement: Statement | SignatureError) -> dict[str, Any]:
    if isinstance(statement, SignatureError):
        return {"valid": False, "reason": str(statement)}
    return {
        "valid": True,
        "signed_by": str(statement.signer),
        "holds": statement.kind,
        "guarantee": statement.guarantee,
        "agreement": statement.agreement,
        "receipt": receipt_text(statement.receipt),
        "expires": None if statement.expires is None else statement.expires.isoformat(),
        "signed_as": statement.name,
        "sha256": statement.sha256,
        "library": f"streamsketch {statement.library}",
    }
