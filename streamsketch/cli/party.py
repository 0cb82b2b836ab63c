"""``streamsketch party``: signatures; keys and rounds are groups of their own."""

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._keys import KeyOption, Signers, private_key, public_keys
from streamsketch.cli._layout import show_facts
from streamsketch.cli._options import option
from streamsketch.cli._releasing import parse_receipt, receipt_text
from streamsketch.cli._saying import kind_of, say_error
from streamsketch.cli._showing import AsJson, show_json
from streamsketch.core.documents import Json
from streamsketch.errors import SignatureError
from streamsketch.parties.signing import sign as sign_file
from streamsketch.parties.signing import verify as verify_signature
from streamsketch.parties.statements import Statement


def sign(
    files: Annotated[
        list[Path], typer.Argument(help="Releases, tables, signs, agreements, rounds or contributions.", metavar="FILE")
    ],
    *,
    key: KeyOption,
    receipt: Annotated[
        str | None, option("Keys and signatures", "NUMBER:DIGEST", "Receipt of the ledger's entry that was charged.")
    ] = None,
    expires: Annotated[
        dt.datetime | None,
        option(
            "Keys and signatures",
            "DATE",
            "Last day on which the signature is valid, YYYY-MM-DD in UTC.",
            formats=["%Y-%m-%d"],
        ),
    ] = None,
    inside: Annotated[
        bool, option("Keys and signatures", "", "Rewrite a table with the signature in it.", "--inside")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sign files: each signature is a line of FILE.intoto.jsonl, which you send along.

    The signature states the contents of FILE, its guarantee and its agreement. It proves that FILE has not changed
    since.

    $ streamsketch party sign north.parquet --key north.pem
    """
    charged = None if receipt is None else parse_receipt(receipt)
    signer = private_key(key)
    last_day = None if expires is None else expires.date()
    bundles = {
        str(file): str(sign_file(file, signer, receipt=charged, expires=last_day, inside=inside)) for file in files
    }
    if as_json:
        show_json([{"file": file, "signature": bundle} for file, bundle in bundles.items()])
        return
    for file, bundle in bundles.items():
        statement = verify_signature(file, signer.public)
        show_facts(file, {"holds": statement.kind, "signed by": str(statement.signer), "in": bundle})


def verify(
    files: Annotated[list[Path], typer.Argument(help="Files with a FILE.intoto.jsonl next to them.", metavar="FILE")],
    *,
    signer: Signers = None,
    as_json: AsJson = False,
) -> None:
    """Check the signature of a file, and show what it states.

    A signature shows who made the file. It does not show that the statements in the file are true, or that its maker
    followed the agreement. The exit status is 1 if a signature is missing, or is not valid.

    $ streamsketch party verify north.parquet --signer north.pub
    """
    signers = public_keys(signer)
    if signers is None:
        raise ss.InvalidInputError(
            "state whose signature is expected: --signer NAME.pub, a public key known from elsewhere"
        )
    answers: dict[str, Statement | SignatureError] = {}
    for path in files:
        try:
            answers[str(path)] = verify_signature(path, signers)
        except SignatureError as error:
            answers[str(path)] = error
    if as_json:
        show_json([{"file": file, **_fields(answer)} for file, answer in answers.items()])
    for file, answer in answers.items():
        if isinstance(answer, SignatureError):
            say_error(str(answer), kind_of(answer))
        elif not as_json:
            facts = {name.replace("_", " "): str(value) for name, value in _fields(answer).items() if value}
            show_facts(file, {name: fact for name, fact in facts.items() if name != "valid"})
    if any(isinstance(answer, SignatureError) for answer in answers.values()):
        raise typer.Exit(1)


def _fields(statement: Statement | SignatureError) -> Json:
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
