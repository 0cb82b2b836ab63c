"""``streamsketch sign``: say that a file is one's own."""

import datetime as dt
import re
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.accounting import Receipt
from streamsketch.cli._keys import KeyOption, PassphraseFile, private_key
from streamsketch.cli._showing import Json, show_facts, show_json
from streamsketch.parties import sign as sign_file
from streamsketch.parties import verify

_RECEIPT = re.compile(r"(\d{1,15}):([0-9a-f]{64})")


def sign(
    files: Annotated[
        list[Path], typer.Argument(help="releases, tables, signs, agreements, rounds or contributions", metavar="FILE")
    ],
    *,
    key: KeyOption,
    passphrase_file: PassphraseFile = None,
    receipt: Annotated[
        str | None, typer.Option(help="Of the ledger's entry that was charged: NUMBER:HASH.", show_default=False)
    ] = None,
    expires: Annotated[
        dt.datetime | None,
        typer.Option(help="The last day on which the signature counts, in UTC.", formats=["%Y-%m-%d"]),
    ] = None,
    inside: Annotated[
        bool, typer.Option("--inside", help="Of a table: write it anew with the signature in it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sign files: each signature is a line of a file beside it, FILE.intoto.jsonl, to be sent along.

    It says what FILE holds, its guarantee and the agreement it follows, and that nobody changed it since.
    """
    charged = None if receipt is None else _receipt(receipt)
    signer = private_key(key, passphrase_file)
    last_day = None if expires is None else expires.date()
    bundles = {
        str(file): str(sign_file(file, signer, receipt=charged, expires=last_day, inside=inside)) for file in files
    }
    if as_json:
        show_json([{"file": file, "signature": bundle} for file, bundle in bundles.items()])
        return
    for file, bundle in bundles.items():
        said = verify(file, signer.public)
        show_facts(file, {"holds": said.kind, "signed by": str(said.signer), "in": bundle})


def _receipt(text: str) -> Receipt:
    found = _RECEIPT.fullmatch(text)
    if found is None:
        raise ss.InvalidInputError(f"--receipt is NUMBER:HASH, as the ledger prints it, got {text[:80]}")
    return Receipt(int(found[1]), found[2], ())
